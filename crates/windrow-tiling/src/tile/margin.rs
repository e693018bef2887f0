//! Whether the predicted gain of a cut is worth the cut.
//!
//! A prediction is off by some share. If a cut is predicted to gain less than that, not to cut may be faster, and it is the safer of the
//! two: it pays nothing per tile, and no contention.

use std::fmt;

use crate::Nanos;

/// What a cut has to gain to be worth it.
///
/// ```
/// use windrow_tiling::Nanos;
/// use windrow_tiling::tile::Margin;
///
/// let margin = Margin { error: 0.05, per_call: Nanos::micros(3.0) };
/// assert_eq!(margin.to_string(), "5.0 % and 3.0 us");
/// assert!(margin.allows(Nanos::micros(90.0), Nanos::micros(100.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The share by which a cut may take longer than predicted.
    pub error: f64,
    /// The additional time of a call that is cut, outside of its tiles: such as agreeing about them.
    pub per_call: Nanos,
}

impl Margin {
    /// Any gain is worth a cut.
    pub const NONE: Margin = Margin { error: 0.0, per_call: Nanos(0.0) };

    /// Whether a cut pays: its predicted time is below that of one tile, even if it takes as much longer as the margin says.
    ///
    /// ```
    /// use windrow_tiling::Nanos;
    /// use windrow_tiling::tile::Margin;
    ///
    /// let margin = Margin { error: 0.1, per_call: Nanos(20.0) };
    /// assert!(margin.allows(Nanos(800.0), Nanos(1000.0)));
    /// assert!(!margin.allows(Nanos(900.0), Nanos(1000.0)));
    /// ```
    pub fn allows(self, cut: Nanos, serial: Nanos) -> bool {
        cut.0 * (1.0 + self.error) + self.per_call.0 < serial.0
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", 100.0 * self.error)?;
        if self.per_call.0 > 0.0 { write!(f, " and {}", self.per_call) } else { Ok(()) }
    }
}
