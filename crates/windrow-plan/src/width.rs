//! Width: number of members that run the next rounds of a team.
//!
//! ```text
//! run a segment of rounds at the best width, and measure it
//! when the budget allows: run a segment at a neighbouring width
//! if that was faster, it is the best width now
//! the cost of the segment beyond one at the best width is paid out of the site's account (`explore`)
//! ```
//!
//! The cost of a round is unknown and drifts. The cost of its barrier varies by four orders of magnitude with what else runs on the
//! machine. So widths are measured, and nothing is modelled. A *segment* is so long that the reads of the clock cost next to nothing.
//! Candidates are 1, 2, 4, .. and the full width.
//!
//! # Departures
//! Each figure is the time of a simulated machine (this module's tests; two members where nothing else is said) relative to that of the
//! best widths, without and with the mechanism.
//!
//! | | departure | without | with |
//! |---|---|---|---|
//! | 1 | the first rounds after a change of width do not count: they wake members and move data between caches | rounds that grow: 1.31 | 1.04 |
//! | 2 | if these rounds were slow, they are measured again, because the wake has been paid for | rounds that shrink: 1.95 | 1.02 |
//! | 3 | a segment at another width ends once it has taken longer than the best width would have | rounds of 10 ns: 1.08 | 1.02 |
//! | 4 | the full width is explored first, then neighbours of the best one | 64 members: 1.21 | 1.04 |
//! | 5 | the cost at the best width is the median of its last three segments | busy neighbour: 1.76 | 1.02 |
//! | 6 | *savings*: an account of the time at the best width, against that of one member, finds stalls | busy neighbour: 1.73 | 1.02 |
//! | 7 | four segments at the best width between two explorations | eight members with a neighbour: 0.92 of serial | 0.52 |
//! | 8 | a call begins with a quarter of a segment, to check the cost of its rounds | eight members with a neighbour: 0.70 | 0.52 |
//! | 9 | a call begins with the best width of the last call's beginning, because rounds may shrink | calls that shrink: 1.18 | 1.03 |
//! | 10 | if short calls agree, each is one segment | calls of 10 us: 1.67 | 1.02 |
//! | 11 | a debt of more than a segment lapses if a call begins with rounds of over twice the cost | rounds of 14 us after a stall in rounds of 0.5 us: 1.95 | 1.04 |
//! | 12 | a stall in an exploration does not count as the cost of its width | stalls in the rounds of one member, too: 1.15 | 1.01 |
//! | 13 | a debt lapses once it is 0.1 % of the time by the clock | a stall of 4 ms is risked again after 400 ms of rounds | also after 4 s |
//! | 14 | a stall is charged in shares that double: it is risked again after the time that it took, then after twice that | rounds of 0.4 ms after a stall: 2.01 | 1.02 |
//! | 15 | a call that has lost as much as its rest takes on one member finishes on one member | rounds of 0.4 ms after a stall: 1.09 | 1.02 |
//! | 16 | rounds that cost as much as where wider ones paid are explored at once, on a credit of four segments | rounds that grow to 3 us and shrink again, in 3 ms: 1.36 | 1.06 |
//!
//! On 4: with a barrier that costs more with more members, the cost of a round has one minimum. On 6: a member that loses its CPU stalls
//! a round for a time slice, and few segments show that. If a width has lost more than it has saved, one member becomes the best width,
//! and the loss is a debt.
//!
//! On 14: next to a neighbour that stalls two members every 3 ms, calls of 2 ms take 1.10 of serial with it, and 1.04 without. On 16: a stall
//! has to be paid for first.
//!
//! Three mechanisms showed no effect and were removed: longer pauses while nothing changes, exact costs of a width that was dropped, and
//! a debt for each direction. A debt that lapsed by what the rest of a call would win was replaced by 14.
//!
//! # Limits
//! Rounds that alternate between very different costs, each for longer than a segment, are sometimes compared wrongly; the account of 6
//! corrects that. If rounds suddenly become far cheaper, the last debt must be paid before the next exploration: about 1 ms. A machine that
//! stops all members at once is taken for one with a busy neighbour, because the tuner does not see which member was stopped.
//!
//! # Sources
//! To measure and choose between a sequential and a parallel version is the oracle-guided granularity of Acar, Charguéraud
//! and Rainey (OOPSLA 2011, JFP 2016). To explore as much as has been earned is the ski-rental rule (Karlin and others, 1988)
//! as an exploration budget, as for bandits whose arms change (Auer and others, 2002; Garivier and Moulines, 2011). Teams
//! of the members that are free are the moldable jobs of Feitelson and Rudolph (1996), as in OpenMP's dynamic teams.

