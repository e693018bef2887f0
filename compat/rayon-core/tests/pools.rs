//! Threads and order of tasks, waits, and ends of threads, as far as rayon's own tests do not ask.

use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rayon_core::{
    Scope, ThreadPool, ThreadPoolBuilder, Yield, current_thread_index, join, scope, spawn, spawn_fifo, yield_local,
    yield_now,
};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn tree(depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let (left, right) = join(|| tree(depth - 1), || tree(depth - 1));
    left + right
}

#[test]
fn joins_of_all_kinds_of_threads_give_their_results() {
    assert_eq!(tree(10), 1024, "the global pool");
    for threads in [1, 2, 3, 8] {
        let pool = pool(threads);
        assert_eq!(pool.install(|| tree(12)), 4096);
        assert_eq!(pool.join(|| tree(10), || tree(10)), (1024, 1024));
        let everywhere = pool.broadcast(|_| tree(8));
        assert_eq!(everywhere, vec![256; threads]);
    }
}

/// Each half waits for the other one, and each pair begins while the threads of the last one are busy or about to park.
#[test]
fn a_half_begins_while_the_other_one_waits_for_it() {
    let pool = pool(3);
    for round in 0..300 {
        let (tell, told): (Sender<u32>, Receiver<u32>) = channel();
        let (received, ()) = pool.join(move || told.recv().unwrap(), move || tell.send(round).unwrap());
        assert_eq!(received, round);
    }
}

#[test]
fn every_worker_has_one_index_at_a_time() {
    let pool = pool(4);
    let busy: Vec<AtomicBool> = (0..4).map(|_| AtomicBool::new(false)).collect();
    pool.scope(|s| {
        for _ in 0..500 {
            let busy = &busy;
            s.spawn(move |_| {
                let index = current_thread_index().unwrap();
                assert!(!busy[index].swap(true, Ordering::Relaxed), "two threads have index {index}");
                thread::yield_now();
                busy[index].store(false, Ordering::Relaxed);
            });
        }
    });
}

/// Tasks that wait on their scopes run those of others meanwhile; nothing is lost and nothing runs twice.
#[test]
fn scopes_in_scopes_run_each_task_once() {
    fn spawn_tree<'a>(s: &Scope<'a>, pool: &'a ThreadPool, ran: &'a AtomicUsize, depth: u32) {
        ran.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            return;
        }
        for _ in 0..3 {
            s.spawn(move |s| spawn_tree(s, pool, ran, depth - 1));
        }
        let inner = AtomicUsize::new(0);
        pool.scope(|s| {
            s.spawn(|_| _ = inner.fetch_add(1, Ordering::Relaxed));
            s.spawn_broadcast(|_, _| _ = inner.fetch_add(1, Ordering::Relaxed));
        });
        assert_eq!(inner.into_inner(), 1 + pool.current_num_threads());
    }
    for threads in [1, 2, 5] {
        let (pool, ran) = (pool(threads), AtomicUsize::new(0));
        pool.scope(|s| spawn_tree(s, &pool, &ran, 4));
        assert_eq!(ran.into_inner(), (1..=4).fold(1, |sum, depth| sum + 3usize.pow(depth)));
    }
}

#[test]
fn spawned_tasks_of_one_worker_keep_their_orders() {
    let pool = pool(1);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let push = |i: u32| {
        let ran = ran.clone();
        move || ran.lock().unwrap().push(i)
    };
    pool.install(|| {
        (1..=3).for_each(|i| spawn(push(i)));
        (11..=13).for_each(|i| spawn_fifo(push(i)));
    });
    pool.broadcast(|_| ());
    assert_eq!(*ran.lock().unwrap(), [11, 12, 13, 3, 2, 1]);
}

/// Broadcasts reach workers that run tasks, that wait, that are parked, and that are broadcasting.
#[test]
fn broadcasts_from_everywhere_end() {
    let (one, other) = (pool(3), pool(5));
    let ran = AtomicUsize::new(0);
    one.broadcast(|_| other.broadcast(|_| one.broadcast(|_| ran.fetch_add(1, Ordering::Relaxed))));
    assert_eq!(ran.swap(0, Ordering::Relaxed), 3 * 5 * 3);
    for _ in 0..200 {
        other.broadcast(|_| ran.fetch_add(1, Ordering::Relaxed));
    }
    assert_eq!(ran.swap(0, Ordering::Relaxed), 200 * 5);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| (0..50).for_each(|_| _ = one.broadcast(|_| ran.fetch_add(1, Ordering::Relaxed))));
        }
    });
    assert_eq!(ran.into_inner(), 3 * 50 * 3);
}

