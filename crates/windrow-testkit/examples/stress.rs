//! Random parallel calls, as many as asked for: `cargo run --release -p windrow-testkit --features runtime --example stress -- --regions 100000 --seed 1`.
//!
//! The program has six parts, and prints a line for each. Call trees run against their serial result, from several threads on
//! shared pools. The same trees run with injected panics, until there were enough. Teams are nested, concurrent and wider than
//! their pools, with call trees in them. The same teams run with panics and early returns. Children are forked, of a used pool and
//! while other threads are inside. Implicit batches run with dropped futures, panics and structures that are closed while they are
//! used. Call trees, teams and batches are those of windrow-testkit. The seed decides all of them, but not how threads interleave.
//!
//! With `--overlap` only one other part runs: overlapped lanes with an error, a panic, a lost token or a cancellation in a random lane at a
//! random tile, against a serial run of the same tiles.
//!
//! A watchdog checks for progress. If there is none, it prints the state of every thread and ends the process.
#![forbid(unsafe_code)]

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use windrow_testkit::shapes::{Account, NO_FUSE, Shape, World};
use windrow_testkit::teams::{Fault, Plan, WIDTHS};
use windrow_testkit::{Rng, chaos, overlaps};

/// The limit of calling threads; more would only wait for each other.
const MOST_THREADS: usize = 64;

#[derive(Parser)]
struct Options {
    /// Call trees against their serial result.
    #[arg(long, default_value_t = 100_000)]
    regions: u64,
    /// Injected panics.
    #[arg(long, default_value_t = 100_000)]
    panics: u64,
    /// Teams against their serial result, and then as many with panics and early returns.
    #[arg(long, default_value_t = 100_000)]
    teams: u64,
    /// Forked children, of each kind.
    #[arg(long, default_value_t = 1000)]
    forks: u64,
    /// Overlapped runs with faults, and nothing else.
    #[arg(long, num_args = 0..=1, default_missing_value = "10000")]
    overlap: Option<u64>,
    /// Operations of implicit batches.
    #[arg(long, default_value_t = 1_000_000)]
    batch: u64,
    /// Calling threads.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=MOST_THREADS as i64))]
    threads: u8,
    /// Decides all call trees and teams.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds without progress after which the watchdog ends the process.
    #[arg(long, default_value_t = 30)]
    stall: u64,
}

/// The seed of the call tree or team that each calling thread is in.
static TREES: [AtomicU64; MOST_THREADS] = [const { AtomicU64::new(0) }; MOST_THREADS];
/// The outcomes of batched operations.
static BATCHED: chaos::Tally = chaos::Tally::new();
/// Children that have been waited for.
static CHILDREN: AtomicU64 = AtomicU64::new(0);
/// Overlapped runs that have ended.
static OVERLAPPED: AtomicU64 = AtomicU64::new(0);

fn main() {
    let options = Options::parse();
    let world = World::new();
    let stall = Duration::from_secs(options.stall);
    thread::spawn(move || watch(world, stall));

    if let Some(runs) = options.overlap {
        return overlapped(&options, runs);
    }
    let (start, tally) = (Instant::now(), Tally::default());
    callers(world, &options, &tally, false);
    let seconds = start.elapsed().as_secs_f64();
    println!("regions: {tally} equal to the serial result, {seconds:.1} s");

    let (start, tally) = (Instant::now(), Tally::default());
    callers(world, &options, &tally, true);
    let (seconds, panics) = (start.elapsed().as_secs_f64(), tally.panics.load(Relaxed));
    println!("panics: {panics} in {tally}, nothing leaked, nothing dropped twice, pools alive, {seconds:.1} s");

    for with_faults in [false, true] {
        let (start, tally) = (Instant::now(), Teams::default());
        teams(world, &options, &tally, with_faults);
        let (outer, all) = (tally.outer.load(Relaxed), tally.all.load(Relaxed));
        let (panics, returns) = (tally.panics.load(Relaxed), tally.returns.load(Relaxed));
        let seconds = start.elapsed().as_secs_f64();
        match with_faults {
            false => println!("teams: {all}, {outer} of them outermost, equal to the serial result, {seconds:.1} s"),
            true => println!(
                "teams: {panics} panics and {returns} early returns in {all} teams, {outer} of them outermost, all members \
                 released, nothing leaked, nothing dropped twice, {seconds:.1} s"
            ),
        }
    }

    println!("teams by their width, from 1 to 4: {:?}", &WIDTHS[1..]);

    let start = Instant::now();
    chaos::chaos(options.batch, u64::from(options.threads), options.seed, &BATCHED);
    let chaos::Tally { ops, panics, dropped, refused } = &BATCHED;
    let [ops, panics, dropped, refused] = [ops, panics, dropped, refused].map(|count| count.load(Relaxed));
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "batch: {ops} operations, {panics} panics, {dropped} dropped futures, {refused} refused; every reply was run, nothing \
         leaked, nothing dropped twice, {seconds:.1} s"
    );

    #[cfg(target_os = "linux")]
    forks(world, &options);
}

