//! Queries: operations of a batch that read the whole structure as the operations before them have left it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windrow::batch::{Batch, BatchError, BatchOps, Batched, Chunk, Entry};
use windrow_collections::{Answer, MapOp, OrderedMap, OrderedSet, SetOp};

type Map = OrderedMap<u64, u32>;

fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
}

/// A scan of three keys, and the same of the oracle.
fn scan(from: u64, oracle: &BTreeMap<u64, u32>) -> (MapOp<u64, u32>, Answer<Vec<u64>>, Vec<u64>) {
    let (op, answer) =
        MapOp::query(move |map: &Map| map.range(from..).take(3).map(|(key, value)| key + u64::from(*value)).collect());
    (op, answer, oracle.range(from..).take(3).map(|(key, value)| key + u64::from(*value)).collect())
}

/// Batches of `size` operations, one in `every` a scan, by `apply` and by chunks of a batched map with a limit.
fn same(size: usize, every: u64, rounds: u32, limit: usize) {
    let (mut next, mut oracle) = (numbers(size as u64), BTreeMap::new());
    let (mut map, batched) = (Map::new(), Batched::builder().limit(limit).build(Map::new()));
    let mut results = Vec::new();
    for round in 0..rounds {
        let (mut ops, mut expected, mut scans) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
        for _ in 0..size {
            let key = next() % 5_000;
            let made = |kind: u64| if !kind.is_multiple_of(3) { MapOp::Insert(key, round) } else { MapOp::Remove(key) };
            let kind = next();
            if kind.is_multiple_of(every) {
                for ops in &mut ops {
                    let (op, answer, seen) = scan(key, &oracle);
                    ops.push(op);
                    scans.push((answer, seen));
                }
                expected.push(None);
            } else {
                ops.iter_mut().for_each(|ops| ops.push(made(kind)));
                expected.push(if kind % 3 > 0 { oracle.insert(key, round) } else { oracle.remove(&key) });
            }
        }
        let [applied, called] = ops;
        map.apply(applied, &mut results);
        assert_eq!(results, expected);
        let mut chunk = Chunk::new();
        chunk.extend(called);
        batched.call_chunk(&mut chunk).unwrap();
        assert!(chunk.replies().map(Result::unwrap).eq(expected));
        for (answer, seen) in scans {
            assert_eq!(answer.take(), Some(seen));
            assert_eq!(answer.take(), None, "taken");
        }
    }
    assert_eq!(map.check(), Ok(()));
    assert!(map.iter().eq(&oracle) && oracle.len() > 100);
}

#[test]
fn scans_among_small_batches() {
    same(20, 3, windrow_testkit::cases(300), 7);
    same(1, 2, 1_000, 1);
}

#[test]
fn scans_among_groups_and_dealt_batches() {
    same(300, 40, windrow_testkit::cases(60), 127);
    same(20_000, 9_000, 4, usize::MAX);
}

#[test]
fn a_set_is_read_between_its_operations() {
    let set = Batched::new(OrderedSet::new());
    let mut oracle = BTreeSet::new();
    let (mut chunk, mut scans) = (Chunk::new(), Vec::new());
    for key in 0..200_u64 {
        let key = key * 77 % 101;
        chunk.push(SetOp::Insert(key));
        oracle.insert(key);
        let (scan, answer) = SetOp::query(move |set: &OrderedSet<u64>| set.range(..key).copied().collect());
        chunk.push(scan);
        scans.push((answer, oracle.range(..key).copied().collect::<Vec<_>>()));
    }
    set.call_chunk(&mut chunk).unwrap();
    let replies: Vec<bool> = chunk.replies().map(Result::unwrap).collect();
    assert!(replies.iter().step_by(2).filter(|new| **new).count() == 101 && !replies[1]);
    assert!(scans.into_iter().all(|(answer, seen)| answer.take() == Some(seen)));
    let (single, len) = SetOp::query(OrderedSet::len);
    assert_eq!((set.call(single).unwrap(), len.take()), (false, Some(101)));
}

/// The trait's `run` is found on a map: no method of its own hides it.
#[test]
fn a_batch_runs_without_a_wrapper() {
    let (mut map, mut entries) = (Map::new(), [MapOp::Insert(1, 2), MapOp::Get(1)].map(Entry::Op));
    map.run(&mut Batch::new(&mut entries));
    assert_eq!(entries.map(Entry::into_reply), [Some(None), Some(Some(2))]);
}

#[test]
fn a_panic_of_a_query_is_its_own_and_leaks_nothing() {
    let held = Arc::new(());
    let map = Batched::builder().recover(|_| ()).build(OrderedMap::<u64, Arc<()>>::new());
    for at in 0..6 {
        let mut chunk = Chunk::new();
        let mut answers = Vec::new();
        for number in 0..6 {
            let (kept, in_query) = (held.clone(), held.clone());
            chunk.push(MapOp::Insert(number, kept));
            let (query, answer) = MapOp::query(move |map: &OrderedMap<u64, Arc<()>>| {
                assert!(number != at, "query {at}");
                (map.len(), in_query)
            });
            chunk.push(query);
            answers.push(answer);
        }
        map.call_chunk(&mut chunk).unwrap();
        for (turn, reply) in chunk.replies().enumerate() {
            let is_panic = reply.is_err_and(|error| error == BatchError::Panicked);
            assert_eq!(is_panic, turn == 2 * at as usize + 1, "{turn}");
        }
        for (number, answer) in answers.into_iter().enumerate() {
            let seen = answer.take().map(|(len, _)| len);
            assert_eq!(seen, (number != at as usize).then_some(if at == 0 { number + 1 } else { 6 }));
        }
    }
    // A call that never runs, and an owner's batch.
    drop(MapOp::<u64, Arc<()>>::query({
        let held = held.clone();
        move |_| held
    }));
    let mut map = map.into_inner().unwrap();
    let (query, answer) = MapOp::query({
        let held = held.clone();
        move |_: &OrderedMap<u64, Arc<()>>| -> () { panic!("{}", Arc::strong_count(&held)) }
    });
    let mut results = Vec::new();
    let applied = catch_unwind(AssertUnwindSafe(|| map.apply([query, MapOp::Remove(3)], &mut results)));
    assert!(applied.is_err() && results[1].is_some() && answer.take().is_none() && map.len() == 5);
    assert_eq!(map.check(), Ok(()));
    drop((map, results));
    assert_eq!(Arc::strong_count(&held), 1);
}
