//! Medians, ratios of interleaved times, and regret.

use serde::Serialize;

/// The value below which a `share` of the values lies; between two values, the line through them. Not a number without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The middle value; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// True if a repetition belongs to this half, 0 or 1.
///
/// The order of the arms is reversed in every other repetition, so pairs stay together: both halves have both orders.
fn in_half(repetition: usize, half: usize) -> bool {
    repetition / 2 % 2 == half
}

/// The values of the repetitions of one half.
fn half_of(values: &[f64], half: usize) -> Vec<f64> {
    values.iter().enumerate().filter(|(at, _)| in_half(*at, half)).map(|(_, value)| *value).collect()
}

/// Times of one arm in nanoseconds: the median, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(times: &[f64]) -> Self {
        Self { median: median(times), low: quantile(times, 0.25), high: quantile(times, 0.75) }
    }
}

/// One arm's time relative to another's: each repetition has a ratio, and these are their median, their quartiles, and their medians in both
/// halves of the repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) halves: [f64; 2],
}

impl Ratio {
    pub(crate) fn of(times: &[f64], base: &[f64]) -> Self {
        let ratios: Vec<f64> = times.iter().zip(base).map(|(time, base)| time / base).collect();
        let Spread { median: value, low, high } = Spread::of(&ratios);
        Self { value, low, high, halves: [0, 1].map(|half| median(&half_of(&ratios, half))) }
    }

    /// The loss that both halves of the repetitions show.
    pub(crate) fn confirmed(&self) -> f64 {
        self.halves[0].min(self.halves[1])
    }

    /// The gain that both halves of the repetitions show.
    pub(crate) fn confirmed_gain(&self) -> f64 {
        self.halves[0].max(self.halves[1])
    }
}

/// The time of the automatic choice relative to the best fixed one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Regret {
    /// The geometric mean of both halves.
    pub(crate) value: f64,
    /// The best choice of the other half of the repetitions, read in this one.
    pub(crate) halves: [f64; 2],
}

impl Regret {
    /// The regret of `auto` against fixed choices. Each half of the repetitions chooses the best one, and the other half measures it, because
    /// the fastest of many is partly a lucky one. Times are relative to `base`, repetition by repetition. Also returns the best choice of all
    /// repetitions. `None` without choices.
    pub(crate) fn of(auto: &[f64], fixed: &[&[f64]], base: &[f64]) -> Option<(Self, usize)> {
        let relative = |times: &[f64]| -> Vec<f64> { times.iter().zip(base).map(|(time, base)| time / base).collect() };
        let (auto, fixed) = (relative(auto), fixed.iter().map(|times| relative(times)).collect::<Vec<_>>());
        let best = |score: &dyn Fn(&[f64]) -> f64| {
            (0..fixed.len()).min_by(|&one, &other| score(&fixed[one]).total_cmp(&score(&fixed[other])))
        };
        let all = best(&median)?;
        let mut halves = [f64::NAN; 2];
        for (half, regret) in halves.iter_mut().enumerate() {
            let chosen = best(&|times| median(&half_of(times, 1 - half)))?;
            *regret = median(&half_of(&auto, half)) / median(&half_of(&fixed[chosen], half));
        }
        Some((Self { value: (halves[0] * halves[1]).sqrt(), halves }, all))
    }

    /// The loss that both halves of the repetitions show.
    pub(crate) fn confirmed(&self) -> f64 {
        self.halves[0].min(self.halves[1])
    }
}

/// True if a ratio is lower than physics allows, by more than noise and in both halves. Equal code measured twice shows the noise.
pub(crate) fn beats(ratio: &Ratio, bound: f64, control: &Ratio) -> bool {
    ratio.confirmed_gain() < bound * (1.0 - noise(control))
}

/// The share by which a ratio may be below a bound that was computed or measured at another moment.
fn noise(control: &Ratio) -> f64 {
    0.05 + (control.high - control.low).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_on_the_line_between_values() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn both_halves_have_both_orders() {
        let order = |half| (0..8).filter(|&at| in_half(at, half)).map(|at| at % 2).collect::<Vec<_>>();
        assert_eq!((order(0), order(1)), (vec![0, 1, 0, 1], vec![0, 1, 0, 1]));
    }

    #[test]
    fn a_ratio_is_that_of_each_repetition() {
        // The machine slows down by ten in the second half; the ratio does not.
        let base = [1.0, 1.0, 10.0, 10.0];
        let ratio = Ratio::of(&[2.0, 2.0, 20.0, 20.0], &base);
        assert_eq!((ratio.value, ratio.halves), (2.0, [2.0, 2.0]));
        assert_eq!(Ratio::of(&[2.0, 2.0, 9.0, 9.0], &base).confirmed(), 0.9);
    }

    #[test]
    fn the_best_of_many_is_chosen_on_one_half_and_read_from_the_other() {
        let base = [1.0; 4];
        // Two choices that are each lucky in one half: neither is as fast as it looks there.
        let lucky: [&[f64]; 2] = [&[0.5, 0.5, 1.0, 1.0], &[1.0, 1.0, 0.5, 0.5]];
        let (regret, _) = Regret::of(&[1.0; 4], &lucky, &base).unwrap();
        assert_eq!((regret.value, regret.halves), (1.0, [1.0, 1.0]));
        let (regret, best) = Regret::of(&[1.5; 4], &[&[2.0; 4], &[1.0; 4]], &base).unwrap();
        assert_eq!((regret.value, best), (1.5, 1));
        assert!(Regret::of(&[1.0; 4], &[], &base).is_none());
    }

    #[test]
    fn regret_counts_in_both_halves() {
        let (regret, _) = Regret::of(&[1.0, 1.0, 3.0, 3.0], &[&[1.0; 4]], &[1.0; 4]).unwrap();
        assert_eq!(regret.confirmed(), 1.0);
    }

    #[test]
    fn a_result_beyond_the_bound_is_noticed_and_noise_is_not() {
        let ratio = |halves: [f64; 2]| Ratio { value: halves[0], low: halves[0], high: halves[1], halves };
        let calm = Ratio { value: 1.0, low: 0.99, high: 1.01, halves: [1.0, 1.0] };
        assert!(beats(&ratio([0.40, 0.41]), 0.5, &calm));
        assert!(!beats(&ratio([0.40, 0.50]), 0.5, &calm), "one half alone");
        assert!(!beats(&ratio([0.48, 0.48]), 0.5, &calm), "within the noise");
        let wild = Ratio { low: 0.8, high: 1.1, ..calm };
        assert!(!beats(&ratio([0.40, 0.41]), 0.5, &wild), "the same code differs by as much");
    }
}
