//! Encodes a document part by part, as the reader delivers it: a text, a line, or the text in a JSON line.
//!
//! The end of a part may belong to a piece that goes on in the next part. So a part is encoded up to the last place where the engine can cut, and
//! the rest is *carried* over to the next part. The ids of all parts, concatenated, are those of the document.

use std::mem;

use memchr::{memchr_iter, memrchr};
use windrow::CancelToken;

use super::Step;
use super::chunk::{Bad, Chunk, EncodeContext, is_chosen, is_json_line};
use crate::diagnose::FIRST;
use crate::document::{Fault, explain_first, utf8, utf8_fault};
use crate::engine::{BatchError, EngineError, Ragged};
use crate::input::{Batch, Format, Record};
use crate::json_parts::JsonParts;

/// Bytes of a part that are copied after the carried bytes, to find a place to cut there.
const NEAR: usize = 4 << 10;

/// The document that is encoded part by part.
#[derive(Debug, Default)]
pub(super) struct OpenDocument {
    /// Its first record.
    begin: Option<Record>,
    /// Its first bytes.
    first: Vec<u8>,
    /// The bytes that were read and not encoded.
    carried: Vec<u8>,
    /// The place of the carried bytes in the text.
    place: Place,
    /// The line, if its text is in a field, and a buffer for the text of a part.
    line: Option<JsonParts>,
    text: Vec<u8>,
    /// The reason why the engine has refused it. A fault of the document itself may follow, and is reported instead.
    refused: Option<EngineError>,
}

/// A place in a document.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Bytes before it.
    bytes: u64,
    /// Newlines before it.
    newlines: u64,
    /// Bytes before it in its line.
    column: u64,
}

impl Place {
    /// Moves past `bytes`.
    fn advance(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.newlines += memchr_iter(b'\n', bytes).count() as u64;
        match memrchr(b'\n', bytes) {
            Some(newline) => self.column = (bytes.len() - newline - 1) as u64,
            None => self.column += bytes.len() as u64,
        }
    }
}

impl OpenDocument {
    /// True if this record is a part of a document, not the whole.
    pub(super) fn is_part(&self, record: &Record) -> bool {
        record.is_open || self.begin.is_some_and(|begin| begin.file == record.file)
    }

    /// Bytes that are not encoded yet.
    pub(super) fn memory(&self) -> usize {
        self.carried.capacity() + self.text.capacity() + self.line.as_ref().map_or(0, JsonParts::memory)
    }
}

