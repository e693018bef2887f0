//! Implicit batching: structures whose batches await, on tokio.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use windrow::batch::{Async, AsyncBatchOps, Batch, BatchError, Batched};
use windrow_testkit::{Rng, block_on};

/// Operations that a server adds up, one request a batch. The reply is the sum after the batch.
#[derive(Default)]
struct Server {
    sum: u64,
    sizes: Vec<usize>,
    busy: Arc<AtomicBool>,
    own: Option<Arc<Batched<Async<Server>>>>,
}

/// Operations with a meaning of their own. Others are added.
const PANICS: u64 = 1 << 32;
const PANICS_LATE: u64 = 1 << 33;
const FOR_EVER: u64 = 1 << 34;
const NESTED: u64 = 1 << 35;
const SLOW: u64 = 1 << 36;

impl AsyncBatchOps for Server {
    type Op = u64;
    type Reply = u64;

    async fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        assert!(!self.busy.swap(true, SeqCst), "another batch runs");
        // Also if this future is dropped.
        let _free = Free(self.busy.clone());
        let ops: Vec<u64> = batch.iter_mut().map(|entry| entry.take()).collect();
        assert!(!ops.contains(&PANICS), "unlucky");
        let wait = match () {
            () if ops.contains(&FOR_EVER) => Duration::from_secs(3600),
            () if ops.contains(&SLOW) => Duration::from_millis(50),
            () => Duration::from_micros(100),
        };
        sleep(wait).await;
        assert!(!ops.contains(&PANICS_LATE), "unlucky after a wait");
        if ops.contains(&NESTED) {
            let own = self.own.as_ref().expect("it was set");
            assert_eq!(own.call_async(1).await.unwrap_err().kind(), BatchError::Nested);
            assert_eq!(own.call(1).unwrap_err().kind(), BatchError::Nested);
            assert_eq!(own.close_async().await, Err(BatchError::Nested));
        }
        self.sum += ops.iter().filter(|op| **op < PANICS).sum::<u64>();
        self.sizes.push(ops.len());
        batch.iter_mut().for_each(|entry| entry.reply(self.sum));
    }
}

struct Free(Arc<AtomicBool>);

impl Drop for Free {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

type Served = Arc<Batched<Async<Server>>>;

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_time().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap(),
    ]
}

fn serve(runtime: &Runtime, builder: windrow::batch::Builder<Async<Server>>) -> Served {
    let handle = runtime.handle().clone();
    Arc::new(builder.build_async(Server::default(), move |task| drop(handle.spawn(task))))
}

fn served(runtime: &Runtime) -> Served {
    serve(runtime, Batched::builder())
}

/// Runs a future on a runtime; a hang is a failure.
fn within<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    runtime.block_on(async { timeout(Duration::from_secs(60), future).await.expect("it hangs") })
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls from a task of their own.
fn spawn(server: &Served, op: u64) -> tokio::task::JoinHandle<Result<u64, BatchError>> {
    let server = server.clone();
    tokio::spawn(async move { server.call_async(op).await.map_err(|error| error.kind()) })
}

/// Waits until a batch runs.
async fn running(server: &Served) {
    while server.gauges().running.is_none() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn tasks_share_the_batches_of_an_async_structure() {
    for runtime in runtimes() {
        let server = serve(&runtime, Batched::builder().limit(32));
        within(&runtime, async {
            for _ in 0..5 {
                let calls: Vec<_> = (0..100).map(|_| spawn(&server, 1)).collect();
                for call in calls {
                    assert!(call.await.unwrap().unwrap() <= 500);
                }
            }
            let sizes = server.exclusive_async(|server| server.sizes.clone()).await.unwrap();
            assert!(sizes.iter().sum::<usize>() == 500 && sizes.iter().max() <= Some(&32), "{sizes:?}");
            assert!(sizes.len() < 100, "they share batches: {sizes:?}");
            let stats = server.stats_async().await.unwrap();
            assert_eq!((stats.ops(), stats.batches(), stats.alone()), (500, sizes.len() as u64, 0));
        });
    }
}

#[test]
fn a_lone_call_and_calls_of_threads() {
    let [_, runtime] = runtimes();
    let server = served(&runtime);
    assert_eq!(server.call(5), Ok(5));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert!(server.call(1).is_ok())));
        }
    });
    assert_eq!(block_on(server.read_async(|server| server.sum)), Ok(85));
    assert_eq!((server.stats().unwrap().ops(), server.close()), (81, Ok(())));
    let server = Arc::into_inner(server).unwrap().into_inner().expect("it is whole");
    assert_eq!((server.sum, server.into_inner().sizes.iter().sum::<usize>()), (85, 81));
}

