#![doc = include_str!("../README.md")]

mod base;
pub mod join;
mod region;
pub mod rounds;
pub mod submit;
pub mod table;

pub use base::pad::Pad;
pub use base::spin::Spin;
pub use base::thread_bound::ThreadBound;
pub use base::{assembly, exit, fork, latch, machine, quota, relaxed, unwind, word};
pub use join::lend;
pub use region::{divide, gate, merge, ranges, shared, slots, sources, views};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
struct MustNotCompile;
