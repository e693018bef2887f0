//! After `fork()`: every child finishes its parallel calls, on threads of its own, whatever the parent's threads were doing.
//!
//! No warning is printed and no environment variable is read, so there is nothing to set here.
#![cfg(all(target_os = "linux", not(miri)))]

#[path = "shared/forked.rs"]
mod forked;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::thread;
use std::time::Instant;

use forked::forked;
use windrow::prelude::*;
use windrow::team::RefusedKind;
use windrow::{Pool, Stop, Width, offload, team};

fn spin(micros: u64) {
    let start = Instant::now();
    while start.elapsed().as_micros() < u128::from(micros) {
        std::hint::spin_loop();
    }
}

/// A region that is published if there is anybody to publish to; whether it is right.
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
fn a_thousand_children_of_a_used_pool() {
    assert!(region());
    let threads = windrow::current_num_threads();
    for child in 0..1000 {
        assert!(forked(|| region() && windrow::current_num_threads() == threads), "child {child}");
        // The parent's pool is as it was.
        assert!(child % 100 > 0 || region());
    }
}

#[test]
fn a_thousand_children_forked_while_other_threads_are_inside() {
    let (own, done) = (Pool::new(3), AtomicBool::new(false));
    thread::scope(|scope| {
        let _done = Done(&done);
        // In the global pool, in one of several callers, in a pool of its own, and around its leads.
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
                assert!(own.offload(region).wait())
            }
        });
        for child in 0..1000 {
            let went_well = forked(|| match child % 4 {
                0 => region(),
                // Without its threads: on the caller.
                1 => own.install(region) && own.install(region),
                2 => Pool::new(2).install(region),
                _ => offload(region).wait() && own.offload(region).wait(),
            });
            assert!(went_well, "child {child}");
        }
    });
}

/// The standard library takes a lock of its own whenever a thread starts. A child that inherits it locked has no new threads; it
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
        for child in 0..1000 {
            let went_well = forked(|| {
                let pool = Pool::new(3);
                region() && pool.install(region) && pool.offload(region).wait()
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

/// A team of exact width does not wait for threads that stayed in the parent.
#[test]
fn an_inherited_pool_refuses_teams_of_exact_width() {
    let pool = Pool::new(2);
    let exact = || pool.install(|| team(&mut ()).width(Width::exactly(2)).try_run(|_| ()));
    assert_eq!(exact().map(|members| members.len()), Ok(2));
    assert!(forked(|| {
        let refused = exact().unwrap_err();
        assert!(refused.to_string().contains("stayed in the parent"), "{refused}");
        refused.kind() == RefusedKind::Forked && refused.found == 1
    }));
}

#[test]
fn what_was_inherited_may_be_dropped() {
    let pool = Pool::new(3);
    assert!(pool.install(region));
    let closure = pool.offload(|| thread::current().name().map(str::to_owned));
    let running = pool.offload(|| {
        (0..1u64 << 40).into_par_iter().stop_when(&Stop::current()).for_each(|x| {
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
    assert!(closure.wait().is_some_and(|name| name.starts_with("windrow-lead-")));
    running.stop();
    assert!(running.wait().is_err());
}
