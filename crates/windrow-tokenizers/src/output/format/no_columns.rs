//! The stand-in for Arrow and Parquet in builds without them.

use super::{Begin, Files, FormatWriter, TokenFiles};
use crate::format::{Dtype, Format};
use crate::output::{OutputError, OutputErrorKind, OutputOptions};
use crate::shard::{DatasetError, DatasetErrorKind, Shard, Visitor};
use crate::shown;

pub(super) struct Columns(pub(super) Format);

impl TokenFiles for Columns {
    fn suffixes(&self) -> &'static [&'static str] {
        if self.0 == Format::Parquet { &[".parquet"] } else { &[".arrow"] }
    }

    fn dtypes(&self) -> &'static [Dtype] {
        if self.0 == Format::ArrowStream { &[Dtype::I32] } else { &[Dtype::U32] }
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn check(&self, _: &OutputOptions) -> Result<(), OutputError> {
        let error = OutputError::new(OutputErrorKind::Usage, "this build can write neither Arrow nor Parquet");
        Err(error.hint("build windrow with the `parquet` feature, or choose another --format"))
    }

    fn begin(&self, _: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        Err(self.check(begin.options).expect_err("always refused"))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, _: Visitor<'_>) -> Result<(), DatasetError> {
        let message = format!("{}: this build cannot read {}", shown(&shard.paths[0]), shard.options.format);
        Err(DatasetError::new(DatasetErrorKind::Missing, message).hint("build windrow with the `parquet` feature"))
    }
}
