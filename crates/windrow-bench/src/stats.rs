//! Medians, percentiles, and confidence intervals of medians.

pub use windrow_scenarios::stats::median;
pub use windrow_testkit::contract::quantile;

use crate::work::Random;

/// The 95 % interval of the median: the percentile bootstrap (Efron 1979) of 2000 resamples, the same ones each time.
///
/// # Panics
/// Without values.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let mut random = Random::new(values.len() as u64);
    let mut resample = vec![0.0; values.len()];
    let mut medians = Vec::with_capacity(2000);
    for _ in 0..2000 {
        resample.fill_with(|| values[random.below(values.len())]);
        medians.push(median(&resample));
    }
    (quantile(&medians, 0.025), quantile(&medians, 0.975))
}

/// The geometric mean; not a number without values.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n) = values.into_iter().fold((0.0, 0.0), |(sum, n), value| (sum + value.ln(), n + 1.0));
    f64::exp(sum / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        let hundred: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&hundred, 0.1), quantile(&hundred, 0.9)), (10.0, 90.0));
    }

    #[test]
    fn the_interval_holds_the_median_is_repeatable_and_narrows_with_more_values() {
        let values = |n: u32| -> Vec<f64> { (0..n).map(|it| 1.0 + f64::from(it * 37 % n) / f64::from(n)).collect() };
        let (low, high) = interval(&values(9));
        assert!(low < median(&values(9)) && median(&values(9)) < high);
        assert_eq!(interval(&values(9)), (low, high));
        let (lower, higher) = interval(&values(101));
        assert!(higher - lower < high - low);
        assert_eq!(interval(&[2.0]), (2.0, 2.0));
    }

    #[test]
    fn one_outlier_in_nine_does_not_move_the_interval() {
        let mut values = vec![1.0; 9];
        values[4] = 100.0;
        assert_eq!(interval(&values), (1.0, 1.0));
    }

    #[test]
    fn the_geometric_mean_of_a_loss_and_its_gain_is_one() {
        assert!((geometric_mean([0.5, 2.0, 4.0, 0.25]) - 1.0).abs() < 1e-12);
    }
}
