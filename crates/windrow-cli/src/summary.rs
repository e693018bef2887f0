//! The result of a run, as text and as JSON.

use std::path::PathBuf;

use serde::Serialize;
use windrow_tokenizers::encode::Summary;
use windrow_tokenizers::manifest::{InputFile, Packed, Part};
use windrow_tokenizers::output::Published;
use windrow_tokenizers::{shown, to_json};

use crate::args::Encode;
use crate::report;
use crate::size::{counted, decimal as size};
use crate::watched;

/// Less text than this gets no rate: reading the clock and starting threads would be most of the time.
const RATED: u64 = 1_000_000;

/// More files than this are not listed in full.
const LISTED: usize = 8;

/// The version of the object that `--json` prints. It increases when a field changes its meaning or is removed.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    documents: Documents,
    /// Bytes of text in the written documents.
    bytes: u64,
    tokens: u64,
    /// Special tokens that stood in the texts.
    special_tokens: u64,
    /// None if the run published nothing.
    inputs: Vec<Input<'a>>,
    /// Fields of --keep that no document has.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    keep_missing: &'a [String],
    /// Ids whose mask is 1; none without masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_tokens: Option<u64>,
    /// Written documents without such an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_without_loss: Option<u64>,
    tokenizer: &'a str,
    format: &'static str,
    /// Type of the ids; none if they are text, or if the run published nothing.
    dtype: Option<&'a str>,
    /// The id behind each document; none if there is none, or if the run published nothing.
    eos: Option<u32>,
    /// From the first read to the end of the publication; loading the tokenizer comes before.
    seconds: f64,
    /// The part of it until the last document was encoded and passed to the system.
    encoding_seconds: f64,
    /// The part of it for syncing and renaming.
    publishing_seconds: f64,
    /// Text divided by `encoding_seconds`, without that of shards which another run had finished.
    mb_per_s: f64,
    peak_in_flight_bytes: usize,
    /// Documents that were expected to take more.
    #[serde(skip_serializing_if = "is_zero")]
    exceeding: usize,
    /// Inputs that were read at the same time, as decided in the end.
    readers: usize,
    /// Finished shards of the interrupted run that this one continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_shards: Option<usize>,
    /// Finished shards behind which the next run can continue, after a failure.
    #[serde(skip_serializing_if = "is_zero")]
    kept_shards: usize,
    /// The rows of a packed output.
    #[serde(skip_serializing_if = "Option::is_none")]
    packed: Option<Packed>,
    /// The parts of an output that --split has divided.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    parts: &'a [Part],
    outputs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// An input, and what was written of it.
#[derive(Serialize)]
struct Input<'a> {
    name: &'a str,
    /// Documents read, good and bad.
    documents: u64,
    /// Bytes of text in the written documents.
    bytes: u64,
    tokens: u64,
}

impl<'a> From<&'a InputFile> for Input<'a> {
    fn from(input: &'a InputFile) -> Self {
        Self { name: &input.name, documents: input.documents, bytes: input.text_bytes, tokens: input.tokens }
    }
}

