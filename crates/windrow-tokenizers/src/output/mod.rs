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

#[cfg_attr(not(feature = "parquet"), path = "no_columns.rs")]
mod columns;
mod datatrove;
mod digest;
mod error;
mod file;
mod format;
mod lock;
mod mds;
mod names;
mod progress;
mod run;
mod shards;
mod sidecar;
mod staging;
mod storage;
mod writer;

#[cfg(test)]
mod faults;
#[cfg(all(test, unix))]
mod weather;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub use error::{OutputError, OutputErrorKind};
pub use format::{Dtype, Format};
pub(crate) use names::suffixes;
pub use staging::Staging;

pub use crate::kept::Kept;

use crate::input::{Continuation, FileReport};
use crate::manifest::{
    Manifest, ManifestBody, Options, OutputFile, ReadOptions, SCHEMA, SKIPPED_IN_MANIFEST, SkippedDocument, root_of,
};
use crate::shown;
use columns::ColumnWriter;
pub(crate) use datatrove::metadata_says;
pub(crate) use file::WriteBack;
use file::{Complete, Mark, StagedFile, StorageWriter};
pub(crate) use mds::{config as mds_config, tokens_column as mds_tokens_column};
use names::{Targets, same_file, staged_name};
pub(crate) use progress::{Checkpoint, InputIdentity, RunIdentity};
use progress::{FinishedShard, Progress, ProgressWriter};
use run::Run;
use shards::{Shards, bytes_of_document, bytes_of_ids};
use sidecar::Sidecar;
pub(crate) use writer::{IDX_HEADER, NPY_HEADER, idx_header, npy_header};
use writer::{MegatronWriter, Writer};

/// What to write and where.
#[derive(Clone, Debug)]
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
    /// Whether existing files of this format and an existing manifest are replaced once everything is complete. Files of another format
    /// under the same prefix stay; the manifest no longer lists them.
    pub overwrite: bool,
    /// Whether `OUT.skipped.jsonl` is written too: one [`SkippedDocument`] per line, for every skipped document.
    pub list_skipped: bool,
    /// The names of the fields to [keep](Output::keep). They become columns if the [format has some](Format::has_columns), and otherwise a
    /// file beside the ids, `OUT.kept.jsonl`: a JSON object per document.
    pub keep: Vec<String>,
    /// Whether the output is divided into shards: `OUT-00000.bin`, `OUT-00001.bin` and so on, each complete by itself. A shard ends with the
    /// document that brings its token data to this number of bytes, so a document is never divided. [`Format::Mds`] always has shards, by
    /// default of 64 MiB.
    pub shard_bytes: Option<u64>,
    /// Whether [`encode`](crate::encode::encode) continues behind the last shard that an interrupted run of the same inputs and
    /// options has finished. Without such a run it starts from the beginning. Only an output with shards can resume.
    pub resume: bool,
}

impl OutputOptions {
    /// The default format with its defaults.
    pub fn new(prefix: impl Into<PathBuf>, vocab_size: u32) -> Self {
        Self {
            prefix: prefix.into(),
            format: Format::default(),
            dtype: None,
            vocab_size,
            append_eos: None,
            overwrite: false,
            list_skipped: false,
            keep: Vec::new(),
            shard_bytes: None,
            resume: false,
        }
    }

    /// The element type that will be written; none for text.
    ///
    /// # Errors
    /// [`OutputErrorKind::Usage`] if the options contradict each other or the ids do not fit.
    pub fn element_type(&self) -> Result<Option<Dtype>, OutputError> {
        if self.format == Format::Nanogpt && self.append_eos.is_none() {
            return Err(OutputError::new(
                OutputErrorKind::Usage,
                "the nanogpt format ends every document with an end-of-text id, and none is known",
            )
            .hint("name it with --eos TOKEN|ID, or use --format npy"));
        }
        match self.format {
            Format::Mds => mds::check(&self.keep, self.shard_limit().unwrap_or(0))?,
            Format::Arrow | Format::Parquet => ColumnWriter::check(&self.keep)?,
            _ => {}
        }
        let largest = self.vocab_size.saturating_sub(1).max(self.append_eos.unwrap_or(0));
        self.format.dtype(self.dtype, largest)
    }

