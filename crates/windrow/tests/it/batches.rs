//! Structures for tests of implicit batching.

use std::sync::mpsc;

use windrow::batch::{Batch, BatchOps};

/// A counter: an operation adds, and its reply is the value before. Records the sizes of its batches, and panics at 666.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    /// The value after the last batch that returned.
    pub(crate) settled: u64,
    pub(crate) batches: Vec<usize>,
}

pub(crate) const PANICS: u64 = 666;

impl BatchOps for Counter {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        self.batches.push(batch.len());
        for entry in batch.iter_mut() {
            let more = entry.take();
            assert_ne!(more, PANICS, "injected");
            entry.reply(self.value);
            self.value += more;
        }
        self.settled = self.value;
    }

    fn weight(op: &u64) -> usize {
        *op as usize
    }
}

/// Waits in `run` for a message.
pub(crate) struct Slow(pub(crate) mpsc::Receiver<()>);

impl BatchOps for Slow {
    type Op = ();
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.0.recv().unwrap();
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }
}
