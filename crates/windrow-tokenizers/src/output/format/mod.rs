//! The formats: a file each, with its writer and its reader.
//!
//! A new format is a name in `crate::format`, a file here, and a line in `Format::files`.

#[cfg(feature = "parquet")]
mod arrow_stream;
#[cfg_attr(not(feature = "parquet"), path = "no_columns.rs")]
mod columns;
mod datatrove;
mod jsonl;
pub(super) mod mds;
mod megatron;
mod nanogpt;
mod npy;
mod webdataset;

use std::fmt;
use std::vec::IntoIter;

use super::error::{OutputError, OutputErrorKind};
use super::file::{Complete, StagedFile, WriteBack};
use super::options::OutputOptions;
use crate::format::{Dtype, Format};
use crate::kept::KeptValues;
use crate::shard::{DatasetError, Shard, Visitor};

pub(crate) use npy::{NPY_HEADER, npy_header, npy_header_of_rows};

/// A complete file and the type of its elements, if it has one.
pub(crate) type Finished = (Complete, Option<&'static str>);

/// The end of the names of the file with masks.
pub(super) const MASK: &str = ".mask.npy";

/// The files of a format: names, content, writing and reading.
pub(crate) trait TokenFiles: Sync {
    /// The ends of the names of the files.
    fn suffixes(&self) -> &'static [&'static str];

    /// The element types of ids, the narrowest first. Text has none.
    fn dtypes(&self) -> &'static [Dtype];

    /// The largest id for which the narrowest type is the default.
    fn narrow(&self) -> u32 {
        Dtype::U16.largest()
    }

    /// The remedy for ids that do not fit.
    fn remedy(&self, dtype: Dtype) -> &'static str {
        match dtype {
            Dtype::I32 if !self.dtypes().contains(&Dtype::U32) => {
                "this format has no element type for larger ids: use --format npy"
            }
            _ => "omit --dtype: the type then follows from the size of the vocabulary",
        }
    }

    /// True if kept fields and masks are in the same file as the ids.
    fn has_columns(&self) -> bool {
        false
    }

    /// The end of the name of the file with masks, unless masks are in the file of ids.
    fn mask_suffix(&self) -> Option<&'static str> {
        (!self.has_columns()).then_some(MASK)
    }

    /// Maximum number of ids of a document.
    fn longest(&self) -> usize {
        usize::MAX
    }

    /// Refuses options that the format does not support.
    fn check(&self, _: &OutputOptions) -> Result<(), OutputError> {
        Ok(())
    }

    /// Begins the files of an output or of a shard.
    fn begin(&self, files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError>;

    /// The number of documents, if the size of a file gives it.
    fn documents(&self, _: &Shard<'_>) -> Result<Option<u64>, DatasetError> {
        Ok(None)
    }

    /// The number of documents in each part that can be read by itself; empty if there is one.
    fn groups(&self, _: &Shard<'_>) -> Result<Vec<u64>, DatasetError> {
        Ok(Vec::new())
    }

    /// Visits the documents, or the rows of a packed output, of all parts or of one, until the visitor breaks. Any contradiction of the layout
    /// is an error with its place.
    fn walk(&self, shard: &Shard<'_>, group: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError>;
}

/// Settings of files that begin.
#[derive(Clone, Copy)]
pub(crate) struct Begin<'a> {
    pub(crate) options: &'a OutputOptions,
    pub(crate) dtype: Dtype,
    /// Documents, or rows, in the shards before.
    pub(crate) first: u64,
}

impl Begin<'_> {
    /// The number of ids of each document, if all have the same number.
    pub(super) fn row(&self) -> Option<usize> {
        self.options.pack.map(|pack| pack.length.get())
    }
}

/// The staged files, in the order of the suffixes.
pub(crate) struct Files(pub(crate) IntoIter<StagedFile>);

impl Files {
    fn next(&mut self) -> StagedFile {
        self.0.next().expect("one staged file for each suffix")
    }
}

