//! `windrow encode` beside its stages: `cargo run --release -p windrow-bench --bin stages -- TOKENIZER FILE... --record`.
//!
//! For each file, in one interleaved run:
//!
//! * `read`, `parse`, `encode`, `write`: each stage alone on one thread, with what it needs made outside of the measured time;
//! * `count/T`: [`count`] on T threads, from the first read to the sum;
//! * `job/T`: [`encode`] on T threads and as many CPUs, from the first read to the published files; `job/1 again` is the control.
//!
//! Every engine is new, so all caches are empty. No job takes less than its *bound*: the CPU time of all stages divided by T, or the time
//! of reading or of writing, which one thread does. The verdict is the bound divided by the time of the job.
#![forbid(unsafe_code)]

#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use windrow_bench::cpu::CpuClock;
use windrow_bench::measure::in_turn;
use windrow_bench::record::Recording;
use windrow_bench::{exit_code, stats};
use windrow_tokenizers::document::text_of;
use windrow_tokenizers::encode::{Counted, Counting, Job, count, encode};
use windrow_tokenizers::input::{Batch, InputFile, InputOptions, Reader, resolve};
use windrow_tokenizers::output::{Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Bytes of a batch, as the job reads them.
const BATCH: usize = 4 << 20;
const STAGES: [&str; 4] = ["read", "parse", "encode", "write"];
/// Stages of one thread.
const READ: usize = 0;
const WRITE: usize = 3;
/// A job may be faster than its bound by the noise of its stages.
const NOISE: f64 = 1.15;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Compares `windrow encode` with the sum of its stages.
#[derive(Parser)]
struct Options {
    /// A vocabulary's name or the path to a tokenizer.json.
    tokenizer: String,
    /// JSON lines with a `text` field, or plain texts.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long, default_value_t = 7)]
    repetitions: usize,
    /// Folder for the outputs; one in memory keeps the disk out of the figures.
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    #[command(flatten)]
    record: Recording,
}

fn main() -> ExitCode {
    exit_code(measure(&Options::parse()))
}

/// An input, and what its stages pass on.
struct Case<'a> {
    options: &'a Options,
    file: &'a Path,
    out: PathBuf,
    batches: Vec<Batch>,
    texts: Vec<String>,
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl<'a> Case<'a> {
    fn new(options: &'a Options, file: &'a Path, out: PathBuf) -> Outcome<Self> {
        let mut case = Case { options, file, out, batches: vec![], texts: vec![], ids: vec![], ends: vec![] };
        let mut reader = Reader::new(case.inputs()?, BATCH);
        while let Some(batch) = reader.next_batch(Batch::default(), &mut |_| Ok(()))? {
            case.batches.push(batch);
        }
        for batch in &case.batches {
            for record in &batch.records {
                let mut unescaped = String::new();
                let text = text_of(record.format, batch.bytes_of(record), "text", &mut unescaped);
                case.texts.push(text.map_err(|fault| format!("{}: {}", file.display(), fault.reason))?.to_owned());
            }
        }
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        case.load()?.engine().encoder().encode_all(&case.views(), &mut ids, &mut ends)?;
        Ok(Self { ids, ends, ..case })
    }

    fn inputs(&self) -> Outcome<Vec<InputFile>> {
        Ok(resolve(&[self.file.display().to_string()], &InputOptions::default())?.files)
    }

    fn load(&self) -> Outcome<Tokenizer> {
        Ok(Tokenizer::load(&self.options.tokenizer, &LoadOptions::default())?)
    }

    fn views(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    fn output(&self) -> Outcome<Output> {
        let mut options = OutputOptions::new(&self.out, self.load()?.vocab_size());
        options.overwrite = true;
        Ok(Output::create(&options)?)
    }

    /// Runs a stage on this thread.
    fn stage(&self, stage: usize) -> Outcome<Spent> {
        match STAGES[stage] {
            "read" => {
                let inputs = self.inputs()?;
                spent(|| {
                    // A text in parts, as the job reads it.
                    let (mut reader, mut used) = (Reader::new(inputs, BATCH).split_texts(), Batch::default());
                    while let Some(batch) = reader.next_batch(used, &mut |_| Ok(()))? {
                        used = batch;
                    }
                    Ok(())
                })
            }
            "parse" => spent(|| {
                let mut unescaped = String::new();
                for batch in &self.batches {
                    for record in &batch.records {
                        let text = text_of(record.format, batch.bytes_of(record), "text", &mut unescaped);
                        std::hint::black_box(text.is_ok());
                    }
                }
                Ok(())
            }),
            "encode" => {
                let (tokenizer, views) = (self.load()?, self.views());
                // A job reuses its memory, so that of the ids is touched before.
                let mut ids = self.ids.clone();
                spent(|| {
                    let mut encoder = tokenizer.engine().encoder();
                    let (mut rest, mut ends) = (views.as_slice(), Vec::new());
                    while !rest.is_empty() {
                        let (texts, behind) = rest.split_at(chunk(rest));
                        ids.clear();
                        ends.clear();
                        encoder.encode_all(texts, &mut ids, &mut ends)?;
                        rest = behind;
                    }
                    Ok(())
                })
            }
            _ => {
                let mut output = self.output()?;
                let spent = spent(|| {
                    let (mut documents, mut begin, mut at) = (self.views().into_iter(), 0, 0);
                    while at < self.ends.len() {
                        let next = (at + chunk(documents.as_slice())).min(self.ends.len());
                        let ends: Vec<usize> = self.ends[at..next].iter().map(|end| end - begin).collect();
                        output.append(&self.ids[begin..self.ends[next - 1]], &ends)?;
                        documents.by_ref().take(next - at).for_each(drop);
                        (begin, at) = (self.ends[next - 1], next);
                    }
                    Ok(())
                })?;
                output.abandon();
                Ok(spent)
            }
        }
    }

    /// The job without an output.
    fn count(&self, threads: usize) -> Outcome<Spent> {
        let (tokenizer, inputs, pool) = (self.load()?, self.inputs()?, windrow::Pool::new(threads));
        let mut tokens = 0;
        let spent = spent(|| {
            let mut each = |_, counted: Result<Counted, _>| {
                tokens += counted.map_or(0, |counted| counted.tokens);
                true
            };
            pool.install(|| count(Job::new(inputs), &tokenizer, &Counting::default(), &mut each))?;
            Ok(())
        });
        assert_eq!(tokens, self.ids.len() as u64, "the count and the engine agree");
        spent
    }

    fn job(&self, threads: usize) -> Outcome<Spent> {
        let (tokenizer, output, inputs) = (self.load()?, self.output()?, self.inputs()?);
        spent(|| {
            let summary = encode(Job { threads, ..Job::new(inputs) }, &tokenizer, output, &())?;
            assert_eq!(summary.tokens, self.ids.len() as u64, "the job and the engine agree");
            Ok(())
        })
    }
}

/// Seconds.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    cpu: f64,
}

fn spent(body: impl FnOnce() -> Outcome<()>) -> Outcome<Spent> {
    let clock = CpuClock::new();
    let (cpu, wall) = (clock.now(), Instant::now());
    body()?;
    Ok(Spent { wall: wall.elapsed().as_secs_f64(), cpu: (clock.now() - cpu).as_secs_f64() })
}

/// How many texts the job would encode as one chunk.
fn chunk(texts: &[&str]) -> usize {
    let mut bytes = 0;
    let enough = texts.iter().position(|text| {
        bytes += text.len();
        bytes >= Job::CHUNK_BYTES
    });
    enough.map_or(texts.len(), |last| last + 1)
}

/// Keeps this thread, and those that it starts, on the first `count` of `cpus`.
fn keep_on(cpus: &CpuSet, count: usize) -> Outcome<()> {
    let mut first = CpuSet::new();
    for cpu in (0..CpuSet::count()).filter(|&cpu| cpus.is_set(cpu) == Ok(true)).take(count) {
        first.set(cpu)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &first)?)
}

