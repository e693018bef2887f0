//! The bytes that the keys of a node share.

use std::cmp::Ordering;

use super::{Number, Prefix};

/// The number of bytes that all keys of a node begin with, and that its words leave out. [`prefixed`](super::prefixed) states the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip(u16);

impl Skip {
    pub(crate) const NONE: Self = Skip(0);

    /// A number of keys that share something by rule rather than at random.
    pub(crate) const FEW: usize = 8;

    /// The bytes that two keys share.
    pub(crate) fn shared<P: Prefix, Q: Prefix>(one: &P, other: &Q) -> Self {
        let (Some(one), Some(other)) = (one.key_bytes(), other.key_bytes()) else { return Self::NONE };
        let equal = one.iter().zip(other).take(usize::from(u16::MAX)).take_while(|(one, other)| one == other);
        Skip(equal.count() as u16)
    }

    /// The skip of sorted keys with these words if it rises: if words are equal, or a few keys share half a word more. Of many keys with
    /// different words, none is read.
    pub(crate) fn risen<P: Prefix>(self, keys: &[P], words: &[P::Word]) -> Option<Self> {
        let [first, .., last] = keys else { return None };
        first.key_bytes()?;
        let has_equal = words[..keys.len()].windows(2).any(|two| two[0] == two[1]);
        if !has_equal && keys.len() > Self::FEW {
            return None;
        }
        let shared = Self::shared(first, last);
        let gain = usize::from(shared.0.saturating_sub(self.0));
        (gain >= size_of::<P::Word>() / 2 || has_equal && gain > 0).then_some(shared)
    }

    /// The skip of keys with one that is inserted before or behind them, if it falls.
    pub(crate) fn fallen<P: Prefix>(self, keys: &[P], key: &P) -> Option<Self> {
        match keys {
            [first, ..] if self.is_shared(first, key) => None,
            [first, ..] => Some(Self::shared(first, key)),
            [] => (!self.is_none()).then_some(Self::NONE),
        }
    }

    /// True if two keys share at least this.
    pub(crate) fn is_shared<P: Prefix>(self, one: &P, other: &P) -> bool {
        let (Some(one), Some(other)) = (one.key_bytes(), other.key_bytes()) else { return self.is_none() };
        let skip = usize::from(self.0);
        one.len() >= skip && other.len() >= skip && one[..skip] == other[..skip]
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The word of a key after the skip. A key without bytes, whose word is its prefix, has no skip.
    #[inline]
    pub(crate) fn word<P: Prefix>(self, key: &P) -> P::Word {
        match key.key_bytes() {
            Some(bytes) if !self.is_none() => self.after(bytes),
            _ => key.prefix(),
        }
    }

    /// The word of the bytes after the skip.
    #[inline]
    pub(crate) fn after<W: Number>(self, bytes: &[u8]) -> W {
        W::of_bytes(bytes.get(usize::from(self.0)..).unwrap_or_default())
    }

    /// The order of a key, compared with all keys of a node, one of which is `of`: equal if it begins as they do.
    #[inline]
    pub(crate) fn side(self, key: &[u8], of: &[u8]) -> Ordering {
        let first = |bytes: &[u8]| bytes.len().min(usize::from(self.0));
        key[..first(key)].cmp(&of[..first(of)])
    }
}
