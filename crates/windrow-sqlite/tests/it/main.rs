//! All tests of the crate.

mod common;
mod killed;
mod writes;
