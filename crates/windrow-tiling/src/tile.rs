//! Tile: cuts one big operation along its rows, so that communication overlaps with computation.
//!
//! The operation has two lanes. A tile passes the first lane, then the second; tiles stay in order; each lane runs one tile at a time.
//! [`Order::ComputeFirst`] is a matrix product followed by a collective (all-reduce, reduce-scatter); [`Order::CommunicateFirst`] is a
//! collective followed by a product (all-gather). More tiles overlap more, but every tile pays its fixed cost again, and two busy lanes
//! slow each other down. So the best choice can be not to cut.
//!
//! [`Problem::plan`] finds the best cut for any two cost functions. It extends cuts of a part of the rows, and keeps only those
//! that can still lead to the best cut. [`Plan`] lists what it reports beside the tiles. [`Problem::predict`] and
//! [`Problem::timeline`] predict the time of any other cut. [`short_long_rule`], [`Problem::uniform`] and [`Problem::two_sizes`]
//! are the usual cuts, for comparison.
//!
//! ```
//! use windrow_tiling::tile::{Problem, PlanVerdict};
//! use windrow_tiling::{Nanos, Rows};
//!
//! let compute = |rows: Rows| Nanos::micros(0.2 * rows.0 as f64);
//! let communicate = |rows: Rows| Nanos::micros(20.0 + 0.2 * rows.0 as f64);
//! let plan = Problem { align: Rows(128), ..Problem::new(Rows(4096), &compute, &communicate) }.plan()?;
//! assert_eq!(plan.verdict(), PlanVerdict::Tile);
//! assert_eq!(plan.tiles.total(), Rows(4096));
//! assert!(plan.predicted < plan.serial && plan.predicted >= plan.bounds.contended);
//! # Ok::<(), windrow_tiling::tile::PlanError>(())
//! ```
//!
//! Sources: the two lanes, the fits and the two sizes are from *the guide*: the tiling guide of the fused operators of the CANN
//! toolkit (MC2). Its rule is [`short_long_rule`]. Enumerating cuts with a predictor is from FlashOverlap (EuroSys 2026), which
//! groups up to ten equal waves. Dominance over (time, backlog) is the classical dynamic program of the two-machine flow shop.
//! Added here: lanes that slow each other down, the verdict "do not tile", and a stated distance from the best cut.

use std::fmt;

use crate::{Nanos, Rows};

mod exact;
mod families;
mod margin;
mod pipeline;
mod plan;

pub use exact::PlannerWork;
pub use families::{GUIDE_FACTOR, Matmul, ShortLong, Steps, short_long_rule};
pub use margin::Margin;
pub use pipeline::{Losses, TileSpan, Timeline};
pub use plan::{Bounds, Candidate, Inputs, Plan, PlanVerdict, Tiling};

/// One of the two lanes.
///
/// ```
/// use windrow_tiling::tile::{Lane, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let (compute, communicate) = (|rows: Rows| Nanos(9.0 * rows.0 as f64), |rows: Rows| Nanos(2.0 * rows.0 as f64));
/// let timeline = Problem::new(Rows(10), &compute, &communicate).timeline(&Tiles::one(Rows(10)))?;
/// // The lane with the most work.
/// assert_eq!(timeline.losses().lane, Lane::Compute);
/// assert_eq!(timeline.spans(Lane::Communicate)[0].length(), Nanos(20.0));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Runs the computation of tiles.
    Compute,
    /// Runs the communication of tiles.
    Communicate,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lane::Compute => "computation",
            Lane::Communicate => "communication",
        })
    }
}

/// Which lane a tile passes first.
///
/// ```
/// use windrow_tiling::tile::{Order, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let (compute, communicate) = (|_: Rows| Nanos(9.0), |_: Rows| Nanos(2.0));
/// let gather = Problem { order: Order::CommunicateFirst, ..Problem::new(Rows(2), &compute, &communicate) };
/// let timeline = gather.timeline(&Tiles::new([Rows(1); 2])?)?;
/// assert_eq!((timeline.compute[0].start, timeline.end), (Nanos(2.0), Nanos(20.0)));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// A result is computed, then communicated: all-reduce, reduce-scatter.
    #[default]
    ComputeFirst,
    /// An operand is communicated, then computed with: all-gather.
    CommunicateFirst,
}

impl Order {
    /// The lanes in the order in which a tile passes them.
    ///
    /// ```
    /// use windrow_tiling::tile::{Lane, Order};
    ///
    /// assert_eq!(Order::CommunicateFirst.lanes(), [Lane::Communicate, Lane::Compute]);
    /// ```
    pub fn lanes(self) -> [Lane; 2] {
        match self {
            Order::ComputeFirst => [Lane::Compute, Lane::Communicate],
            Order::CommunicateFirst => [Lane::Communicate, Lane::Compute],
        }
    }
}

