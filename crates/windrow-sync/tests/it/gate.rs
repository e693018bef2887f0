//! The gate on real threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use windrow_sync::Spin;
use windrow_sync::gate::{Gate, JoinedWorker, LANES, WorkersElsewhere};
use windrow_sync::latch::Latch;
use windrow_sync::machine::tick;

const ROUNDS: usize = if cfg!(miri) { 10 } else { 2000 };

/// A gate with its workers on threads, stopped and joined at the end.
struct Crew {
    gate: Arc<Gate>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Crew {
    fn new(workers: usize, look: Spin) -> Self {
        let gate = Arc::new(Gate::new(workers));
        let threads = (1..=workers)
            .map(|member| {
                let gate = gate.clone();
                std::thread::spawn(move || gate.serve(member, |_| look))
            })
            .collect();
        Self { gate, threads }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.gate.stop();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

const LOOKS: [Spin; 3] = [Spin::NONE, Spin { busy: 20_000, yielding: 0 }, Spin { busy: 1_000, yielding: 100_000 }];

#[test]
fn the_wake_reaches_every_sleeper() {
    for look in LOOKS {
        let crew = Crew::new(3, look);
        for _ in 0..ROUNDS / 10 {
            let (inside, full, members) = (AtomicUsize::new(0), Latch::new(), AtomicUsize::new(0));
            let body = |JoinedWorker { worker, member }| {
                assert!((1..=3).contains(&worker));
                members.fetch_or(1 << member, Relaxed);
                if inside.fetch_add(1, Relaxed) == 2 {
                    full.set();
                }
            };
            crew.gate.region(&body, look, |door| {
                assert!(door.open(4));
                full.wait(look);
            });
            assert_eq!((inside.load(Relaxed), members.load(Relaxed)), (3, 0b1110), "each member has another number");
        }
    }
}

/// A caller that waits for a worker inside an item. Workers spin or are parked when the lane opens.
#[test]
fn workers_join_a_delayed_lane_when_it_is_due() {
    for look in LOOKS {
        let crew = Crew::new(3, look);
        for round in 0..ROUNDS / 10 {
            let joined = Latch::new();
            let due = tick() + if round % 2 == 0 { 0 } else { 10_000 };
            let body = |_| {
                assert!(tick() >= due, "too early");
                joined.set();
            };
            crew.gate.region(&body, look, |door| {
                assert!(door.open_at(due, 2));
                joined.wait(look);
                assert_eq!(door.joined(), 1);
            });
        }
    }
}

#[test]
fn a_delayed_lane_that_closes_admits_no_worker_and_one_that_is_hastened_does() {
    for look in LOOKS {
        let crew = Crew::new(2, look);
        for _ in 0..ROUNDS / 10 {
            let far = tick() + (1 << 50);
            crew.gate.region(&|_| panic!("not due"), look, |door| assert!(door.open_at(far, 3)));
            let joined = Latch::new();
            // Inside another region, in another lane.
            crew.gate.region(&|_| (), look, |outer| {
                outer.open(2);
                crew.gate.region(&|_| joined.set(), look, |door| {
                    assert!(door.open_at(far, 2) && door.joined() == 0);
                    door.open_now();
                    joined.wait(look);
                });
            });
        }
    }
}

/// Each region opens one inside it, three deep, and waits there for its members: the callers around help, and no thread else can.
#[test]
fn callers_that_wait_help_inside_of_their_regions_and_nowhere_else() {
    fn nest(gate: &Gate, look: Spin, depth: usize) {
        let (inside, came) = (AtomicUsize::new(0), Latch::new());
        let body = |_| {
            if depth < 3 {
                nest(gate, look, depth + 1);
            }
            inside.fetch_add(1, Relaxed);
            came.set();
        };
        gate.region(&body, look, |door| {
            assert!(door.open(2), "depth {depth}");
            while door.joined() == 0 {
                std::hint::spin_loop();
            }
            if depth == 3 {
                came.wait(look);
            }
        });
        assert_eq!(inside.load(Relaxed), 1);
    }
    for look in LOOKS {
        let crew = Crew::new(1, look);
        for _ in 0..ROUNDS / 10 {
            nest(&crew.gate, look, 0);
        }
        // Another caller's region waits for the worker, and not for this caller, which waits inside another region.
        let (first, second) = (Latch::new(), Latch::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                first.wait(Spin::NONE);
                crew.gate
                    .region(&|JoinedWorker { worker, .. }| assert_eq!(worker, 1), look, |door| assert!(door.open(2)));
                second.set();
            });
            let body = |_| {
                first.set();
                second.wait(Spin::NONE);
            };
            crew.gate.region(&body, look, |door| {
                assert!(door.open(2));
                while door.joined() == 0 {
                    std::hint::spin_loop();
                }
            });
        });
    }
}

