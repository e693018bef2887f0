//! Token files: several formats, written under temporary names next to the final ones and published all at once.
//!
//! [`Output::create`] stages the files, [`Output::append`] takes runs of documents in order, and [`Output::publish`] makes
//! everything final and writes the manifest last. Until then no final name exists or changes. A run that ends early, by an error, a
//! panic or [`Staging::abandon`], leaves the directory as it was. A killed process leaves files with names that contain
//! `.windrow-`. If it was killed while it published, it also leaves data without a manifest. The next run with the same prefix
//! undoes all of that. Only one run at a time writes under a prefix.
//!
//! ```
//! use windrow_tokenizers::manifest::{Documents, Manifest};
//! use windrow_tokenizers::output::{Output, OutputOptions};
//!
//! let directory = tempfile::tempdir()?;
//! let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 50_257))?;
//! output.append(&[15496, 995, 0, 40], &[3, 3, 4])?; // three documents, the second is empty
//! let documents = Documents { read: 3, written: 3, ..Documents::default() };
//! let published = output.publish(Manifest { documents, ..Manifest::default() })?;
//! assert_eq!((published.documents, published.tokens), (3, 4));
//! assert!(directory.path().join("corpus.ids.npy").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod companion;
mod digest;
mod document;
mod error;
mod file;
mod format;
mod listed;
mod lock;
mod mask;
mod names;
mod options;
mod packed;
mod part;
mod prefix;
mod progress;
mod publish;
mod spill;
mod staging;
mod storage;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::PathBuf;

pub use document::Document;
pub use error::{OutputError, OutputErrorKind};
pub(crate) use file::{StagedFile, WriteBack};
#[cfg(test)]
pub(crate) use format::{Ending, Finished, FormatWriter};
pub(crate) use format::{NPY_HEADER, npy_header};
use listed::resume_list;
pub(crate) use mask::mask_header;
use names::staged_name;
pub(crate) use names::{Layout, suffixes};
pub use options::OutputOptions;
use packed::Packing;
use part::{Common, Part};
#[doc(hidden)]
pub use prefix::is_among_devices;
pub(crate) use progress::{Checkpoint, InputCounts, InputIdentity, RunIdentity};
use progress::{FinishedShard, Progress, ProgressWriter};
pub(crate) use spill::Order;
use spill::Spill;
pub use staging::Staging;

pub use crate::format::{Dtype, Format, UnknownName};
use crate::input::{Continuation, FileReport};
pub use crate::kept::{Kept, KeptValues};
use crate::manifest::{self, EncodeJob, OutputFile, Packed, SKIPPED_IN_MANIFEST, SkippedDocument};
use crate::to_json;
use crate::values::{Size, TokenName};

/// An output in progress. Dropping it without [`publish`](Self::publish) removes everything.
///
/// ```
/// use windrow_tokenizers::manifest::{Documents, Manifest};
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// output.append(&[7, 8, 9], &[3])?;
/// assert!(!directory.path().join("corpus.ids.npy").exists());
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// output.publish(Manifest { documents, ..Manifest::default() })?;
/// assert!(directory.path().join("corpus.ids.npy").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output {
    common: Common,
    /// The parts of a divided output; otherwise a single part.
    parts: Vec<Part>,
    manifest: Option<File>,
    /// The shards that another run has finished, until this run continues after them.
    progress: Option<Progress>,
    /// Shuffled documents that wait for their order.
    spill: Option<Spill>,
    /// The list of skipped documents, their number, and the first of them.
    list: Option<StagedFile>,
    skipped: u64,
    first_skipped: Vec<SkippedDocument>,
    /// The index of shards, if the format has one.
    index: Option<StagedFile>,
}

