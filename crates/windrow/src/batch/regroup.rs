//! Memory of a runner of callers that it has just answered, and may wait for: see [`ReturnWait`].

use windrow_plan::Nanos;
use windrow_plan::batch::{ReturnWait, Trial, passes_on};
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
    /// The longest wait.
    pub(super) longest: Nanos,
    /// The number of `expected` that were queued already.
    pub(super) left: usize,
    /// The trial of leaders that pass the lock on at once.
    passing: Trial,
    /// The number of operations that were queued when a leader passed the lock on.
    passed: Option<usize>,
}

impl Regroup {
    /// A batch of `size` is answered, and `queued` operations are left; `None` if the next batch must not wait. Returns the longest wait
    /// of that batch.
    pub(super) fn answered<S>(
        &mut self,
        size: usize,
        queued: Option<usize>,
        fixed: Nanos,
        options: &Options<S>,
    ) -> Nanos {
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

    /// True if a leader with `own` operations passes the lock on.
    pub(super) fn passes_on(&mut self, own: usize, queued: usize, machine: &Machine) -> bool {
        let passes = passes_on(own, self.expected, self.fixed, machine) && (queued == 0 || self.passing.is_due());
        self.passed = (passes && queued > 0).then_some(queued);
        passes
    }

    /// The next leader has come, and `queued` operations are queued.
    pub(super) fn arrived(&mut self, queued: Option<usize>) {
        if let (Some(before), Some(queued)) = (self.passed.take(), queued) {
            self.passing.observe(queued > before);
        }
    }

    /// Callers of `ops` of these operations will not call again.
    pub(super) fn leave(&mut self, ops: usize) {
        self.expected = self.expected.saturating_sub(ops);
    }
}
