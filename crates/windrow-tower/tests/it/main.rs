//! A batched structure as a service of tower: readiness, errors and dropped responses.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tower::load_shed::error::Overloaded;
use tower::{Service, ServiceBuilder, ServiceExt};
use windrow::batch::{Batch, BatchError, BatchOps, Batched, Overflow, Runner};
use windrow_testkit::block_on;
use windrow_tower::BatchService;

/// A counter: an operation adds, and its reply is the value before.
#[derive(Debug, Default)]
struct Counter(u64);

/// An operation that panics in [`Counter`], after the replies to those before it.
const PANICS: u64 = 666;

impl BatchOps for Counter {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        for entry in batch.iter_mut() {
            let more = entry.take();
            assert_ne!(more, PANICS, "injected");
            entry.reply(self.0);
            self.0 += more;
        }
    }
}

/// Waits in `run` for a message.
struct Slow(mpsc::Receiver<()>);

impl BatchOps for Slow {
    type Op = ();
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.0.recv().unwrap();
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A structure whose batches wait for a message each, and whose queue has room for one operation.
fn slow(full: Overflow) -> (mpsc::Sender<()>, BatchService<Slow>) {
    let (go, gate) = mpsc::channel();
    let batched = Batched::builder().queue(1, full).build_on(Runner::thread(|| Slow(gate))).unwrap();
    (go, batched.into())
}

fn is_ready(service: &mut BatchService<Slow>, waker: &Waker) -> bool {
    match service.poll_ready(&mut Context::from_waker(waker)) {
        Poll::Ready(ready) => ready.map(|()| true).unwrap(),
        Poll::Pending => false,
    }
}

#[test]
fn servers_may_share_and_clone_it() {
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let (_go, service) = slow(Overflow::Block);
    is_shared(&service);
    is_shared(&ServiceBuilder::new().layer(BatchService::layer(Batched::new)).service(Counter::default()));
}

#[test]
fn calls_of_many_clones_are_all_answered() {
    let service = BatchService::from(Batched::new(Counter::default()));
    let mut before: Vec<u64> = thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let mut service = service.clone();
                let calls = async move {
                    let mut before = Vec::new();
                    for _ in 0..200 {
                        before.push(service.ready().await.unwrap().call(1).await.unwrap());
                    }
                    before
                };
                scope.spawn(|| block_on(calls))
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    before.sort_unstable();
    assert!(before.into_iter().eq(0..800));
    assert_eq!(service.batched().stats().unwrap().ops(), 800);
}

#[test]
fn a_full_queue_is_not_ready_and_room_is_reserved_for_one_call() {
    let (go, mut first) = slow(Overflow::Block);
    let (mut second, mut third) = (first.clone(), first.clone());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    assert!(is_ready(&mut first, &waker) && is_ready(&mut first, &waker), "it keeps its room");
    assert!(!is_ready(&mut second, &waker) && !is_ready(&mut third, &waker));
    // A service that is dropped gives its room to the first that waits, and a clone has none.
    let clone = first.clone();
    drop(first);
    assert_eq!(wakes.0.load(Relaxed), 1);
    assert!(is_ready(&mut second, &waker) && !is_ready(&mut third, &waker));
    let response = second.call(());
    go.send(()).unwrap();
    block_on(response).unwrap();
    assert_eq!(wakes.0.load(Relaxed), 2);
    assert!(is_ready(&mut third, &waker));
    drop((clone, second));
    go.send(()).unwrap();
    block_on(third.call(())).unwrap();
}

#[test]
fn a_response_of_a_service_that_was_not_ready_waits_for_room() {
    let (go, mut service) = slow(Overflow::Block);
    assert!(is_ready(&mut service.clone(), Waker::noop()), "the clone has given its room back");
    let (mut first, mut second) = (service.call(()), service.call(()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending() && second.as_mut().poll(&mut context).is_pending());
    go.send(()).unwrap();
    block_on(first).unwrap();
    go.send(()).unwrap();
    block_on(second).unwrap();
}

#[test]
fn load_is_shed_where_the_queue_is_full() {
    let (go, service) = slow(Overflow::Block);
    let mut shedding = ServiceBuilder::new().load_shed().service(service.clone());
    let mut holder = service;
    assert!(is_ready(&mut holder, Waker::noop()));
    let error = block_on(async { shedding.ready().await.unwrap().call(()).await }).unwrap_err();
    assert!(error.is::<Overloaded>(), "{error}");
    drop(holder);
    go.send(()).unwrap();
    block_on(async { shedding.ready().await.unwrap().call(()).await }).unwrap();
}

#[test]
fn a_queue_that_rejects_returns_the_operation() {
    let (go, mut service) = slow(Overflow::Reject);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = service.call(());
    assert!(first.as_mut().poll(&mut context).is_pending() && is_ready(&mut service, Waker::noop()));
    let error = block_on(service.call(())).unwrap_err();
    assert_eq!((error.kind(), error.into_op()), (BatchError::Full, Some(())));
    go.send(()).unwrap();
    block_on(first).unwrap();
}

#[test]
fn a_closed_structure_is_never_ready_and_a_poisoned_one_says_so_in_its_responses() {
    let service = BatchService::from(Batched::new(Counter::default()));
    assert_eq!(block_on(service.clone().oneshot(PANICS)).unwrap_err().kind(), BatchError::Panicked);
    assert_eq!(block_on(service.clone().oneshot(1)).unwrap_err().kind(), BatchError::Poisoned);
    service.batched().close().unwrap();
    assert_eq!(block_on(service.oneshot(1)).unwrap_err().kind(), BatchError::Closed);
}

#[test]
fn a_dropped_response_leaves_no_operation_behind() {
    let layer = BatchService::layer(|counter| Batched::builder().limit(8).build(counter));
    let mut service = ServiceBuilder::new().layer(layer).service(Counter::default());
    let mut responses: Vec<_> = (0..4).map(|_| service.call(1)).collect();
    // Callers wait for each other at first, so the first poll hands the operation in.
    for response in &mut responses {
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(responses.split_off(2));
    let before: Vec<u64> = responses.into_iter().map(|response| block_on(response).unwrap()).collect();
    assert_eq!(before, [0, 1]);
    assert_eq!(service.batched().exclusive(|counter| counter.0).unwrap(), 2);
}

/// A reply counts when `run` has returned.
#[test]
fn all_responses_of_a_batch_that_panics_are_errors() {
    for recovers in [false, true] {
        let builder = Batched::builder();
        let builder = if recovers { builder.recover(|_: &mut Counter| ()) } else { builder };
        let mut service = BatchService::from(builder.build(Counter::default()));
        let batched = service.batched().clone();
        let ((enters, entered), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let mut responses: Vec<_> = [1, 2, PANICS].into_iter().map(|op| service.call(op)).collect();
        thread::scope(|scope| {
            scope.spawn(move || batched.exclusive(move |_| (enters.send(()), gone.recv()).1));
            entered.recv().unwrap();
            // While the structure is in use, so that they are handed in together.
            let mut context = Context::from_waker(Waker::noop());
            assert!(responses.iter_mut().all(|response| response.as_mut().poll(&mut context).is_pending()));
            go.send(()).unwrap();
        });
        for response in responses {
            assert_eq!(block_on(response).unwrap_err().kind(), BatchError::Panicked);
        }
        let after = block_on(service.oneshot(1)).map_err(|error| error.kind());
        assert_eq!(after.is_ok(), recovers, "{after:?}");
    }
}
