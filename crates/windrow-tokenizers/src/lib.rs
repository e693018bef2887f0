#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch_encode;
pub mod chat;
mod compression;
pub mod dataset;
mod diagnose;
pub mod document;
pub mod encode;
pub mod engine;
mod format;
pub mod full;
pub mod input;
mod json_parts;
mod kept;
pub mod manifest;
pub mod output;
mod pack;
mod remedy;
pub mod run;
mod selection;
mod shard;
mod shown;
mod spec;
pub mod tokenizer;
mod values;

pub use batch_encode::BatchEncode;
#[doc(hidden)]
pub use json_parts::text_in_parts;
pub use shown::{Shown, counted, decimal, grouped, shown, shown_lines, to_json};
