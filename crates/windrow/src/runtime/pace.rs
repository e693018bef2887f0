//! The claims of one member of a call: how long they are, and what they cost.

use std::cell::Cell;

use windrow_plan::Nanos;
use windrow_plan::estimate::Smoothing;
use windrow_sync::divide::{Claims, Divide, Span};
use windrow_sync::machine::tick;
use windrow_sync::ranges::Report;
use windrow_sync::relaxed::RelaxedU64;

use super::hints::Hints;
use super::listen::LoopPart;
use super::poll::PollInterval;
use super::state::PoolState;

/// One parallel call, as all of its members see it.
pub(super) struct Call<'c> {
    pub(super) pool: &'c PoolState,
    pub(super) hints: &'c Hints,
    /// The caller's estimate for workers that join, in nanoseconds for a unit of weight; 0 is unknown.
    pub(super) per_weight: RelaxedU64,
    /// Members poll inside of a claim.
    pub(super) polls: bool,
}

/// Measures and sizes the claims of one member.
pub(super) struct Pace<'w> {
    call: &'w Call<'w>,
    joined: u64,
    /// When the last claim was made, its weight and its first item.
    since: u64,
    weight: u64,
    at: usize,
    /// Items of it that are in no piece yet.
    left: usize,
    pieces: PollInterval<'w>,
    /// Nanoseconds of a unit of weight; 0 is unknown.
    per_weight: f64,
    /// Nanoseconds of a claim without its items.
    empty: f64,
    report: Report,
    part: Option<Box<LoopPart>>,
}

impl<'w> Pace<'w> {
    pub(super) fn new(call: &'w Call<'w>, now: u64) -> Self {
        let per_weight = call.per_weight.get_f64();
        Self {
            call,
            joined: now,
            since: now,
            weight: 0,
            at: 0,
            left: 0,
            pieces: PollInterval::new(call.polls.then_some(call.pool)).expecting(per_weight, now),
            per_weight,
            empty: call.pool.machine().contended_claim().0,
            report: Report::default(),
            part: LoopPart::begin(call.hints.place),
        }
    }

    /// The next piece of a claim. The claim is as long as [`Machine::claim_of`](windrow_plan::machine::Machine::claim_of) says.
    #[inline]
    pub(super) fn next<'s, S: Divide>(&mut self, claims: &mut Claims<'s, S>) -> Option<(Span, S::Chunk<'s>)> {
        if self.left == 0 {
            self.claim(claims);
        }
        let next = claims.take(self.pieces.next(self.left));
        match &next {
            Some((at, _)) => self.left -= at.len(),
            None => {
                self.report.busy = self.since.saturating_sub(self.joined);
                claims.report(std::mem::take(&mut self.report));
            }
        }
        next
    }

    /// The next claim, in pieces between which the member polls.
    #[inline]
    fn claim<S: Divide>(&mut self, claims: &mut Claims<'_, S>) {
        if self.weight > 0 {
            self.measure();
        }
        let hints = self.call.hints;
        let wanted = Cell::new(1);
        let want = |lo, hi| {
            wanted.set(self.want(lo, hi).max(1));
            wanted.get()
        };
        let Some(Span { lo, hi, .. }) = claims.claim(want, |lo, hi| hints.middle(lo, hi)) else {
            self.weight = 0;
            return;
        };
        let hi = if hi - lo <= wanted.get() { hi } else { lo + self.want(lo, hi).clamp(1, hi - lo) };
        if let Some(part) = &mut self.part {
            part.claimed(lo, hi, self.since);
        }
        self.left = hi - lo;
        self.weight = hints.weight(lo, hi);
        self.at = lo;
    }

    /// Reads the clock after a claim, and updates the cost of a unit of weight.
    #[inline]
    fn measure(&mut self) {
        self.report.weight += self.weight;
        self.report.claims += 1;
        let now = tick();
        let took = now.saturating_sub(self.since);
        self.since = now;
        let nanos = (self.call.pool.nanos(took).0 - self.empty).max(1.0);
        self.per_weight = Smoothing::CLAIMS.follow(self.per_weight, nanos / self.weight as f64);
        if took > self.report.longest {
            (self.report.longest, self.report.longest_at) = (took, self.at as u64);
        }
    }

    /// Items to claim of `lo..hi`, the member's own range.
    #[inline]
    fn want(&self, lo: usize, hi: usize) -> usize {
        let hints = self.call.hints;
        if let Some(chunk) = hints.chunk() {
            return chunk;
        }
        if self.per_weight == 0.0 {
            return 1;
        }
        let at_hand = Nanos(hints.weight(lo, hi) as f64 * self.per_weight);
        let weight = self.call.pool.guess().claim_of(at_hand).0 / self.per_weight;
        hints.items(lo, hi, weight as u64)
    }
}
