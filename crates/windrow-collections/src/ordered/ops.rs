//! The operations of a batch.

use std::convert::Infallible;
use std::mem;

use super::map::OrderedMap;
use super::query::{Answer, Query};
use super::update::Update;
use crate::keys::Key;

/// What an operation does with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Looks the key up.
    Get,
    /// Inserts it.
    Insert,
    /// Removes it.
    Remove,
    /// Calls a function with its value.
    Update,
}

/// Operations in order of submission, with places for their results.
///
/// This is the interface between an [`OrderedMap`] and a source of operations. Every operation gets one answer: the previous value of its
/// key, or what its [`Update`] returns. An update that panics gets none; the other operations run, and then the panic goes on. A panic of a
/// comparison or a clone ends the batch at once. Queries have no key: a source has the operations between two of them.
pub(crate) trait Ops<K, V> {
    /// The number of operations. It does not change while they run.
    fn count(&self) -> usize;

    /// What operation `at` does.
    fn verb(&self, at: usize) -> Verb;

    /// The key of operation `at`.
    fn key(&self, at: usize) -> &K;

    /// Moves out the key and the value of an insert. Called once at most; the key is not read again.
    fn take(&mut self, at: usize) -> (K, V);

    /// Moves out the key of another operation. Called once at most; the key is not read again.
    fn take_key(&mut self, at: usize) -> K;

    /// Moves out the value of an insert whose key is already present.
    fn take_value(&mut self, at: usize) -> V;

    /// Moves out the key and the function of an update. Called once at most; the key is not read again. A source without updates need not
    /// implement it.
    fn take_update(&mut self, at: usize) -> (K, Update<V>) {
        unreachable!("operation {at} is an update, but its source does not implement `take_update`")
    }

    /// Answers operation `at`, which did `verb`, with the previous value of its key, or with what its update has returned.
    fn answer(&mut self, at: usize, verb: Verb, old: Option<V>);
}

/// An operation of a batch on a map. Its result is the previous value of the key, or what its update returns.
///
/// ```
/// use windrow_collections::{MapOp, OrderedMap};
///
/// let (mut map, mut results) = (OrderedMap::new(), Vec::new());
/// map.apply([MapOp::Insert(1, 'a'), MapOp::Insert(1, 'b'), MapOp::Get(1), MapOp::Remove(2)], &mut results);
/// assert_eq!(results, [None, Some('a'), Some('b'), None]);
/// ```
#[derive(Debug)]
pub enum MapOp<K: Key, V> {
    /// Looks up a key; the result is a clone of its value.
    Get(K),
    /// As [`OrderedMap::insert`](crate::OrderedMap::insert).
    Insert(K, V),
    /// As [`OrderedMap::remove`](crate::OrderedMap::remove).
    Remove(K),
    /// Calls a function with the value of a key: see [`Update`], [`MapOp::update`] and [`MapOp::compare_and_swap`].
    ///
    /// If the function panics, the map stays whole: a key that was present keeps the value that the function left, or is removed if it
    /// left none; an absent key stays absent. The other operations of the batch run and are answered, then the panic goes on.
    Update(K, Update<V>),
    /// Calls a function with the whole map, as the operations before it have left it: see [`MapOp::query`]. The result is `None`.
    ///
    /// If the function panics, the other operations of the batch run and are answered, then the panic goes on.
    Query(Query<OrderedMap<K, V>>),
}

impl<K: Key, V> MapOp<K, V> {
    /// An [`Update`](MapOp::Update) of `key`: see [`Update`] for what `f` gets and returns.
    ///
    /// ```
    /// use windrow::batch::Batched;
    /// use windrow_collections::{MapOp, OrderedMap};
    ///
    /// let counts = Batched::new(OrderedMap::<String, u32>::new());
    /// for word in ["a", "rose", "is", "a", "rose"] {
    ///     counts.call(MapOp::update(word.to_owned(), |count| {
    ///         *count.get_or_insert(0) += 1;
    ///         *count
    ///     })).unwrap();
    /// }
    /// assert_eq!(counts.call(MapOp::Get("rose".to_owned())).unwrap(), Some(2));
    /// ```
    pub fn update(key: K, f: impl FnOnce(&mut Option<V>) -> Option<V> + Send + 'static) -> Self {
        MapOp::Update(key, Update::new(f))
    }

