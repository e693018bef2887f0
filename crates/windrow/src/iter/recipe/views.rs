//! Recipes over views: sources that give the items of a wrapped source new numbers.
//!
//! The wrapped recipe uses the indices of the wrapped source. So its `over` and `call_off` can be forwarded for index 0 only.

use std::iter;
use std::sync::Arc;

use windrow_sync::divide::{Divide, Span};
use windrow_sync::views::{Blocks, Merged, Part, Pieces};

use super::{Indexed, Init, Recipe, chunk_items, passes_on};
use crate::runtime::cancellation::Cancellation;

/// The methods that recipes over one source share.
macro_rules! below {
    ($loose:expr) => {
        passes_on!(loose $loose);

        fn over(&self, _: usize) -> bool {
            self.0.over(0)
        }

        fn call_off(&self, from: usize) {
            if from == 0 {
                self.0.call_off(0);
            }
        }
    };
}

/// The items of a part.
#[derive(Clone, Debug)]
pub struct PartOf<R>(pub(crate) R);

impl<R: Indexed> Indexed for PartOf<R> {}

impl<S: Divide, R: Recipe<S>> Recipe<Part<S>> for PartOf<R> {
    type Item = R::Item;
    const EXACT: bool = R::EXACT;
    const PER_CHUNK: bool = R::PER_CHUNK;
    below!(R::LOOSE);
    chunk_items!(Part<S>: |self, state, _, (at, chunk)| self.0.iter(state, at, chunk));
}

/// Recipes that make one item of each piece or block of the source.
macro_rules! of_pieces {
    ($($(#[$doc:meta])*
    $name:ident<R $(, $part:ident)*>[$($generics:tt)*] $view:ident.$apply:ident => $item:ty:
        |$recipe:ident, $items:pat_param| $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name<R $(, $part)*>(pub(crate) R $(, pub(crate) $part)*);

        impl<R: Indexed $(, $part)*> Indexed for $name<R $(, $part)*> {}

        impl<S: Divide, R: Recipe<S> + Indexed, $($generics)*> Recipe<$view<S>> for $name<R $(, $part)*> {
            type Item = $item;
            const EXACT: bool = R::EXACT;
            below!(R::LOOSE);
            chunk_items!($view<S>: |self, state, _, pieces| pieces.$apply(move |(at, piece)| {
                let $recipe = self;
                let $items = $recipe.0.iter(state, at, piece);
                $body
            }));
        }
    )*};
}
of_pieces! {
    /// Items from the back, in pieces of one.
    Rev<R>[] Pieces.filter_map => R::Item: |recipe, mut items| items.next();
    /// The first item of every block.
    StepBy<R>[] Blocks.filter_map => R::Item: |recipe, mut items| items.next();
    /// The items of every block, in a vector.
    Chunks<R>[] Blocks.map => Vec<R::Item>: |recipe, items| items.collect();
    /// One accumulator for every block.
    FoldChunks<R, I, F>[I: Init<Value: Send>, F: Fn(I::Value, R::Item) -> I::Value + Sync + Send,] Blocks.map => I::Value:
        |recipe, items| items.fold(recipe.1.make(), &recipe.2);
}

/// The items of one source, then those of another.
#[derive(Clone, Debug)]
pub struct Chain<A, B>(pub(crate) A, pub(crate) B);

/// The items of two sources, alternating.
#[derive(Clone, Debug)]
pub struct Interleave<A, B>(pub(crate) A, pub(crate) B);

/// The items of an optional iterator. (With a flattened `Option` instead, a chain of two slices took twice as long to collect.)
pub(crate) struct Maybe<I>(pub(crate) Option<I>);

impl<I: Iterator> Iterator for Maybe<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.0.as_mut()?.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.as_ref().map_or((0, Some(0)), I::size_hint)
    }

    #[inline]
    fn fold<B, F: FnMut(B, I::Item) -> B>(self, init: B, f: F) -> B {
        match self.0 {
            Some(items) => items.fold(init, f),
            None => init,
        }
    }
}

macro_rules! of_two {
    ($name:ident, |$at:ident, $a:ident, $b:ident| $items:expr) => {
        impl<A: Indexed, B: Indexed> Indexed for $name<A, B> {}

        impl<SA, SB, A, B> Recipe<Merged<SA, SB>> for $name<A, B>
        where
            SA: Divide,
            SB: Divide,
            A: Recipe<SA>,
            B: Recipe<SB, Item = A::Item>,
        {
            type Item = A::Item;
            type State = (A::State, B::State);
            const EXACT: bool = A::EXACT && B::EXACT;
            const PER_CHUNK: bool = A::PER_CHUNK || B::PER_CHUNK;
            const LOOSE: bool = A::LOOSE || B::LOOSE;

            fn state(&self) -> Self::State {
                (self.0.state(), self.1.state())
            }

            chunk_items!(Merged<SA, SB>: |self, state, $at, (a, b)| {
                let $a = Maybe(a.map(|(at, chunk)| self.0.iter(&state.0, at, chunk)));
                let $b = Maybe(b.map(|(at, chunk)| self.1.iter(&state.1, at, chunk)));
                $items
            });

            fn over(&self, _: usize) -> bool {
                self.0.over(0) && self.1.over(0)
            }

            fn call_off(&self, from: usize) {
                if from == 0 {
                    self.0.call_off(0);
                    self.1.call_off(0);
                }
            }

            fn look_at(&self, cancellation: &Arc<Cancellation>) {
                self.0.look_at(cancellation);
                self.1.look_at(cancellation);
            }
        }
    };
}
of_two!(Chain, |_at, a, b| a.chain(b));
of_two!(Interleave, |at, a, b| {
    let (mut a, mut b, mut turn_of_a) = (a, b, at.lo.is_multiple_of(2));
    iter::from_fn(move || {
        turn_of_a = !turn_of_a;
        // Within a span, a side runs out early only at the end of its source or of the span.
        if turn_of_a { b.next().or_else(|| a.next()) } else { a.next().or_else(|| b.next()) }
    })
});