/// The factor by which each lane takes longer while the other one is busy too: 1 or more, measured with both lanes running.
///
/// ```
/// use windrow_tiling::tile::{Contention, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(10.0 * rows.0 as f64);
/// let tiles = Tiles::new([Rows(1); 2])?;
/// let apart = Problem::new(Rows(2), &cost, &cost);
/// let together = Problem { contention: Contention { compute: 1.5, communicate: 1.5 }, ..apart };
/// // One of the three steps runs in both lanes.
/// assert_eq!((apart.predict(&tiles)?, together.predict(&tiles)?), (Nanos(30.0), Nanos(35.0)));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contention {
    /// The factor of the computation.
    pub compute: f64,
    /// The factor of the communication.
    pub communicate: f64,
}

impl Contention {
    /// No contention: the lanes share no resource.
    pub const NONE: Contention = Contention { compute: 1.0, communicate: 1.0 };

    /// Whether both lanes running together are slower than one after the other: their two speeds add up to less than one.
    ///
    /// ```
    /// use windrow_tiling::tile::Contention;
    ///
    /// assert!(!Contention { compute: 1.3, communicate: 1.5 }.defeats_overlap());
    /// assert!(Contention { compute: 2.5, communicate: 2.5 }.defeats_overlap());
    /// ```
    pub fn defeats_overlap(&self) -> bool {
        1.0 / self.compute + 1.0 / self.communicate < 1.0
    }
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} and {:.2} times", self.compute, self.communicate)
    }
}

/// The number of rows of each tile, in order. No tile is empty; an operation without rows has no tiles.
///
/// ```
/// use windrow_tiling::Rows;
/// use windrow_tiling::tile::Tiles;
///
/// let tiles = Tiles::new([512, 896, 896].map(Rows))?;
/// assert_eq!((tiles.len(), tiles.total(), tiles.to_string().as_str()), (3, Rows(2304), "{512, 896 x 2}"));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiles(Vec<Rows>);

impl Tiles {
    /// Tiles of these sizes, in order.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::{PlanError, Tiles};
    ///
    /// assert!(Tiles::new([Rows(8), Rows(4)]).is_ok());
    /// assert_eq!(Tiles::new([Rows(8), Rows(0)]), Err(PlanError::EmptyTile { place: 1 }));
    /// ```
    ///
    /// # Errors
    /// A tile has no rows.
    pub fn new(rows: impl Into<Vec<Rows>>) -> Result<Self, PlanError> {
        let rows = rows.into();
        match rows.iter().position(|&tile| tile == Rows(0)) {
            Some(place) => Err(PlanError::EmptyTile { place }),
            None => Ok(Self(rows)),
        }
    }

    /// All rows in one tile.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::Tiles;
    ///
    /// assert!(Tiles::one(Rows(64)).iter().eq([Rows(64)]));
    /// assert!(Tiles::one(Rows(0)).is_empty());
    /// ```
    pub fn one(rows: Rows) -> Self {
        Self(if rows == Rows(0) { Vec::new() } else { vec![rows] })
    }

    /// The rows of each tile, in order.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::Tiles;
    ///
    /// let tiles = Tiles::new([Rows(512), Rows(896)])?;
    /// // Where each tile begins.
    /// let begins: Vec<u64> = tiles.iter().scan(0, |end, tile| Some(std::mem::replace(end, *end + tile.0))).collect();
    /// assert_eq!(begins, [0, 512]);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rows> + DoubleEndedIterator + '_ {
        self.0.iter().copied()
    }

    /// The number of tiles.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::Tiles;
    ///
    /// assert_eq!(Tiles::new([Rows(512); 3])?.len(), 3);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tiles, which is so if there are no rows.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::Tiles;
    ///
    /// assert!(Tiles::default().is_empty() && !Tiles::one(Rows(1)).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of the rows of all tiles.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::tile::Tiles;
    ///
    /// assert_eq!(Tiles::new([Rows(512), Rows(896)])?.total(), Rows(1408));
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    pub fn total(&self) -> Rows {
        Rows(self.0.iter().map(|tile| tile.0).sum())
    }
}

impl fmt::Display for Tiles {
    /// Equal neighbours are printed once, with a count: `{512, 896 x 4}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, run) in self.0.chunk_by(|a, b| a == b).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{}", run[0])?;
            if run.len() > 1 {
                write!(f, " x {}", run.len())?;
            }
        }
        f.write_str("}")
    }
}

/// A cost function: the time that a tile of so many rows takes in a lane while the other lane is idle.
pub type TileCost<'a> = &'a dyn Fn(Rows) -> Nanos;

