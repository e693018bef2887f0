//! The sorted borders between neighbours: leaves of a shard, shards of a map.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::keys::column::Sealed;
use crate::keys::{Key, Number, Prefix, Skip, first_not};

/// Number of words that are searched as one, in a number of steps known at compile time: four cache lines of `u64`.
const BLOCK: usize = 32;

/// `count` borders divide the keys into `count + 1` slots. A border is the smallest key that belongs to the slot behind it.
#[derive(Clone)]
pub(super) struct Separators<K: Key> {
    /// The words of the borders in one or more blocks, padded with the largest word.
    blocks: Vec<[K::Word; BLOCK]>,
    /// The last word of each block, in padded blocks too. A shard has one such block, which stays in the nearest cache. So a search
    /// reads one block of `blocks`, but a binary search of the whole array would touch seven lines.
    lasts: Vec<[K::Word; BLOCK]>,
    /// The borders themselves; empty if words determine keys.
    keys: Vec<K>,
    count: usize,
    /// The bytes that all borders share.
    skip: Skip,
}

impl<K: Key> Separators<K> {
    pub(super) fn new() -> Self {
        let empty = || vec![[K::Word::MAX; BLOCK]];
        Separators { blocks: empty(), lasts: empty(), keys: Vec::new(), count: 0, skip: Skip::NONE }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The slot of a key, whose prefix is `word`.
    #[inline]
    pub(super) fn slot<Q>(&self, word: K::Word, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if self.count == 0 {
            return 0;
        }
        let word = self.word(word, key);
        self.slot_of(self.block_of(word), word, key)
    }

    /// The block to search for a key.
    #[inline]
    pub(super) fn block(&self, word: K::Word, key: &K) -> usize {
        self.block_of(self.word(word, key))
    }

    /// The slot of a key whose block is known.
    #[inline]
    pub(super) fn slot_in(&self, block: usize, word: K::Word, key: &K) -> usize {
        self.slot_of(block, self.word(word, key), key)
    }

    /// The word of a key among the words of the borders.
    #[inline]
    fn word<Q>(&self, word: K::Word, key: &Q) -> K::Word
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if K::Column::EXACT || self.skip.is_none() { word } else { self.word_after(key) }
    }

