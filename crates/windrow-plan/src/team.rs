//! How many members run the next rounds of a team, and how many to ask for.
//!
//! A round of [`WidthTuner`] can run at any width up to the full one; the other members wait for the next wide round. The cost of a round
//! is unknown and drifts. The cost of its barrier varies by four orders of magnitude with what else runs on the machine. So nothing is
//! modelled. Rounds run in *segments*, long enough for the reads of the clock to cost nothing. The width that was recently cheapest is
//! the best one, *home* in the code. Other widths are *tried* and compared with home's current cost:
//!
//! ```text
//!         due                                    dearer, or never entered
//!   home ------> first rounds ------> measured --------------------------> first rounds ------> home
//!    ^  \        at that width            |                                at home               ^
//!    |   \                                | cheaper: that is home now                            |
//!    +----\-------------------------------+                                                      |
//!          \ driven out: home is one member now                                                  |
//!           +------------------------------------------------------------------------------------+
//! ```
//!
//! - **Candidates** are 1, 2, 4, .. and the full width. The first try compares the full width with one member. After it, only
//!   neighbours of home are tried: if the barrier costs more with more width, the cost of a round has one minimum.
//! - **First rounds** after a change of width wake sleeping members and move data between caches. They count as the price of the try,
//!   not as the cost of the width.
//! - **A try ends early** once it has taken longer than home would have taken for all of it: it cannot win any more
//!   ([`Segment::deadline`]). But a wake that is already paid for does not end a try: its cost is gone.
//! - **The price of a try** is the time it took beyond home's, both changes included. The next try in that direction starts when the
//!   price is no more than 2 % of the time run since (wider) or 1 % (narrower). So tries lose no more than 3 % of the time run, beside
//!   the last try in each direction, whatever rounds cost; and a try that nearly wins is soon repeated. While home's cost is unchanged,
//!   only a quarter of that budget is spent, because the order of the widths can only change if home's cost or the load of the machine
//!   changes.
//! - **Stragglers**: a member that loses its CPU stalls a round for a time slice, and one segment in a hundred does not show that. So
//!   home has an account: its recent time, compared with that of one member, which waits for no other. A width that has just won has
//!   saved nothing yet, so its first stall drives it out; a width that has saved as much stays. The deficit of the account is then a
//!   price like that of a try: a stall of 4 ms is not risked again for 200 ms of rounds.
//! - **Short calls** leave no time for comparisons inside. If consecutive calls cost the same, they are compared as a whole: one call
//!   at home, one at another width.
//!
//! - **Standing alone**: the other members need not come at all if consecutive calls cost the same, ran on one member, and no try is
//!   due before the next call ends ([`Memory::stands_alone`]). On a machine with a neighbour, members are late not only in rounds but
//!   also to leave: a call of 5 ms took 9 ms.
//!
//! **Recovery**: when the neighbour has gone, a wider width is tried after `price / 2 %` of time in rounds (200 ms for 4 ms), or 100 ms
//! if that is longer; or after `price / 0.1 %` of time in all (4 s). [`Memory`] carries all this from call to call.
//!
//! Limits: rounds that alternate between very different costs, each for longer than a segment, are sometimes compared wrongly; the
//! account corrects that, and the correction is paid for like a try. If rounds suddenly become far cheaper, the price of the last try
//! must be earned first: about 1 ms. It is not known whether a stall hit the leading member or one that it waited for. So a machine
//! that stops all members alike, for longer than they have recently saved, is taken for one with a neighbour.
//!
//! Sources: measuring and choosing between a sequential and a parallel version is the oracle-guided granularity of Acar, Charguéraud
//! and Rainey (OOPSLA 2011, JFP 2016). Paying as much for tries as has been earned since is the ski-rental rule (Karlin and
//! others, 1988) as an exploration budget, as for bandits whose arms change (Auer and others, 2002; Garivier and Moulines, 2011). Teams
//! of the members that are free are the moldable jobs of Feitelson and Rudolph (1996), as in OpenMP's dynamic teams.

mod formation;
mod memory;
mod whole;

use std::fmt;

use memory::{Account, CallTimes, LEVELS, SerialCall, Tried, WidthCosts, top, width};

pub use self::formation::{Formation, Free, formation};
pub use self::memory::Memory;
pub use self::whole::{Mode, Whole};
use crate::{Alternative, Alternatives, Decision, Nanos};

