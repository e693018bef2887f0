#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod commits;
mod error;
mod group;
mod guard;
mod write;

pub use commits::Commits;
pub use error::Error;
pub use group::{Builder, GroupCommit};
pub use write::Write;
