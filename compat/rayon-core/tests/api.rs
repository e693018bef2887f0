//! What programs use through rayon: joins, scopes, spawned tasks, broadcasts, pools, panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use rayon_core::{
    ThreadPool, ThreadPoolBuilder, Yield, broadcast, current_num_threads, current_thread_index, in_place_scope, join,
    join_context, max_num_threads, scope, scope_fifo, spawn, spawn_broadcast, yield_now,
};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn joins_nest() {
    fn fibonacci(n: u32) -> u64 {
        if n < 2 {
            return n.into();
        }
        let (left, right) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
        left + right
    }
    assert_eq!(fibonacci(20), 6765);
    for threads in [1, 2, 5] {
        assert_eq!(pool(threads).install(|| fibonacci(20)), 6765);
    }
}

/// The second half begins although the first one waits for it.
#[test]
fn halves_may_wait_for_each_other() {
    let barrier = Barrier::new(2);
    let pool = pool(2);
    for _ in 0..100 {
        pool.join(|| _ = barrier.wait(), || _ = barrier.wait());
    }
}

/// As many leaves as threads, each of which waits for all others.
#[test]
fn all_halves_of_a_tree_may_wait_for_each_other() {
    fn leaves(count: usize, barrier: &Barrier) {
        match count {
            1 => _ = barrier.wait(),
            _ => _ = join(|| leaves(count / 2, barrier), || leaves(count - count / 2, barrier)),
        }
    }
    for threads in [2, 3, 4, 8, 13] {
        let (pool, barrier) = (pool(threads), Barrier::new(threads));
        for _ in 0..30 {
            pool.install(|| leaves(threads, &barrier));
        }
    }
}

#[test]
fn a_half_is_told_whether_it_has_migrated() {
    let (a, b) = join_context(|a| a.migrated(), |b| b.migrated());
    assert!(a && b, "from outside both are handed over");
    let (a, b) = pool(1).install(|| join_context(|a| a.migrated(), |b| b.migrated()));
    assert!(!a && !b);
}

#[test]
fn a_panic_of_a_half_reaches_the_caller_when_both_have_run() {
    let pool = pool(2);
    for first in [true, false] {
        let ran = AtomicUsize::new(0);
        let half = |panics: bool| {
            ran.fetch_add(1, Ordering::Relaxed);
            assert!(!panics, "this half");
        };
        let caught = catch_unwind(AssertUnwindSafe(|| pool.join(|| half(first), || half(!first))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"this half"));
        assert_eq!(ran.into_inner(), 2);
    }
}

#[test]
fn tasks_of_a_scope_borrow_and_spawn_more() {
    let sum = AtomicUsize::new(0);
    let result = scope(|s| {
        for i in 0..10 {
            let sum = &sum;
            s.spawn(move |s| {
                s.spawn(move |_| {
                    sum.fetch_add(i, Ordering::Relaxed);
                });
            });
        }
        "done"
    });
    assert_eq!((result, sum.into_inner()), ("done", 45));
}

#[test]
fn a_scope_may_wait_for_its_tasks_by_a_channel() {
    let pool = pool(1);
    let (tell, told) = channel();
    let told = &told;
    let seven = pool.in_place_scope(move |s| {
        s.spawn(move |_| tell.send(7).unwrap());
        told.recv().unwrap()
    });
    assert_eq!(seven, 7);
}

#[test]
fn one_thread_keeps_the_order_of_a_scope() {
    let order = |fifo: bool| {
        let ran = Mutex::new(Vec::new());
        pool(1).install(|| {
            let ran = &ran;
            if fifo {
                scope_fifo(|s| (0..5).for_each(|i| s.spawn_fifo(move |_| ran.lock().unwrap().push(i))));
            } else {
                scope(|s| (0..5).for_each(|i| s.spawn(move |_| ran.lock().unwrap().push(i))));
            }
        });
        ran.into_inner().unwrap()
    };
    assert_eq!(order(true), [0, 1, 2, 3, 4]);
    assert_eq!(order(false), [4, 3, 2, 1, 0]);
}

#[test]
fn a_panic_of_a_task_ends_the_scope_after_the_others() {
    let ran = AtomicUsize::new(0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        in_place_scope(|s| {
            s.spawn(|_| panic!("a task"));
            s.spawn(|_| _ = ran.fetch_add(1, Ordering::Relaxed));
        });
    }));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"a task"));
    assert_eq!(ran.into_inner(), 1);
}

