//! Reductions with the same bits for every number of threads.
//!
//! Items are cut into blocks whose bounds depend on the number of items alone. Each block is reduced separately. The results are combined in
//! order, as a binary tree over the numbers of the blocks: a node of level `k` stands for the blocks `j * 2^k .. (j + 1) * 2^k`. So the
//! tree depends on the number of blocks alone, too.
//!
//! A member combines the nodes of its consecutive blocks at once, as a binary counter carries. That takes no lock, and a balanced tree is cheap
//! for accumulators that grow. The caller combines the nodes that are left, a few for each run of consecutive blocks.

use std::iter::{self, Product, Sum};
use std::marker::PhantomData;
use std::mem;
use std::ops::ControlFlow;

use windrow_sync::Mutex;
use windrow_sync::divide::{Divide, Division};
use windrow_sync::views::Blocks;

use super::recipe::Recipe;
use super::runs::{Apart, in_runs};
use super::search::leave_if_over;
use super::tries::Try;
use super::{ParallelIterator, consumed};
use crate::runtime::poll::{PollInterval, PolledPieces};
use crate::runtime::pool::with_current;
use crate::runtime::region::drive;
use crate::task::join::join;

/// Reduces one block. (A trait and not a closure: closures cannot be generic over the iterator they get, and a
/// `dyn Iterator` would cost a call an item.)
pub(crate) trait Each<I>: Sync {
    type Result: Send;
    fn each(&self, items: impl Iterator<Item = I>) -> Self::Result;
}

/// Combines the results of two runs of blocks, `a` before `b`.
pub(crate) trait Combine<I>: Each<I> {
    fn combine(&self, a: Self::Result, b: Self::Result) -> Self::Result;
}

pub(crate) struct Sums<T>(PhantomData<fn() -> T>);
pub(crate) struct Products<T>(PhantomData<fn() -> T>);
pub(crate) struct CountItems;
pub(crate) struct Least;
pub(crate) struct Greatest;
pub(crate) struct Reduces<'a, F>(pub(crate) &'a F);
/// Values that may break off, at most one for a block.
pub(crate) struct TryReduces<'a, F>(pub(crate) &'a F);

/// Folds the items of a block with an operation, beginning with an identity.
pub(crate) struct Folds<'a, I, F> {
    pub(crate) identity: &'a I,
    pub(crate) op: &'a F,
    /// Blocks have few items, and each is large: an accumulator. Then the identity is left out where there is an item.
    pub(crate) few: bool,
}

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

impl<I, T: Sum<I> + Sum<T> + Send> Combine<I> for Sums<T> {
    fn combine(&self, a: T, b: T) -> T {
        [a, b].into_iter().sum()
    }
}

impl<I, T: Product<I> + Send> Each<I> for Products<T> {
    type Result = T;
    fn each(&self, items: impl Iterator<Item = I>) -> T {
        items.product()
    }
}

impl<I, T: Product<I> + Product<T> + Send> Combine<I> for Products<T> {
    fn combine(&self, a: T, b: T) -> T {
        [a, b].into_iter().product()
    }
}

impl<I> Each<I> for CountItems {
    type Result = usize;
    fn each(&self, items: impl Iterator<Item = I>) -> usize {
        items.count()
    }
}

impl<I> Combine<I> for CountItems {
    fn combine(&self, a: usize, b: usize) -> usize {
        a + b
    }
}

impl<I: Ord + Send> Each<I> for Least {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.min()
    }
}

impl<I: Ord + Send> Combine<I> for Least {
    fn combine(&self, a: Option<I>, b: Option<I>) -> Option<I> {
        a.into_iter().chain(b).min()
    }
}

impl<I: Ord + Send> Each<I> for Greatest {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.max()
    }
}

impl<I: Ord + Send> Combine<I> for Greatest {
    fn combine(&self, a: Option<I>, b: Option<I>) -> Option<I> {
        a.into_iter().chain(b).max()
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Each<T> for Folds<'_, I, F> {
    type Result = T;
    fn each(&self, items: impl Iterator<Item = T>) -> T {
        if self.few {
            return items.reduce(self.op).unwrap_or_else(self.identity);
        }
        items.fold((self.identity)(), self.op)
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Combine<T> for Folds<'_, I, F> {
    fn combine(&self, a: T, b: T) -> T {
        (self.op)(a, b)
    }
}

impl<I: Send, F: Fn(I, I) -> I + Sync> Each<I> for Reduces<'_, F> {
    type Result = Option<I>;
    fn each(&self, items: impl Iterator<Item = I>) -> Option<I> {
        items.reduce(self.0)
    }
}

impl<I: Send, F: Fn(I, I) -> I + Sync> Combine<I> for Reduces<'_, F> {
    fn combine(&self, a: Option<I>, b: Option<I>) -> Option<I> {
        a.into_iter().chain(b).reduce(self.0)
    }
}