mod stats;

pub use self::stats::WidthStats;
use self::stats::{CallTimes, Explored, Savings, WidthCosts, top, width};
use crate::Nanos;
use crate::estimate::{AGREE, TRUSTED, agree};
use crate::explore::Budget;
use crate::machine::Machine;

/// The next rounds of a team: `rounds` at `width`; or fewer, if the deadline passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Members that take part, between 1 and the full width.
    pub width: usize,
    /// Rounds to run before [`WidthTuner::report`]; 1 or more.
    pub rounds: usize,
    /// Report after the first read of the clock at or after this duration of the segment.
    pub deadline: Nanos,
    /// Rounds from one read of the clock to the next, between 1 and `rounds`.
    pub every: usize,
}

/// Reads of the clock within a segment, for the deadline.
///
/// Measure: count of clock reads in a segment.
const READS: usize = 10;
/// Share of a segment that runs after a change of width before the measurement: caches are warm after some rounds.
///
/// Measure: share of a segment.
const ENTER: f64 = 1.0 / 8.0;
/// Share of a segment that checks if a call's rounds have the cost of those of the last call.
///
/// Measure: share of a segment.
const CHECK: f64 = 1.0 / 4.0;
/// Minimum number of segments at the best width between two explorations. Calls of up to this number are short: they leave no time for a comparison
/// of widths within the call.
///
/// Measure: 4 segments.
const PAUSE: f64 = 4.0;
/// The shortest stall: a member that loses its CPU is away for about a time slice.
///
/// Measure: share of a time slice.
const STALL: f64 = 1.0 / 4.0;
/// The shortest round, in nanoseconds.
///
/// Measure: chosen, no round is faster.
const SHORTEST: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The first rounds of a call.
    Check,
    /// At the best width.
    Best,
    /// The first rounds at another width; `again` if they run for the second time.
    Enter { to: usize, again: bool },
    /// A segment at another width.
    Measure { to: usize },
    /// The first rounds back at the best width.
    Return,
    /// The rest of the call, on one member.
    Finish,
}

/// Chooses the width of rounds while they run: see the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::width::{WidthStats, WidthTuner};
///
/// // Rounds of 10 us that take 5.2 us at width 2.
/// let mut tuner = WidthTuner::new(2, &Machine::example(), WidthStats::default(), Nanos(0.0));
/// let mut wide = 0;
/// for _ in 0..1000 {
///     let segment = tuner.segment();
///     let per_round = if segment.width == 2 { 5200.0 } else { 10_000.0 };
///     wide += if segment.width == 2 { segment.rounds } else { 0 };
///     tuner.report(segment.rounds, Nanos(per_round * segment.rounds as f64));
/// }
/// assert!(wide > 3500);
/// assert!(tuner.account().starts_with("width 2: "));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WidthTuner {
    full: usize,
    /// Duration of a segment. Then: the time over which savings are forgotten.
    segment: f64,
    memory: f64,
    /// The shortest stall.
    stall: f64,
    costs: WidthCosts,
    /// Time per round of the last three segments at the best width.
    recent: [f64; 3],
    phase: Phase,
    next: Segment,
    why: &'static str,
    /// The cost of the exploration so far.
    price: f64,
    /// Time per round when the call began; 0 if unknown, not a number if rounds cost something else by now.
    first: f64,
    /// The first rounds of the call and their time, booked once their expected time is known.
    checked: (f64, f64),
    ran: f64,
    explored: Explored,
    /// Rounds that are left in the call; infinite if unknown.
    left: f64,
    /// Time that wider rounds of this call took beyond that of one member.
    lost: f64,
    /// The difference between the time by the clock and the time run.
    origin: f64,
    start: WidthCosts,
    calls: CallTimes,
    /// This call's rounds and their time, while all ran at the best width.
    call: Option<(f64, f64)>,
}