/// What to run next: `rounds` rounds at `width`; or fewer, if the deadline passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Members that take part, between 1 and the full width.
    pub width: usize,
    /// Rounds to run before [`WidthTuner::report`]; 1 or more.
    pub rounds: usize,
    /// Report after the first read of the clock at or after this duration of the segment.
    pub deadline: Nanos,
    /// Read the clock after every so many rounds, between 1 and `rounds`.
    pub every: usize,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.rounds == 1 { "" } else { "s" };
        write!(f, "{} round{plural} at width {}", self.rounds, self.width)
    }
}

/// The inputs of [`WidthTuner`]'s decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Members of the team.
    pub full: usize,
    /// The width that was recently cheapest.
    pub home: usize,
    /// Time of a round at that width; 0 if it was not measured.
    pub per_round: Nanos,
    /// Time run so far, in all calls that share a memory.
    pub ran: Nanos,
    /// The debt: what the last tries cost and has not been earned since.
    pub owed: Nanos,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standing { full, home, per_round, ran, owed } = self;
        write!(f, "{full} members, at home with {home}, {per_round} a round, {ran} run, {owed} owed")
    }
}

/// A segment lasts as long as this many reads of the clock: 25 us, because a read takes 10 ns and [`WidthTuner::report`] 27 ns where
/// measured. Both together are 0.15 % of a segment, and two segments agree within a percent.
const LOOKS_IN_A_SEGMENT: f64 = 2500.0;
/// Reads of the clock within a segment, for the deadline (0.4 %).
const LOOKS_INSIDE: usize = 10;
/// Share of a segment that runs after a change of width before the measurement: caches are warm after some rounds.
const FIRST: f64 = 1.0 / 8.0;
/// Share of a segment that tells whether a call's rounds cost what they did in the last call.
const GLANCE: f64 = 1.0 / 4.0;
/// Calls of up to this many segments leave no time for comparisons inside, so they are compared as a whole.
const SHORT: f64 = 2.0;
/// Number of consecutive calls that must agree for that.
const ALIKE: u8 = 2;
/// Minimum number of segments at home between two tries: more than one try in five segments would lose time if widths cost nearly the
/// same.
const PAUSE: f64 = 4.0;
/// The share of the time run that tries of wider and of narrower widths may cost: together the 3 % promised. Narrower tries wake no
/// member, so a smaller share will do.
const SHARE: [f64; 2] = [0.02, 0.01];
/// The part of that share that is spent while nothing has changed.
const CALM: f64 = 0.25;
/// Maximum wait for the next try in that case: a width that was once too expensive because of the machine's load comes back soon.
const SOON: f64 = 100e6;
/// The share of all time, in rounds or not, that being driven out may cost: the load of some seconds ago says little about now.
const SHARE_OF_ALL: f64 = 0.001;

/// Directions of a try, used as indices.
const WIDER: usize = 0;
const NARROWER: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The first rounds of a call.
    Glance,
    Home,
    /// The first rounds of a try.
    Enter {
        to: usize,
        /// The first rounds were slow, perhaps because of a wake.
        again: bool,
    },
    /// A try.
    Measure {
        to: usize,
    },
    /// The first rounds at home after a lost try, or after being driven out; this direction pays the price.
    Back {
        from: usize,
    },
}

/// Chooses the width of rounds while they run: see the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Memory, WidthTuner};
///
/// // Rounds of 10 us that take 5.2 us at width 2.
/// let mut rhythm = WidthTuner::new(2, Nanos(10.0), Memory::new(), Nanos(0.0));
/// let mut wide = 0;
/// for _ in 0..1000 {
///     let segment = rhythm.segment();
///     let per_round = if segment.width == 2 { 5200.0 } else { 10_000.0 };
///     wide += if segment.width == 2 { segment.rounds } else { 0 };
///     rhythm.report(segment.rounds, Nanos(per_round * segment.rounds as f64));
/// }
/// assert!(wide > 3500);
/// assert!(rhythm.decision().to_string().contains("rounds at width 2"));
/// assert_eq!(rhythm.end(0, Nanos(0.0)).width(), 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WidthTuner {
    full: usize,
    clock: f64,
    known: WidthCosts,
    /// Time per round of the last three segments at home; the median counts.
    recent: [f64; 3],
    phase: Phase,
    next: Segment,
    why: &'static str,
    /// The price of the try so far.
    price: f64,
    /// Time per round at home when the last try ended.
    then: f64,
    /// Time per round when the call began; 0 if that is unknown or long ago.
    first: f64,
    /// The first rounds of the call, booked once their expected time is known.
    glance: (f64, f64),
    ran: f64,
    tried: [Tried; 2],
    /// The difference between the time by the clock and the time run.
    origin: f64,
    start: WidthCosts,
    calls: CallTimes,
    alone: SerialCall,
    /// All rounds of this call, and the time run when it began.
    rounds: f64,
    began: f64,
    /// This call's rounds and their time, as long as all ran at home.
    call: Option<(f64, f64)>,
}