impl<X: Try + Send, F: Fn(X::Output, X::Output) -> X + Sync> Each<Option<X>> for TryReduces<'_, F> {
    type Result = Option<X>;
    fn each(&self, items: impl Iterator<Item = Option<X>>) -> Option<X> {
        items.flatten().next()
    }
}

impl<X: Try + Send, F: Fn(X::Output, X::Output) -> X + Sync> Combine<Option<X>> for TryReduces<'_, F> {
    fn combine(&self, a: Option<X>, b: Option<X>) -> Option<X> {
        let combine = |a: X, b: X| match a.branch() {
            ControlFlow::Break(residual) => X::from_residual(residual),
            ControlFlow::Continue(a) => match b.branch() {
                ControlFlow::Break(residual) => X::from_residual(residual),
                ControlFlow::Continue(b) => (self.0)(a, b),
            },
        };
        a.into_iter().chain(b).reduce(combine)
    }
}

/// The number of items of a block in a reduction over `n` items. It depends on `n` and on types alone; otherwise results would depend on the
/// machine. 128 blocks are eight for each of 16 members. A block of 8192 items takes at least some microseconds (0.5 ns an item in the
/// record `par`), far more than a claim. Larger blocks would only balance worse.
///
/// `large` are the accumulators of a `fold` that own memory: maps, vectors. There each further level of the tree costs up to half of a pass
/// over all entries. So there are 32 blocks (unions of maps: 1.4 times rayon's time with 128).
///
/// Some calls keep the result of every block until the end. So there are 2^20 blocks at most (8 MB of 64-bit sums), and above 2^33 items
/// blocks get longer.
pub(crate) fn block(n: usize, large: bool) -> usize {
    n.div_ceil(if large { 32 } else { 128 }).clamp(1, LONGEST).max(n.div_ceil(MOST_BLOCKS))
}

/// Items of a block, up to 2^33 items in all.
///
/// Measure: count of items.
const LONGEST: usize = 8192;

/// Items of the longest block that runs without polling.
///
/// Measure: count of items.
pub(crate) const UNPOLLED: usize = 1024;
const MOST_BLOCKS: usize = 1 << 20;

/// Results of the consecutive blocks `lo..hi`: one for each block, or the nodes of a tree.
struct BlockRun<R> {
    lo: usize,
    hi: usize,
    results: Vec<R>,
}

impl<R> BlockRun<R> {
    /// No blocks so far, and the next one is `lo`.
    fn begin(lo: usize) -> Self {
        // Room for the nodes of 2^8 blocks.
        Self { lo, hi: lo, results: Vec::with_capacity(8) }
    }

    /// Adds the result of block `hi`.
    fn push(&mut self, result: R) {
        self.results.push(result);
        self.hi += 1;
    }

    /// Adds the result of block `hi`, and combines each node with its left neighbour when both are complete.
    #[inline]
    fn carry(&mut self, result: R, combine: impl Fn(R, R) -> R) {
        self.hi += 1;
        let complete = self.hi.trailing_zeros().min((self.hi - self.lo).ilog2());
        let results = &mut self.results;
        let node = (0..complete).fold(result, |node, _| match results.pop() {
            Some(left) => combine(left, node),
            None => node,
        });
        results.push(node);
    }

    /// The nodes, each with its first block.
    fn nodes(self) -> impl Iterator<Item = (usize, R)> {
        let Self { mut lo, hi, results } = self;
        results.into_iter().map(move |node| {
            let first = lo;
            let level = (hi - lo).ilog2().min(lo.trailing_zeros());
            lo += 1 << level;
            (first, node)
        })
    }
}

/// Runs of consecutive blocks. A serial call has one, which needs no vector.
struct BlockRuns<R> {
    first: Option<BlockRun<R>>,
    others: Vec<BlockRun<R>>,
}

impl<R> Default for BlockRuns<R> {
    fn default() -> Self {
        BlockRuns { first: None, others: Vec::new() }
    }
}

