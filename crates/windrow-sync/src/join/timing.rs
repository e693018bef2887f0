//! Decisions of the caller of a tree: its intervals, and if other members are let in.

use crate::base::spin::Spin;

/// Intervals of a tree, in [ticks](crate::machine::tick). The caller chooses them.
#[derive(Clone, Copy, Debug)]
pub struct JoinTiming {
    /// Between two reads of the clock.
    pub look: u64,
    /// Between two offers of a member while another member is hungry.
    pub hungry: u64,
    /// Between two offers of a member, or two wakeups, while no member is hungry.
    pub alone: u64,
    /// Spin of an idle member before it parks.
    pub idle: Spin,
    /// Spin of a member, before it parks, on a frame that another member runs.
    pub settle: Spin,
}

/// The lead's answer to the question if other members are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferDecision {
    /// Other members are let in from now on.
    Opened,
    /// Not now: ask again when the tree is this many ticks old.
    Later(u64),
    /// Not in this tree.
    Never,
}
