//! Running: what the holder of the lock does, and how callers come to hold it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_sync::hint::Hint;
use windrow_sync::submit::{Closed, Entry, Fate, Held, Home, Limit, Reading, Submit};
use windrow_sync::{Spin, machine};

use super::build::{Full, Options};
use super::room::{Room, Taken};
use super::stats::{Counts, Stats};
use super::{Batch, BatchOps, CallError, Why};

pub(super) const PANICKED: Fate = Fate(1);
pub(super) const POISONED: Fate = Fate(2);

/// One operation in so many handed in is stamped: a clock read costs as much as the lock.
const SAMPLE: u64 = 64;
/// One operation in so many that run alone is timed, and what follows from it is worked out, in more than 100 ns: at one in 64 that is a tenth of
/// what a cheap operation costs.
const ALONE_SAMPLE: u64 = 512;
/// When so many operations have run alone, it is tried again whether batches pay.
const RETRY: u64 = 1 << 14;

/// What the lock guards.
pub(super) struct State<S> {
    /// Not there before the thread that makes it has done so, and when it has been taken away.
    pub(super) home: Option<Home<S>>,
    pub(super) is_poisoned: bool,
    pub(super) counts: Counts,
    /// Room for an order of the operations of a batch.
    pub(super) order: Vec<usize>,
}

pub(super) struct Shared<S: BatchOps> {
    pub(super) submit: Submit<State<S>, S::Op, S::Reply>,
    pub(super) options: Options<S>,
    pub(super) room: Option<Room>,
    /// The thread that holds the lock, by [`here`].
    pub(super) runner: Hint,
    /// How many operations the last batch had.
    pub(super) company: Hint,
    /// 1 if tasks are to wait for each other.
    pub(super) defers: Hint,
    /// What an operation costs alone, in nanoseconds.
    pub(super) alone: Hint,
    /// What the last batch took, in nanoseconds.
    pub(super) batch: Hint,
    /// Operations handed in, more or less.
    pub(super) turns: Hint,
    /// Of the process that made it.
    pub(super) generation: u32,
}

pub(super) type Leading<'h, S> = Held<'h, State<S>, <S as BatchOps>::Op, <S as BatchOps>::Reply>;

/// A number of this thread: no other that is alive has it.
#[inline]
fn here() -> u64 {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

thread_local! {
    /// What this thread is reading. It is gone while the thread ends: then nothing is read, but used alone.
    static READING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread holds the lock. The number is its own, so that nobody else can take it for theirs.
struct Inside<'a>(&'a Hint);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(0);
    }
}

impl<S: BatchOps> State<S> {
    fn structure(&mut self) -> Option<&mut S> {
        if self.is_poisoned { None } else { self.home.as_mut()?.get_mut() }
    }

    /// Runs one operation.
    #[inline]
    pub(super) fn one(&mut self, op: S::Op, options: &Options<S>) -> Result<S::Reply, CallError<S::Op>> {
        let Some(structure) = self.structure() else { return Err(CallError::new(Why::Poisoned, Some(op))) };
        let result = catch_unwind(AssertUnwindSafe(|| structure.run_one(op)));
        self.counts.alone += 1;
        match result {
            Ok(reply) => Ok(reply),
            Err(payload) => Err(self.failed(payload, options)),
        }
    }

    #[cold]
    fn failed(&mut self, payload: Box<dyn std::any::Any + Send>, options: &Options<S>) -> CallError<S::Op> {
        if payload.is::<LeftUnanswered>() {
            return CallError::new(Why::Unanswered, None);
        }
        discard(payload);
        self.recover(options);
        CallError::new(Why::Panicked, None)
    }

    /// Runs one operation and measures it.
    fn one_timed(&mut self, op: S::Op, options: &Options<S>) -> Result<S::Reply, CallError<S::Op>> {
        let start = machine::tick();
        let result = self.one(op, options);
        if result.is_ok() {
            self.counts.fit.observe(1, options.since(start));
        }
        result
    }

