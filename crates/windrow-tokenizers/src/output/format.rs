//! Formats, their element types, and the vocabularies that fit.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{OutputError, OutputErrorKind};

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
/// # Ok::<(), windrow_tokenizers::output::OutputError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Format {
    /// `OUT.ids.npy` (all ids, flat) and `OUT.offsets.npy` (u64, one more than the number of documents, the first 0): document `i` is
    /// `ids[offsets[i]..offsets[i + 1]]`.
    #[default]
    Npy,
    /// `OUT.bin`: bare ids, with an end-of-text id after each document, even an empty one.
    Nanogpt,
    /// `OUT.bin` and `OUT.idx` of Megatron's indexed dataset: one sequence per document, even an empty one; no modes.
    Megatron,
    /// `OUT.ds`, `OUT.ds.index` and `OUT.ds.metadata` of datatrove: bare ids; the end of each document, in ids, as u64; the name of the
    /// tokenizer and the number of ids as text.
    Datatrove,
    /// A folder for MosaicML's streaming: `OUT/shard.00000.mds` and so on, and `OUT/index.json`. A sample per document, with a column
    /// `tokens`, an array in one dimension, and a column of JSON for each kept field. It always has shards.
    Mds,
    /// `OUT.jsonl`: a line `{"ids":[...]}` per document.
    Jsonl,
    /// `OUT.arrow`, an Arrow IPC file: a row per document, with a column `ids` of large lists of u32 and a column of strings for each kept
    /// field. (Needs the feature `parquet`.)
    Arrow,
    /// `OUT.arrow`, an Arrow IPC stream that `datasets.Dataset.from_file` reads: a column `input_ids` of lists of i32 instead of `ids`, and
    /// columns of strings. (Needs the feature `parquet`.)
    #[serde(rename = "arrow-stream")]
    ArrowStream,
    /// `OUT.parquet`: the columns of `arrow`, compressed by zstd. (Needs the feature `parquet`.)
    Parquet,
}

impl Format {
    /// Every format, in the order in which help texts list them.
    pub const ALL: [Self; 9] = [
        Self::Npy,
        Self::Nanogpt,
        Self::Megatron,
        Self::Datatrove,
        Self::Mds,
        Self::Jsonl,
        Self::Arrow,
        Self::ArrowStream,
        Self::Parquet,
    ];

    /// The name on the command line and in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npy => "npy",
            Self::Nanogpt => "nanogpt",
            Self::Megatron => "megatron",
            Self::Datatrove => "datatrove",
            Self::Mds => "mds",
            Self::Jsonl => "jsonl",
            Self::Arrow => "arrow",
            Self::ArrowStream => "arrow-stream",
            Self::Parquet => "parquet",
        }
    }

    /// The suffix of each data file, appended to the prefix. Of `Mds` that of the index, which follows the shards.
    pub fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Npy => &[".ids.npy", ".offsets.npy"],
            Self::Nanogpt => &[".bin"],
            Self::Megatron => &[".bin", ".idx"],
            Self::Mds => &["/index.json"],
            Self::Datatrove => &[".ds", ".ds.index", ".ds.metadata"],
            Self::Jsonl => &[".jsonl"],
            Self::Arrow | Self::ArrowStream => &[".arrow"],
            Self::Parquet => &[".parquet"],
        }
    }

    /// Whether kept fields are columns beside the ids, not a separate file.
    pub fn has_columns(self) -> bool {
        matches!(self, Self::Mds | Self::Arrow | Self::ArrowStream | Self::Parquet)
    }

    /// Whether masks have a file, and are neither columns nor in the lines.
    pub(crate) fn has_mask_file(self) -> bool {
        !self.has_columns() && self != Self::Jsonl
    }

    /// The element type for a vocabulary whose largest id is `largest`, or why none fits. `Jsonl` has none.
    pub(crate) fn dtype(self, requested: Option<Dtype>, largest: u32) -> Result<Option<Dtype>, OutputError> {
        let usage = |message: String| OutputError::new(OutputErrorKind::Usage, message);
        let allowed: &[Dtype] = match self {
            Self::Npy => &[Dtype::U16, Dtype::U32, Dtype::I32],
            Self::Nanogpt | Self::Datatrove | Self::Mds => &[Dtype::U16, Dtype::U32],
            Self::Megatron => &[Dtype::U16, Dtype::I32],
            Self::Jsonl => &[],
            Self::Arrow | Self::Parquet => &[Dtype::U32],
            Self::ArrowStream => &[Dtype::I32],
        };
        if let Some(dtype) = requested.filter(|dtype| !allowed.contains(dtype)) {
            let error = usage(format!("the {self} format cannot hold {dtype} ids"));
            return Err(match allowed {
                [] => error.hint("leave out --dtype: its numbers are decimal text"),
                _ => error.hint(format!(
                    "leave out --dtype or give one of {}",
                    allowed.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
                )),
            });
        }
        let dtype = match (self, requested) {
            (Self::Jsonl, _) => return Ok(None),
            (_, Some(dtype)) => dtype,
            (Self::Arrow | Self::Parquet, None) => Dtype::U32,
            (Self::ArrowStream, None) => Dtype::I32,
            (Self::Npy | Self::Datatrove | Self::Mds, None) if largest > Dtype::U16.largest() => Dtype::U32,
            // Megatron's own rule keeps the upper 36 values of u16 free.
            (Self::Megatron, None) if largest >= 65_499 => Dtype::I32,
            (_, None) => Dtype::U16,
        };
        if largest <= dtype.largest() {
            return Ok(Some(dtype));
        }
        let remedy = match (self, dtype) {
            (Self::Nanogpt, _) => "pass --dtype u32 (its readers must then expect u32) or use --format npy",
            (Self::Megatron | Self::ArrowStream, Dtype::I32) => {
                "this format has no wider element type: use --format npy"
            }
            _ => "leave out --dtype, so that it follows the vocabulary",
        };
        Err(usage(format!("ids up to {largest} do not fit the {dtype} ids of the {self} format")).hint(remedy))
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Dtype {
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Signed, 4 bytes; never negative here.
    I32,
}

impl Dtype {
    /// Every element type.
    pub const ALL: [Self; 3] = [Self::U16, Self::U32, Self::I32];

    /// The name on the command line and in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::I32 => "i32",
        }
    }

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

    /// Whether all of `ids` fit, in one pass that the compiler can vectorize. `largest` is all ones, so an id is larger exactly if it
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
}

macro_rules! named {
    ($type:ident, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = OutputError;

            fn from_str(name: &str) -> Result<Self, OutputError> {
                Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
                    OutputError::new(OutputErrorKind::Usage, format!(concat!("no such ", $what, ": {:?}"), name))
                        .hint(format!("give one of {}", Self::ALL.map(Self::name).join(", ")))
                })
            }
        }
    };
}

named!(Format, "output format");
named!(Dtype, "element type");
