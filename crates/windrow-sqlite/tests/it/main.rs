//! All tests of the crate.

mod common;
mod ended;
mod killed;
mod writes;
