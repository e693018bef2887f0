//! Models of the gate: a worker that joins sees what the caller wrote, the caller sees what members wrote, no thread parks for
//! ever (loom reports a deadlock), and no job pointer is read while it is written.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::gate::{Gate, JoinedWorker, WorkersElsewhere};
use windrow_sync::latch::Latch;

use crate::{Watched, model};

fn worker(gate: &Arc<Gate>, member: usize) -> loom::thread::JoinHandle<()> {
    let gate = gate.clone();
    loom::thread::spawn(move || gate.serve(member, |_| Spin::NONE))
}

/// One worker, regions one after the other: data goes in and comes back, whether the worker leaves before the close or after it.
#[test]
fn data_goes_in_and_comes_back() {
    model(3, || {
        let gate = Arc::new(Gate::new(1));
        let thread = worker(&gate, 1);
        for round in 1..=2 {
            let (input, output) = (Watched::new(0), Watched::new(0));
            let joined = AtomicUsize::new(0);
            input.set(round);
            let body = |joins| {
                assert_eq!(joins, JoinedWorker { worker: 1, member: 1 });
                output.set(input.get());
                joined.fetch_add(1, Relaxed);
            };
            gate.region(&body, Spin::NONE, |door| assert!(door.open(2)));
            assert_eq!(output.get(), if joined.load(Relaxed) == 1 { round } else { 0 });
            input.set(0);
        }
        gate.stop();
        thread.join().unwrap();
    });
}

/// A caller that waits inside a delayed lane for a worker, which comes whether it was parked or not. Once the lane is due at once, once
/// it is opened early.
#[test]
fn a_worker_comes_to_a_delayed_lane() {
    for is_early in [false, true] {
        model(2, move || {
            let gate = Arc::new(Gate::new(1));
            let thread = worker(&gate, 1);
            let (input, came) = (Watched::new(7), Latch::new());
            let body = |_| {
                assert_eq!(input.get(), 7);
                came.set();
            };
            gate.region(&body, Spin::NONE, |door| {
                assert!(door.open_at(if is_early { 1 << 60 } else { 0 }, 2));
                if is_early {
                    door.open_now();
                }
                came.wait(Spin::NONE);
            });
            input.set(0);
            gate.stop();
            thread.join().unwrap();
        });
    }
}

/// Workers that wait for a latch.
struct CalledByLatch(Arc<Latch>);

impl WorkersElsewhere for CalledByLatch {
    fn idle(&self) -> (usize, usize) {
        (0, 1)
    }

    fn call(&self) {
        self.0.set();
    }
}

/// A caller that waits for a worker which waits elsewhere: the worker finds the region when it is called.
#[test]
fn a_worker_that_waits_elsewhere_comes_when_it_is_called() {
    model(3, || {
        let called = Arc::new(Latch::new());
        let gate = Arc::new(Gate::elsewhere(1, Box::new(CalledByLatch(called.clone()))));
        let visits = gate.clone();
        let thread = loom::thread::spawn(move || {
            called.wait(Spin::NONE);
            visits.visit(&mut visits.visitor(1));
        });
        let (input, output, came) = (Watched::new(7), Watched::new(0), Latch::new());
        let body = |_| {
            output.set(input.get());
            came.set();
        };
        gate.region(&body, Spin::NONE, |door| {
            assert!(door.open(2));
            came.wait(Spin::NONE);
        });
        assert_eq!(output.get(), 7);
        input.set(0);
        thread.join().unwrap();
    });
}

/// A delayed lane in another lane than the main one.
#[test]
fn a_worker_comes_to_a_delayed_lane_inside_of_a_region() {
    for is_early in [false, true] {
        model(1, move || {
            let gate = Arc::new(Gate::new(1));
            let thread = worker(&gate, 1);
            let came = Latch::new();
            gate.region(&|_| (), Spin::NONE, |outer| {
                assert!(outer.open(2));
                gate.region(&|_| came.set(), Spin::NONE, |door| {
                    assert!(door.open_at(if is_early { 1 << 60 } else { 0 }, 2));
                    if is_early {
                        door.open_now();
                    }
                    came.wait(Spin::NONE);
                });
            });
            gate.stop();
            thread.join().unwrap();
        });
    }
}

