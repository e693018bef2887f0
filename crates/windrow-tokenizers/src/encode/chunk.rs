//! Encodes batches of records into chunks of ids.

use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use windrow::CancelToken;
use windrow::prelude::*;

use super::budget::Budget;
use super::seen::Seen;
use super::{Job, LargeDocument, Observer, Step};
use crate::chat::{Chat, Locate};
use crate::diagnose::is_pointer;
use crate::document::{Fault, explain_first, keep_of, names_of, null_fault, text_in, utf8};
use crate::engine::{BatchError, Encoder, Engine, EngineError, Ragged, has_memory};
use crate::input::{Batch, Fields, Format, Record};
use crate::kept::Kept;
use crate::manifest::{Selection, SkippedDocument};
use crate::output::Document;

/// The weight of a record beyond its bytes, in bytes, so that a million empty lines are not one chunk.
const RECORD_WEIGHT: usize = 16;

/// Maximum size of scratch that is kept for the next chunk.
const KEPT_SCRATCH: usize = 1 << 20;

/// Memory per byte of a record for its text, as it grows.
const BYTES_OF_COPY: usize = 3;

/// Size in chunks from which all threads encode a document together.
const LONG: usize = 4;

/// Consecutive records of one input, encoded.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Range of the records in the batch.
    pub(super) records: Range<usize>,
    /// The ids of the good records, concatenated, and the mask of each if there are masks.
    pub(super) ids: Vec<u32>,
    pub(super) mask: Vec<u8>,
    /// The end of each good record in `ids`.
    pub(super) ends: Vec<usize>,
    /// The kept values of the good records.
    pub(super) kept: Kept,
    /// The bad records, in order.
    pub(super) bad: Vec<Bad>,
    /// Bytes of text of the good records.
    pub(super) text_bytes: u64,
    /// The index of each good record in the batch, and the bytes of its text, unless it is a part of a document.
    pub(super) good: Vec<(usize, usize)>,
    /// True if its only record is a part of a document. The ids of the earlier parts are in the chunk before.
    pub(super) is_part: bool,
    /// True if the ids of the earlier parts are void, because the field with the text occurs again.
    pub(super) is_void_before: bool,
}

/// A good record of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded<'c> {
    /// Its index in the batch.
    pub(super) record: usize,
    /// Bytes of its text.
    pub(super) bytes: usize,
    pub(super) document: Document<'c>,
}

/// A record without ids.
#[derive(Clone, Debug)]
pub(super) struct Bad {
    /// Its index in the batch.
    pub(super) record: usize,
    pub(super) document: SkippedDocument,
    /// True if the machine failed, not the document. A failed machine ends the run; otherwise the published files would depend on the machine.
    pub(super) is_out_of_memory: bool,
}

impl Bad {
    /// A `record` that is bad as a whole.
    pub(super) fn whole(index: usize, name: &str, record: &Record, reason: String) -> Self {
        let Record { line, offset, .. } = *record;
        let document = SkippedDocument { file: name.to_owned(), line, byte: 1, offset, reason };
        Self { record: index, document, is_out_of_memory: false }
    }

    /// A `record` without ids.
    pub(super) fn of_engine(index: usize, name: &str, record: &Record, error: &EngineError) -> Self {
        let is_out_of_memory = matches!(error, EngineError::NoMemory { .. });
        Self { is_out_of_memory, ..Self::whole(index, name, record, error.to_string()) }
    }

    /// A `record` with a fault, at the place of the fault's line.
    pub(super) fn of_fault(index: usize, name: &str, record: &Record, fault: Fault) -> Self {
        let mut bad = Self::whole(index, name, record, fault.reason);
        bad.document.line += fault.line_in_record;
        bad.document.byte = fault.byte;
        bad.document.offset = record.offset + fault.at as u64 - (fault.byte - 1);
        bad
    }
}

