//! Thread-bound values.

use crate::base::debug::show_as;
use std::mem::ManuallyDrop;
use std::thread::ThreadId;

/// A value that may be used on any thread, or only on the thread that made it. In both cases it can be moved to and shared with others.
///
/// ```
/// let mut here = windrow_sync::ThreadBound::confined(std::rc::Rc::new(5));
/// assert_eq!(here.get_mut().map(|five| **five), Some(5));
/// std::thread::scope(|scope| drop(scope.spawn(|| assert!(here.get_mut().is_none(), "not on another thread"))));
/// ```
///
/// If a confined value is dropped on another thread, it is leaked.
pub struct ThreadBound<S> {
    value: ManuallyDrop<S>,
    only: Option<ThreadId>,
}

// SAFETY: without `only` the value is `Send` (`new` asks for it). With it, every access, drop included, is refused on other
// threads.
unsafe impl<S> Send for ThreadBound<S> {}
// SAFETY: as above; and shared access from several threads is given only if `S: Sync` (`get`).
unsafe impl<S> Sync for ThreadBound<S> {}

show_as!("ThreadBound": [S] ThreadBound<S>, |it| only: it.only);

impl<S> ThreadBound<S> {
    /// A value usable on any thread.
    pub fn new(value: S) -> Self
    where
        S: Send,
    {
        ThreadBound { value: ManuallyDrop::new(value), only: None }
    }

    /// A value usable on this thread only.
    pub fn confined(value: S) -> Self {
        ThreadBound { value: ManuallyDrop::new(value), only: Some(std::thread::current().id()) }
    }

    /// True if the value is usable on this thread.
    #[inline]
    pub fn is_here(&self) -> bool {
        /// Out of line, so that the case of a value usable anywhere stays cheap.
        #[cold]
        fn is_current(only: ThreadId) -> bool {
            only == std::thread::current().id()
        }
        self.only.is_none_or(is_current)
    }

    /// The value, if it is usable on this thread.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut S> {
        self.is_here().then_some(&mut *self.value)
    }

    /// The value, if it is usable on this thread.
    #[inline]
    pub fn get(&self) -> Option<&S>
    where
        S: Sync,
    {
        self.is_here().then_some(&*self.value)
    }

    /// The value, if it is usable on this thread.
    pub fn into_inner(mut self) -> Option<S> {
        if !self.is_here() {
            return None;
        }
        // SAFETY: taken once: `self` is forgotten.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        std::mem::forget(self);
        Some(value)
    }
}

impl<S> Drop for ThreadBound<S> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped once, never used after, and on a thread that may use it.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
