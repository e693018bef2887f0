//! Loops of which only the inner level can be shared: `cargo run --release -p windrow-bench --bin decompose -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use windrow_bench::arms::Programs;
use windrow_bench::decompose::blocked::{Blocked, Panel};
use windrow_bench::decompose::cholesky::Cholesky;
use windrow_bench::decompose::inputs;
use windrow_bench::decompose::lu::Lu;
use windrow_bench::decompose::versions::{Kind, LIBRARY, VERSIONS, measure};
use windrow_bench::record;
use windrow_bench::report::{Cell, Report};
use windrow_bench::stats::median;
use windrow_bench::verdict::Regime;

/// Decompositions, time steps and paths: sequentially, by a team of windrow, on rayon with the same kernels, and in faer.
#[derive(Parser)]
struct Options {
    /// The problems, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lu,cholesky,heat,paths,additions")]
    problems: Vec<Kind>,
    /// Rows and columns, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024,2048", value_parser = clap::value_parser!(u16).range(3..))]
    sizes: Vec<u16>,
    /// Number of turns of each version.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write records below bench/record.
    #[arg(long)]
    record: bool,
    /// Instead, measure the sequential decompositions with panels of several widths, and the cost of a panel.
    #[arg(long)]
    panel: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.panel {
        panels::<Lu>("lu", &options.sizes, inputs::matrix);
        panels::<Cholesky>("cholesky", &options.sizes, inputs::positive_definite);
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the problem would take minutes: paths and additions of the largest sizes.
fn is_too_long(kind: Kind, n: usize) -> bool {
    matches!(kind, Kind::Paths | Kind::Additions) && n > 1024
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{}, {threads} threads, {} repetitions", record::machine(), options.repetitions);
    for (name, is_in_library) in [("decompose", true), ("sweeps", false)] {
        let mut versions = VERSIONS.to_vec();
        versions.extend(LIBRARY.into_iter().filter(|_| is_in_library));
        let mut report = Report { arms: versions.iter().map(|name| (*name).to_owned()).collect(), cells: Vec::new() };
        let mut notes = Vec::new();
        for &kind in options.problems.iter().filter(|kind| kind.is_in_library() == is_in_library) {
            let sizes = options.sizes.iter().map(|n| usize::from(*n)).filter(|n| !is_too_long(kind, *n));
            for n in sizes {
                let mut problem = kind.problem(n, threads);
                let samples = measure(&mut *problem, &versions, options.repetitions.into(), threads);
                // No bound: the threads' caches add up, and faer uses other instructions. Every answer is compared.
                let cell = Cell::new(&problem.name(), 0.0, Regime::Warm, samples);
                cell.print(&report.arms);
                let place = |name| VERSIONS.iter().position(|known| *known == name);
                let windrow = place("windrow").ok_or("windrow is one of the versions")?;
                let rayon = VERSIONS.iter().enumerate().filter(|(_, name)| name.starts_with("rayon"));
                let ratios: Vec<String> = rayon
                    .map(|(at, name)| {
                        let line = cell.beside(windrow, at);
                        format!("{name} x{:.3} [{:.3} {:.3}]", line.ratio, line.interval.0, line.interval.1)
                    })
                    .collect();
                let note = format!("{}: windrow by {}", problem.name(), ratios.join(", "));
                println!("  {note}");
                notes.push(note);
                report.cells.push(cell);
            }
        }
        if report.cells.is_empty() {
            continue;
        }
        print!("{}", report.summary());
        if options.record {
            let written = report.record("decompose", name, &Programs::default(), &notes);
            println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
        }
    }
    Ok(())
}

/// Median seconds of some calls.
fn seconds(mut call: impl FnMut() -> f64) -> f64 {
    let once = call();
    let calls = (0.05 / once.max(1e-9)).clamp(3.0, 300.0) as usize;
    median(&(0..calls).map(|_| call()).collect::<Vec<_>>())
}

fn timed(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

/// The measurements behind the constants of the blocked decompositions.
fn panels<P: Panel>(name: &str, sizes: &[u16], input: fn(usize, u64) -> Vec<f64>) {
    for n in sizes.iter().map(|n| usize::from(*n)) {
        let input = input(n, n as u64);
        for width in [8, 16, 32, 48, 64].into_iter().filter(|width| *width < n) {
            let mut blocked = Blocked::<P>::with_panels(n, width);
            let sequential = seconds(|| {
                blocked.load(&input);
                timed(|| blocked.sequential())
            });
            let mut panel = P::with_capacity(n, width);
            let mut matrix = input.clone();
            let decomposed = seconds(|| {
                matrix.copy_from_slice(&input);
                timed(|| panel.decompose(&mut matrix[..width * n], n, 0))
            });
            let updated = seconds(|| {
                matrix.copy_from_slice(&input);
                timed(|| panel.update(&mut matrix[width * n..], n, width))
            });
            let rows = n - width;
            let columns: f64 = (0..rows).map(|at| P::cost(at, rows)).sum::<f64>() / rows as f64;
            println!(
                "{name}/{n}, panels of {width}: sequential {:.1} us; a column of the first panel costs {:.2} others of {rows} rows",
                sequential * 1e6,
                decomposed / width as f64 / (updated / columns)
            );
        }
    }
}
