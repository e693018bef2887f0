//! Calls that are cancelled: at every point, from everywhere, in every shape; and calls that could have been but were not. Then calls
//! over sources without an end: a token, a panic, a hit and an error end each of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use windrow::prelude::*;
use windrow::{CancelToken, Cancelled, Pool};
use windrow_testkit::{Live, items, spin};

fn pools() -> [Pool; 3] {
    [1, 2, 4].map(Pool::new)
}

#[test]
fn a_call_that_is_not_cancelled_gives_what_the_plain_one_gives() {
    let token = CancelToken::new();
    let n = if cfg!(miri) { 200 } else { 20_000 };
    let v: Vec<f64> = (0..n).map(|i| 1.0 / f64::from(i + 1)).collect();
    let whole: Vec<i32> = (0..n).collect();
    for pool in pools() {
        pool.install(|| {
            let floats = || v.par_iter().map(|x| x * 3.0);
            assert_eq!(floats().with_cancel(&token).sum::<f64>().unwrap().to_bits(), floats().sum::<f64>().to_bits());
            let product = || v.par_iter().map(|x| 1.0 + x / 1e5);
            assert_eq!(
                product().with_cancel(&token).product::<f64>().unwrap().to_bits(),
                product().product::<f64>().to_bits()
            );
            let add = |a, b| a + b;
            assert_eq!(floats().with_cancel(&token).reduce(|| 0.0, add).unwrap(), floats().reduce(|| 0.0, add));
            let folded = || v.par_iter().fold(|| 0.5, |sum: f64, x| sum + x);
            assert_eq!(folded().with_cancel(&token).collect::<Vec<f64>>().unwrap(), folded().collect::<Vec<f64>>());

            let ints = || (0..n).into_par_iter();
            assert_eq!(ints().with_cancel(&token).collect::<Vec<_>>(), Ok(whole.clone()));
            assert_eq!(ints().with_cancel(&token).collect::<Box<[_]>>(), Ok(whole.clone().into()));
            let odd = ints().filter(|i| i % 2 == 1);
            assert_eq!(
                odd.with_cancel(&token).collect::<Vec<_>>(),
                Ok(whole.iter().copied().filter(|i| i % 2 == 1).collect())
            );
            assert_eq!(ints().filter(|i| i % 3 == 0).with_cancel(&token).count(), Ok((0..n).step_by(3).len()));
            assert_eq!(ints().with_cancel(&token).min(), Ok(Some(0)));
            assert_eq!(ints().with_cancel(&token).max(), Ok(Some(n - 1)));
            assert_eq!(ints().with_cancel(&token).any(|i| i == n - 1), Ok(true));
            assert_eq!(ints().with_cancel(&token).all(|i| i < n - 1), Ok(false));
            assert_eq!(ints().with_claim_size(7).with_cancel(&token).all(|i| i < n), Ok(true));
            let sum = AtomicUsize::new(0);
            let visit = |i: i32| _ = sum.fetch_add(i as usize, Relaxed);
            assert_eq!(ints().with_cancel(&token).for_each(visit), Ok(()));
            assert_eq!(sum.into_inner(), n as usize * (n as usize - 1) / 2);
        });
    }
}

/// Adaptors that want only some of the items end the call when they have them: nothing is missing then.
#[test]
fn a_call_that_wants_no_more_is_complete() {
    let (n, token) = (if cfg!(miri) { 1000 } else { 1u64 << 40 }, CancelToken::new());
    for pool in pools() {
        pool.install(|| {
            let many = || (0..n).into_par_iter().map(std::hint::black_box);
            assert_eq!(many().take_any(5).with_cancel(&token).count(), Ok(5));
            let mut few = many().take_any_while(|&x| x < 3).with_cancel(&token).collect::<Vec<_>>().unwrap();
            few.sort_unstable();
            assert!(few.iter().all(|&x| x < 3));
            let visited = AtomicUsize::new(0);
            assert_eq!(many().take_any(7).with_cancel(&token).for_each(|_| _ = visited.fetch_add(1, Relaxed)), Ok(()));
            assert_eq!(visited.into_inner(), 7);
            assert_eq!(many().take_any(3).with_cancel(&token).any(|x| x == n), Ok(false));
            assert_eq!(many().with_cancel(&token).find_any(|&x| x == 1000 % n), Ok(Some(1000 % n)));
            assert_eq!(many().with_cancel(&token).find_map_any(|x| (x == 77).then_some("found")), Ok(Some("found")));
            let few = (0..10).into_par_iter().skip_any(4);
            assert_eq!(few.with_cancel(&token).collect::<Vec<i32>>().unwrap().len(), 6);
            assert_eq!((0..10).into_par_iter().with_cancel(&token).find_any(|&x| x > 10), Ok(None));
        });
    }
    token.cancel();
    assert!((0..10).into_par_iter().take_any(3).with_cancel(&token).count().is_err());
}

