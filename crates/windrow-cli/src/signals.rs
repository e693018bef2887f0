//! Ctrl-C, SIGTERM and SIGHUP: abandon the output, say so, exit. Whatever the other threads are doing, nothing waits for them.

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

/// Watches for signals from now on. One that is ignored at the start stays ignored: by the custom, that is how `nohup` and the background
/// jobs of a script ask for it.
#[cfg(unix)]
pub(crate) fn watch(staging: &Staging, bar: &ProgressBar) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|&signal| ignored & (1 << (signal - 1)) == 0);
    // A file beyond the limit of `ulimit -f` is then an error of the write call, with a message, and no sudden death.
    let mut signals = Signals::new(wanted.chain([SIGXFSZ]))?;
    let (staging, bar) = (staging.clone(), bar.clone());
    std::thread::Builder::new().name("windrow-signal".to_owned()).spawn(move || {
        for signal in signals.forever().filter(|&signal| signal != SIGXFSZ) {
            stop(&staging, &bar, signal as u8);
        }
    })?;
    Ok(())
}

/// The signals that this process ignores, a bit each, the first for signal 1. Only Linux says it without unsafe code; elsewhere none.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Watches for Ctrl-C from now on.
#[cfg(not(unix))]
pub(crate) fn watch(staging: &Staging, bar: &ProgressBar) -> std::io::Result<()> {
    let (staging, bar) = (staging.clone(), bar.clone());
    ctrlc::set_handler(move || stop(&staging, &bar, 2)).map_err(std::io::Error::other)
}
