#![doc = include_str!("../README.md")]

mod added;
mod agenda;
mod batch;
mod cache;
mod encoder;
mod engine;
mod grammar;
mod memory;
mod model;
mod nfc;
mod scan;
mod simd;
mod split;
mod unicode;

pub use added::AddedToken;
pub use batch::Ragged;
pub use encoder::Counts;
pub use engine::{BpeEngine, Definition, EngineOptions, NoMemory, UnknownId, Unsupported, instruction_sets};
pub use grammar::{Digits, Grammar};
pub use model::merge_by_definition;
