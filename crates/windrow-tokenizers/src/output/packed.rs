//! Packing of documents into rows, and the files with the places of the documents.

use super::error::{OutputError, OutputErrorKind};
use super::file::{Complete, StagedFile};
use super::format::{NPY_HEADER, npy_header};
use super::options::OutputOptions;
use crate::pack::{PADDING, Pack, PackMode, Packed, Packer, Rows, Segment};

/// The number of ids with which complete rows are passed on.
const PASSED_ON: usize = 1 << 16;

/// Maximum number of ids of a row: 1 GiB, as for a document of mds.
const LONGEST: usize = 1 << 28;

/// Refuses outputs that cannot be packed.
pub(super) fn check(pack: Pack, options: &OutputOptions) -> Result<(), OutputError> {
    let refused = |message: &str, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
    if pack.mode == PackMode::Whole && pack.pad.is_none() {
        return refused("rows of whole documents need a padding id", "pass one with --pad, such as the end-of-text id");
    }
    if pack.length.get() > LONGEST {
        let message = format!("rows of {} ids are too long", pack.length);
        return refused(&message, &format!("use rows of {LONGEST} ids or fewer"));
    }
    if options.resume {
        let message =
            "a packed output cannot be resumed: a row can hold the end of one document and the beginning of the next";
        return refused(message, "omit --resume or --pack");
    }
    if !options.keep.is_empty() && (options.shard_bytes.is_some() || options.format.has_columns()) {
        let message = "when rows hold several documents, fields cannot be kept in columns or in shards";
        return refused(message, "omit --keep; or omit --shard-size and use a --format without columns");
    }
    Ok(())
}

/// The two files of segments: the ends of all segments in the rows, and the number of the document of each.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    ends: StagedFile,
    documents: StagedFile,
    segments: u64,
    ids: u64,
}

impl SegmentFiles {
    pub(crate) fn new(mut ends: StagedFile, mut documents: StagedFile) -> Result<Self, OutputError> {
        documents.put(|bytes| bytes.extend_from_slice(&[0; NPY_HEADER]))?;
        ends.put(|bytes| {
            bytes.extend_from_slice(&[0; NPY_HEADER]);
            bytes.extend_from_slice(&0u64.to_le_bytes());
        })?;
        Ok(Self { ends, documents, segments: 0, ids: 0 })
    }

    fn put(&mut self, (document, length): Segment) -> Result<(), OutputError> {
        self.segments += 1;
        self.ids += length as u64;
        let end = self.ids;
        self.ends.put(|bytes| bytes.extend_from_slice(&end.to_le_bytes()))?;
        self.documents.put(|bytes| bytes.extend_from_slice(&document.to_le_bytes()))
    }

    fn complete(mut self) -> Result<[(Complete, Option<&'static str>); 2], OutputError> {
        self.ends.replace_head(&npy_header("<u8", self.segments + 1))?;
        self.documents.replace_head(&npy_header("<i8", self.segments))?;
        Ok([(self.ends.complete()?, Some("u64")), (self.documents.complete()?, Some("i64"))])
    }
}

/// The documents of a part that are packed into rows.
#[derive(Debug)]
pub(crate) struct Packing {
    packer: Packer,
    /// The files of the open shard, if there are shards.
    pub(crate) files: Option<SegmentFiles>,
    /// The segments of the rows that are appended next.
    due: Vec<Segment>,
}

impl Packing {
    pub(crate) fn new(pack: Pack) -> Self {
        Self { packer: Packer::new(pack), files: None, due: Vec::new() }
    }

    pub(crate) fn counts(&self) -> Packed {
        self.packer.counts()
    }

    /// Adds a document.
    pub(crate) fn push(&mut self, ids: &[u32], mask: &[u8]) {
        self.packer.push(ids, mask);
    }

    /// The complete rows, once the documents have ended or the rows have enough ids. Their segments are then due.
    pub(crate) fn take(&mut self, at_end: bool) -> Rows {
        if at_end {
            self.packer.finish();
        } else if self.packer.ready().ids.len() < PASSED_ON {
            return Rows::default();
        }
        let mut rows = self.packer.take();
        self.due.append(&mut rows.segments);
        rows
    }

    /// Writes the segments of the appended rows, which have `ids` ids. Returns the number of ids without padding.
    pub(crate) fn put_segments(&mut self, ids: usize) -> Result<u64, OutputError> {
        let (mut left, mut count, mut padding) = (ids, 0, 0);
        let files = self.files.as_mut().expect("open as long as the row file is open");
        while left > 0 {
            let (document, length) = self.due[count];
            files.put((document, length))?;
            padding += if document == PADDING { length } else { 0 };
            (left, count) = (left - length, count + 1);
        }
        self.due.drain(..count);
        Ok((ids - padding) as u64)
    }

    pub(crate) fn complete(&mut self) -> Result<Vec<(Complete, Option<&'static str>)>, OutputError> {
        self.files.take().map_or(Ok(Vec::new()), |files| Ok(files.complete()?.into()))
    }
}
