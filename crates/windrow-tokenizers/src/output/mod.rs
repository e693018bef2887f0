//! Token files: several formats, written under temporary names beside the final ones and published all at once.
//!
//! [`Output::create`] stages the files, [`Output::append`] takes runs of documents in order, and [`Output::publish`] makes
//! everything final and writes the manifest last. Until then no final name exists or changes. A run that ends early, by an error, a
//! panic or [`Staging::abandon`], leaves the directory as it was. A killed process leaves files with names that contain
//! `.windrow-`. If it was killed while it published, it also leaves data without a manifest. The next run with the same prefix
//! undoes all of that. Only one run at a time writes under a prefix.
//!
//! ```
//! use windrow_tokenizers::manifest::{Documents, ManifestBody};
//! use windrow_tokenizers::output::{Output, OutputOptions};
//!
//! let directory = tempfile::tempdir()?;
//! let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 50_257))?;
//! output.append(&[15496, 995, 0, 40], &[3, 3, 4])?; // three documents, the second is empty
//! let documents = Documents { read: 3, written: 3, ..Documents::default() };
//! let published = output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
//! assert_eq!((published.documents, published.tokens), (3, 4));
//! assert!(directory.path().join("corpus.ids.npy").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "parquet")]
mod arrow_stream;
#[cfg_attr(not(feature = "parquet"), path = "no_columns.rs")]
mod columns;
mod datatrove;
mod digest;
mod error;
mod file;
mod format;
mod listed;
mod lock;
mod mask;
mod mds;
mod names;
mod open;
mod options;
mod packed;
mod parts;
mod piecewise;
mod prefix;
mod progress;
mod publish;
mod run;
mod shards;
mod sidecar;
mod spill;
mod staging;
mod storage;
mod writer;

#[cfg(test)]
mod faults;
#[cfg(all(test, unix))]
mod planted;
#[cfg(all(test, unix))]
mod weather;

use std::fs::File;
use std::mem::swap;
use std::path::PathBuf;

pub use error::{OutputError, OutputErrorKind};
pub use format::{Dtype, Format};
pub(crate) use mask::{MaskHeader, put_masks, without_loss};
pub(crate) use names::{Layout, suffixes};
pub use options::OutputOptions;
#[doc(hidden)]
pub use prefix::is_among_devices;
pub use staging::Staging;

pub use crate::kept::Kept;

use crate::input::{Continuation, FileReport};
use crate::manifest::{EncodeJob, OutputFile, Packed, Part, SKIPPED_IN_MANIFEST, SkippedDocument};
use crate::to_json;
use crate::values::{Size, TokenName};
#[cfg(feature = "parquet")]
pub(crate) use arrow_stream::batches as arrow_batches;
pub(crate) use datatrove::metadata_says;
pub(crate) use file::WriteBack;
use file::{Mark, StagedFile};
use listed::{output_file, resume_list};
use mask::{MASKED, MaskWriter, masks, without_masks};
pub(crate) use mds::{Column as MdsColumn, Samples as MdsSamples};
use names::{Targets, staged_name};
use open::opened;
use packed::Packing;
use parts::{CompleteParts, PartState};
pub(crate) use progress::{Checkpoint, InputCounts, InputIdentity, RunIdentity};
use progress::{FinishedShard, Progress, ProgressWriter};
use run::{Frame, Run};
use shards::{Shards, bytes_of_document, bytes_of_ids};
use sidecar::Sidecar;
pub(crate) use spill::{Order, Placed, Spill};
pub(crate) use writer::{IDX_HEADER, NPY_HEADER, idx_header, npy_header, npy_header_of_rows};
use writer::{MegatronWriter, Writer};