/// A caller opens its lane inside a region that it began later, and that ends before: the lanes around are no circle.
#[test]
fn a_lane_that_opens_late_is_not_inside_of_a_region_that_ends_before() {
    let crew = Crew::new(1, Spin::NONE);
    crew.gate.region(&|_| (), Spin::NONE, |outer| {
        crew.gate.region(&|_| (), Spin::NONE, |inner| {
            assert!(inner.open(2) && outer.open(2));
            crew.gate.region(&|_| (), Spin::NONE, |door| assert!(door.open(2)));
        });
        for _ in 0..LANES {
            crew.gate.region(&|_| (), Spin::NONE, |door| assert!(door.open(2) && crew.gate.state().idle <= 1));
        }
    });
}

#[test]
fn delayed_lanes_leave_lanes_to_those_that_open_now() {
    let crew = Crew::new(1, Spin::NONE);
    let far = tick() + (1 << 50);
    fn nest(gate: &Gate, far: u64, depth: usize) {
        gate.region(&|_| (), Spin::NONE, |door| {
            assert_eq!(door.open_at(far, 2), depth < LANES / 2);
            if depth < LANES / 2 {
                nest(gate, far, depth + 1);
            } else {
                assert!(door.open(2));
            }
        });
    }
    nest(&crew.gate, far, 0);
}

#[test]
fn no_more_workers_join_than_there_are_seats() {
    let crew = Crew::new(3, LOOKS[1]);
    for _ in 0..ROUNDS {
        let inside = AtomicUsize::new(0);
        let body = |_| {
            inside.fetch_add(1, Relaxed);
        };
        crew.gate.region(&body, Spin::NONE, |door| assert!(door.open(2)));
        assert!(inside.load(Relaxed) <= 1);
    }
}

#[test]
fn many_callers_share_one_gate() {
    let crew = Crew::new(2, Spin::NONE);
    let (opened, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mine = AtomicUsize::new(0);
                    let body = |_| {
                        mine.fetch_add(1, Relaxed);
                    };
                    let open = crew.gate.region(&body, Spin::NONE, |door| door.open(3));
                    opened.fetch_add(usize::from(open), Relaxed);
                    assert!(open || mine.load(Relaxed) == 0);
                    ran.fetch_add(mine.into_inner(), Relaxed);
                }
            });
        }
    });
    assert!(opened.load(Relaxed) > 0);
    assert!(ran.load(Relaxed) <= 2 * opened.load(Relaxed));
}

#[test]
fn panics_reach_the_caller_and_the_gate_goes_on() {
    let crew = Crew::new(2, LOOKS[1]);
    for round in 0..ROUNDS {
        let came = Latch::new();
        let entered = AtomicUsize::new(0);
        let body = |_| {
            if entered.fetch_add(1, Relaxed) == 0 {
                came.set();
            }
            std::panic::resume_unwind(Box::new("member"));
        };
        let lead_panics = round % 2 == 0;
        let result = catch_unwind(AssertUnwindSafe(|| {
            crew.gate.region(&body, Spin::NONE, |door| {
                assert!(door.open(3));
                came.wait(Spin::NONE);
                if lead_panics {
                    std::panic::resume_unwind(Box::new("lead"));
                }
            });
        }));
        let payload = *result.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(payload, if lead_panics { "lead" } else { "member" });
    }
}

/// A payload whose own drop panics, discarded because another one was first.
#[test]
fn a_payload_that_panics_when_dropped_ends_no_worker() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("bomb"));
            }
        }
    }
    let crew = Crew::new(2, LOOKS[1]);
    for _ in 0..ROUNDS / 10 {
        let (inside, full) = (AtomicUsize::new(0), Latch::new());
        let body = |_| {
            if inside.fetch_add(1, Relaxed) == 1 {
                full.set();
            }
            std::panic::resume_unwind(Box::new(Bomb));
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            crew.gate.region(&body, Spin::NONE, |door| {
                assert!(door.open(3));
                full.wait(Spin::NONE);
                std::panic::resume_unwind(Box::new("lead"));
            });
        }));
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "lead");
    }
    assert!(!crew.gate.state().busy);
}

#[test]
fn a_region_that_does_not_open_needs_no_gate() {
    let gate = Gate::new(0);
    assert!(!gate.region(&|_| unreachable!(), Spin::NONE, |door| door.open(2)), "no workers, no seats");
    assert_eq!(gate.region(&|_| unreachable!(), Spin::NONE, |_| 7), 7);
    assert!(catch_unwind(|| Gate::new(windrow_sync::gate::MOST_MEMBERS)).is_err());
}

