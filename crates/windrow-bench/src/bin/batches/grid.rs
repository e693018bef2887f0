//! The default compared with the best of all other arms, cell by cell.

use std::time::Duration;

use windrow_bench::stats::{geometric_mean, median};

use crate::arms::Arm;
use crate::turn::{Row, Shape, Turn};
use crate::{in_micros, share};

pub(crate) const COLUMNS: &str = "callers,number,fixed_us,each_us,arm,ops_per_s,batch,p50_us,p99_us,served,ops_per_s_of_each_repetition,p50_us_of_each,p99_us_of_each";

/// The default should have this share of the best arm's operations a second, in [`CELLS`] percent of the cells.
const RATE: f64 = 0.9;
const CELLS: f64 = 90.0;
/// In the worst cell.
const WORST_RATE: f64 = 0.75;
/// The mean batch should hold this share of the callers, where F is at least [`LARGE`].
const FULL: f64 = 0.9;
const LARGE: Duration = Duration::from_micros(100);
/// The median wait by that of the best arm that serves as many callers, less [`FEWER`] of them: where two of 64 callers take turns, these
/// two do not wait at all.
const WAIT: f64 = 1.2;
const FEWER: f64 = 0.1;

/// The lines of a cell's record.
pub(crate) fn lines<'r>(shape: &'r Shape, rows: &'r [Row]) -> impl Iterator<Item = String> + 'r {
    rows.iter().map(move |row| {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        format!(
            "{},{},{},{},\"{}\",{:.0},{:.2},{:.2},{:.2},{:.0},{},{},{}",
            shape.kind,
            shape.callers,
            micros(shape.cost.fixed),
            micros(shape.cost.each),
            row.arm,
            row.median(|turn| turn.rate),
            row.median(|turn| turn.batch),
            row.median(|turn| turn.p50),
            row.median(|turn| turn.p99),
            row.median(|turn| turn.served),
            row.each(|turn| turn.rate),
            row.each(|turn| turn.p50),
            row.each(|turn| turn.p99)
        )
    })
}

/// A cell's outcome.
pub(crate) struct Judged {
    shape: Shape,
    best: Arm,
    /// Operations a second of the default by those of the best arm.
    rate: f64,
    /// The median wait of the default by that of the best arm that serves as many callers.
    wait: f64,
    waits_by: Arm,
    /// Operations a second of the default by those of its control.
    control: f64,
    /// The default's mean batch by the number of callers.
    full: f64,
}

/// Chooses the best arm on every other repetition, and compares the default with it on the others: the best of many arms on the same
/// repetitions would be partly luck. `None` if the default or the others did not run.
pub(crate) fn judge(shape: &Shape, rows: &[Row]) -> Option<Judged> {
    let find = |arm| rows.iter().find(|row| row.arm == arm);
    let default = find(Arm::Default)?;
    let repetitions = default.turns.len();
    let is_choice = |at: usize| at.is_multiple_of(2);
    let chosen_by = |row: &Row| {
        let rates = row.turns.iter().enumerate().filter(|(at, _)| is_choice(*at)).map(|(_, turn)| turn.rate);
        median(&rates.collect::<Vec<_>>())
    };
    let best = |is: &dyn Fn(&&Row) -> bool| {
        let rest = rows.iter().filter(|row| row.arm.is_rest()).filter(is);
        rest.max_by(|a, b| chosen_by(a).total_cmp(&chosen_by(b)))
    };
    let served = default.median(|turn| turn.served) * (1.0 - FEWER);
    let waits_by = best(&|row| row.median(|turn| turn.served) >= served);
    let best = best(&|_| true)?;
    let waits_by = waits_by.unwrap_or(best);
    let by = |other: &Row, of: fn(&Turn) -> f64| {
        let pairs = default.turns.iter().zip(&other.turns).enumerate();
        let read = pairs.filter(|(at, _)| repetitions == 1 || !is_choice(*at));
        median(&read.map(|(_, (default, other))| of(default) / of(other)).collect::<Vec<_>>())
    };
    let rate: fn(&Turn) -> f64 = |turn| turn.rate;
    Some(Judged {
        shape: *shape,
        best: best.arm,
        rate: by(best, rate),
        wait: by(waits_by, |turn| turn.p50),
        waits_by: waits_by.arm,
        control: find(Arm::Control).map_or(f64::NAN, |control| by(control, rate)),
        full: default.median(|turn| turn.batch) / shape.callers as f64,
    })
}

/// Prints a cell: the default and the best arm, or all arms.
pub(crate) fn print(judged: Option<&Judged>, shape: &Shape, rows: &[Row], is_long: bool) {
    match judged {
        Some(Judged { best, rate, wait, waits_by, control, .. }) => println!(
            "{shape}  {rate:>5.2} of {best}{}, p50 x{wait:.2} of {waits_by}; of control {control:.2}",
            if *rate < RATE { " (slower)" } else { "" }
        ),
        None => println!("{shape}"),
    }
    let is_shown = |row: &&Row| is_long || judged.is_none_or(|it| [Arm::Default, it.best].contains(&row.arm));
    for row in rows.iter().filter(is_shown) {
        let [rate, batch] = [row.median(|turn| turn.rate), row.median(|turn| turn.batch)];
        let [p50, p99] = [row.median(|turn| turn.p50), row.median(|turn| turn.p99)];
        let name = row.arm.to_string();
        let served = row.median(|turn| turn.served);
        println!(
            "    {name:<30} {rate:>10.0}/s  batch {batch:>6.1}  p50 {p50:>9.1} us  p99 {p99:>9.1} us  {served} callers served"
        );
    }
}

