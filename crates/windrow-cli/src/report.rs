//! Messages on stderr and results on stdout. Either may be closed; that is no reason to panic.

use std::fmt::Display;
use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, PoisonError};

use windrow_tokenizers::shown_lines;

use crate::exit::Code;

/// Place and message of the last panic.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Prints one or more lines on stderr, with control characters of files and libraries escaped.
pub(crate) fn say(message: impl Display) {
    // If stderr is closed, the message is lost.
    let _ = writeln!(io::stderr().lock(), "{}", shown_lines(&message.to_string()));
}

/// An error with its hints on separate lines.
pub(crate) fn error(error: impl Display) {
    say(format_args!("error: {error}"));
}

/// A note that needs no action.
pub(crate) fn note(note: impl Display) {
    say(format_args!("note: {note}"));
}

/// Reports the shards that a failed run leaves for the next one.
pub(crate) fn kept(shards: usize) {
    match shards {
        0 => {}
        1 => say("hint: 1 finished shard is kept; rerun the command with --resume to continue"),
        _ => say(format_args!("hint: {shards} finished shards are kept; rerun the command with --resume to continue")),
    }
}

/// A result on stdout. A reader that closes the pipe is not an error.
pub(crate) fn print(result: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", shown_lines(&result.to_string())).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// The exit code once something was printed on stdout.
pub(crate) fn printed(printed: io::Result<()>, code: Code) -> Code {
    match printed {
        Ok(()) => code,
        Err(error) => {
            self::error(format_args!("cannot write to stdout: {error}\nhint: check where stdout points"));
            Code::Io
        }
    }
}

/// Keeps the text of panics for [`panicked`]. A panic of an engine becomes an error of the document. `RUST_BACKTRACE` restores the
/// usual text.
pub(crate) fn silence_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        return;
    }
    panic::set_hook(Box::new(|info| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
}

/// Reports a panic that no other code has handled.
pub(crate) fn panicked() {
    let last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    error(format_args!(
        "internal error: {}\nhint: please report this, and include the backtrace that RUST_BACKTRACE=1 prints",
        last.as_deref().unwrap_or("a thread panicked")
    ));
}
