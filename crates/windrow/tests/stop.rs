//! Calls that are stopped: at every point, by everybody, in every shape; and calls that could have been but were not.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use windrow::prelude::*;
use windrow::{Pool, Stop, Stopped};

/// Counts what is alive.
struct Counter<'a>(&'a AtomicIsize, usize);
impl<'a> Counter<'a> {
    fn new(live: &'a AtomicIsize, value: usize) -> Self {
        live.fetch_add(1, Relaxed);
        Counter(live, value)
    }
}
impl Drop for Counter<'_> {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

fn counters(live: &AtomicIsize, n: usize) -> Vec<Counter<'_>> {
    (0..n).map(|i| Counter::new(live, i)).collect()
}

fn spin(micros: u64) {
    let start = Instant::now();
    while start.elapsed().as_micros() < u128::from(micros) {
        std::hint::spin_loop();
    }
}

fn pools() -> [Pool; 3] {
    [1, 2, 4].map(Pool::new)
}

#[test]
fn who_is_not_stopped_gives_what_the_plain_one_gives() {
    let stop = Stop::new();
    let n = if cfg!(miri) { 200 } else { 20_000 };
    let v: Vec<f64> = (0..n).map(|i| 1.0 / f64::from(i + 1)).collect();
    let whole: Vec<i32> = (0..n).collect();
    for pool in pools() {
        pool.install(|| {
            let floats = || v.par_iter().map(|x| x * 3.0);
            assert_eq!(floats().stop_when(&stop).sum::<f64>().unwrap().to_bits(), floats().sum::<f64>().to_bits());
            let product = || v.par_iter().map(|x| 1.0 + x / 1e5);
            assert_eq!(
                product().stop_when(&stop).product::<f64>().unwrap().to_bits(),
                product().product::<f64>().to_bits()
            );
            let add = |a, b| a + b;
            assert_eq!(floats().stop_when(&stop).reduce(|| 0.0, add).unwrap(), floats().reduce(|| 0.0, add));
            let folded = || v.par_iter().fold(|| 0.5, |sum: f64, x| sum + x);
            assert_eq!(folded().stop_when(&stop).collect::<Vec<f64>>().unwrap(), folded().collect::<Vec<f64>>());

            let ints = || (0..n).into_par_iter();
            assert_eq!(ints().stop_when(&stop).collect::<Vec<_>>(), Ok(whole.clone()));
            assert_eq!(ints().stop_when(&stop).collect::<Box<[_]>>(), Ok(whole.clone().into()));
            let odd = ints().filter(|i| i % 2 == 1);
            assert_eq!(
                odd.stop_when(&stop).collect::<Vec<_>>(),
                Ok(whole.iter().copied().filter(|i| i % 2 == 1).collect())
            );
            assert_eq!(ints().filter(|i| i % 3 == 0).stop_when(&stop).count(), Ok((0..n).step_by(3).len()));
            assert_eq!(ints().stop_when(&stop).min(), Ok(Some(0)));
            assert_eq!(ints().stop_when(&stop).max(), Ok(Some(n - 1)));
            assert_eq!(ints().stop_when(&stop).any(|i| i == n - 1), Ok(true));
            assert_eq!(ints().stop_when(&stop).all(|i| i < n - 1), Ok(false));
            assert_eq!(ints().chunk(7).stop_when(&stop).all(|i| i < n), Ok(true));
            let sum = AtomicUsize::new(0);
            let visit = |i: i32| _ = sum.fetch_add(i as usize, Relaxed);
            assert_eq!(ints().stop_when(&stop).for_each(visit), Ok(()));
            assert_eq!(sum.into_inner(), n as usize * (n as usize - 1) / 2);
        });
    }
}

/// Adaptors that want only some of the items end the call when they have them: nothing is missing then.
#[test]
fn who_wants_no_more_is_through() {
    let (n, stop) = (if cfg!(miri) { 1000 } else { 1u64 << 40 }, Stop::new());
    for pool in pools() {
        pool.install(|| {
            let many = || (0..n).into_par_iter().map(std::hint::black_box);
            assert_eq!(many().take_any(5).stop_when(&stop).count(), Ok(5));
            let mut few = many().take_any_while(|&x| x < 3).stop_when(&stop).collect::<Vec<_>>().unwrap();
            few.sort_unstable();
            assert!(few.iter().all(|&x| x < 3));
            let visited = AtomicUsize::new(0);
            assert_eq!(many().take_any(7).stop_when(&stop).for_each(|_| _ = visited.fetch_add(1, Relaxed)), Ok(()));
            assert_eq!(visited.into_inner(), 7);
            assert_eq!(many().take_any(3).stop_when(&stop).any(|x| x == n), Ok(false));
            assert_eq!(many().stop_when(&stop).find_any(|&x| x == 1000 % n), Ok(Some(1000 % n)));
            assert_eq!(many().stop_when(&stop).find_map_any(|x| (x == 77).then_some("found")), Ok(Some("found")));
            let few = (0..10).into_par_iter().skip_any(4);
            assert_eq!(few.stop_when(&stop).collect::<Vec<i32>>().unwrap().len(), 6);
            assert_eq!((0..10).into_par_iter().stop_when(&stop).find_any(|&x| x > 10), Ok(None));
        });
    }
    stop.stop();
    assert!((0..10).into_par_iter().take_any(3).stop_when(&stop).count().is_err());
}

