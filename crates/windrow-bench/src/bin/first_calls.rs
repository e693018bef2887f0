//! The first four calls of a process: what a command-line program pays before any call site is known.
//! `cargo run --release -p windrow-bench --features ablation --bin first_calls -- --record`
//!
//! Each repetition starts a process for each arm of each cell. The process touches its data, starts its pool, rests for 5 ms, and calls
//! one loop four times. A call's ratio is the median of its times by that of the serial loop in separate processes. `explained` is windrow
//! inside of `windrow::explain`: its column has the predicted serial time by the serial time.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow_bench::arms::{WITHOUT, commonware};
use windrow_bench::measure::in_turn;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{geometric_mean, median, quantile};
use windrow_bench::work::{Item, TurnCosts, serial, work};

/// The first four calls of a process.
#[derive(Parser)]
struct Options {
    /// Processes of each arm in each cell.
    #[arg(long, default_value_t = 15)]
    repetitions: usize,
    #[command(flatten)]
    record: Recording,
    /// Run as a process of one arm: its name, items, turns of an item.
    #[arg(long, num_args = 3, hide = true)]
    child: Vec<String>,
}

const CALLS: usize = 4;

/// Items and the nanoseconds of each.
const CELLS: [(usize, f64); 11] = [
    (100, 10.0),
    (1000, 10.0),
    (10_000, 10.0),
    (1_000_000, 10.0),
    (10, 1e3),
    (100, 1e3),
    (1000, 1e3),
    (10, 1e5),
    (100, 1e5),
    (2, 1e7),
    (8, 2e6),
];

/// The pause between the start of the pool and the first call: its threads have started, and are parked.
const REST: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    let options = Options::parse();
    windrow_bench::exit_code(if options.child.is_empty() { measure(&options) } else { child(&options.child) })
}

/// One call, which returns the predicted serial time, or 0.
type Run<'a> = Box<dyn FnMut(&mut Vec<u64>) -> f64 + 'a>;

/// One process: prints the nanoseconds of each call, and the predicted serial time of each.
fn child(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize| arguments[at].parse::<usize>().map_err(|error| error.to_string());
    let (arm, items, turns) = (arguments[0].as_str(), number(1)?, number(2)?);
    let items: Vec<Item> = (0..items as u64).map(|seed| Item { seed, turns: turns as u64 }).collect();
    let mut out = vec![1; items.len()];
    let run: Run<'_> = match arm {
        "serial" | "control" => Box::new(|out| {
            serial(&items, out);
            0.0
        }),
        "rayon" => {
            rayon::current_num_threads();
            Box::new(|out| {
                by_rayon(&items, out);
                0.0
            })
        }
        "commonware" => {
            let strategy = commonware::strategy(windrow::current_num_threads());
            let items = &items;
            Box::new(move |out| {
                commonware::in_batches(&strategy, out, 1, |start, out| serial(&items[start..start + out.len()], out));
                0.0
            })
        }
        "explained" => {
            windrow::current_num_threads();
            Box::new(|out| {
                let (_, calls) = windrow::explain(|| call(&items, out));
                let serial = calls[0].alternatives().find(|(name, _)| *name == "serial");
                serial.map_or(f64::NAN, |(_, time)| time.as_nanos() as f64)
            })
        }
        "windrow" => {
            windrow::current_num_threads();
            Box::new(|out| {
                call(&items, out);
                0.0
            })
        }
        _ => {
            let pool = without(arm)?;
            let items = &items;
            Box::new(move |out| {
                pool.install(|| call(items, out));
                0.0
            })
        }
    };
    timed(run, &mut out);
    let mut expected = vec![0; items.len()];
    serial(&items, &mut expected);
    if out == expected { Ok(()) } else { Err(format!("{arm}: wrong result")) }
}

/// The loop of all arms of windrow: one call site.
#[inline(never)]
fn call(items: &[Item], out: &mut [u64]) {
    use windrow::prelude::*;
    items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item));
}

#[inline(never)]
fn by_rayon(items: &[Item], out: &mut [u64]) {
    use rayon::prelude::*;
    items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item));
}

