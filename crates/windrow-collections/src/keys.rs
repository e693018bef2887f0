//! Keys, and the numbers that order them.
//!
//! A search looks at numbers first: comparing two machine words takes no branch and no second cache line, comparing two strings takes
//! both. Where the number says everything (integers, pairs of them) the key itself is kept in a plain array and never asked.
//! Elsewhere (strings) the number is made of the first bytes, and the keys are asked only when numbers are equal. Graefe, "Modern
//! B-Tree Techniques" (2011), section 3.5, calls such numbers poor man's normalized keys.

mod impls;
mod prefixed;
mod words;

pub use prefixed::Prefixed;
pub(crate) use words::first_not;
pub use words::{Exact, Words};

/// How many keys a leaf holds at most.
///
/// With keys of 8 bytes a leaf and its header are eight cache lines. On random inserts of one million keys 62 was as fast as 30 and
/// 46 one by one, and needs half of the index of 30.
pub(crate) const CAPACITY: usize = 62;

/// An unsigned number of the machine, as wide as a key needs.
pub trait Number: Copy + Ord + Send + Sync + std::fmt::Debug + 'static + sealed::Sealed {
    /// The largest one: it fills what is not used, so that a search needs no length.
    const MAX: Self;
}

impl Number for u64 {
    const MAX: u64 = u64::MAX;
}

impl Number for u128 {
    const MAX: u128 = u128::MAX;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

/// A number that never contradicts the order: `a <= b` implies `a.prefix() <= b.prefix()`.
///
/// It may be the same for many values, which makes searches slower, not wrong. A prefix that does contradict the order loses keys: they
/// are there, and are not found.
pub trait Prefix: Ord {
    /// `u64`, or `u128` for keys that need more to be told apart.
    type Word: Number;

    /// The number of this value.
    fn prefix(&self) -> Self::Word;
}

/// What a collection can be ordered by.
///
/// Implemented for integers, `bool`, `char`, pairs of integers, strings and byte strings in most of their forms. Any other type that
/// is `Ord + Clone` becomes a key inside of [`Plain`], or by two lines of its own:
///
/// ```
/// use windrow_collections::{Key, OrderedSet, Prefix, Prefixed};
///
/// #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
/// struct Version { major: u32, minor: u32, tag: String }
///
/// impl Prefix for Version {
///     type Word = u64;
///     fn prefix(&self) -> u64 {
///         (u64::from(self.major) << 32) | u64::from(self.minor)
///     }
/// }
/// impl Key for Version {
///     type Column = Prefixed<Self>;
/// }
///
/// let mut versions = OrderedSet::new();
/// assert!(versions.insert(Version { major: 1, minor: 2, tag: "beta".into() }));
/// ```
pub trait Key: Prefix + Clone {
    /// How a leaf keeps its keys: [`Words`] where the prefix is the whole key, else [`Prefixed`].
    type Column: Column<Self>;
}

/// Any type that is `Ord + Clone`, as a key without a prefix: all searches compare keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plain<K>(pub K);

impl<K: Ord> Prefix for Plain<K> {
    type Word = u64;

    #[inline]
    fn prefix(&self) -> u64 {
        0
    }
}

impl<K: Ord + Clone> Key for Plain<K> {
    type Column = Prefixed<Self>;
}

/// The keys of one leaf, sorted. The leaf knows how many they are.
///
/// Only searches compare keys: nothing else in here can run code of a user, but for drops of whole leaves.
pub trait Column<K: Key>: column::Sealed<K> {}

pub(crate) mod column {
    use std::borrow::Borrow;

    use super::{Key, Prefix};

    /// What leaves do with a column.
    pub trait Sealed<K: Key>: Clone {
        /// Whether words tell keys apart, so that an index need not keep the keys.
        const EXACT: bool;

        /// Without keys.
        fn empty() -> Self;

        /// Where `key` is among the first `len`, or where it belongs.
        fn find<Q>(&self, len: usize, word: K::Word, key: &Q) -> Result<usize, usize>
        where
            K: Borrow<Q>,
            Q: Prefix<Word = K::Word> + ?Sized;

        /// The key at `at`.
        fn key(&self, at: usize) -> &K;

        /// Puts `key` at `at`, before what is there.
        fn insert(&mut self, len: usize, at: usize, word: K::Word, key: K);

        /// Takes the key at `at` out.
        fn remove(&mut self, len: usize, at: usize) -> K;

        /// Takes the keys from `at` on.
        fn split_off(&mut self, len: usize, at: usize) -> Self;

        /// Puts the keys of `other` behind the own ones.
        fn append(&mut self, len: usize, other: Self, others: usize);

        /// Asks for the lines that a search and an insert will touch.
        fn prefetch(&self);
    }
}
