//! Padding against false sharing.

/// A value on separate cache lines: 128 bytes, since x86 prefetches lines in pairs and some aarch64 lines are 128.
///
/// ```
/// use windrow_sync::Pad;
///
/// let counts = [Pad(1_u8), Pad(2)];
/// assert_eq!(size_of_val(&counts), 2 * 128);
/// assert_eq!(counts[1].0, 2);
/// ```
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Pad<T>(pub T);
