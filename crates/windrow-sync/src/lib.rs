#![doc = include_str!("../README.md")]
//! ## Modules
//!
//! | module | what it holds | protocol in one line |
//! |---|---|---|
//! | [`gate`] | one word that opens a region, seats its members and closes it | members join by one exchange; the caller waits only for those who did |
//! | [`hint`] | numbers that may be outdated | nothing depends on them but speed |
//! | [`word`] | park and wake: words to sleep on | comparing and falling asleep are one step for the waker |
//! | [`latch`] | "the last member has left" | set once, waited for once |
//! | [`ranges`] | packed `begin:end` words, one a member | owner takes from the front, thief the back half |
//! | [`flag`] | raised once, looked at often | one load, one store, nothing else |
//! | [`divide`], [`sources`], [`views`], [`slots`] | a source handed out in chunks nobody else has | the claim token is the chunk |
//! | [`rounds`] | a barrier that owns the data, and lends it out until the next round | the last to arrive writes a letter to each |
//! | [`marks`] | where to stop, how many more | hints: they carry nothing |
//! | [`join`] | recursion on a heartbeat: trees of joins, and work for guests | an exchange on a slot decides who runs a half |
//! | [`grid`] | rows and columns of a slice, cut both ways | a cut consumes the view and deals each cell to one side |
//! | [`submit`] | operations of many callers, run by whoever holds the lock | one word is the lock and the list: what is queued is known to somebody |
//! | [`merge`] | the moves of a stable sort | the source is whole until the target is |
//! | [`fork`] | a value that is rebuilt in a forked child | nothing is locked, so nothing can be inherited locked |
//! | [`machine`] | clock, prefetch, CPUs, quota, fork generation | |

#[cfg(doctest)]
mod compile_fail;
pub mod divide;
pub mod flag;
pub mod fork;
pub mod gate;
pub mod grid;
pub mod hint;
pub mod join;
pub mod latch;
pub mod machine;
pub mod marks;
pub mod merge;
mod primitives;
pub mod ranges;
pub mod rounds;
pub mod slots;
pub mod sources;
mod spin;
pub mod submit;
pub mod views;
pub mod word;

pub use spin::Spin;

/// One value on cache lines of its own: 128 bytes, since x86 prefetches lines in pairs and some aarch64 lines are 128.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Pad<T>(pub T);
