//! The surface of `BTreeMap` and `BTreeSet`: random sequences of calls give the same results, and the structure stays valid.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use windrow_collections::{Entry, Key, NotAscending, OrderedMap, OrderedSet, Plain};

fn numbers(mut seed: u64) -> impl FnMut() -> u32 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    }
}

/// One call on both maps. `key` makes a key of a number below `keys`.
fn call<K: Key + Debug + Hash>(
    map: &mut OrderedMap<K, u32>,
    oracle: &mut BTreeMap<K, u32>,
    keys: u32,
    key: &impl Fn(u32) -> K,
    next: &mut impl FnMut() -> u32,
) {
    let asked = key(next() % keys);
    let value = next();
    match next() % 24 {
        0..4 => assert_eq!(map.insert(asked.clone(), value), oracle.insert(asked, value)),
        4 => assert_eq!(map.entry(asked.clone()).or_insert(value), oracle.entry(asked).or_insert(value)),
        5 => {
            let (mine, theirs) = (map.entry(asked.clone()), oracle.entry(asked));
            assert_eq!(mine.key(), theirs.key());
            *mine.and_modify(|value| *value ^= 1).or_default() += 2;
            *theirs.and_modify(|value| *value ^= 1).or_default() += 2;
        }
        6 => match (map.entry(asked.clone()), oracle.entry(asked)) {
            (Entry::Occupied(mut mine), btree_map::Entry::Occupied(mut theirs)) => {
                assert_eq!((mine.key(), mine.get()), (theirs.key(), theirs.get()));
                assert_eq!(mine.insert(value), theirs.insert(value));
                *mine.get_mut() += 1;
                *theirs.get_mut() += 1;
                if value.is_multiple_of(2) {
                    assert_eq!(mine.remove_entry(), theirs.remove_entry());
                } else {
                    assert_eq!(mine.into_mut(), theirs.into_mut());
                }
            }
            (Entry::Vacant(mine), btree_map::Entry::Vacant(theirs)) => {
                if value.is_multiple_of(2) {
                    let mine = mine.insert_entry(value);
                    assert_eq!((mine.key(), mine.get()), (theirs.key(), &value));
                    theirs.insert(value);
                } else {
                    assert_eq!(mine.into_key(), theirs.into_key());
                }
            }
            (mine, theirs) => panic!("{mine:?}, {theirs:?}"),
        },
        7 => {
            let made = *map.get_or_insert_with(asked.clone(), || value);
            assert_eq!(made, *oracle.entry(asked.clone()).or_insert_with_key(|_| value));
            assert_eq!(map[&asked], oracle[&asked]);
        }
        8 => assert_eq!(map.pop_first(), oracle.pop_first()),
        9 => assert_eq!(map.pop_last(), oracle.pop_last()),
        10 => {
            let (mine, theirs) = (map.first_entry(), oracle.first_entry());
            assert_eq!(mine.map(|entry| entry.remove()), theirs.map(|entry| entry.remove()));
        }
        11 => {
            let (mine, theirs) = (map.last_entry(), oracle.last_entry());
            assert_eq!(mine.map(|entry| entry.remove()), theirs.map(|entry| entry.remove()));
        }
        12..15 => assert_eq!(map.remove(&asked), oracle.remove(&asked)),
        // Most of the keys, few of them, and a run of neighbours.
        15 => {
            let divisor = value % 5 + 2;
            let mut seen = Vec::new();
            map.retain(|key, value| {
                seen.push(key.clone());
                *value ^= 3;
                *value % divisor > 0
            });
            assert!(seen.iter().eq(oracle.keys()));
            oracle.retain(|_, value| {
                *value ^= 3;
                *value % divisor > 0
            });
        }
        16 if value.is_multiple_of(4) => {
            map.retain(|key, _| *key < asked);
            oracle.retain(|key, _| *key < asked);
        }
        16 | 17 => {
            map.iter_mut().for_each(|(_, value)| *value = value.wrapping_mul(3));
            map.values_mut().rev().take(10).for_each(|value| *value += 1);
            oracle.values_mut().for_each(|value| *value = value.wrapping_mul(3));
            oracle.values_mut().rev().take(10).for_each(|value| *value += 1);
        }
        18 | 19 => {
            let other = key(next() % keys);
            let (low, high) = if asked < other { (asked, other) } else { (other, asked) };
            for (_, value) in map.range_mut(&low..&high) {
                *value = value.wrapping_add(7);
            }
            for (_, value) in oracle.range_mut(&low..&high) {
                *value = value.wrapping_add(7);
            }
            meet(map.range_mut(&low..=&high), oracle.range_mut(&low..=&high));
            meet(map.range_mut::<K>(&low..).rev(), oracle.range_mut::<K, _>(&low..).rev());
            meet(map.range(..&low), oracle.range(..&low));
        }
        20 => {
            let (mut tail, mut theirs) = (map.split_off(&asked), oracle.split_off(&asked));
            assert_eq!((tail.check(), map.check()), (Ok(()), Ok(())));
            assert!(tail.iter().eq(&theirs) && map.iter().eq(&*oracle));
            match value % 3 {
                0 => {}
                // Before or behind.
                1 => {
                    map.append(&mut tail);
                    oracle.append(&mut theirs);
                }
                _ => {
                    tail.append(map);
                    theirs.append(oracle);
                    std::mem::swap(map, &mut tail);
                    std::mem::swap(oracle, &mut theirs);
                }
            }
            assert!(tail.is_empty() || value.is_multiple_of(3));
        }
        21 => {
            // Among the keys.
            let items: Vec<_> = (0..value % 400).map(|_| (key(next() % keys), next())).collect();
            map.append(&mut items.iter().cloned().collect());
            oracle.append(&mut items.into_iter().collect());
        }
        22 => {
            assert!(map.clone().into_iter().eq(oracle.clone()));
            assert!(map.clone().into_keys().rev().eq(oracle.clone().into_keys().rev()));
            meet(map.clone().into_iter(), oracle.clone().into_iter());
            assert!(map.clone().into_values().eq(oracle.clone().into_values()));
            *map = OrderedMap::from_sorted(oracle.clone()).expect("the oracle is sorted");
        }
        _ => {
            assert!(map.keys().eq(oracle.keys()) && map.values().eq(oracle.values()));
            assert_eq!((map.iter().len(), map.keys().rev().len()), (oracle.len(), oracle.len()));
            meet(map.iter(), oracle.iter());
            let again: OrderedMap<K, u32> = oracle.clone().into_iter().collect();
            let hash = |map: &OrderedMap<K, u32>| {
                let mut hasher = DefaultHasher::new();
                map.hash(&mut hasher);
                hasher.finish()
            };
            assert_eq!((hash(map), &*map, (*map).cmp(&again)), (hash(&again), &again, std::cmp::Ordering::Equal));
        }
    }
}

