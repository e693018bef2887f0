//! Unreadable inputs of a run that continues with the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::InputError;

/// True if the first line of a file of JSON lines is one. Otherwise the file is text.
pub(crate) type IsRecord = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Fate of inputs, by their index. All readers of a run share it.
pub(crate) struct Tolerance {
    is_record: Option<IsRecord>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failed: BTreeMap<u32, InputError>,
    given_up: BTreeSet<u32>,
    texts: BTreeSet<u32>,
}

impl Tolerance {
    /// A reader without `is_record` keeps JSON lines as JSON lines.
    pub(crate) fn new(is_record: Option<IsRecord>) -> Self {
        Self { is_record, state: Mutex::default() }
    }

    /// Marks the rest of this input as unneeded.
    pub(crate) fn give_up(&self, file: u32) {
        self.state().given_up.insert(file);
    }

    /// The error that ended reading this input early. It is known before a record of a later input is delivered.
    pub(crate) fn take_failure(&self, file: u32) -> Option<InputError> {
        self.state().failed.remove(&file)
    }

    /// True if this input of JSON lines was read as text.
    pub(crate) fn is_text(&self, file: u32) -> bool {
        self.state().texts.contains(&file)
    }

    pub(super) fn is_given_up(&self, file: u32) -> bool {
        self.state().given_up.contains(&file)
    }

    pub(super) fn fail(&self, file: u32, error: InputError) {
        self.state().failed.insert(file, error);
    }

    /// True if first lines are checked.
    pub(super) fn checks_lines(&self) -> bool {
        self.is_record.is_some()
    }

    /// True if an input with this first line has JSON lines; remembers the input if not.
    pub(super) fn has_records(&self, file: u32, first_line: &[u8]) -> bool {
        let has_records = self.is_record.as_ref().is_none_or(|is_record| is_record(first_line));
        if !has_records {
            self.state().texts.insert(file);
        }
        has_records
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one call of a collection.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
