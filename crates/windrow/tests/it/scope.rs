//! Scopes in pools.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow::{Pool, Scope, join, scope};
use windrow_testkit::{Live, block_on, spin};

const SMALL: bool = cfg!(miri);

fn pools() -> impl Iterator<Item = Pool> {
    [1, 2, 4].into_iter().map(Pool::new)
}

#[test]
fn all_tasks_run_and_their_values_come_back() {
    for pool in pools() {
        for (n, micros) in [(0, 0), (1, 0), (5, 50), (200, 3)] {
            let ran = AtomicUsize::new(0);
            let values = pool.install(|| {
                scope(|s| {
                    let task = |i: usize| {
                        let ran = &ran;
                        move |_: &Scope<'_>| {
                            spin(micros);
                            ran.fetch_add(1, Relaxed);
                            i
                        }
                    };
                    let detached = s.spawn_joinable(task(n));
                    drop(detached);
                    let handles: Vec<_> = (0..n).map(|i| s.spawn_joinable(task(i))).collect();
                    // In another order than that of the spawns.
                    let mut values: Vec<usize> =
                        handles.into_iter().rev().map(|handle| handle.join().unwrap()).collect();
                    values.reverse();
                    values
                })
            });
            assert_eq!(values, (0..n).collect::<Vec<_>>());
            assert_eq!(ran.into_inner(), n + 1);
        }
    }
}

#[test]
fn tasks_borrow_and_write() {
    for pool in pools() {
        let words = [String::from("a"), String::from("bb")];
        let mut lengths = vec![0; 2];
        let total = pool.install(|| {
            scope(|s| {
                for (word, length) in words.iter().zip(&mut lengths) {
                    s.spawn_joinable(move |_| *length = word.len());
                }
                words.len()
            })
        });
        assert_eq!((total, lengths), (2, vec![1, 2]));
    }
}

/// Tasks spawn tasks, which are not joined: the scope waits for all of them.
#[test]
fn tasks_spawn_tasks() {
    fn grow<'scope>(s: &Scope<'scope>, depth: u32, ran: &'scope AtomicUsize) {
        ran.fetch_add(1, Relaxed);
        spin(2);
        if depth > 0 {
            for _ in 0..2 {
                s.spawn_joinable(move |s| grow(s, depth - 1, ran));
            }
        }
    }
    let depth = if SMALL { 3 } else { 9 };
    for pool in pools() {
        let ran = AtomicUsize::new(0);
        pool.install(|| scope(|s| grow(s, depth, &ran)));
        assert_eq!(ran.into_inner(), (2 << depth) - 1);
    }
}

#[test]
fn tasks_join_tasks_they_have_spawned() {
    fn fib(s: &Scope<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let a = s.spawn_joinable(move |s| fib(s, n - 1));
        let b = fib(s, n - 2);
        a.join().unwrap() + b
    }
    for pool in pools() {
        let n = if SMALL { 6 } else { 16 };
        let expected = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987][n as usize];
        assert_eq!(pool.install(|| scope(|s| fib(s, n))), expected);
    }
}

/// A panic of a task that is joined goes to its joiner, of another one to the scope's caller; `f`'s own wins. Whatever
/// happens, all tasks run, and nothing leaks.
#[test]
fn panics_go_where_they_belong() {
    let n = if SMALL { 4 } else { 30 };
    for pool in pools() {
        for at in 0..=n {
            for (joined, own) in [(true, false), (false, false), (false, true)] {
                let (live, ran) = (AtomicIsize::new(0), AtomicUsize::new(0));
                let run = || {
                    scope(|s| {
                        let handles: Vec<_> = (0..n)
                            .map(|i| {
                                let (counter, live, ran) = (Live::new(&live, ()), &live, &ran);
                                s.spawn_joinable(move |_| {
                                    let _counter = counter;
                                    spin(2);
                                    ran.fetch_add(1, Relaxed);
                                    if i == at {
                                        resume_unwind(Box::new(i));
                                    }
                                    Live::new(live, ())
                                })
                            })
                            .collect();
                        if joined {
                            for (i, handle) in handles.into_iter().enumerate() {
                                match handle.join() {
                                    Ok(_) => assert_ne!(i, at),
                                    Err(payload) => assert_eq!((*payload.downcast::<usize>().unwrap(), at), (i, i)),
                                }
                            }
                        }
                        if own {
                            resume_unwind(Box::new(1000usize));
                        }
                        Live::new(&live, ())
                    })
                };
                match catch_unwind(AssertUnwindSafe(|| drop(pool.install(run)))) {
                    Ok(()) => assert!(joined || at == n),
                    Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), if own { 1000 } else { at }),
                }
                assert_eq!((ran.load(Relaxed), live.load(Relaxed)), (n, 0), "panic at {at}");
            }
        }
    }
}

