//! The standard library's `BTreeMap` is the oracle: the same operations give the same results, and the structure stays valid.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

use proptest::prelude::*;
use windrow_collections::{Key, MapOp, OrderedMap, OrderedSet, Plain, SetOp};

/// Operations in batches; a batch of one also goes through the single calls.
pub(crate) type Batches<K> = Vec<Vec<MapOp<K, u32>>>;

fn op<K: Key + Debug>(key: impl Strategy<Value = K>) -> impl Strategy<Value = MapOp<K, u32>> {
    (key, any::<u32>(), 0..8_u8).prop_map(|(key, value, verb)| match verb {
        0..4 => MapOp::Insert(key, value),
        4..6 => MapOp::Remove(key),
        _ => MapOp::Get(key),
    })
}

pub(crate) fn batches<K: Key + Debug>(key: impl Strategy<Value = K> + Clone) -> impl Strategy<Value = Batches<K>> {
    prop::collection::vec(prop::collection::vec(op(key), 0..200), 0..20)
}

fn key_of<K: Key>(op: &MapOp<K, u32>) -> &K {
    match op {
        MapOp::Get(key) | MapOp::Insert(key, _) | MapOp::Remove(key) | MapOp::Update(key, _) => key,
        MapOp::Query(_) => unreachable!("see `queries`"),
    }
}

fn on_oracle<K: Key>(oracle: &mut BTreeMap<K, u32>, op: &MapOp<K, u32>) -> Option<u32> {
    match op {
        MapOp::Get(key) => oracle.get(key).copied(),
        MapOp::Insert(key, value) => oracle.insert(key.clone(), *value),
        MapOp::Remove(key) => oracle.remove(key),
        MapOp::Update(..) | MapOp::Query(_) => unreachable!("see `updates` and `queries`"),
    }
}

fn single<K: Key>(map: &mut OrderedMap<K, u32>, op: &MapOp<K, u32>) -> Option<u32> {
    match op {
        MapOp::Get(key) => map.get(key).copied(),
        MapOp::Insert(key, value) => map.insert(key.clone(), *value),
        MapOp::Remove(key) => map.remove(key),
        MapOp::Update(..) | MapOp::Query(_) => unreachable!("see `updates` and `queries`"),
    }
}

pub(crate) fn same<K>(batches: Batches<K>) -> Result<(), TestCaseError>
where
    K: Key<Column: Send> + Debug + Send + Sync,
{
    let mut oracle = BTreeMap::new();
    let (mut batched, mut alone) = (OrderedMap::new(), OrderedMap::new());
    let mut results = Vec::new();
    for batch in batches {
        let keys: Vec<_> = batch.iter().map(key_of).cloned().collect();
        let expected: Vec<_> = batch.iter().map(|op| on_oracle(&mut oracle, op)).collect();
        let one_by_one: Vec<_> = batch.iter().map(|op| single(&mut alone, op)).collect();
        batched.apply(batch, &mut results);
        prop_assert_eq!(&results, &expected);
        prop_assert_eq!(one_by_one, expected);
        prop_assert_eq!(batched.check(), Ok(()));
        prop_assert_eq!(alone.check(), Ok(()));
        prop_assert_eq!(batched.len(), oracle.len());
        prop_assert_eq!(batched.first_key_value(), oracle.first_key_value());
        prop_assert_eq!(batched.last_key_value(), oracle.last_key_value());
        same_order(&batched, &oracle, &keys)?;
    }
    Ok(())
}

/// Compares iterators, ranges between keys that are present or not, and lookups of many keys.
fn same_order<K>(map: &OrderedMap<K, u32>, oracle: &BTreeMap<K, u32>, keys: &[K]) -> Result<(), TestCaseError>
where
    K: Key + Debug,
{
    prop_assert!(map.iter().eq(oracle.iter()));
    prop_assert!(map.iter().rev().eq(oracle.iter().rev()));
    let mut values = Vec::new();
    map.get_all(keys, &mut values);
    prop_assert!(values.iter().copied().eq(keys.iter().map(|key| oracle.get(key))));
    for two in keys.windows(2).take(10) {
        let (low, high) = (two.iter().min(), two.iter().max());
        let (Some(low), Some(high)) = (low, high) else { continue };
        prop_assert!(map.range(low..=high).eq(oracle.range(low..=high)));
        prop_assert!(map.range(low..high).rev().eq(oracle.range(low..high).rev()));
        prop_assert!(map.range::<K>(..low).eq(oracle.range::<K, _>(..low)));
        prop_assert!(map.range::<K>(high..).rev().eq(oracle.range::<K, _>(high..).rev()));
        if low < high {
            let within = (Bound::Excluded(low), Bound::Excluded(high));
            prop_assert!(map.range::<K>(within).eq(oracle.range::<K, _>(within)));
        }
        // From both ends, until they meet.
        let (mut ours, mut theirs) = (map.range(low..=high), oracle.range(low..=high));
        while let Some(front) = theirs.next() {
            prop_assert_eq!(ours.next(), Some(front));
            prop_assert_eq!(ours.next_back(), theirs.next_back());
        }
        prop_assert_eq!((ours.next(), ours.next_back()), (None, None));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(24)))]

    #[test]
    fn numbers_of_a_small_range(batches in batches(0..500_u64)) {
        same(batches)?;
    }

    #[test]
    fn any_numbers(batches in batches(any::<u64>())) {
        same(batches)?;
    }

    #[test]
    fn numbers_at_the_end(batches in batches((u64::MAX - 300)..=u64::MAX)) {
        same(batches)?;
    }

    #[test]
    fn bytes(batches in batches(any::<u8>())) {
        same(batches)?;
    }

    #[test]
    fn negative_numbers(batches in batches(-200..200_i64)) {
        same(batches)?;
    }

    #[test]
    fn wide_numbers(batches in batches(any::<i128>())) {
        same(batches)?;
    }

    #[test]
    fn pairs(batches in batches((0..20_u32, 0..20_u32))) {
        same(batches)?;
    }

    #[test]
    fn wide_pairs(batches in batches((0..20_i64, 0..20_u64))) {
        same(batches)?;
    }

    #[test]
    fn strings_that_begin_alike(batches in batches("(same beginning )?[a-c]{0,4}")) {
        same(batches)?;
    }

    #[test]
    fn strings_with_zeros(batches in batches("[\0a]{0,10}")) {
        same(batches)?;
    }

    #[test]
    fn long_byte_strings(batches in batches(prop::array::uniform12(0..3_u8))) {
        same(batches)?;
    }

    #[test]
    fn keys_without_a_prefix(batches in batches((0..300_u32).prop_map(Plain))) {
        same(batches)?;
    }
}

