//! Sources: ranges, slices, slices of runs, owned vectors.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Range;

use crate::divide::{Divide, Leaf, Span};

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
    ['a, T: Sync] &'a [T],
    ['a, T: Sync] Runs<'a, T>,
    ['a, T: Send] SliceMut<'a, T>,
    ['a, T: Send] RunsMut<'a, T>,
    [T: Send] VecItems<T>,
);

mod sealed {
    /// Only the integers below: a source whose length changed would be unsound.
    pub trait Sealed {}
}

/// Integers of up to 64 bits. (One implementation covers all ranges, so `0..9` is a range of whatever integer type its items are
/// used as.)
pub trait Integer: Copy + PartialOrd + Send + Sync + sealed::Sealed {
    /// `last - first`, at least 0.
    ///
    /// # Panics
    /// If it is more than `usize::MAX`.
    fn steps(first: Self, last: Self) -> usize;
    /// The integer `steps` steps further, which exists.
    fn plus(self, steps: usize) -> Self;
    /// The integers of a range.
    fn items(range: Range<Self>) -> impl Iterator<Item = Self>;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl sealed::Sealed for $int {}

        impl Integer for $int {
            #[inline]
            fn steps(first: Self, last: Self) -> usize {
                if first >= last {
                    return 0;
                }
                // The difference of two integers of this width fits the unsigned type of the same width.
                usize::try_from(last.abs_diff(first)).expect("a range has at most usize::MAX items")
            }
            #[inline]
            fn plus(self, steps: usize) -> Self {
                // `as` wraps for steps beyond the signed half; the wrapping sum is still right.
                self.wrapping_add(steps as $int)
            }
            #[inline]
            fn items(range: Range<Self>) -> impl Iterator<Item = Self> {
                range
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

// SAFETY: numbers alias nothing.
unsafe impl<T: Integer> Divide for Range<T> {
    type Item = T;
    type Chunk<'s>
        = Range<T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        T::steps(self.start, self.end)
    }
    fn done(self) {}
    #[inline]
    unsafe fn chunk(&self, span: Span) -> Range<T> {
        self.start.plus(span.lo)..self.start.plus(span.hi)
    }
}

impl<T: Integer> Leaf for Range<T> {
    #[inline]
    fn items<'s>(chunk: Range<T>) -> impl Iterator<Item = T> + 's
    where
        Self: 's,
    {
        T::items(chunk)
    }
}

// SAFETY: shared references may alias.
unsafe impl<'a, T: Sync> Divide for &'a [T] {
    type Item = &'a T;
    type Chunk<'s>
        = std::slice::Iter<'a, T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        <[T]>::len(self)
    }
    fn done(self) {}
    #[inline]
    unsafe fn chunk(&self, span: Span) -> std::slice::Iter<'a, T> {
        self[span.lo..span.hi].iter()
    }
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
        assert!(size > 0, "a chunk of 0 items never ends");
        Self { slice, size }
    }

    /// The runs, one at a time.
    pub fn iter(&self) -> std::slice::Chunks<'a, T> {
        self.slice.chunks(self.size)
    }
}

// SAFETY: shared references may alias.
unsafe impl<'a, T: Sync> Divide for Runs<'a, T> {
    type Item = &'a [T];
    type Chunk<'s>
        = std::slice::Chunks<'a, T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }
    fn done(self) {}
    #[inline]
    unsafe fn chunk(&self, span: Span) -> std::slice::Chunks<'a, T> {
        let end = self.slice.len();
        self.slice[(span.lo * self.size).min(end)..span.hi.saturating_mul(self.size).min(end)].chunks(self.size)
    }
}

/// `&mut [T]`, piece by piece.
pub struct SliceMut<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> fmt::Debug for SliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceMut").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'a, T> SliceMut<'a, T> {
    /// Borrows all of `slice`.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// # Safety
    /// `lo <= hi <= len`, and no other piece given out overlaps.
    #[inline]
    unsafe fn piece(&self, lo: usize, hi: usize) -> &'a mut [T] {
        // SAFETY: in bounds (caller).
        let start = unsafe { self.start.add(lo) };
        // SAFETY: `'a` borrows the slice mutably, and the caller keeps pieces apart.
        unsafe { std::slice::from_raw_parts_mut(start, hi - lo) }
    }
}

// SAFETY: sharing it only moves `&mut T`s of disjoint pieces to other threads.
unsafe impl<T: Send> Sync for SliceMut<'_, T> {}
// SAFETY: as `&mut [T]`.
unsafe impl<T: Send> Send for SliceMut<'_, T> {}

// SAFETY: disjoint spans are disjoint pieces.
unsafe impl<'a, T: Send> Divide for SliceMut<'a, T> {
    type Item = &'a mut T;
    type Chunk<'s>
        = std::slice::IterMut<'a, T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        self.len
    }
    fn done(self) {}
    #[inline]
    unsafe fn chunk(&self, span: Span) -> std::slice::IterMut<'a, T> {
        // SAFETY: the caller's contract.
        unsafe { self.piece(span.lo, span.hi) }.iter_mut()
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
        assert!(size > 0, "a chunk of 0 items never ends");
        Self { slice: SliceMut::new(slice), size }
    }
}