    fn has_sidecar(&self) -> bool {
        !self.keep.is_empty() && !self.format.has_columns()
    }

    /// The size of shards, if the output has some.
    fn shard_limit(&self) -> Option<u64> {
        self.shard_bytes.or((self.format == Format::Mds).then_some(mds::SHARD_BYTES))
    }

    fn names(&self) -> Targets {
        let names = if self.shard_limit().is_some() { Targets::sharded } else { Targets::new };
        names(&self.prefix, self.format, self.has_sidecar(), self.list_skipped)
    }

    /// The files that publication creates or replaces, the manifest last; without the shards, whose number is not known before.
    pub fn targets(&self) -> Vec<PathBuf> {
        self.names().all().cloned().collect()
    }

    /// Refuses an output that would replace or remove one of the inputs.
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
                let message = format!("{} is an input of this run and would be replaced by its output", shown(path));
                return Err(OutputError::new(OutputErrorKind::CannotCreate, message)
                    .at(path)
                    .hint("choose another prefix with -o"));
            }
        }
        Ok(())
    }

    fn check_prefix(&self) -> Result<(), OutputError> {
        let refuse = |why: &str| {
            let message = format!("the output prefix \"{}\" {why}", shown(&self.prefix));
            Err(OutputError::new(OutputErrorKind::Usage, message)
                .hint("give a path that ends in a name, for example -o out/corpus"))
        };
        let bytes = self.prefix.as_os_str().as_encoded_bytes();
        match bytes.last() {
            None => refuse("is empty"),
            Some(&last) if std::path::is_separator(last.into()) => refuse("ends in a separator"),
            Some(_) if self.prefix.file_name().is_none() || bytes.ends_with(b"/.") => refuse("has no file name"),
            Some(_) => Ok(()),
        }
    }
}

/// An output in progress. Dropping it without [`publish`](Self::publish) removes everything.
#[derive(Debug)]
pub struct Output {
    /// Of the open shard, if there are shards; the file with the kept fields too.
    writer: Option<Writer>,
    sidecar: Option<Sidecar>,
    manifest: Option<File>,
    options: OutputOptions,
    dtype: Option<Dtype>,
    targets: Targets,
    staging: Staging,
    longest: usize,
    shards: Option<Shards>,
    /// The name of the tokenizer, as far as it is known.
    tokenizer: String,
    /// What another run has finished, until this one continues it.
    progress: Option<Progress>,
    /// The document that is being written part by part.
    open: Option<Open>,
    documents: u64,
    tokens: u64,
    /// Number of values of kept fields.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The data files, as in the manifest.
    pub files: Vec<OutputFile>,
    /// The path of the manifest.
    pub manifest: PathBuf,
    /// Documents written.
    pub documents: u64,
    /// Ids written, end-of-text ids included.
    pub tokens: u64,
    /// Replaced files that could not be removed, under the names to which they were moved aside. Almost always empty.
    pub left_behind: Vec<PathBuf>,
}

impl Output {
    /// Checks the options and stages the files. If the options are refused, nothing is created.
    ///
    /// # Errors
    /// [`Usage`](OutputErrorKind::Usage) for options that contradict each other; [`CannotCreate`](OutputErrorKind::CannotCreate) if a
    /// file exists, another run is writing it, or it cannot be created.
    pub fn create(options: &OutputOptions) -> Result<Self, OutputError> {
        Self::create_in(options, &Staging::default())
    }

