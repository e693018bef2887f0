//! The work of sets: inserts in an order.

use windrow_bench::work::Random;
use windrow_collections::SetOp;

/// Keys are made of numbers below this, as in obatcher's table.
const NUMBERS: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// Uniform among 2^30 numbers.
    Random,
    /// Each larger than all before.
    Ascending,
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
pub(crate) fn ops(order: Order, ops: usize, random: &mut Random) -> Vec<SetOp<u64>> {
    let number = |at: usize| match order {
        Order::Random => random.bits() % NUMBERS,
        Order::Ascending => NUMBERS + at as u64,
    };
    (0..ops).map(number).map(SetOp::Insert).collect()
}
