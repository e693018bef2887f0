//! The files of an output, or of a shard, that begin.

use super::error::OutputError;
use super::file::StagedFile;
use super::format::Dtype;
use super::mask::{MaskHeader, MaskWriter};
use super::options::OutputOptions;
use super::packed::{Packing, SegmentFiles};
use super::sidecar::Sidecar;
use super::writer::Writer;

/// The writers of these staged files, the last of which may be for masks, segments and kept fields.
pub(super) fn opened(
    options: &OutputOptions,
    dtype: Option<Dtype>,
    mut files: Vec<StagedFile>,
    packing: &mut Option<Packing>,
) -> Result<(Writer, Option<MaskWriter>, Option<Sidecar>), OutputError> {
    let sidecar = if options.has_sidecar() { files.pop() } else { None };
    if let Some(packing) = packing
        && let Some((documents, ends)) = files.pop().zip(files.pop())
    {
        packing.files = Some(SegmentFiles::new(ends, documents)?);
    }
    let row = options.pack.map(|pack| pack.length.get());
    let mask = if options.has_mask_file() { files.pop() } else { None };
    let header = MaskHeader::new(options.format, row);
    let mask = mask.map(|file| MaskWriter::new(file, header)).transpose()?;
    let writer = Writer::new(options.format, dtype, files, &options.keep, options.mask, row, options.shard_limit())?;
    Ok((writer, mask, sidecar.map(|file| Sidecar::new(file, &options.keep))))
}
