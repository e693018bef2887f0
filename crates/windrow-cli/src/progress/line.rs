//! A line on stderr that is redrawn.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two redraws.
const INTERVAL: Duration = Duration::from_millis(125);

/// Width of a terminal that does not say.
const WIDTH: usize = 80;

/// Columns that stay free, for the echo of Ctrl-C: on the next line it would remain after the line is erased.
const FREE: usize = 3;

/// A line on stderr, which is not drawn before it is started, nor where the cursor cannot be moved.
#[derive(Clone, Default)]
pub(crate) struct Line(Arc<Mutex<State>>);

/// The text of a line, made from the number of redraws before.
type Text = Box<dyn FnMut(usize) -> String + Send>;

#[derive(Default)]
struct State {
    /// None before the start and after the end.
    text: Option<Text>,
    /// The number of starts: the thread of an earlier one ends.
    starts: usize,
    redraws: usize,
    is_drawn: bool,
    /// None for stderr.
    terminal: Option<Box<dyn Terminal>>,
}

/// A terminal that can erase a line.
trait Terminal: Send {
    /// Columns.
    fn width(&self) -> usize;

    fn write(&mut self, text: &str) -> io::Result<()>;
}

impl Terminal for io::Stderr {
    fn width(&self) -> usize {
        terminal_size::terminal_size_of(self).map_or(WIDTH, |(width, _)| width.0.into())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let mut stderr = self.lock();
        stderr.write_all(text.as_bytes())?;
        stderr.flush()
    }
}

/// True if stderr is a terminal that can return to the start of a line.
fn is_redrawable() -> bool {
    let is_dumb = std::env::var_os("TERM").map_or(cfg!(unix), |term| term == "dumb");
    io::stderr().is_terminal() && !is_dumb
}

impl Line {
    /// Draws `text` from now on.
    pub(crate) fn start(&self, text: impl FnMut(usize) -> String + Send + 'static) {
        let mut state = self.state();
        if state.terminal.is_some() || is_redrawable() {
            state.text = Some(Box::new(text));
            state.starts += 1;
            state.draw();
        }
    }

    /// Redraws the line at intervals, until it is finished.
    pub(crate) fn redraw_at_intervals(&self) {
        let (weak, starts) = (Arc::downgrade(&self.0), self.state().starts);
        let redraw = move || {
            loop {
                thread::sleep(INTERVAL);
                let Some(line) = weak.upgrade().map(Line) else { return };
                let mut state = line.state();
                if state.starts != starts || state.text.is_none() {
                    return;
                }
                state.draw();
            }
        };
        if self.state().text.is_some() {
            // Without memory for a thread, the line stays as it is.
            let _ = thread::Builder::new().name("windrow-progress".to_owned()).spawn(redraw);
        }
    }

    pub(crate) fn redraw(&self) {
        self.state().draw();
    }

    /// Runs `write`, which may write on the terminal, without the line.
    pub(crate) fn suspend<R>(&self, write: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        state.erase();
        let returned = write();
        state.draw();
        returned
    }

    /// Erases the line for good.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.erase();
        state.text = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The cursor stays after the text, so that an echo of Ctrl-C is erased with it.
    fn draw(&mut self) {
        let Some(text) = &mut self.text else { return };
        let text = text(self.redraws);
        self.redraws += 1;
        let width = self.terminal().width();
        let line = erased(width) + fitting(text.trim_end(), width.saturating_sub(FREE));
        self.is_drawn = true;
        // What cannot be written is not shown.
        let _ = self.terminal().write(&line);
    }

    fn erase(&mut self) {
        if self.is_drawn {
            self.is_drawn = false;
            let erased = erased(self.terminal().width());
            // A line that cannot be erased stays.
            let _ = self.terminal().write(&erased);
        }
    }

    fn terminal(&mut self) -> &mut dyn Terminal {
        &mut **self.terminal.get_or_insert_with(|| Box::new(io::stderr()))
    }
}

/// The text that erases a line. Consoles of Windows may not know the sequence of terminals.
fn erased(width: usize) -> String {
    if cfg!(windows) { format!("\r{:1$}\r", "", width.saturating_sub(1)) } else { "\r\x1b[2K".to_owned() }
}

/// The start of a text that fits into columns. Other characters than those of ASCII may take two.
fn fitting(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, char)| {
        taken += if char.is_ascii() { 1 } else { 2 };
        taken > columns
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal of 20 columns, and what was written to it.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Terminal for Screen {
        fn width(&self) -> usize {
            20
        }

        fn write(&mut self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    fn line() -> (Line, impl FnMut() -> String) {
        let screen = Screen::default();
        let line = Line::default();
        line.state().terminal = Some(Box::new(screen.clone()));
        (line, move || std::mem::take(&mut *screen.0.lock().unwrap()))
    }

    #[test]
    fn a_line_is_drawn_over_itself_and_erased_for_others() {
        let (line, mut written) = line();
        let erased = erased(20);
        line.redraw();
        line.finish();
        assert_eq!((line.suspend(|| 1), written()), (1, String::new()));
        line.start(|redraws| format!("{redraws} done  "));
        line.redraw();
        assert_eq!(written(), format!("{erased}0 done{erased}1 done"), "the cursor stays after the text");
        line.suspend(|| assert_eq!(written(), erased));
        assert_eq!(written(), format!("{erased}2 done"));
        line.finish();
        assert_eq!(written(), erased);
        line.redraw();
        line.finish();
        assert_eq!(written(), "");
    }

    #[test]
    fn the_thread_that_redraws_ends_with_the_line() {
        let (line, mut written) = line();
        line.start(|_| "first".to_owned());
        line.redraw_at_intervals();
        line.start(|_| "second".to_owned());
        assert!(written().ends_with("second"));
        let weak = Arc::downgrade(&line.0);
        drop(line);
        // The thread holds the line for a moment only.
        while weak.upgrade().is_some() {
            thread::yield_now();
        }
        assert!(!written().contains("first"));
    }

    #[test]
    fn a_line_fits_into_the_terminal_and_leaves_room_for_an_echo() {
        assert_eq!(
            (fitting("abcd", 4), fitting("abcd", 3), fitting("語a", 2), fitting("語", 1)),
            ("abcd", "abc", "語", "")
        );
        let (line, mut written) = line();
        line.start(|_| "a".repeat(40));
        assert_eq!(written().matches('a').count(), 20 - FREE);
    }
}
