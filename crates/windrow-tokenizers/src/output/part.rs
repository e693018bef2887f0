//! A part of an output: its files, and the account of its documents.

use super::companion::CompanionFile;
use super::document::{Document, Frame, bytes_of_document, bytes_of_ids};
use super::error::{OutputError, OutputErrorKind};
use super::file::StagedFile;
use super::format::{Begin, Ending, Files, FormatWriter};
use super::mask::MaskWriter;
use super::names::{Targets, staged_name};
use super::options::OutputOptions;
use super::packed::{Packing, SegmentFiles};
use super::progress::ProgressWriter;
use super::staging::Staging;
use crate::format::{Dtype, Format};
use crate::kept::KeptValues;
use crate::manifest::OutputFile;

/// Settings that all parts of an output share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: OutputOptions,
    pub(super) dtype: Option<Dtype>,
    /// Maximum number of ids of a document.
    pub(super) longest: usize,
    pub(super) targets: Targets,
    pub(super) staging: Staging,
    /// The name of the tokenizer, as far as it is known.
    pub(super) tokenizer: String,
}

impl Common {
    /// The ids around each document.
    fn frame(&self) -> Frame {
        Frame { bos: self.options.prepend_bos, eos: self.options.append_eos }
    }

    /// A complete file as the manifest lists it.
    pub(super) fn listed(&self, (file, dtype): super::format::Finished) -> OutputFile {
        OutputFile {
            file: self.targets.listed(&file.target),
            bytes: file.bytes,
            dtype: dtype.map(str::to_owned),
            blake3: file.blake3.to_hex().to_string(),
        }
    }
}

/// One part of a divided output, or the whole of an output that is not divided.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The index of the part.
    number: usize,
    /// The files of the open shard, or of the part if there are no shards.
    pub(super) writer: Option<Box<dyn FormatWriter>>,
    mask: Option<MaskWriter>,
    companion: Option<CompanionFile>,
    pub(super) shards: Option<Shards>,
    /// The documents that are packed into rows.
    pub(super) packing: Option<Packing>,
    /// The document that is being written part by part.
    pub(super) open: Option<Open>,
    pub(super) documents: u64,
    /// Number of written documents, or of rows.
    written: u64,
    pub(super) tokens: u64,
    /// Ids whose mask is 1.
    pub(super) loss_tokens: u64,
}

/// The beginning of a document: number of ids so far, and their bytes.
#[derive(Debug)]
pub(super) struct Open {
    ids: usize,
    bytes: u64,
}

impl Part {
    /// A part without files. The files follow, unless the output has shards.
    pub(super) fn new(number: usize, options: &OutputOptions) -> Self {
        let shards = options.shard_limit().map(|limit| Shards { limit, ..Shards::default() });
        Self { number, shards, packing: options.pack.map(Packing::new), ..Self::default() }
    }

    /// Begins these files; the last ones may be for masks, segments and kept fields.
    pub(super) fn begin_files(&mut self, mut files: Vec<StagedFile>, common: &Common) -> Result<(), OutputError> {
        let options = &common.options;
        self.companion = match options.layout().has_kept {
            true => files.pop().map(|file| CompanionFile::new(file, &options.keep)),
            false => None,
        };
        if let Some(packing) = &mut self.packing
            && let Some((documents, ends)) = files.pop().zip(files.pop())
        {
            packing.files = Some(SegmentFiles::new(ends, documents)?);
        }
        let mask = if options.layout().has_mask { files.pop() } else { None };
        let begin = Begin { options, dtype: common.dtype.unwrap_or(Dtype::U32), first: self.written };
        self.mask = mask.map(|file| MaskWriter::new(file, options.format, begin.row())).transpose()?;
        self.writer = Some(options.format.files().begin(Files(files.into_iter()), &begin)?);
        Ok(())
    }

    /// Refuses a document that the format cannot hold.
    pub(super) fn check(&self, ids: &[u32], number: u64, common: &Common) -> Result<(), OutputError> {
        self.check_length(ids.len() + common.frame().len(), number, common)?;
        self.check_ids(ids, number, common)
    }

