//! The gates and the region that this thread is inside. Not part of the gate's protocol: pools look here before they wait for threads that
//! may be waiting for this one.

use std::cell::Cell;
use std::marker::PhantomData;

use super::gate::Gate;
use crate::base::primitives::thread_cell;

thread_cell! {
    /// The gates that this thread is inside.
    INSIDE: EnteredGates = EnteredGates::NONE
}

thread_cell! {
    /// The gate and the lane, plus 1, of the innermost region that this thread is inside.
    REGION: (usize, u64) = (0, 0)
}

/// The gate and the lane, plus 1, of the innermost region that this thread is inside. 0 is none.
pub(super) fn region() -> (usize, u64) {
    REGION.with(Cell::get)
}

/// Makes `region` the innermost region of this thread; returns the one before.
pub(super) fn replace_region(region: (usize, u64)) -> (usize, u64) {
    REGION.with(|cell| cell.replace(region))
}

/// Gates that a thread is inside, outermost first: the thread serves them, or has a region open in them.
#[derive(Clone, Copy)]
pub(super) struct EnteredGates {
    gates: [usize; EnteredGates::KNOWN],
    depth: usize,
}

impl EnteredGates {
    /// A thread is rarely inside more gates than this. Deeper than this, it counts as inside every gate.
    const KNOWN: usize = 5;
    const NONE: EnteredGates = EnteredGates { gates: [0; EnteredGates::KNOWN], depth: 0 };

    /// `gate` is the address of a gate, or 0.
    pub(super) fn enter(gate: usize) {
        INSIDE.with(|cell| {
            let mut inside = cell.get();
            if let Some(free) = inside.gates.get_mut(inside.depth) {
                *free = gate;
            }
            inside.depth += 1;
            cell.set(inside);
        });
    }

    pub(super) fn leave() {
        INSIDE.with(|cell| cell.set(EnteredGates { depth: cell.get().depth - 1, ..cell.get() }));
    }

    /// True if this thread is inside the gate with this address, or deep inside many gates.
    pub(super) fn contain(gate: usize) -> bool {
        let EnteredGates { gates, depth } = INSIDE.with(Cell::get);
        depth > gates.len() || gates[..depth].contains(&gate)
    }
}

/// True if this thread serves a gate, has a region open in one, or holds an [`Inside`].
pub fn is_inside_any() -> bool {
    INSIDE.with(|cell| cell.get().depth > 0)
}

/// Marks this thread as one that pools may be waiting for, until this is dropped: for threads and calls of a pool that are in no region.
#[derive(Debug)]
pub struct Inside(PhantomData<*const ()>);

impl Inside {
    /// Marks this thread.
    #[must_use]
    pub fn new() -> Self {
        EnteredGates::enter(0);
        Inside(PhantomData)
    }

    /// Marks this thread as one that is [inside `gate`](Gate::is_inside).
    #[must_use]
    pub fn of(gate: &Gate) -> Self {
        EnteredGates::enter(gate.address());
        Inside(PhantomData)
    }
}

impl Default for Inside {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        EnteredGates::leave();
    }
}
