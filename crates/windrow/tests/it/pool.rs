//! Settings of pools, and the global pool from its making to its end.
//!
//! What concerns a whole process runs in a separate process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use windrow::prelude::*;
use windrow::team::TeamErrorKind;
use windrow::{Pool, PoolBuildErrorKind, PoolBuilder, Width, current_num_threads, shutdown, team};
use windrow_testkit::has_no_threads;

/// Runs `body` in a separate process, where `WINDROW_THREADS` has this value.
fn alone(test: &str, threads: Option<&str>, body: impl FnOnce()) -> Option<Output> {
    let set = |command: &mut Command| {
        command.env_remove("WINDROW_THREADS");
        command.envs(threads.map(|threads| ("WINDROW_THREADS", threads)));
    };
    windrow_testkit::alone(module_path!(), test, set, body)
}

fn sum() -> u64 {
    (0..1000u64).into_par_iter().with_claim_size(100).map(|x| x * 2).sum()
}

/// The names of the members of a team of `width`, the caller's left out.
fn workers(width: usize) -> Vec<String> {
    let all = team(&mut ()).width(Width::exactly(width)).run(|_| thread::current().name().map(str::to_owned));
    all.into_iter().skip(1).map(Option::unwrap_or_default).collect()
}

#[test]
fn threads_have_names_and_handlers() {
    let (begun, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (begins, ends) = (begun.clone(), ended.clone());
    let pool = Pool::builder()
        .threads(3)
        .thread_name(|index| format!("named-{index}"))
        .start_handler(move |index| begins.lock().unwrap().push((index, thread::current().name().map(str::to_owned))))
        .exit_handler(move |index| {
            assert_eq!(sum(), 999_000);
            ends.lock().unwrap().push(index);
        })
        .build()
        .unwrap();
    assert_eq!(pool.threads(), 3);
    let mut names = pool.install(|| workers(3));
    names.sort();
    assert_eq!(names, ["named-1", "named-2"]);
    drop(pool);
    let (mut begun, mut ended) = (begun.lock().unwrap().clone(), ended.lock().unwrap().clone());
    begun.sort();
    ended.sort();
    assert_eq!(begun, [(1, Some("named-1".to_owned())), (2, Some("named-2".to_owned()))]);
    assert_eq!(ended, [1, 2]);
}

#[test]
fn a_pool_whose_handlers_panic_is_usable() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("the drop of a payload"));
        }
    }
    fn explode(calls: &AtomicUsize) {
        calls.fetch_add(1, Relaxed);
        std::panic::resume_unwind(Box::new(Bomb))
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = || {
        let calls = calls.clone();
        move |_: usize| explode(&calls)
    };
    let pool = Pool::builder().threads(3).start_handler(handler()).exit_handler(handler()).build().unwrap();
    assert_eq!(pool.install(|| workers(3).len()), 2);
    assert_eq!(pool.install(sum), 999_000);
    drop(pool);
    assert_eq!(calls.load(Relaxed), 4);
}

