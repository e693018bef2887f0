//! The options of a structure.

use std::fmt;

use windrow_plan::Nanos;

use crate::runtime::state::Timing;

/// The fate of a call that finds the queue full.
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
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use windrow::batch::{BatchError, Overflow};
///
/// let sum = Batched::builder().queue(1, Overflow::Reject).build(Sum(0));
/// let mut context = Context::from_waker(Waker::noop());
/// let (mut first, mut second) = (sum.call_async(5), sum.call_async(7));
/// assert!(Pin::new(&mut first).poll(&mut context).is_pending());
/// // The first operation has the only room.
/// let Poll::Ready(Err(refused)) = Pin::new(&mut second).poll(&mut context) else { panic!("it was handed in") };
/// assert_eq!((refused.kind(), refused.into_op()), (BatchError::Full, Some(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The caller waits: a thread blocks, a future is pending.
    Block,
    /// The call returns [`BatchError::Full`](super::BatchError::Full) and the operation.
    Reject,
}

/// The fate of a structure after a panic in it: see [`Builder::on_panic`](super::Builder::on_panic).
#[non_exhaustive]
pub enum OnPanic<S> {
    /// Nothing runs any more: later operations get [`BatchError::Poisoned`](super::BatchError::Poisoned), with the panic's message.
    Poison,
    /// The structure goes on as the panic has left it.
    Keep,
    /// The function repairs the structure, or replaces it, and it goes on. If the function panics, it is poisoned.
    Recover(Box<dyn Fn(&mut S) + Send + Sync>),
}

impl<S> fmt::Debug for OnPanic<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnPanic::Poison => "Poison",
            OnPanic::Keep => "Keep",
            OnPanic::Recover(_) => "Recover",
        })
    }
}

/// The chosen options.
pub(super) struct Options<S> {
    pub(super) limit: usize,
    pub(super) weight: Option<usize>,
    pub(super) full: Overflow,
    /// The longest wait for callers that were just answered, if it is not the default.
    pub(super) longest_wait: Option<Nanos>,
    pub(super) on_panic: OnPanic<S>,
    /// A separate runner runs batches; callers do not.
    pub(super) is_elsewhere: bool,
    /// An exception to `is_elsewhere`: a lone calling thread runs its own operation.
    pub(super) is_shared: bool,
    /// The runner is a task: this thread may be the one that must poll it, so nothing but a blocking call waits for it.
    pub(super) is_async: bool,
    pub(super) timing: &'static Timing,
}
