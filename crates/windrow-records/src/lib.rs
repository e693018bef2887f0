//! Records: the tables below `bench/record`, and what is made from them. Harm, verdicts, `bench/RESULTS.md`, and the figures that documents
//! quote; CONTRIBUTING.md has the grammar.

mod bars;
mod document;
mod figures;
mod harm;
mod record;
mod rerun;
mod sources;
pub mod tools;
mod value;

pub use document::Results;
pub use harm::{Cell, Comparison};
pub use record::Record;
pub use rerun::{BarChanges, Change, Rerun, Unpaired};
pub use value::median;
