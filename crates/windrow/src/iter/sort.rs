//! Sorting slices.
//!
//! Both sorts apply the standard library's sort to parts of the slice. The unstable sort partitions first (quicksort). The stable sort
//! merges afterwards, through a second buffer. Every member gets several parts, so that members finish at about the same time. A part is
//! predicted to take at least a heartbeat. A place in the source remembers what its sorts have taken; where nothing is known, the first
//! comparisons are timed.

use std::cmp::Ordering;
use std::panic::Location;

use windrow_plan::Nanos;
use windrow_plan::machine::WorkerState;
use windrow_plan::share;
use windrow_plan::site::ItemCost;
use windrow_sync::machine::tick;
use windrow_sync::merge::{Merge, merging};

use crate::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use windrow_sync::join::is_inside;

use crate::runtime::call::Entered;
use crate::runtime::hints::CallPart;
use crate::runtime::listen::{Account, CallKind, Event};
use crate::runtime::pool;
use crate::runtime::sites::SiteStats;
use crate::runtime::state::PoolState;
use crate::task::join::{expecting, join};

/// Sorts by keys that are computed once for each item.
pub(super) fn by_cached_key<T: Send, K: Ord + Send>(
    items: &mut [T],
    key: impl Fn(&T) -> K + Sync,
    place: &'static Location<'static>,
) {
    let begun = tick();
    let mut loop_of_keys = items.par_iter_mut().reported_as(CallPart::Silent);
    loop_of_keys.hints.place = Some(place);
    let mut keys: Vec<(K, usize)> = loop_of_keys.enumerate().map(|(at, item)| (key(item), at)).collect();
    unstable(&mut keys, &Ord::cmp, place, Some(begun));
    // The item that belongs at `at` was at `keys[at].1`, unless one of the swaps so far has moved it.
    for at in 0..items.len() {
        let mut from = keys[at].1;
        while from < at {
            from = keys[from].1;
        }
        keys[at].1 = from;
        items.swap(at, from);
    }
}

/// The smallest parts.
#[derive(Clone, Copy)]
struct SortGrain {
    /// Items of a part that one call of the standard library's sort sorts.
    sort: usize,
    /// Items of a merge that is not split.
    merge: usize,
    members: usize,
}

/// Items at the front whose comparisons with their neighbours are timed.
///
/// Measure: count of items.
const SAMPLE: usize = 64;

/// Parts a member, so that members finish at about the same time.
///
/// Measure: count of parts.
const PARTS: usize = 16;

/// Items of the shortest part.
///
/// Measure: count of items.
const FEW: f64 = 16.0;

/// The time of a comparison of neighbours, of the first items.
fn sample<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering, pool: &PoolState) -> Nanos {
    let compare_all = || {
        let less = items[..SAMPLE].windows(2).filter(|pair| compare(&pair[0], &pair[1]).is_lt()).count();
        std::hint::black_box(less);
    };
    // The first time is that of fetching items and code.
    compare_all();
    let start = tick();
    compare_all();
    Nanos(pool.nanos(tick().saturating_sub(start)).0 / SAMPLE as f64)
}

