//! Items of parallel iterators run on the threads of the pool that a program has made: with their index, handlers, names and stacks.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder, broadcast, current_thread_index, join, scope};

thread_local! {
    static STARTED: Cell<usize> = const { Cell::new(0) };
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("mine-{index}"))
        .start_handler(|index| STARTED.set(index + 1))
        .build()
        .unwrap()
}

/// An item of several microseconds.
fn work() {
    (0..2000u64).for_each(|i| _ = std::hint::black_box(i));
}

#[test]
fn every_item_has_the_index_the_name_and_the_thread_locals_of_its_thread() {
    for threads in [1, 2, 4] {
        let pool = pool(threads);
        let busy: Vec<AtomicBool> = (0..threads).map(|_| AtomicBool::new(false)).collect();
        pool.broadcast(|context| assert_eq!(STARTED.get(), context.index() + 1));
        for _ in 0..10 {
            pool.install(|| {
                (0..200).into_par_iter().with_max_len(1).for_each(|_| {
                    let index = current_thread_index().unwrap();
                    assert!(!busy[index].swap(true, Relaxed), "two threads have index {index}");
                    assert_eq!(STARTED.get(), index + 1);
                    assert_eq!(thread::current().name(), Some(&*format!("mine-{index}")));
                    work();
                    busy[index].store(false, Relaxed);
                });
            });
        }
    }
}

/// As many items as threads, also where these are more than CPUs. Each works on the part of its index, and they meet at barriers: NPB's lu.
#[test]
fn as_many_items_as_threads_meet_at_barriers() {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    for threads in [2, 3, 5] {
        for _ in 0..5 {
            let pool = pool(threads);
            for _ in 0..5 {
                let (barrier, parts) = (Barrier::new(threads), Mutex::new(vec![0; threads]));
                pool.install(|| {
                    (0..rayon::current_num_threads()).into_par_iter().for_each(|_| {
                        for round in 0..10 {
                            parts.lock().unwrap()[current_thread_index().unwrap()] += 1;
                            barrier.wait();
                            assert_eq!(*parts.lock().unwrap(), vec![round + 1; threads]);
                            barrier.wait();
                        }
                    });
                });
            }
        }
    }
}

#[test]
fn items_have_the_stack_of_the_pool() {
    fn deep(levels: u32) -> u32 {
        let level = std::hint::black_box([0u8; 1024]);
        if levels == 0 { u32::from(level[7]) } else { 1 + deep(levels - 1) }
    }
    let pool = ThreadPoolBuilder::new().num_threads(2).stack_size(64 << 20).build().unwrap();
    let depths: Vec<u32> = pool.install(|| (0..8).into_par_iter().with_max_len(1).map(|_| deep(20_000)).collect());
    assert_eq!(depths, [20_000; 8]);
}

/// Tasks, joins, broadcasts and loops inside each other, from all threads at once.
#[test]
fn loops_and_tasks_mix() {
    let pool = pool(3);
    for _ in 0..10 {
        let ran = AtomicUsize::new(0);
        let count = |_: usize| _ = ran.fetch_add(1, Relaxed);
        pool.install(|| {
            (0..8).into_par_iter().with_max_len(1).for_each(|_| {
                scope(|s| {
                    s.spawn(|_| (0..50usize).into_par_iter().for_each(count));
                    join(|| (0..50usize).into_par_iter().for_each(count), || count(0));
                });
            });
            broadcast(|_| count(0));
        });
        assert_eq!(ran.into_inner(), 8 * 101 + 3);
        assert_eq!(pool.install(|| (0..1000u64).into_par_iter().sum::<u64>()), 499_500);
    }
}
