//! The files of datatrove's tokenized data sets: `.ds`, `.ds.index` and `.ds.metadata`.

use super::error::OutputError;
use super::file::{Complete, StagedFile};
use super::format::Dtype;
use super::run::{Run, put};
use crate::shown::is_harmless;

/// The name in the metadata if the tokenizer is not known.
const UNKNOWN: &str = "unknown";

/// Bare ids, the end of each document in ids, and a text of three lines.
#[derive(Debug)]
pub(crate) struct DatatroveWriter {
    pub(super) ids: StagedFile,
    index: StagedFile,
    metadata: StagedFile,
    dtype: Dtype,
    tokens: u64,
}

impl DatatroveWriter {
    pub(crate) fn new(ids: StagedFile, index: StagedFile, metadata: StagedFile, dtype: Dtype) -> Self {
        Self { ids, index, metadata, dtype, tokens: 0 }
    }

    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        run.put_ids(self.dtype, &mut self.ids)?;
        self.ends(run.lengths())
    }

    pub(crate) fn append_part(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        put(ids, self.dtype, &mut self.ids)
    }

    /// Appends the ends of documents with so many ids.
    pub(crate) fn ends(&mut self, lengths: impl Iterator<Item = usize>) -> Result<(), OutputError> {
        for length in lengths {
            self.tokens += length as u64;
            self.index.put(|bytes| bytes.extend_from_slice(&self.tokens.to_le_bytes()))?;
        }
        Ok(())
    }

    pub(crate) fn complete(mut self, tokenizer: &str) -> Result<Vec<(Complete, Option<&'static str>)>, OutputError> {
        let text = metadata(tokenizer, self.dtype, self.tokens);
        self.metadata.put(|bytes| bytes.extend_from_slice(text.as_bytes()))?;
        Ok(vec![
            (self.ids.complete()?, Some(self.dtype.name())),
            (self.index.complete()?, Some("u64")),
            (self.metadata.complete()?, None),
        ])
    }
}

/// The text of `.ds.metadata`: the tokenizer and the bytes of an id, then the number of ids, exact and for people.
///
/// datatrove takes the first line apart at `|`, so a name has none.
fn metadata(tokenizer: &str, dtype: Dtype, tokens: u64) -> String {
    let name = if tokenizer.is_empty() { UNKNOWN } else { tokenizer };
    let is_plain = |letter: &char| *letter != '|' && is_harmless(*letter);
    let name: String = name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect();
    format!("{name}|{}\n{tokens}\n{}", dtype.size(), readable(tokens))
}

/// The first two lines of a metadata file that has this number of ids: whether they say so.
pub(crate) fn metadata_says(text: &str, dtype: Dtype, tokens: u64) -> bool {
    let mut lines = text.lines();
    let size = lines.next().and_then(|line| line.rsplit_once('|')).map(|(_, size)| size);
    size == Some(&*dtype.size().to_string()) && lines.next() == Some(&*tokens.to_string())
}

/// A number of tokens in three digits, such as `1.50 kT`.
fn readable(tokens: u64) -> String {
    let exponent = tokens.checked_ilog10().unwrap_or(0);
    let value = tokens as f64 / f64::from(10u32.pow(3)).powi(exponent as i32 / 3);
    let prefix = ["", "k", "M", "G", "T", "P", "E"][exponent as usize / 3];
    let decimals = 2 - exponent as usize % 3;
    format!("{value:.decimals$} {prefix}T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_humanize() {
        for (tokens, text) in [
            (0, "0.00 T"),
            (7, "7.00 T"),
            (42, "42.0 T"),
            (999, "999 T"),
            (1_000, "1.00 kT"),
            (1_234, "1.23 kT"),
            (56_789, "56.8 kT"),
            (999_999, "1000 kT"),
            (1_500_000, "1.50 MT"),
            (123_456_789_012, "123 GT"),
            (15_000_000_000_000, "15.0 TT"),
            (u64::MAX, "18.4 ET"),
        ] {
            assert_eq!(readable(tokens), text);
        }
    }

    #[test]
    fn a_name_cannot_disturb_the_lines() {
        assert_eq!(metadata("gpt2", Dtype::U16, 1_500), "gpt2|2\n1500\n1.50 kT");
        assert_eq!(metadata("a|b\u{202e}c", Dtype::U32, 0), "a_b_c|4\n0\n0.00 T");
        assert_eq!(metadata("", Dtype::U32, 1), "unknown|4\n1\n1.00 T");
        assert!(metadata_says("a|b|4\n0\n0.00 T", Dtype::U32, 0));
        for (dtype, tokens) in [(Dtype::U16, 0), (Dtype::U32, 1)] {
            assert!(!metadata_says("gpt2|4\n0\n0.00 T", dtype, tokens));
        }
    }
}
