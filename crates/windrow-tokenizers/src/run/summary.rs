//! The account of a run as JSON, and its notes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::json;

use super::failure::Failed;
use super::spec::{EncodeRun, EncodeSpec};
use crate::encode::Summary;
use crate::manifest::{self, InputFile};
use crate::output::Published;
use crate::spec::EncodeJob;
use crate::tokenizer;
use crate::{counted, decimal as size, shown, to_json};

/// The version of the object that `--json` prints. It increases when a field changes its meaning or is removed.
const SCHEMA: u32 = 2;

/// The note on a standard input that is probably not text.
pub(super) const JSON_ON_STDIN: &str =
    "-: begins with a line of JSON, but was read as text (--input-format jsonl reads JSON lines)";

/// The summary as one line of JSON. `tokenizer` is its name.
pub(super) fn json(summary: &Summary, spec: &EncodeSpec, tokenizer: &str, error: Option<&str>) -> String {
    let (job, published) = (&spec.job, summary.published.as_ref());
    let manifest::Documents { read, written, skipped, failed, deselected } = summary.documents;
    let input = |input: &InputFile| json!({"name": input.name, "documents": input.documents, "bytes": input.text_bytes, "tokens": input.tokens});
    let mut report = json!({
        "schema": SCHEMA,
        "documents": {"read": read, "written": written, "skipped": skipped, "failed": failed},
        "bytes": summary.text_bytes,
        "tokens": summary.tokens,
        "special_tokens": summary.special_tokens,
        "inputs": summary.inputs.iter().map(input).collect::<Vec<_>>(),
        "tokenizer": tokenizer,
        "format": job.format.name(),
        "dtype": published.and_then(Published::dtype),
        "eos": published.and_then(|published| published.eos),
        // From the first read to the end of the publication; loading the tokenizer comes before.
        "seconds": summary.elapsed.as_secs_f64(),
        "encoding_seconds": summary.encoding.as_secs_f64(),
        "publishing_seconds": publishing(summary),
        "mb_per_s": megabytes_per_second(summary),
        "peak_in_flight_bytes": summary.peak_in_flight,
        "readers": summary.readers,
        "outputs": outputs(summary, spec).map(|path| path.display().to_string()).collect::<Vec<_>>(),
    });
    let parts = published.map_or(&[][..], |published| &published.parts);
    // Fields that are present only where they matter.
    let more = [
        ("keep_missing", !summary.keep_missing.is_empty(), json!(summary.keep_missing)),
        ("loss_tokens", summary.loss_tokens.is_some(), json!(summary.loss_tokens)),
        ("documents_without_loss", summary.documents_without_loss.is_some(), json!(summary.documents_without_loss)),
        ("exceeding", summary.exceeding > 0, json!(summary.exceeding)),
        ("resumed_shards", summary.resumed.is_some(), json!(summary.resumed.map(|resumed| resumed.shards))),
        ("kept_shards", summary.kept_shards > 0, json!(summary.kept_shards)),
        ("packed", job.pack.is_some() && published.is_some(), json!(published.and_then(|published| published.packed))),
        ("parts", !parts.is_empty(), json!(parts)),
        ("error", error.is_some(), json!(error)),
    ];
    for (name, _, value) in more.into_iter().filter(|(_, matters, _)| *matters) {
        report[name] = value;
    }
    if job.selection.sample.is_some() {
        report["documents"]["left_out"] = deselected.into();
    }
    to_json(&report)
}

/// The JSON of a run that could not begin.
pub fn failed_json(job: &EncodeJob, failed: &Failed) -> String {
    let spec = EncodeSpec { job: job.clone(), run: EncodeRun::default() };
    json(&Summary::default(), &spec, job.vocabulary.shown(), Some(&failed.message))
}

