#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod batch;
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

pub use units::{Items, Nanos};
