//! Numerical programs by teams: [`Member::rounds`](windrow::team::Member::rounds) next to serial code, `round`, and a parallel loop of rayon a step.
//! `cargo run --release -p windrow-bench --bin programs -- --processes 10 --record`
//!
//! A process has all sizes of a program at one call site, the smallest first. Answers are compared with those of serial, bit for bit. A ratio is the
//! median of the ratios of one repetition.
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow::team::Lent;
use windrow_bench::measure::in_turn;
use windrow_bench::neighbour::{Neighbour, Neighbours};
use windrow_bench::programs::{Article, Bitonic, Jacobi, Lu, Program, Wavefront};
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{geometric_mean, median};

/// Numerical programs by teams, next to serial code and rayon.
#[derive(Parser)]
struct Options {
    /// Run only cells whose names begin with this, such as `lu` or `lu/256`.
    #[arg(long, default_value = "")]
    name: String,
    /// Turns of each arm in a process.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Number of fresh processes, one after another.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    processes: u16,
    #[command(flatten)]
    neighbours: Neighbours,
    #[command(flatten)]
    record: Recording,
}

/// The arms, by their place in a cell.
const ARMS: [&str; 4] = ["serial", "rounds", "round", "rayon"];
const SERIAL: usize = 0;
const ROUNDS: usize = 1;
const ROUND: usize = 2;
/// A turn of an arm lasts about this long, or is one call.
const TURN: Duration = Duration::from_millis(1);
/// Before a turn the pools come to rest.
const REST: Duration = Duration::from_millis(1);
/// `rounds` may take this much of the time of `round`, and next to busy processes this much of serial's.
const BARS: [f64; 2] = [1.05, 1.5];
/// Cells that a note names.
const WORST: usize = 5;
/// A process with this variable prints lines for the one that has started it.
const CHILD: &str = "WINDROW_BENCH_PROGRAMS";

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    if std::env::var_os(CHILD).is_some() {
        all(&options).iter().for_each(|cell| println!("{}", cell.line()));
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&options))
}

/// The turns of one process: nanoseconds of a call, for each arm and repetition.
struct Cell {
    name: String,
    times: [Vec<f64>; ARMS.len()],
}

impl Cell {
    fn ratio(&self, arm: usize, of: usize) -> f64 {
        median(&self.times[arm].iter().zip(&self.times[of]).map(|(own, other)| own / other).collect::<Vec<_>>())
    }

    fn line(&self) -> String {
        let arm = |times: &Vec<f64>| times.iter().map(|time| format!("{time:.0}")).collect::<Vec<_>>().join(" ");
        format!("{},{}", self.name, self.times.each_ref().map(arm).join(","))
    }

    fn parse(line: &str) -> Option<Cell> {
        let (name, times) = line.split_once(',')?;
        let arm = |arm: &str| arm.split(' ').map(|time| time.parse().ok()).collect::<Option<Vec<f64>>>();
        let times: Vec<Vec<f64>> = times.split(',').map(arm).collect::<Option<_>>()?;
        Some(Cell { name: name.to_owned(), times: times.try_into().ok()? })
    }
}

fn all(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    of_program::<Article>(options, &mut cells);
    of_program::<Jacobi>(options, &mut cells);
    of_program::<Lu>(options, &mut cells);
    of_program::<Wavefront>(options, &mut cells);
    of_program::<Bitonic>(options, &mut cells);
    cells
}

