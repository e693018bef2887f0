//! A panic at every point of every adaptor and consumer that owns items: nothing leaks, nothing is dropped twice, the pool
//! stays usable.

use std::collections::{BTreeMap, HashMap, LinkedList, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow::Pool;
use windrow::iter::Either;
use windrow::prelude::*;
use windrow_testkit::{Live, items, spin};

const N: usize = if cfg!(miri) { 6 } else { 40 };

/// Runs `call` with a `step` that panics when it has been called `at` times, for every `at` until it is not called so often; on pools
/// of several widths, with items that cost nothing and some that do.
fn with_a_panic_everywhere(name: &str, call: impl Fn(&AtomicIsize, &(dyn Fn() + Sync))) {
    for threads in if cfg!(miri) { &[2][..] } else { &[1, 2, 4] } {
        let pool = Pool::new(*threads);
        for micros in if cfg!(miri) { &[0][..] } else { &[0, 3] } {
            for at in 0.. {
                let (live, steps) = (AtomicIsize::new(0), AtomicUsize::new(0));
                let step = || {
                    spin(*micros);
                    if steps.fetch_add(1, Relaxed) == at {
                        resume_unwind(Box::new(at));
                    }
                };
                let ended = catch_unwind(AssertUnwindSafe(|| pool.install(|| call(&live, &step))));
                assert_eq!(live.load(Relaxed), 0, "{name}, panic at {at} of {} steps", steps.load(Relaxed));
                match ended {
                    Ok(()) => {
                        assert!(at > 0, "{name} takes no step");
                        assert!(steps.into_inner() <= at, "{name}: the panic at {at} was lost");
                        break;
                    }
                    Err(payload) => assert_eq!(*payload.downcast::<usize>().expect("the step's payload"), at),
                }
                assert_eq!(pool.install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
            }
        }
    }
}

macro_rules! faults {
    ($($name:ident: |$live:ident, $step:ident| $call:expr;)*) => {$(
        #[test]
        fn $name() {
            with_a_panic_everywhere(stringify!($name), |$live, $step| {
                let _ = $call;
            });
        }
    )*};
}

/// Passes an item on, after a step.
fn through<T>(step: &(dyn Fn() + Sync)) -> impl Fn(T) -> T + Sync {
    move |item| {
        step();
        item
    }
}

faults! {
    take: |live, step| items(live, N).into_par_iter().map(through(step)).take(N / 2).collect::<Vec<_>>();
    skip: |live, step| items(live, N).into_par_iter().skip(N / 2).map(through(step)).collect::<Vec<_>>();
    rev: |live, step| items(live, N).into_par_iter().map(through(step)).rev().collect::<Vec<_>>();
    step_by: |live, step| items(live, 3 * N).into_par_iter().map(through(step)).step_by(3).collect::<Vec<_>>();
    chain: |live, step| items(live, N).into_par_iter().chain(items(live, N)).map(through(step)).collect::<Vec<_>>();
    chain_of_parts: |live, step| {
        items(live, N).into_par_iter().skip(2).chain(items(live, N).into_par_iter().rev().take(3)).map(through(step)).collect::<Vec<_>>()
    };
    interleave: |live, step| {
        items(live, N).into_par_iter().map(through(step)).interleave(items(live, N / 3)).skip(1).collect::<Vec<_>>()
    };
    zip_of_views: |live, step| {
        let pairs = items(live, N).into_par_iter().rev().zip(items(live, 3 * N).into_par_iter().chunks(2).skip(1));
        pairs.map(through(step)).collect::<Vec<_>>()
    };
    chunks: |live, step| items(live, N).into_par_iter().map(through(step)).chunks(4).collect::<Vec<_>>();
    fold_chunks: |live, step| items(live, N).into_par_iter().fold_chunks(4, Vec::new, |mut all, item| {
        step();
        all.push(item);
        all
    }).collect::<Vec<_>>();
    filter_map: |live, step| items(live, N).into_par_iter().filter_map(|item| {
        step();
        (item.1 % 2 == 0).then_some(item)
    }).collect::<Vec<_>>();
    flat_map: |live, step| (0..8).into_par_iter().flat_map(|n| items(live, n).into_par_iter().map(through(step))).collect::<Vec<_>>();
    flat_map_iter: |live, step| (0..8).into_par_iter().flat_map_iter(|n| items(live, n).into_iter().map(through(step))).collect::<Vec<_>>();
    flatten: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        vec![item.clone(), item]
    }).flatten().collect::<Vec<_>>();
    map_init: |live, step| items(live, N).into_par_iter().map_init(|| {
        step();
        Live::new(live, 0)
    }, |kept, item| {
        step();
        kept.1 += item.1;
        item
    }).collect::<Vec<_>>();
    map_with: |live, step| items(live, N).into_par_iter().map_with(Live::new(live, 0), |kept, item| {
        step();
        kept.1 += item.1;
        item
    }).filter(|item| item.1 > 3).collect::<Vec<_>>();
    take_any: |live, step| items(live, N).into_par_iter().map(through(step)).take_any(N / 2).collect::<Vec<_>>();
    skip_any: |live, step| items(live, N).into_par_iter().map(through(step)).skip_any(N / 2).collect::<Vec<_>>();
    take_any_while: |live, step| items(live, N).into_par_iter().map(through(step)).take_any_while(|item| item.1 != 9).collect::<Vec<_>>();
    while_some: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        (item.1 < N - 3).then_some(item)
    }).while_some().collect::<Vec<_>>();
    intersperse: |live, step| items(live, N).into_par_iter().map(through(step)).intersperse(Live::new(live, 7)).collect::<Vec<_>>();
    find_any: |live, step| items(live, N).into_par_iter().find_any(|item| {
        step();
        item.1 % 5 == 4
    });
    find_first: |live, step| items(live, N).into_par_iter().find_first(|item| {
        step();
        item.1 % 7 == 6
    });
    find_last: |live, step| items(live, N).into_par_iter().find_last(|item| {
        step();
        item.1 % 3 == 2
    });
    comparing: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        item.1
    }).cmp(0..N);
    reduce_with: |live, step| items(live, N).into_par_iter().reduce_with(|a, b| {
        step();
        if a.1 > b.1 { a } else { b }
    });
    try_reduce: |live, step| items(live, N).into_par_iter().map(|item| if item.1 == N - 2 { Err(item) } else { Ok(item) }).try_reduce(|| Live::new(live, 0), |a, b| {
        step();
        Ok(if a.1 > b.1 { a } else { b })
    });
    try_fold: |live, step| items(live, N).into_par_iter().try_fold(Vec::new, |mut all, item| {
        step();
        all.push(item);
        if all.len() < 3 { Ok(all) } else { Err(all) }
    }).collect::<Result<Vec<_>, _>>();
    try_for_each: |live, step| items(live, N).into_par_iter().try_for_each(|item| {
        step();
        if item.1 == 20 { Err(item) } else { Ok(()) }
    });
    partition: |live, step| items(live, N).into_par_iter().partition::<Vec<_>, LinkedList<_>, _>(|item| {
        step();
        item.1 % 3 == 0
    });
    partition_map: |live, step| items(live, N).into_par_iter().partition_map::<Vec<_>, Vec<_>, _, _, _>(|item| {
        step();
        if item.1 % 3 == 0 { Either::Left(item.clone()) } else { Either::Right(item) }
    });
    unzip: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        (item.clone(), item)
    }).unzip::<_, _, Vec<_>, VecDeque<_>>();
    collect_result: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        if item.1 % 9 == 8 { Err(item) } else { Ok((item.1, item)) }
    }).collect::<Result<HashMap<_, _>, _>>();
    collect_map: |live, step| items(live, N).into_par_iter().map(|item| {
        step();
        (item.1 % 7, item)
    }).collect::<BTreeMap<_, _>>();
    extend: |live, step| {
        let mut all = items(live, 3);
        all.par_extend(items(live, N).into_par_iter().map(through(step)));
        all
    };
    drain: |live, step| {
        let mut all = items(live, N);
        let taken: Vec<_> = all.par_drain(3..N - 2).map(through(step)).collect();
        assert_eq!(all.len() + taken.len(), N);
        (all, taken)
    };
    bridge: |live, step| items(live, N).into_iter().map(through(step)).par_bridge().filter(|item| item.1 != 3).collect::<Vec<_>>();
    bridge_for_each: |live, step| items(live, N).into_iter().par_bridge().for_each(|_| step());
    inclusive_scan: |live, step| items(live, N).into_par_iter().inclusive_scan(|a, b| {
        step();
        Live::new(live, a.1 + b.1)
    }, Live::new(live, 0));
    exclusive_scan: |live, step| {
        let mut all = items(live, N);
        all.par_exclusive_scan(|a, b| {
            step();
            Live::new(live, a.1 + b.1)
        }, Live::new(live, 0));
        all
    };
    sources: |live, step| {
        let all: VecDeque<_> = items(live, N).into();
        let list: LinkedList<_> = all.clone().into_par_iter().map(through(step)).collect();
        list.into_par_iter().map(through(step)).chain(Some(Live::new(live, 1))).collect::<Box<[_]>>()
    };
}

