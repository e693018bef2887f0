//! Hooks of `compat/rayon-core`, which builds another kind of pools on windrow's joins. Hidden: they may change with any version.

use std::sync::Arc;

use windrow_sync::Spin;
use windrow_sync::gate::{Gate, WorkersElsewhere};
use windrow_sync::join::tree::JoinTiming;

pub use super::call::region_of;
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

/// Listener to calls that begin outside any pool. Calls nest; each ends on the thread on which it began.
pub trait OutsideCalls: Sync {
    /// A call begins.
    fn begin(&self);
    /// A call ends.
    fn end(&self);
}

/// Makes `pool` the one that calls outside any pool use. Without effect after a [`shutdown`](crate::shutdown).
pub fn make_global(pool: &Pool, calls: &'static dyn OutsideCalls) {
    pool::adopt(&pool.state, calls);
}

/// Intervals of a tree of joins that lasts as long as its workers. A worker without work yields, and does not spin: a thread outside the pool
/// has handed work over and waits, and as soon as that work has ended it needs a CPU.
pub fn join_timing() -> JoinTiming {
    let timing = Timing::of_process();
    // A busy member offers work after a heartbeat at the latest.
    let heartbeat = timing.ticks(timing.machine.heartbeat());
    timing.joins(Spin { busy: 0, yielding: 2 * heartbeat })
}
