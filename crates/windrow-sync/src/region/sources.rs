//! Sources: ranges of indices, slices, slices of runs, owned vectors.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;

use crate::base::debug::show_as;
use crate::base::unwind::for_all;
use crate::region::claim::SharedItems;
use crate::region::divide::{Claim, Divide, Leaf, Span};

/// The types of a source of which nothing is left when its division is over.
macro_rules! handed_out_as {
    ($life:lifetime, $item:ty, $chunk:ty) => {
        type Item = $item;
        type Chunk<$life>
            = $chunk
        where
            Self: $life;
        type Done = ();

        fn done(self) {}
    };
}

macro_rules! leaf {
    ($([$($generics:tt)*] $source:ty),* $(,)?) => {$(
        impl<$($generics)*> Leaf for $source {
            #[inline]
            fn items<'s>(chunk: Self::Chunk<'s>) -> impl Iterator<Item = Self::Item> + 's
            where
                Self: 's,
            {
                chunk
            }
        }
    )*};
}
leaf!(
    [] Range<usize>,
    ['a, T: Sync] &'a [T],
    ['a, T: Sync] Runs<'a, T>,
    ['a, T: Send] SliceMut<'a, T>,
    ['a, T: Send] RunsMut<'a, T>,
    [T: Send] VecItems<T>,
);

// SAFETY: numbers alias nothing.
unsafe impl Divide for Range<usize> {
    handed_out_as!('s, usize, Range<usize>);

    #[inline]
    fn total(&self) -> usize {
        self.len()
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> Range<usize> {
        let span = claim.span();
        self.start + span.lo..self.start + span.hi
    }
}

// SAFETY: shared references may alias.
unsafe impl<'a, T: Sync> Divide for &'a [T] {
    handed_out_as!('s, &'a T, std::slice::Iter<'a, T>);

    fn total(&self) -> usize {
        <[T]>::len(self)
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> std::slice::Iter<'a, T> {
        let span = claim.span();
        self[span.lo..span.hi].iter()
    }
}

/// The items in claimed runs of `size` items. Whole runs stay disjoint; the last one may be shorter.
#[inline]
fn of_runs(runs: &Claim, size: usize, items: usize) -> Range<usize> {
    let span = runs.span();
    span.lo.saturating_mul(size).min(items)..span.hi.saturating_mul(size).min(items)
}

/// `&[T]` as runs of `size` items, the last one perhaps shorter.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a, T> {
    slice: &'a [T],
    size: usize,
}

impl<'a, T> Runs<'a, T> {
    /// # Panics
    /// If `size` is 0.
    pub fn new(slice: &'a [T], size: usize) -> Self {
        assert!(size > 0, "the chunk size must be at least 1");
        Self { slice, size }
    }

    /// The runs, one at a time.
    pub fn iter(&self) -> std::slice::Chunks<'a, T> {
        self.slice.chunks(self.size)
    }
}

// SAFETY: shared references may alias.
unsafe impl<'a, T: Sync> Divide for Runs<'a, T> {
    handed_out_as!('s, &'a [T], std::slice::Chunks<'a, T>);

    fn total(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> std::slice::Chunks<'a, T> {
        self.slice[of_runs(&claim, self.size, self.slice.len())].chunks(self.size)
    }
}

/// `&mut [T]`, piece by piece.
pub struct SliceMut<'a, T>(SharedItems<T, PhantomData<&'a mut [T]>>);

show_as!("SliceMut": [T] SliceMut<'_, T>, |it| len: it.0.len);

impl<'a, T> SliceMut<'a, T> {
    /// Borrows all of `slice`.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self(SharedItems { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData })
    }

    /// The items of claimed runs of `size` items.
    #[inline]
    fn piece(&self, claim: &Claim, size: usize) -> &'a mut [T] {
        let items = of_runs(claim, size, self.0.len);
        // SAFETY: claimed; `'a` borrows the slice mutably.
        unsafe { self.0.claimed(items.start, items.end) }
    }
}

// SAFETY: disjoint spans are disjoint pieces.
unsafe impl<'a, T: Send> Divide for SliceMut<'a, T> {
    handed_out_as!('s, &'a mut T, std::slice::IterMut<'a, T>);

    fn total(&self) -> usize {
        self.0.len
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> std::slice::IterMut<'a, T> {
        self.piece(&claim, 1).iter_mut()
    }
}

/// `&mut [T]` as runs of `size` items, the last one perhaps shorter.
#[derive(Debug)]
pub struct RunsMut<'a, T> {
    slice: SliceMut<'a, T>,
    size: usize,
}

impl<'a, T> RunsMut<'a, T> {
    /// # Panics
    /// If `size` is 0.
    pub fn new(slice: &'a mut [T], size: usize) -> Self {
        assert!(size > 0, "the chunk size must be at least 1");
        Self { slice: SliceMut::new(slice), size }
    }
}

// SAFETY: disjoint spans of run numbers are disjoint pieces.
unsafe impl<'a, T: Send> Divide for RunsMut<'a, T> {
    handed_out_as!('s, &'a mut [T], std::slice::ChunksMut<'a, T>);

    fn total(&self) -> usize {
        self.slice.0.len.div_ceil(self.size)
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> std::slice::ChunksMut<'a, T> {
        self.slice.piece(&claim, self.size).chunks_mut(self.size)
    }
}

/// The items of a `Vec`, moved out one at a time. Each is dropped exactly once, even if drops or callers panic.
///
/// The vector owns the items until the division starts. From then on it is empty and owns their memory only.
pub struct VecItems<T>(SharedItems<ManuallyDrop<T>, Vec<T>>);

show_as!("VecItems": [T] VecItems<T>, |it| len: it.0.len);

impl<T> VecItems<T> {
    /// Takes over the items of `items`.
    pub fn new(mut items: Vec<T>) -> Self {
        Self(SharedItems { start: items.as_mut_ptr().cast(), len: items.len(), owner: items })
    }

    /// The items, before they are handed out. (By `&mut`, because threads that must not share a `T` may share a `VecItems`.)
    pub fn as_slice(&mut self) -> &[T] {
        &self.0.owner
    }
}

/// Asks for `T: Sync`: a `VecItems` is `Sync` without it, so several threads may clone it.
impl<T: Clone + Sync> Clone for VecItems<T> {
    fn clone(&self) -> Self {
        Self::new(self.0.owner.clone())
    }
}

// SAFETY: disjoint spans are disjoint items.
unsafe impl<T: Send> Divide for VecItems<T> {
    handed_out_as!('s, T, Take<'s, T>);

    fn total(&self) -> usize {
        self.0.len
    }
    fn start(&mut self, kept: &Claim) {
        let Span { lo, hi, member } = kept.span();
        // SAFETY: 0 is a valid length; from now on claims own the items.
        unsafe { self.0.owner.set_len(0) };
        for_all([0..lo, hi..self.0.len].into_iter(), |Range { start: lo, end: hi }| {
            // SAFETY: the division claims what is in `kept` only.
            drop(self.chunk(unsafe { Claim::new(Span { lo, hi, member }) }));
        });
    }
    #[inline]
    fn chunk(&self, claim: Claim) -> Take<'_, T> {
        let Span { lo, hi, .. } = claim.span();
        // SAFETY: claimed; the vector lives as long as `self`.
        Take(unsafe { self.0.claimed(lo, hi) }.iter_mut())
    }
}

/// Owned items of one chunk; those not taken are dropped with it.
pub struct Take<'s, T>(std::slice::IterMut<'s, ManuallyDrop<T>>);

show_as!("Take": [T] Take<'_, T>, |it| len: it.0.len());

impl<T> Iterator for Take<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // SAFETY: the iterator yields each slot once, so each item is taken once.
        self.0.next().map(|slot| unsafe { ManuallyDrop::take(slot) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> ExactSizeIterator for Take<'_, T> {}

impl<T> Drop for Take<'_, T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            let rest: *mut [ManuallyDrop<T>] = std::mem::take(&mut self.0).into_slice();
            // SAFETY: these slots were not yielded. One slice drop, so that a panicking drop does not leak the rest.
            unsafe { std::ptr::drop_in_place(rest as *mut [T]) };
        }
    }
}
