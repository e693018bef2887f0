//! The set: a map without values.

use std::borrow::Borrow;

use super::map::OrderedMap;
use super::ops::{All, Mixed, SetOp};
use crate::keys::{Key, Prefix};

/// A sorted set whose operations are cheaper by the batch.
///
/// An [`OrderedMap`] without values: what is said there holds here.
///
/// ```
/// use windrow_collections::OrderedSet;
///
/// let mut set = OrderedSet::new();
/// let mut new = [false; 4];
/// set.insert_all(&[5_u64, 7, 5, 1], &mut new);
/// assert_eq!(new, [true, true, false, true]);
/// assert!(set.contains(&7) && set.len() == 3);
/// ```
#[derive(Clone, Default)]
pub struct OrderedSet<K: Key> {
    map: OrderedMap<K, ()>,
}

impl<K: Key> OrderedSet<K> {
    /// A set without keys.
    pub fn new() -> Self {
        OrderedSet { map: OrderedMap::new() }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Removes all keys, and gives their memory back.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Whether `key` is there.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.contains_key(key)
    }

    /// The key that equals `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.get_key_value(key).map(|(key, ())| key)
    }

    /// Adds `key`, and says whether it is new. One that is there already stays.
    pub fn insert(&mut self, key: K) -> bool {
        self.map.insert(key, ()).is_none()
    }

    /// Removes `key`, and says whether it was there.
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.remove(key).is_some()
    }

    /// The smallest key.
    pub fn first(&self) -> Option<&K> {
        self.map.first_key_value().map(|(key, ())| key)
    }

    /// The largest key.
    pub fn last(&self) -> Option<&K> {
        self.map.last_key_value().map(|(key, ())| key)
    }

    /// Checks every invariant of the structure: for tests, it reads all keys.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.map.check()
    }
}

impl<K: Key<Column: Send> + Send + Sync> OrderedSet<K> {
    /// Applies a batch, as if one operation after the other. A result says of an insert whether the key is new, of others whether it was there.
    ///
    /// # Panics
    /// Unless there is room for exactly one result an operation. As [`OrderedMap::apply`] besides.
    pub fn apply(&mut self, ops: &[SetOp<K>], results: &mut [bool]) {
        assert_eq!(ops.len(), results.len(), "one result an operation");
        self.map.run(&mut Mixed { ops, results });
    }

    /// Inserts keys, as if one after the other, and says of each whether it is new.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    pub fn insert_all(&mut self, keys: &[K], new: &mut [bool]) {
        assert_eq!(keys.len(), new.len(), "one result a key");
        self.map.run(&mut All::<_, true> { keys, results: new });
    }

    /// Removes keys, as if one after the other, and says of each whether it was there.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    pub fn remove_all(&mut self, keys: &[K], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one result a key");
        self.map.run(&mut All::<_, false> { keys, results: found });
    }
}