/// An output in progress. Dropping it without [`publish`](Self::publish) removes everything.
///
/// ```
/// use windrow_tokenizers::manifest::{Documents, ManifestBody};
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// output.append(&[7, 8, 9], &[3])?;
/// assert!(!directory.path().join("corpus.ids.npy").exists());
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
/// assert!(directory.path().join("corpus.ids.npy").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output {
    /// Of the open shard of the selected part, if there are shards; the files with masks and kept fields too.
    writer: Option<Writer>,
    mask: Option<MaskWriter>,
    sidecar: Option<Sidecar>,
    manifest: Option<File>,
    options: OutputOptions,
    dtype: Option<Dtype>,
    targets: Targets,
    staging: Staging,
    longest: usize,
    shards: Option<Shards>,
    /// The documents that become rows.
    packing: Option<Packing>,
    /// The selected part, whose state is in the fields here, and the states of the others.
    part: usize,
    parts: Vec<PartState>,
    /// The name of the tokenizer, as far as it is known.
    tokenizer: String,
    /// What another run has finished, until this one continues it.
    progress: Option<Progress>,
    /// The document that is being written part by part.
    open: Option<Open>,
    /// Documents and ids of the selected part.
    documents: u64,
    tokens: u64,
    /// Ids whose mask is 1 there.
    loss_tokens: u64,
    /// Number of values of kept fields there.
    kept: u64,
    /// The list of skipped documents, their number, and the first of them.
    list: Option<StagedFile>,
    /// The file that lists the shards, if the format has one.
    index: Option<StagedFile>,
    skipped: u64,
    first_skipped: Vec<SkippedDocument>,
}

/// The beginning of a document.
#[derive(Debug)]
struct Open {
    /// Where it begins.
    mark: Mark,
    /// Number of ids so far, and their bytes.
    ids: usize,
    bytes: u64,
}

/// The result of a publication.
///
/// ```
/// use windrow_tokenizers::manifest::ManifestBody;
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// let published = output.publish(ManifestBody::default())?;
/// assert_eq!(published.manifest, directory.path().join("corpus.manifest.json"));
/// assert_eq!((published.files.len(), published.documents), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The data files, as in the manifest.
    pub files: Vec<OutputFile>,
    /// The parts of a divided output, as in the manifest.
    pub parts: Vec<Part>,
    /// The rows of a packed output.
    pub packed: Option<Packed>,
    /// The path of the manifest.
    pub manifest: PathBuf,
    /// Documents written.
    pub documents: u64,
    /// Ids written, end-of-text ids included.
    pub tokens: u64,
    /// The id appended to each document.
    pub eos: Option<u32>,
    /// Ids whose mask is 1; `None` without masks.
    pub loss_tokens: Option<u64>,
    /// Replaced files that could not be removed, under the names to which they were moved aside. Almost always empty.
    pub left_behind: Vec<PathBuf>,
}

impl Published {
    /// The element type of the ids; none if they are text.
    pub fn dtype(&self) -> Option<&str> {
        self.files.first().and_then(|file| file.dtype.as_deref())
    }
}

