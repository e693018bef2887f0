//! Loops: items of ten nanoseconds to a hundred microseconds, an outlier, costs of three decades, and calls after a pause.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use windrow::Pool;
use windrow::prelude::*;

use super::crew;
use super::measure::{Arm, Ask, Bound, Role, Scenario};
use super::result::{Shape, Unit};
use super::work::{Calibration, Item, Random, serial, work};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Costs {
    /// All items cost the same, in nanoseconds.
    Uniform(f64),
    /// Items of 100 ns, and one of a thousand times that, at this share of the way.
    Outlier(f64),
    /// Log-uniform over the three decades from 10 ns to 10 us.
    Log(Order),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Random,
    Ascending,
    Descending,
}

/// One loop: data, as the families below are.
#[derive(Clone, Copy, Debug)]
struct Loop {
    costs: Costs,
    n: usize,
    cold: bool,
}

/// Items that cost the same: name, nanoseconds, numbers of items.
const UNIFORM: [(&str, f64, &[usize]); 5] = [
    ("10ns", 1e1, &[1, 10, 100, 1_000, 10_000, 100_000]),
    ("100ns", 1e2, &[1, 10, 100, 1_000, 10_000, 100_000]),
    ("1us", 1e3, &[1, 2, 10, 100, 1_000, 10_000]),
    ("10us", 1e4, &[1, 2, 10, 100, 1_000]),
    ("100us", 1e5, &[1, 2, 10, 100]),
];
const OUTLIERS: [(&str, f64); 3] = [("first", 0.0), ("middle", 0.5), ("last", 1.0)];
/// Before the call that is explained, where calls come after a pause.
const PAUSE: Duration = Duration::from_millis(5);
const SMALL_BESIDE_OUTLIER: usize = 512;
const ORDERS: [(&str, Order); 3] =
    [("random", Order::Random), ("ascending", Order::Ascending), ("descending", Order::Descending)];
/// Items of this many nanoseconds in calls after a pause.
const COLD: [(&str, f64, &[usize]); 2] = [("1us", 1e3, &[1, 10, 100, 1_000, 10_000]), ("100us", 1e5, &[10, 100])];

/// Family, size and loop of every cell.
fn cells() -> Vec<(String, usize, Loop)> {
    let uniform = |prefix: &'static str, cold: bool| {
        move |&(name, cost, counts): &(&str, f64, &'static [usize])| {
            let family = format!("{prefix}{name}");
            let of = move |&n: &usize| (family.clone(), n, Loop { costs: Costs::Uniform(cost), n, cold });
            counts.iter().map(of).collect::<Vec<_>>()
        }
    };
    let outlier = |(name, at)| {
        let n = SMALL_BESIDE_OUTLIER + 1;
        (format!("outlier/{name}"), n, Loop { costs: Costs::Outlier(at), n, cold: false })
    };
    let log = |n: usize| {
        ORDERS.map(|(name, order)| (format!("log/{name}"), n, Loop { costs: Costs::Log(order), n, cold: false }))
    };
    let mut cells: Vec<_> = UNIFORM.iter().flat_map(uniform("items of ", false)).collect();
    cells.extend(OUTLIERS.map(outlier));
    cells.extend([1_000, 10_000].into_iter().flat_map(log));
    cells.extend(COLD.iter().flat_map(uniform("after a pause, items of ", true)));
    cells
}

impl Loop {
    /// The nominal cost of each item, in nanoseconds.
    fn costs(&self) -> Vec<f64> {
        match self.costs {
            Costs::Uniform(cost) => vec![cost; self.n],
            Costs::Outlier(at) => {
                let mut costs = vec![1e2; self.n];
                costs[((self.n - 1) as f64 * at) as usize] *= 1e3;
                costs
            }
            Costs::Log(order) => {
                // Evenly spaced, so that all orders hold the same items.
                let cost = |at: usize| 10.0 * 1000f64.powf((at as f64 + 0.5) / self.n as f64);
                let mut costs: Vec<f64> = (0..self.n).map(cost).collect();
                match order {
                    Order::Random => Random::new(self.n as u64).shuffle(&mut costs),
                    Order::Ascending => {}
                    Order::Descending => costs.reverse(),
                }
                costs
            }
        }
    }

    /// The least time of `threads` threads relative to one: equal shares, or the largest item.
    fn bound(&self, threads: usize) -> f64 {
        let costs = self.costs();
        let total: f64 = costs.iter().sum();
        // Two items occupy at most two threads, and three items take two threads two turns. Items of varying cost fill the gaps.
        let shares = match self.costs {
            Costs::Uniform(_) => self.n.div_ceil(threads) as f64 / self.n as f64,
            _ => 1.0 / threads as f64,
        };
        shares.max(costs.into_iter().fold(0.0, f64::max) / total)
    }
}

/// Grains from one item to all: twelve, evenly spaced in their logarithms, or as many as there are whole numbers.
pub(super) fn grains(n: usize) -> Vec<usize> {
    const GRAINS: usize = 12;
    let at = |step: usize| (n as f64).powf(step as f64 / (GRAINS - 1) as f64).round() as usize;
    let mut grains: Vec<usize> = (0..GRAINS).map(at).collect();
    grains.dedup();
    grains
}

