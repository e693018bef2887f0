//! Compressions of files.

use serde::{Deserialize, Serialize};

/// The compression of a file.
///
/// ```
/// use windrow_tokenizers::input::{Compression, InputOptions, resolve};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("corpus.jsonl.zst");
/// std::fs::write(&path, "")?;
/// let resolved = resolve(&[path.display().to_string()], &InputOptions::default())?;
/// assert_eq!(resolved.files[0].compression(), Some(Compression::Zstd));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    None,
    /// Gzip (RFC 1952), one or more members.
    Gzip,
    /// Zstandard (RFC 8878), one or more frames.
    Zstd,
    /// xz, one or more streams.
    Xz,
    /// bzip2, one or more streams.
    Bzip2,
}

impl Compression {
    /// Extensions in lower case, and the compression each one names.
    pub(crate) const EXTENSIONS: [(&str, Self); 5] =
        [(".gz", Self::Gzip), (".zst", Self::Zstd), (".zstd", Self::Zstd), (".xz", Self::Xz), (".bz2", Self::Bzip2)];

    /// A file name in lower case without its compression extension, and the compression.
    pub(crate) fn of_name(name: &str) -> (&str, Self) {
        let known = Self::EXTENSIONS.iter().find_map(|&(suffix, found)| Some((name.strip_suffix(suffix)?, found)));
        known.unwrap_or((name, Self::None))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }
}