#[test]
fn a_token_that_is_cancelled_already_lets_nothing_begin() {
    let token = CancelToken::new();
    token.cancel();
    for pool in pools() {
        pool.install(|| {
            let live = AtomicIsize::new(0);
            let items = || items(&live, 50).into_par_iter().map(|_| -> usize { panic!("no item may begin") });
            assert!(items().with_cancel(&token).for_each(drop).is_err());
            assert!(items().with_cancel(&token).collect::<Vec<_>>().is_err());
            assert!(items().with_cancel(&token).sum::<usize>().is_err());
            assert!(items().with_cancel(&token).any(|_| true).is_err());
            assert_eq!(live.into_inner(), 0);
            // Nothing is missing of nothing.
            assert_eq!((0..0).into_par_iter().with_cancel(&token).sum::<i32>(), Ok(0));
            assert_eq!((0..0).into_par_iter().with_cancel(&token).collect::<Vec<i32>>(), Ok(vec![]));
        });
    }
}

/// In every shape, by an item itself: what was not consumed is dropped, no part passes for a whole, and no whole for a part.
#[test]
fn a_stop_at_any_item_of_any_shape() {
    let n = if cfg!(miri) { 12 } else { 400 };
    let points: &[usize] = if cfg!(miri) { &[0, 7] } else { &[0, 1, 2, 57, 200, 398, 399] };
    for pool in pools() {
        for (micros, &at) in [0, 3].iter().flat_map(|micros| points.iter().map(move |at| (*micros, at))) {
            macro_rules! shape {
                ($step:ident, $live:ident, $token:ident, $body:expr) => {{
                    let (live, visited, token) = (AtomicIsize::new(0), AtomicUsize::new(0), CancelToken::new());
                    let ($live, $token) = (&live, &token);
                    let step = |i: usize| {
                        visited.fetch_add(1, Relaxed);
                        spin(micros);
                        if i == at {
                            token.cancel();
                        }
                    };
                    let $step = &step;
                    let result: Result<usize, Cancelled> = pool.install(|| $body);
                    let visited = visited.load(Relaxed);
                    match result {
                        Ok(whole) => assert_eq!((whole, visited), (n, n), "stopped at {at}"),
                        Err(Cancelled) => assert!(visited < n, "stopped at {at}"),
                    }
                    assert_eq!(live.load(Relaxed), 0, "stopped at {at}");
                }};
            }
            shape!(step, _live, token, (0..n).into_par_iter().with_cancel(token).for_each(step).map(|()| n));
            shape!(step, live, token, {
                items(live, n).into_par_iter().with_cancel(token).for_each(|c| step(c.1)).map(|()| n)
            });
            shape!(step, live, token, {
                let zipped = items(live, n).into_par_iter().zip(items(live, n + 3)).map(|(a, b)| {
                    step(a.1);
                    (a, b, Live::new(live, 0))
                });
                zipped.with_cancel(token).collect::<Vec<_>>().map(|all| all.len())
            });
            shape!(step, live, token, {
                let kept = items(live, n).into_par_iter().filter(|c| {
                    step(c.1);
                    true
                });
                kept.with_cancel(token).collect::<Vec<_>>().map(|all| {
                    assert!(all.iter().enumerate().all(|(i, c)| i == c.1));
                    all.len()
                })
            });
            shape!(step, live, token, {
                let ones = items(live, n).into_par_iter().map(|c| {
                    step(c.1);
                    Live::new(live, 1)
                });
                ones.with_cancel(token).reduce(|| Live::new(live, 0), |a, b| Live::new(live, a.1 + b.1)).map(|c| c.1)
            });
            shape!(step, live, token, {
                let folded = items(live, n).into_par_iter().fold(Vec::new, |mut all, c| {
                    step(c.1);
                    all.push(c);
                    all
                });
                folded.with_cancel(token).collect::<Vec<_>>().map(|runs| runs.iter().map(Vec::len).sum())
            });
            shape!(step, live, token, {
                let all = items(live, n).into_par_iter().with_claim_size(3).with_cancel(token).all(|c| {
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
            let token = CancelToken::new();
            let joined = pool.install(|| {
                let runs = (0..n).into_par_iter().map(|i| {
                    spin(1);
                    if i == at {
                        token.cancel();
                    }
                    i..i + 1
                });
                runs.with_cancel(&token).reduce(
                    || 0..0,
                    |a, b| {
                        assert!(a.is_empty() || b.is_empty() || a.end == b.start, "{a:?} and {b:?} are no neighbours");
                        if a.is_empty() { b } else { a.start..b.end.max(a.end) }
                    },
                )
            });
            assert!(joined.is_err() || at > n - 1000);
        }
    }
}

/// One of a few tries leaves at most `bar` items to be done. Pieces are sized with costs measured beside other programs, so one try may leave more.
fn settles(name: &str, bar: usize, mut attempt: impl FnMut() -> usize) {
    let mut tries = Vec::new();
    while tries.last().is_none_or(|&items| items > bar) {
        assert!(tries.len() < 5, "{name}: {tries:?} items, where {bar} are expected");
        tries.push(attempt());
    }
}

/// A block of a reduction over a million items holds thousands; a cancellation must not wait for all of them.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_long_block_is_left_in_the_middle() {
    let n = 1_000_000;
    for threads in [1, 3] {
        settles(&format!("on {threads} threads"), 100 + 4 * threads, || {
            let (token, visited) = (CancelToken::new(), AtomicUsize::new(0));
            // About a heartbeat each, so that polls come after every item, or after a few where claims were measured on a busy machine.
            let slow = (0..n).into_par_iter().map(|_: usize| {
                spin(40);
                if visited.fetch_add(1, Relaxed) == 100 {
                    token.cancel();
                }
            });
            assert_eq!(Pool::new(threads).install(|| slow.with_cancel(&token).count()), Err(Cancelled));
            visited.into_inner()
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_deadline_ends_what_would_take_for_ever() {
    for pool in pools() {
        // Minutes at least.
        let visited = AtomicBool::new(false);
        let long = || {
            (0..1u64 << 40).into_par_iter().filter(|x| {
                if !visited.load(Relaxed) {
                    visited.store(true, Relaxed);
                }
                std::hint::black_box(*x) == 1 << 49
            })
        };
        let mut time = Duration::from_millis(1);
        for _ in 0..5 {
            loop {
                let start = Instant::now();
                let token = CancelToken::after(time);
                assert_eq!(pool.install(|| long().with_cancel(&token).count()), Err(Cancelled));
                assert!(start.elapsed() >= time);
                // On a busy machine this thread may get no CPU before its deadline.
                if visited.swap(false, Relaxed) {
                    break;
                }
                assert!(time < Duration::from_secs(10), "no item in {time:?}");
                time *= 2;
            }
            let token = CancelToken::at(Instant::now() + time);
            assert!(pool.install(|| long().with_cancel(&token).any(|_| true)).is_err());
        }
    }
}

#[test]
fn another_thread_may_stop_it_and_nested_calls_with_it() {
    for pool in pools() {
        let token = CancelToken::new();
        let inside = std::sync::Barrier::new(2);
        let (first, visited) = (std::sync::Once::new(), AtomicUsize::new(0));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                inside.wait();
                token.cancel();
            });
            pool.install(|| {
                let outer = (0..1u64 << 40).into_par_iter().with_cancel(&token);
                outer.for_each(|_| {
                    visited.fetch_add(1, Relaxed);
                    first.call_once(|| _ = inside.wait());
                    let child = token.child();
                    let inner = (0..1u64 << 40).into_par_iter().with_cancel(&child);
                    assert!(inner.for_each(|x| _ = std::hint::black_box(x)).is_err());
                    assert!(token.is_cancelled());
                })
            })
        });
        // Each member was in its first item, which ended because the inner call did.
        assert_eq!(result, Err(Cancelled));
        assert!((1..=pool.threads()).contains(&visited.into_inner()));
    }
}

#[test]
fn every_consumer_can_be_cancelled() {
    type Watched = <std::ops::Range<usize> as IntoParallelIterator>::Iter;
    let n = if cfg!(miri) { 500 } else { 50_000usize };
    let odd = |i: &usize| i % 2 == 1;
    let mut into = Vec::new();
    // The consumer, and whether what it returned for all items was right.
    type Case<'c> = (&'c str, Box<dyn FnMut(Watched) -> bool + 'c>);
    let mut cases: Vec<Case<'_>> = vec![
        (
            "for_each_with",
            Box::new(|iter| {
                iter.for_each_with(0, |sum, i| *sum += i);
                true
            }),
        ),
        ("try_for_each", Box::new(|iter| iter.try_for_each(|i| (i < n).then_some(())) == Some(()))),
        (
            "collect_into_vec",
            Box::new(|iter| {
                iter.collect_into_vec(&mut into);
                into.iter().copied().eq(0..n)
            }),
        ),
        (
            "unzip",
            Box::new(|iter| {
                let (a, b): (Vec<_>, Vec<_>) = iter.map(|i| (i, !i)).unzip();
                a.len() == n && b.len() == n
            }),
        ),
        (
            "partition",
            Box::new(|iter| {
                let (a, b): (Vec<_>, Vec<_>) = iter.partition(odd);
                a.len() + b.len() == n
            }),
        ),
        ("reduce_with", Box::new(|iter| iter.reduce_with(|a, b| a ^ b) == (0..n).reduce(|a, b| a ^ b))),
        (
            "try_reduce",
            Box::new(|iter| iter.map(Some).try_reduce(|| 0, |a, b| Some(a ^ b)) == Some((0..n).fold(0, |a, b| a ^ b))),
        ),
        ("min_by_key", Box::new(|iter| iter.min_by_key(|i| n - i) == Some(n - 1))),
        ("max_by", Box::new(|iter| iter.max_by(|a, b| b.cmp(a)) == Some(0))),
        ("find_first", Box::new(|iter| iter.find_first(|&i| i > n).is_none())),
        ("find_last", Box::new(|iter| iter.find_last(|&i| i > n).is_none())),
        ("position_any", Box::new(|iter| iter.position_any(|i| i > n).is_none())),
        ("eq", Box::new(|iter| iter.eq(0..n))),
        ("String", Box::new(|iter| iter.map(|_| 'x').collect::<String>().len() == n)),
        (
            "Result",
            Box::new(|iter| iter.map(Ok::<_, ()>).collect::<Result<Vec<_>, ()>>().is_ok_and(|all| all.len() == n)),
        ),
        ("set", Box::new(|iter| iter.collect::<std::collections::HashSet<_>>().len() == n)),
    ];
    for pool in pools() {
        for (name, consumer) in &mut cases {
            pool.install(|| {
                let (live, done) = (CancelToken::new(), CancelToken::new());
                done.cancel();
                let all = (0..n).into_par_iter().with_cancel(&live).run(&mut *consumer);
                assert_eq!(all, Ok(true), "{name}");
                let none = (0..n).into_par_iter().with_cancel(&done).run(&mut *consumer);
                assert_eq!(none, Err(Cancelled), "{name}");
            });
        }
    }
    // A find ends a search early, which is no cancellation.
    let token = CancelToken::new();
    let found = (0..n).into_par_iter().with_cancel(&token).run(|iter| iter.find_first(|&i| i == 7));
    assert_eq!(found, Ok(Some(7)));
    // Halfway, by the closure itself.
    let stopped = (0..n).into_par_iter().with_cancel(&token).run(|iter| {
        iter.map(|i| {
            if i == n / 2 {
                token.cancel();
            }
            spin(1);
            i
        })
        .max_by_key(|&i| i)
    });
    assert_eq!(stopped, Err(Cancelled));
}

#[test]
fn one_item_is_enough_for_any() {
    for pool in pools() {
        let token = CancelToken::new();
        let found = pool.install(|| {
            (0..1000).into_par_iter().with_claim_size(1).with_cancel(&token).any(|i| {
                if i == 5 {
                    token.cancel();
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
            let (live, token) = (AtomicIsize::new(0), CancelToken::new());
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| {
                    items(&live, 20).into_par_iter().with_claim_size(1).with_cancel(&token).for_each(|c| {
                        spin(1);
                        if c.1 == at {
                            token.cancel();
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
    let (token, visited) = (CancelToken::new(), AtomicUsize::new(0));
    let stopped = Pool::new(1).install(|| {
        (0..100).into_par_iter().with_claim_size(10).with_cancel(&token).for_each(|i| {
            visited.fetch_add(1, Relaxed);
            if i == 33 {
                token.cancel();
            }
        })
    });
    assert_eq!((stopped, visited.into_inner()), (Err(Cancelled), 40));
}

/// The result of `f`, if it ends at all: a call that does not end is a failure, not a test that hangs.
fn ends<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(catch_unwind(AssertUnwindSafe(f))).unwrap());
    let result = receiver.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what}: not ended"));
    thread.join().unwrap();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// An item that lets the others see what was raised before it, however busy the machine is.
fn give_way() {
    spin(10);
    std::thread::yield_now();
}

/// Numbers from 1 on, without end and without a hint.
fn numbers() -> impl Iterator<Item = usize> + Send {
    let mut last = 0;
    std::iter::from_fn(move || {
        last += 1;
        Some(last)
    })
}

/// Calls `$body` on pools of 1, 2 and 4 threads, each on a separate thread, with a time limit.
macro_rules! on_pools {
    ($what:expr, || $body:expr) => {
        for threads in [1, 2, 4] {
            ends(&format!("{} on {threads} threads", $what), move || Pool::new(threads).install(|| $body));
        }
    };
}

const HUGE: u64 = u64::MAX;

/// A pool whose workers have come, so that fixed claims are shared at once.
fn warm(threads: usize) -> Pool {
    let (pool, caller, has_come) = (Pool::new(threads), std::thread::current().id(), AtomicBool::new(false));
    let item = |_| {
        give_way();
        if std::thread::current().id() != caller {
            has_come.store(true, Relaxed);
        }
    };
    while threads > 1 && !has_come.load(Relaxed) {
        pool.install(|| (0..8).into_par_iter().with_claim_size(1).for_each(item));
    }
    pool
}

/// Another thread has come to the call. Or it has been waited for long enough: a test that says less is better than none.
struct Came(std::thread::ThreadId, AtomicBool, AtomicUsize);
impl Came {
    fn new() -> Self {
        Came(std::thread::current().id(), AtomicBool::new(false), AtomicUsize::new(0))
    }
    /// At each item: whether this thread is the caller.
    fn look(&self) -> bool {
        let caller = std::thread::current().id() == self.0;
        if !caller || self.2.fetch_add(1, Relaxed) > 200_000 {
            self.1.store(true, Relaxed);
        }
        caller
    }
    fn get(&self) -> bool {
        self.1.load(Relaxed)
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_token_ends_sources_without_an_end() {
    macro_rules! stopped {
        ($source:expr, |$call:ident, $token:ident| $body:expr) => {
            on_pools!(stringify!($source, $body), || {
                let (token, visited) = (CancelToken::new(), AtomicUsize::new(0));
                let $call = $source.map(|item| {
                    give_way();
                    if visited.fetch_add(1, Relaxed) == 100 {
                        token.cancel();
                    }
                    item
                });
                let $token = &token;
                assert_eq!($body.map(drop), Err(Cancelled));
                assert!(visited.load(Relaxed) > 100);
            });
        };
    }
    macro_rules! all_of {
        ($source:expr) => {
            stopped!($source, |call, token| call.with_cancel(token).for_each(drop));
            stopped!($source, |call, token| call.with_cancel(token).count());
            stopped!($source, |call, token| call.with_cancel(token).max());
            stopped!($source, |call, token| call.filter(|_| true).with_cancel(token).find_any(|_| false));
        };
    }
    all_of!(numbers().par_bridge());
    all_of!((0..HUGE).into_par_iter());
    all_of!(windrow::iter::repeat(1u8));
    stopped!(numbers().par_bridge(), |call, token| call.with_cancel(token).collect::<Vec<_>>());
    stopped!((0..HUGE).into_par_iter(), |call, token| call.filter(|i| i % 2 == 0).with_cancel(token).count());
}

/// A member looks at the token before each item that it pulls, however large its claim is.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_bridge_looks_at_the_token_before_every_item() {
    const LAST: usize = 100_000;
    for hint in [None, Some(LAST + 5)] {
        on_pools!(format!("{hint:?}"), || {
            let (token, visited) = (CancelToken::new(), AtomicUsize::new(0));
            let source = Hinted(
                numbers().inspect(|&i| {
                    if i == LAST {
                        token.cancel();
                    }
                    assert!(i <= LAST, "the token was stopped while item {LAST} was pulled");
                }),
                hint,
            );
            let call = source.par_bridge().with_cancel(&token);
            let stopped = call.for_each(|_| _ = visited.fetch_add(1, Relaxed));
            assert_eq!((stopped, visited.into_inner()), (Err(Cancelled), LAST));
        });
    }
}

/// An iterator with an upper bound, if there is one.
struct Hinted<I>(I, Option<usize>);
impl<I: Iterator> Iterator for Hinted<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.1)
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_panic_ends_sources_without_an_end() {
    macro_rules! thrown {
        ($source:expr, |$call:ident| $body:expr) => {
            on_pools!(stringify!($source, $body), || {
                let visited = AtomicUsize::new(0);
                let thrown = catch_unwind(AssertUnwindSafe(|| {
                    let $call = $source.map(|item| {
                        spin(10);
                        if visited.fetch_add(1, Relaxed) == 100 {
                            resume_unwind(Box::new("item 100"));
                        }
                        item
                    });
                    let _ = $body;
                }));
                assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "item 100");
            });
        };
    }
    macro_rules! all_of {
        ($source:expr) => {
            thrown!($source, |call| call.for_each(drop));
            thrown!($source, |call| call.count());
            thrown!($source, |call| call.any(|_| false));
            thrown!($source, |call| call.with_cancel(&CancelToken::new()).for_each(drop));
            thrown!($source, |call| call.map(Some).collect::<Option<()>>().map(drop).is_some());
        };
    }
    all_of!(numbers().par_bridge().panic_fuse().map(drop));
    all_of!((0..HUGE).into_par_iter().map(drop));
    all_of!(windrow::iter::repeat(()));
    // One member deep in a huge block of a reduction, another one in the next.
    ends("a panic in a huge block", || {
        let (pool, came) = (warm(2), Came::new());
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| {
                (0..1u64 << 60)
                    .into_par_iter()
                    .with_claim_size(1)
                    .map(|i| {
                        give_way();
                        if came.look() && came.get() {
                            resume_unwind(Box::new("mine"));
                        }
                        i
                    })
                    .max()
            })
        }));
        assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "mine");
    });
}

/// A member whose claim is long stops pulling when another one panics.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_bridge_is_not_pulled_after_a_panic() {
    ends("a panic beside a long claim", || {
        let pool = warm(2);
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            let came = Came::new();
            pool.install(|| {
                numbers().par_bridge().with_claim_size(1 << 40).for_each(|_| {
                    give_way();
                    // A worker comes; then the caller throws, whose claim is not the worker's.
                    if came.look() && came.get() {
                        resume_unwind(Box::new("mine"));
                    }
                });
            });
        }));
        assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "mine");
    });
}

