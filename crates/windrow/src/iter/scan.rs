//! Prefix sums: running reductions, in place.
//!
//! Items are cut into blocks whose bounds depend on the number of items alone. Item `i` of block `b` becomes `before(b) op (x op .. op x(i))`, always in
//! this grouping (Blelloch, *Prefix sums and their applications*, 1990, with blocks as the leaves of the tree).
//!
//! The member that has the first block knows what comes before each block as it reaches it, and scans blocks in one pass: a serial call is one pass.
//! Other blocks are scanned separately first. When the region is over, their totals are scanned on the calling thread, and what comes before a
//! block is combined with its items in a second pass, in parallel. So sharing pays later than for other loops
//! ([`Extra::SecondPass`]).

use std::mem;
use std::ops::ControlFlow;
use std::panic::Location;

use windrow_plan::share::Extra;
use windrow_sync::Mutex;
use windrow_sync::divide::Division;
use windrow_sync::sources::RunsMut;

use super::reduce::{BLOCKS, LONGEST};
use super::slice::ParallelSliceMut;
use crate::iter::{IndexedParallelIterator, ParallelIterator};
use crate::runtime::hints::{CallPart, Hints};
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};

/// Items of a block: about as many blocks as in a reduction, but no more blocks than a block has items, since the totals are
/// scanned serially.
fn block(n: usize) -> usize {
    n.div_ceil(BLOCKS).max(n.isqrt()).clamp(1, LONGEST)
}

/// A scan by `op`. Each item becomes the reduction of all items up to it, or before it if the scan is not `inclusive`.
pub(crate) struct Scan<F> {
    pub(crate) op: F,
    pub(crate) inclusive: bool,
}

/// Work of one member in the first pass.
struct FirstPass<T> {
    /// The first blocks, which are done, and what comes before the next one.
    blocks: usize,
    before: T,
    /// Later blocks, each scanned separately, with its total.
    totals: Vec<(usize, T)>,
}

impl<F> Scan<F> {
    /// Scans `items`. Before them comes `init`. The first pass is this `part` of the call.
    #[track_caller]
    pub(crate) fn run<T: Clone + Send + Sync>(&self, items: &mut [T], mut init: T, part: CallPart)
    where
        F: Fn(&T, &T) -> T + Sync,
    {
        let (n, block) = (items.len(), block(items.len()));
        let mut hints = Hints::default().of_blocks(block, n);
        (hints.place, hints.part) = (Some(Location::caller()), part);
        hints.extra = Extra::SecondPass(size_of::<T>() * block);
        let pool = Current::get();
        let begun = BegunCall::new(&pool, &hints, n.div_ceil(block), Self::walk::<T> as *const () as usize);
        if begun.is_plain() {
            return begun.run_plain(|| items.chunks_mut(block).for_each(|run| init = self.walk(run, &init, false)));
        }
        let new = || FirstPass { blocks: 0, before: init.clone(), totals: Vec::new() };
        let all = Mutex::new(new());
        let mut division = Division::new(RunsMut::new(items, block));
        let (mut lead, shared) = division.lead();
        drive(
            begun,
            &mut lead,
            shared,
            new,
            |pass, at, runs| {
                for (block, run) in (at.lo..at.hi).zip(runs) {
                    if pass.blocks == block {
                        pass.before = self.walk(run, &pass.before, false);
                        pass.blocks += 1;
                    } else {
                        (1..run.len()).for_each(|at| run[at] = (self.op)(&run[at - 1], &run[at]));
                        pass.totals.extend(run.last().map(|total| (block, total.clone())));
                    }
                }
                ControlFlow::Continue(())
            },
            |mut pass| {
                let mut all = all.lock();
                all.totals.append(&mut pass.totals);
                if pass.blocks > 0 {
                    (all.blocks, all.before) = (pass.blocks, pass.before);
                }
            },
        );
        drop(lead);
        drop(division);
        let FirstPass { blocks, mut before, mut totals } = all.into_inner();
        totals.sort_unstable_by_key(|&(block, _)| block);
        let prefix = |(_, total): &(usize, T)| {
            let next = (self.op)(&before, total);
            mem::replace(&mut before, next)
        };
        let prefixes: Vec<T> = totals.iter().map(prefix).collect();
        if !prefixes.is_empty() {
            let runs = items[blocks * block..].par_chunks_mut(block).reported_as(CallPart::Further);
            runs.zip(&prefixes).for_each(|(run, before)| drop(self.walk(run, before, true)));
        }
    }

    /// Scans `run`, before which comes `before`. Returns the last prefix. If the run `is_scanned`, each item is the scan within the run already.
    #[inline]
    fn walk<T: Clone>(&self, run: &mut [T], before: &T, is_scanned: bool) -> T
    where
        F: Fn(&T, &T) -> T,
    {
        let (mut within, mut last) = (None, before.clone());
        for item in run {
            let sum = match &within {
                Some(within) if !is_scanned => (self.op)(within, item),
                _ => item.clone(),
            };
            let next = (self.op)(before, &sum);
            *item = if self.inclusive { next.clone() } else { last };
            (within, last) = (Some(sum), next);
        }
        last
    }
}
