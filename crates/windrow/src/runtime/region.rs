//! One parallel call: serial first, published when the measured rest pays, walked through in chunks.

use std::cell::Cell;

use windrow_plan::grain::{self, Grain, Progress};
use windrow_plan::memory::Trusted;
use windrow_plan::{Decision, Items, Nanos};
use windrow_sync::divide::{Claims, Divide, Division, Lead, Span};
use windrow_sync::gate::Door;
use windrow_sync::machine::tick;
use windrow_sync::ranges::Report;
use windrow_sync::relaxed::RelaxedU64;

use super::explain::{self, Explained, Shared};
use super::hints::Hints;
use super::sites::{LongItem, SiteStats, site};
use super::state::{PoolState, WorkerState};

/// Runs `body` on the caller, and on workers if that pays. Each call of `body` gets its own [`Walk`] over chunks that
/// no other has; together they cover the division, unless a body stops early or panics.
///
/// (`'s` is the borrow of *this* division and not any lifetime: a closure over chunks of every lifetime would force the
/// source to be `'static`.)
pub(crate) fn run<'s, S: Divide, B: Fn(Walk<'_, 's, S>) + Sync>(
    pool: &PoolState,
    hints: &Hints,
    lead: Lead<'s, S>,
    division: &'s Division<S>,
    body: B,
) {
    let items = lead.rest().len();
    if pool.members == 1 || items < 2 {
        let stop = StopOnUnwind(division);
        body(Walk(WalkState::Whole { lead }));
        std::mem::forget(stop);
        return explain::tell(|| Explained { place: hints.place, items, decision: None, shared: None });
    }
    let call = Call { pool, hints, per_weight: RelaxedU64::new(0), lost: RelaxedU64::new(0) };
    let site = site(hints.place, take_part::<S, B> as fn(&B, Walk<'_, 's, S>) as *const () as usize);
    let leading = CallerSide::new(&call, site, items);
    let member = |member: usize| {
        let now = tick();
        pool.joined(member, now);
        let stop = StopOnUnwind(division);
        let pace = Pace::new(&call, member, now);
        take_part(&body, Walk(WalkState::Member { claims: division.claims(member), pace }));
        std::mem::forget(stop);
    };
    pool.gate.region(&member, pool.settle, |door| {
        let stop = StopOnUnwind(division);
        body(Walk(WalkState::Lead { lead, door, alone: SerialPart::new(&leading) }));
        std::mem::forget(stop);
    });
    if let Some(published) = leading.published.get() {
        leading.learn(published, division);
    }
    if leading.explains {
        let (decision, shared) = (leading.last.get(), leading.shared.get());
        explain::tell(|| Explained { place: hints.place, items, decision, shared });
    }
}

/// What workers run. A separate function, because its address is part of the [`site`].
#[inline(never)]
fn take_part<'s, S: Divide, B: Fn(Walk<'_, 's, S>)>(body: &B, walk: Walk<'_, 's, S>) {
    body(walk);
}

/// A panic in one member ends the others at their next claim. Forgotten when all went well: asking `panicking()` instead
/// would stop a region that a destructor runs during a panic.
struct StopOnUnwind<'a, S: Divide>(&'a Division<S>);

impl<S: Divide> Drop for StopOnUnwind<'_, S> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One parallel call, as all of its members see it.
struct Call<'c> {
    pool: &'c PoolState,
    hints: &'c Hints,
    /// What the caller leaves for workers that join: nanoseconds of a unit of weight; 0 is unknown.
    per_weight: RelaxedU64,
    /// Ticks for which a member was without its CPU during a chunk.
    lost: RelaxedU64,
}

/// The caller's side of a call.
struct CallerSide<'c> {
    call: &'c Call<'c>,
    site: usize,
    items: usize,
    memory: SiteStats,
    published: Cell<Option<Published>>,
    /// The call is known to be too short to be shared.
    short: bool,
    explains: bool,
    last: Cell<Option<Decision<Progress, Grain>>>,
    shared: Cell<Option<Shared>>,
}

/// How a region was opened, and what was done before.
#[derive(Clone, Copy)]
struct Published {
    at: u64,
    width: usize,
    found: WorkerState,
    before: Before,
}