#[derive(Serialize)]
struct Documents {
    read: u64,
    written: u64,
    skipped: u64,
    failed: u64,
    /// Only with --sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

/// The summary as one line of JSON. `tokenizer` is its name.
pub(crate) fn json(summary: &Summary, options: &Encode, tokenizer: &str, error: Option<&str>) -> String {
    let documents = summary.documents;
    let report = Report {
        schema: SCHEMA,
        documents: Documents {
            read: documents.read,
            written: documents.written,
            skipped: documents.skipped,
            failed: documents.failed,
            left_out: options.sample.map(|_| documents.left_out),
        },
        bytes: summary.text_bytes,
        tokens: summary.tokens,
        special_tokens: summary.special_tokens,
        inputs: summary.inputs.iter().map(Input::from).collect(),
        keep_missing: &summary.keep_missing,
        loss_tokens: summary.loss_tokens,
        documents_without_loss: summary.documents_without_loss,
        tokenizer,
        format: options.format.name(),
        dtype: summary.published.as_ref().and_then(dtype),
        eos: summary.published.as_ref().and_then(|published| published.eos),
        seconds: summary.elapsed.as_secs_f64(),
        encoding_seconds: summary.encoding.as_secs_f64(),
        publishing_seconds: publishing(summary),
        mb_per_s: megabytes_per_second(summary),
        peak_in_flight_bytes: summary.peak_in_flight,
        exceeding: summary.exceeding as usize,
        readers: summary.readers,
        resumed_shards: summary.resumed.map(|resumed| resumed.shards),
        kept_shards: summary.kept_shards,
        packed: summary.published.as_ref().and_then(|published| published.packed),
        parts: summary.published.as_ref().map_or(&[], |published| &published.parts),
        outputs: outputs(summary, options).map(|path| path.display().to_string()).collect(),
        error,
    };
    to_json(&report)
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Options that a text summary mentions beside the numbers.
pub(crate) struct Described {
    /// Whether `--on-error skip` was given.
    pub(crate) skips: bool,
    /// `--memory`.
    pub(crate) budget: usize,
    pub(crate) tokenizer: String,
    /// True if the texts name special tokens that count as text, as far as the engine knows.
    pub(crate) has_named_text: bool,
}

/// Notes of the command when a run has ended.
pub(crate) fn notes(summary: &Summary, options: &Encode, described: &Described) -> Vec<String> {
    let documents = summary.documents;
    let mut notes = Vec::new();
    if summary.stdin_looks_like_json_lines && !options.texts.all_text {
        notes.push(
            "-: begins with a line of JSON, and was read as text (--input-format jsonl reads JSON lines)".to_owned(),
        );
    }
    let Some(published) = &summary.published else { return notes };
    if summary.peak_in_flight > described.budget {
        let which = match summary.exceeding {
            0 | 1 => "a large document, which ran alone".to_owned(),
            many => format!("{many} large documents, each of which ran alone"),
        };
        notes.push(format!(
            "--memory was exceeded by {which}: {} in flight, of {}",
            size(summary.peak_in_flight as u64),
            size(described.budget as u64)
        ));
    }
    notes.extend(published.left_behind.iter().map(|path| format!("{} could not be removed", shown(path))));
    if documents.skipped > 0 {
        let list = published.files.last().map_or("", |list| &list.file);
        let list = options.output.with_file_name(list);
        notes.push(format!("{} left out, see {}", counted(documents.skipped, "bad document"), shown(&list)));
    }
    if summary.special_tokens > 0 {
        notes.push(format!(
            "the texts name special tokens: {} (--special-in-text recognizes them)",
            counted(summary.special_tokens, "id")
        ));
    }
    if let Some(documents @ 1..) = summary.documents_without_loss {
        notes.push(format!(
            "{} without loss: no message has the role assistant, or the template writes none of it",
            counted(documents, "document")
        ));
    }
    let missing =
        |field: &String| format!("no document has the field \"{}\" of --keep: all its values are null", shown(field));
    notes.extend(summary.keep_missing.iter().map(missing));
    notes.extend(watched::note_pointers(&summary.pointers));
    notes.extend(note_empty(&summary.inputs));
    if described.has_named_text {
        let note = "the texts name special tokens, which are plain text here (--special-in-text recognizes them)";
        notes.push(note.to_owned());
    }
    if summary.is_limited {
        notes.push("--limit was reached; what follows was not read".to_owned());
    }
    if let Some(resumed) = &summary.resumed {
        let shards = counted(resumed.shards as u64, "finished shard");
        notes.push(format!("resumed behind {shards} with {}", counted(resumed.documents, "document")));
    }
    notes
}

/// The summary on stderr.
pub(crate) fn describe(summary: &Summary, options: &Encode, described: &Described) {
    notes(summary, options, described).iter().for_each(report::note);
    let documents = summary.documents;
    let Some(published) = &summary.published else {
        report::say(format_args!(
            "nothing was published; {} read until then: {} good, {} skipped, {} failed{}",
            counted(documents.read, "document"),
            documents.written,
            documents.skipped,
            documents.failed,
            if options.sample.is_some() { format!(", {} left out", documents.left_out) } else { String::new() }
        ));
        report::kept(summary.kept_shards);
        return;
    };
    let counts =
        [(described.skips, documents.skipped, "skipped"), (options.sample.is_some(), documents.left_out, "left out")];
    let counts: Vec<String> =
        counts.iter().filter(|(shown, ..)| *shown).map(|(_, count, what)| format!("{count} {what}")).collect();
    let skipped = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let loss = summary.loss_tokens.map_or_else(String::new, |tokens| format!(", {tokens} with loss"));
    report::say(format_args!(
        "{}{skipped}, {} of text, {} of {}{loss} ({}{}{})",
        counted(documents.written, "document"),
        size(summary.text_bytes),
        counted(summary.tokens, "token"),
        shown(&described.tokenizer),
        options.format,
        dtype(published).map_or_else(String::new, |dtype| format!(", {dtype}")),
        published.eos.map_or_else(String::new, |eos| format!(", end of text {eos}"))
    ));
    if let (Some(Packed { rows, padding, dropped }), Some(length)) = (published.packed, options.pack) {
        let rows = counted(rows, "row");
        report::say(format_args!(
            "{rows} of {}, {padding} ids of padding, {dropped} dropped at the end",
            counted(length.get() as u64, "id")
        ));
    }
    for Part { name, documents, tokens, .. } in &published.parts {
        report::say(format_args!("{name}: {}, {}", counted(*documents, "document"), counted(*tokens, "token")));
    }
    let encoding = summary.encoding.as_secs_f64();
    let rate = match encoded_bytes(summary) {
        0..RATED => String::new(),
        _ => format!(" ({:.1} MB/s)", megabytes_per_second(summary)),
    };
    report::say(format_args!("encoded in {encoding:.2} s{rate}, published in {:.2} s", publishing(summary)));
    let files: Vec<String> = outputs(summary, options).map(|path| shown(&path).to_string()).collect();
    match files.as_slice() {
        [first, second, .., last] if files.len() > LISTED => {
            report::say(format_args!("{first} {second} ... {last} ({} files)", files.len()));
        }
        files => report::say(files.join(" ")),
    }
}

/// Names the inputs without documents.
fn note_empty(inputs: &[InputFile]) -> Option<String> {
    let mut empty = inputs.iter().filter(|input| input.documents == 0);
    let first = shown(&empty.next()?.name);
    Some(match empty.count() {
        0 => format!("{first}: holds no document"),
        more => format!("{first} and {more} more inputs hold no document"),
    })
}

/// The element type of the ids.
fn dtype(published: &Published) -> Option<&str> {
    published.files.first().and_then(|file| file.dtype.as_deref())
}

/// The published files, the manifest last, with the prefix as it was given.
fn outputs(summary: &Summary, options: &Encode) -> impl Iterator<Item = PathBuf> {
    let published = summary.published.iter();
    published.flat_map(|published| {
        let data = published.files.iter().map(|file| options.output.with_file_name(&file.file));
        data.chain([published.manifest.clone()])
    })
}

/// Seconds for syncing and renaming.
fn publishing(summary: &Summary) -> f64 {
    summary.elapsed.saturating_sub(summary.encoding).as_secs_f64()
}

/// Bytes of text that this run has encoded.
fn encoded_bytes(summary: &Summary) -> u64 {
    summary.text_bytes.saturating_sub(summary.resumed.map_or(0, |resumed| resumed.text_bytes))
}

/// Text in units of 10^6 bytes per second of encoding.
fn megabytes_per_second(summary: &Summary) -> f64 {
    encoded_bytes(summary) as f64 / 1e6 / summary.encoding.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_time_has_a_rate() {
        assert!(megabytes_per_second(&Summary { text_bytes: 1, ..Summary::default() }).is_finite());
        assert_eq!(megabytes_per_second(&Summary::default()), 0.0);
    }
}
