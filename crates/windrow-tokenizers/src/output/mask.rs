//! The file with the masks.

use super::error::OutputError;
use super::file::{Complete, StagedFile};
use super::run::Run;
use super::writer::{NPY_HEADER, npy_header};

/// An `.npy` file of u8 beside the ids: one for each, 1 if it counts in training.
#[derive(Debug)]
pub(crate) struct MaskWriter {
    file: StagedFile,
    tokens: u64,
}

impl MaskWriter {
    pub(crate) fn new(mut file: StagedFile) -> Result<Self, OutputError> {
        file.put(|bytes| bytes.extend_from_slice(&[0; NPY_HEADER]))?;
        Ok(Self { file, tokens: 0 })
    }

    /// Appends the masks of documents.
    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        for mask in run.masks() {
            for block in mask.chunks(1 << 17) {
                self.file.put(|bytes| bytes.extend_from_slice(block))?;
            }
            let eos = run.eos.as_slice().len();
            self.file.put(|bytes| bytes.extend_from_slice(&[0][..eos]))?;
            self.tokens += (mask.len() + eos) as u64;
        }
        Ok(())
    }

    pub(crate) fn complete(mut self) -> Result<(Complete, Option<&'static str>), OutputError> {
        self.file.replace_head(&npy_header("|u1", self.tokens))?;
        Ok((self.file.complete()?, Some("u8")))
    }
}
