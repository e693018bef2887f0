//! Side-by-side measurements: interleaved, verified, with a control.
//!
//! A comparison runs its arms in turn, `A B A B`, in alternating order, checks every answer, and reports the paired ratio with its spread.
//! A *control* arm runs the same code as the baseline. Its ratio shows how much two equal arms differ on this machine at this moment, and
//! smaller differences mean nothing.
#![forbid(unsafe_code)]

pub mod arms;
pub mod cells;
pub mod cpu;
pub mod decompose;
pub mod kernels;
pub mod measure;
pub mod meeting;
pub mod neighbour;
pub mod programs;
pub mod random;
pub mod record;
pub mod report;
pub mod rounds;
pub mod simulate;
pub mod stats;
pub mod verdict;
pub mod work;

/// The book's page about rayon, compiled: its examples need rayon.
#[doc = include_str!("../../../book/src/from-rayon.md")]
#[cfg(doctest)]
struct FromRayon;

use std::fmt;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Ends a program: prints its error to stderr, if it has one.
pub fn exit_code(ran: Result<(), impl fmt::Display>) -> ExitCode {
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One way to do the work; its answer is compared with the baseline's.
pub struct Arm<'a, R> {
    name: &'a str,
    run: Box<dyn FnMut() -> R + 'a>,
}

impl<R> fmt::Debug for Arm<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arm").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, R> Arm<'a, R> {
    /// An arm called `name`.
    pub fn new(name: &'a str, run: impl FnMut() -> R + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// What one arm measured.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the arm.
    pub name: String,
    /// Times of all repetitions, in order.
    pub times: Vec<Duration>,
    /// Median of the ratios to the baseline's time of the same repetition.
    pub ratio: f64,
    /// The 10th and the 90th percentile of these ratios.
    pub spread: (f64, f64),
}

impl Row {
    /// Median time.
    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.median().as_nanos() as f64 / 1e3;
        write!(
            f,
            "{:<24} {micros:>12.2} us  x{:.3} ({:.3}..{:.3})",
            self.name, self.ratio, self.spread.0, self.spread.1
        )
    }
}

/// Runs all arms `repetitions` times, interleaved, the order reversed every other time. The first arm is the baseline.
///
/// # Panics
/// If an answer differs from the baseline's, if there is no arm, or no repetition.
pub fn compare<R: PartialEq + fmt::Debug>(arms: &mut [Arm<'_, R>], repetitions: usize) -> Vec<Row> {
    assert!(!arms.is_empty() && repetitions > 0, "nothing to compare");
    let mut times = vec![Vec::with_capacity(repetitions); arms.len()];
    let expected = (arms[0].run)();
    for repetition in 0..repetitions {
        for at in 0..arms.len() {
            let at = if repetition % 2 == 0 { at } else { arms.len() - 1 - at };
            let start = Instant::now();
            let answer = black_box((arms[at].run)());
            times[at].push(start.elapsed());
            assert_eq!(answer, expected, "{} gives another answer than {}", arms[at].name, arms[0].name);
        }
    }
    let baseline = times[0].clone();
    arms.iter().zip(times).map(|(arm, times)| row(arm.name, times, &baseline)).collect()
}

fn row(name: &str, times: Vec<Duration>, baseline: &[Duration]) -> Row {
    let nanos = |time: &Duration| time.as_nanos().max(1) as f64;
    let mut ratios: Vec<f64> = times.iter().zip(baseline).map(|(time, base)| nanos(time) / nanos(base)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    Row { name: name.to_string(), ratio: at(0.5), spread: (at(0.1), at(0.9)), times }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_paired_with_the_baseline() {
        let ms = Duration::from_millis;
        let row = row("x", vec![ms(20), ms(10), ms(60)], &[ms(10), ms(10), ms(20)]);
        assert_eq!((row.ratio, row.spread, row.median()), (2.0, (1.0, 3.0), ms(20)));
    }

    #[test]
    fn arms_take_turns_and_the_order_alternates() {
        let order = std::cell::RefCell::new(String::new());
        let arm = |name| Arm::new(name, || order.borrow_mut().push_str(name));
        let rows = compare(&mut [arm("a"), arm("b")], 3);
        assert_eq!(order.into_inner(), "aabbaab");
        assert_eq!(rows.len(), 2);
    }

    #[test]
    #[should_panic(expected = "b gives another answer than a")]
    fn a_wrong_answer_fails() {
        compare(&mut [Arm::new("a", || 1), Arm::new("b", || 2)], 1);
    }
}
