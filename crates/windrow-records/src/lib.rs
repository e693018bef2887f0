//! Records: the tables below `bench/record`, and what is made from them.
//!
//! That is the table of harm, the verdicts, the picture, and the blocks of figures in documents; CONTRIBUTING.md has the grammar.

mod bars;
mod blocks;
mod harm;
mod picture;
mod record;
mod results;
pub mod tools;
mod value;

pub use harm::{Cell, Comparison};
pub use record::Record;
pub use results::Results;
pub use value::median;
