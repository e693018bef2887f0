//! Placeholders for Parquet, in a build without it.

use std::convert::Infallible;

use super::batch::{Advance, Filling};
use super::position::{self, LastRecord};
use super::report::FileReport;
use super::{Fields, InputError, InputFile};

/// An open Parquet file. No value exists without the feature `parquet`.
pub(super) struct ColumnFile(Infallible);

impl ColumnFile {
    pub(super) fn open(file: InputFile, _: u32, _: &Fields) -> Result<Self, InputError> {
        let reason = "this build does not read Parquet".to_owned();
        Err(InputError::Columns { name: file.name, reason, hint: "build windrow with the feature `parquet`" })
    }

    pub(super) fn stored(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn origin(&self) -> position::Origin {
        match self.0 {}
    }

    pub(super) fn pass(&mut self, _: &LastRecord, _: &mut Filling<'_>) -> Result<(), InputError> {
        match self.0 {}
    }

    pub(super) fn advance(&mut self, _: &mut Filling<'_>) -> Result<Advance, InputError> {
        match self.0 {}
    }

    pub(super) fn close(self) -> Result<FileReport, InputError> {
        match self.0 {}
    }
}