    fn word_after<Q>(&self, key: &Q) -> K::Word
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let lowest = K::Word::of_bytes(&[]);
        let Some(bytes) = key.key_bytes() else {
            let above = self.keys.partition_point(|border| border.borrow() <= key);
            return above.checked_sub(1).map_or(lowest, |last| self.words()[last]);
        };
        let of = self.keys.first().and_then(Prefix::key_bytes).unwrap_or_default();
        match self.skip.side(bytes, of) {
            Ordering::Less => lowest,
            Ordering::Equal => self.skip.after(bytes),
            Ordering::Greater => K::Word::MAX,
        }
    }

    #[inline]
    fn block_of(&self, word: K::Word) -> usize {
        // So it is of the borders of up to 32 shards, about a million keys: six steps of a search less.
        if self.blocks.len() == 1 {
            return 0;
        }
        let below = |border: &K::Word| is_below::<K>(*border, word);
        let among = match &self.lasts[..] {
            [_] => 0,
            many => many.partition_point(|lasts| below(&lasts[BLOCK - 1])).min(many.len() - 1),
        };
        let block = among * BLOCK + first_not(&self.lasts[among], below);
        // If the largest word is `below`, so is the padding.
        block.min(self.blocks.len() - 1)
    }

    #[inline]
    fn slot_of<Q>(&self, block: usize, word: K::Word, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let first = block * BLOCK + first_not(&self.blocks[block], |other| is_below::<K>(*other, word));
        let first = first.min(self.count);
        if K::Column::EXACT || self.words()[first..self.count].first() != Some(&word) {
            return first;
        }
        let equal = self.words()[first..self.count].partition_point(|other| *other == word);
        first + self.keys[first..first + equal].partition_point(|other| other.borrow() <= key)
    }

    /// The bytes that all keys of a slot share because they are between two borders.
    #[inline]
    pub(super) fn known(&self, slot: usize) -> Skip {
        if K::Column::EXACT || slot == 0 || slot == self.count { Skip::NONE } else { self.skip }
    }

    fn words(&self) -> &[K::Word] {
        self.blocks.as_flattened()
    }

    /// Sets the words of the borders from `from` on.
    fn set_words(&mut self, from: usize, words: &[K::Word]) {
        self.count = from + words.len();
        self.blocks.resize(self.count.div_ceil(BLOCK).max(1), [K::Word::MAX; BLOCK]);
        let all = self.blocks.as_flattened_mut();
        all[from..self.count].copy_from_slice(words);
        all[self.count..].fill(K::Word::MAX);
        self.set_lasts(from);
    }

    /// Updates `lasts` after a change from border `from` on.
    fn set_lasts(&mut self, from: usize) {
        self.lasts.resize(self.blocks.len().div_ceil(BLOCK), [K::Word::MAX; BLOCK]);
        let lasts = self.lasts.as_flattened_mut();
        let from = from / BLOCK;
        for (last, block) in lasts[from..].iter_mut().zip(&self.blocks[from..]) {
            *last = block[BLOCK - 1];
        }
        lasts[self.blocks.len()..].fill(K::Word::MAX);
    }

    /// Takes all words after `skip`.
    fn set_skip(&mut self, skip: Skip) {
        let words: Vec<_> = self.keys.iter().map(|key| skip.word(key)).collect();
        self.skip = skip;
        self.set_words(0, &words);
    }

    /// Lets the skip rise.
    fn sharpen(&mut self) {
        if let Some(skip) = self.skip.risen(&self.keys, self.words()) {
            self.set_skip(skip);
        }
    }

    /// The word of a border that will be inserted at the end of `slot`; lets the skip fall to the bytes that it shares.
    #[inline]
    fn admit(&mut self, slot: usize, border: &Border<K>) -> K::Word {
        let Some(key) = &border.key else { return border.word };
        if !self.skip.is_none()
            && (slot == 0 || slot == self.count)
            && let Some(skip) = self.skip.fallen(&self.keys, key)
        {
            self.set_skip(skip);
        }
        self.skip.word(key)
    }

    /// Inserts a border at the end of `slot`.
    pub(super) fn insert(&mut self, slot: usize, border: Border<K>) {
        let word = self.admit(slot, &border);
        if self.count == self.words().len() {
            self.blocks.push([K::Word::MAX; BLOCK]);
        }
        let words = self.blocks.as_flattened_mut();
        words.copy_within(slot..self.count, slot + 1);
        words[slot] = word;
        self.count += 1;
        self.set_lasts(slot);
        if let Some(key) = border.key {
            self.keys.insert(slot, key);
            if self.count.is_power_of_two() {
                self.sharpen();
            }
        }
    }

    /// Removes the border at the end of `slot`.
    pub(super) fn remove(&mut self, slot: usize) -> Border<K> {
        let words = self.blocks.as_flattened_mut();
        let word = words[slot];
        words.copy_within(slot + 1..self.count, slot);
        self.count -= 1;
        words[self.count] = K::Word::MAX;
        self.set_lasts(slot);
        Border { word, key: (!K::Column::EXACT).then(|| self.keys.remove(slot)) }
    }

    /// Removes the borders from `at` on. Returns the first of them separately.
    pub(super) fn split_off(&mut self, at: usize) -> (Border<K>, Self) {
        let mut tail = Separators::new();
        tail.skip = self.skip;
        tail.set_words(0, &self.words()[at + 1..self.count]);
        if !K::Column::EXACT {
            tail.keys = self.keys.split_off(at + 1);
        }
        let between = Border { word: self.words()[at], key: self.keys.pop() };
        self.set_words(at, &[]);
        self.sharpen();
        tail.sharpen();
        (between, tail)
    }

    /// Appends `between` and the borders of `other`.
    pub(super) fn append(&mut self, between: Border<K>, other: Self) {
        if K::Column::EXACT {
            self.set_words(self.count, &[between.word]);
            self.set_words(self.count, &other.words()[..other.count]);
            return;
        }
        self.keys.extend(between.key);
        self.keys.extend(other.keys);
        self.set_skip(Skip::NONE);
        self.sharpen();
    }

    /// True if the words, the padding and `lasts` are correct.
    pub(super) fn is_filled(&self) -> bool {
        self.keys.iter().zip(self.words()).all(|(key, word)| *word == self.skip.word(key))
            && self.keys.iter().all(|key| self.skip.is_shared(&self.keys[0], key))
            && self.words()[self.count..].iter().all(|word| *word == K::Word::MAX)
            && self.keys.len() == if K::Column::EXACT { 0 } else { self.count }
            && self.lasts.len() == self.blocks.len().div_ceil(BLOCK)
            && self.lasts.as_flattened().iter().zip(&self.blocks).all(|(last, block)| *last == block[BLOCK - 1])
            && self.lasts.as_flattened()[self.blocks.len()..].iter().all(|last| *last == K::Word::MAX)
    }
}

impl<K: Key> Default for Separators<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a border with the word `border` is certainly not above a key with the word `word`.
#[inline]
fn is_below<K: Key>(border: K::Word, word: K::Word) -> bool {
    if K::Column::EXACT { border <= word } else { border < word }
}

/// A key as a border: its word if that determines it, otherwise the key.
#[derive(Clone)]
pub(super) struct Border<K: Key> {
    word: K::Word,
    key: Option<K>,
}

impl<K: Key> Border<K> {
    /// Clones `key` if it must be stored.
    #[inline]
    pub(super) fn of(key: &K) -> Self {
        Border { word: key.prefix(), key: (!K::Column::EXACT).then(|| key.clone()) }
    }
}
