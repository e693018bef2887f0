//! Reductions with the same bits for every number of threads.
//!
//! Items are cut into blocks whose bounds depend on the number of items, and on types, alone. Each block is reduced from its first item to its
//! last one. The results are combined in order. In a call that is a plain loop, that is the loop that the user would have written, and a
//! second one around it, over blocks.
//!
//! | items and results | blocks | combined |
//! |---|---|---|
//! | small, without memory of their own; one item for every index | *units* of 1024 items, and claims of any length | one after the other |
//! | results without memory of their own | claims are blocks: 32 at first, then 128, then of 8192 items | one after the other |
//! | others | the same; 8 to 32 if accumulators of a `fold` own memory | as a binary tree |
//!
//! A node of level `k` of the tree stands for the blocks `j * 2^k .. (j + 1) * 2^k`. So the tree depends on the number of blocks alone,
//! too. A member combines the nodes of its consecutive blocks at once, as a binary counter carries. That takes no lock, and a balanced tree
//! is cheap for accumulators that grow. The caller combines the nodes that are left, a few for each run of consecutive blocks.

use std::hint::black_box;
use std::iter::{self, Product, Sum};
use std::marker::PhantomData;
use std::mem;
use std::ops::ControlFlow;

use windrow_sync::Mutex;
use windrow_sync::divide::{Divide, Division, undivided};
use windrow_sync::views::{Blocks, Pieces};

use super::recipe::Recipe;
use super::runs::{Apart, in_runs};
use super::search::leave_if_over;
use super::{ParallelIterator, consumed};
use crate::runtime::poll::{PollInterval, PolledPieces};
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};
use crate::runtime::state::PoolState;
use crate::task::join::join;

/// Reduces one block. (A trait and not a closure: closures cannot be generic over the iterator they get, and a
/// `dyn Iterator` would cost a call an item.)
pub(crate) trait Each<I>: Sync {
    type Result: Send;
    fn each(&self, items: impl Iterator<Item = I>) -> Self::Result;
}

// Results of `each` are black boxes, which ends the life of the value that a loop adds to. A float that lives across a later call lies in
// memory, and the compiler keeps it there in the loop before, too: 3 ns an item instead of 1.

/// Combines the results of two runs of blocks, `a` before `b`.
pub(crate) trait Combine<I>: Each<I> {
    fn combine(&self, a: Self::Result, b: Self::Result) -> Self::Result;
    /// The result of the items that gave `before`, and of these after them: the same bits as that of all at once.
    fn go_on(&self, before: Self::Result, items: impl Iterator<Item = I>) -> Self::Result;
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
    #[inline(always)]
    fn each(&self, items: impl Iterator<Item = I>) -> T {
        black_box(items.sum())
    }
}

impl<I, T: Sum<I> + Sum<T> + Send> Combine<I> for Sums<T> {
    #[inline]
    fn combine(&self, a: T, b: T) -> T {
        [a, b].into_iter().sum()
    }

    fn go_on(&self, before: T, items: impl Iterator<Item = I>) -> T {
        black_box(iter::once(before).chain(items.map(|item| iter::once(item).sum::<T>())).sum())
    }
}

impl<I, T: Product<I> + Send> Each<I> for Products<T> {
    type Result = T;
    #[inline(always)]
    fn each(&self, items: impl Iterator<Item = I>) -> T {
        black_box(items.product())
    }
}

impl<I, T: Product<I> + Product<T> + Send> Combine<I> for Products<T> {
    #[inline]
    fn combine(&self, a: T, b: T) -> T {
        [a, b].into_iter().product()
    }

    fn go_on(&self, before: T, items: impl Iterator<Item = I>) -> T {
        black_box(iter::once(before).chain(items.map(|item| iter::once(item).product::<T>())).product())
    }
}

impl<I> Each<I> for CountItems {
    type Result = usize;
    #[inline(always)]
    fn each(&self, items: impl Iterator<Item = I>) -> usize {
        items.count()
    }
}

impl<I> Combine<I> for CountItems {
    #[inline]
    fn combine(&self, a: usize, b: usize) -> usize {
        a + b
    }

    fn go_on(&self, before: usize, items: impl Iterator<Item = I>) -> usize {
        before + items.count()
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Each<T> for Reduces<'_, I, F> {
    type Result = Option<T>;
    #[inline(always)]
    fn each(&self, items: impl Iterator<Item = T>) -> Option<T> {
        match self.identity {
            Some(identity) => Some(black_box(items.fold(identity(), self.op))),
            None => items.reduce(self.op),
        }
    }
}

impl<T: Send, I: Fn() -> T + Sync, F: Fn(T, T) -> T + Sync> Combine<T> for Reduces<'_, I, F> {
    #[inline]
    fn combine(&self, a: Option<T>, b: Option<T>) -> Option<T> {
        a.into_iter().chain(b).reduce(self.op)
    }

