//! All tests of the crate.

mod cost;
mod models;
mod ranks;
mod tile;
