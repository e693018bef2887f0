//! The progress bar: documents, MB/s, tokens/s, and the time left if the sizes of the inputs are known.

mod line;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windrow_tokenizers::encode::{Observer, Step};
use windrow_tokenizers::{counted, decimal, shown};

pub(crate) use line::Line;

/// Width of the bar in the line.
const BAR: usize = 24;

/// The work of a run until now, and a bar for it.
pub(crate) struct Progress {
    line: Line,
    done: Arc<Mutex<Step>>,
}

/// A message that a tokenizer is being loaded, which may take seconds; it ends when this is dropped.
pub(crate) struct Loading<'b>(&'b Line);

impl<'b> Loading<'b> {
    pub(crate) fn start(line: &'b Line, name: &str) -> Self {
        let name = shown(name).to_string();
        line.start(move |redraws| format!("{} loading {name}", spinner(redraws)));
        line.redraw_at_intervals();
        Self(line)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// A bar for steps with names, which are known in advance.
pub(crate) struct Steps {
    line: Line,
    at: Arc<Mutex<(u64, String)>>,
}

impl Steps {
    /// Starts `line` for `steps` steps. Redrawing at intervals would take time from the measurement.
    pub(crate) fn start(line: Line, steps: u64) -> Self {
        let at = Arc::new(Mutex::new((0, String::new())));
        let shown = Arc::clone(&at);
        line.start(move |_| {
            let (done, name) = &*shown.lock().unwrap_or_else(PoisonError::into_inner);
            format!("{done}/{steps} [{}] {name}", bar(*done, steps))
        });
        Self { line, at }
    }

    #[cfg(feature = "bench")]
    pub(crate) fn begin(&self, name: &str) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).1 = shown(name).to_string();
        self.line.redraw();
    }

    pub(crate) fn end(&self) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        self.line.redraw();
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.line.finish();
    }
}

impl Progress {
    /// Starts `line`; `stored` is the number of bytes to read, if known, and `last` names the work that remains when they are read.
    pub(crate) fn start(line: Line, stored: Option<u64>, last: &'static str) -> Self {
        let (begin, done) = (Instant::now(), Arc::new(Mutex::new(Step::default())));
        let shown = Arc::clone(&done);
        line.start(move |redraws| {
            let done = *shown.lock().unwrap_or_else(PoisonError::into_inner);
            let elapsed = begin.elapsed();
            match stored {
                Some(of) => {
                    let percent = (share(done.stored, of) * 100.0) as u64;
                    let left = left(done.stored, of, elapsed, last);
                    format!("{percent:>3}% [{}] {}{left}", bar(done.stored, of), rates(&done, elapsed))
                }
                None => format!("{} {} {}", spinner(redraws), decimal(done.stored), rates(&done, elapsed)),
            }
        });
        line.redraw_at_intervals();
        Self { line, done }
    }

    /// Writes on stderr, without the bar.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        self.line.suspend(write);
    }
}

impl Observer for Progress {
    fn advanced(&self, step: &Step) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.documents += step.documents;
        done.text_bytes += step.text_bytes;
        done.ids += step.ids;
        done.stored += step.stored;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish();
    }
}

/// Documents and rates; empty before the first documents are done.
fn rates(done: &Step, elapsed: Duration) -> String {
    if *done == Step::default() {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64().max(1e-3);
    format!(
        "{}, {:.1} MB/s, {:.2} M tokens/s",
        counted(done.documents, "document"),
        done.text_bytes as f64 / 1e6 / seconds,
        done.ids as f64 / 1e6 / seconds
    )
}

/// The text for the time left: empty before the first documents are done; after the last one, the remaining work.
fn left(done: u64, of: u64, elapsed: Duration, last: &str) -> String {
    if of > 0 && done >= of {
        return last.to_owned();
    }
    let seconds = if done > 0 { elapsed.as_secs_f64() * (of - done) as f64 / done as f64 } else { 0.0 };
    if seconds >= 1.0 { format!(", {}s left", seconds as u64) } else { String::new() }
}

/// The share that is done, 0 to 1.
fn share(done: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { (done as f64 / of as f64).min(1.0) }
}

fn bar(done: u64, of: u64) -> String {
    let full = (share(done, of) * BAR as f64) as usize;
    let head = if done > 0 && full < BAR { ">" } else { "" };
    format!("{:<BAR$}", "=".repeat(full) + head)
}

/// A sign that turns, one position each redraw.
fn spinner(redraws: usize) -> char {
    const TURN: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
    TURN[redraws % TURN.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_when_it_is_known() {
        let left = |done, of, seconds| left(done, of, Duration::from_secs(seconds), ", writing to disk");
        assert_eq!(left(0, 100, 0), "");
        assert_eq!(left(0, 100, 7), "");
        assert_eq!(left(50, 100, 7), ", 7s left");
        assert_eq!(left(25, 100, 7), ", 21s left");
        assert_eq!(left(99, 100, 7), "");
        assert_eq!(left(100, 100, 7), ", writing to disk");
        assert_eq!(left(0, 0, 7), "");
    }

    #[test]
    fn bars_are_full_at_the_end_only() {
        let drawn = |full: usize, head: &str| format!("{:<24}", "=".repeat(full) + head);
        assert_eq!([bar(0, 9), bar(1, 1_000), bar(6, 12)], [drawn(0, ""), drawn(0, ">"), drawn(12, ">")]);
        assert_eq!([bar(999, 1_000), bar(9, 9), bar(10, 9), bar(0, 0)].map(|bar| bar.trim_end().len()), [24; 4]);
        assert!(bar(999, 1_000).ends_with('>') && !bar(9, 9).contains('>'));
    }

    #[test]
    fn rates_are_of_all_that_is_done() {
        assert_eq!(rates(&Step::default(), Duration::from_secs(1)), "");
        let mut done = Step::default();
        (done.documents, done.text_bytes, done.ids) = (2_000, 5_000_000, 1_000_000);
        assert_eq!(rates(&done, Duration::from_secs(2)), "2,000 documents, 2.5 MB/s, 0.50 M tokens/s");
    }
}
