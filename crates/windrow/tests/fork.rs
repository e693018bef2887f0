//! After `fork()`: every child finishes its parallel calls, on its own threads, whatever the parent's threads were doing.
//!
//! No warning is printed and no environment variable is read, so there is nothing to set here.
#![cfg(all(target_os = "linux", not(miri)))]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use windrow::batch::{Batch, BatchError, BatchOps, Batched, Chunk, Overflow, Runner};
use windrow::prelude::*;
use windrow::team::TeamErrorKind;
use windrow::{CancelToken, Pool, Width, spawn_joinable, team};
use windrow_testkit::{forked, spin};

/// A region that is published if there are workers; whether it is right.
fn region() -> bool {
    let all: Vec<u64> = (0..40u64)
        .into_par_iter()
        .map(|i| {
            spin(5);
            i * i
        })
        .collect();
    all.iter().enumerate().all(|(i, square)| *square == (i * i) as u64)
}

/// Ends other threads' loops, also when a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn children_of_a_used_pool() {
    assert!(region());
    let threads = windrow::current_num_threads();
    for child in 0..windrow_testkit::cases(150) {
        assert!(forked(|| region() && windrow::current_num_threads() == threads), "child {child}");
        // The parent's pool is as it was.
        assert!(child % 100 > 0 || region());
    }
}

#[test]
fn children_forked_while_other_threads_are_inside() {
    let (own, done) = (Pool::new(3), AtomicBool::new(false));
    thread::scope(|scope| {
        let _done = Done(&done);
        // In the global pool, in one of several callers, in its own pool, and around its spawn threads.
        scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(region())
            }
        });
        scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(own.install(region))
            }
        });
        scope.spawn(|| {
            while !done.load(Relaxed) {
                assert!(own.spawn_joinable(region).wait())
            }
        });
        for child in 0..windrow_testkit::cases(150) {
            let went_well = forked(|| match child % 4 {
                0 => region(),
                // Without its threads: on the caller.
                1 => own.install(region) && own.install(region),
                2 => Pool::new(2).install(region),
                _ => spawn_joinable(region).wait() && own.spawn_joinable(region).wait(),
            });
            assert!(went_well, "child {child}");
        }
    });
}

/// The standard library takes an internal lock whenever a thread starts. A child that inherits it locked has no new threads; it
/// has its calls all the same, and may drop the pools whose threads do not come.
#[test]
fn children_forked_while_other_threads_start() {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
        }
        let _done = Done(&done);
        for child in 0..windrow_testkit::cases(150) {
            let went_well = forked(|| {
                let pool = Pool::new(3);
                region() && pool.install(region) && pool.spawn_joinable(region).wait()
            });
            assert!(went_well, "child {child}");
        }
    });
}

#[test]
fn a_child_has_workers_of_its_own() {
    assert!(region());
    if windrow::current_num_threads() == 1 {
        println!("skipped: one CPU");
        return;
    }
    assert!(forked(|| {
        // One call may be over before a worker comes.
        (0..100).any(|_| {
            let me = thread::current().id();
            (0..200)
                .into_par_iter()
                .map(|_: i32| {
                    spin(50);
                    thread::current().id()
                })
                .any(|id| id != me)
        })
    }));
}

#[test]
fn children_of_children() {
    assert!(region());
    assert!(forked(|| region() && forked(|| region() && forked(region) && region()) && region()));
}

/// On the caller the child builds a pool; on a worker its calls run serially, as in an inherited pool.
#[test]
fn children_forked_inside_a_loop_of_the_global_pool() {
    let children = windrow_testkit::cases(16);
    assert!((0..children).into_par_iter().all(|_| forked(|| region() && region())));
}

/// A team of exact width does not wait for threads that stayed in the parent.
#[test]
fn an_inherited_pool_refuses_teams_of_exact_width() {
    let pool = Pool::new(2);
    let exact = || pool.install(|| team(&mut ()).width(Width::exactly(2)).try_run(|_| ()));
    assert_eq!(exact().map(|members| members.len()), Ok(2));
    assert!(forked(|| {
        let refused = exact().unwrap_err();
        assert!(refused.to_string().contains("stayed in the parent"), "{refused}");
        refused.kind() == TeamErrorKind::Forked && refused.found == 1
    }));
}

