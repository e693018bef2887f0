//! One parallel call: serial first, published when the measured rest pays, walked through in chunks.

use std::cell::Cell;

use windrow_plan::grain::{self, Grain, Progress};
use windrow_plan::{Decision, Items, Nanos};
use windrow_sync::divide::{Claims, Divide, Division, Lead, Span};
use windrow_sync::gate::Door;
use windrow_sync::machine::tick;

use crate::explain;
use crate::pool::Crew;

/// What the user said about the items.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Items of every claim, fixed.
    pub(crate) chunk: Option<usize>,
    /// What items weigh.
    pub(crate) weights: Option<Weights>,
}

impl Hints {
    /// What is said here, or else there.
    pub(crate) fn or(self, other: Hints) -> Hints {
        Hints { chunk: self.chunk.or(other.chunk), weights: self.weights.or(other.weights) }
    }

    /// The hints for blocks of `block` items, of `n` items in all.
    pub(crate) fn of_blocks(&self, block: usize, n: usize) -> Hints {
        Hints {
            chunk: self.chunk.map(|chunk| chunk.div_ceil(block)),
            weights: self.weights.as_ref().map(|weights| weights.of_blocks(block, n)),
        }
    }

    /// Weight of the items `lo..hi`.
    fn weight(&self, lo: usize, hi: usize) -> u64 {
        match &self.weights {
            Some(weights) => weights.between(lo, hi),
            None => (hi - lo) as u64,
        }
    }

    /// How many items from `lo` on weigh about `weight`; at least 1, at most up to `hi`.
    fn items(&self, lo: usize, hi: usize, weight: u64) -> usize {
        match (self.chunk, &self.weights) {
            (Some(chunk), _) => chunk.min(hi - lo),
            (None, Some(weights)) => weights.reach(lo, hi, weight) - lo,
            (None, None) => usize::try_from(weight).unwrap_or(usize::MAX).min(hi - lo),
        }
    }

    /// Where `lo..hi` is halved by weight.
    fn middle(&self, lo: usize, hi: usize) -> usize {
        match &self.weights {
            Some(weights) => weights.reach(lo, hi, weights.between(lo, hi) / 2),
            None => lo.midpoint(hi),
        }
    }
}

/// Weights of all items, as running sums. An item weighs at least 1.
#[derive(Debug)]
pub(crate) struct Weights {
    sums: Box<[u64]>,
}

impl Weights {
    pub(crate) fn new(weights: impl Iterator<Item = usize>) -> Self {
        let mut sum = 0u64;
        let mut sums = vec![0];
        sums.extend(weights.map(|weight| {
            sum = sum.saturating_add(weight.max(1) as u64);
            sum
        }));
        Self { sums: sums.into() }
    }

    fn of_blocks(&self, block: usize, n: usize) -> Self {
        let bounds = (0..=n.div_ceil(block)).map(|at| self.sum(at.saturating_mul(block).min(n)));
        Self { sums: bounds.collect() }
    }

    /// Weight of the first `at` items. (Zip may walk fewer items than were weighed, never more of the weighed side.)
    fn sum(&self, at: usize) -> u64 {
        self.sums[at.min(self.sums.len() - 1)]
    }

    fn between(&self, lo: usize, hi: usize) -> u64 {
        self.sum(hi) - self.sum(lo)
    }

    /// The end of the shortest run from `lo` that weighs at least `weight`: in `lo + 1..=hi`.
    fn reach(&self, lo: usize, hi: usize, weight: u64) -> usize {
        let target = self.sum(lo).saturating_add(weight);
        let inner = &self.sums[(lo + 1).min(self.sums.len())..hi.min(self.sums.len())];
        lo + 1 + inner.partition_point(|&sum| sum < target)
    }
}

