#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
mod decision;
pub mod grain;
pub mod heartbeat;
pub mod looking;
pub mod memory;
pub mod team;
pub mod track;
mod units;

pub use decision::{Alternative, Alternatives, Decision};
pub use units::{Bytes, Items, Nanos, Rows};