// SAFETY: disjoint spans of run numbers are disjoint pieces.
unsafe impl<'a, T: Send> Divide for RunsMut<'a, T> {
    type Item = &'a mut [T];
    type Chunk<'s>
        = std::slice::ChunksMut<'a, T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        self.slice.len.div_ceil(self.size)
    }
    fn done(self) {}
    #[inline]
    unsafe fn chunk(&self, span: Span) -> std::slice::ChunksMut<'a, T> {
        let end = self.slice.len;
        let (lo, hi) = ((span.lo * self.size).min(end), span.hi.saturating_mul(self.size).min(end));
        // SAFETY: whole runs stay disjoint after scaling; `min` keeps the short last one in bounds.
        unsafe { self.slice.piece(lo, hi) }.chunks_mut(self.size)
    }
}

/// The items of a `Vec`, moved out one at a time. Each is dropped exactly once, even if drops or callers panic.
pub struct VecItems<T> {
    /// Never touched while shared; `ptr` leads to the items.
    buffer: UnsafeCell<Vec<ManuallyDrop<T>>>,
    ptr: *mut ManuallyDrop<T>,
    len: usize,
    started: bool,
}

impl<T> fmt::Debug for VecItems<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("len", &self.len).field("started", &self.started).finish_non_exhaustive()
    }
}

impl<T> VecItems<T> {
    /// Takes over the items of `items`.
    pub fn new(items: Vec<T>) -> Self {
        let mut items = ManuallyDrop::new(items);
        let (ptr, len, capacity) = (items.as_mut_ptr(), items.len(), items.capacity());
        // SAFETY: `ManuallyDrop<T>` has the layout of `T`, so this is the same allocation; `items` is not used again.
        let mut buffer = unsafe { Vec::from_raw_parts(ptr.cast::<ManuallyDrop<T>>(), len, capacity) };
        let ptr = buffer.as_mut_ptr();
        Self { buffer: UnsafeCell::new(buffer), ptr, len, started: false }
    }

    /// The items, before they are handed out. (By `&mut`: threads that must not share a `T` may share an `VecItems`.)
    pub fn as_slice(&mut self) -> &[T] {
        let len = if self.started { 0 } else { self.len };
        // SAFETY: not started, so all items are here; `ManuallyDrop<T>` has the layout of `T`.
        unsafe { std::slice::from_raw_parts(self.ptr.cast::<T>(), len) }
    }

    /// # Safety
    /// In bounds, and each index at most once in all calls and chunks.
    unsafe fn drop_span(&mut self, lo: usize, hi: usize) {
        // SAFETY: in bounds (caller).
        let start = unsafe { self.ptr.add(lo) }.cast::<T>();
        // SAFETY: these items were never given out. One slice drop, so that a panicking drop does not leak the rest.
        unsafe { std::ptr::drop_in_place(std::ptr::slice_from_raw_parts_mut(start, hi - lo)) };
    }
}

impl<T> Drop for VecItems<T> {
    fn drop(&mut self) {
        debug_assert_eq!(self.buffer.get_mut().len(), self.len);
        if !self.started {
            // SAFETY: never started: all items are here, and this is the last use.
            unsafe { self.drop_span(0, self.len) };
        }
    }
}

// SAFETY: sharing it only moves `T`s to other threads.
unsafe impl<T: Send> Sync for VecItems<T> {}
// SAFETY: as `Vec<T>`.
unsafe impl<T: Send> Send for VecItems<T> {}

// SAFETY: disjoint spans are disjoint items.
unsafe impl<T: Send> Divide for VecItems<T> {
    type Item = T;
    type Chunk<'s>
        = Take<'s, T>
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        self.len
    }
    fn done(self) {}
    unsafe fn start(&mut self) {
        self.started = true;
    }
    unsafe fn trim(&mut self, total: usize) {
        // SAFETY: the caller's contract: these are in no chunk, and trimmed once.
        unsafe { self.drop_span(total, self.len) };
    }
    #[inline]
    unsafe fn chunk(&self, span: Span) -> Take<'_, T> {
        // SAFETY: in bounds (caller).
        let start = unsafe { self.ptr.add(span.lo) };
        // SAFETY: each index once (caller), so this borrow is unique; the buffer lives as long as `self`.
        Take(unsafe { std::slice::from_raw_parts_mut(start, span.len()) }.iter_mut())
    }
    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.drop_span(lo, hi) };
    }
}

/// Owned items of one chunk; those not taken are dropped with it.
pub struct Take<'s, T>(std::slice::IterMut<'s, ManuallyDrop<T>>);

impl<T> fmt::Debug for Take<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Take").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

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
