#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod document;
pub mod encode;
pub mod engine;
pub mod input;
pub mod manifest;
pub mod output;
mod remedy;
mod shown;
pub mod tokenizer;

pub use shown::{Shown, shown};
