//! Finds the best of all cuts.
//!
//! The rows are divided into *units*; a tile begins and ends between units. A *state* is what a prefix of tiles leaves: the time
//! when the first lane has finished the prefix, and the backlog of the second lane. For each number of units, the planner keeps a
//! *front*: the states that can still lead to the best end. It drops a state if
//!
//! - another state *dominates* it: the other state is not later, and its second lane does not finish later. The following tiles
//!   cost the same for both, and no step reverses their order, so the other state ends no later. (If contention makes overlap a
//!   loss, a later state with less backlog can win. The planner then compares backlogs instead of ends, which is always valid.)
//! - its *bound* is too high: the lower bound on its end. The remaining time is bounded from the end backwards, on a grid of
//!   backlogs rounded down.
//! - the front is long, and another state *almost* dominates it, or the state could save almost nothing. Ends differ by no more
//!   than their states do, so the loss is known. Each state carries its *slack*: how much sooner the states merged into it may have
//!   ended. The slack stays below the allowed gap, in proportion to the rows passed.
//!
//! The result is the best cut, and a time that no cut can beat.

use super::pipeline::{PipelineState, Slow, fluid};
use super::{PlanError, Problem, Tiles};
use crate::{Nanos, Rows};

/// The costs of all tiles that begin and end between units.
pub(super) struct CostGrid {
    rows: Rows,
    /// Rows per unit; the last unit may have fewer.
    pub(super) grain: Rows,
    pub(super) units: usize,
    /// Units of the shortest tile without the last unit, and of the shortest one that includes it. (Both are `units` if there is one tile.)
    shortest: [usize; 2],
    /// Costs by number of units, of tiles without the last unit. No number for tiles that are too short.
    inner: [Vec<f64>; 2],
    /// Costs by number of units, of tiles that include the last unit.
    last: [Vec<f64>; 2],
}

impl CostGrid {
    pub(super) fn new(problem: &Problem<'_>) -> Result<CostGrid, PlanError> {
        problem.check()?;
        let (rows, align) = (problem.rows, problem.align.0);
        let most = u64::try_from(problem.effort.units).unwrap_or(u64::MAX);
        let grain = align.saturating_mul(rows.0.div_ceil(align).div_ceil(most).max(1));
        let units = usize::try_from(rows.0.div_ceil(grain)).expect("at most effort.units");
        let mut grid = CostGrid {
            rows,
            grain: Rows(grain),
            units,
            shortest: [1; 2],
            inner: Default::default(),
            last: Default::default(),
        };
        let enough = |rows: Rows| rows >= problem.min_tile;
        let inner = (1..units).find(|&n| enough(grid.rows_between(0, n))).unwrap_or(units).max(1);
        let last = (1..units).find(|&n| enough(grid.rows_between(units - n, units))).unwrap_or(units).max(1);
        grid.shortest = [inner, last];
        for (place, lane) in problem.order.lanes().into_iter().enumerate() {
            let cost = |begin, end| problem.cost(lane, grid.rows_between(begin, end)).map(|time| time.0);
            // A placeholder for 0 units, so that the index is the number of units.
            let nothing = |units: usize| std::iter::repeat_n(Ok(f64::NAN), units);
            let [inner, last] = grid.shortest;
            let inner = nothing(inner).chain((inner..units).map(|n| cost(0, n))).collect::<Result<_, _>>()?;
            let last = nothing(last).chain((last..=units).map(|n| cost(units - n, units))).collect::<Result<_, _>>()?;
            (grid.inner[place], grid.last[place]) = (inner, last);
        }
        Ok(grid)
    }

    fn rows_between(&self, begin: usize, end: usize) -> Rows {
        let rows = |unit: usize| (unit as u64).saturating_mul(self.grain.0).min(self.rows.0);
        Rows(rows(end) - rows(begin))
    }

    /// Whether a tile from unit `begin` to unit `end` is long enough, and the rows after it can be tiles that are.
    fn joins(&self, begin: usize, end: usize) -> bool {
        let ([inner, last], units) = (self.shortest, self.units);
        if end == units { begin + last <= end } else { begin + inner <= end && end + last <= units }
    }

