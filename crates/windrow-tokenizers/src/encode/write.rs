//! The writing stage: documents in order, each to its part of the output.

use std::mem;

use super::account::Account;
use super::chunk::{Bad, Chunk, Encoded, is_chosen, part_of, put_nulls};
use super::special::SpecialIds;
use super::{EncodeError, MaxSkipped};
use crate::input::{Batch, Fields, FileReport, Position, Record};
use crate::manifest::{EncodeJob, OnError};
use crate::output::{InputCounts, Order, Output, OutputError, OutputErrorKind};

/// Writes the chunks of batches, and keeps the account.
pub(super) struct Writer<'e> {
    pub(super) reading: &'e EncodeJob,
    pub(super) max_skipped: Option<MaxSkipped>,
    pub(super) output: Output,
    pub(super) account: Account,
    pub(super) part: OpenPart,
    /// The inputs that were read to their end.
    pub(super) reports: Vec<FileReport>,
    pub(super) names: &'e [String],
    pub(super) fields: &'e Fields,
    pub(super) special: &'e SpecialIds,
    pub(super) has_masks: bool,
    /// Number of good documents with which the run ends.
    pub(super) limit: u64,
    /// The place of that document.
    pub(super) ended_at: Option<Position>,
}

/// The state of a document that comes in parts.
#[derive(Default)]
pub(super) enum OpenPart {
    #[default]
    Nothing,
    Written(Parts),
    /// The output has refused a part.
    Refused(Box<Bad>, Parts),
    /// The document is bad: the parts that follow are dropped.
    Dropped,
}

/// The parts of a document.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// The record of the first part.
    begin: Record,
    text_bytes: u64,
    tokens: u64,
    special_tokens: u64,
}

