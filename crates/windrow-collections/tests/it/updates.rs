//! Updates and compare-and-swap: one operation each, also in batches of many callers, and when their functions panic.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use windrow::batch::{BatchError, Batched, Chunk};
use windrow_collections::{Key, MapOp, OrderedMap, Plain};

/// An operation on a key, as data.
#[derive(Clone, Copy, Debug)]
enum Step {
    Get,
    Insert(u32),
    Remove,
    /// Adds, and returns the sum.
    Add(u32),
    /// Takes the value out, and returns it.
    Take,
    Swap(Option<u32>, Option<u32>),
    /// Changes the value if there is one, then panics. If there is none, leaves one, then panics.
    Panic(u32),
    /// Takes the value out, then panics.
    TakeAndPanic,
}

impl Step {
    fn panics(self) -> bool {
        matches!(self, Step::Panic(_) | Step::TakeAndPanic)
    }
}

fn map_op<K: Key>(key: K, step: Step) -> MapOp<K, u32> {
    match step {
        Step::Get => MapOp::Get(key),
        Step::Insert(value) => MapOp::Insert(key, value),
        Step::Remove => MapOp::Remove(key),
        Step::Add(by) => MapOp::update(key, move |value| {
            *value = Some(value.unwrap_or(0_u32).wrapping_add(by));
            *value
        }),
        Step::Take => MapOp::update(key, Option::take),
        Step::Swap(expected, new) => MapOp::compare_and_swap(key, expected, new),
        Step::Panic(left) => MapOp::update(key, move |value| {
            *value = Some(left);
            panic!("update")
        }),
        Step::TakeAndPanic => MapOp::update(key, |value| {
            *value = None;
            panic!("update")
        }),
    }
}

/// The result; `None` for a panic.
fn on_oracle<K: Ord>(oracle: &mut BTreeMap<K, u32>, key: K, step: Step) -> Option<Option<u32>> {
    let now = oracle.get(&key).copied();
    let (new, result) = match step {
        Step::Get => (now, Some(now)),
        Step::Insert(value) => (Some(value), Some(now)),
        Step::Remove | Step::Take => (None, Some(now)),
        Step::Add(by) => (Some(now.unwrap_or(0).wrapping_add(by)), Some(Some(now.unwrap_or(0).wrapping_add(by)))),
        Step::Swap(expected, new) => (if now == expected { new } else { now }, Some(now)),
        Step::Panic(left) => (now.map(|_| left), None),
        Step::TakeAndPanic => (None, None),
    };
    match new {
        Some(value) => oracle.insert(key, value),
        None => oracle.remove(&key),
    };
    result
}

fn numbers(mut seed: u64) -> impl FnMut() -> u32 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    }
}

/// Steps on keys of a range; one in `panics` panics, and most of the first half insert.
fn steps(count: usize, keys: u32, panics: u32, grows: bool, next: &mut impl FnMut() -> u32) -> Vec<(u32, Step)> {
    let mut swaps = BTreeMap::new();
    let step = |_| {
        let key = next() % keys;
        let value = next() % 4;
        let step = match next() % 16 {
            _ if panics > 0 && next().is_multiple_of(panics) => {
                if value < 2 {
                    Step::Panic(value)
                } else {
                    Step::TakeAndPanic
                }
            }
            0 => Step::Get,
            1..3 => Step::Insert(value),
            3 => Step::Remove,
            4..9 if grows => Step::Add(value),
            4..9 => Step::Take,
            9..14 => {
                let expected = swaps.insert(key, Some(value)).unwrap_or(None);
                Step::Swap(expected, (grows || value > 0).then_some(value))
            }
            _ => Step::Add(1),
        };
        (key, step)
    };
    (0..count).map(step).collect()
}

/// Each batch by one `apply`, and each operation by a call of `Batched`, which runs it alone.
fn same(size: usize, keys: u32, panics: u32, rounds: usize) {
    let mut next = numbers(size as u64);
    let mut oracle = BTreeMap::new();
    let mut map = OrderedMap::new();
    let alone = Batched::builder().recover(|_: &mut OrderedMap<Plain<u32>, u32>| {}).build(OrderedMap::new());
    let mut results = Vec::new();
    for round in 0..rounds {
        let batch = steps(size, keys, panics, round < rounds / 2, &mut next);
        let expected: Vec<_> = batch.iter().map(|(key, step)| on_oracle(&mut oracle, *key, *step)).collect();
        let applied = catch_unwind(AssertUnwindSafe(|| {
            map.apply(batch.iter().map(|(key, step)| map_op(*key, *step)), &mut results);
        }));
        assert_eq!(applied.is_err(), batch.iter().any(|(_, step)| step.panics()));
        assert!(results.iter().copied().eq(expected.iter().map(|result| result.flatten())), "round {round}");
        assert_eq!((map.check(), map.len()), (Ok(()), oracle.len()));
        assert!(map.iter().eq(&oracle));
        for ((key, step), expected) in batch.iter().zip(&expected) {
            let reply = alone.call(map_op(Plain(*key), *step)).map_err(|error| error.kind());
            assert_eq!(reply, expected.ok_or(BatchError::Panicked));
        }
    }
    let alone = alone.into_inner().expect("every panic was recovered");
    assert_eq!(alone.check(), Ok(()));
    assert!(alone.iter().map(|(key, value)| (&key.0, value)).eq(&oracle));
    assert!(oracle.len() > 10 && (oracle.len() as u32) < keys - 10, "{}", oracle.len());
}

