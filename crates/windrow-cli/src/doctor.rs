//! `windrow doctor`: a description of this machine and a tokenizer for windrow.

use std::fmt::Write as _;
use std::{env, fs, thread};

use clap::Args;
use windrow_sync::quota::{cpu_quota, rounded_down};
use windrow_tokenizers::engine::instruction_sets;
use windrow_tokenizers::run::Threads;
use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer};
use windrow_tokenizers::{counted, shown};

use crate::exit::Code;
use crate::load;
use crate::progress::{Line, Steps};
use crate::report;

mod primitives;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow doctor
  windrow doctor --tokenizer path/to/tokenizer.json
  windrow doctor --measure

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str =
    "Exit codes: 0 done, 1 failed, 2 usage error, 65 the file is not a tokenizer, 74 the file cannot be read.";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A vocabulary (r50k_base or gpt2, cl100k_base, o200k_base), or the path to a tokenizer.json or .tiktoken file.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Measure what synchronization costs on this machine. It takes a few seconds, during which nothing else should run.
    #[arg(long)]
    measure: bool,
}

/// Runs the command and reports the result.
pub(crate) fn run(options: Options) -> Code {
    let mut text = machine();
    if let Some(name) = &options.tokenizer {
        match tokenizer(name) {
            Ok(more) => text.push_str(&more),
            Err(error) => {
                report::error(&error);
                return Code::from(&error);
            }
        }
    }
    if options.measure {
        text.push_str(&measured());
    }
    report::printed(report::print(text.trim_end()), Code::Done)
}

fn machine() -> String {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let target = format!("{}-{}", env::consts::ARCH, env::consts::OS);
    let mut text = format!("windrow: {}, {target}\ncpus: {}\n", env!("CARGO_PKG_VERSION"), usable(cpus));
    let mut why = String::new();
    let threads = match Threads::usual(|note| why = format!(": {note}")).number() {
        0 => windrow::current_num_threads(),
        threads => threads,
    };
    writeln!(text, "threads: {threads}{why}").expect("memory");
    let sets = instruction_sets();
    let others = match &sets[1..] {
        [] => String::new(),
        others => format!(" (this CPU also has {})", others.join(", ")),
    };
    writeln!(text, "instructions: {}{others}", sets[0]).expect("memory");
    #[cfg(feature = "mimalloc")]
    let is_mimalloc = windrow_allocator::IS_MIMALLOC;
    #[cfg(not(feature = "mimalloc"))]
    let is_mimalloc = false;
    let allocator = if is_mimalloc { "mimalloc" } else { "the system's" };
    writeln!(text, "allocator: {allocator}").expect("memory");
    for note in notes(cpus, threads) {
        writeln!(text, "note: {note}").expect("memory");
    }
    text
}

/// The CPUs and their limits.
fn usable(cpus: usize) -> String {
    let quota = cpu_quota().map(|quota| format!("quota {quota:.1}"));
    let online = file("/sys/devices/system/cpu/online").map(|online| count(&online));
    let affinity = online.filter(|online| *online > cpus).map(|online| format!("{online} online"));
    let siblings = file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").map(|list| count(&list));
    let siblings = siblings.filter(|threads| *threads > 1).map(|threads| format!("{threads} per core"));
    let more: Vec<String> = affinity.into_iter().chain(quota).chain(siblings).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    format!("{cpus} allowed by affinity and quota{more}")
}

/// The first line of a system file.
fn file(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The numbers in a list such as `0-3,8`.
fn count(list: &str) -> usize {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let ranges = list.split(',').filter_map(|range| match range.split_once('-') {
        Some((first, last)) => Some((number(last)? + 1).saturating_sub(number(first)?)),
        None => number(range).map(|_| 1),
    });
    ranges.sum()
}

/// The obstacles to windrow's best performance on this machine, each with its remedy.
fn notes(cpus: usize, threads: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if threads > cpus {
        notes.push(format!(
            "{threads} threads share {}: no more than {cpus} can work at a time (see WINDROW_THREADS)",
            counted(cpus as u64, "CPU")
        ));
    }
    if let Some(quota) = cpu_quota().filter(|quota| quota.fract() != 0.0 || *quota < cpus as f64) {
        notes.push(format!("the quota allows {quota:.1} CPUs, so idle workers do not spin (cpu.max of the cgroup)"));
    }
    if let Some(quota) = rounded_down() {
        let threads = counted(quota as u64, "thread");
        notes.push(format!("the quota of {quota:.2} CPUs is rounded down to {threads} (see WINDROW_THREADS)"));
    }
    if file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").is_some_and(|governor| governor == "powersave") {
        notes
            .push("the CPUs are in power-saving mode; with the `performance` governor, threads wake faster".to_owned());
    }
    notes.extend(load::before(load::load(), cpus));
    notes
}

/// A line for each primitive.
fn measured() -> String {
    let steps = Steps::start(Line::default(), primitives::PRIMITIVES as u64);
    let mut text = String::new();
    primitives::measure(|primitive| {
        writeln!(text, "{primitive}").expect("memory");
        steps.end();
    });
    text
}

fn tokenizer(name: &str) -> Result<String, LoadError> {
    let tokenizer = Tokenizer::load(name, &LoadOptions::default())?;
    let mut text =
        format!("tokenizer: {}, {}\n", shown(tokenizer.name()), counted(tokenizer.vocab_size().into(), "id"));
    writeln!(text, "{}", tokenizer.explain()).expect("memory");
    if tokenizer.delegated().is_some() {
        let cost = "the same ids, but slower; each document is encoded by one thread, however long it is";
        writeln!(text, "cost: {cost}").expect("memory");
    }
    for note in tokenizer.notes() {
        writeln!(text, "note: {note}").expect("memory");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_list_are_counted() {
        assert_eq!(["0", "0-3", "0-3,8", "0,2,4-5", ""].map(count), [1, 4, 5, 4, 0]);
    }

    #[test]
    fn too_many_threads_are_worth_a_note() {
        let about = |threads| notes(2, threads).iter().filter(|note| note.contains("share 2 CPUs")).count();
        assert_eq!((about(2), about(3)), (0, 1));
    }
}
