//! Keys whose comparisons, clones and drops panic at any point: no key is lost or duplicated, and the structure stays valid.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use windrow_collections::{Key, MapOp, OrderedMap, Prefix, Prefixed};

/// Counts down the comparisons and clones of a map's keys until one of them panics, on any thread; negative: none does.
pub(crate) struct Fuse(AtomicI64);

impl Fuse {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(-1)))
    }

    pub(crate) fn set(&self, left: Option<u32>) {
        self.0.store(left.map_or(-1, i64::from), Relaxed);
    }

    fn burn(&self) {
        if self.0.load(Relaxed) >= 0 && self.0.fetch_sub(1, Relaxed) == 0 {
            panic!("fuse");
        }
    }
}

/// A key with the fuse of its map, which counts how many such keys are alive. Four keys share a prefix.
pub(crate) struct Fused(pub(crate) u32, pub(crate) Arc<Fuse>);

impl Clone for Fused {
    fn clone(&self) -> Self {
        self.1.burn();
        Fused(self.0, self.1.clone())
    }
}
impl PartialEq for Fused {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Fused {}
impl PartialOrd for Fused {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Fused {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.burn();
        self.0.cmp(&other.0)
    }
}
impl Prefix for Fused {
    type Word = u64;
    fn prefix(&self) -> u64 {
        u64::from(self.0 / 4)
    }
}
impl Key for Fused {
    type Column = Prefixed<Self>;
}

fn contents(map: &OrderedMap<Fused, u32>) -> Vec<(u32, u32)> {
    map.iter().map(|(key, value)| (key.0, *value)).collect()
}

fn numbers(mut seed: u64) -> impl FnMut() -> u32 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    }
}

#[test]
fn single_operations() {
    let (fuse, mut next) = (Fuse::new(), numbers(1));
    let mut panics = 0;
    let mut map = OrderedMap::new();
    let mut oracle = BTreeMap::new();
    for round in 0..20_000_u32 {
        let key = next() % 600;
        // The map grows in the first half and shrinks in the second.
        let insert = (next() % 10 < 7) == (round < 10_000);
        fuse.set(Some(next() % 12));
        let asked = Fused(key, fuse.clone());
        let result =
            catch_unwind(AssertUnwindSafe(|| if insert { map.insert(asked, round) } else { map.remove(&asked) }));
        fuse.set(None);
        match result {
            Ok(old) => {
                let expected = if insert { oracle.insert(key, round) } else { oracle.remove(&key) };
                assert_eq!(old, expected);
            }
            Err(_) => panics += 1,
        }
        if round % 16 == 0 {
            assert_eq!(map.check(), Ok(()));
        }
        assert_eq!(map.len(), oracle.len());
    }
    assert!(panics > 500, "{panics}");
    assert_eq!(contents(&map), oracle.into_iter().collect::<Vec<_>>());
    drop(map);
    assert_eq!(Arc::strong_count(&fuse), 1);
}

