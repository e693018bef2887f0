//! The fit of F and m.

use super::Law;
use crate::Nanos;
use crate::estimate::Smoothing;

/// Estimates F and m from sizes and durations of batches: a line through the mean size and duration of each class of sizes (1, 2 and 3, 4 to
/// 7, ...) by least squares of relative errors. A class keeps its averages when batches of its sizes become rare, since a line through
/// batches of nearly one size would follow their noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchFit {
    /// Batches observed since the fit began, or began again.
    seen: u64,
    /// Consecutive batches far from the prediction.
    strayed: u32,
    /// The share of such batches: a moving average.
    interrupted: f64,
    /// Larger batches count as the last class.
    classes: [SizeClass; u32::BITS as usize],
    /// F and m, once sizes have differed enough.
    line: Option<(Nanos, Nanos)>,
}

/// Batches of sizes between two powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SizeClass {
    /// Moving averages of size and duration.
    size: f64,
    time: f64,
    /// Batches in these averages, up to [`DEPTH`].
    depth: f64,
}

/// Averages of a class weigh its last batches most.
///
/// Measure: count of batches.
const DEPTH: f64 = 64.0;
/// After this number of batches the fit predicts. A batch that is off by more than a factor of `FARTHEST` was interrupted: it then counts as
/// off by that factor. From then on the line is fitted again once in this number of batches.
///
/// Measure: count of batches.
const TRUSTED: u64 = 16;
/// See [`TRUSTED`].
///
/// Measure: share of the prediction.
const FARTHEST: f64 = 3.0;
/// This number of such batches in a row are no interruptions: the batches have changed, and the fit starts again.
///
/// Measure: count of batches.
const CHANGED: u32 = 8;
/// Interrupted batches among recent ones from which on their durations say more about other processes than about costs.
///
/// Measure: share of batches.
const FEW: f64 = 0.25;
/// The factor by which the mean sizes of two classes must differ to separate F from m.
///
/// Measure: share of the smaller mean.
const SPREAD: f64 = 1.25;

impl BatchFit {
    /// A batch of `b` took `time`.
    pub fn observe(&mut self, b: usize, time: Nanos) {
        let b = b.max(1);
        let mut t = time.0.max(1.0);
        if self.seen >= TRUSTED
            && let Some(law) = self.law()
        {
            let foreseen = law.batch(b).0.max(1.0);
            let believed = t.clamp(foreseen / FARTHEST, foreseen * FARTHEST);
            let strays = believed != t;
            self.strayed = if strays { self.strayed + 1 } else { 0 };
            self.interrupted = Smoothing::BATCHES.follow(self.interrupted, f64::from(u8::from(strays)));
            if self.strayed == CHANGED {
                *self = BatchFit { interrupted: self.interrupted, ..BatchFit::default() };
            } else {
                t = believed;
            }
        }
        self.seen += 1;
        let last = self.classes.len() - 1;
        let class = &mut self.classes[(b.ilog2() as usize).min(last)];
        class.depth = (class.depth + 1.0).min(DEPTH);
        class.size += (b as f64 - class.size) / class.depth;
        class.time += (t - class.time) / class.depth;
        if self.seen < TRUSTED || self.line.is_none() || self.seen.is_multiple_of(TRUSTED) {
            self.line = self.split().or(self.line);
        }
    }

    /// True while the averages are those of many batches, few of which were interrupted: interruptions would look like costs.
    pub fn is_settled(&self) -> bool {
        self.seen as f64 >= DEPTH && self.interrupted < FEW
    }

    /// True if all batches had nearly one size, larger than 1: a smaller one would separate F from m.
    pub fn is_flat(&self) -> bool {
        self.line.is_none() && self.seen >= TRUSTED && self.used().any(|class| class.size >= 2.0)
    }

    /// Cost of a batch of one operation. Before F and m are separated: an operation's share of a batch.
    pub fn one(&self) -> Option<Nanos> {
        let share = || self.used().map(|class| Nanos(class.time / class.size)).next();
        self.law().map(|law| law.batch(1)).or_else(share)
    }

