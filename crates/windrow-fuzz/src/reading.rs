//! Reads an input as `encode` does.

use windrow_tokenizers::input::{Batch, Fields, InputError, InputFile, Reader, Record, Stopped};

/// More memory than this is not granted, so that a small input that decompresses to much is no finding.
const MEMORY: usize = 64 << 20;

/// Calls `each` for all records, in batches of so many bytes.
pub(crate) fn read(
    file: InputFile,
    fields: &Fields,
    batch_bytes: usize,
    each: &mut dyn FnMut(&Batch, &Record),
) -> Result<(), InputError> {
    let mut reader = Reader::new(vec![file], batch_bytes).fields(fields.clone());
    let mut batch = Batch::default();
    let mut granted = 0_usize;
    loop {
        let mut hold = |bytes: usize| {
            granted = granted.saturating_add(bytes);
            if granted > MEMORY { Err(Stopped) } else { Ok(()) }
        };
        match reader.next_batch(batch, &mut hold)? {
            None => return Ok(()),
            Some(read) => {
                read.records.iter().for_each(|record| each(&read, record));
                granted = 0;
                batch = read;
            }
        }
    }
}

/// The field `text`, and nothing kept.
pub(crate) fn text_field() -> Fields {
    Fields::default()
}
