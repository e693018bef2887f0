//! Trees, joins, witnesses and invitations.

use std::cell::Cell;
use std::panic::{Location, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use windrow_sync::Spin;
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree, TreeLead};
use windrow_sync::join::witness::JoinWitness;
use windrow_sync::join::{apart, is_inside, join, join_at_once, tell_singly, would_queue};
use windrow_sync::latch::Latch;

use super::{Live, boom, panics, wait_a_while};

/// Offers at every join.
const EAGER: JoinTiming = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// Numbers that do not fit into a product or a sum.
const HUGE: JoinTiming = JoinTiming {
    look: u64::MAX,
    hungry: u64::MAX,
    alone: u64::MAX,
    idle: Spin { busy: 0, yielding: 1000 },
    settle: Spin { busy: 1, yielding: u64::MAX },
};
const SPINS: JoinTiming = JoinTiming { settle: Spin { busy: 0, yielding: 100_000 }, ..EAGER };

type Ask<'a> = &'a dyn Fn(&Asked<'_>) -> OfferDecision;
const OPENED: Ask<'static> = &|_| OfferDecision::Opened;

/// Runs `f` as the lead of a tree with two members more.
fn grow<R>(timing: JoinTiming, witness: Option<JoinWitness>, ask: Ask<'_>, f: impl FnOnce() -> R) -> R {
    let mut tree = Tree::new(3, timing).witnessed_by(witness);
    let (lead, tree) = tree.lead();
    TreeLead::furnish(&lead);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| panics(|| tree.serve()));
        }
        lead.grow(0, ask, f)
    })
}

fn outer<A: FnOnce() -> RA, B: FnOnce() -> RB, RA, RB>(a: A, b: B) -> (RA, RB) {
    (a(), b())
}

#[track_caller]
fn both<A: FnOnce() -> RA, B: FnOnce() -> RB + Send, RA, RB: Send>(a: A, b: B) -> (RA, RB) {
    join_at_once(Some(Location::caller()), a, b, outer)
}

fn sum(items: &[String]) -> usize {
    match items {
        [] => 0,
        [one] => one.len(),
        _ => {
            let (left, right) = items.split_at(items.len() / 2);
            let (left, right) = join(Some(Location::caller()), || sum(left), || sum(right), outer);
            left + right
        }
    }
}

fn texts() -> Vec<String> {
    (0..if cfg!(miri) { 8 } else { 200 }).map(|number| number.to_string()).collect()
}

/// Behaviour of a witness; one test at a time uses it.
#[derive(Clone, Copy, PartialEq)]
enum Tells {
    Nothing,
    Panics,
    Joins,
    Unwinds,
}
static ONE_TEST: Mutex<()> = Mutex::new(());
static TELLS: Mutex<Tells> = Mutex::new(Tells::Nothing);
static TOLD: AtomicUsize = AtomicUsize::new(0);
/// The second half of a join has begun, has ended; its owner has left the join.
static BEGAN: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicBool = AtomicBool::new(false);
static EARLY: AtomicUsize = AtomicUsize::new(0);

fn tell(_: &'static Location<'static>, joins: u32, _: f32) {
    TOLD.fetch_add(joins as usize, Relaxed);
    if BEGAN.load(Relaxed) && !ENDED.load(Relaxed) {
        EARLY.fetch_add(1, Relaxed);
    }
    let tells = *TELLS.lock().unwrap();
    match tells {
        Tells::Nothing => {}
        Tells::Panics => boom(),
        Tells::Joins => {
            tell_singly();
            assert_eq!(both(|| sum(&texts()), || 2).1, 2);
        }
        Tells::Unwinds => drop(catch_unwind(|| both(|| boom(), || String::from("dropped")))),
    }
}