    fn go_on(&self, before: Option<T>, items: impl Iterator<Item = T>) -> Option<T> {
        black_box(before.into_iter().chain(items).reduce(self.op))
    }
}

/// True for results that own no memory: combining two takes nanoseconds, so the blocks are combined one after the other.
const fn is_light<R>() -> bool {
    !mem::needs_drop::<R>()
}

/// The number of items of a block in a reduction over `n` items. It depends on `n` and on types alone; otherwise results would depend on the
/// machine. 32 blocks are two for each of 16 members; more are 128, eight for each. A block of 8192 items takes at least some
/// microseconds (0.5 ns an item in the record `par`), far more than a claim. Larger blocks would only balance worse.
///
/// `large` are the accumulators of a `fold` that own memory: maps, vectors. Each has to be made, and each further level of the tree costs up to half
/// of a pass over all entries, also in a serial call. So there are 8 blocks, and of 2^18 items on more, up to 32. A histogram of 65,536 counters takes
/// 2.2 times as long as the serial loop with 32 blocks and 1.5 with 8; so few are no use for more than 8 members.
///
/// Some calls keep the result of every block until the end. So there are 2^20 blocks at most (8 MB of 64-bit sums), and above 2^33 items
/// blocks get longer.
pub(crate) fn block(n: usize, large: bool) -> usize {
    if large {
        return n.div_ceil((n / MANY).clamp(ACCUMULATORS, FEW_BLOCKS)).max(1);
    }
    let block = n.div_ceil(FEW_BLOCKS).min(VECTOR).max(n.div_ceil(BLOCKS));
    block.clamp(1, LONGEST).max(n.div_ceil(MOST_BLOCKS))
}

/// Blocks of a long reduction.
///
/// Measure: count of blocks.
pub(super) const BLOCKS: usize = 128;
/// Blocks of a short reduction, and most of one with large accumulators.
///
/// Measure: count of blocks.
const FEW_BLOCKS: usize = 32;
/// Fewest blocks of a reduction with large accumulators.
///
/// Measure: count of blocks.
const ACCUMULATORS: usize = 8;
/// Items of a block with a large accumulator, if there are enough.
///
/// Measure: count of items.
const MANY: usize = 1 << 15;
/// Items that a vectorized loop over a block needs.
///
/// Measure: count of items.
const VECTOR: usize = 64;

/// Size of an item that can be kept until the unit that it belongs to is reduced.
///
/// Measure: size of an item, in bytes.
const SMALL: usize = 64;

/// Items of a block, up to 2^33 items in all.
///
/// Measure: count of items.
pub(super) const LONGEST: usize = 8192;

