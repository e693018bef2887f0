#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use rayon_core::{
    BroadcastContext, FnContext, Scope, ScopeFifo, ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder,
    Yield, broadcast, current_num_threads, current_thread_has_pending_tasks, current_thread_index, in_place_scope,
    in_place_scope_fifo, join, join_context, max_num_threads, scope, scope_fifo, spawn, spawn_broadcast, spawn_fifo,
    yield_local, yield_now,
};
#[allow(deprecated)]
pub use rayon_core::{Configuration, initialize};

pub use windrow::{array, collections, option, range, range_inclusive, result, slice, str, vec};

/// The traits that make `par_iter` and its kin callable.
pub mod prelude {
    pub use windrow::prelude::*;
}

/// Traits, and functions that make parallel iterators.
pub mod iter {
    pub use windrow::iter::*;
}
