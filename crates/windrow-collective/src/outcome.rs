//! What a fused operation did.

use std::panic::Location;

use windrow::Account;
use windrow_tiling::Nanos;
use windrow_tiling::tile;

use crate::Trace;

/// What a fused operation did.
///
/// ```
/// use windrow_collective::{Fused, Group, MatMut, MatRef, Tiles};
///
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// let (a, mut c) = ([1.0_f32; 64], [0.0; 64]);
/// let (a, c) = (MatRef::new(&a, 8, 8), MatMut::new(&mut c, 8, 8));
/// let outcome = fused.matmul_all_reduce(a, a, c, &Tiles::Uniform(4))?;
/// assert_eq!((outcome.tiles.len(), outcome.trace.compute.len()), (4, 4));
/// assert!(outcome.plan.is_none(), "the tiles were given");
/// assert!(outcome.trace.end <= outcome.elapsed);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The tiles: rows of the whole product.
    pub tiles: tile::Tiles,
    /// The plan, on rank 0 with [`Tiles::Auto`](crate::Tiles::Auto). If the tiles were [refined](crate::Fused::refine), the plan's tiles differ from `tiles`.
    pub plan: Option<tile::Plan>,
    /// The predicted time of the tiles, with [`Tiles::Auto`](crate::Tiles::Auto); the `end` of the trace is what they took.
    pub predicted: Option<Nanos>,
    /// The predicted time of the whole call: that of the tiles, and what [the profile](crate::Profile::fixed) adds.
    pub predicted_call: Option<Nanos>,
    /// When each tile was in each lane.
    pub trace: Trace,
    /// The time of the whole call, including the agreement of the ranks before and after.
    pub elapsed: Nanos,
}

impl Outcome {
    /// Reports the product to [`windrow::explain`] and the listener of the process.
    pub(crate) fn explain(&self, place: &'static Location<'static>) {
        windrow::report_plan(place, self.tiles.len() as u64, self.elapsed, || match &self.plan {
            Some(plan) => Account {
                reason: format!("{}: {}", plan.verdict(), plan.why).into(),
                predicted: self.predicted_call,
                alternatives: [self.in_one_tile(plan).map(|time| ("in one tile", time)), None],
                ..Account::default()
            },
            None if self.predicted.is_some() => {
                Account { predicted: self.predicted_call, ..Account::because("as rank 0 decided") }
            }
            None => Account::because("the tiles were given"),
        });
    }

    /// The predicted time of the whole call without a cut.
    fn in_one_tile(&self, plan: &tile::Plan) -> Option<Nanos> {
        let fixed = self.predicted_call?.0 - self.predicted?.0;
        Some(Nanos(plan.serial.0 + fixed))
    }
}