    /// Sets the value of `key` to `new` if it is `expected`; `None` stands for an absent key. The result is the previous value, so the
    /// value was set if the result equals `expected`. An [`Update`](MapOp::Update) with one allocation.
    ///
    /// ```
    /// use windrow_collections::{MapOp, OrderedMap};
    ///
    /// let mut owners = OrderedMap::new();
    /// let mut results = Vec::new();
    /// owners.apply([
    ///     MapOp::compare_and_swap("lock", None, Some("ann")),
    ///     MapOp::compare_and_swap("lock", None, Some("bob")),
    ///     MapOp::compare_and_swap("lock", Some("ann"), None),
    /// ], &mut results);
    /// assert_eq!(results, [None, Some("ann"), Some("ann")]);
    /// assert!(owners.is_empty());
    /// ```
    pub fn compare_and_swap(key: K, expected: Option<V>, new: Option<V>) -> Self
    where
        V: PartialEq + Clone + Send + 'static,
    {
        MapOp::update(key, move |value| if *value == expected { mem::replace(value, new) } else { value.clone() })
    }

    /// A [`Query`](MapOp::Query) of the whole map, and the place of what `f` returns.
    ///
    /// A scan is then an operation of a batch: it sees what the operations before it did, and waits for no other batch.
    /// Only operations between two queries share their searches, so a batch with a query after each operation searches as often as single calls.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use windrow::batch::Batched;
    /// use windrow_collections::{MapOp, OrderedMap};
    ///
    /// let stock = Batched::new(OrderedMap::<String, u32>::new());
    /// for (fruit, count) in [("apple", 3), ("fig", 8), ("plum", 5)] {
    ///     stock.call(MapOp::Insert(fruit.to_owned(), count)).unwrap();
    /// }
    /// // `call_async` in a task.
    /// let from_b = (Bound::Included("b"), Bound::Unbounded);
    /// let sum = move |map: &OrderedMap<String, u32>| map.range::<str>(from_b).map(|(_, n)| n).sum::<u32>();
    /// let (scan, total) = MapOp::query(sum);
    /// stock.call(scan).unwrap();
    /// assert_eq!(total.take(), Some(13));
    /// ```
    pub fn query<R: Send + 'static>(f: impl FnOnce(&OrderedMap<K, V>) -> R + Send + 'static) -> (Self, Answer<R>) {
        let (query, answer) = Query::new(f);
        (MapOp::Query(query), answer)
    }

    #[inline]
    pub(crate) fn verb(&self) -> Verb {
        match self {
            MapOp::Get(_) => Verb::Get,
            MapOp::Insert(..) => Verb::Insert,
            MapOp::Remove(_) => Verb::Remove,
            MapOp::Update(..) => Verb::Update,
            MapOp::Query(_) => unreachable!("{NO_KEY}"),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &K {
        match self {
            MapOp::Get(key) | MapOp::Insert(key, _) | MapOp::Remove(key) | MapOp::Update(key, _) => key,
            MapOp::Query(_) => unreachable!("{NO_KEY}"),
        }
    }
}

/// An operation of a batch on a set.
///
/// ```
/// use windrow_collections::{OrderedSet, SetOp};
///
/// let (mut set, mut results) = (OrderedSet::new(), [false; 4]);
/// set.apply(&[SetOp::Insert(5), SetOp::Insert(5), SetOp::Contains(5), SetOp::Remove(7)], &mut results);
/// assert_eq!(results, [true, false, true, false]);
/// ```
///
/// `Q` is a query. There is none among the borrowed operations of `apply`; those of a batched [`OrderedSet`](crate::OrderedSet) have
/// [`Query`]s of it, and are made of the others by `From`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp<K, Q = Infallible> {
    /// As [`OrderedSet::contains`](crate::OrderedSet::contains).
    Contains(K),
    /// As [`OrderedSet::insert`](crate::OrderedSet::insert).
    Insert(K),
    /// As [`OrderedSet::remove`](crate::OrderedSet::remove).
    Remove(K),
    /// Calls a function with the whole set, as the operations before it have left it: see [`SetOp::query`]. The result is `false`.
    Query(Q),
}

