//! The account of a run as JSON, and its notes.

use std::path::PathBuf;

use serde::Serialize;

use super::failure::Failed;
use super::spec::{EncodeJob, EncodeRun, EncodeSpec};
use crate::encode::Summary;
use crate::manifest::{InputFile, Packed, Part};
use crate::output::Published;
use crate::{counted, decimal as size, shown, to_json};

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
pub(super) fn json(summary: &Summary, spec: &EncodeSpec, tokenizer: &str, error: Option<&str>) -> String {
    let job = &spec.job;
    let documents = summary.documents;
    let report = Report {
        schema: SCHEMA,
        documents: Documents {
            read: documents.read,
            written: documents.written,
            skipped: documents.skipped,
            failed: documents.failed,
            left_out: job.sample.map(|_| documents.left_out),
        },
        bytes: summary.text_bytes,
        tokens: summary.tokens,
        special_tokens: summary.special_tokens,
        inputs: summary.inputs.iter().map(Input::from).collect(),
        keep_missing: &summary.keep_missing,
        loss_tokens: summary.loss_tokens,
        documents_without_loss: summary.documents_without_loss,
        tokenizer,
        format: job.format.name(),
        dtype: summary.published.as_ref().and_then(Published::dtype),
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
        outputs: outputs(summary, spec).map(|path| path.display().to_string()).collect(),
        error,
    };
    to_json(&report)
}

/// The JSON of a run that could not begin.
pub fn failed_json(job: &EncodeJob, failed: &Failed) -> String {
    let spec = EncodeSpec { job: job.clone(), run: EncodeRun::default() };
    json(&Summary::default(), &spec, job.vocabulary.shown(), Some(&failed.message))
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Notes about a run that has ended. `has_named_text` is true if the texts name special tokens that count as text, as far as the engine knows.
pub(super) fn notes(summary: &Summary, EncodeSpec { job, run }: &EncodeSpec, has_named_text: bool) -> Vec<String> {
    let documents = summary.documents;
    let mut notes = Vec::new();
    if summary.stdin_looks_like_json_lines && !job.texts.all_text {
        notes.push(
            "-: begins with a line of JSON, and was read as text (--input-format jsonl reads JSON lines)".to_owned(),
        );
    }
    let Some(published) = &summary.published else { return notes };
    if summary.peak_in_flight > run.memory.bytes() {
        let which = match summary.exceeding {
            0 | 1 => "a large document, which ran alone".to_owned(),
            many => format!("{many} large documents, each of which ran alone"),
        };
        notes.push(format!(
            "--memory was exceeded by {which}: {} in flight, of {}",
            size(summary.peak_in_flight as u64),
            size(run.memory.bytes() as u64)
        ));
    }
    notes.extend(published.left_behind.iter().map(|path| format!("{} could not be removed", shown(path))));
    if documents.skipped > 0 {
        let list = published.files.last().map_or("", |list| &list.file);
        let list = run.output.with_file_name(list);
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
    notes.extend(note_pointers(&summary.pointers));
    notes.extend(note_empty(&summary.inputs));
    if has_named_text {
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

/// Names the inputs without documents.
fn note_empty(inputs: &[InputFile]) -> Option<String> {
    let mut empty = inputs.iter().filter(|input| input.documents == 0);
    let first = shown(&empty.next()?.name);
    Some(match empty.count() {
        0 => format!("{first}: holds no document"),
        more => format!("{first} and {} hold no document", counted(more as u64, "more input")),
    })
}

/// The published files, the manifest last, with the prefix as it was given.
pub fn outputs(summary: &Summary, spec: &EncodeSpec) -> impl Iterator<Item = PathBuf> {
    let published = summary.published.iter();
    published.flat_map(|published| {
        let data = published.files.iter().map(|file| spec.run.output.with_file_name(&file.file));
        data.chain([published.manifest.clone()])
    })
}

/// A note about git-lfs pointers: their number, and the name of one.
pub fn note_pointers((count, name): &(u64, String)) -> Option<String> {
    let are = match count {
        0 => return None,
        1 => "a text is a git-lfs pointer".to_owned(),
        count => format!("{} are git-lfs pointers", counted(*count, "text")),
    };
    Some(format!("{are}, such as {} (git lfs pull fetches the files)", shown(name)))
}

/// Seconds for syncing and renaming.
pub fn publishing(summary: &Summary) -> f64 {
    summary.elapsed.saturating_sub(summary.encoding).as_secs_f64()
}

/// Bytes of text that this run has encoded.
pub fn encoded_bytes(summary: &Summary) -> u64 {
    summary.text_bytes.saturating_sub(summary.resumed.map_or(0, |resumed| resumed.text_bytes))
}

/// Text in units of 10^6 bytes per second of encoding.
pub fn megabytes_per_second(summary: &Summary) -> f64 {
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
