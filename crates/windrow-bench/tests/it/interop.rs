//! windrow beside other runtimes in one program: inside of their threads, around them, and both at once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use windrow::{CancelToken, Cancelled, Pool};

const N: u64 = 20_000;

/// The computation of every call in this file, with windrow.
fn by_windrow(n: u64) -> u64 {
    use windrow::prelude::*;
    (0..n).into_par_iter().map(|i| std::hint::black_box(i * i)).sum()
}

/// The same with rayon.
fn by_rayon(n: u64) -> u64 {
    use rayon::prelude::*;
    (0..n).into_par_iter().map(|i| std::hint::black_box(i * i)).sum()
}

fn serial(n: u64) -> u64 {
    (0..n).map(|i| i * i).sum()
}

#[test]
fn windrow_inside_of_rayon() {
    use rayon::prelude::*;
    let expected = serial(N);
    // From the global pool's threads, from those of another pool, from join and from scope.
    assert!((0..200).into_par_iter().all(|_| by_windrow(N) == expected));
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    rayon.install(|| {
        assert!((0..200).into_par_iter().all(|_| by_windrow(N) == expected));
        assert_eq!(rayon::join(|| by_windrow(N), || by_windrow(N)), (expected, expected));
        let sum = AtomicUsize::new(0);
        rayon::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|_| _ = sum.fetch_add(by_windrow(N) as usize, Relaxed));
            }
        });
        assert_eq!(sum.into_inner() as u64, 20 * expected);
    });
    let pool = Pool::new(3);
    rayon.install(|| (0..50).into_par_iter().for_each(|_| assert_eq!(pool.install(|| by_windrow(N)), expected)));
}

#[test]
fn rayon_inside_of_windrow() {
    use windrow::prelude::*;
    let expected = serial(N);
    assert!((0..200).into_par_iter().all(|_: i32| by_rayon(N) == expected));
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let all: Vec<u64> = (0..50).into_par_iter().map(|_: i32| rayon.install(|| by_rayon(N))).collect();
            assert!(all.iter().all(|sum| *sum == expected));
            assert_eq!(rayon::join(|| by_windrow(N), || by_rayon(N)), (expected, expected));
        });
    }
}

/// Each runtime waits for the other one, several deep, for several callers.
#[test]
fn both_inside_of_each_other() {
    fn down(depth: u32) -> u64 {
        match depth {
            0 => 1,
            _ if depth.is_multiple_of(2) => {
                use windrow::prelude::*;
                (0..3).into_par_iter().with_claim_size(1).map(|_: i32| down(depth - 1)).sum()
            }
            _ => {
                use rayon::prelude::*;
                (0..3).into_par_iter().map(|_: i32| down(depth - 1)).sum()
            }
        }
    }
    thread::scope(|scope| {
        for depth in [5, 6, 6] {
            scope.spawn(move || (0..10).for_each(|_| assert_eq!(down(depth), 3u64.pow(depth))));
        }
    });
}

/// A runtime that runs on the blocking thread, and one with threads.
fn runtimes() -> [tokio::runtime::Runtime; 2] {
    let current = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    [current, multi]
}

#[test]
fn windrow_inside_of_tokio() {
    let expected = serial(N);
    let pool = Arc::new(Pool::new(2));
    for runtime in runtimes() {
        runtime.block_on(async {
            for _ in 0..20 {
                // Directly from a task, as with short calls; on tokio's threads for blocking work; and on windrow's threads.
                let straight = tokio::spawn(async { by_windrow(N) });
                let blocking = tokio::task::spawn_blocking(|| by_windrow(N));
                let spawned = tokio::spawn(windrow::spawn_joinable(|| by_windrow(N)));
                let pool = pool.clone();
                let of_pool = tokio::spawn(async move { pool.spawn_joinable(|| by_windrow(N)).await });
                let all = tokio::try_join!(straight, blocking, spawned, of_pool).unwrap();
                assert_eq!(all, (expected, expected, expected, expected));
            }
        });
    }
}

/// The executor goes on while a closure runs, even if its only thread awaits the closure. The closure waits for what a task does.
#[test]
fn a_spawned_closure_leaves_the_executor_free() {
    for runtime in runtimes() {
        let (go, gone) = std::sync::mpsc::channel();
        let closure = windrow::spawn_joinable(move || {
            gone.recv().unwrap();
            by_windrow(N)
        });
        let sum = runtime.block_on(async {
            let later = async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                go.send(()).unwrap();
            };
            tokio::join!(closure, later).0
        });
        assert_eq!(sum, serial(N));
    }
}

/// A timeout of tokio drops the future, and that cancels the closure.
#[test]
fn a_timeout_drains_the_closure() {
    for runtime in runtimes() {
        let (tell, told) = std::sync::mpsc::channel();
        let begun = Arc::new(Barrier::new(2));
        let closure = {
            let begun = begun.clone();
            windrow::spawn_joinable(move || {
                use windrow::prelude::*;
                begun.wait();
                let stop = CancelToken::new();
                let long = (0..1u64 << 40).into_par_iter().with_cancel(&stop);
                tell.send(long.for_each(|x| _ = std::hint::black_box(x))).unwrap();
            })
        };
        begun.wait();
        assert!(runtime.block_on(async { tokio::time::timeout(Duration::from_millis(5), closure).await.is_err() }));
        assert_eq!(told.recv().unwrap(), Err(Cancelled));
    }
}

#[test]
fn a_panic_of_a_closure_is_a_panic_of_its_task() {
    for runtime in runtimes() {
        let closure = || {
            use windrow::prelude::*;
            (0..1000).into_par_iter().for_each(|i: i32| {
                if i == 500 {
                    std::panic::resume_unwind(Box::new("mine"));
                }
            });
        };
        let error = runtime.block_on(async { tokio::spawn(windrow::spawn_joinable(closure)).await.unwrap_err() });
        assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "mine");
        assert_eq!(by_windrow(N), serial(N));
    }
}

#[test]
fn tokio_inside_of_windrow() {
    use windrow::prelude::*;
    let [_, multi] = runtimes();
    let handle = multi.handle().clone();
    let doubled: Vec<u64> = (0..100u64)
        .into_par_iter()
        .map(|i| {
            let task = async move {
                tokio::task::yield_now().await;
                tokio::spawn(async move { i * 2 }).await.unwrap()
            };
            // On a runtime with other threads, and on a new one.
            if i % 2 == 0 { handle.block_on(task) } else { runtimes()[0].block_on(task) }
        })
        .collect();
    assert!(doubled.iter().enumerate().all(|(i, twice)| *twice == 2 * i as u64));
    // And the other way round: a closure on one of windrow's two spawn threads drives tasks that spawn.
    let pool = Pool::new(2);
    let closure = pool.spawn_joinable(move || {
        handle.block_on(async {
            let inner = tokio::spawn(windrow::spawn_joinable(|| by_windrow(N)));
            inner.await.unwrap() + windrow::spawn_joinable(|| by_windrow(N)).await
        })
    });
    assert_eq!(closure.wait(), 2 * serial(N));
}
