#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batched;
mod counter;
mod keys;
mod ordered;
mod skiplist;

pub use counter::{Counter, Drained};
pub use keys::{Column, Exact, Key, Number, Plain, Prefix, Prefixed, Words};
pub use ordered::{Iter, Keys, MapOp, Ops, OrderedMap, OrderedSet, SetOp, Update, Verb};
pub use skiplist::{Nodes, SkipList};
