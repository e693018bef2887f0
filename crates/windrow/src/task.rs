//! Parallel work other than loops: recursion ([`join`](join::join)), scopes, spawned closures, and pools of workers that run tasks.

pub(crate) mod join;
pub(crate) mod scope;
pub(crate) mod spawn;
pub mod workers;
