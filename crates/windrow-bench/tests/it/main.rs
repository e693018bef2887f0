//! All tests of the crate but `batch_tasks.rs`, which has an allocator that counts.

mod async_team;
mod interop;
mod surface;
mod tower;
