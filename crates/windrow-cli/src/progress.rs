//! The progress bar: documents, MB/s, tokens/s, and the time left where the sizes of the inputs are known.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use windrow_tokenizers::encode::{Observer, Step};

const REDRAWS_A_SECOND: u8 = 8;

pub(crate) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    done: Mutex<Step>,
}

impl Progress {
    /// Takes `bar` up; `stored` is the number of bytes to read, if that is known.
    pub(crate) fn start(bar: ProgressBar, stored: Option<u64>) -> Self {
        let template = match stored {
            Some(bytes) => {
                bar.set_length(bytes);
                "{percent:>3}% [{bar:24}] {msg}, {eta} left"
            }
            None => "{spinner} {decimal_bytes} {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a constant").progress_chars("=> "));
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_A_SECOND));
        bar.enable_steady_tick(Duration::from_secs(1) / u32::from(REDRAWS_A_SECOND));
        Self { bar, begin: Instant::now(), done: Mutex::default() }
    }
}

impl Observer for Progress {
    fn advanced(&self, step: &Step) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.documents += step.documents;
        done.text_bytes += step.text_bytes;
        done.ids += step.ids;
        let seconds = self.begin.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} documents, {:.1} MB/s, {:.2} M tokens/s",
            done.documents,
            done.text_bytes as f64 / 1e6 / seconds,
            done.ids as f64 / 1e6 / seconds
        ));
        self.bar.inc(step.stored);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
