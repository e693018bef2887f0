//! Errors of operations.

use std::fmt;

use super::gauges::PanicMessage;

/// The reason that an operation got no reply.
///
/// ```
/// use windrow::batch::{Batch, BatchError, BatchOps, Batched};
///
/// /// Answers even numbers only.
/// struct Halves;
///
/// impl BatchOps for Halves {
///     type Op = u64;
///     type Reply = u64;
///
///     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
///         let even = batch.iter_mut().filter(|entry| entry.op() % 2 == 0);
///         even.for_each(|entry| entry.answer(|number| number / 2));
///     }
/// }
///
/// let halves = Batched::new(Halves);
/// assert_eq!(halves.call(8), Ok(4));
/// assert_eq!(halves.call(9).unwrap_err().kind(), BatchError::Unanswered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The structure is closed. The operation was not run.
    Closed,
    /// The queue is full, and callers do not wait ([`Overflow::Reject`](super::Overflow::Reject)). The operation was not run.
    Full,
    /// The caller is an operation of the same structure. The new operation was not run.
    Nested,
    /// The time of a [`call_within`](super::Batched::call_within) was up. With `runs`, the operation was in a batch that runs, and its reply is
    /// dropped; otherwise it is not run.
    TimedOut {
        /// The batch of the operation was running.
        runs: bool,
    },
    /// This process was forked after the structure was made: the structure belongs to the parent. The operation was not run here.
    Forked,
    /// An earlier batch panicked, and the structure was not recovered. The operation was not run.
    Poisoned,
    /// The batch panicked. The operation may have been run, in part or whole, even if the structure had replied to it.
    Panicked,
    /// The executor dropped the task that was to run the batch ([`Builder::build_async`](super::Builder::build_async)), as it does when it shuts
    /// down. If the error has the operation, it was not run; otherwise the batch was running.
    Dropped,
    /// The structure ran the batch and left this operation unanswered: a fault of its `run`.
    Unanswered,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BatchError::Closed => "the structure is closed",
            BatchError::Full => "the queue is full",
            BatchError::Nested => "an operation called its own structure",
            BatchError::TimedOut { runs: false } => "the time limit expired before the operation ran",
            BatchError::TimedOut { runs: true } => "the time limit expired while the batch was running",
            BatchError::Forked => {
                "the structure was created before this process was forked, so it belongs to the parent"
            }
            BatchError::Poisoned => "an earlier batch panicked",
            BatchError::Panicked => "the batch panicked",
            BatchError::Dropped => "the executor dropped the task that was to run the batch",
            BatchError::Unanswered => "the batch left this operation unanswered",
        })
    }
}

impl std::error::Error for BatchError {}

/// An operation that got no reply: the reason, and the operation if it was not run.
///
/// ```
/// # use windrow::batch::{Batch, BatchOps, Batched};
/// # struct Sum(u64);
/// # impl BatchOps for Sum {
/// #     type Op = u64;
/// #     type Reply = u64;
/// #     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
/// #         for entry in batch.iter_mut() {
/// #             self.0 += entry.take();
/// #             entry.reply(self.0);
/// #         }
/// #     }
/// # }
/// # let sum = Batched::new(Sum(0));
/// sum.close().unwrap();
/// let error = sum.call(5).unwrap_err();
/// assert_eq!(error.to_string(), "the structure is closed");
/// // It was not run, so the caller gets it back.
/// assert_eq!(error.into_op(), Some(5));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct CallError<Op> {
    why: BatchError,
    op: Option<Op>,
    panic: Option<PanicMessage>,
}

impl<Op> CallError<Op> {
    pub(super) fn new(why: BatchError, op: Option<Op>) -> Self {
        Self::after(why, op, None)
    }

    /// The error after a panic with this message.
    pub(super) fn after(why: BatchError, op: Option<Op>, panic: Option<PanicMessage>) -> Self {
        CallError { why, op, panic }
    }

    /// The reason.
    pub fn kind(&self) -> BatchError {
        self.why
    }

    /// The message of the panic, of [`BatchError::Panicked`] and [`BatchError::Poisoned`]: of the structure's last one.
    pub fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// The operation, as [`BatchOps::prepare`](super::BatchOps::prepare) left it, if it was not run.
    pub fn into_op(self) -> Option<Op> {
        self.op
    }
}

/// The error without the operation.
impl<Op> From<BatchError> for CallError<Op> {
    fn from(why: BatchError) -> Self {
        CallError::new(why, None)
    }
}

impl<Op> fmt::Debug for CallError<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("why", &self.why)
            .field("has_op", &self.op.is_some())
            .field("panic", &self.panic)
            .finish()
    }
}

impl<Op> fmt::Display for CallError<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)?;
        self.panic.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
    }
}

impl<Op> std::error::Error for CallError<Op> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}
