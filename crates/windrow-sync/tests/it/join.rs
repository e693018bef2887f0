//! Joins and trees on real threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow_sync::Spin;
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree};
use windrow_sync::join::{apart, is_inside};
use windrow_sync::latch::Latch;

const SMALL: bool = cfg!(miri);

/// Makes an offer at every join, and spins for no time.
const EAGER: JoinTiming = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
const LONG: Spin = Spin { busy: 20_000, yielding: 200_000 };
const TIMINGS: [JoinTiming; 3] = [
    EAGER,
    JoinTiming { idle: LONG, settle: LONG, ..EAGER },
    JoinTiming { look: 1_000, hungry: 4_000, alone: 40_000, idle: LONG, settle: LONG },
];

/// Joins that must be in a tree.
fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    windrow_sync::join::join(a, b, |_, _| panic!("not in a tree"))
}

/// Runs `f` as the lead of a tree with other members.
fn grow<R>(members: usize, timing: JoinTiming, f: impl FnOnce() -> R) -> R {
    let mut tree = Tree::new(members, timing);
    let (lead, tree) = tree.lead();
    std::thread::scope(|scope| {
        let open = |asked: &Asked<'_>| {
            asked.furnish();
            for _ in 1..members {
                scope.spawn(|| tree.serve());
            }
            OfferDecision::Opened
        };
        lead.grow(0, &open, f)
    })
}

/// Counts values while they live.
struct Counter<'a>(&'a AtomicIsize);

impl<'a> Counter<'a> {
    fn new(live: &'a AtomicIsize) -> Self {
        live.fetch_add(1, Relaxed);
        Counter(live)
    }
}

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

fn fib(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { fib(n - 1) + fib(n - 2) }
}

fn joined_fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| joined_fib(n - 1), || joined_fib(n - 2));
    a + b
}

#[test]
fn recursion_gives_what_it_gives_serially() {
    let n = if SMALL { 7 } else { 18 };
    for members in 1..=4 {
        for timing in TIMINGS {
            for _ in 0..if SMALL { 1 } else { 20 } {
                assert_eq!(grow(members, timing, || joined_fib(n)), fib(n));
            }
        }
    }
}

/// Each half waits for the other: they run at the same time, whether the other member spins, is parked or is still to come.
#[test]
fn both_halves_run_at_the_same_time() {
    for timing in [EAGER, JoinTiming { idle: LONG, ..EAGER }] {
        for _ in 0..if SMALL { 3 } else { 200 } {
            grow(2, timing, || {
                for _ in 0..3 {
                    let (here, there) = (Latch::new(), Latch::new());
                    join(
                        || {
                            here.set();
                            there.wait(Spin::NONE);
                        },
                        || {
                            there.set();
                            here.wait(Spin::NONE);
                        },
                    );
                }
            });
        }
    }
}

/// The owner of a taken frame helps its runner, whether the runner spins or is parked.
#[test]
fn an_owner_that_waits_helps_the_runner() {
    for timing in [EAGER, JoinTiming { settle: LONG, ..EAGER }] {
        for _ in 0..if SMALL { 3 } else { 200 } {
            grow(2, timing, || {
                let begun = Latch::new();
                let (here, there) = (Latch::new(), Latch::new());
                let first = || {
                    here.set();
                    there.wait(Spin::NONE);
                };
                let second = || {
                    there.set();
                    here.wait(Spin::NONE);
                };
                let other = || {
                    begun.set();
                    join(first, second);
                };
                join(|| begun.wait(Spin::NONE), other);
            });
        }
    }
}

/// The oldest frame is offered first: here only its half ends the wait.
#[test]
fn the_oldest_frame_is_offered_first() {
    for _ in 0..if SMALL { 3 } else { 100 } {
        grow(2, EAGER, || {
            let done = Latch::new();
            join(|| join(|| join(|| done.wait(Spin::NONE), || ()), || ()), || done.set());
        });
    }
}

/// A list: all joins are pushed before any is popped, and the halves run while the stack unwinds.
#[test]
fn deep_recursion_shares_on_the_way_back() {
    fn down(depth: usize, ran: &AtomicUsize) {
        if depth > 0 {
            join(|| down(depth - 1, ran), || ran.fetch_add(1, Relaxed));
        }
    }
    let depth = if SMALL { 50 } else { 20_000 };
    let run = move || {
        let ran = AtomicUsize::new(0);
        grow(2, TIMINGS[1], || down(depth, &ran));
        assert_eq!(ran.into_inner(), depth);
    };
    std::thread::Builder::new().stack_size(1 << 26).spawn(run).unwrap().join().unwrap();
}

