//! Models of the words that threads park on: a wake after a change is never lost.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::gate::Gate;
use windrow_sync::latch::Latch;

use crate::model;

/// The latch is a word with a waiter; the setter may come before, between and after every step of parking.
#[test]
fn a_sleeper_wakes() {
    loom::model(|| {
        let latch = Arc::new(Latch::new());
        let setter = {
            let latch = latch.clone();
            loom::thread::spawn(move || latch.set())
        };
        latch.wait(Spin::NONE);
        setter.join().unwrap();
    });
}

/// The gate is a wide word: its lower half changes while workers are parked on the upper one.
#[test]
fn changes_of_the_lower_half_lose_no_wake() {
    model(3, || {
        let gate = Arc::new(Gate::new(1));
        let thread = {
            let gate = gate.clone();
            loom::thread::spawn(move || gate.serve(1, |_| Spin::NONE))
        };
        let (ran, runs) = (Latch::new(), AtomicU32::new(0));
        let body = |_| {
            runs.fetch_add(1, Relaxed);
            ran.set();
        };
        // The region does not end before the worker has come: a lost wakeup is a deadlock.
        gate.region(&body, Spin::NONE, |door| {
            assert!(door.open(2));
            ran.wait(Spin::NONE);
        });
        assert_eq!(runs.load(Relaxed), 1);
        gate.stop();
        thread.join().unwrap();
    });
}
