//! Models of the protocols: the same code on loom's types, through every interleaving up to a bound of preemptions. A file models the file or
//! folder of `src` with its name.
#![cfg(loom)]

mod claims;
mod fork;
mod gate;
mod guests;
mod join;
mod latch;
mod lend;
mod park;
mod ranges;
mod room;
mod rounds;
mod rounds_tasks;
mod submit;
mod tree;
mod waiters;

use loom::cell::UnsafeCell;

/// A plain cell that loom watches: any two accesses without an order between them fail the model.
#[derive(Debug)]
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

/// Checks all interleavings with at most this number of preemptions; all that there are without a number.
fn model(preemptions: impl Into<Option<usize>>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(f);
}
