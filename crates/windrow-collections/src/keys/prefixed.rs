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
//! * A leaf first searches for the word. A key that is found has been compared in full, so its beginning is known. A key between two borders
//!   begins as they do, and so do the keys of the leaf: if the skip of the leaf is no longer than that of the borders, the place of the word is
//!   right. Otherwise a key that is not found is compared with one neighbour, up to `skip`: if they differ, it belongs at an end of the leaf.
//!
//! The skip falls when a key is inserted that begins otherwise, and all words of the node are taken again. The key is the first or the last
//! one then: a key between two others shares the bytes that they share. A fall costs at least a byte of the skip, so falls are few. Leaves
//! that are joined take the bytes that they share.
//!
//! The skip rises to the number of bytes that the first and the last key share. A node of up to eight keys looks whether that is half
//! a word more. When it is divided, and as it grows, whether two neighbours have equal words: if all differ, a longer skip gains nothing. So
//! random strings have a skip of 0 and pay for none. A build in ascending order rises in the same way.
//!
//! A leaf is divided in the middle, or near it between two different words: at the border of two tenants, both parts then share more.
//!
//! The skip is at most 65,535. Keys that share more have equal words, and are compared.

use std::borrow::Borrow;
use std::cmp::Ordering;

use arrayvec::ArrayVec;

use super::words::{first_not, prefetch_lines};
use super::{CAPACITY, Column, Key, Number, Prefix, Skip, column};

/// Keys beside an array of their prefixes, which is searched first.
// In this order: a search reads the skip and the words, which together are eight cache lines.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Prefixed<K: Key> {
    skip: Skip,
    words: [K::Word; CAPACITY],
    keys: ArrayVec<K, CAPACITY>,
}

impl<K: Key> Prefixed<K> {
    /// The place of a key that is not present: `at` if it begins like the other keys, otherwise an end.
    #[inline]
    fn absent(&self, at: usize, key: &[u8]) -> usize {
        let beside = self.keys.get(at).or(self.keys.last()).and_then(Prefix::key_bytes);
        match self.skip.side(key, beside.unwrap_or_default()) {
            Ordering::Less => 0,
            Ordering::Equal => at,
            Ordering::Greater => self.keys.len(),
        }
    }

    /// Takes all words after `skip`.
    fn set_skip(&mut self, skip: Skip) {
        self.skip = skip;
        for (word, key) in self.words.iter_mut().zip(&self.keys) {
            *word = skip.word(key);
        }
    }

    /// Lets the skip rise.
    fn sharpen(&mut self) {
        if let Some(skip) = self.skip.risen(&self.keys, &self.words) {
            self.set_skip(skip);
        }
    }
}

impl<K: Key<Column = Prefixed<K>>> Column<K> for Prefixed<K> {}

impl<K: Key> column::Sealed<K> for Prefixed<K> {
    const EXACT: bool = false;

    fn empty() -> Self {
        Prefixed { skip: Skip::NONE, words: [K::Word::MAX; CAPACITY], keys: ArrayVec::new() }
    }

    #[inline]
    fn find<Q>(&self, len: usize, word: K::Word, key: &Q, known: Skip) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let keys = &self.keys[..len];
        let compare = |other: &K| other.borrow().cmp(key);
        let (word, bytes) = match key.key_bytes() {
            _ if self.skip.is_none() => (word, None),
            Some(bytes) => (self.skip.after(bytes), Some(bytes)),
            None => return keys.binary_search_by(compare),
        };
        let mut at = first_not(&self.words, |other| *other < word).min(len);
        if self.words[at..len].first() == Some(&word) {
            let equal = self.words[at..len].partition_point(|other| *other == word);
            match keys[at..at + equal].binary_search_by(compare) {
                Ok(among) => return Ok(at + among),
                Err(among) => at += among,
            }
        }
        Err(match bytes {
            Some(bytes) if known < self.skip => self.absent(at, bytes),
            _ => at,
        })
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
    fn is_below(&self, at: usize, word: K::Word, key: &K) -> bool {
        let before = self.words[at];
        self.skip.is_none() && before < word || (!self.skip.is_none() || before == word) && self.keys[at] < *key
    }

    fn is_whole(&self, len: usize) -> bool {
        let keys = &self.keys[..len];
        keys.iter().zip(&self.words).all(|(key, word)| *word == self.skip.word(key))
            && keys.iter().all(|key| self.skip.is_shared(&keys[0], key))
            && self.words[len..].iter().all(|word| *word == K::Word::MAX)
    }

    #[inline]
    fn insert(&mut self, len: usize, at: usize, mut word: K::Word, key: K) {
        if !self.skip.is_none() {
            if (at == 0 || at == len)
                && let Some(skip) = self.skip.fallen(&self.keys, &key)
            {
                self.set_skip(skip);
            }
            word = self.skip.word(&key);
        }
        self.words.copy_within(at..len, at + 1);
        self.words[at] = word;
        self.keys.insert(at, key);
        if len + 1 == Skip::FEW || len + 1 == 2 * Skip::FEW {
            self.sharpen();
        }
    }

    fn remove(&mut self, len: usize, at: usize) -> K {
        self.words.copy_within(at + 1..len, at);
        self.words[len - 1] = K::Word::MAX;
        self.keys.remove(at)
    }

    /// Near the middle, between different words if there are such: the keys of each part then share more.
    fn middle(&self) -> usize {
        let half = CAPACITY / 2;
        let near = (0..CAPACITY / 4).flat_map(|by| [half - by, half + by]);
        near.into_iter().find(|at| self.words[at - 1] != self.words[*at]).unwrap_or(half)
    }

    fn split_off(&mut self, len: usize, at: usize) -> Self {
        let mut tail = Self::empty();
        tail.skip = self.skip;
        tail.words[..len - at].copy_from_slice(&self.words[at..len]);
        self.words[at..len].fill(K::Word::MAX);
        tail.keys.extend(self.keys.drain(at..));
        self.sharpen();
        tail.sharpen();
        tail
    }

    fn append(&mut self, len: usize, other: Self, others: usize) {
        let skip = match (self.keys.first(), other.keys.last()) {
            (Some(first), Some(last)) if self.skip != other.skip || !self.skip.is_none() => {
                Skip::shared(first, last).min(self.skip.max(other.skip))
            }
            (Some(_), _) => self.skip,
            (None, _) => other.skip,
        };
        let is_same = self.skip == skip && other.skip == skip;
        self.words[len..len + others].copy_from_slice(&other.words[..others]);
        self.keys.extend(other.keys);
        if !is_same {
            self.set_skip(skip);
        }
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_lines(&self.words);
    }
}