/// Sorts as `serial` does, or as `parallel` does inside a tree of joins. The call, from `place`, began at the tick `begun` if that is
/// given. `code`: the address of the sort of these items, which tells apart sorts by one generic function.
fn sort<T, C: Fn(&T, &T) -> Ordering>(
    items: &mut [T],
    compare: &C,
    (place, code): (&'static Location<'static>, usize),
    begun: Option<u64>,
    serial: impl FnOnce(&mut [T]),
    parallel: impl FnOnce(&mut [T], SortGrain),
) {
    let (call, count) = (Entered::new(CallKind::Sort, Some(place)), items.len());
    if count < SAMPLE && call.reported.is_none() {
        return serial(items);
    }
    pool::with_current(|pool| {
        let (start, n) = (tick(), count as f64);
        // Two clock reads take 20 ns; std sorts 64 of the cheapest items in 300 ns.
        let decides = count >= SAMPLE && size_of::<T>() > 0 && pool.members > 1;
        // The weight of the sort, and the time of a unit.
        let steps = n * n.log2();
        let site = call.site(code, steps as usize);
        let known = if decides { pool.sites.recall(site).known } else { ItemCost::default() };
        let trusted = known.trusted();
        let step = match trusted {
            Some(known) => known.per_item.0,
            // A comparison, plus its moves: 1 ns for the smallest items.
            None if decides => sample(items, compare, pool).0 + 1.0,
            None => 0.0,
        };
        let alone = Nanos(steps * step);
        let pays = || {
            let costs = pool.costs(start);
            let wakes = !is_inside() && pool.workers().idle == 0;
            !share::is_short(alone, &costs.machine, if wakes { costs.parked } else { WorkerState::Idle })
        };
        // The members that it was open to; 0 if it teaches nothing.
        let (mut open, mut reason, mut grown) = (1, "serial: entering costs more than it saves", None);
        if !decides || !pays() {
            serial(items);
        } else if was_in_order(items, compare) {
            // That says nothing about the next sort.
            (open, reason) = (0, "serial: the items were already in order");
        } else {
            // No part is shorter than a heartbeat.
            let part = n / (PARTS * pool.members) as f64;
            let beat = pool.guess().heartbeat().0 / step;
            let sort = part.max(beat / n.log2()).max(FEW) as usize;
            let grain = SortGrain { sort, merge: part.max(beat).max(FEW) as usize, members: pool.members };
            if is_inside() {
                reason = "ran as part of the enclosing recursion";
                parallel(items, grain);
            } else {
                let tree = expecting(pool, alone, Some(place), || parallel(items, grain));
                (open, grown) = (tree.end.open, Some(tree));
            }
        }
        let took = pool.nanos(tick().saturating_sub(start));
        if decides && open > 0 {
            let contradicted = share::contradicts(took, alone, pool.guess());
            let known = known.after_call(Nanos(took.0 / steps), open, contradicted);
            pool.remember(site, SiteStats { known, long: None });
        }
        let Some(reported) = call.reported else { return };
        let before = pool.nanos(begun.map_or(0, |begun| start.saturating_sub(begun)));
        let predicted = decides.then_some(Nanos(alone.0 + before.0));
        let (account, threads) = match grown {
            Some(grown) => (grown.account(before), grown.end.entered),
            None => (Account { predicted, ..Account::because(reason) }, 1),
        };
        let account = Account { from_memory: trusted.is_some(), ..account };
        let (items, took) = (count as u64, Nanos(took.0 + before.0));
        let event = Event { items, took, threads, ..reported.event(&account) };
        reported.end(&event);
    });
}

/// Whether the items were in ascending or in descending order. If so, they are in ascending order now. Each check ends at the first pair
/// out of order.
fn was_in_order<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> bool {
    if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return true;
    }
    let descending = items.is_sorted_by(|a, b| compare(a, b).is_gt());
    if descending {
        items.reverse();
    }
    descending
}

/// Sorts; the call began at the tick `begun`, if that is given.
pub(super) fn unstable<T: Send, C: Fn(&T, &T) -> Ordering + Sync>(
    items: &mut [T],
    compare: &C,
    place: &'static Location<'static>,
    begun: Option<u64>,
) {
    let code = quicksort::<T, C> as fn(&mut [T], &C, usize, u32) as usize;
    let parallel = |items: &mut [T], grain: SortGrain| quicksort(items, compare, grain.sort, 2 * items.len().ilog2());
    sort(items, compare, (place, code), begun, |items| items.sort_unstable_by(compare), parallel);
}

