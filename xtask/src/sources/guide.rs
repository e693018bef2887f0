//! The worked numbers of document 001, computed from its costs by `windrow-tiling`: as a record, so that a line of `bench/sources.txt` names
//! them like any other value.

use anyhow::{Context, Result};
use windrow_records::Record;
use windrow_tiling::cost::{Cost, Piece};
use windrow_tiling::tile::{Contention, GUIDE_FACTOR, Matmul, Plan, Problem, Tiles, short_long_rule};
use windrow_tiling::{Bytes, Nanos, Rows};

/// The name of the record.
const NAME: &str = "planner";

const MIB: f64 = 1024.0 * 1024.0;

/// The operation: 4096 rows in half precision.
const ROWS: Rows = Rows(4096);
const SHAPE: Matmul = Matmul { k: 3072, n: 8192 };
const ROW: Bytes = Bytes(2 * SHAPE.n);
/// Rows of a tile are multiples of this.
const ALIGN: Rows = Rows(128);

/// The fit of the all-reduce by MiB of data: constant, linear and square, below 8 MiB and from there on, in microseconds.
const COMMUNICATE: [[f64; 3]; 2] = [[14.769, 27.062_257_3, -0.969_820_2], [61.508_333, 13.584_912_63, 0.0]];
/// Microseconds of a row: the document prints no fit. 768 rows follow from 164 us, and 803 us from all rows.
const COMPUTE: f64 = 0.196_08;
/// The times that the document measured: the product, the all-reduce, and the fused operation.
const MEASURED: [f64; 3] = [803.0, 1071.0, 1262.0];
/// A product of 200 us is halved: a half may take so long.
const HALVES: [f64; 3] = [100.0, 150.0, 200.0];