impl Writer<'_> {
    pub(super) fn write(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        if self.ended_at.is_some() {
            // The next item reports the fault of the last document's file.
            return Ok(());
        }
        if chunk.is_part {
            return self.write_part(chunk, batch);
        }
        self.output.check()?;
        let mut bad = mem::take(&mut chunk.bad).into_iter().peekable();
        let mut next = chunk.records.start;
        for document in chunk.documents(self.fields.keep.len()) {
            while let Some(bad) = bad.next_if(|bad| bad.record < document.record) {
                self.leave_out(&mut next, bad.record);
                self.skip(bad)?;
            }
            self.leave_out(&mut next, document.record);
            self.push(document, batch)?;
            if self.ended_at.is_some() {
                return Ok(());
            }
        }
        for bad in bad {
            self.leave_out(&mut next, bad.record);
            self.skip(bad)?;
        }
        self.leave_out(&mut next, chunk.records.end);
        Ok(())
    }

    /// Counts the deselected records from `next` up to this one, and moves `next` after it.
    fn leave_out(&mut self, next: &mut usize, record: usize) {
        let documents = (record - *next) as u64;
        self.account.documents.read += documents;
        self.account.documents.deselected += documents;
        *next = record + 1;
    }

    /// Appends a document. A document that the format cannot hold is bad.
    fn push(&mut self, Encoded { record, bytes, document }: Encoded<'_>, batch: &Batch) -> Result<(), EncodeError> {
        let input = batch.records[record].file;
        let selection = &self.reading.selection;
        let part = part_of(selection, batch, record);
        let order = match selection.shuffle {
            Some(_) => {
                let number = batch.number_of(record);
                (selection.key_of(input, number), input, number)
            }
            None => Order::default(),
        };
        if let Err(error) = self.output.push_to(part, order, document) {
            return match error.kind() {
                OutputErrorKind::Document => self.skip(self.refused(record, &batch.records[record], &error)),
                _ => Err(error.into()),
            };
        }
        let tokens = document.ids.len() as u64 + self.special.framed;
        let counts = InputCounts { input, text_bytes: bytes as u64, tokens };
        self.account.write(counts, self.special.in_texts(document.ids, 1));
        if self.has_masks {
            self.account.without_loss += u64::from(document.mask.iter().all(|&one| one == 0));
        }
        self.pass(part, batch, record)
    }

    /// Ends the shard, or the run, after a document that was written.
    fn pass(&mut self, part: usize, batch: &Batch, record: usize) -> Result<(), EncodeError> {
        if self.output.is_shard_full(part) {
            let checkpoint = self.account.checkpoint(batch.position_after(record));
            self.output.end_shard(part, checkpoint, &self.reports)?;
        }
        if self.account.documents.written < self.limit {
            return Ok(());
        }
        // The run ends here, unless the file of the last document turns out to be damaged.
        let position = batch.position_after(record);
        let is_covered = position.file as usize <= self.reports.len();
        self.ended_at = Some(position);
        if is_covered { Err(EncodeError::Stopped) } else { Ok(()) }
    }

    /// Counts a bad document, unless it ends the run.
    fn skip(&mut self, Bad { document, is_out_of_memory, .. }: Bad) -> Result<(), EncodeError> {
        let Account { documents, first_bad, .. } = &mut self.account;
        let is_reached = |most: &MaxSkipped| *most == MaxSkipped::Documents(documents.skipped);
        let most = self.max_skipped.filter(is_reached);
        let stops = self.reading.on_error == OnError::Fail;
        let is_last = is_out_of_memory || stops || most.is_some();
        documents.read += 1;
        documents.failed += u64::from(is_last);
        documents.skipped += u64::from(!is_last);
        match most {
            _ if is_out_of_memory => Err(EncodeError::NoMemory(Box::new(document))),
            _ if stops => Err(EncodeError::Document(Box::new(document))),
            Some(most) => Err(EncodeError::TooManySkipped { documents: *documents, most, bad: Box::new(document) }),
            None => {
                first_bad.get_or_insert_with(|| document.clone());
                Ok(self.output.skip(document)?)
            }
        }
    }

    /// Appends a part of a document. If it is bad, the earlier parts are removed, and the later ones are dropped. If the output refuses it, a fault
    /// of the document itself may follow, and is reported instead.
    fn write_part(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        let index = chunk.records.start;
        let record = &batch.records[index];
        let selection = &self.reading.selection;
        if !is_chosen(selection, batch, index) {
            let documents = u64::from(!record.is_open);
            self.account.documents.read += documents;
            self.account.documents.deselected += documents;
            return Ok(());
        }
        let part = part_of(selection, batch, index);
        let (mut before, mut refused) = match mem::take(&mut self.part) {
            OpenPart::Nothing => (Parts { begin: *record, text_bytes: 0, tokens: 0, special_tokens: 0 }, None),
            OpenPart::Written(parts) => (parts, None),
            OpenPart::Refused(bad, parts) => (parts, Some(bad)),
            OpenPart::Dropped => {
                if record.is_open {
                    self.part = OpenPart::Dropped;
                }
                return Ok(());
            }
        };
        if chunk.is_void_before {
            self.output.discard_parts()?;
            before = Parts { text_bytes: 0, tokens: 0, special_tokens: 0, ..before };
            refused = None;
        }
        if chunk.bad.is_empty() && refused.is_none() {
            if chunk.kept.ends.is_empty() {
                put_nulls(self.fields.keep.len(), &mut chunk.kept);
            }
            let kept = (!record.is_open).then(|| chunk.kept.values());
            match self.output.push_part(part, &chunk.ids, kept) {
                Ok(()) => {}
                Err(error) if error.kind() == OutputErrorKind::Document => {
                    self.output.discard_parts()?;
                    refused = Some(Box::new(self.refused(0, &before.begin, &error)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let bad = chunk.bad.pop().or_else(|| refused.take_if(|_| !record.is_open).map(|bad| *bad));
        if let Some(bad) = bad {
            self.output.discard_parts()?;
            self.part = if record.is_open { OpenPart::Dropped } else { OpenPart::Nothing };
            return self.skip(bad);
        }
        if let Some(bad) = refused {
            self.part = OpenPart::Refused(bad, before);
            return Ok(());
        }
        let parts = Parts {
            text_bytes: before.text_bytes + chunk.text_bytes,
            tokens: before.tokens + chunk.ids.len() as u64,
            // Engines that cut documents put nothing around them.
            special_tokens: before.special_tokens + self.special.in_texts(&chunk.ids, 0),
            ..before
        };
        if record.is_open {
            self.part = OpenPart::Written(parts);
            return Ok(());
        }
        let tokens = parts.tokens + self.special.framed;
        let counts = InputCounts { input: record.file, text_bytes: parts.text_bytes, tokens };
        self.account.write(counts, parts.special_tokens);
        self.pass(part, batch, index)
    }

    /// The bad document that the output refused.
    fn refused(&self, index: usize, record: &Record, error: &OutputError) -> Bad {
        let message = error.to_string();
        let reason = message.lines().next().unwrap_or_default().to_owned();
        Bad::whole(index, &self.names[record.file as usize], record, reason)
    }
}
