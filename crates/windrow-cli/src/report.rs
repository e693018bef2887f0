//! Messages on stderr and results on stdout. Neither may be there any more: that is no reason to panic.

use std::fmt::Display;
use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, PoisonError};

/// Where and why the last panic was.
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// A line, or some, on stderr.
pub(crate) fn say(message: impl Display) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// An error with its hints on lines of their own.
pub(crate) fn error(error: impl Display) {
    say(format_args!("error: {error}"));
}

/// Something to know, and not to act on.
pub(crate) fn note(note: impl Display) {
    say(format_args!("note: {note}"));
}

/// A result on stdout. A reader that has gone away has seen enough.
pub(crate) fn print(result: impl Display) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{result}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Keeps the text of panics for [`panicked`]. Those that an engine has over a document become a message about that
/// document. `RUST_BACKTRACE` brings the usual text back.
pub(crate) fn silence_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        return;
    }
    panic::set_hook(Box::new(|info| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
}

/// The last resort.
pub(crate) fn panicked() {
    let last = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    error(format_args!(
        "windrow has a fault: {}\nhint: please report this, with what RUST_BACKTRACE=1 adds",
        last.as_deref().unwrap_or("it panicked")
    ));
}
