//! Trees, joins and invitations.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use windrow_sync::Spin;
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree, TreeLead};
use windrow_sync::join::{apart, is_inside, join, member, offer_at_once, spend, would_queue};
use windrow_sync::latch::Latch;

use super::{Live, boom, panics};

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
fn grow<R>(timing: JoinTiming, ask: Ask<'_>, f: impl FnOnce() -> R) -> R {
    let mut tree = Tree::new(3, timing);
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

fn both<A: FnOnce() -> RA, B: FnOnce() -> RB + Send, RA, RB: Send>(a: A, b: B) -> (RA, RB) {
    let a = || {
        offer_at_once();
        a()
    };
    join(a, b, outer)
}

fn sum(items: &[String]) -> usize {
    match items {
        [] => 0,
        [one] => one.len(),
        _ => {
            let (left, right) = items.split_at(items.len() / 2);
            let (left, right) = join(|| sum(left), || sum(right), outer);
            left + right
        }
    }
}

fn texts() -> Vec<String> {
    (0..if cfg!(miri) { 8 } else { 200 }).map(|number| number.to_string()).collect()
}

#[test]
fn halves_that_panic_and_drop_badly() {
    let live = &Live::default();
    let rounds = if cfg!(miri) { 1 } else { 20 };
    for timing in [EAGER, SPINS, HUGE] {
        for round in 0..8 * rounds {
            let (a, b, result_panics) = (round & 1 > 0, round & 2 > 0, round & 4 > 0);
            let result = panics(|| {
                grow(timing, OPENED, || {
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
    assert_eq!(grow(EAGER, &joins, || sum(&texts)), all);
    assert_eq!(asked.get(), 4, "a question is not asked by its own joins");
    for decision in [OfferDecision::Later(u64::MAX), OfferDecision::Never] {
        assert_eq!(grow(SPINS, &|_| decision, || sum(&texts)), all);
    }
    for nth in 0..4 {
        asked.set(0);
        let throws = |_: &Asked<'_>| {
            asked.set(asked.get() + 1);
            if asked.get() > nth { boom() } else { OfferDecision::Later(0) }
        };
        assert!(panics(|| _ = grow(EAGER, &throws, || sum(&texts))));
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
            assert!(is_inside() && !apart(is_inside) && !apart(would_queue) && member().is_some());
            spend();
            // A tree inside a tree, and one apart from it.
            let inner = || grow(EAGER, OPENED, || both(|| text.len(), || text.len()));
            let (one, (two, _)) = both(inner, || apart(inner));
            let queued = join(would_queue, || (), |_, _| unreachable!("inside a tree"));
            assert!(queued.0);
            one.0 + two
        };
        assert_eq!(lead.grow(u32::MAX, &|_| OfferDecision::Never, in_tree), 16);
        shared.serve();
    }
    spend();
    assert!(!is_inside() && !would_queue() && member().is_none());
    assert_eq!(join(|| 1, || 2, |a, b| (a(), b())), (1, 2));
    assert!(panics(|| _ = join(|| 1, || 2, |_, _| boom())));
}

#[test]
fn invitations_with_hostile_guests() {
    let invitation = Invitation::new();
    assert!(panics(|| _ = invitation.wait(|_| true, || true)), "no member");
    invitation.call();
    invitation.call_once();
    assert!(invitation.call_at_times(u64::MAX) && invitation.is_left());
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
                    let _ = (invitation.is_guest(), invitation.member(), invitation.idle());
                }
                if hostile == 1 {
                    boom();
                }
            };
            let panicked = panics(|| {
                grow(EAGER, OPENED, || {
                    // Frames of this member lie below all that follows.
                    let host = || {
                        invitation.host(&help, || {
                            assert!(panics(|| invitation.host(&help, || ())), "one host at a time");
                            assert!(!invitation.is_guest() && invitation.member() == Some(0));
                            // Twice in any time, if a heartbeat takes none.
                            assert!(invitation.call_at_times(u64::MAX) && invitation.call_at_times(1));
                            came.wait(Spin::NONE);
                            let _ = invitation.is_left();
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
            grow(EAGER, OPENED, || {
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
        grow(EAGER, OPENED, || {
            one.host(&help, || {
                one.call();
                came.wait(Spin::NONE);
            })
        });
        answered.set();
        assert_eq!(seen.into_inner().unwrap(), Some((true, false, None)));
    });
}
