//! Reads Rust files: comments and code told apart, memory orderings, and numeric constants. It judges nothing; the
//! rules are in `xtask`.

mod cfg;
mod constants;
mod orderings;
mod source;

pub use constants::{Constant, constants};
pub use orderings::{Call, Ordering, orderings};
pub use source::{Crate, Source, matches};
