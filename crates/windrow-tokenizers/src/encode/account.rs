//! The account of a run: the outcome of the documents, in total and by input.

use crate::input::Position;
use crate::manifest::{Documents, SkippedDocument};
use crate::output::{Checkpoint, InputCounts};

/// The account of the documents so far, in order.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) documents: Documents,
    pub(super) text_bytes: u64,
    /// Special tokens in the texts.
    pub(super) special_tokens: u64,
    /// Documents without an id whose mask is 1, if there are masks.
    pub(super) without_loss: u64,
    /// The first skipped document.
    pub(super) first_bad: Option<SkippedDocument>,
    /// The counts of each input with written documents, in order.
    inputs: Vec<InputCounts>,
    /// The counts since the last checkpoint, by input.
    recent: Vec<InputCounts>,
}

impl Account {
    /// The account at a checkpoint with the counts of all inputs until then.
    pub(super) fn continued(checkpoint: Checkpoint) -> Self {
        let Checkpoint {
            account: documents, text_bytes, special_tokens, without_loss, first_bad, inputs: counts, ..
        } = checkpoint;
        let mut inputs = Vec::new();
        counts.into_iter().for_each(|counts| add(&mut inputs, counts));
        Self { documents, text_bytes, special_tokens, without_loss, first_bad, inputs, recent: Vec::new() }
    }

    /// Adds written documents of one input.
    pub(super) fn write(&mut self, counts: InputCounts, special_tokens: u64) {
        self.documents.read += 1;
        self.documents.written += 1;
        self.text_bytes += counts.text_bytes;
        self.special_tokens += special_tokens;
        add(&mut self.inputs, counts);
        add(&mut self.recent, counts);
    }

    /// The counts of the input with this number.
    pub(super) fn of_input(&self, input: u32) -> InputCounts {
        let found = self.inputs.binary_search_by_key(&input, |counts| counts.input);
        found.map_or(InputCounts { input, ..InputCounts::default() }, |index| self.inputs[index])
    }

    /// The state of the run at `position`, without reports.
    pub(super) fn checkpoint(&mut self, position: Position) -> Checkpoint {
        Checkpoint {
            account: self.documents,
            text_bytes: self.text_bytes,
            special_tokens: self.special_tokens,
            without_loss: self.without_loss,
            first_bad: self.first_bad.clone(),
            position,
            inputs: std::mem::take(&mut self.recent),
            reports: Vec::new(),
        }
    }
}

/// Documents come in the order of their inputs, so an input that is not the last one is new.
fn add(inputs: &mut Vec<InputCounts>, counts: InputCounts) {
    match inputs.last_mut().filter(|last| last.input == counts.input) {
        Some(last) => {
            last.text_bytes += counts.text_bytes;
            last.tokens += counts.tokens;
        }
        None => inputs.push(counts),
    }
}
