//! Where one shard ends and the next begins.

use super::format::Dtype;
use super::progress::ProgressWriter;
use crate::manifest::OutputFile;

/// The shards of an output. A shard ends with the document that brings its token data to the limit, so the bounds depend on the
/// documents alone.
#[derive(Debug)]
pub(crate) struct Shards {
    /// In bytes.
    limit: u64,
    /// The files of the finished shards.
    pub(crate) finished: Vec<Vec<OutputFile>>,
    /// Documents in the open shard, and bytes of their token data.
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) record: Option<ProgressWriter>,
}

impl Shards {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, finished: Vec::new(), documents: 0, bytes: 0, record: None }
    }

    /// Whether the open shard takes no more documents.
    pub(crate) fn is_full(&self) -> bool {
        self.documents > 0 && self.bytes >= self.limit
    }

    /// The number of documents up to the one that ends the open shard, or the next one if the open shard is full. `sizes` are those of
    /// their token data in bytes.
    pub(crate) fn end_in(&self, sizes: impl IntoIterator<Item = u64>) -> Option<usize> {
        let mut bytes = if self.is_full() { 0 } else { self.bytes };
        let reaches = |size: u64| {
            bytes += size;
            bytes >= self.limit
        };
        sizes.into_iter().map(reaches).position(|is_last| is_last).map(|index| index + 1)
    }

    /// Counts documents of the open shard.
    pub(crate) fn add(&mut self, documents: u64, bytes: u64) {
        self.documents += documents;
        self.bytes += bytes;
    }

    /// The open shard is finished.
    pub(crate) fn finish(&mut self, files: Vec<OutputFile>) {
        self.finished.push(files);
        (self.documents, self.bytes) = (0, 0);
    }
}

/// Bytes of some ids in the largest file of a format; with commas if they are text.
pub(crate) fn bytes_of_ids(dtype: Option<Dtype>, ids: &[u32]) -> u64 {
    match dtype {
        Some(dtype) => (ids.len() * dtype.size()) as u64,
        None => ids.iter().map(|id| u64::from(id.checked_ilog10().unwrap_or(0)) + 2).sum(),
    }
}

/// Bytes of a document there, whose ids have `bytes`.
pub(crate) fn bytes_of_document(dtype: Option<Dtype>, bytes: u64, is_empty: bool) -> u64 {
    match dtype {
        Some(_) => bytes,
        // `{"ids":[` and `]}` and a newline; no comma behind the last id.
        None => bytes + 11 - u64::from(!is_empty),
    }
}