    fn check_length(&self, length: usize, document: u64, common: &Common) -> Result<(), OutputError> {
        if length <= common.longest {
            return Ok(());
        }
        let message = format!(
            "document {document} (counted from 0) has at least {length} ids, but the {} format allows at most {} per document",
            common.options.format, common.longest
        );
        Err(OutputError::new(OutputErrorKind::Document, message)
            .in_document(document)
            .hint("split it, skip it with --on-error skip, or use --format npy"))
    }

    fn check_ids(&self, ids: &[u32], document: u64, common: &Common) -> Result<(), OutputError> {
        let Some(dtype) = common.dtype.filter(|dtype| !dtype.fits(ids)) else { return Ok(()) };
        let id = ids.iter().find(|&&id| id > dtype.largest()).expect("at least one id does not fit");
        let message = format!(
            "id {id} in document {document} (counted from 0) does not fit in {dtype}: the tokenizer yields ids beyond its \
             vocabulary of {} tokens",
            common.options.vocab_size
        );
        let wider = if common.options.format == Format::Megatron { "i32" } else { "u32" };
        Err(OutputError::new(OutputErrorKind::Id, message)
            .in_document(document)
            .hint(format!("check the tokenizer, or pass --dtype {wider}")))
    }

    /// Appends a document that was [checked](Self::check), and counted.
    pub(super) fn push(&mut self, document: Document<'_>, common: &Common) -> Result<(), OutputError> {
        let Document { ids, mask, kept } = document;
        assert!(self.open.is_none(), "the previous document has not ended");
        assert_eq!(kept.len(), common.options.keep.len(), "a value for each kept field");
        assert_eq!(
            mask.len(),
            if common.options.mask { ids.len() } else { 0 },
            "a mask for each id if there are masks"
        );
        let frame = common.frame();
        let mask = if common.options.mask { &*frame.around_mask(mask) } else { mask };
        if let Some(packing) = &mut self.packing {
            packing.push(&frame.around(ids), mask);
            // Each document has a line of values, even if its ids are in rows.
            self.companion.as_mut().map_or(Ok(()), |companion| companion.append(kept))?;
            return self.push_rows(false, common);
        }
        self.write(frame, ids, mask, kept, common)?;
        self.tokens += (ids.len() + frame.len()) as u64;
        Ok(())
    }

    /// Appends the complete rows; at the end of the documents, also the rest.
    fn push_rows(&mut self, at_end: bool, common: &Common) -> Result<(), OutputError> {
        let (Some(packing), Some(pack)) = (&mut self.packing, common.options.pack) else { return Ok(()) };
        let (rows, length) = (packing.take(at_end), pack.length.get());
        for (number, row) in rows.ids.chunks(length).enumerate() {
            let mask = if rows.mask.is_empty() { &[] } else { &rows.mask[number * length..][..length] };
            self.write(Frame::default(), row, mask, KeptValues::default(), common)?;
            if let Some(packing) = &mut self.packing {
                self.tokens += packing.put_segments(length)?;
            }
        }
        Ok(())
    }

    /// Writes a document, or a row, to the shard where it belongs. `mask` includes the masks of the frame.
    fn write(
        &mut self,
        frame: Frame,
        ids: &[u32],
        mask: &[u8],
        kept: KeptValues<'_>,
        common: &Common,
    ) -> Result<(), OutputError> {
        self.begin_document(common)?;
        let writer = self.writer.as_mut().expect("present until published");
        let (length, mut bytes) = (ids.len() + frame.len(), 0);
        for ids in [frame.bos.as_slice(), ids, frame.eos.as_slice()].into_iter().filter(|ids| !ids.is_empty()) {
            writer.ids(ids)?;
            // Of a format with text, this takes time.
            if self.shards.is_some() {
                bytes += bytes_of_ids(common.dtype, ids);
            }
        }
        self.end_document(Ending { ids: length, mask: common.options.mask.then_some(mask), kept }, bytes, common)
    }

