//! The one module that selects the primitives: the standard library's or loom's, futex or condition variable.

#[cfg(not(loom))]
mod chosen {
    pub(crate) use std::hint::spin_loop;
    #[cfg(any(feature = "portable", miri, not(target_os = "linux")))]
    pub(crate) use std::sync::Condvar;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use std::thread::{Thread, current, park, yield_now};

    /// Slots of a team that arrive at one word. With more, contention for its cache line would cost more than a second word.
    pub(crate) const GROUP: usize = 16;

    /// True if a thread keeps an allocation from one region to the next.
    pub(crate) const KEEPS_SPARES: bool = true;

    /// `std`'s cell with loom's interface.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod chosen {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, current, park, yield_now};

    /// Few enough that a team in a model has several groups.
    pub(crate) const GROUP: usize = 2;

    /// Loom's values must not outlive a run of the model.
    pub(crate) const KEEPS_SPARES: bool = false;
}

pub(crate) use chosen::*;

#[cfg(any(loom, feature = "portable", miri, not(target_os = "linux")))]
#[path = "condvar.rs"]
mod sleepers;
#[cfg(not(any(loom, feature = "portable", miri, not(target_os = "linux"))))]
#[path = "futex.rs"]
mod sleepers;

pub(crate) use sleepers::Sleepers;

/// A function that is `const`, except under loom, whose types have no `const` constructors.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        $visibility const fn $($rest)*
        $(#[$attribute])*
        #[cfg(loom)]
        $visibility fn $($rest)*
    };
}
pub(crate) use const_fn;

/// A thread-local cell without a destructor: it can be used while its thread ends.
macro_rules! thread_cell {
    ($(#[$attribute:meta])* $name:ident: $type:ty = $value:expr) => {
        #[cfg(not(loom))]
        thread_local! {
            $(#[$attribute])*
            static $name: std::cell::Cell<$type> = const { std::cell::Cell::new($value) };
        }
        #[cfg(loom)]
        loom::thread_local! {
            $(#[$attribute])*
            static $name: std::cell::Cell<$type> = std::cell::Cell::new($value);
        }
    };
}
pub(crate) use thread_cell;