/// What a caller has done alone: weight, ticks, its longest piece and the first item of that.
#[derive(Clone, Copy, Default)]
struct Before {
    weight: u64,
    ticks: u64,
    longest: u64,
    longest_at: usize,
}

impl<'c> CallerSide<'c> {
    fn new(call: &'c Call<'c>, site: usize, items: usize) -> Self {
        let memory = call.pool.sites.recall(site);
        let explains = explain::listening();
        let known = memory.known.trusted().filter(|_| !explains && call.hints.chunk.is_none());
        // Below twice what entering usually costs nothing can be saved, so nothing has to be decided.
        let whole = |known: Trusted| known.per_item.0 * call.hints.weight(0, items) as f64;
        let short = known.is_some_and(|known| whole(known) < 2.0 * call.pool.fixed_costs().enter_idle.0);
        let (published, last, shared) = (Cell::new(None), Cell::new(None), Cell::new(None));
        Self { call, site, items, memory, published, short, explains, last, shared }
    }

    /// What to do next. Kept for [`explain`](super::explain::explain).
    fn choose(&self, progress: &Progress, now: u64) -> (Grain, WorkerState) {
        let pool = self.call.pool;
        let (state, costs) = (pool.workers(), pool.costs(now));
        let choice = if self.explains {
            let decision = grain::decide(*progress, &state, &costs);
            // That the last item alone cannot be shared explains nothing.
            if progress.left.0 > 1 || self.last.get().is_none() {
                self.last.set(Some(decision));
            }
            decision.choice
        } else {
            grain::choose(progress, &state, &costs).0
        };
        let wakes = matches!(choice, Grain::Publish { width } if width > state.idle + 1);
        (choice, pool.found(now, wakes))
    }

    /// Puts all that is left where members find it, and opens the gate.
    #[inline(never)]
    fn publish<S: Divide>(&self, lead: &mut Lead<'_, S>, door: &Door<'_>, published: Published, per_weight: Nanos) {
        let (pool, hints) = (self.call.pool, self.call.hints);
        self.published.set(Some(published));
        self.call.per_weight.set_f64(per_weight.0);
        pool.opens(published.at, published.found != WorkerState::Idle);
        let (rest, width) = (lead.rest(), published.width);
        // An item that took a large part of the last call comes first: the caller's part begins with it.
        let long = self.memory.long.filter(|long| long.of as usize == self.items).map(|long| long.at as usize);
        match long.filter(|&long| long > rest.start && long < rest.end) {
            Some(long) => {
                let before = ((long - rest.start) as f64 / rest.len() as f64 * width as f64).round();
                let before = (before as usize).clamp(1, width - 1);
                lead.share(width, before, |part| match part.checked_sub(before) {
                    None => hints.part(rest.start, long, part, before),
                    Some(part) => hints.part(long, rest.end, part, width - before),
                });
            }
            None => lead.share(width, 0, |part| hints.part(rest.start, rest.end, part, width)),
        }
        if !door.open(width) {
            // This one goes on alone: it claims all of its rest itself.
            self.published.set(None);
            if let Some(decision) = self.last.get() {
                self.last.set(Some(Decision { why: "other regions were faster at the gate", ..decision }));
            }
        }
    }

    /// An item at `at` that took `longest` ticks of a call of `wall`, if that was a large part. A quarter is worth a place at the
    /// front; below some us other things matter more.
    fn long(&self, longest: u64, at: usize, wall: u64) -> Option<LongItem> {
        let is_long = longest > wall / 4 && self.call.pool.nanos(longest).0 > 5_000.0;
        let (at, of) = (u32::try_from(at).ok()?, u32::try_from(self.items).ok()?);
        is_long.then_some(LongItem { at, of })
    }