    /// Where a tile that begins at this unit may end.
    fn ends(&self, begin: usize) -> impl Iterator<Item = usize> + '_ {
        (begin + 1..=self.units).filter(move |&end| self.joins(begin, end))
    }

    /// Whether the tiles with these numbers of units are long enough.
    pub(super) fn allows(&self, tiles: &[usize]) -> bool {
        let [inner, last] = self.shortest;
        let Some((end, before)) = tiles.split_last() else { return true };
        before.is_empty() || (*end >= last && before.iter().all(|&tile| tile >= inner))
    }

    /// Whether the rows can be cut at all.
    pub(super) fn can_be_cut(&self) -> bool {
        self.ends(0).any(|end| end < self.units)
    }

    /// The cost of the tile from unit `begin` to unit `end` in the first and in the second lane.
    fn cost(&self, begin: usize, end: usize) -> (f64, f64) {
        let [first, second] = if end == self.units { &self.last } else { &self.inner };
        (first[end - begin], second[end - begin])
    }

    /// The predicted time of the cut whose tiles have these numbers of units.
    pub(super) fn end_of(&self, tiles: &[usize], slow: Slow) -> f64 {
        let passed = tiles.iter().fold((0, PipelineState::default()), |(begin, state), units| {
            let (first, second) = self.cost(begin, begin + units);
            (begin + units, state.step(first, second, slow))
        });
        passed.1.end()
    }

    pub(super) fn tiles(&self, units: &[usize]) -> Tiles {
        let mut begin = 0;
        let rows = units.iter().map(|n| {
            begin += n;
            self.rows_between(begin - n, begin)
        });
        Tiles(rows.collect())
    }

    /// For each unit, the minimum work of a lane from there to the end, over all cuts.
    pub(super) fn least(&self, second: bool) -> Vec<f64> {
        let mut least = vec![0.0; self.units + 1];
        for begin in (0..self.units).rev() {
            let rest = self.ends(begin).map(|end| {
                let cost = self.cost(begin, end);
                least[end] + if second { cost.1 } else { cost.0 }
            });
            least[begin] = rest.fold(f64::INFINITY, f64::min);
        }
        least
    }
}

/// Cells of the grid of backlogs. With 256, the bound of the whole operation is on average 0.6 % below the best cut, and at most 6
/// %. (The models are those of the example `tile_work`.) Building the grid takes most of the time of a plan.
const CELLS: usize = 256;

/// A lower bound on the time from a unit and a backlog to the end.
struct LowerBound {
    /// Width of a cell of the grid.
    width: f64,
    /// The minimum delay of the end per unit of additional backlog. The backlog either remains at the end, or has slowed down the
    /// first lane.
    rise: f64,
    /// One row per unit; the last cell stands for all larger backlogs.
    least: Vec<[f64; CELLS]>,
}

impl LowerBound {
    /// Computes the bound from the end backwards. Rounding a backlog down never raises the bound, because more backlog never helps.
    fn new(grid: &CostGrid, slow: Slow, longest: f64) -> LowerBound {
        let width = longest / CELLS as f64;
        let mut bound =
            LowerBound { width, rise: slow.drag().min(1.0), least: vec![[f64::INFINITY; CELLS]; grid.units + 1] };
        bound.least[grid.units] = std::array::from_fn(|cell| cell as f64 * width);
        let rest = [grid.least(false), grid.least(true)];
        for begin in (0..grid.units).rev() {
            let mut least = [f64::INFINITY; CELLS];
            for end in grid.ends(begin) {
                let (first, second) = grid.cost(begin, end);
                for (cell, least) in least.iter_mut().enumerate() {
                    let state = PipelineState { time: 0.0, backlog: cell as f64 * width }.step(first, second, slow);
                    *least = least.min(bound.end(end, state));
                }
            }
            // Rounding errors add up over many small steps. A bound that takes all remaining work in one step has none.
            for (cell, least) in least.iter_mut().enumerate() {
                *least = least.max(fluid(rest[0][begin], cell as f64 * width + rest[1][begin], slow));
            }
            bound.least[begin] = least;
        }
        bound
    }

