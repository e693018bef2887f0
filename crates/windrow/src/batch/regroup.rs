//! Memory of a runner of callers that it has just answered, and may wait for: see [`ReturnWait`].

use windrow_plan::Nanos;
use windrow_plan::batch::{ReturnWait, passes_on};
use windrow_plan::estimate::Smoothing;
use windrow_plan::machine::Machine;

use super::options::Options;

/// The last batch, as the holder of the lock remembers it.
#[derive(Debug, Default)]
pub(super) struct Regroup {
    pub(super) wait: ReturnWait,
    /// Operations that were in flight when the batch was answered: those in it, and those queued. 0 if they are not waited for.
    pub(super) expected: usize,
    /// F of that batch.
    pub(super) fixed: Nanos,
    /// The mean time of batches, interruptions included: a busy process costs waits and batches alike.
    pub(super) took: Nanos,
    /// The longest wait.
    pub(super) longest: Nanos,
    /// The number of `expected` that were queued already.
    pub(super) left: usize,
    /// The tick at which its callers were woken.
    pub(super) since: u64,
}

impl Regroup {
    /// A batch of `size` is answered, and `queued` operations are left; `None` if the next batch must not wait. Returns the longest wait
    /// of that batch.
    pub(super) fn answered<S>(
        &mut self,
        size: usize,
        queued: Option<usize>,
        (fixed, took): (Nanos, Nanos),
        options: &Options<S>,
    ) -> Nanos {
        self.took = Nanos(if self.took.0 > 0.0 { Smoothing::BATCHES.follow(self.took.0, took.0) } else { took.0 });
        self.left = queued.unwrap_or(0);
        self.expected = queued.map_or(0, |queued| size + queued);
        self.fixed = fixed;
        // A lone caller is not waited for: it is the first to be queued.
        self.longest = if self.expected > 1 {
            self.wait.longest(fixed, options.longest_wait, &options.timing.machine)
        } else {
            Nanos(0.0)
        };
        self.longest
    }

    /// True if a leader with `own` operations passes the lock on, with `queued` operations left.
    pub(super) fn passes_on(&self, own: usize, queued: usize, machine: &Machine) -> bool {
        passes_on(own, self.expected.max(own + queued), self.fixed, machine)
    }

    /// Callers of `ops` of these operations will not call again.
    pub(super) fn leave(&mut self, ops: usize) {
        self.expected = self.expected.saturating_sub(ops);
    }
}