#[test]
fn a_panic_answers_the_callers_of_its_batch() {
    let panics = [(PANICS, "unlucky"), (PANICS_LATE, "unlucky after a wait")];
    for (runtime, (op, message)) in runtimes().into_iter().zip(panics) {
        let (lost, kept) = (served(&runtime), serve(&runtime, Batched::builder().recover(|_| ())));
        within(&runtime, async {
            for server in [&lost, &kept] {
                assert_eq!(server.call_async(1).await, Ok(1));
                let bad = server.call_async(op).await.unwrap_err();
                assert_eq!((bad.kind(), bad.panic()), (BatchError::Panicked, Some(message)));
            }
            let later = lost.call_async(1).await.unwrap_err();
            assert_eq!((later.kind(), later.panic()), (BatchError::Poisoned, Some(message)));
            assert_eq!(later.into_op(), Some(1));
            assert_eq!((kept.call_async(1).await, kept.gauges().panicked), (Ok(2), 1));
        });
    }
}

#[test]
fn a_runtime_that_is_dropped_in_mid_batch_leaves_no_caller_waiting() {
    for (runtime, recovers) in
        runtimes().into_iter().zip([false, true]).chain(runtimes().into_iter().zip([true, false]))
    {
        let builder = Batched::builder();
        let server = serve(
            &runtime,
            if recovers { builder.recover(|server: &mut Async<Server>| server.sum = 7) } else { builder },
        );
        thread::scope(|scope| {
            let first = scope.spawn(|| server.call(FOR_EVER).unwrap_err());
            within(&runtime, running(&server));
            // A thread, a task and a job are queued when the runtime goes.
            let second = scope.spawn(|| server.call(3).unwrap_err());
            let job = scope.spawn(|| server.exclusive(|server| server.sum));
            while server.gauges().queued == 0 {
                thread::yield_now();
            }
            drop(runtime);
            let first = first.join().unwrap();
            assert_eq!((first.kind(), first.into_op()), (BatchError::Dropped, None));
            let second = second.join().unwrap();
            assert!([BatchError::Dropped, BatchError::Poisoned].contains(&second.kind()), "{second}");
            assert_eq!(second.into_op(), Some(3), "it was not run");
            assert_eq!(job.join().unwrap(), if recovers { Ok(7) } else { Err(BatchError::Poisoned) });
        });
        let message = "the executor dropped the task of a batch";
        assert_eq!(server.gauges().last_panic.as_deref(), Some(message));
        // Callers that come now find no executor.
        let late = block_on(server.call_async(4)).unwrap_err();
        assert_eq!((late.kind(), late.into_op()), (BatchError::Dropped, Some(4)));
        assert_eq!(server.call(5).unwrap_err().into_op(), Some(5));
        assert_eq!((server.gauges().queued, server.gauges().running), (0, None));
        assert_eq!(server.close(), Ok(()));
    }
}

#[test]
fn a_task_that_is_dropped_before_it_begins_refuses_what_is_queued() {
    // An executor that drops every other task.
    let [_, runtime] = runtimes();
    let (handle, tasks) = (runtime.handle().clone(), AtomicU64::new(0));
    let server = Batched::builder().build_async(Server::default(), move |task| {
        if tasks.fetch_add(1, SeqCst) % 2 == 1 {
            handle.spawn(task);
        }
    });
    for _ in 0..10 {
        let refused = server.call(1).unwrap_err();
        assert_eq!((refused.kind(), refused.into_op()), (BatchError::Dropped, Some(1)));
        assert!(server.call(1).is_ok());
    }
    assert_eq!((server.gauges().operations, server.gauges().queued, server.gauges().panicked), (10, 0, 0));
    // A spawner that panics is its caller's panic; the operation is refused first.
    let server = Batched::builder().build_async(Server::default(), |_| panic!("no executor"));
    assert!(catch_unwind(AssertUnwindSafe(|| server.call(1))).is_err());
    assert_eq!(server.gauges().queued, 0);
}

#[test]
fn callers_that_go_away_while_a_batch_awaits() {
    for runtime in runtimes() {
        let server = served(&runtime);
        within(&runtime, async {
            let gone = spawn(&server, SLOW);
            running(&server).await;
            let (kept, dropped) = (spawn(&server, 2), spawn(&server, 40));
            while server.gauges().queued < 2 {
                tokio::task::yield_now().await;
            }
            gone.abort();
            dropped.abort();
            assert!(gone.await.is_err() && dropped.await.is_err());
            assert_eq!(kept.await.unwrap(), Ok(2), "the batch of the one that went ran, and the other never did");
            assert_eq!((server.gauges().operations, server.gauges().cancelled), (2, 1));
        });
    }
}