    /// A lower bound on the end of a state.
    fn end(&self, unit: usize, state: PipelineState) -> f64 {
        let cell = ((state.backlog / self.width) as usize).min(CELLS - 1);
        let beyond = state.backlog - cell as f64 * self.width;
        // At minimum, the backlog itself remains.
        state.time + (self.least[unit][cell] + self.rise * beyond).max(state.backlog)
    }
}

/// A state of a front, and how it was reached.
#[derive(Clone, Copy, Debug)]
struct Kept {
    state: PipelineState,
    /// How much sooner the states merged into this one may end.
    slack: f64,
    /// The previous state: its number of units and its index in that front.
    before: (u32, u32),
    tiles: u32,
}

/// The size of the search.
///
/// ```
/// use windrow_tiling::tile::Problem;
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(50.0 + rows.0 as f64);
/// let steps = |rows| Problem::new(Rows(rows), &cost, &cost).plan().map(|plan| plan.work.steps);
/// assert!(steps(20)? < steps(100)?);
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerWork {
    /// Number of times a tile was appended to a state.
    pub steps: u64,
    /// Length of the longest front.
    pub widest: usize,
}

/// The best cut found.
pub(super) struct BestCut {
    /// Units of the tiles; `None` if no cut ends before the known one.
    pub(super) units: Option<Vec<usize>>,
    /// A lower bound for all cuts.
    pub(super) least: f64,
    pub(super) work: PlannerWork,
}

/// The cut that takes the tile with the best bound at each step. It prunes the search better than a simple cut does.
fn guided(grid: &CostGrid, bound: &LowerBound, slow: Slow, most: usize) -> Vec<usize> {
    let (mut begin, mut state, mut tiles) = (0, PipelineState::default(), Vec::new());
    while begin < grid.units {
        let first = if tiles.len() + 1 == most { grid.units } else { begin + 1 };
        let next = grid.ends(begin).filter(|&end| end >= first).map(|end| {
            let (first, second) = grid.cost(begin, end);
            (end, state.step(first, second, slow))
        });
        let best = next.min_by(|a, b| bound.end(a.0, a.1).total_cmp(&bound.end(b.0, b.1)));
        let (end, after) = best.expect("there are units left");
        tiles.push(end - begin);
        (begin, state) = (end, after);
    }
    tiles
}

/// Searches for a cut that ends before `known`, the end of some cut.
pub(super) fn search(grid: &CostGrid, problem: &Problem<'_>, mut known: f64) -> BestCut {
    if known <= 0.0 {
        return BestCut { units: None, least: known, work: PlannerWork::default() };
    }
    let slow = problem.slow();
    let bound = LowerBound::new(grid, slow, known);
    let guided = guided(grid, &bound, slow, problem.most_tiles);
    let guided = Some(guided).filter(|tiles| grid.end_of(tiles, slow) < known);
    known = guided.as_ref().map_or(known, |tiles| grid.end_of(tiles, slow));
    let floor = bound.end(0, PipelineState::default());
    // Half of the gap is for merging, half for skipping states with a bound close to `known`.
    let mut found = explored(grid, problem, &bound, known, problem.effort.gap * floor / 2.0);
    found.units = found.units.or(guided);
    found.least = found.least.max(floor);
    found.work.steps += (grid.units * (grid.units + 1) / 2 * CELLS) as u64;
    found
}

