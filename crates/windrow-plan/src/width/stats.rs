//! Statistics of widths at a team's call site, kept between calls.

use crate::Nanos;
use crate::explore::Budget;

/// Number of distinct widths; the last one is the full width, however wide.
///
/// Measure: size of the statistics.
pub(super) const LEVELS: usize = u16::BITS as usize;

/// The largest ratio between the costs of two widths.
///
/// Measure: chosen, so that products stay finite.
const FARTHEST: f32 = 1e9;

/// The share of the time by the clock, in rounds or not, at which a debt lapses.
///
/// Measure: share of the time by the clock.
const LAPSE: f64 = 0.001;

/// The account, and the last exploration: its end in time run (`at`) and by the clock (`when`), and its direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Explored {
    pub(super) budget: Budget,
    pub(super) at: f64,
    pub(super) when: f64,
    pub(super) wider: bool,
    /// The time run when the best width became one of several members; infinite if it is one.
    pub(super) entered: f64,
    pub(super) stalls: Stalls,
    /// Time of a round on one member from which on several members were faster; infinite if they never were.
    pub(super) pays: f64,
}

impl Explored {
    pub(super) const NEVER: Explored = Explored {
        budget: Budget::EMPTY,
        at: f64::NEG_INFINITY,
        when: f64::NEG_INFINITY,
        wider: false,
        entered: f64::INFINITY,
        stalls: Stalls(0),
        pays: f64::INFINITY,
    };

    /// Drops a debt that is a small share of the time by the clock.
    pub(super) fn lapse(&mut self, ran: f64, now: Nanos) {
        let owed = self.budget.debt().0 + Budget::SHARE * (ran - self.at);
        if (now.0 - self.when) * LAPSE >= owed {
            self.budget = Budget::EMPTY;
        }
    }

    /// True if several members were stalled, and have not run since.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalls.0 > 0 && self.entered.is_infinite()
    }
}

/// Stalls that came soon after each other. The first one is charged at the share that the account earns, so it is risked again after
/// the time that it took; each further one is charged twice as much, until it is charged as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stalls(pub(super) u8);

impl Stalls {
    /// The charge for a stall that cost `price`, after several members had `lasted` as the best width.
    pub(super) fn charge(&mut self, price: f64, lasted: f64) -> f64 {
        let share = |Stalls(stalls): Stalls| (Budget::SHARE * f64::from(1u32 << stalls)).min(1.0);
        if lasted * Budget::SHARE > price * share(*self) {
            *self = Stalls(0);
        }
        let charged = price * share(*self);
        self.0 += u8::from(share(*self) < 1.0);
        charged
    }
}

/// The recent time at the best width, and the time that one member would have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Savings {
    pub(super) spent: f64,
    pub(super) serial: f64,
}

impl Savings {
    /// Adds rounds that took `spent`; older ones are forgotten over `memory`.
    pub(super) fn book(&mut self, spent: f64, serial: f64, memory: f64) {
        let kept = memory / (memory + spent);
        *self = Savings { spent: self.spent * kept + spent, serial: self.serial * kept + serial };
    }
}

/// Consecutive short calls, each at one width throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CallTimes {
    /// Time per round of the last call, at the best width.
    pub(super) per_round: f64,
    /// Calls in a row that agreed with the one before.
    pub(super) alike: u8,
}

/// The best width, its cost, and the relative costs of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WidthCosts {
    best: u8,
    /// Time per round at the best width; 0 is unknown.
    pub(super) per_round: f64,
    /// Time per round at each level, relative to the best width; 0 is unknown.
    pub(super) ratio: [f32; LEVELS],
    pub(super) savings: Savings,
}

impl WidthCosts {
    /// The level of the best width.
    pub(super) fn best(&self) -> usize {
        usize::from(self.best)
    }

    pub(super) fn ratio(&self, level: usize) -> Option<f64> {
        let ratio = f64::from(self.ratio[level]);
        (ratio > 0.0).then_some(ratio)
    }

    /// The cheapest known level narrower than the best one.
    fn cheapest_narrower(&self) -> Option<(usize, f64)> {
        let known = (0..self.best()).filter_map(|level| Some((level, self.ratio(level)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Makes `level` the best one; it costs `ratio` times what the last one did.
    pub(super) fn move_to(&mut self, level: usize, ratio: f64) {
        self.ratio[self.best()] = 1.0;
        self.ratio[level] = ratio as f32;
        for one in self.ratio.iter_mut().filter(|one| **one > 0.0) {
            *one = (*one / ratio as f32).clamp(1.0 / FARTHEST, FARTHEST);
        }
        let per_round = self.per_round * ratio;
        *self = WidthCosts { best: level as u8, per_round, savings: Savings::default(), ..*self };
    }
}

/// Statistics of a team between its calls at one call site: plain data, which the runtime stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WidthStats {
    pub(super) full: usize,
    /// The costs when the last call began: a call whose rounds shrink ends with other costs than it begins with.
    pub(super) costs: WidthCosts,
    pub(super) calls: CallTimes,
    pub(super) ran: f64,
    pub(super) explored: Explored,
}

impl WidthStats {
    /// True if a team of `full` members was measured at its full width, and rounds are faster with one member.
    pub fn is_serial(&self, full: usize) -> bool {
        self.full == full && self.costs.best == 0 && self.costs.ratio(top(full)).is_some_and(|ratio| ratio > 1.0)
    }

    /// True if a call of `rounds` rounds that begins `now` would run all of them on one member, because it does not pay for the last stall.
    /// Then it needs no team: to form one wakes workers, and next to busy processes a member joins and leaves late.
    pub fn rests(mut self, rounds: u64, now: Nanos) -> bool {
        self.explored.lapse(self.ran, now);
        let earned = Nanos(self.costs.per_round * rounds as f64);
        self.costs.best == 0 && self.explored.is_stalled() && self.explored.budget.earn(earned).debt().0 > 0.0
    }

    /// The statistics after a call that [`rests`](Self::rests) and took `elapsed`.
    #[must_use]
    pub fn rested(mut self, elapsed: Nanos) -> Self {
        self.ran += elapsed.0;
        self.explored.budget = self.explored.budget.earn(elapsed);
        self
    }

    /// The statistics of a team of another width: what was measured at widths that are not its candidates is dropped.
    pub(super) fn of(mut self, full: usize) -> Self {
        if self.full != full {
            for level in 0..LEVELS {
                let same = level <= top(full).min(top(self.full)) && width(level, full) == width(level, self.full);
                self.costs.ratio[level] *= f32::from(u8::from(same));
            }
            let best = self.costs.best();
            if self.costs.ratio[best] == 0.0 {
                match self.costs.cheapest_narrower() {
                    Some((level, ratio)) => {
                        self.costs.move_to(level, ratio);
                        self.costs.ratio[best] = 0.0;
                    }
                    None => self.costs = WidthCosts::default(),
                }
                self.calls = CallTimes::default();
            }
            self.full = full;
        }
        self
    }
}

/// Nothing is known.
impl Default for WidthStats {
    fn default() -> Self {
        let (costs, calls) = (WidthCosts::default(), CallTimes::default());
        WidthStats { full: 1, costs, calls, ran: 0.0, explored: Explored::NEVER }
    }
}

/// The level of the full width.
pub(super) fn top(full: usize) -> usize {
    ((usize::BITS - full.saturating_sub(1).leading_zeros()) as usize).min(LEVELS - 1)
}

pub(super) fn width(level: usize, full: usize) -> usize {
    if level >= top(full) { full } else { 1 << level }
}
