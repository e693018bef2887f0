//! Models of the latch: the waiter wakes, and sees what was done before `set`, whether it spins or parks, twice in a row.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use windrow_sync::Spin;
use windrow_sync::latch::Latch;

struct Event {
    latch: Latch,
    back: Latch,
    data: UnsafeCell<usize>,
}

// SAFETY: loom checks that accesses to `data` are ordered.
unsafe impl Sync for Event {}
// SAFETY: a number and two latches.
unsafe impl Send for Event {}

#[test]
fn the_waiter_sees_what_came_before() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let event = Arc::new(Event { latch: Latch::new(), back: Latch::new(), data: UnsafeCell::new(0) });
        let setter = {
            let event = event.clone();
            loom::thread::spawn(move || {
                for turn in 1..=2 {
                    // SAFETY: loom reports a conflicting access instead of performing it.
                    event.data.with_mut(|p| unsafe { *p = turn });
                    event.latch.set();
                    event.back.wait(Spin::NONE);
                }
            })
        };
        for turn in 1..=2 {
            event.latch.wait(Spin::NONE);
            assert!(!event.latch.is_set(), "the waiter takes it back");
            // SAFETY: as above.
            assert_eq!(event.data.with(|p| unsafe { *p }), turn);
            event.back.set();
        }
        setter.join().unwrap();
    });
}
