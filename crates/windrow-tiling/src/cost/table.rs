//! Measured times that are looked up instead of fitted.

use std::collections::BTreeMap;

use super::{Fit, Sample, Size};
use crate::{Nanos, Rows};

/// The measured time of each size: the median if the size was measured repeatedly.
///
/// ```
/// use windrow_tiling::cost::{Sample, TimeTable};
/// use windrow_tiling::{Nanos, Rows};
///
/// let samples = [(128, 40.0), (256, 90.0), (384, 70.0), (384, 60.0)];
/// let table = TimeTable::new(&samples.map(|(rows, us)| Sample { size: Rows(rows), time: Nanos::micros(us) }));
/// assert_eq!(table.at(Rows(384)), Nanos::micros(65.0));
/// assert!(table.has_all_tiles(Rows(384), Rows(128)) && !table.has_all_tiles(Rows(512), Rows(128)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeTable<S> {
    times: BTreeMap<S, Nanos>,
}

impl<S: Size> TimeTable<S> {
    /// A table of samples in any order.
    pub fn new(samples: &[Sample<S>]) -> Self {
        let mut times: BTreeMap<S, Vec<f64>> = BTreeMap::new();
        for Sample { size, time } in samples {
            times.entry(*size).or_default().push(time.0);
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            Nanos((times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0)
        };
        Self { times: times.into_iter().map(|(size, times)| (size, median(times))).collect() }
    }

    /// The time of a size. Between two measured sizes it is interpolated; below all of them it is that of the smallest one, and beyond them
    /// it grows in proportion. 0 if the table is empty.
    pub fn at(&self, size: S) -> Nanos {
        let below = self.times.range(..=size).next_back();
        let above = self.times.range(size..).next();
        match (below, above) {
            (Some((low, least)), Some((high, _))) if low == high => *least,
            (Some((low, least)), Some((high, most))) => {
                let share = (size.count() - low.count()) as f64 / (high.count() - low.count()) as f64;
                Nanos(least.0 + share * (most.0 - least.0))
            }
            (Some((low, least)), None) => Nanos(least.0 * (size.count() as f64 / low.count() as f64)),
            (None, Some((_, most))) => *most,
            (None, None) => Nanos(0.0),
        }
    }

    /// The measured time of a size; `None` if it was not measured.
    pub fn get(&self, size: S) -> Option<Nanos> {
        self.times.get(&size).copied()
    }

    /// The measured sizes in ascending order, with their times.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (S, Nanos)> + DoubleEndedIterator + '_ {
        self.times.iter().map(|(size, time)| (*size, *time))
    }
}

impl TimeTable<Rows> {
    /// Whether every tile that `rows` rows can have was measured, if tiles begin at multiples of `align`.
    pub fn has_all_tiles(&self, rows: Rows, align: Rows) -> bool {
        let (Rows(rows), Rows(align)) = (rows, Rows(align.0.max(1)));
        // There are fewer sizes than places to cut.
        if rows / align > self.times.len() as u64 {
            return false;
        }
        let has = |rows: u64| rows == 0 || self.times.contains_key(&Rows(rows));
        has(rows) && (1..=rows / align).all(|place| has(place * align) && has(rows - place * align))
    }

    /// Whether a plan should look times up instead of using the fit: every possible tile was measured, and the fit misses a size by more than
    /// samples scatter.
    pub fn replaces(&self, fit: &Fit<Rows>, rows: Rows, align: Rows) -> bool {
        fit.worst().relative().abs() > fit.noise && self.has_all_tiles(rows, align)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Fitting, fit};

    fn samples(given: &[(u64, f64)]) -> Vec<Sample<Rows>> {
        given.iter().map(|&(rows, micros)| Sample { size: Rows(rows), time: Nanos::micros(micros) }).collect()
    }

    #[test]
    fn times_are_looked_up_and_interpolated() {
        let table = TimeTable::new(&samples(&[(512, 100.0), (128, 10.0), (256, 90.0), (384, 20.0)]));
        assert_eq!([128, 256, 384, 512].map(|rows| table.at(Rows(rows)).as_micros()), [10.0, 90.0, 20.0, 100.0]);
        // Between two sizes, below all and beyond them.
        assert_eq!([192, 64, 1024].map(|rows| table.at(Rows(rows)).as_micros()), [50.0, 10.0, 200.0]);
        assert_eq!((table.get(Rows(128)), table.get(Rows(129))), (Some(Nanos::micros(10.0)), None));
        assert_eq!(table.iter().map(|(size, _)| size.0).collect::<Vec<_>>(), [128, 256, 384, 512]);
        assert_eq!(TimeTable::new(&samples(&[])).at(Rows(5)), Nanos(0.0));
    }

    #[test]
    fn a_table_replaces_a_fit_that_misses_if_it_has_every_tile() {
        let jagged = samples(&[(128, 10.0), (256, 90.0), (384, 20.0), (512, 100.0)]);
        let table = TimeTable::new(&jagged);
        let misses = fit(&jagged, &Fitting::UNLIMITED).unwrap();
        assert!(table.replaces(&misses, Rows(512), Rows(128)));
        // A size that a tile may have is missing: 640, or 100 and 228 if the last tile is ragged.
        assert!([640, 484].iter().all(|&rows| !table.replaces(&misses, Rows(rows), Rows(128))));
        assert!(TimeTable::new(&samples(&[(100, 1.0), (128, 9.0), (228, 2.0)])).has_all_tiles(Rows(228), Rows(128)));
        let line = samples(&[(128, 2.0), (256, 3.0), (384, 4.0), (512, 5.0)]);
        let hits = fit(&line, &Fitting::default()).unwrap();
        assert!(!TimeTable::new(&line).replaces(&hits, Rows(512), Rows(128)));
    }
}
