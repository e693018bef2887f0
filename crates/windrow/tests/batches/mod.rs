//! Structures and an executor for tests of implicit batching.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use windrow::batch::{Batch, BatchOps};

/// A counter: an operation adds, its reply is what was there before. It keeps the sizes of its batches, and panics at 666.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) value: u64,
    pub(crate) batches: Vec<usize>,
}

pub(crate) const PANICS: u64 = 666;

impl BatchOps for Counter {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        self.batches.push(batch.len());
        for entry in batch.iter_mut() {
            let more = entry.take();
            assert_ne!(more, PANICS, "injected");
            entry.reply(self.value);
            self.value += more;
        }
    }

    fn weight(op: &u64) -> usize {
        *op as usize
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// A waker that knows whether it was used.
#[derive(Default)]
pub(crate) struct Flag {
    raised: AtomicBool,
    pub(crate) times: AtomicUsize,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.raised.store(true, SeqCst);
        self.times.fetch_add(1, SeqCst);
    }
}

/// A future and whether it has been woken.
pub(crate) struct Polled<F: Future> {
    future: Pin<Box<F>>,
    pub(crate) flag: Arc<Flag>,
    pub(crate) output: Option<F::Output>,
}

impl<F: Future> Polled<F> {
    pub(crate) fn new(future: F) -> Self {
        Polled { future: Box::pin(future), flag: Arc::default(), output: None }
    }

    /// Polls it once; whether it is ready.
    pub(crate) fn poll(&mut self) -> bool {
        self.flag.raised.store(false, SeqCst);
        let waker = Waker::from(self.flag.clone());
        if let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.output = Some(output);
        }
        self.output.is_some()
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.flag.raised.load(SeqCst)
    }
}

/// Polls those that are woken until all are ready.
pub(crate) fn run_all<F: Future>(futures: &mut [Polled<F>]) {
    for future in futures.iter_mut() {
        future.poll();
    }
    while futures.iter().any(|future| future.output.is_none()) {
        let mut moved = false;
        for future in futures.iter_mut().filter(|future| future.output.is_none()) {
            if future.is_woken() {
                moved = true;
                future.poll();
            }
        }
        assert!(moved, "nobody is woken and not all are ready");
    }
}