/// The result of a publication.
///
/// ```
/// use windrow_tokenizers::manifest::Manifest;
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// let published = output.publish(Manifest::default())?;
/// assert_eq!(published.manifest, directory.path().join("corpus.manifest.json"));
/// assert_eq!((published.files.len(), published.documents), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The data files, as in the manifest.
    pub files: Vec<OutputFile>,
    /// The parts of a divided output, as in the manifest.
    pub parts: Vec<manifest::Part>,
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
    pub not_removed: Vec<PathBuf>,
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
    /// The errors of [`create`](Self::create), and [`Interrupted`](OutputErrorKind::Interrupted) if `staging` was abandoned.
    pub fn create_in(options: &OutputOptions, staging: &Staging) -> Result<Self, OutputError> {
        options.check_prefix()?;
        if options.resume && options.shard_limit().is_none() {
            let message = "an output without shards cannot be resumed: no part of it is finished before the run ends";
            return Err(OutputError::new(OutputErrorKind::Usage, message).hint("pass --shard-size too, such as 1G"));
        }
        part::check(&options.parts, options.resume)?;
        let dtype = options.element_type()?;
        let targets = options.names();
        let (mut files, progress) = staging.open(&targets, options.overwrite, options.resume)?;
        let manifest = files.pop();
        let files = files.into_iter().zip(&targets.data).map(|(file, target)| StagedFile::new(file, target, staging));
        let mut files: Vec<_> = files.collect();
        let index = if options.format == Format::Mds { files.pop() } else { None };
        let list = if options.list_skipped { files.pop() } else { None };
        let common = Common {
            options: options.clone(),
            dtype,
            longest: options.format.files().longest(),
            targets,
            staging: staging.clone(),
            tokenizer: String::new(),
        };
        let mut parts: Vec<Part> = (0..options.parts.len().max(1)).map(|number| Part::new(number, options)).collect();
        let in_part = files.len() / parts.len();
        for part in parts.iter_mut().filter(|part| part.shards.is_none()) {
            part.begin_files(files.drain(..in_part).collect(), &common)?;
        }
        let (spill, first_skipped) = (None, Vec::new());
        Ok(Self { common, parts, manifest, progress, spill, list, skipped: 0, first_skipped, index })
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
        self.common.staging.clone()
    }

    pub(crate) fn has_shards(&self) -> bool {
        self.parts[0].shards.is_some()
    }

    /// Sets the name of the tokenizer before the first document, for formats whose files contain it.
    pub(crate) fn name_tokenizer(&mut self, name: &str) {
        name.clone_into(&mut self.common.tokenizer);
    }

    /// The number of [kept shards](Staging::kept_shards).
    pub(crate) fn kept_shards(&self) -> usize {
        self.common.staging.kept_shards()
    }

    pub(crate) fn options(&self) -> &OutputOptions {
        &self.common.options
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
        self.parts.iter().map(|part| part.documents).sum()
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
        self.parts.iter().map(|part| part.tokens).sum()
    }

    /// Ids appended so far whose mask is 1; `None` without masks.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Document, Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let options = OutputOptions { mask: true, ..OutputOptions::new(directory.path().join("corpus"), 300) };
    /// let mut output = Output::create(&options)?;
    /// output.push(Document { ids: &[7, 8, 9], mask: &[0, 1, 1], ..Document::default() })?;
    /// assert_eq!(output.loss_tokens(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn loss_tokens(&self) -> Option<u64> {
        self.common.options.mask.then(|| self.parts.iter().map(|part| part.loss_tokens).sum())
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
    /// fields are kept, or the output has masks.
    pub fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        assert!(ends.is_sorted(), "the ends of documents decrease");
        assert_eq!(ends.last().copied().unwrap_or(0), ids.len(), "the last document does not end with the ids");
        self.common.staging.check()?;
        let documents = || ends.iter().scan(0, |start, &end| Some(&ids[std::mem::replace(start, end)..end]));
        for (number, ids) in (self.parts[0].documents..).zip(documents()) {
            self.parts[0].check(ids, number, &self.common)?;
        }
        documents().try_for_each(|ids| self.put(0, Order::default(), Document { ids, ..Document::default() }))
    }

    /// Appends a document with its masks and kept values.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, Manifest};
    /// use windrow_tokenizers::output::{Document, Kept, Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let mut output = Output::create(&OutputOptions { keep: vec!["url".into()], ..OutputOptions::new(&prefix, 300) })?;
    /// let kept = Kept { bytes: b"\"a.org\"".to_vec(), ends: vec![7] };
    /// output.push(Document { ids: &[7, 8], kept: kept.values(), ..Document::default() })?;
    /// let documents = Documents { read: 1, written: 1, ..Documents::default() };
    /// output.publish(Manifest { documents, ..Manifest::default() })?;
    /// assert_eq!(std::fs::read_to_string(prefix.with_extension("kept.jsonl"))?, "{\"url\":\"a.org\"}\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    ///
    /// # Panics
    /// If the document lacks the value of a kept field or, in an output with masks, the mask of an id; if a mask is neither 0 nor 1.
    pub fn push(&mut self, document: Document<'_>) -> Result<(), OutputError> {
        assert!(document.mask.iter().all(|&one| one <= 1), "a mask is 0 or 1");
        self.common.staging.check()?;
        self.push_to(0, Order::default(), document)
    }

    /// Fails after an earlier failure, or if the output was abandoned.
    pub(crate) fn check(&self) -> Result<(), OutputError> {
        self.common.staging.check()
    }

    /// Appends a document to a part. The order matters if documents are [shuffled](Self::shuffle).
    pub(crate) fn push_to(&mut self, part: usize, order: Order, document: Document<'_>) -> Result<(), OutputError> {
        self.parts[part].check(document.ids, self.parts[part].documents, &self.common)?;
        self.put(part, order, document)
    }

    fn put(&mut self, number: usize, order: Order, document: Document<'_>) -> Result<(), OutputError> {
        let part = &mut self.parts[number];
        part.documents += 1;
        match &mut self.spill {
            Some(spill) => spill.push(order, number, document),
            None => part.push(document, &self.common),
        }
    }

    /// Makes documents wait for their order, in `memory` bytes, before they are written.
    pub(crate) fn shuffle(&mut self, memory: usize) {
        let Common { staging, targets, .. } = &self.common;
        self.spill = Some(Spill::new(memory, staging.clone(), targets.spill()));
    }

    /// Writes the documents that wait for their order.
    pub(crate) fn write_waiting(&mut self) -> Result<(), OutputError> {
        let Self { common, parts, spill, .. } = self;
        let Some(spill) = spill.take() else { return Ok(()) };
        spill.drain(&mut |placed| parts[placed.part].push(placed.document(), common))
    }

    /// True if documents may come part by part.
    pub(crate) fn takes_parts(&self) -> bool {
        self.spill.is_none() && self.common.options.pack.is_none()
    }

    /// Appends a part of a document, which it ends if `ends` is set. A document in parts becomes the same bytes as one that is appended whole.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append_part(&[7, 8], false)?;
    /// output.append_part(&[9], true)?;
    /// assert_eq!((output.documents(), output.tokens()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`append`](Self::append). After [`Id`](OutputErrorKind::Id) and [`Document`](OutputErrorKind::Document) the earlier parts are
    /// still there, and nothing of this one: only [`discard_parts`](Self::discard_parts) can follow.
    ///
    /// # Panics
    /// If the output has masks, keeps fields or is packed.
    pub fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError> {
        self.push_part(0, ids, ends.then(KeptValues::default))
    }

    /// [`append_part`](Self::append_part) for one part of the output. The kept values end the document.
    pub(crate) fn push_part(
        &mut self,
        part: usize,
        ids: &[u32],
        end: Option<KeptValues<'_>>,
    ) -> Result<(), OutputError> {
        assert!(!self.common.options.mask && self.takes_parts(), "parts of whole documents");
        self.common.staging.check()?;
        self.parts[part].push_part(ids, end, &self.common)
    }

    /// Removes the parts of a document that has not ended, as if it had never begun.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append_part(&[7, 8], false)?;
    /// output.discard_parts()?; // its end turns out to be bad
    /// output.append(&[9], &[1])?;
    /// assert_eq!((output.documents(), output.tokens()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](OutputErrorKind::Io) and [`Interrupted`](OutputErrorKind::Interrupted), as of [`append`](Self::append).
    pub fn discard_parts(&mut self) -> Result<(), OutputError> {
        self.parts.iter_mut().try_for_each(Part::discard)
    }

    /// True if the next document of this part begins another shard.
    pub(crate) fn is_shard_full(&self, part: usize) -> bool {
        // Shards of a packed output end with rows.
        self.parts[part].packing.is_none() && self.parts[part].is_shard_full()
    }

    /// Begins the run, or continues an interrupted one and returns the place where it continues.
    pub(crate) fn begin(
        &mut self,
        identity: &dyn Fn(EncodeJob) -> RunIdentity,
        reading: EncodeJob,
    ) -> Result<Option<(Continuation, Checkpoint)>, OutputError> {
        let options = self.manifest_options(reading);
        let Common { staging, targets, .. } = &self.common;
        // While a shard of one part ends, other parts may be at any place, so a divided output has no record.
        let ([part], None) = (&mut *self.parts, self.common.options.pack) else { return Ok(None) };
        let Some(shards) = &mut part.shards else { return Ok(None) };
        let identity = identity(options);
        let (storage, path) = (staging.storage(), targets.progress());
        let failed = |error| staging.failed("cannot write", &path, error);
        let Some(progress) = self.progress.take() else {
            let file = staging.create(path.clone())?;
            shards.record = Some(ProgressWriter::begin(storage, file, &identity).map_err(failed)?);
            return Ok(None);
        };
        progress.check(&identity, targets)?;
        let Some((last, (continuation, checkpoint))) = progress.shards.last().cloned().zip(progress.continuation())
        else {
            return Ok(None);
        };
        shards.finished = progress.shards.iter().map(|shard| shard.files.clone()).collect();
        shards.record = Some(ProgressWriter::resume(storage, progress).map_err(failed)?);
        part.resume(last.documents, last.tokens, last.loss_tokens);
        self.skipped = checkpoint.account.skipped;
        if let Some(list) = self.list.take() {
            let (list, first) = resume_list(list, last.list_bytes)?;
            (self.list, self.first_skipped) = (Some(list), first);
        }
        Ok(Some((continuation, checkpoint)))
    }

    /// Ends the shard of a part and records it, so that another run can continue here.
    pub(crate) fn end_shard(
        &mut self,
        part: usize,
        checkpoint: Checkpoint,
        reports: &[FileReport],
    ) -> Result<(), OutputError> {
        let Self { common, parts, list, .. } = self;
        let Common { staging, targets, .. } = &*common;
        let part = &mut parts[part];
        let record = part.shards.as_mut().and_then(|shards| shards.record.take());
        part.finish_shard(common)?;
        // A file before the position that was not read to its end will fail the run.
        let is_covered = checkpoint.position.file as usize <= reports.len();
        let (Some(mut record), Some(shards), true) = (record, &mut part.shards, is_covered) else {
            return Ok(());
        };
        let list_bytes = list.as_mut().map_or(Ok(0), StagedFile::sync)?;
        let list_blake3 = list.as_ref().map_or_else(String::new, StagedFile::hash_so_far);
        staging.sync_directory(targets)?;
        let (documents, tokens, loss_tokens) = (part.documents, part.tokens, part.loss_tokens);
        let files = shards.finished.last().cloned().unwrap_or_default();
        let shard = FinishedShard { files, documents, tokens, loss_tokens, list_bytes, list_blake3, checkpoint };
        let path = targets.progress();
        record.add(staging.storage(), shard, reports).map_err(|error| staging.failed("cannot write", &path, error))?;
        let data = targets.shard(0, shards.finished.len() - 1);
        let names = data.iter().chain(&targets.data).map(|target| staged_name(target));
        staging.keep(&names.chain([path]).collect::<Vec<_>>())?;
        shards.record = Some(record);
        Ok(())
    }

    /// Ends the last shard and records it, so that another run can publish the output of this one.
    pub(crate) fn end_shards(&mut self, checkpoint: Checkpoint, reports: &[FileReport]) -> Result<(), OutputError> {
        match self.parts[0].begin_end(&self.common)? {
            true => self.end_shard(0, checkpoint, reports),
            false => Ok(()),
        }
    }

    /// Removes finished shards too if nothing is published: no run can continue after them.
    pub(crate) fn forget_shards(&self) {
        self.common.staging.forget();
    }

    /// Counts a skipped document and lists it: in `OUT.skipped.jsonl` if that was requested, and the first [`SKIPPED_IN_MANIFEST`] also
    /// in the manifest. Memory does not grow with their number.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, Manifest, SkippedDocument};
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let prefix = directory.path().join("corpus");
    /// let mut output = Output::create(&OutputOptions { list_skipped: true, ..OutputOptions::new(&prefix, 300) })?;
    /// output.skip(SkippedDocument { file: "a.jsonl".into(), line: 7, ..SkippedDocument::default() })?;
    /// let documents = Documents { read: 1, skipped: 1, ..Documents::default() };
    /// output.publish(Manifest { documents, ..Manifest::default() })?;
    /// assert!(std::fs::read_to_string(prefix.with_extension("skipped.jsonl"))?.starts_with(r#"{"file":"a.jsonl","line":7"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](OutputErrorKind::Io) and [`Interrupted`](OutputErrorKind::Interrupted), as of [`append`](Self::append).
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
        self.parts.iter_mut().find_map(|part| part.writer.as_mut()?.write_back())
    }

    /// The options of the manifest: those of `reading`, with the values that this output uses.
    fn manifest_options(&self, reading: EncodeJob) -> EncodeJob {
        let OutputOptions { format, append_eos, prepend_bos, pack, .. } = self.common.options;
        EncodeJob {
            format,
            dtype: self.common.dtype,
            bos: prepend_bos.map(TokenName::from),
            eos: append_eos.map(TokenName::from),
            append_eos: append_eos.is_some(),
            shard_size: self.common.options.shard_limit().and_then(|bytes| Size::new(bytes as usize)),
            pack: pack.map(|pack| pack.length),
            pack_mode: pack.map(|pack| pack.mode).unwrap_or_default(),
            pad: pack.and_then(|pack| pack.pad).map(TokenName::from),
            ..reading.explicit()
        }
    }

    /// The first documents that were skipped.
    #[cfg(test)]
    pub(crate) fn first_skipped(&self) -> &[SkippedDocument] {
        &self.first_skipped
    }

    /// Replaces the writer, and refuses documents with more ids than `longest`.
    #[cfg(test)]
    pub(crate) fn set_writer(&mut self, writer: Box<dyn FormatWriter>, longest: usize) {
        (self.parts[0].writer, self.common.longest) = (Some(writer), longest);
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
        self.common.staging.abandon();
    }
}
