//! Observed times of operations, and re-fitting a profile when the machine has changed.
//!
//! A re-fit multiplies the samples of each lane by one factor, and fits again. So outcomes of any size will do, even all of one size, and
//! the fits keep their calibrated shape.
//!
//! 1. A wrong prediction does not say which lane is to blame; the trace does. Its spans tell how long the tiles would have taken *alone*:
//!    time in which both lanes were busy is divided by the factors of the [contention](Profile::contention).
//! 2. The ratio of that time to the fitted costs of the same tiles is the factor of the lane. The re-fit takes the median of the latest
//!    outcomes.
//! 3. One busy moment changes nothing. Most predictions must be off to the same side, and the new fit must explain what the old one missed.

use std::collections::VecDeque;

use windrow_tiling::tile::{self, Lane, Order, TileSpan};
use windrow_tiling::{Nanos, Rows};

use crate::stored::{Observed, Refit, Stage, kept};
use crate::{Error, Outcome, Profile, Trace};

impl Profile {
    /// Records by what share the prediction of an operation was off, and the times of its tiles in each lane. The profile keeps the last 16
    /// shares and the times of the last 8 operations. An outcome without a prediction is ignored. [`Fused`](crate::Fused) calls this after
    /// every operation with [`Tiles::Auto`](crate::Tiles::Auto).
    pub fn observe(&mut self, outcome: &Outcome) {
        let took = outcome.trace.end;
        let error = outcome.predicted.filter(|predicted| predicted.0 > 0.0).map(|predicted| predicted.0 / took.0 - 1.0);
        let Some(error) = error.filter(|error| error.is_finite()) else { return };
        self.stored.predictions += 1;
        keep(&mut self.stored.errors, kept(error), KEPT);
        if outcome.tiles.len() > 1 {
            keep(&mut self.stored.errors_of_cuts, kept(error), KEPT);
        }
        if let Some([compute, communicate]) = self.alone(&outcome.trace) {
            let tiles = outcome.tiles.iter().map(|tile| tile.0).collect();
            let [took, compute, communicate] = [took, compute, communicate].map(|time| kept(time.as_micros()));
            keep(&mut self.stored.observed, Observed { tiles, took, compute, communicate }, LATEST);
        }
    }

