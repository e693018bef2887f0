//! Fuel: how many joins a member makes until it reads the clock again.

use std::cell::Cell;

use crate::base::primitives::{AtomicU32, Ordering};

/// Used by the holder of a seat only, except that others [set](Self::set) the fuel to 0.
#[derive(Default)]
pub(super) struct Fuel {
    /// Pops until the holder reads the clock; at 0 it does so at every push and pop. Other members set it to 0.
    left: AtomicU32,
    /// Fuel of the last filling.
    filled: Cell<u32>,
    /// Ticks at the last filling.
    filled_at: Cell<u64>,
}

/// The most fuel while a tree may open: a member whose joins become slow must notice soon.
const CLOSED: u32 = 256;
/// The most fuel otherwise: hungry members drain the fuel.
const OPEN: u32 = 4096;
/// More fuel than is ever spent.
const ENDLESS: u32 = i32::MAX as u32;

impl Fuel {
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        // Relaxed: a count.
        self.left.load(Ordering::Relaxed) as i32 <= 0
    }

    /// Spends fuel for a join. Returns true if the fuel is used up.
    #[inline]
    pub(super) fn spend(&self) -> bool {
        // Relaxed: a count. A value that another member writes in between is lost; that member writes again.
        let left = self.left.load(Ordering::Relaxed).wrapping_sub(1);
        // Relaxed: as above.
        self.left.store(left, Ordering::Relaxed);
        left as i32 <= 0
    }

    /// Fills up for about `look` ticks, judged by the time that the last filling lasted.
    pub(super) fn fill_up(&self, now: u64, look: u64, may_open: bool) {
        let most = if may_open { CLOSED } else { OPEN };
        let lasted = now.saturating_sub(self.filled_at.replace(now));
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
        self.set(fuel);
    }

    /// Fills up to a quarter of the last filling.
    pub(super) fn fill_a_quarter(&self) {
        self.set(self.filled.get() / 4);
    }

    /// The clock is not read any more.
    pub(super) fn fill_for_ever(&self) {
        self.filled.set(ENDLESS);
        self.set(ENDLESS);
    }

    /// Sets the fuel.
    #[inline]
    pub(super) fn set(&self, fuel: u32) {
        // Relaxed: a count.
        self.left.store(fuel, Ordering::Relaxed);
    }
}
