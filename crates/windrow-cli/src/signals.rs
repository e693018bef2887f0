//! Ctrl-C and SIGTERM: abandon the output, say so, exit. Whatever the other threads are doing, nothing waits for them.

use std::process;
use std::sync::{Once, OnceLock};

use indicatif::ProgressBar;
use windrow_tokenizers::output::Staging;

use crate::exit::Code;
use crate::report;

static SIGNAL: OnceLock<u8> = OnceLock::new();

/// Stops the run for the signal of this number, unless everything is published already: then it counts as complete.
fn stop(staging: &Staging, bar: &ProgressBar, number: u8) {
    // Before the abandonment, which the main thread may notice at once.
    SIGNAL.get_or_init(|| number);
    if staging.abandon() {
        bar.finish_and_clear();
        process::exit(interrupted().number().into());
    }
}

/// Says, one time, that the run was interrupted, and with which code the process is to exit.
pub(crate) fn interrupted() -> Code {
    static SAID: Once = Once::new();
    SAID.call_once(|| report::error("interrupted; nothing was published"));
    // SIGINT is what an abandonment without a signal would be like.
    Code::Signal(*SIGNAL.get().unwrap_or(&2))
}

/// Watches for signals from now on.
#[cfg(unix)]
pub(crate) fn watch(staging: &Staging, bar: &ProgressBar) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    // A file beyond the limit of `ulimit -f` is then an error of the write call, with a message, and no sudden death.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGXFSZ])?;
    let (staging, bar) = (staging.clone(), bar.clone());
    std::thread::Builder::new().name("windrow-signal".to_owned()).spawn(move || {
        for signal in signals.forever().filter(|&signal| signal != SIGXFSZ) {
            stop(&staging, &bar, signal as u8);
        }
    })?;
    Ok(())
}

/// Watches for Ctrl-C from now on.
#[cfg(not(unix))]
pub(crate) fn watch(staging: &Staging, bar: &ProgressBar) -> std::io::Result<()> {
    let (staging, bar) = (staging.clone(), bar.clone());
    ctrlc::set_handler(move || stop(&staging, &bar, 2)).map_err(std::io::Error::other)
}
