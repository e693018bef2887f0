//! The progress bar: documents, MB/s, tokens/s, and the time left if the sizes of the inputs are known.

use std::fmt::{Debug, Write};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};
use windrow_tokenizers::encode::{Observer, Step};
use windrow_tokenizers::{counted, shown};

const REDRAWS_A_SECOND: u8 = 8;

pub(crate) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    done: Mutex<Step>,
}

/// Redraws a bar on stderr at intervals. It is not drawn on a terminal that cannot move its cursor.
fn draw(bar: &ProgressBar) {
    bar.reset();
    if !ProgressDrawTarget::stderr_with_hz(REDRAWS_A_SECOND).is_hidden() {
        let line = Line(Term::buffered_stderr());
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(line), REDRAWS_A_SECOND));
    }
    bar.enable_steady_tick(Duration::from_secs(1) / u32::from(REDRAWS_A_SECOND));
}

/// A message that a tokenizer is being loaded, which may take seconds; it ends when this is dropped.
pub(crate) struct Loading<'b>(&'b ProgressBar);

impl<'b> Loading<'b> {
    pub(crate) fn start(bar: &'b ProgressBar, name: &str) -> Self {
        bar.set_style(ProgressStyle::with_template("{spinner} loading {msg}").expect("a constant"));
        bar.set_message(shown(name).to_string());
        draw(bar);
        Self(bar)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
        self.0.set_message("");
    }
}

/// A bar for steps with names, which are known in advance.
pub(crate) struct Steps(ProgressBar);

impl Steps {
    /// Starts `bar` for `steps` steps.
    pub(crate) fn start(bar: ProgressBar, steps: u64) -> Self {
        bar.set_length(steps);
        let style = ProgressStyle::with_template("{pos}/{len} [{bar:24}] {msg}");
        bar.set_style(style.expect("a constant").progress_chars("=> "));
        draw(&bar);
        // Redrawing at intervals would take time from the measurement.
        bar.disable_steady_tick();
        Self(bar)
    }

    #[cfg(feature = "bench")]
    pub(crate) fn begin(&self, name: &str) {
        self.0.set_message(shown(name).to_string());
        self.0.tick();
    }

    pub(crate) fn end(&self) {
        self.0.inc(1);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Progress {
    /// Starts `bar`; `stored` is the number of bytes to read, if known, and `last` names the work that remains when they are read.
    pub(crate) fn start(bar: ProgressBar, stored: Option<u64>, last: &'static str) -> Self {
        let template = match stored {
            Some(bytes) => {
                bar.set_length(bytes);
                "{percent:>3}% [{bar:24}] {msg}{left}"
            }
            None => "{spinner} {decimal_bytes} {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("a constant").progress_chars("=> ");
        bar.set_style(style.with_key("left", move |state: &ProgressState, line: &mut dyn Write| {
            // A line that cannot be written is not shown.
            let _ = line.write_str(&left(state.pos(), state.len(), state.eta(), last));
        }));
        draw(&bar);
        Self { bar, begin: Instant::now(), done: Mutex::default() }
    }
}

/// The text for the time left: empty before the first documents are done; after the last one, the remaining work.
fn left(done: u64, of: Option<u64>, eta: Duration, last: &str) -> String {
    match of {
        Some(of) if of > 0 && done >= of => last.to_owned(),
        Some(_) if done > 0 && eta >= Duration::from_secs(1) => format!(", {}s left", eta.as_secs()),
        _ => String::new(),
    }
}

/// A terminal whose cursor stays after the bar. The bar's own padding moves the cursor to the right end. The echo of Ctrl-C would then
/// go to the next line, and clearing would remove that line instead of the bar.
#[derive(Debug)]
struct Line<T>(T);

impl<T: TermLike> TermLike for Line<T> {
    fn width(&self) -> u16 {
        self.0.width()
    }

    fn height(&self) -> u16 {
        self.0.height()
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        if text.bytes().all(|byte| byte == b' ') { Ok(()) } else { self.0.write_str(text.trim_end_matches(' ')) }
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Progress {
    /// Writes on stderr, without the bar.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
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
            "{}, {:.1} MB/s, {:.2} M tokens/s",
            counted(done.documents, "document"),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A terminal of 80 columns: the column of its cursor and the text of its line.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<(usize, String)>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            assert_eq!(n, 0, "the bar has one line");
            Ok(())
        }
        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.move_cursor_up(n)
        }
        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.move_cursor_up(n)
        }
        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.move_cursor_up(n)
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            panic!("a line: {text}")
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut screen = self.0.lock().unwrap();
            screen.0 += text.chars().count();
            screen.1.push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            *self.0.lock().unwrap() = (0, String::new());
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_cursor_stays_after_the_bar_so_that_an_echo_is_cleared_with_it() {
        let screen = Screen::default();
        let bar =
            ProgressBar::with_draw_target(Some(10), ProgressDrawTarget::term_like(Box::new(Line(screen.clone()))));
        bar.set_style(ProgressStyle::with_template("{percent}% {msg}").unwrap());
        bar.set_message("some documents");
        bar.tick();
        let (column, text) = screen.0.lock().unwrap().clone();
        assert!(text.contains("some documents"), "{text:?}");
        assert!(column < 70, "the echo of Ctrl-C is on the same line: {column}, {text:?}");
        bar.finish_and_clear();
        assert_eq!(screen.0.lock().unwrap().1, "");
    }

    #[test]
    fn what_is_left_is_said_when_it_is_known() {
        let eta = Duration::from_secs;
        let left = |done, of, eta| left(done, of, eta, ", writing to the disk");
        assert_eq!(left(0, Some(100), eta(0)), "");
        assert_eq!(left(0, Some(100), eta(7)), "");
        assert_eq!(left(50, Some(100), eta(7)), ", 7s left");
        assert_eq!(left(99, Some(100), eta(0)), "");
        assert_eq!(left(100, Some(100), eta(0)), ", writing to the disk");
        assert_eq!(left(0, Some(0), eta(0)), "");
        assert_eq!(left(5, None, eta(3)), "");
    }
}
