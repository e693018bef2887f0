//! commonware-parallel: loops that run serially or in a pool, as measured before at the same call site and length.
//!
//! `commonware` is its documentation's way to map, which gathers the items into a vector first. `commonware-batches` gathers nothing. Each way has a policy of its own, over one pool.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use commonware_parallel::rayon::ThreadPoolBuilder;
use commonware_parallel::{Rayon, Strategy, ThreadPool};

use super::{Arm, Here, Setting, outside};
use crate::cells::RECORDED;
use crate::work::{Item, serial, work};

/// The arms.
pub(super) const NAMES: [&str; 3] = ["commonware", "commonware-inside", "commonware-batches"];

pub(super) fn arm(name: &str, Setting { threads }: Setting) -> Option<Box<dyn Arm>> {
    let call = match name {
        "commonware" | "commonware-inside" => |site: &Site| site.collect,
        "commonware-batches" => |site: &Site| site.batches,
        _ => return None,
    };
    let strategy = strategy(threads);
    let run = move |cell: usize, items: &[Item], out: &mut Vec<u64>| {
        call(&SITES[cell])(&strategy, items, out);
    };
    if name.ends_with("-inside") {
        let pool = pool(threads);
        return Some(Here::arm(name, move |body| pool.install(body), run));
    }
    Some(Here::arm(name, outside, run))
}

fn pool(threads: usize) -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| {
        Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started"))
    })
}

/// A strategy that knows no call site yet, over one pool for all. Every caller names the same number of threads.
pub fn strategy(threads: usize) -> Rayon {
    Rayon::with_pool(pool(threads).clone())
}

/// Runs `f` on parts of `values`, which start at multiples of `step`. `f` takes the index of a part's first value, too.
///
/// The call site is the caller's.
#[track_caller]
pub fn in_batches<T: Send>(strategy: &Rayon, values: &mut [T], step: usize, f: impl Fn(usize, &mut [T]) + Send + Sync) {
    strategy.run_batches(values.len() / step, NonZeroUsize::MIN, step, |batches| {
        if batches.is_whole() {
            return f(0, values);
        }
        let parts = |ranges: Vec<Range<usize>>| {
            let mut rest = values;
            let mut part = |range: Range<usize>| {
                let (part, after) = std::mem::take(&mut rest).split_at_mut(range.len() * step);
                rest = after;
                (range.start * step, part)
            };
            ranges.into_iter().map(&mut part).collect::<Vec<_>>()
        };
        batches.map_collect_vec(parts, |(start, part)| f(start, part));
    });
}

/// The sum of `f` over parts of `0..n`. The call site is the caller's.
#[track_caller]
pub fn sum_of_batches(strategy: &Rayon, n: usize, f: impl Fn(Range<usize>) -> u64 + Send + Sync) -> u64 {
    strategy.run_batches(n, NonZeroUsize::MIN, 1, |batches| {
        if batches.is_whole() {
            return f(0..n);
        }
        batches.map_collect_vec(|ranges| ranges, f).into_iter().fold(0, u64::wrapping_add)
    })
}

/// The loops at one call site.
struct Site {
    collect: Loop,
    batches: Loop,
}

type Loop = fn(&Rayon, &[Item], &mut Vec<u64>);

macro_rules! site {
    () => {
        Site {
            collect: |strategy, items, out| *out = strategy.map_collect_vec(items, |item| work(*item)),
            batches: |strategy, items, out| {
                in_batches(strategy, out, 1, |start, out| serial(&items[start..start + out.len()], out));
            },
        }
    };
}

/// A call site for each cell. A site is a line and a column.
#[rustfmt::skip]
static SITES: [Site; RECORDED] = [
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_all_values_at_their_places() {
        let strategy = strategy(2);
        for n in [1, 2, 3, 10] {
            // The first calls at a site run in the pool.
            for _ in 0..3 {
                let mut values = vec![0; n * 4];
                in_batches(&strategy, &mut values, 4, |start, part| {
                    part.iter_mut().enumerate().for_each(|(at, value)| *value = start + at);
                });
                assert!(values.iter().enumerate().all(|(at, value)| at == *value), "{values:?}");
                assert_eq!(
                    sum_of_batches(&strategy, n, |part| part.map(|at| at as u64).sum()),
                    (0..n as u64).sum::<u64>()
                );
            }
        }
    }
}
