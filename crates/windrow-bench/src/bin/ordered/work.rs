//! The work: kinds of keys, orders, mixes.

use std::fmt::Debug;

use windrow_bench::random::Random;
use windrow_collections::{Key, SetOp};

/// Keys are made of numbers below this, as in obatcher's table.
const NUMBERS: u64 = 1 << 30;

/// A kind of keys; a larger number makes a larger key.
pub(crate) trait Kind: Key<Column: Send + Sync> + Send + Sync + Debug + std::hash::Hash + 'static {
    const NAME: &'static str;

    fn of(number: u64) -> Self;

    /// The key as an integer, for peers that support only integers.
    fn integer(&self) -> Option<usize> {
        None
    }
}

impl Kind for u64 {
    const NAME: &'static str = "u64";

    fn of(number: u64) -> Self {
        number
    }

    fn integer(&self) -> Option<usize> {
        Some(*self as usize)
    }
}

impl Kind for (u32, u32) {
    const NAME: &'static str = "pair";

    fn of(number: u64) -> Self {
        ((number >> 15) as u32, (number & 0x7FFF) as u32)
    }
}

/// 16 to 40 bytes that differ near the beginning.
impl Kind for String {
    const NAME: &'static str = "string";

    fn of(number: u64) -> Self {
        let tail = &"-abcdefghijklmnopqrstuvw"[..(number % 25) as usize];
        format!("{:016x}{tail}", number << 34)
    }
}

/// A string whose first 20 bytes are always the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path(String);

impl windrow_collections::Prefix for Path {
    type Word = u64;

    fn prefix(&self) -> u64 {
        self.0.prefix()
    }
}

impl Key for Path {
    type Column = windrow_collections::Prefixed<Self>;
}

impl Kind for Path {
    const NAME: &'static str = "path";

    fn of(number: u64) -> Self {
        Path(format!("/var/lib/collection/{number:010}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// Uniform among 2^30 numbers.
    Random,
    /// Each larger than all before.
    Ascending,
    /// Number n with a probability of 1/n, numbers shuffled over the range.
    Zipf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mix {
    /// Inserts.
    Insert,
    /// As many look-ups, half of them of keys that exist from the beginning.
    Half,
}

/// The size of a cell: keys before the run, and timed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) before: usize,
    pub(crate) ops: usize,
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let (digits, scale) = match text.strip_suffix(['k', 'M']) {
                Some(digits) if text.ends_with('k') => (digits, 1_000),
                Some(digits) => (digits, 1_000_000),
                None => (text, 1),
            };
            digits.parse::<usize>().map(|number| number * scale).map_err(|error| format!("{text}: {error}"))
        };
        let (before, ops) = text.split_once('+').ok_or("a size is BEFORE+OPS, as in 1M+100k")?;
        let size = Size { before: number(before)?, ops: number(ops)? };
        if size.ops == 0 { Err("no operations".to_owned()) } else { Ok(size) }
    }
}

/// The numbers of the keys before the run.
pub(crate) fn before(size: Size, random: &mut Random) -> Vec<u64> {
    (0..size.before).map(|_| random.bits() % NUMBERS).collect()
}

/// The operations of one repetition.
pub(crate) fn ops<K: Kind>(order: Order, mix: Mix, ops: usize, before: &[u64], random: &mut Random) -> Vec<SetOp<K>> {
    let one = |at: usize| {
        let number = match order {
            Order::Random => random.bits() % NUMBERS,
            Order::Ascending => NUMBERS + at as u64,
            // The inverse of the sum of 1/n, which is about a logarithm.
            Order::Zipf => {
                let share = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
                let rank = ((before.len().max(2) as f64).ln() * share).exp() as u64;
                rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % NUMBERS
            }
        };
        match mix {
            Mix::Half if at % 4 == 1 && !before.is_empty() => {
                SetOp::Contains(K::of(before[random.below(before.len())]))
            }
            Mix::Half if at % 4 == 3 => SetOp::Contains(K::of(number)),
            _ => SetOp::Insert(K::of(number)),
        }
    };
    (0..ops).map(one).collect()
}
