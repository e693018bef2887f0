//! The input side of `windrow encode`: arguments become files, and files become batches of raw records.
//!
//! [`resolve`] turns command line arguments into [`InputFile`]s. A [`Reader`] reads, decompresses and cuts them into [`Batch`]es of
//! whole [`Record`]s, in order. [`crate::document::text_of`] later extracts, in parallel, the text of each record, and reports records that
//! are not documents.
//!
//! Guarantees about the bytes of a file:
//!
//! - [`Format::Text`]: the whole file is one record, even if it is empty.
//! - [`Format::Lines`]: `"\n"` and `"\r\n"` end a line and are not part of it. Every line is a record, even an empty one. The end of
//!   the file adds none (`"a\nb"` and `"a\nb\n"` are two records each; an empty file has none).
//! - [`Format::Jsonl`]: every line is a record, except those that contain only JSON whitespace.
//! - [`Format::Parquet`]: every row is a record, in the order of the file. A row with a null where its text should be is a bad document.
//! - [`Format::Warc`]: every record of the type `conversion` is a record, as long as its `Content-Length` says.
//! - One UTF-8 byte order mark at the start of a file is dropped. NUL bytes are kept.
//! - A record is not split, whatever its size, unless the reader [splits texts](Reader::split_texts) or
//!   [JSON lines](Reader::split_json_lines), and does not depend on how the file was read, cut or compressed.
//! - Gzip files may have several members, zstd files several frames, and xz and bzip2 files several streams. Each must be complete and
//!   match its checksum, and nothing may follow the last. Anything else is an [`InputError`], never a shorter document.
//!
//! Files are read, not mapped: a file that shrinks during the run gives an error message, not a signal.

mod batch;
#[cfg_attr(not(feature = "parquet"), path = "no_columns.rs")]
mod columns;
mod digest;
mod error;
mod fields;
mod frame;
mod packed;
#[cfg(feature = "parquet")]
mod pages;
mod position;
mod reader;
mod report;
mod resolve;
#[cfg(feature = "parquet")]
mod rows;
#[cfg(feature = "parquet")]
mod source;
#[cfg_attr(not(feature = "object-store"), path = "no_store.rs")]
mod store;
mod stream;
#[cfg(feature = "parquet")]
mod thrift;
mod tolerance;
mod url;
#[cfg(feature = "parquet")]
mod values;
mod walk;
mod warc;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::compression::Compression;
pub use batch::{Batch, Record, Stopped};
pub use error::{ErrorClass, InputError};
pub use fields::Fields;
pub(crate) use position::{Continuation, LastRecord, Position};
pub use reader::Reader;
pub use report::FileReport;
pub use resolve::{InputOptions, Resolved, resolve};
pub(crate) use store::Object;
#[cfg(feature = "parquet")]
pub(crate) use thrift::ParquetFile;
pub(crate) use tolerance::{IsRecord, Tolerance};
pub use walk::{WalkOptions, WalkedTree, walk};

/// The meaning of the (decompressed) bytes of a file.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
///
/// let records = |format| {
///     let file = InputFile::from_reader("memory", &b"one\n\ntwo\n"[..], format, None);
///     let batch = Reader::new(vec![file], 1 << 20).next_batch(Batch::default(), &mut |_| Ok(()))?;
///     Ok::<_, windrow_tokenizers::input::InputError>(batch.map_or(0, |batch| batch.records.len()))
/// };
/// assert_eq!([records(Format::Text)?, records(Format::Lines)?, records(Format::Jsonl)?], [1, 3, 2]);
/// # Ok::<(), windrow_tokenizers::input::InputError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Format {
    /// The whole file is one document.
    Text,
    /// Every line is a document.
    Lines,
    /// Every line contains one JSON object, and one of its fields is the document.
    Jsonl,
    /// Every row is a document, in one or several columns of text. (Needs the `parquet` feature.)
    Parquet,
    /// Every text that a web archive extracted from a page is a document: its records of type `conversion`, as in WET files.
    Warc,
}

/// One file (or stream) to read.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Compression, Format, InputFile, Reader};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("corpus.txt");
/// std::fs::write(&path, "one\ntwo")?;
/// let files = vec![
///     InputFile::from_path(&path, Format::Lines, Compression::None),
///     InputFile::from_reader("memory", &b"three"[..], Format::Text, None),
/// ];
/// let batch = Reader::new(files, 1 << 20).next_batch(Batch::default(), &mut |_| Ok(()))?.expect("three records");
/// assert_eq!(batch.records.iter().map(|record| record.file).collect::<Vec<_>>(), [0, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct InputFile {
    name: String,
    format: Format,
    /// Compression; `None` if the first bytes decide.
    compression: Option<Compression>,
    bytes: Option<u64>,
    /// True if an argument names the file.
    is_named: bool,
    /// True if the file is treated as text because its kind is unknown.
    is_guessed: bool,
    /// True if the file is read as stored, with its byte order mark.
    is_raw: bool,
    origin: Origin,
}

enum Origin {
    Path(PathBuf),
    Stdin,
    Stream(Box<dyn Read + Send>),
    Object(Object),
}

