//! The calls, and the runtimes that run them.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Counted;
use crate::counter::Counters;

/// An item: `turns` turns of about 0.8 ns. Not inlined, so that samples in it can be told from all others.
#[inline(never)]
pub(crate) fn item(seed: u64, turns: u32) -> u64 {
    (0..turns).fold(seed, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The operation on the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Collect,
    ForEach,
    Reduce,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Collect, Operation::ForEach, Operation::Reduce];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Collect => "collect",
            Operation::ForEach => "for_each",
            Operation::Reduce => "reduce",
        }
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) operation: Operation,
    pub(crate) turns: u32,
    pub(crate) items: usize,
}

/// About 10 ns and 1 us an item.
const TURNS: [u32; 2] = [12, 1200];

impl Cell {
    pub(crate) fn all() -> impl Iterator<Item = Cell> {
        let sizes = [10, 1000, 100_000, 1_000_000];
        Operation::ALL.into_iter().flat_map(move |operation| {
            TURNS.into_iter().flat_map(move |turns| sizes.map(|items| Cell { operation, turns, items }))
        })
    }

    /// The cells whose time is divided into shares.
    pub(crate) fn sampled() -> impl Iterator<Item = Cell> {
        let sizes = [1000, 100_000];
        TURNS.into_iter().flat_map(move |turns| sizes.map(|items| Cell { operation: Operation::Collect, turns, items }))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cost = if self.turns == TURNS[0] { "10 ns" } else { "1 us" };
        write!(f, "{}, {} x {cost}", self.operation.name(), self.items)
    }
}

/// A runtime, and the place from which it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Serial,
    Windrow,
    Rayon,
    RayonMinLen,
    RayonInside,
    RayonInsideMinLen,
}

impl Arm {
    pub(crate) const ALL: [Arm; 6] =
        [Arm::Serial, Arm::Windrow, Arm::Rayon, Arm::RayonMinLen, Arm::RayonInside, Arm::RayonInsideMinLen];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Arm::Serial => "serial",
            Arm::Windrow => "windrow",
            Arm::Rayon => "rayon",
            Arm::RayonMinLen => "rayon min_len",
            Arm::RayonInside => "rayon inside",
            Arm::RayonInsideMinLen => "rayon inside min_len",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Arm, String> {
        Arm::ALL.into_iter().find(|arm| arm.name() == name).ok_or_else(|| format!("there is no arm {name}"))
    }

    /// Runs `f` in the place from which this arm calls.
    pub(crate) fn inside<R: Send>(self, f: impl FnOnce() -> Result<R, String> + Send) -> Result<R, String> {
        match self {
            Arm::RayonInside | Arm::RayonInsideMinLen => {
                let pool = rayon::ThreadPoolBuilder::new().build().map_err(|error| error.to_string())?;
                pool.install(f)
            }
            _ => f(),
        }
    }

    fn call(self, operation: Operation, items: &[u64], turns: u32) -> u64 {
        match self {
            Arm::Serial => serial(operation, items, turns),
            Arm::Windrow => through_windrow(operation, items, turns),
            Arm::Rayon | Arm::RayonInside => through_rayon(operation, items, turns, 1),
            Arm::RayonMinLen | Arm::RayonInsideMinLen => {
                let min_len = windrow_bench::arms::min_len_of_2077(items.len(), rayon::current_num_threads());
                through_rayon(operation, items, turns, min_len)
            }
        }
    }
}

/// The answer to compare: the sum, or the number of items if nothing is returned.
fn sum(collected: &[u64]) -> u64 {
    collected.iter().copied().fold(0, u64::wrapping_add)
}

fn serial(operation: Operation, items: &[u64], turns: u32) -> u64 {
    let mapped = items.iter().map(|&x| item(x, turns));
    match operation {
        Operation::Collect => sum(&black_box(mapped.collect::<Vec<_>>())),
        Operation::ForEach => {
            mapped.for_each(|x| {
                black_box(x);
            });
            items.len() as u64
        }
        Operation::Reduce => mapped.fold(0, u64::wrapping_add),
    }
}

fn through_windrow(operation: Operation, items: &[u64], turns: u32) -> u64 {
    use windrow::prelude::*;
    match operation {
        Operation::Collect => sum(&black_box(items.par_iter().map(|&x| item(x, turns)).collect::<Vec<_>>())),
        Operation::ForEach => {
            items.par_iter().for_each(|&x| {
                black_box(item(x, turns));
            });
            items.len() as u64
        }
        Operation::Reduce => items.par_iter().map(|&x| item(x, turns)).reduce(|| 0, u64::wrapping_add),
    }
}

fn through_rayon(operation: Operation, items: &[u64], turns: u32, min_len: usize) -> u64 {
    use rayon::prelude::*;
    let items_of = || items.par_iter().with_min_len(min_len);
    match operation {
        Operation::Collect => sum(&black_box(items_of().map(|&x| item(x, turns)).collect::<Vec<_>>())),
        Operation::ForEach => {
            items_of().for_each(|&x| {
                black_box(item(x, turns));
            });
            items.len() as u64
        }
        Operation::Reduce => items_of().map(|&x| item(x, turns)).reduce(|| 0, u64::wrapping_add),
    }
}

/// Counts `repetitions` times as many calls as take 50 ms, at least one, after the same number of uncounted calls.
pub(crate) fn repeat(
    arm: Arm,
    cell: Cell,
    counters: &mut Counters,
    repetitions: usize,
) -> Result<Vec<Counted>, String> {
    let Cell { operation, turns, items } = cell;
    let items: Vec<u64> = (0..items as u64).collect();
    let expected = serial(operation, &items, turns);
    let call = || arm.call(operation, &items, turns);
    let check = || assert_eq!(call(), expected, "{} gives another answer than serial in {cell}", arm.name());
    // The first call may build a pool.
    check();
    let start = Instant::now();
    let mut calls = 0;
    while calls < 1 || start.elapsed() < Duration::from_millis(50) {
        check();
        calls += 1;
    }
    (0..repetitions)
        .map(|_| {
            let (before, start) = (counters.read()?, Instant::now());
            for _ in 0..calls {
                black_box(call());
            }
            let nanos = start.elapsed().as_nanos() as u64;
            let after = counters.read()?;
            Ok(Counted {
                calls,
                locked: after.locked - before.locked,
                contended: after.contended.zip(before.contended).map(|(after, before)| after - before),
                switches: after.switches - before.switches,
                nanos,
            })
        })
        .collect()
}

/// Calls `collect` repeatedly.
pub(crate) fn spin(arm: Arm, turns: u32, items: usize, time: Duration) -> Result<(), String> {
    let items: Vec<u64> = (0..items as u64).collect();
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(arm.call(Operation::Collect, &items, turns));
    }
    Ok(())
}

/// Two threads that only add to one number.
pub(crate) fn fight(time: Duration) {
    let line = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while start.elapsed() < time {
                    for _ in 0..10_000 {
                        // Relaxed: the number publishes nothing.
                        line.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arms_give_the_serial_answer() {
        let items: Vec<u64> = (0..1000).collect();
        for arm in Arm::ALL {
            assert_eq!(Arm::named(arm.name()), Ok(arm));
            for operation in Operation::ALL {
                let answer = arm.inside(|| Ok(arm.call(operation, &items, 12)));
                assert_eq!(answer, Ok(serial(operation, &items, 12)), "{arm:?} {operation:?}");
            }
        }
    }
}
