//! Positions from which another run can continue.

use serde::{Deserialize, Serialize};

use super::digest::Prefix;
use super::report::FileReport;

/// A position between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Index of the file. Files before it are finished.
    pub(crate) file: u32,
    /// The record of the file before this position; none if the file has not begun.
    pub(crate) last: Option<LastRecord>,
}

/// A record, and the state of the file before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRecord {
    /// The record's [`Record::offset`](super::Record::offset).
    pub(crate) offset: u64,
    /// The record's [`Record::line`](super::Record::line).
    pub(crate) line: u64,
    /// Its number in the file, from 1.
    pub(crate) number: u64,
    /// A part of the file that ends at or before its offset, so that this part need not be read again. Empty if the file is compressed.
    pub(crate) prefix: Prefix,
}

/// The position where another run continues, and the reports of the files before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Continuation {
    pub(crate) position: Position,
    pub(crate) reports: Vec<FileReport>,
}

/// The state of a batch's first file before the batch was filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) file: u32,
    /// Number of records of the file in earlier batches.
    pub(super) records: u64,
    pub(super) prefix: Prefix,
}