    /// Ends a document whose ids are written, and take this number of bytes.
    fn end_document(&mut self, ending: Ending<'_>, bytes: u64, common: &Common) -> Result<(), OutputError> {
        self.writer.as_mut().expect("present until published").end(ending)?;
        let mask = ending.mask.unwrap_or_default();
        self.loss_tokens += mask.iter().map(|&one| u64::from(one)).sum::<u64>();
        if let Some(file) = &mut self.mask {
            file.append(mask)?;
        }
        if let Some(companion) = self.companion.as_mut().filter(|_| ending.kept.len() > 0) {
            companion.append(ending.kept)?;
        }
        self.written += 1;
        if let Some(shards) = &mut self.shards {
            shards.add(bytes_of_document(common.dtype, bytes, ending.ids == 0));
        }
        Ok(())
    }

    /// Appends a part of a document, which it ends with the kept values if there are some.
    pub(super) fn push_part(
        &mut self,
        ids: &[u32],
        end: Option<KeptValues<'_>>,
        common: &Common,
    ) -> Result<(), OutputError> {
        let frame = common.frame();
        if self.open.is_none() {
            self.begin_document(common)?;
            let writer = self.writer.as_mut().expect("present until published");
            writer.begin()?;
            writer.ids(frame.bos.as_slice())?;
            let bos = frame.bos.as_slice();
            self.open = Some(Open { ids: bos.len(), bytes: bytes_of_ids(common.dtype, bos) });
        }
        let open = self.open.as_ref().expect("begun above");
        let length = open.ids + ids.len() + frame.eos.as_slice().len();
        self.check_length(length, self.documents, common)?;
        self.check_ids(ids, self.documents, common)?;
        let writer = self.writer.as_mut().expect("present until published");
        writer.ids(ids)?;
        let bytes = open.bytes + bytes_of_ids(common.dtype, ids);
        let Some(kept) = end else {
            self.open = Some(Open { ids: open.ids + ids.len(), bytes });
            return Ok(());
        };
        assert_eq!(kept.len(), common.options.keep.len(), "a value for each kept field");
        writer.ids(frame.eos.as_slice())?;
        let bytes = bytes + bytes_of_ids(common.dtype, frame.eos.as_slice());
        self.end_document(Ending { ids: length, mask: None, kept }, bytes, common)?;
        self.open = None;
        self.documents += 1;
        self.tokens += length as u64;
        Ok(())
    }

    /// Removes the parts of a document that has not ended.
    pub(super) fn discard(&mut self) -> Result<(), OutputError> {
        let Some(_) = self.open.take() else { return Ok(()) };
        self.writer.as_mut().expect("present until published").discard()
    }

    /// Ends a full shard, and opens the next one.
    fn begin_document(&mut self, common: &Common) -> Result<(), OutputError> {
        if self.is_shard_full() {
            self.finish_shard(common)?;
        }
        if self.writer.is_some() {
            return Ok(());
        }
        let Some(shards) = &self.shards else { return Ok(()) };
        let mut files = Vec::new();
        for target in common.targets.shard(self.number, shards.finished.len()) {
            let file = common.staging.create(staged_name(&target))?;
            files.push(StagedFile::new(file, &target, &common.staging));
        }
        self.begin_files(files, common)
    }

    /// True if the next document begins another shard.
    pub(super) fn is_shard_full(&self) -> bool {
        self.shards.as_ref().is_some_and(Shards::is_full)
    }

    /// Finishes the open shard. No run can continue after it, unless it is recorded.
    pub(super) fn finish_shard(&mut self, common: &Common) -> Result<(), OutputError> {
        if self.writer.is_none() {
            return Ok(());
        }
        let files = self.complete(common)?;
        if let Some(shards) = &mut self.shards {
            shards.record = None;
            shards.finish(files);
        }
        Ok(())
    }

