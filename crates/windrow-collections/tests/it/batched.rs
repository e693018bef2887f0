//! Collections inside of `Batched`: replies come in order of submission and equal those of the standard library; every increment of a
//! counter gets a different number.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use windrow::batch::{BatchError, BatchOps, Batched, Chunk};
use windrow::prelude::*;
use windrow_collections::{
    Counter, Drained, Key, MapOp, OrderedMap, OrderedSet, Plain, Prefix, Prefixed, SetOp, SkipList,
};

fn replies<S: BatchOps>(batched: &Batched<S>, ops: impl IntoIterator<Item = S::Op>) -> Vec<S::Reply> {
    let mut chunk = Chunk::new();
    chunk.extend(ops);
    batched.call_chunk(&mut chunk).unwrap();
    chunk.replies().map(Result::unwrap).collect()
}

fn map_op<K: Key + std::fmt::Debug>(key: impl Strategy<Value = K>) -> impl Strategy<Value = MapOp<K, u32>> {
    (key, any::<u32>(), 0..3_u8).prop_map(|(key, value, verb)| match verb {
        0 => MapOp::Insert(key, value),
        1 => MapOp::Remove(key),
        _ => MapOp::Get(key),
    })
}

fn on_map<K: Key>(map: &mut BTreeMap<K, u32>, op: MapOp<K, u32>) -> Option<u32> {
    match op {
        MapOp::Get(key) => map.get(&key).copied(),
        MapOp::Insert(key, value) => map.insert(key, value),
        MapOp::Remove(key) => map.remove(&key),
        MapOp::Update(..) | MapOp::Query(_) => unreachable!("see `updates` and `queries`"),
    }
}

fn as_set<K: Key>(op: MapOp<K, u32>) -> SetOp<K> {
    match op {
        MapOp::Get(key) => SetOp::Contains(key),
        MapOp::Insert(key, _) => SetOp::Insert(key),
        MapOp::Remove(key) => SetOp::Remove(key),
        MapOp::Update(..) | MapOp::Query(_) => unreachable!("a set has no values"),
    }
}

/// The operations once more: those with functions cannot be cloned, so `MapOp` is not `Clone`.
fn again<K: Key>(ops: &[MapOp<K, u32>]) -> impl Iterator<Item = MapOp<K, u32>> {
    ops.iter().map(|op| match op {
        MapOp::Get(key) => MapOp::Get(key.clone()),
        MapOp::Insert(key, value) => MapOp::Insert(key.clone(), *value),
        MapOp::Remove(key) => MapOp::Remove(key.clone()),
        MapOp::Update(..) | MapOp::Query(_) => unreachable!("see `updates` and `queries`"),
    })
}

fn on_set<K: Ord>(set: &mut BTreeSet<K>, op: SetOp<K>) -> bool {
    match op {
        SetOp::Contains(key) => set.contains(&key),
        SetOp::Insert(key) => set.insert(key),
        SetOp::Remove(key) => set.remove(&key),
    }
}

/// Chunks of one caller, in batches of up to `limit`, and single calls.
fn same<K>(chunks: Vec<Vec<MapOp<K, u32>>>, limit: usize) -> Result<(), TestCaseError>
where
    K: Key<Column: Send> + std::fmt::Debug + Send + Sync,
{
    let map = Batched::builder().limit(limit).build(OrderedMap::new());
    let set = Batched::builder().limit(limit).build(OrderedSet::new());
    let list = Batched::builder().limit(limit).build(SkipList::new());
    let (mut map_oracle, mut set_oracle) = (BTreeMap::new(), BTreeSet::new());
    for ops in chunks {
        let expected: Vec<_> = again(&ops).map(|op| on_map(&mut map_oracle, op)).collect();
        let was_there: Vec<_> = again(&ops).map(|op| on_set(&mut set_oracle, as_set(op))).collect();
        let sets = || again(&ops).map(as_set);
        if ops.len() == 1 {
            prop_assert!(again(&ops).map(|op| map.call(op).unwrap()).eq(expected));
            prop_assert!(sets().map(|op| set.call(op.into()).unwrap()).eq(was_there.iter().copied()));
            prop_assert!(sets().map(|op| list.call(op).unwrap()).eq(was_there));
        } else {
            prop_assert_eq!(replies(&map, again(&ops)), expected);
            prop_assert_eq!(replies(&set, sets().map(Into::into)), was_there.clone());
            prop_assert_eq!(replies(&list, sets()), was_there);
        }
    }
    let (map, set, list) = (map.into_inner().unwrap(), set.into_inner().unwrap(), list.into_inner().unwrap());
    prop_assert_eq!((map.check(), set.check(), list.check()), (Ok(()), Ok(()), Ok(())));
    prop_assert!(map.iter().eq(&map_oracle) && set.iter().eq(&set_oracle) && list.iter().eq(&set_oracle));
    Ok(())
}

