//! The wait of a runner for callers that it has just answered.

use std::time::Duration;

use windrow_plan::Nanos;
use windrow_sync::machine;

use super::BatchOps;
use super::lead::{BatchedInner, StructureGuard};
use super::regroup::Regroup;

impl<S: BatchOps> BatchedInner<S> {
    /// Publishes to tasks that `size` operations were answered at tick `end`, and that the next batch may wait for `longest`.
    pub(super) fn expect_returns(&self, end: u64, longest: Nanos, size: usize) {
        if longest.0 > 0.0 {
            self.regroup_turns.set(self.turns.get() + size as u64);
            self.regroup_from.set(0);
            self.regroup_until.set(end + self.options.timing.ticks(longest));
        }
    }

    /// True if callers that were just answered are waited for.
    #[inline]
    pub(super) fn awaits_returns(&self) -> bool {
        self.regroup_until.get() != 0 && self.awaits_returns_still()
    }

    #[cold]
    fn awaits_returns_still(&self) -> bool {
        let awaits = self.turns.get() < self.regroup_turns.get() && machine::tick() < self.regroup_until.get();
        if !awaits {
            self.regroup_until.set(0);
        }
        awaits
    }

    /// True if a task that could run a batch should be polled again later instead.
    pub(super) fn defers_to_returns(&self) -> bool {
        let awaits = self.awaits_returns();
        if awaits && self.regroup_from.get() == 0 {
            self.regroup_from.set(self.turns.get());
        }
        awaits
    }

    /// A task begins a batch: notes what the tasks' wait has brought, if they waited.
    pub(super) fn regrouped(&self, held: &mut StructureGuard<'_, S>) {
        let (from, turns) = (self.regroup_from.get(), self.turns.get());
        if from == 0 {
            return;
        }
        self.regroup_from.set(0);
        let Regroup { expected, left, took, since, ref mut wait, .. } = held.data().regroup;
        let answered = self.regroup_turns.get().saturating_sub(expected.saturating_sub(left) as u64);
        let queued = left + from.saturating_sub(answered) as usize;
        let counts = (queued, turns.saturating_sub(from) as usize, expected);
        wait.observe(took, counts, self.options.timing.since(since));
    }

    /// Wakes the callers of the last batch now: the same thread goes on with the next one, and may wait for them.
    pub(super) fn wake_answered(&self, held: &mut StructureGuard<'_, S>) {
        held.wake_answered();
        if self.regroup_until.get() != 0 {
            let (now, state) = (machine::tick(), held.data());
            state.regroup.since = now;
            self.regroup_until.set(now + self.options.timing.ticks(state.regroup.longest));
        }
    }

    /// Waits for callers that were just answered, by the rule of [`ReturnWait`]. Ends early for a job and for a close.
    pub(super) fn regroup(&self, held: &mut StructureGuard<'_, S>) {
        let until = self.regroup_until.get();
        if until == 0 {
            return;
        }
        let (expected, took) = (held.data().regroup.expected, held.data().regroup.took);
        let start = machine::tick();
        let Some(before) = held.queued().filter(|&queued| queued < expected && start < until) else { return };
        let timing = self.options.timing;
        held.data().regroup.wait.begin();
        let (mut queued, mut now) = (before, start);
        while queued < expected && now < until && !self.submit.is_closed() {
            match held.data().regroup.wait.pause(timing.nanos(until - now), &timing.machine) {
                Some(pause) => std::thread::sleep(Duration::from_nanos(pause.0 as u64)),
                None => {
                    std::thread::yield_now();
                    held.data().regroup.wait.yielded(timing.since(now), &timing.machine);
                }
            }
            now = machine::tick();
            match held.queued() {
                Some(now) => queued = now,
                None => break,
            }
        }
        self.regroup_until.set(0);
        let waited = timing.nanos(now.saturating_sub(start));
        let counts = (before, queued.saturating_sub(before), expected);
        held.data().regroup.wait.observe(took, counts, waited);
    }
}
