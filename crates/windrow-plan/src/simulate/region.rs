//! The members of one region, step by step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lines::{Lines, Seen};
use super::{Claim, Claimed, Draw, Entry, Join, Machine, Outcome, Policy, Time, Victim, Work, nanos, time};
use crate::Nanos;
use crate::grain::Costs;

/// The gate's word: open, and how many are inside beside the lead.
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

/// What a member does when its time comes.
#[derive(Clone, Copy)]
enum Step {
    /// It finds the gate.
    Arrive,
    /// It has seen the gate open.
    Join { seen: u64 },
    /// It is in.
    Start,
    /// It has looked at the clock, and claims.
    Claim,
    /// It looks at its own word, the clock untouched.
    Look,
    /// It has seen its own word.
    Take { seen: u64 },
    /// It looks for a victim.
    Search(Search),
    /// It has chosen one.
    Steal { victim: usize, seen: u64 },
    /// It holds what it has stolen.
    Put { lo: u32, hi: u32 },
    /// It has seen nothing to do.
    Leave,
}

/// A search for a victim, in batches of loads that overlap.
#[derive(Clone, Copy)]
struct Search {
    kind: Victim,
    /// Where it began, and how many words have been looked at.
    from: usize,
    looked: usize,
    /// The best of the first so many is taken, or else the first behind them.
    window: usize,
    /// Words of the next batch.
    batch: usize,
    best: Option<(usize, u64)>,
}

/// A member, and the time at which it is at this step.
type Next = (Time, Step);