impl WidthTuner {
    /// A call of a team of `full` members (1 or more) begins `now`.
    pub fn new(full: usize, machine: &Machine, stats: WidthStats, now: Nanos) -> Self {
        let full = full.max(1);
        let WidthStats { mut costs, calls, ran, mut explored, .. } = stats.of(full);
        explored.lapse(ran, now);
        let short = calls.alike >= TRUSTED;
        if short {
            costs.per_round = calls.per_round;
        }
        let mut tuner = WidthTuner {
            full,
            segment: machine.segment().0.max(1.0),
            memory: machine.stalls().0,
            stall: STALL * machine.slice.0,
            costs,
            recent: [costs.per_round; 3],
            phase: Phase::Check,
            next: Segment { width: 1, rounds: 1, deadline: Nanos(0.0), every: 1 },
            why: "",
            price: 0.0,
            first: if short { costs.per_round } else { 0.0 },
            checked: (0.0, 0.0),
            ran,
            explored,
            left: f64::INFINITY,
            lost: 0.0,
            origin: now.0 - ran,
            start: costs,
            calls,
            call: Some((0.0, 0.0)),
        };
        if short {
            let to = tuner.due();
            let why = "short calls are compared as a whole";
            tuner.run(to.map_or(Phase::Best, |to| Phase::Measure { to }), to.unwrap_or(costs.best()), PAUSE, why);
        } else {
            let why = if costs.per_round > 0.0 { "as in the last call" } else { "nothing has been measured yet" };
            tuner.run(Phase::Check, costs.best(), CHECK, why);
        }
        tuner
    }

    /// The next rounds.
    #[inline]
    pub fn segment(&self) -> Segment {
        self.next
    }

    /// Sets the number of rounds that are left in the call, those of the [`segment`](Self::segment) included.
    #[must_use]
    pub fn with_left(mut self, rounds: usize) -> Self {
        self.left = rounds as f64;
        self
    }

    /// Reports `rounds` rounds of the [`segment`](Self::segment) that took `elapsed` in all. Returns the next one. (`rounds` is less than
    /// the segment's if its deadline has passed; if it is 0, nothing changes.)
    pub fn report(&mut self, rounds: usize, elapsed: Nanos) -> Segment {
        if rounds == 0 {
            return self.next;
        }
        let rounds = rounds as f64;
        // A minimum per round and a maximum in all, so that the sums stay finite.
        let spent = elapsed.0.max(SHORTEST * rounds).min(1e15);
        self.ran += spent;
        self.left -= rounds;
        let alone = self.costs.ratio(0).unwrap_or(0.0) * self.costs.per_round;
        if self.next.width > 1 {
            self.lost += spent - rounds * alone;
        }
        self.explored.budget = self.explored.budget.earn(Nanos(spent));
        self.call = match self.phase {
            Phase::Check | Phase::Best => self.call.map(|(all, time)| (all + rounds, time + spent)),
            _ => None,
        };
        match self.phase {
            Phase::Check => self.after_check(rounds, spent),
            Phase::Best => self.after_best(rounds, spent),
            Phase::Enter { to, again } => self.after_enter(to, again, rounds, spent),
            Phase::Measure { to } => self.after_measure(to, rounds, spent),
            Phase::Return => {
                self.price += spent - rounds * self.costs.per_round;
                self.pay();
                self.stay("no other width is faster");
            }
            Phase::Finish => {}
        }
        if self.phase != Phase::Finish && self.lost > self.segment && self.lost >= self.left * alone {
            let rounds = (self.left as usize).max(1);
            self.phase = Phase::Finish;
            self.why = "the call has lost as much as the rest of it is worth";
            self.next = Segment { width: 1, rounds, deadline: Nanos(f64::MAX), every: rounds };
        }
        self.next
    }

    /// The last report of a call, of an unfinished segment (0 rounds if it was finished). Returns the statistics for the next call.
    pub fn end(mut self, rounds: usize, elapsed: Nanos) -> WidthStats {
        self.report(rounds, elapsed);
        let (rounds, spent) = self.checked;
        if rounds > 0.0 && matches!(self.phase, Phase::Check | Phase::Best) {
            // A call of a few rounds: no later segment has measured their cost, so book them against the cost known before.
            self.costs.per_round = self.start.per_round;
            if !self.book(rounds, spent) {
                self.start.savings = self.costs.savings;
            }
        }
        // An exploration that has not begun costs nothing.
        if self.price != 0.0 {
            self.pay();
        }
        let WidthTuner { full, segment, start, ran, explored, mut calls, .. } = self;
        if let Some((rounds, spent)) = self.call.filter(|call| call.0 > 0.0) {
            let per_round = spent / rounds;
            let alike = spent < PAUSE * segment && agree(per_round, calls.per_round);
            calls = CallTimes { per_round, alike: if alike { (calls.alike + 1).min(TRUSTED) } else { 0 } };
        }
        WidthStats { full, costs: start, calls, ran, explored }
    }