/// The values, by name.
pub(super) fn computed() -> Result<Record> {
    let mut values: Vec<(String, f64)> = Vec::new();
    let mut add = |name: &str, value: f64| values.push((name.to_owned(), value));
    let nanos = |fit: [f64; 3]| [1e3 * fit[0], 1e3 * fit[1] / MIB, 1e3 * fit[2] / MIB / MIB];
    let pieces = vec![
        Piece::polynomial(Bytes(0), nanos(COMMUNICATE[0])),
        Piece::polynomial(Bytes(8 << 20), nanos(COMMUNICATE[1])),
    ];
    let fit = Cost::new(pieces)?;
    add("fit below the joint", fit.at(Bytes((8 << 20) - 1)).as_micros());
    add("fit at the joint", fit.at(Bytes(8 << 20)).as_micros());
    let communicate = fit.in_rows(ROW);
    let compute = Cost::affine(Nanos(0.0), Nanos::micros(COMPUTE))?;
    let (compute, communicate) = (|rows| compute.at(rows), |rows| communicate.at(rows));
    let problem = Problem { align: ALIGN, matmul: Some(SHAPE), ..Problem::new(ROWS, &compute, &communicate) };

    let rule = short_long_rule(&problem, SHAPE, GUIDE_FACTOR)?;
    let steps = rule.steps.context("4096 rows are enough for the rule")?;
    for (name, rows) in ["a", "b", "c"].iter().zip(rule.thresholds) {
        add(&format!("threshold {name}"), rows.0 as f64);
    }
    for (name, rows) in [
        ("short", steps.short),
        ("balanced", steps.balanced),
        ("long", steps.long),
        ("even", steps.even),
        ("long tile", steps.long_tile),
        ("short tile", steps.short_tile),
    ] {
        add(name, rows.0 as f64);
    }
    add("data of the short tile", (steps.short.0 * ROW.0) as f64 / MIB);
    add("time of the short tile", steps.time.as_micros());
    add("time with the factor", steps.expanded.as_micros());
    add("long tiles that fit", steps.ratio);
    add("long tiles", steps.count as f64);
    add("tiles of the rule", rule.tiles.len() as f64);

    let plan = problem.plan()?;
    let saved = |time: Nanos| 100.0 * (1.0 - time.0 / plan.serial.0);
    let alternative = |plan: &Plan, name: &str| -> Result<Nanos> {
        let found = plan.alternatives.iter().find(|cut| cut.name == name);
        Ok(found.with_context(|| format!("the plan has no alternative {name}"))?.predicted)
    };
    add("computation", plan.inputs.compute.as_micros());
    add("communication", plan.inputs.communicate.as_micros());
    add("serial", plan.serial.as_micros());
    add("bound", plan.bounds.plain.as_micros());
    add("tiles", plan.tiles.len() as f64);
    let predicted = problem.predict(&rule.tiles)?;
    let cuts = [("uniform", alternative(&plan, "uniform")?), ("two sizes", alternative(&plan, "two sizes")?)];
    for (name, time) in [("rule", predicted), ("exact", plan.predicted)].into_iter().chain(cuts) {
        add(name, time.as_micros());
        add(&format!("saved by {name}"), saved(time));
    }
    add("saved at most", saved(plan.bounds.plain));
    let [product, reduce, fused] = MEASURED;
    add("measured serial", product + reduce);
    add("saved as measured", 100.0 * (1.0 - fused / (product + reduce)));
    add("measured bound", product.max(reduce));
    add("saved at most as measured", 100.0 * (1.0 - product.max(reduce) / (product + reduce)));

    let slow = Contention { compute: GUIDE_FACTOR, communicate: GUIDE_FACTOR };
    let contended = Problem { contention: slow, ..problem };
    add("rule with contention", contended.predict(&rule.tiles)?.as_micros());
    let contended = contended.plan()?;
    add("exact with contention", contended.predicted.as_micros());
    add("bound with contention", contended.bounds.contended.as_micros());

    for half in HALVES {
        let compute = |rows| Nanos::micros(if rows == Rows(2) { 200.0 } else { half });
        // Communication takes longer than the product, so that only the halves decide.
        let communicate = |rows: Rows| Nanos::micros(150.0 * rows.0 as f64);
        let problem = Problem::new(Rows(2), &compute, &communicate);
        let whole = problem.predict(&Tiles::one(Rows(2)))?;
        let halves = problem.predict(&Tiles::new(vec![Rows(1); 2])?)?;
        add(&format!("saved by halves of {half}"), whole.as_micros() - halves.as_micros());
        add(
            &format!("saved by the plan with halves of {half}"),
            whole.as_micros() - problem.plan()?.predicted.as_micros(),
        );
    }
    let rows = values.into_iter().map(|(name, value)| vec![name, value.to_string()]).collect();
    Ok(Record {
        name: NAME.to_owned(),
        columns: ["what", "value"].map(str::to_owned).into(),
        rows,
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(record: &Record, name: &str) -> f64 {
        let row = record.rows.iter().find(|row| row[0] == name);
        row.unwrap_or_else(|| panic!("no value is called {name}"))[1].parse().expect("a number")
    }

    /// The document's own arithmetic, as far as it prints it.
    #[test]
    fn the_example_of_the_document_is_rebuilt() {
        let record = computed().expect("the costs are sound");
        for (name, printed, digits) in [
            ("data of the short tile", 6.0, 0),
            ("long", 768.0, 0),
            ("long tiles that fit", 4.83, 2),
            ("long tiles", 4.0, 0),
            ("even", 928.0, 0),
            ("long tile", 896.0, 0),
            ("short tile", 512.0, 0),
            ("time with the factor", 164.0, 0),
            ("computation", 803.0, 0),
            ("measured serial", 1874.0, 0),
            ("saved as measured", 32.7, 1),
            ("saved by halves of 100", 100.0, 0),
            ("saved by halves of 150", 50.0, 0),
            ("saved by halves of 200", -50.0, 0),
        ] {
            assert_eq!(format!("{:.digits$}", value(&record, name)), format!("{printed:.digits$}"), "{name}");
        }
        // Here the document rounds up; and its fit does not reach the time that it measured.
        assert_eq!(format!("{:.1}", value(&record, "time of the short tile")), "142.2");
        assert!(value(&record, "communication") < 0.9 * MEASURED[1]);
    }

    #[test]
    fn the_plan_is_no_worse_than_any_other_cut() {
        let record = computed().expect("the costs are sound");
        for other in ["rule", "uniform", "two sizes", "serial"] {
            assert!(value(&record, "exact") < value(&record, other), "{other}");
        }
        assert!(value(&record, "bound") < value(&record, "exact"));
        assert!(value(&record, "exact with contention") <= value(&record, "rule with contention"));
        // Where halves take as long as the whole, the plan does not tile.
        assert_eq!(value(&record, "saved by the plan with halves of 200"), 0.0);
    }
}
