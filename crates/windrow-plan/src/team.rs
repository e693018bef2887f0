//! How many members run the next rounds of a team, and how many to ask for.
//!
//! A round of [`Rhythm`] can be run at any width up to the full one; who does not take part waits for the next wide round. What a round
//! costs is not known before and drifts; what its barrier costs varies by four orders of magnitude with what else runs on the
//! machine. So nothing is modelled: rounds are run in *segments*, long enough for the look at the clock to cost nothing, and the width
//! that lately was cheapest is *home*. Other widths are *tried*, and compared with home as it is just then:
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
//! - **Candidates** are 1, 2, 4, .. and the full width. After the first try, which is the full width against one member, only
//!   neighbours of home are tried: with a barrier that gets dearer with the width, the cost of a round has one minimum.
//! - **First rounds** after a change of width wake sleepers and move data between caches. They belong to the price of trying, not to
//!   the cost of the width.
//! - **A try ends early** as soon as it has taken longer than home would have taken for all of it: it cannot win any more
//!   ([`Segment::deadline`]). A wake that has been paid for is no reason to leave: what it cost is gone.
//! - **The price of a try** is what it took, both changes included, beyond what home would have. The next one in that direction comes
//!   when all of it is no more than 2 % of the time run since (wider) or 1 % (narrower). So what is lost by trying is bounded by
//!   3 % of the time run, whatever rounds cost, beside the last try in each direction; and one that nearly wins is soon repeated. A
//!   quarter of that is spent as long as home costs what it did: for the order to change, home's cost must change too, or the weather.
//! - **Bad weather**: a partner that loses its CPU stalls a round for a time slice, and one segment in a hundred says nothing of that. So
//!   home has an account: what it took lately, against what one member would have, who waits for nobody. A width that has just won has
//!   saved nothing yet, so its first stall drives it out; one that has saved as much stays. What the account then lacks is a price
//!   like that of a try: a stall of 4 ms is not risked again for 200 ms of rounds.
//! - **Short calls** leave no time to compare anything inside. When they cost the same in a row, they are compared as a whole: one call at
//!   home, or one at another width.
//!
//! - **Standing alone**: when calls in a row cost the same, were one member's, and no try is due before the next one ends, the others need not
//!   come at all ([`Memory::stands_alone`]). On a machine with a neighbour they are late not only in rounds but also to leave: a call of
//!   5 ms took 9 ms.
//!
//! **Recovery**: when the neighbour has gone, a wider width is tried after at most `price / 2 %` of time in rounds (200 ms for 4 ms), or
//! 100 ms if that is longer; or after `price / 0.1 %` of time in all (4 s). All this is carried from call to call by [`Memory`].
//!
//! What cannot be seen: rounds of very different cost in turn, each longer than a segment, are compared wrongly now and then; the account
//! corrects that, and it is paid for like any try. When rounds become far cheaper at once, the price of the last try must be earned first:
//! about 1 ms. Whether a stall hit the member that leads or one that it waited for is not known either, so a machine that stops all
//! members alike for longer than they have saved lately is taken for one with a neighbour.
//!
//! Sources: that the runtime measures and chooses between a sequential and a parallel version is the oracle-guided granularity of Acar,
//! Charguéraud and Rainey (OOPSLA 2011, JFP 2016); to pay as much for trying as has been earned since is the ski-rental rule (Karlin
//! and others, 1988) in the form of an exploration budget, as for bandits whose arms change (Auer and others, 2002; Garivier and
//! Moulines, 2011); teams that take who is free are the moldable jobs of Feitelson and Rudolph (1996), as in OpenMP's dynamic teams.

mod formation;
mod memory;

use std::fmt;

use memory::{Account, Alone, Calls, Known, LEVELS, Tried, top, width};

pub use self::formation::{Formation, Free, formation};
pub use self::memory::Memory;
use crate::{Alternative, Alternatives, Decision, Nanos};

/// What to run next: `rounds` rounds at `width`; or fewer, if the deadline passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Members that take part, between 1 and the full width.
    pub width: usize,
    /// Rounds to run before [`Rhythm::report`], at least 1.
    pub rounds: usize,
    /// Report after the first look at the clock that finds the segment to have lasted this long.
    pub deadline: Nanos,
    /// Look at the clock every so many rounds, between 1 and `rounds`.
    pub every: usize,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.rounds == 1 { "" } else { "s" };
        write!(f, "{} round{plural} at width {}", self.rounds, self.width)
    }
}

