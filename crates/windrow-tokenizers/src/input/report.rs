//! Reports of files that were read.

use serde::{Deserialize, Serialize};

use super::{Compression, Format};

/// A file that was read to its end.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Compression, Format, InputFile, Reader};
///
/// let file = InputFile::from_reader("memory", &b"one\ntwo"[..], Format::Lines, None);
/// let mut reader = Reader::new(vec![file], 1 << 20);
/// while reader.next_batch(Batch::default(), &mut |_| Ok(()))?.is_some() {}
/// let report = &reader.reports()[0];
/// assert_eq!((report.bytes, report.documents, report.compression), (7, 2, Compression::None));
/// # Ok::<(), windrow_tokenizers::input::InputError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Name of the file.
    pub name: String,
    /// Format of the decompressed bytes.
    pub format: Format,
    /// Compression of the stored bytes.
    pub compression: Compression,
    /// Size as stored, in bytes.
    pub bytes: u64,
    /// Size when decompressed, in bytes.
    pub decompressed_bytes: u64,
    /// BLAKE3 of the stored bytes, in hexadecimal.
    pub blake3: String,
    /// Number of records delivered, good and bad.
    pub documents: u64,
}
