//! Recipes: what happens inside a chunk, written with the standard library's own iterators.

use windrow_sync::divide::{Divide, Leaf, Span};

/// What a parallel iterator does to a chunk of its source `S`. Adaptors wrap one recipe in another; nothing here knows of
/// threads. Not meant to be implemented outside of windrow.
pub trait Recipe<S: Divide>: Sync {
    /// What comes out.
    type Item;
    /// One item for every index: results can be written in place.
    const EXACT: bool;
    /// How many items come out depends on where chunks begin.
    const PER_CHUNK: bool = false;

    /// The items of `chunk`, which lies at `at`.
    fn iter<'s>(&'s self, at: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = Self::Item>
    where
        S: 's;
}

/// A recipe with one item for every index, in order.
pub trait Indexed {}

/// The chunk's own items.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

macro_rules! adaptor {
    ($($(#[$doc:meta])* $name:ident($($field:ident),*);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name<$($field),*>($(pub(crate) $field),*);
    )*};
}
adaptor! {
    /// Items through a function.
    Map(R, F);
    /// Items that a predicate accepts.
    Filter(R, F);
    /// Items with their index.
    Enumerate(R);
    /// Items of two sources, in pairs.
    Zip(A, B);
    /// One accumulator for every chunk.
    Fold(R, I, F);
}

impl Indexed for Plain {}
impl<R: Indexed, F> Indexed for Map<R, F> {}
impl<R: Indexed> Indexed for Enumerate<R> {}
impl<A: Indexed, B: Indexed> Indexed for Zip<A, B> {}

impl<S: Leaf> Recipe<S> for Plain {
    type Item = S::Item;
    const EXACT: bool = true;

    #[inline]
    fn iter<'s>(&'s self, _: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = S::Item>
    where
        S: 's,
    {
        S::items(chunk)
    }
}

impl<S: Divide, R: Recipe<S>, F: Fn(R::Item) -> B + Sync, B> Recipe<S> for Map<R, F> {
    type Item = B;
    const EXACT: bool = R::EXACT;
    const PER_CHUNK: bool = R::PER_CHUNK;

    #[inline]
    fn iter<'s>(&'s self, at: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = B>
    where
        S: 's,
    {
        self.0.iter(at, chunk).map(&self.1)
    }
}

impl<S: Divide, R: Recipe<S>, F: Fn(&R::Item) -> bool + Sync> Recipe<S> for Filter<R, F> {
    type Item = R::Item;
    const EXACT: bool = false;
    const PER_CHUNK: bool = R::PER_CHUNK;

    #[inline]
    fn iter<'s>(&'s self, at: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = R::Item>
    where
        S: 's,
    {
        self.0.iter(at, chunk).filter(&self.1)
    }
}

impl<S: Divide, R: Recipe<S>> Recipe<S> for Enumerate<R> {
    type Item = (usize, R::Item);
    const EXACT: bool = R::EXACT;

    #[inline]
    fn iter<'s>(&'s self, at: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = (usize, R::Item)>
    where
        S: 's,
    {
        (at.lo..at.hi).zip(self.0.iter(at, chunk))
    }
}

impl<SA: Divide, SB: Divide, A: Recipe<SA>, B: Recipe<SB>> Recipe<(SA, SB)> for Zip<A, B> {
    type Item = (A::Item, B::Item);
    const EXACT: bool = A::EXACT && B::EXACT;

    #[inline]
    fn iter<'s>(&'s self, at: Span, (a, b): (SA::Chunk<'s>, SB::Chunk<'s>)) -> impl Iterator<Item = Self::Item>
    where
        (SA, SB): 's,
    {
        self.0.iter(at, a).zip(self.1.iter(at, b))
    }
}

impl<S: Divide, R: Recipe<S>, I: Fn() -> T + Sync, F: Fn(T, R::Item) -> T + Sync, T> Recipe<S> for Fold<R, I, F> {
    type Item = T;
    const EXACT: bool = false;
    const PER_CHUNK: bool = true;

    #[inline]
    fn iter<'s>(&'s self, at: Span, chunk: S::Chunk<'s>) -> impl Iterator<Item = T>
    where
        S: 's,
    {
        std::iter::once_with(move || self.0.iter(at, chunk).fold((self.1)(), &self.2))
    }
}
