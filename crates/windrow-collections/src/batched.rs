//! The collections inside of [`Batched`](windrow::batch::Batched): the operations of many callers arrive as one batch.

use windrow::batch::{Batch, BatchOps, Entry};

use crate::counter::{Counter, Drained};
use crate::keys::Key;
use crate::ordered::{MapOp, Ops, OrderedMap, OrderedSet, SetOp, Update, Verb, of_set, value_of};
use crate::skiplist::SkipList;

/// The operations of callers, in place. An entry gets a reply only when its operation is done.
struct Entries<'a, 'b, Op, Reply>(&'a mut Batch<'b, Op, Reply>);

impl<K> Ops<K, ()> for Entries<'_, '_, SetOp<K>, bool> {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.0[at].op().verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.0[at].op().key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, ()) {
        (self.take_key(at), ())
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        let (SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key)) = self.0[at].take();
        key
    }

    #[inline]
    fn take_value(&mut self, _: usize) {}

    #[inline]
    fn answer(&mut self, at: usize, verb: Verb, old: Option<()>) {
        self.0[at].reply(of_set(verb, old));
    }
}

impl<K, V> Ops<K, V> for Entries<'_, '_, MapOp<K, V>, Option<V>> {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.0[at].op().verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.0[at].op().key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, V) {
        match self.0[at].take() {
            MapOp::Insert(key, value) => (key, value),
            _ => unreachable!("only an insert has a value"),
        }
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        match self.0[at].take() {
            MapOp::Get(key) | MapOp::Remove(key) => key,
            MapOp::Insert(..) | MapOp::Update(..) => unreachable!("an insert and an update are taken whole"),
        }
    }

    #[inline]
    fn take_update(&mut self, at: usize) -> (K, Update<V>) {
        match self.0[at].take() {
            MapOp::Update(key, update) => (key, update),
            _ => unreachable!("only an update has a function"),
        }
    }

    #[inline]
    fn take_value(&mut self, at: usize) -> V {
        value_of(self.take(at))
    }

    #[inline]
    fn answer(&mut self, at: usize, _: Verb, old: Option<V>) {
        self.0[at].reply(old);
    }
}

/// For an insert, the reply says whether the key is new; for other operations, whether it was present.
impl<K: Key<Column: Send> + Send + Sync> BatchOps for OrderedSet<K> {
    type Op = SetOp<K>;
    type Reply = bool;

    fn run(&mut self, batch: &mut Batch<'_, SetOp<K>, bool>) {
        self.map.run(&mut Entries(batch));
    }

    fn run_one(&mut self, op: SetOp<K>) -> bool {
        match op {
            SetOp::Contains(key) => self.contains(&key),
            SetOp::Insert(key) => self.insert(key),
            SetOp::Remove(key) => self.remove(&key),
        }
    }
}

/// The reply is the previous value of the key, or what an [`Update`] returns. If the function of an update panics, its caller gets
/// [`BatchError::Panicked`](windrow::batch::BatchError::Panicked), and the other callers of the batch get their replies. The map is
/// whole, but `Batched` cannot know that: to go on after such a panic, give its builder the recovery
/// [`recover(|_| ())`](windrow::batch::Builder::recover).
impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> BatchOps for OrderedMap<K, V> {
    type Op = MapOp<K, V>;
    type Reply = Option<V>;

    /// An operation that has its reply is done: nothing common follows.
    const KEEPS_REPLIES: bool = true;

    fn run(&mut self, batch: &mut Batch<'_, MapOp<K, V>, Option<V>>) {
        // Not this method but the inherent one of the same name, which takes any `Ops`.
        OrderedMap::run(self, &mut Entries(batch));
    }

    fn run_one(&mut self, op: MapOp<K, V>) -> Option<V> {
        match op {
            MapOp::Get(key) => self.get(&key).cloned(),
            MapOp::Insert(key, value) => self.insert(key, value),
            MapOp::Remove(key) => self.remove(&key),
            MapOp::Update(key, update) => self.update(key, update),
        }
    }
}

/// For an insert, the reply says whether the key is new; for other operations, whether it was present.
impl<K: Key + Send> BatchOps for SkipList<K> {
    type Op = SetOp<K>;
    type Reply = bool;

    fn run(&mut self, batch: &mut Batch<'_, SetOp<K>, bool>) {
        SkipList::run(self, &mut Entries(batch));
    }

    fn run_one(&mut self, op: SetOp<K>) -> bool {
        match op {
            SetOp::Contains(key) => self.contains(&key),
            SetOp::Insert(key) => self.insert(key),
            SetOp::Remove(key) => self.remove(&key),
        }
    }
}

/// An operation is a number to add; the reply is the previous value of the counter. A batch is consumed in place.
impl BatchOps for Counter {
    type Op = i64;
    type Reply = i64;

    fn run(&mut self, batch: &mut Batch<'_, i64, i64>) {
        for entry in batch.iter_mut() {
            entry.answer(|by| self.add(by));
        }
    }

    #[inline]
    fn run_one(&mut self, by: i64) -> i64 {
        self.add(by)
    }
}

/// As for [`Counter`], but a batch is first drained to an array.
impl BatchOps for Drained {
    type Op = i64;
    type Reply = i64;

    fn run(&mut self, batch: &mut Batch<'_, i64, i64>) {
        let before = self.add_drained(batch.iter_mut().map(Entry::take));
        for (entry, before) in batch.iter_mut().zip(before) {
            entry.reply(*before);
        }
    }
}
