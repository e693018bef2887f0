//! Findings in documents while they are encoded, which a user should know.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Summary;

/// The state that the workers share. Its flags order nothing, and are read after the workers have ended.
#[derive(Debug, Default)]
pub(super) struct Seen {
    json_lines: AtomicBool,
    /// A flag for each kept field, set if a document has the field.
    kept: Vec<AtomicBool>,
    /// Place of the first document without one of these fields, and the names of the fields it has.
    first: AtomicU64,
    names: Mutex<(u64, Vec<String>)>,
    pointers: Mutex<(u64, String)>,
}

impl Seen {
    pub(super) fn new(kept: usize) -> Self {
        let (first, names) = (u64::MAX.into(), (u64::MAX, Vec::new()).into());
        Self { kept: (0..kept).map(|_| AtomicBool::default()).collect(), first, names, ..Self::default() }
    }

    pub(super) fn json_lines(&self) {
        self.json_lines.store(true, Ordering::Relaxed); // Relaxed: a flag, see `Seen`
    }

    /// Records that a document has the kept field with this index.
    pub(super) fn has(&self, field: usize) {
        // Relaxed: a flag, see `Seen`. It is written once, so that its line stays shared.
        if !self.kept[field].load(Ordering::Relaxed) {
            self.kept[field].store(true, Ordering::Relaxed); // Relaxed: as above
        }
    }

    /// Records that a document at this place was kept; `names` gives the names of its fields.
    pub(super) fn kept_at(&self, place: u64, names: impl FnOnce() -> Vec<String>) {
        // Relaxed: flags and a minimum, see `Seen`; the lock orders the names.
        let lacks = self.kept.iter().any(|kept| !kept.load(Ordering::Relaxed));
        if lacks && place < self.first.load(Ordering::Relaxed) && self.first.fetch_min(place, Ordering::Relaxed) > place
        {
            let mut first = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if place < first.0 {
                *first = (place, names());
            }
        }
    }

    /// Records that the text with this name is a Git LFS pointer.
    pub(super) fn pointer(&self, name: &str) {
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        pointers.0 += 1;
        if pointers.1.is_empty() || *name < *pointers.1 {
            name.clone_into(&mut pointers.1);
        }
    }

    /// A summary of all findings, after the workers have ended. `keep` has the kept fields.
    pub(super) fn findings(&self, keep: &[String]) -> Summary {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed); // Relaxed: a flag, see `Seen`
        let missing = keep.iter().zip(&self.kept).filter(|(_, kept)| !is_set(kept));
        Summary {
            stdin_looks_like_json_lines: is_set(&self.json_lines),
            keep_missing: missing.map(|(field, _)| field.clone()).collect(),
            keep_names: self.names.lock().unwrap_or_else(PoisonError::into_inner).1.clone(),
            pointers: self.pointers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..Summary::default()
        }
    }
}