/// A result whose drop panics, of a task that is not joined.
#[test]
fn a_panicking_drop_of_a_result_is_a_panic_of_its_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new("bomb"));
        }
    }
    for pool in pools() {
        for _ in 0..if SMALL { 2 } else { 50 } {
            let ran = AtomicUsize::new(0);
            let run = || {
                scope(|s| {
                    for _ in 0..5 {
                        s.spawn_joinable(|_| {
                            spin(5);
                            ran.fetch_add(1, Relaxed);
                            Bomb
                        });
                    }
                })
            };
            let result = catch_unwind(AssertUnwindSafe(|| pool.install(run)));
            assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "bomb");
            assert_eq!(ran.into_inner(), 5);
        }
    }
}

/// A forgotten handle hides no panic.
/// As the last expression of a closure and as an arm of a `match`, as rayon's `spawn` is used.
#[test]
fn spawn_is_an_expression_without_a_value() {
    for pool in pools() {
        let sum = std::sync::atomic::AtomicUsize::new(0);
        let add = |n: usize| _ = sum.fetch_add(n, std::sync::atomic::Ordering::Relaxed);
        pool.install(|| windrow::scope(|s| s.spawn(|s| s.spawn(|_| add(1)))));
        pool.install(|| {
            windrow::scope(|s| match pool.threads() {
                1 => s.spawn(|_| add(10)),
                _ => s.spawn(|_| add(100)),
            })
        });
        assert_eq!(sum.into_inner(), if pool.threads() == 1 { 11 } else { 101 });
        let thrown = std::panic::catch_unwind(|| windrow::scope(|s| s.spawn(|_| panic!("task"))));
        assert_eq!(thrown.unwrap_err().downcast_ref::<&str>(), Some(&"task"));
    }
}

#[test]
fn forgetting_a_handle_is_not_joining_it() {
    let run = || scope(|s| std::mem::forget(s.spawn_joinable(|_| resume_unwind(Box::new("task")))));
    assert_eq!(*catch_unwind(run).unwrap_err().downcast::<&str>().unwrap(), "task");
}

/// Handles go to other threads, which are in no pool.
#[test]
fn strangers_spawn_and_join() {
    for pool in pools() {
        for _ in 0..if SMALL { 1 } else { 50 } {
            let run = |s: &Scope<'_>| {
                let long = s.spawn_joinable(|_| {
                    spin(30);
                    1
                });
                let (a, b) = std::thread::scope(|threads| {
                    let a = threads.spawn(move || long.join().unwrap());
                    let b = threads.spawn(|| s.spawn_joinable(|_| 2).join().unwrap());
                    (a.join().unwrap(), b.join().unwrap())
                });
                a + b
            };
            assert_eq!(pool.install(|| scope(run)), 3);
        }
    }
}

/// A lock is held over a scope, and over a join of a handle, while other tasks ask for it.
#[test]
fn a_lock_may_be_held_over_a_scope() {
    let lock = Mutex::new(0);
    let locked = || {
        let mut held = lock.lock().unwrap();
        *held += scope(|s| {
            let a = s.spawn_joinable(|_| {
                spin(10);
                join(|| spin(10), || spin(10));
                1
            });
            spin(10);
            a.join().unwrap()
        });
    };
    let n = if SMALL { 3 } else { 100 };
    for pool in pools() {
        pool.install(|| {
            scope(|s| {
                for _ in 0..n {
                    s.spawn_joinable(|_| locked());
                }
                locked();
            });
        });
    }
    assert_eq!(lock.into_inner().unwrap(), 3 * (n + 1));
}