impl Output {
    /// Checks the options and stages the files. If the options are refused, nothing is created.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Format, Output, OutputErrorKind, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let options = OutputOptions::new(directory.path().join("corpus"), 300);
    /// let first = Output::create(&options)?;
    /// let second = Output::create(&options).unwrap_err();
    /// assert_eq!(second.kind(), OutputErrorKind::CannotCreate); // the first one has the lock
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Usage`](OutputErrorKind::Usage) for options that contradict each other; [`CannotCreate`](OutputErrorKind::CannotCreate) if a
    /// file exists, another run is writing it, or it cannot be created.
    pub fn create(options: &OutputOptions) -> Result<Self, OutputError> {
        Self::create_in(options, &Staging::default())
    }

    /// [`create`](Self::create) with a staging that another thread may already abandon.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions, Staging};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let staging = Staging::default();
    /// staging.abandon(); // Ctrl-C comes first
    /// let error = Output::create_in(&OutputOptions::new(directory.path().join("corpus"), 300), &staging).unwrap_err();
    /// assert_eq!(error.kind(), OutputErrorKind::Interrupted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`create`](Self::create), and [`Interrupted`](OutputErrorKind::Interrupted) if `staging` was abandoned.
    pub fn create_in(options: &OutputOptions, staging: &Staging) -> Result<Self, OutputError> {
        options.check_prefix()?;
        if options.resume && options.shard_limit().is_none() {
            let message = "an output without shards cannot resume: nothing of it is finished before its end";
            return Err(OutputError::new(OutputErrorKind::Usage, message).hint("pass --shard-size too, such as 1G"));
        }
        parts::check(&options.parts, options.resume)?;
        let dtype = options.element_type()?;
        let targets = options.names();
        let staging::Opened { mut files, progress } = staging.open(&targets, options.overwrite, options.resume)?;
        let manifest = files.pop();
        let files = files.into_iter().zip(&targets.data).map(|(file, target)| StagedFile::new(file, target, staging));
        let mut files: Vec<_> = files.collect();
        let index = if options.format == Format::Mds { files.pop() } else { None };
        let list = if options.list_skipped { files.pop() } else { None };
        let in_part = files.len() / options.parts.len().max(1);
        let mut parts = Vec::new();
        for _ in 0..options.parts.len().max(1) {
            let shards = options.shard_limit().map(Shards::new);
            let frame = Frame { bos: options.prepend_bos, eos: options.append_eos };
            let packing = options.pack.map(|pack| Packing::new(pack, frame));
            let mut part = PartState { shards, packing, ..PartState::default() };
            if options.shard_limit().is_none() {
                let files = files.drain(..in_part).collect();
                let opened = opened(options, dtype, files, &mut part.packing)?;
                (part.writer, part.mask, part.sidecar) = (Some(opened.0), opened.1, opened.2);
            }
            parts.push(part);
        }
        let PartState { writer, mask, sidecar, shards, packing, .. } = std::mem::take(&mut parts[0]);
        Ok(Self {
            writer,
            mask,
            sidecar,
            manifest,
            options: options.clone(),
            dtype,
            targets,
            staging: staging.clone(),
            longest: match options.format {
                Format::Megatron => MegatronWriter::LONGEST,
                Format::Mds => mds::LONGEST,
                _ => usize::MAX,
            },
            shards,
            packing,
            part: 0,
            parts,
            tokenizer: String::new(),
            progress,
            open: None,
            documents: 0,
            tokens: 0,
            loss_tokens: 0,
            kept: 0,
            list,
            index,
            skipped: 0,
            first_skipped: Vec::new(),
        })
    }

    /// A handle with which another thread can stop this output.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// let staging = output.handle();
    /// std::thread::spawn(move || staging.abandon()).join().unwrap();
    /// assert!(output.append(&[7], &[1]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handle(&self) -> Staging {
        self.staging.clone()
    }

    pub(crate) fn has_shards(&self) -> bool {
        self.shards.is_some()
    }

    /// Names the tokenizer before the first document, for formats whose files do so.
    pub(crate) fn name_tokenizer(&mut self, name: &str) {
        name.clone_into(&mut self.tokenizer);
    }

    /// As [`Staging::kept_shards`].
    pub(crate) fn kept_shards(&self) -> usize {
        self.staging.kept_shards()
    }

    /// Selects the part to which documents are appended from now on. No document may be open.
    pub(crate) fn select(&mut self, part: usize) {
        if part == self.part {
            return;
        }
        self.exchange(self.part);
        self.exchange(part);
        self.part = part;
    }

    /// Exchanges the state of the output with that of a part.
    fn exchange(&mut self, part: usize) {
        let other = &mut self.parts[part];
        swap(&mut self.writer, &mut other.writer);
        swap(&mut self.mask, &mut other.mask);
        swap(&mut self.sidecar, &mut other.sidecar);
        swap(&mut self.shards, &mut other.shards);
        swap(&mut self.packing, &mut other.packing);
        swap(&mut self.documents, &mut other.documents);
        swap(&mut self.tokens, &mut other.tokens);
        swap(&mut self.loss_tokens, &mut other.loss_tokens);
        swap(&mut self.kept, &mut other.kept);
    }

    /// Documents appended to the selected part so far.
    pub(crate) fn documents_of_part(&self) -> u64 {
        self.documents
    }

    /// Completes the files of all parts, and adds the names of their shards to the targets.
    fn complete_parts(&mut self) -> Result<CompleteParts, OutputError> {
        let (mut complete, mut names) = (CompleteParts::default(), Vec::new());
        for number in 0..self.parts.len() {
            self.select(number);
            self.end_shards(None)?;
            let own = match &mut self.shards {
                Some(shards) => {
                    let finished = std::mem::take(&mut shards.finished);
                    names.extend((0..finished.len()).flat_map(|shard| self.targets.shard(number, shard)));
                    finished.concat()
                }
                None => self.complete()?,
            };
            let packed = self.packing.as_ref().map(Packing::counts);
            packed.iter().for_each(|&packed| complete.add_rows(packed));
            if let Some(name) = self.options.parts.get(number) {
                let (name, documents, tokens) = (name.clone(), self.documents, self.tokens);
                complete.parts.push(Part { name, documents, tokens, packed, files: own.len() });
            }
            complete.files.extend(own);
        }
        self.targets.data.splice(..0, names);
        Ok(complete)
    }

    /// Documents appended so far.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append(&[7, 8, 9], &[1, 1, 3])?;
    /// assert_eq!(output.documents(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn documents(&self) -> u64 {
        self.documents + self.parts.iter().map(|part| part.documents).sum::<u64>()
    }

    /// Ids appended so far, end-of-text ids included.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let options = OutputOptions { append_eos: Some(0), ..OutputOptions::new(directory.path().join("corpus"), 300) };
    /// let mut output = Output::create(&options)?;
    /// output.append(&[7, 8, 9], &[1, 3])?;
    /// assert_eq!(output.tokens(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tokens(&self) -> u64 {
        self.tokens + self.parts.iter().map(|part| part.tokens).sum::<u64>()
    }

    /// Ids appended so far whose mask is 1; `None` without masks.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let options = OutputOptions { mask: true, ..OutputOptions::new(directory.path().join("corpus"), 300) };
    /// let mut output = Output::create(&options)?;
    /// output.append_masked(&[7, 8, 9], &[3], &[0, 1, 1])?;
    /// assert_eq!(output.loss_tokens(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn loss_tokens(&self) -> Option<u64> {
        let all = self.loss_tokens + self.parts.iter().map(|part| part.loss_tokens).sum::<u64>();
        self.options.mask.then_some(all)
    }

    /// Appends a run of consecutive documents: `ends[i]` is the end of document `i` in `ids`, and the start of the next one. The
    /// division of documents into runs does not change a byte.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// assert_eq!(output.append(&[7, 70_000], &[1, 2]).unwrap_err().kind(), OutputErrorKind::Id);
    /// output.append(&[7, 8, 9], &[1, 3])?; // [7] and [8, 9]
    /// assert_eq!((output.documents(), output.tokens()), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Id`](OutputErrorKind::Id) for an id that does not fit the element type, and [`Document`](OutputErrorKind::Document) for a
    /// document that is too long for the format. No document of this run was then written, and the output can continue. After
    /// [`Io`](OutputErrorKind::Io) and [`Interrupted`](OutputErrorKind::Interrupted) everything is removed and the output is
    /// unusable.
    ///
    /// # Panics
    /// If `ends` decreases or does not end at `ids.len()`, or a document was begun by [`append_part`](Self::append_part) and not ended; if
    /// fields are kept and a shard ends within the run, or before its documents have their values; if the output has masks.
    pub fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        assert!(!self.options.mask, "documents without masks");
        self.append_with_masks(ids, ends)
    }

    /// As [`append`](Self::append), to an output with [masks](OutputOptions::mask): `mask` has one for each of `ids`. Those of the ids
    /// around a document are 0.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, ManifestBody};
    /// use windrow_tokenizers::output::{Format, Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let mut output = Output::create(&OutputOptions { mask: true, format: Format::Jsonl, ..OutputOptions::new(&prefix, 300) })?;
    /// output.append_masked(&[7, 8, 9], &[3], &[0, 1, 1])?;
    /// let documents = Documents { read: 1, written: 1, ..Documents::default() };
    /// output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
    /// assert_eq!(std::fs::read_to_string(prefix.with_extension("jsonl"))?, "{\"ids\":[7,8,9],\"mask\":[0,1,1]}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`append`](Self::append).
    ///
    /// # Panics
    /// As [`append`](Self::append); if the output has no masks, there are not as many as ids, one is neither 0 nor 1, or an id has 32 bits.
    pub fn append_masked(&mut self, ids: &[u32], ends: &[usize], mask: &[u8]) -> Result<(), OutputError> {
        assert!(self.options.mask, "masks for an output that has none");
        assert_eq!(ids.len(), mask.len(), "there is a mask for each id");
        assert!(mask.iter().all(|&one| one <= 1), "a mask is 0 or 1");
        assert!(ids.iter().all(|&id| id < MASKED), "an id with a mask has 31 bits");
        let mut ids = ids.to_vec();
        put_masks(&mut ids, mask);
        self.append_with_masks(&ids, ends)
    }

    /// Appends documents, whose masks are in their ids if there are masks.
    pub(crate) fn append_with_masks(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        assert!(ends.is_sorted(), "the ends of documents decrease");
        assert_eq!(ends.last().copied().unwrap_or(0), ids.len(), "the last document does not end with the ids");
        assert!(self.open.is_none(), "the document before has not ended");
        self.check(ids, ends)?;
        if self.packing.is_none() {
            return self.append_documents(ids, ends);
        }
        for ids in (Run { ids, ends, mask: None, frame: Frame::default() }).documents() {
            if self.packing.as_mut().is_some_and(|packing| packing.push(ids)) {
                self.append_rows(false)?;
            }
        }
        self.documents += ends.len() as u64;
        self.append_rows(false)
    }

    /// Appends the rows that are complete; at the end of the documents, also the others.
    fn append_rows(&mut self, at_end: bool) -> Result<(), OutputError> {
        let (Some(packing), Some(pack)) = (&mut self.packing, self.options.pack) else { return Ok(()) };
        let rows = packing.take(at_end);
        let length = pack.length.get();
        let ends: Vec<usize> = (1..=rows.len() / length).map(|row| row * length).collect();
        self.append_documents(&rows, &ends)
    }

    /// Appends documents, or rows in their place.
    fn append_documents(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        if self.shards.is_none() {
            return self.append_run(ids, ends);
        }
        let (mut ids, mut ends) = (ids, ends.to_vec());
        while !ends.is_empty() {
            self.begin_document()?;
            let count = self.end_in(ids, &ends).unwrap_or(ends.len());
            let later = ends.split_off(count);
            let end = ends.last().copied().unwrap_or(0);
            self.append_run(&ids[..end], &ends)?;
            ids = &ids[end..];
            ends = later.into_iter().map(|later| later - end).collect();
        }
        Ok(())
    }

    /// Refuses what [`append`](Self::append) refuses.
    pub(crate) fn check(&self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        self.staging.check()?;
        let run = Run { ids, ends, mask: None, frame: self.frame() };
        if let Some((document, length)) = run.lengths().enumerate().find(|&(_, length)| length > self.longest) {
            self.refuse_long(self.documents + document as u64, length)?;
        }
        if self.options.mask { self.refuse_unfit(&without_masks(ids), ends) } else { self.refuse_unfit(ids, ends) }
    }

    /// Sorts documents in so much memory before they are appended.
    pub(crate) fn spill(&self, memory: usize) -> Spill {
        Spill::new(memory, self.staging.clone(), self.targets.spill())
    }

    pub(crate) fn options(&self) -> &OutputOptions {
        &self.options
    }

    /// The ids that the writer puts around each document; those of rows are in them.
    fn frame(&self) -> Frame {
        if self.packing.is_some() {
            return Frame::default();
        }
        Frame { bos: self.options.prepend_bos, eos: self.options.append_eos }
    }

    /// Appends documents that belong to one shard.
    fn append_run(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        let bytes = self.sizes(ids, ends).sum();
        let frame = self.frame();
        if self.options.mask {
            let (ids, mask) = (without_masks(ids), masks(ids));
            self.loss_tokens += mask.iter().map(|&one| u64::from(one)).sum::<u64>();
            self.write_run(Run { ids: &ids, ends, mask: Some(&mask), frame }, bytes)
        } else {
            self.write_run(Run { ids, ends, mask: None, frame }, bytes)
        }
    }

    /// Writes documents whose token data has so many bytes.
    fn write_run(&mut self, run: Run<'_>, bytes: u64) -> Result<(), OutputError> {
        if let Some(mask) = &mut self.mask {
            mask.append(run)?;
        }
        self.writer.as_mut().expect("present until published").append(run)?;
        let documents = run.ends.len() as u64;
        match &mut self.packing {
            Some(packing) => self.tokens += packing.put_segments(run.ids.len())?,
            None => {
                self.documents += documents;
                self.tokens += run.ids.len() as u64 + documents * run.frame.len() as u64;
            }
        }
        if let Some(shards) = &mut self.shards {
            shards.add(documents, bytes);
        }
        Ok(())
    }

    /// Bytes of the token data of documents. One that the format cannot hold has none.
    fn sizes<'a>(&self, ids: &'a [u32], ends: &'a [usize]) -> impl Iterator<Item = u64> + use<'a> {
        let (frame, dtype, longest, has_mask) = (self.frame(), self.dtype, self.longest, self.options.mask);
        let run = Run { ids, ends, mask: None, frame };
        run.documents().map(move |ids| {
            let length = ids.len() + frame.len();
            if length > longest {
                return 0;
            }
            let own = if has_mask { bytes_of_ids(dtype, &without_masks(ids)) } else { bytes_of_ids(dtype, ids) };
            let bytes = own + bytes_of_ids(dtype, &frame.around(&[]));
            bytes_of_document(dtype, bytes, length == 0)
        })
    }

    /// Ends a full shard, and opens the next one.
    fn begin_document(&mut self) -> Result<(), OutputError> {
        if self.is_shard_full() {
            self.finish_shard(None)?;
        }
        let Some(shards) = self.shards.as_ref().filter(|_| self.writer.is_none()) else { return Ok(()) };
        assert!(self.progress.is_none(), "an output that resumes has not begun");
        let mut files = Vec::new();
        for target in self.targets.shard(self.part, shards.finished.len()) {
            let file = self.staging.create(staged_name(&target))?;
            files.push(StagedFile::new(file, &target, &self.staging));
        }
        let (writer, mask, sidecar) = opened(&self.options, self.dtype, files, &mut self.packing)?;
        (self.writer, self.mask, self.sidecar) = (Some(writer), mask, sidecar);
        Ok(())
    }

    /// The number of these documents up to the one that ends the shard, if one does.
    pub(crate) fn end_of_shard(&self, ids: &[u32], ends: &[usize]) -> Option<usize> {
        // Shards end with rows.
        if self.packing.is_some() { None } else { self.end_in(ids, ends) }
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    fn end_in(&self, ids: &[u32], ends: &[usize]) -> Option<usize> {
        self.shards.as_ref()?.end_in(self.sizes(ids, ends))
    }

    /// Whether the next document begins another shard.
    pub(crate) fn is_shard_full(&self) -> bool {
        self.shards.as_ref().is_some_and(Shards::is_full)
    }

    /// Begins the run, or continues the one that was interrupted: then it returns where.
    pub(crate) fn begin(
        &mut self,
        identity: &dyn Fn(EncodeJob) -> RunIdentity,
        reading: EncodeJob,
    ) -> Result<Option<(Continuation, Checkpoint)>, OutputError> {
        let options = self.manifest_options(reading);
        // A part may be anywhere when a shard of another one ends, so a divided output has no record.
        let Some(shards) = self.shards.as_mut().filter(|_| self.parts.len() == 1 && self.options.pack.is_none()) else {
            return Ok(None);
        };
        let identity = identity(options);
        let (storage, path) = (self.staging.storage(), self.targets.progress());
        let failed = |error| self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", &path, error));
        let Some(progress) = self.progress.take() else {
            let file = self.staging.create(path.clone())?;
            shards.record = Some(ProgressWriter::begin(storage, file, &identity).map_err(failed)?);
            return Ok(None);
        };
        progress.check(&identity, &self.targets)?;
        let Some((last, (continuation, checkpoint))) = progress.shards.last().cloned().zip(progress.continuation())
        else {
            return Ok(None);
        };
        shards.finished = progress.shards.iter().map(|shard| shard.files.clone()).collect();
        shards.record = Some(ProgressWriter::resume(storage, progress).map_err(failed)?);
        (self.documents, self.tokens, self.skipped) = (last.documents, last.tokens, checkpoint.account.skipped);
        self.loss_tokens = last.loss_tokens;
        self.kept = self.documents * self.options.keep.len() as u64;
        if let Some(list) = self.list.take() {
            let (list, first) = resume_list(list, last.list_bytes)?;
            (self.list, self.first_skipped) = (Some(list), first);
        }
        Ok(Some((continuation, checkpoint)))
    }

    /// Ends the shard and records it, so that another run can continue here.
    pub(crate) fn end_shard(&mut self, checkpoint: Checkpoint, reports: &[FileReport]) -> Result<(), OutputError> {
        // A file that was not read to its end will fail the run.
        self.finish_shard(Some((checkpoint, reports)).filter(|(checkpoint, _)| checkpoint.is_covered_by(reports)))
    }

    /// Ends the last shard. An output without documents has one that is empty.
    pub(crate) fn end_shards(&mut self, checkpoint: Option<(Checkpoint, &[FileReport])>) -> Result<(), OutputError> {
        self.append_rows(true)?;
        let Some(shards) = &self.shards else { return Ok(()) };
        let number = shards.finished.len();
        if shards.documents == 0 && number > 0 {
            // A document that was removed again may have begun a shard.
            (self.mask, self.sidecar) = (None, None);
            return match self.writer.take() {
                Some(_) => self.staging.discard(&self.targets.shard(self.part, number)),
                None => Ok(()),
            };
        }
        if self.writer.is_none() {
            self.begin_document()?;
        }
        self.finish_shard(checkpoint)
    }

    fn finish_shard(&mut self, checkpoint: Option<(Checkpoint, &[FileReport])>) -> Result<(), OutputError> {
        if self.writer.is_none() || self.shards.is_none() {
            return Ok(());
        }
        assert_eq!(self.kept, self.documents * self.options.keep.len() as u64, "values of kept fields in a shard");
        let files = self.complete()?;
        let Some(shards) = self.shards.as_mut() else { return Ok(()) };
        if let Some((checkpoint, reports)) = checkpoint
            && let Some(record) = &mut shards.record
        {
            let list_bytes = self.list.as_mut().map_or(Ok(0), StagedFile::sync)?;
            let list_blake3 = self.list.as_ref().map_or_else(String::new, StagedFile::hash_so_far);
            self.staging.sync_directory(&self.targets)?;
            let (documents, tokens, loss_tokens) = (self.documents, self.tokens, self.loss_tokens);
            let shard = FinishedShard {
                files: files.clone(),
                documents,
                tokens,
                loss_tokens,
                list_bytes,
                list_blake3,
                checkpoint,
            };
            let path = self.targets.progress();
            record.add(self.staging.storage(), shard, reports).map_err(|error| {
                self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", &path, error))
            })?;
            let data = self.targets.shard(self.part, shards.finished.len());
            let names = data.iter().chain(&self.targets.data).map(|target| staged_name(target));
            self.staging.keep(&names.chain([path]).collect::<Vec<_>>())?;
        } else {
            // What follows cannot be continued without this shard.
            shards.record = None;
        }
        shards.finish(files);
        Ok(())
    }

    /// Completes the open files that hold documents.
    fn complete(&mut self) -> Result<Vec<OutputFile>, OutputError> {
        let mut complete = self.writer.take().expect("present until published").complete(&self.tokenizer)?;
        if let Some(mask) = self.mask.take() {
            complete.push(mask.complete()?);
        }
        if let Some(packing) = &mut self.packing {
            complete.append(&mut packing.complete()?);
        }
        if let Some(sidecar) = self.sidecar.take() {
            complete.push((sidecar.file.complete()?, None));
        }
        Ok(complete.into_iter().map(|file| output_file(&self.targets, file)).collect())
    }

    /// Removes finished shards too if nothing is published: no run can continue them.
    pub(crate) fn forget_shards(&self) {
        self.staging.forget();
    }

    /// Appends the values of the kept fields of documents that were appended: all values of the first document that has none yet, then those of
    /// the next one. Before the publication every document must have its values.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, ManifestBody};
    /// use windrow_tokenizers::output::{Kept, Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let mut output = Output::create(&OutputOptions { keep: vec!["url".into()], ..OutputOptions::new(&prefix, 300) })?;
    /// output.append(&[7, 8], &[2])?;
    /// output.keep(&Kept { bytes: b"\"a.org\"".to_vec(), ends: vec![7] })?;
    /// let documents = Documents { read: 1, written: 1, ..Documents::default() };
    /// output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
    /// assert_eq!(std::fs::read_to_string(prefix.with_extension("kept.jsonl"))?, "{\"url\":\"a.org\"}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`append`](Self::append): [`Io`](OutputErrorKind::Io), [`Interrupted`](OutputErrorKind::Interrupted).
    ///
    /// # Panics
    /// If these are not whole documents, or more than were appended.
    pub fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        if kept.ends.is_empty() {
            return Ok(());
        }
        let fields = self.options.keep.len() as u64;
        let values = self.kept + kept.ends.len() as u64;
        assert!(fields > 0 && values.is_multiple_of(fields), "values of a part of a document");
        assert!(values <= self.documents * fields, "values of documents that were not appended");
        self.staging.check()?;
        match &mut self.sidecar {
            Some(sidecar) => sidecar.append(kept)?,
            None => self.writer.as_mut().expect("present until published").keep(kept)?,
        }
        self.kept = values;
        Ok(())
    }

    /// Counts a skipped document and lists it: in `OUT.skipped.jsonl` if that was requested, and the first [`SKIPPED_IN_MANIFEST`] also
    /// in the manifest. Memory does not grow with their number.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, ManifestBody, SkippedDocument};
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let mut output = Output::create(&OutputOptions { list_skipped: true, ..OutputOptions::new(&prefix, 300) })?;
    /// output.skip(SkippedDocument { file: "a.jsonl".into(), line: 7, ..SkippedDocument::default() })?;
    /// let documents = Documents { read: 1, skipped: 1, ..Documents::default() };
    /// output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
    /// assert!(std::fs::read_to_string(prefix.with_extension("skipped.jsonl"))?.starts_with(r#"{"file":"a.jsonl","line":7"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`append`](Self::append): [`Io`](OutputErrorKind::Io), [`Interrupted`](OutputErrorKind::Interrupted).
    pub fn skip(&mut self, document: SkippedDocument) -> Result<(), OutputError> {
        if let Some(list) = &mut self.list {
            list.put(|bytes| {
                bytes.extend_from_slice(to_json(&document).as_bytes());
                bytes.push(b'\n');
            })?;
        }
        self.skipped += 1;
        if self.first_skipped.len() < SKIPPED_IN_MANIFEST {
            self.first_skipped.push(document);
        }
        Ok(())
    }

    /// The part to be written back by another thread while this output continues: see [`WriteBack`].
    pub(crate) fn write_back(&mut self) -> Option<WriteBack> {
        self.writer.as_mut().and_then(Writer::write_back)
    }

    fn refuse_long(&self, document: u64, length: usize) -> Result<(), OutputError> {
        if length > self.longest {
            let message = format!(
                "document {document} (from 0) has {length} ids, and the {} format holds {} at most",
                self.options.format, self.longest
            );
            return Err(OutputError::new(OutputErrorKind::Document, message)
                .in_document(document)
                .hint("split it, leave it out with --on-error skip, or use --format npy"));
        }
        Ok(())
    }

    fn refuse_unfit(&self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        let Some(dtype) = self.dtype.filter(|dtype| !dtype.fits(ids)) else { return Ok(()) };
        let at = ids.iter().position(|&id| id > dtype.largest()).expect("some id does not fit");
        let document = self.documents + ends.partition_point(|&end| end <= at) as u64;
        let message = format!(
            "id {} in document {document} (from 0) does not fit {dtype}: the tokenizer yields ids beyond its \
             vocabulary of {}",
            ids[at], self.options.vocab_size
        );
        let wider = if self.options.format == Format::Megatron { "i32" } else { "u32" };
        Err(OutputError::new(OutputErrorKind::Id, message)
            .in_document(document)
            .hint(format!("check the tokenizer, or pass --dtype {wider}")))
    }

    /// The options with what the output has made of them.
    fn manifest_options(&self, reading: EncodeJob) -> EncodeJob {
        let OutputOptions { format, append_eos, prepend_bos, pack, .. } = self.options;
        EncodeJob {
            format,
            dtype: self.dtype,
            bos: prepend_bos.map(TokenName::from),
            eos: append_eos.map(TokenName::from),
            append_eos: append_eos.is_some(),
            shard_size: self.options.shard_limit().and_then(|bytes| Size::new(bytes as usize)),
            pack: pack.map(|pack| pack.length),
            pack_mode: pack.map(|pack| pack.mode).unwrap_or_default(),
            pad: pack.and_then(|pack| pack.pad).map(TokenName::from),
            ..reading.explicit()
        }
    }

    /// Removes all staged files, as dropping does.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append(&[7, 8], &[2])?;
    /// output.abandon();
    /// assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abandon(self) {
        drop(self);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.staging.abandon();
    }
}
