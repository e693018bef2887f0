//! windrow measures parallel work, decides how to divide it, and can say why.
//!
//! This crate is shape 1: independent items. Parallel iterators carry the names and meanings of rayon's. What differs is who
//! picks the grain: the caller runs the first items itself, measures them, and lets workers in when the measured rest pays
//! for it. Small calls stay serial; nothing has to be tuned by hand.
//!
//! ```
//! use windrow::prelude::*;
//!
//! let lines = ["one fish", "two fish", "red fish"];
//! let words: usize = lines.par_iter().map(|line| line.split(' ').count()).sum();
//! assert_eq!(words, 6);
//! ```
//!
//! # When not to use it
//! * Items that wait (network, disk): a pool has as many threads as CPUs, so use an async runtime.
//! * Rounds that depend on each other, or many callers of one structure: other shapes, not in this version.
//!
//! # Trade-offs
//! * The first item always runs on the caller. Two items of equal, long duration take 2 instead of 1; give them
//!   [`.chunk(1)`](ParallelIterator::chunk) and they still do, in this version.
//! * A pool runs one region at a time. A region that starts inside another one of the same pool, or while another thread has
//!   one open, runs on its caller alone. It never waits, so it cannot deadlock.
//!
//! # Panics
//! A panic in a closure reaches the caller with its payload after all members have left; items that were not consumed are
//! dropped, nothing is dropped twice, and the pool stays usable. If several panic, the caller's own wins.
#![forbid(unsafe_code)]

mod collect;
#[cfg(doctest)]
mod compile_fail;
mod explain;
mod iter;
mod join;
mod pool;
mod recipe;
mod reduce;
mod region;
mod scope;
mod sort;
mod source;

pub use collect::FromParallelIterator;
pub use explain::{Explained, explain};
pub use iter::{
    IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, IntoParallelRefMutIterator, Par,
    ParallelIterator, ParallelSlice, ParallelSliceMut,
};
pub use join::join;
pub use pool::{Pool, current_num_threads};
pub use recipe::Recipe;
pub use scope::{Handle, Scope, scope};
pub use sort::ParallelSort;
pub use source::Weigh;
pub use windrow_plan as plan;

/// The traits that make `par_iter` and its kin callable: `use windrow::prelude::*;`.
pub mod prelude {
    pub use crate::{
        FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
        IntoParallelRefMutIterator, ParallelIterator, ParallelSlice, ParallelSliceMut, ParallelSort,
    };
}

/// The README's examples, compiled.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;
