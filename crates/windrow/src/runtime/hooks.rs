//! Hooks of `compat/rayon-core`, which builds another kind of pools on windrow's joins. Hidden: they may change with any version.

use std::sync::Arc;

use windrow_sync::Spin;
use windrow_sync::gate::{Gate, WorkersElsewhere};
use windrow_sync::join::tree::JoinTiming;

use super::call::here;
pub use super::call::region_of;
pub use super::pool::default_threads;
use super::pool::{self, Pool};
use super::state::{PoolState, Timing};

/// A pool without threads of its own: its `workers` wait elsewhere, and visit its [`gate`] when they are called. A caller that is no worker
/// of it takes part in its calls, instead of one of them.
pub fn pool_elsewhere(workers: usize, elsewhere: Box<dyn WorkersElsewhere>) -> Pool {
    let state = PoolState::behind(Gate::elsewhere(workers, elsewhere), workers);
    Pool::without_threads(Arc::new(state))
}

/// The gate that workers of a [`pool_elsewhere`] visit.
pub fn gate(pool: &Pool) -> &Gate {
    &pool.state.gate
}

/// Makes `pool` the one that calls outside any pool use. Without effect after a [`shutdown`](crate::shutdown).
pub fn make_global(pool: &Pool) {
    pool::adopt(&pool.state);
}

/// The number of threads that rayon's environment variables ask for: the second name is the older one.
pub fn rayon_threads() -> Option<usize> {
    let variable = |name| std::env::var(name).ok()?.parse::<usize>().ok();
    variable("RAYON_NUM_THREADS").or_else(|| variable("RAYON_RS_NUM_CPUS")).filter(|&threads| threads > 0)
}

/// Stay of a thread inside a call on the global pool: as its caller, or as a worker that has joined. Counted with the feature `rayon` only.
pub(crate) struct InCall(());

impl InCall {
    #[inline]
    pub(crate) fn begin() -> InCall {
        if cfg!(feature = "rayon") {
            here(|here| here.global.set(here.global.get() + 1));
        }
        InCall(())
    }
}

impl Drop for InCall {
    #[inline]
    fn drop(&mut self) {
        if !cfg!(feature = "rayon") {
            return;
        }
        let at_end = here(|here| {
            here.global.set(here.global.get() - 1);
            if here.global.get() == 0 { here.at_end.take() } else { None }
        });
        if let Some(at_end) = at_end {
            at_end();
        }
    }
}

/// True if this thread is inside a call on the global pool, with the feature `rayon`.
pub fn is_inside_call() -> bool {
    here(|here| here.global.get() > 0)
}

/// Calls `at_end` when the outermost call of this thread ends, or the part of a worker that has joined. Where
/// [`is_inside_call`] is true.
pub fn when_call_ends(at_end: fn()) {
    here(|here| here.at_end.set(Some(at_end)));
}

/// Intervals of a tree of joins that lasts as long as its workers. A worker without work yields, and does not spin: a thread outside the pool
/// has handed work over and waits, and as soon as that work has ended it needs a CPU.
pub fn join_timing() -> JoinTiming {
    let timing = Timing::of_process();
    // A busy member offers work after a heartbeat at the latest.
    let heartbeat = timing.ticks(timing.machine.heartbeat());
    timing.joins(Spin { busy: 0, yielding: 2 * heartbeat })
}