/// When a panic ends a batch, the operations before it are done, and no others.
#[test]
fn groups() {
    let (fuse, mut next) = (Fuse::new(), numbers(2));
    let mut panics = 0;
    let mut map = OrderedMap::new();
    let mut oracle = BTreeMap::new();
    let mut results = Vec::new();
    let rounds = windrow_testkit::cases(1_000);
    for round in 0..rounds {
        let ops: Vec<(u32, bool)> =
            (0..40).map(|_| (next() % 3000, (next() % 10 < 7) == (round < rounds / 2))).collect();
        let batch: Vec<_> = ops
            .iter()
            .map(|(key, insert)| {
                let key = Fused(*key, fuse.clone());
                if *insert { MapOp::Insert(key, round) } else { MapOp::Remove(key) }
            })
            .collect();
        fuse.set((round % 4 > 0).then(|| next() % 350));
        let result = catch_unwind(AssertUnwindSafe(|| map.apply(batch, &mut results)));
        fuse.set(None);
        panics += u32::from(result.is_err());
        let mut done = ops.iter();
        // The map is what it was after one of the operations, whichever.
        let now = contents(&map);
        assert_eq!(map.check(), Ok(()));
        loop {
            if now.len() == oracle.len() && now.iter().copied().eq(oracle.iter().map(|(key, value)| (*key, *value))) {
                break;
            }
            let (key, insert) = done.next().expect("the map is in a state of the oracle");
            if *insert {
                oracle.insert(*key, round)
            } else {
                oracle.remove(key)
            };
        }
        if result.is_ok() {
            for (key, insert) in done {
                if *insert {
                    oracle.insert(*key, round)
                } else {
                    oracle.remove(key)
                };
            }
            assert_eq!(now, oracle.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
        }
    }
    assert!(panics > 100, "{panics}");
    drop((map, results));
    assert_eq!(Arc::strong_count(&fuse), 1);
}

/// A large batch visits its keys in no particular order. After a panic each key is as before or as after, and the structure is valid.
#[test]
fn large_batches() {
    const KEYS: u32 = 30_000;
    let (fuse, mut next) = (Fuse::new(), numbers(3));
    let mut map: OrderedMap<Fused, u32> = (0..KEYS).map(|key| (Fused(key * 2, fuse.clone()), 0)).collect();
    let mut results = Vec::new();
    let mut panics = 0;
    for round in 1..=windrow_testkit::cases(12) {
        let before: BTreeMap<_, _> = contents(&map).into_iter().collect();
        let mut after = before.clone();
        let mut batch = Vec::new();
        for _ in 0..4_000 {
            let key = next() % (KEYS * 2);
            // One operation per key, so that a key has two states only.
            if after.get(&key) != before.get(&key) {
                continue;
            }
            let fused = Fused(key, fuse.clone());
            if next() % 3 == 0 && before.contains_key(&key) {
                after.remove(&key);
                batch.push(MapOp::Remove(fused));
            } else {
                after.insert(key, round);
                batch.push(MapOp::Insert(fused, round));
            }
        }
        // Any thread that runs shards may burn the fuse, so it does not matter which threads run many.
        fuse.set((round % 6 > 0).then(|| next() % 60_000));
        let result = catch_unwind(AssertUnwindSafe(|| map.apply(batch, &mut results)));
        fuse.set(None);
        panics += u32::from(result.is_err());
        assert_eq!(map.check(), Ok(()));
        let now: BTreeMap<_, _> = contents(&map).into_iter().collect();
        if result.is_ok() {
            assert!(now == after);
        }
        for key in 0..KEYS * 2 {
            let value = now.get(&key);
            assert!(value == before.get(&key) || value == after.get(&key), "{key}");
        }
    }
    assert!(panics > 1, "{panics}");
    drop((map, results));
    assert_eq!(Arc::strong_count(&fuse), 1);
}

/// Calls that move many keys, or look one up for later.
#[test]
fn whole_maps() {
    let (fuse, mut next) = (Fuse::new(), numbers(4));
    let mut panics = 0;
    let mut map = OrderedMap::new();
    for round in 0..3_000_u32 {
        if map.len() < 300 {
            map.extend((0..700).map(|_| (Fused(next() % 3_000, fuse.clone()), round)));
        }
        let before = contents(&map);
        let asked = Fused(next() % 3_000, fuse.clone());
        let mut other = OrderedMap::new();
        if round % 4 == 1 {
            other.extend((0..10).map(|_| (Fused(next() % 3_000, fuse.clone()), round)));
        }
        let others = other.len();
        fuse.set(Some(next() % 24));
        let result = catch_unwind(AssertUnwindSafe(|| match round % 4 {
            0 => {
                let mut tail = map.split_off(&asked);
                // A panic of `append` drops the tail.
                fuse.set(None);
                assert_eq!(tail.check(), Ok(()));
                if next() % 8 > 0 {
                    map.append(&mut tail);
                }
            }
            1 => map.append(&mut other),
            2 => *map.entry(asked).or_insert(round) = round,
            _ => _ = map.first_entry().map(|entry| entry.remove_entry()),
        }));
        fuse.set(None);
        panics += u32::from(result.is_err());
        assert_eq!((map.check(), other.check()), (Ok(()), Ok(())));
        let after = contents(&map);
        match (round % 4, result.is_ok()) {
            (0, true) => assert!(before.starts_with(&after)),
            (1, _) => assert!(after.len() >= before.len() && after.len() <= before.len() + others),
            (2, true) => assert!(after.len() <= before.len() + 1),
            (3, true) => assert_eq!(after, before[1..]),
            _ => assert_eq!(after, before),
        }
    }
    assert!(panics > 300, "{panics}");
    drop(map);
    assert_eq!(Arc::strong_count(&fuse), 1);
}

thread_local! {
    static DROPS: Cell<bool> = const { Cell::new(false) };
}

/// A key whose drop panics on request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Dropped(u32);

impl Drop for Dropped {
    fn drop(&mut self) {
        if DROPS.replace(false) {
            panic!("drop");
        }
    }
}
impl Prefix for Dropped {
    type Word = u64;
    fn prefix(&self) -> u64 {
        self.0.into()
    }
}
impl Key for Dropped {
    type Column = Prefixed<Self>;
}

#[test]
fn drops() {
    let mut map: OrderedMap<Dropped, ()> = (0..2_000).map(|key| (Dropped(key), ())).collect();
    let mut panics = 0;
    for key in 0..1_900 {
        let asked = Dropped(key);
        DROPS.set(key % 3 == 0);
        panics += u32::from(catch_unwind(AssertUnwindSafe(|| map.remove(&asked))).is_err());
        DROPS.set(false);
        assert_eq!(map.len() as u32, 1_999 - key);
        assert_eq!(map.check(), Ok(()));
    }
    assert!(panics > 500, "{panics}");
    DROPS.set(true);
    assert!(catch_unwind(AssertUnwindSafe(|| map.clear())).is_err());
    assert!(map.is_empty() && map.check().is_ok());
}

/// A key and value that are counted, and whose n-th drop panics.
struct Counts {
    alive: AtomicI64,
    drops: AtomicI64,
}

struct Counted(u32, Arc<Counts>);

impl Counted {
    fn new(number: u32, counts: &Arc<Counts>) -> Self {
        counts.alive.fetch_add(1, Relaxed);
        Counted(number, counts.clone())
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.0, &self.1)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.alive.fetch_sub(1, Relaxed);
        if self.1.drops.fetch_sub(1, Relaxed) == 0 {
            std::panic::resume_unwind(Box::new("drop"));
        }
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Counted {}
impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl Prefix for Counted {
    type Word = u64;
    fn prefix(&self) -> u64 {
        u64::from(self.0 / 4)
    }
}
impl Key for Counted {
    type Column = Prefixed<Self>;
}

#[test]
fn a_panic_while_a_map_is_consumed_leaks_nothing() {
    type Map = OrderedMap<Counted, Counted>;
    type Consume = fn(Map, Map);
    let consume: [(&str, Consume); 17] = [
        ("into_iter", |map, _| drop(map.into_iter())),
        ("partly", |map, _| drop(map.into_iter().skip(70).step_by(3).take(40).collect::<Vec<_>>())),
        ("both ends", |map, _| {
            let mut all = map.into_iter();
            while let (Some(_), Some(_)) = (all.next(), all.next_back()) {}
        }),
        ("into_values", |map, _| map.into_values().for_each(drop)),
        ("into_keys", |map, _| map.into_keys().for_each(drop)),
        ("insert", |mut map, other| {
            let keys: Vec<_> = map.keys().cloned().collect();
            keys.into_iter().zip(other.into_values()).for_each(|(key, value)| drop(map.insert(key, value)));
        }),
        ("remove", |mut map, _| {
            let keys: Vec<_> = map.keys().cloned().collect();
            keys.iter().for_each(|key| drop(map.remove(key)));
        }),
        ("entries", |mut map, _| while map.first_entry().map(|entry| entry.remove()).is_some() {}),
        ("updates", |mut map, other| {
            let keys: Vec<_> = map.keys().chain(other.keys()).cloned().collect();
            let mut results = Vec::new();
            map.apply(keys.into_iter().map(|key| MapOp::update(key, |value| value.take())), &mut results);
        }),
        ("split_off", |mut map, _| {
            let key = map.keys().nth(77).cloned().unwrap();
            drop(map.split_off(&key));
        }),
        ("append", |mut map, mut other| map.append(&mut other)),
        ("clear", |mut map, _| map.clear()),
        ("retain", |mut map, _| map.retain(|key, _| key.0.is_multiple_of(3))),
        ("range_mut", |mut map, other| {
            let from = other.keys().nth(50).cloned().unwrap();
            map.range_mut(from..).zip(other.into_values()).for_each(|((_, value), new)| *value = new);
        }),
        ("queries", |mut map, other| {
            let keys = other.into_keys().flat_map(|key| {
                let query = MapOp::query(|map: &Map| map.iter().nth(7).map(|(_, value)| value.clone()));
                [MapOp::Remove(key), query.0]
            });
            map.apply(keys, &mut Vec::new());
        }),
        ("from_sorted, which fails", |map, other| drop(Map::from_sorted(map.into_iter().chain(other)))),
        ("extend", |mut map, other| map.extend(other)),
    ];
    let mut left = Vec::new();
    for (name, consume) in consume {
        // There are 800 keys and values, and some clones.
        for at in 0..820 {
            let counts = Arc::new(Counts { alive: AtomicI64::new(0), drops: AtomicI64::new(-1) });
            let map = |from: u32| -> Map {
                (0..200).map(|key| (Counted::new(2 * key + from, &counts), Counted::new(key, &counts))).collect()
            };
            let (map, other) = (map(0), map(1));
            counts.drops.store(at, Relaxed);
            let consumed = catch_unwind(AssertUnwindSafe(|| consume(map, other)));
            counts.drops.store(-1, Relaxed);
            if counts.alive.load(Relaxed) != 0 {
                left.push((name, at, consumed.is_err(), counts.alive.load(Relaxed)));
            }
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

/// Each comparison and each clone of a call panics once.
#[test]
fn a_panic_of_a_comparison_or_a_clone_leaks_nothing() {
    type Map = OrderedMap<Fused, Fused>;
    type Call = fn(Map, Map, Map);
    let calls: [(&str, Call); 10] = [
        ("append among", |mut map, mut other, _| map.append(&mut other)),
        ("append above", |mut map, _, mut above| map.append(&mut above)),
        ("append below", |map, _, mut above| above.append(&mut { map })),
        ("split_off", |mut map, other, _| {
            let key = other.keys().nth(40).unwrap();
            drop(map.split_off(key));
        }),
        ("from_sorted", |map, _, above| drop(Map::from_sorted(map.into_iter().chain(above)))),
        ("clone", |map, _, _| drop(map.clone().into_iter().next())),
        ("retain", |mut map, other, _| {
            let key = other.keys().nth(40).unwrap();
            map.retain(|own, _| own < key);
        }),
        ("range", |mut map, other, _| {
            let (from, to) = (other.keys().nth(20).unwrap(), other.keys().nth(40).unwrap());
            let values: Vec<_> = map.range(from..=to).map(|(_, value)| value.clone()).collect();
            map.range_mut(from..to).zip(values).for_each(|((_, value), new)| *value = new);
        }),
        ("a batch", |mut map, other, above| {
            let ops = other.into_iter().zip(above).flat_map(|((key, value), (removed, _))| {
                let from = key.clone();
                let query = MapOp::query(move |map: &Map| map.range(&from..).next().map(|(key, _)| key.clone()));
                [MapOp::Insert(key, value), query.0, MapOp::Remove(removed)]
            });
            map.apply(ops, &mut Vec::new());
        }),
        ("extend", |mut map, other, above| map.extend(above.into_iter().chain(other))),
    ];
    for (name, call) in calls {
        for at in 0.. {
            let fuse = Fuse::new();
            let fused = |number: u32| Fused(number, fuse.clone());
            let map = |from: u32| -> Map { (0..90).map(|key| (fused(2 * key + from), fused(key))).collect() };
            let (map, other, above) = (map(0), map(1), map(1_000));
            fuse.set(Some(at));
            let called = catch_unwind(AssertUnwindSafe(|| call(map, other, above)));
            assert_eq!(Arc::strong_count(&fuse), 1, "{name}, {at}");
            if called.is_ok() {
                assert!(at > 0, "{name}");
                break;
            }
        }
    }
}