impl Chunk {
    /// The good records in order. Each has this many kept values.
    pub(super) fn documents(&self, values: usize) -> impl Iterator<Item = Encoded<'_>> {
        let mut start = 0;
        self.good.iter().zip(&self.ends).enumerate().map(move |(number, (&(record, bytes), &end))| {
            let ids = mem::replace(&mut start, end)..end;
            let mask = if self.mask.is_empty() { &[] } else { &self.mask[ids.clone()] };
            let kept = self.kept.slice(number * values..(number + 1) * values);
            Encoded { record, bytes, document: Document { ids: &self.ids[ids], mask, kept } }
        })
    }

    /// The memory of the chunk, in bytes.
    pub(super) fn memory(&self) -> usize {
        let texts = self.bad.iter().map(|bad| bad.document.file.capacity() + bad.document.reason.capacity());
        self.ids.capacity() * size_of::<u32>()
            + self.mask.capacity()
            + (self.ends.capacity() + 2 * self.good.capacity()) * size_of::<usize>()
            + self.bad.capacity() * size_of::<Bad>()
            + self.kept.memory()
            + texts.sum::<usize>()
    }
}

/// The shared state of the encode stage's workers.
pub(super) struct EncodeContext<'e> {
    pub(super) engine: &'e dyn Engine,
    pub(super) observer: &'e dyn Observer,
    /// Names of the input files.
    pub(super) names: &'e [String],
    /// The fields to read of a JSON line, or the columns of a Parquet file.
    pub(super) fields: &'e Fields,
    /// The chat template, if the lines are conversations.
    pub(super) chat: Option<&'e Chat>,
    /// Finds masks, if the chat has any.
    pub(super) locate: Option<&'e dyn Locate>,
    pub(super) selection: &'e Selection,
    /// True if the first bad document ends the run, so that nothing after it is needed.
    pub(super) stop_at_bad: bool,
    pub(super) chunk_bytes: usize,
    /// Unused encoders and buffers; there are no more than workers.
    pub(super) unused: Mutex<Vec<EncodeState<'e>>>,
    pub(super) seen: Seen,
}

/// The buffers and the encoder of one worker.
pub(super) struct EncodeState<'e> {
    encoder: Box<dyn Encoder + 'e>,
    /// JSON strings after unescaping, for each record of a chunk.
    unescaped: Vec<String>,
}

impl<'e> EncodeContext<'e> {
    /// A state without masks, which does not stop at a bad document.
    pub(super) fn new(
        job: &'e Job,
        engine: &'e dyn Engine,
        observer: &'e dyn Observer,
        names: &'e [String],
        fields: &'e Fields,
    ) -> Self {
        Self {
            engine,
            observer,
            names,
            fields,
            chat: job.chat.as_ref(),
            locate: None,
            selection: &job.reading.selection,
            stop_at_bad: false,
            chunk_bytes: job.chunk_bytes,
            unused: Mutex::default(),
            seen: Seen::default(),
        }
    }
}