impl WidthTuner {
    /// A call of a team of `full` members (1 or more) begins `now`. `clock` is the time of a read of the clock.
    pub fn new(full: usize, clock: Nanos, memory: Memory, now: Nanos) -> Self {
        let full = full.max(1);
        let Memory { mut known, calls, alone, ran, mut tried, .. } = memory.of(full);
        if (now.0 - tried[WIDER].when) * SHARE_OF_ALL >= tried[WIDER].cost {
            tried[WIDER].cost = 0.0;
        }
        let whole = calls.alike >= ALIKE;
        if whole {
            known.per_round = calls.per_round;
        }
        let mut rhythm = WidthTuner {
            full,
            clock: clock.0.max(1.0),
            known,
            recent: [known.per_round; 3],
            phase: Phase::Glance,
            next: Segment { width: 1, rounds: 1, deadline: Nanos(0.0), every: 1 },
            why: "",
            price: 0.0,
            then: known.per_round,
            first: if whole { known.per_round } else { 0.0 },
            glance: (0.0, 0.0),
            ran,
            tried,
            origin: now.0 - ran,
            start: known,
            calls,
            alone,
            rounds: 0.0,
            began: ran,
            call: Some((0.0, 0.0)),
        };
        if whole {
            let to = rhythm.due();
            let why = "short calls are compared as a whole";
            rhythm.run(to.map_or(Phase::Home, |to| Phase::Measure { to }), to.unwrap_or(known.home.into()), SHORT, why);
            return rhythm;
        }
        let why = if known.per_round > 0.0 { "as in the last call" } else { "nothing is measured yet" };
        rhythm.run(Phase::Glance, usize::from(known.home), GLANCE, why);
        rhythm
    }

    /// What to run next.
    #[inline]
    pub fn segment(&self) -> Segment {
        self.next
    }

    /// Reports `rounds` rounds of the [`segment`](Self::segment) that took `elapsed` in all. Returns what to run next. (Fewer rounds
    /// than the segment's if its deadline passed; with 0 rounds nothing changes.)
    pub fn report(&mut self, rounds: usize, elapsed: Nanos) -> Segment {
        if rounds == 0 {
            return self.next;
        }
        let rounds = rounds as f64;
        // A minimum per round and a maximum in all, so that the sums stay finite.
        let spent = elapsed.0.max(0.01 * rounds).min(1e15);
        self.ran += spent;
        self.rounds += rounds;
        self.call = match self.phase {
            Phase::Glance | Phase::Home => self.call.map(|(all, time)| (all + rounds, time + spent)),
            _ => None,
        };
        match self.phase {
            Phase::Glance => self.glanced(rounds, spent),
            Phase::Home => self.at_home(rounds, spent),
            Phase::Enter { to, again } => self.entered(to, again, rounds, spent),
            Phase::Measure { to } => self.measured(to, rounds, spent),
            Phase::Back { from } => {
                self.price += spent - rounds * self.known.per_round;
                self.pay(from);
                self.stay("no other width is cheaper");
            }
        }
        self.next
    }

    /// The last report of a call, of an unfinished segment (0 rounds if it was finished). Returns what to keep for the next call.
    pub fn end(mut self, rounds: usize, elapsed: Nanos) -> Memory {
        self.report(rounds, elapsed);
        let (rounds, spent) = self.glance;
        if rounds > 0.0 && matches!(self.phase, Phase::Glance | Phase::Home) {
            // A call of a few rounds: only their expected time is known.
            self.known.per_round = self.start.per_round;
            if !self.book(rounds, spent) {
                self.start.account = self.known.account;
            }
        }
        match self.phase {
            Phase::Glance | Phase::Home => {}
            // A try that has not begun has no price.
            _ if self.price == 0.0 => {}
            Phase::Enter { to, .. } | Phase::Measure { to } => self.pay(self.direction(to)),
            Phase::Back { from } => self.pay(from),
        }
        let WidthTuner { full, start, ran, tried, mut calls, mut alone, .. } = self;
        if self.rounds > 0.0 {
            let alone_throughout = start.home == 0 && self.known.home == 0;
            alone = if alone_throughout { alone.then(self.rounds, ran - self.began) } else { SerialCall::default() };
        }
        if let Some((rounds, spent)) = self.call.filter(|call| call.0 > 0.0) {
            let per_round = spent / rounds;
            let alike = spent < SHORT * self.segment_time() && agree(per_round, calls.per_round);
            calls = CallTimes { per_round, alike: if alike { (calls.alike + 1).min(ALIKE) } else { 0 } };
        }
        Memory { full, known: start, calls, alone, ran, tried }
    }

