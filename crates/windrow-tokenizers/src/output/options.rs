//! The options of an output, and the checks of options and inputs.

use std::path::{Path, PathBuf};

use super::error::{OutputError, OutputErrorKind};
use super::format::mds;
use super::names::{Layout, Targets, same_file};
use super::{packed, prefix};
use crate::format::{Dtype, Format};
use crate::manifest::Pack;
use crate::shown;

/// The content, the format and the place of an output.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::manifest::{Documents, Manifest};
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let prefix = directory.path().join("corpus");
/// let options = OutputOptions { prepend_bos: Some(1), append_eos: Some(2), ..OutputOptions::new(&prefix, 300) };
/// let mut output = Output::create(&options)?;
/// output.append(&[7, 8], &[2])?;
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// output.publish(Manifest { documents, ..Manifest::default() })?;
/// assert_eq!(Dataset::open(&prefix)?.document(0)?, Some(vec![1, 7, 8, 2]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// The path to which each file adds its suffix: `out/corpus` becomes `out/corpus.ids.npy` and so on.
    pub prefix: PathBuf,
    /// Layout of the files.
    pub format: Format,
    /// Element type of the ids. By default the vocabulary decides: u16 if all ids fit, otherwise u32 (Megatron: u16 below 65,500 ids,
    /// otherwise i32).
    pub dtype: Option<Dtype>,
    /// Largest id + 1.
    pub vocab_size: u32,
    /// The id to append to every document, even an empty one. Nanogpt files need it.
    pub append_eos: Option<u32>,
    /// The id with which every document begins, even an empty one.
    pub prepend_bos: Option<u32>,
    /// True to replace existing files of this format and an existing manifest once everything is complete. Files of another format under the same
    /// prefix stay; the manifest no longer lists them.
    pub overwrite: bool,
    /// True to write `OUT.skipped.jsonl` too: one [`SkippedDocument`](crate::manifest::SkippedDocument) per line, for every skipped document.
    pub list_skipped: bool,
    /// The names of the fields to keep, whose values come [with each document](crate::output::Document::kept). They become columns if the [format
    /// has some](Format::has_columns), and otherwise a file next to the ids, `OUT.kept.jsonl`: a JSON object per document.
    pub keep: Vec<String>,
    /// True if each id has a mask, which is 1 if the id counts in training. [JSON lines](Format::Jsonl) get a field `mask`, formats with
    /// [columns](Format::has_columns) a column `mask`, and the others a file of u8 next to the file of ids and of the same length: `OUT.mask.npy`,
    /// or datatrove's own `OUT.ds.loss`, which has no header.
    pub mask: bool,
    /// The size of shards, for an output that is divided into `OUT-00000.bin`, `OUT-00001.bin` and so on, each complete by itself. A shard ends
    /// with the document that brings its token data to this number of bytes, so a document is never divided. [`Format::Mds`] always has shards, by
    /// default of 64 MiB.
    pub shard_bytes: Option<u64>,
    /// The names of the parts of a divided output: the files of the part `train` are `OUT.train.bin` and so on. One manifest lists all of
    /// them. Empty for an output that is not divided. A divided output cannot resume, and cannot be [`Format::Mds`].
    pub parts: Vec<String>,
    /// Packing of documents into rows of a fixed number of ids. The rows take the place of documents in every format, and there are two more files:
    /// `OUT.cu_seqlens.npy` (u64, the ends of segments in all rows, the first 0) and `OUT.docs.npy` (i64, the number of the document of each
    /// segment from 0, or -1 for ids that fill a row). A packed output cannot resume, and cannot be [`Format::Mds`].
    pub pack: Option<Pack>,
    /// True if [`encode`](crate::encode::encode) continues after the last shard that an interrupted run of the same inputs and options has
    /// finished. Without such a run it starts from the beginning. Only an output with shards can resume.
    pub resume: bool,
}

impl OutputOptions {
    /// The default format with its defaults.
    pub fn new(prefix: impl Into<PathBuf>, vocab_size: u32) -> Self {
        Self { prefix: prefix.into(), vocab_size, ..Self::default() }
    }