#[test]
fn joined_tasks_do_not_pile_up() {
    // Would take a while, and memory, if each one stayed in the queue.
    let n = if SMALL { 10 } else { 100_000 };
    let sum: u64 = scope(|s| (0..n).map(|i| s.spawn_joinable(move |_| i).join().unwrap()).sum());
    assert_eq!(sum, n * (n - 1) / 2);
}

#[test]
fn handles_say_whether_their_task_has_ended() {
    scope(|s| {
        let handle = s.spawn_joinable(|_| 3);
        assert!(format!("{s:?} {handle:?}").contains("queued"));
        while windrow::current_num_threads() == 0 && !handle.is_finished() {}
        assert_eq!(handle.join().unwrap(), 3);
    });
}

/// Each task is joined when the next one is there: what has ended leaves the queue.
#[test]
fn tasks_that_are_joined_one_behind_do_not_pile_up() {
    let n = if SMALL { 200 } else { 20_000 };
    Pool::new(1).install(|| {
        scope(|s| {
            let mut before = s.spawn_joinable(|_| 0);
            for i in 1..n {
                let next = s.spawn_joinable(move |_| i);
                assert_eq!(before.join().unwrap(), i - 1);
                before = next;
            }
            let said = format!("{s:?}");
            let queued: usize = said.split("queued: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
            assert!(queued <= 100, "{queued} tasks of {n} are kept");
            assert_eq!(before.join().unwrap(), n - 1);
        });
    });
}

/// Polled by an executor whose thread sleeps until it is woken, in any order, or not to the end.
#[test]
fn tasks_are_awaited() {
    let n = if SMALL { 3 } else { 100 };
    for pool in pools() {
        let sum = pool.install(|| {
            scope(|s| {
                let task = |i: usize| s.spawn_joinable(move |_| (spin(5), i).1);
                let mut tasks: Vec<_> = (0..n).map(task).collect();
                drop(tasks.pop());
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = std::pin::Pin::new(&mut tasks[0]).poll(&mut context).map(|_| tasks.remove(0));
                let failed = s.spawn_joinable(|_| resume_unwind(Box::new("task")));
                block_on(async {
                    assert_eq!(*failed.await.unwrap_err().downcast::<&str>().unwrap(), "task");
                    let mut sum = 0;
                    for task in tasks.into_iter().rev() {
                        sum += task.await.unwrap();
                    }
                    sum
                })
            })
        });
        assert_eq!(sum, (1..n - 1).sum());
    }
}

#[test]
fn tasks_run_at_once_where_none_is_idle() {
    fn grow<'scope>(s: &Scope<'scope>, depth: u32, ran: &'scope AtomicUsize) {
        ran.fetch_add(1, Relaxed);
        spin(2);
        (0..if depth > 0 { 2 } else { 0 }).for_each(|_| s.spawn_or_run(move |s| grow(s, depth - 1, ran)));
    }
    let depth = if SMALL { 3 } else { 9 };
    for pool in pools() {
        let ran = AtomicUsize::new(0);
        pool.install(|| scope(|s| grow(s, depth, &ran)));
        assert_eq!(ran.into_inner(), (2 << depth) - 1);
        let thrown = catch_unwind(|| pool.install(|| scope(|s| s.spawn_or_run(|_| resume_unwind(Box::new("task"))))));
        assert_eq!(thrown.unwrap_err().downcast_ref::<&str>(), Some(&"task"));
    }
}

/// A guest may take the next task while the caller looks whether there is one.
#[test]
fn a_chain_of_tasks_ends() {
    fn next<'scope>(s: &Scope<'scope>, ran: &'scope AtomicUsize, left: usize) {
        ran.fetch_add(1, Relaxed);
        if left > 1 {
            s.spawn(move |s| next(s, ran, left - 1));
        }
    }
    let n = if SMALL { 20 } else { 20_000 };
    for pool in pools() {
        for _ in 0..if SMALL { 1 } else { 10 } {
            let ran = AtomicUsize::new(0);
            pool.install(|| scope(|s| next(s, &ran, n)));
            assert_eq!(ran.into_inner(), n);
        }
    }
}
