//! Reads Rust files: comments and code told apart, memory orderings, numeric constants, and which module uses which. It judges nothing; the
//! rules are in `xtask`.

mod cfg;
mod constants;
mod modules;
mod orderings;
mod source;

pub use constants::{Constant, constants};
pub use modules::{Uses, circles, uses};
pub use orderings::{Call, Ordering, orderings};
pub use source::{Crate, Source, matches};
