//! Pools of several sizes, and the smallest batched structure.

use std::fmt;
use std::sync::OnceLock;

use windrow::Pool;
use windrow::batch::{Batch, BatchOps};

/// Pools of 1, 2, 4 and 7 threads, built once.
pub fn pools() -> &'static [Pool] {
    static POOLS: OnceLock<Vec<Pool>> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 4, 7].map(Pool::new).into())
}

/// What `f` gives, the same on each of [`pools`].
///
/// # Panics
///
/// If two results differ.
pub fn on_all<R: PartialEq + fmt::Debug>(f: impl Fn() -> R) -> R {
    let mut results: Vec<R> = pools().iter().map(|pool| pool.install(&f)).collect();
    let last = results.pop().expect("there are pools");
    results.iter().for_each(|result| assert_eq!(*result, last));
    last
}

/// Asserts of each line that both sides are equal: what the standard library gives, and what every pool gives.
#[macro_export]
macro_rules! same {
    ($($serial:expr => $parallel:expr;)*) => {$(
        assert_eq!($crate::on_all(|| $parallel), $serial, "{}", stringify!($parallel));
    )*};
}

/// A batched sum: an operation adds, and its reply is the new value.
#[derive(Debug, Default)]
pub struct Sum(
    /// The value.
    pub u64,
);

impl BatchOps for Sum {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        for entry in batch.iter_mut() {
            self.0 += entry.take();
            entry.reply(self.0);
        }
    }
}
