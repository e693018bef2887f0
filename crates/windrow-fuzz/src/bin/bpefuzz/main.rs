//! Compares `windrow-bpe` with Hugging Face `tokenizers` 0.23 on random texts until a time is over or a difference is found:
//!
//! ```text
//! cargo run --release -p windrow-fuzz --bin bpefuzz -- --family lines --minutes 30 [--seed 1] [--data DIR]
//! ```
//!
//! | family | vocabularies |
//! |---|---|
//! | `gpt2` | `gpt2.json`, `r50k_base`, random ones |
//! | `lines` | `qwen2_5.json`, `cl100k_base`, its merges with other counts of digits, random ones |
//! | `deepseek` | `deepseek_v3.json`, the merges of `o200k_base` with its patterns, random ones |
//! | `parts` | random files of all models and steps, whose texts are cut into parts |
//! | `cases` | `mistral_nemo.json`, `o200k_base`, its merges with the other patterns of the family, random ones |
//!
//! `--model bytes|characters|wordpiece|unigram|wordlevel` chooses one model of `parts`. `--minutes` counts CPU time, so that the program may be stopped and continued. `--data` is the folder that the tests use too
//! (`WINDROW_DATA`, or `shared/data` beside the workspace): `tok` has the files, `text` has real text.
//!
//! A *round* has one vocabulary: a large one for some 20 seconds, or a random one, with added tokens of all flags, for a few batches. The documents of a batch are encoded
//! one by one, as a batch on one and two threads, with each instruction set of the CPU, and now and then by a cold engine with a small cache.
//! A difference is printed with the smallest documents that show it, and the exit code is 1.
#![forbid(unsafe_code)]

mod generate;
mod parts;
mod shrink;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use windrow::Pool;
use windrow_bpe::{BpeEngine, EngineOptions, Ragged};
use windrow_testkit::Rng;

use generate::{Generator, floor};
use subject::{Family, Source, Subject};

/// CPU time of a round with a large vocabulary.
const ROUND_SECONDS: f64 = 20.0;

/// Batches of a round with a random vocabulary.
const ROUND_BATCHES: usize = 6;

struct Options {
    /// `None` for `parts`.
    family: Option<Family>,
    model: Option<parts::Kind>,
    minutes: f64,
    seed: u64,
    data: PathBuf,
}

fn options() -> Result<Options, String> {
    let (mut family, mut model, mut minutes, mut seed, mut data) = (None, None, 1.0, 1, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
        let wrong = || format!("{name} cannot be {value:?}");
        match name.as_str() {
            "--family" if value == "parts" => family = Some(None),
            "--family" => family = Some(Some(Family::parse(&value).ok_or_else(wrong)?)),
            "--model" => model = Some(parts::Kind::parse(&value).ok_or_else(wrong)?),
            "--minutes" => minutes = value.parse().map_err(|_| wrong())?,
            "--seed" => seed = value.parse().map_err(|_| wrong())?,
            "--data" => data = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let data = data.or_else(|| std::env::var_os("WINDROW_DATA").map(PathBuf::from)).unwrap_or_else(beside);
    let family = family.ok_or("--family is missing; it is gpt2, lines, cases, deepseek or parts")?;
    if model.is_some() && family.is_some() {
        return Err("--model applies only to the `parts` family".to_owned());
    }
    Ok(Options { family, model, minutes, seed, data })
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "error: {error}\nhint: --family gpt2|lines|cases|deepseek|parts --minutes N [--seed S] [--data DIR]"
            );
            return ExitCode::from(64);
        }
    };
    let Some(family) = options.family else { return fuzz_parts(&options) };
    let mut real = Vec::new();
    let lipsum = std::fs::read_dir(options.data.join("text/lipsum")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = lipsum.map(|entry| entry.path()).collect();
    paths.sort();
    paths.push(options.data.join("text/big.txt"));
    real.extend(paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).filter(|text| !text.is_empty()));
    println!("family {family:?}, seed {}, {} real texts", options.seed, real.len());
    let mut fuzz = Fuzz {
        generator: Generator::new(options.seed, Rc::new(real)),
        pools: [Pool::new(1), Pool::new(2)],
        batches: 0,
        cases: 0,
        bytes: 0,
    };
    let mut printed = 0.0;
    let mut rounds = 0;
    while cpu_seconds() < options.minutes * 60.0 {
        let source = Source::choose(family, &mut fuzz.generator.rng);
        let subject = Subject::new(&source, family, &options.data, &mut fuzz.generator);
        if !fuzz.round(&subject, source.is_random(), options.minutes * 60.0) {
            println!("seed {}, round {rounds}", options.seed);
            return ExitCode::FAILURE;
        }
        rounds += 1;
        if cpu_seconds() - printed > 60.0 {
            printed = cpu_seconds();
            fuzz.print(rounds);
        }
    }
    fuzz.print(rounds);
    println!("no difference");
    ExitCode::SUCCESS
}

