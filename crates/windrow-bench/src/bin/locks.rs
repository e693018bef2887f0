//! Locked instructions of a parallel call: `cargo run --release -p windrow-bench --bin locks -- --record`.
//!
//! These are the atomic read-modify-writes of x86-64 (`lock cmpxchg`, `lock xadd`, `xchg` with memory, ...) of all threads of the process,
//! failed ones included, without the kernel. The CPU counts them when they retire (AMD event 0x25; Intel event 0xd0, mask 0x21), so nothing is
//! slowed down or inserted, and calls decide by their usual times. First the counter has to count loops with a known number of atomics.
//!
//! Each runtime is measured in a process of its own, with a thread for every CPU: windrow, and rayon called from outside its pool, inside, or with
//! the `with_min_len` of tokenizers' pull request 2077. A repetition has as many calls as take 50 ms, after as many uncounted ones.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow_bench::arms::min_len_of_2077;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::median;

/// Locked instructions of `for_each`, counted by the CPU.
#[derive(Parser)]
struct Options {
    /// Print only the lines of this arm.
    #[arg(long, hide = true)]
    arm: Option<String>,
    #[command(flatten)]
    record: Recording,
}

const ARMS: [&str; 5] = ["serial", "windrow", "rayon", "rayon min_len", "rayon inside"];
/// About 10 ns and 1 us an item, and the items.
const CELLS: [(u64, usize); 6] = [(12, 10), (12, 1000), (12, 1_000_000), (1200, 10), (1200, 1000), (1200, 1_000_000)];
const REPETITIONS: usize = 5;

fn main() -> ExitCode {
    let options = Options::parse();
    windrow_bench::exit_code(match &options.arm {
        Some(arm) if arm.starts_with("rayon inside") => rayon::scope(|_| count(arm)),
        Some(arm) => count(arm),
        None => run(&options),
    })
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let mut lines = Vec::new();
    for arm in ARMS {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = Command::new(own).args(["--arm", arm]).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let own: Vec<&str> = text.lines().collect();
        for of_cell in own.chunks(REPETITIONS) {
            let fields: Vec<Vec<&str>> = of_cell.iter().map(|line| line.split(',').collect()).collect();
            let number = |line: &[&str], at: usize| line[at].parse().unwrap_or(f64::NAN);
            let each: Vec<f64> = fields.iter().map(|line| number(line, 6) / number(line, 5)).collect();
            println!("{arm:22} {:>8} items of {:>4} turns: {:.4} per call", fields[0][3], fields[0][2], median(&each));
        }
        lines.extend(own.into_iter().map(str::to_owned));
    }
    let notes = ["a turn is about 0.8 ns of an item's work; counts are sums over the calls of a repetition".to_owned()];
    let columns = "arm,operation,turns,items,repetition,calls,locked,contended,switches,nanoseconds";
    options.record.write("locks", &[record::versions(), notes.to_vec()].concat(), columns, &lines)
}

/// Prints the lines of an arm.
fn count(arm: &str) -> Result<(), String> {
    let mut counter = counter::Locked::new()?;
    for (turns, n) in CELLS {
        let items: Vec<u64> = (0..n as u64).collect();
        // The first call may build a pool.
        call(arm, &items, turns);
        let (start, mut calls) = (Instant::now(), 0);
        while calls < 1 || start.elapsed() < Duration::from_millis(50) {
            call(arm, &items, turns);
            calls += 1;
        }
        for repetition in 0..REPETITIONS {
            let (before, start) = (counter.read()?, Instant::now());
            (0..calls).for_each(|_| call(arm, black_box(&items), turns));
            let (nanos, locked) = (start.elapsed().as_nanos(), counter.read()? - before);
            println!("{arm},for_each,{turns},{n},{repetition},{calls},{locked},,,{nanos}");
        }
    }
    Ok(())
}

fn call(arm: &str, items: &[u64], turns: u64) {
    let work = |x: &u64| _ = black_box((0..turns).fold(*x, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    match arm {
        "serial" => items.iter().for_each(work),
        "windrow" => {
            use windrow::prelude::*;
            items.par_iter().for_each(work);
        }
        _ => {
            use rayon::prelude::*;
            let least =
                if arm.ends_with("min_len") { min_len_of_2077(items.len(), rayon::current_num_threads()) } else { 1 };
            items.par_iter().with_min_len(least).for_each(work);
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod counter {
    use perf_event::events::Raw;
    use perf_event::{Builder, Counter};

    use super::*;

    /// The counter of this CPU.
    pub(crate) struct Locked(Counter);

    impl Locked {
        pub(crate) fn new() -> Result<Self, String> {
            let info = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
            // LsLocks, and MEM_INST_RETIRED.LOCK_LOADS.
            let event = if info.contains("AuthenticAMD") { 0x0f25 } else { 0x21d0 };
            let counter = Builder::new(Raw::new(event)).exclude_kernel(true).inherit(true).exclude_hv(true).build();
            let counter = counter.map_err(|error| format!("the CPU's counter is not available: {error}"))?;
            let mut locked = Self(counter);
            locked.0.enable().map_err(|error| error.to_string())?;
            locked.check()
        }

        pub(crate) fn read(&mut self) -> Result<u64, String> {
            let read = self.0.read_count_and_time().map_err(|error| error.to_string())?;
            if read.time_running < read.time_enabled {
                return Err("the CPU has too few counters for all its users".to_owned());
            }
            Ok(read.count)
        }

        /// Counts loops with a known number of atomics.
        fn check(mut self) -> Result<Self, String> {
            const N: u64 = 100_000;
            let word = AtomicU64::new(0);
            for (name, expected) in [("additions", N), ("failing exchanges", N), ("loads and stores", 0)] {
                let before = self.read()?;
                for i in 0..N {
                    // Relaxed, here and below: there is only one thread.
                    black_box(match name {
                        "additions" => word.fetch_add(1, Ordering::Relaxed),
                        "failing exchanges" => {
                            word.compare_exchange(N + 1, 0, Ordering::Relaxed, Ordering::Relaxed).unwrap_or(1)
                        }
                        _ => {
                            word.store(i, Ordering::Relaxed);
                            word.load(Ordering::Relaxed)
                        }
                    });
                }
                let counted = self.read()? - before;
                // An interruption may count an instruction twice.
                if counted.abs_diff(expected) > 100 {
                    return Err(format!("the counter reports {counted} for {expected} atomics ({name})"));
                }
            }
            Ok(self)
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod counter {
    pub(crate) struct Locked;

    impl Locked {
        pub(crate) fn new() -> Result<Self, String> {
            Err("locked instructions exist only on x86-64 and are counted only on Linux".to_owned())
        }

        pub(crate) fn read(&mut self) -> Result<u64, String> {
            Ok(0)
        }
    }
}
