//! Places where another run can continue to read.

use serde::{Deserialize, Serialize};

use super::digest::Prefix;
use super::report::FileReport;

/// A place between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Index of the file. Those before it are finished.
    pub(crate) file: u32,
    /// The record of the file before this place; none if the file has not begun.
    pub(crate) last: Option<LastRecord>,
}

/// A record, and what is known about the file before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRecord {
    /// As [`Record::offset`](super::Record::offset).
    pub(crate) offset: u64,
    /// As [`Record::line`](super::Record::line).
    pub(crate) line: u64,
    /// Its number in the file, from 1.
    pub(crate) number: u64,
    /// A part of the file that ends at or before its offset, so that this part need not be read again. Empty if the file is compressed.
    pub(crate) prefix: Prefix,
}

/// Where another run continues, and the reports of the files before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Continuation {
    pub(crate) position: Position,
    pub(crate) reports: Vec<FileReport>,
}

/// What was known about the first file of a batch before it was filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) file: u32,
    /// Records of the file in the batches before.
    pub(super) records: u64,
    pub(super) prefix: Prefix,
}