/// From both ends, in turn.
fn meet<T: PartialEq + Debug>(
    mut mine: impl DoubleEndedIterator<Item = T>,
    mut theirs: impl DoubleEndedIterator<Item = T>,
) {
    while let Some(front) = theirs.next() {
        assert_eq!(mine.next(), Some(front));
        assert_eq!(mine.next_back(), theirs.next_back());
    }
    assert!(mine.next().is_none() && mine.next_back().is_none() && mine.next().is_none());
}

pub(crate) fn calls<K: Key + Debug + Hash>(keys: u32, full: usize, key: impl Fn(u32) -> K) {
    let mut next = numbers(u64::from(keys));
    let (mut map, mut oracle) = (OrderedMap::new(), BTreeMap::new());
    for round in 0..1_500 {
        if oracle.len() < full / 4 {
            let items: Vec<_> = (0..full).map(|_| (key(next() % keys), next())).collect();
            map.extend(items.iter().cloned());
            oracle.extend(items);
        }
        call(&mut map, &mut oracle, keys, &key, &mut next);
        assert_eq!((map.check(), map.len()), (Ok(()), oracle.len()), "round {round}");
        assert!(map.iter().eq(&oracle), "round {round}");
    }
}

#[test]
fn calls_on_numbers() {
    calls(4_000, 1_200, u64::from);
}

