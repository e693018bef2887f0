//! A document on its way to the output.

use crate::format::Dtype;
use crate::kept::KeptValues;

/// A document to write, without the ids that the output puts around it.
///
/// ```
/// use windrow_tokenizers::output::{Document, Format, Output, OutputOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// let mut output = Output::create(&OutputOptions { mask: true, format: Format::Jsonl, ..OutputOptions::new(&prefix, 300) })?;
/// output.push(Document { ids: &[7, 8, 9], mask: &[0, 1, 1], ..Document::default() })?;
/// assert_eq!((output.tokens(), output.loss_tokens()), (3, Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Document<'a> {
    /// The ids of the document.
    pub ids: &'a [u32],
    /// The mask of each id, 0 or 1, if the output has [masks](crate::output::OutputOptions::mask).
    pub mask: &'a [u8],
    /// The value of each field that the output [keeps](crate::output::OutputOptions::keep).
    pub kept: KeptValues<'a>,
}

/// The ids that are written around each document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
}

impl Frame {
    /// The number of these ids.
    pub(crate) fn len(self) -> usize {
        usize::from(self.bos.is_some()) + usize::from(self.eos.is_some())
    }

    /// A document with these ids around it.
    pub(crate) fn around(self, ids: &[u32]) -> Vec<u32> {
        self.bos.iter().chain(ids).chain(&self.eos).copied().collect()
    }

    /// A mask with a 0 for each of these ids around it.
    pub(crate) fn around_mask(self, mask: &[u8]) -> Vec<u8> {
        [&[0][..self.bos.as_slice().len()], mask, &[0][..self.eos.as_slice().len()]].concat()
    }
}

/// Bytes of these ids in the largest file of a format, with commas if they are text.
pub(crate) fn bytes_of_ids(dtype: Option<Dtype>, ids: &[u32]) -> u64 {
    match dtype {
        Some(dtype) => (ids.len() * dtype.size()) as u64,
        None => ids.iter().map(|id| u64::from(id.checked_ilog10().unwrap_or(0)) + 2).sum(),
    }
}

/// Bytes of a document in the largest file of a format. Its ids take `bytes`.
pub(crate) fn bytes_of_document(dtype: Option<Dtype>, bytes: u64, is_empty: bool) -> u64 {
    match dtype {
        Some(_) => bytes,
        // `{"ids":[` and `]}` and a newline; no comma after the last id.
        None => bytes + 11 - u64::from(!is_empty),
    }
}
