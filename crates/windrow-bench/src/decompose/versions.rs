//! The versions of a problem that take turns, and faer.

use std::hint::black_box;
use std::time::{Duration, Instant};

use windrow::team::Width;

use super::blocked::{Blocked, Panel};
use super::inputs;
use super::library::Faer;
use super::sweeps::{Additions, Heat, Paths};
use crate::arms::{CONTROL, SERIAL};
use crate::cpu::CpuClock;
use crate::measure::{clock_cost, in_turn};
use crate::verdict::Samples;

/// The versions of all problems.
pub const VERSIONS: [&str; 6] = [SERIAL, CONTROL, "windrow", "rayon-inside", "rayon-parts-inside", "rayon"];
/// faer's decomposition: sequential, and on rayon's pool, called inside of it.
pub const LIBRARY: [&str; 2] = ["faer-serial", "faer-inside"];

/// A problem of some size, its input and its answer.
pub trait Problem: Send {
    /// `lu/512`.
    fn name(&self) -> String;

    /// Restores the input for this version.
    fn load(&mut self, version: &str);

    /// Solves the problem.
    fn solve(&mut self, version: &str, threads: usize);

    /// Whether this version's answer is right.
    fn is_right(&self, version: &str) -> bool;
}

/// Our versions: the bits of the sequential version are the right answer for all.
trait Versions: Send {
    fn load(&mut self, input: &[f64]);
    fn answer(&self) -> &[f64];
    fn sequential(&mut self);
    fn team(&mut self, width: Width);
    fn rayon(&mut self);
    fn rayon_parts(&mut self, threads: usize);

    fn solve(&mut self, version: &str, threads: usize) {
        match version {
            SERIAL | CONTROL => self.sequential(),
            "windrow" => self.team(Width::at_most(threads)),
            "rayon" | "rayon-inside" => self.rayon(),
            "rayon-parts-inside" => self.rayon_parts(threads),
            _ => panic!("no version is called {version}"),
        }
    }
}

macro_rules! versions {
    ($Type:ty, $answer:ident $(, $P:ident)?) => {
        impl$(<$P: Panel>)? Versions for $Type {
            fn load(&mut self, input: &[f64]) {
                self.load(input);
            }
            fn answer(&self) -> &[f64] {
                self.$answer()
            }
            fn sequential(&mut self) {
                self.sequential();
            }
            fn team(&mut self, width: Width) {
                self.team(width);
            }
            fn rayon(&mut self) {
                self.rayon();
            }
            fn rayon_parts(&mut self, threads: usize) {
                self.rayon_parts(threads);
            }
        }
    };
}
versions!(Blocked<P>, matrix, P);
versions!(Heat, plate);
versions!(Paths, lengths);
versions!(Additions, values);

struct Ours<V> {
    name: String,
    versions: V,
    input: Vec<f64>,
    answer: Vec<f64>,
}

impl<V: Versions> Ours<V> {
    fn new(name: String, mut versions: V, input: Vec<f64>) -> Self {
        versions.load(&input);
        versions.sequential();
        let answer = versions.answer().to_vec();
        Self { name, versions, input, answer }
    }
}

impl<V: Versions> Problem for Ours<V> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn load(&mut self, _: &str) {
        self.versions.load(&self.input);
    }

    fn solve(&mut self, version: &str, threads: usize) {
        self.versions.solve(version, threads);
    }

    fn is_right(&self, _: &str) -> bool {
        self.versions.answer().iter().zip(&self.answer).all(|(a, b)| a.to_bits() == b.to_bits())
    }
}

/// A decomposition by our versions, and by faer's.
struct Beside<P> {
    ours: Ours<Blocked<P>>,
    /// Selects faer's decomposition.
    decompose: fn(&mut Faer),
    /// Sequential, and with threads.
    faer: [Faer; 2],
}

impl<P: Panel> Beside<P> {
    fn new(name: String, n: usize, input: Vec<f64>, decompose: fn(&mut Faer), threads: usize) -> Self {
        let faer = [1, threads].map(|threads| Faer::new(n, threads));
        Self { ours: Ours::new(name, Blocked::<P>::new(n), input), decompose, faer }
    }

    fn faer(&mut self, version: &str) -> Option<&mut Faer> {
        LIBRARY.iter().position(|known| *known == version).map(|at| &mut self.faer[at])
    }
}

impl<P: Panel> Problem for Beside<P> {
    fn name(&self) -> String {
        self.ours.name()
    }

    fn load(&mut self, version: &str) {
        match LIBRARY.iter().position(|known| *known == version) {
            Some(at) => self.faer[at].load(&self.ours.input),
            None => self.ours.load(version),
        }
    }

    fn solve(&mut self, version: &str, threads: usize) {
        let decompose = self.decompose;
        match self.faer(version) {
            Some(faer) => decompose(faer),
            None => self.ours.solve(version, threads),
        }
    }

    /// faer rounds differently, and leaves arbitrary values above the diagonal of a Cholesky decomposition.
    fn is_right(&self, version: &str) -> bool {
        let Some(at) = LIBRARY.iter().position(|known| *known == version) else { return self.ours.is_right(version) };
        let (theirs, ours) = (self.faer[at].matrix(), &self.ours.answer);
        let n = ours.len().isqrt();
        let most = ours.iter().fold(1.0f64, |most, value| most.max(value.abs()));
        let counts = |at: &usize| P::EXCHANGES || at % n >= at / n;
        (0..n * n).filter(counts).all(|at| (theirs[at] - ours[at]).abs() <= 1e-10 * most * n as f64)
    }
}

