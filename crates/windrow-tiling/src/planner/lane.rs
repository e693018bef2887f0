//! The cost of tiles in a lane, as plans use it: a fit, or a table if every possible size of a tile was measured.

use crate::cost::{Fit, FitError, Fitting, Piece, Residual, Sample, TimeTable, fit};
use crate::tile::{Lane, Tiles, counted_rows};
use crate::{Nanos, Rows};

/// Maximum number of sizes that are skipped one by one to find the one that does not fit. With more, only the one that the fit names is.
const MOST_TRIED: usize = 64;

/// Assumed fixed cost of a product and of a collective in microseconds, where one size was measured: those of a launch, and of a short message.
const FIXED_COSTS: (f64, f64) = (5.0, 10.0);

/// Smallest part of a single measured size that the line through it stands for: a quarter of its rows.
const PARTS: u64 = 4;

/// Rows of an operation, and the alignment of its tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts {
    pub(super) rows: u64,
    pub(super) align: u64,
}

impl Cuts {
    /// Whether every possible tile has one of the sizes.
    fn are_among(self, table: &TimeTable<Rows>) -> bool {
        table.has_all_tiles(Rows(self.rows), Rows(self.align))
    }
}

/// The cost of a lane.
#[derive(Debug)]
pub(super) struct LaneCost {
    pub(super) lane: Lane,
    /// Every measured size, with the median of its times.
    measured: TimeTable<Rows>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Fit(Fit<Rows>),
    /// The line of one measured size and an assumed fixed cost, or of two sizes.
    Assumed(Fit<Rows>),
    /// The measured times. A fit would miss one of them by more than noise, or is refused.
    Table {
        unfit: String,
    },
}

impl LaneCost {
    /// A fit that misses its samples by no more than noise; otherwise a table if every possible tile was measured; otherwise a fit
    /// within the limit.
    pub(super) fn new(lane: Lane, samples: &[Sample<Rows>], cuts: Cuts, limit: f64) -> Result<Self, FitError<Rows>> {
        let measured = TimeTable::new(samples);
        let source = match fit(samples, &Fitting { limit, ..Fitting::default() }) {
            Ok(fit) if measured.replaces(&fit, Rows(cuts.rows), Rows(cuts.align)) => {
                Source::Table { unfit: missed(&fit.worst()) }
            }
            Ok(fit) => Source::Fit(fit),
            Err(FitError::Misses { residual, .. }) if cuts.are_among(&measured) => {
                Source::Table { unfit: missed(&residual) }
            }
            Err(FitError::Falls { smaller, larger, .. }) if cuts.are_among(&measured) => {
                Source::Table { unfit: format!("{larger} rows take less time than {smaller}") }
            }
            Err(FitError::TooFew { sizes }) if sizes > 0 && cuts.are_among(&measured) => {
                Source::Table { unfit: format!("sizes measured: {sizes}") }
            }
            Err(unfit) => return Err(unfit),
        };
        Ok(Self { lane, measured, source })
    }

    /// The cost without the size whose removal fits best, and a note that names it. `None` if fewer than three other sizes remain, or no
    /// removal gives a fit within the limit.
    pub(super) fn without_one(
        lane: Lane,
        samples: &[Sample<Rows>],
        cuts: Cuts,
        limit: f64,
        unfit: &FitError<Rows>,
    ) -> Option<(Self, String)> {
        let measured = TimeTable::new(samples);
        let named = match unfit {
            FitError::Misses { residual, .. } => vec![residual.size],
            FitError::Falls { smaller, larger, .. } => vec![*smaller, *larger],
            _ => return None,
        };
        let few = measured.iter().len() <= MOST_TRIED;
        let tried = if few { measured.iter().map(|(size, _)| size).collect() } else { named };
        let without = |size: Rows| {
            let others: Vec<Sample<Rows>> = samples.iter().filter(|sample| sample.size != size).copied().collect();
            Some((size, Self::new(lane, &others, cuts, limit).ok()?))
        };
        let best =
            tried.into_iter().filter_map(without).min_by(|(_, one), (_, other)| one.worst().total_cmp(&other.worst()));
        let (size, cost) = best?;
        let missed = missed(&Residual { size, measured: measured.get(size)?, fitted: cost.at(size) });
        Some((cost, format!("one measured size of the {lane} does not fit the others and is ignored: {missed}")))
    }