/// Runs `body` on the caller, and on workers if that pays. Each call of `body` gets its own [`Walk`] over chunks that nobody
/// else has; together they cover the division, unless a body stops early or panics.
///
/// (`'s` is the borrow of *this* division and not any lifetime: a closure over chunks of every lifetime would force the
/// source to be `'static`.)
pub(crate) fn run<'s, S: Divide>(
    crew: &Crew,
    hints: &Hints,
    lead: Lead<'s, S>,
    division: &'s Division<S>,
    body: impl Fn(Walk<'_, 's, S>) + Sync,
) {
    let items = lead.rest().len();
    let last = Cell::new(None);
    let member = |member: usize| {
        let stop = StopOnUnwind(division);
        let pace = Pace::new(crew, hints, 1);
        body(Walk(Way::Member { claims: division.claims(member), pace }));
        std::mem::forget(stop);
    };
    crew.gate.region(&member, crew.settle, |door| {
        let stop = StopOnUnwind(division);
        let pace = Pace::new(crew, hints, 1);
        if crew.members == 1 || items < 2 {
            body(Walk(Way::Whole { lead }));
        } else {
            body(Walk(Way::Lead { lead, door, pace, last: &last }));
        }
        std::mem::forget(stop);
    });
    explain::tell(items, || last.get());
}

/// A panic in one member ends the others at their next claim. Forgotten when all went well: asking `panicking()` instead
/// would stop a region that somebody's drop runs during a panic.
struct StopOnUnwind<'a, S: Divide>(&'a Division<S>);

impl<S: Divide> Drop for StopOnUnwind<'_, S> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One member's way through the chunks.
pub(crate) struct Walk<'w, 's, S: Divide>(Way<'w, 's, S>);

enum Way<'w, 's, S: Divide> {
    /// Alone for certain: everything in one chunk.
    Whole { lead: Lead<'s, S> },
    /// The caller, alone so far.
    Lead { lead: Lead<'s, S>, door: &'w Door<'w>, pace: Pace<'w>, last: &'w Cell<Option<Decision<Progress, Grain>>> },
    /// Anybody, after publication.
    Member { claims: Claims<'s, S>, pace: Pace<'w> },
}

impl<'s, S: Divide> Iterator for Walk<'_, 's, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Way::Whole { lead } => lead.take(usize::MAX),
            Way::Member { claims, pace } => pace.claim(claims),
            Way::Lead { .. } => self.next_of_lead(),
        }
    }
}

impl<'s, S: Divide> Walk<'_, 's, S> {
    fn next_of_lead(&mut self) -> Option<(Span, S::Chunk<'s>)> {
        let Way::Lead { lead, door, pace, last } = &mut self.0 else { return self.next() };
        let rest = lead.rest();
        if rest.is_empty() {
            return None;
        }
        let progress = pace.progress(rest.start, rest.end);
        let decision = grain::decide(progress, pace.crew.state(), pace.crew.costs);
        last.set(Some(decision));
        match decision.choice {
            Grain::Serial { piece } => lead.take(pace.hints.items(rest.start, rest.end, piece.0)),
            Grain::Publish { width, claim } => {
                lead.share(width);
                if !door.open(width) {
                    // This one goes on alone: it claims all of its rest itself.
                    last.set(Some(Decision { why: "another region was faster at the gate", ..decision }));
                }
                let member = lead.claims(0);
                let mut pace = pace.clone();
                pace.start_claims(claim.0);
                self.0 = Way::Member { claims: member, pace };
                self.next()
            }
        }
    }
}

/// Measures and sizes the chunks of one member.
#[derive(Clone)]
struct Pace<'w> {
    crew: &'w Crew,
    hints: &'w Hints,
    /// When the last chunk was handed out, and its weight; before the first one the start.
    since: u64,
    weight: u64,
    /// Weight of the next claim.
    want: u64,
    /// What is done alone is measured from this time and this item on.
    start: u64,
    first: usize,
}

impl<'w> Pace<'w> {
    fn new(crew: &'w Crew, hints: &'w Hints, want: u64) -> Self {
        let start = if crew.members > 1 { tick() } else { 0 };
        Self { crew, hints, since: start, weight: 0, want, start, first: 0 }
    }

