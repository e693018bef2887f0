//! Counted values, and the messages of panics.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// A value that is counted while it is alive. The count is borrowed, or shared by an `Arc`.
#[derive(Debug)]
pub struct Live<C: Deref<Target = AtomicIsize>, V = usize>(C, pub V);

impl<C: Deref<Target = AtomicIsize>, V> Live<C, V> {
    /// Counts `value`.
    pub fn new(live: C, value: V) -> Self {
        live.fetch_add(1, Relaxed);
        Live(live, value)
    }
}

/// The numbers `0..n`, each counted.
pub fn items<C: Deref<Target = AtomicIsize> + Copy>(live: C, n: usize) -> Vec<Live<C>> {
    (0..n).map(|i| Live::new(live, i)).collect()
}

impl<C: Deref<Target = AtomicIsize> + Clone, V: Clone> Clone for Live<C, V> {
    fn clone(&self) -> Self {
        Live::new(self.0.clone(), self.1.clone())
    }
}

impl<C: Deref<Target = AtomicIsize>, V> Drop for Live<C, V> {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

/// The message with which `f` panics.
///
/// # Panics
///
/// If `f` returns, or panics with a payload that is no text.
pub fn message_of<R: fmt::Debug>(f: impl FnOnce() -> R) -> String {
    let payload = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => panic!("it should panic, but returns {result:?}"),
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| payload.downcast_ref::<&str>().expect("a message").to_string())
}
