//! Rows of a fixed number of ids, made of documents.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::format::named;

/// The conversion of documents to rows.
///
/// ```
/// use std::num::NonZeroUsize;
/// use windrow_tokenizers::manifest::{Documents, Manifest, Pack, PackMode};
/// use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let pack = Some(Pack { length: NonZeroUsize::new(4).unwrap(), mode: PackMode::Split, pad: Some(0) });
/// let mut output = Output::create(&OutputOptions { pack, ..OutputOptions::new(&prefix, 300) })?;
/// output.append(&[7, 8, 9, 7, 8], &[3, 5])?;
/// let documents = Documents { read: 2, written: 2, ..Documents::default() };
/// let packed = output.publish(Manifest { documents, ..Manifest::default() })?.packed.expect("it has rows");
/// assert_eq!((packed.rows, packed.padding), (2, 3)); // [7, 8, 9, 7] and [8, 0, 0, 0]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    /// Ids of a row.
    pub length: NonZeroUsize,
    /// The packing mode: documents are cut, or kept whole.
    pub mode: PackMode,
    /// The id that fills incomplete rows. Without it, the incomplete row at the end is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<u32>,
}

impl Pack {
    /// The limit of rows that are incomplete at the same time, if documents are not cut.
    pub const OPEN_ROWS: usize = 256;
}

named! {
    /// The packing modes: documents are cut, or kept whole.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::PackMode;
    ///
    /// assert_eq!("whole".parse::<PackMode>()?, PackMode::Whole);
    /// assert_eq!(PackMode::default().to_string(), "split");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Default)]
    PackMode, "packing mode":
    /// The documents, one after another, are cut into rows. Only the last row may be incomplete.
    #[default]
    Split = "split",
    /// No document is cut unless it is longer than a row. Incomplete rows are filled.
    Whole = "whole",
}

/// The result of packing the documents.
///
/// ```
/// use std::num::NonZeroUsize;
/// use windrow_tokenizers::manifest::{Documents, Manifest, Pack, PackMode, Packed};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let pack = Some(Pack { length: NonZeroUsize::new(4).unwrap(), mode: PackMode::Split, pad: None });
/// let mut output = Output::create(&OutputOptions { pack, ..OutputOptions::new(&prefix, 300) })?;
/// output.append(&[7, 8, 9, 7, 8], &[5])?;
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// let packed = output.publish(Manifest { documents, ..Manifest::default() })?.packed;
/// assert_eq!(packed, Some(Packed { rows: 1, padding: 0, dropped: 1 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// Complete rows.
    pub rows: u64,
    /// Ids that fill rows, and belong to no document.
    pub padding: u64,
    /// Ids of documents that are in no row: the ids of the last row, if it is incomplete and nothing fills it.
    pub dropped: u64,
}

/// The document number of padding.
pub(crate) const PADDING: i64 = -1;

/// Consecutive ids of one row and one document: the number of the document, and the number of ids.
pub(crate) type Segment = (i64, usize);

/// Consecutive rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) ids: Vec<u32>,
    /// The mask of each id, if there are masks.
    pub(crate) mask: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
}

/// Turns documents into rows.
///
/// A whole document goes to the incomplete row with the least sufficient space, the oldest among equals. If no row has enough and
/// [`Pack::OPEN_ROWS`] rows are incomplete, the fullest one is filled with padding, so memory is bounded.
#[derive(Debug)]
pub(crate) struct Packer {
    pack: Pack,
    /// Incomplete rows, the oldest first.
    open: Vec<Rows>,
    documents: u64,
    counts: Packed,
    /// Complete rows that were not taken yet.
    ready: Rows,
}

