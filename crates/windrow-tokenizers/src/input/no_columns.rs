//! The place of Parquet in a build without it.

use super::batch::OpenFile;
use super::{Fields, InputError, InputFile};

/// Refuses a Parquet file.
pub(super) fn open(file: InputFile, _: u32, _: &Fields) -> Result<Box<dyn OpenFile>, InputError> {
    let reason = "this build cannot read Parquet".to_owned();
    Err(InputError::Columns { name: file.name, reason, hint: "build windrow with the `parquet` feature" })
}
