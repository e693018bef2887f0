//! What claim words cost with up to 176 threads, by simulation: the tables of `docs/claim-words.md`.
//!
//! `cargo run --release -p windrow-bench --bin claim_words` prints them; with `-- all`, it prints every region as a line of CSV.
#![forbid(unsafe_code)]

use windrow_bench::simulate::{Claim, Join, Joining, Machine, Policy, RunOutcome, Victim, Work, simulate};
use windrow_plan::Nanos;

const MEMBERS: [usize; 6] = [2, 4, 8, 16, 64, 176];
const MACHINES: [(&str, Machine); 2] = [("mesh", Machine::MESH), ("sockets", Machine::SOCKETS)];
const KINDS: [&str; 3] = ["uniform", "log-uniform", "one 1000x"];
/// The total work: 100 us to 10 s.
const TOTALS: [(&str, f64); 6] =
    [("100 us", 1e5), ("1 ms", 1e6), ("10 ms", 1e7), ("100 ms", 1e8), ("1 s", 1e9), ("10 s", 1e10)];
/// A cell is the geometric mean over this many seeds, which draw the work and the victims.
const SEEDS: u64 = 8;

/// Items of 100 ns on average, but not more than a million of them.
fn work(kind: &str, total: f64, seed: u64) -> Work {
    let mean = (total / 1e6).max(100.0);
    let n = (total / mean) as u32;
    match kind {
        "uniform" => Work::uniform(n, Nanos(mean)),
        "log-uniform" => Work::log_uniform(n, Nanos(mean), seed),
        _ => Work::one_large(n, Nanos(mean), (u64::from(n) * (2 * seed + 1) / (2 * SEEDS)) as u32, 1000.0),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value.ln(), n + 1.0));
    f64::exp(sum / n)
}

/// The same work under several conditions, so that each work is made once.
fn regions(kind: &str, total: f64, conditions: &[(usize, Machine, Policy)]) -> Vec<Vec<RunOutcome>> {
    let mut all = vec![Vec::new(); conditions.len()];
    for seed in 0..SEEDS {
        let work = work(kind, total, seed);
        for ((members, machine, policy), outcomes) in conditions.iter().zip(&mut all) {
            outcomes.push(simulate(&work, *members, machine, policy, seed));
        }
    }
    all
}

