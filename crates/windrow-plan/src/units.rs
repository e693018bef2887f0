//! Units as types: a duration cannot be taken for a count.

use std::fmt;

/// Nanoseconds.
///
/// ```
/// use windrow_plan::Nanos;
///
/// let times = [Nanos(850.0), Nanos(12_500.0), Nanos(3.2e6)];
/// assert_eq!(times.map(|time| time.to_string()), ["850 ns", "12.5 us", "3.2 ms"]);
/// assert!(times.is_sorted());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Nanos(pub f64);

impl Nanos {
    /// Microseconds.
    pub fn micros(micros: f64) -> Self {
        Nanos(micros * 1000.0)
    }

    /// In microseconds.
    pub fn as_micros(self) -> f64 {
        self.0 / 1000.0
    }
}

impl fmt::Display for Nanos {
    /// With the unit that suits the size: `850 ns`, `12.5 us`, `3.2 ms`, `1.75 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0;
        match nanos.abs() {
            // What rounds to 0 has no sign.
            size if size < 1e3 => write!(f, "{:.0} ns", nanos.round() + 0.0),
            size if size < 1e6 => write!(f, "{:.1} us", nanos / 1e3),
            size if size < 1e9 => write!(f, "{:.1} ms", nanos / 1e6),
            _ => write!(f, "{:.2} s", nanos / 1e9),
        }
    }
}

/// A number of items, or of their weight where a call gives weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Items(pub u64);

impl fmt::Display for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_choose_their_unit() {
        let shown: Vec<String> = [0.0, -0.2, 850.4, 12_500.0, 3.2e6, 1.75e9].map(|n| Nanos(n).to_string()).into();
        assert_eq!(shown, ["0 ns", "0 ns", "850 ns", "12.5 us", "3.2 ms", "1.75 s"]);
        assert_eq!(Nanos::micros(2.0), Nanos(2000.0));
        assert_eq!(Nanos(2500.0).as_micros(), 2.5);
        assert_eq!(Items(7).to_string(), "7");
    }
}
