//! A batched structure behind the limits and timeouts of tower, on an executor.

use std::time::Duration;

use tower::timeout::error::Elapsed;
use tower::{Service, ServiceBuilder, ServiceExt};
use windrow::batch::{Batch, BatchOps, Batched, Overflow, Runner};
use windrow_tower::BatchService;

/// Adds; its batches take some time. Keeps the size of the largest batch.
#[derive(Default)]
struct Sum {
    batch: Duration,
    sum: u64,
    largest: usize,
}

impl BatchOps for Sum {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        std::thread::sleep(self.batch);
        self.largest = self.largest.max(batch.len());
        for entry in batch.iter_mut() {
            self.sum += entry.take();
            entry.reply(self.sum);
        }
    }
}

const TASKS: u64 = 64;
const CALLS: u64 = 10;
const ROOM: usize = 16;

#[test]
fn a_concurrency_limit_bounds_batches_and_nothing_is_lost() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let sum = Sum { batch: Duration::from_micros(100), ..Sum::default() };
    let bounded = BatchService::from(
        Batched::builder().queue(ROOM, Overflow::Block).build_on(Runner::beside_callers(sum)).unwrap(),
    );
    let structure = bounded.batched().clone();
    let limited = ServiceBuilder::new().concurrency_limit(ROOM / 2).service(bounded);
    let replies: u64 = runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let mut service = limited.clone();
                tokio::spawn(async move {
                    for _ in 0..CALLS {
                        service.ready().await.unwrap().call(1).await.unwrap();
                    }
                    CALLS
                })
            })
            .collect();
        let mut replies = 0;
        for task in tasks {
            replies += task.await.unwrap();
        }
        replies
    });
    assert_eq!(replies, TASKS * CALLS);
    let (sum, largest) = structure.exclusive(|sum| (sum.sum, sum.largest)).unwrap();
    assert_eq!(sum, TASKS * CALLS);
    assert!((2..=ROOM / 2).contains(&largest), "{largest}");
}

#[test]
fn a_timeout_ends_the_wait_and_takes_a_queued_operation_along() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let sum = Sum { batch: Duration::from_millis(100), ..Sum::default() };
    let service = BatchService::from(Batched::builder().build_on(Runner::thread(|| sum)).unwrap());
    let structure = service.batched().clone();
    let hurried = ServiceBuilder::new().timeout(Duration::from_millis(20)).service(service);
    runtime.block_on(async {
        let first = tokio::spawn(hurried.clone().oneshot(1));
        // The first batch runs by then, and ends long after the second call has given up.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let error = hurried.oneshot(2).await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
        assert!(first.await.unwrap().unwrap_err().is::<Elapsed>());
    });
    // The first operation was running; the second was queued.
    assert_eq!(structure.exclusive(|sum| sum.sum).unwrap(), 1);
}
