//! Recipes: transformations of the items of a chunk, written with the standard library's iterators.

mod early;
mod flat;
mod keep;
mod views;
mod walk;

use std::iter;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use windrow_sync::divide::{Divide, Leaf, Span};

use super::tries::Try;
use crate::runtime::cancellation::Cancellation;

pub(crate) use early::{SkipAny, TakeAny, TryReduce, Until, WhileOk};
pub(crate) use flat::{FlatMap, Flatten, InnerStop};
pub(crate) use keep::{Clones, Init, InitCalls, MapInit};
pub(crate) use views::{Chain, Chunks, FoldChunks, Interleave, Maybe, PartOf, Rev, StepBy};
pub(crate) use walk::Walked;

/// Turns a chunk of a source `S` into items. Adaptors wrap one recipe in another; recipes do not deal with threads. Not meant to be
/// implemented outside windrow.
///
/// ```
/// use std::ops::Range;
/// use windrow::prelude::*;
/// use windrow::{Par, Recipe};
///
/// // The recipe of a type without a name, as a bound.
/// fn squares(end: usize) -> Par<Range<usize>, impl Recipe<Range<usize>, Item = usize>> {
///     (0..end).into_par_iter().map(|number| number * number)
/// }
///
/// assert_eq!(squares(4).sum::<usize>(), 14);
/// ```
pub trait Recipe<S: Divide>: Sync + Send {
    /// The type of the items.
    type Item: Send;
    /// State that a member keeps from chunk to chunk: `()` for most. It stays on the member's thread.
    type State;
    /// One item for every index: results can be written in place.
    const EXACT: bool = false;
    /// The number of items depends on the bounds of chunks.
    const PER_CHUNK: bool = false;
    /// The selection of items depends on timing, so fixed blocks would not fix the result.
    const LOOSE: bool = false;

    /// The number of items at this number of indices, if it is known.
    fn len(&self, indices: usize) -> Option<usize> {
        Self::EXACT.then_some(indices)
    }

    /// A member's state before its first chunk.
    fn state(&self) -> Self::State;

    /// The items of `chunk`, which lies at `at`.
    fn iter<'s, 'w>(
        &'w self,
        state: &'w Self::State,
        at: Span,
        chunk: S::Chunk<'s>,
    ) -> impl Iterator<Item = Self::Item>
    where
        S: 's;

    /// True if chunks that begin at `from` or later will give no item. Checked between chunks.
    fn over(&self, _from: usize) -> bool {
        false
    }

    /// Items of chunks that begin at `from` or later are not wanted any more: a bridge pulls no more items.
    fn call_off(&self, _from: usize) {}

    /// Gives a bridge the tokens that it polls before each item. Called before the first chunk.
    #[doc(hidden)]
    fn look_at(&self, _cancellation: &Arc<Cancellation>) {}
}

/// A recipe with one item for every index, in order.
pub trait Indexed {}

/// [`Recipe::iter`] for the chunks of a source: its signature, with all lifetimes, stands here only.
macro_rules! chunk_items {
    ($source:ty: |$self:ident, $state:pat_param, $at:pat_param, $chunk:pat_param| $items:expr) => {
        #[inline]
        fn iter<'s, 'w>(
            &'w $self,
            $state: &'w Self::State,
            $at: Span,
            $chunk: <$source as Divide>::Chunk<'s>,
        ) -> impl Iterator<Item = Self::Item>
        where
            $source: 's,
        {
            $items
        }
    };
}
pub(crate) use chunk_items;

/// Forwards constants and methods to the wrapped recipe, `self.0`.
macro_rules! passes_on {
    () => {
        passes_on!(loose R::LOOSE);
        passes_on!(ends);
        const PER_CHUNK: bool = R::PER_CHUNK;
    };
    (ends) => {
        passes_on!(call_off);

        fn over(&self, from: usize) -> bool {
            self.0.over(from)
        }
    };
    (call_off) => {
        fn call_off(&self, from: usize) {
            self.0.call_off(from);
        }
    };
    (loose $loose:expr) => {
        const LOOSE: bool = $loose;
        passes_on!(state);
        passes_on!(tokens);
    };
    (state) => {
        type State = R::State;

        fn state(&self) -> R::State {
            self.0.state()
        }
    };
    (tokens) => {
        fn look_at(&self, cancellation: &std::sync::Arc<crate::runtime::cancellation::Cancellation>) {
            self.0.look_at(cancellation);
        }
    };
}
pub(crate) use passes_on;

