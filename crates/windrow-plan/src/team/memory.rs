//! What a team knows of its widths, and what it keeps between calls.

use super::{ALIKE, CALM, SHARE, SHARE_OF_ALL, SOON, WIDER, agree};
use crate::Nanos;

/// Number of distinct widths; the last one is the full width, however wide.
pub(super) const LEVELS: usize = 16;
/// What home has saved is forgotten over this time: several time slices (3 to 4 ms where measured), so that stalls are averaged.
const LATELY: f64 = 50e6;

/// The cost of the last tries in one direction, and when they ended: by the time run, and by the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub(super) cost: f64,
    pub(super) at: f64,
    pub(super) when: f64,
}

impl Tried {
    pub(super) const NEVER: Tried = Tried { cost: 0.0, at: f64::NEG_INFINITY, when: f64::NEG_INFINITY };
}

/// The recent time of home, and the time one member would have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Account {
    pub(super) spent: f64,
    pub(super) instead: f64,
}

impl Account {
    pub(super) fn book(&mut self, spent: f64, instead: f64) {
        let kept = LATELY / (LATELY + spent);
        *self = Account { spent: self.spent * kept + spent, instead: self.instead * kept + instead };
    }
}

/// Consecutive short calls, each at one width throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CallTimes {
    /// Time per round of the last call, at home.
    pub(super) per_round: f64,
    /// How many agreed with the call before.
    pub(super) alike: u8,
}

/// Consecutive calls that began and ended with one member at home.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SerialCall {
    /// Time per round of the last call, and time of the whole call.
    per_round: f64,
    time: f64,
    /// How many agreed with the call before.
    alike: u8,
}

impl SerialCall {
    /// After one more call, of so many rounds.
    pub(super) fn then(self, rounds: f64, time: f64) -> Self {
        let per_round = time / rounds;
        let alike = if agree(per_round, self.per_round) { (self.alike + 1).min(ALIKE) } else { 0 };
        SerialCall { per_round, time, alike }
    }
}

/// What is known of the widths: home, its cost, and the relative costs of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WidthCosts {
    pub(super) home: u8,
    /// Time per round at home; 0 is unknown.
    pub(super) per_round: f64,
    /// Time per round at each level, relative to home; 0 is unknown.
    pub(super) ratio: [f32; LEVELS],
    pub(super) account: Account,
}

impl WidthCosts {
    pub(super) const NOTHING: WidthCosts =
        WidthCosts { home: 0, per_round: 0.0, ratio: [0.0; LEVELS], account: Account { spent: 0.0, instead: 0.0 } };

    pub(super) fn ratio(&self, level: usize) -> Option<f64> {
        let ratio = f64::from(self.ratio[level]);
        (ratio > 0.0).then_some(ratio)
    }