/// Compares random tokenizers of all models. The library prints and catches its panics, and keeps memory of each tokenizer: some minutes at
/// a time are best.
fn fuzz_parts(options: &Options) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let pools = [Pool::new(1), Pool::new(2)];
    let mut rng = Rng(options.seed);
    let mut rounds = parts::Rounds::default();
    let mut printed = 0.0;
    let print = |rounds: &parts::Rounds| {
        let parts::Rounds { compared, three_loads, refused, delegated } = rounds;
        let minutes = cpu_seconds() / 60.0;
        println!(
            "{compared} files compared, {delegated} of them delegated and {three_loads} loaded three times; {refused} refused; \
             {minutes:.2} CPU minutes"
        );
    };
    while cpu_seconds() < options.minutes * 60.0 {
        if !parts::round(&mut rng, options.model, &pools, &mut rounds) {
            println!("seed {}, after {} files", options.seed, rounds.compared);
            return ExitCode::FAILURE;
        }
        if cpu_seconds() - printed > 60.0 {
            printed = cpu_seconds();
            print(&rounds);
        }
    }
    print(&rounds);
    println!("no difference");
    ExitCode::SUCCESS
}

struct Fuzz {
    generator: Generator,
    pools: [Pool; 2],
    batches: usize,
    cases: usize,
    bytes: usize,
}

impl Fuzz {
    fn print(&self, rounds: usize) {
        let Self { batches, cases, bytes, .. } = self;
        let (megabytes, minutes) = (*bytes as f64 / 1e6, cpu_seconds() / 60.0);
        println!("{rounds} rounds, {batches} batches, {cases} cases, {megabytes:.1} MB, {minutes:.2} CPU minutes");
    }

    /// Compares batches. Returns whether all ids were equal.
    fn round(&mut self, subject: &Subject, is_random: bool, until: f64) -> bool {
        let until = until.min(cpu_seconds() + ROUND_SECONDS);
        let mut batches = 0;
        while cpu_seconds() < until && (!is_random || batches < ROUND_BATCHES) {
            let mut documents = self.generator.batch();
            documents.iter_mut().for_each(|text| text.truncate(floor(text, subject.longest())));
            let is_cold = is_random || batches % 12 == 0;
            let modes = modes(subject, is_cold, &mut self.generator.rng);
            let encoded = documents.into_iter().filter_map(|text| Some((subject.expected(&text)?, text)));
            let (expected, documents): (Vec<Vec<u32>>, Vec<String>) = encoded.unzip();
            for mode in &modes {
                if !mode.agrees(subject, &self.pools, &documents, &expected) {
                    shrink::report(subject, mode, &self.pools, &documents);
                    return false;
                }
            }
            batches += 1;
            self.batches += 1;
            self.cases += documents.len() * modes.len();
            self.bytes += documents.iter().map(String::len).sum::<usize>();
        }
        true
    }
}

/// A way to encode a batch.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// One by one, by the tokenizer.
    Alone,
    /// As a batch, on one or two threads.
    Batch { threads: usize },
    /// With one of the instruction sets.
    Instructions { engine: usize },
    /// By a new engine.
    Cold { threads: usize, options: EngineOptions },
}

fn modes(subject: &Subject, is_cold: bool, rng: &mut Rng) -> Vec<Mode> {
    let mut modes = vec![Mode::Alone, Mode::Batch { threads: 1 }, Mode::Batch { threads: 2 }];
    modes.extend((0..subject.engines.len()).map(|engine| Mode::Instructions { engine }));
    if is_cold {
        let options = EngineOptions {
            cache_bytes: [0, 1 << 16, 1 << 18, 1 << 20, 128 << 20][rng.index(5)],
            instructions: subject.engines.get(rng.index(4)).map(BpeEngine::instructions),
        };
        modes.push(Mode::Cold { threads: 1 + rng.index(2), options });
    }
    modes
}

impl Mode {
    /// Whether the ids of all documents are the expected ones, which are without those around a document.
    pub(crate) fn agrees(
        &self,
        subject: &Subject,
        pools: &[Pool; 2],
        documents: &[String],
        expected: &[Vec<u32>],
    ) -> bool {
        let ids = self.ids(subject, pools, documents);
        let adds = matches!(self, Self::Alone | Self::Batch { .. }) && subject.add_special_tokens;
        ids.len() == expected.len()
            && ids.iter().zip(expected).all(|(ids, expected)| match adds {
                true => *ids == subject.surrounded(expected),
                false => ids == expected,
            })
    }

    pub(crate) fn ids(&self, subject: &Subject, pools: &[Pool; 2], documents: &[String]) -> Vec<Vec<u32>> {
        let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
        let each = |batch: Ragged| batch.iter().map(<[u32]>::to_vec).collect();
        match self {
            Self::Alone => {
                let mut encoder = subject.tokenizer.engine().encoder();
                let mut one = |text: &&str| {
                    let mut ids = Vec::new();
                    encoder.encode(text, &mut ids).expect("there is memory");
                    ids
                };
                texts.iter().map(&mut one).collect()
            }
            Self::Batch { threads } => {
                let batch = pools[threads - 1].install(|| subject.tokenizer.encode_batch_ids(&texts));
                let batch = batch.expect("there is memory");
                batch.iter().map(<[u32]>::to_vec).collect()
            }
            Self::Instructions { engine } => {
                each(pools[0].install(|| subject.engines[*engine].encode_batch(&texts)).expect("there is memory"))
            }
            Self::Cold { threads, options } => {
                let engine =
                    BpeEngine::new(&subject.definition, options).expect("a definition that was accepted before");
                each(pools[threads - 1].install(|| engine.encode_batch(&texts)).expect("there is memory"))
            }
        }
    }
}

/// CPU time of this process in seconds, or the time since its start where the system does not tell.
pub(crate) fn cpu_seconds() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
        Some((user + system) / 100.0)
    };
    ticks().unwrap_or_else(|| start.elapsed().as_secs_f64())
}
