//! The driver of one parallel call: serial first, published when the measured rest pays, then claimed in chunks.

use std::cell::Cell;
use std::ops::ControlFlow;

use windrow_plan::listen::grouped;
use windrow_plan::machine::WorkerState;
use windrow_plan::share::{self, Grain, Progress, ShareChoice, StandBy};
use windrow_plan::{Items, Nanos};
use windrow_sync::divide::{Claims, Divide, Division, Lead, Span};
use windrow_sync::gate::{Door, JoinedWorker};
use windrow_sync::machine::tick;
use windrow_sync::relaxed::RelaxedU64;

use super::ablation::Mechanism;
use super::begun::{BegunCall, InsideCall};
use super::hints::{CallPart, Hints};
use super::listen::{Account, CallKind, Ended, Region, Reported};
use super::pace::{Call, FEW, Pace};
use super::poll::PollInterval;
use super::sites::{LongItem, SiteStats};
use super::state::PoolState;
use super::unmeasured::CallStart;

/// Drives a call: every chunk of the division goes to `each`, on the caller, and on workers if that pays. Together the chunks cover
/// the division, unless a member breaks off or panics, or the call is cancelled.
///
/// A member keeps a value from chunk to chunk: `begin` makes the value before the first chunk, `end` gets it after the last one. A member
/// whose `each` breaks claims no more, and leaves.
///
/// (`'s` is the borrow of *this* division and not any lifetime: a closure over chunks of every lifetime would force the
/// source to be `'static`.)
#[inline]
pub(crate) fn drive<'s, S, L, B, E, F>(
    pool: &PoolState,
    hints: &Hints,
    lead: &mut Lead<'s, S>,
    division: &'s Division<S>,
    begin: B,
    each: E,
    end: F,
) where
    S: Divide,
    B: Fn() -> L + Sync,
    E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()> + Sync,
    F: Fn(L) + Sync,
{
    let code = take_part::<S, L, E> as fn(&Call<'_>, Claims<'s, S>, u64, &mut L, &E) as *const () as usize;
    drive_begun(BegunCall::new(pool, hints, lead.rest().len(), code), lead, division, begin, each, end);
}

/// [`drive`] for a call that has begun.
#[inline]
pub(crate) fn drive_begun<'s, S, L, B, E, F>(
    begun: BegunCall<'_>,
    lead: &mut Lead<'s, S>,
    division: &'s Division<S>,
    begin: B,
    each: E,
    end: F,
) where
    S: Divide,
    B: Fn() -> L + Sync,
    E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()> + Sync,
    F: Fn(L) + Sync,
{
    let BegunCall { pool, hints, items, depth, decides, site, start, reported } = begun;
    if decides && start != CallStart::Unmeasured {
        let call = Call { pool, hints, per_weight: RelaxedU64::new(0), polls: !hints.whole };
        let caller = CallerSide::new(&call, site, items);
        decided(&caller, depth, lead, division, begin, each, end);
        if let Some(reported) = reported {
            caller.end(reported);
        }
        return;
    }
    let _inside = InsideCall::new(depth, decides);
    let mut local = begin();
    run_alone(pool, hints, lead, &mut local, &each);
    end(local);
    if let Some(reported) = reported {
        let account = Account { reason: "serial: nothing to decide".into(), ..Account::default() };
        end_loop(reported, hints, items, 1, &account);
    }
}

/// The end of a loop that is reported.
#[cold]
fn end_loop(reported: Reported, hints: &Hints, items: usize, threads: usize, account: &Account) {
    let ended = Ended::new(hints.items_before(items), reported.took(), account).on(threads);
    reported.end(&Ended { is_further: hints.part == CallPart::Further, ..ended });
}