/// Items that are looked at after a hit: fewer than a piece of fixed size would hold.
const BEHIND: usize = 2000;

#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_hit_ends_sources_without_an_end() {
    macro_rules! found {
        ($source:expr, |$call:ident, $hit:ident| $body:expr) => {
            for threads in [1, 2, 4] {
                ends(stringify!($source, $body), move || {
                    let (found, behind, visited) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
                    let came = Came::new();
                    // An item behind the 100th, when another thread has come.
                    let $hit = || {
                        give_way();
                        came.look();
                        let due = visited.fetch_add(1, Relaxed) >= 100 && (threads == 1 || came.get());
                        let hit = due && !found.swap(true, Relaxed);
                        if due && !hit {
                            behind.fetch_add(1, Relaxed);
                        }
                        hit
                    };
                    warm(threads).install(|| {
                        let $call = $source.with_claim_size(1);
                        $body;
                    });
                    assert!(behind.load(Relaxed) < BEHIND, "{behind:?} items were looked at after the hit");
                });
            }
        };
    }
    macro_rules! all_of {
        ($source:expr) => {
            found!($source, |call, hit| assert!(call.any(|_| hit())));
            found!($source, |call, hit| assert!(call.find_any(|_| hit()).is_some()));
            found!($source, |call, hit| assert!(call.with_cancel(&CancelToken::new()).any(|_| hit()).unwrap()));
        };
    }
    all_of!((0..HUGE).into_par_iter());
    all_of!(windrow::iter::repeat(1));
    all_of!(numbers().par_bridge());
    // Indices mean nothing at a bridge: any hit ends it, and so does any error.
    found!(numbers().par_bridge(), |call, hit| assert!(call.find_first(|_| hit()).is_some()));
    found!(numbers().par_bridge(), |call, hit| assert!(
        call.try_for_each(|_| if hit() { Err(()) } else { Ok(()) }).is_err()
    ));
    found!(numbers().par_bridge(), |call, hit| {
        assert!(call.map(|i| if hit() { Err(i) } else { Ok(i) }).collect::<Result<Vec<_>, _>>().is_err());
    });
    found!(numbers().par_bridge(), |call, hit| {
        assert!(call.map(|i| if hit() { None } else { Some(i) }).try_reduce(|| 0, |a, b| Some(a.max(b))).is_none());
    });
    found!(numbers().par_bridge(), |call, hit| assert!(
        call.map(|i| (!hit()).then_some(i)).while_some().count() >= 100
    ));
    found!(numbers().par_bridge(), |call, hit| assert!(call.take_any_while(|_| !hit()).count() >= 100));
}