    /// The cheapest known level narrower than home.
    fn cheapest_narrower(&self) -> Option<(usize, f64)> {
        let known = (0..usize::from(self.home)).filter_map(|level| Some((level, self.ratio(level)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The relative cost of the cheapest other level; 1 if that is unknown.
    pub(super) fn gap(&self) -> f64 {
        let others = (0..LEVELS).filter(|&level| level != usize::from(self.home)).filter_map(|level| self.ratio(level));
        others.min_by(f64::total_cmp).unwrap_or(1.0).max(1.0)
    }

    /// Makes another level home; it costs `ratio` times what home did.
    pub(super) fn move_to(&mut self, level: usize, ratio: f64) {
        self.ratio[usize::from(self.home)] = 1.0;
        self.ratio[level] = ratio as f32;
        for one in self.ratio.iter_mut().filter(|one| **one > 0.0) {
            *one = (*one / ratio as f32).clamp(1e-9, 1e9);
        }
        let per_round = self.per_round * ratio;
        *self = WidthCosts { home: level as u8, per_round, account: Account::default(), ..*self };
    }
}

/// What a team keeps between its calls at one call site: plain data, stored where the runtime likes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    pub(super) full: usize,
    /// As it was when the last call began, because a call whose rounds shrink ends with other widths than it begins with.
    pub(super) known: WidthCosts,
    pub(super) calls: CallTimes,
    pub(super) alone: SerialCall,
    pub(super) ran: f64,
    pub(super) tried: [Tried; 2],
}

impl Memory {
    /// Nothing is known.
    pub const fn new() -> Self {
        let calls = CallTimes { per_round: 0.0, alike: 0 };
        let alone = SerialCall { per_round: 0.0, time: 0.0, alike: 0 };
        Memory { full: 1, known: WidthCosts::NOTHING, calls, alone, ran: 0.0, tried: [Tried::NEVER; 2] }
    }

    /// The width a call begins with.
    pub fn width(&self) -> usize {
        width(usize::from(self.known.home), self.full)
    }

    /// Time of a round at this width at the start of a call, if it was measured.
    pub fn per_round(&self, width: usize) -> Option<Nanos> {
        let level = (0..=top(self.full)).find(|&level| self::width(level, self.full) == width)?;
        self.known.ratio(level).map(|ratio| Nanos(self.known.per_round * ratio))
    }

    /// When a wider width was last tried, or given up because its rounds were stalled; and what that cost. The time is that of the
    /// clock given to [`WidthTuner::new`](super::WidthTuner::new).
    pub fn tried(&self) -> Option<(Nanos, Nanos)> {
        let Tried { cost, when, .. } = self.tried[WIDER];
        when.is_finite().then_some((Nanos(when), Nanos(cost)))
    }

    /// Minimum time in rounds until a wider width is tried again.
    pub fn quiet(&self) -> Nanos {
        let Tried { cost, at, .. } = self.tried[WIDER];
        Nanos((at + cost / SHARE[WIDER] - self.ran).max(0.0))
    }

    /// Whether one member will run all of the next call, which begins `now`, if it is like the last ones. Then a team of `full` need
    /// not come together, and no member can be late to leave. A call that is unlike them is no slower for it than serial code.
    pub fn stands_alone(&self, full: usize, now: Nanos) -> bool {
        let Memory { known, alone, ran, tried: [Tried { cost, at, when }, _], .. } = self.of(full);
        let soonest = cost / SHARE[WIDER];
        let due = at + soonest.max((soonest / CALM).min(SOON));
        known.home == 0
            && known.ratio(top(full)).is_some()
            && alone.alike >= ALIKE
            && ran + alone.time < due
            && (now.0 - when) * SHARE_OF_ALL < cost
    }

    /// After a call that [stood alone](Memory::stands_alone): so many rounds, in this time.
    #[must_use]
    pub fn after_alone(self, rounds: usize, elapsed: Nanos) -> Self {
        if rounds == 0 {
            return self;
        }
        Memory { alone: self.alone.then(rounds as f64, elapsed.0), ran: self.ran + elapsed.0, ..self }
    }

    /// Forgets calls as a whole, because one ran something else than rounds.
    #[must_use]
    pub fn mixed(self) -> Self {
        Memory { alone: SerialCall::default(), ..self }
    }

    /// The memory of a team of another width: what was measured at widths that are not its candidates is dropped.
    pub(super) fn of(mut self, full: usize) -> Self {
        if self.full != full {
            for level in 0..LEVELS {
                let same = level <= top(full).min(top(self.full)) && width(level, full) == width(level, self.full);
                self.known.ratio[level] *= f32::from(u8::from(same));
            }
            let home = usize::from(self.known.home);
            if self.known.ratio[home] == 0.0 {
                match self.known.cheapest_narrower() {
                    Some((level, ratio)) => {
                        self.known.move_to(level, ratio);
                        self.known.ratio[home] = 0.0;
                    }
                    None => self.known = WidthCosts::NOTHING,
                }
                self.calls = CallTimes::default();
            }
            self.full = full;
        }
        self
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// The level of the full width.
pub(super) fn top(full: usize) -> usize {
    ((usize::BITS - full.saturating_sub(1).leading_zeros()) as usize).min(LEVELS - 1)
}

pub(super) fn width(level: usize, full: usize) -> usize {
    if level >= top(full) { full } else { 1 << level }
}