/// Drives a call that may be shared.
#[inline(never)]
fn decided<'s, S, L, B, E, F>(
    caller: &CallerSide<'_>,
    depth: usize,
    lead: &mut Lead<'s, S>,
    division: &'s Division<S>,
    begin: B,
    each: E,
    end: F,
) where
    S: Divide,
    B: Fn() -> L + Sync,
    E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()> + Sync,
    F: Fn(L) + Sync,
{
    let call = caller.call;
    let pool = call.pool;
    let _inside = InsideCall::new(depth, true);
    let region = Region::new(CallKind::Loop, "loop", call.hints.place);
    let member = |JoinedWorker { worker, member }| {
        let now = tick();
        pool.joined(worker, now);
        let _member = region.member();
        let stop = StopOnUnwind(division);
        let _inside = InsideCall::new(depth, true);
        let mut local = begin();
        take_part(call, division.claims(member), now, &mut local, &each);
        end(local);
        std::mem::forget(stop);
    };
    pool.gate.region(&member, pool.settle, |door| {
        let stop = StopOnUnwind(division);
        let mut local = begin();
        run_caller(caller, door, lead, &mut local, &each);
        caller.entered.set(1 + door.joined());
        end(local);
        std::mem::forget(stop);
    });
    if let Some(published) = caller.published.get() {
        caller.learn(published, division);
    }
}

/// Runs a call that cannot be shared: as one chunk, or in pieces of about a heartbeat if the call can be cancelled.
#[inline]
fn run_alone<'s, S: Divide, L>(
    pool: &PoolState,
    hints: &Hints,
    lead: &mut Lead<'s, S>,
    local: &mut L,
    each: &impl Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>,
) {
    let mut interval = hints.cancellation().is_some().then(|| PollInterval::new(pool));
    loop {
        let next = || interval.as_mut().map_or(usize::MAX, |interval| interval.next(usize::MAX));
        let want = hints.chunk().unwrap_or_else(next);
        let Some((at, chunk)) = lead.take(want) else { return };
        if hints.cuts() || each(local, at, chunk).is_break() {
            return;
        }
    }
}

/// The caller's part: pieces alone, until all items are done or sharing the rest pays. Then the caller claims, as any member.
fn run_caller<'s, S: Divide, L, E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>>(
    caller: &CallerSide<'_>,
    door: &Door<'_>,
    lead: &mut Lead<'s, S>,
    local: &mut L,
    each: &E,
) {
    let mut alone = SerialPart::new(caller);
    let hints = caller.call.hints;
    // The claims of this caller while workers stand by, and whether they were parked before.
    let (mut shown, mut woke): (Option<Claims<'s, S>>, bool) = (None, false);
    loop {
        let rest = shown.as_ref().map_or_else(|| lead.rest(), Claims::at_hand);
        if shown.is_some() && door.joined() > 0 {
            let per_weight = alone.joined(rest.start, door.joined() + 1);
            caller.call.per_weight.set_f64(per_weight.0);
            return take_part(caller.call, lead.claims(0), tick(), local, each);
        }
        match alone.step(rest.start, rest.end) {
            CallerStep::Run { items } => {
                if rest.start == 0
                    && let Some(by) = alone.stands_by(rest.end)
                {
                    shown = Some(caller.show(lead, door, by));
                    woke = by.wakes;
                    alone.begin();
                }
                let (mut left, polled) = (items, polled(caller.call, items, shown.is_some()));
                while left > 0 {
                    let chunk = match &mut shown {
                        Some(claims) => {
                            let Some(_) = claims.claim(|_, _| left, |lo, hi| hints.middle(lo, hi)) else {
                                return;
                            };
                            claims.take(polled.min(left))
                        }
                        None => lead.take(polled.min(left)),
                    };
                    let Some((at, chunk)) = chunk else { return };
                    left -= at.len();
                    if hints.cuts() || each(local, at, chunk).is_break() {
                        return;
                    }
                }
            }
            CallerStep::Share { published, per_weight } => {
                match shown {
                    // Workers that were woken before are neither idle nor parked: the time does not tell what entering costs.
                    Some(_) => caller.hasten(door, Published { stood_by: woke, ..published }, per_weight),
                    None => caller.publish(lead, door, published, per_weight),
                }
                return take_part(caller.call, lead.claims(0), tick(), local, each);
            }
            CallerStep::Done => return,
        }
    }
}

/// Items between two polls of a caller that runs `items` items, which should last for a heartbeat at most. It polls if others can stop it.
fn polled(call: &Call<'_>, items: usize, shown: bool) -> usize {
    let hints = call.hints;
    if hints.whole || !shown && hints.cancellation().is_none() {
        return items;
    }
    let machine = call.pool.guess();
    let polls = machine.heartbeat().0 / machine.between_polls().0;
    (items as f64 / polls).max(if hints.has_blocks() { 1.0 } else { FEW }) as usize
}

/// A member's part, from the time `now` on: claims, until nothing is left to claim. A separate function, because its address is part of the
/// [`site`].
#[inline(never)]
fn take_part<'s, S: Divide, L, E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>>(
    call: &Call<'_>,
    mut claims: Claims<'s, S>,
    now: u64,
    local: &mut L,
    each: &E,
) {
    let mut pace = Pace::new(call, now);
    while let Some((at, chunk)) = pace.next(&mut claims) {
        if call.hints.cuts() || each(local, at, chunk).is_break() {
            return;
        }
    }
}