    /// What the caller has done alone when it stands at item `at` of `end`.
    fn progress(&mut self, at: usize, end: usize) -> Progress {
        let mut spent = if at == 0 { Nanos(0.0) } else { self.crew.nanos(tick().saturating_sub(self.start)) };
        if at > 0 && self.first == 0 && spent < self.crew.costs.cold {
            (self.start, self.first, spent) = (tick(), at, Nanos(0.0));
        }
        let done = self.hints.weight(self.first, at);
        let left = self.hints.weight(at, end);
        Progress { done: Items(done), spent, left: Items(left), ripe: done > 0 && spent >= self.crew.costs.sample }
    }

    fn start_claims(&mut self, want: u64) {
        self.since = tick();
        self.weight = 0;
        self.want = want;
    }

    /// The next claim: as long as the last one shows that it should be, at most a quarter of what is at hand, so that claims
    /// shrink to one item at the end and the last one to finish is not far behind.
    #[inline]
    fn claim<'s, S: Divide>(&mut self, claims: &mut Claims<'s, S>) -> Option<(Span, S::Chunk<'s>)> {
        if self.hints.chunk.is_none() && self.weight > 0 {
            let now = tick();
            let per_weight = Nanos(self.crew.nanos(now.saturating_sub(self.since)).0 / self.weight as f64);
            let measured = grain::claim(per_weight, &self.crew.costs).0;
            // One look at the clock may be off by an interruption: change by steps.
            self.want = measured.clamp(self.want / 4, self.want.saturating_mul(8)).max(1);
            self.since = now;
        }
        let (hints, want) = (self.hints, self.want);
        let next = claims.next(
            |lo, hi| match hints.chunk {
                Some(chunk) => chunk,
                None => hints.items(lo, hi, want.min(hints.weight(lo, hi).div_ceil(4))),
            },
            |lo, hi| hints.middle(lo, hi),
        )?;
        self.weight = hints.weight(next.0.lo, next.0.hi);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_measure_runs() {
        let weights = Weights::new([5, 0, 3, 10].into_iter());
        assert_eq!((weights.between(0, 4), weights.between(1, 3)), (19, 4));
        assert_eq!(weights.reach(0, 4, 0), 1);
        assert_eq!(weights.reach(0, 4, 6), 2);
        assert_eq!(weights.reach(0, 4, 7), 3);
        assert_eq!(weights.reach(1, 4, 1000), 4);
        assert_eq!(weights.reach(3, 4, 1), 4);
        let blocks = weights.of_blocks(3, 4);
        assert_eq!((blocks.between(0, 1), blocks.between(1, 2)), (9, 10));
    }

    #[test]
    fn a_short_first_item_is_no_sample() {
        crate::pool::with_current(|crew| {
            let hints = Hints::default();
            // A start in the future reads as "no time has passed", whatever interrupts this thread.
            let mut pace = Pace { start: u64::MAX, ..Pace::new(crew, &hints, 1) };
            let progress = pace.progress(1, 10);
            assert_eq!((progress.done.0, progress.left.0, progress.ripe), (0, 9, false));
            assert_eq!(pace.progress(3, 10).done.0, 2);
            while crew.nanos(tick()) < crew.costs.cold {}
            let mut pace = Pace { start: 0, ..Pace::new(crew, &hints, 1) };
            let progress = pace.progress(1, 10);
            assert_eq!((progress.done.0, progress.ripe), (1, true));
        });
    }

    #[test]
    fn hints_size_claims() {
        let plain = Hints::default();
        assert_eq!((plain.items(3, 10, 4), plain.items(3, 5, 4), plain.middle(2, 10)), (4, 2, 6));
        let fixed = Hints { chunk: Some(3), weights: None };
        assert_eq!((fixed.items(0, 10, 100), fixed.items(8, 10, 1)), (3, 2));
        assert_eq!(fixed.of_blocks(2, 10).chunk, Some(2));
        let weighed = Hints { chunk: None, weights: Some(Weights::new([100, 1, 1, 1].into_iter())) };
        assert_eq!((weighed.items(0, 4, 50), weighed.items(1, 4, 2)), (1, 2));
        assert_eq!(weighed.middle(0, 4), 1);
    }
}