#[test]
fn small_batches() {
    same(20, 1_000, 0, 600);
}

#[test]
fn small_batches_with_panics() {
    same(20, 1_000, 30, 600);
}

#[test]
fn large_batches_are_dealt_to_shards() {
    same(9_000, 4_000, 0, 4);
}

#[test]
fn large_batches_with_panics() {
    same(9_000, 4_000, 500, 4);
}

#[test]
fn a_panic_reaches_its_caller_only() {
    for count in [3_u32, 10_000] {
        let map = Batched::builder().recover(|_| {}).build(OrderedMap::<u32, u32>::new());
        let mut chunk = Chunk::new();
        chunk.extend((0..count).map(|key| match key % 3 {
            0 => MapOp::Insert(key, key),
            1 => MapOp::update(key, |_| panic!("update")),
            _ => MapOp::update(key, |value| value.replace(7)),
        }));
        map.call_chunk(&mut chunk).unwrap();
        let wanted = |key| if key % 3 == 1 { Err(BatchError::Panicked) } else { Ok(None) };
        assert!(chunk.replies().eq((0..count).map(wanted)));
        let left = map.into_inner().unwrap();
        assert_eq!(left.check(), Ok(()));
        assert!(
            left.keys_and_values()
                .eq((0..count).filter(|key| key % 3 != 1).map(|key| { (key, if key % 3 == 0 { key } else { 7 }) }))
        );
    }
}

/// Pairs by value, to compare with computed ones.
trait KeysAndValues {
    fn keys_and_values(&self) -> impl Iterator<Item = (u32, u32)>;
}

impl KeysAndValues for OrderedMap<u32, u32> {
    fn keys_and_values(&self) -> impl Iterator<Item = (u32, u32)> {
        self.iter().map(|(key, value)| (*key, *value))
    }
}

#[test]
fn without_a_recovery_the_map_is_poisoned() {
    let map = Batched::new(OrderedMap::<u32, u32>::new());
    assert_eq!(map.call(MapOp::update(1, |_| panic!("update"))).unwrap_err().kind(), BatchError::Panicked);
    assert_eq!(map.call(MapOp::Get(1)).unwrap_err().kind(), BatchError::Poisoned);
}

#[test]
fn words_counted_by_many_threads() {
    const THREADS: usize = 4;
    let counts = Batched::builder().limit(64).build(OrderedMap::<String, usize>::new());
    let text = "the cat and the dog and the bird ".repeat(300);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (counts, text) = (&counts, &text);
            let count = |word: &str| {
                MapOp::update(word.to_owned(), |count| {
                    *count = Some(count.unwrap_or(0) + 1);
                    None
                })
            };
            scope.spawn(move || {
                if thread % 2 == 0 {
                    text.split_whitespace().for_each(|word| _ = counts.call(count(word)).unwrap());
                } else {
                    let mut chunk = Chunk::new();
                    chunk.extend(text.split_whitespace().map(count));
                    counts.call_chunk(&mut chunk).unwrap();
                    assert!(chunk.replies().all(|reply| reply == Ok(None)));
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    let each = THREADS * 300;
    let expected = [("and", 2 * each), ("bird", each), ("cat", each), ("dog", each), ("the", 3 * each)];
    assert!(counts.iter().map(|(word, count)| (word.as_str(), *count)).eq(expected));
}

/// Functions own what they capture: each is dropped once, run or not.
#[test]
fn captured_variables_are_dropped() {
    let (alive, ran) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let mut map = OrderedMap::<u32, Arc<()>>::new();
    let mut results = Vec::new();
    for count in [1, 40, 6_000_u32] {
        let ops = (0..count).map(|key| {
            let (alive, ran) = (alive.clone(), ran.clone());
            MapOp::update(key / 2, move |value| {
                assert!(key != 30, "update");
                ran.fetch_add(1, Relaxed);
                value.replace(alive)
            })
        });
        let applied = catch_unwind(AssertUnwindSafe(|| map.apply(ops, &mut results)));
        assert_eq!(applied.is_err(), count > 30);
        assert_eq!(ran.swap(0, Relaxed), count as usize - usize::from(count > 30));
        assert_eq!(Arc::strong_count(&ran), 1);
    }
    results.clear();
    assert_eq!(Arc::strong_count(&alive), 1 + map.len());
}

/// Threads can read a map at once, although its operations hold functions that they cannot share.
#[test]
fn a_map_can_be_shared() {
    let map = Batched::new(OrderedMap::<u32, u32>::new());
    map.call(MapOp::update(1, |value| value.replace(2))).unwrap();
    assert_eq!(map.read(|map| map.get(&1).copied()), Ok(Some(2)));
}
