//! Models of the latch: the waiter wakes, and sees what was done before `set`, whether it spins or parks, twice in a row.

use loom::sync::Arc;
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
