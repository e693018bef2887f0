//! The skip list compared with the standard library's `BTreeSet`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Bound;

use proptest::prelude::*;
use windrow_collections::{Key, Plain, SetOp, SkipList};

fn batches<K: Debug + Clone>(key: impl Strategy<Value = K>) -> impl Strategy<Value = Vec<Vec<SetOp<K>>>> {
    let op = (key, 0..8_u8).prop_map(|(key, verb)| match verb {
        0..4 => SetOp::Insert(key),
        4..6 => SetOp::Remove(key),
        _ => SetOp::Contains(key),
    });
    prop::collection::vec(prop::collection::vec(op, 0..150), 0..12)
}

fn on_oracle<K: Ord + Clone>(oracle: &mut BTreeSet<K>, op: &SetOp<K>) -> bool {
    match op {
        SetOp::Contains(key) => oracle.contains(key),
        SetOp::Insert(key) => oracle.insert(key.clone()),
        SetOp::Remove(key) => oracle.remove(key),
        SetOp::Query(never) => match *never {},
    }
}

fn single<K: Key>(list: &mut SkipList<K>, op: &SetOp<K>) -> bool {
    match op {
        SetOp::Contains(key) => list.contains(key),
        SetOp::Insert(key) => list.insert(key.clone()),
        SetOp::Remove(key) => list.remove(key),
        SetOp::Query(never) => match *never {},
    }
}

/// The keys above `low`, up to `high`.
fn between<'s, K: Ord>(set: &'s BTreeSet<K>, low: &K, high: &K, with_high: bool) -> Vec<&'s K> {
    set.iter().filter(|key| *key > low && (*key < high || with_high && *key == high)).collect()
}

fn same<K: Key + Debug>(batches: Vec<Vec<SetOp<K>>>) -> Result<(), TestCaseError> {
    let mut oracle = BTreeSet::new();
    let (mut batched, mut alone) = (SkipList::new(), SkipList::new());
    for batch in batches {
        let expected: Vec<_> = batch.iter().map(|op| on_oracle(&mut oracle, op)).collect();
        let one_by_one: Vec<_> = batch.iter().map(|op| single(&mut alone, op)).collect();
        let mut results = vec![false; batch.len()];
        batched.apply(&batch, &mut results);
        prop_assert_eq!(&results, &expected);
        prop_assert_eq!(one_by_one, expected);
        prop_assert_eq!(batched.check(), Ok(()));
        prop_assert_eq!(alone.check(), Ok(()));
        prop_assert!(batched.iter().eq(&oracle));
        prop_assert_eq!((batched.first(), batched.last()), (oracle.first(), oracle.last()));
        for two in batch.windows(2).take(8) {
            let [low, high] = [&two[0], &two[1]].map(|op| match op {
                SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key) => key,
                SetOp::Query(never) => match *never {},
            });
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(batched.range(low..=high).eq(oracle.range(low..=high)));
            prop_assert!(batched.range(low..high).eq(oracle.range(low..high)));
            prop_assert!(
                batched.range((Bound::Excluded(low), Bound::Included(high))).eq(between(&oracle, low, high, true))
            );
            prop_assert!(
                batched.range((Bound::Excluded(low), Bound::Excluded(high))).eq(between(&oracle, low, high, false))
            );
            prop_assert!(batched.range((Bound::Excluded(low), Bound::Excluded(low))).eq(&BTreeSet::<K>::new()));
            prop_assert!(batched.range::<K>(high..).eq(oracle.range::<K, _>(high..)));
            prop_assert!(batched.range::<K>(..=low).eq(oracle.range::<K, _>(..=low)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn numbers_of_a_small_range(batches in batches(0..300_u64)) {
        same(batches)?;
    }

    #[test]
    fn numbers_at_the_end(batches in batches((u64::MAX - 100)..=u64::MAX)) {
        same(batches)?;
    }

    #[test]
    fn negative_numbers(batches in batches(any::<i16>())) {
        same(batches)?;
    }

    #[test]
    fn strings(batches in batches("(same beginning )?[a-c]{0,4}")) {
        same(batches)?;
    }

    #[test]
    fn keys_without_a_prefix(batches in batches((0..200_u32).prop_map(Plain))) {
        same(batches)?;
    }
}

#[test]
fn large_batches() {
    let mut oracle = BTreeSet::new();
    let mut list = SkipList::new();
    let mut seed = 3_u64;
    for round in 0..6 {
        let batch: Vec<_> = (0..20_000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let key = format!("{:07}", (seed >> 40) % 30_000);
                match (seed >> 33) % 7 {
                    0 => SetOp::Contains(key),
                    verb if verb > round => SetOp::Insert(key),
                    _ => SetOp::Remove(key),
                }
            })
            .collect();
        let expected: Vec<_> = batch.iter().map(|op| on_oracle(&mut oracle, op)).collect();
        let mut results = vec![false; batch.len()];
        list.apply(&batch, &mut results);
        assert!(results == expected);
        assert_eq!(list.check(), Ok(()));
        assert!(list.iter().eq(&oracle));
    }
}

#[test]
fn in_order_and_in_reverse() {
    let keys: Vec<u32> = (0..30_000).collect();
    let reverse: Vec<u32> = keys.iter().rev().copied().collect();
    for (order, size) in [(&keys, 30_000), (&keys, 100), (&reverse, 30_000), (&reverse, 100)] {
        let mut list = SkipList::new();
        for keys in order.chunks(size) {
            let mut new = vec![false; keys.len()];
            list.insert_all(keys, &mut new);
            assert!(new.iter().all(|new| *new));
        }
        assert_eq!(list.check(), Ok(()));
        assert!(list.iter().eq(&keys));
        let mut found = vec![false; keys.len()];
        list.remove_all(order, &mut found);
        assert!(found.iter().all(|found| *found) && list.is_empty());
        assert_eq!(list.check(), Ok(()));
    }
}