impl EncodeContext<'_> {
    /// Announces the documents of a batch that exceed the budget, and returns their number. With `begins_with_part`, the first record is part of a
    /// document that is encoded part by part, and exceeds nothing.
    pub(super) fn announce(&self, batch: &Batch, begins_with_part: bool, budget: &Budget) -> u64 {
        let records = batch.records.iter().enumerate().skip(usize::from(begins_with_part));
        let whole = records.filter(|(at, _)| is_chosen(self.selection, batch, *at));
        let exceeding = whole.filter_map(|(_, record)| Some((record, budget.exceeds(record.len)?)));
        exceeding.fold(0, |count, (record, expected)| {
            let (file, engine) = (self.names[record.file as usize].as_str(), self.engine.name());
            self.observer.exceeds(&LargeDocument { file, line: record.line, bytes: record.len, engine, expected });
            count + 1
        })
    }

    /// Encodes the records of a batch from `start` on. With `stop_at_bad`, the chunks end with the one that contains the first bad document.
    /// `token` is cancelled when the run has failed elsewhere, so that no chunk is needed any more.
    pub(super) fn encode(&self, batch: &Batch, start: usize, token: &CancelToken) -> Vec<Chunk> {
        let cuts = divide(&batch.records, start, self.chunk_bytes);
        let encoded =
            cuts.par_iter().weigh(|cut| cut.weight).map(|cut| self.encode_chunk(batch, cut.records.clone(), token));
        let mut chunks: Vec<Chunk> = encoded.collect();
        if self.stop_at_bad
            && let Some(last) = chunks.iter().position(|chunk| !chunk.bad.is_empty())
        {
            chunks.truncate(last + 1);
        }
        self.observer.advanced(&Step { stored: batch.stored, ..Step::default() });
        chunks
    }

    fn encode_chunk(&self, batch: &Batch, records: Range<usize>, token: &CancelToken) -> Chunk {
        if token.is_cancelled() {
            return Chunk::default();
        }
        let kept = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut state = kept.unwrap_or_else(|| EncodeState { encoder: self.engine.encoder(), unescaped: Vec::new() });
        let mut chunk = Chunk { records: records.clone(), ..Chunk::default() };
        let EncodeState { encoder, unescaped } = &mut state;
        unescaped.resize_with(records.len(), String::new);
        let chosen = records.filter(|&at| is_chosen(self.selection, batch, at));
        let texts: Vec<_> =
            chosen.zip(unescaped.iter_mut()).map(|(at, unescaped)| self.text(batch, at, unescaped)).collect();
        self.encode_texts(batch, texts, encoder.as_mut(), &mut chunk);
        self.observer.advanced(&Step {
            stored: 0,
            documents: (chunk.ends.len() + chunk.bad.len()) as u64,
            text_bytes: chunk.text_bytes,
            ids: chunk.ids.len() as u64,
        });
        // Growing by doubling leaves up to half of it unused, and the ids may wait for the writer.
        shrink(&mut chunk.ids);
        // The memory of one huge document must not stay allocated for ever.
        if unescaped.iter().map(String::capacity).sum::<usize>() > KEPT_SCRATCH {
            *unescaped = Vec::new();
        }
        // An encoder that panics unwinds past this line and is not used again.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        chunk
    }

    /// The text of a record, or the reason why it is bad.
    fn text<'t>(&self, batch: &'t Batch, index: usize, unescaped: &'t mut String) -> Result<Text<'t>, Bad> {
        let record = &batch.records[index];
        let name = &self.names[record.file as usize];
        // A failed allocation for the copy of a long text would end the process.
        let bytes = record.len.saturating_mul(BYTES_OF_COPY);
        if !has_memory(bytes) {
            let error = EngineError::no_memory(self.engine.name(), record.len, bytes);
            return Err(Bad::of_engine(index, name, record, &error));
        }
        let mut spans = Vec::new();
        let text = match (record.null, self.chat) {
            (Some(column), _) => Err(null_fault(&self.fields.text[usize::from(column)])),
            (None, None) => text_in(record.format, batch.bytes_of(record), self.fields, unescaped),
            (None, Some(chat)) => {
                let line = utf8(batch.bytes_of(record));
                line.and_then(|line| chat.render(line, &self.fields.text[0])).map(|rendered| {
                    (*unescaped, spans) = rendered;
                    unescaped.as_str()
                })
            }
        };
        match text {
            Ok(text) => {
                let is_first = record.format == Format::Text || (record.format == Format::Lines && record.line == 1);
                if is_first && name == "-" && is_json_line(text) {
                    self.seen.json_lines();
                }
                if is_first && is_pointer(text.as_bytes()) {
                    self.seen.pointer(name);
                }
                Ok(Text { record: index, text, spans })
            }
            Err(mut fault) => {
                if batch.number_of(index) == 1 {
                    explain_first(&mut fault, record.format, batch.bytes_of(record));
                }
                Err(Bad::of_fault(index, name, record, fault))
            }
        }
    }

    /// Encodes runs of good texts together. The chunk ends with the first bad record if nothing after it is needed.
    fn encode_texts(
        &self,
        batch: &Batch,
        texts: Vec<Result<Text<'_>, Bad>>,
        encoder: &mut (dyn Encoder + '_),
        chunk: &mut Chunk,
    ) {
        let mut run: Vec<Text<'_>> = Vec::with_capacity(texts.len());
        for text in texts {
            match text {
                Ok(text) => run.push(text),
                Err(bad) => {
                    if self.encode_run(batch, &run, encoder, chunk) {
                        return;
                    }
                    run.clear();
                    chunk.bad.push(bad);
                    if self.stop_at_bad {
                        return;
                    }
                }
            }
        }
        self.encode_run(batch, &run, encoder, chunk);
    }

    /// Encodes texts; those that the engine cannot encode become bad records. Returns true if nothing after the last bad one is needed.
    fn encode_run(
        &self,
        batch: &Batch,
        mut run: &[Text<'_>],
        encoder: &mut (dyn Encoder + '_),
        chunk: &mut Chunk,
    ) -> bool {
        while !run.is_empty() {
            // The texts before the first failed one are encoded again. Memory may be missing for one of them now.
            let (mut good, mut failed) = (run.len(), None);
            while good > 0
                && let Err(BatchError { document, error }) = self.encode_together(&run[..good], encoder, chunk)
            {
                (good, failed) = (document.min(good - 1), Some(error));
            }
            chunk.text_bytes += run[..good].iter().map(|text| text.text.len() as u64).sum::<u64>();
            chunk.good.extend(run[..good].iter().map(|text| (text.record, text.text.len())));
            run[..good].iter().for_each(|text| self.keep(batch, text.record, &mut chunk.kept));
            let Some(error) = failed else { return false };
            let index = run[good].record;
            let record = &batch.records[index];
            let bad = Bad::of_engine(index, &self.names[record.file as usize], record, &error);
            let is_last = self.stop_at_bad || bad.is_out_of_memory;
            chunk.bad.push(bad);
            if is_last {
                return true;
            }
            run = &run[good + 1..];
        }
        false
    }

    /// Appends the kept values of a record.
    fn keep(&self, batch: &Batch, index: usize, kept: &mut Kept) {
        let fields = &self.fields.keep;
        if fields.is_empty() {
            return;
        }
        let record = &batch.records[index];
        match record.format {
            Format::Jsonl => {
                let line = batch.bytes_of(record);
                keep_of(line, fields, kept, &mut |field| self.seen.has(field));
                self.seen.kept_at((u64::from(record.file) << 40) | record.offset, || names_of(line));
            }
            Format::Parquet | Format::Warc => {
                let values = batch.kept.slice(index * fields.len()..(index + 1) * fields.len());
                // A column is there, and a header may be missing.
                let is_there = |value: &[u8]| record.format == Format::Parquet || value != b"null";
                let found = values.iter().enumerate().filter(|(_, value)| is_there(value));
                found.for_each(|(field, _)| self.seen.has(field));
                kept.append(values);
            }
            Format::Text | Format::Lines => put_nulls(fields.len(), kept),
        }
    }

    /// Appends the ids of all texts, or of none. All threads encode a long text together, if the engine can cut it.
    fn encode_together(
        &self,
        run: &[Text<'_>],
        encoder: &mut (dyn Encoder + '_),
        chunk: &mut Chunk,
    ) -> Result<(), BatchError> {
        let has_mask = self.chat.is_some_and(Chat::has_mask);
        if let Some(locate) = self.locate.filter(|_| has_mask) {
            return self.encode_with_masks(run, locate, encoder, chunk);
        }
        let texts: Vec<&str> = run.iter().map(|text| text.text).collect();
        if let [text] = *texts.as_slice()
            && text.len() >= LONG * self.chunk_bytes
            && chunk.ids.is_empty()
        {
            let mut batch = Ragged::default();
            self.engine.encode_batch(&texts, &mut batch)?;
            chunk.ids = batch.values;
            chunk.ends.push(chunk.ids.len());
            return Ok(());
        }
        encoder.encode_all(&texts, &mut chunk.ids, &mut chunk.ends)
    }

    /// Appends the ids and masks of all texts, or of none.
    fn encode_with_masks(
        &self,
        run: &[Text<'_>],
        locate: &dyn Locate,
        encoder: &mut (dyn Encoder + '_),
        chunk: &mut Chunk,
    ) -> Result<(), BatchError> {
        let before = (chunk.ids.len(), chunk.ends.len());
        for (document, Text { text, spans, .. }) in run.iter().enumerate() {
            let start = chunk.ids.len();
            let encoded = encoder.encode(text, &mut chunk.ids);
            if let Err(error) = encoded.and_then(|()| locate.mask(text, &chunk.ids[start..], spans, &mut chunk.mask)) {
                chunk.ids.truncate(before.0);
                chunk.mask.truncate(before.0);
                chunk.ends.truncate(before.1);
                return Err(BatchError { document, error });
            }
            chunk.ends.push(chunk.ids.len());
        }
        Ok(())
    }
}

/// Gives unused memory back, if there is memory for a copy: the vector's own method ends the process if there is none.
fn shrink(ids: &mut Vec<u32>) {
    let mut exact = Vec::new();
    if ids.capacity() > ids.len() && exact.try_reserve_exact(ids.len()).is_ok() {
        exact.extend_from_slice(ids);
        *ids = exact;
    }
}

/// The text of a record.
struct Text<'t> {
    /// Its index in the batch.
    record: usize,
    text: &'t str,
    /// The ranges of its bytes whose masks are 1.
    spans: Vec<Range<usize>>,
}

/// True if the document of a record is selected.
pub(super) fn is_chosen(selection: &Selection, batch: &Batch, index: usize) -> bool {
    !selection.leaves_out() || selection.chooses(batch.records[index].file, batch.number_of(index))
}

/// The part of the output to which the document of a record belongs.
pub(super) fn part_of(selection: &Selection, batch: &Batch, index: usize) -> usize {
    if selection.split.is_empty() { 0 } else { selection.part_of(batch.records[index].file, batch.number_of(index)) }
}

/// Appends the kept values of a document without fields.
pub(super) fn put_nulls(fields: usize, kept: &mut Kept) {
    for _ in 0..fields {
        kept.bytes.extend_from_slice(b"null");
        kept.end();
    }
}

/// True if the first line of a text is a JSON object.
pub(super) fn is_json_line(text: &str) -> bool {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok()
}

/// Consecutive records that become one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    records: Range<usize>,
    /// Weight of the records, in bytes.
    weight: usize,
}

/// Cuts the `records` from `start` on into runs of `bytes` bytes or more, except for the last of each input.
fn divide(records: &[Record], mut start: usize, bytes: usize) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut weight = 0;
    for (index, record) in records.iter().enumerate().skip(start) {
        weight += record.len + RECORD_WEIGHT;
        if weight >= bytes || records.get(index + 1).is_none_or(|next| next.file != record.file) {
            cuts.push(Cut { records: start..index + 1, weight });
            (start, weight) = (index + 1, 0);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lengths: &[usize]) -> Vec<Record> {
        of_files(&lengths.iter().map(|&len| (0, len)).collect::<Vec<_>>())
    }

    fn of_files(records: &[(u32, usize)]) -> Vec<Record> {
        let record = |&(file, len)| Record {
            file,
            format: Format::Lines,
            line: 1,
            offset: 0,
            start: 0,
            len,
            is_open: false,
            null: None,
        };
        records.iter().map(record).collect()
    }

    #[test]
    fn a_chunk_is_of_one_input() {
        let records = of_files(&[(0, 1), (0, 1), (2, 200), (3, 0), (3, 1)]);
        let cuts: Vec<_> = divide(&records, 1, 100).into_iter().map(|cut| cut.records).collect();
        assert_eq!(cuts, [1..2, 2..3, 3..5]);
    }

    #[test]
    fn chunks_are_cut_by_weight_and_leave_nothing_out() {
        let ends = |lengths: &[usize], bytes| -> Vec<usize> {
            let cuts = divide(&records(lengths), 0, bytes);
            let mut begin = 0;
            for cut in &cuts {
                assert_eq!(cut.records.start, begin);
                begin = cut.records.end;
                assert_eq!(
                    cut.weight,
                    lengths[cut.records.clone()].iter().map(|len| len + RECORD_WEIGHT).sum::<usize>()
                );
            }
            cuts.iter().map(|cut| cut.records.end).collect()
        };
        assert!(ends(&[], 100).is_empty());
        assert_eq!(ends(&[0, 0], 16), [1, 2]);
        assert_eq!(ends(&[50, 50, 50], 100), [2, 3]);
        assert_eq!(ends(&[500, 1, 500], 100), [1, 3]);
        assert_eq!(ends(&[1, 1], 0), [1, 2]);
        assert_eq!(ends(&[0; 1_000], 64 * RECORD_WEIGHT).len(), 1_000_usize.div_ceil(64));
    }
}
