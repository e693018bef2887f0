//! Writes the documents in another order than that of the inputs.
//!
//! The order is that of a hash of each document's place, so it does not depend on threads or memory. Documents wait in a
//! [`Spill`] until all are encoded, and are appended to the output then.

use super::stages::{Run, Sink};
use crate::manifest::SkippedDocument;
use crate::output::{Kept, Order, Output, OutputError, Placed, Spill};

/// An output, and the documents that wait for their order.
pub(super) struct Shuffled {
    output: Output,
    spill: Spill,
    part: usize,
    /// Fields that are kept of each document.
    width: usize,
    /// The orders of the documents that are appended next.
    orders: Vec<Order>,
    /// Documents without their kept values.
    waiting: Vec<Placed>,
}

impl Shuffled {
    /// Collects up to `memory` bytes at a time.
    pub(super) fn new(output: Output, memory: usize, width: usize) -> Self {
        let spill = output.spill(memory);
        Self { output, spill, part: 0, width, orders: Vec::new(), waiting: Vec::new() }
    }

    /// Appends all documents to the output in their order, if the run has succeeded.
    pub(super) fn finish(run: Run<Self>) -> Run<Output> {
        let Run { account, sink, peak, exceeding, readers, trace, findings, ended_at, mut end } = run;
        let sink = sink.map(|Self { mut output, spill, width, .. }| {
            if end.is_ok() {
                let appended = spill.drain(&mut |Placed { part, ids, kept, .. }| {
                    output.select(part);
                    output.append_with_masks(&ids, &[ids.len()])?;
                    if width == 0 { Ok(()) } else { output.keep(&kept) }
                });
                if let Err(error) = appended {
                    end = Err(error.into());
                }
            }
            output
        });
        Run { account, sink, peak, exceeding, readers, trace, findings, ended_at, end }
    }
}

impl Sink for Shuffled {
    fn takes_parts(&self) -> bool {
        // A document waits for its order as a whole.
        false
    }

    fn has_places(&self) -> bool {
        true
    }

    fn place(&mut self, orders: Vec<Order>) {
        self.orders = orders;
    }

    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        self.output.check(ids, ends)?;
        let mut begin = 0;
        for (&order, &end) in self.orders.iter().zip(ends) {
            let ids = ids[std::mem::replace(&mut begin, end)..end].to_vec();
            self.waiting.push(Placed { order, part: self.part, ids, kept: Kept::default() });
        }
        if self.width == 0 {
            self.waiting.drain(..).try_for_each(|document| self.spill.push(&document))
        } else {
            Ok(())
        }
    }

    fn append_part(&mut self, _: &[u32], _: bool) -> Result<(), OutputError> {
        unreachable!("texts are not split if documents are shuffled")
    }

    fn discard_parts(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn select(&mut self, part: usize) {
        self.part = part;
    }

    fn documents(&self) -> u64 {
        self.output.documents_of_part()
    }

    fn skip(&mut self, document: SkippedDocument) -> Result<(), OutputError> {
        self.output.skip(document)
    }

    fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        for (number, mut document) in self.waiting.drain(..).enumerate() {
            document.kept.append(kept, number * self.width, (number + 1) * self.width);
            self.spill.push(&document)?;
        }
        Ok(())
    }
}
