#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
mod decision;
#[doc(hidden)]
pub mod estimate;
#[doc(hidden)]
pub mod explore;
#[doc(hidden)]
pub mod listen;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod share;
#[doc(hidden)]
pub mod site;
#[doc(hidden)]
pub mod spin;
#[doc(hidden)]
pub mod team;
mod units;
#[doc(hidden)]
pub mod width;

pub use decision::{Alternative, Alternatives, Decision};
pub use units::{Bytes, Items, Nanos, Rows};
