// Of two definitions of a link the first one counts: here these names lead to items, and where the README is shown alone, to docs.rs.
//! [`prelude`]: mod@prelude
//! [`join`]: fn@join
//! [`scope`]: fn@scope
//! [`spawn`]: fn@spawn
//! [`team`]: fn@team
//! [`batch`]: mod@batch
//! [`overlap`]: mod@overlap
//! [`explain`]: fn@explain
#![cfg_attr(feature = "async-team", doc = "[`AsyncTeam`]: struct@AsyncTeam")]
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
#[cfg(doctest)]
mod compile_fail;
pub mod iter;
pub mod overlap;
mod runtime;
mod task;
pub mod team;

pub use iter::cancellable::Cancellable;
pub use iter::names::{array, collections, option, range, range_inclusive, result, vec};
pub use iter::recipe::Recipe;
pub use iter::slice::{self, ParallelSlice, ParallelSliceMut};
pub use iter::source::Weigh;
pub use iter::str::{self, ParallelString};
pub use iter::tries::Try;
pub use iter::{
    FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
    IntoParallelRefMutIterator, Par, ParallelBridge, ParallelDrainFull, ParallelDrainRange, ParallelExtend,
    ParallelIterator,
};
#[doc(hidden)]
pub use runtime::ablation::Mechanism;
pub use runtime::cancel::{CancelToken, Cancelled};
pub use runtime::explain::explain;
pub use runtime::explained::Explained;
#[doc(hidden)]
pub use runtime::hooks;
#[doc(hidden)]
pub use runtime::listen::{listens, report_plan};
pub use runtime::pool::{
    Pool, PoolBuildError, PoolBuildErrorKind, PoolBuilder, ShutdownError, current_num_threads, shutdown,
};
pub use task::join::join;
pub use task::scope::{Scope, ScopedJoinHandle, scope};
pub use task::spawn::{JoinHandle, spawn, spawn_joinable};
#[cfg(feature = "async-team")]
pub use team::AsyncTeam;
pub use team::{Width, team};
pub use windrow_plan::Nanos;
#[doc(hidden)]
pub use windrow_plan::listen::Account;
#[doc(inline)]
pub use windrow_plan::listen::CallKind;

/// The traits of `par_iter` and the other parallel methods: `use windrow::prelude::*;`.
pub mod prelude {
    pub use crate::{
        FromParallelIterator, IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator,
        IntoParallelRefMutIterator, ParallelBridge, ParallelDrainFull, ParallelDrainRange, ParallelExtend,
        ParallelIterator, ParallelSlice, ParallelSliceMut, ParallelString,
    };
}

/// The README's examples, compiled.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;