/// An operation to cut, and the costs of its tiles. Write it as `Problem { align, ..Problem::new(rows, compute, communicate) }`.
///
/// ```
/// use windrow_tiling::tile::{Contention, Problem};
/// use windrow_tiling::{Nanos, Rows};
///
/// let compute = |rows: Rows| Nanos::micros(5.0 + 0.2 * rows.0 as f64);
/// let communicate = |rows: Rows| Nanos::micros(20.0 + 0.1 * rows.0 as f64);
/// let problem = Problem {
///     align: Rows(128),
///     most_tiles: 4,
///     contention: Contention { compute: 1.1, communicate: 1.2 },
///     ..Problem::new(Rows(4096), &compute, &communicate)
/// };
/// let plan = problem.plan()?;
/// assert!((2..=4).contains(&plan.tiles.len()) && plan.predicted < plan.serial);
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// Rows of the whole operation.
    pub rows: Rows,
    /// Time to compute a tile while the communication is idle. Any function of the rows that is finite and not negative; it includes
    /// the fixed cost of a tile.
    pub compute: TileCost<'a>,
    /// Time to communicate a tile while the computation is idle.
    pub communicate: TileCost<'a>,
    /// Which lane comes first.
    pub order: Order,
    /// How the lanes slow each other down.
    pub contention: Contention,
    /// Tiles begin at multiples of this many rows. So the rows of each tile but the last are a multiple of it.
    pub align: Rows,
    /// Maximum number of tiles; `usize::MAX` for no limit.
    pub most_tiles: usize,
    /// Minimum number of rows of a tile, also of the last one; 1 for no limit. An operation with fewer rows is one tile.
    pub min_tile: Rows,
    /// The product behind the rows, for comparison with [`short_long_rule`].
    pub matmul: Option<Matmul>,
    /// The limits of the search.
    pub effort: Effort,
}

/// The limits of the planner's search. The time of the search grows with the square of `units`, and as `gap` shrinks.
///
/// ```
/// use windrow_tiling::tile::{Effort, Problem};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(50.0 + rows.0 as f64);
/// let quick = Problem { effort: Effort { units: 16, ..Effort::default() }, ..Problem::new(Rows(1600), &cost, &cost) };
/// // Tiles begin at 16 places.
/// assert_eq!(quick.plan()?.grain, Rows(100));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Maximum number of places where a tile may begin. If there are more multiples of the alignment, tiles begin only at some of
    /// them: see [`Plan::grain`].
    pub units: usize,
    /// Maximum length of a front before states are merged. Only states that differ by less than `gap` are merged, and the plan says
    /// how much the merging may have lost.
    pub front: usize,
    /// The largest share of the predicted time that merging may lose; 0 disables merging.
    pub gap: f64,
}

impl Default for Effort {
    /// 128 units, and a gap of 0.1 %.
    fn default() -> Self {
        Self { units: 128, front: 256, gap: 0.001 }
    }
}

impl<'a> Problem<'a> {
    /// A problem with computation first, no contention, unaligned rows and any number of tiles.
    ///
    /// ```
    /// use windrow_tiling::tile::{Order, Problem};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(rows.0 as f64);
    /// let problem = Problem::new(Rows(64), &cost, &cost);
    /// assert_eq!((problem.order, problem.align, problem.most_tiles), (Order::ComputeFirst, Rows(1), usize::MAX));
    /// ```
    pub fn new(rows: Rows, compute: TileCost<'a>, communicate: TileCost<'a>) -> Self {
        Self {
            rows,
            compute,
            communicate,
            order: Order::default(),
            contention: Contention::NONE,
            align: Rows(1),
            most_tiles: usize::MAX,
            min_tile: Rows(1),
            matmul: None,
            effort: Effort::default(),
        }
    }

    /// The time that a tile takes in a lane while the other lane is idle.
    ///
    /// ```
    /// use windrow_tiling::tile::{Lane, Problem};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let (compute, communicate) = (|rows: Rows| Nanos(rows.0 as f64), |_: Rows| Nanos(f64::NAN));
    /// let problem = Problem::new(Rows(64), &compute, &communicate);
    /// assert_eq!(problem.cost(Lane::Compute, Rows(16)), Ok(Nanos(16.0)));
    /// assert!(problem.cost(Lane::Communicate, Rows(16)).is_err());
    /// ```
    ///
    /// # Errors
    /// The cost function gives a time that is negative or not a number.
    pub fn cost(&self, lane: Lane, rows: Rows) -> Result<Nanos, PlanError> {
        let time = match lane {
            Lane::Compute => (self.compute)(rows),
            Lane::Communicate => (self.communicate)(rows),
        };
        if time.0.is_finite() && time.0 >= 0.0 { Ok(time) } else { Err(PlanError::Cost { lane, rows, time }) }
    }