    /// The shares by which recent predictions were above the times of the operations, the latest last.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.stored.errors.iter().copied()
    }

    /// The share by which cuts usually took longer than predicted: the median of the latest 16 at most, and 0 with fewer than eight.
    /// Operations in one tile do not count: how well those are predicted does not tell what a cut gains.
    pub(crate) fn shortfall(&self) -> f64 {
        let mut late: Vec<f64> = self.stored.errors_of_cuts.iter().map(|error| (1.0 + error).recip() - 1.0).collect();
        if late.len() < LATEST {
            return 0.0;
        }
        late.sort_by(f64::total_cmp);
        let median = (late[(late.len() - 1) / 2] + late[late.len() / 2]) / 2.0;
        // Infinite for a prediction of no time at all.
        if median.is_finite() { median.max(0.0) } else { 0.0 }
    }

    /// Whether predictions have drifted: the machine has probably changed since it was calibrated. True if at least eight predictions are
    /// recorded and more than half of them were off. A prediction is off if it misses by more than the tolerance of the fit, and by more
    /// than the fit [misses its samples](Self::fit_error).
    pub fn needs_refit(&self) -> bool {
        let expected = self.expected_error();
        self.most_are(|error| error.abs() > expected)
    }

    fn most_are(&self, off: impl Fn(f64) -> bool) -> bool {
        let errors = &self.stored.errors;
        errors.len() >= LATEST && 2 * errors.iter().filter(|&&error| off(error)).count() > errors.len()
    }

    /// Fits again if predictions have [drifted](Self::needs_refit). The samples of each lane are multiplied by a factor: the ratio of the
    /// tiles' measured times to their fitted costs, as the median of the last eight outcomes. [`Fused`](crate::Fused) calls this on rank 0,
    /// because the profile of rank 0 decides. Returns `None` without a drift, or with fewer than eight outcomes since the last re-fit.
    ///
    /// The profile stays unchanged, and [`Refit::refused`] says why, in three cases:
    ///
    /// - Most predictions were not off to the same side, as a wrong factor would make them.
    /// - The new fit does not halve the mean error of these outcomes, so the factors are not to blame.
    /// - The multiplied samples give no fit.
    ///
    /// [`needs_refit`](Self::needs_refit) then stays true: calibrate again.
    ///
    /// Cuts that were [refined](Self::refined) are dropped if the factors of the lanes differ by more than noise: these cuts may no longer be
    /// the fastest. If both lanes have slowed down alike, the fastest cut is still the fastest.
    ///
    /// A profile sees this rank only. Waiting for a slower rank counts as communication.
    pub fn refit(&mut self) -> Option<&Refit> {
        if !self.needs_refit() || self.stored.observed.len() < LATEST {
            return None;
        }
        let [compute, communicate] = [Lane::Compute, Lane::Communicate].map(|lane| kept(self.factor(lane)));
        let refused = match self.scaled([compute, communicate]) {
            Ok(fitted) => {
                *self = fitted;
                self.stored.errors.clear();
                self.stored.errors_of_cuts.clear();
                None
            }
            Err(why) => Some(why),
        };
        self.stored.observed.clear();
        let refit = Refit { after: self.stored.predictions, compute, communicate, refused };
        keep(&mut self.stored.refits, refit, KEPT);
        self.stored.refits.back()
    }

    /// The last 16 re-fits, done or refused, the latest last.
    pub fn refits(&self) -> impl ExactSizeIterator<Item = &Refit> + DoubleEndedIterator + '_ {
        self.stored.refits.iter()
    }

    /// The ratio of recent tiles' times to their fitted costs.
    fn factor(&self, lane: Lane) -> f64 {
        let ratios = self.stored.observed.iter().map(|observed| {
            let took = match lane {
                Lane::Compute => observed.compute,
                Lane::Communicate => observed.communicate,
            };
            let cost = observed.tiles.iter().map(|&tile| self.fit(lane).cost.at(Rows(tile)).as_micros());
            took / cost.sum::<f64>()
        });
        let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        ratios.sort_by(f64::total_cmp);
        match ratios.len() {
            // The lane takes no time.
            0 => 1.0,
            len => (ratios[(len - 1) / 2] + ratios[len / 2]) / 2.0,
        }
    }

    fn scaled(&self, [compute, communicate]: [f64; 2]) -> Result<Self, String> {
        let (tolerance, noise) = (self.expected_error(), self.stored.noise);
        if !self.most_are(|error| error > tolerance) && !self.most_are(|error| error < -tolerance) {
            return Err("predictions are off in both directions, which no factor explains".to_owned());
        }
        let mut stored = self.stored.clone();
        for sample in &mut stored.samples {
            sample.microseconds *= match sample.stage {
                Stage::Compute => compute,
                Stage::Communicate => communicate,
            };
        }
        if (compute - communicate).abs() > noise * communicate {
            stored.refined.clear();
        }
        let fitted = Self::try_from(stored).map_err(|error| error.to_string())?;
        let missed = |profile: &Self| -> Result<f64, Error> {
            let observed = &self.stored.observed;
            let missed = observed.iter().map(|observed| profile.misses(observed)).sum::<Result<f64, _>>()?;
            Ok(missed / observed.len() as f64)
        };
        let missed = |profile| missed(profile).map_err(|error| error.to_string());
        let (before, after) = (missed(self)?, missed(&fitted)?);
        if after > before / 2.0 {
            let (before, after) = (100.0 * before, 100.0 * after);
            return Err(format!("predictions would still be off by {after:.1} %, compared with {before:.1} % before"));
        }
        Ok(fitted)
    }

    /// The share by which the prediction is off.
    fn misses(&self, observed: &Observed) -> Result<f64, Error> {
        let tiles = tile::Tiles::new(observed.tiles.iter().copied().map(Rows).collect::<Vec<_>>())?;
        let predicted = self.predict(tiles.total().0, &tiles)?;
        Ok((predicted.as_micros() / observed.took - 1.0).abs())
    }

    /// The time that the tiles of a trace would have taken in each lane alone. `None` for an empty trace.
    fn alone(&self, trace: &Trace) -> Option<[Nanos; 2]> {
        let mut compute = trace.compute.clone();
        if self.shape().operation.order() == Order::ComputeFirst {
            // Between two tiles the caller does not wait, but hands over and copies out. Calibration counts that as computation.
            for place in 1..compute.len() {
                compute[place - 1].end = compute[place].start;
            }
        }
        let (communicate, contention) = (&trace.communicate, self.contention());
        let both = overlap(&compute, communicate);
        let alone = |spans: &[TileSpan], factor: f64| {
            let busy: f64 = spans.iter().map(|span| span.length().0).sum();
            Nanos(busy - both * (1.0 - 1.0 / factor))
        };
        let some = !compute.is_empty() && !communicate.is_empty();
        some.then(|| [alone(&compute, contention.compute), alone(communicate, contention.communicate)])
    }
}

/// How long both lanes were busy. The spans of one lane are in order.
fn overlap(compute: &[TileSpan], communicate: &[TileSpan]) -> f64 {
    let (mut both, mut other) = (0.0, communicate);
    for span in compute {
        // A span of the other lane may reach into the next one of this lane.
        while let Some((first, rest)) = other.split_first() {
            both += (span.end.0.min(first.end.0) - span.start.0.max(first.start.0)).max(0.0);
            if first.end > span.end {
                break;
            }
            other = rest;
        }
    }
    both
}

fn keep<T>(kept: &mut VecDeque<T>, value: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(value);
}

/// Predictions that are kept, so many that half of them are evidence.
const KEPT: usize = 16;

/// Outcomes that are needed, and kept. If more than half of the kept predictions have drifted, all of these have.
const LATEST: usize = KEPT / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_overlap_where_both_are_busy() {
        let spans = |at: &[(f64, f64)]| -> Vec<TileSpan> {
            at.iter().map(|&(start, end)| TileSpan { start: Nanos(start), end: Nanos(end) }).collect()
        };
        let compute = spans(&[(0.0, 10.0), (10.0, 20.0), (30.0, 40.0)]);
        for (communicate, both) in [
            (spans(&[]), 0.0),
            (spans(&[(40.0, 50.0)]), 0.0),
            (spans(&[(5.0, 35.0)]), 20.0),
            (spans(&[(1.0, 2.0), (3.0, 12.0), (19.0, 20.0), (25.0, 31.0), (39.0, 99.0)]), 13.0),
        ] {
            assert_eq!(overlap(&compute, &communicate), both);
            assert_eq!(overlap(&communicate, &compute), both);
        }
    }
}