/// After cheap items, a claim holds many long ones. A member in such a claim must not go on for long after another member's hit.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_hit_among_long_items_ends_the_search() {
    macro_rules! prompt {
        ($source:expr, |$call:ident, $hit:ident| $body:expr) => {
            ends(stringify!($source, $body), move || {
                let (pool, visited, hit_at) = (warm(2), AtomicUsize::new(0), std::sync::OnceLock::new());
                let $hit = || {
                    let seen = visited.fetch_add(1, Relaxed);
                    spin(if seen < 20_000 { 0 } else { 300 });
                    seen > 20_100 && hit_at.set(Instant::now()).is_ok()
                };
                pool.install(|| {
                    let $call = $source;
                    $body;
                });
                let late = hit_at.get().expect("a hit").elapsed();
                assert!(late < Duration::from_secs(1), "ended {late:?} after the hit");
            });
        };
    }
    macro_rules! all_of {
        ($source:expr) => {
            prompt!($source, |call, hit| assert!(call.any(|_| hit())));
            prompt!($source, |call, hit| assert!(call.filter(|_| hit()).find_any(|_| true).is_some()));
            prompt!($source, |call, hit| assert!(call.with_cancel(&CancelToken::new()).any(|_| hit()).unwrap()));
        };
    }
    all_of!((0..HUGE).into_par_iter());
    all_of!(numbers().par_bridge());
    all_of!(windrow::iter::repeat(1u8).with_claim_size(1 << 12));
}

