//! Kernels of the kind of the NAS Parallel Benchmarks: serial, on rayon and on windrow, verified after every run.
//! `cargo run --release -p windrow-bench --bin kernels -- --record`
//!
//! All arms of a kernel run one after the other on the same data, in random order and its reverse. A ratio is the median of the ratios of
//! runs of the same repetition. windrow's time is also compared with the better of serial and rayon, by medians.
//!
//! `--core PROGRAM` adds the rayon form on windrow's rayon-core: this program, built with that crate in place of rayon's, in a process of its own.
//!
//! ```sh
//! cargo build --release -p windrow-bench --bin kernels --target-dir target/core \
//!     --config 'patch.crates-io.rayon-core.path = "compat/rayon-core"'
//! cargo run --release -p windrow-bench --bin kernels -- --core target/core/release/kernels
//! ```
//!
//! The first command writes the other rayon-core into `Cargo.lock`; `git checkout Cargo.lock` takes it back.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow_bench::kernels::{ALL, By, Class, Kernel, Make};
use windrow_bench::measure::in_turn;
use windrow_bench::record;
use windrow_bench::stats::{geometric_mean, median, quantile};

/// Kernels of the kind of the NAS Parallel Benchmarks: serial, on rayon and on windrow.
#[derive(Parser)]
struct Options {
    /// Only these kernels.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only this class, S or W.
    #[arg(long)]
    class: Option<String>,
    /// Runs of each arm.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// This program, built on windrow's rayon-core.
    #[arg(long)]
    core: Option<PathBuf>,
    /// Run the rayon form of the kernels named on standard input, and answer with nanoseconds.
    #[arg(long, hide = true)]
    serve: bool,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

const CLASSES: [(&str, Class); 2] = [("S", Class::S), ("W", Class::W)];
/// Before a run the pools come to rest.
const REST: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let options = Options::parse();
    windrow_bench::exit_code(if options.serve { serve() } else { run(&options) })
}

/// All kernels of all classes, by names such as `cg S`.
fn problems() -> impl Iterator<Item = (String, impl Fn() -> Box<dyn Kernel>)> {
    let each = |(name, make): (&'static str, Make)| {
        CLASSES.map(|(letter, class)| (format!("{name} {letter}"), move || make(class)))
    };
    ALL.into_iter().flat_map(each)
}

/// The nanoseconds of a run that gives the right result.
fn time(kernel: &mut dyn Kernel, by: By) -> Result<f64, String> {
    let start = Instant::now();
    kernel.run(by);
    let nanos = start.elapsed().as_nanos() as f64;
    kernel.check().map(|()| nanos)
}

/// The arms of this program, by name. The first is what others are compared with.
const HERE: [(&str, By); 4] =
    [("serial", By::Serial), ("control", By::Serial), ("rayon", By::Rayon), ("windrow", By::Windrow)];

type Arm<'a> = (&'a str, Place<'a>);

/// The place in which an arm runs.
enum Place<'a> {
    Here(By),
    Process(&'a mut Process),
}

/// Another build of this program, which runs its rayon form.
struct Process {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(program: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        let piped = command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
        Ok(Self { child, asks: pipes.0, answers: BufReader::new(pipes.1) })
    }

