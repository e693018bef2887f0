//! All tests of the crate on real threads. The models are in `tests/loom`.
#![cfg(not(loom))]

mod safe;
mod table;
