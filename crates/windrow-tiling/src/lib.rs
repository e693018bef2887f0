#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod cost;
mod decision;
#[cfg(feature = "planner")]
pub mod planner;
pub mod tile;
mod units;

pub use decision::{Alternative, Alternatives, Decision};
pub use units::{Bytes, Rows};
pub use windrow_plan::{Items, Nanos};
