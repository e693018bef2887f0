#![doc = include_str!("fork.md")]

use crate::base::debug::show_as;
use crate::base::machine;
use crate::base::primitives::{AtomicPtr, Ordering, const_fn};
use std::any::Any;
use std::fmt;

/// The process that made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The process that runs this.
    #[inline]
    pub fn this() -> Process {
        Process(machine::fork_generation())
    }

    /// True if this process is the one that made the object, and no forked child of it.
    #[inline]
    pub fn is_this(self) -> bool {
        self == Process::this()
    }
}

/// Error of a call in a forked child that cannot end as in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranded;

impl fmt::Display for Stranded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this process was forked inside a parallel call, and the other threads of the call stayed in the parent",
        )
    }
}

impl std::error::Error for Stranded {}

impl Stranded {
    /// Ends the call by a panic.
    #[cold]
    pub fn raise(self) -> ! {
        panic!("{self}")
    }

    /// True if a panic is one of [`raise`](Self::raise), or has this value as its payload.
    pub fn is_thrown(payload: &(dyn Any + Send)) -> bool {
        payload.is::<Self>() || payload.downcast_ref::<String>().is_some_and(|text| *text == Self.to_string())
    }
}

struct ProcessEntry<T> {
    generation: u32,
    value: T,
}

/// See the [module page](self).
///
/// ```
/// use windrow_sync::fork::PerProcess;
///
/// static SEED: PerProcess<u64> = PerProcess::new();
/// assert_eq!(SEED.peek(), None);
/// assert_eq!(SEED.get(|| 7), &7);
/// assert_eq!(SEED.get(|| 8), &7); // a forked child would build another one
/// ```
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
        self.find().unwrap_or_else(|seen| {
            let generation = machine::fork_generation();
            self.install(seen, ProcessEntry { generation, value: build() })
        })
    }

    /// This process's value, if it was built.
    pub fn peek(&'static self) -> Option<&'static T> {
        self.find().ok()
    }

    /// The value of this process, or as an error what is there instead.
    #[inline]
    fn find(&'static self) -> Result<&'static T, *mut ProcessEntry<T>> {
        let generation = machine::fork_generation();
        // Acquire: pairs with the Release in `install`; the entry is complete.
        let seen = self.current.load(Ordering::Acquire);
        // SAFETY: null, or an entry leaked by `install` and seen complete.
        let entry = unsafe { seen.as_ref() }.filter(|entry| entry.generation == generation);
        entry.map(|entry| &entry.value).ok_or(seen)
    }

    #[cold]
    fn install(&'static self, mut seen: *mut ProcessEntry<T>, entry: ProcessEntry<T>) -> &'static T {
        let generation = entry.generation;
        let ours = Box::into_raw(Box::new(entry));
        loop {
            // Release: pairs with the Acquire in `find` and with the one here.
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
