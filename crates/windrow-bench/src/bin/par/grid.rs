//! Consumers of few cheap items: what a serial call pays must not depend on its consumer.
//!
//! A cell is met if windrow takes at most 20 ns or 5 % longer than the serial loop. Serial beside itself is the control: a cell whose control differs by more
//! is not decided. Cells of 0 turns, whose loops vectorize, and searches that end early are counted apart.

use std::hint::black_box;
use std::time::Duration;

use windrow::prelude::*;
use windrow_bench::stats::median;

use crate::{Options, Run, Table, excess, nanos_of_a_turn, rounds, with_bar};

/// Items, and room for the items of a result.
type Call = fn(&[u64], &mut [u64]) -> u64;

/// One consumer of one number of items of one cost.
struct Cell {
    consumer: &'static str,
    n: usize,
    turns: u64,
    serial: Call,
    windrow: Call,
}

/// The work of an item. The compiler knows its cost, as in a program.
#[inline(always)]
fn work<const TURNS: u64>(x: &u64) -> u64 {
    if TURNS == 0 { x & 0xffff_ffff_0000 } else { crate::work(*x, TURNS) }
}

#[inline(always)]
fn add((sum, count): (u64, u64), (more, counted): (u64, u64)) -> (u64, u64) {
    (sum.wrapping_add(more), count + counted)
}

#[inline(always)]
fn wider((least, most): (u64, u64), (low, high): (u64, u64)) -> (u64, u64) {
    (least.min(low), most.max(high))
}

/// The result of no item. The compiler does not know it.
#[inline(always)]
fn absent(out: &[u64]) -> u64 {
    out[0] ^ 0x0123_4567_89ab_cdef
}

/// The cells of all consumers. Each use is a place in the source, and so a call site of each consumer.
macro_rules! cells {
    ($cells:ident, $n:literal x $turns:literal) => {
        let mut cell =
            |consumer, serial, windrow| $cells.push(Cell { consumer, n: $n, turns: $turns, serial, windrow });
        cell(
            "for_each",
            |items, out| {
                items.iter().zip(out).for_each(|(x, out)| *out = work::<$turns>(x));
                0
            },
            |items, out| {
                items.par_iter().zip(out).for_each(|(x, out)| *out = work::<$turns>(x));
                0
            },
        );
        cell(
            "sum",
            |items, _| items.iter().map(|x| work::<$turns>(x) >> 20).sum(),
            |items, _| items.par_iter().map(|x| work::<$turns>(x) >> 20).sum(),
        );
        cell(
            "sum of f64",
            |items, _| items.iter().map(|x| (work::<$turns>(x) >> 40) as f64).sum::<f64>().to_bits(),
            |items, _| items.par_iter().map(|x| (work::<$turns>(x) >> 40) as f64).sum::<f64>().to_bits(),
        );
        cell(
            "reduce",
            |items, _| items.iter().map(work::<$turns>).fold(0, u64::wrapping_add),
            |items, _| items.par_iter().map(work::<$turns>).reduce(|| 0, u64::wrapping_add),
        );
        cell(
            "collect",
            |items, _| black_box(items.iter().map(work::<$turns>).collect::<Vec<_>>())[items.len() - 1],
            |items, _| black_box(items.par_iter().map(work::<$turns>).collect::<Vec<_>>())[items.len() - 1],
        );
        cell(
            "map-reduce",
            |items, _| (0..items.len() as u64).map(|x| (work::<$turns>(&x), 1)).fold((0, 0), add).0,
            |items, _| {
                (0..items.len() as u64).into_par_iter().map(|x| (work::<$turns>(&x), 1)).reduce(|| (0, 0), add).0
            },
        );
        cell(
            "any",
            |items, out| {
                let absent = absent(out);
                u64::from(items.iter().any(|x| work::<$turns>(x) == absent))
            },
            |items, out| {
                let absent = absent(out);
                u64::from(items.par_iter().any(|x| work::<$turns>(x) == absent))
            },
        );
        cell(
            "any-third",
            |items, _| {
                let third = work::<$turns>(&items[items.len().min(3) - 1]);
                u64::from(items.iter().any(|x| work::<$turns>(x) == third))
            },
            |items, _| {
                let third = work::<$turns>(&items[items.len().min(3) - 1]);
                u64::from(items.par_iter().any(|x| work::<$turns>(x) == third))
            },
        );
        cell(
            "min by fold",
            |items, _| {
                let ends = items.iter().map(work::<$turns>).fold((u64::MAX, 0), |ends, x| wider(ends, (x, x)));
                ends.0 ^ ends.1
            },
            |items, _| {
                let folded = items.par_iter().map(work::<$turns>).fold(|| (u64::MAX, 0), |ends, x| wider(ends, (x, x)));
                let ends = folded.reduce(|| (u64::MAX, 0), wider);
                ends.0 ^ ends.1
            },
        );
    };
}

fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    cells!(cells, 1 x 1);
    cells!(cells, 2 x 1);
    cells!(cells, 16 x 1);
    cells!(cells, 100 x 1);
    cells!(cells, 1000 x 1);
    cells!(cells, 1 x 4);
    cells!(cells, 2 x 4);
    cells!(cells, 16 x 4);
    cells!(cells, 100 x 4);
    cells!(cells, 1000 x 4);
    cells!(cells, 1 x 30);
    cells!(cells, 2 x 30);
    cells!(cells, 16 x 30);
    cells!(cells, 100 x 30);
    cells!(cells, 1000 x 30);
    cells!(cells, 1 x 0);
    cells!(cells, 2 x 0);
    cells!(cells, 16 x 0);
    cells!(cells, 100 x 0);
    cells!(cells, 1000 x 0);
    cells.sort_by_key(|cell| cell.consumer);
    cells
}

/// Cells by verdict.
#[derive(Default)]
struct Count {
    ok: usize,
    missed: usize,
    open: usize,
}

impl Count {
    fn verdict(&mut self, excess: f64, control: f64, serial: f64) -> &'static str {
        let allowed = f64::max(20.0, 0.05 * serial);
        let (count, verdict) = if control.abs() > allowed {
            (&mut self.open, "not decided")
        } else if excess > allowed {
            (&mut self.missed, "missed")
        } else {
            (&mut self.ok, "ok")
        };
        *count += 1;
        verdict
    }

    fn of(&self) -> usize {
        self.ok + self.missed + self.open
    }
}

pub(crate) fn measure(options: &Options) -> Table {
    let (mut lines, mut bar, mut apart) = (Vec::new(), Count::default(), Count::default());
    let turn = nanos_of_a_turn();
    println!(
        "{:15} {:>5} {:>5} {:>9} {:>9} {:>8} {:>8}  verdict",
        "consumer", "items", "turns", "serial", "windrow", "excess", "control"
    );
    for cell in all().iter().filter(|cell| cell.consumer.contains(&options.name)) {
        let items: Vec<u64> = (0..cell.n as u64).map(|x| crate::work(x, 1) | 1).collect();
        let mut outs = [(); 3].map(|()| vec![0; cell.n]);
        let calls = [cell.serial, cell.serial, cell.windrow];
        let mut arms: Vec<Run<'_>> = Vec::new();
        for (call, out) in calls.into_iter().zip(&mut outs) {
            let items = &items;
            arms.push(Box::new(move || black_box(call)(black_box(items), black_box(out))));
        }
        let times = rounds(&mut arms, Duration::from_millis(options.millis));
        drop(arms);
        assert!(outs.iter().all(|out| *out == outs[0]), "{}: different results", cell.consumer);
        let (serial, windrow) = (median(&times[0]), median(&times[2]));
        let (excess, control) = (excess(&times[2], &times[0]), excess(&times[1], &times[0]));
        let count = if cell.turns > 0 && cell.consumer != "any-third" { &mut bar } else { &mut apart };
        let verdict = count.verdict(excess, control, serial);
        let Cell { consumer, n, turns, .. } = cell;
        println!("{consumer:15} {n:5} {turns:5} {serial:9.1} {windrow:9.1} {excess:8.1} {control:8.1}  {verdict}");
        let name = format!("{consumer} of {n} x {turns}");
        for (arm, time, excess) in
            [("serial", serial, 0.0), ("control", median(&times[1]), control), ("windrow", windrow, excess)]
        {
            lines.push(format!("{name},{arm},{time:.2},{excess:.2},{}", if arm == "windrow" { verdict } else { "-" }));
        }
    }
    let mut notes = vec![with_bar(
        &format!("grid: {} of {} cells above serial + max(20 ns, 5 %)", bar.missed, bar.of()),
        "<= 0",
        bar.missed == 0,
    )];
    notes.push(format!("grid: {} of {} cells not decided because their controls differ by more", bar.open, bar.of()));
    notes.push(format!(
        "separately, 0 turns and early ends: {} of {} cells above, {} not decided",
        apart.missed,
        apart.of(),
        apart.open
    ));
    notes.push(format!("a turn takes {turn:.2} ns before and {:.2} ns after", nanos_of_a_turn()));
    ("par-grid", "cell,arm,nanoseconds,excess_ns,verdict", notes, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_take_20_ns_or_5_percent_longer_unless_its_control_does() {
        let mut count = Count::default();
        let verdicts =
            [(19.0, 0.0, 100.0), (21.0, 0.0, 100.0), (40.0, 0.0, 1000.0), (51.0, -10.0, 1000.0), (0.0, -51.0, 1000.0)]
                .map(|(excess, control, serial)| count.verdict(excess, control, serial));
        assert_eq!(verdicts, ["ok", "missed", "ok", "missed", "not decided"]);
        assert_eq!((count.ok, count.missed, count.open, count.of()), (2, 2, 1, 5));
    }

    #[test]
    fn the_bar_has_120_cells_and_every_form_gives_the_same() {
        let cells = all();
        assert_eq!(cells.iter().filter(|cell| cell.turns > 0 && cell.consumer != "any-third").count(), 120);
        for cell in cells {
            let items: Vec<u64> = (0..cell.n as u64).map(|x| crate::work(x, 1) | 1).collect();
            let results = [cell.serial, cell.windrow].map(|call| {
                let mut out = vec![0; cell.n];
                (call(&items, &mut out), out)
            });
            assert_eq!(results[0], results[1], "{} of {} x {}", cell.consumer, cell.n, cell.turns);
        }
    }
}