/// A panic in one member ends the others at their next poll. A member that returns forgets this guard. (A check of `panicking()` instead
/// would stop a region that a destructor runs during a panic.)
struct StopOnUnwind<'a, S: Divide>(&'a Division<S>);

impl<S: Divide> Drop for StopOnUnwind<'_, S> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The caller's side of a call.
struct CallerSide<'c> {
    call: &'c Call<'c>,
    site: usize,
    items: usize,
    memory: SiteStats,
    published: Cell<Option<Published>>,
    /// The last decision.
    decided: Cell<Option<LastChoice>>,
    /// Members that have entered the call, the caller included.
    entered: Cell<usize>,
}

/// A decision, and where it was made.
#[derive(Clone, Copy)]
struct LastChoice {
    why: &'static str,
    /// Predicted times of the rest: serial, and shared if that was predicted.
    serial: Nanos,
    shared: Option<Nanos>,
    /// The site knew the cost of items.
    is_known: bool,
    /// The item at which it was made, and the time since the call began.
    at: usize,
    since: Nanos,
}

/// How a region was opened, and what the caller had done before.
#[derive(Clone, Copy)]
struct Published {
    at: u64,
    width: usize,
    found: WorkerState,
    before: Before,
    /// The caller's measurement contradicted what the site remembers.
    doubts: bool,
    /// Workers that stood by have joined by themselves, or were woken before: the time does not tell what entering costs.
    stood_by: bool,
}

/// What a caller has done alone: weight, ticks, the ticks of the longest piece, and the first item of that piece.
#[derive(Clone, Copy, Default)]
struct Before {
    weight: u64,
    ticks: u64,
    longest: u64,
    longest_at: usize,
}

impl<'c> CallerSide<'c> {
    fn new(call: &'c Call<'c>, site: usize, items: usize) -> Self {
        let is_off = call.pool.off.contains(Mechanism::Sites);
        let memory = if is_off { SiteStats::default() } else { call.pool.sites.recall(site) };
        let (published, decided, entered) = (Cell::new(None), Cell::new(None), Cell::new(1));
        Self { call, site, items, memory, published, decided, entered }
    }

    /// What to do next at item `at`, at the time `now`, which is `since` after the begin of the call.
    fn choose(&self, progress: &Progress, at: usize, now: u64, since: Nanos) -> (Grain, WorkerState) {
        let pool = self.call.pool;
        let (state, costs) = (pool.workers(), pool.costs(now));
        let ShareChoice { grain, why, shared } = share::choose(progress, &state, &costs);
        // The decision about the last item is trivial.
        if progress.left.0 > 1 || self.decided.get().is_none() {
            let (serial, is_known) = (progress.rest(), progress.known.is_some());
            self.decided.set(Some(LastChoice { why, serial, shared, is_known, at, since }));
        }
        let wakes = matches!(grain, Grain::Publish { width } if width > state.idle + 1);
        (grain, pool.found(now, wakes))
    }

    /// Lets workers stand by: all items are in the caller's part. If no lane is free, none stands by.
    #[inline(never)]
    fn show<'s, S: Divide>(&self, lead: &mut Lead<'s, S>, door: &Door<'_>, by: StandBy) -> Claims<'s, S> {
        let (pool, rest) = (self.call.pool, lead.rest());
        pool.opens(by.wakes);
        lead.share(by.width, 0, |part| if part == 0 { rest.start } else { rest.end });
        door.open_at(tick() + pool.ticks(by.patience), by.width);
        lead.claims(0)
    }

