//! Mechanisms that can be switched off in one pool, to measure what each of them pays.
//!
//! Without the feature `ablation` every mechanism is on, and asking for it costs nothing.

/// A mechanism of the runtime. For `windrow-bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Mechanism {
    /// Call sites remember what their items cost.
    Sites,
    /// Workers keep off their caller's CPU.
    Placement,
    /// Serial calls add up what they lose because workers are parked.
    Debt,
    /// A remembered long item comes first.
    LongItems,
    /// Calls that are too short by what their site remembers decide nothing.
    ShortCalls,
    /// Idle workers spin for as long as the gaps that they have seen. Switched off: for three wakes.
    SpinGaps,
    /// Workers stand by for serial calls of unknown length.
    StandBy,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 7] = [
        Mechanism::Sites,
        Mechanism::Placement,
        Mechanism::Debt,
        Mechanism::LongItems,
        Mechanism::ShortCalls,
        Mechanism::SpinGaps,
        Mechanism::StandBy,
    ];
}

/// A set of mechanisms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mechanisms(u32);

impl Mechanisms {
    #[cfg(feature = "ablation")]
    pub(crate) fn with(self, mechanism: Mechanism) -> Mechanisms {
        Mechanisms(self.0 | 1 << mechanism as u32)
    }

    #[inline]
    pub(crate) fn contains(self, mechanism: Mechanism) -> bool {
        cfg!(feature = "ablation") && self.0 & (1 << mechanism as u32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_off_by_itself() {
        assert!(Mechanism::ALL.iter().all(|&mechanism| !Mechanisms::default().contains(mechanism)));
    }

    #[test]
    #[cfg(feature = "ablation")]
    fn one_is_off_at_a_time() {
        for off in Mechanism::ALL {
            let set = Mechanisms::default().with(off);
            assert!(Mechanism::ALL.iter().all(|&mechanism| set.contains(mechanism) == (mechanism == off)));
        }
    }
}
