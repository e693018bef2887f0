#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batched;
mod counter;
mod keys;
mod ordered;
mod skiplist;

pub use counter::{Counter, Drained};
pub use keys::{Column, Exact, Key, Number, Plain, Prefix, Prefixed, Words};
pub use ordered::{
    Answer, Entry, IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, MapOp, NotAscending, OccupiedEntry, OrderedMap,
    OrderedSet, Query, Range, RangeMut, SetOp, SetRange, SharedSet, Update, VacantEntry, Values, ValuesMut,
};
pub use skiplist::{Nodes, SkipList};
