//! Products fused with collectives, on two ranks with a link between them: `cargo run --release -p windrow-bench --bin fused -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{median, quantile};
use windrow_collective::Operation;

use self::ranks::{ARMS, Cell, Measured, Once, Shape, Speed};

mod ranks;

/// Measures products that are fused with a collective: cut by the planner, not cut, and cut into equal tiles, over links on which
/// communication takes half as long as the computation, as long, and twice as long. All results are checked.
///
/// The best of the unplanned cuts is chosen on one half of the repetitions and read from the other half. Fails if a time is below what is
/// possible.
#[derive(Parser)]
struct Options {
    /// matmul-all-reduce, matmul-reduce-scatter or all-gather-matmul.
    #[arg(long, default_value = "matmul-all-reduce", value_parser = operation)]
    operation: Operation,
    /// Number of turns of each cut.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u16).range(2..))]
    repetitions: u16,
    /// Measure cells in which not tiling is best or nearly so, and wide products.
    #[arg(long)]
    border: bool,
    #[command(flatten)]
    record: Recording,
}

fn operation(name: &str) -> Result<Operation, String> {
    let all = [Operation::MatmulAllReduce, Operation::MatmulReduceScatter, Operation::AllGatherMatmul];
    all.into_iter().find(|known| known.to_string() == name).ok_or_else(|| "there is no such operation".to_owned())
}

/// Long, short, wide and deep shapes, and one that no power of two divides.
const SHAPES: [Shape; 7] = [
    Shape { m: 1024, n: 512, k: 512 },
    Shape { m: 4096, n: 256, k: 256 },
    Shape { m: 2048, n: 256, k: 1024 },
    Shape { m: 2048, n: 512, k: 512 },
    Shape { m: 1536, n: 1024, k: 384 },
    Shape { m: 3000, n: 500, k: 600 },
    Shape { m: 4096, n: 768, k: 768 },
];

/// Places of arms.
const SERIAL: usize = 2;
const UNIFORM_8: usize = 5;

/// The ratios of communication to computation.
const RATES: [f64; 3] = [0.5, 1.0, 2.0];

/// Where not to tile is best or nearly so, or tiles are costly: small products and slow links; and wide ones.
const BORDER: [(Shape, Speed); 20] = [
    (Shape { m: 256, n: 256, k: 256 }, Speed::Given(400, 200)),
    (Shape { m: 384, n: 384, k: 384 }, Speed::Given(1000, 100)),
    (Shape { m: 512, n: 512, k: 512 }, Speed::Given(400, 500)),
    (Shape { m: 512, n: 512, k: 512 }, Speed::Given(4000, 20)),
    (Shape { m: 512, n: 512, k: 512 }, Speed::Given(4000, 1000)),
    (Shape { m: 512, n: 256, k: 256 }, Speed::Given(2000, 20)),
    (Shape { m: 1024, n: 256, k: 256 }, Speed::Given(1000, 100)),
    (Shape { m: 1024, n: 1024, k: 256 }, Speed::Given(800, 3000)),
    (Shape { m: 1024, n: 512, k: 512 }, Speed::Given(1000, 3000)),
    (Shape { m: 2048, n: 256, k: 256 }, Speed::Given(1000, 500)),
    (Shape { m: 2048, n: 512, k: 512 }, Speed::Given(200, 50)),
    (Shape { m: 2048, n: 512, k: 512 }, Speed::Given(200, 1000)),
    (Shape { m: 4096, n: 256, k: 2048 }, Speed::Given(400, 2000)),
    (Shape { m: 4096, n: 512, k: 1024 }, Speed::Given(250, 50)),
    (Shape { m: 1024, n: 1024, k: 1024 }, Speed::Given(1000, 20)),
    (Shape { m: 1024, n: 1024, k: 1024 }, Speed::Given(1000, 500)),
    (Shape { m: 512, n: 2048, k: 2048 }, Speed::Given(2000, 20)),
    (Shape { m: 512, n: 2048, k: 2048 }, Speed::Given(2000, 1000)),
    (Shape { m: 256, n: 8192, k: 3072 }, Speed::Given(1000, 100)),
    (Shape { m: 256, n: 8192, k: 3072 }, Speed::Given(1000, 1000)),
];

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let usual = SHAPES.iter().flat_map(|&shape| RATES.map(|times| (shape, Speed::Times(times))));
    let of: Vec<(Shape, Speed)> = if options.border { BORDER.to_vec() } else { usual.collect() };
    let repetitions = usize::from(options.repetitions);
    let cell = |&(shape, speed): &(Shape, Speed)| {
        Ok(Cell { shape, speed, computation: ranks::computation(options.operation, shape)? })
    };
    let cells: Vec<Cell> = of.iter().map(cell).collect::<Result<_, String>>()?;
    println!(
        "{} on {} ranks, {}, {repetitions} repetitions of {} cells",
        options.operation,
        ranks::RANKS,
        record::machine(),
        cells.len()
    );
    let measured = ranks::measure(options.operation, &cells, repetitions)?;
    let found: Vec<Found> = cells.iter().zip(&measured).map(|(cell, measured)| Found::new(cell, measured)).collect();
    println!(
        "  computation and communication in one piece, auto by the best other cut (control), bound by auto: with contention, plain"
    );
    found.iter().for_each(|found| println!("  {}", found.line()));
    let notes = bars(&found);
    notes.iter().for_each(|note| println!("  {note}"));
    write(options, &found, &measured, &notes)?;
    match found.iter().find_map(|found| found.impossible.as_ref()) {
        Some(impossible) => Err(format!("a time is below what is possible: {impossible}")),
        None => Ok(()),
    }
}

