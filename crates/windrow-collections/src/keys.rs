//! Keys, and the numbers that order them.
//!
//! A search compares numbers first: comparing two machine words takes no branch and no second cache line, but comparing two strings
//! takes both. If the number determines the key (integers, pairs of integers), the keys are a plain array and are never compared.
//! Otherwise (strings) the number consists of the bytes after those that its neighbours share, and keys are compared only if numbers are
//! equal: see `prefixed`. Graefe, "Modern B-Tree Techniques" (2011), section 3.5, calls such numbers poor man's normalized keys.

mod impls;
mod prefixed;
mod skip;
mod words;

pub use prefixed::Prefixed;
pub(crate) use skip::Skip;
pub(crate) use words::first_not;
pub use words::{Exact, Words};

/// Maximum number of keys in a leaf.
///
/// With keys of 8 bytes, a leaf and its header fill eight cache lines. For random single inserts of one million keys, 62 was as fast as
/// 30 and 46, and needs half of the index of 30.
pub(crate) const CAPACITY: usize = 62;

/// An unsigned machine integer, as wide as a key needs.
pub trait Number: Copy + Ord + Send + Sync + std::fmt::Debug + 'static + sealed::Sealed {
    /// The largest number. It fills unused places, so that a search needs no length.
    const MAX: Self;

    /// The first bytes, most significant first. Missing bytes are zeros, so the number of fewer bytes is lower or equal.
    fn of_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Number for $number {
            const MAX: Self = Self::MAX;

            #[inline]
            fn of_bytes(bytes: &[u8]) -> Self {
                match bytes.first_chunk() {
                    Some(first) => Self::from_be_bytes(*first),
                    None => {
                        let mut first = [0; size_of::<Self>()];
                        first[..bytes.len()].copy_from_slice(bytes);
                        Self::from_be_bytes(first)
                    }
                }
            }
        }
    )* };
}

numbers! { u64 u128 }

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

/// A number that never contradicts the order: `a <= b` implies `a.prefix() <= b.prefix()`.
///
/// Many values may have the same number, which makes searches slower, not wrong. A prefix that contradicts the order loses keys: they
/// are stored but not found.
///
/// ```
/// use windrow_collections::Prefix;
///
/// assert!("apple".prefix() < "pear".prefix() && (-1_i32).prefix() < 1_i32.prefix());
/// assert_eq!("applause".prefix(), "applauses".prefix(), "the first eight bytes: the keys themselves decide");
/// ```
pub trait Prefix: Ord {
    /// `u64`, or `u128` for keys that need more bits to differ.
    type Word: Number;

    /// The number of this value.
    fn prefix(&self) -> Self::Word;

    /// The bytes that order this value, if there are such: `a.cmp(b)` is `a.key_bytes().cmp(&b.key_bytes())`.
    ///
    /// With them, a map skips the bytes that neighbours share, so keys that begin alike are found as fast as others. Strings have them, and a
    /// type around a string passes them on. The bytes of a key do not change, the call does not panic, and a borrowed form of the key has the
    /// same bytes or none.
    ///
    /// ```
    /// use windrow_collections::Prefix;
    ///
    /// #[derive(PartialEq, Eq, PartialOrd, Ord)]
    /// struct Url(String);
    ///
    /// impl Prefix for Url {
    ///     type Word = u64;
    ///     fn prefix(&self) -> u64 {
    ///         self.0.prefix()
    ///     }
    ///     fn key_bytes(&self) -> Option<&[u8]> {
    ///         self.0.key_bytes()
    ///     }
    /// }
    /// ```
    #[inline]
    fn key_bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// A type that can order a collection.
///
/// Implemented for integers, `bool`, `char`, pairs of integers, and most forms of strings and byte strings. Any other type that is
/// `Ord + Clone` becomes a key inside of [`Plain`], or by implementing two traits:
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
    /// How a leaf stores its keys: [`Words`] if the prefix is the whole key, otherwise [`Prefixed`].
    type Column: Column<Self>;
}

/// Any type that is `Ord + Clone`, as a key without a prefix: all searches compare keys.
///
/// ```
/// use windrow_collections::{OrderedMap, Plain};
///
/// // A pair with a string is no key by itself.
/// let mut map = OrderedMap::new();
/// map.insert(Plain((2, "b")), 'y');
/// map.insert(Plain((2, "a")), 'x');
/// assert!(map.into_values().eq(['x', 'y']));
/// ```
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

/// The sorted keys of one leaf. The leaf knows their number.
///
/// Only searches compare keys. Other methods read their words and bytes, and may drop whole leaves.
pub trait Column<K: Key>: column::Sealed<K> {}

pub(crate) mod column {
    use std::borrow::Borrow;

    use super::{CAPACITY, Key, Prefix, Skip};

    /// What leaves do with a column.
    pub trait Sealed<K: Key>: Clone {
        /// Whether words determine keys, so that an index need not store the keys.
        const EXACT: bool;

        /// A column without keys.
        fn empty() -> Self;

        /// The index of `key` among the first `len` keys, or the index at which to insert it. It is known to share bytes with them. Here
        /// and below, `word` is its prefix.
        fn find<Q>(&self, len: usize, word: K::Word, key: &Q, known: Skip) -> Result<usize, usize>
        where
            K: Borrow<Q>,
            Q: Prefix<Word = K::Word> + ?Sized;

        /// The keys, of which there are `len`.
        fn keys(&self, len: usize) -> &[K];

        /// The key at `at`.
        fn key(&self, at: usize) -> &K;

        /// True if the key at `at` is below `key`.
        fn is_below(&self, at: usize, word: K::Word, key: &K) -> bool;

        /// True if the words are those of the keys.
        fn is_whole(&self, len: usize) -> bool;

        /// The keys by value. There may be more of them than the leaf has.
        type IntoKeys: DoubleEndedIterator<Item = K> + ExactSizeIterator;

        /// All keys, ascending.
        fn into_keys(self) -> Self::IntoKeys;

        /// Inserts `key` at `at`.
        fn insert(&mut self, len: usize, at: usize, word: K::Word, key: K);

        /// Removes the key at `at`.
        fn remove(&mut self, len: usize, at: usize) -> K;

        /// The index at which to divide a full column.
        fn middle(&self) -> usize {
            CAPACITY / 2
        }

        /// Removes the keys from `at` on and returns them.
        fn split_off(&mut self, len: usize, at: usize) -> Self;

        /// Appends the keys of `other`.
        fn append(&mut self, len: usize, other: Self, others: usize);

        /// Prefetches the cache lines that a search and an insert will touch.
        fn prefetch(&self);
    }
}