    /// Begins the last shard, if it is missing: an output without documents has one that is empty. Removes a shard that was begun for a document
    /// that was then removed. Returns false if nothing is left to finish.
    pub(super) fn begin_end(&mut self, common: &Common) -> Result<bool, OutputError> {
        self.push_rows(true, common)?;
        let Some(shards) = &self.shards else { return Ok(false) };
        let number = shards.finished.len();
        if shards.documents > 0 || number == 0 {
            if self.writer.is_none() {
                self.begin_document(common)?;
            }
            return Ok(true);
        }
        (self.mask, self.companion) = (None, None);
        if self.writer.take().is_some() {
            common.staging.discard(&common.targets.shard(self.number, number))?;
        }
        Ok(false)
    }

    /// Ends the last shard, and returns all files.
    pub(super) fn end(&mut self, common: &Common) -> Result<Vec<Vec<OutputFile>>, OutputError> {
        if self.begin_end(common)? {
            self.finish_shard(common)?;
        }
        match &mut self.shards {
            Some(shards) => Ok(std::mem::take(&mut shards.finished)),
            None => Ok(vec![self.complete(common)?]),
        }
    }

    /// Completes the open files that hold documents.
    fn complete(&mut self, common: &Common) -> Result<Vec<OutputFile>, OutputError> {
        let mut complete = self.writer.take().expect("present until published").finish(&common.tokenizer)?;
        if let Some(mask) = self.mask.take() {
            complete.push(mask.complete()?);
        }
        if let Some(packing) = &mut self.packing {
            complete.append(&mut packing.complete()?);
        }
        if let Some(companion) = self.companion.take() {
            complete.push((companion.file.complete()?, None));
        }
        Ok(complete.into_iter().map(|file| common.listed(file)).collect())
    }

    /// Continues after the finished shards of another run.
    pub(super) fn resume(&mut self, documents: u64, tokens: u64, loss_tokens: u64) {
        (self.documents, self.written, self.tokens, self.loss_tokens) = (documents, documents, tokens, loss_tokens);
    }
}

/// The shards of a part. A shard ends with the document that brings its token data to the limit, so the bounds depend only on the documents.
#[derive(Debug, Default)]
pub(super) struct Shards {
    /// The size with which a shard is full, in bytes.
    limit: u64,
    /// The files of the finished shards.
    pub(super) finished: Vec<Vec<OutputFile>>,
    /// Documents in the open shard, and bytes of their token data.
    documents: u64,
    bytes: u64,
    pub(super) record: Option<ProgressWriter>,
}

impl Shards {
    /// True if the open shard takes no more documents.
    fn is_full(&self) -> bool {
        self.documents > 0 && self.bytes >= self.limit
    }

    /// Counts a document of the open shard.
    fn add(&mut self, bytes: u64) {
        self.documents += 1;
        self.bytes += bytes;
    }

    /// Records that the open shard is finished.
    pub(super) fn finish(&mut self, files: Vec<OutputFile>) {
        self.finished.push(files);
        (self.documents, self.bytes) = (0, 0);
    }
}

/// Names of parts that would collide with other files.
const TAKEN: [&str; 6] = ["ids", "offsets", "mask", "kept", "skipped", "manifest"];

/// Refuses names of parts that no file can have, and options that contradict a divided output.
pub(super) fn check(names: &[String], resume: bool) -> Result<(), OutputError> {
    let refused = |message: String, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
    for (number, name) in names.iter().enumerate() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_plain) || TAKEN.contains(&&*name.to_ascii_lowercase()) {
            let message = format!("a part cannot have the name {name:?}");
            return refused(
                message,
                "use only ASCII letters, digits and _, as in train; the names ids, offsets, mask, kept, skipped and manifest \
                 are reserved",
            );
        }
        if names[..number].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return refused(
                format!("two parts have the name {name:?}"),
                "rename one of them; names are compared without regard to case",
            );
        }
    }
    if resume && !names.is_empty() {
        let message = "an output that is divided into parts cannot be resumed: the shards of its parts end at different documents";
        return refused(message.to_owned(), "omit --resume or --split");
    }
    Ok(())
}
