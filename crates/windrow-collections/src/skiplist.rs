//! A skip list in an arena, with interleaved searches.

mod walk;

use std::borrow::Borrow;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

use crate::keys::column::Sealed;
use crate::keys::{Key, Number, Prefix};
use crate::ordered::{All, Mixed, Ops, SetOp, Verb};
use walk::{GROUP, Walks};

/// Number of levels. One node in four reaches the next level, so this is enough for as many nodes as `u32` can number.
const LEVELS: usize = 16;

/// The null tower.
const NONE: u32 = u32::MAX;

/// The tower before all keys.
const HEAD: u32 = 0;

/// Batches from this size on are sorted by key first.
const LARGE: usize = 4096;

/// A sorted set of nodes with links of several lengths (Pugh, "Skip lists: a probabilistic alternative to balanced trees", 1990).
///
/// The list is for comparison: [`OrderedSet`](crate::OrderedSet) does the same several times as fast. A link holds the first word
/// of the key it leads to, so a search loads a node only if it goes there. A batch interleaves many searches, so that their cache
/// misses overlap.
///
/// # Panics
/// If `Ord` or `Clone` of a key panics, the panic reaches the caller, and the operation has changed nothing.
///
/// ```
/// use windrow_collections::SkipList;
///
/// let mut list = SkipList::new();
/// let mut new = [false; 4];
/// list.insert_all(&[5_u64, 7, 5, 1], &mut new);
/// assert_eq!(new, [true, true, false, true]);
/// assert!(list.iter().eq(&[1, 5, 7]));
/// ```
#[derive(Clone)]
pub struct SkipList<K: Key> {
    /// Towers: the links of each node in a row, the lowest first. The index of its lowest link names a tower.
    links: Vec<Link<K::Word>>,
    /// Keys by slot; `None` for a free slot.
    keys: Vec<Option<K>>,
    /// Number of links in the tower of each slot.
    heights: Vec<u8>,
    /// Free towers, by height.
    free: [Vec<u32>; LEVELS],
    /// Levels in use.
    levels: usize,
    len: usize,
    /// The state of the generator of heights.
    seed: u64,
    /// Number of removals: each invalidates the towers found before.
    removals: u32,
    walks: Walks<K::Word>,
}

/// A link, with the word of the key it leads to.
#[derive(Clone, Copy)]
struct Link<W> {
    word: W,
    next: u32,
    /// In the lowest link of a tower: the slot of the tower's key.
    slot: u32,
}

impl<W: Number> Link<W> {
    const END: Self = Link { word: W::MAX, next: NONE, slot: NONE };
}

/// The last tower before a key, by level.
type Before = [u32; LEVELS];

impl<K: Key> SkipList<K> {
    /// A list without keys.
    pub fn new() -> Self {
        SkipList {
            links: vec![Link::END; LEVELS],
            keys: Vec::new(),
            heights: Vec::new(),
            free: Default::default(),
            levels: 1,
            len: 0,
            // Any number but 0, always the same, so that runs can be repeated.
            seed: 0x9E37_79B9_7F4A_7C15,
            removals: 0,
            walks: Walks::new(),
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all keys and frees their memory.
    pub fn clear(&mut self) {
        drop(std::mem::take(self));
    }

    /// Whether the list contains `key`.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let word = key.prefix();
        self.is_at(self.before(word, key)[0], word, key)
    }

    /// Inserts `key` and returns whether it is new. A key that is already present stays.
    pub fn insert(&mut self, key: K) -> bool {
        let word = key.prefix();
        let before = self.before(word, &key);
        let new = !self.is_at(before[0], word, &key);
        if new {
            let height = self.draw();
            self.link(&before, height, word, key);
        }
        new
    }

    /// Removes `key` and returns whether it was present.
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let word = key.prefix();
        let before = self.before(word, key);
        let found = self.is_at(before[0], word, key);
        if found {
            drop(self.unlink(&before));
        }
        found
    }

    /// The smallest key.
    pub fn first(&self) -> Option<&K> {
        self.key(self.links[HEAD as usize].next)
    }

