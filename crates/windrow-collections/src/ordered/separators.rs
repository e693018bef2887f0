//! The sorted borders between neighbours: leaves of a shard, shards of a map.

use std::borrow::Borrow;

use crate::keys::column::Sealed;
use crate::keys::{Key, Number, Prefix};

/// `count` borders divide the keys into `count + 1` slots; a border is the smallest key that belongs to the slot behind it.
pub(super) struct Separators<K: Key> {
    /// Their words, filled up to a power of two, so that a search of a shard takes the same steps for a long time.
    words: Vec<K::Word>,
    /// The borders themselves; none where words tell keys apart.
    keys: Vec<K>,
    count: usize,
}

impl<K: Key> Separators<K> {
    pub(super) fn new() -> Self {
        Separators { words: vec![K::Word::MAX; 1], keys: Vec::new(), count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn slot<Q>(&self, word: K::Word, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if K::Column::EXACT {
            return steps(&self.words, |other| *other <= word).min(self.count);
        }
        let first = steps(&self.words, |other| *other < word).min(self.count);
        let equal = self.words[first..self.count].iter().take_while(|other| **other == word).count();
        first + self.keys[first..first + equal].partition_point(|other| other.borrow() <= key)
    }

    /// Puts a border at the end of `slot`.
    pub(super) fn insert(&mut self, slot: usize, word: K::Word, key: Border<K>) {
        if self.count == self.words.len() {
            self.words.resize(self.count * 2, K::Word::MAX);
        }
        self.words.copy_within(slot..self.count, slot + 1);
        self.words[slot] = word;
        if let Border(Some(key)) = key {
            self.keys.insert(slot, key);
        }
        self.count += 1;
    }

    /// Takes the border at the end of `slot` away.
    pub(super) fn remove(&mut self, slot: usize) -> (K::Word, Border<K>) {
        let word = self.words[slot];
        self.words.copy_within(slot + 1..self.count, slot);
        self.count -= 1;
        self.words[self.count] = K::Word::MAX;
        (word, Border((!K::Column::EXACT).then(|| self.keys.remove(slot))))
    }

    /// Takes the borders from `at` on, except the first of them, which is returned beside.
    pub(super) fn split_off(&mut self, at: usize) -> ((K::Word, Border<K>), Self) {
        let words = &self.words[at + 1..self.count];
        let mut tail = Separators { words: words.to_vec(), keys: Vec::new(), count: words.len() };
        tail.words.resize(tail.count.next_power_of_two(), K::Word::MAX);
        if !K::Column::EXACT {
            tail.keys = self.keys.split_off(at + 1);
        }
        let between = (self.words[at], Border(self.keys.pop()));
        self.count = at;
        self.words.truncate(at.next_power_of_two());
        self.words[at..].fill(K::Word::MAX);
        (between, tail)
    }

    /// Puts the borders of `other` behind the own ones and `between`.
    pub(super) fn append(&mut self, between: (K::Word, Border<K>), other: Self) {
        self.words.truncate(self.count);
        self.words.push(between.0);
        self.words.extend_from_slice(&other.words[..other.count]);
        self.count = self.words.len();
        self.words.resize(self.count.next_power_of_two(), K::Word::MAX);
        self.keys.extend(between.1.0);
        self.keys.extend(other.keys);
    }

    /// Whether what fills up is in order.
    pub(super) fn is_filled(&self) -> bool {
        self.words.len().is_power_of_two()
            && self.words[self.count..].iter().all(|word| *word == K::Word::MAX)
            && self.keys.len() == if K::Column::EXACT { 0 } else { self.count }
    }
}

/// A key that is kept as a border: nothing where words tell keys apart.
pub(super) struct Border<K>(Option<K>);

impl<K: Key> Border<K> {
    /// Clones `key` if it is needed.
    #[inline]
    pub(super) fn of(key: &K) -> Self {
        Border((!K::Column::EXACT).then(|| key.clone()))
    }
}

/// The first place that is not `below`, in an array whose length is a power of two; no branch depends on what is found.
#[inline]
fn steps<W: Number>(words: &[W], below: impl Fn(&W) -> bool) -> usize {
    let (mut base, mut half) = (0, words.len() / 2);
    while half > 0 {
        base += usize::from(below(&words[base + half - 1])) * half;
        half /= 2;
    }
    base + usize::from(below(&words[base]))
}
