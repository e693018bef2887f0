//! Keys with prefixes that nearly order them.
//!
//! # Words after a common prefix
//!
//! Strings often begin alike: the URLs of a host, the keys of a tenant, the dates of a day. Their first eight bytes order nothing, and each
//! step of a search would compare strings. So a *node* takes its words after the bytes that all its keys share, as prefix B-trees do (Bayer
//! and Unterauer, 1977). A node is a leaf, or the borders of a shard or of a map. It stores the number of shared bytes, its *skip*.
//!
//! Invariants:
//! 1. All keys of a node begin with the same `skip` bytes.
//! 2. A word is made of the bytes after `skip`. With a skip of 0, it is [`Prefix::prefix`].
//! 3. Keys without [bytes](Prefix::key_bytes) have a skip of 0. A column of numbers stores none.
//!
//! A key that is searched for may begin with other bytes.
//! * Borders compare its first `skip` bytes with those of one border. If they differ, the key is below all borders or above all, and its word
//!   is the smallest or the largest number. Words then never contradict the order, and equal words are decided by keys as ever.
//! * A leaf first searches for the word. A key that is found has been compared in full, so its beginning is known. A key that is not found
//!   is compared with one neighbour, up to `skip`: if they differ, the key belongs at an end of the leaf. So a key that is present costs no
//!   second comparison.
//!
//! The skip falls when a key is inserted that begins otherwise, and all words of the node are taken again. The key is the first or the last
//! one then: a key between two others shares the bytes that they share. A fall costs at least a byte of the skip, so falls are few. Leaves
//! that are joined take the bytes that they share.
//!
//! The skip rises when a node is divided, or has 8, 16, 32, ... keys, if two neighbours have equal words. It becomes the number of bytes that
//! the first and the last key share. If all words differ, a longer skip gains nothing: so random strings have a skip of 0 and pay for none.
//! A build in ascending order rises in the same way.
//!
//! The skip is at most 65,535. Keys that share more have equal words, and are compared.

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