/// Measures the sizes of a program.
///
/// # Panics
/// If an answer differs from serial's.
fn of_program<P: Program>(options: &Options, cells: &mut Vec<Cell>)
where
    for<'x> Lent<'x, P::Shared>: Copy,
{
    let threads = windrow::current_num_threads();
    for size in P::SIZES.1 {
        let name = format!("{}/{size}", P::SIZES.0);
        if !name.starts_with(&options.name) {
            continue;
        }
        let (input, mut expected) = (P::new(*size), P::new(*size));
        let start = Instant::now();
        expected.serial(threads);
        let calls = (TURN.as_nanos() / start.elapsed().as_nanos().max(1)).clamp(1, 100) as u32;
        let arms: [fn(&mut P, usize); ARMS.len()] = [P::serial, P::rounds, P::round, P::rayon];
        let mut times = [(); ARMS.len()].map(|()| Vec::new());
        for repetition in 0..options.repetitions.into() {
            for at in in_turn(ARMS.len(), repetition) {
                std::thread::sleep(REST);
                let mut spent = Duration::ZERO;
                for _ in 0..calls {
                    let mut data = input.clone();
                    let start = Instant::now();
                    arms[at](&mut data, threads);
                    spent += start.elapsed();
                    assert!(
                        data.answer() == expected.answer(),
                        "{name}: {} gives a different answer from serial",
                        ARMS[at]
                    );
                }
                times[at].push(spent.as_nanos() as f64 / f64::from(calls));
            }
        }
        cells.push(Cell { name, times });
    }
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    println!("{}, {} processes of {} repetitions", record::machine(), options.processes, options.repetitions);
    let _neighbours = options.neighbours.start();
    let mut cells: Vec<(String, Vec<Cell>)> = Vec::new();
    for _ in 0..options.processes {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let (name, repetitions) = (options.name.as_str(), options.repetitions.to_string());
        let mut child = Command::new(this);
        child.env(CHILD, "1").args(["--name", name, "--repetitions", &repetitions]);
        let output = child.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        for cell in String::from_utf8_lossy(&output.stdout).lines().filter_map(Cell::parse) {
            match cells.iter_mut().find(|(name, _)| *name == cell.name) {
                Some((_, processes)) => processes.push(cell),
                None => cells.push((cell.name.clone(), vec![cell])),
            }
        }
    }
    let mut lines = Vec::new();
    for (name, processes) in &cells {
        let of = |arm, of| processes.iter().map(|cell| cell.ratio(arm, of)).collect::<Vec<f64>>();
        let micros = median(&processes.iter().map(|cell| median(&cell.times[SERIAL]) / 1e3).collect::<Vec<_>>());
        let ratios: Vec<String> =
            (1..ARMS.len()).map(|arm| format!("{} {:.2}", ARMS[arm], median(&of(arm, SERIAL)))).collect();
        let by_round = of(ROUNDS, ROUND);
        let (middle, worst) = (median(&by_round), by_round.iter().copied().fold(0.0, f64::max));
        println!("{name:18} {micros:>9.1} us  {}  rounds by round {middle:.3}, worst {worst:.3}", ratios.join("  "));
        for (process, cell) in processes.iter().enumerate() {
            for (arm, times) in ARMS.iter().zip(&cell.times) {
                let each: Vec<String> = times.iter().map(|time| format!("{time:.0}")).collect();
                lines.push(format!("{name},{process},{arm},{:.0},{}", median(times), each.join(" ")));
            }
        }
    }
    let notes = [("round", ROUND, BARS[0]), ("serial", SERIAL, BARS[1])].map(|(by, of, most)| {
        let all = || cells.iter().flat_map(|(_, processes)| processes).map(|cell| (&cell.name, cell.ratio(ROUNDS, of)));
        let mean = geometric_mean(all().map(|(_, ratio)| ratio));
        let mut above: Vec<_> = all().filter(|it| it.1 > most).collect();
        above.sort_by(|one, other| other.1.total_cmp(&one.1));
        let (met, count) = (if above.is_empty() { "met" } else { "missed" }, all().count());
        let worst: Vec<String> = above.iter().take(WORST).map(|(name, ratio)| format!("{name} {ratio:.2}")).collect();
        let worst = if worst.is_empty() { String::new() } else { format!("; the worst {}", worst.join(" ")) };
        format!(
            "rounds by {by}: x{mean:.3} in geometric mean, {} of {count} above {most}, bar <= 0 {met}{worst}",
            above.len()
        )
    });
    notes.iter().for_each(|note| println!("  {note}"));
    let head = [record::versions(), notes.to_vec()].concat();
    let name = format!("programs{}", options.neighbours.suffix());
    options.record.write(&name, &head, "program,process,arm,median_ns,ns_of_each_repetition", &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_a_cell() {
        let cell =
            Cell { name: "lu/64".into(), times: [vec![4.0, 8.0], vec![2.0, 2.0], vec![1.0, 2.0], vec![9.0, 9.0]] };
        let read = Cell::parse(&cell.line()).expect("its own line");
        assert_eq!((read.name.as_str(), read.ratio(ROUNDS, SERIAL), read.ratio(ROUNDS, ROUND)), ("lu/64", 0.375, 1.5));
        assert!(Cell::parse("error: none").is_none());
    }

    /// The smallest sizes of each program, by all arms.
    #[test]
    fn every_arm_gives_the_answer_of_serial() {
        for name in ["article/300", "jacobi/34", "lu/32", "wavefront/200", "bitonic/256"] {
            let options = Options::parse_from(["programs", "--name", name, "--repetitions", "1"]);
            let cells = all(&options);
            assert_eq!(cells.first().map(|cell| cell.name.as_str()), Some(name));
        }
    }
}