/// The problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// LU with partial pivoting.
    Lu,
    /// Cholesky.
    Cholesky,
    /// Jacobi's iteration on a square plate, 100 steps.
    Heat,
    /// All shortest paths, by Floyd and Warshall.
    Paths,
    /// Each value added to all that follow it; 10 times as many values as the size says.
    Additions,
}

/// Steps of the heat on a plate.
const STEPS: usize = 100;

impl Kind {
    /// Whether faer has this problem.
    pub fn is_in_library(self) -> bool {
        matches!(self, Kind::Lu | Kind::Cholesky)
    }

    /// This problem with size `n`, for `threads` threads.
    pub fn problem(self, n: usize, threads: usize) -> Box<dyn Problem> {
        let seed = n as u64;
        match self {
            Kind::Lu => {
                let name = format!("lu/{n}");
                Box::new(Beside::<super::lu::Lu>::new(name, n, inputs::matrix(n, seed), Faer::lu, threads))
            }
            Kind::Cholesky => {
                let (name, input) = (format!("cholesky/{n}"), inputs::positive_definite(n, seed));
                Box::new(Beside::<super::cholesky::Cholesky>::new(name, n, input, Faer::cholesky, threads))
            }
            Kind::Heat => {
                let name = format!("heat/{n}x{STEPS}");
                Box::new(Ours::new(name, Heat::new(n, STEPS), inputs::matrix(n, seed)))
            }
            Kind::Paths => Box::new(Ours::new(format!("paths/{n}"), Paths::new(n), inputs::edges(n, seed))),
            Kind::Additions => {
                let input = inputs::matrix(n, seed).into_iter().cycle().take(10 * n).collect();
                Box::new(Ours::new(format!("additions/{}", 10 * n), Additions::new(10 * n), input))
            }
        }
    }
}

/// A turn's calls take about this long, or are one call.
const TURN: Duration = Duration::from_millis(2);
/// After a turn a pool comes to rest before the next version's.
const REST: Duration = Duration::from_millis(1);

/// Measures a problem. Returns the samples of the versions, in order. The input is restored before every call, outside of its time.
///
/// # Panics
/// If an answer is wrong.
pub fn measure(problem: &mut dyn Problem, versions: &[&str], repetitions: usize, threads: usize) -> Vec<Samples> {
    let once = turn(problem, versions[0], 3, threads, 0.0);
    let least = once.times.iter().copied().fold(f64::INFINITY, f64::min);
    let calls = (TURN.as_nanos() as f64 / least.max(1.0)).round().clamp(1.0, 1000.0) as usize;
    let clock = clock_cost();
    let mut samples = vec![Samples::default(); versions.len()];
    for repetition in 0..repetitions {
        for at in in_turn(versions.len(), repetition) {
            let (version, samples) = (versions[at], &mut samples[at]);
            let is_inside = version.ends_with("-inside");
            let new = match is_inside {
                true => rayon::scope(|_| turn(&mut *problem, version, calls, threads, clock)),
                false => turn(problem, version, calls, threads, clock),
            };
            assert!(problem.is_right(version), "{}: {version} gives another answer than serial", problem.name());
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            samples.times.push(mean(&new.times));
            samples.singles.extend(new.times);
            samples.cpu.push(mean(&new.cpu));
            samples.cpu_at_rest.extend(new.cpu_at_rest);
        }
    }
    samples
}

/// Times each of `calls` calls, after one call that is not timed.
fn turn(problem: &mut dyn Problem, version: &str, calls: usize, threads: usize, clock_cost: f64) -> Samples {
    let mut samples = Samples::default();
    let clock = CpuClock::new();
    for call in 0..=calls {
        problem.load(version);
        let before = clock.now();
        let start = Instant::now();
        black_box(&mut *problem).solve(version, threads);
        let time = start.elapsed().as_nanos() as f64 - clock_cost;
        let cpu = clock.now().saturating_sub(before).as_nanos() as f64;
        if call > 0 {
            samples.times.push(time);
            samples.cpu.push(cpu);
        }
    }
    let before = clock.now();
    std::thread::sleep(REST);
    samples.cpu_at_rest.push(clock.now().saturating_sub(before).as_nanos() as f64);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; 5] = [Kind::Lu, Kind::Cholesky, Kind::Heat, Kind::Paths, Kind::Additions];

    #[test]
    fn every_version_of_every_problem_is_right_and_is_measured() {
        for kind in ALL {
            let mut problem = kind.problem(70, 2);
            let mut versions = VERSIONS.to_vec();
            versions.extend(LIBRARY.into_iter().filter(|_| kind.is_in_library()));
            let samples = measure(&mut *problem, &versions, 2, 2);
            assert_eq!(samples.len(), versions.len());
            for samples in samples {
                assert_eq!((samples.times.len(), samples.cpu.len(), samples.cpu_at_rest.len()), (2, 2, 2));
                assert!(samples.singles.len() >= 2);
            }
        }
    }

    #[test]
    fn an_answer_that_differs_in_a_bit_is_wrong() {
        let mut ours = Ours::new("x".into(), Additions::new(3), vec![1.0, 2.0, 3.0]);
        ours.load(SERIAL);
        ours.solve("windrow", 2);
        assert!(ours.is_right("windrow"));
        ours.answer[2] = ours.answer[2].next_up();
        assert!(!ours.is_right("windrow"));
    }

    #[test]
    fn an_answer_far_from_faers_is_wrong() {
        let mut beside = Beside::<crate::decompose::lu::Lu>::new("x".into(), 9, inputs::matrix(9, 1), Faer::lu, 2);
        beside.load(LIBRARY[0]);
        beside.solve(LIBRARY[0], 1);
        assert!(beside.is_right(LIBRARY[0]));
        beside.ours.answer[80] += 1e-6;
        assert!(!beside.is_right(LIBRARY[0]));
    }
}