    fn time(&mut self, problem: &str) -> Result<f64, String> {
        let mut answer = String::new();
        writeln!(self.asks, "{problem}")
            .and_then(|()| self.answers.read_line(&mut answer))
            .map_err(|error| error.to_string())?;
        answer.trim().parse().map_err(|_| format!("the other program answers {answer:?}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends by itself when its input does; a program that hangs would not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve() -> Result<(), String> {
    let mut last: Option<(String, Box<dyn Kernel>)> = None;
    for line in io::stdin().lines() {
        let name = line.map_err(|error| error.to_string())?;
        if last.as_ref().is_none_or(|(last, _)| *last != name) {
            last = problems().find(|problem| problem.0 == name).map(|(name, make)| (name, make()));
        }
        let (_, kernel) = last.as_mut().ok_or_else(|| format!("no kernel {name}"))?;
        println!("{}", time(kernel.as_mut(), By::Rayon)?);
    }
    Ok(())
}

/// The times of each arm, in nanoseconds, after one run that warms up.
fn measure(problem: &str, kernel: &mut dyn Kernel, arms: &mut [Arm<'_>], runs: usize) -> Result<Vec<Vec<f64>>, String> {
    let mut times = vec![Vec::new(); arms.len()];
    for repetition in 0..=runs {
        for at in in_turn(arms.len(), repetition) {
            std::thread::sleep(REST);
            let (arm, place) = &mut arms[at];
            let nanos = match place {
                Place::Here(by) => time(kernel, *by),
                Place::Process(process) => process.time(problem),
            };
            let nanos = nanos.map_err(|error| format!("{problem}, {arm}: {error}"))?;
            if repetition > 0 {
                times[at].push(nanos);
            }
        }
    }
    Ok(times)
}

/// Times of one arm by those of another in the same repetition.
fn ratios(times: &[f64], others: &[f64]) -> Vec<f64> {
    times.iter().zip(others).map(|(time, other)| time / other).collect()
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    println!("{}, {} repetitions", record::machine(), options.repetitions);
    let mut core = options.core.as_deref().map(Process::start).transpose()?;
    let (mut lines, mut by_better, mut by_rayon) = (Vec::new(), Vec::new(), Vec::new());
    for (problem, make) in problems() {
        let (name, class) = problem.split_at(2);
        let named = options.only.is_empty() || options.only.iter().any(|only| only == name);
        if !named || options.class.as_ref().is_some_and(|only| !only.eq_ignore_ascii_case(class.trim())) {
            continue;
        }
        let mut arms: Vec<Arm<'_>> = HERE.map(|(arm, by)| (arm, Place::Here(by))).into();
        arms.extend(core.as_mut().map(|process| ("rayon-on-windrow", Place::Process(process))));
        let times = measure(&problem, make().as_mut(), &mut arms, options.repetitions.into())?;
        println!("{problem}  serial {:.3} ms", median(&times[0]) / 1e6);
        for ((arm, _), times_of_arm) in arms.iter().zip(&times) {
            let all = ratios(times_of_arm, &times[0]);
            let [low, high] = [0.1, 0.9].map(|share| quantile(&all, share));
            println!("  {arm:16} x{:.3} ({low:.3}..{high:.3})", median(&all));
            let each: Vec<String> = times_of_arm.iter().map(|time| format!("{time:.0}")).collect();
            let nanos = median(times_of_arm);
            lines.push(format!("{problem},{arm},{nanos:.0},{:.4},{}", median(&all), each.join(" ")));
        }
        let [serial, _, rayon, windrow] = [0, 1, 2, 3].map(|arm| &times[arm]);
        let better = median(&ratios(windrow, serial)).max(median(&ratios(windrow, rayon)));
        by_better.push((problem.clone(), better));
        by_rayon.extend(times.get(4).map(|core| (problem, median(&ratios(core, rayon)))));
    }
    let mut notes = vec![note("windrow", "the better of serial and rayon", &by_better)];
    if core.is_some() {
        notes.push(note("rayon-on-windrow", "rayon", &by_rayon));
    }
    notes.iter().for_each(|note| println!("{note}"));
    if options.record {
        let mut head = record::versions();
        head.extend(notes);
        let columns = "kernel,arm,median_ns,ratio,ns_of_each_repetition";
        let command = record::command("kernels");
        let written = record::write_lines(Path::new("bench/record"), "kernels", &command, &head, columns, &lines);
        println!("{}", written.map_err(|error| error.to_string())?.display());
    }
    Ok(())
}

fn note(arm: &str, others: &str, ratios: &[(String, f64)]) -> String {
    let mean = geometric_mean(ratios.iter().map(|(_, ratio)| *ratio));
    let worst = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let worst = worst.map_or(String::new(), |(problem, ratio)| format!(", worst x{ratio:.3} ({problem})"));
    format!("{arm} by {others}: x{mean:.3} in geometric mean{worst}")
}
