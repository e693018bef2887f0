//! What came of a run, for people and for programs.

use std::path::Path;

use serde::Serialize;
use windrow_tokenizers::encode::Summary;

use crate::report;

/// The version of the object that `--json` prints. It grows when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    documents: Documents,
    /// Of text in the written documents.
    bytes: u64,
    tokens: u64,
    /// From the first read to the end of the publication; loading the tokenizer comes before.
    seconds: f64,
    mb_per_s: f64,
    peak_in_flight_bytes: usize,
    outputs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Documents {
    read: u64,
    written: u64,
    skipped: u64,
    failed: u64,
}

/// The summary as one line of JSON.
pub(crate) fn json(summary: &Summary, prefix: &Path, error: Option<&str>) -> String {
    let documents = summary.documents;
    let report = Report {
        schema: SCHEMA,
        documents: Documents {
            read: documents.read,
            written: documents.written,
            skipped: documents.skipped,
            failed: documents.failed,
        },
        bytes: summary.text_bytes,
        tokens: summary.tokens,
        seconds: summary.elapsed.as_secs_f64(),
        mb_per_s: megabytes_per_second(summary),
        peak_in_flight_bytes: summary.peak_in_flight,
        outputs: outputs(summary, prefix),
        error,
    };
    serde_json::to_string(&report).expect("numbers and strings")
}

/// The summary on stderr. `skips`: bad documents were to be left out. `budget`: what was to be in flight at most.
pub(crate) fn describe(summary: &Summary, prefix: &Path, skips: bool, budget: usize) {
    let documents = summary.documents;
    let Some(published) = &summary.published else {
        report::say(format_args!(
            "nothing was published; {} read until then: {} good, {} skipped, {} failed",
            counted(documents.read, "document"),
            documents.written,
            documents.skipped,
            documents.failed
        ));
        return;
    };
    if summary.peak_in_flight > budget {
        report::note(format_args!(
            "--memory was exceeded by a large document, which ran alone: {} in flight, of {}",
            size(summary.peak_in_flight as u64),
            size(budget as u64)
        ));
    }
    for path in &published.left_behind {
        report::note(format_args!("{} could not be removed", path.display()));
    }
    if documents.skipped > 0 {
        let manifest = published.manifest.display();
        report::note(format_args!("{} left out, see {manifest}", counted(documents.skipped, "bad document")));
    }
    let skipped = if skips { format!(" ({} skipped)", documents.skipped) } else { String::new() };
    report::say(format_args!(
        "{}{skipped}, {} of text, {} in {:.2} s: {:.1} MB/s",
        counted(documents.written, "document"),
        size(summary.text_bytes),
        counted(summary.tokens, "token"),
        summary.elapsed.as_secs_f64(),
        megabytes_per_second(summary)
    ));
    report::say(outputs(summary, prefix).join(" "));
}

/// The files that were published, the manifest last, by the prefix as it was given.
fn outputs(summary: &Summary, prefix: &Path) -> Vec<String> {
    let Some(published) = &summary.published else { return Vec::new() };
    let data = published.files.iter().map(|file| prefix.with_file_name(&file.file));
    data.chain([published.manifest.clone()]).map(|path| path.display().to_string()).collect()
}

/// Text in units of 10^6 bytes a second.
fn megabytes_per_second(summary: &Summary) -> f64 {
    summary.text_bytes as f64 / 1e6 / summary.elapsed.as_secs_f64().max(1e-9)
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Bytes in decimal units, as rates are.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1_500), "1.5 kB");
        assert_eq!(size(6_488_666), "6.5 MB");
        assert_eq!(size(12_340_000_000), "12.34 GB");
    }

    #[test]
    fn a_run_without_time_has_a_rate() {
        assert!(megabytes_per_second(&Summary { text_bytes: 1, ..Summary::default() }).is_finite());
        assert_eq!(megabytes_per_second(&Summary::default()), 0.0);
    }
}
