//! Tuples of iterators, as one iterator over tuples.
//!
//! Pairs are zipped. A longer tuple is a pair of a shorter one and the last iterator; its items are unnested.

use std::marker::PhantomData;

use windrow_sync::divide::{Divide, Span};

use super::adaptors::{MultiZip, Zip};
use super::recipe::{Recipe, Unnested, chunk_items, passes_on};
use super::{IndexedParallelIterator, IntoParallelIterator, adapt};

/// Pairs of items, as many as the shorter iterator has.
impl<A, B> IntoParallelIterator for (A, B)
where
    A: IntoParallelIterator<Iter: IndexedParallelIterator>,
    B: IntoParallelIterator<Iter: IndexedParallelIterator>,
{
    type Item = (A::Item, B::Item);
    type Iter = Zip<A::Iter, B::Iter>;
    fn into_par_iter(self) -> Self::Iter {
        self.0.into_par_iter().zip(self.1)
    }
}

/// `((A, B), C)`, as a type or a pattern.
macro_rules! pairs {
    ($pairs:tt) => { $pairs };
    ($pairs:tt $next:ident $($rest:ident)*) => { pairs!(($pairs, $next) $($rest)*) };
}

/// `Zip<Zip<A, B::Iter>, C::Iter>`.
macro_rules! zipped {
    ($zip:ty;) => { $zip };
    ($zip:ty; $next:ident $($rest:ident)*) => { zipped!(Zip<$zip, $next::Iter>; $($rest)*) };
}

/// Tuples of items, as many as the shortest iterator has.
macro_rules! tuples {
    ($($first:ident $($part:ident $at:tt)*;)*) => {$(
        impl<$first, $($part),*> IntoParallelIterator for ($first, $($part),*)
        where
            $first: IntoParallelIterator<Iter: IndexedParallelIterator>,
            $($part: IntoParallelIterator<Iter: IndexedParallelIterator>),*
        {
            type Item = ($first::Item, $($part::Item),*);
            type Iter = MultiZip<zipped!($first::Iter; $($part)*), Self::Item>;
            fn into_par_iter(self) -> Self::Iter {
                adapt(self.0.into_par_iter()$(.zip(self.$at))*, |recipe| Unnested(recipe, PhantomData))
            }
        }

        #[expect(non_snake_case, reason = "each value has the same name as its type")]
        impl<S: Divide, R, $first: Send, $($part: Send),*> Recipe<S> for Unnested<R, ($first, $($part),*)>
        where
            R: Recipe<S, Item = pairs!($first $($part)*)>,
        {
            type Item = ($first, $($part),*);
            const EXACT: bool = R::EXACT;
            passes_on!();
            chunk_items!(S: |self, state, at, chunk| {
                self.0.iter(state, at, chunk).map(|pairs!($first $($part)*)| ($first, $($part),*))
            });
        }
    )*};
}
tuples! {
    A;
    A B 1 C 2;
    A B 1 C 2 D 3;
    A B 1 C 2 D 3 E 4;
    A B 1 C 2 D 3 E 4 F 5;
    A B 1 C 2 D 3 E 4 F 5 G 6;
    A B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    A B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    A B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    A B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    A B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
}