impl EncodeContext<'_> {
    /// [`encode`](Self::encode) for a batch that may begin with a part of `document`.
    pub(super) fn encode_with_parts(
        &self,
        batch: &Batch,
        document: &mut OpenDocument,
        token: &CancelToken,
    ) -> Vec<Chunk> {
        let first = batch.records.first();
        if document.begin.is_some_and(|begin| first.is_none_or(|first| first.file != begin.file)) {
            // Its input could not be read to the end.
            *document = OpenDocument::default();
        }
        if !first.is_some_and(|first| document.is_part(first)) {
            return self.encode(batch, 0, token);
        }
        let part = self.encode_part(batch, document);
        self.observer.advanced(&Step {
            documents: (part.ends.len() + part.bad.len()) as u64,
            text_bytes: part.text_bytes,
            ids: part.ids.len() as u64,
            stored: 0,
        });
        let is_last = self.stop_at_bad && !part.bad.is_empty();
        let mut chunks = vec![part];
        if !is_last {
            chunks.extend(self.encode(batch, 1, token));
        }
        chunks
    }

    /// Encodes the first record of a batch, which is a part of `document`. The chunk has one end if the document ends there.
    fn encode_part(&self, batch: &Batch, document: &mut OpenDocument) -> Chunk {
        let record = batch.records[0];
        if document.begin.is_none() {
            let bytes = batch.bytes_of(&record);
            document.first.extend_from_slice(&bytes[..bytes.len().min(FIRST)]);
        }
        let begin = *document.begin.get_or_insert(record);
        let mut chunk = Chunk { records: 0..1, is_part: true, ..Chunk::default() };
        if !is_chosen(self.selection, batch, 0) {
            if !record.is_open {
                *document = OpenDocument::default();
            }
            return chunk;
        }
        let mut text = mem::take(&mut document.text);
        let outcome = match record.format {
            Format::Jsonl => {
                self.text_of_part(batch.bytes_of(&record), record.is_open, &mut text, document, &mut chunk)
            }
            _ => Ok(()),
        };
        let bytes = if record.format == Format::Jsonl { &text } else { batch.bytes_of(&record) };
        let place = document.place;
        let mut first = mem::take(&mut document.carried);
        let outcome = outcome.and_then(|()| self.divide(&mut first, bytes, record.is_open, &mut document.carried));
        let outcome = outcome.and_then(|rest| self.encode_both([&first, rest], document, &mut chunk));
        document.text = text;
        match outcome {
            Err(PartError::Engine(error)) if !matches!(error, EngineError::NoMemory { .. }) => {
                document.refused = Some(error);
            }
            Err(error) => chunk.bad.push(self.bad_part(batch, begin, &document.first, error)),
            Ok(()) => {}
        }
        match document.refused.take_if(|_| !record.is_open) {
            _ if record.is_open || !chunk.bad.is_empty() => {}
            Some(error) => {
                chunk.bad.push(self.bad_part(batch, begin, &document.first, PartError::Engine(error)));
            }
            None => chunk.ends.push(chunk.ids.len()),
        }
        let name = &self.names[record.file as usize];
        if place.bytes == 0 && name == "-" && record.format != Format::Jsonl {
            let beginning = first.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            if is_json_line(beginning) {
                self.seen.json_lines();
            }
        }
        if !record.is_open {
            *document = OpenDocument::default();
        }
        chunk
    }

    /// The text in a part of a JSON line; at its end also its kept values.
    fn text_of_part(
        &self,
        part: &[u8],
        is_open: bool,
        text: &mut Vec<u8>,
        document: &mut OpenDocument,
        chunk: &mut Chunk,
    ) -> Result<(), PartError> {
        let (field, keep) = (&self.fields.text[0], &self.fields.keep);
        let line = document.line.get_or_insert_with(|| JsonParts::new(field, keep.is_empty()));
        text.clear();
        let no_memory = |needed| PartError::Engine(EngineError::no_memory(self.engine.name(), needed, needed));
        chunk.is_void_before = line.feed(part, text).map_err(no_memory)?;
        if chunk.is_void_before {
            document.carried.clear();
            document.place = Place::default();
            document.refused = None;
        }
        if is_open {
            return Ok(());
        }
        line.finish(keep, &mut chunk.kept, &mut |field| self.seen.has(field)).map_err(PartError::Line)
    }

    /// Divides `bytes` into the bytes to append to `first`, the bytes to encode without a copy, which are returned, and the bytes to carry over if
    /// the document goes on.
    fn divide<'b>(
        &self,
        first: &mut Vec<u8>,
        bytes: &'b [u8],
        is_open: bool,
        carried: &mut Vec<u8>,
    ) -> Result<&'b [u8], PartError> {
        let from = first.len();
        self.append(first, &bytes[..bytes.len().min(NEAR)])?;
        let cut = self.engine.last_cut(first, from + 1);
        first.truncate(cut.unwrap_or(from));
        let mut rest = &bytes[first.len() - from..];
        if cut.is_none() {
            self.append(first, mem::take(&mut rest))?;
        }
        if is_open && rest.is_empty() {
            // The carried bytes have no cut.
            match self.engine.last_cut(first, from + 1) {
                Some(cut) => {
                    self.append(carried, &first[cut..])?;
                    first.truncate(cut);
                }
                None => mem::swap(first, carried),
            }
        } else if is_open {
            let cut = self.engine.last_cut(rest, 1).unwrap_or(0);
            self.append(carried, &rest[cut..])?;
            rest = &rest[..cut];
        }
        Ok(rest)
    }

    fn append(&self, to: &mut Vec<u8>, bytes: &[u8]) -> Result<(), PartError> {
        let reserved = to.try_reserve(bytes.len()).or_else(|_| to.try_reserve_exact(bytes.len()));
        let needed = to.len().saturating_add(bytes.len());
        reserved.map_err(|_| PartError::Engine(EngineError::no_memory(self.engine.name(), needed, needed)))?;
        to.extend_from_slice(bytes);
        Ok(())
    }

    /// Encodes consecutive parts by all threads, and moves the place of the carried bytes past them.
    fn encode_both(&self, parts: [&[u8]; 2], document: &mut OpenDocument, chunk: &mut Chunk) -> Result<(), PartError> {
        let mut texts = [""; 2];
        for (text, bytes) in texts.iter_mut().zip(parts) {
            *text = utf8(bytes).map_err(|fault| PartError::Fault(document.place, fault))?;
            document.place.advance(bytes);
        }
        if document.refused.is_some() {
            return Ok(());
        }
        let mut batch = Ragged::default();
        self.engine.encode_batch(&texts, &mut batch).map_err(|BatchError { error, .. }| PartError::Engine(error))?;
        chunk.ids = batch.values;
        chunk.text_bytes = texts.iter().map(|text| text.len() as u64).sum();
        Ok(())
    }

    /// Report on a document that begins like this.
    fn bad_part(&self, batch: &Batch, begin: Record, first: &[u8], error: PartError) -> Bad {
        let explained = |mut fault: Fault| {
            if batch.number_of(0) == 1 {
                explain_first(&mut fault, begin.format, first);
            }
            fault
        };
        let name = &self.names[begin.file as usize];
        match error {
            PartError::Engine(error) => Bad::of_engine(0, name, &begin, &error),
            PartError::Line(fault) => Bad::of_fault(0, name, &begin, explained(fault)),
            PartError::Fault(place, mut fault) => {
                if fault.line_in_record == 0 {
                    fault.byte += place.column;
                }
                fault.reason = utf8_fault(first).reason;
                let fault = explained(fault);
                let record = Record { line: begin.line + place.newlines, offset: begin.offset + place.bytes, ..begin };
                Bad::of_fault(0, name, &record, fault)
            }
        }
    }
}

/// The reason why parts of a document have no ids.
enum PartError {
    Engine(EngineError),
    /// The line is not good.
    Line(Fault),
    /// The part that begins at this place is not text.
    Fault(Place, Fault),
}
