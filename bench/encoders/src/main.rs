//! Measures one encoder on one corpus: `encoders ARM TOKENIZER CORPUS THREADS PASSES EVERY BATCH`.
//!
//! The process is started anew for each measurement, on the CPUs that it may use, and writes one line of JSON. With a `BATCH` above 0,
//! it measures the latency of calls with so many documents; else a cold pass over the corpus and `PASSES` warm ones. `EVERY` above 1
//! takes only each such document.

mod arms;
mod windrow;

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use arms::{Encoder, Ids};
use nix::time::{ClockId, clock_gettime};

/// Warm passes, or calls, end after this time.
const LONG: Duration = Duration::from_secs(3);
const CALLS: usize = 4000;
const TINY: [&str; 4] = ["x y", "hello", "1", "zz"];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [arm, tokenizer, corpus, numbers @ ..] = &words[..] else { panic!("arguments are missing") };
    let numbers: Vec<usize> = numbers.iter().map(|word| word.parse().expect("a number")).collect();
    let &[threads, passes, every, batch] = &numbers[..] else { panic!("arguments are missing") };

    let raw = fs::read(corpus).expect("a corpus");
    let texts: Vec<&str> = documents(&raw).into_iter().step_by(every).collect();
    let file = fs::read(tokenizer).expect("a tokenizer");
    let start = Instant::now();
    let encoder = arms::load(arm, &file, threads);
    let load = start.elapsed();
    drop(file);
    drop(encoder.prepare(&TINY)());

    let mut line = format!("{{\"load_ns\":{},\"load_peak_kib\":{}", load.as_nanos(), peak());
    if batch > 0 {
        latency(&*encoder, &texts, batch, &mut line);
    } else {
        throughput(&*encoder, &texts, passes, &mut line);
    }
    println!("{line}}}");
}

fn throughput(encoder: &dyn Encoder, texts: &[&str], passes: usize, line: &mut String) {
    // The peak starts anew, at what is resident now: the file of the tokenizer is gone.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (ids, cold, cold_cpu) = pass(encoder, texts);
    let peak = peak();
    let mut digests = String::new();
    let mut tokens = 0;
    ids.each(|ids| {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        write!(digests, "{:08x}", crc32fast::hash(&bytes)).expect("memory");
        tokens += ids.len();
    });
    drop(ids);

    let (mut warm, mut warm_cpu) = (Vec::new(), Vec::new());
    while warm.len() < passes && warm.iter().sum::<Duration>() < LONG {
        let (ids, time, cpu) = pass(encoder, texts);
        encoder.recycle(black_box(ids));
        warm.push(time);
        warm_cpu.push(cpu);
    }
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let times =
        [("cold_ns", cold), ("cold_cpu_ns", cold_cpu), ("warm_ns", median(warm)), ("warm_cpu_ns", median(warm_cpu))];
    for (name, time) in times {
        write!(line, ",\"{name}\":{}", time.as_nanos()).expect("memory");
    }
    write!(line, ",\"peak_kib\":{peak},\"bytes\":{bytes},\"tokens\":{tokens},\"digests\":\"{digests}\"")
        .expect("memory");
}

/// Each call takes the next documents, so that no call repeats the one before it.
fn latency(encoder: &dyn Encoder, texts: &[&str], batch: usize, line: &mut String) {
    let mut calls: Vec<Duration> = Vec::new();
    let batches: Vec<&[&str]> = texts.chunks_exact(batch).collect();
    while calls.len() < CALLS && calls.iter().sum::<Duration>() < LONG {
        calls.push(pass(encoder, batches[calls.len() % batches.len()]).1);
    }
    let (first, number) = (calls[0], calls.len());
    calls.sort();
    let times = [("first_ns", first), ("p50_ns", calls[number / 2]), ("p99_ns", calls[number * 99 / 100])];
    for (name, time) in times {
        write!(line, ",\"{name}\":{}", time.as_nanos()).expect("memory");
    }
    write!(line, ",\"calls\":{number}").expect("memory");
}

/// Encodes the texts. The result is dropped by the caller, outside of the time.
fn pass<'a>(encoder: &'a dyn Encoder, texts: &'a [&'a str]) -> (Ids, Duration, Duration) {
    let encode = encoder.prepare(texts);
    let (start, cpu) = (Instant::now(), cpu_time());
    let ids = encode();
    (ids, start.elapsed(), cpu_time() - cpu)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The documents of a corpus: a count, the lengths, the bytes.
fn documents(raw: &[u8]) -> Vec<&str> {
    let number = |k: usize| u32::from_le_bytes(raw[4 * k..4 * k + 4].try_into().expect("4 bytes")) as usize;
    let mut at = 4 + 4 * number(0);
    let next = |k| {
        let text = &raw[at..at + number(k)];
        at += text.len();
        std::str::from_utf8(text).expect("UTF-8")
    };
    (1..=number(0)).map(next).collect()
}

/// The peak of resident memory.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The CPU time of all threads of the process.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has it"))
}
