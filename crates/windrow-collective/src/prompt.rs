//! How late a thread wakes up.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use windrow_sync::machine;

thread_local! {
    /// This thread wakes up later than asked for by about as much: the timer slack of Linux.
    static LATE: Cell<Duration> = const { Cell::new(Duration::from_micros(50)) };
}

/// Ranks wait for each other: where one waits for a processor, all do. So the thread that communicates asks for one at once when it wakes.
pub(crate) fn be_prompt() {
    if machine::be_prompt() {
        // Measured: 5 us where nothing else runs, and to get a processor that computes.
        LATE.set(Duration::from_micros(15));
    }
}

/// Now, or shortly before or after that is.
pub(crate) fn sleep_until(deadline: Instant) {
    let (left, late) = (deadline.saturating_duration_since(Instant::now()), LATE.get());
    if left > late {
        thread::sleep(left - late);
    }
}
