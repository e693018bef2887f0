//! The costs of synchronization on this machine, measured in a few seconds.
//!
//! Pools do not read these figures: they guess the costs, and correct the guesses from their first calls. The figures are for a reader who
//! asks on what kind of machine a program has decided.

use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use windrow::prelude::*;
use windrow::{Nanos, Pool};
use windrow_sync::machine::{cpus, tick, ticks_per_micro};
use windrow_sync::relaxed::RelaxedU64;

/// One primitive of synchronization, and its cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Primitive {
    /// The name, in up to four words.
    name: &'static str,
    /// The quantity, in a line.
    what: &'static str,
    /// The median of the measurements.
    cost: Nanos,
    /// The 10th and the 90th percentile.
    spread: (Nanos, Nanos),
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.spread;
        let cost = [self.cost, low, high].map(fine);
        write!(f, "{:<16} {:>9}  ({} to {})  {}", self.name, cost[0], cost[1], cost[2], self.what)
    }
}

/// A time with a decimal even below a microsecond.
fn fine(time: Nanos) -> String {
    if time.0 < 1e3 { format!("{:.1} ns", time.0) } else { time.to_string() }
}

/// The number of primitives.
pub(super) const PRIMITIVES: usize = 9;

/// Measures the primitives, and calls `done` after each. The machine should be idle.
///
/// On a machine with one CPU, only the primitives of one thread are measured.
pub(super) fn measure(mut done: impl FnMut(&Primitive)) -> Vec<Primitive> {
    let mut primitives = Vec::with_capacity(PRIMITIVES);
    let mut add = |name, what, mut samples: Vec<f64>| {
        samples.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| Nanos(samples[((samples.len() - 1) as f64 * share).round() as usize]);
        let primitive = Primitive { name, what, cost: at(0.5), spread: (at(0.1), at(0.9)) };
        done(&primitive);
        primitives.push(primitive);
    };
    add("clock", "one read of the clock", clock());
    add("claim", "a compare-exchange on a cache line that no other CPU uses, plus one read of the clock", claims());
    add("copy", "a copy of 1 MiB within the caches", copies());
    if cpus() > 1 {
        add("line", "a word moves from one CPU to another", lines());
        let (calls, latencies) = wakes();
        add("wake call", "the call that wakes a parked thread", calls);
        add("wake", "from the wake call until a thread that was parked for 2 ms runs", latencies);
        let pool = Pool::new(2);
        let rests = [Duration::ZERO, PARKED, PARKED_LONG];
        let mut entered: [Vec<f64>; 3] = Default::default();
        // Alternately, because a disturbance on the machine lasts for a while.
        for _ in 0..ROUNDS {
            entered.iter_mut().zip(rests).for_each(|(all, rest)| all.extend(regions(&pool, rest)));
        }
        let [idle, nap, wake] = entered;
        add("enter, idle", "entering a region of two members while its worker spins", idle);
        add("enter, parked", "entering a region of two members just after its worker parked", nap);
        add("enter, halted", "entering a region of two members long after its worker parked", wake);
    }
    primitives
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Samples of a primitive that takes nanoseconds.
const SAMPLES: usize = 301;

/// Samples of the mean time of `count` calls of `work`, which gets their numbers from 0.
fn samples(count: u64, mut work: impl FnMut(u64)) -> Vec<f64> {
    let batch = |_| {
        let begin = Instant::now();
        (0..count).for_each(&mut work);
        nanos(begin.elapsed()) / count as f64
    };
    (0..SAMPLES).map(batch).collect()
}

fn clock() -> Vec<f64> {
    samples(1000, |_| {
        black_box(tick());
    })
}

fn claims() -> Vec<f64> {
    let word = AtomicU64::new(0);
    let mut claimed = 0;
    samples(64, |_| {
        // Relaxed: only this thread uses the word; only the cost matters.
        let _ = black_box(word.compare_exchange(claimed, claimed + 1, Ordering::Relaxed, Ordering::Relaxed));
        claimed += 1;
        black_box(tick());
    })
}

fn copies() -> Vec<f64> {
    let from = vec![1u8; 1 << 20];
    let mut to = vec![0u8; 1 << 20];
    samples(1, |_| {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    })
}

/// Two threads answer each other: a round trip moves two lines.
fn lines() -> Vec<f64> {
    const TRIPS: u64 = 200;
    let (ping, pong) = (RelaxedU64::new(0), RelaxedU64::new(0));
    let total = SAMPLES as u64 * TRIPS;
    thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 1..=total {
                while ping.get() < trip {
                    spin_loop();
                }
                pong.set(trip);
            }
        });
        let mut trip = 0;
        let round_trips = samples(TRIPS, |_| {
            trip += 1;
            ping.set(trip);
            while pong.get() < trip {
                spin_loop();
            }
        });
        round_trips.into_iter().map(|round_trip| round_trip / 2.0).collect()
    })
}

/// A thread that is parked for 2 ms is woken: the time of the call, and the time until it runs.
fn wakes() -> (Vec<f64>, Vec<f64>) {
    const WAKES: u64 = 101;
    let time = |ticks: u64| ticks as f64 * 1000.0 / ticks_per_micro();
    let (turn, woken) = (Arc::new(RelaxedU64::new(0)), Arc::new(RelaxedU64::new(0)));
    let sleeper = thread::spawn({
        let (turn, woken) = (turn.clone(), woken.clone());
        move || {
            for wanted in 1..=WAKES {
                while turn.get() < wanted {
                    thread::park();
                }
                woken.set(tick());
            }
        }
    });
    let (mut calls, mut latencies) = (Vec::new(), Vec::new());
    for wanted in 1..=WAKES {
        pause(PARKED_LONG);
        let before = woken.get();
        let begin = tick();
        turn.set(wanted);
        sleeper.thread().unpark();
        calls.push(time(tick().saturating_sub(begin)));
        while woken.get() == before {
            spin_loop();
        }
        latencies.push(time(woken.get().saturating_sub(begin)));
    }
    let _ = sleeper.join();
    (calls, latencies)
}

/// Spins like a caller that works.
fn pause(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        spin_loop();
    }
}

/// Longer than a worker spins, and shorter than the pause after which its CPU counts as halted.
const PARKED: Duration = Duration::from_micros(500);
/// After this pause its CPU counts as halted.
const PARKED_LONG: Duration = Duration::from_millis(2);

/// Rounds of regions, and regions in each.
const ROUNDS: usize = 20;
const REGIONS: usize = 40;

/// Time that regions of two items take beyond an item, each after a rest.
fn regions(pool: &Pool, rest: Duration) -> Vec<f64> {
    // Longer than a halted CPU takes to begin, so that two items are shared in every state.
    const ITEM: Duration = Duration::from_micros(100);
    let mut region = |_| {
        pause(rest);
        let begin = Instant::now();
        (0..2u32).into_par_iter().with_claim_size(1).for_each(|_| pause(ITEM));
        (nanos(begin.elapsed()) - nanos(ITEM)).max(1.0)
    };
    pool.install(|| (0..REGIONS).map(&mut region).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_primitives_are_measured_and_reported() {
        let mut reported = Vec::new();
        let all = measure(|primitive| reported.push(primitive.clone()));
        assert_eq!(reported, all);
        assert_eq!(reported.len(), if cpus() > 1 { PRIMITIVES } else { 3 });
        for Primitive { name, cost, spread: (low, high), .. } in reported {
            assert!(low.0 > 0.0 && low <= cost && cost <= high && high.0 < 1e9, "{name}: {low} {cost} {high}");
        }
    }
}
