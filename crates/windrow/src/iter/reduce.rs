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

pub(crate) struct Sums<T>(pub(crate) PhantomData<fn() -> T>);
pub(crate) struct Products<T>(pub(crate) PhantomData<fn() -> T>);
pub(crate) struct CountItems;

/// Reduces the items of a block with an operation, beginning with an identity if there is one.
pub(crate) struct Reduces<'a, I, F> {
    pub(crate) identity: Option<&'a I>,
    pub(crate) op: &'a F,
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

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Each<T> for Reduces<'_, I, F> {
    type Result = Option<T>;
    fn each(&self, items: impl Iterator<Item = T>) -> Option<T> {
        match self.identity {
            Some(identity) => Some(items.fold(identity(), self.op)),
            None => items.reduce(self.op),
        }
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Combine<T> for Reduces<'_, I, F> {
    fn combine(&self, a: Option<T>, b: Option<T>) -> Option<T> {
        a.into_iter().chain(b).reduce(self.op)
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
    n.div_ceil(if large { LARGE_BLOCKS } else { BLOCKS }).clamp(1, LONGEST).max(n.div_ceil(MOST_BLOCKS))
}

/// Blocks of a reduction, and of one with large accumulators.
///
/// Measure: count of blocks.
pub(super) const BLOCKS: usize = 128;
const LARGE_BLOCKS: usize = 32;

/// Items of a block, up to 2^33 items in all.
///
/// Measure: count of items.
pub(super) const LONGEST: usize = 8192;

/// Items of the longest block that runs without polling.
///
/// Measure: count of items.
pub(crate) const UNPOLLED: usize = 1024;
const MOST_BLOCKS: usize = 1 << 20;

/// The result of the blocks `lo..hi`: of one block, or of a node of the tree.
struct Node<R> {
    lo: usize,
    hi: usize,
    /// `None` once it is combined with others.
    result: Option<R>,
}

/// The nodes of one member, in the order in which they were made.
struct MemberNodes<R> {
    nodes: Vec<Node<R>>,
    /// The run of consecutive blocks `lo..hi`, of which `open` are the nodes: those that may still combine.
    open: Vec<R>,
    lo: usize,
    hi: usize,
}

impl<R> MemberNodes<R> {
    /// No blocks so far.
    fn new() -> Self {
        // Room for the nodes of 2^8 blocks.
        Self { nodes: Vec::new(), open: Vec::with_capacity(8), lo: 0, hi: 0 }
    }

    /// Goes on with the block `lo`.
    fn begin(&mut self, lo: usize) {
        if self.hi != lo {
            self.end_run();
            (self.lo, self.hi) = (lo, lo);
        }
    }

    /// Ends the run: its nodes combine with no further block of this member.
    fn end_run(&mut self) {
        for node in self.open.drain(..) {
            let level = (self.hi - self.lo).ilog2().min(self.lo.trailing_zeros());
            let hi = self.lo + (1 << level);
            self.nodes.push(Node { lo: self.lo, hi, result: Some(node) });
            self.lo = hi;
        }
    }

    /// Adds the result of block `hi`.
    fn push(&mut self, result: R) {
        self.nodes.push(Node { lo: self.hi, hi: self.hi + 1, result: Some(result) });
        self.hi += 1;
    }

    /// Adds the result of block `hi`, and combines each node with its left neighbour when both are complete.
    #[inline]
    fn carry(&mut self, result: R, combine: impl Fn(R, R) -> R) {
        self.hi += 1;
        let complete = self.hi.trailing_zeros().min((self.hi - self.lo).ilog2());
        let open = &mut self.open;
        let node = (0..complete).fold(result, |node, _| match open.pop() {
            Some(left) => combine(left, node),
            None => node,
        });
        open.push(node);
    }
}

/// Combines `nodes`, which are in order, as the subtree of the blocks `lo..lo + size`; `size` is a power of two.
fn combined<R: Send>(
    nodes: &mut [Node<R>],
    lo: usize,
    size: usize,
    combine: &(impl Fn(R, R) -> R + Sync),
) -> Option<R> {
    if let [] | [_] = nodes {
        return nodes.first_mut().and_then(|node| node.result.take());
    }
    let middle = lo + size / 2;
    let (left, right) = nodes.split_at_mut(nodes.partition_point(|node| node.lo < middle));
    // Results that own memory may be large. A join costs nothing compared with the allocation of one.
    let forks = mem::needs_drop::<R>() && left.len() > 1 && right.len() > 1;
    let mut of_left = || combined(left, lo, size / 2, combine);
    let mut of_right = || combined(right, middle, size / 2, combine);
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
    let mut nodes: Vec<Node<C::Result>> = if P::Recipe::LOOSE {
        let results = in_runs(iter, &Apart(by)).into_iter().flatten();
        results.enumerate().map(|(at, result)| Node { lo: at, hi: at + 1, result: Some(result) }).collect()
    } else {
        nodes_of_blocks(iter, by, |mine, result| mine.carry(result, combine))
    };
    let size = nodes.last().map_or(0, |node| node.hi).next_power_of_two();
    combined(&mut nodes, 0, size, &combine)
}

/// The result of every block, in order. (For a loose recipe: of every chunk.)
#[track_caller]
pub(crate) fn in_blocks<P: ParallelIterator, E: Each<P::Item>>(iter: P, each: &E) -> Vec<E::Result> {
    if P::Recipe::LOOSE {
        return in_runs(iter, &Apart(each)).into_iter().flatten().collect();
    }
    nodes_of_blocks(iter, each, MemberNodes::push).into_iter().filter_map(|node| node.result).collect()
}

/// The nodes of all blocks, in order. `add` adds the result of a member's next block. Blocks that are not wanted any more are left out. If the
/// call was cancelled, the result is empty.
#[track_caller]
fn nodes_of_blocks<P: ParallelIterator, E: Each<P::Item>>(
    iter: P,
    each: &E,
    add: impl Fn(&mut MemberNodes<E::Result>, E::Result) + Sync,
) -> Vec<Node<E::Result>> {
    let (source, recipe, hints) = consumed(iter);
    let n = source.total();
    let block = block(n, P::Recipe::PER_CHUNK && mem::needs_drop::<P::Item>());
    let block = if P::Recipe::PER_CHUNK { block.min(hints.most()) } else { block };
    let hints = hints.of_blocks(block, n);
    let over_from = |blocks: usize| recipe.over(blocks.saturating_mul(block).min(n));
    let all = Mutex::new(Vec::new());
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
                (recipe.state(), PollInterval::new((!whole).then_some(pool)), MemberNodes::<E::Result>::new())
            },
            |(state, interval, mine), claim, mut blocks| {
                mine.begin(claim.lo);
                let mut flow = ControlFlow::Continue(());
                if block == 1 && P::Recipe::EXACT && !polls {
                    // An item is a block, so one chunk holds the items of all of them.
                    if let Some((at, chunk)) = blocks.all_at_once() {
                        recipe.iter(state, at, chunk).for_each(|item| add(mine, each.each(iter::once(item))));
                    }
                } else if !polls || P::Recipe::PER_CHUNK && hints.cancellation().is_none() {
                    for (at, chunk) in blocks {
                        if recipe.over(at.lo) {
                            break;
                        }
                        add(mine, each.each(recipe.iter(state, at, chunk)));
                    }
                } else {
                    while !over_from(mine.hi)
                        && let Some(pieces) = blocks.next_in_pieces()
                    {
                        let mut polled = PolledPieces::new(pieces, interval, is_cut);
                        let items = polled.by_ref().flat_map(|(at, chunk)| recipe.iter(state, at, chunk));
                        let result = each.each(items);
                        if polled.is_cut() {
                            flow = ControlFlow::Break(());
                            break;
                        }
                        add(mine, result);
                    }
                }
                flow?;
                leave_if_over(shared, claim.hi, over_from)
            },
            |(.., mut mine)| {
                mine.end_run();
                let mut all = all.lock();
                if all.is_empty() { *all = mine.nodes } else { all.append(&mut mine.nodes) }
            },
        );
    });
    let mut nodes = all.into_inner();
    nodes.sort_unstable_by_key(|node| node.lo);
    let gap = nodes.iter().fold(0, |end, node| if node.lo == end { node.hi } else { end });
    if gap < n.div_ceil(block) && !over_from(gap) {
        assert!(hints.cancellation().is_some(), "a reduction has skipped a block");
        nodes.clear();
    }
    nodes
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

    /// Runs of blocks that meet anywhere give the tree that one run gives.
    #[test]
    fn the_tree_depends_on_the_number_of_blocks_alone() {
        let combine = |a: String, b: String| format!("({a} {b})");
        let tree = |blocks: usize, cuts: &[usize]| {
            let bounds = [&[0], cuts, &[blocks]].concat();
            let nodes = bounds.windows(2).flat_map(|bounds| {
                let mut mine = MemberNodes::new();
                mine.begin(bounds[0]);
                (bounds[0]..bounds[1]).for_each(|block| mine.carry(block.to_string(), combine));
                mine.end_run();
                mine.nodes
            });
            let mut nodes: Vec<_> = nodes.collect();
            let size = nodes.last().map_or(0, |node| node.hi).next_power_of_two();
            combined(&mut nodes, 0, size, &combine)
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