    /// After a region: what the site and the pool remember of it.
    #[inline(never)]
    fn learn<S: Divide>(&self, published: Published, division: &Division<S>) {
        let pool = self.call.pool;
        let now = tick();
        let wall = now.saturating_sub(published.at);
        let (mut members, mut claims, mut steals) = (0, 0, 0);
        let (mut busy, mut weight, mut longest, mut longest_at) = (0, 0, 0, 0);
        for report in division.reports() {
            members += usize::from(report.claims > 0);
            claims += report.claims;
            steals += report.steals;
            busy += report.busy;
            weight += report.weight;
            if report.longest > longest {
                (longest, longest_at) = (report.longest, report.longest_at);
            }
        }
        if weight == 0 {
            // It was stopped before any member was through.
            return pool.ended(now);
        }
        let nanos = |ticks| pool.nanos(ticks);
        let before = published.before;
        if self.explains {
            self.shared.set(Some(Shared { members, claims, steals, wall: nanos(wall), busy: nanos(busy) }));
        }
        let lost = self.call.lost.get();
        // No member can be done sooner than its longest item.
        let at_best = nanos(busy / published.width as u64).0.max(nanos(longest).0);
        pool.learn(now, published.found, Nanos((nanos(wall).0 - at_best).max(0.0)), nanos(lost));
        let in_items = (nanos(busy + before.ticks).0 - claims as f64 * pool.fixed_costs().claim.0).max(1.0);
        let known = self.memory.known.after_shared(Nanos(in_items / (weight + before.weight) as f64));
        if before.longest > longest {
            (longest, longest_at) = (before.longest, before.longest_at as u64);
        }
        let long = if lost == 0 { self.long(longest, longest_at as usize, wall + before.ticks) } else { None };
        pool.sites.remember(self.site, SiteStats { known, long });
    }
}

/// One member's way through the chunks.
pub(crate) struct Walk<'w, 's, S: Divide>(WalkState<'w, 's, S>);

enum WalkState<'w, 's, S: Divide> {
    /// Alone for certain: everything in one chunk.
    Whole { lead: Lead<'s, S> },
    /// The caller, alone so far.
    Lead { lead: Lead<'s, S>, door: &'w Door<'w>, alone: SerialPart<'w> },
    /// The caller or a worker, after publication.
    Member { claims: Claims<'s, S>, pace: Pace<'w> },
}

impl<'s, S: Divide> Iterator for Walk<'_, 's, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            WalkState::Whole { lead } => lead.take(usize::MAX),
            WalkState::Member { claims, pace } => pace.claim(claims),
            WalkState::Lead { lead, alone, .. } => {
                let rest = lead.rest();
                if !alone.leading.short {
                    return self.next_of_lead();
                }
                if rest.is_empty() {
                    // As it was known to be, mostly. Looking at the clock once more would be a tenth of it.
                    if alone.doubts {
                        alone.confirm(rest.end);
                    }
                    return None;
                }
                match alone.short(rest.start, rest.end) {
                    Some(piece) => lead.take(piece),
                    None => self.next_of_lead(),
                }
            }
        }
    }
}

impl<'s, S: Divide> Walk<'_, 's, S> {
    #[inline(never)]
    fn next_of_lead(&mut self) -> Option<(Span, S::Chunk<'s>)> {
        let WalkState::Lead { lead, door, alone } = &mut self.0 else { return self.next() };
        let rest = lead.rest();
        if rest.is_empty() {
            alone.through(rest.end);
            return None;
        }
        let (progress, now) = alone.progress(rest.start, rest.end);
        let leading = alone.leading;
        let hints = leading.call.hints;
        let (choice, found) = leading.choose(&progress, now);
        match choice {
            Grain::Serial { piece } => lead.take(hints.items(rest.start, rest.end, piece.0)),
            Grain::Publish { width } => {
                let per_weight = progress.per_item().unwrap_or_default();
                let before = alone.before(now, rest.start);
                leading.publish(lead, door, Published { at: now, width, found, before }, per_weight);
                let pace = Pace::new(leading.call, 0, tick());
                self.0 = WalkState::Member { claims: lead.claims(0), pace };
                self.next()
            }
        }
    }
}

/// The caller's measurements while it is alone.
struct SerialPart<'w> {
    leading: &'w CallerSide<'w>,
    /// What is done is measured from this time and this item on.
    start: u64,
    first: usize,
    /// When the last piece was handed out, and its first item.
    since: u64,
    at: usize,
    longest: u64,
    longest_at: usize,
    /// What was done contradicts what the site remembers.
    doubts: bool,
}

impl<'w> SerialPart<'w> {
    fn new(leading: &'w CallerSide<'w>) -> Self {
        let now = tick();
        Self { leading, start: now, first: 0, since: now, at: 0, longest: 0, longest_at: 0, doubts: false }
    }