/// An index of such a range stands for 2^64 items: a member polls between them.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn a_hit_ends_a_search_in_more_items_than_indices() {
    for cancel in [false, true] {
        ends("u128", move || {
            let (pool, came, token) = (warm(2), Came::new(), CancelToken::new());
            let hit = |_: &u128| {
                give_way();
                // The caller goes on in the first index.
                let caller = came.look();
                if cancel && came.get() {
                    token.cancel();
                }
                !cancel && !caller
            };
            let items = (0..u128::MAX).into_par_iter().with_claim_size(1).with_cancel(&token);
            let found = pool.install(|| items.find_any(hit));
            assert!(if cancel { found.is_err() } else { found.is_ok_and(|it| it.is_some()) });
        });
    }
}

/// An error at a low index ends the members behind it. (Those before it go on: theirs may come first.)
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn an_error_ends_a_huge_reduction() {
    on_pools!("try_reduce", || {
        let items = (0..HUGE).into_par_iter().map(|i| if i == 100 { None } else { Some(i) });
        assert_eq!(items.try_reduce(|| 0, |a, b| Some(a.max(b))), None);
    });
    ends("try_reduce in two blocks", || {
        let (pool, came) = (warm(2), Came::new());
        pool.install(|| {
            let items = (0..1u64 << 60).into_par_iter().with_claim_size(1).map(|i| {
                give_way();
                // The caller has the first block, and a worker one behind it.
                if came.look() && came.get() { None } else { Some(i) }
            });
            assert_eq!(items.try_reduce(|| 0, |a, b| Some(a.max(b))), None);
        });
    });
}