type Site = fn(&[Item], &mut [u64]);

macro_rules! site {
    () => {
        |items, out| items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item))
    };
}

/// Call sites: windrow remembers what an item of a call site costs, and in a program different loops are different call sites.
#[rustfmt::skip]
static SITES: [Site; 48] = [
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
];

/// Those of pools: one for windrow as it is, and one for each number of threads.
#[rustfmt::skip]
static WIDTH_SITES: [[Site; 16]; WIDTHS.len()] = [
    [site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!()],
    [site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!()],
];

/// Calls `run` on a cleared output as asked, and compares it.
fn timed(ask: Ask, out: &mut [u64], expected: &[u64], mut run: impl FnMut(&mut [u64])) -> Result<f64, String> {
    out.fill(0);
    let nanos = if ask.gap.is_zero() {
        (0..ask.warm_up).for_each(|_| run(out));
        let start = Instant::now();
        for _ in 0..ask.calls {
            run(black_box(&mut *out));
        }
        start.elapsed().as_nanos() as f64 / ask.calls as f64
    } else {
        crew::one_by_one(ask, || run(black_box(&mut *out)))
    };
    if ask.calls > 1 {
        // An earlier call may have written what the last one left out.
        out.fill(0);
        run(out);
    }
    if out == expected { Ok(nanos) } else { Err("another answer than the plain loop".to_owned()) }
}

/// The same for a loop by hand, whose threads write through shared references.
fn by_hand(ask: Ask, items: &[Item], expected: &[u64], threads: usize, grain: usize) -> Result<f64, String> {
    // An item never gives 0 by chance: `expected` would show it.
    let out: Vec<AtomicU64> = items.iter().map(|_| AtomicU64::new(0)).collect();
    let nanos = crew::timed(ask, (threads, items.len(), grain), &|range| {
        for (out, item) in out[range.clone()].iter().zip(&items[range]) {
            // Relaxed: the counter of finished items orders it.
            out.store(work(*item), Ordering::Relaxed);
        }
    });
    let out: Vec<u64> = out.into_iter().map(AtomicU64::into_inner).collect();
    if out == expected { Ok(nanos) } else { Err("another answer than the plain loop".to_owned()) }
}

/// Loops that are measured on pools of one thread up to all: nanoseconds of an item, and items.
const WIDTHS: [(&str, f64, usize); 2] = [("1us", 1e3, 100), ("1us", 1e3, 10_000)];