    /// The [`segment`](Self::segment) as a decision. The alternatives are one member, home and its neighbours, as far as they were
    /// measured, with the predicted time of as many rounds.
    pub fn decision(&self) -> Decision<Standing, Segment> {
        let home = usize::from(self.known.home);
        let mut levels = vec![(home, "home"), (home + 1, "wider")];
        if home > 1 {
            levels.insert(0, (home - 1, "narrower"));
        }
        if home > 0 {
            levels.insert(0, (0, "one member"));
        }
        let rounds = self.known.per_round * self.next.rounds as f64;
        let alternatives: Vec<Alternative> = levels
            .into_iter()
            .filter(|&(level, _)| level < LEVELS)
            .filter_map(|(level, name)| Some(Alternative { name, predicted: Nanos(self.known.ratio(level)? * rounds) }))
            .collect();
        let inputs = Standing {
            full: self.full,
            home: width(home, self.full),
            per_round: Nanos(self.known.per_round),
            ran: Nanos(self.ran),
            owed: Nanos(self.owed(WIDER) + self.owed(NARROWER)),
        };
        Decision { inputs, choice: self.next, alternatives: Alternatives::new(&alternatives), why: self.why }
    }

    fn glanced(&mut self, rounds: f64, spent: f64) {
        let rate = spent / rounds;
        let before = self.known.per_round;
        self.push(rate);
        if before == 0.0 {
            self.known.ratio[0] = 1.0;
            (self.known.per_round, self.recent, self.then) = (rate, [rate; 3], rate);
            if spent < self.segment_time() {
                return self.stay("too little is measured");
            }
        } else {
            self.glance = (rounds, spent);
            if !agree(rate, before) {
                self.known.per_round = rate;
                return self.stay("rounds cost something else than in the last call");
            }
        }
        self.first = self.known.per_round;
        self.start = self.known;
        self.go_on("as in the last call");
    }

    fn at_home(&mut self, rounds: f64, spent: f64) {
        self.push(spent / rounds);
        let (glanced, glance) = std::mem::take(&mut self.glance);
        if self.first == 0.0 && (glanced > 0.0 || self.start.per_round == 0.0) {
            self.first = self.known.per_round;
        }
        if self.book(glanced, glance) || self.book(rounds, spent) {
            return;
        }
        if agree(self.first, self.known.per_round) {
            self.start = self.known;
        } else {
            // The later rounds of the call say nothing about the first rounds of the next call.
            self.first = f64::NAN;
        }
        self.go_on("no other width is cheaper");
    }

    fn push(&mut self, rate: f64) {
        let [_, b, c] = self.recent;
        self.recent = [b, c, rate];
        self.known.per_round = b.max(c).min(b.min(c).max(rate));
    }

    /// Books rounds at home. If home has now cost more than one member would have, one member becomes home; then true.
    fn book(&mut self, rounds: f64, spent: f64) -> bool {
        let home = usize::from(self.known.home);
        let Some(ratio) = self.known.ratio(0).filter(|_| home > 0) else { return false };
        self.known.account.book(spent, ratio * self.known.per_round * rounds);
        let Account { spent, instead } = self.known.account;
        if spent <= instead {
            return false;
        }
        self.price = spent - instead;
        self.known.move_to(0, ratio);
        // The true cost counts, not the usual one.
        self.known.ratio[home] = (spent / instead) as f32;
        self.recent = [self.known.per_round; 3];
        self.first *= ratio;
        if agree(self.first, self.known.per_round) {
            self.start = self.known;
        } else if self.start.home > 0 {
            let ratio = self.start.ratio(0).unwrap_or(ratio);
            self.start.move_to(0, ratio);
        }
        self.run(Phase::Back { from: WIDER }, 0, FIRST, "it was stalled for longer than it had saved");
        true
    }

    fn entered(&mut self, to: usize, again: bool, rounds: f64, spent: f64) {
        self.price += spent - rounds * self.known.per_round;
        let wakes = self.direction(to) == WIDER;
        if spent <= self.next.deadline.0 {
            self.run(Phase::Measure { to }, to, 1.0, "another width is measured");
        } else if wakes && !again {
            // The cause may be the wake. That is paid for, so measure again.
            self.run(Phase::Enter { to, again: true }, to, FIRST, "its first rounds were slow");
        } else {
            self.lost(to, spent / rounds);
        }
    }