#[test]
fn calls_on_a_few_numbers() {
    calls(90, 60, |number| number as u8);
}

#[test]
fn calls_on_strings() {
    calls(4_000, 800, |number| format!("the same beginning {number}"));
}

#[test]
fn calls_on_keys_without_a_prefix() {
    calls(4_000, 800, Plain);
}

/// Many shards.
#[test]
fn large_maps() {
    const KEYS: u64 = 400_000;
    let ascending = || (0..KEYS).map(|key| (key * 2, key));
    let mut map: OrderedMap<u64, u64> = ascending().collect();
    assert_eq!(map.check(), Ok(()));
    let sorted = OrderedMap::from_sorted(ascending()).expect("ascending");
    assert!(sorted.check().is_ok() && sorted == map);

    let mut parts = Vec::new();
    for at in [700_000, 650_001, 300_000, 299_999, 62, 1] {
        parts.push(map.split_off(&at));
        assert_eq!((map.check(), parts[parts.len() - 1].check()), (Ok(()), Ok(())));
        assert!(map.last_key_value().is_none_or(|(last, _)| *last < at));
    }
    for mut part in parts.into_iter().rev() {
        map.append(&mut part);
        assert!(part.is_empty() && part.check().is_ok());
    }
    assert!(map.check().is_ok() && map.iter().map(|(key, value)| (*key, *value)).eq(ascending()));

    // In front, behind and between.
    let mut other = map.split_off(&400_000);
    other.append(&mut map);
    other.append(&mut [(7, 7), (8, 8), (900_001, 0)].into());
    assert_eq!((other.check(), other.len() as u64, other[&7], other[&8]), (Ok(()), KEYS + 2, 7, 8));

    other.values_mut().for_each(|value| *value += 1);
    other.retain(|key, _| key.is_multiple_of(1_000) || *key > 790_000);
    assert_eq!((other.check(), other[&8_000]), (Ok(()), 4_001));
    assert!(
        other.keys().eq((0..800)
            .map(|key| key * 1_000)
            .chain(790_000..900_002_u64)
            .filter(|key| {
                let is_there = key.is_multiple_of(2) && *key < 2 * KEYS || *key == 900_001;
                is_there && (key.is_multiple_of(1_000) || *key > 790_000)
            })
            .collect::<BTreeSet<_>>()
            .iter())
    );
    while let (Some(first), Some(last)) = (other.pop_first(), other.pop_last()) {
        assert!(first.0 < last.0);
    }
    assert!(other.is_empty() && other.check().is_ok());
}

#[test]
fn unsorted_keys_are_refused() {
    assert_eq!(OrderedSet::from_sorted([1, 2, 4, 3, 5]), Err(NotAscending { at: 3 }));
    assert_eq!(OrderedSet::from_sorted(["same start a", "same start a"]), Err(NotAscending { at: 1 }));
    assert_eq!(OrderedSet::<u8>::from_sorted([]).map(|set| set.len()), Ok(0));
    assert_eq!(NotAscending { at: 3 }.to_string(), "the key at index 3 is not greater than the one before it");
}

