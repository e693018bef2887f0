//! Tile: cut one big operation along its rows, so that communication hides behind computation.
//!
//! The operation has two lanes. A tile passes the first lane, then the second; tiles stay in order; each lane works on one tile at a
//! time. [`Order::ComputeFirst`] is a matrix product followed by a collective (all-reduce, reduce-scatter),
//! [`Order::CommunicateFirst`] a collective followed by a product (all-gather). Many tiles hide more; every tile pays its fixed cost
//! once more; and while both lanes are busy they slow each other down. So the best cut can be none.
//!
//! [`Problem::plan`] finds the best cut for any two cost functions, by walking all prefixes of the rows and keeping, for each, the
//! Pareto front of its states: see the comments of [`Plan`] for what it says beside the tiles. [`Problem::predict`] and
//! [`Problem::timeline`] tell what any other cut would take, and [`short_long_rule`], [`Problem::uniform`] and
//! [`Problem::two_sizes`] are the cuts others use.
//!
//! ```
//! use windrow_plan::tile::{Problem, Verdict};
//! use windrow_plan::{Nanos, Rows};
//!
//! let compute = |rows: Rows| Nanos::micros(0.2 * rows.0 as f64);
//! let communicate = |rows: Rows| Nanos::micros(20.0 + 0.2 * rows.0 as f64);
//! let plan = Problem { align: Rows(128), ..Problem::new(Rows(4096), &compute, &communicate) }.plan()?;
//! assert_eq!(plan.verdict(), Verdict::Tile);
//! assert_eq!(plan.tiles.total(), Rows(4096));
//! assert!(plan.predicted < plan.serial && plan.predicted >= plan.bounds.contended);
//! # Ok::<(), windrow_plan::tile::Unplannable>(())
//! ```
//!
//! Sources: the two lanes, the fits and the two sizes are from the tiling guide of the fused operators of the CANN toolkit (MC2), whose
//! rule is kept as [`short_long_rule`]; enumerating cuts with a predictor is from FlashOverlap (EuroSys 2026), which groups up to ten
//! equal waves; dominance over (time, backlog) is the classical dynamic program of the two-machine flow shop. That lanes slow each
//! other down, that the answer may be "do not tile", and that the distance from the best is stated is what is added here.

use std::fmt;

use crate::{Nanos, Rows};

mod exact;
mod families;
mod pipeline;
mod plan;

pub use families::{Matmul, ShortLong, Steps, short_long_rule};
pub use pipeline::{Losses, Span, Timeline};
pub use plan::{Bounds, Candidate, Inputs, Plan, Tiling, Verdict, Work};

/// One of the two lanes.
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
    pub fn lanes(self) -> [Lane; 2] {
        match self {
            Order::ComputeFirst => [Lane::Compute, Lane::Communicate],
            Order::CommunicateFirst => [Lane::Communicate, Lane::Compute],
        }
    }
}

/// By what factor each lane takes longer while the other one is busy too. At least 1; measured with both lanes running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contention {
    /// Of the computation.
    pub compute: f64,
    /// Of the communication.
    pub communicate: f64,
}

impl Contention {
    /// Lanes that share nothing.
    pub const NONE: Contention = Contention { compute: 1.0, communicate: 1.0 };

    /// Both lanes together get less done than one after the other would: the two speeds add up to less than one.
    pub fn defeats_overlap(&self) -> bool {
        1.0 / self.compute + 1.0 / self.communicate < 1.0
    }
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} and {:.2} times", self.compute, self.communicate)
    }
}

/// Rows of the tiles, in order. No tile is empty; an operation without rows has no tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiles(Vec<Rows>);

impl Tiles {
    /// Tiles of these sizes, in order.
    ///
    /// # Errors
    /// One of them is empty.
    pub fn new(rows: impl Into<Vec<Rows>>) -> Result<Self, Unplannable> {
        let rows = rows.into();
        match rows.iter().position(|&tile| tile == Rows(0)) {
            Some(place) => Err(Unplannable::EmptyTile { place }),
            None => Ok(Self(rows)),
        }
    }

    /// All rows in one tile.
    pub fn one(rows: Rows) -> Self {
        Self(if rows == Rows(0) { Vec::new() } else { vec![rows] })
    }

    /// The rows of each tile, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rows> + DoubleEndedIterator + '_ {
        self.0.iter().copied()
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are no rows, so there are no tiles.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows of all tiles.
    pub fn total(&self) -> Rows {
        Rows(self.0.iter().map(|tile| tile.0).sum())
    }
}

impl fmt::Display for Tiles {
    /// Equal neighbours once: `{512, 896 x 4}`.
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

/// A cost function: the time a tile of that many rows takes in a lane, by itself.
pub type TileCost<'a> = &'a dyn Fn(Rows) -> Nanos;

/// An operation that can be cut, and what its tiles cost. Write it as `Problem { align, ..Problem::new(rows, compute, communicate) }`.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// Rows of the whole operation.
    pub rows: Rows,
    /// What the computation of a tile takes while nothing is communicated. Any function of the rows that is finite and not
    /// negative; fixed costs of a tile are part of it.
    pub compute: TileCost<'a>,
    /// What the communication of a tile takes while nothing is computed.
    pub communicate: TileCost<'a>,
    /// Which comes first.
    pub order: Order,
    /// How the lanes slow each other down.
    pub contention: Contention,
    /// Tiles begin at multiples of this many rows, so all but the last are multiples of it.
    pub align: Rows,
    /// Tiles there may be; `usize::MAX` if there is no limit.
    pub most_tiles: usize,
    /// The product behind the rows, for comparison with [`short_long_rule`].
    pub matmul: Option<Matmul>,
    /// How much the planner looks at.
    pub effort: Effort,
}

