//! Models of trees: an offer is found, by those who look, sleep or wait, and a frame that was taken by mistake comes back.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use windrow_sync::Spin;
use windrow_sync::join::tree::{Answer, Rhythm, Tree};
use windrow_sync::latch::Latch;

/// Offers whatever there is at every join, whatever the clock says.
const EAGER: Rhythm = Rhythm { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };

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
    windrow_sync::join::join(a, b, |_, _| panic!("not in a tree"))
}

/// A tree for `others` beside the lead.
fn tree(others: usize) -> Arc<Tree> {
    let tree = Arc::new(Tree::new(1 + others, EAGER));
    tree.furnish();
    tree
}

fn serve(tree: &Arc<Tree>) -> loom::thread::JoinHandle<()> {
    let tree = tree.clone();
    loom::thread::spawn(move || tree.serve())
}

/// Runs `f` as the lead of a tree with `others` other members.
fn grow<R>(others: usize, f: impl FnOnce() -> R) -> R {
    let tree = tree(others);
    let threads: Vec<_> = (0..others).map(|_| serve(&tree)).collect();
    let result = tree.lead(0, &|_| Answer::Opened, f);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    result
}

/// The halves wait for each other, so the other member has to come, from wherever it is.
#[test]
fn an_offer_wakes_a_sleeper() {
    model(2, || {
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

/// One of two members sleeps, the other looks: whoever comes, the offer is found.
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
    model(1, || {
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

/// Two leads and one other member, which runs something of the first, then something of the second. The first one, late, wants to
/// help with what is over and takes a part of the other's work: it gives that back.
#[test]
fn a_stranger_is_not_helped() {
    model(1, || {
        let tree = tree(2);
        let server = serve(&tree);
        let other = {
            let tree = tree.clone();
            loom::thread::spawn(move || {
                let output = Watched::new(0);
                let half = || {
                    let part = || output.set(1);
                    join(loom::thread::yield_now, part);
                };
                tree.lead(0, &|_| Answer::Opened, || join(loom::thread::yield_now, half));
                assert_eq!(output.get(), 1);
            })
        };
        tree.lead(0, &|_| Answer::Opened, || join(loom::thread::yield_now, || ()));
        server.join().unwrap();
        other.join().unwrap();
    });
}