/// Sorts by partitions until parts have at most `leaf` items, or after `limit` unbalanced partitions.
fn quicksort<T: Send, C>(items: &mut [T], compare: &C, leaf: usize, limit: u32)
where
    C: Fn(&T, &T) -> Ordering + Sync,
{
    if items.len() <= leaf || limit == 0 {
        return items.sort_unstable_by(compare);
    }
    let n = items.len();
    items.swap(0, middle(items, compare));
    let mut middle = 0;
    if let Some((pivot, rest)) = items.split_first_mut() {
        middle = partition(rest, |item| compare(item, pivot).is_lt());
    }
    items.swap(0, middle);
    let (less, rest) = items.split_at_mut(middle);
    let Some((pivot, mut more)) = rest.split_first_mut() else { return };
    // If few items are less than the pivot, many may be equal to it. Equal items need no more sorting.
    if less.len() < n / 8 {
        let equal = partition(more, |item| compare(item, pivot).is_le());
        more = &mut more[equal..];
    }
    let limit = limit - u32::from(less.len().max(more.len()) > n - n / 8);
    join(|| quicksort(less, compare, leaf, limit), || quicksort(more, compare, leaf, limit));
}

/// The index of an item near the median: the median of three medians of three (Tukey's ninther).
fn middle<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let median = |a: usize, b: usize, c: usize| {
        let is_lt = |a: usize, b: usize| compare(&items[a], &items[b]).is_lt();
        match (is_lt(a, b), is_lt(b, c), is_lt(a, c)) {
            (true, true, _) | (false, false, _) => b,
            (true, false, true) | (false, true, false) => c,
            _ => a,
        }
    };
    let ninth = items.len() / 9;
    let of = |third: usize| median((3 * third) * ninth, (3 * third + 1) * ninth, (3 * third + 2) * ninth);
    median(of(0), of(1), of(2))
}

/// Moves the items for which `is_left` holds to the front, and returns their number. (Lomuto's partition with an unconditional swap: an
/// unpredictable comparison costs no mispredicted branch.)
fn partition<T>(items: &mut [T], is_left: impl Fn(&T) -> bool) -> usize {
    let mut left = 0;
    for at in 0..items.len() {
        let is_left = is_left(&items[at]);
        items.swap(left, at);
        left += usize::from(is_left);
    }
    left
}

pub(super) fn stable<T: Send, C: Fn(&T, &T) -> Ordering + Sync>(
    items: &mut [T],
    compare: &C,
    place: &'static Location<'static>,
) {
    let code = sort_runs::<T, C> as fn(&mut [T], &C, usize) as usize;
    let parallel = |items: &mut [T], grain: SortGrain| {
        // A power of four: after an even number of levels of merges the items are back in the slice.
        let runs = (2 * grain.members).next_power_of_two();
        let runs = runs << (runs.trailing_zeros() % 2);
        let mut run = items.len().div_ceil(runs).max(grain.sort);
        sort_runs(items, compare, run);
        let n = items.len();
        merging(items, |merging| {
            while run < n {
                let merges = merging.level(run).collect();
                merge_all(merges, &|a, b| compare(a, b).is_lt(), grain.merge);
                let complete = merging.finish();
                debug_assert!(complete, "all merges have run");
                run *= 2;
            }
        });
    };
    sort(items, compare, (place, code), None, |items| items.sort_by(compare), parallel);
}

/// Sorts each run of `run` items.
fn sort_runs<T: Send, C: Fn(&T, &T) -> Ordering + Sync>(items: &mut [T], compare: &C, run: usize) {
    if items.len() <= run {
        return items.sort_by(compare);
    }
    let (left, right) = items.split_at_mut(items.len().div_ceil(run) / 2 * run);
    join(|| sort_runs(left, compare, run), || sort_runs(right, compare, run));
}

fn merge_all<T: Send>(mut merges: Vec<Merge<'_, T>>, is_less: &(impl Fn(&T, &T) -> bool + Sync), grain: usize) {
    match merges.len() {
        0 => {}
        1 => merges.into_iter().for_each(|merge| merge_one(merge, is_less, grain)),
        n => {
            let right = merges.split_off(n / 2);
            join(|| merge_all(merges, is_less, grain), || merge_all(right, is_less, grain));
        }
    }
}

fn merge_one<T: Send>(merge: Merge<'_, T>, is_less: &(impl Fn(&T, &T) -> bool + Sync), grain: usize) {
    if merge.len() <= grain {
        return merge.run(is_less);
    }
    let (left, right) = merge.split(is_less);
    join(|| merge_one(left, is_less, grain), || merge_one(right, is_less, grain));
}
