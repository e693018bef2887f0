//! The names of formats, of element types and of other choices. [`output`](crate::output) defines their meaning.

use serde::{Deserialize, Serialize};

/// An unknown name of a format, element type or packing mode. A second line `hint: ...` lists the known names.
///
/// ```
/// use windrow_tokenizers::output::Format;
///
/// let error = "nmpy".parse::<Format>().unwrap_err().to_string();
/// assert!(error.starts_with("no such output format: \"nmpy\"\nhint: use one of npy, "), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\nhint: {hint}")]
pub struct UnknownName {
    pub(crate) message: String,
    pub(crate) hint: String,
}

macro_rules! named {
    ($(#[$meta:meta])* $type:ident, $what:literal: $($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// All values, in the order of help texts.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name on the command line and in manifests.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::format::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| $crate::format::UnknownName {
                    message: format!(concat!("no such ", $what, ": {:?}"), name),
                    hint: format!("use one of {}", [$($name),*].join(", ")),
                })
            }
        }
    };
}
pub(crate) use named;

named! {
    /// The layout of token files. All numbers are little endian.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Format, OutputOptions};
    ///
    /// let format: Format = "megatron".parse()?;
    /// assert_eq!(format.suffixes(), [".bin", ".idx"]);
    /// let options = OutputOptions { format, ..OutputOptions::new("out/corpus", 50_257) };
    /// let files = ["out/corpus.bin", "out/corpus.idx", "out/corpus.manifest.json"];
    /// assert_eq!(options.targets(), files.map(std::path::PathBuf::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Default)]
    Format, "output format":
    /// `OUT.ids.npy` (all ids, flat) and `OUT.offsets.npy` (u64, one more than the number of documents, the first 0): document `i` is
    /// `ids[offsets[i]..offsets[i + 1]]`.
    #[default]
    Npy = "npy",
    /// `OUT.bin`: bare ids, with an end-of-text id after each document, even an empty one.
    Nanogpt = "nanogpt",
    /// `OUT.bin` and `OUT.idx` of Megatron's indexed dataset: one sequence per document, even an empty one; no modes.
    Megatron = "megatron",
    /// `OUT.ds`, `OUT.ds.index` and `OUT.ds.metadata` of datatrove: bare ids; the end of each document, in ids, as u64; the name of the
    /// tokenizer and the number of ids as text.
    Datatrove = "datatrove",
    /// A folder for MosaicML's streaming: `OUT/shard.00000.mds` and so on, and `OUT/index.json`. A sample per document, with a column
    /// `tokens`, an array in one dimension, and a column of JSON for each kept field. It always has shards.
    Mds = "mds",
    /// `OUT.jsonl`: a line `{"ids":[...]}` per document.
    Jsonl = "jsonl",
    /// `OUT.tar` for WebDataset: a sample per document, `000000000.ids.npy` and so on, with `.mask.npy` for masks and `.kept.json` for kept
    /// fields.
    Webdataset = "webdataset",
    /// `OUT.arrow`, an Arrow IPC file: a row per document, with a column `ids` of large lists of u32 and a column of strings for each kept
    /// field. (Needs the feature `parquet`.)
    Arrow = "arrow",
    /// `OUT.arrow`, an Arrow IPC stream that `datasets.Dataset.from_file` reads: a column `input_ids` of lists of i32 instead of `ids`, and
    /// columns of strings. (Needs the feature `parquet`.)
    #[serde(rename = "arrow-stream")]
    ArrowStream = "arrow-stream",
    /// `OUT.parquet`: the columns of `arrow`, compressed by zstd. (Needs the feature `parquet`.)
    Parquet = "parquet",
}

named! {
    /// The element type of ids in a binary format.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Dtype, OutputOptions};
    ///
    /// assert_eq!(OutputOptions::new("corpus", 50_257).element_type()?, Some(Dtype::U16));
    /// assert_eq!(OutputOptions::new("corpus", 100_277).element_type()?, Some(Dtype::U32));
    /// assert_eq!((Dtype::U16.size(), Dtype::U16.largest()), (2, 65_535));
    /// # Ok::<(), windrow_tokenizers::output::OutputError>(())
    /// ```
    Dtype, "element type":
    /// Unsigned, 2 bytes.
    U16 = "u16",
    /// Unsigned, 4 bytes.
    U32 = "u32",
    /// Signed, 4 bytes; never negative here.
    I32 = "i32",
}

impl Dtype {
    /// Bytes per id.
    pub fn size(self) -> usize {
        match self {
            Self::U16 => 2,
            Self::U32 | Self::I32 => 4,
        }
    }

    /// The largest id that fits.
    pub fn largest(self) -> u32 {
        match self {
            Self::U16 => u16::MAX.into(),
            Self::U32 => u32::MAX,
            Self::I32 => i32::MAX as u32,
        }
    }

    /// The name of the type for numpy.
    pub(crate) fn descr(self) -> &'static str {
        match self {
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::I32 => "<i4",
        }
    }

    /// True if all of `ids` fit, in one pass that the compiler can vectorize. `largest` is all ones, so an id is larger exactly if it
    /// has a bit above it.
    pub(crate) fn fits(self, ids: &[u32]) -> bool {
        ids.iter().fold(0, |bits, id| bits | id) <= self.largest()
    }

    /// Appends `ids`, which fit, to `bytes`.
    pub(crate) fn put(self, ids: &[u32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + ids.len() * self.size(), 0);
        match self {
            Self::U16 => {
                for (slot, id) in bytes[start..].as_chunks_mut().0.iter_mut().zip(ids) {
                    *slot = (*id as u16).to_le_bytes();
                }
            }
            Self::U32 | Self::I32 => {
                for (slot, id) in bytes[start..].as_chunks_mut().0.iter_mut().zip(ids) {
                    *slot = id.to_le_bytes();
                }
            }
        }
    }

    /// Appends the ids in `bytes`, whose length is a multiple of the id size.
    pub(crate) fn get(self, bytes: &[u8], ids: &mut Vec<u32>) {
        match self {
            Self::U16 => ids.extend(bytes.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))),
            Self::U32 | Self::I32 => ids.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))),
        }
    }
}
