#![doc = include_str!("merge.md")]

use crate::base::debug::show_as;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `f` with a [`Merging`] of `items`; afterwards all of them are in the slice, in some order. Allocates a buffer of the same
/// size.
///
/// ```
/// use windrow_sync::merge::merging;
///
/// // Runs of two.
/// let mut items = [3, 4, 1, 2, 0, 9];
/// merging(&mut items, |merging| {
///     for run in [2, 4] {
///         merging.level(run).for_each(|merge| merge.run(|a, b| a < b));
///         assert!(merging.finish());
///     }
/// });
/// assert_eq!(items, [0, 1, 2, 3, 4, 9]);
/// ```
pub fn merging<'a, T, R>(items: &'a mut [T], f: impl FnOnce(&mut Merging<'a, T>) -> R) -> R {
    let spare = Box::new_uninit_slice(items.len());
    f(&mut Merging { items, spare, swapped: false, moved: AtomicUsize::new(0) })
}

/// Items that are being merged. See the [module page](self).
pub struct Merging<'a, T> {
    items: &'a mut [T],
    spare: Box<[MaybeUninit<T>]>,
    /// The items are in the spare.
    swapped: bool,
    /// Items that the merges of this level have moved.
    moved: AtomicUsize,
}

// Without the items: while they are in the spare the slice holds stale copies.
show_as!("Merging": [T] Merging<'_, T>, |it| items: it.items.len(), swapped: it.swapped);

impl<T> Merging<'_, T> {
    /// The merges of neighbours among runs of `run` items. (The last run may be shorter; without a neighbour it is moved alone.)
    /// The level is complete when all of them have run: see [`finish`](Merging::finish).
    ///
    /// # Panics
    /// If `run` is 0.
    pub fn level(&mut self, run: usize) -> impl Iterator<Item = Merge<'_, T>> {
        assert!(run > 0, "a run holds at least one item");
        let n = self.items.len();
        self.moved = AtomicUsize::new(0);
        let (source, target) = if self.swapped {
            (self.spare.as_mut_ptr().cast::<T>(), self.items.as_mut_ptr().cast::<MaybeUninit<T>>())
        } else {
            (self.items.as_mut_ptr(), self.spare.as_mut_ptr())
        };
        // SAFETY: initialized: this buffer has the items. Exclusively borrowed through `self`.
        let source = unsafe { std::slice::from_raw_parts_mut(source, n) };
        // SAFETY: as many items, exclusively borrowed through `self`, and not the same memory.
        let target = unsafe { std::slice::from_raw_parts_mut(target, n) };
        let moved = &self.moved;
        let pair = run.saturating_mul(2);
        source.chunks_mut(pair).zip(target.chunks_mut(pair)).map(move |(source, target)| {
            let (left, right) = source.split_at_mut(run.min(source.len()));
            Merge { left, right, target, moved }
        })
    }

    /// Ends a level. Returns whether all of its merges have run; if not, the items are where they were before.
    pub fn finish(&mut self) -> bool {
        let complete = std::mem::take(self.moved.get_mut()) == self.items.len();
        self.swapped ^= complete;
        complete
    }
}

impl<T> Drop for Merging<'_, T> {
    fn drop(&mut self) {
        if self.swapped {
            let items = self.items.as_mut_ptr();
            // SAFETY: the items are in the spare, which is as long as the slice, and from now on they are in the slice.
            unsafe { std::ptr::copy_nonoverlapping(self.spare.as_ptr().cast::<T>(), items, self.items.len()) };
        }
    }
}

/// Two runs to be merged into one. Equal items keep their order.
pub struct Merge<'m, T> {
    left: &'m mut [T],
    right: &'m mut [T],
    target: &'m mut [MaybeUninit<T>],
    moved: &'m AtomicUsize,
}

show_as!("Merge": [T] Merge<'_, T>, |it| left: it.left.len(), right: it.right.len());

impl<'m, T> Merge<'m, T> {
    /// Items of both runs.
    pub fn len(&self) -> usize {
        self.target.len()
    }

    /// No items.
    pub fn is_empty(&self) -> bool {
        self.target.is_empty()
    }

    /// Splits this merge in two: the items less than the median item of the longer run, and the rest. Neither is empty if there
    /// are three or more items.
    pub fn split(self, is_less: impl Fn(&T, &T) -> bool) -> (Merge<'m, T>, Merge<'m, T>) {
        let Merge { left, right, target, moved } = self;
        let (i, j) = if left.len() >= right.len() {
            let i = left.len() / 2;
            (i, left.get(i).map_or(0, |middle| right.partition_point(|item| is_less(item, middle))))
        } else {
            let j = right.len() / 2;
            (left.partition_point(|item| !is_less(&right[j], item)), j)
        };
        let (left, left2) = left.split_at_mut(i);
        let (right, right2) = right.split_at_mut(j);
        let (target, target2) = target.split_at_mut(i + j);
        (Merge { left, right, target, moved }, Merge { left: left2, right: right2, target: target2, moved })
    }

    /// Merges the two runs.
    ///
    /// If `is_less` is not a strict weak order, the order of the items is unspecified.
    pub fn run(self, is_less: impl Fn(&T, &T) -> bool) {
        let Merge { left, right, target, moved } = self;
        let mut out = Out { target: target.as_mut_ptr().cast::<T>(), left: &*left, right: &*right };
        if let (Some(last), Some(first)) = (left.last(), right.first())
            && is_less(first, last)
        {
            if left.first().is_some_and(|first| right.last().is_some_and(|last| is_less(last, first))) {
                // Everything on the right is less.
                let right = std::mem::take(&mut out.right);
                out.put(right);
            }
            while let ([a, ..], [b, ..]) = (out.left, out.right) {
                out.put_one(is_less(b, a));
            }
        }
        let (left, right) = (out.left, out.right);
        out.put(left);
        out.put(right);
        // Relaxed: a count, read when all borrows have ended.
        moved.fetch_add(target.len(), Ordering::Relaxed);
    }
}

/// The items still to be merged, and their target: it always has room for all of them.
struct Out<'m, T> {
    target: *mut T,
    left: &'m [T],
    right: &'m [T],
}

impl<T> Out<'_, T> {
    /// Copies all of `items`, the rest of one side.
    fn put(&mut self, items: &[T]) {
        // SAFETY: there is room for all items of both sides, each is copied once, and nothing else refers to the target.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), self.target, items.len()) };
        self.target = self.target.wrapping_add(items.len());
    }

    /// Copies the first item of one side. Both sides have one.
    #[inline]
    fn put_one(&mut self, of_right: bool) {
        let from = if of_right { self.right.as_ptr() } else { self.left.as_ptr() };
        // SAFETY: as in `put`.
        unsafe { std::ptr::copy_nonoverlapping(from, self.target, 1) };
        self.target = self.target.wrapping_add(1);
        self.right = &self.right[usize::from(of_right)..];
        self.left = &self.left[usize::from(!of_right)..];
    }
}