/// What [`Rhythm`] decided from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Members of the team.
    pub full: usize,
    /// The width that lately was cheapest.
    pub home: usize,
    /// What a round takes at that width; 0 if nothing was measured.
    pub per_round: Nanos,
    /// Time run so far, in all calls that share a memory.
    pub ran: Nanos,
    /// What the last tries cost and has not been earned yet.
    pub owed: Nanos,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standing { full, home, per_round, ran, owed } = self;
        write!(f, "{full} members, at home with {home}, {per_round} a round, {ran} run, {owed} owed")
    }
}

/// A segment lasts as long as this many looks at the clock: 25 us, as a look takes 10 ns and [`Rhythm::report`] 27 ns where measured. The two
/// are then 0.15 % of it, and two segments agree within a percent.
const LOOKS_IN_A_SEGMENT: f64 = 2500.0;
/// So many of these are inside, for the deadline (0.4 %).
const LOOKS_INSIDE: usize = 10;
/// Part of a segment that is run after a change of width before it is measured: caches are warm after some rounds.
const FIRST: f64 = 1.0 / 8.0;
/// Part of a segment that tells whether a call's rounds cost what they did in the last call.
const GLANCE: f64 = 1.0 / 4.0;
/// Segments in a call, up to which there is no time in it to compare anything; so calls are compared as a whole.
const SHORT: f64 = 2.0;
/// If so many in a row agreed.
const ALIKE: u8 = 2;
/// Segments at home between two tries, at least: one in five is no time to lose for widths that cost nearly the same.
const PAUSE: f64 = 4.0;
/// Of the time run, what trying wider and narrower may cost: together the 3 % promised. Narrower ones wake nobody, so less will do.
const SHARE: [f64; 2] = [0.02, 0.01];
/// Part of that which is spent while nothing has changed.
const CALM: f64 = 0.25;
/// Unless that takes longer than this: what was too dear once because of the weather is to come back soon.
const SOON: f64 = 100e6;
/// Of all time, rounds or not, what being driven out may cost: weather of some seconds ago is none to rely on.
const SHARE_OF_ALL: f64 = 0.001;

/// Directions of a try, and indices into what belongs to them.
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
        /// They were slow, perhaps because of a wake.
        again: bool,
    },
    /// A try.
    Measure {
        to: usize,
    },
    /// The first rounds at home after a try that lost, or after being driven out; the price goes to this direction.
    Back {
        from: usize,
    },
}

/// Chooses the width of rounds while they run: see the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Memory, Rhythm};
///
/// // Rounds of 10 us that take 5.2 us at width 2.
/// let mut rhythm = Rhythm::new(2, Nanos(10.0), Memory::new(), Nanos(0.0));
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
pub struct Rhythm {
    full: usize,
    clock: f64,
    known: Known,
    /// What the last three segments at home took a round: the one in the middle counts.
    recent: [f64; 3],
    phase: Phase,
    next: Segment,
    why: &'static str,
    /// The price of the try so far.
    price: f64,
    /// What a round took at home when a try last ended.
    then: f64,
    /// What it took when the call began; 0 if that is not known, or long past.
    first: f64,
    /// The first rounds of the call, booked when it is known what they should have taken.
    glance: (f64, f64),
    ran: f64,
    tried: [Tried; 2],
    /// What to add to the time run for the time by the clock.
    origin: f64,
    start: Known,
    calls: Calls,
    alone: Alone,
    /// All rounds of this call, and the time run when it began.
    rounds: f64,
    began: f64,
    /// This call's rounds and their time, while all were run at home.
    call: Option<(f64, f64)>,
}