    /// The choice in words: the width of the [`segment`](Self::segment), the reason, and the numbers behind it.
    pub fn account(&self) -> String {
        let (full, best, why) = (self.full, width(self.costs.best(), self.full), self.why);
        let (per_round, ran, debt) = (Nanos(self.costs.per_round), Nanos(self.ran), self.debt());
        format!(
            "width {}: {why} ({full} members, best width {best} at {per_round} per round, {ran} run, {debt} of debt)",
            self.next.width
        )
    }

    fn after_check(&mut self, rounds: f64, spent: f64) {
        let rate = spent / rounds;
        let before = self.costs.per_round;
        self.push(rate);
        if before == 0.0 {
            self.costs.ratio[0] = 1.0;
            (self.costs.per_round, self.recent) = (rate, [rate; 3]);
            if spent < self.segment {
                return self.stay("too little has been measured");
            }
        } else {
            self.checked = (rounds, spent);
            if !agree(rate, before) {
                self.costs.per_round = rate;
                if rate > before {
                    self.owe(self.explored.budget.owing_at_most(Nanos(self.segment)));
                }
                return self.stay("rounds do not cost what they did in the last call");
            }
        }
        self.first = self.costs.per_round;
        self.start = self.costs;
        self.go_on("as in the last call");
    }

    fn after_best(&mut self, rounds: f64, spent: f64) {
        self.push(spent / rounds);
        let (checked, check) = std::mem::take(&mut self.checked);
        if self.first == 0.0 && (checked > 0.0 || self.start.per_round == 0.0) {
            self.first = self.costs.per_round;
        }
        if self.book(checked, check) || self.book(rounds, spent) {
            return;
        }
        if agree(self.first, self.costs.per_round) {
            self.start = self.costs;
        } else {
            // The later rounds of the call say nothing about the first rounds of the next call.
            self.first = f64::NAN;
        }
        self.go_on("no other width is faster");
    }

    fn push(&mut self, rate: f64) {
        let [_, b, c] = self.recent;
        self.recent = [b, c, rate];
        self.costs.per_round = b.max(c).min(b.min(c).max(rate));
    }

    /// Books rounds at the best width. If the account shows a higher cost than one member would have had, moves to one member and returns
    /// true.
    fn book(&mut self, rounds: f64, spent: f64) -> bool {
        let Some(ratio) = self.costs.ratio(0).filter(|_| self.costs.best() > 0) else { return false };
        self.costs.savings.book(spent, ratio * self.costs.per_round * rounds, self.memory);
        let Savings { spent, serial } = self.costs.savings;
        if spent <= serial {
            return false;
        }
        self.price = spent - serial;
        self.moves_to(0, ratio);
        if self.start.best() > 0 && !agree(self.first, self.costs.per_round) {
            let ratio = self.start.ratio(0).unwrap_or(ratio);
            self.start.move_to(0, ratio);
        }
        self.run(Phase::Return, 0, ENTER, "stalls cost more than it had saved");
        true
    }

    fn after_enter(&mut self, to: usize, again: bool, rounds: f64, spent: f64) {
        self.price += spent - rounds * self.costs.per_round;
        if spent <= self.next.deadline.0 {
            self.run(Phase::Measure { to }, to, 1.0, "another width is being measured");
        } else if to > self.costs.best() && !again && !self.is_stall(self.price) {
            // The cause may be the wake. It has been paid for, so measure again.
            self.run(Phase::Enter { to, again: true }, to, ENTER, "its first rounds were slow");
        } else {
            self.lost(to, spent / rounds);
        }
    }

    fn after_measure(&mut self, to: usize, rounds: f64, spent: f64) {
        let instead = rounds * self.costs.per_round;
        self.price += spent - instead;
        if spent >= instead {
            return self.lost(to, spent / rounds);
        }
        self.checked = (0.0, 0.0);
        self.finds(to > self.costs.best(), to, spent / rounds);
        self.moves_to(to, spent / instead);
        self.pay();
        self.stay("it was faster than the last one");
    }

    /// Rounds at the level `to` took `rate` each, and the wider of that and the best width was the faster one, or not.
    fn finds(&mut self, wider_pays: bool, to: usize, rate: f64) {
        // The cost known may be that of earlier rounds.
        let most = width(to, self.full) as f64 * rate;
        let alone = (self.costs.ratio(0).unwrap_or(1.0) * self.costs.per_round).min(most);
        let pays = &mut self.explored.pays;
        if wider_pays {
            *pays = pays.min(alone);
        } else if pays.is_finite() {
            *pays = pays.max(AGREE * alone);
        }
    }