#[test]
fn a_token_that_is_stopped_already_lets_nothing_begin() {
    let stop = Stop::new();
    stop.stop();
    let none = |stopped: Stopped| stopped.to_string() == "stopped after 0 of 50 items";
    for pool in pools() {
        pool.install(|| {
            let live = AtomicIsize::new(0);
            let items = || counters(&live, 50).into_par_iter().map(|_| -> usize { panic!("no item may begin") });
            assert!(items().stop_when(&stop).for_each(drop).is_err_and(none));
            assert!(items().stop_when(&stop).collect::<Vec<_>>().is_err_and(none));
            assert!(items().stop_when(&stop).sum::<usize>().is_err_and(none));
            assert!(items().stop_when(&stop).any(|_| true).is_err_and(none));
            assert_eq!(live.into_inner(), 0);
            // Nothing is missing of nothing.
            assert_eq!((0..0).into_par_iter().stop_when(&stop).sum::<i32>(), Ok(0));
            assert_eq!((0..0).into_par_iter().stop_when(&stop).collect::<Vec<i32>>(), Ok(vec![]));
        });
    }
}

/// In every shape, by an item itself: what was consumed is counted, what was not is dropped, and no part passes for a whole.
#[test]
fn a_stop_at_any_item_of_any_shape() {
    let n = if cfg!(miri) { 12 } else { 400 };
    let points: &[usize] = if cfg!(miri) { &[0, 7] } else { &[0, 1, 2, 57, 200, 398, 399] };
    for pool in pools() {
        for (micros, &at) in [0, 3].iter().flat_map(|micros| points.iter().map(move |at| (*micros, at))) {
            macro_rules! shape {
                ($step:ident, $live:ident, $stop:ident, $body:expr) => {{
                    let (live, visited, stop) = (AtomicIsize::new(0), AtomicUsize::new(0), Stop::new());
                    let ($live, $stop) = (&live, &stop);
                    let step = |i: usize| {
                        visited.fetch_add(1, Relaxed);
                        spin(micros);
                        if i == at {
                            stop.stop();
                        }
                    };
                    let $step = &step;
                    let result: Result<usize, Stopped> = pool.install(|| $body);
                    let visited = visited.load(Relaxed);
                    match result {
                        Ok(whole) => assert_eq!((whole, visited), (n, n), "stopped at {at}"),
                        Err(Stopped { done, total, .. }) => assert_eq!((done, total), (visited, n), "stopped at {at}"),
                    }
                    assert_eq!(live.load(Relaxed), 0, "stopped at {at}");
                }};
            }
            shape!(step, _live, stop, (0..n).into_par_iter().stop_when(stop).for_each(step).map(|()| n));
            shape!(step, live, stop, {
                counters(live, n).into_par_iter().stop_when(stop).for_each(|c| step(c.1)).map(|()| n)
            });
            shape!(step, live, stop, {
                let zipped = counters(live, n).into_par_iter().zip(counters(live, n + 3)).map(|(a, b)| {
                    step(a.1);
                    (a, b, Counter::new(live, 0))
                });
                zipped.stop_when(stop).collect::<Vec<_>>().map(|all| all.len())
            });
            shape!(step, live, stop, {
                let kept = counters(live, n).into_par_iter().filter(|c| {
                    step(c.1);
                    true
                });
                kept.stop_when(stop).collect::<Vec<_>>().map(|all| {
                    assert!(all.iter().enumerate().all(|(i, c)| i == c.1));
                    all.len()
                })
            });
            shape!(step, live, stop, {
                let ones = counters(live, n).into_par_iter().map(|c| {
                    step(c.1);
                    Counter::new(live, 1)
                });
                ones.stop_when(stop).reduce(|| Counter::new(live, 0), |a, b| Counter::new(live, a.1 + b.1)).map(|c| c.1)
            });
            shape!(step, live, stop, {
                let folded = counters(live, n).into_par_iter().fold(Vec::new, |mut all, c| {
                    step(c.1);
                    all.push(c);
                    all
                });
                folded.stop_when(stop).collect::<Vec<_>>().map(|runs| runs.iter().map(Vec::len).sum())
            });
            shape!(step, live, stop, {
                let all = counters(live, n).into_par_iter().chunk(3).stop_when(stop).all(|c| {
                    step(c.1);
                    true
                });
                all.map(|all| if all { n } else { 0 })
            });
            assert_eq!(pool.install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
        }
    }
}

/// An operation that needs neighbours never sees others, although the items between are missing.
#[test]
fn a_stopped_reduction_combines_neighbours_only() {
    let n = if cfg!(miri) { 100 } else { 5000 };
    for pool in pools() {
        for at in [0, n / 50, n / 3, n - 2] {
            let stop = Stop::new();
            let joined = pool.install(|| {
                let runs = (0..n).into_par_iter().map(|i| {
                    spin(1);
                    if i == at {
                        stop.stop();
                    }
                    i..i + 1
                });
                runs.stop_when(&stop).reduce(
                    || 0..0,
                    |a, b| {
                        assert!(a.is_empty() || b.is_empty() || a.end == b.start, "{a:?} and {b:?} are no neighbours");
                        if a.is_empty() { b } else { a.start..b.end.max(a.end) }
                    },
                )
            });
            assert!(joined.is_err_and(|stopped| stopped.done < n) || at > n - 1000);
        }
    }
}

/// A block of a reduction over a million items holds thousands; who waits for a stop must not wait for all of them.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_long_block_is_left_in_the_middle() {
    let n = 1_000_000;
    for threads in [1, 3] {
        let (stop, visited) = (Stop::new(), AtomicUsize::new(0));
        // Longer than a heartbeat each, so that looks come after every item.
        let slow = (0..n).into_par_iter().map(|_: usize| {
            spin(40);
            if visited.fetch_add(1, Relaxed) == 100 {
                stop.stop();
            }
        });
        let stopped = Pool::new(threads).install(|| slow.stop_when(&stop).count()).unwrap_err();
        assert_eq!((stopped.done, stopped.total), (visited.into_inner(), n));
        assert!(stopped.done <= 100 + threads, "{stopped}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_deadline_ends_what_would_take_for_ever() {
    for pool in pools() {
        for _ in 0..5 {
            let (start, time) = (Instant::now(), Duration::from_millis(1));
            let stop = Stop::after(time);
            // Seconds at least.
            let long = || (0..1u64 << 34).into_par_iter().filter(|x| std::hint::black_box(*x) == 1 << 49);
            let stopped = pool.install(|| long().stop_when(&stop).count()).expect_err("2^34 items in a millisecond");
            assert!(start.elapsed() >= time && stopped.done > 0 && stopped.total == 1 << 34, "{stopped}");
            let stop = Stop::at(Instant::now() + time);
            assert!(pool.install(|| long().stop_when(&stop).any(|_| true)).is_err());
        }
    }
}

#[test]
fn another_thread_may_stop_it_and_nested_calls_with_it() {
    for pool in pools() {
        let stop = Stop::new();
        let inside = std::sync::Barrier::new(2);
        let first = std::sync::Once::new();
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                inside.wait();
                stop.stop();
            });
            pool.install(|| {
                let outer = (0..1u64 << 40).into_par_iter().stop_when(&stop);
                outer.for_each(|_| {
                    first.call_once(|| _ = inside.wait());
                    let child = stop.child();
                    let inner = (0..1u64 << 40).into_par_iter().stop_when(&child);
                    assert!(inner.for_each(|x| _ = std::hint::black_box(x)).is_err());
                    assert!(stop.is_stopped());
                })
            })
        });
        // Each member was in its first item, which ended because the inner call did.
        assert!((1..=pool.threads()).contains(&result.unwrap_err().done));
    }
}

