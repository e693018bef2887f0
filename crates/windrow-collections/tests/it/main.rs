//! All tests of the crate.

mod batched;
mod oracle;
mod panics;
mod skiplist;
mod surface;
mod updates;
