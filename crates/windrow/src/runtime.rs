//! The runtime of parallel calls: pools and their threads, the CPUs of workers, and the statistics of call sites.
//!
//! Nothing here knows iterators, tasks or teams. The other modules define them, and call this one.

pub(crate) mod ablation;
pub(crate) mod call;
pub(crate) mod cancel;
pub(crate) mod cancellation;
pub(crate) mod explain;
pub(crate) mod explained;
pub(crate) mod flag;
pub(crate) mod hints;
pub mod hooks;
pub(crate) mod listen;
mod pace;
pub(crate) mod placement;
pub(crate) mod poll;
pub(crate) mod pool;
pub(crate) mod region;
pub(crate) mod sites;
pub(crate) mod spawn_threads;
pub(crate) mod state;
pub(crate) mod unmeasured;