/// Measures loops on pools of all sizes.
fn widths(
    threads: usize,
    cpus: usize,
    wanted: impl Fn(usize) -> bool,
    calibration: &Calibration,
    mut measure: impl FnMut(Scenario<'_>) -> Result<(), String>,
) -> Result<(), String> {
    for (index, (name, cost, n)) in WIDTHS.into_iter().enumerate().filter(|(index, _)| wanted(*index)) {
        let items: Vec<Item> = (1..=n as u64).map(|seed| Item { seed, turns: calibration.turns(cost) }).collect();
        let mut expected = vec![0; n];
        serial(&items, &mut expected);
        let (items, expected) = (&items, &expected);
        let plain = || {
            let mut out = vec![0; n];
            move |ask| timed(ask, &mut out, expected, |out| serial(items, out))
        };
        let on = |width: usize, site: Site| {
            let mut out = vec![0; n];
            let pool = Pool::builder().threads(width).build();
            move |ask| {
                let pool = pool.as_ref().map_err(ToString::to_string)?;
                pool.install(|| timed(ask, &mut out, expected, |out| site(items, out)))
            }
        };
        let mut arms = vec![
            Arm::new("plain loop", Role::Serial, plain()),
            Arm::new("control", Role::Control, plain()),
            Arm::new("windrow", Role::Windrow, on(threads, WIDTH_SITES[index][0])),
        ];
        // Every pool has a call site, because windrow remembers what sharing gained there.
        arms.extend(pool_widths(threads).into_iter().zip(&WIDTH_SITES[index][1..]).map(|(width, site)| {
            let name = if width == 1 { "1 thread".to_owned() } else { format!("{width} threads") };
            Arm::new(name, Role::Fixed(width as f64), on(width, *site))
        }));
        let mut told = vec![0; n];
        measure(Scenario {
            shape: Shape::Loops,
            name: format!("pools, items of {name}/{n}"),
            family: format!("pools, items of {name}"),
            size: n as f64,
            unit: Unit::Call,
            sweep: "threads",
            cold: false,
            single: false,
            per_call: 1,
            bound: Bound::Share(1.0 / threads.min(cpus) as f64),
            arms,
            why: Box::new(move || super::told(|| WIDTH_SITES[index][0](items, &mut told))),
        })?;
    }
    Ok(())
}

/// Threads to try: all up to four, then powers of two, and all.
pub(super) fn pool_widths(threads: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = (1..=threads.min(4)).collect();
    widths.extend((3..).map(|power| 1 << power).take_while(|&width| width < threads));
    widths.extend((threads > 4).then_some(threads));
    widths
}

/// Measures each cell through `measure`.
pub(super) fn run(
    threads: usize,
    cpus: usize,
    wanted: impl Fn(usize) -> bool,
    mut measure: impl FnMut(Scenario<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let calibration = Calibration::measure();
    widths(threads, cpus, |index| wanted(cells().len() + index), &calibration, &mut measure)?;
    for (index, (family, size, it)) in cells().into_iter().enumerate().filter(|(index, _)| wanted(*index)) {
        let costs = it.costs().into_iter();
        // No seed is 0, so no answer is.
        let items: Vec<Item> =
            costs.zip(1..).map(|(cost, seed)| Item { seed, turns: calibration.turns(cost) }).collect();
        let mut expected = vec![0; items.len()];
        serial(&items, &mut expected);
        let outs = [(); 4].map(|()| vec![0; items.len()]);
        let [mut first, mut second, mut third, mut fourth] = outs;
        let (items, expected, site) = (&items, &expected, SITES[index]);
        let mut arms = vec![
            Arm::new("plain loop", Role::Serial, move |ask| timed(ask, &mut first, expected, |out| serial(items, out))),
            Arm::new("control", Role::Control, move |ask| timed(ask, &mut second, expected, |out| serial(items, out))),
            Arm::new("windrow", Role::Windrow, move |ask| timed(ask, &mut third, expected, |out| site(items, out))),
        ];
        arms.extend(grains(items.len()).into_iter().map(|grain| {
            let turn = move |ask| by_hand(ask, items, expected, threads, grain);
            Arm::new(format!("grain {grain}"), Role::Fixed(grain as f64), turn)
        }));
        measure(Scenario {
            shape: Shape::Loops,
            name: format!("{family}/{size}"),
            family,
            size: size as f64,
            unit: Unit::Call,
            sweep: "grain",
            cold: it.cold,
            single: false,
            per_call: 1,
            bound: Bound::Share(it.bound(threads.min(cpus))),
            arms,
            why: Box::new(move || {
                if it.cold {
                    thread::sleep(PAUSE);
                }
                super::told(|| site(items, &mut fourth))
            }),
        })?;
    }
    Ok(())
}

/// The number of cells.
pub(super) fn count() -> usize {
    cells().len() + WIDTHS.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_cell_has_a_call_site_and_a_name() {
        let cells = cells();
        assert!(cells.len() <= SITES.len(), "{}", cells.len());
        let names: BTreeSet<String> = cells.iter().map(|(family, n, _)| format!("{family}/{n}")).collect();
        assert_eq!(names.len(), cells.len());
        // The largest number of threads that the command takes.
        assert!(pool_widths(1023).len() < WIDTH_SITES[0].len());
    }

    #[test]
    fn threads_are_tried_up_to_all() {
        assert_eq!((pool_widths(1), pool_widths(2), pool_widths(6)), (vec![1], vec![1, 2], vec![1, 2, 3, 4, 6]));
        assert_eq!(pool_widths(16), [1, 2, 3, 4, 8, 16]);
    }

    #[test]
    fn a_sweep_has_twelve_grains_from_one_item_to_all() {
        assert_eq!(grains(1), [1]);
        assert_eq!(grains(2), [1, 2]);
        for n in [100_000, 4_194_304] {
            let grains = grains(n);
            assert_eq!((grains.len(), grains[0], *grains.last().unwrap()), (12, 1, n));
            // 4 to the power of 11 is the most that a factor of four reaches.
            assert!(grains.windows(2).all(|pair| pair[1] <= 4 * pair[0]), "{grains:?}");
        }
    }

    #[test]
    fn the_bound_is_an_equal_share_or_the_largest_item() {
        let of = |costs, n| Loop { costs, n, cold: false }.bound(2);
        assert_eq!((of(Costs::Uniform(1e3), 100), of(Costs::Uniform(1e3), 1)), (0.5, 1.0));
        assert_eq!(of(Costs::Outlier(1.0), 513), 1e5 / (512.0 * 1e2 + 1e5));
        assert_eq!(of(Costs::Log(Order::Random), 1000), 0.5);
    }

    #[test]
    fn an_arm_that_leaves_an_item_out_is_refused() {
        let items: Vec<Item> = (1..9).map(|seed| Item { seed, turns: 3 }).collect();
        let (mut expected, mut out) = (vec![0; 8], vec![0; 8]);
        serial(&items, &mut expected);
        let ask = Ask { warm_up: 1, calls: 3, ..Ask::default() };
        assert!(timed(ask, &mut out, &expected, |out| serial(&items, out)).is_ok());
        let mut calls = 0;
        let lazy = |out: &mut [u64]| {
            calls += 1;
            // Only the first call is complete.
            serial(&items[..if calls == 1 { 8 } else { 7 }], out);
        };
        assert!(timed(ask, &mut out, &expected, lazy).is_err());
        assert!(by_hand(ask, &items, &expected, 2, 3).is_ok());
        assert!(by_hand(ask, &items, &[1; 8], 2, 3).is_err());
    }
}