    /// [`create`](Self::create) with a staging that another thread may already abandon.
    ///
    /// # Errors
    /// Those of [`create`](Self::create), and [`Interrupted`](OutputErrorKind::Interrupted) if `staging` was abandoned.
    pub fn create_in(options: &OutputOptions, staging: &Staging) -> Result<Self, OutputError> {
        options.check_prefix()?;
        if options.resume && options.shard_limit().is_none() {
            let message = "an output without shards cannot resume: nothing of it is finished before its end";
            return Err(OutputError::new(OutputErrorKind::Usage, message).hint("pass --shard-size too, such as 1G"));
        }
        let dtype = options.element_type()?;
        let targets = options.names();
        let staging::Opened { mut files, progress } = staging.open(&targets, options.overwrite, options.resume)?;
        let manifest = files.pop();
        let files = files.into_iter().zip(&targets.data).map(|(file, target)| StagedFile::new(file, target, staging));
        let mut files: Vec<_> = files.collect();
        let index = if options.format == Format::Mds { files.pop() } else { None };
        let list = if options.list_skipped { files.pop() } else { None };
        let shards = options.shard_limit().map(Shards::new);
        let (mut writer, mut sidecar) = (None, None);
        if shards.is_none() {
            (writer, sidecar) = opened(options, dtype, files)?;
        }
        Ok(Self {
            writer,
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
            tokenizer: String::new(),
            progress,
            open: None,
            documents: 0,
            tokens: 0,
            kept: 0,
            list,
            index,
            skipped: 0,
            first_skipped: Vec::new(),
        })
    }

    /// A handle with which another thread can stop this output.
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

