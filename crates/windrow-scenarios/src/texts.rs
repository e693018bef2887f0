//! Encoding: a whole run of `encode` over text in memory, against the engine in a loop over the same documents.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use windrow_tokenizers::encode::{Job, encode};
use windrow_tokenizers::input::{Format, InputFile};
use windrow_tokenizers::output::{Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::loops::pool_widths;
use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::work::Random;
use crate::{Run, ScenarioGroup};

/// Bytes of text.
const SIZES: [usize; 4] = [256 << 10, 2 << 20, 8 << 20, 32 << 20];
const VOCABULARY: &str = "gpt2";
/// Words of a document, which is a line.
const WORDS: usize = 400;
/// Different words. Frequent ones are short, as in a language.
const DIFFERENT: usize = 50_000;

/// A word of a few syllables.
fn word(random: &mut Random, syllables: usize) -> String {
    const ONSETS: [&str; 16] = ["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "th", "w", "st"];
    const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "ou", "io"];
    const ENDS: [&str; 8] = ["", "", "n", "r", "s", "t", "l", "nd"];
    let part = |_| {
        let [onset, vowel, end] = [ONSETS.len(), VOWELS.len(), ENDS.len()].map(|count| random.below(count));
        [ONSETS[onset], VOWELS[vowel], ENDS[end]].concat()
    };
    (0..syllables).map(part).collect()
}

/// Documents of generated text, about `bytes` of them together.
fn documents(bytes: usize) -> Vec<String> {
    let mut random = Random::new(1);
    let length = |place: usize| 1 + place.checked_ilog(8).unwrap_or(0) as usize;
    let words: Vec<String> = (0..DIFFERENT).map(|place| word(&mut random, length(place))).collect();
    let mut documents = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let mut text = String::new();
        for _ in 0..WORDS {
            // The probability of a word falls with its place in the list (Zipf).
            let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
            let place = (DIFFERENT as f64).powf(share) as usize - 1;
            if random.below(50) == 0 {
                // A name or a typing error: new to the engine.
                text.push_str(&word(&mut random, 4));
            } else {
                text.push_str(&words[place.min(DIFFERENT - 1)]);
            }
            text.push_str([" ", " ", " ", " ", " ", ", ", ". ", " 17 "][random.below(8)]);
        }
        left = left.saturating_sub(text.len());
        documents.push(text);
    }
    documents
}

/// The number of ids, in a plain loop over the documents.
fn engine(tokenizer: &Tokenizer, documents: &[String]) -> Result<u64, String> {
    let mut encoder = tokenizer.engine().encoder();
    let (mut ids, mut count) = (Vec::new(), 0);
    for document in documents {
        encoder.encode(document, &mut ids).map_err(|error| error.to_string())?;
        count += ids.len() as u64;
        ids.clear();
    }
    Ok(count)
}

/// The text as a file in memory.
#[derive(Clone)]
struct Text(Arc<[u8]>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The number of ids that a whole run has written.
fn job(tokenizer: &Tokenizer, text: &Text, folder: &Path, threads: usize, told: bool) -> Result<(u64, String), String> {
    let input = InputFile::from_reader("memory", Cursor::new(text.clone()), Format::Lines, None);
    let mut options = OutputOptions::new(folder.join("encoded"), tokenizer.vocab_size());
    options.overwrite = true;
    let output = Output::create(&options).map_err(|error| error.to_string())?;
    let job = Job { threads, trace: told, ..Job::new(vec![input]) };
    let summary = encode(job, tokenizer, output, &()).map_err(|error| error.to_string())?;
    let why = summary.trace.as_ref().map(|trace| format!("{} limits", trace.explain().name)).unwrap_or_default();
    Ok((summary.tokens, why))
}

fn timed(ask: Ask, expected: u64, mut run: impl FnMut() -> Result<u64, String>) -> Result<f64, String> {
    let mut nanos = 0.0;
    for call in 0..ask.warm_up + ask.calls {
        let start = Instant::now();
        let count = run()?;
        nanos += if call < ask.warm_up { 0.0 } else { start.elapsed().as_nanos() as f64 };
        if count != expected {
            return Err(format!("{count} ids instead of the engine's {expected}"));
        }
    }
    Ok(nanos / ask.calls as f64)
}

/// Measures all sizes of text.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let (threads, folder) = (run.settings.threads, &*run.settings.memory);
    let tokenizer = Tokenizer::load(VOCABULARY, &LoadOptions::default()).map_err(|error| error.to_string())?;
    let tokenizer = &tokenizer;
    for (_, bytes) in run.wanted(SIZES) {
        let documents = &documents(bytes);
        let text = &Text(documents.join("\n").into_bytes().into());
        let expected = engine(tokenizer, documents)?;
        let plain = move |ask| timed(ask, expected, || engine(tokenizer, documents));
        let with = move |threads: usize| {
            move |ask| timed(ask, expected, || Ok(job(tokenizer, text, folder, threads, false)?.0))
        };
        let mut arms = vec![
            Arm::new("engine, 1 thread", Role::Serial, plain),
            Arm::new("control", Role::Control, plain),
            Arm::new("windrow", Role::Windrow, with(threads)),
        ];
        arms.extend(pool_widths(threads).into_iter().map(|width| {
            let name = if width == 1 { "1 thread".to_owned() } else { format!("{width} threads") };
            Arm::new(name, Role::Fixed(width as f64), with(width))
        }));
        let why = move || job(tokenizer, text, folder, threads, true).map(|(_, why)| why).unwrap_or_default();
        let kib = bytes >> 10;
        let sweep = ("threads", Bound::Share(1.0 / run.width() as f64));
        let scenario = Scenario::new(ScenarioGroup::Encode, "text", kib as f64, sweep, arms, why);
        run.measure(Scenario { name: format!("text/{kib} KiB"), single: true, ..scenario })?;
    }
    Ok(())
}

/// Number of cells.
pub(crate) fn count() -> usize {
    SIZES.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_ids_of_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Tokenizer::load(VOCABULARY, &LoadOptions::default()).unwrap();
        let documents = documents(20_000);
        assert!(documents.len() > 3 && documents.iter().all(|text| !text.contains('\n')));
        let expected = engine(&tokenizer, &documents).unwrap();
        let text = Text(documents.join("\n").into_bytes().into());
        assert_eq!(job(&tokenizer, &text, folder.path(), 2, false).unwrap().0, expected);
        let ask = Ask { warm_up: 0, calls: 1, ..Ask::default() };
        assert!(timed(ask, expected + 1, || Ok(expected)).is_err());
    }
}
