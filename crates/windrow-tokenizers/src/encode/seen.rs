//! Findings in documents while they are encoded, which a user should know.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state that the workers share. Its flags order nothing, and are read after the workers have ended.
#[derive(Debug, Default)]
pub(super) struct Seen {
    json_lines: AtomicBool,
    /// Of each kept field, whether a document has it.
    kept: Vec<AtomicBool>,
    pointers: Mutex<(u64, String)>,
}

/// Findings in the documents of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Standard input was read as text, but begins with a line of JSON.
    pub(super) json_lines: bool,
    /// Kept fields that no document has.
    pub(super) keep_missing: Vec<String>,
    /// The number of texts that are git-lfs pointers, and the first of their names.
    pub(super) pointers: (u64, String),
}

impl Seen {
    pub(super) fn new(kept: usize) -> Self {
        Self { kept: (0..kept).map(|_| AtomicBool::default()).collect(), ..Self::default() }
    }

    pub(super) fn json_lines(&self) {
        self.json_lines.store(true, Ordering::Relaxed); // Relaxed: a flag, see `Seen`
    }

    /// A document has the kept field with this index.
    pub(super) fn has(&self, field: usize) {
        // Relaxed: a flag, see `Seen`. It is written once, so that its line stays shared.
        if !self.kept[field].load(Ordering::Relaxed) {
            self.kept[field].store(true, Ordering::Relaxed); // Relaxed: as above
        }
    }

    /// The text with this name is a git-lfs pointer.
    pub(super) fn pointer(&self, name: &str) {
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        pointers.0 += 1;
        if pointers.1.is_empty() || *name < *pointers.1 {
            name.clone_into(&mut pointers.1);
        }
    }

    /// Everything, after the workers have ended. `keep` are the kept fields.
    pub(super) fn findings(&self, keep: &[String]) -> Findings {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed); // Relaxed: a flag, see `Seen`
        let missing = keep.iter().zip(&self.kept).filter(|(_, kept)| !is_set(kept));
        Findings {
            json_lines: is_set(&self.json_lines),
            keep_missing: missing.map(|(field, _)| field.clone()).collect(),
            pointers: self.pointers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
