//! CPU seconds of this process, exact at each call.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// CPUs that the process may use.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of the process.
///
/// The kernel updates the account of a running thread only at ticks and switches, milliseconds apart, unless that thread's clock is read.
/// So the clock of every thread is read first, to count spinning workers in full.
#[derive(Clone, Debug)]
pub struct CpuClock {
    threads: Vec<ClockId>,
}

impl CpuClock {
    /// For the threads that run now. Threads that start later are counted less exactly.
    pub fn new() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
        // Linux: the number of a thread's clock is the complement of its id, then 4 for a thread and 2 for the scheduler's
        // account.
        Self { threads: ids.map(|id| ClockId::from_raw((!id << 3) | 6)).collect() }
    }

    /// CPU time of all threads, past ones included.
    pub fn now(&self) -> Duration {
        for &thread in &self.threads {
            // A thread may have ended; the process clock includes its time.
            let _ = clock_gettime(thread);
        }
        clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
    }
}

impl Default for CpuClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[test]
    fn a_thread_that_spins_is_counted_while_it_does() {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Relaxed: the flag publishes nothing else.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let clock = CpuClock::new();
            let before = clock.now();
            let deadline = Instant::now() + Duration::from_secs(60);
            // This thread sleeps, so the counted time is the other thread's.
            while clock.now() - before < Duration::from_millis(2) {
                assert!(Instant::now() < deadline, "the spinning thread is not counted");
                std::thread::sleep(Duration::from_micros(100));
            }
            // Relaxed: as above.
            done.store(true, Ordering::Relaxed);
        });
    }
}