/// An item that breaks off and one that panics at once: the panic wins, and neither leaks.
#[test]
fn an_error_here_and_a_panic_there() {
    let pool = Pool::new(4);
    for at in 0..N {
        let live = AtomicIsize::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| {
                items(&live, N)
                    .into_par_iter()
                    .map(|item| {
                        spin(3);
                        match item.1 {
                            i if i == at => resume_unwind(Box::new("panic")),
                            i if i % 10 == 9 => Err(item),
                            _ => Ok(item),
                        }
                    })
                    .collect::<Result<Vec<_>, _>>()
            })
            .map(drop)
            .map_err(|item| item.1)
        }));
        match ended {
            // The first error is behind or before the panic; one behind it is not believed.
            Ok(result) => assert!(result.is_err_and(|i| i == 9 && i < at), "at {at}"),
            Err(payload) => assert_eq!(*payload.downcast::<&str>().unwrap(), "panic"),
        }
        assert_eq!(live.into_inner(), 0, "at {at}");
    }
}

/// A clone for a member that panics is the call's panic; the value itself is dropped.
#[test]
fn a_clone_that_panics_is_a_panic_like_others() {
    struct Fuse<'a>(Live<&'a AtomicIsize>, &'a AtomicUsize);
    impl Clone for Fuse<'_> {
        fn clone(&self) -> Self {
            if self.1.fetch_add(1, Relaxed) == 0 {
                resume_unwind(Box::new("clone"));
            }
            Fuse(self.0.clone(), self.1)
        }
    }
    let pool = Pool::new(2);
    for _ in 0..20 {
        let (live, clones) = (AtomicIsize::new(0), AtomicUsize::new(0));
        let fuse = Fuse(Live::new(&live, 0), &clones);
        let sum = Mutex::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| {
                items(&live, 200).into_par_iter().for_each_with(fuse, |fuse, item| {
                    spin(2);
                    *sum.lock().unwrap() += item.1 + fuse.0.1;
                })
            })
        }));
        assert_eq!(*ended.unwrap_err().downcast::<&str>().unwrap(), "clone");
        assert_eq!(live.into_inner(), 0);
    }
}