#[test]
fn sets() {
    let mut next = numbers(9);
    let (mut set, mut oracle) = (OrderedSet::new(), BTreeSet::new());
    for _ in 0..3_000 {
        let key = next() % 3_000;
        match next() % 10 {
            0..5 => assert_eq!(set.insert(key), oracle.insert(key)),
            5 => {
                assert_eq!(*set.get_or_insert_with(&key, |key| *key), key);
                oracle.insert(key);
            }
            6 => assert_eq!(set.take(&key), oracle.take(&key)),
            7 => assert_eq!((set.pop_first(), set.pop_last()), (oracle.pop_first(), oracle.pop_last())),
            8 if key < 300 => {
                set.retain(|other| other % 3 != key % 3);
                oracle.retain(|other| other % 3 != key % 3);
            }
            _ => {
                let (mut tail, mut theirs) = (set.split_off(&key), oracle.split_off(&key));
                assert!(tail.iter().eq(&theirs) && tail.clone().into_iter().rev().eq(theirs.iter().rev().copied()));
                tail.extend(&[1, 2]);
                theirs.extend(&[1, 2]);
                set.append(&mut tail);
                oracle.append(&mut theirs);
            }
        }
        assert_eq!((set.check(), set.len(), set.iter().len()), (Ok(()), oracle.len(), oracle.len()));
    }
    assert!(set.iter().eq(&oracle) && set == oracle.iter().copied().collect() && set < [u32::MAX].into());
}

#[test]
#[should_panic(expected = "not equal to the one that was looked up")]
fn another_key_is_made() {
    OrderedSet::<u32>::new().get_or_insert_with(&1, |_| 2);
}

#[test]
#[should_panic(expected = "no entry found for key")]
fn an_absent_key_is_indexed() {
    let _value = OrderedMap::from([(1, 2)])[&3];
}

/// Closures that panic at each of their calls.
#[test]
fn closures_that_panic() {
    const KEYS: u32 = 700;
    let full: BTreeMap<u32, u32> = (0..KEYS).map(|key| (key, key)).collect();
    for stop in (0..KEYS).step_by(23) {
        for divisor in [1, 2, 60] {
            let mut map: OrderedMap<u32, u32> = full.clone().into_iter().collect();
            let kept = |key: u32| key.is_multiple_of(divisor) && divisor > 1;
            let retained = catch_unwind(AssertUnwindSafe(|| {
                map.retain(|key, value| {
                    *value += 1;
                    assert!(*key != stop, "retain");
                    kept(*key)
                });
            }));
            assert!(retained.is_err() && map.check().is_ok());
            let expected = full.iter().map(|(key, value)| (*key, *value + u32::from(*key <= stop)));
            assert!(map.into_iter().eq(expected.filter(|(key, _)| *key >= stop || kept(*key))));
        }
    }

    let mut map: OrderedMap<u32, u32> = full.clone().into_iter().collect();
    let mut panics = |f: &mut dyn FnMut(&mut OrderedMap<u32, u32>)| {
        assert!(catch_unwind(AssertUnwindSafe(|| f(&mut map))).is_err());
        assert_eq!(map.check(), Ok(()));
    };
    panics(&mut |map| _ = map.entry(1_000).or_insert_with(|| panic!("make")));
    panics(&mut |map| _ = map.entry(1_000).or_insert_with_key(|_| panic!("make")));
    panics(&mut |map| _ = map.get_or_insert_with(1_000, || panic!("make")));
    panics(&mut |map| {
        _ = map.entry(7).and_modify(|value| {
            *value = 8;
            panic!("change")
        });
    });
    panics(&mut |map| map.iter_mut().for_each(|(key, value)| if *key == 9 { panic!("item") } else { *value = 0 }));
    panics(&mut |map| map.extend((1_000..).map(|key| (key, 100 / (1_003 - key)))));
    let expected = full.into_iter().map(|(key, value)| (key, if key < 9 { 0 } else { value }));
    assert!(map.into_iter().eq(expected.chain([(1_000, 33), (1_001, 50), (1_002, 100)])));

    let mut set: OrderedSet<u32> = (0..100).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| _ = set.get_or_insert_with(&200, |_| panic!("make")))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| _ = OrderedSet::from_sorted((0..9).map(|n| 100 / (5 - n))))).is_err());
    assert_eq!((set.check(), set.len()), (Ok(()), 100));
}