/// Recipes that leave the items of a chunk as they are.
pub trait OwnItems {}

/// The chunk's own items.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// The chunk's own items. `X` keeps the items that the source leaves out.
#[derive(Clone, Debug)]
pub struct WithRest<X>(pub(crate) X);

macro_rules! own_items {
    ($([$($generics:tt)*] $name:ty;)*) => {$(
        impl<$($generics)*> OwnItems for $name {}
        impl<$($generics)*> Indexed for $name {}

        impl<$($generics)* S: Leaf<Item: Send>> Recipe<S> for $name {
            type Item = S::Item;
            type State = ();
            const EXACT: bool = true;

            chunk_items!(S: |self, _, _, chunk| S::items(chunk));

            fn state(&self) {}
        }
    )*};
}
own_items! {
    [] Plain;
    [X: Sync + Send,] WithRest<X>;
}

/// Shared data that gives items for any run of indices. Its source is a range of indices.
pub trait Indices: Sync + Send {
    /// The type of the items.
    type Item: Send;
    /// One item for every index.
    const EXACT: bool = true;
    /// The number of items at this number of indices, if it is known.
    fn len(&self, indices: usize) -> Option<usize> {
        Self::EXACT.then_some(indices)
    }
    /// The items of a run of indices.
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = Self::Item>;
}

/// The items of shared data.
#[derive(Clone, Debug)]
pub struct Of<D>(pub(crate) D);

impl<D: Indices + Indexed> Indexed for Of<D> {}

impl<D: Indices> Recipe<Range<usize>> for Of<D> {
    type Item = D::Item;
    type State = ();
    const EXACT: bool = D::EXACT;

    fn len(&self, indices: usize) -> Option<usize> {
        self.0.len(indices)
    }

    fn state(&self) {}

    chunk_items!(Range<usize>: |self, _, _, run| self.0.items(run));
}