fn head(columns: impl Iterator<Item = String>) {
    let columns: Vec<String> = columns.collect();
    println!("| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// Time over ideal: a row per work, a column per condition.
fn overheads(names: &[&str], totals: &[(&str, f64)], kinds: &[&str], conditions: &[(usize, Machine, Policy)]) {
    head(["work", "items"].iter().chain(names).map(ToString::to_string));
    for (name, total) in totals {
        for kind in kinds {
            print!("| {name} | {kind} |");
            for outcomes in regions(kind, *total, conditions) {
                print!(" {:.2} |", mean(outcomes.iter().map(RunOutcome::overhead)));
            }
            println!();
        }
    }
}

const FULLEST: Policy = Policy { victim: Victim::Fullest, ..Policy::RUNTIME };

fn window(some: usize) -> Policy {
    Policy { victim: Victim::Window(some), ..Policy::RUNTIME }
}

fn all() {
    println!(
        "machine,members,victim,work_ns,items,seed,makespan_ns,over_ideal,claiming_share,claims,steals,failed,looks,transfers"
    );
    let victims = [
        ("fullest", FULLEST),
        ("random", window(1)),
        ("window 4", window(4)),
        ("two", Policy { victim: Victim::Sampled(2), ..Policy::RUNTIME }),
    ];
    for (_, total) in TOTALS {
        for kind in KINDS {
            for (name, machine) in MACHINES {
                for (victim, policy) in victims {
                    let conditions = MEMBERS.map(|members| (members, machine, policy));
                    for outcomes in regions(kind, total, &conditions) {
                        for (seed, it) in outcomes.iter().enumerate() {
                            let head = format!("{name},{},{victim},{total},{kind},{seed}", it.members);
                            let (time, ratio, share) = (it.makespan.0, it.overhead(), it.claiming_share());
                            let RunOutcome { claims, steals, failed, looks, transfers, .. } = *it;
                            println!(
                                "{head},{time:.0},{ratio:.4},{share:.4},{claims},{steals},{failed},{looks},{transfers}"
                            );
                        }
                    }
                }
            }
        }
    }
}

fn tables() {
    let names = MEMBERS.map(|members| members.to_string());
    let names = names.each_ref().map(String::as_str);
    for (victim, policy) in [("the fullest", FULLEST), ("a window of four", window(4))] {
        for (name, machine) in MACHINES {
            println!("\nTime over ideal by members, {name}, stealing from {victim}:\n");
            overheads(&names, &TOTALS, &KINDS, &MEMBERS.map(|members| (members, machine, policy)));
        }
    }

    println!("\nAt 10 ms of log-uniform work:\n");
    let columns = [
        "machine",
        "members",
        "victim",
        "time / ideal",
        "in claims",
        "claims",
        "steals",
        "failed",
        "looks",
        "transfers",
    ];
    head(columns.iter().map(ToString::to_string));
    let victims = [
        ("fullest", FULLEST),
        ("fullest, again", Policy { again: true, ..FULLEST }),
        ("random", window(1)),
        ("window of 4", window(4)),
        ("window of 8", window(8)),
        ("two drawn", Policy { victim: Victim::Sampled(2), ..Policy::RUNTIME }),
        ("four drawn", Policy { victim: Victim::Sampled(4), ..Policy::RUNTIME }),
    ];
    for (name, machine) in MACHINES {
        for members in [16, 64, 176] {
            let conditions = victims.map(|(_, policy)| (members, machine, policy));
            for ((victim, _), outcomes) in victims.iter().zip(regions("log-uniform", 1e7, &conditions)) {
                let count = |of: fn(&RunOutcome) -> u64| outcomes.iter().map(of).sum::<u64>() / SEEDS;
                println!(
                    "| {name} | {members} | {victim} | {:.2} | {:.1} % | {} | {} | {} | {} | {} |",
                    mean(outcomes.iter().map(RunOutcome::overhead)),
                    outcomes.iter().map(RunOutcome::claiming_share).sum::<f64>() / SEEDS as f64 * 100.0,
                    count(|it| it.claims),
                    count(|it| it.steals),
                    count(|it| it.failed),
                    count(|it| it.looks),
                    count(|it| it.transfers),
                );
            }
        }
    }

    let timed = |time, part| Claim::Timed { time: Nanos::micros(time), part };
    let claims = [
        ("0.25 us", timed(0.25, 4)),
        ("1 us", timed(1.0, 4)),
        ("4 us", timed(4.0, 4)),
        ("16 us", timed(16.0, 4)),
        ("50 us", timed(50.0, 4)),
        ("50 us, 1/16", timed(50.0, 16)),
        ("planned", Claim::Planned),
    ];
    for members in [2, 64, 176] {
        println!("\nTime over ideal by the length of a claim, {members} members, sockets, a window of four:\n");
        let conditions = claims.map(|(_, claim)| (members, Machine::SOCKETS, Policy { claim, ..Policy::RUNTIME }));
        overheads(&claims.map(|(name, _)| name), &TOTALS[1..4], &KINDS, &conditions);
    }

    println!("\nMicroseconds of a whole region of uniform work by how members get in (mesh, a window of four):\n");
    let entries = [
        ("looking, exchange", false, Joining::Awake, Join::Exchange),
        ("looking, addition", false, Joining::Awake, Join::Add),
        ("asleep, chain", false, Joining::Asleep { fan: 1 }, Join::Add),
        ("asleep, 2 each", false, Joining::Asleep { fan: 2 }, Join::Add),
        ("halted, chain", true, Joining::Asleep { fan: 1 }, Join::Add),
        ("halted, 2 each", true, Joining::Asleep { fan: 2 }, Join::Add),
        ("halted, 4 each", true, Joining::Asleep { fan: 4 }, Join::Add),
    ];
    head(["work", "members", "ideal"].into_iter().chain(entries.iter().map(|entry| entry.0)).map(str::to_string));
    for (name, total) in &TOTALS[..4] {
        let work = work("uniform", *total, 0);
        for members in [16, 64, 176] {
            print!("| {name} | {members} | {:.1} |", work.ideal(members).0 / 1e3);
            for (_, halted, entry, join) in entries {
                let machine = if halted { Machine::MESH.halted() } else { Machine::MESH };
                let outcome = simulate(&work, members, &machine, &Policy { entry, join, ..Policy::RUNTIME }, 1);
                print!(" {:.1} |", outcome.makespan.0 / 1e3);
            }
            println!();
        }
    }

    println!("\nMicroseconds by width, uniform work, all looking, a window of four:\n");
    let columns = [
        "machine",
        "join",
        "work",
        "best width",
        "us",
        "at 176",
        "root of work / 70 ns",
        "us",
        "root of work / price",
        "us",
    ];
    head(columns.iter().map(ToString::to_string));
    let works = [("10 us", 1e4), ("30 us", 3e4), ("100 us", 1e5), ("300 us", 3e5), ("1 ms", 1e6), ("10 ms", 1e7)];
    for (name, machine) in MACHINES {
        for (way, join) in [("addition", Join::Add), ("exchange", Join::Exchange)] {
            for (shown, total) in works {
                let work = work("uniform", total, 0);
                let policy = Policy { entry: Joining::Awake, join, ..Policy::RUNTIME };
                let time = |width: usize| simulate(&work, width, &machine, &policy, 1).makespan.0 / 1e3;
                let best = (1..=176).min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1);
                let root = |price: f64| ((total / price).sqrt() as usize).clamp(1, 176);
                // One access to the line of the gate to join and one to leave.
                let (planned, priced) = (root(JOIN), root(2.0 * (machine.far.0 + machine.exchange.0)));
                println!(
                    "| {name} | {way} | {shown} | {best} | {:.1} | {:.1} | {planned} | {:.1} | {priced} | {:.1} |",
                    time(best),
                    time(176),
                    time(planned),
                    time(priced)
                );
            }
        }
    }
}

/// The counters that a real machine with two CPUs can check.
fn exchanges() {
    println!(
        "\nExchanges of range words in a region of two members, to compare with what the bin locks of windrow-bench counts:\n"
    );
    head(["items", "claims", "steals", "exchanges"].into_iter().map(str::to_string));
    for (cost, nanos) in [("10 ns", 10.0), ("1 us", 1000.0)] {
        for n in [1000, 100_000, 1_000_000] {
            let policy = Policy { entry: Joining::Awake, ..Policy::RUNTIME };
            let it = simulate(&Work::uniform(n, Nanos(nanos)), 2, &Machine::MEASURED, &policy, 1);
            println!("| {n} x {cost} | {} | {} | {} |", it.claims, it.steals, it.exchanges());
        }
    }
}

/// What each further member adds to a region, as the runtime took it for the recorded tables: 70 ns.
const JOIN: f64 = 70.0;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("all") {
        all();
    } else {
        tables();
        exchanges();
    }
}