/// A tree of calls in which one leaf panics: its payload comes out, all else is dropped once, and the members go on.
#[test]
fn a_panic_at_every_leaf() {
    fn walk<'a>(lo: usize, hi: usize, at: usize, live: &'a AtomicIsize) -> Counter<'a> {
        if hi - lo == 1 {
            if lo == at {
                resume_unwind(Box::new(at));
            }
            return Counter::new(live);
        }
        let middle = lo.midpoint(hi);
        let (left, right) = (Counter::new(live), Counter::new(live));
        let half = |counter: Counter<'a>, lo, hi| {
            move || {
                let _counter = counter;
                walk(lo, hi, at, live)
            }
        };
        let (a, _b) = join(half(left, lo, middle), half(right, middle, hi));
        a
    }
    let n = if SMALL { 5 } else { 40 };
    for members in 1..=3 {
        for timing in TIMINGS {
            for at in 0..=n {
                let live = AtomicIsize::new(0);
                let result = catch_unwind(AssertUnwindSafe(|| grow(members, timing, || drop(walk(0, n, at, &live)))));
                match result {
                    Ok(()) => assert_eq!(at, n),
                    Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), at),
                }
                assert_eq!(live.load(Relaxed), 0, "panic at {at}");
            }
        }
    }
}

/// If both halves panic, the first one's payload is kept, and the other is dropped, even if that panics, too.
#[test]
fn the_first_half_panics_louder() {
    struct Bomb<'a>(&'a AtomicIsize);
    impl Drop for Bomb<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
            resume_unwind(Box::new("bomb"));
        }
    }
    static DROPPED: AtomicIsize = AtomicIsize::new(0);
    for shared in [false, true] {
        for _ in 0..if SMALL { 3 } else { 100 } {
            let before = DROPPED.load(Relaxed);
            let begun = Latch::new();
            let result = catch_unwind(AssertUnwindSafe(|| {
                grow(2, EAGER, || {
                    join(
                        || {
                            if shared {
                                begun.wait(Spin::NONE);
                            }
                            resume_unwind(Box::new("first"))
                        },
                        || {
                            if shared {
                                begun.set();
                            }
                            resume_unwind(Box::new(Bomb(&DROPPED)))
                        },
                    )
                })
            }));
            let ((), ()) = match result {
                Ok(both) => both,
                Err(payload) => (assert_eq!(*payload.downcast::<&str>().unwrap(), "first"), ()),
            };
            let dropped = DROPPED.load(Relaxed) - before;
            assert_eq!(dropped, 1, "the second half has run, and its payload is gone");
        }
    }
}

/// A lock is held over a join, and the work of another join asks for it. A waiting member that ran any frame it finds would run
/// that work on top of the holder (rayon issues 592 and 1251).
#[test]
fn a_lock_may_be_held_over_a_join() {
    fn work(lock: &Mutex<u64>, depth: u32) -> u64 {
        if depth == 0 {
            // Holds the lock while it may have to wait for the half that it shares.
            let mut held = lock.lock().unwrap();
            *held += 1;
            let (a, b) = join(|| joined_fib(4), || joined_fib(5));
            return a + b;
        }
        let (a, b) = join(|| work(lock, depth - 1), || work(lock, depth - 1));
        a + b
    }
    let depth = if SMALL { 3 } else { 9 };
    for members in [2, 3, 4] {
        for timing in TIMINGS {
            let lock = Mutex::new(0);
            assert_eq!(grow(members, timing, || work(&lock, depth)), 8 << depth);
            assert_eq!(lock.into_inner().unwrap(), 1 << depth);
        }
    }
}

#[test]
fn apart_from_a_tree_there_is_none() {
    assert!(!is_inside());
    grow(2, EAGER, || {
        assert!(is_inside());
        let outermost = || windrow_sync::join::join(|| 1, || 2, |_, _| (3, 4));
        assert_eq!(apart(outermost), (3, 4));
        assert_eq!(outermost(), (1, 2));
        let unwound = catch_unwind(AssertUnwindSafe(|| apart(|| resume_unwind(Box::new(())))));
        assert!(unwound.is_err() && is_inside());
        // Another tree inside this one.
        assert_eq!(grow(2, EAGER, || joined_fib(6)), 8);
        assert_eq!(joined_fib(6), 8);
    });
    assert!(!is_inside());
}

