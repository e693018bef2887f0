//! Running batches: the ways of callers to the lock, and the work of its holder.

use std::panic::{AssertUnwindSafe, catch_unwind};

use windrow_plan::Nanos;
use windrow_plan::batch::{BatchRunner, direct_wakes, lock_retries, reply_spin, task_lock_retries};
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::submit::{BatchGuard, Closed, Entry, Fate, Limit, LockGuard, Submit};
use windrow_sync::{Spin, ThreadBound, machine};

use super::gauges::Seen;
use super::options::{OnPanic, Options, Overflow};
use super::regroup::Regroup;
use super::stats::BatchCounts;
use super::{Batch, BatchError, BatchOps, CallError, outcome};
use crate::runtime::call::thread_number;
use crate::runtime::listen::{self, CallKind, EventKind, Region};
use windrow_sync::submit::room::{Capacity, Permit};
use windrow_sync::unwind::{Finally, Payload, discard};

pub(super) const PANICKED: Fate = Fate(1);
pub(super) const POISONED: Fate = Fate(2);
pub(super) const DROPPED: Fate = Fate(3);

/// One in 64 operations that are handed in is stamped with the time: a clock read costs as much as the lock.
///
/// Measure: count of operations.
const SAMPLE: u64 = 64;
/// One in 512 operations that run alone is timed, and the fit is updated. That takes more than 100 ns: at one in 64 it would be a tenth of
/// the cost of a cheap operation.
///
/// Measure: count of operations.
const ALONE_SAMPLE: u64 = 512;
/// Operations that run alone between two experiments that measure whether batches pay.
///
/// Measure: count of operations.
const RETRY: u64 = 1 << 14;

/// The state that the lock guards.
pub(super) struct StructureState<S> {
    /// The structure; `None` until its thread has made it, and after it was taken out.
    pub(super) structure: Option<ThreadBound<S>>,
    pub(super) is_poisoned: bool,
    pub(super) counts: BatchCounts,
    pub(super) regroup: Regroup,
    /// Reused memory for an order of the operations of a batch.
    pub(super) order: Vec<usize>,
}

pub(super) struct BatchedInner<S: BatchOps> {
    pub(super) submit: Submit<StructureState<S>, S::Op, S::Reply>,
    pub(super) options: Options<S>,
    pub(super) room: Option<Capacity>,
    /// The thread that holds the lock: its [`thread_number`].
    pub(super) runner: RelaxedU64,
    /// The number of operations in the last batch.
    pub(super) last_ops: RelaxedU64,
    /// 1 if tasks should wait for each other.
    pub(super) defers: RelaxedU64,
    /// The cost of an operation alone, in nanoseconds.
    pub(super) alone: RelaxedU64,
    /// The time of the last batch, in nanoseconds.
    pub(super) batch: RelaxedU64,
    /// Operations handed in.
    pub(super) turns: RelaxedU64,
    /// The numbers of [`Batched::gauges`](super::Batched::gauges).
    pub(super) seen: Seen,
    /// The tick until which tasks leave a free lock to callers that were just answered; 0 if they do not wait for them.
    pub(super) regroup_until: RelaxedU64,
    /// The value of `turns` when these have called again.
    pub(super) regroup_turns: RelaxedU64,
    /// The value of `turns` when the first task waited for them; 0 if none has.
    pub(super) regroup_from: RelaxedU64,
    /// The fork generation of the process that made the structure.
    pub(super) generation: u32,
}

/// The result of an operation.
pub(super) type OpResult<S> = Result<<S as BatchOps>::Reply, CallError<<S as BatchOps>::Op>>;

/// A batch that has been cut, and its times in ticks.
pub(super) type StructureBatch<'h, 's, S> =
    BatchGuard<'h, 's, StructureState<S>, <S as BatchOps>::Op, <S as BatchOps>::Reply>;

