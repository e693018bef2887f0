//! The collections inside of [`Batched`](windrow::batch::Batched): the operations of many callers arrive as one batch.

use std::ops::Range;

use windrow::batch::{Batch, BatchOps, Entry};

use crate::counter::{Counter, Drained};
use crate::keys::Key;
use crate::ordered::{FirstPanic, MapOp, Ops, OrderedMap, OrderedSet, Query, SetOp, Update, Verb, of_set, value_of};
use crate::skiplist::SkipList;

/// Operations of callers, in place, without queries. An entry gets a reply only when its operation is done.
struct Entries<'a, 'b, Op, Reply> {
    batch: &'a mut Batch<'b, Op, Reply>,
    range: Range<usize>,
}

impl<Op, Reply> Entries<'_, '_, Op, Reply> {
    #[inline]
    fn op(&self, at: usize) -> &Op {
        self.batch[self.range.start + at].op()
    }

    #[inline]
    fn entry(&mut self, at: usize) -> &mut Entry<Op, Reply> {
        &mut self.batch[self.range.start + at]
    }
}

/// Runs the operations between two queries as one batch, and each query on what the operations before it left.
fn run<S, Op, Reply>(
    structure: &mut S,
    batch: &mut Batch<'_, Op, Reply>,
    is_query: impl Fn(&Op) -> bool,
    query: impl Fn(Op) -> Option<(Query<S>, Reply)>,
    keyed: impl Fn(&mut S, &mut Entries<'_, '_, Op, Reply>, &mut FirstPanic),
) -> FirstPanic {
    let (mut panic, mut start) = (FirstPanic::default(), 0);
    while start < batch.len() {
        let end = (start..batch.len()).find(|at| is_query(batch[*at].op())).unwrap_or(batch.len());
        keyed(structure, &mut Entries { batch, range: start..end }, &mut panic);
        if let Some(entry) = batch.get_mut(end)
            && let Some((query, reply)) = query(entry.take())
            && query.try_call(structure, &mut panic)
        {
            entry.reply(reply);
        }
        start = end + 1;
    }
    panic
}

impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> OrderedMap<K, V> {
    /// Applies a batch, and returns its first panic.
    pub(crate) fn run_batch(&mut self, batch: &mut Batch<'_, MapOp<K, V>, Option<V>>) -> FirstPanic {
        let query = |op| if let MapOp::Query(query) = op { Some((query, None)) } else { None };
        run(self, batch, |op| matches!(op, MapOp::Query(_)), query, |map, ops, panic| map.run_keyed(ops, panic))
    }
}

impl<K, Q> Ops<K, ()> for Entries<'_, '_, SetOp<K, Q>, bool> {
    fn count(&self) -> usize {
        self.range.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.op(at).verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.op(at).key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, ()) {
        (self.take_key(at), ())
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        match self.entry(at).take() {
            SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key) => key,
            SetOp::Query(_) => unreachable!("a query is taken whole"),
        }
    }

    #[inline]
    fn take_value(&mut self, _: usize) {}

    #[inline]
    fn answer(&mut self, at: usize, verb: Verb, old: Option<()>) {
        self.entry(at).reply(of_set(verb, old));
    }
}

impl<K: Key, V> Ops<K, V> for Entries<'_, '_, MapOp<K, V>, Option<V>> {
    fn count(&self) -> usize {
        self.range.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.op(at).verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.op(at).key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, V) {
        match self.entry(at).take() {
            MapOp::Insert(key, value) => (key, value),
            _ => unreachable!("only an insert has a value"),
        }
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        match self.entry(at).take() {
            MapOp::Get(key) | MapOp::Remove(key) => key,
            _ => unreachable!("an insert, an update and a query are taken whole"),
        }
    }

    #[inline]
    fn take_update(&mut self, at: usize) -> (K, Update<V>) {
        match self.entry(at).take() {
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
        self.entry(at).reply(old);
    }
}

/// For an insert, the reply says whether the key is new; for other operations, whether it was present.
/// A panic is as for [`OrderedMap`].
impl<K: Key<Column: Send> + Send + Sync> BatchOps for OrderedSet<K> {
    type Op = SetOp<K, Query<Self>>;
    type Reply = bool;

    /// An operation that has its reply is done: nothing common follows.
    const KEEPS_REPLIES: bool = true;

    fn run(&mut self, batch: &mut Batch<'_, Self::Op, bool>) {
        let query = |op| if let SetOp::Query(query) = op { Some((query, false)) } else { None };
        let is_query = |op: &Self::Op| matches!(op, SetOp::Query(_));
        run(self, batch, is_query, query, |set, ops, panic| set.map.run_keyed(ops, panic)).go_on();
    }

    fn run_one(&mut self, op: Self::Op) -> bool {
        match op {
            SetOp::Contains(key) => self.contains(&key),
            SetOp::Insert(key) => self.insert(key),
            SetOp::Remove(key) => self.remove(&key),
            SetOp::Query(query) => {
                query.call(self);
                false
            }
        }
    }
}

/// The reply is the previous value of the key, or what an [`Update`] returns. If the function of an update or a query panics, its caller gets
/// [`BatchError::Panicked`](windrow::batch::BatchError::Panicked), and the other callers of the batch get their replies. The map is
/// whole, but `Batched` cannot know that: to go on after such a panic, give its builder the recovery
/// [`recover(|_| ())`](windrow::batch::Builder::recover).
impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> BatchOps for OrderedMap<K, V> {
    type Op = MapOp<K, V>;
    type Reply = Option<V>;

    /// An operation that has its reply is done: nothing common follows.
    const KEEPS_REPLIES: bool = true;

    fn run(&mut self, batch: &mut Batch<'_, MapOp<K, V>, Option<V>>) {
        self.run_batch(batch).go_on();
    }

    fn run_one(&mut self, op: MapOp<K, V>) -> Option<V> {
        match op {
            MapOp::Get(key) => self.get(&key).cloned(),
            MapOp::Insert(key, value) => self.insert(key, value),
            MapOp::Remove(key) => self.remove(&key),
            MapOp::Update(key, update) => self.update(key, update),
            MapOp::Query(query) => {
                query.call(self);
                None
            }
        }
    }
}

/// For an insert, the reply says whether the key is new; for other operations, whether it was present.
impl<K: Key + Send> BatchOps for SkipList<K> {
    type Op = SetOp<K>;
    type Reply = bool;

    fn run(&mut self, batch: &mut Batch<'_, SetOp<K>, bool>) {
        let range = 0..batch.len();
        self.run_keyed(&mut Entries { batch, range });
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