    /// The cost of a lane that was measured at one size or two, and a note with what it assumes. Of one size: a fixed cost, and the rest of the time
    /// in proportion to the rows. Of two: a line. `None` if no cost is near that line, or there are too few rows.
    pub(super) fn assumed(
        lane: Lane,
        samples: &[Sample<Rows>],
        given: Option<(f64, f64)>,
    ) -> Result<Option<(Self, String)>, String> {
        let measured = TimeTable::new(samples);
        let sizes: Vec<(Rows, Nanos)> = measured.iter().collect();
        let Some((&(size, time), others)) = sizes.split_first() else { return Ok(None) };
        let (line, at, assumed) = match others.first() {
            Some((larger, longer)) => {
                let each = (longer.0 - time.0) / (larger.0 - size.0) as f64;
                let assumed = format!("two sizes, {size} and {larger} rows; assuming a linear cost");
                ((time.0 - each * size.0 as f64, each), [size.0, size.0.midpoint(larger.0), larger.0], assumed)
            }
            None => {
                let (fixed, least) = (fixed_cost(lane, (size, time), given)?, size.0 / PARTS);
                let assumed = format!(
                    "one size, {size} rows; assuming a fixed cost of {fixed} plus, from {least} rows on, \
                     a time proportional to the number of rows (set the fixed cost with --fixed-costs C,M)"
                );
                ((fixed.0, (time.0 - fixed.0) / size.0 as f64), [least, size.0 / 2, size.0], assumed)
            }
        };
        let (fixed, each) = line;
        let on_line = at.map(|rows| Sample { size: Rows(rows), time: Nanos(fixed + each * rows as f64) });
        let cost =
            fit(&on_line, &Fitting::default()).ok().map(|fit| Self { lane, measured, source: Source::Assumed(fit) });
        Ok(cost.map(|cost| (cost, format!("the {lane} was measured at {assumed}"))))
    }

    /// The time of a tile with so many rows.
    pub(super) fn at(&self, rows: Rows) -> Nanos {
        match &self.source {
            Source::Fit(fit) | Source::Assumed(fit) => fit.cost.at(rows),
            Source::Table { .. } => self.measured.at(rows),
        }
    }

    /// Number of different sizes measured.
    pub(super) fn sizes(&self) -> usize {
        self.measured.iter().len()
    }

    /// The smallest and the largest size measured. One size stands for smaller ones, too.
    pub(super) fn range(&self) -> (Rows, Rows) {
        let mut sizes = self.measured.iter().map(|(size, _)| size);
        let least = sizes.next().unwrap_or(Rows(0));
        match (sizes.next_back(), &self.source) {
            (Some(most), _) => (least, most),
            (None, Source::Assumed(_)) => (Rows(least.0 / PARTS), least),
            (None, _) => (least, least),
        }
    }

    /// What the cost usually misses, as a share: the root of the mean square of the fit's residuals; 0 for a table. No sample contradicts a line
    /// that is assumed, so it has the tolerance within which most predictions of a fit stay.
    pub(super) fn typical(&self) -> f64 {
        match &self.source {
            Source::Fit(fit) => fit.typical(),
            Source::Assumed(_) => Fitting::default().tolerance,
            Source::Table { .. } => 0.0,
        }
    }

    /// The largest share by which it misses the median of a size.
    pub(super) fn worst(&self) -> f64 {
        match &self.source {
            Source::Fit(fit) | Source::Assumed(fit) => fit.worst().relative().abs(),
            Source::Table { .. } => 0.0,
        }
    }

    /// The pieces of the fit; none of a table.
    pub(super) fn pieces(&self) -> &[Piece<Rows>] {
        match &self.source {
            Source::Fit(fit) | Source::Assumed(fit) => fit.cost.pieces(),
            Source::Table { .. } => &[],
        }
    }

