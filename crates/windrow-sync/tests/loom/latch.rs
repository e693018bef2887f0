//! Models of the latch: the waiter wakes, and sees what was done before `set`, whether it spins or parks, twice in a row.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::latch::Latch;

use crate::{Watched, model};

struct Event {
    latch: Latch,
    back: Latch,
    data: Watched,
}

#[test]
fn the_waiter_sees_what_came_before() {
    model(2, || {
        let event = Arc::new(Event { latch: Latch::new(), back: Latch::new(), data: Watched::new(0) });
        let setter = {
            let event = event.clone();
            loom::thread::spawn(move || {
                for turn in 1..=2 {
                    event.data.set(turn);
                    event.latch.set();
                    event.back.wait(Spin::NONE);
                }
            })
        };
        for turn in 1..=2 {
            event.latch.wait(Spin::NONE);
            assert!(!event.latch.is_set(), "the waiter takes it back");
            assert_eq!(event.data.get(), turn);
            event.back.set();
        }
        setter.join().unwrap();
    });
}

/// A bell's waiter checks both sources after each wait.
#[test]
fn a_bell_loses_no_ring() {
    model(2, || {
        let bell = Arc::new((Latch::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
        let ringers = [0, 1].map(|source| {
            let bell = bell.clone();
            loom::thread::spawn(move || {
                bell.1[source].store(true, Relaxed);
                bell.0.set();
            })
        });
        while !bell.1.iter().all(|source| source.load(Relaxed)) {
            bell.0.wait_for(None);
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

#[test]
fn a_set_latch_shows_what_came_before() {
    model(None, || {
        let event = Arc::new((Latch::new(), Watched::new(0)));
        let setter = {
            let event = event.clone();
            loom::thread::spawn(move || {
                event.1.set(1);
                event.0.set();
            })
        };
        assert!(!event.0.is_set() || event.1.get() == 1);
        setter.join().unwrap();
    });
}

/// A waiting time of zero stands for one that ends in the same moment as the ring.
#[test]
fn a_ring_at_the_end_of_a_wait_is_an_answer() {
    model(None, || {
        let event = Arc::new((Latch::new(), Watched::new(0)));
        let ringer = {
            let event = event.clone();
            loom::thread::spawn(move || {
                event.1.set(1);
                event.0.set();
            })
        };
        if !event.0.wait_for(Some(Duration::ZERO)) {
            event.0.wait_for(None);
        }
        assert_eq!(event.1.get(), 1);
        ringer.join().unwrap();
    });
}
