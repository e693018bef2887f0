//! What the caller of a tree decides: its intervals, and whether other members are let in.

use crate::base::spin::Spin;

/// Intervals of a tree, in [ticks](crate::machine::tick). The caller chooses them.
///
/// ```
/// use windrow_sync::join::tree::{JoinTiming, OfferDecision, Tree};
/// use windrow_sync::{Spin, machine::ticks_per_micro};
///
/// let micros = |micros| (f64::from(micros) * ticks_per_micro()) as u64;
/// let spin = Spin { busy: micros(20), yielding: 0 };
/// let timing = JoinTiming { look: micros(1), hungry: micros(5), alone: micros(50), idle: spin, settle: spin };
/// let mut tree = Tree::new(1, timing);
/// assert_eq!(tree.lead().0.grow(0, &|_| OfferDecision::Never, || 7), 7);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JoinTiming {
    /// Between two reads of the clock.
    pub look: u64,
    /// Between two offers of a member while another member is hungry.
    pub hungry: u64,
    /// Between two offers of a member, or two wakeups, while no member is hungry.
    pub alone: u64,
    /// How long an idle member spins before it parks.
    pub idle: Spin,
    /// How long a member spins on a frame that another one runs before it parks.
    pub settle: Spin,
}

/// The lead's answer to the question whether to let other members in.
///
/// ```
/// use windrow_sync::join::{join, tree::{Asked, JoinTiming, OfferDecision, Tree}};
/// # use windrow_sync::Spin;
/// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
///
/// // Old recursions are worth a thread, young ones are not.
/// let decide = |asked: &Asked<'_>| match asked.age() {
///     0..1_000_000_000_000 => OfferDecision::Later(1_000_000_000_000),
///     _ => {
///         asked.furnish();
///         OfferDecision::Opened
///     }
/// };
/// let mut tree = Tree::new(2, timing);
/// let sum = tree.lead().0.grow(0, &decide, || join(|| 1, || 2, |_, _| unreachable!("inside a tree")));
/// assert_eq!(sum, (1, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferDecision {
    /// Other members are let in from now on.
    Opened,
    /// Not now: ask again when the tree is this many ticks old.
    Later(u64),
    /// Not in this tree.
    Never,
}
