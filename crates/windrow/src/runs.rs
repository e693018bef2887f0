//! Results of unknown number: every member keeps those of the chunks that it ran one after the other together, and at the end
//! all of them are put in order.

use std::sync::{Mutex, PoisonError};

use either::Either;
use windrow_sync::divide::Division;

use crate::iter::ParallelIterator;
use crate::pool::with_current;
use crate::recipe::Recipe;
use crate::reduce::{Each, in_blocks};
use crate::region::run;
use crate::search::over;

/// What becomes of the items of chunks that follow one another. (A trait for the reason that [`Each`] is one.)
pub(crate) trait Gather<I>: Sync {
    type Run: Default + Send;
    fn add(&self, run: &mut Self::Run, items: impl Iterator<Item = I>);
}

/// Into anything that can be extended: vectors, strings.
pub(crate) struct Whole<C>(std::marker::PhantomData<fn() -> C>);
/// Pairs into two vectors.
pub(crate) struct Unzipped;
/// Left ones into one vector, right ones into another.
pub(crate) struct Parted;
/// The result of every chunk, apart.
pub(crate) struct Apart<'a, E>(pub(crate) &'a E);

impl<C> Whole<C> {
    pub(crate) fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<I, C: Default + Extend<I> + Send> Gather<I> for Whole<C> {
    type Run = C;
    fn add(&self, run: &mut C, items: impl Iterator<Item = I>) {
        run.extend(items);
    }
}

impl<A: Send, B: Send> Gather<(A, B)> for Unzipped {
    type Run = (Vec<A>, Vec<B>);
    fn add(&self, run: &mut Self::Run, items: impl Iterator<Item = (A, B)>) {
        run.extend(items);
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

/// The runs of all items, in order. Where they begin depends on the number of items alone if the items do.
pub(crate) fn gathered<P: ParallelIterator, G: Gather<P::Item>>(iter: P, gather: &G) -> Vec<G::Run> {
    if P::Recipe::PER_CHUNK && !P::Recipe::LOOSE { in_blocks(iter, &OfBlock(gather)) } else { in_runs(iter, gather) }
}

/// The runs of all items, in order.
pub(crate) fn in_runs<P: ParallelIterator, G: Gather<P::Item>>(iter: P, gather: &G) -> Vec<G::Run> {
    let (source, recipe, hints) = iter.into_parts();
    let mut runs = Mutex::new(Vec::new());
    let mut division = Division::new(source);
    let (lead, shared) = division.lead();
    with_current(|crew| {
        run(crew, &hints.0, lead, shared, |walk| {
            let state = recipe.state();
            // Chunks that follow one another, as most do, make one run.
            let mut mine: Vec<(usize, usize, G::Run)> = Vec::new();
            for (at, chunk) in walk {
                let items = recipe.iter(&state, at, chunk);
                match mine.last_mut() {
                    Some((_, end, run)) if *end == at.lo => {
                        gather.add(run, items);
                        *end = at.hi;
                    }
                    _ => {
                        let mut run = G::Run::default();
                        gather.add(&mut run, items);
                        mine.push((at.lo, at.hi, run));
                    }
                }
                if over(shared, at.hi, |from| recipe.over(from)) {
                    break;
                }
            }
            runs.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
        });
    });
    let mut runs = std::mem::take(runs.get_mut().unwrap_or_else(PoisonError::into_inner));
    runs.sort_unstable_by_key(|run| run.0);
    runs.into_iter().map(|(_, _, run)| run).collect()
}

/// All in one vector. One run, as a serial call makes, is it.
pub(crate) fn concat<T>(mut runs: Vec<Vec<T>>) -> Vec<T> {
    if runs.len() == 1 {
        return runs.swap_remove(0);
    }
    let mut all = Vec::with_capacity(runs.iter().map(Vec::len).sum());
    runs.iter_mut().for_each(|run| all.append(run));
    all
}