    /// All that was done when the caller stands at item `at` at the time `now`.
    fn before(&self, now: u64, at: usize) -> Before {
        let weight = self.leading.call.hints.weight(self.first, at);
        let &SerialPart { start, longest, longest_at, .. } = self;
        Before { weight, ticks: now.saturating_sub(start), longest, longest_at }
    }

    /// The piece before item `at` is done: the time.
    fn look(&mut self, at: usize) -> u64 {
        let now = tick();
        let took = now.saturating_sub(self.since);
        if took > self.longest {
            (self.longest, self.longest_at) = (took, self.at);
        }
        (self.since, self.at) = (now, at);
        now
    }

    /// What the caller has done alone when it stands at item `at` of `end`, and the time.
    #[inline(never)]
    fn progress(&mut self, at: usize, end: usize) -> (Progress, u64) {
        let CallerSide { call, memory, .. } = self.leading;
        let known = memory.known.trusted();
        let costs = call.pool.fixed_costs();
        let now = if at == 0 { self.start } else { self.look(at) };
        let spent = call.pool.nanos(now.saturating_sub(self.start));
        let eager = call.hints.chunk.is_some();
        let left = Items(call.hints.weight(at, end));
        let mut progress = Progress { done: Items(0), spent: Nanos(0.0), left, ripe: false, known, eager };
        if at > self.first {
            (progress.done, progress.spent) = (Items(call.hints.weight(self.first, at)), spent);
            progress.ripe = spent >= costs.sample;
        }
        // The first piece alone proves little: it pays for fetching code and data, or an interruption fell into it.
        let doubtful = known.map_or(spent < costs.cold, |known| progress.contradicts(known.per_item));
        if at > 0 && self.first == 0 && doubtful {
            (self.start, self.first) = (now, at);
            (progress.done, progress.spent, progress.ripe) = (Items(0), Nanos(0.0), false);
            progress.known = None;
            self.doubts = true;
        } else if self.doubts {
            progress.known = None;
        }
        (progress, now)
    }

    /// The next piece of a short call at item `at`, as long as it is what it was known to be: a quarter, as a check, then the rest.
    #[inline]
    fn short(&mut self, at: usize, end: usize) -> Option<usize> {
        if at == 0 {
            return Some((end / 4).max(1));
        }
        let now = tick();
        let spent = self.leading.call.pool.nanos(now.saturating_sub(self.start));
        let expected = self.expected(0, at);
        if spent.0 > 2.0 * expected.0 {
            (self.doubts, self.since, self.at) = (true, now, at);
        }
        // Twice as long is still far from worth it; after a pause the first items cost up to 3 us more.
        (spent.0 < 2.0 * expected.0 + 3_000.0).then_some(end)
    }

    /// How long items take according to the site's memory.
    fn expected(&self, lo: usize, hi: usize) -> Nanos {
        let CallerSide { call, memory, .. } = self.leading;
        Nanos(memory.known.alone.0.max(memory.known.shared.0) * call.hints.weight(lo, hi) as f64)
    }

    /// The first quarter of a short call took longer than it should. If the rest did too, the memory is wrong; else it was the cost of
    /// coming back after a pause.
    #[cold]
    fn confirm(&mut self, end: usize) {
        let CallerSide { call, site, .. } = self.leading;
        let spent = call.pool.nanos(tick().saturating_sub(self.since));
        if spent.0 > 2.0 * self.expected(self.at, end).0 {
            call.pool.sites.remember(*site, SiteStats::default());
        }
    }

    /// All items, of which there are `end`, were done alone.
    #[inline(never)]
    fn through(&mut self, end: usize) {
        let CallerSide { call, site, memory, .. } = self.leading;
        let pool = call.pool;
        let weight = call.hints.weight(self.first, end);
        if self.first == end || weight == 0 {
            return;
        }
        let now = self.look(end);
        let spent = pool.nanos(now.saturating_sub(self.start));
        let known = memory.known.after_alone(Nanos(spent.0 / weight as f64));
        let long = self.leading.long(self.longest, self.longest_at, now.saturating_sub(self.start));
        pool.sites.remember(*site, SiteStats { known, long });
        if spent > pool.fixed_costs().enter_idle {
            pool.stayed_serial(now, spent);
        }
    }
}