/// Explores all states that the bound allows. Once a front is long, loses up to twice `loss`.
fn explored(grid: &CostGrid, problem: &Problem<'_>, bound: &LowerBound, known: f64, loss: f64) -> BestCut {
    let (units, slow) = (grid.units, problem.slow());
    let mut work = PlannerWork { steps: 0, widest: 1 };
    // If as many tiles as units are allowed, the number of tiles does not matter.
    let most = (problem.most_tiles < units).then_some(problem.most_tiles);
    let full = |tiles: u32, end| most.is_some_and(|most| tiles as usize + usize::from(end < units) > most);
    let mut least = known;
    // States with a bound of this or more are skipped. It is the known end, and that end minus `loss` once a front was long.
    let mut enough = known;
    let mut fronts = vec![vec![Kept { state: PipelineState::default(), slack: 0.0, before: (0, 0), tiles: 0 }]];
    let mut reached = Vec::new();
    for end in 1..=units {
        reached.clear();
        for (begin, front) in fronts.iter().enumerate().filter(|(begin, _)| grid.joins(*begin, end)) {
            let (first, second) = grid.cost(begin, end);
            work.steps += front.len() as u64;
            for (place, kept) in front.iter().enumerate() {
                let tiles = kept.tiles + 1;
                if full(tiles, end) {
                    continue;
                }
                let state = kept.state.step(first, second, slow);
                let soonest = bound.end(end, state);
                if soonest < enough {
                    reached.push(Kept { state, slack: kept.slack, before: (begin as u32, place as u32), tiles });
                } else {
                    least = least.min(soonest - kept.slack);
                }
            }
        }
        sift(&mut reached, slow, most);
        let mut front = undominated(&mut reached, slow, most);
        if front.len() > problem.effort.front {
            enough = known - loss;
            front = thinned(front, slow, most, loss * end as f64 / units as f64);
        }
        work.widest = work.widest.max(front.len());
        fronts.push(front);
    }
    let last = &fronts[units];
    least = last.iter().map(|kept| kept.state.end() - kept.slack).fold(least, f64::min);
    let best = last.iter().min_by(|a, b| a.state.end().total_cmp(&b.state.end()).then(a.tiles.cmp(&b.tiles)));
    BestCut { units: best.map(|best| trace(&fronts, *best, units)), least, work }
}

/// The second key of dominance, beside the time: the end, or the backlog if overlapping loses.
fn behind(kept: &Kept, slow: Slow) -> f64 {
    if slow.drag() <= 1.0 { kept.state.end() } else { kept.state.backlog }
}

/// The number of tiles of a state if it matters, otherwise 0.
fn class(kept: &Kept, most: Option<usize>) -> usize {
    most.map_or(0, |_| kept.tiles as usize)
}

/// Removes most of the dominated states, without sorting.
fn sift(reached: &mut Vec<Kept>, slow: Slow, most: Option<usize>) {
    const SIEVE: usize = 512;
    let times = reached.iter().map(|kept| kept.state.time);
    let (low, high) = times.fold((f64::INFINITY, 0.0), |(low, high), time| (time.min(low), time.max(high)));
    if low >= high {
        return;
    }
    let of = |kept: &Kept| ((kept.state.time - low) / (high - low) * (SIEVE - 1) as f64) as usize;
    // For each short interval of time, the state with the lowest second key in it and all intervals before.
    let mut ahead: [Option<usize>; SIEVE] = [None; SIEVE];
    let closer = |a: usize, b: Option<usize>| b.is_none_or(|b| behind(&reached[a], slow) < behind(&reached[b], slow));
    for (place, kept) in reached.iter().enumerate() {
        let stretch = of(kept);
        if closer(place, ahead[stretch]) {
            ahead[stretch] = Some(place);
        }
    }
    for stretch in 1..SIEVE {
        // On a tie the earlier state stays, so no state of `ahead` is removed.
        let here = ahead[stretch].filter(|&here| closer(here, ahead[stretch - 1]));
        ahead[stretch] = here.or(ahead[stretch - 1]);
    }
    let mut remains = vec![true; reached.len()];
    for place in 0..reached.len() {
        let kept = reached[place];
        let Some(by) = of(&kept).checked_sub(1).and_then(|stretch| ahead[stretch]) else { continue };
        if behind(&reached[by], slow) <= behind(&kept, slow) && class(&reached[by], most) <= class(&kept, most) {
            reached[by].slack = reached[by].slack.max(kept.slack);
            remains[place] = false;
        }
    }
    let mut remains = remains.into_iter();
    reached.retain(|_| remains.next().unwrap_or(true));
}

