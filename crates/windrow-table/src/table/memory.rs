//! Memory for slots, in large pages where the system has them.
//!
//! A search reads one slot anywhere in the table. With pages of 4 KiB, a table of megabytes has more pages than the first translation
//! buffer of a CPU has entries.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

use super::TableSlot;

/// Size of a large page of x86-64 and, with pages of 4 KiB, of aarch64.
const LARGE_PAGE: usize = 2 << 20;

/// A fixed number of slots.
pub(super) struct SlotMemory {
    first: NonNull<TableSlot>,
    count: usize,
    layout: Layout,
}

// SAFETY: owns its slots, as a box does.
unsafe impl Send for SlotMemory where TableSlot: Send {}
// SAFETY: gives shared references to the slots only.
unsafe impl Sync for SlotMemory where TableSlot: Sync {}

impl SlotMemory {
    /// `count` empty slots, at least one.
    pub(super) fn new(count: usize) -> Self {
        let layout = Layout::array::<TableSlot>(count).expect("the table fits in the address space");
        let align = if layout.size() >= LARGE_PAGE { LARGE_PAGE } else { layout.align() };
        let layout = layout.align_to(align).expect("a power of two");
        assert!(layout.size() > 0, "a table needs at least one slot");
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(memory.cast::<TableSlot>()) else { handle_alloc_error(layout) };
        #[cfg(all(target_os = "linux", not(miri)))]
        if align == LARGE_PAGE {
            // SAFETY: whole pages of our own memory, whose content does not change. If the system refuses, its pages are small.
            unsafe { libc::madvise(memory.cast(), layout.size() / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        for at in 0..count {
            // SAFETY: inside the memory.
            let place = unsafe { first.add(at) };
            // SAFETY: aligned, and nothing is there yet.
            unsafe { place.write(TableSlot::default()) };
        }
        Self { first, count, layout }
    }
}

impl Deref for SlotMemory {
    type Target = [TableSlot];

    #[inline(always)]
    fn deref(&self) -> &[TableSlot] {
        // SAFETY: `new` has made `count` slots there.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for SlotMemory {
    fn drop(&mut self) {
        // SAFETY: `new` has made them, and no reference is left.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.count).drop_in_place() };
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.first.as_ptr().cast(), self.layout) };
    }
}
