//! Why an operation got no reply.

use std::fmt;

/// Why an operation got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The structure was closed before. Nothing was run.
    Closed,
    /// The queue is full, and callers are not to wait ([`Full::Reject`](super::Full::Reject)). Nothing was run.
    Full,
    /// An operation of the structure has called it. Nothing was run.
    Nested,
    /// This process was forked after the structure was made: it is the parent's. Nothing was run here.
    Forked,
    /// An earlier batch panicked, and nobody has recovered the structure. Nothing was run.
    Poisoned,
    /// The batch panicked. The operation may have been run in part.
    Panicked,
    /// The structure has run the batch and left this operation unanswered: a fault of its `run`.
    Unanswered,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Closed => "the structure is closed",
            Why::Full => "the queue is full",
            Why::Nested => "an operation called its own structure",
            Why::Forked => "the structure was made before this process was forked, and belongs to the parent",
            Why::Poisoned => "an earlier batch panicked",
            Why::Panicked => "the batch panicked",
            Why::Unanswered => "the batch left this operation unanswered",
        })
    }
}

impl std::error::Error for Why {}

/// An operation that got no reply: why, and the operation if nobody has taken it.
#[derive(Clone, PartialEq, Eq)]
pub struct CallError<Op> {
    why: Why,
    op: Option<Op>,
}

impl<Op> CallError<Op> {
    pub(super) fn new(why: Why, op: Option<Op>) -> Self {
        CallError { why, op }
    }

    /// Why.
    pub fn why(&self) -> Why {
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