#[test]
fn one_item_is_enough_for_any() {
    for pool in pools() {
        let stop = Stop::new();
        let found = pool.install(|| {
            (0..1000).into_par_iter().chunk(1).stop_when(&stop).any(|i| {
                if i == 5 {
                    stop.stop();
                }
                i == 5
            })
        });
        assert_eq!(found, Ok(true));
    }
}

#[test]
fn a_panic_wins_over_a_stop() {
    for pool in pools() {
        for at in 0..20 {
            let (live, stop) = (AtomicIsize::new(0), Stop::new());
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| {
                    counters(&live, 20).into_par_iter().chunk(1).stop_when(&stop).for_each(|c| {
                        spin(1);
                        if c.1 == at {
                            stop.stop();
                            resume_unwind(Box::new("mine"));
                        }
                    })
                })
            }));
            assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "mine");
            assert_eq!(live.into_inner(), 0);
        }
    }
}

#[test]
fn a_fixed_claim_is_finished() {
    let (stop, visited) = (Stop::new(), AtomicUsize::new(0));
    let stopped = Pool::new(1).install(|| {
        (0..100).into_par_iter().chunk(10).stop_when(&stop).for_each(|i| {
            visited.fetch_add(1, Relaxed);
            if i == 33 {
                stop.stop();
            }
        })
    });
    assert_eq!((stopped.unwrap_err().done, visited.into_inner()), (40, 40));
}
