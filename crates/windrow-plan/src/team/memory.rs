//! What a team knows of its widths, and what is kept of that between calls.

use super::{ALIKE, CALM, SHARE, SHARE_OF_ALL, SOON, WIDER, agree};
use crate::Nanos;

/// Widths that are told apart; the last one is the full width, however wide.
pub(super) const LEVELS: usize = 16;
/// What home has saved is forgotten in this time: several time slices (3 to 4 ms where measured), so that stalls are averaged.
const LATELY: f64 = 50e6;

/// What the last tries in one direction cost, and when they ended: by the time run, and by the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tried {
    pub(super) cost: f64,
    pub(super) at: f64,
    pub(super) when: f64,
}

impl Tried {
    pub(super) const NEVER: Tried = Tried { cost: 0.0, at: f64::NEG_INFINITY, when: f64::NEG_INFINITY };
}

/// What home took lately, and what one member would have taken.
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

/// Short calls in a row, each at one width throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Calls {
    /// What a round of the last one took, at home.
    pub(super) per_round: f64,
    /// How many agreed with the one before.
    pub(super) alike: u8,
}

/// Calls in a row that began and ended with one member at home.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Alone {
    /// What a round of the last one took, and all of them.
    per_round: f64,
    time: f64,
    /// How many agreed with the one before.
    alike: u8,
}

impl Alone {
    /// After one more, of so many rounds.
    pub(super) fn then(self, rounds: f64, time: f64) -> Self {
        let per_round = time / rounds;
        let alike = if agree(per_round, self.per_round) { (self.alike + 1).min(ALIKE) } else { 0 };
        Alone { per_round, time, alike }
    }
}

/// What is known of the widths: home, its cost, the others' relative to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) home: u8,
    /// What a round takes at home; 0 is unknown.
    pub(super) per_round: f64,
    /// What it takes at each level, relative to home; 0 is unknown.
    pub(super) ratio: [f32; LEVELS],
    pub(super) account: Account,
}

impl Known {
    pub(super) const NOTHING: Known =
        Known { home: 0, per_round: 0.0, ratio: [0.0; LEVELS], account: Account { spent: 0.0, instead: 0.0 } };

    pub(super) fn ratio(&self, level: usize) -> Option<f64> {
        let ratio = f64::from(self.ratio[level]);
        (ratio > 0.0).then_some(ratio)
    }

    /// The cheapest known level narrower than home.
    fn cheapest_narrower(&self) -> Option<(usize, f64)> {
        let known = (0..usize::from(self.home)).filter_map(|level| Some((level, self.ratio(level)?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How much dearer the cheapest of the others is; 1 if that is not known.
    pub(super) fn gap(&self) -> f64 {
        let others = (0..LEVELS).filter(|&level| level != usize::from(self.home)).filter_map(|level| self.ratio(level));
        others.min_by(f64::total_cmp).unwrap_or(1.0).max(1.0)
    }

    /// Another level is home from now on; it costs `ratio` of what home did.
    pub(super) fn move_to(&mut self, level: usize, ratio: f64) {
        self.ratio[usize::from(self.home)] = 1.0;
        self.ratio[level] = ratio as f32;
        for one in self.ratio.iter_mut().filter(|one| **one > 0.0) {
            *one = (*one / ratio as f32).clamp(1e-9, 1e9);
        }
        let per_round = self.per_round * ratio;
        *self = Known { home: level as u8, per_round, account: Account::default(), ..*self };
    }
}

/// What is kept between the calls of a team at one place of the program: plain data, to be kept where the runtime likes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    pub(super) full: usize,
    /// As it was when the last call began: a call whose rounds shrink ends with other widths than it begins with.
    pub(super) known: Known,
    pub(super) calls: Calls,
    pub(super) alone: Alone,
    pub(super) ran: f64,
    pub(super) tried: [Tried; 2],
}

impl Memory {
    /// Nothing is known.
    pub const fn new() -> Self {
        let calls = Calls { per_round: 0.0, alike: 0 };
        let alone = Alone { per_round: 0.0, time: 0.0, alike: 0 };
        Memory { full: 1, known: Known::NOTHING, calls, alone, ran: 0.0, tried: [Tried::NEVER; 2] }
    }

    /// The width a call begins with.
    pub fn width(&self) -> usize {
        width(usize::from(self.known.home), self.full)
    }

    /// What a round at this width takes at the beginning of a call, if it was measured.
    pub fn per_round(&self, width: usize) -> Option<Nanos> {
        let level = (0..=top(self.full)).find(|&level| self::width(level, self.full) == width)?;
        self.known.ratio(level).map(|ratio| Nanos(self.known.per_round * ratio))
    }

    /// When a wider width was last tried, or given up as its rounds were stalled, by the clock whose time [`Rhythm::new`](super::Rhythm::new)
    /// is given; and what that cost.
    pub fn tried(&self) -> Option<(Nanos, Nanos)> {
        let Tried { cost, when, .. } = self.tried[WIDER];
        when.is_finite().then_some((Nanos(when), Nanos(cost)))
    }

    /// How long rounds must at least run until a wider width is tried again.
    pub fn quiet(&self) -> Nanos {
        let Tried { cost, at, .. } = self.tried[WIDER];
        Nanos((at + cost / SHARE[WIDER] - self.ran).max(0.0))
    }

    /// Whether one member will run all of the next call, which begins `now`, if it is like the last ones: then a team of `full` need not come
    /// together, and who has come cannot be late to leave. A call that is not like them is no slower for it than serial code.
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

    /// Nothing is known of calls as a whole: something else than rounds was run in one.
    #[must_use]
    pub fn mixed(self) -> Self {
        Memory { alone: Alone::default(), ..self }
    }

    /// The same for a team of another width: what was measured at widths that are none of its candidates is not known.
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
                    None => self.known = Known::NOTHING,
                }
                self.calls = Calls::default();
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
