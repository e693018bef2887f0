//! The usual cuts: equal tiles, tiles of two sizes, and the guide's rule, which derives two sizes from a short tile.

use super::exact::CostGrid;
use super::pipeline::Slow;
use super::{Lane, PlanError, Problem, Tiles};
use crate::{Nanos, Rows};

/// Units of `tiles` tiles that differ by no more than one unit, the longer ones first.
fn equal(units: usize, tiles: usize) -> Vec<usize> {
    (0..tiles).map(|tile| units / tiles + usize::from(tile < units % tiles)).collect()
}

/// The cut that ends first; of several, the one with the fewest tiles.
fn best(cuts: impl Iterator<Item = Vec<usize>>, grid: &CostGrid, slow: Slow) -> (Vec<usize>, f64) {
    let ends = cuts.map(|cut| (grid.end_of(&cut, slow), cut));
    let best = ends.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.len().cmp(&b.1.len())));
    best.map_or((Vec::new(), 0.0), |(end, cut)| (cut, end))
}

/// The best cut into equal tiles; one tile is allowed.
pub(super) fn best_uniform(grid: &CostGrid, slow: Slow, most: usize) -> (Vec<usize>, f64) {
    let cuts = (1..=grid.units.min(most)).map(|tiles| equal(grid.units, tiles));
    best(cuts.filter(|cut| grid.allows(cut)), grid, slow)
}

/// The best cut into equal tiles and one tile of another size at either end; equal tiles and one tile are allowed.
pub(super) fn best_two_sizes(grid: &CostGrid, slow: Slow, most: usize) -> (Vec<usize>, f64) {
    let units = grid.units;
    let long = (1..=units).flat_map(|long| (1..=units / long).map(move |count| (long, count)));
    let cuts = long.flat_map(|(long, count)| {
        let (longs, short) = (std::iter::repeat_n(long, count), Some(units - long * count).filter(|&short| short > 0));
        [short.into_iter().chain(longs.clone()).collect::<Vec<_>>(), longs.chain(short).collect()]
    });
    best(cuts.filter(|cut| cut.len() <= most && grid.allows(cut)), grid, slow)
}

impl Problem<'_> {
    /// Equal tiles, as far as the alignment allows. Fewer than `tiles` if there are fewer places to cut. They may be shorter than `min_tile`.
    ///
    /// ```
    /// use windrow_tiling::tile::Problem;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(rows.0 as f64);
    /// let problem = Problem { align: Rows(128), ..Problem::new(Rows(1000), &cost, &cost) };
    /// assert_eq!(problem.uniform(3)?.to_string(), "{384 x 2, 232}");
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan), and if `tiles` is 0.
    pub fn uniform(&self, tiles: usize) -> Result<Tiles, PlanError> {
        if tiles == 0 {
            return Err(PlanError::NoTiles);
        }
        self.check()?;
        let (units, align) = (self.rows.0.div_ceil(self.align.0), self.align.0);
        let tiles = (tiles as u64).min(units);
        let begin = |tile: u64| ((units / tiles * tile + tile.min(units % tiles)) * align).min(self.rows.0);
        Tiles::new((0..tiles).map(|tile| Rows(begin(tile + 1) - begin(tile))).collect::<Vec<_>>())
    }

    /// The best cut into equal tiles and one tile of another size at the head or at the tail.
    ///
    /// ```
    /// use windrow_tiling::tile::Problem;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let (compute, communicate) = (|rows: Rows| Nanos(rows.0 as f64), |rows: Rows| Nanos(30.0 + rows.0 as f64));
    /// let problem = Problem { align: Rows(16), ..Problem::new(Rows(256), &compute, &communicate) };
    /// let tiles = problem.two_sizes()?;
    /// assert_eq!(tiles.total(), Rows(256));
    /// assert!(problem.predict(&tiles)? <= problem.predict(&problem.uniform(4)?)?);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn two_sizes(&self) -> Result<Tiles, PlanError> {
        let grid = CostGrid::new(self)?;
        Ok(grid.tiles(&best_two_sizes(&grid, self.slow(), self.most_tiles).0))
    }
}

