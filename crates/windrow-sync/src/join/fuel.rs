//! Fuel: how many joins a member makes until it reads the clock again.

use std::cell::Cell;

use crate::base::primitives::{AtomicU32, Ordering};
use crate::join::Place;
use crate::join::witness::{JoinTally, JoinWitness};

/// Used by the holder of a seat only, except [`take_away`](Self::take_away).
#[derive(Default)]
pub(super) struct Fuel {
    /// Pops until the holder reads the clock; at 0 it does so at every push and pop. Other members set it to 0.
    left: AtomicU32,
    /// What the holder has filled up to.
    filled: Cell<u32>,
    /// What was there when the holder last set it.
    poured: Cell<u32>,
    /// Ticks at the last filling.
    looked: Cell<u64>,
    tally: JoinTally,
}

/// The most fuel while a tree may open: a member whose joins become slow must notice soon.
const CLOSED: u32 = 256;
/// The most fuel otherwise: hungry members take the fuel away.
const OPEN: u32 = 4096;
/// More fuel than is ever burned.
const ENDLESS: u32 = i32::MAX as u32;

impl Fuel {
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        // Relaxed: a count.
        self.left.load(Ordering::Relaxed) as i32 <= 0
    }

    /// Burns fuel for a join. Returns whether it is used up.
    #[inline]
    pub(super) fn burn(&self) -> bool {
        // Relaxed: a count. A value that another member writes in between is lost; that member writes again.
        let left = self.left.load(Ordering::Relaxed).wrapping_sub(1);
        // Relaxed: as above.
        self.left.store(left, Ordering::Relaxed);
        left as i32 <= 0
    }

    /// Takes the fuel away. Called by other members. Returns how much that was if joins are `counted`.
    pub(super) fn take_away(&self, counted: bool) -> u32 {
        // Relaxed: a count.
        let left = if counted { self.left.load(Ordering::Relaxed) as i32 } else { 0 };
        // Relaxed: as above.
        self.left.store(0, Ordering::Relaxed);
        left.max(0) as u32
    }

    /// Fills up for about `look` ticks, judged by how long the last filling lasted.
    pub(super) fn fill_up(&self, now: u64, look: u64, may_open: bool, counted: bool) {
        let most = if may_open { CLOSED } else { OPEN };
        let lasted = now.saturating_sub(self.looked.replace(now));
        let fuel = self.filled.get();
        let fuel = if lasted > look.saturating_mul(4) {
            0
        } else if lasted > look {
            fuel / 2
        } else if lasted < look / 2 {
            (fuel * 2).clamp(1, most)
        } else {
            fuel
        };
        self.filled.set(fuel);
        self.pour(fuel, counted);
    }

    /// Fills up to a quarter of the last filling.
    pub(super) fn fill_a_quarter(&self, counted: bool) {
        self.pour(self.filled.get() / 4, counted);
    }

    /// The clock is not read any more.
    pub(super) fn fill_for_ever(&self) {
        self.filled.set(ENDLESS);
        self.pour(ENDLESS, false);
    }

    /// Sets the fuel. If joins are `counted`, to a number without a rhythm.
    pub(super) fn pour(&self, fuel: u32, counted: bool) {
        let fuel = if counted { self.tally.less(fuel) } else { fuel };
        self.poured.set(fuel);
        // Relaxed: a count.
        self.left.store(fuel, Ordering::Relaxed);
    }

    /// Has the next joins told one by one.
    pub(super) fn tell_singly(&self, joins: u32) {
        self.tally.tell_singly(joins);
        self.pour(0, true);
    }

    /// Counts the joins since the holder last set the fuel, of which `lost` was taken away. The last one was at `place`, and has `ended` or
    /// begins.
    pub(super) fn count(&self, witness: JoinWitness, place: Place, ended: bool, lost: u32, now: u64) {
        let burned = self.poured.replace(0).saturating_sub(lost).max(u32::from(ended));
        if burned > 0 {
            self.tally.add(witness, place, burned, now);
        }
    }

    /// Counts a join that has burned no fuel.
    pub(super) fn count_one(&self, witness: JoinWitness, place: Place, now: u64) {
        self.tally.add(witness, place, 1, now);
    }

    /// Tells the joins that were not told, when the holder leaves.
    pub(super) fn tell_rest(&self, witness: JoinWitness, lost: u32) {
        // Relaxed: a count.
        let left = self.left.load(Ordering::Relaxed).max(lost);
        self.tally.rest(witness, self.poured.get().saturating_sub(left));
    }
}
