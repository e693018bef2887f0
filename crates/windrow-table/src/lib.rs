#![doc = include_str!("../README.md")]

pub mod assembly;
pub mod table;

/// Atomics of the standard library, or of loom in a model.
mod primitives {
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    #[cfg(not(loom))]
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}