/// A witness runs while no other member is inside the join that is reported, whatever the witness does.
#[test]
fn a_witness_cannot_leave_a_shared_join() {
    let _alone = ONE_TEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for tells in [Tells::Nothing, Tells::Panics, Tells::Joins, Tells::Unwinds] {
        for panics_first in [false, true] {
            *TELLS.lock().unwrap() = tells;
            for flag in [&BEGAN, &ENDED, &LEFT] {
                flag.store(false, Relaxed);
            }
            TOLD.store(0, Relaxed);
            let witness = JoinWitness { tell, weight: 1.0, singly: 1 << 20 };
            let text = String::from("moved into the second half, which another thread runs");
            let result = grow(EAGER, Some(witness), OPENED, || {
                let first = || {
                    // Another member has the second half now.
                    while !BEGAN.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    if panics_first {
                        boom()
                    }
                };
                let second = move || {
                    BEGAN.store(true, Relaxed);
                    // Where the owner can leave, it does so while this runs.
                    wait_a_while(&LEFT);
                    ENDED.store(true, Relaxed);
                    text
                };
                let result = catch_unwind(std::panic::AssertUnwindSafe(|| both(first, second)));
                LEFT.store(true, Relaxed);
                // The stack on which the frame was.
                std::hint::black_box([0_u64; 512]);
                result
            });
            assert_eq!(result.is_err(), panics_first);
            assert!(result.is_err() || result.is_ok_and(|((), text)| text.starts_with("moved")));
            assert!(TOLD.load(Relaxed) > 0);
        }
    }
    *TELLS.lock().unwrap() = Tells::Nothing;
    // Last, so that a sanitizer sees what comes of it.
    assert_eq!(EARLY.load(Relaxed), 0, "told before the second half has ended");
}

/// Told of joins of every kind, a witness panics or joins, and every tree ends.
#[test]
fn witnesses_that_panic_or_join() {
    let _alone = ONE_TEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    BEGAN.store(false, Relaxed);
    TOLD.store(0, Relaxed);
    let texts = texts();
    for tells in [Tells::Panics, Tells::Joins, Tells::Unwinds] {
        *TELLS.lock().unwrap() = tells;
        for (timing, singly) in [(EAGER, 0), (SPINS, 3), (HUGE, 1 << 20)] {
            for _ in 0..if cfg!(miri) { 1 } else { 10 } {
                let witness = JoinWitness { tell, weight: 1.0, singly };
                let result = grow(timing, Some(witness), OPENED, || {
                    tell_singly();
                    sum(&texts)
                });
                assert_eq!(result, texts.iter().map(String::len).sum());
                // Also a tree that unwinds: the witness hears of it last.
                assert!(panics(|| grow(timing, Some(witness), OPENED, || if sum(&texts) > 0 {
                    boom()
                })));
            }
        }
    }
    assert!(TOLD.load(Relaxed) > 0);
    *TELLS.lock().unwrap() = Tells::Nothing;
}

#[test]
fn halves_that_panic_and_drop_badly() {
    let live = &Live::default();
    let rounds = if cfg!(miri) { 1 } else { 20 };
    for timing in [EAGER, SPINS, HUGE] {
        for round in 0..8 * rounds {
            let (a, b, result_panics) = (round & 1 > 0, round & 2 > 0, round & 4 > 0);
            let result = panics(|| {
                grow(timing, None, OPENED, || {
                    let (first, second) = (live.item(1), live.item(2));
                    let (ra, rb) = both(
                        || {
                            let _nested = both(|| first.number(), || String::from("nested"));
                            if a {
                                boom()
                            }
                            first
                        },
                        move || {
                            let _nested = both(|| second.number(), || live.item(4));
                            if b {
                                boom()
                            }
                            drop(second);
                            if result_panics { live.bomb(3) } else { live.item(3) }
                        },
                    );
                    assert_eq!((ra.number(), rb.number()), (1, 3));
                });
            });
            assert_eq!(result, a || b || result_panics, "{round}");
            assert_eq!(live.count(), 0, "{round}");
        }
    }
}

#[test]
fn questions_that_panic_or_join() {
    let texts = texts();
    let all: usize = texts.iter().map(String::len).sum();
    let asked = Cell::new(0);
    let joins = |asked_now: &Asked<'_>| {
        asked.set(asked.get() + 1);
        assert_eq!(sum(&texts), all);
        asked_now.furnish();
        assert!(asked_now.age() < u64::MAX && is_inside());
        if asked.get() > 3 { OfferDecision::Opened } else { OfferDecision::Later(0) }
    };
    assert_eq!(grow(EAGER, None, &joins, || sum(&texts)), all);
    assert_eq!(asked.get(), 4, "a question is not asked by its own joins");
    for decision in [OfferDecision::Later(u64::MAX), OfferDecision::Never] {
        assert_eq!(grow(SPINS, None, &|_| decision, || sum(&texts)), all);
    }
    for nth in 0..4 {
        asked.set(0);
        let throws = |_: &Asked<'_>| {
            asked.set(asked.get() + 1);
            if asked.get() > nth { boom() } else { OfferDecision::Later(0) }
        };
        assert!(panics(|| _ = grow(EAGER, None, &throws, || sum(&texts))));
    }
}