impl Rhythm {
    /// A call of a team of `full` members (at least 1) begins `now`. `clock` is what a look at the clock takes.
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
        let mut rhythm = Rhythm {
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

    /// After `rounds` rounds of the [`segment`](Self::segment), which took `elapsed` in all; what to run next. (Less than the segment if its
    /// deadline passed; nothing changes if there were none.)
    pub fn report(&mut self, rounds: usize, elapsed: Nanos) -> Segment {
        if rounds == 0 {
            return self.next;
        }
        let rounds = rounds as f64;
        // No round takes less than this, and what is added up stays finite.
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

    /// The last report of a call, of a segment that it did not finish (0 rounds if it did), and what to keep for the next one.
    pub fn end(mut self, rounds: usize, elapsed: Nanos) -> Memory {
        self.report(rounds, elapsed);
        let (rounds, spent) = self.glance;
        if rounds > 0.0 && matches!(self.phase, Phase::Glance | Phase::Home) {
            // A call of a few rounds: all that can be said is what they should have taken.
            self.known.per_round = self.start.per_round;
            if !self.book(rounds, spent) {
                self.start.account = self.known.account;
            }
        }
        match self.phase {
            Phase::Glance | Phase::Home => {}
            // A try that was next and has not begun has no price.
            _ if self.price == 0.0 => {}
            Phase::Enter { to, .. } | Phase::Measure { to } => self.pay(self.direction(to)),
            Phase::Back { from } => self.pay(from),
        }
        let Rhythm { full, start, ran, tried, mut calls, mut alone, .. } = self;
        if self.rounds > 0.0 {
            let alone_throughout = start.home == 0 && self.known.home == 0;
            alone = if alone_throughout { alone.then(self.rounds, ran - self.began) } else { Alone::default() };
        }
        if let Some((rounds, spent)) = self.call.filter(|call| call.0 > 0.0) {
            let per_round = spent / rounds;
            let alike = spent < SHORT * self.segment_time() && agree(per_round, calls.per_round);
            calls = Calls { per_round, alike: if alike { (calls.alike + 1).min(ALIKE) } else { 0 } };
        }
        Memory { full, known: start, calls, alone, ran, tried }
    }

    /// The [`segment`](Self::segment) as a decision. Its alternatives are one member, home and its neighbours, as far as they were measured, and
    /// what so many rounds are predicted to take.
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
            // The call's later rounds say nothing of the next call's first ones.
            self.first = f64::NAN;
        }
        self.go_on("no other width is cheaper");
    }

    fn push(&mut self, rate: f64) {
        let [_, b, c] = self.recent;
        self.recent = [b, c, rate];
        self.known.per_round = b.max(c).min(b.min(c).max(rate));
    }

    /// Books rounds at home. If by that it has cost more than one member would have: back to that, and true.
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
        // What it has really cost counts, not what it mostly does.
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
            // It may have been the wake. That is paid for, so look again.
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

    /// Home again, or a try if one is due.
    fn go_on(&mut self, why: &'static str) {
        match self.due() {
            // If rounds have just become cheaper, any width would win now.
            Some(_) if !agree(self.recent[2], self.known.per_round) => self.stay("the last segment was another one"),
            Some(to) => self.run(Phase::Enter { to, again: false }, to, FIRST, "it is time to try another width"),
            None => self.stay(why),
        }
    }

    /// The level to be tried now, if any.
    fn due(&self) -> Option<usize> {
        let home = usize::from(self.known.home);
        let top = top(self.full);
        let wider = if home == 0 && self.known.ratio(top).is_none() { top } else { home + 1 };
        let wider = (home < top && self.is_due(WIDER)).then_some(wider);
        let narrower = if home > 0 && self.is_due(NARROWER) { Some(home - 1) } else { None };
        match (wider, narrower) {
            // What is not known first, then what was not tried for longer.
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
        // Costs of the form work / width + barrier change their order only if home changes by more than the gap between them.
        let change = (self.known.per_round / self.then).max(self.then / self.known.per_round);
        since >= (soonest / CALM).min(SOON) || change * change >= self.known.gap()
    }

    fn direction(&self, to: usize) -> usize {
        if to > usize::from(self.known.home) { WIDER } else { NARROWER }
    }

    /// What is left of the price of tries in this direction.
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
        // What is compared looks at the clock equally often.
        let every = if matches!(phase, Phase::Enter { .. }) { 1 } else { rounds.div_ceil(LOOKS_INSIDE) };
        self.phase = phase;
        self.why = why;
        self.next = Segment { width: width(level, self.full), rounds, deadline: Nanos(deadline), every };
    }
}

/// Costs of rounds within a factor of two are those of the same work: see [`memory`](crate::memory).
fn agree(a: f64, b: f64) -> bool {
    a <= 2.0 * b && b <= 2.0 * a
}

#[cfg(test)]
mod tests;
