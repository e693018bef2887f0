//! Ctrl-C, SIGTERM and SIGHUP: abandon the output, report it, exit. The process waits for no other thread.

use std::process;
use std::sync::{Once, OnceLock};

use windrow_tokenizers::output::Staging;

use crate::exit::Code;
use crate::progress::Line;
use crate::report;

static SIGNAL: OnceLock<u8> = OnceLock::new();

/// Stops the run for the signal with this number, unless everything is already published: then the run is complete.
fn stop(staging: &Staging, bar: &Line, number: u8) {
    // Stored before the abandonment, which the main thread may notice at once.
    SIGNAL.get_or_init(|| number);
    if staging.abandon() {
        bar.finish();
        process::exit(interrupted(staging.kept_shards()).number().into());
    }
}

/// Reports, once, that the run was interrupted, and the number of finished shards that were kept. Returns the exit code.
pub(crate) fn interrupted(kept: usize) -> Code {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        report::error("interrupted; nothing was published");
        report::kept(kept);
    });
    // Without a signal, an abandonment counts as SIGINT.
    Code::Signal(*SIGNAL.get().unwrap_or(&2))
}

/// Ends the process for the signal with this number: nothing was published.
#[cfg(feature = "bench")]
pub(crate) fn end(bar: &Line, number: u8) {
    SIGNAL.get_or_init(|| number);
    bar.finish();
    process::exit(interrupted(0).number().into());
}

/// Watches for signals from now on, which end a run that writes to `staging`.
pub(crate) fn watch(staging: &Staging, bar: &Line) -> std::io::Result<()> {
    let (staging, bar) = (staging.clone(), bar.clone());
    watch_by(move |number| stop(&staging, &bar, number))
}

/// Calls `stop` with the number of each signal from now on. A signal that is ignored at the start stays ignored: `nohup` and the background
/// jobs of a script request it that way by convention.
#[cfg(unix)]
pub(crate) fn watch_by(stop: impl Fn(u8) + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|&signal| ignored & (1 << (signal - 1)) == 0);
    // With SIGXFSZ watched, a file beyond the limit of `ulimit -f` is an error of the write call, with a message, and does not kill the process.
    let mut signals = Signals::new(wanted.chain([SIGXFSZ]))?;
    std::thread::Builder::new().name("windrow-signal".to_owned()).spawn(move || {
        for signal in signals.forever().filter(|&signal| signal != SIGXFSZ) {
            stop(signal as u8);
        }
    })?;
    Ok(())
}

/// The signals that this process ignores, one bit each, the first for signal 1. Only Linux reports them without unsafe code; elsewhere
/// none.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Calls `stop` at each Ctrl-C from now on.
#[cfg(not(unix))]
pub(crate) fn watch_by(stop: impl Fn(u8) + Send + 'static) -> std::io::Result<()> {
    ctrlc::set_handler(move || stop(2)).map_err(std::io::Error::other)
}
