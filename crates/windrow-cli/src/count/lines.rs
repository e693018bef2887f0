//! Prints counts in order, as soon as they are known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use windrow_tokenizers::tokenizer::Tokenizer;
use windrow_tokenizers::{shown, to_json};

use super::text::Count;
use super::{Input, Options, Outcome, lossy};
use crate::exit::Code;

/// Width of a column whose numbers are not known to be small, as in wc.
const USUAL_WIDTH: usize = 7;

/// What to print.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Width of the column of numbers.
    width: usize,
    has_total: bool,
    top: Option<usize>,
    json: bool,
}

impl Table {
    /// `bytes` is the size of all inputs together.
    pub(super) fn new(options: &Options, bytes: u64, several: bool) -> Self {
        let known = options.paths.iter().all(|path| path.as_os_str() != "-");
        let digits = bytes.max(1).ilog10() as usize + 1;
        let width = match (several, known) {
            (false, _) => 1,
            (true, true) => digits,
            (true, false) => digits.max(USUAL_WIDTH),
        };
        Self { width, has_total: several || options.top.is_some(), top: options.top, json: options.json }
    }

    fn waits(&self) -> bool {
        self.json || self.top.is_some()
    }
}

/// The outcomes of all inputs. They arrive in any order and are printed in the order of the inputs.
pub(super) struct Lines<'i> {
    inputs: &'i [Input],
    table: Table,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Outcomes before this index are processed.
    next: usize,
    /// Outcomes that arrived early.
    early: BTreeMap<usize, Outcome>,
    /// Counts to print at the end, by the index of the input.
    kept: Vec<(usize, Count)>,
    files: u64,
    total: Count,
    skipped: Vec<usize>,
    failed: Vec<(usize, String, Code)>,
}

/// What remains to be printed, and what failed.
pub(super) struct Finished {
    pub(super) text: String,
    pub(super) skipped: usize,
    pub(super) failed: Vec<(String, Code)>,
}

impl<'i> Lines<'i> {
    pub(super) fn new(inputs: &'i [Input], table: Table) -> Self {
        Self { inputs, table, state: Mutex::default() }
    }

    /// Adds the outcome of the input at this index, and prints all lines that are now complete in order.
    pub(super) fn add(&self, at: usize, outcome: Outcome) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        state.early.insert(at, outcome);
        let mut text = String::new();
        while let Some(outcome) = state.early.remove(&state.next) {
            let at = state.next;
            state.next += 1;
            match outcome {
                Outcome::Counted(count) => {
                    state.files += 1;
                    state.total.bytes += count.bytes;
                    state.total.tokens += count.tokens;
                    if self.table.waits() {
                        state.kept.push((at, count));
                    } else {
                        self.push_line(&mut text, at, count);
                    }
                }
                Outcome::Skipped => state.skipped.push(at),
                Outcome::Failed(message, code) => state.failed.push((at, message, code)),
            }
        }
        // Printed under the lock, so that lines keep their order.
        print(&text)
    }

    fn push_line(&self, text: &mut String, at: usize, count: Count) {
        let width = self.table.width;
        writeln!(text, "{:width$} {}", count.tokens, shown(&self.inputs[at].path)).expect("memory");
    }

    /// The lines that had to wait for the end. `failed` are additional failures for JSON.
    pub(super) fn finish(self, tokenizer: &Tokenizer, failed: &[(String, Code)]) -> Finished {
        let (inputs, table) = (self.inputs, self.table);
        let mut state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(top) = table.top {
            // A stable sort: equal counts keep the order of the inputs.
            state.kept.sort_by_key(|(_, count)| std::cmp::Reverse(count.tokens));
            state.kept.truncate(top);
        }
        let mut text = String::new();
        if table.json {
            let files: Vec<_> = state
                .kept
                .iter()
                .map(|(at, count)| json!({"path": lossy(&inputs[*at]), "bytes": count.bytes, "tokens": count.tokens}))
                .collect();
            let skipped: Vec<_> = state.skipped.iter().map(|at| lossy(&inputs[*at])).collect();
            let messages = failed.iter().map(|(message, _)| message);
            let errors: Vec<_> = messages.chain(state.failed.iter().map(|(_, message, _)| message)).collect();
            let total = json!({"files": state.files, "bytes": state.total.bytes, "tokens": state.total.tokens});
            let all = json!({
                "tokenizer": tokenizer.name(), "files": files, "total": total, "binary": skipped, "errors": errors,
            });
            writeln!(text, "{}", to_json(&all)).expect("memory");
        } else {
            for &(at, count) in &state.kept {
                self.push_line(&mut text, at, count);
            }
            if table.has_total {
                writeln!(text, "{:width$} total", state.total.tokens, width = table.width).expect("memory");
            }
        }
        let failed = state.failed.into_iter().map(|(_, message, code)| (message, code)).collect();
        Finished { text, skipped: state.skipped.len(), failed }
    }
}

pub(super) fn print(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
