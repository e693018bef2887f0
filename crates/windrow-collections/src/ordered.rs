//! The ordered map and set.

mod batch;
mod deal;
mod entry;
mod iter;
mod leaf;
mod map;
mod ops;
mod part;
mod query;
mod separators;
mod set;
mod shard;
mod shared;
mod update;
mod walk;
mod whole;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, Range, RangeMut, SetRange, Values, ValuesMut};
pub use map::OrderedMap;
pub(crate) use ops::{All, Mixed, Ops, Verb, of_set, value_of};
pub use ops::{MapOp, SetOp};
pub use query::{Answer, Query};
pub use set::OrderedSet;
pub use shared::SharedSet;
pub(crate) use update::FirstPanic;
pub use update::Update;
pub use whole::NotAscending;