/// The states that no other state dominates, by ascending time.
fn undominated(reached: &mut [Kept], slow: Slow, most: Option<usize>) -> Vec<Kept> {
    reached.sort_unstable_by(|a, b| {
        let ends = a.state.time.total_cmp(&b.state.time).then(behind(a, slow).total_cmp(&behind(b, slow)));
        // Comparing `before` makes the order total, and so the plan the same on every machine.
        ends.then(a.tiles.cmp(&b.tiles)).then(a.before.cmp(&b.before))
    });
    let mut front: Vec<Kept> = Vec::new();
    // Per number of tiles: the state of the front with so many tiles or fewer that has the lowest second key.
    let mut ahead = vec![None; most.map_or(1, |most| most + 1)];
    for kept in reached.iter() {
        let class = class(kept, most);
        match ahead[class] {
            Some(place) if behind(&front[place], slow) <= behind(kept, slow) => {
                let by: &mut Kept = &mut front[place];
                by.slack = by.slack.max(kept.slack);
            }
            _ => {
                for place in &mut ahead[class..] {
                    if place.is_none_or(|place| behind(&front[place], slow) > behind(kept, slow)) {
                        *place = Some(front.len());
                    }
                }
                front.push(*kept);
            }
        }
    }
    front
}

/// Merges states that another state almost dominates. No state may stand for states that end sooner by more than `allowed`.
fn thinned(front: Vec<Kept>, slow: Slow, most: Option<usize>, allowed: f64) -> Vec<Kept> {
    // A difference in the second key moves the end by no more than the difference, times the drag if the drag exceeds 1.
    let lost = slow.drag().max(1.0);
    let mut thin: Vec<Kept> = Vec::new();
    let mut latest: Vec<Option<usize>> = vec![None; most.map_or(1, |most| most + 1)];
    for kept in front {
        let class = class(&kept, most);
        let slack = |by: usize| kept.slack + lost * (behind(&thin[by], slow) - behind(&kept, slow)).max(0.0);
        let by = latest[..=class].iter().flatten().map(|&by| (by, slack(by))).min_by(|a, b| a.1.total_cmp(&b.1));
        match by {
            Some((by, slack)) if slack <= allowed => thin[by].slack = thin[by].slack.max(slack),
            _ => {
                latest[class] = Some(thin.len());
                thin.push(kept);
            }
        }
    }
    thin
}

fn trace(fronts: &[Vec<Kept>], mut kept: Kept, mut end: usize) -> Vec<usize> {
    let mut tiles = Vec::new();
    while end > 0 {
        let (begin, place) = (kept.before.0 as usize, kept.before.1 as usize);
        tiles.push(end - begin);
        (kept, end) = (fronts[begin][place], begin);
    }
    tiles.reverse();
    tiles
}

/// Lower bounds on the time of all cuts: see [`Bounds`](super::Bounds).
pub(super) fn bounds(grid: &CostGrid, slow: Slow) -> (f64, f64) {
    let (first, second) = (grid.least(false)[0], grid.least(true)[0]);
    (first.max(second), fluid(first, second, slow))
}