/// Pseudo-random numbers, the same ones each time (xorshift64*, Vigna 2016).
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Large batches, which are dealt to shards, on a map that grows to many shards and shrinks to nothing.
pub(crate) fn large<K>(key: impl Fn(u64) -> K)
where
    K: Key<Column: Send> + Debug + Send + Sync,
{
    let mut oracle = BTreeMap::new();
    let mut map = OrderedMap::new();
    let mut results = Vec::new();
    let mut next = numbers(7);
    for round in 0..12 {
        let mut batch = Vec::new();
        for _ in 0..60_000 {
            let key = key(next() % 200_000);
            let insert = next() % 12 >= round;
            batch.push(if insert { MapOp::Insert(key, next() as u32) } else { MapOp::Remove(key) });
            if next().is_multiple_of(8) {
                batch.push(MapOp::Get(key_of(&batch[batch.len() / 2]).clone()));
            }
        }
        let expected: Vec<_> = batch.iter().map(|op| on_oracle(&mut oracle, op)).collect();
        map.apply(batch, &mut results);
        assert!(results == expected, "round {round}");
        assert_eq!(map.check(), Ok(()));
        assert_eq!(map.len(), oracle.len());
    }
    map.apply(oracle.keys().cloned().map(MapOp::Remove), &mut results);
    assert!(results.iter().copied().eq(oracle.values().copied().map(Some)));
    assert!(map.is_empty() && map.check().is_ok());
}

#[test]
fn large_batches_of_numbers() {
    large(|n| n);
}

#[test]
fn large_batches_of_strings() {
    large(|n| format!("{:08}-{n}", n / 3));
}

#[test]
fn large_batches_of_pairs() {
    large(|n| ((n / 100) as u32, (n % 100) as u32));
}

#[test]
fn in_order_and_in_reverse() {
    const N: u64 = 150_000;
    for size in [1, 100, 50_000] {
        let (mut up, mut down) = (OrderedSet::new(), OrderedSet::new());
        let ascending: Vec<u64> = (0..N).collect();
        let descending: Vec<u64> = (0..N).rev().collect();
        for (one, other) in ascending.chunks(size).zip(descending.chunks(size)) {
            for (set, keys) in [(&mut up, one), (&mut down, other)] {
                let mut new = vec![false; keys.len()];
                set.insert_all(keys, &mut new);
                assert!(new.iter().all(|new| *new));
            }
        }
        for set in [&mut up, &mut down] {
            assert_eq!(set.check(), Ok(()));
            assert_eq!((set.len() as u64, set.first(), set.last()), (N, Some(&0), Some(&(N - 1))));
            let mut found = vec![false; ascending.len()];
            set.remove_all(&ascending[..100_000], &mut found[..100_000]);
            assert!(found[..100_000].iter().all(|found| *found));
            assert_eq!(set.check(), Ok(()));
        }
    }
}

#[test]
fn results_of_a_set() {
    let mut set = OrderedSet::new();
    let mut results = [true; 6];
    let ops = [
        SetOp::Remove(1),
        SetOp::Insert(1),
        SetOp::Insert(1),
        SetOp::Contains(1),
        SetOp::Remove(1),
        SetOp::Contains(1),
    ];
    set.apply(&ops, &mut results);
    assert_eq!(results, [false, true, false, true, true, false]);
}

#[test]
#[should_panic(expected = "one result per operation")]
fn results_must_fit() {
    OrderedSet::new().apply(&[SetOp::Insert(1)], &mut []);
}
