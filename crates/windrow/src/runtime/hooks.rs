//! Hooks of `compat/rayon-core`, which builds another kind of pools on windrow's joins. Hidden: they may change with any version.

use std::sync::Arc;

use windrow_sync::Spin;
use windrow_sync::gate::{Gate, WorkersElsewhere};
use windrow_sync::join::tree::JoinTiming;
use windrow_sync::machine;

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

/// Intervals of a tree of joins that lasts as long as its `workers`. With more workers than CPUs none of them spins: another thread needs
/// the CPU.
pub fn join_timing(workers: usize) -> JoinTiming {
    let timing = Timing::of_process();
    let heartbeat = timing.ticks(timing.machine.heartbeat());
    // A busy member offers work after a heartbeat at the latest. A spinning worker takes the offer without a wakeup.
    let spin = if workers <= machine::cpus() { Spin { busy: heartbeat, yielding: heartbeat } } else { Spin::NONE };
    timing.joins(spin)
}