/// The reason for which an operation has a key.
const NO_KEY: &str = "a query runs between the operations with keys";

impl<K, S> SetOp<K, Query<S>> {
    /// A [`Query`](SetOp::Query) of the whole set, and the place of what `f` returns: see [`MapOp::query`].
    ///
    /// ```
    /// use windrow::batch::Batched;
    /// use windrow_collections::{OrderedSet, SetOp};
    ///
    /// let set = Batched::new(OrderedSet::from([1, 4, 9, 16]));
    /// let (scan, found) = SetOp::query(|set: &OrderedSet<i32>| set.range(2..10).copied().collect::<Vec<_>>());
    /// set.call(scan).unwrap();
    /// assert_eq!(found.take().unwrap(), [4, 9]);
    /// ```
    pub fn query<R: Send + 'static>(f: impl FnOnce(&S) -> R + Send + 'static) -> (Self, Answer<R>) {
        let (query, answer) = Query::new(f);
        (SetOp::Query(query), answer)
    }
}

impl<K, S> From<SetOp<K>> for SetOp<K, Query<S>> {
    fn from(op: SetOp<K>) -> Self {
        match op {
            SetOp::Contains(key) => SetOp::Contains(key),
            SetOp::Insert(key) => SetOp::Insert(key),
            SetOp::Remove(key) => SetOp::Remove(key),
        }
    }
}

impl<K, Q> SetOp<K, Q> {
    #[inline]
    pub(crate) fn verb(&self) -> Verb {
        match self {
            SetOp::Contains(_) => Verb::Get,
            SetOp::Insert(_) => Verb::Insert,
            SetOp::Remove(_) => Verb::Remove,
            SetOp::Query(_) => unreachable!("{NO_KEY}"),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &K {
        match self {
            SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key) => key,
            SetOp::Query(_) => unreachable!("{NO_KEY}"),
        }
    }
}

/// The value of an entry. The key is dropped first: if that panics, a value that was returned already would leak.
#[inline]
pub(crate) fn value_of<K, V>((key, value): (K, V)) -> V {
    drop(key);
    value
}

/// The key of an entry, as [`value_of`].
#[inline]
pub(crate) fn key_of<K, V>((key, value): (K, V)) -> K {
    drop(value);
    key
}

/// The result for a set: for an insert, whether the key is new; for other operations, whether it was present.
#[inline]
pub(crate) fn of_set(verb: Verb, old: Option<()>) -> bool {
    old.is_some() != (verb == Verb::Insert)
}

/// Borrowed operations on a set.
pub(crate) struct Mixed<'a, K> {
    pub(crate) ops: &'a [SetOp<K>],
    pub(crate) results: &'a mut [bool],
}

impl<K: Key> Ops<K, ()> for Mixed<'_, K> {
    fn count(&self) -> usize {
        self.ops.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.ops[at].verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.ops[at].key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, ()) {
        (self.take_key(at), ())
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        self.key(at).clone()
    }

    #[inline]
    fn take_value(&mut self, _: usize) {}

    #[inline]
    fn answer(&mut self, at: usize, verb: Verb, old: Option<()>) {
        self.results[at] = of_set(verb, old);
    }
}

/// Inserts, or removals, of borrowed keys.
pub(crate) struct All<'a, K, const INSERT: bool> {
    pub(crate) keys: &'a [K],
    pub(crate) results: &'a mut [bool],
}

impl<K: Key, const INSERT: bool> Ops<K, ()> for All<'_, K, INSERT> {
    fn count(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    fn verb(&self, _: usize) -> Verb {
        if INSERT { Verb::Insert } else { Verb::Remove }
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        &self.keys[at]
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, ()) {
        (self.take_key(at), ())
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        self.keys[at].clone()
    }

    #[inline]
    fn take_value(&mut self, _: usize) {}

    #[inline]
    fn answer(&mut self, at: usize, verb: Verb, old: Option<()>) {
        self.results[at] = of_set(verb, old);
    }
}
