//! Whether the predicted gain of a cut is worth the cut.
//!
//! A prediction is off by some share. If a cut is predicted to gain less than that, not to cut may be faster, and it is the safer of the
//! two: it pays nothing per tile, and no contention.

use std::fmt;

use super::{Candidate, Plan, PlanError, Problem, Tiles};
use crate::Nanos;

/// What a cut has to gain to be worth it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The share by which a cut may take longer than predicted.
    pub error: f64,
    /// The additional time of a call that is cut, outside of its tiles: such as agreeing about them.
    pub per_call: Nanos,
}

impl Margin {
    /// Any gain is worth a cut.
    pub const NONE: Margin = Margin { error: 0.0, per_call: Nanos(0.0) };

    /// Whether a cut pays: its predicted time is below that of one tile, even if it takes as much longer as the margin says.
    ///
    /// ```
    /// use windrow_tiling::Nanos;
    /// use windrow_tiling::tile::Margin;
    ///
    /// let margin = Margin { error: 0.1, per_call: Nanos(20.0) };
    /// assert!(margin.allows(Nanos(800.0), Nanos(1000.0)));
    /// assert!(!margin.allows(Nanos(900.0), Nanos(1000.0)));
    /// ```
    pub fn allows(self, cut: Nanos, serial: Nanos) -> bool {
        cut.0 * (1.0 + self.error) + self.per_call.0 < serial.0
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", 100.0 * self.error)?;
        if self.per_call.0 > 0.0 { write!(f, " and {}", self.per_call) } else { Ok(()) }
    }
}

impl Problem<'_> {
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
}
