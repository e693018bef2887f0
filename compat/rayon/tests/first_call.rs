//! Iterators before a program has called anything else of rayon. Each test runs in a process of its own, since a process has one global pool.

use std::collections::HashSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use rayon::prelude::*;
use rayon::{ThreadPoolBuilder, current_num_threads, current_thread_index};

/// Runs `f` in a process in which only `test` runs, with these variables.
fn alone(test: &str, variables: &[(&str, &str)], f: impl FnOnce()) {
    const CHILD: &str = "RAYON_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        return f();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
    child.env_remove("RAYON_NUM_THREADS").env_remove("WINDROW_THREADS").envs(variables.iter().copied());
    let ended = child.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// The threads that run 300 items of some microseconds each.
fn threads_of_items() -> HashSet<ThreadId> {
    let threads = Mutex::new(HashSet::new());
    (0..300).into_par_iter().with_max_len(1).for_each(|_| {
        (0..2000u64).for_each(|i| _ = std::hint::black_box(i));
        threads.lock().unwrap().insert(thread::current().id());
    });
    threads.into_inner().unwrap()
}

#[test]
fn a_variable_of_one_thread_bounds_the_first_call() {
    alone("a_variable_of_one_thread_bounds_the_first_call", &[("RAYON_NUM_THREADS", "1")], || {
        assert_eq!(threads_of_items().len(), 1);
        assert_eq!(current_num_threads(), 1);
        assert_eq!(threads_of_items().len(), 1);
    });
}

#[test]
fn a_variable_of_three_threads_bounds_the_first_call() {
    alone("a_variable_of_three_threads_bounds_the_first_call", &[("RAYON_NUM_THREADS", "3")], || {
        assert!(threads_of_items().len() <= 3);
        assert_eq!(current_num_threads(), 3);
    });
}

#[test]
fn a_global_pool_of_one_thread_bounds_iterators() {
    alone("a_global_pool_of_one_thread_bounds_iterators", &[], || {
        ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
        assert_eq!(threads_of_items().len(), 1);
        assert_eq!(current_num_threads(), 1);
    });
}

/// Scratch space by index, in the first call of a process and in calls of three threads at the same time: no two threads have one index.
#[test]
fn items_have_indices_in_the_first_call() {
    alone("items_have_indices_in_the_first_call", &[("RAYON_NUM_THREADS", "3")], || {
        let scratch: Vec<AtomicBool> = (0..3).map(|_| AtomicBool::new(false)).collect();
        let item = || {
            let index = current_thread_index().unwrap();
            assert!(!scratch[index].swap(true, Relaxed), "two threads have index {index}");
            (0..500u64).for_each(|i| _ = std::hint::black_box(i));
            scratch[index].store(false, Relaxed);
            index
        };
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for _ in 0..20 {
                        (0..100).into_par_iter().with_max_len(1).for_each(|_| {
                            let index = item();
                            (0..4).into_par_iter().for_each(|_| _ = item());
                            assert_eq!(item(), index, "inner loops do not change it");
                        });
                        assert_eq!(current_thread_index(), None, "between calls");
                    }
                });
            }
        });
        assert_eq!(current_num_threads(), 3);
    });
}
