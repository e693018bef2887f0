//! Prefix sums: running reductions, in place.
//!
//! Blocks, whose bounds depend on the number of items alone. First every block is scanned on its own, and what it gives in all is
//! noted; then, block after block on the calling thread, what comes before each; then that is put in front of every item of
//! the block. (Blelloch, *Prefix sums and their applications*, 1990, with blocks as the leaves of the tree.)
//!
//! Item `i` of block `b` becomes `before(b) op (x op .. op x(i))`, in this grouping always. What the second pass does to one item
//! does not wait for its neighbour, so it is the cheaper one.

use crate::iter::{IndexedParallelIterator, ParallelIterator};
use crate::slice::ParallelSliceMut;

/// Items of a block: about as many blocks as a reduction has, but no more blocks than a block has items, since what comes before
/// each is found serially.
fn block(n: usize) -> usize {
    n.div_ceil(128).max(n.isqrt()).clamp(1, 8192)
}

/// Every item becomes `op` over `init` and all items up to it.
pub(crate) fn inclusive<T: Clone + Send + Sync>(items: &mut [T], op: impl Fn(&T, &T) -> T + Sync, init: T) {
    scan(items, &op, init, |run, before| run.iter_mut().for_each(|item| *item = op(before, item)));
}

/// Every item becomes `op` over `init` and all items before it.
pub(crate) fn exclusive<T: Clone + Send + Sync>(items: &mut [T], op: impl Fn(&T, &T) -> T + Sync, init: T) {
    scan(items, &op, init, |run, before| {
        let mut last = before.clone();
        run.iter_mut().for_each(|item| {
            let this = op(before, item);
            *item = std::mem::replace(&mut last, this);
        });
    });
}

/// Scans every block and has `finish` put in front what comes before it.
fn scan<T: Clone + Send + Sync>(
    items: &mut [T],
    op: &(impl Fn(&T, &T) -> T + Sync),
    init: T,
    finish: impl Fn(&mut [T], &T) + Sync,
) {
    let block = block(items.len());
    let within = |run: &mut [T]| {
        for at in 1..run.len() {
            run[at] = op(&run[at - 1], &run[at]);
        }
        run.last().cloned()
    };
    let mut before: Vec<T> = items.par_chunks_mut(block).filter_map(within).collect();
    let mut sum = init;
    for total in &mut before {
        let next = op(&sum, total);
        *total = std::mem::replace(&mut sum, next);
    }
    items.par_chunks_mut(block).zip(&before).for_each(|(run, before)| finish(run, before));
}