/// The results of a cell.
struct Found<'a> {
    cell: &'a Cell,
    plan: String,
    slowdown: String,
    /// Milliseconds: computation, communication, auto.
    times: [f64; 3],
    best: &'static str,
    /// The time of auto relative to the best of the others.
    ratio: f64,
    /// The time of auto relative to that without tiles, in each half of the repetitions.
    by_serial: [f64; 2],
    /// The time of auto relative to that with 8 equal tiles.
    by_uniform: f64,
    /// The time of auto relative to itself.
    control: f64,
    /// The bound relative to auto's time.
    contended: f64,
    plain: f64,
    /// By what share the predictions of auto's tiles, and of its whole call, were above their times.
    errors: [f64; 2],
    impossible: Option<String>,
}

/// The median over an arm's runs.
fn middle(arm: &[Once], value: impl Fn(&Once) -> f64) -> f64 {
    median(&arm.iter().map(value).collect::<Vec<_>>())
}

impl<'a> Found<'a> {
    fn new(cell: &'a Cell, measured: &Measured) -> Self {
        let elapsed = |arm: usize, half: usize| -> Vec<f64> {
            measured.times[arm].iter().skip(half).step_by(2).map(|once| once.elapsed).collect()
        };
        let others = 2..ARMS.len();
        let best = others.min_by(|&a, &b| median(&elapsed(a, 0)).total_cmp(&median(&elapsed(b, 0)))).unwrap_or(2);
        // Of the same repetitions: a disturbance slows down both.
        let ratio = |one: Vec<f64>, other: Vec<f64>| {
            median(&one.iter().zip(&other).map(|(one, other)| one / other).collect::<Vec<_>>())
        };
        let auto = middle(&measured.times[0], |once| once.elapsed);
        let (computation, communication) = (measured.computation().0, measured.communication());
        let bounds = measured.bounds();
        let plan = measured.plan.as_ref();
        let predicted = plan.map_or(f64::NAN, |plan| plan.predicted.0);
        let tiles = middle(&measured.times[0], |once| once.tiles);
        Self {
            cell,
            plan: plan.map_or(String::new(), |plan| plan.tiles.to_string()),
            slowdown: plan.map_or(String::new(), |plan| {
                let it = plan.inputs.contention;
                format!("{:.2},{:.2}", it.compute, it.communicate)
            }),
            times: [computation, communication, auto].map(|nanos| nanos / 1e6),
            best: ARMS[best].0,
            ratio: ratio(elapsed(0, 1), elapsed(best, 1)),
            by_serial: [0, 1].map(|half| ratio(elapsed(0, half), elapsed(SERIAL, half))),
            by_uniform: ratio(elapsed(0, 1), elapsed(UNIFORM_8, 1)),
            control: ratio(
                measured.times[1].iter().map(|once| once.elapsed).collect(),
                measured.times[0].iter().map(|once| once.elapsed).collect(),
            ),
            contended: bounds.map_or(f64::NAN, |bounds| bounds.contended.0 / auto),
            plain: bounds.map_or(f64::NAN, |bounds| bounds.plain.0 / auto),
            errors: [predicted / tiles - 1.0, measured.predicted.unwrap_or(f64::NAN) / auto - 1.0],
            impossible: impossible(cell, measured),
        }
    }

    fn line(&self) -> String {
        let Shape { m, n, k } = self.cell.shape;
        let [computation, communication, auto] = self.times;
        format!(
            "{m:>4} x {k:>4} x {n:>4} {:>3}  {computation:>5.1} {communication:>5.1} ms  auto {auto:>5.1} ms x{:.3} of {:<10} (x{:.3})  {:.3} {:.3}  predicted {:+5.1} % ({:+5.1} %)  slowdown {}  {}",
            self.cell.speed,
            self.ratio,
            self.best,
            self.control,
            self.contended,
            self.plain,
            100.0 * self.errors[0],
            100.0 * self.errors[1],
            self.slowdown,
            self.plan
        )
    }
}

