//! Results of unknown number. Every member merges the results of consecutive chunks into one run. At the end, all runs are put in order.

use std::marker::PhantomData;

use either::Either;
use windrow_sync::Mutex;
use windrow_sync::divide::{Divide, Division, undivided};

use super::recipe::Recipe;
use super::reduce::{Each, in_blocks};
use super::search::leave_if_over;
use super::{ParallelIterator, consumed};
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};

/// Gathers the items of consecutive chunks. (A trait for the same reason as [`Each`].)
pub(crate) trait Gather<I>: Sync {
    type Run: Default + Send;
    fn add(&self, run: &mut Self::Run, items: impl Iterator<Item = I>);
}

/// Gathers into a collection that can be extended: a vector, a string, two vectors.
pub(crate) struct Extended<C>(pub(crate) PhantomData<fn() -> C>);
/// Gathers into a vector, by a fold: many iterators fold faster than they give one item after the other.
pub(crate) struct Pushed;
/// Gathers left items into one vector, right items into another.
pub(crate) struct Parted;
/// Gathers the result of every chunk, separately.
pub(crate) struct Apart<'a, E>(pub(crate) &'a E);

impl<I, C: Default + Extend<I> + Send> Gather<I> for Extended<C> {
    type Run = C;
    fn add(&self, run: &mut C, items: impl Iterator<Item = I>) {
        run.extend(items);
    }
}

impl<I: Send> Gather<I> for Pushed {
    type Run = Vec<I>;
    fn add(&self, run: &mut Vec<I>, items: impl Iterator<Item = I>) {
        items.for_each(|item| run.push(item));
    }
}

impl<A: Send, B: Send> Gather<Either<A, B>> for Parted {
    type Run = (Vec<A>, Vec<B>);
    fn add(&self, run: &mut Self::Run, items: impl Iterator<Item = Either<A, B>>) {
        items.for_each(|item| match item {
            Either::Left(item) => run.0.push(item),
            Either::Right(item) => run.1.push(item),
        });
    }
}

impl<I, E: Each<I>> Gather<I> for Apart<'_, E> {
    type Run = Vec<E::Result>;
    fn add(&self, run: &mut Self::Run, items: impl Iterator<Item = I>) {
        run.push(self.0.each(items));
    }
}

/// A gatherer for the items of one block.
struct OfBlock<'a, G>(&'a G);

impl<I, G: Gather<I>> Each<I> for OfBlock<'_, G> {
    type Result = G::Run;
    fn each(&self, items: impl Iterator<Item = I>) -> G::Run {
        let mut run = G::Run::default();
        self.0.add(&mut run, items);
        run
    }
}

/// The runs of all items, in order. If the items depend on the bounds of chunks, chunks are blocks, whose bounds depend on the number of
/// items alone.
#[track_caller]
pub(crate) fn gathered<P: ParallelIterator, G: Gather<P::Item>>(iter: P, gather: &G) -> Vec<G::Run> {
    if P::Recipe::PER_CHUNK && !P::Recipe::LOOSE { in_blocks(iter, &OfBlock(gather)) } else { in_runs(iter, gather) }
}

/// The runs of all items, in order.
#[track_caller]
pub(crate) fn in_runs<P: ParallelIterator, G: Gather<P::Item>>(iter: P, gather: &G) -> Vec<G::Run> {
    let (source, recipe, hints) = consumed(iter);
    let pool = Current::get();
    let begun = BegunCall::new(&pool, &hints, source.total(), all_runs::<P, G> as *const () as usize);
    if begun.is_plain() {
        let mut run = G::Run::default();
        begun.run_plain(|| {
            undivided(source, |mut items| {
                if let Some((at, chunk)) = items.take(usize::MAX) {
                    gather.add(&mut run, recipe.iter(&recipe.state(), at, chunk));
                }
            });
        });
        return vec![run];
    }
    all_runs::<P, G>(begun, source, &recipe, gather)
}

/// The runs of all items of a call that is no plain loop, in order.
#[inline(never)]
fn all_runs<P: ParallelIterator, G: Gather<P::Item>>(
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    gather: &G,
) -> Vec<G::Run> {
    let mut runs = Mutex::new(Vec::new());
    let mut division = Division::new(source);
    let (mut lead, shared) = division.lead();
    // Consecutive chunks make one run; most chunks are consecutive.
    drive(
        begun,
        &mut lead,
        shared,
        || (recipe.state(), Vec::<(usize, usize, G::Run)>::new()),
        |(state, mine), at, chunk| {
            let items = recipe.iter(state, at, chunk);
            if mine.last().is_none_or(|(_, end, _)| *end != at.lo) {
                mine.push((at.lo, at.lo, G::Run::default()));
            }
            let (_, end, run) = mine.last_mut().expect("there is one now");
            gather.add(run, items);
            *end = at.hi;
            leave_if_over(shared, at.hi, |from| recipe.over(from))
        },
        |(_, mut mine)| runs.lock().append(&mut mine),
    );
    let mut runs = std::mem::take(runs.get_mut());
    runs.sort_unstable_by_key(|run| run.0);
    runs.into_iter().map(|(_, _, run)| run).collect()
}

/// All runs in one vector. A single run, as in a serial call, is returned without a copy.
pub(crate) fn concat<T>(mut runs: Vec<Vec<T>>) -> Vec<T> {
    if runs.len() == 1 {
        return runs.swap_remove(0);
    }
    let mut all = Vec::with_capacity(runs.iter().map(Vec::len).sum());
    runs.iter_mut().for_each(|run| all.append(run));
    all
}
