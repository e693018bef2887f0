//! A plan: the tiles, their predicted time, and how far that is from the best.

use std::fmt;

use super::exact::{self, CostGrid, PlannerWork};
use super::families::{best_two_sizes, best_uniform};
use super::{
    Contention, GUIDE_FACTOR, Lane, Losses, Margin, Order, PlanError, Problem, Tiles, counted_rows, short_long_rule,
};
use crate::{Alternative, Alternatives, Decision, Nanos, Rows};

/// Whether to cut.
///
/// ```
/// use windrow_tiling::tile::{PlanVerdict, Problem};
/// use windrow_tiling::{Nanos, Rows};
///
/// let verdict = |fixed: f64| {
///     let cost = |rows: Rows| Nanos(fixed + rows.0 as f64);
///     Problem::new(Rows(100), &cost, &cost).plan().map(|plan| plan.verdict())
/// };
/// assert_eq!((verdict(1.0)?, verdict(1000.0)?), (PlanVerdict::Tile, PlanVerdict::DoNotTile));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanVerdict {
    /// More than one tile.
    Tile,
    /// One tile, or no rows.
    DoNotTile,
}

impl fmt::Display for PlanVerdict {
    /// `tile` or `do-not-tile`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlanVerdict::Tile => "tile",
            PlanVerdict::DoNotTile => "do-not-tile",
        })
    }
}

/// Lower bounds for all cuts between the planner's units.
///
/// ```
/// use windrow_tiling::tile::{Contention, Problem};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(rows.0 as f64);
/// let contention = Contention { compute: 1.5, communicate: 1.5 };
/// let plan = Problem { contention, ..Problem::new(Rows(100), &cost, &cost) }.plan()?;
/// assert_eq!((plan.bounds.plain, plan.bounds.contended), (Nanos(100.0), Nanos(150.0)));
/// assert!(plan.predicted >= plan.bounds.contended);
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lane with more work, with the other lane fully hidden and no contention. The work of a lane is its minimum over all cuts:
    /// that of the whole operation, unless small tiles are faster.
    pub plain: Nanos,
    /// The same with contention: neither lane ever waits, and each slows the other down as long as both are busy.
    pub contended: Nanos,
}

/// A cut and its predicted time.
///
/// ```
/// use windrow_tiling::tile::Problem;
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(5.0 + rows.0 as f64);
/// let plan = Problem::new(Rows(100), &cost, &cost).plan()?;
/// let names: Vec<_> = plan.alternatives.iter().map(|cut| cut.name).collect();
/// assert_eq!(names, ["serial", "uniform", "two sizes"]);
/// assert!(plan.alternatives.iter().all(|cut| plan.predicted <= cut.predicted));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The kind of cut.
    pub name: &'static str,
    /// Its tiles.
    pub tiles: Tiles,
    /// Predicted time.
    pub predicted: Nanos,
}

/// A cut of an operation as a value: the tiles, the predicted time, and how far that is from the best.
///
/// ```
/// use windrow_tiling::tile::Problem;
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(rows.0 as f64);
/// let plan = Problem { most_tiles: 2, ..Problem::new(Rows(100), &cost, &cost) }.plan()?;
/// assert_eq!((plan.tiles.to_string().as_str(), plan.predicted), ("{50 x 2}", Nanos(150.0)));
/// assert_eq!((plan.serial, plan.benefit()), (Nanos(200.0), 0.25));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The problem.
    pub inputs: Inputs,
    /// The chosen tiles.
    pub tiles: Tiles,
    /// Predicted time.
    pub predicted: Nanos,
    /// Predicted time in one tile, without overlap.
    pub serial: Nanos,
    /// Lower bounds for all cuts.
    pub bounds: Bounds,
    /// The prediction exceeds the time of the best cut by this share or less. 0 if the cut is the best.
    pub gap: f64,
    /// The planner considered tiles that begin at multiples of this many rows. That is the alignment, or a multiple of it if there
    /// are more places than the effort allows. (`gap` is relative to the best of these cuts.)
    pub grain: Rows,
    /// Other cuts and their predicted times: `serial`, `uniform` (the best number of equal tiles), `two sizes`, and `short-long rule`
    /// if `matmul` is given.
    pub alternatives: Vec<Candidate>,
    /// Where the time goes.
    pub losses: Losses,
    /// The reason, in a few words.
    pub why: &'static str,
    /// The size of the search.
    pub work: PlannerWork,
}