    /// The largest key.
    pub fn last(&self) -> Option<&K> {
        let mut at = HEAD;
        for level in (0..self.levels).rev() {
            while self.link_of(at, level).next != NONE {
                at = self.link_of(at, level).next;
            }
        }
        if at == HEAD { None } else { self.key(at) }
    }

    /// All keys, ascending.
    pub fn iter(&self) -> Nodes<'_, K> {
        Nodes { list: self, at: self.links[HEAD as usize].next, end: NONE }
    }

    /// The keys of a range, ascending.
    ///
    /// A range that excludes both of its equal ends is empty.
    ///
    /// # Panics
    /// If the start of the range is behind its end.
    pub fn range<Q>(&self, range: impl RangeBounds<Q>) -> Nodes<'_, K>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) =
            (range.start_bound(), range.end_bound())
        {
            assert!(low <= high, "the range begins after its end");
        }
        let first = |key: &Q, above: bool| {
            let word = key.prefix();
            let before = self.before(word, key)[0];
            let link = self.link_of(before, 0);
            if above && self.is_at(before, word, key) { self.link_of(link.next, 0).next } else { link.next }
        };
        let at = match range.start_bound() {
            Bound::Included(key) => first(key, false),
            Bound::Excluded(key) => first(key, true),
            Bound::Unbounded => self.link_of(HEAD, 0).next,
        };
        let end = match range.end_bound() {
            Bound::Included(key) => first(key, true),
            Bound::Excluded(key) => first(key, false),
            Bound::Unbounded => NONE,
        };
        // If both ends are equal and excluded, the end comes before the start.
        let empty = match (range.start_bound(), range.end_bound()) {
            (Bound::Excluded(low), Bound::Excluded(high)) => low == high,
            _ => false,
        };
        Nodes { list: self, at: if empty { end } else { at }, end }
    }

    #[inline]
    fn link_of(&self, tower: u32, level: usize) -> &Link<K::Word> {
        &self.links[tower as usize + level]
    }

    fn key(&self, tower: u32) -> Option<&K> {
        if tower == NONE {
            return None;
        }
        self.keys[self.link_of(tower, 0).slot as usize].as_ref()
    }

    /// Whether the key that a link leads to is below `key`.
    #[inline]
    fn is_below<Q>(&self, link: &Link<K::Word>, word: K::Word, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let equal = !K::Column::EXACT && link.word == word;
        link.word < word || (equal && self.key(link.next).is_some_and(|other| other.borrow() < key))
    }

    /// Whether `key` directly follows a tower that is before it.
    #[inline]
    fn is_at<Q>(&self, before: u32, word: K::Word, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let link = self.link_of(before, 0);
        link.word == word
            && link.next != NONE
            && (K::Column::EXACT || self.key(link.next).is_some_and(|other| other.borrow() == key))
    }

    /// The last tower before a key, on each level.
    fn before<Q>(&self, word: K::Word, key: &Q) -> Before
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let (mut before, mut at) = ([HEAD; LEVELS], HEAD);
        for level in (0..self.levels).rev() {
            at = self.follow(at, level, word, key);
            before[level] = at;
        }
        before
    }

    /// Follows the links of this level from a tower before a key to the last such tower.
    #[inline]
    fn follow<Q>(&self, mut at: u32, level: usize, word: K::Word, key: &Q) -> u32
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        while self.is_below(self.link_of(at, level), word, key) {
            at = self.link_of(at, level).next;
        }
        at
    }

    /// Inserts a key that is not present behind these towers. No user code runs.
    fn link(&mut self, before: &Before, height: usize, word: K::Word, key: K) {
        let tower = match self.free[height - 1].pop() {
            Some(tower) => tower,
            None => self.build(height),
        };
        let slot = self.link_of(tower, 0).slot;
        self.keys[slot as usize] = Some(key);
        for (level, before) in before.iter().enumerate().take(height) {
            let link = &mut self.links[*before as usize + level];
            let behind = *link;
            (link.word, link.next) = (word, tower);
            let link = &mut self.links[tower as usize + level];
            (link.word, link.next) = (behind.word, behind.next);
        }
        self.levels = self.levels.max(height);
        self.len += 1;
    }

    /// A new tower and its slot.
    fn build(&mut self, height: usize) -> u32 {
        let tower = u32::try_from(self.links.len()).expect("a skip list has fewer than 2^32 links");
        let slot = self.keys.len() as u32;
        self.links.push(Link { slot, ..Link::END });
        self.links.resize(self.links.len() + height - 1, Link::END);
        self.keys.push(None);
        self.heights.push(height as u8);
        tower
    }

    /// A random height: one in four is above 1, of these one in four above 2. (xorshift64, Marsaglia 2003.)
    fn draw(&mut self) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed.trailing_zeros() as usize / 2 + 1).min(LEVELS)
    }

    /// Removes the key that directly follows these towers. No user code runs.
    fn unlink(&mut self, before: &Before) -> Option<K> {
        let tower = self.link_of(before[0], 0).next;
        let slot = self.link_of(tower, 0).slot as usize;
        let height = usize::from(self.heights[slot]);
        for (level, before) in before.iter().enumerate().take(height) {
            let Link { word, next, .. } = *self.link_of(tower, level);
            let link = &mut self.links[*before as usize + level];
            debug_assert_eq!(link.next, tower);
            (link.word, link.next) = (word, next);
        }
        self.free[height - 1].push(tower);
        self.len -= 1;
        self.removals = self.removals.wrapping_add(1);
        self.keys[slot].take()
    }

    /// Checks every invariant of the structure by reading all keys; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let claim = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        claim(self.iter().count() == self.len, "wrong length")?;
        claim(self.iter().is_sorted_by(|a, b| a < b), "keys out of order")?;
        claim(self.keys.iter().flatten().count() == self.len, "a key is lost")?;
        claim(self.free.iter().map(Vec::len).sum::<usize>() + self.len == self.keys.len(), "a tower is lost")?;
        for level in 0..LEVELS {
            let mut at = HEAD;
            let mut count = 0;
            while self.link_of(at, level).next != NONE {
                let link = *self.link_of(at, level);
                let key = self.key(link.next).ok_or("a link to a free tower")?;
                claim(key.prefix() == link.word, "a link with the word of another key")?;
                claim(self.before(link.word, key)[level] == at, "a search does not reach a tower")?;
                let slot = self.link_of(link.next, 0).slot as usize;
                claim(usize::from(self.heights[slot]) > level, "a link above its tower")?;
                (at, count) = (link.next, count + 1);
            }
            let here = |slot: &usize| self.keys[*slot].is_some() && usize::from(self.heights[*slot]) > level;
            claim((0..self.keys.len()).filter(here).count() == count, "a tower without links")?;
            claim(level < self.levels || count == 0, "one level too many")?;
        }
        Ok(())
    }
}

