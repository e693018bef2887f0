//! Panics at every point, pools that come and go, threads that are refused.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow::Pool;
use windrow::prelude::*;
use windrow_testkit::{Live, alone, items, spin};

#[test]
fn a_panic_at_every_item_of_every_shape() {
    let n = if cfg!(miri) { 6 } else { 60 };
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for micros in [0, 3] {
            macro_rules! shape {
                ($step:ident, $live:ident, $body:expr) => {
                    for at in 0..=n {
                        let live = AtomicIsize::new(0);
                        let $live = &live;
                        let $step = |i: usize| {
                            spin(micros);
                            if i == at {
                                resume_unwind(Box::new(at));
                            }
                        };
                        let $step = &$step;
                        match catch_unwind(AssertUnwindSafe(|| pool.install(|| $body))) {
                            Ok(_) => assert_eq!(at, n, "item {at} did not panic"),
                            Err(payload) => assert_eq!(*payload.downcast::<usize>().expect("the item's payload"), at),
                        }
                        assert_eq!(live.load(Relaxed), 0, "panic at {at}");
                        assert_eq!(pool.install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
                    }
                };
            }
            shape!(step, _live, (0..n).into_par_iter().for_each(step));
            shape!(step, live, items(live, n).into_par_iter().for_each(|c| step(c.1)));
            shape!(step, live, {
                let zipped = items(live, n).into_par_iter().zip(items(live, n)).enumerate();
                drop(
                    zipped
                        .map(|(i, (a, _b))| {
                            step(i);
                            (a, Live::new(live, i))
                        })
                        .collect::<Vec<_>>(),
                )
            });
            shape!(step, live, {
                let kept = items(live, n).into_par_iter().filter(|c| {
                    step(c.1);
                    c.1 % 2 == 0
                });
                drop(kept.collect::<Vec<_>>())
            });
            shape!(step, live, {
                let sums = items(live, n).into_par_iter().map(|c| {
                    step(c.1);
                    c
                });
                drop(sums.reduce(|| Live::new(live, 0), |a, b| Live::new(live, a.1 + b.1)))
            });
            shape!(step, live, {
                let folded = items(live, n).into_par_iter().fold(Vec::new, |mut all, c| {
                    step(c.1);
                    all.push(c);
                    all
                });
                drop(folded.collect::<Vec<_>>())
            });
            shape!(
                step,
                live,
                assert!(!items(live, n).into_par_iter().any(|c| {
                    step(c.1);
                    false
                }))
            );
        }
    }
}

#[test]
fn a_panicking_drop_of_an_item_is_a_panic_like_others() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 && !std::thread::panicking() {
                resume_unwind(Box::new("bomb"));
            }
        }
    }
    let pool = Pool::new(2);
    for _ in 0..50 {
        let items: Vec<Bomb> = (0..500).map(|i| Bomb(i == 333)).collect();
        let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| items.into_par_iter().for_each(|_| spin(1)))));
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "bomb");
    }
    assert_eq!(pool.install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
}

/// A region run by a drop while its thread unwinds is whole: it must not be taken for the one that panicked.
#[test]
fn a_region_inside_a_drop_during_a_panic_is_whole() {
    struct SumsOnDrop<'a>(&'a AtomicUsize);
    impl Drop for SumsOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(
                (0..2000usize)
                    .into_par_iter()
                    .map(|i| {
                        spin(1);
                        i
                    })
                    .sum(),
                Relaxed,
            );
        }
    }
    let pool = Pool::new(2);
    let sum = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.install(|| {
            let _sums = SumsOnDrop(&sum);
            resume_unwind(Box::new(()));
        })
    }));
    assert!(result.is_err());
    assert_eq!(sum.into_inner(), 1999 * 1000);
}

#[test]
fn pools_come_and_go() {
    for round in 0..if cfg!(miri) { 3 } else { 100 } {
        let pool = Pool::new(1 + round % 4);
        assert_eq!(pool.threads(), 1 + round % 4);
        let n = 1000 * (round as u64 % 3);
        assert_eq!(
            pool.install(|| (0..n)
                .into_par_iter()
                .map(|i| {
                    spin(round as u64 % 2);
                    i
                })
                .sum::<u64>()),
            n * n.saturating_sub(1) / 2
        );
    }
    assert!(Pool::new(0).threads() >= 1);
}

#[test]
fn install_is_undone_by_a_panic() {
    let (outer, inner) = (Pool::new(2), Pool::new(3));
    outer.install(|| {
        let result = catch_unwind(AssertUnwindSafe(|| inner.install(|| resume_unwind(Box::new(())))));
        assert!(result.is_err());
        assert_eq!(windrow::current_num_threads(), 2);
        inner.install(|| assert_eq!(windrow::current_num_threads(), 3));
        assert_eq!(windrow::current_num_threads(), 2);
    });
}

#[test]
fn any_and_all_end_early() {
    let pool = Pool::new(2);
    let seen = AtomicUsize::new(0);
    let n = 1_000_000;
    let found = pool.install(|| {
        (0..n).into_par_iter().any(|i| {
            seen.fetch_add(1, Relaxed);
            i == 5000
        })
    });
    assert!(found);
    assert!(seen.load(Relaxed) < n, "all {n} items were looked at");
}

#[test]
#[should_panic(expected = "the claim size must be at least 1")]
fn a_chunk_of_no_items_is_refused() {
    (0..5).into_par_iter().with_claim_size(0).for_each(|_: i32| ());
}

#[test]
#[should_panic(expected = "the chunk size must be at least 1")]
fn runs_of_no_items_are_refused() {
    [1, 2].par_chunks(0).for_each(|_| ());
}

/// In a separate process whose threads would need more stack than there is address space.
#[test]
#[cfg(all(unix, target_pointer_width = "64", not(miri)))]
fn threads_that_are_refused_are_not_counted() {
    let refuse = |child: &mut std::process::Command| {
        child.env("RUST_MIN_STACK", (1u64 << 56).to_string());
    };
    alone(module_path!(), "threads_that_are_refused_are_not_counted", refuse, || {
        let pool = Pool::new(4);
        let (members, why) = windrow::explain(|| {
            pool.install(|| {
                (0..20).into_par_iter().for_each(|_| spin(10));
                windrow::current_num_threads()
            })
        });
        assert_eq!((pool.threads(), members), (1, 1));
        assert_eq!((why[0].count(), why[0].reason()), (20, "serial: nothing to decide"), "{}", why[0]);
    });
}
