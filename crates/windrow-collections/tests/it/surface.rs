//! The single operations of the collections, compared with those of the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use proptest::prelude::*;
use windrow_collections::{Key, OrderedMap, OrderedSet, SkipList};

fn asked<K: Key<Column: Send + Sync> + Debug + Send + Sync>(keys: Vec<K>, others: Vec<K>) -> Result<(), TestCaseError> {
    let oracle: BTreeSet<K> = keys.iter().cloned().collect();
    let mut set: OrderedSet<K> = keys.iter().cloned().collect();
    let mut list = SkipList::new();
    keys.iter().for_each(|key| _ = list.insert(key.clone()));

    let asked: Vec<K> = keys.iter().chain(&others).cloned().collect();
    let mut found = vec![false; asked.len()];
    set.contains_all(&asked, &mut found);
    prop_assert!(asked.iter().map(|key| oracle.contains(key)).eq(found));
    prop_assert!(asked.iter().all(|key| set.get(key) == oracle.get(key)));
    for two in asked.windows(2).take(20) {
        let (low, high) = (two[0].clone().min(two[1].clone()), two[0].clone().max(two[1].clone()));
        prop_assert!(set.range(&low..&high).eq(oracle.range(&low..&high)));
        prop_assert!(set.range(&low..=&high).eq(oracle.range(&low..=&high)));
        prop_assert!(set.range::<K>(&high..).eq(oracle.range::<K, _>(&high..)));
        prop_assert!(set.range::<K>(..&low).eq(oracle.range::<K, _>(..&low)));
    }

    let mut values: BTreeMap<K, usize> = keys.iter().cloned().zip(0..).collect();
    let mut map: OrderedMap<K, usize> = keys.iter().cloned().zip(0..).collect();
    for key in &asked {
        let (mine, theirs) = (map.get_mut(key), values.get_mut(key));
        prop_assert_eq!(mine.as_deref(), theirs.as_deref());
        if let (Some(mine), Some(theirs)) = (mine, theirs) {
            (*mine, *theirs) = (*mine + 1000, *theirs + 1000);
        }
    }
    prop_assert!(map.iter().eq(&values));

    // As good as new, and used again.
    set.clear();
    list.clear();
    map.clear();
    prop_assert_eq!((set.len(), list.len(), map.len()), (0, 0, 0));
    prop_assert!(set.iter().next().is_none() && list.iter().next().is_none() && map.iter().next().is_none());
    prop_assert_eq!((set.first(), list.last()), (None, None));
    others.iter().for_each(|key| {
        set.insert(key.clone());
        list.insert(key.clone());
    });
    let oracle: BTreeSet<K> = others.into_iter().collect();
    prop_assert!(set.iter().eq(&oracle) && list.iter().eq(&oracle));
    prop_assert_eq!((set.check(), list.check(), map.check()), (Ok(()), Ok(()), Ok(())));
    Ok(())
}

fn keys<K: Debug>(
    key: impl Strategy<Value = K> + Clone,
) -> (impl Strategy<Value = Vec<K>>, impl Strategy<Value = Vec<K>>) {
    (prop::collection::vec(key.clone(), 0..800), prop::collection::vec(key, 0..200))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn numbers((many, few) in keys(0..2_000_u64)) {
        asked(many, few)?;
    }

    #[test]
    fn words((many, few) in keys("[ab]{0,10}")) {
        asked(many, few)?;
    }

    #[test]
    fn pairs((many, few) in keys((0..20_u32, 0..40_u32))) {
        asked(many, few)?;
    }
}

#[test]
fn so_many_are_looked_for_that_threads_share_them() {
    let set: OrderedSet<u64> = (0..50_000).map(|key| 3 * key).collect();
    let keys: Vec<u64> = (0..60_000).map(|at| at * 7919 % 160_000).collect();
    let mut found = vec![false; keys.len()];
    set.contains_all(&keys, &mut found);
    assert!(keys.iter().map(|key| key % 3 == 0 && *key < 150_000).eq(found));
}
