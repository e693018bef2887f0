//! Pools and iterators together.

use rayon::prelude::*;
use rayon::{ThreadPoolBuilder, current_num_threads, current_thread_index, join, scope};

#[test]
fn iterators_run_where_they_are_called() {
    let numbers: Vec<u64> = (0..10_000).collect();
    let sum = || numbers.par_iter().map(|n| n * 2).sum::<u64>();
    assert_eq!(sum(), 99_990_000);
    let (one, two) = join(sum, sum);
    assert_eq!((one, two), (99_990_000, 99_990_000));
}

/// A pool of two threads gives its calls two threads, whatever the machine has.
#[test]
fn a_pool_bounds_its_iterators() {
    for threads in [1, 2, 5] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(current_num_threads), threads);
        assert_eq!(pool.install(windrow::current_num_threads), threads);
        let ids = pool.install(|| {
            assert!(current_thread_index().is_some());
            (0..1000).into_par_iter().with_max_len(1).map(|_| std::thread::current().id()).collect::<Vec<_>>()
        });
        let ids: std::collections::HashSet<_> = ids.into_iter().collect();
        assert!(ids.len() <= threads, "{} threads in a pool of {threads}", ids.len());
    }
}

#[test]
fn scopes_and_iterators_nest() {
    let mut halves = [0u64; 2];
    scope(|s| {
        for (at, half) in halves.iter_mut().enumerate() {
            s.spawn(move |_| *half = (0..1000u64).into_par_iter().filter(|n| n % 2 == at as u64).sum());
        }
    });
    assert_eq!(halves, [249_500, 250_000]);
}

#[test]
fn modules_have_their_names() {
    use rayon::iter::{ParallelIterator as _, repeatn};
    use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};
    use rayon::str::ParallelString as _;
    assert_eq!(repeatn(3, 4).sum::<i32>(), 12);
    let mut items = [3, 1, 2];
    items.par_sort();
    assert_eq!(items.par_chunks(2).map(<[i32]>::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!("a b".par_split_whitespace().count(), 2);
}