#[test]
fn closing_while_a_batch_awaits() {
    for runtime in runtimes() {
        let server = served(&runtime);
        within(&runtime, async {
            let first = spawn(&server, SLOW);
            running(&server).await;
            let mut read = pin!(server.read_async(|server| server.sum));
            assert!(poll(read.as_mut()).is_pending());
            let mut second = pin!(server.call_async(2));
            assert!(poll(second.as_mut()).is_pending());
            let closed = server.close_async().await;
            assert_eq!((closed, server.call_async(1).await.unwrap_err().kind()), (Ok(()), BatchError::Closed));
            assert_eq!((first.await.unwrap(), read.await, second.await), (Ok(0), Ok(0), Ok(2)));
        });
        within(&runtime, async {
            let server = Arc::into_inner(server).expect("its callers have returned");
            assert_eq!(server.into_inner().unwrap().sum, 2);
        });
    }
}

#[test]
fn a_thread_closes_while_a_batch_awaits() {
    let [_, runtime] = runtimes();
    let server = served(&runtime);
    thread::scope(|scope| {
        scope.spawn(|| server.call(SLOW).unwrap());
        runtime.block_on(running(&server));
        assert_eq!(server.close(), Ok(()));
        assert_eq!(server.gauges().operations, 1);
    });
}

#[test]
fn dropping_the_structure_does_not_wait_for_its_batch() {
    for runtime in runtimes() {
        let server = served(&runtime);
        within(&runtime, async {
            let caller = spawn(&server, SLOW);
            running(&server).await;
            caller.abort();
            assert!(caller.await.is_err());
            let busy = server.exclusive_async(|server| server.busy.clone()).await.unwrap();
            let caller = spawn(&server, SLOW);
            running(&server).await;
            caller.abort();
            assert!(caller.await.is_err());
            assert!(busy.load(SeqCst));
            let server = Arc::into_inner(server).expect("the caller is gone");
            assert!(server.into_inner().is_none(), "its batch runs");
            assert!(busy.load(SeqCst));
            while busy.load(SeqCst) {
                tokio::task::yield_now().await;
            }
        });
    }
}

#[test]
fn a_batch_that_calls_its_own_structure_is_refused() {
    for runtime in runtimes() {
        let server = served(&runtime);
        within(&runtime, async {
            let own = server.clone();
            server.exclusive_async(|server| server.own = Some(own)).await.unwrap();
            assert_eq!(server.call_async(NESTED).await, Ok(0));
            server.exclusive_async(|server| server.own = None).await.unwrap();
        });
    }
}

#[test]
fn a_listener_does_not_wait_for_a_batch_that_awaits() {
    let [runtime, _] = runtimes();
    let server = served(&runtime);
    // The report of the first call is made while the second one's batch awaits, on the same thread.
    let report = windrow::explain(|| {
        within(&runtime, async {
            let (first, second) = (spawn(&server, 1), spawn(&server, 2));
            running(&server).await;
            let third = spawn(&server, SLOW);
            assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok() && third.await.unwrap().is_ok());
        });
    });
    drop(report);
}

#[test]
fn stress_with_aborted_tasks_panics_and_jobs() {
    for runtime in runtimes() {
        let server = serve(&runtime, Batched::builder().limit(8).recover(|_| ()));
        let added = Arc::new(AtomicU64::new(0));
        within(&runtime, async {
            let mut random = Rng(7);
            for _ in 0..if cfg!(miri) { 2 } else { 40 } {
                let tasks: Vec<_> = (0..50)
                    .map(|_| {
                        let (server, added, what) = (server.clone(), added.clone(), random.below(10));
                        tokio::spawn(async move {
                            match what {
                                0 => drop(server.call_async(PANICS_LATE).await.unwrap_err()),
                                1 => drop(timeout(Duration::from_micros(150), server.call_async(0)).await),
                                2 => drop(server.exclusive_async(|server| server.sum).await.unwrap()),
                                3 => drop(server.read_async(|server| server.sum).await.unwrap()),
                                _ => match server.call_async(1).await {
                                    Ok(_) => _ = added.fetch_add(1, SeqCst),
                                    Err(error) => assert_eq!(error.kind(), BatchError::Panicked),
                                },
                            }
                        })
                    })
                    .collect();
                for (at, task) in tasks.into_iter().enumerate() {
                    if at % 9 == 1 {
                        task.abort();
                    }
                    if let Err(error) = task.await {
                        assert!(error.is_cancelled(), "{error}");
                    }
                }
            }
            let sum = server.exclusive_async(|server| server.sum).await.unwrap();
            // An aborted caller's operation may have run.
            assert!(sum >= added.load(SeqCst) && server.gauges().queued == 0, "{}", server.gauges());
        });
    }
}
