//! What the tests of iterators share.
#![allow(dead_code, reason = "every test file uses a part")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use windrow::Pool;

/// Pools of 1, 2, 4 and 7 threads, built once.
pub(crate) fn pools() -> &'static [Pool] {
    static POOLS: OnceLock<Vec<Pool>> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 4, 7].map(Pool::new).into())
}

/// What `f` gives, the same on every pool.
pub(crate) fn on_all<R: PartialEq + std::fmt::Debug>(f: impl Fn() -> R) -> R {
    let mut results: Vec<R> = pools().iter().map(|pool| pool.install(&f)).collect();
    let last = results.pop().expect("there are pools");
    results.iter().for_each(|result| assert_eq!(*result, last));
    last
}

/// Work of about `micros`, so that regions are published too.
pub(crate) fn work(micros: u64) {
    let start = std::time::Instant::now();
    while start.elapsed().as_micros() < u128::from(micros) {
        std::hint::spin_loop();
    }
}

/// Counts what is alive.
#[derive(Debug)]
pub(crate) struct Counter<'a>(pub(crate) &'a AtomicIsize, pub(crate) usize);

impl<'a> Counter<'a> {
    pub(crate) fn new(live: &'a AtomicIsize, value: usize) -> Self {
        live.fetch_add(1, Relaxed);
        Counter(live, value)
    }
}

impl Clone for Counter<'_> {
    fn clone(&self) -> Self {
        Counter::new(self.0, self.1)
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

/// `n` counted items.
pub(crate) fn items(live: &AtomicIsize, n: usize) -> Vec<Counter<'_>> {
    (0..n).map(|i| Counter::new(live, i)).collect()
}
