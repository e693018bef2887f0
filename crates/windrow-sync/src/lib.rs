#![doc = include_str!("../README.md")]
//! ## Modules
//!
//! | module | what it holds | protocol in one line |
//! |---|---|---|
//! | [`gate`] | one word that opens, admits to and closes a region | members join by one CAS; the caller waits for these only |
//! | [`relaxed`] | numbers that may be outdated | only speed depends on them |
//! | [`word`] | park and wake: words to park on | comparing and parking are one step for the waker |
//! | [`latch`] | "the last member has left" | set once, waited for once |
//! | [`ranges`] | packed `begin:end` words, one a member | owner takes from the front, thief the back half |
//! | [`flag`] | raised once, checked often | one load, one store, nothing else |
//! | [`divide`], [`sources`], [`views`], [`slots`] | a source handed out in chunks, each to one member | the claim token is the chunk |
//! | [`rounds`] | a barrier that owns the data, and lends it out until the next round | the last to arrive writes a message to each |
//! | [`marks`] | where to stop, how many more | relaxed: they publish no data |
//! | [`join`] | recursion on a heartbeat: trees of joins, and work for guests | a swap of a slot decides which member runs a half |
//! | [`lend`] | closures that borrow, as jobs for any queue | the host returns when no loan is open |
//! | [`grid`] | rows and columns of a slice, cut both ways | a cut consumes the view and deals each cell to one side |
//! | [`submit`] | operations of many callers, run by the holder of the lock | one word is the lock and the list: no node is queued unseen |
//! | [`merge`] | the moves of a stable sort | the source stays complete until the target is |
//! | [`unwind`] | payloads of panics, and values that no caller receives | |
//! | [`fork`] | a value that is rebuilt in a forked child | nothing is locked, so nothing can be inherited locked |
//! | [`machine`] | clock, prefetch, CPUs, quota, fork generation | |

#[cfg(doctest)]
mod compile_fail;
pub mod divide;
pub mod flag;
pub mod fork;
pub mod gate;
pub mod grid;
pub mod join;
pub mod latch;
pub mod lend;
pub mod machine;
pub mod marks;
pub mod merge;
mod primitives;
pub mod ranges;
pub mod relaxed;
pub mod rounds;
pub mod slots;
pub mod sources;
mod spin;
pub mod submit;
pub mod unwind;
pub mod views;
pub mod word;

pub use spin::Spin;

/// A value on separate cache lines: 128 bytes, since x86 prefetches lines in pairs and some aarch64 lines are 128.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Pad<T>(pub T);
