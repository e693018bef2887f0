//! The global pool. One test: a process has one such pool.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPoolBuilder, broadcast, current_thread_index, join, scope};

/// Three callers outside any pool, and tasks, use indices at the same time: no two threads have one index.
fn indices_outside_any_pool() {
    let busy: Vec<AtomicBool> = (0..3).map(|_| AtomicBool::new(false)).collect();
    let item = || {
        let index = current_thread_index().unwrap();
        assert!(!busy[index].swap(true, Relaxed), "two threads have index {index}");
        (0..500).for_each(|i| _ = std::hint::black_box(i));
        busy[index].store(false, Relaxed);
        index
    };
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..10 {
                    (0..100).into_par_iter().with_max_len(1).for_each(|_| _ = item());
                    scope(|s| (0..5).for_each(|_| s.spawn(|_| _ = item())));
                }
                assert_eq!(current_thread_index(), None, "between calls");
            });
        }
    });
    // A caller that waits for tasks gives its index back, and has the same one afterwards.
    let ran = AtomicUsize::new(0);
    for _ in 0..10 {
        (0..6).into_par_iter().with_max_len(1).for_each(|_| {
            let index = item();
            join(item, item);
            scope(|s| s.spawn(|_| _ = ran.fetch_add(1, Relaxed)));
            assert_eq!(item(), index);
        });
        (0..1).into_par_iter().for_each(|_| {
            item();
            broadcast(|_| _ = ran.fetch_add(1, Relaxed));
        });
    }
    assert_eq!(ran.into_inner(), 10 * (6 + 3));
}

#[test]
fn iterators_outside_any_pool_use_the_global_one() {
    ThreadPoolBuilder::new().num_threads(3).thread_name(|i| format!("global {i}")).build_global().unwrap();
    assert_eq!((rayon::current_num_threads(), windrow::current_num_threads()), (3, 3));
    let caller = thread::current().name().map(str::to_owned).unwrap();
    let mut names = HashSet::new();
    for _ in 0..50 {
        let item = |i: u64| (0..i % 7 * 500).map(std::hint::black_box).max();
        let here = (0..300).into_par_iter().with_max_len(1).map(|i| {
            item(i);
            thread::current().name().map(str::to_owned).unwrap()
        });
        names.extend(here.collect::<Vec<_>>());
    }
    assert!(names.iter().all(|name| *name == caller || name.starts_with("global ")), "{names:?}");
    #[cfg(target_os = "linux")]
    {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
        let others: Vec<String> =
            names.filter(|name| name.starts_with("windrow-") && *name != "windrow-tasks\n").collect();
        assert!(others.is_empty(), "a second set of threads: {others:?}");
    }
    indices_outside_any_pool();
}