#[test]
fn a_tree_takes_as_many_members_as_it_has_seats() {
    let mut tree = Tree::new(2, EAGER);
    // One lead after the other.
    for _ in 0..2 {
        let (lead, tree) = tree.lead();
        std::thread::scope(|scope| {
            let open = |asked: &Asked<'_>| {
                // No seats yet.
                tree.serve();
                asked.furnish();
                scope.spawn(|| tree.serve());
                OfferDecision::Opened
            };
            lead.grow(0, &open, || {
                let both = Latch::new();
                join(|| both.wait(Spin::NONE), || both.set());
                // No seat is left.
                tree.serve();
            });
        });
        tree.serve();
        assert!(format!("{tree:?}").contains("idle: (0, 0)"), "{tree:?}");
    }
}

/// The times at which the lead is asked, and its answers.
#[test]
fn answers_are_obeyed() {
    fn ask<R>(patience: u32, ask: &dyn Fn(&Asked<'_>) -> OfferDecision, f: impl FnOnce() -> R) -> R {
        Tree::new(2, EAGER).lead().0.grow(patience, ask, f)
    }
    let asked = AtomicUsize::new(0);
    let never = |_: &Asked<'_>| {
        asked.fetch_add(1, Relaxed);
        OfferDecision::Never
    };
    ask(0, &never, || joined_fib(10));
    assert_eq!(asked.swap(0, Relaxed), 1);
    let patient = |question: &Asked<'_>| {
        asked.fetch_add(1, Relaxed);
        OfferDecision::Later(question.age())
    };
    ask(3, &patient, || join(|| join(|| (), || ()), || ()));
    assert_eq!(asked.swap(0, Relaxed), 0, "two joins are fewer than three");
    ask(3, &patient, || joined_fib(10));
    assert!(asked.swap(0, Relaxed) > 0);
    let later = |_: &Asked<'_>| {
        asked.fetch_add(1, Relaxed);
        OfferDecision::Later(u64::MAX)
    };
    ask(0, &later, || joined_fib(10));
    assert_eq!(asked.swap(0, Relaxed), 1);
    // A question that panics: the frame is unlinked, its half runs.
    let live = AtomicIsize::new(0);
    for patience in 0..4 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let counter = || Counter::new(&live);
            let half = |counter: Counter<'_>| drop(counter);
            let (a, b, c) = (counter(), counter(), counter());
            ask(patience, &|_| resume_unwind(Box::new("asked")), || {
                join(|| join(|| half(a), || half(b)), || half(c));
                joined_fib(5)
            });
        }));
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "asked");
        assert_eq!(live.load(Relaxed), 0);
    }
}

/// Guests run the work that the host puts down; the host runs the rest, and waits for both.
#[test]
fn guests_come_when_called() {
    for members in 1..=3 {
        for timing in TIMINGS {
            for _ in 0..if SMALL { 1 } else { 30 } {
                let (left, done) = (Mutex::new(0), AtomicUsize::new(0));
                let invitation = Invitation::new();
                let one = || {
                    let mut left = left.lock().unwrap();
                    *left > 0 && {
                        *left -= 1;
                        true
                    }
                };
                let all = 200;
                let finish = || {
                    if done.fetch_add(1, Relaxed) + 1 == all {
                        invitation.ring(0);
                    }
                };
                let help = || {
                    while one() {
                        joined_fib(3);
                        finish();
                    }
                };
                grow(members, timing, || {
                    invitation.host(&help, || {
                        assert_eq!(invitation.member(), Some(0));
                        for _ in 0..all {
                            *left.lock().unwrap() += 1;
                            invitation.call();
                        }
                        help();
                        invitation.wait(|_| true, || done.load(Relaxed) == all);
                    });
                    assert_eq!(invitation.member(), None);
                });
                assert_eq!(done.load(Relaxed), all);
            }
        }
    }
}

/// The host waits for a guest that is still inside, also when it unwinds; no guest comes afterwards.
#[test]
fn the_host_waits_for_its_guests() {
    for unwinds in [false, true] {
        for _ in 0..if SMALL { 3 } else { 100 } {
            let invitation = Invitation::new();
            let came = Latch::new();
            let inside = AtomicUsize::new(0);
            let help = || {
                inside.fetch_add(1, Relaxed);
                assert!(invitation.is_guest());
                came.set();
                std::thread::yield_now();
                inside.fetch_sub(1, Relaxed);
            };
            let result = catch_unwind(AssertUnwindSafe(|| {
                grow(2, EAGER, || {
                    let result = catch_unwind(AssertUnwindSafe(|| {
                        invitation.host(&help, || {
                            invitation.call();
                            came.wait(Spin::NONE);
                            if unwinds {
                                resume_unwind(Box::new("host"));
                            }
                        });
                    }));
                    assert_eq!(inside.load(Relaxed), 0);
                    invitation.call();
                    result.is_err()
                })
            }));
            assert_eq!(result.ok(), Some(unwinds));
        }
    }
}

