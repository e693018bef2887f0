//! Reports of commands on documents while they are encoded.

use std::sync::atomic::{AtomicUsize, Ordering};

use windrow_tokenizers::encode::{LargeDocument, MemoryShares, Observer, Step};
use windrow_tokenizers::{decimal, shown};

use crate::progress::Progress;
use crate::report;

/// Shows the progress, and announces large documents.
pub(crate) struct Watched {
    progress: Option<Progress>,
    /// `--memory`.
    budget: usize,
    /// Threads that encode.
    workers: usize,
    /// Documents that may still be announced, so that thousands of them do not bury other notes.
    left: AtomicUsize,
}

impl Watched {
    pub(crate) fn new(progress: Option<Progress>, budget: usize, workers: usize, quiet: bool) -> Self {
        const MOST: usize = 5;
        let left = AtomicUsize::new(if quiet { 0 } else { MOST });
        Self { progress, budget, workers, left }
    }
}

impl Observer for Watched {
    fn advanced(&self, step: &Step) {
        if let Some(progress) = &self.progress {
            progress.advanced(step);
        }
    }

    fn exceeds(&self, document: &LargeDocument<'_>) {
        // Relaxed: a count.
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let Ok(left) = left else { return };
        let &LargeDocument { file, line, bytes, engine, expected, .. } = document;
        let enough = (26..48)
            .map(|bits| 1 << bits)
            .find(|&memory| MemoryShares::new(memory, self.workers).documents >= expected);
        let enough = enough.unwrap_or(usize::MAX);
        let note = || {
            report::note(format_args!(
                "{}:{line}: a document of {} takes about {} of memory in {engine}, but --memory is {}, so it is encoded on its own{} \
                 (hint: split it, or pass --memory {}M)",
                shown(file),
                decimal(bytes as u64),
                decimal(expected as u64),
                decimal(self.budget as u64),
                if left == 1 { "; further documents like this are only counted" } else { "" },
                enough >> 20,
            ));
        };
        match &self.progress {
            Some(progress) => progress.suspend(note),
            None => note(),
        }
    }
}