    /// `fit`, `assumed` or `table`.
    pub(super) fn source(&self) -> &'static str {
        match &self.source {
            Source::Fit(_) => "fit",
            Source::Assumed(_) => "assumed",
            Source::Table { .. } => "table",
        }
    }

    /// The sizes of these tiles that are smaller or larger than all measured ones, if any.
    pub(super) fn outside(&self, tiles: &Tiles) -> Option<String> {
        let (least, most) = self.range();
        let mut sizes: Vec<Rows> = tiles.iter().filter(|tile| !(least..=most).contains(tile)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(Rows::to_string).collect();
        (!sizes.is_empty()).then(|| sizes.join(", "))
    }

    /// A note: that the cost is a table, and why; or that the fit is loose, and what it misses.
    pub(super) fn note(&self, origin: &str) -> Option<String> {
        let lane = self.lane;
        match &self.source {
            Source::Fit(fit) | Source::Assumed(fit) => {
                fit.loose().map(|worst| format!("the fit of the {lane} is loose: {}", missed(&worst)))
            }
            Source::Table { unfit } => Some(format!(
                "every possible tile size was measured, so the {lane} time is looked up in {origin} instead of being \
                 fitted ({unfit})"
            )),
        }
    }
}

/// The fixed cost of a lane with one measured size: the given one, or the usual one, but no more than half of the time.
fn fixed_cost(lane: Lane, (size, time): (Rows, Nanos), given: Option<(f64, f64)>) -> Result<Nanos, String> {
    let (compute, communicate) = given.unwrap_or(FIXED_COSTS);
    let fixed = Nanos::micros(if lane == Lane::Compute { compute } else { communicate });
    match given {
        Some(_) if fixed >= time => Err(format!(
            "{lane}: {} took {time}, which is no more than the fixed cost of {fixed}\n\
             hint: pass smaller --fixed-costs",
            counted_rows(size)
        )),
        Some(_) => Ok(fixed),
        None => Ok(Nanos(fixed.0.min(time.0 / 2.0))),
    }
}

