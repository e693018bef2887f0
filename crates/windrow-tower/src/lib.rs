#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;
use windrow::batch::{BatchError, BatchOps, Batched, CallError};
use windrow_sync::Mutex;

/// A [`Batched`] as a [`Service`] of its operations: see the [front page](crate). Clones share the structure.
pub struct BatchService<S: BatchOps> {
    batched: Arc<Batched<S>>,
    /// Room for the next call. Never locked: in a mutex it is `Sync`, and with it the service, as servers ask.
    reservation: Mutex<Option<Reservation<S>>>,
}

type Response<S> = Pin<Box<dyn Future<Output = Result<<S as BatchOps>::Reply, CallError<<S as BatchOps>::Op>>> + Send>>;

/// A call that waits for room in the queue, then for its operation.
struct Reservation<S: BatchOps> {
    call: Response<S>,
    slot: Arc<Mutex<ReservedSlot<S::Op>>>,
}

struct ReservedSlot<Op> {
    has_room: bool,
    /// The operation, and where the service was called with it.
    op: Option<(Op, &'static Location<'static>)>,
}

impl<S: BatchOps> fmt::Debug for BatchService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchService").field("batched", &self.batched).finish_non_exhaustive()
    }
}

/// The clone shares the structure; it has no reserved room.
impl<S: BatchOps> Clone for BatchService<S> {
    fn clone(&self) -> Self {
        Self::new(self.batched.clone())
    }
}

/// Gives reserved room back. In a forked child the room belongs to the parent.
impl<S: BatchOps> Drop for BatchService<S> {
    fn drop(&mut self) {
        if self.batched.admits() == Err(BatchError::Forked) {
            std::mem::forget(self.reservation().take());
        }
    }
}

impl<S: BatchOps> From<Batched<S>> for BatchService<S> {
    fn from(batched: Batched<S>) -> Self {
        Self::new(Arc::new(batched))
    }
}

impl<S: BatchOps> BatchService<S> {
    /// A service of this structure. Other callers may use it too.
    pub fn new(batched: Arc<Batched<S>>) -> Self {
        Self { batched, reservation: Mutex::new(None) }
    }

    /// The structure: for callers that block, for its statistics, or to close it.
    pub fn batched(&self) -> &Arc<Batched<S>> {
        &self.batched
    }

    fn reservation(&mut self) -> &mut Option<Reservation<S>> {
        self.reservation.get_mut()
    }

    /// A layer for `ServiceBuilder`. It makes a service of a structure; `build` says how its batches run.
    pub fn layer(build: impl Fn(S) -> Batched<S> + Clone) -> impl Layer<S, Service = Self> + Clone {
        tower_layer::layer_fn(move |structure| Self::from(build(structure)))
    }
}

impl<S> Reservation<S>
where
    S: BatchOps<Op: 'static, Reply: 'static> + Send + 'static,
{
    fn new(batched: Arc<Batched<S>>) -> Self {
        let slot = Arc::new(Mutex::new(ReservedSlot { has_room: false, op: None }));
        let mine = slot.clone();
        let call = async move {
            let op = poll_fn(|_| {
                let mut slot = mine.lock();
                slot.has_room = true;
                // The response is polled after `call` has put the operation here.
                slot.op.take().map_or(Poll::Pending, Poll::Ready)
            });
            batched.call_with_room(op).await
        };
        Reservation { call: Box::pin(call), slot }
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_over = self.call.as_mut().poll(context).is_ready();
        let slot = self.slot.lock();
        if is_over || slot.has_room { Poll::Ready(()) } else { Poll::Pending }
    }

    fn call(self, op: S::Op, place: &'static Location<'static>) -> Response<S> {
        self.slot.lock().op = Some((op, place));
        self.call
    }
}

impl<S> Service<S::Op> for BatchService<S>
where
    S: BatchOps<Op: 'static, Reply: 'static> + Send + 'static,
{
    type Response = S::Reply;
    type Error = CallError<S::Op>;
    type Future = Response<S>;

    /// Ready as the table on the [front page](crate) says.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self.batched.admits() {
            Err(over) => return Poll::Ready(Err(over.into())),
            Ok(true) => {}
            Ok(false) => return Poll::Ready(Ok(())),
        }
        let batched = self.batched.clone();
        self.reservation().get_or_insert_with(|| Reservation::new(batched)).poll_room(context).map(Ok)
    }

    /// The response of a service that was not ready waits for room.
    #[track_caller]
    fn call(&mut self, op: S::Op) -> Self::Future {
        let place = Location::caller();
        if let Some(reservation) = self.reservation().take() {
            return reservation.call(op, place);
        }
        let batched = self.batched.clone();
        Box::pin(async move { batched.call_async_at(place, op).await })
    }
}
