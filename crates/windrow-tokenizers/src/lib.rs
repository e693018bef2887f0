#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch_encode;
pub mod dataset;
pub mod document;
pub mod encode;
pub mod engine;
pub mod full;
pub mod input;
mod json_parts;
mod kept;
pub mod manifest;
pub mod output;
mod remedy;
mod shown;
pub mod tokenizer;

pub use batch_encode::BatchEncode;
pub use shown::{Shown, shown};
pub use tokenizers_023;