/// A bridge that ends is through, on a pool of one thread too: none of its many indices is walked through then.
#[test]
fn a_bridge_that_ends_is_through() {
    on_pools!("a bridge that ends", || {
        let some = || numbers().take_while(|&i| i <= 20).par_bridge();
        assert_eq!(some().map(Ok::<_, ()>).collect::<Result<Vec<_>, _>>().map(|all| all.len()), Ok(20));
        assert_eq!(some().map(Some).while_some().count(), 20);
        assert_eq!(some().take_any(30).count(), 20);
        assert_eq!(some().take_any_while(|_| true).count(), 20);
        assert_eq!(some().map(Some).try_reduce(|| 0, |a, b| Some(a + b)), Some(210));
        assert_eq!(some().with_cancel(&CancelToken::new()).count(), Ok(20));
        assert_eq!(some().with_cancel(&CancelToken::new()).find_any(|_| false), Ok(None));
    });
}

/// A recipe that wants no more is through, wherever that is noticed.
#[test]
fn a_caller_that_breaks_off_alone_is_complete() {
    for pool in pools() {
        for at in [0, 1, 77, 500, 999] {
            let items = (0..1000).into_par_iter().map(|i| (i < at).then_some(i)).while_some();
            assert!(pool.install(|| items.with_cancel(&CancelToken::new()).count()).is_ok_and(|n| n >= at), "at {at}");
        }
    }
}

