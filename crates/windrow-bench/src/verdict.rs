//! The rules by which a cell loses.

use crate::stats::{interval, median, quantile};

/// The conditions around the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Regime {
    /// Back-to-back calls.
    Warm,
    /// A pause of 3 to 30 ms before every call.
    Cold,
    /// Back-to-back calls, two threads for each CPU.
    Oversubscribed,
    /// Back-to-back calls beside a process that keeps one CPU busy.
    Busy,
}

/// The measurements of one arm in one cell.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Nanoseconds of a call, one entry for each repetition.
    pub times: Vec<f64>,
    /// Nanoseconds of calls timed one by one.
    pub singles: Vec<f64>,
    /// CPU nanoseconds of a call, one entry for each repetition; for cold calls, with the pause that follows.
    pub cpu: Vec<f64>,
    /// CPU nanoseconds of the rest after a repetition's calls.
    pub cpu_at_rest: Vec<f64>,
}

/// One arm of one cell, compared with serial.
#[derive(Clone, Debug)]
pub struct Line {
    /// Median time of a call in nanoseconds.
    pub nanos: f64,
    /// Median of the ratios to serial's time in the same repetition.
    pub ratio: f64,
    /// The 95 % bootstrap interval of that median.
    pub interval: (f64, f64),
    /// The 10th and the 90th percentile of the ratios.
    pub spread: (f64, f64),
    /// The fastest repetition relative to serial's fastest: interruptions make times longer, never shorter.
    pub fastest: f64,
    /// 90th percentile of single calls, relative to serial's.
    pub p90: f64,
    /// CPU time relative to serial's, over all repetitions.
    pub cpu: f64,
    /// CPU nanoseconds burnt in the rest after a repetition's calls, on average.
    pub cpu_at_rest: f64,
}

impl Line {
    /// Compares paired samples.
    ///
    /// # Panics
    /// Without repetitions.
    pub fn new(arm: &Samples, serial: &Samples) -> Self {
        let ratios: Vec<f64> = arm.times.iter().zip(&serial.times).map(|(time, serial)| time / serial).collect();
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        Self {
            nanos: median(&arm.times),
            ratio: median(&ratios),
            interval: interval(&ratios),
            spread: (quantile(&ratios, 0.1), quantile(&ratios, 0.9)),
            fastest: quantile(&arm.times, 0.0) / quantile(&serial.times, 0.0),
            p90: quantile(&arm.singles, 0.9) / quantile(&serial.singles, 0.9),
            cpu: sum(&arm.cpu) / sum(&serial.cpu),
            cpu_at_rest: sum(&arm.cpu_at_rest) / arm.cpu_at_rest.len().max(1) as f64,
        }
    }
}

/// The rules that a line breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Slower than serial, beyond noise.
    pub loses: bool,
    /// The slow calls are too much slower than serial's slow calls.
    pub p90: bool,
    /// CPU seconds without a gain.
    pub cpu: bool,
    /// Faster than the machine can be: something else was measured.
    pub impossible: bool,
}

