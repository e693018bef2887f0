//! Entries: a place in a map that is searched once and then used.

use std::fmt;
use std::mem;

use super::map::{OrderedMap, Spot};
use super::ops::value_of;
use crate::keys::Key;

/// The place of a key in an [`OrderedMap`], as of `BTreeMap`: see [`OrderedMap::entry`].
///
/// ```
/// use windrow_collections::{Entry, OrderedMap};
///
/// let mut stock: OrderedMap<&str, u32> = [("nut", 2)].into();
/// for item in ["nut", "bolt"] {
///     match stock.entry(item) {
///         Entry::Occupied(mut entry) => *entry.get_mut() -= 1,
///         Entry::Vacant(entry) => _ = entry.insert(0),
///     }
/// }
/// assert!(stock.into_iter().eq([("bolt", 0), ("nut", 1)]));
/// ```
#[derive(Debug)]
pub enum Entry<'a, K: Key, V> {
    /// The key is absent.
    Vacant(VacantEntry<'a, K, V>),
    /// The key is present.
    Occupied(OccupiedEntry<'a, K, V>),
}

/// The place where an absent key belongs.
///
/// ```
/// use windrow_collections::{Entry, OrderedMap};
///
/// let mut map = OrderedMap::<String, u32>::new();
/// let Entry::Vacant(entry) = map.entry("new".to_owned()) else { panic!("the map is empty") };
/// assert_eq!(entry.into_key(), "new", "the key comes back, and nothing is inserted");
/// assert!(map.is_empty());
/// ```
pub struct VacantEntry<'a, K: Key, V> {
    map: &'a mut OrderedMap<K, V>,
    spot: Spot,
    word: K::Word,
    key: K,
}

/// The place of a key that is present.
///
/// ```
/// use windrow_collections::OrderedMap;
///
/// let mut queue: OrderedMap<u64, &str> = [(7, "later"), (3, "first")].into();
/// let entry = queue.first_entry().unwrap();
/// assert_eq!((*entry.key(), *entry.get()), (3, "first"));
/// assert_eq!(entry.remove(), "first");
/// assert_eq!(queue.len(), 1);
/// ```
pub struct OccupiedEntry<'a, K: Key, V> {
    map: &'a mut OrderedMap<K, V>,
    spot: Spot,
}

impl<K: Key, V> OrderedMap<K, V> {
    /// The place of `key`, for reading, inserting, changing or removing.
    ///
    /// ```
    /// let mut counts = windrow_collections::OrderedMap::new();
    /// for letter in "banana".chars() {
    ///     *counts.entry(letter).or_insert(0) += 1;
    /// }
    /// assert!(counts.into_iter().eq([('a', 3), ('b', 1), ('n', 2)]));
    /// ```
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let word = key.prefix();
        let (spot, is_found) = self.spot_to_insert(word, &key);
        if is_found {
            Entry::Occupied(OccupiedEntry { map: self, spot })
        } else {
            Entry::Vacant(VacantEntry { map: self, spot, word, key })
        }
    }

    /// The value of `key`, which is inserted with the value of `make` if it is absent. If `make` panics, the key stays absent.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.entry(key).or_insert_with(make)
    }

    /// The place of the smallest key.
    pub fn first_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        self.first_spot().map(|spot| OccupiedEntry { map: self, spot })
    }

    /// The place of the largest key.
    pub fn last_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>> {
        self.last_spot().map(|spot| OccupiedEntry { map: self, spot })
    }
}

impl<'a, K: Key, V> Entry<'a, K, V> {
    /// The value, which is inserted if the key is absent.
    pub fn or_insert(self, default: V) -> &'a mut V {
        self.or_insert_with(|| default)
    }

    /// The value; that of `make` is inserted if the key is absent.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        self.or_insert_with_key(|_| make())
    }

    /// The value; that of `make` for the key is inserted if the key is absent.
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let value = make(entry.key());
                entry.insert(value)
            }
        }
    }

    /// The value; the default of its type is inserted if the key is absent.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value if the key is present. If `change` panics, the value is what it has left.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Gives the key a value, and returns its place.
    pub fn insert_entry(self, value: V) -> OccupiedEntry<'a, K, V> {
        match self {
            Entry::Occupied(mut entry) => {
                entry.insert(value);
                entry
            }
            Entry::Vacant(entry) => entry.insert_entry(value),
        }
    }

    /// The key: of the map, or if absent, the one that was asked for.
    pub fn key(&self) -> &K {
        match self {
            Entry::Occupied(entry) => entry.key(),
            Entry::Vacant(entry) => entry.key(),
        }
    }
}

impl<'a, K: Key, V> VacantEntry<'a, K, V> {
    /// The key that was asked for.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The key that was asked for, by value.
    pub fn into_key(self) -> K {
        self.key
    }

    /// Inserts the key with a value.
    pub fn insert(self, value: V) -> &'a mut V {
        self.insert_entry(value).into_mut()
    }

    /// Inserts the key with a value, and returns its place.
    pub fn insert_entry(self, value: V) -> OccupiedEntry<'a, K, V> {
        let VacantEntry { map, spot, word, key } = self;
        let spot = map.put(spot, word, key, value);
        OccupiedEntry { map, spot }
    }
}

impl<'a, K: Key, V> OccupiedEntry<'a, K, V> {
    /// The key of the map.
    pub fn key(&self) -> &K {
        self.map.at(self.spot).0
    }

    /// The value.
    pub fn get(&self) -> &V {
        self.map.at(self.spot).1
    }

    /// The value, mutable.
    pub fn get_mut(&mut self) -> &mut V {
        self.map.value_at(self.spot)
    }

    /// The value, mutable for as long as the map is borrowed.
    pub fn into_mut(self) -> &'a mut V {
        self.map.value_at(self.spot)
    }

    /// Replaces the value, and returns the previous one.
    pub fn insert(&mut self, value: V) -> V {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the key, and returns its value.
    pub fn remove(self) -> V {
        value_of(self.remove_entry())
    }

    /// Removes the key, and returns it with its value.
    pub fn remove_entry(self) -> (K, V) {
        self.map.take_out(self.spot)
    }
}

impl<K: Key + fmt::Debug, V> fmt::Debug for VacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(self.key()).finish()
    }
}

impl<K: Key + fmt::Debug, V: fmt::Debug> fmt::Debug for OccupiedEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry").field("key", self.key()).field("value", self.get()).finish()
    }
}
