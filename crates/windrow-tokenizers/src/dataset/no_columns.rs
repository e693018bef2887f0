//! Stands in for Arrow and Parquet where they are left out.

use std::path::Path;

use super::error::{DatasetError, DatasetErrorKind};
use super::visit::Visitor;
use crate::output::Format;
use crate::shown;

pub(super) fn walk(format: Format, path: &Path, _: Visitor<'_>) -> Result<(), DatasetError> {
    let message = format!("{}: this build does not read {format}", shown(path));
    Err(DatasetError::new(DatasetErrorKind::Missing, message).hint("build windrow with the feature `parquet`"))
}
