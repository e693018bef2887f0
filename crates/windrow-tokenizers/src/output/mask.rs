//! Masks on their way to the output, and the file that holds them.

use super::error::OutputError;
use super::file::{Complete, StagedFile};
use super::format::Format;
use super::run::Run;
use super::writer::{npy_header, npy_header_of_rows};

/// The bit that has the mask of an id, beside it. So documents with masks travel, wait and become rows as those without. No id has this bit.
pub(crate) const MASKED: u32 = 1 << 31;

/// Puts the masks of ids into them.
pub(crate) fn put_masks(ids: &mut [u32], mask: &[u8]) {
    ids.iter_mut().zip(mask).for_each(|(id, &one)| *id |= if one > 0 { MASKED } else { 0 });
}

/// Ids without masks.
pub(crate) fn without_masks(ids: &[u32]) -> Vec<u32> {
    ids.iter().map(|id| id & !MASKED).collect()
}

/// The masks of ids.
pub(crate) fn masks(ids: &[u32]) -> Vec<u8> {
    ids.iter().map(|id| u8::from(id & MASKED > 0)).collect()
}

/// The number of documents none of whose ids has a mask of 1.
pub(crate) fn without_loss(ids: &[u32], ends: &[usize]) -> u64 {
    let starts = [0].iter().chain(ends);
    let documents = starts.zip(ends).map(|(&start, &end)| &ids[start..end]);
    documents.filter(|ids| ids.iter().all(|id| id & MASKED == 0)).count() as u64
}

/// What precedes the masks in their file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaskHeader {
    /// The header of a one-dimensional `.npy` file.
    Flat,
    /// The header of a two-dimensional one, with so many ids in a row.
    Rows(usize),
    /// Nothing, as datatrove has it.
    Bare,
}

impl MaskHeader {
    /// That of a format, if documents have become rows of so many ids. Only `npy` has the shape of rows.
    pub(crate) fn new(format: Format, row: Option<usize>) -> Self {
        match (format, row) {
            (Format::Datatrove, _) => Self::Bare,
            (Format::Npy, Some(row)) => Self::Rows(row),
            _ => Self::Flat,
        }
    }

    /// The header of so many masks.
    pub(crate) fn bytes(self, masks: u64) -> Vec<u8> {
        match self {
            Self::Flat => npy_header("|u1", masks).into(),
            Self::Rows(row) => npy_header_of_rows("|u1", masks / row as u64, row).into(),
            Self::Bare => Vec::new(),
        }
    }
}

/// A file of u8 beside the ids: one for each, 1 if it counts in training.
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

    /// Appends the masks of documents.
    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        let (before, behind) = (run.frame.bos.as_slice().len(), run.frame.eos.as_slice().len());
        for mask in run.masks() {
            self.file.put(|bytes| bytes.extend_from_slice(&[0][..before]))?;
            for block in mask.chunks(1 << 17) {
                self.file.put(|bytes| bytes.extend_from_slice(block))?;
            }
            self.file.put(|bytes| bytes.extend_from_slice(&[0][..behind]))?;
            self.tokens += (before + mask.len() + behind) as u64;
        }
        Ok(())
    }

    pub(crate) fn complete(mut self) -> Result<(Complete, Option<&'static str>), OutputError> {
        let header = self.header.bytes(self.tokens);
        if !header.is_empty() {
            self.file.replace_head(&header)?;
        }
        Ok((self.file.complete()?, Some("u8")))
    }
}
