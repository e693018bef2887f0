//! A function that is called with every item.

use windrow_sync::divide::{Divide, Division};

use super::recipe::Recipe;
use super::search::leave_if_over;
use super::{ParallelIterator, consumed};
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive_begun};

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
    drive_begun(
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

/// The plain loop. The division is not shown to other code, so nothing is left of it but the bounds of the loop. It is always inlined, as what
/// makes the iterator is: a source that is moved through memory is read in wider pieces than it was written in, which waits until the stores
/// before are done, those of the loop before included.
#[inline(always)]
fn serial<P: ParallelIterator, F: Fn(P::Item)>(source: P::Source, recipe: &P::Recipe, f: &F) {
    let mut division = Division::new(source);
    let (mut lead, _) = division.lead();
    if let Some((at, chunk)) = lead.take(usize::MAX) {
        recipe.iter(&recipe.state(), at, chunk).for_each(f);
    }
}