#[derive(Clone, Copy)]
pub(super) struct TimedBatch {
    start: u64,
    pub(super) ran: u64,
    done: u64,
    size: usize,
    callers: usize,
    /// 1 if a caller whose own operations are answered runs it for others.
    leaders: usize,
    is_limited: bool,
    fate: Fate,
}

pub(super) type StructureGuard<'h, S> = LockGuard<'h, StructureState<S>, <S as BatchOps>::Op, <S as BatchOps>::Reply>;

impl<S: BatchOps> StructureState<S> {
    pub(super) fn structure(&mut self) -> Option<&mut S> {
        if self.is_poisoned { None } else { self.structure.as_mut()?.get_mut() }
    }

    /// Runs one operation.
    #[inline]
    pub(super) fn one(&mut self, op: S::Op, shared: &BatchedInner<S>) -> OpResult<S> {
        let Some(structure) = self.structure() else { return Err(shared.error(BatchError::Poisoned, Some(op))) };
        let result = catch_unwind(AssertUnwindSafe(|| structure.run_one(op)));
        self.counts.alone += 1;
        match result {
            Ok(reply) => Ok(reply),
            Err(payload) => Err(self.failed(payload, shared)),
        }
    }

    #[cold]
    fn failed(&mut self, payload: Payload, shared: &BatchedInner<S>) -> CallError<S::Op> {
        let left = payload.downcast_ref::<LeftUnanswered>();
        if left.is_some_and(|left| self.structure().is_some_and(|structure| *left == LeftUnanswered::of(structure))) {
            return CallError::new(BatchError::Unanswered, None);
        }
        self.recover(&payload, shared);
        discard(payload);
        shared.error(BatchError::Panicked, None)
    }

    fn run(&mut self, entries: &mut [Entry<S::Op, S::Reply>], shared: &BatchedInner<S>) -> Fate {
        let order = std::mem::take(&mut self.order);
        let Some(structure) = self.structure() else { return POISONED };
        let mut batch = Batch { entries: &mut *entries, order };
        let start = machine::tick();
        let result = catch_unwind(AssertUnwindSafe(|| structure.run(&mut batch)));
        self.order = batch.order;
        self.ran(entries, start, result, shared)
    }

    /// A batch that began at tick `start` has returned, or panicked.
    pub(super) fn ran(
        &mut self,
        entries: &mut [Entry<S::Op, S::Reply>],
        start: u64,
        result: Result<(), Payload>,
        shared: &BatchedInner<S>,
    ) -> Fate {
        let size = entries.len();
        match result {
            Ok(()) => {
                self.counts.fit.observe(size, shared.options.timing.since(start));
                self.counts.count(size);
                Fate::default()
            }
            Err(payload) => {
                // Otherwise callers would get replies to operations that a failed sync has lost. Operations that were not taken go too: `run` may
                // have done them by reference. Before the recovery, because a drop may give something back to the structure.
                let undone = entries.iter_mut().filter(|entry| !(S::KEEPS_REPLIES && entry.is_answered()));
                undone.for_each(|entry| discard(std::mem::take(entry)));
                self.counts.count(size);
                self.recover(&payload, shared);
                discard(payload);
                PANICKED
            }
        }
    }

    /// Records a panic in the structure, and repairs it, or poisons it.
    pub(super) fn recover(&mut self, payload: &Payload, shared: &BatchedInner<S>) {
        shared.seen.panicked(payload);
        let recovered = match (&shared.options.on_panic, self.structure()) {
            (OnPanic::Keep, Some(_)) => true,
            (OnPanic::Recover(recover), Some(structure)) => {
                catch_unwind(AssertUnwindSafe(|| recover(structure))).map_err(discard).is_ok()
            }
            _ => false,
        };
        self.is_poisoned |= !recovered;
    }
}

/// The payload that unwinds from [`BatchOps::run_one`] if the operation has no reply, and the structure that left it. From a structure inside
/// another one it may unwind through the outer `run`, where it is a panic like any other.
#[derive(PartialEq)]
pub(super) struct LeftUnanswered {
    address: usize,
    of: &'static str,
}