#[test]
fn spawned_tasks_outlive_the_handle_of_their_pool() {
    let (tell, told) = channel();
    let (go, gone) = channel::<()>();
    let pool = pool(2);
    pool.spawn(move || {
        gone.recv().unwrap();
        spawn(move || tell.send(current_num_threads()).unwrap());
    });
    drop(pool);
    go.send(()).unwrap();
    assert_eq!(told.recv(), Ok(2));
}

#[test]
fn a_broadcast_runs_once_on_each_thread() {
    for threads in [1, 2, 7] {
        let pool = pool(threads);
        let everywhere = || pool.broadcast(|context| (context.index(), current_thread_index().unwrap()));
        assert!(everywhere().into_iter().eq((0..threads).map(|i| (i, i))));
        assert_eq!(pool.install(|| broadcast(|context| context.num_threads())), vec![threads; threads]);
    }
    let (tell, told) = channel();
    spawn_broadcast(move |context| tell.send(context.index()).unwrap());
    let mut indices: Vec<usize> = told.into_iter().collect();
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..current_num_threads()));
}

#[test]
fn a_panic_of_a_broadcast_comes_after_all_have_run() {
    let (pool, ran) = (pool(3), AtomicUsize::new(0));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        pool.broadcast(|context| {
            ran.fetch_add(1, Ordering::Relaxed);
            assert_ne!(context.index(), 1, "the second");
        })
    }));
    assert!(caught.is_err());
    assert_eq!(ran.into_inner(), 3);
}

#[test]
fn pools_wait_for_each_other() {
    let (one, other) = (pool(1), pool(1));
    assert!(one.install(|| other.install(|| one.install(|| true))));
}

#[test]
fn a_pool_bounds_what_runs_at_once() {
    let pool = Arc::new(pool(1));
    let inside = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, inside) = (pool.clone(), inside.clone());
            thread::spawn(move || {
                pool.install(|| {
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::Relaxed);
                });
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

#[test]
fn handlers_and_names_are_those_of_the_builder() {
    let (tell, told) = channel();
    let (start, exit) = (tell.clone(), tell.clone());
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|index| format!("number {index}"))
        .stack_size(4 << 20)
        .start_handler(move |index| start.send(("starts", index)).unwrap())
        .exit_handler(move |index| exit.send(("ends", index)).unwrap())
        .panic_handler(move |_| tell.send(("panics", 9)).unwrap())
        .build()
        .unwrap();
    let names = pool.broadcast(|_| thread::current().name().map(str::to_owned));
    assert_eq!(names, [Some("number 0".to_owned()), Some("number 1".to_owned())]);
    pool.spawn(|| panic!("without a caller"));
    drop(pool);
    let mut events: Vec<_> = told.into_iter().collect();
    events.sort_unstable();
    assert_eq!(events, [("ends", 0), ("ends", 1), ("panics", 9), ("starts", 0), ("starts", 1)]);
}

#[test]
fn threads_may_be_those_of_the_program() {
    let mut threads = Vec::new();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .spawn_handler(|builder| {
            threads.push(thread::spawn(|| builder.run()));
            Ok(())
        })
        .build()
        .unwrap();
    assert_eq!(pool.install(current_num_threads), 2);
    drop(pool);
    assert_eq!(threads.len(), 2);
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let word = String::from("borrowed");
    let run = |builder: rayon_core::ThreadBuilder| {
        assert_eq!(word, "borrowed");
        builder.run();
    };
    assert_eq!(ThreadPoolBuilder::new().num_threads(3).build_scoped(run, |pool| pool.install(|| 7)).unwrap(), 7);
}

#[test]
fn the_current_thread_may_be_the_first_one() {
    thread::spawn(|| {
        let pool = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build().unwrap();
        assert_eq!(current_thread_index(), Some(0));
        let again = ThreadPoolBuilder::new().num_threads(2).use_current_thread().build();
        assert_eq!(again.unwrap_err().to_string(), "The current thread is already part of another thread pool.");
        assert_eq!(pool.broadcast(|context| context.index()), [0, 1]);
        let (left, right) = join(|| 1, || 2);
        assert_eq!(left + right, 3);
    })
    .join()
    .unwrap();
}

#[test]
fn a_thread_yields_to_its_tasks() {
    let (first, second) = pool(1).install(|| {
        spawn(|| ());
        (yield_now(), yield_now())
    });
    assert_eq!((first, second), (Some(Yield::Executed), Some(Yield::Idle)));
    assert_eq!(yield_now(), None);
}

#[test]
fn a_refused_thread_is_an_error() {
    let pool = ThreadPoolBuilder::new().num_threads(2).stack_size(isize::MAX as usize).build();
    assert!(pool.is_err());
    assert!(max_num_threads() >= 255);
}