    fn run(&mut self, entries: &mut [Entry<S::Op, S::Reply>], options: &Options<S>) -> Fate {
        let size = entries.len();
        let order = std::mem::take(&mut self.order);
        let Some(structure) = self.structure() else { return POISONED };
        let mut batch = Batch::with_room(entries, order);
        let start = machine::tick();
        let result = catch_unwind(AssertUnwindSafe(|| structure.run(&mut batch)));
        self.order = batch.into_room();
        match result {
            Ok(()) => {
                self.counts.fit.observe(size, options.since(start));
                self.counts.count(size);
                Fate::default()
            }
            Err(payload) => {
                discard(payload);
                self.counts.count(size);
                self.recover(options);
                PANICKED
            }
        }
    }

    /// After a panic in the structure.
    fn recover(&mut self, options: &Options<S>) {
        let recovered = match (&options.recover, self.structure()) {
            (Some(recover), Some(structure)) => {
                catch_unwind(AssertUnwindSafe(|| recover(structure))).map_err(discard).is_ok()
            }
            _ => false,
        };
        self.is_poisoned |= !recovered;
    }
}

/// Drops a payload nobody will see. Its own drop may panic.
pub(super) fn discard(payload: Box<dyn std::any::Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// Runs what is another's code, and must not keep up what follows it. A panic has been reported by the hook.
pub(super) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// What unwinds from [`BatchOps::run_one`] if the operation has no reply.
pub(super) struct LeftUnanswered;

impl<S: BatchOps> Shared<S> {
    /// Whether this thread holds the lock, or reads: it would wait for itself.
    pub(super) fn is_inside(&self) -> bool {
        let reads = || READING.try_with(|reading| reading.borrow().contains(&self.address()));
        self.runner.get() == here() || reads().unwrap_or(false)
    }

    /// Whether this is a forked child of the process that made it: the thread that holds the lock may not exist here.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.generation != machine::fork_generation()
    }

    /// Why a call of this thread cannot be taken in, whatever it is for.
    pub(super) fn refuses(&self) -> Option<Why> {
        if self.is_forked() {
            return Some(Why::Forked);
        }
        self.is_inside().then_some(Why::Nested)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    fn enter(&self) -> Inside<'_> {
        self.runner.set(here());
        Inside(&self.runner)
    }

    /// The lock, if callers run and nobody else wants it.
    ///
    /// Beside a thread, only after a batch of one: where there is company, who takes the lock first would run alone, and let the others wait.
    #[inline]
    pub(super) fn try_alone(&self) -> Option<Leading<'_, S>> {
        let options = &self.options;
        let is_another = options.is_elsewhere && !(options.is_shared && self.company.get() <= 1);
        if is_another || self.is_forked() {
            return None;
        }
        self.submit.try_lock()
    }

    /// The lock, if operations are so cheap that waiting for it a little is better than handing over.
    pub(super) fn wait_alone(&self) -> Option<Leading<'_, S>> {
        if self.options.is_elsewhere {
            return None;
        }
        let mut held = None;
        let (patience, apart) = self.options.patience(Nanos(self.alone.get_f64()));
        // It was held a moment ago.
        let mut last = machine::tick();
        patience.until(|| {
            let now = machine::tick();
            if now.saturating_sub(last) >= apart {
                last = now;
                held = self.submit.try_lock();
            }
            held.is_some()
        });
        held
    }

    /// Runs an operation of this caller that has found the lock free.
    ///
    /// Between the two exchanges there is as little as can be, and nothing is called: an exchange waits for all stores before it, those
    /// that save registers for a call too.
    #[inline]
    pub(super) fn alone(&self, mut held: Leading<'_, S>, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        let inside = self.enter();
        let state = held.data();
        if state.counts.alone.is_multiple_of(ALONE_SAMPLE) {
            drop(inside);
            return self.alone_timed(held, op);
        }
        let result = state.one(op, &self.options);
        drop(inside);
        if let Err(held) = held.try_end() {
            self.lead_on(held);
        }
        result
    }

    /// The same for one that is measured.
    #[cold]
    fn alone_timed(&self, mut held: Leading<'_, S>, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        let inside = self.enter();
        let state = held.data();
        let turn = state.counts.alone;
        let result = state.one_timed(op, &self.options);
        if turn.is_multiple_of(RETRY) {
            state.counts.try_again();
        }
        self.learn(state);
        drop(inside);
        self.lead_on(held);
        result
    }

    /// Lets go, or goes on for those who have come meanwhile.
    #[cold]
    fn lead_on(&self, held: Leading<'_, S>) {
        if let Err(mut held) = held.try_end()
            && !self.options.is_elsewhere
        {
            self.lead(&mut held, false);
        }
    }

    /// Leaves for callers what the counts say.
    #[cold]
    fn learn(&self, state: &mut State<S>) {
        self.defers.set(u64::from(state.counts.pays()));
        if let Some(one) = state.counts.fit.one() {
            self.alone.set_f64(one.0);
        }
    }

    /// Until the caller's own operation is answered, and then one more batch if there is one.
    pub(super) fn lead(&self, held: &mut Leading<'_, S>, lingers: bool) {
        let _inside = self.enter();
        while !held.is_mine_answered() {
            self.batch(held, lingers);
        }
        if held.is_more() {
            self.batch(held, false);
        }
    }

    /// Until nothing is queued, but not for ever: a runner that is spawned leaves its thread to others now and then.
    pub(super) fn lead_all(&self, held: &mut Leading<'_, S>) {
        /// About as much as a task on an executor should do at a time: a few hundred operations.
        const BATCHES: usize = 64;
        let _inside = self.enter();
        for _ in 0..BATCHES {
            if !held.is_more() {
                return;
            }
            self.batch(held, true);
        }
    }

    fn batch(&self, held: &mut Leading<'_, S>, lingers: bool) {
        let options = &self.options;
        if lingers && let Some((least, longest)) = options.linger {
            self.linger(held, least, longest);
        }
        // One that cannot be weighed is run on its own: a panic here would come again with every batch.
        let weigh: &dyn Fn(&S::Op) -> usize = &|op| {
            catch_unwind(AssertUnwindSafe(|| S::weight(op))).unwrap_or_else(|payload| {
                discard(payload);
                usize::MAX
            })
        };
        let limit = Limit { ops: options.limit, weight: options.weight.map(|most| (most, weigh)) };
        let start = machine::tick();
        let Some(mut cut) = held.cut(&limit) else { return };
        let wait = cut.marks().find(|&(mark, _)| mark != 0).map(|(mark, _)| start.saturating_sub(mark));
        let (callers, is_limited) = (cut.callers(), cut.is_limited());
        let (state, entries) = cut.parts();
        let size = entries.len();
        self.company.set(size as u64);
        if let Some(wait) = wait {
            state.counts.waited(options.nanos(wait));
        }
        let ran = machine::tick();
        let fate = state.run(entries, options);
        let done = machine::tick();
        let took = options.nanos(done.saturating_sub(ran));
        self.batch.set_f64(took.0);
        // Before it is known what of a batch is F, it may be all of it.
        let fixed = state.counts.fit.law().map_or(took, |law| law.fixed);
        let heads = windrow_plan::batch::heads(callers, fixed);
        state.counts.limited += u64::from(is_limited);
        cut.set_fate(fate);
        cut.set_heads(heads);
        drop(cut);
        let around = machine::tick().saturating_sub(start).saturating_sub(done.saturating_sub(ran));
        let sleepers = held.sleepers();
        let state = held.data();
        state.counts.handed(size, options.nanos(around), sleepers);
        self.learn(state);
    }

    /// Waits for more, until the oldest has waited for `longest`, or the structure is wanted for a job, or to be closed.
    fn linger(&self, held: &mut Leading<'_, S>, least: usize, longest: Duration) {
        let Some(arrived) = held.oldest() else { return };
        let longest = Nanos(longest.as_nanos() as f64);
        while held.queued().is_some_and(|queued| queued < least) {
            let left = longest.0 - self.options.since(arrived).0;
            if left <= 0.0 {
                return;
            }
            // Nobody tells a runner that lingers of arrivals, for then every one of them would pay: it looks again and again. A look
            // takes it a few microseconds, so this is some per cent of a CPU.
            std::thread::sleep(Duration::from_nanos(left.min(100_000.0) as u64));
        }
    }

    /// A mark for what is handed in: the time, if somebody will ask for it.
    pub(super) fn mark(&self) -> u64 {
        let turn = self.turns.get();
        self.turns.set(turn.wrapping_add(1));
        if self.options.linger.is_some() || turn.is_multiple_of(SAMPLE) { machine::tick().max(1) } else { 0 }
    }

    /// Hands in and blocks until all is answered.
    pub(super) fn hand_in(&self, entries: &mut [Entry<S::Op, S::Reply>]) -> Result<Fate, Closed> {
        self.submit.call(entries, self.mark(), self.look_for(), |held| self.lead(held, true))
    }

    /// How long who has handed in looks for the answer before it sleeps.
    fn look_for(&self) -> Spin {
        self.options.look(Nanos(self.batch.get_f64()))
    }

    /// Room in the queue, if it has a bound; or what to do without.
    pub(super) fn wait_for_room(&self, ops: usize) -> Result<Option<Taken<'_>>, Full> {
        let Some(room) = &self.room else { return Ok(None) };
        if let Some(taken) = room.try_take(ops) {
            return Ok(Some(taken));
        }
        match self.options.full {
            Full::Wait => Ok(Some(room.wait(ops))),
            other => Err(other),
        }
    }

    /// Runs `job` on the state in its turn.
    pub(super) fn job(&self, job: &mut (dyn FnMut(&mut State<S>) + Send)) -> Result<(), Why> {
        if let Some(why) = self.refuses() {
            return Err(why);
        }
        let done = self.submit.job(job, self.look_for(), |held| self.lead(held, false));
        done.map(|_| ()).map_err(|_| Why::Closed)
    }

    pub(super) fn exclusive<R: Send>(&self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, Why> {
        let (mut f, mut result) = (Some(f), None);
        self.job(&mut |state| {
            result = match (f.take(), state.structure()) {
                (Some(f), Some(structure)) => {
                    let outcome = catch_unwind(AssertUnwindSafe(|| f(structure)));
                    if outcome.is_err() {
                        state.recover(&self.options);
                    }
                    Some(Ok(outcome))
                }
                _ => Some(Err(Why::Poisoned)),
            };
        })?;
        match result.unwrap_or(Err(Why::Unanswered))? {
            Ok(result) => Ok(result),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The state, shared with other readers, if it can be had now. What is closed is let go of soon, and cannot be waited for in line.
    fn look(&self) -> Option<Reading<'_, State<S>, S::Op, S::Reply>>
    where
        State<S>: Sync,
    {
        loop {
            let state = self.submit.try_read();
            if state.is_some() || !self.submit.is_closed() || self.is_inside() {
                return state;
            }
            std::thread::yield_now();
        }
    }

    pub(super) fn read<R: Send>(&self, f: impl FnOnce(&S) -> R + Send) -> Result<R, Why>
    where
        S: Sync,
    {
        if let Some(why) = self.refuses() {
            return Err(why);
        }
        // Beside other readers only if a call inside of `f` can be told that it is nested. (What is closed takes no call.)
        let can_read = || READING.try_with(|_| ()).is_ok() || self.submit.is_closed();
        if let Some(state) = self.look().filter(|_| can_read()) {
            if state.is_poisoned {
                return Err(Why::Poisoned);
            }
            if let Some(structure) = state.home.as_ref().and_then(Home::get) {
                /// Takes it off the list again, also while unwinding.
                struct Read;
                impl Drop for Read {
                    fn drop(&mut self) {
                        let _own = READING.try_with(|reading| reading.borrow_mut().pop());
                    }
                }
                let _ = READING.try_with(|reading| reading.borrow_mut().push(self.address()));
                let _read = Read;
                return Ok(f(structure));
            }
        }
        self.exclusive(|structure| f(structure))
    }

    pub(super) fn stats(&self) -> Result<Stats, Why> {
        if self.is_forked() {
            return Err(Why::Forked);
        }
        if let Some(state) = self.look() {
            return Ok(state.counts.snapshot());
        }
        let mut stats = None;
        self.job(&mut |state| stats = Some(state.counts.snapshot()))?;
        stats.ok_or(Why::Unanswered)
    }

    pub(super) fn close(&self) -> Result<(), Why> {
        if let Some(why) = self.refuses() {
            return Err(why);
        }
        self.submit.close(self.look_for(), |held| self.lead(held, false)).map_err(|_| Why::Closed)
    }

    /// The structure, when it is closed and its callers are gone.
    pub(super) fn give_up(&self) -> Option<S> {
        let mut home = None;
        // A runner that was spawned may still be about to let go.
        while !self.submit.run(|held| home = held.data().home.take().filter(|_| !held.data().is_poisoned)) {
            std::thread::yield_now();
        }
        home?.into_inner()
    }
}
