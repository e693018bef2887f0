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
//! * Items, tasks or halves of a join that wait for each other: the caller may run all of them, one after the other, so such
//!   a call need not end.
//! * Rounds that depend on each other, or many callers of one structure: other shapes, not in this version.
//!
//! # Trade-offs
//! * A call site that is not known yet begins with its first item on the caller. Two items of equal, long duration take 2 instead of 1
//!   then; [`.chunk(1)`](ParallelIterator::chunk) says that each is worth a synchronization, and they are shared at once.
//! * What a site remembers is the cost of an item. A site that is called with different work in turn is not trusted, and measured
//!   each time.
//! * Eight regions of a pool can be shared at the same time; more of them run on their callers. A caller that waits for its members
//!   helps nobody else: so no unrelated work runs under a lock that it holds.
//!
//! # Panics
//! A panic in a closure reaches the caller with its payload after all members have left; items that were not consumed are
//! dropped, nothing is dropped twice, and the pool stays usable. If several panic, the caller's own wins.
#![forbid(unsafe_code)]

pub mod batch;
mod collect;
#[cfg(doctest)]
mod compile_fail;
mod crew;
mod explain;
pub mod iter;
mod join;
mod looks;
mod offload;
pub mod overlap;
mod places;
mod pool;
mod recipe;
mod reduce;
mod region;
mod runs;
mod scan;
mod scope;
mod search;
mod sites;
pub mod slice;
mod sort;
mod source;
mod stop;
pub mod str;
pub mod team;
mod tries;

pub use explain::{Explained, Shared, explain};
pub use iter::{
    FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
    IntoParallelRefMutIterator, Par, ParallelBridge, ParallelDrainFull, ParallelDrainRange, ParallelExtend,
    ParallelIterator,
};
pub use join::join;
pub use offload::{Offload, offload};
pub use pool::{Pool, current_num_threads};
pub use recipe::Recipe;
pub use scope::{Handle, Scope, scope};
pub use slice::{ParallelSlice, ParallelSliceMut};
pub use sort::ParallelSort;
pub use source::Weigh;
pub use stop::{Stop, Stoppable, Stopped};
pub use str::ParallelString;
pub use team::{AsyncTeam, Width, team};
pub use tries::Try;
pub use windrow_plan as plan;

/// The traits that make `par_iter` and its kin callable: `use windrow::prelude::*;`.
pub mod prelude {
    pub use crate::{
        FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
        IntoParallelRefMutIterator, ParallelBridge, ParallelDrainFull, ParallelDrainRange, ParallelExtend,
        ParallelIterator, ParallelSlice, ParallelSliceMut, ParallelSort, ParallelString,
    };
}

/// The README's examples, compiled.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;

/// The migration page's example, compiled.
#[doc = include_str!("../../../docs/from-rayon.md")]
#[cfg(doctest)]
struct FromRayon;
