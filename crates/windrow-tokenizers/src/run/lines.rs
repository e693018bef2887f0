//! Counts as lines, as soon as they are known, or as JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::failure::Failed;
use crate::encode::Counted;
use crate::input::{Compression, Format, InputFile};
use crate::{counted, shown, to_json};

/// Width of a column whose numbers are not known to be small, as in wc.
const USUAL_WIDTH: usize = 7;

/// An input, as it is printed.
#[derive(Debug)]
struct Listed {
    /// Its path, which may not be UTF-8, or its name.
    name: PathBuf,
    is_named: bool,
}

impl From<&InputFile> for Listed {
    fn from(file: &InputFile) -> Self {
        // No argument names the path of stdin.
        let path = file.path().filter(|_| file.name() != "-");
        let name = path.map_or_else(|| PathBuf::from(file.name()), PathBuf::from);
        Self { name, is_named: file.is_named() }
    }
}

/// The counts of all inputs so far.
#[derive(Default)]
pub(super) struct Lines {
    inputs: Vec<Listed>,
    /// Width of the column of numbers.
    width: usize,
    has_total: bool,
    top: Option<usize>,
    json: bool,
    /// Counts to print at the end, by the index of the input.
    kept: Vec<(usize, Counted)>,
    files: u64,
    total: Counted,
    /// Binary files of directories.
    binary: Vec<usize>,
    /// JSON lines that were taken for text.
    texts: Vec<usize>,
}

impl Lines {
    /// No counts of these files, and of this number of inputs that do not exist.
    pub(super) fn new(top: Option<usize>, json: bool, files: &[InputFile], failed: usize) -> Self {
        // As in wc, the width depends on the bytes, which are known before the tokens; but a compressed file has fewer bytes than its text.
        let is_plain = |file: &InputFile| {
            file.compression() == Some(Compression::None) && file.format() != Format::Parquet && file.bytes().is_some()
        };
        let bytes: u64 = files.iter().filter_map(InputFile::bytes).sum();
        let digits = bytes.max(1).ilog10() as usize + 1;
        let is_one = files.len() + failed == 1;
        let width = match is_one {
            true => 1,
            _ if files.iter().all(is_plain) => digits,
            _ => digits.max(USUAL_WIDTH),
        };
        let inputs = files.iter().map(Listed::from).collect();
        Self { inputs, width, has_total: !is_one || top.is_some(), top, json, ..Self::default() }
    }

    /// Adds the count of an input. Returns the line to print now, if there is one.
    pub(super) fn add(&mut self, at: usize, counted: Counted) -> Option<String> {
        self.files += 1;
        self.total.text_bytes += counted.text_bytes;
        self.total.tokens += counted.tokens;
        if counted.is_text {
            self.texts.push(at);
        }
        if self.json || self.top.is_some() {
            self.kept.push((at, counted));
            return None;
        }
        Some(self.line(at, counted))
    }

    /// Records a binary file. Returns false if it is named, so that this is an error.
    pub(super) fn skip(&mut self, at: usize) -> bool {
        let is_skipped = !self.inputs[at].is_named;
        if is_skipped {
            self.binary.push(at);
        }
        is_skipped
    }

    fn line(&self, at: usize, counted: Counted) -> String {
        format!("{:width$} {}\n", counted.tokens, shown(&self.inputs[at].name), width = self.width)
    }

    /// Notes on inputs that were skipped, or read in another way than their names say.
    pub(super) fn notes(&self, field: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some((&first, others)) = self.texts.split_first() {
            let more = match others.len() as u64 {
                0 => String::new(),
                more => format!("; so {} {}", if more == 1 { "was" } else { "were" }, counted(more, "other file")),
            };
            notes.push(format!(
                "{}: counted as plain text, because its first line is not an object with the field {field:?} (pass --field NAME to count documents){more}",
                shown(&self.inputs[first].name)
            ));
        }
        if !self.binary.is_empty() {
            notes.push(format!("{} skipped", counted(self.binary.len() as u64, "binary file")));
        }
        notes
    }

    /// The lines that were held back until the end.
    pub(super) fn finish(mut self, tokenizer: &str, failed: &[Failed]) -> String {
        let mut kept = std::mem::take(&mut self.kept);
        if let Some(top) = self.top {
            // A stable sort: equal counts keep the order of the inputs.
            kept.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.tokens));
            kept.truncate(top);
        }
        let mut text = String::new();
        let name = |at: usize| self.inputs[at].name.to_string_lossy();
        if self.json {
            let files: Vec<_> = kept
                .iter()
                .map(|&(at, counted)| json!({"path": name(at), "bytes": counted.text_bytes, "tokens": counted.tokens}))
                .collect();
            let binary: Vec<_> = self.binary.iter().map(|&at| name(at)).collect();
            let errors: Vec<_> = failed.iter().map(|failed| &failed.message).collect();
            let total = json!({"files": self.files, "bytes": self.total.text_bytes, "tokens": self.total.tokens});
            let all = json!({
                "tokenizer": tokenizer, "files": files, "total": total, "binary": binary, "errors": errors,
            });
            writeln!(text, "{}", to_json(&all)).expect("memory");
        } else {
            kept.iter().for_each(|&(at, counted)| text.push_str(&self.line(at, counted)));
            if self.has_total {
                writeln!(text, "{:width$} total", self.total.tokens, width = self.width).expect("memory");
            }
        }
        text
    }
}
