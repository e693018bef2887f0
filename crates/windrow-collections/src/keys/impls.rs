//! The keys of the standard library.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::words::{Exact, Words};
use super::{Key, Number, Prefix, Prefixed};

/// A key that its number determines: its type, the type of the number, the conversion, the largest key.
macro_rules! exact {
    ($($key:ty, $word:ty, |$of:ident| $make:expr, $last:expr;)*) => { $(
        impl Prefix for $key {
            type Word = $word;
            #[inline]
            fn prefix(&self) -> $word {
                let $of = *self;
                $make
            }
        }
        impl Key for $key {
            type Column = Words<Self>;
        }
        impl Exact for $key {
            const LAST: Self = $last;
        }
    )* };
}

exact! {
    u8, u64, |n| u64::from(n), u8::MAX;
    u16, u64, |n| u64::from(n), u16::MAX;
    u32, u64, |n| u64::from(n), u32::MAX;
    u64, u64, |n| n, u64::MAX;
    usize, u64, |n| n as u64, usize::MAX;
    u128, u128, |n| n, u128::MAX;
    // Flipping the sign puts the negative numbers first.
    i8, u64, |n| u64::from(n as u8 ^ (1 << 7)), i8::MAX;
    i16, u64, |n| u64::from(n as u16 ^ (1 << 15)), i16::MAX;
    i32, u64, |n| u64::from(n as u32 ^ (1 << 31)), i32::MAX;
    i64, u64, |n| n as u64 ^ (1 << 63), i64::MAX;
    isize, u64, |n| n as i64 as u64 ^ (1 << 63), isize::MAX;
    i128, u128, |n| n as u128 ^ (1 << 127), i128::MAX;
    bool, u64, |n| u64::from(n), true;
    char, u64, |n| u64::from(n), char::MAX;
    (), u64, |_n| 0, ();
}

/// Pairs: the first number in the high half, the second in the low half.
macro_rules! pairs {
    ($word:ty, $bits:expr, $($first:ty: $second:ty;)*) => {
        exact! { $(
            ($first, $second), $word,
            |pair| (<$word>::from(pair.0.prefix()) << $bits) | <$word>::from(pair.1.prefix()),
            (<$first>::MAX, <$second>::MAX);
        )* }
    };
}

pairs! { u64, 32,
    u32: u32; u32: i32; i32: u32; i32: i32;
    u32: u16; u16: u32; u16: u16; u32: u8; u8: u32; u16: u8; u8: u16; u8: u8;
}
pairs! { u128, 64,
    u64: u64; u64: i64; i64: u64; i64: i64; usize: usize;
    u64: u32; u32: u64; i64: u32; u32: i64; u64: i32; i32: u64; i64: i32; i32: i64;
}

impl Prefix for str {
    type Word = u64;

    #[inline]
    fn prefix(&self) -> u64 {
        u64::of_bytes(self.as_bytes())
    }

    #[inline]
    fn key_bytes(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
}

impl Prefix for [u8] {
    type Word = u64;

    #[inline]
    fn prefix(&self) -> u64 {
        u64::of_bytes(self)
    }

    #[inline]
    fn key_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

macro_rules! strings {
    ($([$($life:lifetime)?] $key:ty;)*) => { $(
        impl<$($life)?> Prefix for $key {
            type Word = u64;
            #[inline]
            fn prefix(&self) -> u64 {
                (**self).prefix()
            }
            #[inline]
            fn key_bytes(&self) -> Option<&[u8]> {
                (**self).key_bytes()
            }
        }
        impl<$($life)?> Key for $key {
            type Column = Prefixed<Self>;
        }
    )* };
}

strings! {
    [] String; [] Box<str>; [] Rc<str>; [] Arc<str>; ['a] &'a str; ['a] Cow<'a, str>;
    [] Vec<u8>; [] Box<[u8]>; [] Rc<[u8]>; [] Arc<[u8]>; ['a] &'a [u8]; ['a] Cow<'a, [u8]>;
}

impl<const N: usize> Prefix for [u8; N] {
    type Word = u64;

    #[inline]
    fn prefix(&self) -> u64 {
        u64::of_bytes(self)
    }

    #[inline]
    fn key_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    type Column = Prefixed<Self>;
}