#[test]
fn what_was_inherited_may_be_dropped() {
    let pool = Pool::new(3);
    assert!(pool.install(region));
    let closure = pool.spawn_joinable(|| thread::current().name().map(str::to_owned));
    let running = pool.spawn_joinable(|| {
        (0..1u64 << 40).into_par_iter().with_cancel(&CancelToken::current()).for_each(|x| {
            std::hint::black_box(x);
        })
    });
    let mut inherited = Some((pool, closure, running));
    let pid = std::process::id();
    assert!(forked(|| {
        let (pool, closure, mut running) = inherited.take().unwrap();
        let polled =
            catch_unwind(AssertUnwindSafe(|| _ = pin!(&mut running).poll(&mut Context::from_waker(Waker::noop()))));
        let waited = catch_unwind(AssertUnwindSafe(|| closure.wait()));
        drop(running);
        drop(pool);
        polled.is_err() && waited.is_err() && region() && std::process::id() != pid
    }));
    let (_pool, closure, running) = inherited.unwrap();
    while !closure.is_finished() {
        thread::yield_now();
    }
    assert!(closure.wait().is_some_and(|name| name.starts_with("windrow-spawn-")));
    running.cancel();
    assert!(running.wait().is_err());
}

/// Adds; an operation that has a gate says that it runs, and waits there.
struct Sum(u64);

impl BatchOps for Sum {
    type Op = (u64, Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, Self::Op, u64>) {
        for entry in batch.iter_mut() {
            let (more, gate) = entry.take();
            if let Some((runs, go)) = gate {
                runs.send(()).unwrap();
                go.recv().unwrap();
            }
            self.0 += more;
            entry.reply(self.0);
        }
    }
}

/// The answer of a future that is ready at once.
fn polled_once(future: impl Future<Output = Result<(), BatchError>>) -> Result<(), BatchError> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Ok(()),
    }
}

/// Every call of the child's is refused, and what it inherited can be dropped.
fn is_refused(sum: &mut Option<Batched<Sum>>) -> bool {
    let Some(inherited) = sum.take() else { return false };
    let mut chunk = Chunk::new();
    chunk.push((1, None));
    let error = inherited.call((5, None)).unwrap_err();
    let mut future = Box::pin(inherited.call_async((1, None)));
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let refused = [
        inherited.call_chunk(&mut chunk),
        inherited.exclusive(|_| ()),
        inherited.read(|_| ()),
        inherited.stats().map(|_| ()),
        inherited.close(),
        polled_once(inherited.exclusive_async(|_| ())),
        polled_once(inherited.close_async()),
        Err(error.kind()),
    ];
    drop(future);
    let has_op = error.into_op().is_some_and(|(op, _)| op == 5);
    drop(inherited);
    refused.iter().all(|refused| *refused == Err(BatchError::Forked)) && polled.is_ready() && has_op && chunk.len() == 1
}

#[test]
fn a_batched_structure_is_the_parents() {
    for builder in [|| Batched::builder(), || Batched::builder().queue(1, Overflow::Block)] {
        for sum in [
            builder().build(Sum(0)),
            builder().build_on(Runner::thread(|| Sum(0))).unwrap(),
            builder().build_on(Runner::beside_callers(Sum(0))).unwrap(),
            builder().build_on(Runner::spawned(Sum(0), |run| drop(thread::spawn(run)))).unwrap(),
        ] {
            sum.call((1, None)).unwrap();
            let mut inherited = Some(sum);
            assert!(forked(|| is_refused(&mut inherited)));
            // A new one works there.
            assert!(forked(|| Batched::new(Sum(1)).call((1, None)).is_ok_and(|sum| sum == 2)));
            let sum = inherited.unwrap();
            assert_eq!(sum.call((1, None)).unwrap(), 2, "the parent's is as it was");
        }
    }
}

#[test]
fn a_child_forked_while_a_batch_runs() {
    let sum = std::sync::Arc::new(Batched::builder().queue(1, Overflow::Block).build(Sum(0)));
    let ((runs, ran), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let caller = {
        let sum = sum.clone();
        thread::spawn(move || {
            let mut chunk = Chunk::new();
            chunk.push((1, Some((runs, gone))));
            sum.call_chunk(&mut chunk).unwrap();
        })
    };
    ran.recv().unwrap();
    // Futures that wait for room, which the parent's threads would wake.
    let mut waiting = Some(Box::pin(sum.call_async((1, None))));
    assert!(waiting.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // A job in the queue.
    let mut queued = Some(Box::pin(sum.exclusive_async(|sum| sum.0)));
    assert!(queued.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(forked(|| {
        let (mut future, mut job) = (waiting.take().unwrap(), queued.take().unwrap());
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let refused = job.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop((future, job));
        polled.is_ready()
            && refused == Poll::Ready(Err(BatchError::Forked))
            && sum.call((1, None)).is_err_and(|error| error.kind() == BatchError::Forked)
    }));
    assert!(forked(|| {
        drop((waiting.take(), queued.take()));
        true
    }));
    drop(waiting);
    go.send(()).unwrap();
    caller.join().unwrap();
    assert_eq!(windrow_testkit::block_on(queued.take().unwrap()), Ok(1), "the job is the parent's");
    assert_eq!(sum.call((1, None)).unwrap(), 2);
}
