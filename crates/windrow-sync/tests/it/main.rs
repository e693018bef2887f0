//! All tests of the crate on real threads. The models of the protocols are in `tests/loom`.
#![cfg(not(loom))]

mod divide;
#[cfg(all(target_os = "linux", not(miri)))]
mod fork;
mod gate;
mod join;
mod lend;
mod machine;
mod merge;
mod rounds;
mod safe;
mod submit;
mod table;
mod unwind;
mod views;
