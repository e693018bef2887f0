//! Work of a given length, and waiting.

use std::thread;
use std::time::Instant;

/// Work of about `micros` microseconds, long enough to be shared.
pub fn spin(micros: u64) {
    let start = Instant::now();
    while start.elapsed().as_micros() < u128::from(micros) {
        std::hint::spin_loop();
    }
}

/// Yields until `done`.
pub fn spin_until(mut done: impl FnMut() -> bool) {
    while !done() {
        thread::yield_now();
    }
}
