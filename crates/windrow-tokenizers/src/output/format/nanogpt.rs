//! nanoGPT's `.bin`: bare ids, with an end-of-text id after each document.

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles};
use crate::format::Dtype;
use crate::output::file::StagedFile;
use crate::output::{OutputError, OutputErrorKind, OutputOptions};
use crate::shard::{BUFFER, DatasetError, Reading, Shard, Visitor};
use crate::values::TokenName;

pub(super) struct Nanogpt;

impl TokenFiles for Nanogpt {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".bin"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::U32]
    }

    fn narrow(&self) -> u32 {
        u32::MAX
    }

    fn remedy(&self, _: Dtype) -> &'static str {
        "pass --dtype u32 (readers of the output must then expect u32) or use --format npy"
    }

    fn check(&self, options: &OutputOptions) -> Result<(), OutputError> {
        let refused = |message: &str, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
        if options.append_eos.is_none() {
            let message = "the nanogpt format ends every document with an end-of-text id, but none is known";
            return refused(message, "pass one with --eos TOKEN|ID, or use --format npy");
        }
        if options.prepend_bos == options.append_eos {
            let message =
                "the nanogpt format ends every document with the end-of-text id, so no document can begin with it";
            return refused(message, "omit --bos, pass another token with --eos, or use --format npy");
        }
        Ok(())
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        Ok(Box::new(NanogptWriter { bin: files.next(), dtype: begin.dtype }))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let (dtype, eos) = (shard.dtype()?, shard.options.eos.as_ref().and_then(TokenName::id));
        let mut data = Reading::open(&shard.paths[0], 0)?;
        let mut left = data.elements(0, dtype.size())?;
        if let Some(pack) = shard.options.pack {
            return data.walk_rows(left, pack.get(), dtype, visit, |_| Vec::new());
        }
        let (mut block, mut ids, mut document) = (Vec::new(), Vec::new(), Vec::new());
        while left > 0 {
            let now = left.min((BUFFER / dtype.size()) as u64);
            data.ids(now, dtype, &mut block, &mut ids)?;
            left -= now;
            for part in ids.split_inclusive(|&id| Some(id) == eos) {
                document.extend_from_slice(part);
                if document.last().copied() == eos && eos.is_some() {
                    if visit(&document).is_break() {
                        return Ok(());
                    }
                    document.clear();
                }
            }
        }
        if document.is_empty() {
            return Ok(());
        }
        Err(DatasetError::damaged(&shard.paths[0], "the last document does not end with an end-of-text id"))
    }
}

#[derive(Debug)]
struct NanogptWriter {
    bin: StagedFile,
    dtype: Dtype,
}

impl FormatWriter for NanogptWriter {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        Some(&mut self.bin)
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.bin.put_ids(ids, self.dtype)
    }

    fn end(&mut self, _: Ending<'_>) -> Result<(), OutputError> {
        Ok(())
    }

    fn finish(self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        Ok(vec![(self.bin.complete()?, Some(self.dtype.name()))])
    }
}
