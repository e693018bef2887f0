//! Keys that are numbers, in a plain array.

use std::borrow::Borrow;
use std::hint::select_unpredictable;

use windrow_sync::machine::prefetch;

use super::{CAPACITY, Column, Key, Prefix, Skip, column};

/// A key whose prefix is all of it: equal prefixes mean equal keys.
pub trait Exact: Key + Copy {
    /// The key with the largest prefix.
    const LAST: Self;
}

/// Keys that their words determine.
#[derive(Clone, Debug)]
pub struct Words<K>([K; CAPACITY]);

impl<K: Exact> Column<K> for Words<K> where K: Key<Column = Words<K>> {}

impl<K: Exact> column::Sealed<K> for Words<K> {
    const EXACT: bool = true;

    fn empty() -> Self {
        Words([K::LAST; CAPACITY])
    }

    #[inline]
    fn find<Q>(&self, len: usize, word: K::Word, _: &Q, _: Skip) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let at = first_not(&self.0, |key| key.prefix() < word);
        // Unused places hold the largest key, which may also be the key searched for.
        if at < len && self.0[at].prefix() == word { Ok(at) } else { Err(at.min(len)) }
    }

    type IntoKeys = std::array::IntoIter<K, CAPACITY>;

    fn into_keys(self) -> Self::IntoKeys {
        self.0.into_iter()
    }

    #[inline]
    fn keys(&self, len: usize) -> &[K] {
        &self.0[..len]
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        &self.0[at]
    }

    #[inline]
    fn is_below(&self, at: usize, word: K::Word, _: &K) -> bool {
        self.0[at].prefix() < word
    }

    fn is_whole(&self, _: usize) -> bool {
        true
    }

    #[inline]
    fn insert(&mut self, len: usize, at: usize, _: K::Word, key: K) {
        self.0.copy_within(at..len, at + 1);
        self.0[at] = key;
    }

    fn remove(&mut self, len: usize, at: usize) -> K {
        let key = self.0[at];
        self.0.copy_within(at + 1..len, at);
        self.0[len - 1] = K::LAST;
        key
    }

    fn split_off(&mut self, len: usize, at: usize) -> Self {
        let mut tail = Self::empty();
        tail.0[..len - at].copy_from_slice(&self.0[at..len]);
        self.0[at..len].fill(K::LAST);
        tail
    }

    fn append(&mut self, len: usize, other: Self, others: usize) {
        self.0[len..len + others].copy_from_slice(&other.0[..others]);
    }

    #[inline]
    fn prefetch(&self) {
        prefetch_lines(&self.0);
    }
}

/// The first index whose item is not `below`; the length of the array if there is none.
///
/// The number of steps depends on the length alone, which is a constant. So there is no branch to predict, and the searches of a group
/// overlap.
#[inline]
pub(crate) fn first_not<T, const N: usize>(sorted: &[T; N], below: impl Fn(&T) -> bool) -> usize {
    let (mut base, mut rest) = (0, N);
    while rest > 1 {
        let half = rest / 2;
        base = select_unpredictable(below(&sorted[base + half - 1]), base + half, base);
        rest -= half;
    }
    base + usize::from(below(&sorted[base]))
}

/// Prefetches each cache line of an array.
#[inline]
pub(super) fn prefetch_lines<T, const N: usize>(items: &[T; N]) {
    const LINE: usize = 64;
    let step = (LINE / size_of::<T>().max(1)).max(1);
    let mut at = 0;
    while at < N {
        prefetch(&items[at]);
        at += step;
    }
}
