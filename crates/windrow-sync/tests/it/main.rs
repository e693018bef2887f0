//! All tests of the crate on real threads. The models of the protocols are in `tests/loom`.
#![cfg(not(loom))]

mod divide;
#[cfg(all(target_os = "linux", not(miri)))]
mod fork;
mod gate;
mod join;
mod lend;
mod machine;
mod merge;
mod rounds;
mod safe;
mod submit;
mod unwind;
mod views;

use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Counts values while they live.
#[derive(Debug)]
struct Counter<'a>(&'a AtomicIsize, usize);

impl<'a> Counter<'a> {
    fn new(live: &'a AtomicIsize, value: usize) -> Self {
        live.fetch_add(1, Relaxed);
        Counter(live, value)
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}
