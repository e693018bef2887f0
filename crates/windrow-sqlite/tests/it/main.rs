//! All tests of the crate.

mod common;
mod ended;
mod faults;
mod killed;
mod wal;
mod writes;