    /// Documents appended so far.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Ids appended so far, end-of-text ids included.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Appends a run of consecutive documents: `ends[i]` is the end of document `i` in `ids`, and the start of the next one. The
    /// division of documents into runs does not change a byte.
    ///
    /// # Errors
    /// [`Id`](OutputErrorKind::Id) for an id that does not fit the element type, and [`Document`](OutputErrorKind::Document) for a
    /// document that is too long for the format. No document of this run was then written, and the output can continue. After
    /// [`Io`](OutputErrorKind::Io) and [`Interrupted`](OutputErrorKind::Interrupted) everything is removed and the output is
    /// unusable.
    ///
    /// # Panics
    /// If `ends` decreases or does not end at `ids.len()`, or a document was begun by [`append_part`](Self::append_part) and not ended; if
    /// fields are kept and a shard ends within the run, or before its documents have their values.
    pub fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        assert!(ends.is_sorted(), "the ends of documents decrease");
        assert_eq!(ends.last().copied().unwrap_or(0), ids.len(), "the last document does not end with the ids");
        assert!(self.open.is_none(), "the document before has not ended");
        self.staging.check()?;
        let run = Run { ids, ends, eos: self.options.append_eos };
        if let Some((document, length)) = run.lengths().enumerate().find(|&(_, length)| length > self.longest) {
            self.refuse_long(self.documents + document as u64, length)?;
        }
        self.refuse_unfit(ids, ends)?;
        if self.shards.is_none() {
            return self.append_run(run);
        }
        let (mut ids, mut ends) = (ids, ends.to_vec());
        while !ends.is_empty() {
            self.begin_document()?;
            let count = self.end_of_shard(ids, &ends).unwrap_or(ends.len());
            let later = ends.split_off(count);
            let end = ends.last().copied().unwrap_or(0);
            self.append_run(Run { ids: &ids[..end], ends: &ends, eos: self.options.append_eos })?;
            ids = &ids[end..];
            ends = later.into_iter().map(|later| later - end).collect();
        }
        Ok(())
    }

    /// Appends documents that belong to one shard.
    fn append_run(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        self.writer.as_mut().expect("present until published").append(run)?;
        let documents = run.ends.len() as u64;
        self.documents += documents;
        self.tokens += run.ids.len() as u64 + if run.eos.is_some() { documents } else { 0 };
        let bytes = self.sizes(run.ids, run.ends).sum();
        if let Some(shards) = &mut self.shards {
            shards.add(documents, bytes);
        }
        Ok(())
    }

    /// Bytes of the token data of documents. One that the format cannot hold has none.
    fn sizes<'a>(&self, ids: &'a [u32], ends: &'a [usize]) -> impl Iterator<Item = u64> + use<'a> {
        let (eos, dtype, longest) = (self.options.append_eos, self.dtype, self.longest);
        let run = Run { ids, ends, eos };
        run.documents().map(move |ids| {
            let length = ids.len() + eos.as_slice().len();
            if length > longest {
                return 0;
            }
            let bytes = bytes_of_ids(dtype, ids) + bytes_of_ids(dtype, eos.as_slice());
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
        for target in self.targets.shard(shards.finished.len()) {
            let file = self.staging.create(staged_name(&target))?;
            files.push(StagedFile::new(file, &target, &self.staging));
        }
        (self.writer, self.sidecar) = opened(&self.options, self.dtype, files)?;
        Ok(())
    }

    /// The number of these documents up to the one that ends the shard, if one does.
    pub(crate) fn end_of_shard(&self, ids: &[u32], ends: &[usize]) -> Option<usize> {
        self.shards.as_ref()?.end_in(self.sizes(ids, ends))
    }

    /// Whether the next document begins another shard.
    pub(crate) fn is_shard_full(&self) -> bool {
        self.shards.as_ref().is_some_and(Shards::is_full)
    }

    /// Begins the run, or continues the one that was interrupted: then it returns where.
    pub(crate) fn begin(
        &mut self,
        identity: &dyn Fn(Options) -> RunIdentity,
        reading: ReadOptions,
    ) -> Result<Option<(Continuation, Checkpoint)>, OutputError> {
        let options = self.manifest_options(reading);
        let Some(shards) = &mut self.shards else { return Ok(None) };
        let identity = identity(options);
        let (storage, path) = (self.staging.storage(), self.targets.progress());
        let failed = |error| self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", &path, error));
        let Some(progress) = self.progress.take() else {
            let file = self.staging.create(path.clone())?;
            shards.record = Some(ProgressWriter::begin(storage, file, &identity).map_err(failed)?);
            return Ok(None);
        };
        progress.check(&identity, &self.targets)?;
        let record = storage.open(&path).and_then(|file| ProgressWriter::resume(storage, file, &progress));
        shards.record = Some(record.map_err(failed)?);
        let Some((last, (continuation, checkpoint))) = progress.shards.last().zip(progress.continuation()) else {
            return Ok(None);
        };
        shards.finished = progress.shards.iter().map(|shard| shard.files.clone()).collect();
        (self.documents, self.tokens, self.skipped) = (last.documents, last.tokens, checkpoint.account.skipped);
        self.kept = self.documents * self.options.keep.len() as u64;
        if let Some(list) = self.list.take() {
            let (list, first) = resume_list(list, last.list_bytes)?;
            (self.list, self.first_skipped) = (Some(list), first);
        }
        Ok(Some((continuation, checkpoint.clone())))
    }

    /// Ends the shard and records it, so that another run can continue here.
    pub(crate) fn end_shard(&mut self, checkpoint: Checkpoint, reports: &[FileReport]) -> Result<(), OutputError> {
        // A file that was not read to its end will fail the run.
        self.finish_shard(Some((checkpoint, reports)).filter(|(checkpoint, _)| checkpoint.is_covered_by(reports)))
    }

    /// Ends the last shard. An output without documents has one that is empty.
    pub(crate) fn end_shards(&mut self, checkpoint: Option<(Checkpoint, &[FileReport])>) -> Result<(), OutputError> {
        let Some(shards) = &self.shards else { return Ok(()) };
        let number = shards.finished.len();
        if shards.documents == 0 && number > 0 {
            // A document that was removed again may have begun a shard.
            self.sidecar = None;
            return match self.writer.take() {
                Some(_) => self.staging.discard(&self.targets.shard(number)),
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
            self.staging.sync_directory(&self.targets)?;
            let (documents, tokens) = (self.documents, self.tokens);
            let shard = FinishedShard { files: files.clone(), documents, tokens, list_bytes, checkpoint };
            let path = self.targets.progress();
            record.add(self.staging.storage(), shard, reports).map_err(|error| {
                self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", &path, error))
            })?;
            let data = self.targets.shard(shards.finished.len());
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
        if let Some(sidecar) = self.sidecar.take() {
            complete.push((sidecar.file.complete()?, None));
        }
        Ok(complete.into_iter().map(|file| output_file(&self.targets, file)).collect())
    }

    /// Removes finished shards too if nothing is published: no run can continue them.
    pub(crate) fn forget_shards(&self) {
        self.staging.forget();
    }

    /// Appends a part of a document, which it ends if `ends` is set. A document in parts becomes the same bytes as one that is appended whole.
    ///
    /// # Errors
    /// Those of [`append`](Self::append). After [`Id`](OutputErrorKind::Id) and [`Document`](OutputErrorKind::Document) the parts before are still
    /// there, and nothing of this one: only [`discard_parts`](Self::discard_parts) can follow.
    pub fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError> {
        self.staging.check()?;
        let eos = self.options.append_eos;
        if self.open.is_none() {
            self.begin_document()?;
        }
        let writer = self.writer.as_mut().expect("present until published");
        let open = match self.open.take() {
            Some(open) => open,
            None => Open { mark: writer.mark()?, ids: 0, bytes: 0 },
        };
        let length = open.ids + ids.len() + usize::from(eos.is_some());
        let bytes = open.bytes + bytes_of_ids(self.dtype, ids);
        self.open = Some(open);
        self.refuse_long(self.documents, length)?;
        self.refuse_unfit(ids, &[])?;
        let writer = self.writer.as_mut().expect("present until published");
        writer.append_part(ids)?;
        self.open.iter_mut().for_each(|open| (open.ids, open.bytes) = (open.ids + ids.len(), bytes));
        if ends {
            writer.end_parts(length, eos)?;
            self.open = None;
            self.documents += 1;
            self.tokens += length as u64;
            if let Some(shards) = &mut self.shards {
                let bytes = bytes + bytes_of_ids(self.dtype, eos.as_slice());
                shards.add(1, bytes_of_document(self.dtype, bytes, length == 0));
            }
        }
        Ok(())
    }

    /// Removes the parts of a document that has not ended, as if it had never begun.
    ///
    /// # Errors
    /// As for [`append`](Self::append): [`Io`](OutputErrorKind::Io), [`Interrupted`](OutputErrorKind::Interrupted).
    pub fn discard_parts(&mut self) -> Result<(), OutputError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.writer.as_mut().expect("present until published").return_to(open.mark)
    }

    /// Appends the values of the kept fields of documents that were appended: all values of the first document that has none yet, then those of
    /// the next one. Before the publication every document must have its values.
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
    /// # Errors
    /// As for [`append`](Self::append): [`Io`](OutputErrorKind::Io), [`Interrupted`](OutputErrorKind::Interrupted).
    pub fn skip(&mut self, document: SkippedDocument) -> Result<(), OutputError> {
        if let Some(list) = &mut self.list {
            list.put(|bytes| {
                serde_json::to_writer(&mut *bytes, &document).expect("strings and numbers become JSON");
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

    /// Completes the files, writes the manifest, and gives all files their final names, or none.
    ///
    /// # Errors
    /// [`Accounting`](OutputErrorKind::Accounting) if the counts do not add up or a skipped document is not listed,
    /// [`CannotCreate`](OutputErrorKind::CannotCreate) if another process has taken a final name, [`Io`](OutputErrorKind::Io),
    /// [`Interrupted`](OutputErrorKind::Interrupted). In each case no final name is new, files that `overwrite` would have replaced
    /// are back in place, and staged files are removed.
    pub fn publish(mut self, body: ManifestBody) -> Result<Published, OutputError> {
        self.check_account(&body)?;
        if self.tokenizer.is_empty() {
            self.name_tokenizer(&body.tokenizer.name);
        }
        self.end_shards(None)?;
        let mut files: Vec<_> = match &mut self.shards {
            Some(shards) => {
                let names = (0..shards.finished.len()).flat_map(|number| self.targets.shard(number));
                let names: Vec<_> = names.collect();
                self.targets.data.splice(..0, names);
                std::mem::take(&mut shards.finished).concat()
            }
            None => self.complete()?,
        };
        let shards = self.shards.as_ref().map(|_| files.len());
        if let Some(list) = self.list.take() {
            files.push(output_file(&self.targets, (list.complete()?, None)));
        }
        if let Some((index, shards)) = self.index.take().zip(shards) {
            let index = index.resume(0, |_| ())?;
            let described =
                (self.dtype.unwrap_or(Dtype::U32), &*self.options.keep, self.options.shard_limit().unwrap_or(0));
            let index = mds::write_index(index, &self.targets, &self.staging, described, &files[..shards])?;
            files.push(output_file(&self.targets, (index, None)));
        }
        let manifest = Manifest {
            schema: SCHEMA,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            engine: body.engine,
            tokenizer: body.tokenizer,
            options: self.manifest_options(body.reading),
            inputs: body.inputs,
            documents: body.documents,
            text_bytes: body.text_bytes,
            tokens: self.tokens,
            outputs_blake3: Some(root_of(&files)),
            outputs: files,
            skipped: std::mem::take(&mut self.first_skipped),
        };
        self.write_manifest(&manifest)?;
        let left_behind = self.staging.publish(&self.targets, self.options.overwrite)?;
        Ok(Published {
            files: manifest.outputs,
            manifest: self.targets.manifest.clone(),
            documents: self.documents,
            tokens: self.tokens,
            left_behind,
        })
    }

    fn manifest_options(&self, reading: ReadOptions) -> Options {
        let OutputOptions { format, append_eos, .. } = self.options;
        Options { format, dtype: self.dtype, eos: append_eos, shard_bytes: self.options.shard_limit(), reading }
    }

    fn check_account(&self, body: &ManifestBody) -> Result<(), OutputError> {
        let counts = body.documents;
        let listed = self.skipped;
        let fields = self.options.keep.len() as u64;
        if self.kept != self.documents * fields {
            let message = format!(
                "the account of kept fields does not add up: {} values of {fields} fields in {} documents",
                self.kept, self.documents
            );
            let error = OutputError::new(OutputErrorKind::Accounting, message);
            return Err(error.hint("this is a fault of windrow: please report it"));
        }
        if counts.is_balanced() && counts.written == self.documents && counts.skipped == listed && self.open.is_none() {
            return Ok(());
        }
        let message = format!(
            "the account of documents does not add up: read {}, written {} (the output has {}), skipped {} (listed {listed}), failed {}",
            counts.read, counts.written, self.documents, counts.skipped, counts.failed
        );
        Err(OutputError::new(OutputErrorKind::Accounting, message).hint("this is a fault of windrow: please report it"))
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<(), OutputError> {
        let file = self.manifest.take().expect("present until published");
        let write = || {
            let mut writer = BufWriter::new(StorageWriter { staging: &self.staging, file: &file });
            serde_json::to_writer_pretty(&mut writer, manifest)?;
            writer.write_all(b"\n")?;
            writer.flush()?;
            drop(writer);
            self.staging.storage().sync(&file)
        };
        write().map_err(|error| {
            let target = &self.targets.manifest;
            self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", target, error))
        })
    }

    /// Removes all staged files, as dropping does.
    pub fn abandon(self) {
        drop(self);
    }
}

/// The writer of these staged files, the last of which may be for the kept fields.
fn opened(
    options: &OutputOptions,
    dtype: Option<Dtype>,
    mut files: Vec<StagedFile>,
) -> Result<(Option<Writer>, Option<Sidecar>), OutputError> {
    let sidecar = if options.has_sidecar() { files.pop() } else { None };
    let writer = Writer::new(options.format, dtype, files, &options.keep, options.shard_limit())?;
    Ok((Some(writer), sidecar.map(|file| Sidecar::new(file, &options.keep))))
}

/// A complete file as the manifest lists it.
fn output_file(targets: &Targets, (file, dtype): (Complete, Option<&'static str>)) -> OutputFile {
    OutputFile {
        file: targets.listed(&file.target),
        bytes: file.bytes,
        dtype: dtype.map(str::to_owned),
        blake3: file.blake3.to_hex().to_string(),
    }
}

/// Continues the list of skipped documents behind its first `bytes`. Returns the first of them too.
fn resume_list(list: StagedFile, bytes: u64) -> Result<(StagedFile, Vec<SkippedDocument>), OutputError> {
    let (mut first, mut line) = (Vec::new(), Vec::new());
    let list = list.resume(bytes, |block| {
        for part in block.split_inclusive(|&byte| byte == b'\n') {
            if first.len() == SKIPPED_IN_MANIFEST {
                return;
            }
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                first.extend(serde_json::from_slice::<SkippedDocument>(&line));
                line.clear();
            }
        }
    })?;
    Ok((list, first))
}

impl Drop for Output {
    fn drop(&mut self) {
        self.staging.abandon();
    }
}
