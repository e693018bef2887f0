//! The ordered map and set.

mod batch;
mod deal;
mod leaf;
mod map;
mod ops;
mod separators;
mod set;
mod shard;

pub use map::OrderedMap;
pub use ops::{MapOp, Ops, SetOp, Verb};
pub use set::OrderedSet;
