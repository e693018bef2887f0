//! Call sites at one line: 64 that are called again and again, 64 for calls that are the first ones of their site, and 11 whose cost flips.

use windrow::prelude::*;
use windrow_testkit::contract::{Pair, work};

/// The serial loop of [`site`].
pub(crate) fn serial_site<const K: u64>(items: &[u64], turns: u64, out: &mut [u64]) -> u64 {
    items.iter().zip(out).for_each(|(x, out)| *out = work(x ^ K, turns));
    0
}

/// The line.
pub(crate) fn site<const K: u64>(items: &[u64], turns: u64, out: &mut [u64]) -> u64 {
    items.par_iter().zip(out).for_each(|(x, out)| *out = work(x ^ K, turns));
    0
}

macro_rules! sites {
    ($($k:literal)*) => { [$((serial_site::<$k>, site::<$k>)),*] };
}

#[rustfmt::skip]
pub(crate) static LINE: [Pair; 64] = sites!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);

#[rustfmt::skip]
pub(crate) static FRESH: [Pair; 64] = sites!(
    64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127
);

pub(crate) static FLIPPING: [Pair; 11] = sites!(128 129 130 131 132 133 134 135 136 137 138);