    /// The fitted law, without the costs of handing over and of locks. `None` before batches of different sizes.
    pub fn law(&self) -> Option<Law> {
        self.line.map(|(fixed, each)| Law { fixed, each, ..Law::default() })
    }

    /// The classes that have seen a batch, from small to large.
    fn used(&self) -> impl Iterator<Item = &SizeClass> {
        self.classes.iter().filter(|class| class.depth > 0.0)
    }

    /// F and m, if sizes differ enough to separate them.
    fn split(&self) -> Option<(Nanos, Nanos)> {
        let (first, last) = (self.used().next()?, self.used().last()?);
        if last.size < SPREAD * first.size {
            return None;
        }
        // Sums of weight, weight b, weight b^2, weight t, weight b t.
        let mut sums = [0.0; 5];
        for &SizeClass { size, time, depth } in self.used() {
            let weight = depth / (time * time);
            for (sum, term) in sums.iter_mut().zip([1.0, size, size * size, time, size * time]) {
                *sum += weight * term;
            }
        }
        let [w, wb, wbb, wt, wbt] = sums;
        let mean = wb / w;
        let each = (wbt / w - mean * wt / w) / (wbb / w - mean * mean);
        let fixed = wt / w - each * mean;
        // Neither can be negative. If one would be, it is taken for 0, and the other is fitted again.
        let (fixed, each) = match (fixed < 0.0, each < 0.0) {
            (true, _) => (0.0, wbt / wbb),
            (_, true) => (wt / w, 0.0),
            _ => (fixed, each),
        };
        Some((Nanos(fixed), Nanos(each)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is the same in every run: factors around 1.
    fn noise(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (*state >> 11) as f64 / (1_u64 << 53) as f64;
        0.8 + 0.4 * unit
    }

    fn fitted(fixed: f64, each: f64, sizes: &[usize], interrupted: bool) -> Law {
        let (mut fit, mut state) = (BatchFit::default(), 7);
        for round in 0..200 {
            for &b in sizes {
                let mut time = (fixed + each * b as f64) * noise(&mut state);
                if interrupted && round % 20 == 19 {
                    time += 4_000_000.0;
                }
                fit.observe(b, Nanos(time));
            }
        }
        fit.law().expect("sizes differ")
    }

    #[test]
    fn three_sizes_foretell_the_others() {
        for (fixed, each) in [(350_000.0, 700.0), (1_000.0, 150.0), (40.0, 4.0), (1_000_000.0, 0.0), (0.0, 300.0)] {
            let law = fitted(fixed, each, &[1, 4, 16], false);
            let truth = Law { fixed: Nanos(fixed), each: Nanos(each), ..Law::default() };
            for b in [2, 8, 32, 64] {
                let ratio = law.per_second(b) / truth.per_second(b);
                assert!((ratio - 1.0).abs() < 0.2, "F {fixed} m {each} B {b}: {ratio}");
            }
        }
    }

    #[test]
    fn interruptions_are_not_believed() {
        let law = fitted(2_000.0, 100.0, &[1, 4, 16], true);
        let truth = Law { fixed: Nanos(2_000.0), each: Nanos(100.0), ..Law::default() };
        for b in [2, 8, 64] {
            let ratio = law.per_second(b) / truth.per_second(b);
            assert!((ratio - 1.0).abs() < 0.3, "B {b}: {ratio}");
        }
    }

    #[test]
    fn a_change_is_followed() {
        let mut fit = BatchFit::default();
        for (fixed, rounds) in [(1_000.0, 500), (50_000.0, 3_000)] {
            (0..rounds).for_each(|at| fit.observe(1 + at % 8, Nanos(fixed + 10.0 * (1 + at % 8) as f64)));
        }
        assert!((fit.law().unwrap().fixed.0 / 50_000.0 - 1.0).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn what_cannot_be_negative_is_0_and_the_other_is_fitted_again() {
        let law = |of_one: f64, of_16: f64| {
            let mut fit = BatchFit::default();
            (0..12).for_each(|_| [(1, of_one), (16, of_16)].iter().for_each(|&(b, time)| fit.observe(b, Nanos(time))));
            fit.law().expect("sizes differ")
        };
        // A line through both points has a slope of 207 ns, and begins at -107 ns; one from 0 weighs the short batches.
        let Law { fixed, each, .. } = law(100.0, 3_200.0);
        assert!(fixed == Nanos(0.0) && (100.0..150.0).contains(&each.0), "{fixed}, {each}");
        // Larger batches take less: a mean that weighs the short ones.
        let Law { fixed, each, .. } = law(300.0, 100.0);
        assert!(each == Nanos(0.0) && (100.0..150.0).contains(&fixed.0), "{fixed}, {each}");
    }

    #[test]
    fn batches_that_change_a_thousandfold_are_believed_after_some_in_a_row() {
        let mut fit = BatchFit::default();
        let mut observe = |fixed: f64, times: usize| {
            (0..times).for_each(|at| fit.observe(1 + at % 8, Nanos(fixed + 10.0 * (1 + at % 8) as f64)));
            fit.law().map_or(0.0, |law| law.fixed.0 / fixed)
        };
        assert!((observe(1_000.0, 500) - 1.0).abs() < 0.1);
        let ratio = observe(1e6, 40);
        assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
    }

    /// Batches of 1, 4 and 16 whose costs vary by up to 60 %.
    #[test]
    fn averages_even_out_noise_and_follow_a_change() {
        let size = |at: usize| [1, 4, 16][at % 3];
        let time = |at: usize| 2_000.0 + 100.0 * size(at) as f64;
        let (mut fit, mut state, mut squares) = (BatchFit::default(), 7, 0.0);
        for at in 0..20_000 {
            fit.observe(size(at), Nanos(time(at) * (3.0 * noise(&mut state) - 2.0)));
            if at >= 1000 {
                squares += (fit.law().expect("sizes differ").batch(32).0 / 5_200.0 - 1.0).powi(2);
            }
        }
        let error = (squares / 19_000.0_f64).sqrt();
        assert!(error < 0.06, "predictions are off by {error}");
        // All costs grow to 2.5 times.
        let mut fit = BatchFit::default();
        (0..900).for_each(|at| fit.observe(size(at), Nanos(time(at))));
        let found = (0..5_000).find(|&at| {
            fit.observe(size(at), Nanos(2.5 * time(at)));
            fit.law().is_some_and(|law| law.fixed.0 > 0.9 * 5_000.0)
        });
        assert!(found.is_some_and(|batches| batches < 500), "{found:?}");
    }

    /// One batch in 20 is interrupted for 4 ms.
    #[test]
    fn an_interruption_shifts_the_fit_by_little() {
        let (mut fit, mut state, mut sum) = (BatchFit::default(), 7, 0.0);
        for at in 0..6_000 {
            let b = [1, 4, 16][at % 3];
            let interrupted = noise(&mut state) < 0.82;
            fit.observe(b, Nanos(2_000.0 + 100.0 * b as f64 + if interrupted { 4e6 } else { 0.0 }));
            sum += if at >= 500 { fit.law().expect("sizes differ").batch(32).0 / 5_200.0 - 1.0 } else { 0.0 };
        }
        assert!(sum / 5_500.0 < 0.2, "predictions are {} too long", sum / 5_500.0);
    }

    #[test]
    fn a_burst_of_interruptions_is_no_change_and_a_change_is_found_soon() {
        let time = |fixed: f64, at: usize| Nanos(fixed + 100.0 * (1 + at % 8) as f64);
        let mut fit = BatchFit::default();
        (0..300).for_each(|at| fit.observe(1 + at % 8, time(2_000.0, at)));
        // The disk flushes its cache, for five batches.
        (0..5).for_each(|at| fit.observe(1 + at % 8, Nanos(4e6)));
        (0..16).for_each(|at| fit.observe(1 + at % 8, time(2_000.0, at)));
        assert_eq!(fit.seen, 321);
        // It is another disk.
        let found = (1..100).find(|&at| {
            fit.observe(1 + at % 8, time(1e6, at));
            fit.law().is_some_and(|law| (law.fixed.0 / 1e6 - 1.0).abs() < 0.1)
        });
        assert!(found.is_some_and(|batches| batches <= 12), "{found:?}");
    }

    #[test]
    fn sizes_that_come_close_keep_the_last_line() {
        let mut fit = BatchFit::default();
        let time = |b: usize| Nanos(2_000.0 + 100.0 * b as f64);
        (0..40).for_each(|at| fit.observe([4, 8][at % 2], time([4, 8][at % 2])));
        let before = fit.law().expect("sizes differ");
        (0..1_000).for_each(|at| fit.observe([7, 8][at % 2], time([7, 8][at % 2])));
        let after = fit.law().expect("it was known");
        assert!((after.fixed.0 / before.fixed.0 - 1.0).abs() < 0.1, "{before:?}, {after:?}");
    }

    #[test]
    fn one_size_tells_nothing() {
        let mut fit = BatchFit::default();
        (0..100).for_each(|_| fit.observe(8, Nanos(100.0)));
        assert_eq!((fit.law(), fit.seen), (None, 100));
        assert!((fit.one().unwrap().0 - 12.5).abs() < 1e-6 && BatchFit::default().one().is_none());
    }

    #[test]
    fn a_fit_keeps_the_ratio_while_all_batches_have_one_size() {
        let mut fit = BatchFit::default();
        (0..200).for_each(|at| fit.observe(1 + at % 8, Nanos(2_000.0 + 100.0 * (1 + at % 8) as f64)));
        (0..4_000).for_each(|_| fit.observe(64, Nanos(8_400.0)));
        let law = fit.law().expect("it was known");
        assert!((law.fixed.0 / 2_000.0 - 1.0).abs() < 0.1 && (law.each.0 / 100.0 - 1.0).abs() < 0.1, "{law:?}");
    }

    #[test]
    fn noise_of_nearly_one_size_is_no_slope() {
        let (mut fit, mut state) = (BatchFit::default(), 7);
        (0..10).for_each(|_| fit.observe(1, Nanos(2_000_000.0)));
        for at in 0..2_000 {
            fit.observe(56 + at % 8, Nanos(2_020_000.0 * noise(&mut state)));
            let law = fit.law().expect("sizes differ");
            assert!((law.fixed.0 / 2_000_000.0 - 1.0).abs() < 0.15, "{law:?}");
        }
    }

    /// One in `every` batches loses a time slice.
    #[test]
    fn no_verdict_comes_from_interrupted_batches() {
        let settled = |every: usize| {
            let mut fit = BatchFit::default();
            let settled = (0..1_000).filter(|at| {
                let slice = if at % every == every - 1 { 4e6 } else { 0.0 };
                fit.observe(1 + at % 8, Nanos(100_000.0 + slice));
                *at >= 500 && fit.is_settled()
            });
            settled.count()
        };
        assert_eq!([7, 3, 2].map(settled), [500, 0, 0]);
    }

    #[test]
    fn batches_of_one_size_ask_for_a_smaller_one() {
        let mut fit = BatchFit::default();
        (0..15).for_each(|_| fit.observe(8, Nanos(100.0)));
        assert!(!fit.is_flat());
        fit.observe(8, Nanos(100.0));
        assert!(fit.is_flat());
        fit.observe(4, Nanos(80.0));
        (0..8).for_each(|_| fit.observe(8, Nanos(100.0)));
        assert!(!fit.is_flat() && fit.law().is_some());
        let mut alone = BatchFit::default();
        (0..100).for_each(|_| alone.observe(1, Nanos(100.0)));
        assert!(!alone.is_flat());
    }
}