/// Results are kept for a bounded number of blocks, however many items there are.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn reductions_of_huge_sources_need_little_memory() {
    static UNITS: [(); usize::MAX] = [(); usize::MAX];
    on_pools!("units", || {
        assert_eq!(UNITS.par_iter().count(), usize::MAX);
        assert_eq!(UNITS.par_iter().with_cancel(&CancelToken::new()).count(), Ok(usize::MAX));
        assert_eq!(UNITS[..1 << 40].par_iter().count(), 1 << 40);
    });
}

/// Items take next to nothing at first, so a claim holds many of them. Then each takes far longer.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_claim_whose_items_have_become_long_is_left_in_the_middle() {
    /// Slow items that were begun after the stop.
    #[derive(Default)]
    struct Items {
        visited: AtomicUsize,
        is_stopped: AtomicBool,
        late: AtomicUsize,
    }
    impl Items {
        /// At some item, `stop` is called. Items are slow from the thousandth before it on.
        fn item(&self, stop: impl Fn()) -> bool {
            let at = self.visited.fetch_add(1, Relaxed);
            if at >= 3_000_000 {
                // Another thread may run on while the one that stops waits for a CPU.
                self.late.fetch_add(usize::from(self.is_stopped.load(Relaxed)), Relaxed);
                spin(20);
                if at == 3_000_100 {
                    stop();
                    self.is_stopped.store(true, Relaxed);
                }
            }
            false
        }
    }
    type Call = fn(&Items, &CancelToken, &(dyn Fn() + Sync));
    let calls: [(&str, Call); 5] = [
        ("for_each", |items, token, stop| {
            let _ = (0..u64::MAX).into_par_iter().with_cancel(token).for_each(|_| assert!(!items.item(stop)));
        }),
        ("find_any", |items, token, stop| {
            let _ = (0..u64::MAX).into_par_iter().with_cancel(token).find_any(|_| items.item(stop));
        }),
        ("sum", |items, token, stop| {
            let _ = (0..u64::MAX).into_par_iter().map(|_| u64::from(items.item(stop))).with_cancel(token).sum::<u64>();
        }),
        ("collect", |items, token, stop| {
            let _ = (0..u64::MAX).into_par_iter().filter(|_| items.item(stop)).with_cancel(token).collect::<Vec<_>>();
        }),
        ("flat_map", |items, token, stop| {
            let inner = (0..u64::MAX).into_par_iter().flat_map(|_| (0..u64::MAX).into_par_iter());
            let _ = inner.with_cancel(token).for_each(|_| assert!(!items.item(stop)));
        }),
    ];
    for (name, call) in calls {
        for threads in [1, 3] {
            settles(&format!("{name} on {threads} threads, after a token"), 150 * threads, || {
                let (token, items) = (CancelToken::new(), Items::default());
                Pool::new(threads).install(|| call(&items, &token, &|| token.cancel()));
                items.late.into_inner()
            });
            if threads == 1 {
                continue;
            }
            settles(&format!("{name} on {threads} threads, after a panic"), 150 * threads, || {
                let (token, items) = (CancelToken::new(), Items::default());
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    Pool::new(threads).install(|| call(&items, &token, &|| resume_unwind(Box::new("stop"))));
                }));
                assert!(panicked.is_err());
                items.late.into_inner()
            });
        }
    }
}

/// `run` hands out an iterator that may become the inner one of another.
#[test]
fn an_iterator_with_a_token_ends_inside_flat_map() {
    for threads in [1, 3] {
        let (token, items) = (CancelToken::new(), AtomicUsize::new(0));
        let inner = (0..u64::MAX).into_par_iter().filter(|_| {
            if items.fetch_add(1, Relaxed) == 1000 {
                token.cancel();
            }
            items.load(Relaxed) > 10_000_000
        });
        let ended = Pool::new(threads).install(|| {
            inner.with_cancel(&token).run(|inner| (0..2).into_par_iter().flat_map(|_| inner.clone()).any(|_| true))
        });
        assert!(ended.is_err() && items.into_inner() < 10_000_000, "on {threads} threads");
    }
}