    /// Lets workers in that stand by, and wakes others.
    #[inline(never)]
    fn hasten(&self, door: &Door<'_>, published: Published, per_weight: Nanos) {
        self.published.set(Some(published));
        self.call.per_weight.set_f64(per_weight.0);
        self.call.pool.opens(published.found != WorkerState::Idle);
        door.open_now();
    }

    /// Divides the rest among members, and opens the gate.
    #[inline(never)]
    fn publish<S: Divide>(&self, lead: &mut Lead<'_, S>, door: &Door<'_>, published: Published, per_weight: Nanos) {
        let (pool, hints) = (self.call.pool, self.call.hints);
        self.published.set(Some(published));
        self.call.per_weight.set_f64(per_weight.0);
        pool.opens(published.found != WorkerState::Idle);
        let (rest, width) = (lead.rest(), published.width);
        // An item that took a large part of the last call comes first: the caller's part begins with it.
        let long = self.memory.long.filter(|long| long.of as usize == self.items).map(|long| long.at as usize);
        let long = long.filter(|_| !pool.off.contains(Mechanism::LongItems));
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
            // No lane was free, or the gate is stopped: this caller goes on alone, and claims all of the rest itself.
            self.published.set(None);
            if let Some(decided) = self.decided.get() {
                let why = "no lane is free, or the pool has ended";
                self.decided.set(Some(LastChoice { why, ..decided }));
            }
        }
    }

    /// The item at `at`, if its `longest` ticks were a large part of a call of `wall` ticks. An item of more than a quarter of the call is worth
    /// a place at the front. An item that takes no longer than first touches of code and data is not.
    fn long(&self, longest: u64, at: usize, wall: u64) -> Option<LongItem> {
        let pool = self.call.pool;
        let is_long = longest > wall / 4 && pool.nanos(longest) > pool.guess().cold();
        let (at, of) = (u32::try_from(at).ok()?, u32::try_from(self.items).ok()?);
        is_long.then_some(LongItem { at, of })
    }

    /// Reports how the call went, and why.
    #[cold]
    fn end(&self, reported: Reported) {
        let hints = self.call.hints;
        let Some(decided) = self.decided.get() else { return };
        let LastChoice { why, since, at, .. } = decided;
        // Nothing is predicted of an iterator that does not say how many items it has.
        let from_start = |time: Nanos| (self.items < usize::MAX).then_some(Nanos(since.0 + time.0));
        let (serial, shared) = (from_start(decided.serial), decided.shared.and_then(from_start));
        let or = |name, time: Option<Nanos>| [time.map(|time| (name, time)), None];
        let (reason, predicted, alternatives, threads) = match (self.published.get(), hints.items_before(at)) {
            (None, _) => (format!("serial: {why}"), serial, or("shared", shared), 1),
            (_, 0) => (format!("shared at once: {why}"), shared, or("serial", serial), self.entered.get()),
            (_, items) => {
                let items = if items == 1 { "1 item".to_owned() } else { format!("{} items", grouped(items)) };
                let reason = format!("shared after {items} took {since}: {why}");
                (reason, shared, or("serial", serial), self.entered.get())
            }
        };
        let (reason, from_memory) = (reason.into(), decided.is_known);
        end_loop(reported, hints, self.items, threads, &Account { reason, predicted, alternatives, from_memory });
    }

    /// Updates the statistics of the site and the pool after a region.
    #[inline(never)]
    fn learn<S: Divide>(&self, published: Published, division: &Division<S>) {
        let pool = self.call.pool;
        let now = tick();
        let wall = now.saturating_sub(published.at);
        let (mut members, mut claims) = (0, 0);
        let (mut busy, mut weight, mut longest, mut longest_at) = (0, 0, 0, 0);
        for report in division.reports() {
            members += usize::from(report.claims > 0);
            claims += report.claims;
            busy += report.busy;
            weight += report.weight;
            if report.longest > longest {
                (longest, longest_at) = (report.longest, report.longest_at);
            }
        }
        let nanos = |ticks| pool.nanos(ticks);
        let before = published.before;
        if weight == 0 {
            // The region was stopped before any member had reported, or workers that stood by have come too late.
            if published.stood_by && before.weight > 0 {
                let known = self.memory.known.after_alone(Nanos(nanos(before.ticks).0 / before.weight as f64), true);
                pool.remember(self.site, SiteStats { known, long: None });
            }
            return pool.ended(now);
        }
        // The region takes at least as long as its longest item.
        let at_best = nanos(busy / published.width as u64).0.max(nanos(longest).0);
        let entering = (members > 1).then(|| Nanos((nanos(wall).0 - at_best).max(0.0)));
        match published.stood_by {
            true => pool.lasted(now),
            false => pool.learn(now, published.found, entering, nanos(wall + before.ticks)),
        }
        let in_items = (nanos(busy + before.ticks).0 - claims as f64 * pool.guess().claim.0).max(1.0);
        // A first shared call may be far slower than calls that ran alone. A memory that this call has contradicted says nothing.
        let known = if published.doubts { self.memory.known.forgotten() } else { self.memory.known };
        let known = known.after_shared(Nanos(in_items / (weight + before.weight) as f64));
        if before.longest > longest {
            (longest, longest_at) = (before.longest, before.longest_at as u64);
        }
        let long = self.long(longest, longest_at as usize, wall + before.ticks);
        pool.remember(self.site, SiteStats { known, long });
    }
}

