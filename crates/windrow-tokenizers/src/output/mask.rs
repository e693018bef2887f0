//! The file that holds masks.

use super::error::OutputError;
use super::file::{Complete, StagedFile};
use super::format::{npy_header, npy_header_of_rows};
use crate::format::Format;

/// The header of a file with masks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaskHeader {
    /// The header of a one-dimensional `.npy` file.
    Flat,
    /// The header of a two-dimensional `.npy` file, with this number of ids in a row.
    Rows(usize),
    /// No header, as in datatrove's files.
    Bare,
}

impl MaskHeader {
    /// The header for a format, and for the number of ids in a row if documents are packed into rows. Only `npy` has the shape of rows.
    pub(crate) fn new(format: Format, row: Option<usize>) -> Self {
        match (format, row) {
            (Format::Datatrove, _) => Self::Bare,
            (Format::Npy, Some(row)) => Self::Rows(row),
            _ => Self::Flat,
        }
    }

    /// The bytes of the header for this number of masks.
    pub(crate) fn bytes(self, masks: u64) -> Vec<u8> {
        match self {
            Self::Flat => npy_header("|u1", masks).into(),
            Self::Rows(row) => npy_header_of_rows("|u1", masks / row as u64, row).into(),
            Self::Bare => Vec::new(),
        }
    }
}

/// A file of u8 next to the ids: one for each id, 1 if it counts in training.
#[derive(Debug)]
pub(crate) struct MaskWriter {
    file: StagedFile,
    tokens: u64,
    header: MaskHeader,
}

impl MaskWriter {
    pub(crate) fn new(mut file: StagedFile, header: MaskHeader) -> Result<Self, OutputError> {
        file.put(|bytes| bytes.resize(header.bytes(0).len(), 0))?;
        Ok(Self { file, tokens: 0, header })
    }

    /// Appends the masks of a document.
    pub(crate) fn append(&mut self, mask: &[u8]) -> Result<(), OutputError> {
        self.tokens += mask.len() as u64;
        self.file.put_all(mask)
    }

    pub(crate) fn complete(mut self) -> Result<(Complete, Option<&'static str>), OutputError> {
        let header = self.header.bytes(self.tokens);
        if !header.is_empty() {
            self.file.replace_head(&header)?;
        }
        Ok((self.file.complete()?, Some("u8")))
    }
}