/// A name that panics reaches the caller of `build`, and no thread was started.
#[test]
fn a_name_that_panics_starts_nothing() {
    let started = Arc::new(AtomicUsize::new(0));
    let starts = started.clone();
    let builder = Pool::builder().threads(3).start_handler(move |_| _ = starts.fetch_add(1, Relaxed));
    let named = builder.thread_name(|index| if index == 1 { String::new() } else { panic!("no name") });
    assert!(catch_unwind(AssertUnwindSafe(|| named.build())).is_err());
    // Nothing keeps the handler.
    assert_eq!((Arc::strong_count(&started), started.load(Relaxed)), (1, 0));
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    let cases = [
        (Pool::builder().threads(1024), PoolBuildErrorKind::TooManyThreads, "1 to 1023"),
        (Pool::builder().threads(usize::MAX), PoolBuildErrorKind::TooManyThreads, "1 to 1023"),
        (Pool::builder().threads(2).stack_size(usize::MAX), PoolBuildErrorKind::StackSize, "at most"),
        (Pool::builder().threads(2).thread_name(|_| "a\0b".into()), PoolBuildErrorKind::ThreadName, r#""a\0b""#),
    ];
    for (builder, kind, text) in cases {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Threads that the system refuses make the pool smaller: here, as no system has stacks of this size.
#[test]
fn refused_threads_make_the_pool_smaller() {
    let pool = Pool::builder().threads(3).stack_size(isize::MAX as usize).build().unwrap();
    assert_eq!(pool.threads(), 1);
    assert_eq!(pool.install(sum), 999_000);
}

const MIB: usize = 1 << 20;

/// Uses this much stack and a little more.
#[inline(never)]
fn dig(bytes: usize) -> usize {
    let page = std::hint::black_box([1u8; 4096]);
    let below = if bytes > page.len() { dig(bytes - page.len()) } else { 0 };
    below + usize::from(std::hint::black_box(page)[0])
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no stacks of a certain size")]
fn a_recursion_has_the_stack_that_was_asked_for() {
    // More, for what a frame holds beside its page: copies of it in an unoptimized build.
    let pool = Pool::builder().threads(2).stack_size(512 * MIB).build().unwrap();
    let pages = 64 * MIB / 4096;
    let on_worker = pool.install(|| {
        team(&mut ()).width(Width::exactly(2)).run(|member| if member.index() == 1 { dig(64 * MIB) } else { 0 })
    });
    assert_eq!(on_worker, [0, pages]);
    let (give, take) = mpsc::channel();
    let spawned = pool.spawn_joinable(move || give.send(dig(64 * MIB)).unwrap());
    assert_eq!(take.recv(), Ok(pages));
    spawned.wait();
}

/// A tree that leans to one side: what is shared of it is all the rest.
#[test]
#[cfg_attr(miri, ignore = "Miri has no stacks of a certain size")]
fn a_deep_recursion_of_joins_may_be_shared() {
    fn depth(n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let work = || (0..3000u64).fold(0, |all, x| std::hint::black_box(all ^ x)) & 1;
        let (_, below) = windrow::join(work, || depth(n - 1));
        below + 1
    }
    let pool = Pool::builder().threads(2).stack_size(256 * MIB).build().unwrap();
    thread::scope(|scope| {
        let run = || (0..3).for_each(|_| assert_eq!(pool.install(|| depth(20_000)), 20_000));
        thread::Builder::new().stack_size(256 * MIB).spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

/// A member drops the pool while all members are in a team, so that the others wait for it. No thread can be joined there.
#[test]
fn a_pool_may_be_dropped_by_its_own_workers() {
    for dropper in 0..3 {
        let (exits, exited) = mpsc::channel();
        let exits = Mutex::new(exits);
        let exit = move |index| exits.lock().unwrap().send(index).unwrap();
        let pool = Arc::new(Pool::builder().threads(3).exit_handler(exit).build().unwrap());
        let (go, gone) = mpsc::channel::<()>();
        let last = Mutex::new(Some(pool.clone()));
        let closure = pool.spawn_joinable(move || {
            gone.recv().unwrap();
            team(&mut ()).width(Width::exactly(3)).run(|member| {
                member.barrier()?;
                if member.index() == dropper {
                    drop(last.lock().unwrap().take());
                }
                member.barrier()
            })
        });
        drop(pool);
        go.send(()).unwrap();
        assert_eq!(closure.wait(), [Ok(()); 3]);
        let mut ended = [(); 2].map(|()| exited.recv_timeout(Duration::from_secs(60)).expect("a worker stays behind"));
        ended.sort();
        assert_eq!(ended, [1, 2]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn the_variable_sets_the_number_of_threads() {
    const TEST: &str = "the_variable_sets_the_number_of_threads";
    for value in ["3", "1", "1023"] {
        let output = alone(TEST, Some(value), || {
            let threads = std::env::var("WINDROW_THREADS").unwrap().parse().unwrap();
            if threads < 1023 {
                assert_eq!(Pool::new(0).threads(), threads);
                assert_eq!(current_num_threads(), threads);
            }
            // What is passed wins.
            assert_eq!(Pool::new(2).threads(), 2);
            assert_eq!(Pool::builder().threads(4).build().unwrap().threads(), 4);
        });
        let Some(output) = output else { return };
        assert!(!String::from_utf8_lossy(&output.stderr).contains("WINDROW_THREADS"));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_variable_that_is_no_number_is_named() {
    const TEST: &str = "a_variable_that_is_no_number_is_named";
    for value in ["0", "abc", "", " 3", "-1", "1024", "99999999999999999999", "2\n", "two \u{1b}[31m"] {
        let output = alone(TEST, Some(value), || {
            let value = std::env::var("WINDROW_THREADS").unwrap();
            for error in [Pool::builder().build().unwrap_err(), Pool::builder().build_global().unwrap_err()] {
                assert_eq!(error.kind(), PoolBuildErrorKind::Environment);
                let text = error.to_string();
                assert!(text.contains("WINDROW_THREADS") && text.contains(&format!("{value:?}")), "{text}");
                assert!(text.contains("1 to 1023") && text.contains("unset"), "{text}");
            }
            let usual = thread::available_parallelism().unwrap().get();
            assert_eq!(current_num_threads(), usual);
            assert_eq!(Pool::new(0).threads(), usual);
            assert_eq!(Pool::builder().threads(2).build().unwrap().threads(), 2);
        });
        let Some(output) = output else { return };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let about: Vec<&str> = said.lines().filter(|line| line.contains("WINDROW_THREADS")).collect();
        assert_eq!(about.len(), 1, "{value:?}: {said}");
        assert!(about[0].starts_with(&format!("windrow: WINDROW_THREADS is {value:?}")), "{}", about[0]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_global_pool_is_built_once() {
    alone("a_global_pool_is_built_once", Some("2"), || {
        PoolBuilder::new().threads(3).thread_name(|index| format!("global-{index}")).build_global().unwrap();
        assert_eq!(current_num_threads(), 3);
        let mut names = workers(3);
        names.sort();
        assert_eq!(names, ["global-1", "global-2"]);
        let error = PoolBuilder::new().threads(4).build_global().unwrap_err();
        assert_eq!(error.kind(), PoolBuildErrorKind::GlobalExists);
        assert!(error.to_string().contains("already exists"));
        assert_eq!(current_num_threads(), 3);
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn one_of_many_builds_the_global_pool() {
    alone("one_of_many_builds_the_global_pool", None, || {
        let ended = Arc::new(AtomicUsize::new(0));
        for round in 0..20 {
            let built: usize = thread::scope(|scope| {
                let build = |_| {
                    let ended = ended.clone();
                    let exit = move |_| _ = ended.fetch_add(1, Relaxed);
                    scope.spawn(|| usize::from(PoolBuilder::new().threads(2).exit_handler(exit).build_global().is_ok()))
                };
                let builders: Vec<_> = (0..4).map(build).collect();
                builders.into_iter().map(|builder| builder.join().unwrap()).sum()
            });
            assert_eq!((built, current_num_threads(), workers(2).len()), (1, 2, 1), "round {round}");
            shutdown().unwrap();
            // The pools that came second were dropped, and their threads joined.
            assert_eq!(Arc::strong_count(&ended), 1, "round {round}");
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_shutdown_leaves_no_thread_and_calls_work_on() {
    alone("a_shutdown_leaves_no_thread_and_calls_work_on", Some("3"), || {
        assert_eq!(workers(3).len(), 2);
        assert_eq!(windrow::spawn_joinable(sum).wait(), 999_000);
        for _ in 0..3 {
            shutdown().unwrap();
            assert!(has_no_threads());
            // Serial, and without new threads.
            assert_eq!((sum(), current_num_threads()), (999_000, 1));
            assert_eq!(windrow::join(|| 1, || 2), (1, 2));
            assert_eq!(windrow::scope(|scope| scope.spawn_joinable(|_| sum()).join().unwrap()), 999_000);
            let refused = team(&mut ()).width(Width::exactly(2)).try_run(|_| ()).unwrap_err();
            assert_eq!(refused.kind(), TeamErrorKind::TooWide);
            assert!(has_no_threads());
        }
        // A spawned closure needs a thread all the same, and the next shutdown waits for it.
        let (begin, begun) = mpsc::channel();
        let closure = windrow::spawn_joinable(move || begin.send(sum()).unwrap());
        assert_eq!(begun.recv(), Ok(999_000));
        closure.wait();
        shutdown().unwrap();
        assert!(has_no_threads());
        PoolBuilder::new().threads(2).build_global().unwrap();
        assert_eq!((workers(2).len(), sum()), (1, 999_000));
        shutdown().unwrap();
        assert!(has_no_threads());
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_shutdown_before_the_first_call_starts_nothing() {
    alone("a_shutdown_before_the_first_call_starts_nothing", Some("3"), || {
        shutdown().unwrap();
        assert_eq!((sum(), current_num_threads()), (999_000, 1));
        assert!(has_no_threads());
    });
}

/// Calls, shutdowns and new pools at the same time: every call gives its result, every shutdown returns.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_shutdown_may_meet_calls() {
    alone("a_shutdown_may_meet_calls", Some("3"), || {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        assert_eq!(sum(), 999_000);
                        assert_eq!(windrow::spawn_joinable(sum).wait(), 999_000);
                        let widths = team(&mut ()).run(|member| member.barrier().map(|()| member.width()));
                        assert!(widths.iter().all(|width| *width == Ok(widths.len())));
                    }
                });
            }
            let stops: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            shutdown().unwrap();
                            let _ = PoolBuilder::new().threads(3).build_global();
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = stops.into_iter().map(|stop| stop.join()).collect();
            done.store(true, Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        shutdown().unwrap();
        assert!(has_no_threads());
    });
}

/// The first call of a process may have started its workers when a shutdown takes the place of the global pool.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_shutdown_may_meet_the_first_call() {
    // Not in `fork`: other tests there may start a thread just then, and a child may inherit the lock of the standard library.
    alone("a_shutdown_may_meet_the_first_call", Some("3"), || {
        for child in 0..400 {
            let went_well = windrow_testkit::forked(|| {
                let called = thread::scope(|scope| {
                    let call = scope.spawn(sum);
                    windrow_testkit::spin(child % 80);
                    shutdown().unwrap();
                    call.join().unwrap()
                });
                called == 999_000 && has_no_threads() && sum() == 999_000 && current_num_threads() == 1
            });
            assert!(went_well, "child {child}");
        }
    });
}

/// A shutdown that could wait for itself does nothing and says so.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_shutdown_inside_is_refused() {
    alone("a_shutdown_inside_is_refused", Some("3"), || {
        let refused = || shutdown().unwrap_err().to_string().contains("call it outside");
        // On a worker, and on the caller that the others wait for.
        let all = team(&mut ()).width(Width::exactly(3)).run(|member| {
            member.barrier()?;
            let refused = refused();
            member.barrier()?;
            Ok::<_, windrow::team::Ended>(refused)
        });
        assert_eq!(all, [Ok(true); 3]);
        // On a lead, and where `wait` runs the closure.
        let (give, take) = mpsc::channel();
        let closure = windrow::spawn_joinable(move || give.send(refused()).unwrap());
        assert_eq!(take.recv(), Ok(true));
        closure.wait();
        assert!(windrow::spawn_joinable(refused).wait());
        // On a thread of another pool.
        let at_exit = Arc::new(AtomicBool::new(false));
        let seen = at_exit.clone();
        let pool = Pool::builder().threads(2).exit_handler(move |_| seen.store(refused(), Relaxed)).build().unwrap();
        assert_eq!(pool.install(|| team(&mut ()).width(Width::exactly(2)).run(|_| refused())), [true, true]);
        drop(pool);
        assert!(at_exit.load(Relaxed));
        assert_eq!((current_num_threads(), workers(3).len()), (3, 2));
        shutdown().unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn children_of_a_parent_that_was_shut_down_have_their_own_pool() {
    use windrow_testkit::forked;
    alone("children_of_a_parent_that_was_shut_down_have_their_own_pool", Some("3"), || {
        assert_eq!(workers(3).len(), 2);
        shutdown().unwrap();
        let in_child = || {
            let whole = || (current_num_threads(), sum(), workers(3).len()) == (3, 999_000, 2);
            let serial = || (current_num_threads(), sum()) == (1, 999_000);
            whole() && shutdown().is_ok() && serial() && forked(|| whole() && shutdown().is_ok())
        };
        for child in 0..20 {
            assert!(forked(in_child), "child {child}");
        }
        assert_eq!((current_num_threads(), sum()), (1, 999_000));
        PoolBuilder::new().build_global().unwrap();
        assert!(forked(in_child));
        assert_eq!(workers(3).len(), 2);
        shutdown().unwrap();
        assert!(has_no_threads());
    });
}