/// What the caller does next.
enum CallerStep {
    /// Run so many items alone, then ask again.
    Run { items: usize },
    /// Share the rest. A unit of weight takes `per_weight`.
    Share { published: Published, per_weight: Nanos },
    /// Nothing is left.
    Done,
}

/// The caller's measurements while it is alone.
struct SerialPart<'w> {
    caller: &'w CallerSide<'w>,
    begun: u64,
    /// The measurement begins at this time.
    start: u64,
    /// When the last piece was handed out, and its first item.
    since: u64,
    at: usize,
    longest: u64,
    longest_at: usize,
    /// The measurement contradicts what the site remembers.
    doubts: bool,
}

impl<'w> SerialPart<'w> {
    fn new(caller: &'w CallerSide<'w>) -> Self {
        let now = tick();
        Self { caller, begun: now, start: now, since: now, at: 0, longest: 0, longest_at: 0, doubts: false }
    }

    /// What to do next at item `at` of `end`.
    #[inline(never)]
    fn step(&mut self, at: usize, end: usize) -> CallerStep {
        if at == end {
            self.through(end);
            return CallerStep::Done;
        }
        let (progress, now) = self.progress(at, end);
        let since = self.caller.call.pool.nanos(now.saturating_sub(self.begun));
        let (choice, found) = self.caller.choose(&progress, at, now, since);
        match choice {
            Grain::Serial { piece } => CallerStep::Run { items: self.caller.call.hints.items(at, end, piece.0) },
            Grain::Publish { width } => {
                let per_weight = progress.per_item().unwrap_or_default();
                let (before, doubts) = (self.before(now, at), self.doubts);
                let published = Published { at: now, width, found, before, doubts, stood_by: false };
                CallerStep::Share { published, per_weight }
            }
        }
    }

    /// Begins the measurement: what was done before the first item is not a part of its cost.
    fn begin(&mut self) {
        self.start = tick();
        self.since = self.start;
    }

    /// Which workers stand by for this call, of `end` items, which begins serially.
    #[inline]
    fn stands_by(&self, end: usize) -> Option<StandBy> {
        let CallerSide { call: &Call { pool, hints, .. }, memory, .. } = *self.caller;
        // A claim of more than 2^32 items is claimed as a whole.
        if end > u32::MAX as usize || pool.off.contains(Mechanism::StandBy) {
            return None;
        }
        let known = if self.doubts { memory.known.forgotten() } else { memory.known };
        share::stands_by(known, hints.weight(0, end), end, || (pool.workers(), pool.machine()))
    }

    /// Records that workers that stood by have joined, when the caller comes to item `at`. Returns the cost of a unit of weight, or 0.
    #[inline(never)]
    fn joined(&mut self, at: usize, width: usize) -> Nanos {
        let caller = self.caller;
        let (progress, now) = self.progress(at, caller.items);
        let (before, doubts) = (self.before(now, at), self.doubts);
        let published = Published { at: now, width, found: WorkerState::Idle, before, doubts, stood_by: true };
        caller.published.set(Some(published));
        let (why, serial) = ("it lasted, so workers that stood by joined", progress.rest());
        let since = caller.call.pool.nanos(now.saturating_sub(self.begun));
        let (shared, is_known) = (Some(Nanos(serial.0 / width as f64)), progress.known.is_some());
        caller.decided.set(Some(LastChoice { why, serial, shared, is_known, at, since }));
        progress.per_item().unwrap_or_default()
    }