    fn check(&self) -> Result<(), PlanError> {
        let Contention { compute, communicate } = self.contention;
        for (lane, factor) in [(Lane::Compute, compute), (Lane::Communicate, communicate)] {
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(PlanError::Contention { lane, factor });
            }
        }
        match () {
            () if self.align == Rows(0) => Err(PlanError::Align),
            () if self.most_tiles == 0 => Err(PlanError::NoTiles),
            () if self.effort.units == 0 || self.effort.front == 0 || !(0.0..1.0).contains(&self.effort.gap) => {
                Err(PlanError::Effort(self.effort))
            }
            () => Ok(()),
        }
    }

    fn holds(&self, tiles: &Tiles) -> Result<(), PlanError> {
        let total = tiles.total();
        if total == self.rows { Ok(()) } else { Err(PlanError::Total { tiles: total, rows: self.rows }) }
    }
}

impl fmt::Debug for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem")
            .field("rows", &self.rows)
            .field("order", &self.order)
            .field("contention", &self.contention)
            .field("align", &self.align)
            .field("most_tiles", &self.most_tiles)
            .field("min_tile", &self.min_tile)
            .field("matmul", &self.matmul)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
    }
}

/// Why there is no plan or no prediction.
///
/// ```
/// use windrow_tiling::tile::{PlanError, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(rows.0 as f64);
/// let error = Problem::new(Rows(64), &cost, &cost).predict(&Tiles::one(Rows(32))).unwrap_err();
/// assert_eq!(error, PlanError::Total { tiles: Rows(32), rows: Rows(64) });
/// assert_eq!(error.to_string(), "the tiles have 32 rows, but the operation has 64");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlanError {
    /// The alignment is 0 rows.
    Align,
    /// The maximum number of tiles is 0.
    NoTiles,
    /// A limit of the effort is 0, or the gap is not in 0..1.
    Effort(Effort),
    /// A slowdown factor is below 1 or not a number.
    Contention {
        /// The lane with this factor.
        lane: Lane,
        /// The factor.
        factor: f64,
    },
    /// A cost function gave a time that is negative or not a number.
    Cost {
        /// The lane of the cost function.
        lane: Lane,
        /// Rows of the tile.
        rows: Rows,
        /// The time it gave.
        time: Nanos,
    },
    /// A tile has no rows.
    EmptyTile {
        /// Index of the tile, from 0.
        place: usize,
    },
    /// The tiles do not add up to the rows of the operation.
    Total {
        /// Rows of the tiles.
        tiles: Rows,
        /// Rows of the operation.
        rows: Rows,
    },
    /// There are too many cuts to try all of them: see [`Problem::brute_force`].
    TooMany {
        /// Number of units between which a cut is possible.
        units: usize,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Align => f.write_str("tiles cannot be aligned to 0 rows\nhint: 1 means no alignment"),
            PlanError::NoTiles => f.write_str("at most 0 tiles are allowed\nhint: 1 means no tiling"),
            PlanError::Effort(effort) => {
                let Effort { units, front, gap } = effort;
                write!(
                    f,
                    "the effort has {units} units, a front of {front} and a gap of {gap}\n\
                     hint: `units` and `front` must be at least 1; `gap` must be at least 0 and less than 1"
                )
            }
            PlanError::Contention { lane, factor } => {
                write!(
                    f,
                    "the slowdown of the {lane} is {factor}\n\
                     hint: it must be finite and at least 1; 1 means no slowdown"
                )
            }
            PlanError::Cost { lane, rows, time } => {
                write!(f, "the {lane} of {} would take {} ns, which is impossible", counted_rows(*rows), time.0)
            }
            PlanError::EmptyTile { place } => write!(f, "tile {place} has no rows"),
            PlanError::Total { tiles, rows } => {
                write!(f, "the tiles have {}, but the operation has {rows}", counted_rows(*tiles))
            }
            PlanError::TooMany { units } => {
                write!(f, "{units} units can be cut in too many ways to try them all\nhint: plan() has no such limit")
            }
        }
    }
}

impl std::error::Error for PlanError {}

/// A number of rows, such as `1 row` and `512 rows`.
pub(crate) fn counted_rows(rows: Rows) -> String {
    format!("{rows} row{}", if rows == Rows(1) { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_print_runs_once() {
        let tiles = |rows: &[u64]| Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>());
        assert_eq!(tiles(&[512, 896, 896, 896, 896]).unwrap().to_string(), "{512, 896 x 4}");
        assert_eq!(tiles(&[]).unwrap(), Tiles::one(Rows(0)));
        assert_eq!(tiles(&[1, 0]), Err(PlanError::EmptyTile { place: 1 }));
        assert_eq!(Tiles::default().to_string(), "{}");
    }
}