#[test]
fn a_broadcast_waits_for_tasks_that_hold_its_workers() {
    let pool = pool(2);
    let barrier = Arc::new(Barrier::new(3));
    for _ in 0..2 {
        let barrier = barrier.clone();
        pool.spawn(move || _ = barrier.wait());
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    pool.spawn_broadcast(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    barrier.wait();
    pool.broadcast(|_| ());
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}

#[test]
fn a_task_that_yields_runs_another_one() {
    assert_eq!((yield_now(), yield_local()), (None, None));
    let pool = pool(1);
    pool.install(|| {
        let ran = Arc::new(AtomicBool::new(false));
        let seen = ran.clone();
        spawn(move || ran.store(true, Ordering::Relaxed));
        assert_eq!(yield_local(), Some(Yield::Executed));
        assert!(seen.load(Ordering::Relaxed));
        assert_eq!(yield_now(), Some(Yield::Idle));
    });
    assert_eq!(pool.yield_now(), None);
}

#[test]
fn panics_go_where_they_are_promised() {
    let (tell, told) = channel();
    let pool = ThreadPoolBuilder::new()
        .num_threads(2)
        .panic_handler(move |payload| tell.send(payload).unwrap())
        .build()
        .unwrap();
    let text = |caught: thread::Result<()>| *caught.unwrap_err().downcast::<&str>().unwrap();
    let catch = |f: &dyn Fn()| text(catch_unwind(AssertUnwindSafe(f)));
    assert_eq!(catch(&|| pool.install(|| panic!("install"))), "install");
    assert_eq!(catch(&|| _ = pool.join(|| panic!("first"), || panic!("second"))), "first");
    assert_eq!(catch(&|| pool.scope(|s| s.spawn(|_| panic!("task")))), "task");
    let one = |index| {
        if index == 1 {
            panic!("broadcast")
        }
    };
    assert_eq!(catch(&|| _ = pool.broadcast(|context| one(context.index()))), "broadcast");
    pool.spawn(|| panic!("lost"));
    assert_eq!(told.recv().unwrap().downcast_ref(), Some(&"lost"));
}

#[test]
fn threads_end_when_the_last_task_has_ended() {
    let ended = Arc::new(AtomicUsize::new(0));
    let (begun, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (tell, told) = channel::<()>();
    let counted = ended.clone();
    let pool = ThreadPoolBuilder::new()
        .num_threads(3)
        .exit_handler(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = &tell;
        })
        .build()
        .unwrap();
    let (inside, wait) = (begun.clone(), go.clone());
    pool.spawn(move || {
        inside.wait();
        wait.wait();
    });
    begun.wait();
    drop(pool);
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    go.wait();
    // The handler is dropped with the pool.
    assert!(told.recv().is_err());
    assert_eq!(ended.load(Ordering::Relaxed), 3);
}

/// A worker that waits runs a half of another worker's join, and that half waits, too. Then the worker waits on, and has to be woken.
#[test]
fn a_wait_inside_of_a_wait_ends_no_other_one() {
    let (tell, told) = channel::<()>();
    let handler = move |_| _ = &tell;
    let pool = ThreadPoolBuilder::new().num_threads(3).exit_handler(handler).build().unwrap();
    // One worker is held, so its part of the broadcast is pending, and the others wait for it.
    let (begun, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (inside, wait) = (begun.clone(), go.clone());
    pool.spawn(move || {
        inside.wait();
        wait.wait();
    });
    begun.wait();
    let came = AtomicUsize::new(0);
    let (say, said) = channel();
    pool.spawn_broadcast(move |_| {
        if came.fetch_add(1, Ordering::Relaxed) != 1 {
            return;
        }
        let me = current_thread_index();
        let (is_taken, is_begun, has_waited) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let up = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        while !up(&has_waited) {
            let first = || {
                let begun = Instant::now();
                while !up(&is_taken) && begun.elapsed() < Duration::from_millis(1) {
                    spin_loop();
                }
                while up(&is_taken) && !up(&has_waited) {
                    yield_now();
                }
            };
            let second = || {
                if current_thread_index() == me {
                    return;
                }
                is_taken.store(true, Ordering::Relaxed);
                scope(|s| {
                    s.spawn(|_| {
                        is_begun.store(true, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(20));
                    });
                    // The other worker takes it.
                    while !up(&is_begun) {
                        spin_loop();
                    }
                });
                has_waited.store(true, Ordering::Relaxed);
            };
            join(first, second);
        }
        say.send(()).unwrap();
    });
    said.recv().unwrap();
    drop(pool);
    go.wait();
    let all_left = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(all_left, Err(RecvTimeoutError::Disconnected), "a worker waits for ever");
}

#[test]
fn pools_come_and_go() {
    for round in 0..50 {
        let pool = pool(1 + round % 4);
        match round % 3 {
            0 => drop(pool),
            1 => assert_eq!(pool.install(|| tree(4)), 16),
            _ => pool.spawn(|| _ = tree(4)),
        }
    }
}

#[test]
fn windrow_calls_work_on_workers() {
    use windrow::prelude::*;
    let pool = pool(2);
    let sum = pool.install(|| {
        let sum: u64 = (0..10_000u64).into_par_iter().sum();
        let tasks = AtomicUsize::new(0);
        windrow::scope(|s| (0..10).for_each(|_| s.spawn(|_| _ = tasks.fetch_add(1, Ordering::Relaxed))));
        let nested = windrow::Pool::new(2).install(|| join(|| tree(5), || tree(5)));
        assert_eq!((tasks.into_inner(), nested), (10, (32, 32)));
        sum
    });
    assert_eq!(sum, 49_995_000);
}