impl<R> BlockRuns<R> {
    /// The last run, if `lo` is the next block in it; otherwise a new one.
    fn at(&mut self, lo: usize) -> &mut BlockRun<R> {
        let last = self.others.last().or(self.first.as_ref());
        if last.is_none_or(|last| last.hi != lo) {
            self.push(BlockRun::begin(lo));
        }
        let last = self.others.last_mut().or(self.first.as_mut());
        last.expect("there is one now")
    }

    fn push(&mut self, run: BlockRun<R>) {
        match &self.first {
            None => self.first = Some(run),
            Some(_) => self.others.push(run),
        }
    }

    fn append(&mut self, more: Self) {
        if self.first.is_none() {
            *self = more;
            return;
        }
        more.first.into_iter().chain(more.others).for_each(|run| self.push(run));
    }

    /// Puts the runs in order, and returns the first block that is in none of them.
    fn first_gap(&mut self) -> usize {
        if let Some(first) = self.first.take_if(|_| !self.others.is_empty()) {
            self.others.push(first);
            self.others.sort_unstable_by_key(|run| run.lo);
            self.first = Some(self.others.remove(0));
        }
        let runs = self.first.iter().chain(&self.others);
        runs.fold(0, |end, run| if run.lo <= end { run.hi } else { end })
    }
}

