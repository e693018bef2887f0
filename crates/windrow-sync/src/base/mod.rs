//! Primitives of all protocols. This module depends on no protocol and makes no decision.

pub(crate) mod debug;
pub mod exit;
pub mod fork;
pub mod latch;
pub mod machine;
pub(crate) mod mutex;
pub(crate) mod pad;
pub(crate) mod primitives;
pub mod quota;
pub mod relaxed;
pub(crate) mod spin;
pub(crate) mod thread_bound;
pub mod unwind;
pub mod waiters;
pub mod word;