/// The only worker opens a region inside the caller's and waits for a member: the caller joins, whether it is about to park or parked.
/// The second time it comes through a latch that was used before.
#[test]
fn a_waiting_caller_joins_a_region_inside_of_its_own() {
    for regions in [1, 2] {
        model(2, move || {
            let gate = Arc::new(Gate::new(1));
            let thread = worker(&gate, 1);
            let inner = gate.clone();
            let came = Latch::new();
            let body = |_| {
                for round in 0..regions {
                    let (input, helped) = (Watched::new(0), Latch::new());
                    input.set(round + 5);
                    let help = |joined| {
                        assert_eq!(joined, JoinedWorker { worker: 0, member: 1 });
                        assert_eq!(input.get(), round + 5);
                        helped.set();
                    };
                    inner.region(&help, Spin::NONE, |door| {
                        assert!(door.open(2));
                        helped.wait(Spin::NONE);
                    });
                    input.set(0);
                }
                came.set();
            };
            gate.region(&body, Spin::NONE, |door| {
                assert!(door.open(2));
                // The worker is inside, so nothing but help lets it out.
                while door.joined() == 0 {
                    loom::thread::yield_now();
                }
            });
            came.wait(Spin::NONE);
            gate.stop();
            thread.join().unwrap();
        });
    }
}

/// The same where the caller waits in another lane than the main one: its word alone says that a region opened inside.
#[test]
fn a_caller_that_waits_in_another_lane_joins_a_region_inside_of_its_own() {
    model(1, || {
        let gate = Arc::new(Gate::new(1));
        let thread = worker(&gate, 1);
        let (inner, helped) = (gate.clone(), Latch::new());
        let body = |_| {
            inner.region(&|_| helped.set(), Spin::NONE, |door| {
                assert!(door.open(2));
                helped.wait(Spin::NONE);
            });
        };
        gate.region(&|_| (), Spin::NONE, |main| {
            assert!(main.open_at(1 << 60, 2));
            gate.region(&body, Spin::NONE, |door| {
                assert!(door.open(2));
                while door.joined() == 0 {
                    loom::thread::yield_now();
                }
            });
        });
        gate.stop();
        thread.join().unwrap();
    });
}