/// Notes about a run that has ended. `has_named_text` is true if the texts name special tokens that count as text, as far as the engine knows.
pub(super) fn notes(summary: &Summary, EncodeSpec { job, run }: &EncodeSpec, has_named_text: bool) -> Vec<String> {
    let documents = summary.documents;
    let mut notes = Vec::new();
    if summary.stdin_looks_like_json_lines && !job.texts.all_text {
        notes.push(JSON_ON_STDIN.to_owned());
    }
    let Some(published) = &summary.published else { return notes };
    if summary.peak_in_flight > run.memory.bytes() {
        let which = match summary.exceeding {
            0 | 1 => "a large document, which was processed on its own".to_owned(),
            many => format!("{many} large documents, each of which was processed on its own"),
        };
        notes.push(format!(
            "--memory was exceeded by {which}: {} in flight, with a budget of {}",
            size(summary.peak_in_flight as u64),
            size(run.memory.bytes() as u64)
        ));
    }
    notes.extend(published.not_removed.iter().map(|path| format!("{} could not be removed", shown(path))));
    if documents.skipped > 0 {
        let list = published.files.last().map_or("", |list| &list.file);
        let list = run.output.with_file_name(list);
        notes.push(format!("{} skipped, see {}", counted(documents.skipped, "bad document"), shown(&list)));
    }
    if summary.special_tokens > 0 {
        notes.push(format!(
            "the texts contain special tokens: {} (--special-in-text recognizes them)",
            counted(summary.special_tokens, "id")
        ));
    }
    if let Some(documents @ 1..) = summary.documents_without_loss {
        notes.push(format!(
            "no tokens with loss in {}: no message has the assistant role, or the template omits the text of assistant messages",
            counted(documents, "document")
        ));
    }
    let missing = |field: &String| {
        let near = nearest(field, &summary.keep_names);
        let near = near.map_or_else(String::new, |near| format!("; the first document has \"{}\"", shown(near)));
        format!("no document has the field \"{}\" named in --keep, so all its values are null{near}", shown(field))
    };
    notes.extend(summary.keep_missing.iter().map(missing));
    notes.extend(note_pointers(&summary.pointers));
    notes.extend(note_empty(&summary.inputs));
    if has_named_text {
        let note =
            "the texts contain special tokens, which are treated as plain text (--special-in-text recognizes them)";
        notes.push(note.to_owned());
    }
    if summary.is_limited {
        notes.push("--limit was reached; the rest of the input was not read".to_owned());
    }
    if let Some(resumed) = &summary.resumed {
        let shards = counted(resumed.shards as u64, "finished shard");
        notes.push(format!("resumed after {shards} with {}", counted(resumed.documents, "document")));
    }
    notes
}

/// The name that a misspelt one may mean: the name with the fewest differences, at most two in five characters.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n String> {
    let most = (name.chars().count() * 2 / 5).max(1);
    let distance = |other: &&String| tokenizer::distance(&name.to_lowercase(), &other.to_lowercase());
    let letters = |name: &str| -> BTreeSet<char> { name.to_lowercase().chars().collect() };
    // Two letters that change places are two differences, too many for a short name.
    names.iter().min_by_key(distance).filter(|other| distance(other) <= most || letters(name) == letters(other))
}

/// Names the inputs without documents.
fn note_empty(inputs: &[InputFile]) -> Option<String> {
    let mut empty = inputs.iter().filter(|input| input.documents == 0);
    let first = shown(&empty.next()?.name);
    Some(match empty.count() {
        0 => format!("{first}: contains no documents"),
        more => format!("{first} and {} contain no documents", counted(more as u64, "more input")),
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

/// A note about Git LFS pointers: their number, and the name of one.
pub fn note_pointers((count, name): &(u64, String)) -> Option<String> {
    let are = match count {
        0 => return None,
        1 => "a text is a Git LFS pointer:".to_owned(),
        count => format!("{} are Git LFS pointers, such as", counted(*count, "text")),
    };
    Some(format!("{are} {} (git lfs pull fetches the files)", shown(name)))
}

/// Seconds spent on syncing and renaming.
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
    fn the_nearest_name_is_one_that_may_be_meant() {
        let names = ["id", "url", "meta", "meta.language"].map(str::to_owned);
        let near = |name| nearest(name, &names).map(String::as_str);
        for (name, meant) in
            [("Url", "url"), ("idd", "id"), ("meta.langauge", "meta.language"), ("mtea", "meta"), ("ulr", "url")]
        {
            assert_eq!(near(name), Some(meant), "{name}");
        }
        assert_eq!((near("title"), near("x"), nearest("id", &[])), (None, None, None));
    }

    #[test]
    fn a_run_without_time_has_a_rate() {
        assert!(megabytes_per_second(&Summary { text_bytes: 1, ..Summary::default() }).is_finite());
        assert_eq!(megabytes_per_second(&Summary::default()), 0.0);
    }
}