#[derive(Default)]
struct Tally {
    trees: AtomicU64,
    calls: AtomicU64,
    panics: AtomicU64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} call trees of {} calls", self.trees.load(Relaxed), self.calls.load(Relaxed))
    }
}

/// Prints which call tree or team failed, and ends the process: the other threads need not go on.
struct Failing(u64);

impl Drop for Failing {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("what has seed {:#x} failed", self.0);
            std::process::exit(101);
        }
    }
}

/// Runs call trees on all threads: a given number of them, or, with injected panics, until enough have panicked.
fn callers(world: &'static World, options: &Options, tally: &Tally, with_panics: bool) {
    let next = AtomicU64::new(0);
    let caller = |thread: usize| {
        let account = Account::new(world);
        loop {
            let turn = next.fetch_add(1, Relaxed);
            let through =
                if with_panics { tally.panics.load(Relaxed) >= options.panics } else { turn >= options.regions };
            if through {
                break;
            }
            let seed = options.seed << 40 | u64::from(with_panics) << 39 | turn;
            TREES[thread].store(seed, Relaxed);
            let _failing = Failing(seed);
            let mut rng = Rng(seed);
            let shape = Shape::random(&mut rng, 3);
            let fuse = if with_panics { rng.below(shape.items() as u64 + 1) as usize } else { NO_FUSE };
            if account.check(&shape, fuse) {
                tally.panics.fetch_add(1, Relaxed);
                // The pools still work: run the same tree without panics.
                account.check(&shape, NO_FUSE);
            }
            tally.trees.fetch_add(1, Relaxed);
            tally.calls.fetch_add(shape.calls(), Relaxed);
        }
    };
    thread::scope(|scope| (0..usize::from(options.threads)).for_each(|thread| _ = scope.spawn(move || caller(thread))));
}

#[derive(Default)]
struct Teams {
    outer: AtomicU64,
    /// Including teams inside of others.
    all: AtomicU64,
    panics: AtomicU64,
    returns: AtomicU64,
}

/// Runs random teams on all threads, until there were enough. A team with faults runs again without faults.
fn teams(world: &'static World, options: &Options, tally: &Teams, with_faults: bool) {
    let next = AtomicU64::new(0);
    let caller = &|thread: usize| {
        let account = Account::new(world);
        while tally.all.load(Relaxed) < options.teams {
            let seed = options.seed << 40 | u64::from(with_faults) << 39 | 1 << 38 | next.fetch_add(1, Relaxed);
            TREES[thread].store(seed, Relaxed);
            let _failing = Failing(seed);
            let mut rng = Rng(seed);
            let plan = Plan::random(&mut rng, 3);
            let (fault, count) = match rng.below(2) {
                _ if !with_faults => (Fault::None, &tally.outer),
                0 => (Fault::Panic(rng.below(plan.points() as u64 + 1) as usize), &tally.panics),
                _ => (Fault::Return(rng.below(plan.returns() + 1) as usize), &tally.returns),
            };
            if plan.check(account, fault) {
                count.fetch_add(1, Relaxed);
                // The pools still work and their threads are free: run the same team without faults.
                plan.check(account, Fault::None);
            }
            tally.outer.fetch_add(1, Relaxed);
            tally.all.fetch_add(plan.teams(), Relaxed);
        }
    };
    thread::scope(|scope| (0..usize::from(options.threads)).for_each(|thread| _ = scope.spawn(move || caller(thread))));
}

