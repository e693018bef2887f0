//! Rounds in lockstep: `x[i + 1..] += x[i]` for one `i` after the other, each round shared among threads.
//!
//! The problem comes from Sarah El Kazdadi's "speeding up data parallel code sections with... tokio?". A round takes a microsecond, so the
//! comparison is about how fast threads synchronize.

use std::time::Instant;

use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSliceMut;
use windrow::team::split;
use windrow::{Width, team};

use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::result::Unit;
use crate::work::{Item, work};
use crate::{Run, ScenarioGroup};

/// Numbers, and rounds of a call: a call takes some milliseconds at most.
const CELLS: [(usize, usize); 7] =
    [(300, 300), (1_000, 1_000), (3_000, 3_000), (10_000, 2_000), (30_000, 1_000), (100_000, 300), (400_000, 100)];

/// `n` numbers for which all rounds stay exact.
///
/// Every round doubles an error, so arbitrary numbers would soon become infinite and hide a missing round. So the heads are drawn: random
/// multiples of 2^-20 in [-1, 1). Their sums stay below 2^20 and are exact in a double. Peers in C have the same numbers.
pub fn input(n: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let number = |at: u64| {
        let drawn = work(Item { seed: at + 1, turns: 2 }) >> 43;
        let head = (drawn as f64 - f64::from(1 << 20)) / f64::from(1 << 20);
        let number = head - sum;
        sum += head;
        number
    };
    (0..n as u64).map(number).collect()
}

/// A round's work on one part. Every arm calls this one function, so arms differ only between rounds.
#[inline(never)]
pub fn add(head: f64, part: &mut [f64]) {
    for number in part {
        *number += head;
    }
}

/// The first `rounds` rounds, one after the other.
///
/// # Panics
/// There are more rounds than numbers.
pub fn sequential(x: &mut [f64], rounds: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        add(*head, tail);
    }
}

/// The work of one of `width` threads in these rounds, without waiting for the others: the least possible time. It is the last part of each
/// tail, which shrinks and never moves.
///
/// # Panics
/// There are more rounds than numbers.
pub fn one_share(x: &mut [f64], rounds: usize, width: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        let from = tail.len() - tail.len() / width;
        add(*head, &mut tail[from..]);
    }
}

/// Runs rounds on the numbers.
type Rounds<'a> = Box<dyn FnMut(&mut [f64], usize) -> Result<(), String> + 'a>;

type Site = fn(&mut [f64], usize);

macro_rules! site {
    () => {
        |x, rounds| {
            let ended = team(x).run(|member| {
                member.rounds::<f64, &mut [f64]>(
                    0..rounds,
                    |x, i, deal| {
                        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
                        deal.parts(split::lines(tail, deal.width()));
                        *head
                    },
                    |_, head, mine| add(head, mine),
                )
            });
            // A member that leaves early would omit rounds, which the comparison shows.
            drop(ended);
        }
    };
}

/// Call sites: see `loops`.
static SITES: [Site; CELLS.len()] = [site!(), site!(), site!(), site!(), site!(), site!(), site!()];

/// A team of exactly this width, all of whose members run every round.
fn fixed(x: &mut [f64], rounds: usize, width: usize) -> Result<(), String> {
    let team = team(x).width(Width::exactly(width));
    let ended = team.try_run(|member| {
        for i in 0..rounds {
            let (head, mine) = member.round::<f64, &mut [f64]>(|x, deal| {
                let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
                deal.parts(split::lines(tail, deal.width()));
                *head
            })?;
            add(head, mine);
        }
        Ok::<(), windrow::team::Ended>(())
    });
    let ended = ended.map_err(|error| error.to_string())?;
    if ended.iter().all(Result::is_ok) { Ok(()) } else { Err("a member left before the last round".to_owned()) }
}

/// The numbers of an arm, with their input and the expected results.
#[derive(Clone)]
struct Field {
    rounds: usize,
    x: Vec<f64>,
    input: Vec<f64>,
    expected: Vec<f64>,
}

impl Field {
    fn new(n: usize, rounds: usize) -> Self {
        let input = input(n);
        let mut expected = input.clone();
        sequential(&mut expected, rounds);
        Self { rounds, x: input.clone(), input, expected }
    }