/// Items of the longest block that runs without polling, and of a unit.
///
/// Measure: count of items.
pub(crate) const UNPOLLED: usize = 1024;
/// Units of a call.
///
/// Measure: count of units.
const MOST_UNITS: usize = 1 << 14;
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

    /// All nodes.
    fn ended(mut self) -> Vec<Node<R>> {
        self.end_run();
        self.nodes
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
#[inline]
#[track_caller]
pub(crate) fn reduced<P: ParallelIterator, C: Combine<P::Item>>(iter: P, by: &C) -> Option<C::Result> {
    let combine = |a, b| by.combine(a, b);
    if has_units::<P, C::Result>(&iter) {
        return units(iter, by);
    }
    if is_light::<C::Result>() {
        let mut sum = InOrder::new(combine);
        if P::Recipe::LOOSE {
            in_runs(iter, &Apart(by)).into_iter().flatten().for_each(|result| sum.add(result));
        } else if let Some(nodes) = blocks(iter, by, |result| sum.add(result), MemberNodes::push) {
            nodes.into_iter().filter_map(|node| node.result).for_each(|result| sum.add(result));
        }
        return sum.of;
    }
    let mut nodes: Vec<Node<C::Result>> = if P::Recipe::LOOSE {
        let results = in_runs(iter, &Apart(by)).into_iter().flatten();
        results.enumerate().map(|(at, result)| Node { lo: at, hi: at + 1, result: Some(result) }).collect()
    } else {
        let mut mine = MemberNodes::new();
        let carry = |mine: &mut MemberNodes<_>, result| mine.carry(result, combine);
        let nodes = blocks(iter, by, |result| carry(&mut mine, result), carry);
        nodes.unwrap_or_else(|| mine.ended())
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
    let mut results = Vec::new();
    if let Some(nodes) = blocks(iter, each, |result| results.push(result), MemberNodes::push) {
        results.extend(nodes.into_iter().filter_map(|node| node.result));
    }
    results
}

/// Results combined one after the other.
struct InOrder<R, F> {
    of: Option<R>,
    combine: F,
}

impl<R, F: Fn(R, R) -> R> InOrder<R, F> {
    fn new(combine: F) -> Self {
        Self { of: None, combine }
    }

    #[inline]
    fn add(&mut self, result: R) {
        self.of = Some(match self.of.take() {
            Some(before) => (self.combine)(before, result),
            None => result,
        });
    }
}

/// True if the items of a call are reduced in units. Longer calls have long blocks, in which members poll.
#[inline]
fn has_units<P: ParallelIterator, R>(iter: &P) -> bool {
    let are_small = is_light::<R>() && is_light::<P::Item>() && size_of::<P::Item>() <= SMALL;
    P::Recipe::EXACT && !P::Recipe::LOOSE && are_small && iter.opt_len().is_some_and(|n| n <= MOST_UNITS * UNPOLLED)
}

/// The combined results of all units, which are blocks of [`UNPOLLED`] items: a short call is one. `None` if there is no item.
///
/// Claims need not be units. The first items of a unit are reduced where they are made, by one member; the others are kept if another
/// member makes them, until the call ends. So few items of long duration balance as well as those of a loop.
#[inline]
#[track_caller]
fn units<P: ParallelIterator, C: Combine<P::Item>>(iter: P, by: &C) -> Option<C::Result> {
    let (source, recipe, mut hints) = consumed(iter);
    let n = source.total();
    (hints.whole, hints.unit) = (true, UNPOLLED);
    let pool = Current::get();
    let begun = BegunCall::new(&pool, &hints, n, of_parts::<P, C> as *const () as usize);
    if begun.is_plain() {
        return begun.run_plain(|| match n <= UNPOLLED {
            true => undivided(source, |mut items| {
                let (at, chunk) = items.take(usize::MAX)?;
                Some(by.each(recipe.iter(&recipe.state(), at, chunk)))
            }),
            false => {
                let mut sum = InOrder::new(|a, b| by.combine(a, b));
                serial::<P, C>(source, &recipe, UNPOLLED, by, |result| sum.add(result));
                sum.of
            }
        });
    }
    of_parts::<P, C>(begun, source, &recipe, by)
}

/// The combined results of all units of a call that is no plain loop.
#[inline(never)]
fn of_parts<P: ParallelIterator, C: Combine<P::Item>>(
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    by: &C,
) -> Option<C::Result> {
    let n = source.total();
    let (mut open, mut sum) = (None, InOrder::new(|a, b| by.combine(a, b)));
    for part in parts_of_units::<P, C>(begun, source, recipe, by) {
        open = match (open, part.of) {
            (Some(before), Items::Made(items)) => Some(by.go_on(before, items.into_iter())),
            (_, Items::Made(items)) => Some(by.each(items.into_iter())),
            (_, Items::Reduced(result)) => result,
        };
        if part.hi % UNPOLLED == 0 || part.hi == n {
            open.take().into_iter().for_each(|result| sum.add(result));
        }
    }
    sum.of
}

/// Consecutive items `lo..hi` of a unit.
struct PartOfUnit<I, R> {
    lo: usize,
    hi: usize,
    of: Items<I, R>,
}

enum Items<I, R> {
    /// From the first item of the unit on. `None` while more items are added.
    Reduced(Option<R>),
    Made(Vec<I>),
}

/// The parts of all units, in order. If the call was cancelled, there are none.
fn parts_of_units<P: ParallelIterator, C: Combine<P::Item>>(
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    by: &C,
) -> Vec<PartOfUnit<P::Item, C::Result>> {
    let (n, hints) = (source.total(), begun.hints);
    let all = Mutex::new(Vec::new());
    let mut division = Division::new(Pieces::new(source, UNPOLLED));
    let (mut lead, shared) = division.lead();
    drive(
        begun,
        &mut lead,
        shared,
        // Room for a few parts, so that the first item of a measured call allocates nothing.
        || (recipe.state(), Vec::<PartOfUnit<P::Item, C::Result>>::with_capacity(4)),
        |(state, mine), _, pieces| {
            for (at, piece) in pieces {
                if hints.is_cut(shared) {
                    return ControlFlow::Break(());
                }
                let items = recipe.iter(state, at, piece);
                match mine.last_mut() {
                    Some(last) if last.hi == at.lo && at.lo % UNPOLLED > 0 => {
                        match &mut last.of {
                            Items::Reduced(result) => *result = result.take().map(|before| by.go_on(before, items)),
                            Items::Made(made) => made.extend(items),
                        }
                        last.hi = at.hi;
                    }
                    _ => {
                        let of = match at.lo % UNPOLLED {
                            0 => Items::Reduced(Some(by.each(items))),
                            _ => Items::Made(items.collect()),
                        };
                        mine.push(PartOfUnit { lo: at.lo, hi: at.hi, of });
                    }
                }
            }
            ControlFlow::Continue(())
        },
        |(_, mut mine)| all.lock().append(&mut mine),
    );
    let mut parts = all.into_inner();
    parts.sort_unstable_by_key(|part| part.lo);
    let end = parts.iter().fold(0, |end, part| if part.lo == end { part.hi } else { end });
    if end < n {
        assert!(hints.cancellation().is_some(), "a reduction skipped an item");
        parts.clear();
    }
    parts
}

/// Reduces every block. A call that is a plain loop gives each result to `next`, in order, and returns `None`. Another one returns the
/// nodes of all blocks, in order: `add` adds the result of a member's next block. Blocks that are not wanted any more are left out. If
/// the call was cancelled, there are no nodes.
#[inline]
#[track_caller]
fn blocks<P: ParallelIterator, E: Each<P::Item>, A: Fn(&mut MemberNodes<E::Result>, E::Result) + Sync>(
    iter: P,
    each: &E,
    next: impl FnMut(E::Result),
    add: A,
) -> Option<Vec<Node<E::Result>>> {
    let (source, recipe, hints) = consumed(iter);
    let n = source.total();
    let large = P::Recipe::PER_CHUNK && !is_light::<P::Item>();
    let block = block(n, large);
    let block = if P::Recipe::PER_CHUNK { block.min(hints.most()) } else { block };
    let hints = hints.of_blocks(block, n);
    let pool = Current::get();
    let code = nodes_of_blocks::<P, E, A> as *const () as usize;
    let begun = BegunCall::new(&pool, &hints, n.div_ceil(block), code);
    if begun.is_plain() {
        begun.run_plain(|| serial::<P, E>(source, &recipe, block, each, next));
        return None;
    }
    Some(nodes_of_blocks::<P, E, A>(&pool, begun, (source, block), &recipe, each, add))
}

/// The plain loop over blocks.
#[inline(always)]
fn serial<P: ParallelIterator, E: Each<P::Item>>(
    source: P::Source,
    recipe: &P::Recipe,
    block: usize,
    each: &E,
    mut next: impl FnMut(E::Result),
) {
    undivided(source, |mut items| {
        let state = recipe.state();
        while let Some((at, chunk)) = items.take(block)
            && !recipe.over(at.lo)
        {
            next(each.each(recipe.iter(&state, at, chunk)));
        }
    });
}

/// The nodes of all blocks of a call that is no plain loop. See [`blocks`].
#[inline(never)]
fn nodes_of_blocks<P: ParallelIterator, E: Each<P::Item>, A: Fn(&mut MemberNodes<E::Result>, E::Result) + Sync>(
    pool: &PoolState,
    begun: BegunCall<'_>,
    (source, block): (P::Source, usize),
    recipe: &P::Recipe,
    each: &E,
    add: A,
) -> Vec<Node<E::Result>> {
    let (n, hints) = (source.total(), begun.hints);
    let over_from = |blocks: usize| recipe.over(blocks.saturating_mul(block).min(n));
    let all = Mutex::new(Vec::new());
    let mut division = Division::new(Blocks::new(source, block));
    let (mut lead, shared) = division.lead();
    // In long blocks members poll for panics of other members and for cancellation. A recipe whose items depend on the bounds of
    // chunks must get a block as one chunk.
    let polls = hints.cancellation().is_some() || block > UNPOLLED;
    let is_cut = || hints.is_cut(shared);
    drive(
        begun,
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
        |(.., mine)| {
            let mut mine = mine.ended();
            let mut all = all.lock();
            if all.is_empty() { *all = mine } else { all.append(&mut mine) }
        },
    );
    let mut nodes = all.into_inner();
    nodes.sort_unstable_by_key(|node| node.lo);
    let gap = nodes.iter().fold(0, |end, node| if node.lo == end { node.hi } else { end });
    if gap < n.div_ceil(block) && !over_from(gap) {
        assert!(hints.cancellation().is_some(), "a reduction skipped a block");
        nodes.clear();
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_few_and_long_enough() {
        for shift in 0..usize::BITS {
            for n in [1usize << shift, (1 << shift) - 1, (1 << shift) + 1, usize::MAX >> shift] {
                let blocks = n.div_ceil(block(n, false));
                assert!(blocks <= MOST_BLOCKS, "{blocks} blocks of {n} items");
                assert!(blocks >= n.min(FEW_BLOCKS / 2 + 1), "{blocks} blocks of {n} items");
                assert!(blocks <= BLOCKS || block(n, false) >= LONGEST, "{blocks} blocks of {n} items");
                assert!(n.div_ceil(block(n, true)) <= blocks.min(FEW_BLOCKS), "{n} items");
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
                mine.ended()
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