struct Member {
    step: Step,
    draw: Draw,
    /// When its last item ended.
    idle: Time,
    /// When it last looked at the clock, and the items since.
    since: Time,
    items: u32,
    /// Nanoseconds of an item, as far as it knows.
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
    members: Vec<Member>,
    /// The first member whom nobody has woken yet.
    asleep: usize,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: u64,
    makespan: Time,
    working: Time,
    claiming: Time,
    outcome: Outcome,
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
        // The lead has measured and posts the cost of an item for all.
        let per_item = work.total().0 / f64::from(work.len().max(1));
        let member = |number: usize| Member {
            step: Step::Start,
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
            outcome: Outcome { members, ideal: work.ideal(members), joined: 1, ..Outcome::default() },
            clock: time(machine.clock),
            wake_call: time(machine.wake_call),
            wake: time(machine.wake),
            work,
            machine,
            policy,
        }
    }

    pub(super) fn run(mut self, claimed: &mut impl FnMut(Claimed)) -> Outcome {
        self.open();
        while let Some(Reverse((mut now, _, member))) = self.queue.pop() {
            // While nobody else is due, the member goes on without a turn through the queue.
            while let Some((then, step)) = self.step(member, now, claimed) {
                self.members[member].step = step;
                if self.queue.peek().is_some_and(|Reverse((due, ..))| *due <= then) {
                    self.at(then, member);
                    break;
                }
                now = then;
            }
        }
        Outcome {
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
            Entry::Present => {
                self.outcome.joined = self.members.len();
                others.for_each(|member| self.at(0, member));
                0
            }
            Entry::Awake => {
                // They have been looking at the word, so it is taken from all of them.
                for member in others.clone() {
                    self.gate.load(0, member, 0);
                    self.members[member].step = Step::Arrive;
                }
                let opened = self.gate.update(0, 0, 0, |word| Some(word | OPEN)).done;
                others.for_each(|member| self.at(0, member));
                opened
            }
            Entry::Asleep { .. } => {
                self.asleep = 1;
                let opened = self.gate.update(0, 0, 0, |word| Some(word | OPEN)).done;
                self.wake(opened, 1)
            }
        };
        self.at(start, 0);
    }

    /// Wakes up to `fan` sleepers; when the last call returns.
    fn wake(&mut self, mut now: Time, fan: usize) -> Time {
        for _ in 0..fan.max(1) {
            if self.asleep < self.members.len() {
                self.members[self.asleep].step = Step::Arrive;
                self.at(now + self.wake, self.asleep);
                self.asleep += 1;
                now += self.wake_call;
            }
        }
        now
    }

    /// What `member` does now, and when it is to do what next; nothing if it has left.
    fn step(&mut self, member: usize, now: Time, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        match self.members[member].step {
            Step::Arrive => {
                let seen = self.gate.load(0, member, now);
                self.found(seen.value, seen.done)
            }
            Step::Join { seen } => {
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
                    Entry::Asleep { fan } => self.wake(found.done, fan),
                    Entry::Awake | Entry::Present => found.done,
                };
                Some((start, Step::Start))
            }
            Step::Start => {
                let it = &mut self.members[member];
                (it.idle, it.since) = (now, now + self.clock);
                Some((now + self.clock, Step::Look))
            }
            Step::Claim => {
                self.measure(member, now);
                self.look(member, now, claimed)
            }
            Step::Look => self.look(member, now, claimed),
            Step::Take { seen } => self.take(member, now, seen, claimed),
            Step::Search(search) => Some(self.search(member, now, search)),
            Step::Steal { victim, seen } => Some(self.steal(member, now, victim, seen)),
            // Nobody else writes an empty word.
            Step::Put { lo, hi } => {
                let put = self.words.update(member, member, now, |_| Some(pack(lo, hi)));
                Some((put.done, Step::Look))
            }
            Step::Leave => {
                self.leave(member, now);
                None
            }
        }
    }

    fn found(&self, gate: u64, now: Time) -> Option<Next> {
        (gate & OPEN != 0).then_some((now, Step::Join { seen: gate }))
    }

    /// What an item takes, from how long the last claim took, as the runtime's walk does: it is believed at once that items
    /// are long, slowly that they are short.
    fn measure(&mut self, member: usize, now: Time) {
        let it = &mut self.members[member];
        let took = nanos(now.saturating_sub(it.since)).0;
        let measured = took / f64::from(it.items.max(1));
        it.per_item = if measured > it.per_item { measured } else { 0.5 * (it.per_item + measured) };
        it.since = now;
    }

    /// Items to claim of so many.
    fn want(&self, member: usize, held: u32) -> u32 {
        let per_item = self.members[member].per_item.max(f64::MIN_POSITIVE);
        let (time, most) = match self.policy.claim {
            Claim::Planned => (Costs::MEASURED.claim_of(Nanos(f64::from(held) * per_item)), held),
            Claim::Timed { time, part } => (time, held.div_ceil(part.max(1))),
        };
        ((time.0 / per_item) as u32).clamp(1, most)
    }

    fn look(&mut self, member: usize, now: Time, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        let seen = self.words.load(member, member, now);
        if seen.hit {
            // Nobody comes between a load that hits and the exchange behind it.
            return self.take(member, seen.done, seen.value, claimed);
        }
        Some((seen.done, Step::Take { seen: seen.value }))
    }

    fn take(&mut self, member: usize, now: Time, seen: u64, claimed: &mut impl FnMut(Claimed)) -> Option<Next> {
        let (lo, hi) = unpack(seen);
        if lo >= hi {
            let search = self.start_search(member);
            return Some((now, Step::Search(search)));
        }
        let take = self.want(member, hi - lo);
        let found = self.words.exchange(member, member, now, seen, pack(lo + take, hi));
        if found.value != seen {
            self.outcome.failed += 1;
            return Some((found.done, Step::Take { seen: found.value }));
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
        (it.idle + self.clock, Step::Claim)
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
                Some((victim, seen)) => (done, Step::Steal { victim, seen }),
                None => (done, Step::Search(Search { kind: Victim::Window(1), ..search })),
            };
        }
        let upto = (search.looked + search.batch).min(words);
        let batch = (search.looked..upto).map(|i| (search.from + i) % words);
        let inside = search.looked < search.window;
        let done = self.glance(member, now, batch, &mut search.best, inside);
        search.looked = upto;
        search.batch = (search.batch * 2).min(self.machine.overlap.max(1));
        match search.best {
            Some((victim, seen)) if upto >= search.window => (done, Step::Steal { victim, seen }),
            None if upto == words => (done, Step::Leave),
            _ => (done, Step::Search(search)),
        }
    }

    /// Loads these words at a time. The best of them, and when all are there.
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
            let Seen { value, done, hit } = self.words.load(word, member, now);
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
            return (found.done, Step::Put { lo: middle, hi });
        }
        self.outcome.failed += 1;
        if self.policy.again && held(found.value) > 0 {
            return (found.done, Step::Steal { victim, seen: found.value });
        }
        (found.done, Step::Look)
    }

    fn leave(&mut self, member: usize, now: Time) {
        self.claiming += now - self.members[member].idle;
        let through = match (self.policy.entry, member) {
            (Entry::Present, _) => now,
            (_, 0) => self.gate.update(0, 0, now, |word| Some(word & !OPEN)).done,
            _ => {
                let left = self.gate.update(0, member, now, |word| Some(word - 1));
                if left.value & OPEN != 0 {
                    return;
                }
                // The lead waits for the last of these, who tells it by a line that the lead is looking at.
                left.done
                    + time(if member / self.machine.group.max(1) == 0 { self.machine.near } else { self.machine.far })
            }
        };
        self.makespan = self.makespan.max(through);
    }
}