/// Measures and sizes the claims of one member.
struct Pace<'w> {
    call: &'w Call<'w>,
    member: usize,
    joined: u64,
    /// When the last chunk was handed out, its weight and its first item.
    since: u64,
    weight: u64,
    at: usize,
    /// Nanoseconds of a unit of weight; 0 is unknown.
    per_weight: f64,
    report: Report,
}

impl<'w> Pace<'w> {
    fn new(call: &'w Call<'w>, member: usize, now: u64) -> Self {
        let per_weight = call.per_weight.get_f64();
        Self { call, member, joined: now, since: now, weight: 0, at: 0, per_weight, report: Report::default() }
    }

    /// The next claim, as long as [`Costs::claim_of`](grain::Costs::claim_of) says.
    #[inline]
    fn claim<'s, S: Divide>(&mut self, claims: &mut Claims<'s, S>) -> Option<(Span, S::Chunk<'s>)> {
        if self.weight > 0 {
            self.measure();
        }
        let next = claims.next(|lo, hi| self.want(lo, hi), |lo, hi| self.call.hints.middle(lo, hi));
        let Some((span, chunk, steals)) = next else {
            self.report.busy = self.since.saturating_sub(self.joined);
            claims.report(std::mem::take(&mut self.report));
            self.weight = 0;
            return None;
        };
        self.weight = self.call.hints.weight(span.lo, span.hi);
        self.at = span.lo;
        self.report.weight += self.weight;
        self.report.claims += 1;
        self.report.steals += u64::from(steals);
        Some((span, chunk))
    }

    /// PolledPieces at the clock after a chunk.
    #[inline]
    fn measure(&mut self) {
        let now = tick();
        let took = now.saturating_sub(self.since);
        self.since = now;
        let expected = self.per_weight * self.weight as f64;
        let claim = self.call.pool.fixed_costs().claim.0;
        let nanos = (self.call.pool.nanos(took).0 - claim).max(1.0);
        let measured = nanos / self.weight as f64;
        // Too long a claim does more harm than too short a one: believe at once that items are long, slowly that they are short.
        self.per_weight = if nanos > expected { measured } else { 0.5 * (self.per_weight + measured) };
        if took > self.report.longest {
            (self.report.longest, self.report.longest_at) = (took, self.at as u64);
            if nanos > 16.0 * expected && nanos > 200_000.0 {
                self.suspect(took);
            }
        }
    }

    /// A chunk took far longer than those before: a long item, or the member lost its CPU.
    #[cold]
    fn suspect(&self, took: u64) {
        if self.member > 0 && self.call.pool.was_interrupted(self.member) {
            self.call.lost.set(self.call.lost.get().max(took));
        }
    }

    /// Items to claim of `lo..hi`, the member's own range.
    #[inline]
    fn want(&self, lo: usize, hi: usize) -> usize {
        let hints = self.call.hints;
        if let Some(chunk) = hints.chunk {
            return chunk;
        }
        if self.per_weight == 0.0 {
            return 1;
        }
        let at_hand = Nanos(hints.weight(lo, hi) as f64 * self.per_weight);
        let weight = self.call.pool.fixed_costs().claim_of(at_hand).0 / self.per_weight;
        hints.items(lo, hi, weight as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_first_item_is_no_sample() {
        let pool = crate::Pool::new(2);
        pool.install(|| {
            crate::runtime::pool::with_current(|pool| {
                let hints = Hints::default();
                let call = Call { pool, hints: &hints, per_weight: RelaxedU64::new(0), lost: RelaxedU64::new(0) };
                let mut leading = CallerSide::new(&call, 0, 10);
                // A start in the future reads as "no time has passed", whatever interrupts this thread.
                let mut alone = SerialPart { start: u64::MAX, ..SerialPart::new(&leading) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.left.0, progress.ripe), (0, 9, false));
                assert_eq!(alone.progress(3, 10).0.done.0, 2);
                while pool.nanos(tick()) < pool.fixed_costs().cold {}
                let mut alone = SerialPart { start: 0, ..SerialPart::new(&leading) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.ripe), (1, true));
                // Where the site is known, the first item counts.
                leading.memory.known =
                    windrow_plan::memory::ItemCost { alone: Nanos(10.0), shared: Nanos(0.0), trust: 9 };
                let mut alone = SerialPart { start: u64::MAX, ..SerialPart::new(&leading) };
                assert_eq!(alone.progress(1, 10).0.done.0, 1);
            });
        });
    }
}
