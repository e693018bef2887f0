//! Teams that run rounds in lockstep: what their rounds deal.

pub mod split;

pub use windrow_sync::grid::{Grid, GridError, GridRef};