/// Runs overlapped lanes on all threads, with one fault in each run, now and then two.
fn overlapped(options: &Options, runs: u64) {
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let caller = |thread: usize| {
        loop {
            let turn = next.fetch_add(1, Relaxed);
            if turn >= runs {
                break;
            }
            let seed = options.seed << 40 | turn;
            TREES[thread].store(seed, Relaxed);
            let _failing = Failing(seed);
            overlaps::Case::random(seed, if turn % 4 == 0 { 2 } else { 1 }).check();
            OVERLAPPED.fetch_add(1, Relaxed);
        }
    };
    thread::scope(|scope| {
        let caller = &caller;
        (0..usize::from(options.threads)).for_each(|thread| _ = scope.spawn(move || caller(thread)));
    });
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "overlap: {runs} runs with faults ended as serial ones, nothing leaked, nothing dropped twice, {seconds:.1} s"
    );
}

/// Forked children, each with a call tree on its own pools and on inherited ones.
#[cfg(target_os = "linux")]
fn forks(world: &'static World, options: &Options) {
    let child = |turn: u64, inherited: bool| {
        let mut rng = Rng(options.seed << 40 | turn);
        let shape = Shape::random(&mut rng, 2);
        let went_well = windrow_testkit::forked(|| {
            // In the child, inherited pools have no threads; new pools and the global one have.
            let world = if inherited { world } else { World::new() };
            !Account::new(world).check(&shape, NO_FUSE)
        });
        assert!(went_well, "child {turn} of seed {} failed", options.seed);
        CHILDREN.fetch_add(1, Relaxed);
    };
    let start = Instant::now();
    (0..options.forks).for_each(|turn| child(turn, turn % 2 == 0));
    println!("forks: {} children of used pools, {:.1} s", options.forks, start.elapsed().as_secs_f64());

    let (start, done) = (Instant::now(), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..u64::from(options.threads) {
            let done = &done;
            scope.spawn(move || {
                let (account, mut rng) = (Account::new(world), Rng(!thread));
                while !done.load(Relaxed) {
                    account.check(&Shape::random(&mut rng, 3), NO_FUSE);
                }
            });
        }
        let children = || (0..options.forks).for_each(|turn| child(turn, turn % 2 == 0));
        let outcome = catch_unwind(AssertUnwindSafe(children));
        done.store(true, Relaxed);
        outcome.unwrap_or_else(|payload| resume_unwind(payload));
    });
    let seconds = start.elapsed().as_secs_f64();
    println!("forks: {} children while other threads were inside, {seconds:.1} s", options.forks);
}

/// Ends the process when nothing has happened for `stall`.
fn watch(world: &'static World, stall: Duration) {
    let progress = || {
        let others = CHILDREN.load(Relaxed) + OVERLAPPED.load(Relaxed) + BATCHED.ops.load(Relaxed);
        world.calls.load(Relaxed) + others
    };
    let (mut last, mut since) = (progress(), Instant::now());
    loop {
        thread::sleep(Duration::from_millis(500));
        let now = progress();
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > stall {
            dump(world);
            std::process::exit(102);
        }
    }
}

/// Prints the state of every thread and pool.
fn dump(world: &World) {
    eprintln!("no call has ended for a while, after {} of them", world.calls.load(Relaxed));
    for (thread, tree) in TREES.iter().enumerate().filter(|(_, tree)| tree.load(Relaxed) != 0) {
        eprintln!("caller {thread}: in what has seed {:#x}", tree.load(Relaxed));
    }
    for pool in &world.pools {
        // The state of the pool's gate comes first.
        let state: String = format!("{pool:?}").chars().take(150).collect();
        eprintln!("pool of {}: {state}", pool.threads());
    }
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("?");
        eprintln!("thread {} {state} {}", read("comm").trim(), read("wchan").trim());
    }
}
