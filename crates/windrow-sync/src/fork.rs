//! A value of the process that a forked child does not share.
//!
//! A child of `fork` has the memory of its parent and one of its threads. A thread pool in that memory has no threads, and a lock
//! in it may be held by a thread that does not exist. So the cell here never holds a lock: it is one pointer to the value and to
//! the [generation](crate::machine::fork_generation) in which it was built.
//!
//! # Protocol
//! 1. `get` loads the pointer. If its generation is this process's, that is the value.
//! 2. Otherwise it builds a value, outside any critical section, and replaces the pointer that it saw by a compare-exchange. If
//!    another thread was faster, it drops its own value and uses the other's.
//!
//! Values are leaked: references to them are `'static`, and a parent's value must not be dropped in the child anyway.
//! (turbovec's pull request 238 keys its pool by generation in the same way.)

use crate::machine;
use crate::primitives::{AtomicPtr, Ordering, const_fn};

struct ProcessEntry<T> {
    generation: u32,
    value: T,
}

/// See the [module page](self).
pub struct PerProcess<T> {
    current: AtomicPtr<ProcessEntry<T>>,
}

impl<T> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    const_fn! {
        /// No value yet.
        pub fn new() -> Self {
            Self { current: AtomicPtr::new(std::ptr::null_mut()) }
        }
    }

    /// This process's value; builds it first if there is none. `build` may run in several threads at once; all results but one
    /// are dropped.
    #[inline]
    pub fn get(&'static self, build: impl FnOnce() -> T) -> &'static T {
        let generation = machine::fork_generation();
        // Acquire: pairs with the Release in `install`; the entry is complete.
        let seen = self.current.load(Ordering::Acquire);
        // SAFETY: null, or an entry leaked by `install` and seen complete.
        match unsafe { seen.as_ref() } {
            Some(entry) if entry.generation == generation => &entry.value,
            _ => self.install(seen, ProcessEntry { generation, value: build() }),
        }
    }

    #[cold]
    fn install(&'static self, mut seen: *mut ProcessEntry<T>, entry: ProcessEntry<T>) -> &'static T {
        let generation = entry.generation;
        let ours = Box::into_raw(Box::new(entry));
        loop {
            // Release: pairs with the Acquire in `get` and with the one here.
            // Acquire: pairs with the Release here of a faster thread, whose entry is used below.
            match self.current.compare_exchange(seen, ours, Ordering::Release, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: published just now, and never freed.
                    return unsafe { &(*ours).value };
                }
                Err(now) => {
                    // SAFETY: an entry leaked by another `install`, complete (Acquire above); never null again.
                    let theirs = unsafe { &*now };
                    if theirs.generation == generation {
                        // SAFETY: `ours` was not published; no other thread has the pointer.
                        drop(unsafe { Box::from_raw(ours) });
                        return &theirs.value;
                    }
                    seen = now;
                }
            }
        }
    }
}
