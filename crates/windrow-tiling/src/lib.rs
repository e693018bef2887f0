#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod cost;
pub mod tile;

pub use windrow_plan::{Alternative, Alternatives, Bytes, Decision, Items, Nanos, Rows};