impl Problem<'_> {
    /// Finds the best cut and its time by trying all cuts, to check [`plan`](Self::plan) on small cases. Each additional unit doubles
    /// the time.
    ///
    /// ```
    /// use windrow_tiling::tile::Problem;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(5.0 + (rows.0 * rows.0) as f64);
    /// let problem = Problem::new(Rows(12), &cost, &cost);
    /// let (tiles, time) = problem.brute_force()?;
    /// assert_eq!(problem.predict(&tiles)?, time);
    /// assert!((problem.plan()?.predicted.0 - time.0).abs() < 1e-9 * time.0);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan), and if there are more than 24 units.
    pub fn brute_force(&self) -> Result<(Tiles, Nanos), PlanError> {
        let grid = CostGrid::new(self)?;
        if grid.units > 24 {
            return Err(PlanError::TooMany { units: grid.units });
        }
        let mut best = (f64::INFINITY, Vec::new());
        let mut tiles = Vec::with_capacity(grid.units);
        for cuts in 0_u32..1 << grid.units.saturating_sub(1) {
            if cuts.count_ones() as usize >= self.most_tiles {
                continue;
            }
            tiles.clear();
            let mut begin = 0;
            for end in 1..=grid.units {
                if end == grid.units || cuts >> (end - 1) & 1 == 1 {
                    tiles.push(end - begin);
                    begin = end;
                }
            }
            if !grid.allows(&tiles) {
                continue;
            }
            let end = grid.end_of(&tiles, self.slow());
            if (end, tiles.len()) < (best.0, best.1.len()) {
                best = (end, tiles.clone());
            }
        }
        Ok((grid.tiles(&best.1), Nanos(best.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::{Contention, Effort};

    /// Irregular costs, from a multiplicative generator.
    fn costs(seed: u64, fixed: f64) -> impl Fn(Rows) -> Nanos {
        move |rows| {
            let mixed = (seed * 1000 + rows.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let random = (mixed >> 40) as f64 / (1 << 24) as f64;
            let rows = rows.0 as f64;
            Nanos(match seed % 3 {
                0 => 10.0 * random,
                // Many short tiles are best, as far as they are allowed.
                1 => rows * rows * (0.1 + random),
                _ => fixed + rows + random,
            })
        }
    }

    /// The search with a bound that knows nothing, because the real bound would hide most errors of the rest.
    fn without_bound(problem: &Problem<'_>, loss: f64) -> (BestCut, f64) {
        let grid = CostGrid::new(problem).unwrap();
        let nothing = LowerBound { width: f64::MAX, rise: 0.0, least: vec![[0.0; CELLS]; grid.units + 1] };
        let found = explored(&grid, problem, &nothing, f64::MAX, loss);
        let end = grid.end_of(found.units.as_ref().expect("there are cuts"), problem.slow());
        (found, end)
    }

    fn each(mut look: impl FnMut(&Problem<'_>)) {
        for seed in 0..900_u64 {
            let [compute, communicate] =
                [costs(seed, (seed % 5) as f64), costs(seed + 999_999, (seed % 7) as f64 / 2.0)];
            let factor = |place: u64| [1.0, 1.1, 1.5, 1.93, 3.0, 5.0][(seed / 3 / place % 6) as usize];
            let contention = Contention { compute: factor(1), communicate: factor(6) };
            let most_tiles = [usize::MAX, 2, 4, 6][(seed % 4) as usize];
            look(&Problem { contention, most_tiles, ..Problem::new(Rows(11), &compute, &communicate) });
        }
    }

    #[test]
    fn dominated_states_are_not_missed() {
        each(|problem| {
            let ((found, end), best) = (without_bound(problem, 0.0), problem.brute_force().unwrap().1.0);
            assert!((end - best).abs() <= 1e-9 * best, "{problem:?}: {end}, not {best}");
            assert!((found.least - best).abs() <= 1e-9 * best, "{problem:?}: {}, not {best}", found.least);
        });
    }

    #[test]
    fn merged_states_lose_what_they_say() {
        let (mut merged, mut lost) = (0, 0);
        for loss in [0.3, 2.0, 5.0] {
            each(|problem| {
                let problem = &Problem { effort: Effort { front: 1, ..problem.effort }, ..*problem };
                let ((found, end), best) = (without_bound(problem, loss), problem.brute_force().unwrap().1.0);
                assert!(
                    end - found.least <= 2.0 * loss + 1e-9,
                    "{problem:?}: {end} is not within {loss} of {}",
                    found.least
                );
                assert!(
                    found.least <= best + 1e-9,
                    "{problem:?}: {best} was said to be impossible, less than {}",
                    found.least
                );
                merged += u32::from(found.least < end);
                lost += u32::from(end > best * (1.0 + 1e-9));
            });
        }
        assert!(merged > 900 && lost > 90, "{merged} of 2700 were merged, {lost} to a loss");
    }
}
