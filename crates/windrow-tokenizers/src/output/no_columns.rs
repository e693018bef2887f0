//! Stands in for Arrow and Parquet where they are left out.

use std::convert::Infallible;

use super::error::{OutputError, OutputErrorKind};
use super::file::{Complete, StagedFile, WriteBack};
use super::format::{Dtype, Format};
use super::run::Run;
use crate::kept::Kept;

/// There is none.
#[derive(Debug)]
pub(crate) struct ColumnWriter(Infallible);

impl ColumnWriter {
    pub(crate) fn check(_: Format, _: &[String], _: bool) -> Result<(), OutputError> {
        let error = OutputError::new(OutputErrorKind::Usage, "this build writes neither Arrow nor Parquet");
        Err(error.hint("build windrow with the feature `parquet`, or choose another --format"))
    }

    pub(crate) fn new(format: Format, _: StagedFile, keep: &[String], mask: bool) -> Result<Self, OutputError> {
        Err(Self::check(format, keep, mask).expect_err("always refused"))
    }

    pub(crate) fn append(&mut self, _: Run<'_>) -> Result<(), OutputError> {
        match self.0 {}
    }

    pub(crate) fn append_part(&mut self, _: &[u32]) {
        match self.0 {}
    }

    pub(crate) fn discard_parts(&mut self) {
        match self.0 {}
    }

    pub(crate) fn end_parts(&mut self, _: Option<u32>) -> Result<(), OutputError> {
        match self.0 {}
    }

    pub(crate) fn keep(&mut self, _: &Kept) -> Result<(), OutputError> {
        match self.0 {}
    }

    pub(crate) fn write_back(&mut self) -> Option<WriteBack> {
        match self.0 {}
    }

    pub(crate) fn dtype(&self) -> Dtype {
        match self.0 {}
    }

    pub(crate) fn complete(self) -> Result<Complete, OutputError> {
        match self.0 {}
    }
}
