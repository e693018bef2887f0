//! Stands in for Arrow and Parquet where they are left out.

use std::path::Path;

use super::error::{DatasetError, DatasetErrorKind};
use super::visit::Visitor;
use crate::output::Format;
use crate::shown;

pub(super) fn groups(path: &Path) -> Result<Vec<u64>, DatasetError> {
    Err(missing(Format::Parquet, path))
}

pub(super) fn walk(format: Format, path: &Path, _: Option<usize>, _: Visitor<'_>) -> Result<(), DatasetError> {
    Err(missing(format, path))
}

fn missing(format: Format, path: &Path) -> DatasetError {
    let message = format!("{}: this build does not read {format}", shown(path));
    DatasetError::new(DatasetErrorKind::Missing, message).hint("build windrow with the feature `parquet`")
}
