//! The places of the documents of a packed output.

use std::path::Path;

use crate::counted;
use crate::output::{NPY_HEADER, npy_header};
use crate::pack::{PADDING, Pack, Segment};
use crate::shard::{DatasetError, Reading, Shard};

/// The segments of a shard, in order.
pub(super) struct Segments<'s> {
    ends: Reading<'s>,
    documents: Reading<'s>,
    path: &'s Path,
    /// The segments that were not read.
    left: u64,
    number: u64,
    end: u64,
    row: Vec<Segment>,
}

impl<'s> Segments<'s> {
    pub(super) fn open(shard: &'s Shard<'_>) -> Result<Self, DatasetError> {
        let [path, other] = shard.segment_paths();
        let (mut ends, mut documents) = (Reading::open(path, 0)?, Reading::open(other, 0)?);
        let left = ends.elements(NPY_HEADER + 8, 8)?;
        ends.check_header(&npy_header("<u8", left + 1))?;
        documents.elements(NPY_HEADER, 8)?;
        documents.check_header(&npy_header("<i8", left))?;
        match ends.next_u64()? {
            0 => Ok(Self { ends, documents, path, left, number: 0, end: 0, row: Vec::new() }),
            begin => Err(DatasetError::damaged(path, format_args!("end 0 is {begin}, not 0"))),
        }
    }

    /// The segments of the next row, which has `ids` ids.
    pub(super) fn row(&mut self, ids: usize) -> Result<&[Segment], DatasetError> {
        let row_end = self.end + ids as u64;
        self.row.clear();
        while self.end < row_end {
            self.number += 1;
            let wrong =
                |what: String| Err(DatasetError::damaged(self.path, format_args!("end {}: {what}", self.number)));
            if self.left == 0 {
                return wrong(format!("it is missing, but the ids from index {} on belong to no segment", self.end));
            }
            self.left -= 1;
            let (end, document) = (self.ends.next_u64()?, self.documents.next_u64()? as i64);
            if end <= self.end {
                return wrong(format!("{end} is not greater than the previous end, {}", self.end));
            }
            if end > row_end {
                return wrong(format!("{end} is beyond the end of its row, {row_end}"));
            }
            self.row.push((document, (end - self.end) as usize));
            self.end = end;
        }
        Ok(&self.row)
    }

    /// Checks the ids of the next [`row`](Self::row). Refuses documents that do not exist, and padding with other ids.
    pub(super) fn check_row(&mut self, ids: &[u32], pack: Pack, documents: u64) -> Result<(), DatasetError> {
        let (path, number) = (self.path, self.number);
        let mut begin = 0;
        for (index, &(document, length)) in self.row(ids.len())?.iter().enumerate() {
            let segment = number + index as u64;
            let ids = &ids[begin..begin + length];
            begin += length;
            let exists = u64::try_from(document).is_ok_and(|document| document < documents);
            if document != PADDING && !exists {
                let what = format_args!(
                    "segment {segment} belongs to document {document}, but the number of documents is {documents}"
                );
                return Err(DatasetError::damaged(path, what));
            }
            if document == PADDING && ids.iter().any(|&id| Some(id) != pack.pad) {
                return Err(DatasetError::damaged(
                    path,
                    format_args!("segment {segment} is marked as padding but contains other ids"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses segments after the last row.
    pub(super) fn check_end(&self) -> Result<(), DatasetError> {
        match self.left {
            0 => Ok(()),
            left => {
                let what = format!("the last row is followed by {}", counted(left, "segment"));
                Err(DatasetError::damaged(self.path, what))
            }
        }
    }
}
