//! Models of joins: a half that another member runs sees what came before it, the owner sees its result, and the owner does not
//! park for ever (loom reports a deadlock).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use windrow_sync::Spin;
use windrow_sync::join::offer_at_once;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree};
use windrow_sync::latch::Latch;

use crate::{Watched, model};

/// Makes an offer at every join, at any time.
const EAGER: JoinTiming = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };

/// Makes no offer for a reason of time.
const NEVER: JoinTiming =
    JoinTiming { look: u64::MAX / 8, hungry: u64::MAX, alone: u64::MAX, idle: Spin::NONE, settle: Spin::NONE };

pub(crate) fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    windrow_sync::join::join(a, b, |_, _| panic!("not in a tree"))
}

/// Runs `f` as the lead of a tree with `others` other members.
pub(crate) fn grow<R>(others: usize, f: impl FnOnce() -> R) -> R {
    grow_at(EAGER, others, f)
}

fn grow_at<R>(timing: JoinTiming, others: usize, f: impl FnOnce() -> R) -> R {
    grow_tree(Tree::new(1 + others, timing), others, f)
}

fn grow_tree<R>(tree: Tree, others: usize, f: impl FnOnce() -> R) -> R {
    let tree = Box::into_raw(Box::new(tree));
    // SAFETY: just made; `'static`, as loom's threads want it, and given back below when they have ended.
    let (lead, shared) = unsafe { &mut *tree }.lead();
    let threads = RefCell::new(Vec::new());
    let open = |asked: &Asked<'_>| {
        asked.furnish();
        threads.borrow_mut().extend((0..others).map(|_| loom::thread::spawn(|| shared.serve())));
        OfferDecision::Opened
    };
    let result = lead.grow(0, &open, f);
    threads.into_inner().into_iter().for_each(|thread| thread.join().unwrap());
    // SAFETY: no thread uses it any more.
    drop(unsafe { Box::from_raw(tree) });
    result
}

/// The inputs of the half go in and its result comes back, if it is taken, taken back or never offered.
#[test]
fn data_goes_in_and_comes_back() {
    model(3, || {
        let (input, output) = (Watched::new(0), Watched::new(0));
        grow(1, || {
            input.set(1);
            let ((), three) = join(
                || (),
                || {
                    output.set(input.get() + 1);
                    3
                },
            );
            assert_eq!((output.get(), three), (2, 3));
            input.set(0);
        });
    });
}

/// The owner waits, parked or not, for a half that another member runs.
#[test]
fn the_owner_is_rung() {
    model(3, || {
        let begun = Latch::new();
        let output = Watched::new(0);
        grow(1, || {
            let half = || {
                begun.set();
                loom::thread::yield_now();
                output.set(1);
            };
            join(|| begun.wait(Spin::NONE), half);
            assert_eq!(output.get(), 1);
        });
    });
}

/// A half that is offered at once begins although the owner waits for it in the first half: also after a wakeup that was wasted.
#[test]
fn a_half_offered_at_once_begins() {
    model(2, || {
        let begun = Latch::new();
        grow_at(NEVER, 1, || {
            join(offer_at_once, || ());
            let waits = || {
                offer_at_once();
                begun.wait(Spin::NONE);
            };
            join(waits, || begun.set());
        });
    });
}

/// Panics of either half, shared or not.
#[test]
fn panics_reach_the_owner() {
    std::panic::set_hook(Box::new(|_| {}));
    model(3, || {
        let (input, output) = (Watched::new(0), Watched::new(0));
        let throw = |what: &'static str| resume_unwind(Box::new(what));
        let thrown = |result: std::thread::Result<((), ())>| *result.unwrap_err().downcast::<&str>().unwrap();
        grow(1, || {
            let second = catch_unwind(AssertUnwindSafe(|| join(|| (), || throw("second"))));
            assert_eq!(thrown(second), "second");
            let half = || output.set(1 + output.get() + input.get());
            let first = catch_unwind(AssertUnwindSafe(|| join(|| throw("first"), half)));
            assert_eq!(thrown(first), "first");
            // The half has run, here or there, and its effects are seen.
            assert_eq!(output.get(), 1);
            input.set(1);
        });
    });
}