/// The inputs of a plan.
///
/// ```
/// use windrow_tiling::tile::Problem;
/// use windrow_tiling::{Nanos, Rows};
///
/// let (compute, communicate) = (|rows: Rows| Nanos(3.0 * rows.0 as f64), |rows: Rows| Nanos(2.0 * rows.0 as f64));
/// let inputs = Problem { align: Rows(10), ..Problem::new(Rows(100), &compute, &communicate) }.plan()?.inputs;
/// assert_eq!(
///     inputs.to_string(),
///     "100 rows, 300 ns of computation, then 200 ns of communication, aligned to 10"
/// );
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inputs {
    /// Rows of the operation.
    pub rows: Rows,
    /// Which lane comes first.
    pub order: Order,
    /// Computation in one piece.
    pub compute: Nanos,
    /// Communication in one piece.
    pub communicate: Nanos,
    /// How the lanes slow each other down.
    pub contention: Contention,
    /// The alignment requested.
    pub align: Rows,
    /// Maximum number of tiles.
    pub most_tiles: usize,
    /// Minimum number of rows of a tile.
    pub min_tile: Rows,
    /// What a cut has to gain: [`Margin::NONE`] unless the plan was [judged](Problem::judged).
    pub margin: Margin,
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inputs { rows, order, compute, communicate, contention, align, most_tiles, min_tile, margin } = self;
        let rows = counted_rows(*rows);
        match order {
            Order::ComputeFirst => write!(f, "{rows}, {compute} of computation, then {communicate} of communication")?,
            Order::CommunicateFirst => {
                write!(f, "{rows}, {communicate} of communication, then {compute} of computation")?
            }
        }
        if *contention != Contention::NONE {
            write!(f, ", {contention} as long while both lanes run")?;
        }
        if *align > Rows(1) {
            write!(f, ", aligned to {align}")?;
        }
        if *most_tiles < usize::MAX {
            write!(f, ", at most {most_tiles} tile{}", if *most_tiles == 1 { "" } else { "s" })?;
        }
        if *min_tile > Rows(1) {
            write!(f, ", tiles of {min_tile} rows or more")?;
        }
        if *margin != Margin::NONE {
            write!(f, ", with a required gain of {margin}")?;
        }
        Ok(())
    }
}

impl Plan {
    /// Whether to cut.
    pub fn verdict(&self) -> PlanVerdict {
        if self.tiles.len() > 1 { PlanVerdict::Tile } else { PlanVerdict::DoNotTile }
    }

    /// The predicted saving as a share of the serial time.
    pub fn benefit(&self) -> f64 {
        if self.serial.0 > 0.0 { (self.serial.0 - self.predicted.0) / self.serial.0 } else { 0.0 }
    }

    /// The plan as a decision with up to four alternatives: this cut, no cut, the best uniform cut, and the short-long rule.
    /// Without that rule, two sizes take its place.
    ///
    /// ```
    /// use windrow_tiling::tile::Problem;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let each = |rows: Rows| Nanos::micros(100.0 + 0.1 * rows.0 as f64);
    /// let plan = Problem { align: Rows(64), ..Problem::new(Rows(512), &each, &each) }.plan()?;
    /// let said = plan.decision().to_string();
    /// assert!(said.starts_with("do not tile: additional tiles cost more time than they hide"), "{said}");
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    pub fn decision(&self) -> Decision<Inputs, Tiling> {
        let named = |name| self.alternatives.iter().find(|cut| cut.name == name);
        let others = [named("serial"), named("uniform"), named("short-long rule").or_else(|| named("two sizes"))];
        let others = others.into_iter().flatten().map(|cut| Alternative { name: cut.name, predicted: cut.predicted });
        let this = Alternative { name: "planned", predicted: self.predicted };
        let alternatives: Vec<_> = std::iter::once(this).chain(others).collect();
        Decision {
            inputs: self.inputs,
            choice: Tiling(self.tiles.clone()),
            alternatives: Alternatives::new(&alternatives),
            why: self.why,
        }
    }
}