impl LeftUnanswered {
    pub(super) fn of<S: ?Sized>(structure: &S) -> Self {
        LeftUnanswered { address: std::ptr::from_ref(structure).addr(), of: std::any::type_name::<S>() }
    }
}

/// The entry of an operation that runs alone. If `run` unwinds, the entry is dropped without a second panic, which would abort.
pub(super) struct LoneEntry<Op, Reply>(pub(super) [Entry<Op, Reply>; 1]);

impl<Op, Reply> Drop for LoneEntry<Op, Reply> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.0, [Entry::Empty]) {
            discard(std::mem::take(&mut self.0[0]));
        }
    }
}

impl<S: BatchOps> BatchedInner<S> {
    /// True if this thread holds the lock, or reads: a call would wait for this thread itself.
    pub(super) fn is_inside(&self) -> bool {
        self.runner.get() == thread_number() || self.is_reading()
    }

    /// True in a forked child of the process that made the structure. The thread that holds the lock may not exist here.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.generation != machine::fork_generation()
    }

    /// The error of an operation, with the message of the last panic if that is the reason.
    #[cold]
    pub(super) fn error(&self, why: BatchError, op: Option<S::Op>) -> CallError<S::Op> {
        let is_panic = matches!(why, BatchError::Panicked | BatchError::Poisoned);
        CallError::after(why, op, if is_panic { self.seen.panic() } else { None })
    }

    /// The result of an operation that was handed in.
    pub(super) fn finish(&self, fate: Result<Fate, Closed>, entry: Entry<S::Op, S::Reply>) -> OpResult<S> {
        outcome(fate, entry).map_err(|(why, op)| self.error(why, op))
    }

    /// Refuses a call that this thread must not make.
    pub(super) fn accepts(&self) -> Result<(), BatchError> {
        match () {
            () if self.is_forked() => Err(BatchError::Forked),
            () if self.is_inside() => Err(BatchError::Nested),
            () => Ok(()),
        }
    }

    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Marks this thread as the holder of the lock, until the result is dropped.
    #[inline]
    pub(super) fn enter(&self) -> Finally<impl FnMut() + '_> {
        self.runner.set(thread_number());
        Finally(|| self.runner.set(0))
    }

    /// Runs `op` if callers may run and the lock is free; otherwise returns it.
    ///
    /// With a separate thread, only after a batch of one operation: with several callers, the first to take the lock would run alone, and the
    /// others would wait.
    ///
    /// The code between the two compare-exchanges is minimal, and calls no function: a compare-exchange waits for all stores before it,
    /// including those that save registers for a call.
    #[inline(always)]
    pub(super) fn try_alone(&self, op: S::Op) -> Result<OpResult<S>, S::Op> {
        let options = &self.options;
        let is_another = options.is_elsewhere && !(options.is_shared && self.last_ops.get() <= 1);
        if is_another || self.is_forked() || self.awaits_returns() {
            return Err(op);
        }
        let run = |state: &mut StructureState<S>, op| {
            let _inside = self.enter();
            let result = match state.counts.alone.is_multiple_of(ALONE_SAMPLE) {
                true => self.one_timed(state, op),
                false => state.one(op, self),
            };
            self.seen.alone.set(state.counts.alone);
            result
        };
        self.submit.try_with(op, run, |held| self.lead_on(held))
    }

    /// A second [`try_alone`](Self::try_alone), after one that has found the lock held a moment ago: tries again if operations are so cheap that a short wait
    /// for the lock costs less than handing in.
    pub(super) fn wait_alone(&self, op: S::Op) -> Result<OpResult<S>, S::Op> {
        if self.options.is_elsewhere {
            return Err(op);
        }
        let timing = self.options.timing;
        let longest = lock_retries(Nanos(self.alone.get_f64()), &timing.machine);
        self.retry_alone(op, Spin { busy: 0, yielding: timing.ticks(longest) })
    }

    /// [`try_alone`](Self::try_alone) for a task: tries for a moment if operations are cheap.
    pub(super) fn try_alone_as_task(&self, op: S::Op) -> Result<OpResult<S>, S::Op> {
        self.try_alone(op).or_else(|op| {
            let timing = self.options.timing;
            let longest = task_lock_retries(Nanos(self.alone.get_f64()), &timing.machine);
            self.retry_alone(op, Spin { busy: timing.ticks(longest), yielding: 0 })
        })
    }

    #[cold]
    fn retry_alone(&self, op: S::Op, patience: Spin) -> Result<OpResult<S>, S::Op> {
        let timing = self.options.timing;
        let (apart, mut result, mut last) = (timing.ticks(timing.machine.park()), Err(Some(op)), machine::tick());
        patience.until(|| {
            let now = machine::tick();
            if now.saturating_sub(last) >= apart {
                last = now;
                if let Err(op) = &mut result
                    && let Some(op) = op.take()
                {
                    result = self.try_alone(op).map_err(Some);
                }
            }
            result.is_ok()
        });
        result.map_err(|op| op.expect("a failed attempt returns the operation"))
    }

    /// Runs one operation of a caller that has the lock, and measures it.
    #[cold]
    fn one_timed(&self, state: &mut StructureState<S>, op: S::Op) -> OpResult<S> {
        let turn = state.counts.alone;
        let start = machine::tick();
        let result = state.one(op, self);
        if result.is_ok() {
            let claim = self.options.timing.machine.claim;
            state.counts.fit.observe(1, Nanos(self.options.timing.since(start).0 - claim.0));
        }
        if turn.is_multiple_of(RETRY) {
            state.counts.try_again();
        }
        self.learn(state);
        result
    }

    /// Runs the operations that were queued while one ran alone, or leaves them to another caller or the separate runner. The operation that ran
    /// alone counts as a batch: its caller is waited for.
    #[cold]
    fn lead_on(&self, mut held: StructureGuard<'_, S>) {
        if self.options.is_elsewhere {
            return;
        }
        let queued = held.queued();
        let state = held.data();
        let fixed = state.counts.fixed(Nanos(self.alone.get_f64()));
        let longest = state.regroup.answered(1, queued, (fixed, Nanos(self.alone.get_f64())), &self.options);
        self.expect_returns(machine::tick(), longest, 1);
        self.lead(&mut held, BatchRunner::Callers, 1);
    }

    /// Publishes to callers what the counts say.
    #[cold]
    fn learn(&self, state: &mut StructureState<S>) {
        self.defers.set(u64::from(state.counts.pays()));
        if let Some(one) = state.counts.fit.one() {
            self.alone.set_f64(one.0);
        }
    }

    /// Runs batches until the caller's own operation is answered, then one more batch if operations are queued.
    pub(super) fn lead(&self, held: &mut StructureGuard<'_, S>, lead: BatchRunner, own: usize) {
        let _inside = self.enter();
        while !held.is_leader_answered() {
            self.batch(held, lead, own);
        }
        match lead {
            // Tasks that were just answered may need this thread to call again.
            BatchRunner::Tasks if self.awaits_returns() => {}
            BatchRunner::Callers | BatchRunner::Tasks if self.passes_on(held, own) => {}
            BatchRunner::Callers => self.lead_others(held, own),
            _ if held.is_more() => self.batch(held, lead, own),
            _ => {}
        }
        if self.awaits_returns() {
            // Before another caller can take the lock: the time for which it waits begins now.
            self.wake_answered(held);
        }
    }

    /// True if a caller passes the lock on, after its `own` operations are answered.
    fn passes_on(&self, held: &mut StructureGuard<'_, S>, own: usize) -> bool {
        held.queued().is_some_and(|queued| {
            (queued > 0 || self.awaits_returns())
                && held.data().regroup.passes_on(own, queued, &self.options.timing.machine)
        })
    }

    /// Runs batches for other callers, after the `own` operations of this blocking caller are answered.
    fn lead_others(&self, held: &mut StructureGuard<'_, S>, own: usize) {
        let timing = self.options.timing;
        let (start, turn) = (machine::tick(), timing.ticks(timing.machine.turn()));
        // This caller cannot call again meanwhile.
        held.data().regroup.leave(own);
        loop {
            self.wake_answered(held);
            self.regroup(held);
            if !held.is_more() {
                return;
            }
            self.batch(held, BatchRunner::Callers, 0);
            if machine::tick().saturating_sub(start) >= turn {
                return;
            }
        }
    }

    /// Runs batches until none is queued, up to a bound: a spawned runner gives its thread back now and then.
    pub(super) fn lead_all(&self, held: &mut StructureGuard<'_, S>) {
        /// About as much as a task on an executor should run at a time: a few hundred operations.
        ///
        /// Measure: count of batches.
        const BATCHES: usize = 64;
        let _inside = self.enter();
        for _ in 0..BATCHES {
            self.regroup(held);
            if !held.is_more() {
                return;
            }
            self.batch(held, BatchRunner::Separate, 0);
            self.wake_answered(held);
        }
    }

    fn batch(&self, held: &mut StructureGuard<'_, S>, lead: BatchRunner, own: usize) {
        let Some((mut cut, mut timed)) = self.cut(held, lead, own) else { return };
        let (state, entries) = cut.parts();
        let fate = state.run(entries, self);
        self.ran(&mut cut, &mut timed, fate);
        drop(cut);
        self.answered(held, lead, &timed);
    }

    /// Cuts a batch, and begins it.
    pub(super) fn cut<'h, 's>(
        &self,
        held: &'h mut StructureGuard<'s, S>,
        lead: BatchRunner,
        own: usize,
    ) -> Option<(StructureBatch<'h, 's, S>, TimedBatch)> {
        let options = &self.options;
        match lead {
            BatchRunner::Tasks => self.regrouped(held),
            BatchRunner::Callers if own > 0 => self.regroup(held),
            // These have waited already.
            BatchRunner::Callers | BatchRunner::Separate => {}
        }
        // An operation whose weighing panics runs in a separate batch: the panic would come again with every batch.
        let weigh: &dyn Fn(&S::Op) -> usize = &|op| {
            catch_unwind(AssertUnwindSafe(|| S::weight(op))).unwrap_or_else(|payload| {
                discard(payload);
                usize::MAX
            })
        };
        // A smaller batch now and then, until the sizes separate F from m.
        let is_flat = held.data().counts.fit.is_flat();
        let ops = match held.queued().filter(|_| is_flat) {
            Some(queued) => options.limit.min(queued.div_ceil(2)),
            None => options.limit,
        };
        let limit = Limit { ops, weight: options.weight.map(|most| (most, weigh)) };
        self.regroup_until.set(0);
        let start = machine::tick();
        let mut cut = held.cut(&limit)?;
        let wait = cut.marks().find(|&(mark, _)| mark != 0).map(|(mark, _)| start.saturating_sub(mark));
        let (callers, is_limited) = (cut.callers(), cut.is_limited() && !is_flat);
        let (state, entries) = cut.parts();
        let size = entries.len();
        self.last_ops.set(size as u64);
        self.seen.cut.add(size as u64);
        if let Some(wait) = wait {
            state.counts.waited(options.timing.nanos(wait));
        }
        let ran = machine::tick();
        self.seen.since.set(ran.max(1));
        let leaders = usize::from(lead == BatchRunner::Callers && own == 0);
        Some((cut, TimedBatch { start, ran, done: 0, size, callers, leaders, is_limited, fate: Fate::default() }))
    }

    /// The batch has run: notes its time and its fate, before its callers are answered.
    pub(super) fn ran(&self, cut: &mut StructureBatch<'_, '_, S>, timed: &mut TimedBatch, fate: Fate) {
        let options = &self.options;
        (timed.done, timed.fate) = (machine::tick(), fate);
        self.seen.since.set(0);
        self.seen.batches.add(1);
        let took = options.timing.nanos(timed.done.saturating_sub(timed.ran));
        self.batch.set_f64(took.0);
        let fixed = cut.parts().0.counts.fixed(took);
        cut.set_fate(fate);
        cut.set_direct_wakes(direct_wakes(timed.callers, fixed, &options.timing.machine));
    }

    /// The callers of the batch have their answers: learns from it.
    pub(super) fn answered(&self, held: &mut StructureGuard<'_, S>, lead: BatchRunner, timed: &TimedBatch) {
        let (options, &TimedBatch { start, ran, done, size, leaders, is_limited, fate, .. }) = (&self.options, timed);
        let took = options.timing.nanos(done.saturating_sub(ran));
        let fixed = held.data().counts.fixed(took);
        let end = machine::tick();
        let around = end.saturating_sub(start).saturating_sub(done.saturating_sub(ran));
        let (sleepers, queued) = (held.sleepers(), held.queued());
        let (structure, left) = (std::any::type_name::<S>(), queued.unwrap_or(0));
        let kind = EventKind::Batch { structure, id: self.address(), left };
        listen::ran(kind, None, size as u64, (ran, done), fate == PANICKED);
        let state = held.data();
        let gap = options.timing.nanos(state.counts.gap(start));
        state.counts.handed(size, (took, options.timing.nanos(around), gap), end, sleepers);
        state.counts.answered(size, size + queued.unwrap_or(0) + leaders, is_limited);
        state.counts.runner = lead;
        let left = queued.filter(|_| !is_limited);
        let longest = state.regroup.answered(size, left, (fixed, took), options);
        self.learn(state);
        self.expect_returns(end, longest, size);
    }

    /// The mark of `ops` operations that are handed in: the time if it is needed later, else 0.
    pub(super) fn mark(&self, ops: usize) -> u64 {
        let turn = self.turns.count(ops as u64) % SAMPLE;
        if turn == 0 || turn + ops as u64 > SAMPLE { machine::tick().max(1) } else { 0 }
    }

    /// Takes back a [`mark`](Self::mark): the structure is closed.
    pub(super) fn unmark(&self, ops: usize) {
        self.turns.count((ops as u64).wrapping_neg());
    }

    /// Hands in `entries` and blocks until all are answered.
    pub(super) fn hand_in(&self, entries: &mut [Entry<S::Op, S::Reply>]) -> Result<Fate, Closed> {
        let own = entries.len();
        let _region = Region::new(CallKind::Batch, None, Some(std::any::type_name::<S>()));
        let lead = |held: &mut StructureGuard<'_, S>| self.lead(held, BatchRunner::Callers, own);
        self.submit.call(entries, self.mark(own), self.reply_spin(), lead).inspect_err(|_| self.unmark(own))
    }

    /// Spin of a caller that has handed in, for the answer, before it parks.
    pub(super) fn reply_spin(&self) -> Spin {
        let timing = self.options.timing;
        let longest = reply_spin(Nanos(self.batch.get_f64()), &timing.machine);
        Spin { busy: timing.ticks(longest), yielding: 0 }
    }

    /// Counts a call that found no room.
    pub(super) fn rejects(&self) -> BatchError {
        self.seen.rejected.count(1);
        BatchError::Full
    }

    /// Takes room in the queue, if it has a bound.
    pub(super) fn wait_for_room(&self, ops: usize) -> Result<Option<Permit<'_>>, BatchError> {
        let Some(room) = &self.room else { return Ok(None) };
        match self.options.full {
            Overflow::Block => Ok(Some(room.try_take(ops).unwrap_or_else(|| room.wait(ops)))),
            Overflow::Reject => room.try_take(ops).map(Some).ok_or_else(|| self.rejects()),
        }
    }
}