/// How much the planner looks at. It takes time in proportion to the square of `units`, and more the smaller `gap` is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Places where a cut may begin, at most. If there are more multiples of the alignment, tiles begin at multiples of a multiple of it:
    /// see [`Plan::grain`].
    pub units: usize,
    /// States of a front that are all kept. Beyond, states that cannot matter by more than `gap` are merged, and the plan says how
    /// much that may have lost.
    pub front: usize,
    /// The largest share of the predicted time that may be lost by merging; 0 is never to merge.
    pub gap: f64,
}

impl Default for Effort {
    /// 128 units within 0.1 %.
    fn default() -> Self {
        Self { units: 128, front: 256, gap: 0.001 }
    }
}

impl<'a> Problem<'a> {
    /// Compute first, no contention, rows not aligned, any number of tiles.
    pub fn new(rows: Rows, compute: TileCost<'a>, communicate: TileCost<'a>) -> Self {
        Self {
            rows,
            compute,
            communicate,
            order: Order::default(),
            contention: Contention::NONE,
            align: Rows(1),
            most_tiles: usize::MAX,
            matmul: None,
            effort: Effort::default(),
        }
    }

    /// What a tile takes in a lane, by itself.
    ///
    /// # Errors
    /// The cost function gives a time that is negative or no number.
    pub fn cost(&self, lane: Lane, rows: Rows) -> Result<Nanos, Unplannable> {
        let time = match lane {
            Lane::Compute => (self.compute)(rows),
            Lane::Communicate => (self.communicate)(rows),
        };
        if time.0.is_finite() && time.0 >= 0.0 { Ok(time) } else { Err(Unplannable::Cost { lane, rows, time }) }
    }

    fn check(&self) -> Result<(), Unplannable> {
        let Contention { compute, communicate } = self.contention;
        for (lane, factor) in [(Lane::Compute, compute), (Lane::Communicate, communicate)] {
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(Unplannable::Contention { lane, factor });
            }
        }
        match () {
            () if self.align == Rows(0) => Err(Unplannable::Align),
            () if self.most_tiles == 0 => Err(Unplannable::NoTiles),
            () if self.effort.units == 0 || self.effort.front == 0 || !(0.0..1.0).contains(&self.effort.gap) => {
                Err(Unplannable::Effort(self.effort))
            }
            () => Ok(()),
        }
    }

    fn holds(&self, tiles: &Tiles) -> Result<(), Unplannable> {
        let total = tiles.total();
        if total == self.rows { Ok(()) } else { Err(Unplannable::Total { tiles: total, rows: self.rows }) }
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
            .field("matmul", &self.matmul)
            .field("effort", &self.effort)
            .finish_non_exhaustive()
    }
}

/// Why there is no plan, or no prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unplannable {
    /// The alignment is 0 rows.
    Align,
    /// No tile is allowed.
    NoTiles,
    /// A limit of the effort is 0, or the gap is not in 0..1.
    Effort(Effort),
    /// A factor below 1, or no number.
    Contention {
        /// Whose factor.
        lane: Lane,
        /// The factor.
        factor: f64,
    },
    /// A cost function gave a time that is negative or no number.
    Cost {
        /// Whose cost.
        lane: Lane,
        /// Rows of the tile.
        rows: Rows,
        /// The time it gave.
        time: Nanos,
    },
    /// A tile has no rows.
    EmptyTile {
        /// Its place, from 0.
        place: usize,
    },
    /// The tiles do not add up to the rows of the operation.
    Total {
        /// Rows of the tiles.
        tiles: Rows,
        /// Rows of the operation.
        rows: Rows,
    },
    /// More cuts than anybody can look at: see [`Problem::brute_force`].
    TooMany {
        /// Units between which may be cut.
        units: usize,
    },
}

impl fmt::Display for Unplannable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unplannable::Align => f.write_str("tiles are to be aligned to 0 rows\nhint: 1 is no alignment"),
            Unplannable::NoTiles => f.write_str("at most 0 tiles are allowed\nhint: 1 is not to tile"),
            Unplannable::Effort(effort) => {
                let Effort { units, front, gap } = effort;
                write!(
                    f,
                    "an effort of {units} units, fronts of {front} and a gap of {gap}\nhint: the first two are at least 1, the gap is in 0..1"
                )
            }
            Unplannable::Contention { lane, factor } => {
                write!(f, "the slowdown of the {lane} is {factor}\nhint: it is at least 1, which is none")
            }
            Unplannable::Cost { lane, rows, time } => write!(f, "the {lane} of {rows} rows would take {} ns", time.0),
            Unplannable::EmptyTile { place } => write!(f, "tile {place} has no rows"),
            Unplannable::Total { tiles, rows } => write!(f, "the tiles have {tiles} rows, the operation has {rows}"),
            Unplannable::TooMany { units } => {
                write!(f, "{units} units can be cut in too many ways to try all\nhint: plan() needs no such limit")
            }
        }
    }
}

impl std::error::Error for Unplannable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_print_runs_once() {
        let tiles = |rows: &[u64]| Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>());
        assert_eq!(tiles(&[512, 896, 896, 896, 896]).unwrap().to_string(), "{512, 896 x 4}");
        assert_eq!(tiles(&[]).unwrap(), Tiles::one(Rows(0)));
        assert_eq!(tiles(&[1, 0]), Err(Unplannable::EmptyTile { place: 1 }));
        assert_eq!(Tiles::default().to_string(), "{}");
    }
}