fn measure(options: &Options) -> Outcome<()> {
    options.record.allowed()?;
    let cpus = sched_getaffinity(Pid::from_raw(0))?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for file in &options.files {
        let name = file.file_name().unwrap_or_default().display();
        let case = Case::new(options, file, folder.path().join("out"))?;
        let text_bytes: usize = case.texts.iter().map(String::len).sum();
        let mebibytes = text_bytes as f64 / (1 << 20) as f64;
        println!("{name}: {mebibytes:.0} MiB of text in {} documents, {} ids", case.texts.len(), case.ids.len());
        let jobs = [("job/1", 1), ("job/2", 2), ("job/1 again", 1)];
        let counts = [("count/1", 1), ("count/2", 2)];
        let arms: Vec<&str> = STAGES.into_iter().chain(jobs.iter().chain(&counts).map(|job| job.0)).collect();
        let mut times: Vec<Vec<Spent>> = vec![Vec::new(); arms.len()];
        for repetition in 0..options.repetitions {
            for arm in in_turn(arms.len(), repetition) {
                let threads = if arms[arm].ends_with("/2") { 2 } else { 1 };
                keep_on(&cpus, threads)?;
                let spent = match arms[arm] {
                    name if name.starts_with("job") => case.job(threads)?,
                    name if name.starts_with("count") => case.count(threads)?,
                    _ => case.stage(arm)?,
                };
                times[arm].push(spent);
                let [wall, cpu] = [spent.wall, spent.cpu].map(|seconds| seconds * 1e9);
                lines.push(format!("{name},{},{repetition},{wall:.0},{cpu:.0}", arms[arm]));
            }
        }
        keep_on(&cpus, usize::MAX)?;
        for (arm, times) in times.iter().enumerate() {
            let per = |of: fn(&Spent) -> f64| times.iter().map(|spent| 1e3 * of(spent) / mebibytes).collect::<Vec<_>>();
            let (walls, cpus) = (per(|spent| spent.wall), per(|spent| spent.cpu));
            let (low, high) = stats::interval(&walls);
            let [wall, cpu] = [walls, cpus].map(|times| stats::quantile(&times, 0.5));
            println!("  {:12} {wall:7.3} ms/MiB ({low:.3}..{high:.3}), CPU {cpu:.3}", arms[arm]);
        }
        for (job, (arm, threads)) in jobs.iter().enumerate() {
            // Each repetition by itself: the machine may be slower in the next.
            let share = |repetition: usize| {
                let cpu = |stage: usize| times[stage][repetition].cpu;
                let all: f64 = (0..STAGES.len()).map(cpu).sum();
                (all / *threads as f64).max(cpu(READ)).max(cpu(WRITE)) / times[STAGES.len() + job][repetition].wall
            };
            let shares: Vec<f64> = (0..options.repetitions).map(share).collect();
            let (share, (low, high)) = (stats::quantile(&shares, 0.5), stats::interval(&shares));
            if share > NOISE {
                return Err(format!("{name}: {arm} takes {share:.2} of its bound: a measurement is wrong").into());
            }
            let verdict = format!("verdict: {name}: {arm} reaches {share:.2} of its bound ({low:.2}..{high:.2})");
            println!("  {verdict}");
            notes.push(verdict);
        }
    }
    Ok(options.record.write("encode-stages", &notes, "input,arm,repetition,nanoseconds,cpu_nanoseconds", &lines)?)
}
