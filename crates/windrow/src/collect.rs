//! Collecting results in order.

use std::sync::{Mutex, PoisonError};

use windrow_sync::divide::{Divide, Division};
use windrow_sync::slots::Slots;

use crate::iter::ParallelIterator;
use crate::pool::with_current;
use crate::recipe::Recipe;
use crate::reduce::{Gathers, in_blocks};
use crate::region::run;

/// Collections that [`collect`](ParallelIterator::collect) can build.
pub trait FromParallelIterator<T: Send>: Sized {
    /// All items of `iter`, in the order of its source.
    fn from_par_iter<P: ParallelIterator<Item = T>>(iter: P) -> Self;
}

impl<T: Send> FromParallelIterator<T> for Vec<T> {
    /// Iterators with one item for every index write straight into the vector's memory; the others give runs, which are
    /// put together at the end.
    fn from_par_iter<P: ParallelIterator<Item = T>>(iter: P) -> Self {
        if P::Recipe::EXACT {
            in_place(iter)
        } else if P::Recipe::PER_CHUNK {
            in_blocks(iter, &Gathers).into_iter().flatten().collect()
        } else {
            in_runs(iter)
        }
    }
}

impl FromParallelIterator<()> for () {
    fn from_par_iter<P: ParallelIterator<Item = ()>>(iter: P) -> Self {
        iter.for_each(|()| ());
    }
}

fn in_place<P: ParallelIterator<Item: Send>>(iter: P) -> Vec<P::Item> {
    let (source, recipe, hints) = iter.into_parts();
    with_current(|crew| {
        let slots = Slots::new(source.total(), crew.members);
        let mut division = Division::new((source, slots));
        let (lead, shared) = division.lead();
        run(crew, &hints.0, lead, shared, |walk| {
            for (at, (chunk, mut fill)) in walk {
                fill.fill(recipe.iter(at, chunk));
            }
        });
        division.done().1.expect("an exact recipe has one item for every index")
    })
}

fn in_runs<P: ParallelIterator<Item: Send>>(iter: P) -> Vec<P::Item> {
    let (source, recipe, hints) = iter.into_parts();
    let mut runs = Mutex::new(Vec::new());
    with_current(|crew| {
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        run(crew, &hints.0, lead, shared, |walk| {
            // Chunks that follow one another, as most do, make one run.
            let mut mine: Vec<(usize, usize, Vec<P::Item>)> = Vec::new();
            for (at, chunk) in walk {
                let items = recipe.iter(at, chunk);
                match mine.last_mut() {
                    Some((_, end, run)) if *end == at.lo => {
                        run.extend(items);
                        *end = at.hi;
                    }
                    _ => mine.push((at.lo, at.hi, items.collect())),
                }
            }
            runs.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
        });
    });
    let mut runs = std::mem::take(runs.get_mut().unwrap_or_else(PoisonError::into_inner));
    if runs.len() == 1 {
        return runs.swap_remove(0).2;
    }
    runs.sort_unstable_by_key(|run| run.0);
    let mut all = Vec::with_capacity(runs.iter().map(|run| run.2.len()).sum());
    runs.into_iter().for_each(|(_, _, run)| all.extend(run));
    all
}