    /// Makes `to` the best width; it costs `ratio` times what the last one did.
    fn moves_to(&mut self, to: usize, ratio: f64) {
        if to > self.costs.best() {
            self.explored.entered = self.ran;
        }
        self.costs.move_to(to, ratio);
        self.recent = [self.costs.per_round; 3];
        self.first *= ratio;
        if agree(self.first, self.costs.per_round) {
            self.start = self.costs;
        }
    }

    fn lost(&mut self, to: usize, rate: f64) {
        if !self.is_stall(self.price) {
            self.finds(to < self.costs.best(), to, rate);
        }
        let ratio = rate / self.costs.per_round;
        // More than double is a stall: it says nothing about the rounds.
        if self.costs.ratio(to).is_none_or(|known| ratio <= AGREE * known) {
            self.costs.ratio[to] = ratio as f32;
        }
        self.run(Phase::Return, self.costs.best(), ENTER, "another width was slower");
    }

    /// Explores if that is due; otherwise continues at the best width.
    fn go_on(&mut self, why: &'static str) {
        match self.due() {
            Some(to) => self.run(Phase::Enter { to, again: false }, to, ENTER, "another width is due"),
            None => self.stay(why),
        }
    }

    /// The level to explore now, if any: an unmeasured neighbour first, then the direction that was not explored last.
    fn due(&mut self) -> Option<usize> {
        // Known to pay at this cost of a round. A stall must have been paid for.
        let is_known =
            self.costs.best() == 0 && self.costs.per_round >= self.explored.pays && !self.explored.is_stalled();
        let (credit, pause) = if is_known { (PAUSE, 1.0) } else { (0.0, PAUSE) };
        if self.debt().0 > credit * self.segment || self.ran - self.explored.at < pause * self.segment {
            return None;
        }
        let (best, top) = (self.costs.best(), top(self.full));
        let known = |level| self.costs.ratio(level).is_some();
        let wider = (best < top).then_some(if best == 0 && !known(top) { top } else { best + 1 });
        let to = match (wider, best.checked_sub(1)) {
            (Some(wider), Some(narrower)) => {
                let order = (known(wider), self.explored.wider) < (known(narrower), !self.explored.wider);
                Some(if order { wider } else { narrower })
            }
            (wider, narrower) => wider.or(narrower),
        }?;
        self.explored.wider = to > best;
        Some(to)
    }

    fn stay(&mut self, why: &'static str) {
        self.run(Phase::Best, self.costs.best(), 1.0, why);
    }

    fn debt(&self) -> Nanos {
        self.explored.budget.debt()
    }

    fn pay(&mut self) {
        let mut price = std::mem::take(&mut self.price);
        if self.is_stall(price) {
            let entered = if self.costs.best() > 0 { self.ran } else { f64::INFINITY };
            let lasted = self.ran - std::mem::replace(&mut self.explored.entered, entered);
            price = self.explored.stalls.charge(price, lasted);
        }
        self.owe(self.explored.budget.pay(Nanos(price)));
    }

    /// True if rounds at another width that cost `price` more were stalled: a member has lost its CPU.
    fn is_stall(&self, price: f64) -> bool {
        price > self.stall && price > PAUSE * self.costs.per_round
    }

    /// The account from now on. A debt lapses from now on, too, so that no time counts for two debts.
    fn owe(&mut self, budget: Budget) {
        self.explored = Explored { budget, at: self.ran, when: self.origin + self.ran, ..self.explored };
    }

    fn run(&mut self, phase: Phase, level: usize, part: f64, why: &'static str) {
        let time = part * self.segment;
        let per_round = self.costs.per_round;
        let rounds = if per_round > 0.0 { (time / per_round) as usize + 1 } else { 1 };
        let predicted = rounds as f64 * per_round;
        let deadline = match phase {
            Phase::Enter { .. } | Phase::Measure { .. } => predicted,
            Phase::Best | Phase::Return | Phase::Finish => AGREE * predicted,
            Phase::Check => AGREE * time,
        };
        // Compared segments read the clock equally often.
        let every = if matches!(phase, Phase::Enter { .. }) { 1 } else { rounds.div_ceil(READS) };
        self.phase = phase;
        self.why = why;
        self.next = Segment { width: width(level, self.full), rounds, deadline: Nanos(deadline), every };
    }
}

#[cfg(test)]
mod tests;
