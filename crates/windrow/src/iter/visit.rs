//! A function that is called with every item.

use windrow_sync::divide::{Divide, Division, undivided};

use super::recipe::Recipe;
use super::search::leave_if_over;
use super::{ParallelIterator, consumed};
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};

/// Calls `f` with every item.
#[inline]
#[track_caller]
pub(super) fn visit<P: ParallelIterator, F: Fn(P::Item) + Sync>(iter: P, f: F) {
    let (source, recipe, hints) = consumed(iter);
    let pool = Current::get();
    let code = serial::<P, F> as fn(P::Source, &P::Recipe, &F) as usize;
    let begun = BegunCall::new(&pool, &hints, source.total(), code);
    if begun.is_plain() {
        return begun.run_plain(|| serial::<P, F>(source, &recipe, &f));
    }
    let mut division = Division::new(source);
    let (mut lead, shared) = division.lead();
    drive(
        begun,
        &mut lead,
        shared,
        || recipe.state(),
        |state, at, chunk| {
            recipe.iter(state, at, chunk).for_each(&f);
            leave_if_over(shared, at.hi, |from| recipe.over(from))
        },
        drop,
    );
}

/// The plain loop.
#[inline(always)]
fn serial<P: ParallelIterator, F: Fn(P::Item)>(source: P::Source, recipe: &P::Recipe, f: &F) {
    undivided(source, |mut items| {
        if let Some((at, chunk)) = items.take(usize::MAX) {
            recipe.iter(&recipe.state(), at, chunk).for_each(f);
        }
    });
}