/// The first time that is impossible.
fn impossible(cell: &Cell, measured: &Measured) -> Option<String> {
    let (computation, communication) = (measured.computation(), measured.communication());
    let below = |name: &str, what: &str, time: f64, bound: f64| {
        (time < bound)
            .then(|| format!("{name} {what} {:.3} ms of at least {:.3} ms, {cell:?}", time / 1e6, bound / 1e6))
    };
    ARMS.iter().zip(&measured.times).find_map(|((name, _), arm)| {
        let usual = below(name, "usually takes", middle(arm, |once| once.elapsed), computation.0.max(communication));
        // A link never takes less than it was asked to; a single computation may take less than usual.
        let least = computation.1.max(communication);
        usual.or_else(|| arm.iter().find_map(|once| below(name, "took", once.elapsed, least)))
    })
}

/// The bars, and whether they are met.
fn bars(found: &[Found]) -> Vec<String> {
    let met = |met| if met { "met" } else { "missed" };
    let least = |rate: Option<f64>, value: fn(&Found) -> f64| {
        let values =
            found.iter().filter(|found| rate.is_none_or(|rate| found.cell.speed == Speed::Times(rate))).map(value);
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| (quantile(&values, 0.0), median(&values)))
    };
    let slow = found.iter().filter(|found| found.ratio > 1.05).count();
    let mut bars = vec![format!(
        "auto more than 5 % slower than the best other cut in {slow} of {} cells, bar 1 in 21: {}",
        found.len(),
        met(21 * slow <= found.len())
    )];
    let worse = found.iter().filter(|found| found.by_serial.iter().all(|&ratio| ratio > 1.02)).count();
    let worst = found.iter().map(|found| found.by_serial[0].min(found.by_serial[1])).fold(0.0, f64::max);
    bars.push(format!(
        "auto more than 2 % slower than no tiles, in both halves, in {worse} of {} cells, worst x{worst:.3}, bar 0: {}",
        found.len(),
        met(worse == 0)
    ));
    let mean = (found.iter().map(|found| found.by_uniform.ln()).sum::<f64>() / found.len() as f64).exp();
    bars.push(format!("auto by 8 equal tiles x{mean:.3} in geometric mean, bar 0.93: {}", met(mean <= 0.93)));
    for (name, rate, value, bar) in [
        ("bound with contention", None, (|found| found.contended) as fn(&Found) -> f64, 0.90),
        ("plain bound where communication is twice", Some(2.0), |found| found.plain, 0.95),
        ("plain bound where both are equal", Some(1.0), |found| found.plain, 0.85),
    ] {
        let Some((least, middle)) = least(rate, value) else { continue };
        bars.push(format!(
            "{name} by auto: {least:.3} at least, {middle:.3} in the median, bar {bar}: {}",
            met(least >= bar)
        ));
    }
    for (what, which) in [("its tiles take", 0), ("its whole call takes", 1)] {
        let errors: Vec<f64> = found.iter().map(|found| found.errors[which].abs()).collect();
        let (middle, most) = (median(&errors), quantile(&errors, 0.9));
        bars.push(format!(
            "prediction of what {what} off by {:.1} % in the median, by at most {:.1} % in 9 of 10 cells, bars 5 and 10: {}",
            100.0 * middle,
            100.0 * most,
            met(middle <= 0.05 && most <= 0.10)
        ));
    }
    let controls: Vec<f64> = found.iter().map(|found| found.control).collect();
    bars.push(format!(
        "control: auto by auto x{:.3} in the median, x{:.3} to x{:.3}",
        median(&controls),
        quantile(&controls, 0.0),
        quantile(&controls, 1.0)
    ));
    bars
}

fn write(options: &Options, found: &[Found], measured: &[Measured], notes: &[String]) -> Result<(), String> {
    let columns = "m,n,k,rate,cut,tiles,computation_ns,communication_ns,compute_slowdown,communicate_slowdown,predicted_tiles_ns,predicted_ns,median_ns,ns_of_each_repetition,tiles_ns_of_each_repetition";
    let mut lines = Vec::new();
    for (found, measured) in found.iter().zip(measured) {
        let Shape { m, n, k } = found.cell.shape;
        for ((name, _), arm) in ARMS.iter().zip(&measured.times) {
            let all = |value: fn(&Once) -> f64| {
                arm.iter().map(|once| format!("{:.0}", value(once))).collect::<Vec<_>>().join(" ")
            };
            let (tiles, predicted) = match measured.plan.as_ref().filter(|_| name.starts_with("auto")) {
                Some(plan) => {
                    let rows: Vec<String> = plan.tiles.iter().map(|rows| rows.to_string()).collect();
                    let call = measured.predicted.unwrap_or(f64::NAN);
                    (rows.join(" "), format!("{:.0},{call:.0}", plan.predicted.0))
                }
                None => (String::new(), ",".to_owned()),
            };
            lines.push(format!(
                "{m},{n},{k},{},{name},{tiles},{:.0},{:.0},{},{predicted},{:.0},{},{}",
                found.cell.speed,
                1e6 * found.times[0],
                1e6 * found.times[1],
                found.slowdown,
                middle(arm, |once| once.elapsed),
                all(|once| once.elapsed),
                all(|once| once.tiles)
            ));
        }
    }
    let name = format!("fused-{}{}", if options.border { "border-" } else { "" }, options.operation);
    options.record.write(&name, notes, columns, &lines)
}
