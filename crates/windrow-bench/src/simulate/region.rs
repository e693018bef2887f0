//! The members of one region, step by step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use windrow_plan::Nanos;

use super::lines::{LineState, Lines};
use super::{Claim, Claimed, Draw, Join, Joining, Machine, Policy, RunOutcome, Time, Victim, Work, nanos, time};

/// The claims of the recorded tables: a claim costs 25 ns.
fn planned() -> windrow_plan::machine::Machine {
    windrow_plan::machine::Machine::guess(Nanos(25.0))
}

/// The word of the gate: this flag if it is open, plus the number of members inside, without the lead.
const OPEN: u64 = 1 << 63;

fn pack(lo: u32, hi: u32) -> u64 {
    u64::from(lo) << 32 | u64::from(hi)
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn held(word: u64) -> u32 {
    let (lo, hi) = unpack(word);
    hi.saturating_sub(lo)
}

/// The next step of a member.
#[derive(Clone, Copy)]
enum SimulatedStep {
    /// It reaches the gate.
    Arrive,
    /// It has seen the gate open.
    Join { seen: u64 },
    /// It is in.
    Start,
    /// It has read the clock, and claims.
    Claim,
    /// It loads its own word without reading the clock.
    Look,
    /// It has loaded its own word.
    Take { seen: u64 },
    /// It searches for a victim.
    Search(Search),
    /// It has chosen a victim.
    Steal { victim: usize, seen: u64 },
    /// It has stolen these items and puts them into its own word.
    Put { lo: u32, hi: u32 },
    /// It has found nothing to steal.
    Leave,
}

/// A search for a victim, in batches of loads that overlap.
#[derive(Clone, Copy)]
struct Search {
    kind: Victim,
    /// The first word searched, and the number of words inspected so far.
    from: usize,
    looked: usize,
    /// The thief takes the fullest of the first `window` words, or else the first nonempty word behind them.
    window: usize,
    /// Number of words in the next batch.
    batch: usize,
    best: Option<(usize, u64)>,
}

/// A member's next step, and when it is due.
type Next = (Time, SimulatedStep);

struct SimulatedMember {
    step: SimulatedStep,
    draw: Draw,
    /// When its last item ended.
    idle: Time,
    /// When it last read the clock, and the number of items since.
    since: Time,
    items: u32,
    /// Its estimate of the nanoseconds per item.
    per_item: f64,
}

pub(super) struct Region<'a> {
    work: &'a Work,
    machine: &'a Machine,
    policy: &'a Policy,
    clock: Time,
    wake_call: Time,
    wake: Time,
    words: Lines,
    gate: Lines,
    members: Vec<SimulatedMember>,
    /// The first member that has not been woken yet.
    asleep: usize,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: u64,
    makespan: Time,
    working: Time,
    claiming: Time,
    outcome: RunOutcome,
}

