//! The affinity mask changes while the pool lives, as container runtimes and batch systems change it: the pool notices a narrower mask,
//! keeps to its CPUs, and uses all CPUs again when the mask is widened.
#![cfg(all(target_os = "linux", not(miri), not(feature = "portable")))]

use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use windrow::prelude::*;
use windrow_testkit::{alone, spin};

fn cpus() -> Vec<usize> {
    let mask = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap()).collect()
}

/// Allows these CPUs to every thread of the process.
fn allow(cpus: &[usize]) {
    let mut mask = CpuSet::new();
    cpus.iter().for_each(|&cpu| mask.set(cpu).unwrap());
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let id = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        sched_setaffinity(Pid::from_raw(id), &mask).unwrap();
    }
}

/// Runs a millisecond of work. Returns the threads that took part.
fn region() -> Vec<ThreadId> {
    let who = Mutex::new(Vec::new());
    let sum: u64 = (0..50u64)
        .into_par_iter()
        .map(|i| {
            spin(20);
            let me = thread::current().id();
            let mut who = who.lock().unwrap();
            if !who.contains(&me) {
                who.push(me);
            }
            i
        })
        .sum();
    assert_eq!(sum, 1225);
    who.into_inner().unwrap()
}

/// True if `holds` returns true within ten seconds of calls. (An interruption may distort any single call.)
fn comes_to_hold(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if holds() {
            return true;
        }
    }
    false
}

fn is_shared() -> bool {
    region().len() > 1
}

fn stays_on_the_caller() -> bool {
    (0..50).all(|_| region() == [thread::current().id()])
}

/// CPU microseconds of the calling thread, and of all other threads.
fn used() -> (i64, i64) {
    let micros = |usage: Usage| (usage.user_time() + usage.system_time()).num_microseconds();
    let mine = micros(getrusage(UsageWho::RUSAGE_THREAD).unwrap());
    (mine, micros(getrusage(UsageWho::RUSAGE_SELF).unwrap()) - mine)
}

#[test]
fn a_narrowed_mask_is_noticed_and_so_is_a_widened_one() {
    let all = cpus();
    if all.len() < 2 {
        println!("skipped: one CPU");
        return;
    }
    // In a separate process, since the mask is shared.
    alone(
        module_path!(),
        "a_narrowed_mask_is_noticed_and_so_is_a_widened_one",
        |_| (),
        || {
            assert!(comes_to_hold(is_shared), "nothing is shared on {} CPUs", all.len());
            for _ in 0..2 {
                allow(&all[..1]);
                assert!(comes_to_hold(stays_on_the_caller), "one CPU, and work is still shared");
                let before = used();
                assert!((0..100).all(|_| !region().is_empty()));
                let after = used();
                let (mine, others) = (after.0 - before.0, after.1 - before.1);
                assert!(others <= mine / 20, "workers used {others} us of the only CPU beside the caller's {mine} us");
                allow(&all);
                assert!(comes_to_hold(is_shared), "the CPUs are back, and nothing is shared");
            }
        },
    );
}

/// Closures must run with the full mask, wherever the runtime pins its workers: a thread or a pool that is made inside a closure
/// inherits that closure's mask for good, and counts its CPUs by it.
#[test]
fn closures_may_run_where_their_process_may() {
    alone(
        module_path!(),
        "closures_may_run_where_their_process_may",
        |_| (),
        || {
            let (all, shared) = (cpus(), Mutex::new(0));
            for round in 0..3000u64 {
                if round.is_multiple_of(7) {
                    // Workers park and are woken again.
                    thread::yield_now();
                    spin(300);
                }
                (0..20).into_par_iter().with_claim_size(1).for_each(|_: i32| {
                    spin(2);
                    if thread::current().name().is_some_and(|name| name.starts_with("windrow-")) {
                        assert_eq!(cpus(), all, "a worker is confined while it runs a closure");
                        *shared.lock().unwrap() += 1;
                    }
                });
            }
            println!("{} items ran on workers", shared.into_inner().unwrap());
        },
    );
}
