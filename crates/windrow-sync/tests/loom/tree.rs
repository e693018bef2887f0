//! Models of trees: members that spin, park or wait find an offer, and a frame that was taken by mistake comes back.
#![cfg(loom)]

use std::cell::RefCell;

use windrow_sync::Spin;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree};
use windrow_sync::latch::Latch;

/// Makes an offer at every join, at any time.
const EAGER: JoinTiming = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    windrow_sync::join::join(None, a, b, |_, _| panic!("not in a tree"))
}

/// Runs `f` as the lead of a tree with `others` other members.
fn grow<R>(others: usize, f: impl FnOnce() -> R) -> R {
    let tree = Box::into_raw(Box::new(Tree::new(1 + others, EAGER)));
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

/// The halves wait for each other, so the other member has to come, in whatever state it is.
#[test]
fn an_offer_wakes_a_sleeper() {
    model(3, || {
        let (here, there) = (Latch::new(), Latch::new());
        let first = || {
            here.set();
            there.wait(Spin::NONE);
        };
        let second = || {
            there.set();
            here.wait(Spin::NONE);
        };
        grow(1, || join(first, second));
    });
}

/// One of two members parks, the other spins: one of them finds the offer.
#[test]
fn an_offer_is_found_by_one_of_two() {
    model(1, || {
        let there = Latch::new();
        grow(2, || join(|| there.wait(Spin::NONE), || there.set()));
    });
}

/// The half that was taken contains a join whose halves wait for each other: the owner has to help.
#[test]
fn the_owner_helps_the_runner() {
    model(2, || {
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
        let half = || {
            begun.set();
            join(first, second);
        };
        grow(1, || join(|| begun.wait(Spin::NONE), half));
    });
}
