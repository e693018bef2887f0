//! All tests of the crate.

mod alike;
mod batched;
mod drop_in;
mod oracle;
mod panics;
mod queries;
mod shared;
mod skiplist;
mod surface;
mod updates;
