//! What runs parallel calls: pools, their threads, where these run, and what call sites remember.
//!
//! Nothing here knows of iterators, tasks or teams: those are the folders beside, and they call this one.

pub(crate) mod ablation;
pub(crate) mod cancel;
pub(crate) mod cancellation;
pub(crate) mod explain;
pub(crate) mod flag;
pub(crate) mod hints;
pub(crate) mod placement;
pub(crate) mod poll;
pub(crate) mod pool;
pub(crate) mod quota;
pub(crate) mod region;
pub(crate) mod sites;
pub(crate) mod spawn_threads;
pub(crate) mod state;