    fn measured(&mut self, to: usize, rounds: f64, spent: f64) {
        let instead = rounds * self.known.per_round;
        self.price += spent - instead;
        if spent >= instead {
            return self.lost(to, spent / rounds);
        }
        let direction = self.direction(to);
        let ratio = spent / instead;
        self.known.move_to(to, ratio);
        self.recent = [self.known.per_round; 3];
        self.glance = (0.0, 0.0);
        self.first *= ratio;
        if agree(self.first, self.known.per_round) {
            self.start = self.known;
        }
        self.pay(direction);
        self.stay("it was cheaper than the last one");
    }

    fn lost(&mut self, to: usize, rate: f64) {
        self.known.ratio[to] = (rate / self.known.per_round) as f32;
        let home = usize::from(self.known.home);
        self.run(Phase::Back { from: self.direction(to) }, home, FIRST, "another width was dearer");
    }

    /// Continues at home, or starts a try if one is due.
    fn go_on(&mut self, why: &'static str) {
        match self.due() {
            // If rounds have just become cheaper, any width would win now.
            Some(_) if !agree(self.recent[2], self.known.per_round) => self.stay("the last segment was another one"),
            Some(to) => self.run(Phase::Enter { to, again: false }, to, FIRST, "it is time to try another width"),
            None => self.stay(why),
        }
    }

    /// The level to try now, if any.
    fn due(&self) -> Option<usize> {
        let home = usize::from(self.known.home);
        let top = top(self.full);
        let wider = if home == 0 && self.known.ratio(top).is_none() { top } else { home + 1 };
        let wider = (home < top && self.is_due(WIDER)).then_some(wider);
        let narrower = if home > 0 && self.is_due(NARROWER) { Some(home - 1) } else { None };
        match (wider, narrower) {
            // An unknown level first, then the one not tried for longer.
            (Some(wider), Some(narrower)) => {
                let known = |level| self.known.ratio(level).is_some();
                let order = (known(wider), self.tried[WIDER].at) < (known(narrower), self.tried[NARROWER].at);
                Some(if order { wider } else { narrower })
            }
            (wider, narrower) => wider.or(narrower),
        }
    }

    fn stay(&mut self, why: &'static str) {
        self.run(Phase::Home, usize::from(self.known.home), 1.0, why);
    }

    fn is_due(&self, direction: usize) -> bool {
        let Tried { cost, at, .. } = self.tried[direction];
        let (since, soonest) = (self.ran - at, cost / SHARE[direction]);
        if since < soonest.max(PAUSE * self.segment_time()) {
            return false;
        }
        // Costs of the form work / width + barrier only change their order if home's cost changes by more than the gap between them.
        let change = (self.known.per_round / self.then).max(self.then / self.known.per_round);
        since >= (soonest / CALM).min(SOON) || change * change >= self.known.gap()
    }

    fn direction(&self, to: usize) -> usize {
        if to > usize::from(self.known.home) { WIDER } else { NARROWER }
    }

    /// The debt of tries in this direction.
    fn owed(&self, direction: usize) -> f64 {
        let Tried { cost, at, .. } = self.tried[direction];
        (cost - SHARE[direction] * (self.ran - at)).max(0.0)
    }

    fn pay(&mut self, direction: usize) {
        let cost = self.owed(direction) + self.price.max(0.0);
        self.tried[direction] = Tried { cost, at: self.ran, when: self.origin + self.ran };
        self.price = 0.0;
        self.then = self.known.per_round;
    }

    fn segment_time(&self) -> f64 {
        self.clock * LOOKS_IN_A_SEGMENT
    }

    fn run(&mut self, phase: Phase, level: usize, part: f64, why: &'static str) {
        let time = part * self.segment_time();
        let per_round = self.known.per_round;
        let rounds = if per_round > 0.0 { (time / per_round) as usize + 1 } else { 1 };
        let predicted = rounds as f64 * per_round;
        let deadline = match phase {
            Phase::Enter { .. } | Phase::Measure { .. } => predicted,
            Phase::Home | Phase::Back { .. } => 2.0 * predicted,
            Phase::Glance => 2.0 * time,
        };
        // Compared segments read the clock equally often.
        let every = if matches!(phase, Phase::Enter { .. }) { 1 } else { rounds.div_ceil(LOOKS_INSIDE) };
        self.phase = phase;
        self.why = why;
        self.next = Segment { width: width(level, self.full), rounds, deadline: Nanos(deadline), every };
    }
}

/// Whether two costs of a round differ by no more than a factor of two, as for the same work: see [`memory`](crate::memory).
fn agree(a: f64, b: f64) -> bool {
    a <= 2.0 * b && b <= 2.0 * a
}

#[cfg(test)]
mod tests;
