//! Errors of operations.

use std::fmt;

/// Why an operation got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The structure is closed. The operation was not run.
    Closed,
    /// The queue is full, and callers do not wait ([`Overflow::Reject`](super::Overflow::Reject)). The operation was not run.
    Full,
    /// The caller is an operation of the same structure. The new operation was not run.
    Nested,
    /// This process was forked after the structure was made: the structure belongs to the parent. The operation was not run here.
    Forked,
    /// An earlier batch panicked, and the structure was not recovered. The operation was not run.
    Poisoned,
    /// The batch panicked. The operation may have been run in part.
    Panicked,
    /// The structure ran the batch and left this operation unanswered: a fault of its `run`.
    Unanswered,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BatchError::Closed => "the structure is closed",
            BatchError::Full => "the queue is full",
            BatchError::Nested => "an operation called its own structure",
            BatchError::Forked => "the structure was made before this process was forked, and belongs to the parent",
            BatchError::Poisoned => "an earlier batch panicked",
            BatchError::Panicked => "the batch panicked",
            BatchError::Unanswered => "the batch left this operation unanswered",
        })
    }
}

impl std::error::Error for BatchError {}

/// An operation that got no reply: the reason, and the operation if it was not run.
#[derive(Clone, PartialEq, Eq)]
pub struct CallError<Op> {
    why: BatchError,
    op: Option<Op>,
}

impl<Op> CallError<Op> {
    pub(super) fn new(why: BatchError, op: Option<Op>) -> Self {
        CallError { why, op }
    }

    /// The reason.
    pub fn kind(&self) -> BatchError {
        self.why
    }

    /// The operation, as [`BatchOps::prepare`](super::BatchOps::prepare) left it, if it was not run.
    pub fn into_op(self) -> Option<Op> {
        self.op
    }
}

impl<Op> fmt::Debug for CallError<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError").field("why", &self.why).field("has_op", &self.op.is_some()).finish()
    }
}

impl<Op> fmt::Display for CallError<Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<Op> std::error::Error for CallError<Op> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}
