//! The files of datatrove's tokenized data sets: bare ids, the end of each document in ids, and a text of three lines.

use std::io::Read;

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles};
use crate::format::Dtype;
use crate::output::OutputError;
use crate::output::file::StagedFile;
use crate::shard::{BUFFER, DatasetError, Reading, Shard, Visitor};
use crate::shown::is_harmless;

pub(super) struct Datatrove;

/// The name in the metadata if the tokenizer is not known.
const UNKNOWN: &str = "unknown";

impl TokenFiles for Datatrove {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".ds", ".ds.index", ".ds.metadata"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::U32]
    }

    fn mask_suffix(&self) -> Option<&'static str> {
        // Bare bytes, as in datatrove's own files.
        Some(".ds.loss")
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        let (ids, index, metadata) = (files.next(), files.next(), files.next());
        Ok(Box::new(DatatroveWriter { ids, index, metadata, dtype: begin.dtype, tokens: 0 }))
    }

    fn documents(&self, shard: &Shard<'_>) -> Result<Option<u64>, DatasetError> {
        Ok(Some(Reading::open(&shard.paths[1], 0)?.elements(0, 8)?))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let (dtype, paths) = (shard.dtype()?, &shard.paths);
        let mut data = Reading::open(&paths[0], 0)?;
        let mut index = Reading::open(&paths[1], 0)?;
        let (count, documents) = (data.elements(0, dtype.size())?, index.elements(0, 8)?);
        let mut metadata = Vec::new();
        let read = Reading::open(&paths[2], 0)?.file.take(BUFFER as u64).read_to_end(&mut metadata);
        read.map_err(|error| DatasetError::io(&paths[2], &error))?;
        if !str::from_utf8(&metadata).is_ok_and(|text| metadata_says(text, dtype, count)) {
            let size = dtype.size();
            let what =
                format!("its lines do not state the size of an id ({size} bytes) and the number of ids ({count})");
            return Err(DatasetError::damaged(&paths[2], what));
        }
        let wrong = |number: u64, what: String| {
            Err(DatasetError::damaged(&paths[1], format_args!("document {number}: {what}")))
        };
        let (mut block, mut ids, mut begin) = (Vec::new(), Vec::new(), 0);
        for number in 0..documents {
            let end = index.next_u64()?;
            if end < begin {
                return wrong(number, format!("its end {end} is before its beginning {begin}"));
            }
            if end > count {
                return wrong(number, format!("its end {end} is beyond the number of ids, {count}"));
            }
            data.ids(end - begin, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            begin = end;
        }
        if begin == count {
            Ok(())
        } else {
            wrong(documents, format!("the documents account for {begin} of {count} ids"))
        }
    }
}

#[derive(Debug)]
struct DatatroveWriter {
    ids: StagedFile,
    index: StagedFile,
    metadata: StagedFile,
    dtype: Dtype,
    tokens: u64,
}

impl FormatWriter for DatatroveWriter {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        Some(&mut self.ids)
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.ids.put_ids(ids, self.dtype)
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        self.tokens += ending.ids as u64;
        self.index.put(|bytes| bytes.extend_from_slice(&self.tokens.to_le_bytes()))
    }

    fn finish(mut self: Box<Self>, tokenizer: &str) -> Result<Vec<Finished>, OutputError> {
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

/// True if the first two lines of a metadata file state this element type and this number of ids.
fn metadata_says(text: &str, dtype: Dtype, tokens: u64) -> bool {
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
