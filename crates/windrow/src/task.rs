//! Parallel work other than loops: recursion ([`join`](join::join)), scopes and spawned closures.

pub(crate) mod join;
pub(crate) mod scope;
pub(crate) mod spawn;
