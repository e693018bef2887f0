//! Short calls that run without a read of the clock: loops as a plain loop, recursions without a decision.
//!
//! ```text
//! a site is steady:  its calls agreed (windrow_plan::site); it remembers a weight, from `share::unmeasured_below`
//! the next call:     it weighs less, and the thread's countdown is not at 0:  run all items, read no clock
//!                    the countdown is at 0:                                   check: measure the call, and remember
//! ```
//!
//! The loop that the user would have written costs nothing before its first item. An unmeasured call costs some plain loads: of the pool, of the
//! site's entry, and of the countdown. A short call that is measured reads the clock three times, checks its first quarter, and runs in two pieces.
//!
//! # What a change costs
//! Items may suddenly cost more. An unmeasured call does not notice, and runs alone: it is as slow as the plain loop, and loses what sharing
//! would have saved. A thread that calls one site checks after 127 calls at the latest, 64 on average. Calls of other sites count
//! as well. The length of a countdown is random, so each site still gets one check in 64 of its calls on average. The checked call notices
//! after its first quarter, and shares the rest. After that, twice as many calls have to agree
//! before the site's calls run unmeasured again: so a site that changes often is measured.
//!
//! # Calls that end early
//! A search that hits, an error, a `take_any`: such a call says nothing about a full one, so the costs that its site remembers stay as they are.
//! But the site remembers how much fits into a short call, and each call runs that much unmeasured, before it measures and decides about the rest.
//!
//! The countdown is a number of the thread. One of the site would be written by all threads that call the site.

use std::cell::Cell;

use windrow_sync::machine::tick;

use super::state::PoolState;

/// One in this number of unmeasured calls is checked instead. A check takes about ten reads of the clock, so each call pays for a sixth of one.
///
/// Measure: count of calls.
const CHECKED: u64 = 64;

thread_local! {
    /// Unmeasured calls until the next check.
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
}

/// The weight at the start of the next call at `site`, of this weight, that runs unmeasured: all, a part, or none. One in [`CHECKED`] calls that
/// could is measured, at random.
#[inline]
pub(crate) fn unmeasured(pool: &PoolState, site: usize, weight: u64) -> u64 {
    let (below, early) = pool.sites.unmeasured(site);
    let most = if weight < below { weight } else { early.min(weight) };
    // The first item is a sample anyway.
    if most < weight.min(2) {
        return 0;
    }
    let is_counted = COUNTDOWN.with(|countdown| {
        let left = countdown.get();
        countdown.set(if left == 0 { next_countdown() } else { left - 1 });
        left > 0
    });
    if is_counted { most } else { 0 }
}

#[cold]
fn next_countdown() -> u32 {
    countdown(tick())
}

/// The length of a countdown: from 0 to 126, at random.
///
/// Fibonacci hashing (Knuth): the upper bits of the product depend on all bits of the time.
fn countdown(now: u64) -> u32 {
    let lengths = 2 * CHECKED - 1;
    (((now.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * lengths) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::prelude::*;

    #[test]
    fn one_call_in_64_is_checked() {
        let times = 1u64 << 16;
        let lengths: Vec<u32> = (0..times).map(countdown).collect();
        // A check after each countdown.
        let mean = lengths.iter().map(|&length| u64::from(length) + 1).sum::<u64>() as f64 / times as f64;
        assert!((mean - CHECKED as f64).abs() < 1.0, "{mean}");
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&0), Some(&126)));
    }

    /// True if `call` runs a call of this thread unmeasured.
    fn runs_unmeasured(call: impl FnOnce()) -> bool {
        let before = COUNTDOWN.get();
        call();
        before > 0 && COUNTDOWN.get() == before - 1
    }

    #[test]
    fn calls_that_end_early_run_unmeasured() {
        crate::Pool::new(2).install(|| {
            let search = || assert!((0..1_000_000u32).into_par_iter().any(|n| n == 0));
            let unmeasured = (0..10_000).filter(|_| runs_unmeasured(search)).count();
            assert!(unmeasured > 1_000, "{unmeasured}");
        });
    }

    #[test]
    fn items_that_become_expensive_are_shared_after_127_calls_at_the_latest() {
        if windrow_sync::machine::cpus() < 2 {
            return println!("skipped: one CPU");
        }
        let pool = crate::Pool::new(2);
        let (caller, has_come) = (std::thread::current().id(), AtomicBool::new(false));
        let call = |takes: Duration| {
            (0..8u32).into_par_iter().for_each(|_| {
                if std::thread::current().id() != caller {
                    has_come.store(true, Relaxed);
                }
                let start = Instant::now();
                while start.elapsed() < takes {
                    std::hint::spin_loop();
                }
            });
        };
        pool.install(|| {
            let cheap = || call(Duration::ZERO);
            let unmeasured = (0..10_000).filter(|_| runs_unmeasured(cheap)).count();
            assert!(unmeasured > 1_000, "{unmeasured}");
            // However the last calls went: the next one is unmeasured.
            while !runs_unmeasured(cheap) {}
            has_come.store(false, Relaxed);
            let wake = pool.state.guess().enter(windrow_plan::machine::WorkerState::AsleepLong);
            let long = Duration::from_nanos(4 * wake.0 as u64);
            let shared = (0..2 * CHECKED).position(|_| {
                call(long);
                has_come.load(Relaxed)
            });
            assert!(shared.is_some(), "none of {} long calls was shared", 2 * CHECKED);
        });
    }
}