/// The other dimensions of the matrix product behind the rows: m x k times k x n.
///
/// ```
/// use windrow_tiling::Rows;
/// use windrow_tiling::tile::Matmul;
///
/// // A tile of such a product has 384 rows or more.
/// assert_eq!(Matmul { k: 8192, n: 8192 }.thresholds().into_iter().max(), Some(Rows(384)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matmul {
    /// The dimension that is summed over.
    pub k: u64,
    /// The columns of the result.
    pub n: u64,
}

impl Matmul {
    /// The rows below which a tile is too short for the product, by three rules of thumb: enough multiplications, enough memory
    /// traffic, enough rows. A tile must meet all three. (The guide prints the minimum; its example, and the code it describes, take
    /// the maximum.)
    pub fn thresholds(self) -> [Rows; 3] {
        let (k, n) = (self.k.max(1) as f64, self.n.max(1) as f64);
        let multiplications = (4.0 * 1024.0 * 1024.0 * 1024.0 / (k * n)).ceil();
        let memory = (6.0 * 1024.0 * 1024.0 / (k * n / 1024.0 + n)).ceil();
        [Rows(multiplications as u64), Rows(memory as u64), Rows(3 * 128)]
    }
}

/// The result of the guide's rule, with all intermediate numbers.
///
/// ```
/// use windrow_tiling::tile::{GUIDE_FACTOR, Lane, Matmul, Problem, short_long_rule};
/// use windrow_tiling::{Nanos, Rows};
///
/// let (compute, communicate) = (|rows: Rows| Nanos(rows.0 as f64), |rows: Rows| Nanos(2.0 * rows.0 as f64));
/// let problem = Problem { align: Rows(128), ..Problem::new(Rows(4096), &compute, &communicate) };
/// let rule = short_long_rule(&problem, Matmul { k: 8192, n: 8192 }, GUIDE_FACTOR)?;
/// // The second lane limits, so the short tile comes first.
/// let (short, long) = rule.steps.map(|steps| (steps.short_tile, steps.long_tile)).unwrap();
/// assert_eq!(rule.limit, Lane::Communicate);
/// assert!(rule.tiles.iter().next() == Some(short) && rule.tiles.iter().skip(1).all(|tile| tile == long));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ShortLong {
    /// The limiting lane: the one that takes longer for the whole operation.
    pub limit: Lane,
    /// Rows of the three thresholds.
    pub thresholds: [Rows; 3],
    /// The intermediate numbers, if the operation is long enough to be cut.
    pub steps: Option<Steps>,
    /// The resulting tiles.
    pub tiles: Tiles,
}

/// The numbers between the first short tile and the resulting tiles.
///
/// ```
/// use windrow_tiling::tile::{Matmul, Problem, short_long_rule};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(rows.0 as f64);
/// let problem = Problem { align: Rows(128), ..Problem::new(Rows(4096), &cost, &cost) };
/// let steps = short_long_rule(&problem, Matmul { k: 8192, n: 8192 }, 1.5)?.steps.unwrap();
/// // The other lane does 384 * 1.5 rows in the expanded time: 512, when aligned.
/// assert_eq!([steps.short, steps.balanced, steps.long], [384, 576, 512].map(Rows));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// The first short tile: the largest threshold.
    pub short: Rows,
    /// The time of the short tile in the limiting lane.
    pub time: Nanos,
    /// That time multiplied by the factor.
    pub expanded: Nanos,
    /// Rows that take as long in the other lane.
    pub balanced: Rows,
    /// `balanced`, aligned: the first long tile.
    pub long: Rows,
    /// How many of these long tiles would fit, as a fraction.
    pub ratio: f64,
    /// Number of long tiles.
    pub count: u64,
    /// Rows per long tile if all rows but the short tile were divided evenly.
    pub even: Rows,
    /// `even`, aligned: the final long tile.
    pub long_tile: Rows,
    /// The remaining rows: the final short tile.
    pub short_tile: Rows,
}

/// The guide's contention factor: the one that plans give to [`short_long_rule`].
pub const GUIDE_FACTOR: f64 = 1.15;

