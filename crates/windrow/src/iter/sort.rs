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

use crate::runtime::begun::depth;
use crate::runtime::hints::CallPart;
use crate::runtime::listen::{self, Account, CallKind, Ended};
use crate::runtime::pool;
use crate::runtime::sites::{SiteStats, site_at};
use crate::runtime::state::PoolState;
use crate::task::join::{Grown, Growth, expecting, join};

/// Sorts by keys that are computed once for each item.
pub(super) fn by_cached_key<T: Send, K: Ord + Send>(
    items: &mut [T],
    key: impl Fn(&T) -> K + Sync,
    place: &'static Location<'static>,
) {
    let begun = tick();
    let mut loop_of_keys = items.par_iter_mut().told_as(CallPart::Silent);
    loop_of_keys.hints.0.place = Some(place);
    let mut keys: Vec<(K, usize)> = loop_of_keys.enumerate().map(|(at, item)| (key(item), at)).collect();
    sort_unstable(&mut keys, &Ord::cmp, place, Some(begun));
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
    /// The predicted time of a serial sort.
    alone: Nanos,
}

/// Items at the front whose comparisons with their neighbours are timed.
///
/// Measure: count of items.
const SAMPLE: usize = 64;

impl SortGrain {
    /// `None` if a serial sort is faster.
    fn of<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering, told: &mut SortTold) -> Option<SortGrain> {
        // Two clock reads take 20 ns; std sorts 64 of the cheapest items in 300 ns.
        if items.len() < SAMPLE || size_of::<T>() == 0 {
            return None;
        }
        pool::with_current(|pool| {
            if pool.members == 1 {
                return None;
            }
            let start = tick();
            let n = items.len() as f64;
            let steps = n * n.log2();
            let site = told.site(steps);
            let stats = pool.sites.recall(site);
            told.steps = Some(SortSteps { site, count: steps, known: stats.known });
            let step = match stats.known.trusted() {
                Some(known) => known.per_item.0,
                // A comparison, plus its moves: 1 ns for the smallest items.
                None => sample(items, compare, pool).0 + 1.0,
            };
            let alone = Nanos(steps * step);
            told.alone = Some(alone);
            told.is_known = stats.known.trusted().is_some();
            let costs = pool.costs(start);
            let wakes = !is_inside() && pool.workers().idle == 0;
            if share::is_short(alone, &costs.machine, if wakes { costs.parked } else { WorkerState::Idle }) {
                return None;
            }
            // Sixteen parts a member, so that members finish at about the same time; but no part shorter than a heartbeat.
            let part = n / (16 * pool.members) as f64;
            let steps = pool.guess().heartbeat().0 / step;
            let sort = part.max(steps / n.log2()).max(16.0) as usize;
            Some(SortGrain { sort, merge: part.max(steps).max(16.0) as usize, members: pool.members, alone })
        })
    }

    /// Runs `f` in a tree of joins that expects the predicted time. Notes the decision in `told`.
    fn run(self, f: impl FnOnce(), told: &mut SortTold) {
        if is_inside() {
            told.reason = "as part of the recursion around it";
            return f();
        }
        let growth = Growth::new(CallKind::Sort, "sort", Some(told.place));
        let ((), grown) = expecting(self.alone, &growth, f);
        told.recursion = Some((growth, grown));
    }
}

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

/// What a sort learns from its place, and reports to [`explain`](crate::explain()).
struct SortTold {
    place: &'static Location<'static>,
    /// The address of the sort of these items, which tells apart sorts by one generic function.
    code: usize,
    alone: Option<Nanos>,
    is_known: bool,
    /// `None` if the sort teaches nothing.
    steps: Option<SortSteps>,
    reason: &'static str,
    recursion: Option<(Growth, Grown)>,
}

/// The weight of a sort of `n` items, `n * log2 n`, and what the site of such sorts remembers of a unit.
struct SortSteps {
    site: usize,
    count: f64,
    known: ItemCost,
}

impl SortTold {
    fn site(&self, steps: f64) -> usize {
        site_at(Some(self.place), self.code, depth(), steps as usize)
    }

    /// The items were in order already, which says nothing about the next sort.
    fn was_in_order(&mut self) {
        self.reason = IN_ORDER;
        self.steps = None;
    }

    /// Records what the sort took.
    fn learn(&self, took: Nanos, pool: &PoolState) {
        let Some(SortSteps { site, count, known }) = self.steps else { return };
        let open = self.recursion.as_ref().map_or(1, |(_, grown)| grown.open);
        let contradicted = share::contradicts(took, self.alone.unwrap_or_default(), pool.guess());
        let known = known.after_call(Nanos(took.0 / count), open, contradicted);
        pool.remember(site, SiteStats { known, long: None });
    }
}

/// Runs a sort of `count` items, which is compiled to `code`. Reports the sort if a listener wants that, from the tick `begun` on, if
/// that is given.
fn told(
    place: &'static Location<'static>,
    code: usize,
    count: usize,
    begun: Option<u64>,
    sort: impl FnOnce(&mut SortTold),
) {
    let reason = "serial: entering costs more than it saves";
    let reported = listen::call(CallKind::Sort, Some(place));
    let mut told = SortTold { place, code, alone: None, is_known: false, steps: None, reason, recursion: None };
    if count < SAMPLE && reported.is_none() {
        return sort(&mut told);
    }
    let start = tick();
    sort(&mut told);
    let (took, before) = pool::with_current(|pool| {
        let took = pool.nanos(tick().saturating_sub(start));
        told.learn(took, pool);
        (took, pool.nanos(begun.map_or(0, |begun| start.saturating_sub(begun))))
    });
    let Some(reported) = reported else { return };
    let (account, threads) = match &told.recursion {
        Some((growth, grown)) => (growth.account(*grown, before), grown.entered),
        None => {
            let predicted = told.alone.map(|alone| Nanos(alone.0 + before.0));
            (Account { reason: told.reason.into(), predicted, ..Account::default() }, 1)
        }
    };
    let account = Account { from_memory: told.is_known, ..account };
    reported.end(&Ended::new(count as u64, Nanos(took.0 + before.0), &account).on(threads));
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

pub(super) fn unstable<T: Send, C: Fn(&T, &T) -> Ordering + Sync>(
    items: &mut [T],
    compare: &C,
    place: &'static Location<'static>,
) {
    sort_unstable(items, compare, place, None);
}

/// Sorts; the call began at the tick `begun`, if that is given.
fn sort_unstable<T: Send, C: Fn(&T, &T) -> Ordering + Sync>(
    items: &mut [T],
    compare: &C,
    place: &'static Location<'static>,
    begun: Option<u64>,
) {
    let code = quicksort::<T, C> as fn(&mut [T], &C, usize, u32) as usize;
    told(place, code, items.len(), begun, |told| match SortGrain::of(items, compare, told) {
        None => items.sort_unstable_by(compare),
        Some(_) if was_in_order(items, compare) => told.was_in_order(),
        Some(grain) => grain.run(|| quicksort(items, compare, grain.sort, 2 * items.len().ilog2()), told),
    });
}

const IN_ORDER: &str = "serial: the items were in order";

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
    told(place, code, items.len(), None, |told| match SortGrain::of(items, compare, told) {
        None => items.sort_by(compare),
        Some(_) if was_in_order(items, compare) => told.was_in_order(),
        Some(grain) => grain.run(
            || {
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
            },
            told,
        ),
    });
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
