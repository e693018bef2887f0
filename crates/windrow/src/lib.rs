#![doc = include_str!("../README.md")]
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
pub use pool::{Pool, PoolBuildError, PoolBuildErrorKind, PoolBuilder, ShutdownError, current_num_threads, shutdown};
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
