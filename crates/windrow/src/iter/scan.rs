//! Prefix sums: running reductions, in place.
//!
//! Items are cut into blocks whose bounds depend on the number of items alone. Three passes follow (Blelloch, *Prefix sums and
//! their applications*, 1990, with blocks as the leaves of the tree):
//! 1. In parallel, every block is scanned separately, and its total is kept.
//! 2. On the calling thread, the totals are scanned: each block gets the prefix before it.
//! 3. In parallel, that prefix is combined with every item of the block.
//!
//! Item `i` of block `b` becomes `before(b) op (x op .. op x(i))`, always in this grouping. In the last pass an item does not
//! depend on its neighbour, so that pass is cheaper than the first.

use super::reduce::{BLOCKS, LONGEST};
use super::slice::ParallelSliceMut;
use crate::iter::{IndexedParallelIterator, ParallelIterator};
use crate::runtime::hints::CallPart;

/// Items of a block: about as many blocks as in a reduction, but no more blocks than a block has items, since the totals are
/// scanned serially.
fn block(n: usize) -> usize {
    n.div_ceil(BLOCKS).max(n.isqrt()).clamp(1, LONGEST)
}

/// Every item becomes `op` over `init` and all items up to it. The first pass is this `part` of the call.
#[track_caller]
pub(crate) fn inclusive<T: Clone + Send + Sync>(
    items: &mut [T],
    op: impl Fn(&T, &T) -> T + Sync,
    init: T,
    part: CallPart,
) {
    scan(items, &op, init, part, |run, before| run.iter_mut().for_each(|item| *item = op(before, item)));
}

/// Every item becomes `op` over `init` and all items before it. The first pass is this `part` of the call.
#[track_caller]
pub(crate) fn exclusive<T: Clone + Send + Sync>(
    items: &mut [T],
    op: impl Fn(&T, &T) -> T + Sync,
    init: T,
    part: CallPart,
) {
    scan(items, &op, init, part, |run, before| {
        let mut last = before.clone();
        run.iter_mut().for_each(|item| {
            let this = op(before, item);
            *item = std::mem::replace(&mut last, this);
        });
    });
}

/// Scans every block, then lets `finish` combine it with the prefix before it.
#[track_caller]
fn scan<T: Clone + Send + Sync>(
    items: &mut [T],
    op: &(impl Fn(&T, &T) -> T + Sync),
    init: T,
    part: CallPart,
    finish: impl Fn(&mut [T], &T) + Sync,
) {
    let block = block(items.len());
    let within = |run: &mut [T]| {
        for at in 1..run.len() {
            run[at] = op(&run[at - 1], &run[at]);
        }
        run.last().cloned()
    };
    let mut before: Vec<T> = items.par_chunks_mut(block).reported_as(part).filter_map(within).collect();
    let mut sum = init;
    for total in &mut before {
        let next = op(&sum, total);
        *total = std::mem::replace(&mut sum, next);
    }
    let runs = items.par_chunks_mut(block).reported_as(CallPart::Further);
    runs.zip(&before).for_each(|(run, before)| finish(run, before));
}