impl<K: Key> SkipList<K> {
    /// Applies a batch, as if one operation after the other. For an insert, the result says whether the key is new; for other
    /// operations, whether it was present.
    ///
    /// # Panics
    /// If `ops` and `results` differ in length. If a comparison or a clone panics: completed operations stay done.
    pub fn apply(&mut self, ops: &[SetOp<K>], results: &mut [bool]) {
        assert_eq!(ops.len(), results.len(), "one result per operation");
        self.run_keyed(&mut Mixed { ops, results });
    }

    /// Inserts keys, as if one after the other, and stores for each whether it is new.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    pub fn insert_all(&mut self, keys: &[K], new: &mut [bool]) {
        assert_eq!(keys.len(), new.len(), "one result per key");
        self.run_keyed(&mut All::<_, true> { keys, results: new });
    }

    /// Removes keys, as if one after the other, and stores for each whether it was present.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    pub fn remove_all(&mut self, keys: &[K], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one result per key");
        self.run_keyed(&mut All::<_, false> { keys, results: found });
    }

    /// Applies operations with keys, as if one after the other.
    pub(crate) fn run_keyed(&mut self, ops: &mut impl Ops<K, ()>) {
        let mut walks = std::mem::replace(&mut self.walks, Walks::new());
        if ops.count() < LARGE {
            for start in (0..ops.count()).step_by(GROUP) {
                self.group(ops, &mut walks, start..ops.count().min(start + GROUP));
            }
        } else {
            // Neighbours in the sorted batch are neighbours in the list, and share most of their search paths.
            let mut order = std::mem::take(&mut walks.order);
            order.clear();
            order.extend((0..ops.count()).map(|at| (ops.key(at).prefix(), at)));
            order.sort_unstable_by(|a, b| {
                let by_word = a.0.cmp(&b.0);
                let by_key =
                    if K::Column::EXACT { by_word } else { by_word.then_with(|| ops.key(a.1).cmp(ops.key(b.1))) };
                by_key.then(a.1.cmp(&b.1))
            });
            let mut from = [HEAD; LEVELS];
            for group in order.chunks(GROUP) {
                walks.from = from;
                self.group(ops, &mut walks, group.iter().map(|(_, at)| *at));
                // These towers are before the last key, and so before all following ones. None was removed since `group` found them: the last
                // operation removes at most the tower that follows them.
                from = walks.before[group.len() - 1];
            }
            walks.from = [HEAD; LEVELS];
            walks.order = order;
        }
        self.walks = walks;
    }

    /// Applies up to `GROUP` operations, in this order.
    fn group(
        &mut self,
        ops: &mut impl Ops<K, ()>,
        walks: &mut Walks<K::Word>,
        which: impl Iterator<Item = usize> + Clone,
    ) {
        self.walk(walks, which.clone().map(|at| ops.key(at)));
        let removals = self.removals;
        for (before, at) in walks.before.iter_mut().zip(which) {
            let (word, key) = (ops.key(at).prefix(), ops.key(at));
            if self.removals != removals {
                *before = self.before(word, key);
            }
            // Operations of this group may have inserted keys in between.
            before[0] = self.follow(before[0], 0, word, key);
            let found = self.is_at(before[0], word, key);
            let mut gone = None;
            let verb = ops.verb(at);
            match (verb, found) {
                (Verb::Insert, false) => {
                    let height = self.draw();
                    self.follow_all(before, height, word, key);
                    let (key, ()) = ops.take(at);
                    self.link(before, height, word, key);
                }
                (Verb::Insert, true) => ops.take_value(at),
                (Verb::Remove, true) => {
                    self.follow_all(before, self.levels, word, key);
                    gone = self.unlink(before);
                }
                (Verb::Remove, false) | (Verb::Get, _) => {}
                (Verb::Update, _) => unreachable!("a set has no values to update"),
            }
            ops.answer(at, verb, found.then_some(()));
            drop(gone);
        }
    }

    /// Follows the links of all levels from 1 on, from towers before a key to the last such towers.
    fn follow_all(&self, before: &mut Before, levels: usize, word: K::Word, key: &K) {
        for (level, before) in before.iter_mut().enumerate().take(levels).skip(1) {
            *before = self.follow(*before, level, word, key);
        }
    }
}