proptest! {
    #[test]
    fn chunks_of_integers(
        chunks in prop::collection::vec(prop::collection::vec(map_op(0..300_u64), 0..200), 0..12),
        limit in 1..300_usize,
    ) {
        same(chunks, limit)?;
    }

    #[test]
    fn chunks_of_strings(
        chunks in prop::collection::vec(prop::collection::vec(map_op("commonly[a-c]{0,4}"), 0..100), 0..12),
        limit in 1..150_usize,
    ) {
        same(chunks, limit)?;
    }
}

#[test]
fn a_batch_that_is_dealt_to_the_shards_answers_in_order() {
    let ops = (0..20_000_u64).map(|n| {
        let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
        match n % 3 {
            0 => MapOp::Remove(Plain(key)),
            1 => MapOp::Get(Plain(key)),
            _ => MapOp::Insert(Plain(key), n as u32),
        }
    });
    same(vec![ops.collect()], usize::MAX).unwrap();
}

#[test]
fn callers_of_every_kind_share_a_set() {
    const EACH: u64 = 5_000;
    let set = Batched::builder().limit(127).build(OrderedSet::new());
    // Four callers insert every key: a thread, a task, and the chunks of a loop, twice.
    let new: u64 = std::thread::scope(|scope| {
        let thread = scope.spawn(|| (0..EACH).filter(|key| set.call(SetOp::Insert(*key)).unwrap()).count() as u64);
        let task = scope.spawn(|| {
            let mut context = Context::from_waker(Waker::noop());
            let mut insert = |key| {
                let mut future = pin!(set.call_async(SetOp::Insert(key)));
                loop {
                    match future.as_mut().poll(&mut context) {
                        Poll::Ready(new) => return new.unwrap(),
                        Poll::Pending => std::thread::yield_now(),
                    }
                }
            };
            (0..EACH).rev().filter(|key| insert(*key)).count() as u64
        });
        let keys: Vec<u64> = (0..2 * EACH).map(|key| key % EACH).collect();
        let inserted =
            |keys: &[u64]| replies(&set, keys.iter().copied().map(SetOp::Insert)).into_iter().filter(|new| *new);
        let chunks: u64 = keys.par_chunks(100).map(|keys| inserted(keys).count() as u64).sum();
        chunks + thread.join().unwrap() + task.join().unwrap()
    });
    assert_eq!(new, EACH, "each key is new to one caller");
    let set = set.into_inner().unwrap();
    assert_eq!(set.check(), Ok(()));
    assert!(set.iter().copied().eq(0..EACH));
}

/// Increments by threads, one call at a time or in chunks.
fn increments<S: BatchOps<Op = i64, Reply = i64> + Send>(counter: S, chunk: usize) -> S {
    const THREADS: usize = 4;
    const EACH: usize = 3_000;
    let counter = Batched::new(counter);
    let mut before: Vec<i64> = std::thread::scope(|scope| {
        let one = || -> Vec<i64> {
            let calls = |count: usize| match chunk {
                1 => (0..count).map(|_| counter.call(1).unwrap()).collect(),
                _ => replies(&counter, std::iter::repeat_n(1, count)),
            };
            let own: Vec<i64> = (0..EACH).step_by(chunk).flat_map(|at| calls(chunk.min(EACH - at))).collect();
            assert!(own.is_sorted(), "a caller's own order");
            own
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    before.sort_unstable();
    assert!(before.iter().copied().eq(0..(THREADS * EACH) as i64), "a permutation");
    counter.into_inner().unwrap()
}

#[test]
fn every_increment_gets_a_number_of_its_own() {
    for chunk in [1, 2, 64, 3_000] {
        assert_eq!(increments(Counter::default(), chunk).get(), 12_000);
        assert_eq!(increments(Drained::default(), chunk).counter().get(), 12_000);
    }
}

/// Comparing 13 with 13 panics.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unlucky(u64);

impl PartialOrd for Unlucky {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unlucky {
    fn cmp(&self, other: &Self) -> Ordering {
        assert!((self.0, other.0) != (13, 13), "unlucky");
        self.0.cmp(&other.0)
    }
}

impl Prefix for Unlucky {
    type Word = u64;

    fn prefix(&self) -> u64 {
        self.0
    }
}

impl Key for Unlucky {
    type Column = Prefixed<Self>;
}

#[test]
fn a_panic_is_the_answer_to_what_was_not_done() {
    let map = Batched::builder().recover(|_| ()).build(OrderedMap::new());
    let ops = [MapOp::Insert(Unlucky(1), 'a'), MapOp::Insert(Unlucky(13), 'b'), MapOp::Get(Unlucky(1))];
    assert_eq!(replies(&map, ops), [None, None, Some('a')]);
    let mut chunk = Chunk::new();
    chunk.extend([1, 13, 2].map(|key| MapOp::Insert(Unlucky(key), 'c')));
    chunk.push(MapOp::Remove(Unlucky(1)));
    map.call_chunk(&mut chunk).unwrap();
    let panicked = Err(BatchError::Panicked);
    assert_eq!(chunk.replies().collect::<Vec<_>>(), [Ok(Some('a')), panicked, panicked, panicked]);
    let map = map.into_inner().unwrap();
    assert!(map.iter().map(|(key, value)| (key.0, *value)).eq([(1, 'c'), (13, 'b')]));
}
