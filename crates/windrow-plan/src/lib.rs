//! The decisions of windrow, as pure functions.
//!
//! No threads, no clock, no I/O, no unsafe: what is measured comes in as a value, and what is decided goes out as a
//! [`Decision`] that can be printed, compared and replayed. The runtime measures and obeys.
#![forbid(unsafe_code)]

pub mod batch;
pub mod cost;
mod decision;
pub mod grain;
pub mod heartbeat;
pub mod looking;
pub mod memory;
pub mod simulate;
pub mod team;
pub mod tile;
pub mod track;
mod units;

pub use decision::{Alternative, Alternatives, Decision};
pub use units::{Bytes, Items, Nanos, Rows};
