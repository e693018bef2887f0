#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use rayon_core::{
    BroadcastContext, FnContext, Scope, ScopeFifo, ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder,
    Yield, broadcast, current_num_threads, current_thread_has_pending_tasks, in_place_scope, in_place_scope_fifo, join,
    join_context, max_num_threads, scope, scope_fifo, spawn, spawn_broadcast, spawn_fifo, yield_local, yield_now,
};
#[allow(deprecated)]
pub use rayon_core::{Configuration, initialize};

/// The index of this thread in its pool, as in rayon. `None` on windrow's own threads, which run items until the program has called something
/// else than an iterator. There the first call prints a warning: rayon returns an index, and a program that unwraps it panics in one item
/// while others may wait for that one.
pub fn current_thread_index() -> Option<usize> {
    static WARNING: std::sync::Once = std::sync::Once::new();
    let index = rayon_core::current_thread_index();
    if index.is_none() && std::thread::current().name().is_some_and(|name| name.starts_with("windrow-")) {
        WARNING.call_once(|| {
            eprintln!(
                "warning: rayon::current_thread_index() is None on threads of windrow's own pools\n\
                 hint: call rayon::current_num_threads() before the first iterator; docs/from-rayon.md lists the differences"
            );
        });
    }
    index
}

pub use windrow::{array, collections, option, range, range_inclusive, result, slice, str, vec};

/// The traits that make `par_iter` and its kin callable.
pub mod prelude {
    pub use windrow::prelude::*;
}

/// Traits, and functions that make parallel iterators.
pub mod iter {
    pub use windrow::iter::*;
}