/// Combines `nodes`, each with its first block, as the subtree of the blocks `lo..lo + size`; `size` is a power of two.
fn combined<R: Send>(
    mut nodes: Vec<(usize, R)>,
    lo: usize,
    size: usize,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Option<R> {
    if nodes.len() < 2 {
        return nodes.pop().map(|(_, node)| node);
    }
    let middle = lo + size / 2;
    let right = nodes.split_off(nodes.partition_point(|(first, _)| *first < middle));
    // Results that own memory may be large. A join costs nothing compared with the allocation of one.
    let forks = mem::needs_drop::<R>() && nodes.len() > 1 && right.len() > 1;
    let of_left = || combined(nodes, lo, size / 2, combine);
    let of_right = || combined(right, middle, size / 2, combine);
    match if forks { join(of_left, of_right) } else { (of_left(), of_right()) } {
        (Some(left), Some(right)) => Some(combine(left, right)),
        (left, right) => left.or(right),
    }
}

/// The combined results of all blocks; `None` if there is none. (For a loose recipe: of all chunks, since fixed blocks would not fix its
/// result.)
#[track_caller]
pub(crate) fn reduced<P: ParallelIterator, C: Combine<P::Item>>(iter: P, by: &C) -> Option<C::Result> {
    let combine = |a, b| by.combine(a, b);
    let nodes: Vec<(usize, C::Result)> = if P::Recipe::LOOSE {
        in_runs(iter, &Apart(by)).into_iter().flatten().enumerate().collect()
    } else {
        let BlockRuns { first, others } = in_runs_of_blocks(iter, by, |run, result| run.carry(result, combine));
        match first {
            // All blocks: each node is the right neighbour of those before it.
            Some(run) if others.is_empty() => {
                return run.results.into_iter().rev().reduce(|right, left| combine(left, right));
            }
            _ => first.into_iter().chain(others).flat_map(BlockRun::nodes).collect(),
        }
    };
    let size = nodes.last().map_or(0, |(first, _)| first + 1).next_power_of_two();
    combined(nodes, 0, size, &combine)
}

/// The result of every block, in order. (For a loose recipe: of every chunk.)
#[track_caller]
pub(crate) fn in_blocks<P: ParallelIterator, E: Each<P::Item>>(iter: P, each: &E) -> Vec<E::Result> {
    if P::Recipe::LOOSE {
        return in_runs(iter, &Apart(each)).into_iter().flatten().collect();
    }
    let BlockRuns { first, others } = in_runs_of_blocks(iter, each, BlockRun::push);
    match first {
        Some(run) if others.is_empty() => run.results,
        _ => first.into_iter().chain(others).flat_map(|run| run.results).collect(),
    }
}

/// The results of all blocks, in order. `add` adds the result of the next block to a run. Blocks that are not wanted any more are left out. If the
/// call was cancelled, the result is empty.
#[track_caller]
fn in_runs_of_blocks<P: ParallelIterator, E: Each<P::Item>>(
    iter: P,
    each: &E,
    add: impl Fn(&mut BlockRun<E::Result>, E::Result) + Sync,
) -> BlockRuns<E::Result> {
    let (source, recipe, hints) = consumed(iter);
    let n = source.total();
    let block = block(n, P::Recipe::PER_CHUNK && mem::needs_drop::<P::Item>());
    let block = if P::Recipe::PER_CHUNK { block.min(hints.most()) } else { block };
    let hints = hints.of_blocks(block, n);
    let over_from = |blocks: usize| recipe.over(blocks.saturating_mul(block).min(n));
    let runs = Mutex::new(BlockRuns::default());
    let mut division = Division::new(Blocks::new(source, block));
    let (mut lead, shared) = division.lead();
    with_current(|pool| {
        // In long blocks members poll for panics of other members and for cancellation. A recipe whose items depend on the bounds of
        // chunks must get a block as one chunk.
        let polls = hints.cancellation().is_some() || block > UNPOLLED;
        let is_cut = || hints.is_cut(shared);
        drive(
            pool,
            &hints,
            &mut lead,
            shared,
            || {
                let whole = !polls || P::Recipe::PER_CHUNK;
                (recipe.state(), PollInterval::new((!whole).then_some(pool)), BlockRuns::<E::Result>::default())
            },
            |(state, interval, mine), claim, mut blocks| {
                let run = mine.at(claim.lo);
                let mut flow = ControlFlow::Continue(());
                if block == 1 && P::Recipe::EXACT && !polls {
                    // An item is a block, so one chunk holds the items of all of them.
                    if let Some((at, chunk)) = blocks.all_at_once() {
                        recipe.iter(state, at, chunk).for_each(|item| add(run, each.each(iter::once(item))));
                    }
                } else if !polls || P::Recipe::PER_CHUNK && hints.cancellation().is_none() {
                    for (at, chunk) in blocks {
                        if recipe.over(at.lo) {
                            break;
                        }
                        add(run, each.each(recipe.iter(state, at, chunk)));
                    }
                } else {
                    while !over_from(run.hi)
                        && let Some(pieces) = blocks.next_in_pieces()
                    {
                        let mut polled = PolledPieces::new(pieces, interval, is_cut);
                        let items = polled.by_ref().flat_map(|(at, chunk)| recipe.iter(state, at, chunk));
                        let result = each.each(items);
                        if polled.is_cut() {
                            flow = ControlFlow::Break(());
                            break;
                        }
                        add(run, result);
                    }
                }
                flow?;
                leave_if_over(shared, claim.hi, over_from)
            },
            |(.., mine)| runs.lock().append(mine),
        );
    });
    let mut runs = runs.into_inner();
    let gap = runs.first_gap();
    if gap < n.div_ceil(block) && !over_from(gap) {
        assert!(hints.cancellation().is_some(), "a reduction has skipped a block");
        runs = BlockRuns::default();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_few_and_those_of_ordinary_calls_stay_what_they_were() {
        for shift in 0..usize::BITS {
            for n in [1usize << shift, (1 << shift) - 1, (1 << shift) + 1, usize::MAX >> shift] {
                let (blocks, before) = (n.div_ceil(block(n, false)), n.div_ceil(128).clamp(1, 8192));
                assert!(blocks <= 1 << 20, "{blocks} blocks of {n} items");
                assert!(n.div_ceil(block(n, true)) <= blocks, "{n} items");
                assert!(block(n, false) == before || n as u128 > 1 << 33, "{n} items");
            }
        }
    }

    /// BlockRuns that meet anywhere give the tree that one run gives.
    #[test]
    fn the_tree_depends_on_the_number_of_blocks_alone() {
        let combine = |a: String, b: String| format!("({a} {b})");
        let tree = |blocks: usize, cuts: &[usize]| {
            let bounds = [&[0], cuts, &[blocks]].concat();
            let nodes = bounds.windows(2).flat_map(|bounds| {
                let mut run = BlockRun::begin(bounds[0]);
                (bounds[0]..bounds[1]).for_each(|block| run.carry(block.to_string(), combine));
                run.nodes()
            });
            let nodes: Vec<_> = nodes.collect();
            let size = nodes.last().map_or(0, |(first, _)| first + 1).next_power_of_two();
            combined(nodes, 0, size, &combine)
        };
        assert_eq!(tree(0, &[]), None);
        assert_eq!(tree(5, &[]).unwrap(), "(((0 1) (2 3)) 4)");
        for blocks in 1..40 {
            let whole = tree(blocks, &[]);
            for a in 0..=blocks {
                for b in a..=blocks {
                    assert_eq!(tree(blocks, &[a, b]), whole, "{blocks} blocks in runs that meet at {a} and {b}");
                }
            }
        }
    }
}