/// How far a fit is from a sample.
fn missed(Residual { size, measured, fitted }: &Residual<Rows>) -> String {
    let off = 100.0 * (fitted.0 / measured.0 - 1.0).abs();
    format!("{} took {measured}; the predicted {fitted} is off by {off:.1} %", counted_rows(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(given: &[(u64, f64)]) -> Vec<Sample<Rows>> {
        given.iter().map(|&(rows, micros)| Sample { size: Rows(rows), time: Nanos::micros(micros) }).collect()
    }

    #[test]
    fn a_table_is_used_where_it_has_all_sizes_and_a_fit_misses_one() {
        let cost = |given: &[(u64, f64)], rows, limit| {
            LaneCost::new(Lane::Compute, &samples(given), Cuts { rows, align: 128 }, limit)
        };
        let jagged = [(128, 10.0), (256, 90.0), (384, 20.0), (512, 100.0)];
        let table = cost(&jagged, 512, 0.3).expect("all sizes are there");
        assert_eq!((table.source(), table.worst(), table.sizes()), ("table", 0.0, 4));
        assert_eq!([128, 256, 384, 512].map(|rows| table.at(Rows(rows)).as_micros()), [10.0, 90.0, 20.0, 100.0]);
        // Sizes of plans written by hand: between two measured sizes, below them and beyond.
        assert_eq!([192, 64, 1024].map(|rows| table.at(Rows(rows)).as_micros()), [50.0, 10.0, 200.0]);
        assert!(table.note("s.csv").unwrap().contains("looked up in s.csv"));
        // A size that a tile may have is missing: 640, or 100 and 228 if the last tile is ragged.
        for rows in [640, 484] {
            assert!(matches!(cost(&jagged, rows, 0.3), Err(FitError::Misses { .. } | FitError::Falls { .. })));
            let fitted = cost(&jagged, rows, 1e6).expect("any fit");
            assert_eq!(fitted.source(), "fit");
            assert!(fitted.note("s.csv").unwrap().contains("is loose"));
        }
        let ragged = [(100, 10.0), (128, 90.0), (228, 20.0)];
        assert_eq!(cost(&ragged, 228, 0.3).expect("all sizes are there").source(), "table");
        // Two sizes give no fit, but can be all possible sizes.
        assert_eq!(cost(&[(128, 1.0), (256, 2.0)], 256, 0.3).expect("all sizes are there").source(), "table");
        assert!(matches!(cost(&[(128, 1.0), (256, 2.0)], 384, 0.3), Err(FitError::TooFew { sizes: 2 })));
        assert!(matches!(cost(&[], 128, 0.3), Err(FitError::TooFew { sizes: 0 })));
        // A linear cost gets a fit, even if every size was measured.
        let line = cost(&[(128, 2.0), (256, 3.0), (384, 4.0), (512, 5.0)], 512, 0.3).unwrap();
        assert_eq!((line.source(), line.note("s.csv")), ("fit", None));
    }

    #[test]
    fn the_size_without_which_the_others_fit_best_is_skipped() {
        let cuts = Cuts { rows: 8192, align: 128 };
        let skipped = |given: &[(u64, f64)]| {
            let samples = samples(given);
            let unfit = LaneCost::new(Lane::Compute, &samples, cuts, 0.3).expect_err("no fit");
            LaneCost::without_one(Lane::Compute, &samples, cuts, 0.3, &unfit)
        };
        let (cost, note) = skipped(&[(128, 2.0), (256, 3.0), (512, 50.0), (1024, 9.0)]).expect("a fit of three");
        assert_eq!((cost.sizes(), cost.at(Rows(512)).as_micros().round()), (3, 5.0));
        assert!(note.contains("ignored: 512 rows took 50.0 us; the predicted 5.0 us is off by 90.0 %"), "{note}");
        // Two such sizes, and one of three.
        assert!(skipped(&[(128, 2.0), (256, 90.0), (512, 50.0), (1024, 9.0), (2048, 17.0)]).is_none());
        assert!(skipped(&[(128, 2.0), (256, 90.0), (512, 5.0)]).is_none());
        // With many sizes, only the named ones are tried.
        let mut many: Vec<(u64, f64)> = (1..=2 * MOST_TRIED as u64).map(|rows| (rows, 1.0 + rows as f64)).collect();
        many[40].1 = 400.0;
        let (cost, note) = skipped(&many).expect("a fit of the others");
        assert!(cost.worst() < 0.01 && note.contains("ignored: 41 rows took 400.0 us"), "{note}");
    }

    #[test]
    fn one_size_or_two_are_a_line() {
        let assumed = |given: &[(u64, f64)], fixed| LaneCost::assumed(Lane::Communicate, &samples(given), fixed);
        let at = |cost: &LaneCost, rows| (1e3 * cost.at(Rows(rows)).as_micros()).round() / 1e3;
        let (one, _) = assumed(&[(400, 50.0)], None).unwrap().expect("a cost");
        assert_eq!((one.range(), one.sizes(), one.source()), ((Rows(100), Rows(400)), 1, "assumed"));
        assert_eq!([100, 400, 800].map(|rows| at(&one, rows)), [20.0, 50.0, 90.0]);
        let (given, _) = assumed(&[(400, 50.0), (400, 50.0)], Some((0.0, 30.0))).unwrap().expect("a cost");
        assert_eq!([100, 400].map(|rows| at(&given, rows)), [35.0, 50.0]);
        let (two, _) = assumed(&[(100, 30.0), (300, 50.0)], None).unwrap().expect("a cost");
        assert_eq!((two.range(), two.sizes(), at(&two, 500)), ((Rows(100), Rows(300)), 2, 70.0));
        assert!(
            assumed(&[(400, 50.0)], Some((0.0, 50.0))).unwrap_err().contains("no more than the fixed cost of 50.0 us")
        );
        // Too few rows, and a line that falls.
        for given in [&[][..], &[(1, 5.0)], &[(100, 50.0), (101, 51.0)], &[(100, 50.0), (300, 10.0)]] {
            assert!(assumed(given, None).unwrap().is_none(), "{given:?}");
        }
    }
}