impl InputFile {
    /// The file at `path`, opened only when the reader reaches it.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Compression, Format, InputFile};
    ///
    /// let file = InputFile::from_path("corpus.json.gz", Format::Jsonl, Compression::Gzip);
    /// assert_eq!((file.name(), file.format()), ("corpus.json.gz", Format::Jsonl));
    /// ```
    pub fn from_path(path: impl Into<PathBuf>, format: Format, compression: Compression) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        Self::new(name, format, Some(compression), Origin::Path(path))
    }

    /// The same file under another name in messages and manifests.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Compression, Format, InputFile};
    ///
    /// let file = InputFile::from_path("/data/2024/corpus.txt", Format::Text, Compression::None).named("corpus.txt");
    /// assert_eq!(file.name(), "corpus.txt");
    /// assert_eq!(file.path(), Some("/data/2024/corpus.txt".as_ref()));
    /// ```
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Standard input; its compression is detected from its first bytes.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Format, InputFile};
    ///
    /// let file = InputFile::stdin(Format::Lines);
    /// assert_eq!((file.name(), file.compression()), ("-", None));
    /// ```
    pub fn stdin(format: Format) -> Self {
        Self::new("-".into(), format, None, Origin::Stdin)
    }

    /// Any stream of bytes; messages refer to it by `name`. Without a `compression`, the first bytes decide.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
    ///
    /// let file = InputFile::from_reader("memory", &b"one\r\ntwo"[..], Format::Lines, None);
    /// let mut reader = Reader::new(vec![file], 1 << 20);
    /// let batch = reader.next_batch(Batch::default(), &mut |_| Ok(()))?.expect("there are two lines");
    /// let lines: Vec<&[u8]> = batch.records.iter().map(|record| batch.bytes_of(record)).collect();
    /// assert_eq!(lines, [b"one", b"two"]);
    /// # Ok::<(), windrow_tokenizers::input::InputError>(())
    /// ```
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        format: Format,
        compression: Option<Compression>,
    ) -> Self {
        Self::new(name.into(), format, compression, Origin::Stream(Box::new(reader)))
    }

    fn new(name: String, format: Format, compression: Option<Compression>, origin: Origin) -> Self {
        Self { name, format, compression, bytes: None, is_named: true, is_guessed: false, is_raw: false, origin }
    }

    /// The name used in messages and manifests: the path as given or found, the URL without its query, `-` for stdin. It does not preserve
    /// bytes that are not UTF-8; use [`path`](Self::path) to compare files.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Format, InputFile};
    ///
    /// assert_eq!(InputFile::stdin(Format::Text).name(), "-");
    /// assert_eq!(InputFile::from_reader("memory", &b"one"[..], Format::Text, None).name(), "memory");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path to compare with other files: the path that is opened; for stdin, a name of its source, if the system has one.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Compression, Format, InputFile};
    ///
    /// let file = InputFile::from_path("corpus.txt", Format::Text, Compression::None);
    /// assert_eq!(file.path(), Some("corpus.txt".as_ref()));
    /// assert_eq!(InputFile::from_reader("memory", &b"one"[..], Format::Text, None).path(), None);
    /// ```
    pub fn path(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Path(path) => Some(path),
            Origin::Stdin => cfg!(unix).then_some(Path::new("/dev/stdin")),
            Origin::Stream(_) | Origin::Object(_) => None,
        }
    }

    /// True if an argument or a pattern names the file; false if a directory listing found it.
    ///
    /// ```
    /// use windrow_tokenizers::input::{InputOptions, resolve};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("corpus.txt");
    /// std::fs::write(&path, "one")?;
    /// let is_named = |arg: &std::path::Path| {
    ///     resolve(&[arg.display().to_string()], &InputOptions::default()).map(|resolved| resolved.files[0].is_named())
    /// };
    /// assert!(is_named(&path)? && !is_named(directory.path())?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// The store object that the file is, if it is one.
    pub(crate) fn object(&self) -> Option<&Object> {
        match &self.origin {
            Origin::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Memory in bytes that reading the file takes in addition to its batches: for a store object, the parts that are requested ahead.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Compression, Format, InputFile};
    ///
    /// // Files of the system need none.
    /// assert_eq!(InputFile::from_path("corpus.txt", Format::Text, Compression::None).buffer_bytes(), 0);
    /// ```
    pub fn buffer_bytes(&self) -> usize {
        match (&self.origin, self.format) {
            #[cfg(feature = "parquet")]
            (Origin::Object(_), Format::Parquet) => store::BLOCKS_BYTES,
            (Origin::Object(_), _) => store::READ_BYTES,
            _ => 0,
        }
    }

    /// The meaning of its bytes.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Format, InputOptions, resolve};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("corpus.jsonl");
    /// std::fs::write(&path, "")?;
    /// let resolved = resolve(&[path.display().to_string()], &InputOptions::default())?;
    /// assert_eq!(resolved.files[0].format(), Format::Jsonl);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn format(&self) -> Format {
        self.format
    }

    /// Compression of the file; `None` if the first bytes decide.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Compression, Format, InputFile};
    ///
    /// let file = |compression| InputFile::from_reader("memory", &b"one"[..], Format::Text, compression);
    /// assert_eq!(file(None).compression(), None);
    /// assert_eq!(file(Some(Compression::None)).compression(), Some(Compression::None));
    /// ```
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Size on disk in bytes at the time of resolution, for a regular file or a store object. An estimate for progress bars.
    ///
    /// ```
    /// use windrow_tokenizers::input::{InputOptions, resolve};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("corpus.txt");
    /// std::fs::write(&path, "one two")?;
    /// let resolved = resolve(&[path.display().to_string(), "-".to_owned()], &InputOptions::default())?;
    /// assert_eq!((resolved.files[0].bytes(), resolved.files[1].bytes()), (Some(7), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Size as stored in bytes, for a regular file that is opened by its path, or a store object.
    pub(crate) fn size(&self) -> Option<u64> {
        let of_path = || match &self.origin {
            Origin::Path(path) => fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|found| found.len()),
            Origin::Stdin | Origin::Stream(_) | Origin::Object(_) => None,
        };
        self.bytes.or_else(of_path)
    }
}

impl fmt::Debug for InputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputFile")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("compression", &self.compression)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
