//! The fixed choice, written by hand: threads that claim a fixed number of items at a time from one counter.
//!
//! The strongest simple form of such a loop: a claim is one addition, the threads spin between calls, and the caller waits for items, not
//! for threads. So a thread that comes late costs nothing.
//!
//! # Protocol
//! `next` is the first item that is not claimed, and `done` counts finished items. A call sets `done` to 0 and then `next` to 0. All threads,
//! the caller included, add the grain to `next`; a result below the number of items is a claim. The call ends when `done` has reached the
//! number of items, so no claim is open at the start of the next call. A thread that comes after the end gets no claim, or one of the next
//! call, which is as good.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::Ask;

/// Spins before a waiting thread yields its CPU.
const SPINS: usize = 2000;

struct Crew<'a, F> {
    count: usize,
    grain: usize,
    run: &'a F,
    next: AtomicUsize,
    done: AtomicUsize,
    over: AtomicBool,
    /// Calls so far, used if threads sleep between calls.
    calls: Mutex<u64>,
    called: Condvar,
}

impl<F: Fn(Range<usize>) + Sync> Crew<'_, F> {
    /// Takes part in a call until no item is left to claim.
    fn share(&self) {
        loop {
            // Acquire: pairs with the Release in `call`, so that a claim of a call sees `done` at 0.
            let from = self.next.fetch_add(self.grain, Ordering::Acquire);
            if from >= self.count {
                return;
            }
            let to = (from + self.grain).min(self.count);
            (self.run)(from..to);
            // Release: pairs with the Acquire in `call`: the caller sees the writes of the items.
            self.done.fetch_add(to - from, Ordering::Release);
        }
    }

    fn call(&self) {
        // Relaxed: ordered before the claims by the Release below.
        self.done.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `share`.
        self.next.store(0, Ordering::Release);
        self.share();
        let mut spins = 0;
        // Acquire: pairs with the Release in `share`.
        while self.done.load(Ordering::Acquire) < self.count {
            wait(&mut spins);
        }
    }

    fn help_spinning(&self) {
        let mut spins = 0;
        // Relaxed: the flag orders nothing.
        while !self.over.load(Ordering::Relaxed) {
            // Relaxed: a claim decides, this load only looks for work.
            if self.next.load(Ordering::Relaxed) < self.count {
                self.share();
                spins = 0;
            } else {
                wait(&mut spins);
            }
        }
    }

    /// Sleeps until a call begins.
    fn help_sleeping(&self) {
        let mut seen = 0;
        loop {
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = self
                .called
                // Relaxed: the lock orders it.
                .wait_while(calls, |calls| *calls == seen && !self.over.load(Ordering::Relaxed))
                .unwrap_or_else(PoisonError::into_inner);
            // Relaxed: the lock orders it.
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            seen = *calls;
            drop(calls);
            self.share();
        }
    }

    fn wake(&self, over: bool) {
        {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            *calls += 1;
            // Relaxed: the lock orders it for sleeping threads, and spinning ones may see it late.
            self.over.store(over, Ordering::Relaxed);
        }
        self.called.notify_all();
    }
}

fn wait(spins: &mut usize) {
    *spins += 1;
    // With more threads than CPUs, a spinning thread would keep the others from their work.
    if spins.is_multiple_of(SPINS) { thread::yield_now() } else { std::hint::spin_loop() }
}

/// Runs `count` items on `threads` threads, `grain` at a time, for the requested calls. Returns the time of a call in
/// nanoseconds.
pub(crate) fn timed<F: Fn(Range<usize>) + Sync>(
    ask: Ask,
    (threads, count, grain): (usize, usize, usize),
    run: &F,
) -> f64 {
    let crew = Crew {
        count,
        grain: grain.max(1),
        run,
        // Nothing to claim yet.
        next: AtomicUsize::new(count),
        done: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        calls: Mutex::new(0),
        called: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| if ask.gap.is_zero() { crew.help_spinning() } else { crew.help_sleeping() });
        }
        let nanos = if ask.gap.is_zero() {
            (0..ask.warm_up).for_each(|_| crew.call());
            let start = Instant::now();
            (0..ask.calls).for_each(|_| crew.call());
            start.elapsed().as_nanos() as f64 / ask.calls as f64
        } else {
            one_by_one(ask, || {
                // The threads are woken by the call, so that is timed.
                crew.wake(false);
                crew.call();
            })
        };
        crew.wake(true);
        nanos
    })
}

/// Runs calls after a pause each, timed separately. Returns the mean of a call in nanoseconds.
pub(crate) fn one_by_one(ask: Ask, mut call: impl FnMut()) -> f64 {
    let once = |_| {
        thread::sleep(ask.gap);
        let start = Instant::now();
        call();
        start.elapsed()
    };
    (0..ask.calls).map(once).sum::<Duration>().as_nanos() as f64 / ask.calls as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_item_runs_once_a_call_for_all_grains_and_ways_to_wait() {
        for gap in [Duration::ZERO, Duration::from_micros(50)] {
            for grain in [1, 7, 100, 1000] {
                let counts: Vec<AtomicU64> = (0..100).map(|_| AtomicU64::new(0)).collect();
                let ask = Ask { warm_up: 0, calls: 20, gap };
                let nanos = timed(ask, (3, counts.len(), grain), &|range| {
                    for at in range {
                        counts[at].fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(nanos > 0.0);
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 20), "{gap:?} {grain}: {counts:?}");
            }
        }
    }
}