/// What all cells say, with the bars.
pub(crate) fn summary(cells: &[Judged]) -> Vec<String> {
    let mut notes = Vec::new();
    if cells.is_empty() {
        return notes;
    }
    let met = |is_met: bool| if is_met { "met" } else { "missed" };
    let name = |cell: &Judged| {
        format!("{} x{}, F = {}", cell.shape.kind, cell.shape.callers, in_micros(cell.shape.cost.fixed))
    };
    let by_rate = sorted(cells, |cell| cell.rate);
    let (good, mean) = (share(cells, |cell| cell.rate >= RATE), geometric_mean(cells.iter().map(|cell| cell.rate)));
    let equal = share(cells, |cell| cell.control >= RATE);
    notes.push(format!(
        "percent of {} cells with at least {RATE} of the best arm's operations per second: {good:.0} (geometric mean x{mean:.2}; by its \
         control {equal:.0}), bar >= {CELLS} {}",
        cells.len(),
        met(good >= CELLS)
    ));
    let worst = by_rate[0];
    let is_met = met(worst.rate >= WORST_RATE);
    notes.push(format!(
        "worst cell: x{:.2} ({}, {}), bar >= {WORST_RATE} {is_met}",
        worst.rate,
        name(worst),
        worst.best
    ));
    let large: Vec<&Judged> = cells.iter().filter(|it| it.shape.cost.fixed >= LARGE && it.shape.callers > 1).collect();
    if let Some(emptiest) = sorted(large.iter().copied(), |cell| cell.full).first() {
        let full = share(large.iter().copied(), |cell| cell.full >= FULL);
        notes.push(format!(
            "mean batch by callers where F >= {}: x{:.2} at least ({}); percent of {} cells above {FULL}: {full:.0}, bar >= 100 {}",
            in_micros(LARGE),
            emptiest.full,
            name(emptiest),
            large.len(),
            met(full >= 100.0)
        ));
    }
    let slow = sorted(cells, |cell| -cell.wait)[0];
    let quick = share(cells, |cell| cell.wait <= WAIT);
    notes.push(format!(
        "percent of cells whose median wait is at most {WAIT} of that of the best arm with as many callers served: {quick:.0} (most \
         x{:.2}, {}, {}), bar >= 100 {}",
        slow.wait,
        name(slow),
        slow.waits_by,
        met(quick >= 100.0)
    ));
    let slowest = by_rate.iter().take_while(|cell| cell.rate < RATE).take(12);
    notes.extend(slowest.map(|cell| format!("slower: {} x{:.2} of {}", name(cell), cell.rate, cell.best)));
    notes
}

fn sorted<'c>(cells: impl IntoIterator<Item = &'c Judged>, by: impl Fn(&Judged) -> f64) -> Vec<&'c Judged> {
    let mut cells: Vec<&Judged> = cells.into_iter().collect();
    cells.sort_by(|a, b| by(a).total_cmp(&by(b)));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::Kind;
    use crate::resource::Cost;

    fn row(arm: Arm, rates: [f64; 4]) -> Row {
        let turn = |rate| Turn { rate, batch: 2.0, p50: 1e6 / rate, p99: 0.0, served: 2.0, stats: None };
        Row { arm, turns: rates.map(turn).to_vec() }
    }

    fn cell(callers: usize) -> Shape {
        let cost = Cost { fixed: LARGE, each: Duration::ZERO, sleeps: false };
        Shape::new(Kind::Threads, callers, cost)
    }

    #[test]
    fn the_best_arm_is_chosen_on_other_repetitions_than_it_is_compared_on() {
        let rows = [
            row(Arm::Default, [10.0, 10.0, 10.0, 10.0]),
            row(Arm::Control, [99.0, 5.0, 99.0, 5.0]),
            row(Arm::StdMutex, [20.0, 8.0, 20.0, 8.0]),
            row(Arm::ParkingLot, [12.0, 40.0, 12.0, 40.0]),
        ];
        let judged = judge(&cell(4), &rows).unwrap();
        assert_eq!((judged.best, judged.rate, judged.control, judged.full), (Arm::StdMutex, 1.25, 2.0, 0.5));
        assert_eq!((judged.wait, judged.waits_by), (0.8, Arm::StdMutex));
        let mut rows = rows;
        rows[2].turns.iter_mut().for_each(|turn| turn.served = 1.0);
        let judged = judge(&cell(4), &rows).unwrap();
        assert_eq!((judged.best, judged.wait, judged.waits_by), (Arm::StdMutex, 4.0, Arm::ParkingLot));
        assert!(judge(&cell(4), &rows[..2]).is_none() && judge(&cell(4), &rows[2..]).is_none());
    }

    #[test]
    fn the_bars_are_judged_over_all_cells() {
        let judged = |rate| {
            let rows = [row(Arm::Default, [rate; 4]), row(Arm::StdMutex, [100.0; 4])];
            judge(&cell(2), &rows).unwrap()
        };
        let good = summary(&[judged(100.0), judged(95.0)]);
        assert!(good.len() == 4 && good.iter().all(|note| note.ends_with(" met")), "{good:?}");
        let bad = summary(&[judged(100.0), judged(70.0)]);
        assert!(bad[0].contains("second: 50 ") && bad[0].ends_with("missed"), "{bad:?}");
        assert!(bad[1].starts_with("worst cell: x0.70 (threads x2, F = 100us, std mutex)"), "{bad:?}");
        assert!(bad[3].ends_with("missed") && bad[4].starts_with("slower: threads x2"), "{bad:?}");
    }
}
