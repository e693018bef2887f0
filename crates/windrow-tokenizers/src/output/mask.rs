//! The file that holds masks.

use super::error::OutputError;
use super::file::{Complete, StagedFile};
use super::format::{npy_header, npy_header_of_rows};
use crate::format::Format;

/// The header of a file with this number of masks, with `row` ids in a row if documents are packed into rows. Only `npy` has the shape of rows,
/// and datatrove's files have no header.
pub(crate) fn mask_header(format: Format, row: Option<usize>, masks: u64) -> Vec<u8> {
    match (format, row) {
        (Format::Datatrove, _) => Vec::new(),
        (Format::Npy, Some(row)) => npy_header_of_rows("|u1", masks / row as u64, row).into(),
        _ => npy_header("|u1", masks).into(),
    }
}

/// A file of u8 next to the ids: one for each id, 1 if it counts in training.
#[derive(Debug)]
pub(crate) struct MaskWriter {
    file: StagedFile,
    tokens: u64,
    format: Format,
    row: Option<usize>,
}

impl MaskWriter {
    pub(crate) fn new(mut file: StagedFile, format: Format, row: Option<usize>) -> Result<Self, OutputError> {
        file.put(|bytes| bytes.resize(mask_header(format, row, 0).len(), 0))?;
        Ok(Self { file, tokens: 0, format, row })
    }

    /// Appends the masks of a document.
    pub(crate) fn append(&mut self, mask: &[u8]) -> Result<(), OutputError> {
        self.tokens += mask.len() as u64;
        self.file.put_all(mask)
    }

    pub(crate) fn complete(mut self) -> Result<(Complete, Option<&'static str>), OutputError> {
        let header = mask_header(self.format, self.row, self.tokens);
        if !header.is_empty() {
            self.file.replace_head(&header)?;
        }
        Ok((self.file.complete()?, Some("u8")))
    }
}
