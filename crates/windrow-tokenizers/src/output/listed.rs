//! The list of skipped documents.

use super::error::OutputError;
use super::file::StagedFile;
use crate::manifest::{SKIPPED_IN_MANIFEST, SkippedDocument};

/// Continues the list of skipped documents after its first `bytes`. Also returns the first documents of the list.
pub(super) fn resume_list(list: StagedFile, bytes: u64) -> Result<(StagedFile, Vec<SkippedDocument>), OutputError> {
    let (mut first, mut line) = (Vec::new(), Vec::new());
    let list = list.resume(bytes, |block| {
        for part in block.split_inclusive(|&byte| byte == b'\n') {
            if first.len() == SKIPPED_IN_MANIFEST {
                return;
            }
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                first.extend(serde_json::from_slice::<SkippedDocument>(&line));
                line.clear();
            }
        }
    })?;
    Ok((list, first))
}
