#![doc = include_str!("README.md")]

mod claim;
pub mod divide;
pub mod gate;
mod inside;
pub mod merge;
pub mod ranges;
pub mod slots;
pub mod sources;
pub mod views;