/// A thread inside a gate must not wait for its workers.
#[test]
fn threads_know_which_gates_they_are_inside_of() {
    use windrow_sync::gate::is_inside_any;
    let (crew, other) = (Crew::new(1, LOOKS[0]), Crew::new(1, LOOKS[0]));
    let here = || (is_inside_any(), crew.gate.is_inside(), other.gate.is_inside());
    assert_eq!(here(), (false, false, false));
    let joined = Latch::new();
    let body = |_| {
        assert_eq!(here(), (true, true, false));
        joined.set();
    };
    crew.gate.region(&body, Spin::NONE, |door| {
        assert_eq!(here(), (false, false, false), "nothing is open");
        assert!(door.open(2));
        assert_eq!(here(), (true, true, false));
        joined.wait(Spin::NONE);
        let nested = catch_unwind(AssertUnwindSafe(|| {
            other.gate.region(&|_| (), Spin::NONE, |door| {
                assert!(door.open(2));
                assert_eq!(here(), (true, true, true));
                std::panic::resume_unwind(Box::new(()));
            })
        }));
        assert!(nested.is_err());
        assert_eq!(here(), (true, true, false));
    });
    assert_eq!(here(), (false, false, false));
    // Deeper than the gates that are known.
    fn deep(gate: &Gate, depth: usize, at_depth: &dyn Fn()) {
        if depth == 0 {
            return at_depth();
        }
        gate.region(&|_| (), Spin::NONE, |door| {
            assert!(door.open(2));
            deep(gate, depth - 1, at_depth);
        });
    }
    deep(&crew.gate, 4, &|| assert_eq!(here(), (true, true, false)));
    deep(&crew.gate, 6, &|| assert_eq!(here(), (true, true, true)));
    assert_eq!(here(), (false, false, false));
}

#[test]
fn the_state_tells_sleepers_from_the_rest() {
    let crew = Crew::new(2, Spin::NONE);
    while crew.gate.state().asleep < 2 {
        std::thread::yield_now();
    }
    let state = crew.gate.state();
    assert_eq!((state.busy, state.idle), (false, 0));
    crew.gate.region(&|_| {}, Spin::NONE, |door| {
        door.open(2);
        assert!(!crew.gate.state().busy, "there are other lanes");
    });
    assert!(!crew.gate.state().busy);
}

/// Otherwise 1024 of them would make the count of parked workers overflow into the flags.
#[test]
fn no_more_threads_serve_than_there_are_workers() {
    let gate = Gate::new(0);
    gate.stop();
    let refused = catch_unwind(AssertUnwindSafe(|| gate.serve(1, |_| Spin::NONE)));
    let message = refused.expect_err("there is no worker to be");
    assert!(message.downcast_ref::<String>().is_some_and(|message| message.contains("0 workers")));
}

/// Workers that wait for calls in a channel.
struct Called(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl WorkersElsewhere for Called {
    fn idle(&self) -> (usize, usize) {
        (0, 2)
    }

    fn call(&self) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

#[test]
fn workers_that_wait_elsewhere_visit_when_they_are_called() {
    let (call, called) = std::sync::mpsc::channel();
    let gate = Gate::elsewhere(2, Box::new(Called(std::sync::Mutex::new(call))));
    let (called, over) = (std::sync::Mutex::new(called), AtomicBool::new(false));
    let state = gate.state();
    assert_eq!((state.idle, state.asleep, state.absent), (0, 2, 0));
    assert!(panics(|| _ = gate.visitor(3)), "two workers");
    std::thread::scope(|scope| {
        for member in [1, 2] {
            let (gate, called, over) = (&gate, &called, &over);
            scope.spawn(move || {
                let mut visitor = gate.visitor(member);
                while !over.load(Relaxed) {
                    if called.lock().unwrap().try_recv().is_ok() && gate.calls(&visitor) {
                        gate.visit(&mut visitor);
                        assert!(!gate.is_inside());
                    }
                    std::thread::yield_now();
                }
            });
        }
        for round in 0..ROUNDS / 10 {
            // The caller calls one worker, and that one the other.
            let (joined, both) = (AtomicUsize::new(0), Latch::new());
            let body = |worker: JoinedWorker| {
                assert!(gate.is_inside() && (1..=2).contains(&worker.worker));
                if joined.fetch_add(1, Relaxed) == 1 {
                    both.set();
                }
                // A worker that has left may answer the call that was for the other one.
                while joined.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
            };
            gate.region(&body, Spin::NONE, |door| {
                match round % 3 {
                    0 => assert!(door.open_at(tick() + 1_000, 3)),
                    1 => assert!(door.open(3)),
                    _ => {
                        assert!(door.open_at(u64::MAX / 2, 3));
                        door.open_now();
                    }
                }
                both.wait(Spin::NONE);
            });
            assert_eq!(joined.into_inner(), 2);
        }
        over.store(true, Relaxed);
    });
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}
