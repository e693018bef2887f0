//! Keys with prefixes that nearly order them.

use std::borrow::Borrow;

use arrayvec::ArrayVec;

use super::words::{first_not, prefetch_lines};
use super::{CAPACITY, Column, Key, Number, Prefix, column};

/// Keys beside an array of their prefixes, which is searched first.
#[derive(Clone, Debug)]
pub struct Prefixed<K: Key> {
    words: [K::Word; CAPACITY],
    keys: ArrayVec<K, CAPACITY>,
}

impl<K: Key<Column = Prefixed<K>>> Column<K> for Prefixed<K> {}

impl<K: Key> column::Sealed<K> for Prefixed<K> {
    const EXACT: bool = false;

    fn empty() -> Self {
        Prefixed { words: [K::Word::MAX; CAPACITY], keys: ArrayVec::new() }
    }

    #[inline]
    fn find<Q>(&self, len: usize, word: K::Word, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let at = first_not(&self.words, |other| *other < word).min(len);
        if self.words[at..len].first() != Some(&word) {
            return Err(at);
        }
        let end = at + self.words[at..len].partition_point(|other| *other == word);
        match self.keys[at..end].binary_search_by(|other| other.borrow().cmp(key)) {
            Ok(among) => Ok(at + among),
            Err(among) => Err(at + among),
        }
    }

    type IntoKeys = arrayvec::IntoIter<K, CAPACITY>;

    fn into_keys(self) -> Self::IntoKeys {
        self.keys.into_iter()
    }

    #[inline]
    fn keys(&self, len: usize) -> &[K] {
        &self.keys[..len]
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        &self.keys[at]
    }

    #[inline]
    fn word(&self, at: usize) -> K::Word {
        self.words[at]
    }

    #[inline]
    fn insert(&mut self, len: usize, at: usize, word: K::Word, key: K) {
        self.words.copy_within(at..len, at + 1);
        self.words[at] = word;
        self.keys.insert(at, key);
    }

    fn remove(&mut self, len: usize, at: usize) -> K {
        self.words.copy_within(at + 1..len, at);
        self.words[len - 1] = K::Word::MAX;
        self.keys.remove(at)
    }

    fn split_off(&mut self, len: usize, at: usize) -> Self {
        let mut tail = Self::empty();
        tail.words[..len - at].copy_from_slice(&self.words[at..len]);
        self.words[at..len].fill(K::Word::MAX);
        tail.keys.extend(self.keys.drain(at..));
        tail
    }

    fn append(&mut self, len: usize, other: Self, others: usize) {
        self.words[len..len + others].copy_from_slice(&other.words[..others]);
        self.keys.extend(other.keys);
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_lines(&self.words);
    }
}