/// Two workers: what the first to leave wrote reaches the caller through the last one. (The yields make the schedule likely in
/// which both are inside when the caller closes; without them it would take three preemptions.)
#[test]
fn the_last_to_leave_passes_on_what_others_wrote() {
    model(1, || {
        let gate = Arc::new(Gate::new(2));
        let threads = [worker(&gate, 1), worker(&gate, 2)];
        let output = [Watched::new(0), Watched::new(0)];
        let joined = AtomicUsize::new(0);
        let body = |JoinedWorker { member, .. }| {
            output[member - 1].set(1);
            joined.fetch_add(1, Relaxed);
            loom::thread::yield_now();
        };
        gate.region(&body, Spin::NONE, |door| {
            assert!(door.open(3));
            loom::thread::yield_now();
        });
        assert_eq!(output[0].get() + output[1].get(), joined.load(Relaxed));
        gate.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two callers and a worker that may be inside when either of them closes: the second must not mistake the first one's "all have
/// left" for its own.
#[test]
fn a_caller_does_not_see_the_latch_of_the_last_one() {
    model(1, || {
        let gate = Arc::new(Gate::new(1));
        let thread = worker(&gate, 1);
        let call = |gate: &Gate| {
            let (output, joined) = (Watched::new(0), AtomicUsize::new(0));
            let body = |_| {
                joined.fetch_add(1, Relaxed);
                loom::thread::yield_now();
                output.set(1);
            };
            gate.region(&body, Spin::NONE, |door| {
                door.open(2);
                loom::thread::yield_now();
            });
            assert_eq!(output.get(), joined.load(Relaxed));
        };
        let other = {
            let gate = gate.clone();
            loom::thread::spawn(move || call(&gate))
        };
        call(&gate);
        other.join().unwrap();
        gate.stop();
        thread.join().unwrap();
    });
}

/// Two callers: each gets a lane, the same one alternately or two at a time, and their jobs do not mix.
#[test]
fn callers_hand_lanes_over() {
    model(3, || {
        let gate = Arc::new(Gate::new(1));
        let call = |gate: &Gate| gate.region(&|_| {}, Spin::NONE, |door| door.open(2));
        let other = {
            let gate = gate.clone();
            loom::thread::spawn(move || call(&gate))
        };
        let mine = call(&gate);
        let theirs = other.join().unwrap();
        assert!(mine && theirs, "a free lane opens");
    });
}

/// A region inside another one opens in a separate lane. The bell brings it a worker: the region waits for one.
#[test]
fn a_region_inside_another_gets_a_worker() {
    model(2, || {
        let gate = Arc::new(Gate::new(1));
        let thread = worker(&gate, 1);
        let (input, output, came) = (Watched::new(0), Watched::new(0), Latch::new());
        gate.region(&|_| {}, Spin::NONE, |door| {
            assert!(door.open(2));
            assert!(!door.open(2), "open already");
            input.set(7);
            let body = |_| {
                output.set(input.get());
                came.set();
            };
            gate.region(&body, Spin::NONE, |inner| {
                assert!(inner.open(2));
                came.wait(Spin::NONE);
            });
            assert_eq!(output.get(), 7);
        });
        gate.stop();
        thread.join().unwrap();
    });
}

/// The same from a worker's side: it opens a region while the one that it is in goes on.
#[test]
fn a_member_opens_a_region() {
    model(1, || {
        let gate = Arc::new(Gate::new(2));
        let threads = [worker(&gate, 1), worker(&gate, 2)];
        let ran = AtomicUsize::new(0);
        let count = |_| {
            ran.fetch_add(1, Relaxed);
        };
        let body = |_| {
            gate.region(&count, Spin::NONE, |door| assert!(door.open(2)));
        };
        gate.region(&body, Spin::NONE, |door| assert!(door.open(2)));
        assert!(ran.load(Relaxed) <= 1, "one seat, and the member itself is not its own worker");
        gate.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A panic of the lead, and of a member: all members have left, the gate opens again.
#[test]
fn panics_close_the_gate() {
    std::panic::set_hook(Box::new(|_| {}));
    model(2, || {
        let gate = Arc::new(Gate::new(1));
        let thread = worker(&gate, 1);
        let data = Watched::new(0);
        let led = catch_unwind(AssertUnwindSafe(|| {
            gate.region(&|_| data.set(1), Spin::NONE, |door| {
                door.open(2);
                std::panic::resume_unwind(Box::new("lead"));
            });
        }));
        assert_eq!(led.unwrap_err().downcast_ref::<&str>(), Some(&"lead"));
        data.set(2);
        let joined = AtomicUsize::new(0);
        let body = |_| {
            joined.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("member"));
        };
        let run = catch_unwind(AssertUnwindSafe(|| gate.region(&body, Spin::NONE, |door| assert!(door.open(2)))));
        assert_eq!(run.is_err(), joined.load(Relaxed) == 1);
        gate.stop();
        thread.join().unwrap();
    });
}

/// `stop` ends workers in every state: spinning, about to park, parked, in a region.
#[test]
fn stop_ends_every_worker() {
    model(3, || {
        let gate = Arc::new(Gate::new(2));
        let threads = [worker(&gate, 1), worker(&gate, 2)];
        gate.stop();
        assert!(!gate.region(&|_| {}, Spin::NONE, |door| door.open(2)), "a stopped gate stays closed");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A job that waits until every seat is taken: the wakeup reaches all parked workers, or this deadlocks.
#[test]
fn the_wake_reaches_every_sleeper() {
    model(1, || {
        let gate = Arc::new(Gate::new(2));
        let threads = [worker(&gate, 1), worker(&gate, 2)];
        let (inside, full) = (AtomicUsize::new(0), Latch::new());
        let body = |_| {
            if inside.fetch_add(1, Relaxed) == 1 {
                full.set();
            }
        };
        gate.region(&body, Spin::NONE, |door| {
            assert!(door.open(3));
            full.wait(Spin::NONE);
        });
        gate.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
