#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
mod decision;
pub mod estimate;
pub mod explore;
#[doc(hidden)]
pub mod listen;
pub mod machine;
pub mod share;
pub mod site;
pub mod spin;
pub mod team;
mod units;
pub mod width;

pub use decision::{Alternative, Alternatives, Decision};
pub use units::{Bytes, Items, Nanos, Rows};
