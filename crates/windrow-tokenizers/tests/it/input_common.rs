//! Helpers for the tests of the input side.

use std::io::Write;

use windrow_tokenizers::input::{Batch, Compression, FileReport, Format, InputError, InputFile, Reader};

/// A record with its bytes: (file, line, offset, bytes).
pub(crate) type Owned = (u32, u64, u64, Vec<u8>);

/// All records and reports of a reader.
pub(crate) fn read_all(files: Vec<InputFile>, batch_bytes: usize) -> Result<(Vec<Owned>, Vec<FileReport>), InputError> {
    read_with(Reader::new(files, batch_bytes), batch_bytes)
}

/// The same, of a reader with batches of `batch_bytes` bytes.
pub(crate) fn read_with(mut reader: Reader, batch_bytes: usize) -> Result<(Vec<Owned>, Vec<FileReport>), InputError> {
    let mut records = Vec::new();
    let mut recycled = Batch::default();
    loop {
        let mut granted = 0;
        let mut hold = |bytes| {
            granted += bytes;
            Ok(())
        };
        let Some(batch) = reader.next_batch(recycled, &mut hold)? else { break };
        assert_eq!(batch.held, granted, "what was asked for is what the batch says");
        let used = batch.bytes.capacity() + batch.records.capacity() * size_of_val(&batch.records[0]);
        assert!(used <= granted, "{used} bytes in memory, {granted} were asked for");
        let total: usize = batch.records.iter().map(|record| record.len).sum();
        assert!(total <= batch_bytes || batch.records.len() == 1, "only a single record may exceed the batch size");
        records.extend(
            batch
                .records
                .iter()
                .map(|record| (record.file, record.line, record.offset, batch.bytes_of(record).to_vec())),
        );
        recycled = batch;
    }
    Ok((records, reader.reports().to_vec()))
}

/// The records of one uncompressed file in memory.
pub(crate) fn records_of(bytes: &[u8], format: Format) -> Vec<Owned> {
    read_all(vec![in_memory(bytes, format, Compression::None)], 1 << 16).unwrap().0
}

pub(crate) fn in_memory(bytes: &[u8], format: Format, compression: Compression) -> InputFile {
    InputFile::from_reader("memory", std::io::Cursor::new(bytes.to_vec()), format, Some(compression))
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One xz stream, as `xz` writes it.
pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    liblzma::encode_all(bytes, 1).unwrap()
}

/// One bzip2 stream.
pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One zstd frame with a checksum.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