fn timed(mut run: impl FnMut(&mut Vec<u64>) -> f64, out: &mut Vec<u64>) {
    std::thread::sleep(REST);
    for _ in 0..CALLS {
        let start = Instant::now();
        let predicted = run(out);
        println!("{} {predicted}", start.elapsed().as_nanos());
    }
}

#[cfg(feature = "ablation")]
fn without(arm: &str) -> Result<windrow::Pool, String> {
    let (_, off) = WITHOUT.iter().find(|(name, _)| *name == arm).ok_or("there is no such arm")?;
    let builder = windrow::Pool::builder();
    off.iter().fold(builder, |builder, &off| builder.without(off)).build().map_err(|error| error.to_string())
}

#[cfg(not(feature = "ablation"))]
fn without(arm: &str) -> Result<windrow::Pool, String> {
    Err(format!("{arm} needs the `ablation` feature"))
}

/// Times of a cell: by arm, by call, of each process.
type Times = BTreeMap<&'static str, [Vec<f64>; CALLS]>;

fn measure(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let calibration = TurnCosts::measure();
    let mut arms = vec!["serial", "control", "windrow", "explained", "rayon", "commonware"];
    arms.extend(WITHOUT.iter().map(|(name, _)| *name));
    let (mut lines, mut ratios) = (Vec::new(), BTreeMap::<&str, Vec<f64>>::new());
    println!("{}", record::machine());
    for (items, nanos) in CELLS {
        let turns = calibration.turns(nanos).to_string();
        let (mut times, mut predicted): (Times, [Vec<f64>; CALLS]) = Default::default();
        for repetition in 0..options.repetitions {
            for at in in_turn(arms.len(), repetition) {
                let arguments = ["--child", arms[at], &items.to_string(), &turns];
                let output = Command::new(&own).args(arguments).output().map_err(|error| error.to_string())?;
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).into_owned());
                }
                for (at_call, line) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
                    let mut numbers = line.split(' ').filter_map(|number| number.parse::<f64>().ok());
                    times.entry(arms[at]).or_default()[at_call].push(numbers.next().unwrap_or(f64::NAN));
                    let predicts = numbers.next().filter(|_| arms[at] == "explained");
                    predicted[at_call].extend(predicts.filter(|time| time.is_finite()));
                }
            }
        }
        println!("{items} x {nanos} ns");
        for arm in &arms {
            let mut shown = format!("  {arm:28}");
            for at in 0..CALLS {
                let serial = median(&times["serial"][at]);
                let own = &times[arm][at];
                let (ratio, low, high) =
                    (median(own) / serial, quantile(own, 0.1) / serial, quantile(own, 0.9) / serial);
                ratios.entry(arm).or_default().push(ratio);
                let predicts = *arm == "explained" && !predicted[at].is_empty();
                let prediction =
                    if predicts { format!("{:.3}", median(&predicted[at]) / serial) } else { "-".to_owned() };
                shown += &format!(" {ratio:8.3}");
                let all: Vec<String> = own.iter().map(|time| format!("{time:.0}")).collect();
                lines.push(format!(
                    "{items}x{nanos}ns/{},{arm},{:.0},{ratio:.4},{low:.4},{high:.4},{prediction},{}",
                    at + 1,
                    median(own),
                    all.join(" ")
                ));
                if predicts {
                    shown += &format!(" ({prediction})");
                }
            }
            println!("{shown}");
        }
    }
    let notes: Vec<String> = arms
        .iter()
        .map(|arm| {
            let worst = ratios[arm].iter().copied().fold(0.0, f64::max);
            let above = ratios[arm].iter().filter(|ratio| **ratio > 1.05).count();
            let (mean, calls) = (geometric_mean(ratios[arm].iter().copied()), ratios[arm].len());
            format!("{arm:28} geomean x{mean:.3}, worst x{worst:.2}, {above} of {calls} calls above 1.05")
        })
        .collect();
    notes.iter().for_each(|note| println!("{note}"));
    let head = [record::versions(), notes].concat();
    let columns = "cell,arm,median_ns,ratio,ratio_p10,ratio_p90,predicted_by_serial,ns_of_each_repetition";
    options.record.write("first-calls", &head, columns, &lines)
}