#[test]
fn trees_are_used_again_and_members_come_late() {
    let mut tree = Tree::new(2, EAGER);
    for round in 0..3 {
        let (lead, shared) = tree.lead();
        shared.serve();
        if round == 1 {
            std::mem::forget(lead);
            continue;
        }
        let text = String::from("borrowed");
        let in_tree = || {
            assert!(is_inside() && !apart(is_inside) && !apart(would_queue));
            // A tree inside a tree, and one apart from it.
            let inner = || grow(EAGER, None, OPENED, || both(|| text.len(), || text.len()));
            let (one, (two, _)) = both(inner, || apart(inner));
            let queued = join(None, would_queue, || (), |_, _| unreachable!("inside of a tree"));
            assert!(queued.0);
            one.0 + two
        };
        assert_eq!(lead.grow(u32::MAX, &|_| OfferDecision::Never, in_tree), 16);
        shared.serve();
    }
    assert!(!is_inside() && !would_queue());
    assert_eq!(join(None, || 1, || 2, |a, b| (a(), b())), (1, 2));
    assert!(panics(|| _ = join(None, || 1, || 2, |_, _| boom())));
}

#[test]
fn invitations_with_hostile_guests() {
    let invitation = Invitation::new();
    assert!(panics(|| _ = invitation.wait(|_| true, || true)), "no member");
    invitation.call();
    invitation.pass_on();
    invitation.ring(usize::MAX);
    assert_eq!(invitation.host(&|| boom(), || 7), 7);
    for hostile in 0..6 {
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            let (work, done) = (Mutex::new((0..4).map(|n| n.to_string()).collect::<Vec<_>>()), AtomicUsize::new(0));
            let came = Latch::new();
            let help = || {
                came.set();
                while let Some(text) = { work.lock().unwrap().pop() } {
                    both(|| text.len(), || text.len());
                    done.fetch_add(1, Relaxed);
                    invitation.ring(0);
                    invitation.pass_on();
                    let _ = (invitation.is_guest(), invitation.member());
                }
                if hostile == 1 {
                    boom();
                }
            };
            let panicked = panics(|| {
                grow(EAGER, None, OPENED, || {
                    // Frames of this member lie below all that follows.
                    let host = || {
                        invitation.host(&help, || {
                            assert!(panics(|| invitation.host(&help, || ())), "one host at a time");
                            assert!(!invitation.is_guest() && invitation.member() == Some(0));
                            invitation.call();
                            came.wait(Spin::NONE);
                            let is_done = || done.load(Relaxed) == 4;
                            match hostile {
                                2 => boom(),
                                3 => assert!(panics(|| _ = invitation.wait(|_| boom(), is_done)) || is_done()),
                                4 => assert!(panics(|| _ = invitation.wait(|_| true, || boom()))),
                                // The functions join.
                                _ => _ = invitation.wait(|at| both(|| at > 0, || ()).0, || both(is_done, || ()).0),
                            }
                        })
                    };
                    both(|| both(host, || String::from("second")), || String::from("third"));
                });
            });
            assert_eq!(panicked, hostile == 2);
        }
    }
    assert!(invitation.member().is_none() && !invitation.is_guest());
}

/// Invitations are numbered by tree: a guest of one is not a guest of the other.
#[test]
fn a_guest_is_a_guest_of_one_invitation() {
    let (one, other) = (Invitation::new(), Invitation::new());
    let (hosted, answered) = (Latch::new(), Latch::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            grow(EAGER, None, OPENED, || {
                other.host(&|| (), || {
                    hosted.set();
                    answered.wait(Spin::NONE);
                })
            })
        });
        hosted.wait(Spin::NONE);
        let (came, seen) = (Latch::new(), Mutex::new(None));
        let help = || {
            *seen.lock().unwrap() = Some((one.is_guest(), other.is_guest(), other.member()));
            came.set();
        };
        grow(EAGER, None, OPENED, || {
            one.host(&help, || {
                one.call();
                came.wait(Spin::NONE);
            })
        });
        answered.set();
        assert_eq!(seen.into_inner().unwrap(), Some((true, false, None)));
    });
}