/// Writes documents to the files of one format.
pub(crate) trait FormatWriter: fmt::Debug + Send {
    /// The file with the ids; none if documents are written as a whole.
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        None
    }

    /// Marks the place to which [`discard`](Self::discard) returns: a document in parts begins.
    fn begin(&mut self) -> Result<(), OutputError> {
        self.ids_file().map_or(Ok(()), StagedFile::mark)
    }

    /// Appends ids to the document.
    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError>;

    /// Ends the document; the next call begins another.
    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError>;

    /// Removes everything written since [`begin`](Self::begin).
    fn discard(&mut self) -> Result<(), OutputError> {
        self.ids_file().map_or(Ok(()), StagedFile::return_to_mark)
    }

    /// The part of the largest file to be written back. The others are small.
    fn write_back(&mut self) -> Option<WriteBack> {
        self.ids_file().and_then(StagedFile::write_back)
    }

    /// Completes the files and names the element type of each. Some formats name the tokenizer.
    fn finish(self: Box<Self>, tokenizer: &str) -> Result<Vec<Finished>, OutputError>;
}

/// The end of a document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ending<'a> {
    /// Number of its ids.
    pub(crate) ids: usize,
    /// The mask of each, if there are masks.
    pub(crate) mask: Option<&'a [u8]>,
    /// Its kept values.
    pub(crate) kept: KeptValues<'a>,
}

impl Format {
    pub(crate) fn files(self) -> &'static dyn TokenFiles {
        match self {
            Self::Npy => &npy::Npy,
            Self::Nanogpt => &nanogpt::Nanogpt,
            Self::Megatron => &megatron::Megatron,
            Self::Datatrove => &datatrove::Datatrove,
            Self::Mds => &mds::Mds,
            Self::Jsonl => &jsonl::Jsonl,
            Self::Webdataset => &webdataset::Webdataset,
            Self::Arrow => &columns::Columns(Self::Arrow),
            Self::ArrowStream => &columns::Columns(Self::ArrowStream),
            Self::Parquet => &columns::Columns(Self::Parquet),
        }
    }

    /// The suffix of each data file, appended to the prefix. For `Mds` it is the suffix of the index, which follows the shards.
    pub fn suffixes(self) -> &'static [&'static str] {
        self.files().suffixes()
    }

    /// True if kept fields are in the same file as the ids.
    pub fn has_columns(self) -> bool {
        self.files().has_columns()
    }

    /// The element type for a vocabulary whose largest id is `largest`, or the reason why none fits. Text has none.
    pub(super) fn dtype(self, requested: Option<Dtype>, largest: u32) -> Result<Option<Dtype>, OutputError> {
        let usage = |message: String| OutputError::new(OutputErrorKind::Usage, message);
        let (files, allowed) = (self.files(), self.files().dtypes());
        if let Some(dtype) = requested.filter(|dtype| !allowed.contains(dtype)) {
            let error = usage(format!("the {self} format cannot hold {dtype} ids"));
            let names: Vec<_> = allowed.iter().map(|dtype| dtype.name()).collect();
            return Err(match allowed {
                [] => error.hint("omit --dtype: the ids are decimal text"),
                [only] => error.hint(format!("omit --dtype or use {}", only.name())),
                _ => error.hint(format!("omit --dtype or use one of {}", names.join(", "))),
            });
        }
        let default = if largest <= files.narrow() { allowed.first() } else { allowed.get(1).or(allowed.first()) };
        let Some(dtype) = requested.or(default.copied()) else { return Ok(None) };
        if largest <= dtype.largest() {
            return Ok(Some(dtype));
        }
        let message = format!("ids up to {largest} do not fit in {dtype} elements of the {self} format");
        Err(usage(message).hint(files.remedy(dtype)))
    }
}

/// Refuses a kept field with the name of a column.
fn check_columns(options: &OutputOptions, columns: [(&str, &str); 2]) -> Result<(), OutputError> {
    let [_, (mask, _)] = columns;
    let taken = |(name, _): &&(&str, &str)| (*name != mask || options.mask) && options.keep.iter().any(|it| it == name);
    let Some((name, what)) = columns.iter().find(taken) else { return Ok(()) };
    let message = format!("a kept field cannot have the name {name:?}, which is taken by the column of {what}");
    Err(OutputError::new(OutputErrorKind::Usage, message)
        .hint("choose a --format that stores kept fields in a separate file"))
}