    /// What the caller has done alone by the time `now`, when it comes to item `at`.
    fn before(&self, now: u64, at: usize) -> Before {
        let weight = self.caller.call.hints.weight(0, at);
        let &SerialPart { start, longest, longest_at, .. } = self;
        Before { weight, ticks: now.saturating_sub(start), longest, longest_at }
    }

    /// Records that the piece before item `at` is done. Returns the time.
    fn look(&mut self, at: usize) -> u64 {
        let now = tick();
        let took = now.saturating_sub(self.since);
        if took > self.longest {
            (self.longest, self.longest_at) = (took, self.at);
        }
        (self.since, self.at) = (now, at);
        now
    }

    /// What the caller has done alone when it comes to item `at` of `end`, and the time.
    #[inline(never)]
    fn progress(&mut self, at: usize, end: usize) -> (Progress, u64) {
        let CallerSide { call, memory, .. } = self.caller;
        let machine = call.pool.guess();
        let now = if at == 0 { self.start } else { self.look(at) };
        let mut progress = Progress {
            done: Items(call.hints.weight(0, at)),
            spent: call.pool.nanos(now.saturating_sub(self.start)),
            left: Items(call.hints.weight(at, end)),
            ripe: false,
            known: memory.known.trusted().filter(|_| !self.doubts),
            eager: call.hints.chunk().is_some(),
        };
        let contradicted = progress.known.is_some_and(|known| progress.contradicts(known.per_item, machine));
        self.doubts |= contradicted;
        progress.known = progress.known.filter(|_| !contradicted);
        progress.ripe = progress.done.0 > 0 && progress.spent >= machine.sample();
        (progress, now)
    }

    /// Updates the statistics of the site after all `end` items ran alone.
    #[inline(never)]
    fn through(&mut self, end: usize) {
        let CallerSide { call, site, memory, .. } = self.caller;
        let pool = call.pool;
        let weight = call.hints.weight(0, end);
        if weight == 0 {
            return;
        }
        let now = self.look(end);
        let spent = pool.nanos(now.saturating_sub(self.start));
        let expected = Nanos(memory.known.per_item().0 * weight as f64);
        let contradicted = self.doubts || share::contradicts(spent, expected, pool.guess());
        let known = memory.known.after_alone(Nanos(spent.0 / weight as f64), contradicted);
        let long = self.caller.long(self.longest, self.longest_at, now.saturating_sub(self.start));
        pool.remember(*site, SiteStats { known, long });
        if spent > pool.guess().enter(WorkerState::Idle) {
            pool.stayed_serial(now, spent);
        }
    }
}

#[cfg(test)]
mod tests {
    use windrow_plan::site::ItemCost;

    use super::*;

    #[test]
    fn a_short_first_item_is_no_sample() {
        let pool = crate::Pool::new(2);
        pool.install(|| {
            crate::runtime::pool::with_current(|pool| {
                let hints = Hints::default();
                let call = Call { pool, hints: &hints, per_weight: RelaxedU64::new(0), polls: true };
                let mut caller = CallerSide::new(&call, 0, 10);
                // A start in the future reads as "no time has passed", whatever interrupts this thread.
                let mut alone = SerialPart { start: u64::MAX, ..SerialPart::new(&caller) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.left.0, progress.ripe), (1, 9, false));
                while pool.nanos(tick()) < pool.guess().sample() {}
                let mut alone = SerialPart { start: 0, ..SerialPart::new(&caller) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.ripe), (1, true));
                // Where the site is known, the first item counts, and may contradict what is known.
                caller.memory.known = (0..3).fold(ItemCost::default(), |known, _| known.after_alone(Nanos(10.0), true));
                let mut alone = SerialPart { start: u64::MAX, ..SerialPart::new(&caller) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.known.is_some()), (1, true));
                let mut alone = SerialPart { start: 0, ..SerialPart::new(&caller) };
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.known), (1, None));
            });
        });
    }
}