/// Recipes that apply an adaptor of the standard library to the items of another recipe. `one for one` recipes keep the indices.
macro_rules! recipes {
    ($($(#[$doc:meta])*
    $name:ident<R $(, $part:ident)*>[$($generics:tt)*] $kind:tt => $item:ty: |$items:ident $(, $arg:ident)*| $body:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name<R $(, $part)*>(pub(crate) R $(, pub(crate) $part)*);

        impl<$($generics)* S: Divide> Recipe<S> for $name<R $(, $part)*> {
            type Item = $item;
            recipes!(exact $kind);
            passes_on!();
            chunk_items!(S: |self, state, at, chunk| {
                let Self(inner $(, $arg)*) = self;
                let $items = inner.iter(state, at, chunk);
                $body
            });
        }
        recipes!(indexed $kind $name<R $(, $part)*>);
    )*};
    (exact (one for one)) => {
        const EXACT: bool = R::EXACT;

        fn len(&self, indices: usize) -> Option<usize> {
            self.0.len(indices)
        }
    };
    (exact (some)) => {};
    (indexed (one for one) $name:ident<R $(, $part:ident)*>) => {
        impl<R: Indexed $(, $part)*> Indexed for $name<R $(, $part)*> {}
    };
    (indexed (some) $($name:tt)*) => {};
}
recipes! {
    /// Items through a function.
    Map<R, F>[R: Recipe<S>, F: Fn(R::Item) -> B + Sync + Send, B: Send,] (one for one) => B: |items, f| items.map(f);
    /// Items, after a function was called with a reference to each.
    Inspect<R, F>[R: Recipe<S>, F: Fn(&R::Item) + Sync + Send,] (one for one) => R::Item: |items, f| items.inspect(f);
    /// Items that a function has changed.
    Update<R, F>[R: Recipe<S>, F: Fn(&mut R::Item) + Sync + Send,] (one for one) => R::Item: |items, f| items.map(|mut item| {
        f(&mut item);
        item
    });
    /// Clones of items behind references.
    Cloned<R>['a, R: Recipe<S, Item = &'a T>, T: Clone + Send + 'a,] (one for one) => T: |items| items.cloned();
    /// Copies of items behind references.
    Copied<R>['a, R: Recipe<S, Item = &'a T>, T: Copy + Send + 'a,] (one for one) => T: |items| items.copied();
    /// Items that a predicate accepts.
    Filter<R, F>[R: Recipe<S>, F: Fn(&R::Item) -> bool + Sync + Send,] (some) => R::Item: |items, f| items.filter(f);
    /// The values of a function that are `Some`.
    FilterMap<R, F>[R: Recipe<S>, F: Fn(R::Item) -> Option<B> + Sync + Send, B: Send,] (some) => B: |items, f| items.filter_map(f);
    /// The items of a serial iterator for every item.
    FlatMapIter<R, F>[R: Recipe<S>, F: Fn(R::Item) -> B + Sync + Send, B: IntoIterator<Item: Send>,] (some) => B::Item:
        |items, f| items.flat_map(f);
    /// The items of items that are serial iterators.
    FlattenIter<R>[R: Recipe<S, Item: IntoIterator<Item: Send>>,] (some) => <R::Item as IntoIterator>::Item: |items| items.flatten();
    /// The indices of items for which a function holds.
    Positions<R, F>[R: Recipe<S, Item = (usize, T)>, F: Fn(T) -> bool + Sync + Send, T,] (some) => usize:
        |items, f| items.filter_map(|(at, item)| f(item).then_some(at));
}

/// Nested pairs as tuples `T`.
#[derive(Clone, Debug)]
pub struct Unnested<R, T>(pub(crate) R, pub(crate) PhantomData<fn() -> T>);

impl<R: Indexed, T> Indexed for Unnested<R, T> {}

/// Items with their index.
#[derive(Clone, Debug)]
pub struct Enumerate<R>(pub(crate) R);

impl<R: Indexed> Indexed for Enumerate<R> {}

impl<S: Divide, R: Recipe<S>> Recipe<S> for Enumerate<R> {
    type Item = (usize, R::Item);
    const EXACT: bool = R::EXACT;
    passes_on!();
    chunk_items!(S: |self, state, at, chunk| (at.lo..at.hi).zip(self.0.iter(state, at, chunk)));
}

/// Items of two sources, in pairs.
#[derive(Clone, Debug)]
pub struct Zip<A, B>(pub(crate) A, pub(crate) B);

impl<A: Indexed, B: Indexed> Indexed for Zip<A, B> {}

impl<SA: Divide, SB: Divide, A: Recipe<SA>, B: Recipe<SB>> Recipe<(SA, SB)> for Zip<A, B> {
    type Item = (A::Item, B::Item);
    type State = (A::State, B::State);
    const EXACT: bool = A::EXACT && B::EXACT;

    fn state(&self) -> Self::State {
        (self.0.state(), self.1.state())
    }

    chunk_items!((SA, SB): |self, state, at, (a, b)| self.0.iter(&state.0, at, a).zip(self.1.iter(&state.1, at, b)));
}

/// One accumulator for every chunk.
#[derive(Clone, Debug)]
pub struct Fold<R, I, F>(pub(crate) R, pub(crate) I, pub(crate) F);

impl<S: Divide, R: Recipe<S>, I: Init<Value: Send>, F: Fn(I::Value, R::Item) -> I::Value + Sync + Send> Recipe<S>
    for Fold<R, I, F>
{
    type Item = I::Value;
    const PER_CHUNK: bool = true;
    passes_on!(loose R::LOOSE);
    passes_on!(ends);
    chunk_items!(S: |self, state, at, chunk| {
        iter::once_with(move || self.0.iter(state, at, chunk).fold(self.1.make(), &self.2))
    });
}

/// One accumulator for every chunk, or the residual that broke it off.
#[derive(Clone, Debug)]
pub struct TryFold<R, I, F>(pub(crate) R, pub(crate) I, pub(crate) F);

impl<S, R, I, F, T> Recipe<S> for TryFold<R, I, F>
where
    S: Divide,
    R: Recipe<S>,
    I: Init,
    F: Fn(I::Value, R::Item) -> T + Sync + Send,
    T: Try<Output = I::Value> + Send,
{
    type Item = T;
    const PER_CHUNK: bool = true;
    passes_on!(loose R::LOOSE);
    passes_on!(ends);
    chunk_items!(S: |self, state, at, chunk| iter::once_with(move || {
        let mut items = self.0.iter(state, at, chunk);
        match items.try_fold(self.1.make(), |sum, item| (self.2)(sum, item).branch()) {
            ControlFlow::Continue(sum) => T::from_output(sum),
            ControlFlow::Break(residual) => T::from_residual(residual),
        }
    }));
}