/// The tiles of a decision.
///
/// ```
/// use windrow_tiling::Rows;
/// use windrow_tiling::tile::{Tiles, Tiling};
///
/// assert_eq!(Tiling(Tiles::new([Rows(64); 3])?).to_string(), "tile {64 x 3}");
/// assert_eq!(Tiling(Tiles::one(Rows(192))).to_string(), "do not tile");
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling(pub Tiles);

impl fmt::Display for Tiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() > 1 { write!(f, "tile {}", self.0) } else { f.write_str("do not tile") }
    }
}

impl fmt::Display for Plan {
    /// A few lines: the decision, where the time goes, and how far the plan is from the best.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { predicted, serial, bounds, gap, losses, alternatives, .. } = self;
        writeln!(f, "{}: {}", Tiling(self.tiles.clone()), self.why)?;
        writeln!(f, "  from: {}", self.inputs)?;
        writeln!(f, "  {predicted} predicted, {serial} in one tile: {:.1} % saved", 100.0 * self.benefit())?;
        writeln!(f, "  = {losses}")?;
        write!(f, "  no cut takes less time than {}", bounds.plain)?;
        if bounds.contended > bounds.plain {
            write!(f, ", or, with contention, than {}", bounds.contended)?;
        }
        let grain = counted_rows(self.grain);
        match *gap {
            0.0 => writeln!(f, "; no cut at multiples of {grain} is better than this one")?,
            gap => writeln!(f, "; cuts at multiples of {grain} are at most {:.3} % better", 100.0 * gap)?,
        }
        for Candidate { name, tiles, predicted } in alternatives {
            writeln!(f, "  {name}: {predicted} {tiles}")?;
        }
        Ok(())
    }
}