    /// The element type that will be written; none for text.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Dtype, Format, OutputErrorKind, OutputOptions};
    ///
    /// let mut options = OutputOptions { format: Format::Nanogpt, ..OutputOptions::new("corpus", 50_257) };
    /// assert_eq!(options.element_type().unwrap_err().kind(), OutputErrorKind::Usage);
    /// options.append_eos = Some(50_256);
    /// assert_eq!(options.element_type()?, Some(Dtype::U16));
    /// # Ok::<(), windrow_tokenizers::output::OutputError>(())
    /// ```
    ///
    /// # Errors
    /// [`OutputErrorKind::Usage`] if the options contradict each other or the ids do not fit.
    pub fn element_type(&self) -> Result<Option<Dtype>, OutputError> {
        self.format.files().check(self)?;
        if let Some(pack) = self.pack {
            packed::check(pack, self)?;
        }
        let around = self.append_eos.max(self.prepend_bos).max(self.pack.and_then(|pack| pack.pad)).unwrap_or(0);
        let largest = self.vocab_size.saturating_sub(1).max(around);
        self.format.dtype(self.dtype, largest)
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.format, self.mask, &self.keep, self.pack.is_some())
    }

    /// The size of shards, if the output has some.
    pub(crate) fn shard_limit(&self) -> Option<u64> {
        self.shard_bytes.or((self.format == Format::Mds).then_some(mds::SHARD_BYTES))
    }

    pub(crate) fn names(&self) -> Targets {
        let names = if self.shard_limit().is_some() { Targets::sharded } else { Targets::new };
        names(&self.prefix, &self.parts, self.layout(), self.list_skipped)
    }

    /// The files that publication creates or replaces, the manifest last; without the shards, whose number is not known in advance.
    ///
    /// ```
    /// use windrow_tokenizers::output::OutputOptions;
    ///
    /// let files = ["out/corpus.ids.npy", "out/corpus.offsets.npy", "out/corpus.manifest.json"];
    /// assert_eq!(OutputOptions::new("out/corpus", 300).targets(), files.map(std::path::PathBuf::from));
    /// ```
    pub fn targets(&self) -> Vec<PathBuf> {
        self.names().all().cloned().collect()
    }

    /// Refuses an output that would replace or remove one of the inputs.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Format, OutputErrorKind, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let input = prefix.with_extension("jsonl");
    /// std::fs::write(&input, "{}")?;
    /// let options = OutputOptions { format: Format::Jsonl, overwrite: true, ..OutputOptions::new(prefix, 300) };
    /// assert_eq!(options.check_inputs([&input]).unwrap_err().kind(), OutputErrorKind::CannotCreate);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OutputErrorKind::CannotCreate`] naming the file.
    pub fn check_inputs<P: AsRef<Path>>(&self, inputs: impl IntoIterator<Item = P>) -> Result<(), OutputError> {
        // An input exists, so only existing targets can be inputs. Usually there are none, and no input is inspected.
        let existing: Vec<_> = self.names().touched().filter(|path| path.exists()).collect();
        if existing.is_empty() {
            return Ok(());
        }
        for input in inputs {
            if let Some(path) = existing.iter().find(|path| same_file(path, input.as_ref())) {
                let message = format!("{} is an input of this run, and the output would replace it", shown(path));
                return Err(OutputError::new(OutputErrorKind::CannotCreate, message)
                    .at(path)
                    .hint("choose another prefix with -o"));
            }
        }
        Ok(())
    }

    /// True for a file that a run with these options may create, replace or remove, in a folder that exists: another option cannot name it too.
    ///
    /// ```
    /// use std::path::Path;
    /// use windrow_tokenizers::output::OutputOptions;
    ///
    /// let options = OutputOptions::new("corpus", 300);
    /// assert!(options.owns(Path::new("corpus.ids.npy.windrow-part")));
    /// assert!(!options.owns(Path::new("corpus.trace.json")));
    /// ```
    pub fn owns(&self, path: &Path) -> bool {
        let names = self.names();
        names.own(path) || (path.exists() && names.touched().any(|own| same_file(&own, path)))
    }

    /// Refuses a prefix to which no names of files can be appended: an empty one, one that ends in a separator or begins with a dash, one
    /// that is or leads through a device or a file. Nothing is touched.
    ///
    /// ```
    /// use windrow_tokenizers::output::{OutputErrorKind, OutputOptions};
    ///
    /// assert!(OutputOptions::new("corpus", 300).check_prefix().is_ok());
    /// let error = OutputOptions::new("-", 300).check_prefix().unwrap_err();
    /// assert_eq!(error.kind(), OutputErrorKind::Usage);
    /// ```
    ///
    /// # Errors
    /// [`OutputErrorKind::Usage`] with the remedy.
    pub fn check_prefix(&self) -> Result<(), OutputError> {
        prefix::check(&self.prefix, self.format == Format::Mds)
    }
}
