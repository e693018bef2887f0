//! A vector that several threads fill at the same time, each with whole parts.
//!
//! A caller that knows that it comes next reserves the next part, which takes one addition, and copies into it while others do the same. The
//! order of the reservations is that of the parts. Nothing is gathered at the end.

use std::mem::MaybeUninit;

use crate::primitives::{AtomicUsize, Ordering};

/// See the [module page](self).
///
/// ```
/// use windrow_table::assembly::Assembly;
///
/// let assembly = Assembly::new(Vec::with_capacity(8));
/// let (first, second) = (assembly.reserve(2), assembly.reserve(1));
/// second.copy_from(&['c']);
/// first.copy_from(&['a', 'b']);
/// assert_eq!(assembly.into_vec(), Some(vec!['a', 'b', 'c']));
/// ```
pub struct Assembly<T> {
    start: *mut T,
    /// Owns the memory.
    owner: Vec<T>,
    reserved: AtomicUsize,
    filled: AtomicUsize,
}

// SAFETY: parts are disjoint, and each is one thread's; items only move in.
unsafe impl<T: Send> Sync for Assembly<T> {}
// SAFETY: owns its items, as a vector does.
unsafe impl<T: Send> Send for Assembly<T> {}

/// A part of an [`Assembly`] that one thread fills.
///
/// ```
/// use windrow_table::assembly::Assembly;
///
/// let mut items = Vec::with_capacity(3);
/// items.push(0);
/// let assembly = Assembly::new(items);
/// let part = assembly.reserve(2);
/// assert_eq!(part.begin(), 1);
/// part.fill(&["a", "bcd"], |text| text.len());
/// assert_eq!(assembly.into_vec(), Some(vec![0, 1, 3]));
/// ```
pub struct AssemblyPart<'a, T> {
    space: &'a mut [MaybeUninit<T>],
    begin: usize,
    filled: &'a AtomicUsize,
}

impl<T: Copy> Assembly<T> {
    /// An assembly of the items of `owner`, followed by parts for which it has capacity. (The system gives memory for them when it is
    /// written.)
    pub fn new(mut owner: Vec<T>) -> Self {
        let len = owner.len();
        Self { start: owner.as_mut_ptr(), owner, reserved: AtomicUsize::new(len), filled: AtomicUsize::new(len) }
    }

    /// The next `len` items.
    ///
    /// # Panics
    /// There is no space for them.
    pub fn reserve(&self, len: usize) -> AssemblyPart<'_, T> {
        let capacity = self.owner.capacity();
        let end = |begin: usize| begin.checked_add(len).filter(|&end| end <= capacity);
        // Relaxed: only divides the space.
        let reserved = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end);
        let begin = reserved.unwrap_or_else(|begin| panic!("{begin} items and {len} more do not fit in {capacity}"));
        // SAFETY: within the capacity.
        let first = unsafe { self.start.add(begin) };
        // SAFETY: allocated; each index is in one part only, since `reserved` only grows, atomically. The part borrows the assembly,
        // which keeps the memory.
        let space = unsafe { std::slice::from_raw_parts_mut(first.cast(), len) };
        AssemblyPart { space, begin, filled: &self.filled }
    }

    /// The vector, or `None` if a part was not filled.
    pub fn into_vec(mut self) -> Option<Vec<T>> {
        // Relaxed: no part is left, so what its thread did is ordered by how the assembly came back.
        let (reserved, filled) = (self.reserved.load(Ordering::Relaxed), self.filled.load(Ordering::Relaxed));
        if reserved != filled {
            return None;
        }
        // SAFETY: the reserved parts are consecutive from the first items on and within the capacity, and all of them were filled.
        unsafe { self.owner.set_len(filled) };
        Some(self.owner)
    }
}

impl<T: Copy> AssemblyPart<'_, T> {
    /// The place of the first item.
    pub fn begin(&self) -> usize {
        self.begin
    }

    /// Fills the part.
    ///
    /// # Panics
    /// `items` has another length than the part.
    pub fn copy_from(self, items: &[T]) {
        self.fill(items, |item| *item);
    }

    /// Fills the part with `map` of each of `items`.
    ///
    /// # Panics
    /// `items` has another length than the part.
    pub fn fill<I>(self, items: &[I], map: impl Fn(&I) -> T) {
        assert_eq!(items.len(), self.space.len(), "the part has a different length");
        for (space, item) in self.space.iter_mut().zip(items) {
            space.write(map(item));
        }
        // Relaxed: see `into_vec`.
        self.filled.fetch_add(items.len(), Ordering::Relaxed);
    }
}
