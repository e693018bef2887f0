//! Threads that wake up promptly.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use windrow_sync::machine;

thread_local! {
    /// By about how much this thread oversleeps: the timer slack of Linux.
    static LATE: Cell<Duration> = const { Cell::new(Duration::from_micros(50)) };
}

/// Asks the system to run this thread at once whenever it wakes up. Ranks wait for each other: if one rank waits for a processor, all ranks
/// wait.
pub(crate) fn be_prompt() {
    if machine::be_prompt() {
        // Measured: 5 us where nothing else runs; the rest is for taking the processor from a computing thread.
        LATE.set(Duration::from_micros(15));
    }
}

/// Sleeps until about `deadline`.
pub(crate) fn sleep_until(deadline: Instant) {
    let (left, late) = (deadline.saturating_duration_since(Instant::now()), LATE.get());
    if left > late {
        thread::sleep(left - late);
    }
}