/// Judges a line by the rules of its regime. `bound` is the least possible share of serial's time, `control` the ratio of serial to itself.
pub fn judge(line: &Line, regime: Regime, serial_nanos: f64, control: f64, bound: f64) -> Verdict {
    // In a very short call, the price of deciding may exceed any share of the time.
    let allowance = if regime == Regime::Cold { 300.0 } else { 60.0 };
    let least = if serial_nanos < 1e3 { 1.0 + allowance / serial_nanos } else { 1.05 };
    let slowest = match regime {
        Regime::Busy if serial_nanos <= 10e6 => 2.0,
        _ => least.max(1.25),
    };
    let most_cpu = match regime {
        Regime::Cold => 1.3,
        _ if serial_nanos >= 1e6 => 1.10,
        _ if line.ratio > 1.0 / 1.1 => least.max(1.15),
        _ => f64::INFINITY,
    };
    Verdict {
        loses: line.interval.0 > least.max(control),
        p90: line.p90 > slowest,
        cpu: line.cpu > most_cpu,
        // A serial loop that shares its CPU with the neighbour can be slower than its share of both.
        impossible: regime != Regime::Busy && line.fastest < bound * 0.94,
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules = [(self.impossible, "IMPOSSIBLE"), (self.loses, "LOSES"), (self.p90, "p90"), (self.cpu, "cpu")];
        let broken: Vec<&str> = rules.into_iter().filter_map(|(broken, rule)| broken.then_some(rule)).collect();
        f.pad(&if broken.is_empty() { "ok".to_owned() } else { broken.join("+") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[f64]) -> Samples {
        Samples { times: times.to_vec(), singles: times.to_vec(), cpu: times.to_vec(), cpu_at_rest: vec![0.0] }
    }

    /// An arm that always takes `ratio` of a serial call of `serial` nanoseconds.
    fn verdict(regime: Regime, serial: f64, ratio: f64, control: f64) -> Verdict {
        let line = Line::new(&samples(&[serial * ratio; 9]), &samples(&[serial; 9]));
        judge(&line, regime, serial, control, 0.5)
    }

    #[test]
    fn ratios_are_paired() {
        let line = Line::new(&samples(&[20.0, 20.0, 90.0]), &samples(&[10.0, 20.0, 30.0]));
        assert_eq!((line.ratio, line.spread, line.nanos), (2.0, (1.0, 3.0), 20.0));
        assert_eq!((line.p90, line.cpu), (3.0, 130.0 / 60.0));
    }

    #[test]
    fn a_cell_loses_above_five_percent_or_its_control() {
        assert!(!verdict(Regime::Warm, 1e4, 1.04, 1.0).loses);
        assert!(verdict(Regime::Warm, 1e4, 1.06, 1.0).loses);
        assert!(!verdict(Regime::Warm, 1e4, 1.06, 1.07).loses);
    }

    #[test]
    fn a_cell_does_not_lose_when_its_interval_reaches_serial() {
        let line = Line::new(&samples(&[10.0, 10.0, 12.0, 12.0, 12.0]), &samples(&[10.0; 5]));
        assert_eq!((line.ratio, line.interval.0), (1.2, 1.0));
        assert!(!judge(&line, Regime::Warm, 1e4, 1.0, 0.5).loses);
    }

    #[test]
    fn below_a_microsecond_the_allowance_is_a_time() {
        let loses = |regime, nanos: f64| verdict(regime, 400.0, 1.0 + nanos / 400.0, 1.0).loses;
        assert_eq!((loses(Regime::Warm, 59.0), loses(Regime::Warm, 61.0)), (false, true));
        assert_eq!((loses(Regime::Cold, 299.0), loses(Regime::Cold, 301.0)), (false, true));
    }

    #[test]
    fn slow_calls_may_be_slower_beside_a_neighbour_when_the_job_is_short() {
        assert!(verdict(Regime::Warm, 1e6, 1.3, 2.0).p90);
        assert!(!verdict(Regime::Busy, 1e6, 1.9, 2.0).p90);
        assert!(verdict(Regime::Busy, 2e7, 1.9, 2.0).p90);
    }

    #[test]
    fn cpu_seconds_must_buy_something() {
        // samples() gives CPU seconds of the same ratio as the times.
        assert!(!verdict(Regime::Warm, 1e5, 1.14, 2.0).cpu);
        assert!(verdict(Regime::Warm, 1e5, 1.16, 2.0).cpu);
        assert!(verdict(Regime::Warm, 1e6, 1.12, 2.0).cpu);
        assert!(!verdict(Regime::Cold, 1e5, 1.29, 2.0).cpu);
        let mut line = Line::new(&samples(&[6e4; 3]), &samples(&[1e5; 3]));
        line.cpu = 1.8;
        assert!(!judge(&line, Regime::Warm, 1e5, 1.0, 0.5).cpu, "it was faster for it");
    }

    #[test]
    fn faster_than_all_threads_together_is_impossible() {
        assert!(verdict(Regime::Warm, 1e5, 0.46, 1.0).impossible);
        assert!(!verdict(Regime::Warm, 1e5, 0.48, 1.0).impossible);
        assert!(!verdict(Regime::Busy, 1e5, 0.40, 1.0).impossible);
    }

    #[test]
    fn an_interrupted_baseline_does_not_make_others_impossible() {
        let line = Line::new(&samples(&[5e4, 5e4, 5e4]), &samples(&[2e5, 2e5, 1e5]));
        assert_eq!((line.ratio, line.fastest), (0.25, 0.5));
        assert!(!judge(&line, Regime::Warm, 2e5, 1.0, 0.5).impossible);
    }

    #[test]
    fn verdicts_name_the_rules_broken() {
        assert_eq!(Verdict::default().to_string(), "ok");
        assert_eq!(Verdict { loses: true, p90: true, ..Verdict::default() }.to_string(), "LOSES+p90");
    }
}
