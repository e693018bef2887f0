#![doc = include_str!("../README.md")]

mod base;
#[doc(hidden)]
pub mod join;
mod region;
pub mod rounds;
pub mod submit;

#[doc(hidden)]
pub use crate::{
    base::{exit, fork, latch, machine, quota, relaxed, unwind, waiters, word},
    base::{mutex::Mutex, pad::Pad, spin::Spin, thread_bound::ThreadBound},
    join::lend,
    region::{divide, gate, merge, ranges, slots, sources, views},
};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
struct MustNotCompile;
