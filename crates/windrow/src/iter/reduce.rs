//! Reductions with the same bits for every number of threads.
//!
//! Items are cut into blocks whose bounds depend on the number of items alone. Each block is reduced separately, and the results are
//! combined in order.

use std::iter::{Product, Sum};
use std::marker::PhantomData;
use std::ops::ControlFlow;

use windrow_sync::divide::{Divide, Division, Span};
use windrow_sync::slots::Slots;
use windrow_sync::views::Blocks;

use super::recipe::Recipe;
use super::runs::{Apart, in_runs};
use super::{ParallelIterator, consumed};
use crate::runtime::poll::{PollInterval, PolledPieces};
use crate::runtime::pool::with_current;
use crate::runtime::region::drive;

/// Reduces one block. (A trait and not a closure: closures cannot be generic over the iterator they get, and a
/// `dyn Iterator` would cost a call an item.)
pub(crate) trait Each<I>: Sync {
    type Result: Send;
    fn each(&self, items: impl Iterator<Item = I>) -> Self::Result;
}

pub(crate) struct Sums<T>(PhantomData<fn() -> T>);
pub(crate) struct Products<T>(PhantomData<fn() -> T>);
pub(crate) struct CountItems;
pub(crate) struct Least;
pub(crate) struct Greatest;
pub(crate) struct Folds<'a, I, F>(pub(crate) &'a I, pub(crate) &'a F);
pub(crate) struct Reduces<'a, F>(pub(crate) &'a F);
pub(crate) struct Gathers;

impl<T> Sums<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Products<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<I, T: Sum<I> + Send> Each<I> for Sums<T> {
    type Result = T;
    fn each(&self, items: impl Iterator<Item = I>) -> T {
        items.sum()
    }
}

impl<I, T: Product<I> + Send> Each<I> for Products<T> {
    type Result = T;
    fn each(&self, items: impl Iterator<Item = I>) -> T {
        items.product()
    }
}

impl<I> Each<I> for CountItems {
    type Result = usize;
    fn each(&self, items: impl Iterator<Item = I>) -> usize {
        items.count()
    }
}

impl<I: Ord + Send> Each<I> for Least {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.min()
    }
}

impl<I: Ord + Send> Each<I> for Greatest {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.max()
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Each<T> for Folds<'_, I, F> {
    type Result = T;
    fn each(&self, items: impl Iterator<Item = T>) -> T {
        items.fold((self.0)(), self.1)
    }
}

impl<I: Send, F: Fn(I, I) -> I + Sync> Each<I> for Reduces<'_, F> {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.reduce(self.0)
    }
}

impl<I: Send> Each<I> for Gathers {
    type Result = Vec<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Vec<I> {
        items.collect()
    }
}

/// The number of items of a block in a reduction over `n` items. It depends on `n` alone; otherwise results would depend on the machine.
/// 128 blocks are eight for each of 16 members. A block of 8192 items takes at least some microseconds (0.5 ns an item in
/// the record `par`), far more than a claim. Larger blocks would only balance worse.
///
/// The result of every block is kept until the end. So there are 2^20 blocks at most (8 MB of 64-bit sums), and above 2^33 items
/// blocks get longer.
pub(crate) fn block(n: usize) -> usize {
    n.div_ceil(128).clamp(1, LONGEST).max(n.div_ceil(MOST_BLOCKS))
}

/// Items of the longest block that runs without polling.
///
/// Measure: count of items.
pub(crate) const LONGEST: usize = 8192;
const MOST_BLOCKS: usize = 1 << 20;

/// The result of every block, in order. (For a loose recipe: of every chunk, since fixed blocks would not fix its result.)
#[track_caller]
pub(crate) fn in_blocks<P: ParallelIterator, E: Each<P::Item>>(iter: P, each: &E) -> Vec<E::Result> {
    if P::Recipe::LOOSE {
        return in_runs(iter, &Apart(each)).into_iter().flatten().collect();
    }
    let (source, recipe, hints) = consumed(iter);
    let n = source.total();
    let block = block(n);
    let hints = hints.of_blocks(block, n);
    with_current(|pool| {
        let blocks = Blocks::new(source, block);
        let slots = Slots::new(blocks.total(), pool.members);
        let mut division = Division::new((blocks, slots));
        let (lead, shared) = division.lead();
        // In long blocks members poll for panics of other members and for cancellation. A recipe whose items depend on the bounds of
        // chunks must get a block as one chunk.
        let polls = hints.cancellation.is_some() || block > LONGEST;
        let is_cut = || shared.is_stopped() || hints.cancellation.as_ref().is_some_and(|it| it.cuts());
        // A piece counts as consumed once it is taken.
        let taken = |piece: Span| hints.cancellation.iter().for_each(|it| it.add(piece.len()));
        drive(
            pool,
            &hints,
            lead,
            shared,
            || {
                let whole = !polls || P::Recipe::PER_CHUNK;
                (recipe.state(), if whole { PollInterval::whole() } else { PollInterval::new(pool) })
            },
            |(state, interval), _, (mut blocks, mut fill)| {
                if !polls || P::Recipe::PER_CHUNK && hints.cancellation.is_none() {
                    fill.fill(blocks.map(|(at, chunk)| each.each(recipe.iter(state, at, chunk))));
                    return ControlFlow::Continue(());
                }
                while let Some(pieces) = blocks.next_in_pieces() {
                    let mut polled = PolledPieces::new(pieces, interval, is_cut, taken);
                    let items = polled.by_ref().flat_map(|(at, chunk)| recipe.iter(state, at, chunk));
                    let result = each.each(items);
                    if polled.is_cut() {
                        return ControlFlow::Break(());
                    }
                    fill.fill(std::iter::once(result));
                }
                ControlFlow::Continue(())
            },
            drop,
        );
        hints.complete(division.done().1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_few_and_those_of_ordinary_calls_stay_what_they_were() {
        for shift in 0..usize::BITS {
            for n in [1usize << shift, (1 << shift) - 1, (1 << shift) + 1, usize::MAX >> shift] {
                let (blocks, before) = (n.div_ceil(block(n)), n.div_ceil(128).clamp(1, 8192));
                assert!(blocks <= 1 << 20, "{blocks} blocks of {n} items");
                assert!(block(n) == before || n as u128 > 1 << 33, "{n} items");
            }
        }
    }
}