impl<'a> Region<'a> {
    pub(super) fn new(
        work: &'a Work,
        members: usize,
        machine: &'a Machine,
        policy: &'a Policy,
        seed: u64,
    ) -> Region<'a> {
        let at = |i: usize| (u64::from(work.len()) * i as u64 / members as u64) as u32;
        // The lead has measured the cost of an item and publishes it for all.
        let per_item = work.total().0 / f64::from(work.len().max(1));
        let member = |number: usize| SimulatedMember {
            step: SimulatedStep::Start,
            draw: Draw(seed ^ (number as u64) << 32),
            idle: 0,
            since: 0,
            items: 0,
            per_item,
        };
        Region {
            words: Lines::new(machine, (0..members).map(|i| pack(at(i), at(i + 1)))),
            gate: Lines::new(machine, [0].into_iter()),
            members: (0..members).map(member).collect(),
            asleep: members,
            queue: BinaryHeap::new(),
            events: 0,
            makespan: 0,
            working: 0,
            claiming: 0,
            outcome: RunOutcome { members, ideal: work.ideal(members), joined: 1, ..RunOutcome::default() },
            clock: time(machine.clock),
            wake_call: time(machine.wake_call),
            wake: time(machine.wake),
            work,
            machine,
            policy,
        }
    }

    pub(super) fn run(mut self, claimed: &mut impl FnMut(Claimed)) -> RunOutcome {
        self.open();
        while let Some(Reverse((mut now, _, member))) = self.queue.pop() {
            // While no other member is due, the member continues without passing through the queue.
            while let Some((then, step)) = self.step(member, now, claimed) {
                self.members[member].step = step;
                if self.queue.peek().is_some_and(|Reverse((due, ..))| *due <= then) {
                    self.at(then, member);
                    break;
                }
                now = then;
            }
        }
        RunOutcome {
            makespan: nanos(self.makespan),
            working: nanos(self.working),
            claiming: nanos(self.claiming),
            transfers: self.words.transfers,
            ..self.outcome
        }
    }

    fn at(&mut self, then: Time, member: usize) {
        self.events += 1;
        self.queue.push(Reverse((then, self.events, member)));
    }

    /// The lead publishes at time 0.
    fn open(&mut self) {
        let others = 1..self.members.len();
        let start = match self.policy.entry {
            Joining::Present => {
                self.outcome.joined = self.members.len();
                others.for_each(|member| self.at(0, member));
                0
            }
            Joining::Awake => {
                // All members spin on the word, so opening it invalidates their copies.
                for member in others.clone() {
                    self.gate.load(0, member, 0);
                    self.members[member].step = SimulatedStep::Arrive;
                }
                let opened = self.gate.update(0, 0, 0, |word| Some(word | OPEN)).done;
                others.for_each(|member| self.at(0, member));
                opened
            }
            Joining::Asleep { .. } => {
                self.asleep = 1;
                let opened = self.gate.update(0, 0, 0, |word| Some(word | OPEN)).done;
                self.wake(opened, 1)
            }
        };
        self.at(start, 0);
    }

    /// Wakes up to `fan` parked members. Returns when the last wake call returns.
    fn wake(&mut self, mut now: Time, fan: usize) -> Time {
        for _ in 0..fan.max(1) {
            if self.asleep < self.members.len() {
                self.members[self.asleep].step = SimulatedStep::Arrive;
                self.at(now + self.wake, self.asleep);
                self.asleep += 1;
                now += self.wake_call;
            }
        }
        now
    }

    /// Performs the current step of `member`. Returns its next step and when it is due; nothing if it has left.
    fn step(&mut self, member: usize, now: Time, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        match self.members[member].step {
            SimulatedStep::Arrive => {
                let seen = self.gate.load(0, member, now);
                self.found(seen.value, seen.done)
            }
            SimulatedStep::Join { seen } => {
                let found = match self.policy.join {
                    Join::Exchange => self.gate.exchange(0, member, now, seen, seen + 1),
                    Join::Add => self.gate.update(0, member, now, |word| (word & OPEN != 0).then_some(word + 1)),
                };
                let joined = match self.policy.join {
                    Join::Exchange => found.value == seen,
                    Join::Add => found.value & OPEN != 0,
                };
                if !joined {
                    return self.found(found.value, found.done);
                }
                self.outcome.joined += 1;
                let start = match self.policy.entry {
                    Joining::Asleep { fan } => self.wake(found.done, fan),
                    Joining::Awake | Joining::Present => found.done,
                };
                Some((start, SimulatedStep::Start))
            }
            SimulatedStep::Start => {
                let it = &mut self.members[member];
                (it.idle, it.since) = (now, now + self.clock);
                Some((now + self.clock, SimulatedStep::Look))
            }
            SimulatedStep::Claim => {
                self.measure(member, now);
                self.look(member, now, claimed)
            }
            SimulatedStep::Look => self.look(member, now, claimed),
            SimulatedStep::Take { seen } => self.take(member, now, seen, claimed),
            SimulatedStep::Search(search) => Some(self.search(member, now, search)),
            SimulatedStep::Steal { victim, seen } => Some(self.steal(member, now, victim, seen)),
            // Unconditional: no other member writes an empty word.
            SimulatedStep::Put { lo, hi } => {
                let put = self.words.update(member, member, now, |_| Some(pack(lo, hi)));
                Some((put.done, SimulatedStep::Look))
            }
            SimulatedStep::Leave => {
                self.leave(member, now);
                None
            }
        }
    }

    fn found(&self, gate: u64, now: Time) -> Option<Next> {
        (gate & OPEN != 0).then_some((now, SimulatedStep::Join { seen: gate }))
    }

    /// Estimates the cost of an item from the duration of the last claim, as the runtime's loop does. A higher cost counts at once,
    /// a lower one by half.
    fn measure(&mut self, member: usize, now: Time) {
        let it = &mut self.members[member];
        let took = nanos(now.saturating_sub(it.since)).0;
        let measured = took / f64::from(it.items.max(1));
        it.per_item = if measured > it.per_item { measured } else { 0.5 * (it.per_item + measured) };
        it.since = now;
    }

    /// How many of `held` items to claim.
    fn want(&self, member: usize, held: u32) -> u32 {
        let per_item = self.members[member].per_item.max(f64::MIN_POSITIVE);
        let (time, most) = match self.policy.claim {
            Claim::Planned => (planned().claim_of(Nanos(f64::from(held) * per_item)), held),
            Claim::Timed { time, part } => (time, held.div_ceil(part.max(1))),
        };
        ((time.0 / per_item) as u32).clamp(1, most)
    }

    fn look(&mut self, member: usize, now: Time, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        let seen = self.words.load(member, member, now);
        if seen.hit {
            // No other access can come between a load that hits and the compare-exchange behind it.
            return self.take(member, seen.done, seen.value, claimed);
        }
        Some((seen.done, SimulatedStep::Take { seen: seen.value }))
    }

    fn take(&mut self, member: usize, now: Time, seen: u64, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        let (lo, hi) = unpack(seen);
        if lo >= hi {
            let search = self.start_search(member);
            return Some((now, SimulatedStep::Search(search)));
        }
        let take = self.want(member, hi - lo);
        let found = self.words.exchange(member, member, now, seen, pack(lo + take, hi));
        if found.value != seen {
            self.outcome.failed += 1;
            return Some((found.done, SimulatedStep::Take { seen: found.value }));
        }
        Some(self.run_items(member, found.done, lo, lo + take, claimed))
    }

    fn run_items(&mut self, member: usize, now: Time, lo: u32, hi: u32, claimed: &mut impl FnMut(Claimed)) -> Next {
        claimed(Claimed { member, lo, hi, at: nanos(now) });
        let took = self.work.between(lo, hi);
        let it = &mut self.members[member];
        self.outcome.claims += 1;
        self.working += took;
        self.claiming += now - it.idle;
        (it.idle, it.items) = (now + took, hi - lo);
        (it.idle + self.clock, SimulatedStep::Claim)
    }

    fn start_search(&mut self, member: usize) -> Search {
        let words = self.words.len();
        let kind = self.policy.victim;
        let (from, window) = match kind {
            Victim::Fullest => (0, words),
            Victim::Window(some) => (self.members[member].draw.below(words), some),
            Victim::Sampled(_) => (self.members[member].draw.below(words), 1),
        };
        let window = window.clamp(1, words);
        Search { kind, from, looked: 0, window, batch: window.min(self.machine.overlap.max(1)), best: None }
    }

    fn search(&mut self, member: usize, now: Time, mut search: Search) -> Next {
        let words = self.words.len();
        if let Victim::Sampled(some) = search.kind {
            let drawn: Vec<usize> = (0..some.max(1)).map(|_| self.members[member].draw.below(words)).collect();
            let done = self.glance(member, now, drawn.into_iter(), &mut search.best, true);
            return match search.best {
                Some((victim, seen)) => (done, SimulatedStep::Steal { victim, seen }),
                None => (done, SimulatedStep::Search(Search { kind: Victim::Window(1), ..search })),
            };
        }
        let upto = (search.looked + search.batch).min(words);
        let batch = (search.looked..upto).map(|i| (search.from + i) % words);
        let inside = search.looked < search.window;
        let done = self.glance(member, now, batch, &mut search.best, inside);
        search.looked = upto;
        search.batch = (search.batch * 2).min(self.machine.overlap.max(1));
        match search.best {
            Some((victim, seen)) if upto >= search.window => (done, SimulatedStep::Steal { victim, seen }),
            None if upto == words => (done, SimulatedStep::Leave),
            _ => (done, SimulatedStep::Search(search)),
        }
    }

    /// Loads these words, overlapped. Updates the best one and returns when all have arrived.
    fn glance(
        &mut self,
        member: usize,
        now: Time,
        words: impl Iterator<Item = usize>,
        best: &mut Option<(usize, u64)>,
        fullest: bool,
    ) -> Time {
        let (mut hits, mut last) = (0, now);
        for word in words {
            let LineState { value, done, hit } = self.words.load(word, member, now);
            self.outcome.looks += 1;
            if hit {
                hits += done - now;
            } else {
                last = last.max(done);
            }
            let better = best.map_or(0, |(_, best)| held(best)) < held(value);
            if better && (fullest || best.is_none()) {
                *best = Some((word, value));
            }
        }
        last + hits
    }

    fn steal(&mut self, member: usize, now: Time, victim: usize, seen: u64) -> Next {
        let (lo, hi) = unpack(seen);
        let middle = if hi - lo == 1 { lo } else { lo.midpoint(hi).clamp(lo + 1, hi - 1) };
        let found = self.words.exchange(victim, member, now, seen, pack(lo, middle));
        if found.value == seen {
            self.outcome.steals += 1;
            return (found.done, SimulatedStep::Put { lo: middle, hi });
        }
        self.outcome.failed += 1;
        if self.policy.again && held(found.value) > 0 {
            return (found.done, SimulatedStep::Steal { victim, seen: found.value });
        }
        (found.done, SimulatedStep::Look)
    }

    fn leave(&mut self, member: usize, now: Time) {
        self.claiming += now - self.members[member].idle;
        let through = match (self.policy.entry, member) {
            (Joining::Present, _) => now,
            (_, 0) => self.gate.update(0, 0, now, |word| Some(word & !OPEN)).done,
            _ => {
                let left = self.gate.update(0, member, now, |word| Some(word - 1));
                if left.value & OPEN != 0 {
                    return;
                }
                // The lead waits for the last member to leave, which signals it through a line that the lead spins on.
                left.done
                    + time(if member / self.machine.group.max(1) == 0 { self.machine.near } else { self.machine.far })
            }
        };
        self.makespan = self.makespan.max(through);
    }
}
