//! Models of invitations: guests come when called, see the work, and are waited for.
#![cfg(loom)]

use std::cell::RefCell;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::tree::{Asked, JoinTiming, OfferDecision, Tree};
use windrow_sync::latch::Latch;

/// Makes an offer at every join, at any time.
const EAGER: JoinTiming = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };

/// A plain cell that loom watches: any two accesses without an order between them fail the model.
struct Watched(UnsafeCell<usize>);

// SAFETY: loom checks that accesses are ordered.
unsafe impl Sync for Watched {}
// SAFETY: a number.
unsafe impl Send for Watched {}

impl Watched {
    fn new(value: usize) -> Self {
        Watched(UnsafeCell::new(value))
    }
    fn get(&self) -> usize {
        // SAFETY: loom reports a conflicting access instead of performing it.
        self.0.with(|p| unsafe { *p })
    }
    fn set(&self, value: usize) {
        // SAFETY: as above.
        self.0.with_mut(|p| unsafe { *p = value });
    }
}

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

/// A guest sees the work that was put down before the call, and is waited for.
#[test]
fn a_guest_comes_and_is_waited_for() {
    model(3, || {
        let (input, output) = (Watched::new(0), Watched::new(0));
        let came = Latch::new();
        let invitation = Invitation::new();
        let help = || {
            output.set(input.get());
            came.set();
            loom::thread::yield_now();
            output.set(2);
        };
        grow(1, || {
            // Opens the tree.
            join(|| (), || ());
            invitation.host(&help, || {
                input.set(1);
                invitation.call();
                came.wait(Spin::NONE);
            });
            assert_eq!(output.get(), 2);
        });
    });
}

/// A guest that has come once comes again for the next call.
#[test]
fn every_call_is_heard() {
    model(3, || {
        let left = loom::sync::Mutex::new(0);
        let done = Latch::new();
        let invitation = Invitation::new();
        let help = || {
            let mut left = left.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                done.set();
            }
        };
        grow(1, || {
            invitation.host(&help, || {
                for _ in 0..2 {
                    *left.lock().unwrap() += 1;
                    invitation.call();
                    done.wait(Spin::NONE);
                }
            });
        });
    });
}

/// The host parks until a guest has finished the work, and takes part in what the guest offers.
#[test]
fn the_host_helps_its_guests() {
    model(2, || {
        let (begun, done) = (Latch::new(), AtomicUsize::new(0));
        let output = Watched::new(0);
        let invitation = Invitation::new();
        let help = || {
            if done.load(Relaxed) == 1 {
                return;
            }
            begun.set();
            let there = Latch::new();
            join(|| there.wait(Spin::NONE), || there.set());
            output.set(1);
            done.store(1, Relaxed);
            invitation.ring(0);
            invitation.ring(1);
        };
        grow(1, || {
            invitation.host(&help, || {
                invitation.call();
                begun.wait(Spin::NONE);
                invitation.wait(|_| true, || done.load(Relaxed) == 1);
            });
            assert_eq!(output.get(), 1);
        });
    });
}

/// A call of a member or of another thread reaches a guest that is about to park.
#[test]
fn a_stranger_may_call() {
    model(2, || {
        let invitation = Arc::new(Invitation::new());
        let came = Latch::new();
        let help = || came.set();
        grow(1, || {
            let stranger = invitation.clone();
            // Opens the tree.
            join(|| (), || ());
            invitation.host(&help, || {
                let stranger = loom::thread::spawn(move || stranger.call());
                came.wait(Spin::NONE);
                stranger.join().unwrap();
            });
        });
    });
}

/// The host takes what a guest offers, too late: what it waits for is done. The host gives the offer back.
#[test]
fn what_is_taken_too_late_is_given_back() {
    model(3, || {
        let (begun, done) = (Latch::new(), AtomicUsize::new(0));
        let output = Watched::new(0);
        let invitation = Invitation::new();
        let help = || {
            if begun.is_set() {
                return;
            }
            begun.set();
            let end = || {
                done.store(1, Relaxed);
                invitation.ring(0);
            };
            join(end, || output.set(1));
        };
        grow(1, || {
            invitation.host(&help, || {
                invitation.call();
                while !begun.is_set() {
                    loom::thread::yield_now();
                }
                invitation.wait(|_| true, || done.load(Relaxed) == 1);
            });
            assert_eq!(output.get(), 1);
        });
    });
}