/// The guide's rule: a short tile from thresholds, a long tile that balances it in the other lane, and as many long tiles as fit.
///
/// If the second lane limits, the short tile comes first: that lane begins early and is never interrupted. If the first lane
/// limits, the short tile comes last: little is left when that lane finishes. The guide has computation first; the rule is reversed
/// for communication first. The contention factor of the guide is 1.15. The rule never says "do not tile" unless the operation is
/// shorter than the tiles. Where tiles are expensive, plans of the rule take several times as long as no cut. Costs must not fall
/// with more rows, and the alignment must not be 0.
///
/// ```
/// use windrow_tiling::cost::{Cost, Piece};
/// use windrow_tiling::tile::{Matmul, Problem, short_long_rule};
/// use windrow_tiling::{Bytes, Nanos, Rows};
///
/// const MIB: f64 = 1024.0 * 1024.0;
/// let us = |pieces: [f64; 3]| [1e3 * pieces[0], 1e3 * pieces[1] / MIB, 1e3 * pieces[2] / MIB / MIB];
/// let communicate = Cost::new(vec![
///     Piece::polynomial(Bytes(0), us([14.769, 27.0622573, -0.9698202])),
///     Piece::polynomial(Bytes(8 << 20), us([61.508333, 13.58491263, 0.0])),
/// ])?;
/// let communicate = communicate.in_rows(Bytes(8192 * 2));
/// let communicate = |rows| communicate.at(rows);
/// let compute = |rows: Rows| Nanos(196.08 * rows.0 as f64);
/// let problem = Problem { align: Rows(128), ..Problem::new(Rows(4096), &compute, &communicate) };
/// let rule = short_long_rule(&problem, Matmul { k: 3072, n: 8192 }, 1.15)?;
/// assert_eq!(rule.tiles.to_string(), "{512, 896 x 4}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`Problem::plan`].
pub fn short_long_rule(problem: &Problem<'_>, matmul: Matmul, factor: f64) -> Result<ShortLong, PlanError> {
    problem.check()?;
    let (rows, align) = (problem.rows.0, problem.align.0);
    let [first, second] = problem.order.lanes();
    let [whole_first, whole_second] = [problem.cost(first, problem.rows)?, problem.cost(second, problem.rows)?];
    let (limit, other) = if whole_second > whole_first { (second, first) } else { (first, second) };
    let thresholds = matmul.thresholds();
    let [a, b, c] = thresholds.map(|rows| rows.0);
    let short = a.max(b).max(c);
    let uncut = ShortLong { limit, thresholds, steps: None, tiles: Tiles::one(problem.rows) };
    if short >= rows {
        return Ok(uncut);
    }
    let time = problem.cost(limit, Rows(short))?;
    let expanded = Nanos(time.0 * factor);
    let balanced = rows_within(problem, other, expanded)?;
    let long = (balanced / align * align).max(align);
    let count = (rows - short) / long;
    if count == 0 {
        return Ok(uncut);
    }
    let even = (rows - short) / count;
    let long_tile = even / align * align;
    if long_tile == 0 {
        return Ok(uncut);
    }
    let short_tile = rows - long_tile * count;
    let steps = Steps {
        short: Rows(short),
        time,
        expanded,
        balanced: Rows(balanced),
        long: Rows(long),
        ratio: (rows - short) as f64 / long as f64,
        count,
        even: Rows(even),
        long_tile: Rows(long_tile),
        short_tile: Rows(short_tile),
    };
    let longs = std::iter::repeat_n(Rows(long_tile), count as usize);
    let short = std::iter::once(Rows(short_tile));
    let tiles = if limit == second { short.chain(longs).collect() } else { longs.chain(short).collect::<Vec<_>>() };
    Ok(ShortLong { steps: Some(steps), tiles: Tiles::new(tiles)?, ..uncut })
}

/// The largest number of rows that takes no longer than `time` in a lane.
fn rows_within(problem: &Problem<'_>, lane: Lane, time: Nanos) -> Result<u64, PlanError> {
    let (mut within, mut beyond) = (0, problem.rows.0 + 1);
    while beyond - within > 1 {
        let middle = within + (beyond - within) / 2;
        if problem.cost(lane, Rows(middle))? <= time { within = middle } else { beyond = middle }
    }
    Ok(within)
}