/// Called by a thread that is not a member.
#[test]
fn strangers_may_call_and_ring() {
    let invitation = Invitation::new();
    invitation.call();
    invitation.ring(7);
    assert_eq!(invitation.host(&|| unreachable!("no guest is there"), || 5), 5);
    let came = Latch::new();
    let help = || came.set();
    grow(2, EAGER, || {
        joined_fib(3);
        invitation.host(&help, || {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    invitation.call();
                    invitation.ring(99);
                    assert_eq!(invitation.member(), None);
                    assert!(!invitation.is_guest());
                });
            });
            came.wait(Spin::NONE);
            let twice = catch_unwind(AssertUnwindSafe(|| invitation.host(&|| (), || ())));
            assert!(twice.is_err(), "one host at a time");
            let outside = catch_unwind(AssertUnwindSafe(|| apart(|| invitation.wait(|_| true, || true))));
            assert!(outside.is_err(), "only members wait");
        });
    });
}

/// The host waits for a guest's long work by taking part in it.
#[test]
fn a_host_that_waits_for_a_guest_helps_it() {
    for timing in [EAGER, JoinTiming { settle: LONG, ..EAGER }] {
        for _ in 0..if SMALL { 3 } else { 100 } {
            let invitation = Invitation::new();
            let (begun, done) = (Latch::new(), AtomicUsize::new(0));
            let work = Mutex::new(Some(()));
            let help = || {
                if work.lock().unwrap().take().is_none() {
                    return;
                }
                begun.set();
                // The halves wait for each other: the host has to run one of them.
                let (here, there) = (Latch::new(), Latch::new());
                let first = || {
                    here.set();
                    there.wait(Spin::NONE);
                };
                let second = || {
                    there.set();
                    here.wait(Spin::NONE);
                };
                join(first, second);
                done.store(1, Relaxed);
                invitation.ring(0);
            };
            grow(2, timing, || {
                invitation.host(&help, || {
                    invitation.call();
                    begun.wait(Spin::NONE);
                    invitation.wait(|_| true, || done.load(Relaxed) == 1);
                });
            });
        }
    }
}

/// A host takes a part of a guest's work, on top of an older frame that it has not shared yet. A guest that waits for that part
/// must not run that frame in the meantime: the guest may hold a lock that the frame asks for.
#[test]
fn a_guest_is_not_given_older_work_of_its_host() {
    // A member makes an offer only when another one asks for it.
    let timing = JoinTiming { alone: u64::MAX, ..EAGER };
    for _ in 0..if SMALL { 2 } else { 50 } {
        let invitation = Invitation::new();
        let (came, go, entered, begun) = (Latch::new(), Latch::new(), Latch::new(), Latch::new());
        let (work, holder, done) = (Mutex::new(Some(())), Mutex::new(None), AtomicUsize::new(0));
        let me = || Some(std::thread::current().id());
        let ask_for_offers = || join(|| (), || ());
        let part = || {
            begun.set();
            for _ in 0..if SMALL { 20 } else { 2000 } {
                ask_for_offers();
            }
        };
        let help = || {
            if work.lock().unwrap().take().is_none() {
                return;
            }
            *holder.lock().unwrap() = me();
            entered.set();
            let until_it_is_taken = || {
                while !begun.is_set() {
                    ask_for_offers();
                }
            };
            join(until_it_is_taken, part);
            *holder.lock().unwrap() = None;
            done.store(1, Relaxed);
            invitation.ring(0);
        };
        let older = || *holder.lock().unwrap() == me();
        let keep_it_busy = || {
            came.set();
            go.wait(Spin::NONE);
        };
        let host = || {
            invitation.host(&help, || {
                invitation.call();
                go.set();
                entered.wait(Spin::NONE);
                invitation.wait(|_| true, || done.load(Relaxed) == 1);
            });
        };
        grow(2, timing, || {
            let until_it_is_taken = || {
                while !came.is_set() {
                    ask_for_offers();
                }
            };
            let (((), ((), by_its_holder)), ()) = join(|| (until_it_is_taken(), join(host, older)), keep_it_busy);
            assert!(!by_its_holder, "it would have waited for itself");
        });
    }
}
