//! Claims: the right to items of a source, as values; and memory whose items are handed out by claims.

/// The place of a chunk among the items, and the member that claimed it. Information only: unsafe code trusts the span inside a [`Claim`], no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the first item.
    pub lo: usize,
    /// Index after the last item.
    pub hi: usize,
    /// The member that claimed it.
    pub member: usize,
}

impl Span {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.hi - self.lo
    }
    /// No items.
    pub fn is_empty(&self) -> bool {
        self.hi == self.lo
    }
}

/// The right to the items of one span of one source. It can be split, but neither copied nor made outside this crate.
#[derive(Debug)]
pub struct Claim(Span);

impl Claim {
    /// # Safety
    /// The span lies inside the source that gets this claim. No other claim on any of its indices was or will be given to that
    /// source, except the one that `Divide::start` borrows.
    #[inline]
    pub(super) unsafe fn new(span: Span) -> Self {
        Claim(span)
    }

    /// No items.
    pub(super) fn none() -> Self {
        Claim(Span { lo: 0, hi: 0, member: 0 })
    }

    /// The items.
    #[inline]
    pub fn span(&self) -> Span {
        self.0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Splits off the first `n` items, or all if there are fewer.
    #[inline]
    pub(super) fn take_front(&mut self, n: usize) -> Claim {
        let front = Span { hi: self.0.lo + n.min(self.len()), ..self.0 };
        self.0.lo = front.hi;
        Claim(front)
    }

    /// Splits off the last `n` items, or all if there are fewer.
    #[inline]
    pub(super) fn take_back(&mut self, n: usize) -> Claim {
        let back = Span { lo: self.0.hi - n.min(self.len()), ..self.0 };
        self.0.hi = back.lo;
        Claim(back)
    }
}

/// Items in a row in memory. `O` owns or borrows that memory, and is not used while the items are shared.
pub(super) struct SharedItems<T, O> {
    pub(super) start: *mut T,
    pub(super) len: usize,
    pub(super) owner: O,
}

// SAFETY: sharing it only moves `T`s, or `&mut T`s of disjoint spans, between threads; `owner` is reached by `&mut` only.
unsafe impl<T: Send, O: Send> Sync for SharedItems<T, O> {}
// SAFETY: as `O`; the items are `Send`.
unsafe impl<T: Send, O: Send> Send for SharedItems<T, O> {}

impl<T, O> SharedItems<T, O> {
    /// The items `lo..hi`.
    ///
    /// # Safety
    /// Inside `0..len`; the caller has the one claim on them, and the owner lives for `'x`.
    #[inline]
    pub(super) unsafe fn claimed<'x>(&self, lo: usize, hi: usize) -> &'x mut [T] {
        // SAFETY: in bounds, alive and unique (caller).
        unsafe { std::slice::from_raw_parts_mut(self.start.wrapping_add(lo), hi - lo) }
    }
}
