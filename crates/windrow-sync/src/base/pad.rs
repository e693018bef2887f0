//! Padding against false sharing.

/// A value on separate cache lines: 128 bytes, since x86 prefetches lines in pairs and some aarch64 lines are 128.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Pad<T>(pub T);
