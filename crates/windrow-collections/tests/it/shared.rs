//! The shared set: each thread's operations give the results of a set of this thread's keys, and keys of all are new to one thread.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use windrow_collections::{Key, OrderedSet, Prefix, Prefixed, SetOp, SharedSet};

use crate::panics::{Fuse, Fused};

fn numbers(mut seed: u64) -> impl FnMut() -> u32 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    }
}

fn on_oracle<K: Ord + Clone>(oracle: &mut BTreeSet<K>, op: &SetOp<K>) -> bool {
    match op {
        SetOp::Contains(key) => oracle.contains(key),
        SetOp::Insert(key) => oracle.insert(key.clone()),
        SetOp::Remove(key) => oracle.remove(key),
        SetOp::Query(never) => match *never {},
    }
}

/// Keys of a thread are those whose number has the remainder of the thread; `key` keeps the order of numbers.
fn own_keys<K>(before: usize, rounds: u32, key: impl Fn(u32) -> K + Sync)
where
    K: Key<Column: Send + Sync> + Send + Sync,
{
    const THREADS: u32 = 3;
    let set: SharedSet<K> = (0..before as u32).map(&key).collect();
    let oracles = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (set, key) = (&set, &key);
                scope.spawn(move || {
                    let mut next = numbers(u64::from(thread));
                    let mut oracle: BTreeSet<K> =
                        (0..before as u32).filter(|number| number % THREADS == thread).map(key).collect();
                    for round in 0..rounds {
                        let grows = round < rounds * 2 / 3;
                        let count = [1, 5, 127, 3_000][(next() % 4) as usize];
                        let ops: Vec<_> = (0..count)
                            .map(|_| {
                                let key = key(next() % 10_000 * THREADS + thread);
                                match next() % 8 {
                                    0 => SetOp::Contains(key),
                                    1..7 if grows => SetOp::Insert(key),
                                    _ => SetOp::Remove(key),
                                }
                            })
                            .collect();
                        let expected: Vec<_> = ops.iter().map(|op| on_oracle(&mut oracle, op)).collect();
                        let mut results = vec![false; ops.len()];
                        if let [op] = &ops[..] {
                            results[0] = match op {
                                SetOp::Contains(key) => set.contains(key),
                                SetOp::Insert(key) => set.insert(key.clone()),
                                SetOp::Remove(key) => set.remove(key),
                                SetOp::Query(never) => match *never {},
                            };
                        } else {
                            set.apply(&ops, &mut results);
                        }
                        assert!(results == expected, "thread {thread}, round {round}");
                    }
                    oracle
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(BTreeSet::new(), |all, own| &all | &own)
    });
    assert_eq!((set.check(), set.len(), set.is_empty()), (Ok(()), oracles.len(), false));
    let set = set.into_inner();
    assert_eq!(set.check(), Ok(()));
    assert!(set.iter().eq(&oracles));
}

#[test]
fn threads_with_keys_apart() {
    own_keys(0, 60, |number| number);
}

#[test]
fn threads_with_keys_apart_in_a_set_that_is_divided() {
    own_keys(25_000, 30, |number| format!("the same beginning {number:08}"));
}

/// All threads insert all keys, ascending: every division meets the others at work.
#[test]
fn threads_with_the_same_keys() {
    const KEYS: u32 = 40_000;
    let set = SharedSet::new();
    let new = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (set, new) = (&set, &new);
            scope.spawn(move || {
                let keys: Vec<u32> = (0..KEYS).collect();
                for keys in keys.chunks(100 + thread) {
                    let ops: Vec<_> = keys.iter().copied().map(SetOp::Insert).collect();
                    let mut results = vec![false; ops.len()];
                    set.apply(&ops, &mut results);
                    new.fetch_add(results.iter().filter(|new| **new).count(), Relaxed);
                }
            });
        }
    });
    assert_eq!((new.into_inner(), set.len(), set.check()), (KEYS as usize, KEYS as usize, Ok(())));
    assert!(set.into_inner().into_iter().eq(0..KEYS));
}

/// Comparisons and clones that panic, also while ranges are divided: no key is lost.
#[test]
fn keys_that_panic() {
    let (fuse, mut next) = (Fuse::new(), numbers(5));
    let set: SharedSet<Fused> = SharedSet::new();
    let mut oracle = BTreeSet::new();
    let mut panics = 0;
    for round in 0..1_500 {
        let keys: Vec<u32> = (0..40).map(|_| next() % 100_000).collect();
        let ops: Vec<_> = keys.iter().map(|key| SetOp::Insert(Fused(*key, fuse.clone()))).collect();
        let mut results = vec![false; ops.len()];
        fuse.set((round % 4 > 0).then(|| next() % 250));
        let applied = catch_unwind(AssertUnwindSafe(|| set.apply(&ops, &mut results)));
        fuse.set(None);
        panics += u32::from(applied.is_err());
        for key in keys {
            let is_there = set.contains(&Fused(key, fuse.clone()));
            assert!(is_there || applied.is_err() && !oracle.contains(&key), "{key}");
            if is_there {
                oracle.insert(key);
            }
        }
        if round % 50 == 0 {
            assert_eq!(set.check(), Ok(()));
        }
    }
    assert!(panics > 100, "{panics}");
    let set: OrderedSet<Fused> = set.into_inner();
    assert_eq!(set.check(), Ok(()));
    assert!(set.iter().map(|key| key.0).eq(oracle));
    drop(set);
    assert_eq!(Arc::strong_count(&fuse), 1);
}

thread_local! {
    static CLONES_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// A key whose clone panics on request: leaves that split and ranges that are divided clone keys.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Original(u32);

impl Clone for Original {
    fn clone(&self) -> Self {
        if CLONES_PANIC.get() {
            std::panic::resume_unwind(Box::new("clone"));
        }
        Original(self.0)
    }
}
impl Prefix for Original {
    type Word = u64;
    fn prefix(&self) -> u64 {
        self.0.into()
    }
}
impl Key for Original {
    type Column = Prefixed<Self>;
}

/// Otherwise every insert of a full range would pay for a division that panics.
#[test]
fn a_division_that_panics_is_tried_again_at_twice_the_keys() {
    let set = SharedSet::new();
    let inserts = |key: u32| {
        CLONES_PANIC.set(true);
        let inserted = catch_unwind(AssertUnwindSafe(|| set.insert(Original(key))));
        CLONES_PANIC.set(false);
        inserted
    };
    let mut panicked_at = Vec::new();
    let keys = (0..12_000_u32).map(|n| n.wrapping_mul(0x9E37_79B9));
    for (len, key) in (1..).zip(keys) {
        if inserts(key).is_err() {
            if set.contains(&Original(key)) {
                panicked_at.push(len);
                // Nothing to clone: these keys are there.
                assert!((0..50_u32).all(|n| inserts(n.wrapping_mul(0x9E37_79B9)).is_ok()), "{panicked_at:?}");
            } else {
                // A leaf that splits.
                assert!(set.insert(Original(key)));
            }
        }
    }
    assert_eq!((set.len(), set.check()), (12_000, Ok(())));
    let [first, second] = panicked_at[..] else { panic!("{panicked_at:?}") };
    assert_eq!(second, 2 * first + 1);
}