impl Packer {
    pub(crate) fn new(pack: Pack) -> Self {
        Self { pack, open: Vec::new(), documents: 0, counts: Packed::default(), ready: Rows::default() }
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Packed {
        self.counts
    }

    /// The complete rows that were not taken yet.
    pub(crate) fn ready(&self) -> &Rows {
        &self.ready
    }

    pub(crate) fn take(&mut self) -> Rows {
        std::mem::take(&mut self.ready)
    }

    /// Adds the next document.
    pub(crate) fn push(&mut self, ids: &[u32], mut mask: &[u8]) {
        let document = self.documents as i64;
        self.documents += 1;
        let length = self.pack.length.get();
        let mut rest = ids;
        while !rest.is_empty() {
            let (row, most) = match self.pack.mode {
                PackMode::Split => (0, length - self.open.first().map_or(0, |row| row.ids.len())),
                PackMode::Whole => (self.row_for(rest.len().min(length)), length),
            };
            if row == self.open.len() {
                self.open.push(Rows::default());
            }
            let (piece, later) = rest.split_at(rest.len().min(most));
            rest = later;
            self.open[row].ids.extend_from_slice(piece);
            let (masks, later) = mask.split_at(mask.len().min(most));
            mask = later;
            self.open[row].mask.extend_from_slice(masks);
            self.open[row].segments.push((document, piece.len()));
            if self.open[row].ids.len() == length {
                self.complete(row);
            }
        }
    }

    /// The index of the row for a piece; a new row if the index is past the last.
    fn row_for(&mut self, piece: usize) -> usize {
        let length = self.pack.length.get();
        let space = |row: &Rows| length - row.ids.len();
        let fits = self.open.iter().enumerate().filter(|(_, row)| space(row) >= piece);
        if let Some((index, _)) = fits.min_by_key(|&(index, row)| (space(row), index)) {
            return index;
        }
        if self.open.len() == Pack::OPEN_ROWS {
            let fullest = self.open.iter().enumerate().min_by_key(|&(index, row)| (space(row), index));
            self.complete(fullest.map_or(0, |(index, _)| index));
        }
        self.open.len()
    }

    /// Fills a row, and moves it to the complete ones.
    fn complete(&mut self, row: usize) {
        let Rows { ids, mask, segments } = self.open.remove(row);
        let missing = self.pack.length.get() - ids.len();
        self.ready.ids.extend(ids);
        if !mask.is_empty() {
            self.ready.mask.extend(mask);
            self.ready.mask.resize(self.ready.mask.len() + missing, 0);
        }
        self.ready.segments.extend(segments);
        if missing > 0 {
            self.ready.ids.resize(self.ready.ids.len() + missing, self.pack.pad.unwrap_or(0));
            self.ready.segments.push((PADDING, missing));
        }
        self.counts.padding += missing as u64;
        self.counts.rows += 1;
    }

    /// Completes the incomplete rows, or drops the last one if nothing fills it.
    pub(crate) fn finish(&mut self) {
        while let Some(first) = self.open.first() {
            if self.pack.pad.is_some() {
                self.complete(0);
            } else {
                self.counts.dropped += first.ids.len() as u64;
                self.open.remove(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lengths: &[usize], pack: Pack) -> (Vec<Vec<Segment>>, Packed) {
        let mut packer = Packer::new(pack);
        for (number, &length) in lengths.iter().enumerate() {
            packer.push(&vec![number as u32; length], &[]);
            assert!(packer.open.len() <= Pack::OPEN_ROWS);
        }
        packer.finish();
        let Rows { ids, segments, .. } = packer.take();
        assert_eq!(ids.len(), packer.counts().rows as usize * pack.length.get());
        let (mut rows, mut end) = (vec![Vec::new(); ids.len() / pack.length.get()], 0);
        for (document, length) in segments {
            let expected = u32::try_from(document).unwrap_or(99_999);
            assert!(ids[end..end + length].iter().all(|&id| id == expected));
            rows[end / pack.length.get()].push((document, length));
            end += length;
        }
        (rows, packer.counts())
    }

    #[test]
    fn whole_documents_go_to_the_fullest_row_that_has_space() {
        let pack = Pack { length: NonZeroUsize::new(10).unwrap(), mode: PackMode::Whole, pad: Some(99_999) };
        let (found, counts) = rows(&[6, 3, 7, 1, 0, 23, 4], pack);
        let expected: [&[Segment]; 5] =
            [&[(0, 6), (1, 3), (3, 1)], &[(5, 10)], &[(5, 10)], &[(2, 7), (5, 3)], &[(6, 4), (-1, 6)]];
        assert_eq!(found, expected);
        assert_eq!(counts, Packed { rows: 5, padding: 6, dropped: 0 });
    }

    #[test]
    fn a_full_window_gives_up_its_fullest_row() {
        let pack = Pack { length: NonZeroUsize::new(1_000).unwrap(), mode: PackMode::Whole, pad: Some(99_999) };
        // No two documents fit together.
        let lengths: Vec<usize> = (0..Pack::OPEN_ROWS + 2).map(|number| 501 + number).collect();
        let (found, counts) = rows(&lengths, pack);
        assert_eq!(found.len(), lengths.len());
        let firsts: Vec<i64> = found[..3].iter().map(|row| row[0].0).collect();
        assert_eq!(firsts, [Pack::OPEN_ROWS as i64 - 1, Pack::OPEN_ROWS as i64, 0]);
        assert_eq!(counts.padding as usize, lengths.iter().map(|length| 1_000 - length).sum::<usize>());
    }

    #[test]
    fn without_padding_the_row_at_the_end_is_dropped() {
        let pack = Pack { length: NonZeroUsize::new(4).unwrap(), mode: PackMode::Split, pad: None };
        let (found, counts) = rows(&[3, 0, 6, 2], pack);
        assert_eq!(found, [vec![(0, 3), (2, 1)], vec![(2, 4)]]);
        assert_eq!(counts, Packed { rows: 2, padding: 0, dropped: 3 });
    }
}
