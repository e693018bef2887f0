//! The short form of the contract (`book/src/verified.md`), in builds with optimization: `cargo xtask test` makes one.

use std::time::{Duration, Instant};

use windrow_testkit::contract::{Verdict, full, is_first_call};

/// Cells, and the multiple of the allowance above which a median fails; for the slowest calls it is four times that. Above 4: the cell is known to
/// miss the contract by so much, on a busy machine too.
const CELLS: [(&str, f64); 13] = [
    ("for_each of 1 x 4", 4.0),
    ("sum of 100 x 4", 4.0),
    ("reduce of 100 x 4", 4.0),
    ("any of 16 x 4", 4.0),
    ("for_each of 1000 x 30", 4.0),
    ("reduce of 1000 x 1000", 4.0),
    ("neighbour: 1000 x 4", 4.0),
    ("collect of 100 x 4", 8.0),
    ("after 10 ms: 1000 x 4", 20.0),
    ("sizes alternate 16 10000", 40.0),
    ("first call: 1000 x 4", 200.0),
    ("cost flips every 1", 1000.0),
    ("cost flips every 64", 400.0),
];

/// A cell fails if each of this number of repetitions does.
const REPETITIONS: usize = 5;

fn main() {
    if is_first_call() {
        return;
    }
    if cfg!(debug_assertions) {
        return println!("skipped: the contract is about optimized builds");
    }
    let (start, mut failed) = (Instant::now(), Vec::new());
    let cells = full(&[]);
    for (name, most) in CELLS {
        let cell = cells.iter().find(|cell| cell.name == name).expect("a cell of this name");
        let missed = (0..REPETITIONS).map(|_| {
            let mut rows = cell.measure(Duration::from_millis(100));
            rows.retain(|row| row.verdict(if row.quantile > 0.5 { 4.0 * most } else { most }) == Verdict::Missed);
            rows
        });
        let missed: Vec<_> = missed.take_while(|rows| !rows.is_empty()).collect();
        if missed.len() == REPETITIONS {
            failed.extend(missed.last().map(|rows| format!("{rows:.2?}")));
        }
    }
    assert!(failed.is_empty(), "missed by far in {REPETITIONS} repetitions:\n{}", failed.join("\n"));
    println!("test result: ok. {} passed; {:.1} s", CELLS.len(), start.elapsed().as_secs_f64());
}
