//! Loops: items of ten nanoseconds to a hundred microseconds, an outlier, costs of three decades, and calls after a pause.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use windrow::Pool;
use windrow::prelude::*;

use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::on_rayon::on_rayon;
use crate::work::{Item, TurnCosts, serial, work};
use crate::{Run, ScenarioGroup, cells, crew};

/// Pause before the call that is explained, if calls come after a pause.
const PAUSE: Duration = Duration::from_millis(5);

/// Grains from one item to all: twelve, evenly spaced in their logarithms, or as many as there are whole numbers.
pub(crate) fn grains(n: usize) -> Vec<usize> {
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

/// Call sites: windrow remembers the cost of an item of a call site, and in a program different loops are different call sites.
#[rustfmt::skip]
static SITES: [Site; 48] = [
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
    site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(),
];

/// Call sites of pools: one for windrow as it is, and one for each number of threads.
#[rustfmt::skip]
static WIDTH_SITES: [[Site; 16]; WIDTHS.len()] = [
    [site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!()],
    [site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!(), site!()],
];

/// Calls `run` on a cleared output for the requested calls, and compares the output.
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
        // An earlier call may have written items that the last one omitted.
        out.fill(0);
        run(out);
    }
    if out == expected { Ok(nanos) } else { Err("the answer differs from that of the plain loop".to_owned()) }
}

/// Like [`timed`], for a loop by hand, whose threads write through shared references.
fn by_hand(ask: Ask, items: &[Item], expected: &[u64], threads: usize, grain: usize) -> Result<f64, String> {
    // An item never gives 0 accidentally: `expected` would show it.
    let out: Vec<AtomicU64> = items.iter().map(|_| AtomicU64::new(0)).collect();
    let nanos = crew::timed(ask, (threads, items.len(), grain), &|range| {
        for (out, item) in out[range.clone()].iter().zip(&items[range]) {
            // Relaxed: the counter of finished items orders it.
            out.store(work(*item), Ordering::Relaxed);
        }
    });
    let out: Vec<u64> = out.into_iter().map(AtomicU64::into_inner).collect();
    if out == expected { Ok(nanos) } else { Err("the answer differs from that of the plain loop".to_owned()) }
}

/// Loops that are measured on pools of one thread up to all: nanoseconds of an item, and items.
const WIDTHS: [(&str, f64, usize); 2] = [("1us", 1e3, 100), ("1us", 1e3, 10_000)];

/// Measures loops on pools of all sizes.
fn widths(run: &mut Run<'_>, calibration: &TurnCosts) -> Result<(), String> {
    let (threads, first) = (run.settings.threads, cells::all().len());
    let wanted = WIDTHS.into_iter().enumerate().filter(|(index, _)| run.settings.wants(first + index));
    for (index, (name, cost, n)) in wanted.collect::<Vec<_>>() {
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
        // Every pool has a call site, because windrow remembers the gain of sharing there.
        arms.extend(pool_widths(threads).into_iter().zip(&WIDTH_SITES[index][1..]).map(|(width, site)| {
            let name = if width == 1 { "1 thread".to_owned() } else { format!("{width} threads") };
            Arm::new(name, Role::Fixed(width as f64), on(width, *site))
        }));
        let mut told = vec![0; n];
        let why = move || crate::explained(|| WIDTH_SITES[index][0](items, &mut told));
        let family = format!("pools, items of {name}");
        let bound = Bound::Share(1.0 / run.width() as f64);
        run.measure(Scenario::new(ScenarioGroup::Loops, family, n as f64, ("threads", bound), arms, why))?;
    }
    Ok(())
}

/// Threads to try: all up to four, then powers of two, and all.
pub(crate) fn pool_widths(threads: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = (1..=threads.min(4)).collect();
    widths.extend((3..).map(|power| 1 << power).take_while(|&width| width < threads));
    widths.extend((threads > 4).then_some(threads));
    widths
}

/// Measures all loops.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let calibration = TurnCosts::measure();
    widths(run, &calibration)?;
    let (threads, peer) = (run.settings.threads, run.peer);
    for (index, cell) in run.wanted(cells::all()) {
        let items = cell.items(&calibration);
        let mut expected = vec![0; items.len()];
        serial(&items, &mut expected);
        let (items, expected, site) = (&items, &expected, SITES[index]);
        let arm = |name: &str, role, run: fn(&[Item], &mut [u64])| {
            let mut out = vec![0; items.len()];
            Arm::new(name, role, move |ask| timed(ask, &mut out, expected, |out| run(items, out)))
        };
        let mut arms = vec![
            arm("plain loop", Role::Serial, serial),
            arm("control", Role::Control, serial),
            arm("windrow", Role::Windrow, site),
        ];
        arms.extend(grains(items.len()).into_iter().map(|grain| {
            let turn = move |ask| by_hand(ask, items, expected, threads, grain);
            Arm::new(format!("grain {grain}"), Role::Fixed(grain as f64), turn)
        }));
        arms.extend(peer.map(|pool| {
            let mut out = vec![0; items.len()];
            let turn = move |ask| pool.install(|| timed(ask, &mut out, expected, |out| on_rayon(items, out)));
            Arm::new("rayon", Role::Rayon, turn)
        }));
        let mut out = vec![0; items.len()];
        let why = move || {
            if cell.cold {
                thread::sleep(PAUSE);
            }
            crate::explained(|| site(items, &mut out))
        };
        let bound = Bound::Share(cell.bound(run.width()));
        let scenario = Scenario::new(ScenarioGroup::Loops, cell.family, cell.n as f64, ("grain", bound), arms, why);
        run.measure(Scenario { name: cell.name, cold: cell.cold, ..scenario })?;
    }
    Ok(())
}

/// Number of cells.
pub(crate) fn count() -> usize {
    cells::all().len() + WIDTHS.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_a_call_site() {
        assert!(cells::all().len() <= SITES.len());
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
