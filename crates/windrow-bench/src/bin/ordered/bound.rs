//! What the machine allows: how much faster two threads are than one if they share nothing.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windrow_bench::random::Random;
use windrow_bench::stats::{median, quantile};

use crate::arms::together;

const LINE: usize = 8;
/// A leaf of integers is eight lines.
const LEAF: usize = 8 * LINE;
/// The leaves of a million random keys.
const LEAVES: usize = 24_000;
const VISITS: usize = 100_000;
const MEETINGS: u64 = 20_000;

/// The same work on each of `threads` threads.
fn times(threads: usize, work: &(impl Fn(usize) + Sync)) -> Duration {
    together((0..threads).map(|thread| move || work(thread)))
}

/// Prints each measure, in nanoseconds a visit on one thread and on two at once, and the speedup of two.
pub(crate) fn print(repetitions: u16) {
    let mut random = Random::new(3);
    let leaves: [Vec<u64>; 2] = std::array::from_fn(|_| (0..LEAVES * LEAF).map(|at| at as u64).collect());
    let visits: [Vec<u32>; 2] = std::array::from_fn(|_| (0..VISITS).map(|_| random.below(LEAVES) as u32).collect());
    // A cycle through all leaves, one line of each.
    let mut order: Vec<u32> = (0..LEAVES as u32).collect();
    for at in (1..LEAVES).rev() {
        order.swap(at, random.below(at + 1));
    }
    let mut chain = vec![0_u64; LEAVES * LEAF];
    for (at, leaf) in order.iter().enumerate() {
        chain[*leaf as usize * LEAF] = u64::from(order[(at + 1) % LEAVES]) * LEAF as u64;
    }
    let chase = |_: usize| {
        let mut at = 0;
        for _ in 0..VISITS {
            at = chain[at] as usize;
        }
        black_box(at);
    };
    let lines = |count: usize| {
        let (leaves, visits) = (&leaves, &visits);
        move |thread: usize| {
            let (leaves, mut sum) = (&leaves[thread], 0_u64);
            for leaf in &visits[thread] {
                let leaf = &leaves[*leaf as usize * LEAF..][..LEAF];
                sum = leaf.iter().step_by(LINE).take(count).fold(sum, |sum, word| sum.wrapping_add(*word));
            }
            black_box(sum);
        }
    };
    let compute = |thread: usize| {
        let mut lanes = [thread as u64 + 1; 4];
        for _ in 0..VISITS * 4 {
            lanes = lanes.map(|lane| (lane ^ lane >> 7).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        black_box(lanes);
    };
    let (one_line, eight_lines) = (lines(1), lines(8));
    let measures: [(&str, &(dyn Fn(usize) + Sync)); 4] = [
        ("arithmetic, 4 independent chains", &compute),
        ("one line a visit, each after the last", &chase),
        ("one line a visit, all at once", &one_line),
        ("eight lines a visit, all at once", &eight_lines),
    ];
    println!(
        "{LEAVES} leaves of 512 bytes for each thread: ns a visit on one thread, on each of two, and the speedup of two"
    );
    for (name, work) in measures {
        let mut pairs = Vec::new();
        for _ in 0..repetitions {
            let run = |threads| times(threads, &|thread| work(thread)).as_nanos() as f64 / VISITS as f64;
            pairs.push((run(1), run(2)));
        }
        let speedups: Vec<f64> = pairs.iter().map(|(one, two)| 2.0 * one / two).collect();
        let of = |which: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(which).collect::<Vec<_>>());
        let (low, high) = (quantile(&speedups, 0.1), quantile(&speedups, 0.9));
        let (one, two) = (of(|pair| pair.0), of(|pair| pair.1));
        println!("  {name:<38} {one:>7.1} {two:>7.1}  x{:.2} ({low:.2}..{high:.2})", median(&speedups));
    }
    let trips: Vec<f64> = (0..repetitions).map(|_| transfer()).collect();
    let (low, high) = (quantile(&trips, 0.1), quantile(&trips, 0.9));
    println!("  a line from one thread to the other   {:>8.1} ({low:.1}..{high:.1})", median(&trips));
}

/// Nanoseconds that a line takes from one thread to the other.
fn transfer() -> f64 {
    let turn = AtomicU64::new(0);
    let time = times(2, &|thread| {
        for meeting in 0..MEETINGS {
            let mine = meeting * 2 + thread as u64;
            while turn.load(Ordering::Acquire) != mine {
                std::hint::spin_loop();
            }
            turn.store(mine + 1, Ordering::Release);
        }
    });
    time.as_nanos() as f64 / (2 * MEETINGS) as f64
}
