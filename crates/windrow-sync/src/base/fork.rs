#![doc = include_str!("fork.md")]

use crate::base::debug::show_as;
use crate::base::machine;
use crate::base::primitives::{AtomicPtr, Ordering, const_fn};

struct ProcessEntry<T> {
    generation: u32,
    value: T,
}

/// See the [module page](self).
pub struct PerProcess<T> {
    current: AtomicPtr<ProcessEntry<T>>,
}

show_as!("PerProcess": [T] PerProcess<T>);

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
                // SAFETY: published just now, and never freed.
                Ok(_) => return unsafe { &(*ours).value },
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
