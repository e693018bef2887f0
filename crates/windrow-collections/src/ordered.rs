//! The ordered map and set.

mod batch;
mod deal;
mod iter;
mod leaf;
mod map;
mod ops;
mod part;
mod separators;
mod set;
mod shard;
mod update;

pub use iter::Iter;
pub use map::OrderedMap;
pub(crate) use ops::{All, Mixed, of_set};
pub use ops::{MapOp, Ops, SetOp, Verb};
pub use set::{Keys, OrderedSet};
pub use update::Update;
