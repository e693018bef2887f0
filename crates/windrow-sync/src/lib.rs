#![doc = include_str!("../README.md")]

mod base;
#[doc(hidden)]
pub mod join;
mod region;
pub mod rounds;
pub mod submit;

#[doc(hidden)]
pub use base::mutex::Mutex;
#[doc(hidden)]
pub use base::pad::Pad;
#[doc(hidden)]
pub use base::spin::Spin;
#[doc(hidden)]
pub use base::thread_bound::ThreadBound;
#[doc(hidden)]
pub use base::{exit, fork, latch, machine, quota, relaxed, unwind, waiters, word};
#[doc(hidden)]
pub use join::lend;
#[doc(hidden)]
pub use region::{divide, gate, merge, ranges, slots, sources, views};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
struct MustNotCompile;