    /// An arm with separate numbers. The arm of the bound computes only one share of the rounds.
    fn arm<'a>(&self, name: impl Into<String>, role: Role, mut run: Rounds<'a>) -> Arm<'a> {
        let mut field = self.clone();
        Arm::new(name, role, move |ask| field.timed(ask, role != Role::Bound, &mut run))
    }

    /// The time of a round in nanoseconds. Resetting the numbers is not timed.
    fn timed(
        &mut self,
        ask: Ask,
        is_complete: bool,
        mut run: impl FnMut(&mut [f64], usize) -> Result<(), String>,
    ) -> Result<f64, String> {
        let mut nanos = 0.0;
        for call in 0..ask.warm_up + ask.calls {
            self.x.copy_from_slice(&self.input);
            let start = Instant::now();
            run(&mut self.x, self.rounds)?;
            nanos += if call < ask.warm_up { 0.0 } else { start.elapsed().as_nanos() as f64 };
            if is_complete && self.x != self.expected {
                return Err("the answer differs from that of the plain loop".to_owned());
            }
        }
        Ok(nanos / (ask.calls * self.rounds) as f64)
    }
}

/// Widths to try: all up to eight, then increasingly fewer.
fn widths(threads: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = (1..=threads.min(8)).collect();
    let mut width = 12;
    while width < threads {
        widths.push(width);
        width = if width.is_power_of_two() { width * 3 / 2 } else { width / 3 * 4 };
    }
    widths.extend((threads > 8).then_some(threads));
    widths
}

/// Measures all rounds.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let (threads, width, peer) = (run.settings.threads, run.width(), run.peer);
    for (index, (n, rounds)) in run.wanted(CELLS) {
        let (field, site) = (Field::new(n, rounds), SITES[index]);
        let always = |name: &str, role, run: Site| {
            let run = move |x: &mut [f64], rounds: usize| {
                run(x, rounds);
                Ok(())
            };
            field.arm(name, role, Box::new(run))
        };
        let mut arms = vec![
            always("plain loop", Role::Serial, sequential),
            always("control", Role::Control, sequential),
            always("windrow", Role::Windrow, site),
        ];
        arms.extend(widths(threads).into_iter().map(|width| {
            let name = if width == 1 { "1 member".to_owned() } else { format!("{width} members") };
            field.arm(name, Role::Fixed(width as f64), Box::new(move |x, rounds| fixed(x, rounds, width)))
        }));
        arms.extend(peer.map(|pool| {
            let run = move |x: &mut [f64], rounds| {
                pool.install(|| on_rayon(x, rounds));
                Ok(())
            };
            field.arm("rayon", Role::Rayon, Box::new(run))
        }));
        let share = move |x: &mut [f64], rounds: usize| {
            one_share(x, rounds, width);
            Ok(())
        };
        arms.push(field.arm("one share", Role::Bound, Box::new(share)));
        let mut told = field.clone();
        let why = move || crate::explained(|| site(&mut told.x, rounds));
        let sweep = ("width", Bound::Measured);
        let scenario = Scenario::new(ScenarioGroup::Rounds, "numbers", n as f64, sweep, arms, why);
        run.measure(Scenario { unit: Unit::Round, per_call: rounds, ..scenario })?;
    }
    Ok(())
}

/// Number of cells.
pub(crate) fn count() -> usize {
    CELLS.len()
}

/// The rounds on rayon, called inside its pool: each round is a loop over one chunk a thread.
fn on_rayon(x: &mut [f64], rounds: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        let chunk = tail.len().div_ceil(rayon::current_num_threads()).max(1);
        tail.par_chunks_mut(chunk).for_each(|part| add(*head, part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rayon_gives_what_plain_code_gives() {
        let (mut x, mut expected) = (input(500), input(500));
        sequential(&mut expected, 400);
        on_rayon(&mut x, 400);
        assert_eq!(x, expected);
    }

    #[test]
    fn every_way_gives_what_the_plain_loop_gives() {
        let ask = Ask { warm_up: 1, calls: 2, ..Ask::default() };
        let mut field = Field::new(500, 400);
        for width in [1, 2] {
            let pool = windrow::Pool::new(2);
            let nanos = pool.install(|| field.timed(ask, true, |x, rounds| fixed(x, rounds, width)));
            assert!(nanos.unwrap() > 0.0);
        }
        field
            .timed(ask, true, |x, rounds| {
                SITES[0](x, rounds);
                Ok(())
            })
            .unwrap();
        let lazy = field.timed(ask, true, |x, rounds| {
            sequential(x, rounds - 1);
            Ok(())
        });
        assert_eq!(lazy, Err("the answer differs from that of the plain loop".to_owned()));
    }

    #[test]
    fn widths_reach_from_one_to_all_threads() {
        assert_eq!((widths(1), widths(2)), (vec![1], vec![1, 2]));
        assert_eq!(widths(64), [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]);
    }
}