impl Problem<'_> {
    /// Finds the best cut, which may be no cut.
    ///
    /// ```
    /// use windrow_tiling::tile::Problem;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let (compute, communicate) = (|rows: Rows| Nanos(rows.0 as f64), |rows: Rows| Nanos(10.0 + rows.0 as f64));
    /// let problem = Problem { align: Rows(8), ..Problem::new(Rows(64), &compute, &communicate) };
    /// let plan = problem.plan()?;
    /// assert!(plan.tiles.len() > 1 && problem.allows(&plan.tiles));
    /// assert_eq!(problem.predict(&plan.tiles)?, plan.predicted);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// An alignment, limit or slowdown is invalid, or a cost function gives an invalid time.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let grid = CostGrid::new(self)?;
        let slow = self.slow();
        let named = |name, (units, end): (Vec<usize>, f64)| Candidate {
            name,
            tiles: grid.tiles(&units),
            predicted: Nanos(end),
        };
        let serial = Candidate { name: "serial", tiles: Tiles::one(self.rows), predicted: self.serial()? };
        let mut alternatives = vec![
            serial.clone(),
            named("uniform", best_uniform(&grid, slow, self.most_tiles)),
            named("two sizes", best_two_sizes(&grid, slow, self.most_tiles)),
        ];
        if let Some(matmul) = self.matmul {
            let tiles = short_long_rule(self, matmul, GUIDE_FACTOR)?.tiles;
            alternatives.push(Candidate { name: "short-long rule", predicted: self.predict(&tiles)?, tiles });
        }
        let allowed = alternatives.iter().filter(|cut| self.allows(&cut.tiles));
        // The first one of equals. So not to cut is preferred.
        let known = allowed.min_by(|a, b| a.predicted.0.total_cmp(&b.predicted.0)).unwrap_or(&serial);
        let found = exact::search(&grid, self, known.predicted.0);
        let (tiles, predicted) = match found.units {
            Some(units) => (grid.tiles(&units), Nanos(grid.end_of(&units, slow))),
            None => (known.tiles.clone(), known.predicted),
        };
        let (plain, contended) = exact::bounds(&grid, slow);
        let timeline = self.timeline(&tiles)?;
        let losses = timeline.losses();
        let inputs = Inputs {
            rows: self.rows,
            order: self.order,
            compute: self.cost_of_all(Lane::Compute)?,
            communicate: self.cost_of_all(Lane::Communicate)?,
            contention: self.contention,
            align: self.align,
            most_tiles: self.most_tiles,
            min_tile: self.min_tile,
            margin: Margin::NONE,
        };
        Ok(Plan {
            why: self.why(&tiles, losses.lane, &grid),
            gap: if found.least > 0.0 { (predicted.0 / found.least - 1.0).max(0.0) } else { 0.0 },
            bounds: Bounds { plain: Nanos(plain), contended: Nanos(contended) },
            serial: serial.predicted,
            grain: grid.grain,
            work: found.work,
            inputs,
            tiles,
            predicted,
            alternatives,
            losses,
        })
    }

    /// This plan, or one tile if the plan's predicted gain is within the margin. [`plan`](Self::plan) finds the best cut by the costs alone;
    /// this decides whether the costs are known well enough to prefer it. One tile then has the reason as its `why`, and the cut that it
    /// replaces is the alternative `best`, unless the plan has that alternative already.
    ///
    /// ```
    /// use windrow_tiling::tile::{Margin, PlanVerdict, Problem};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos::micros(40.0 + 0.1 * rows.0 as f64);
    /// let problem = Problem { align: Rows(128), ..Problem::new(Rows(1024), &cost, &cost) };
    /// let plan = problem.plan()?;
    /// assert!(plan.verdict() == PlanVerdict::Tile && plan.benefit() < 0.1);
    /// let judged = problem.judged(plan, Margin { error: 0.2, ..Margin::NONE })?;
    /// assert_eq!(judged.verdict(), PlanVerdict::DoNotTile);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`predict`](Self::predict).
    pub fn judged(&self, mut plan: Plan, margin: Margin) -> Result<Plan, PlanError> {
        plan.inputs.margin = margin;
        if plan.tiles.len() <= 1 || margin.allows(plan.predicted, plan.serial) {
            return Ok(plan);
        }
        // No cut takes less than this.
        let least = plan.predicted.0 / (1.0 + plan.gap);
        let tiles = std::mem::replace(&mut plan.tiles, Tiles::one(self.rows));
        if plan.alternatives.iter().all(|cut| cut.name != "best") {
            plan.alternatives.push(Candidate { name: "best", tiles, predicted: plan.predicted });
        }
        plan.predicted = plan.serial;
        plan.losses = self.timeline(&plan.tiles)?.losses();
        plan.gap = if least > 0.0 { (plan.predicted.0 / least - 1.0).max(0.0) } else { 0.0 };
        plan.why = "the gain of the best cut is within the error of the predictions";
        Ok(plan)
    }

    /// The plan to run if costs are known within an error: the best cut, or a cut with fewer tiles that the error does not tell from it, or
    /// one tile. [`plan`](Self::plan) trusts the costs exactly.
    ///
    /// 1. The number of tiles is halved as long as the predicted time stays within the share `noise` of the best. If that changes the cut,
    ///    `why` says that more tiles cannot be told from these, `gap` grows accordingly, and the best cut is the alternative `best`.
    /// 2. The result is [judged](Self::judged): a cut has to gain more than the margin.
    ///
    /// ```
    /// use windrow_tiling::tile::{Margin, Problem};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(1.0 + rows.0 as f64);
    /// let problem = Problem::new(Rows(100), &cost, &cost);
    /// let (best, robust) = (problem.plan()?, problem.plan_within(0.1, Margin { error: 0.1, ..Margin::NONE })?);
    /// assert!(robust.tiles.len() < best.tiles.len());
    /// assert!(robust.predicted.0 <= 1.1 * best.predicted.0);
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn plan_within(&self, noise: f64, margin: Margin) -> Result<Plan, PlanError> {
        let best = self.plan()?;
        let enough = best.predicted.0 * (1.0 + noise);
        let mut few: Option<Plan> = None;
        loop {
            let tiles = few.as_ref().map_or(best.tiles.len(), |plan| plan.tiles.len());
            if tiles <= 2 {
                break;
            }
            let fewer = Problem { most_tiles: tiles / 2, ..*self }.plan()?;
            if fewer.predicted.0 > enough {
                break;
            }
            few = Some(fewer);
        }
        let Some(mut plan) = few else { return self.judged(best, margin) };
        plan.inputs.most_tiles = self.most_tiles;
        // No cut takes less than this.
        let least = best.predicted.0 / (1.0 + best.gap);
        plan.gap = (plan.predicted.0 / least - 1.0).max(0.0);
        plan.why = match plan.losses.lane {
            _ if plan.tiles.len() == 1 => "the samples do not show that any cut is better than none",
            Lane::Compute => {
                "computation is the bottleneck, and the tiles hide the communication; \
                 the samples do not show that more tiles would be faster"
            }
            Lane::Communicate => {
                "communication is the bottleneck, and the tiles hide the computation; \
                 the samples do not show that more tiles would be faster"
            }
        };
        plan.alternatives.push(Candidate { name: "best", tiles: best.tiles, predicted: best.predicted });
        self.judged(plan, margin)
    }

    fn cost_of_all(&self, lane: Lane) -> Result<Nanos, PlanError> {
        if self.rows == Rows(0) { Ok(Nanos(0.0)) } else { self.cost(lane, self.rows) }
    }

    /// Whether these tiles are within the limits: their number, their alignment and their minimum size.
    ///
    /// ```
    /// use windrow_tiling::tile::{Problem, Tiles};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(rows.0 as f64);
    /// let problem = Problem { align: Rows(8), most_tiles: 2, ..Problem::new(Rows(20), &cost, &cost) };
    /// assert!(problem.allows(&Tiles::new([Rows(16), Rows(4)])?));
    /// assert!(!problem.allows(&Tiles::new([Rows(4), Rows(16)])?) && !problem.allows(&Tiles::new([Rows(8), Rows(8), Rows(4)])?));
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    pub fn allows(&self, tiles: &Tiles) -> bool {
        let aligned = |tile: Rows| self.align.0 > 0 && tile.0.is_multiple_of(self.align.0);
        tiles.len() <= self.most_tiles
            && tiles.iter().rev().skip(1).all(aligned)
            && (tiles.len() <= 1 || tiles.iter().all(|tile| tile >= self.min_tile))
    }

    fn why(&self, tiles: &Tiles, limit: Lane, grid: &CostGrid) -> &'static str {
        if tiles.len() > 1 {
            return match limit {
                Lane::Compute => "computation is the bottleneck, and the tiles hide the communication",
                Lane::Communicate => "communication is the bottleneck, and the tiles hide the computation",
            };
        }
        match () {
            () if self.rows == Rows(0) => "there are no rows",
            () if self.most_tiles == 1 => "only one tile is allowed",
            () if grid.units == 1 => "there are too few rows for two aligned tiles",
            () if !grid.can_be_cut() => "there are too few rows for two tiles of the minimum size",
            () if self.contention.defeats_overlap() => "the lanes slow each other down by more than the overlap saves",
            () => "additional tiles cost more time than they hide",
        }
    }
}