impl<K: Key> Default for SkipList<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Keys of a [`SkipList`], ascending.
///
/// ```
/// use windrow_collections::SkipList;
///
/// let mut list = SkipList::new();
/// list.insert_all(&[5_u64, 7, 1, 3], &mut [false; 4]);
/// assert!(list.range(3..7).eq(&[3, 5]));
/// ```
pub struct Nodes<'a, K: Key> {
    list: &'a SkipList<K>,
    at: u32,
    end: u32,
}

impl<'a, K: Key> Iterator for Nodes<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        if self.at == self.end {
            return None;
        }
        let key = self.list.key(self.at);
        self.at = self.list.link_of(self.at, 0).next;
        key
    }
}

impl<K: Key> FusedIterator for Nodes<'_, K> {}

impl<K: Key> Clone for Nodes<'_, K> {
    fn clone(&self) -> Self {
        Nodes { ..*self }
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for Nodes<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.clone()).finish()
    }
}

impl<'a, K: Key> IntoIterator for &'a SkipList<K> {
    type Item = &'a K;
    type IntoIter = Nodes<'a, K>;

    fn into_iter(self) -> Nodes<'a, K> {
        self.iter()
    }
}

impl<K: Key> Extend<K> for SkipList<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Key> FromIterator<K> for SkipList<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut list = Self::new();
        list.extend(keys);
        list
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for SkipList<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}
