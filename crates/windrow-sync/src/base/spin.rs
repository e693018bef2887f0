//! Bounded spinning.

use crate::base::machine;
use crate::base::primitives::{spin_loop, yield_now};

/// Longest spin of a waiting thread before it parks, in [ticks](machine::tick).
///
/// The bound is a time, not a count: one `pause` instruction takes 10 to 50 times longer on some CPUs than on others
/// (onnxruntime pull request 27916).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// Ticks spent spinning at full speed.
    pub busy: u64,
    /// Ticks spent after that on one check per `sched_yield`, so that a partner without a CPU can run.
    pub yielding: u64,
}

impl Spin {
    /// Check once, then park.
    pub const NONE: Spin = Spin { busy: 0, yielding: 0 };

    /// Checks `done` until it holds or the time is over; returns whether it held.
    #[inline]
    pub fn until(self, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self == Self::NONE {
            return false;
        }
        let start = machine::tick();
        loop {
            let spent = machine::tick().saturating_sub(start);
            if spent >= self.busy.saturating_add(self.yielding) {
                return false;
            }
            if spent >= self.busy {
                yield_now();
                if done() {
                    return true;
                }
                continue;
            }
            // A clock read costs as much as a `pause`; eight checks per read keep it cheap.
            for _ in 0..8 {
                spin_loop();
                if done() {
                    return true;
                }
            }
        }
    }
}
