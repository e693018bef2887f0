//! What is known of a file that was read.

use serde::{Deserialize, Serialize};

use super::{Compression, Format};

/// A file that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// The meaning of its bytes.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// Its size as stored, in bytes.
    pub bytes: u64,
    /// Its size when decompressed, in bytes.
    pub decompressed_bytes: u64,
    /// BLAKE3 of the stored bytes, in hexadecimal.
    pub blake3: String,
    /// Records delivered, good and bad.
    pub documents: u64,
}
