//! Trying the best cuts, and keeping the fastest.

use windrow_tiling::{Nanos, tile};

use crate::agree::{self, Header, Predicted, Setting};
use crate::calibrate::median;
use crate::fused::Fused;
use crate::measuring::Given;
use crate::operands::Operands;
use crate::{Communicator, Error, Float, Operation, Tiles};

impl<C: Communicator + Send + 'static> Fused<C> {
    /// Runs the three cuts with the best predictions for `m` rows, interleaved, and keeps the fastest: [`Tiles::Auto`] then takes it for
    /// this `m`. All ranks call it with the same arguments. The profile of rank 0 gives the cuts. The time of a cut is the median over
    /// `repeats`, on the slowest rank.
    ///
    /// # Errors
    /// Rank 0 has no profile of the operation, ranks disagree about the arguments, or as for
    /// [`matmul_all_reduce`](Self::matmul_all_reduce).
    pub fn refine<T: Float>(
        &mut self,
        operation: Operation,
        [m, n, k]: [usize; 3],
        repeats: usize,
    ) -> Result<Vec<Tried>, Error> {
        let unit = operation.unit(self.size());
        let whole = match m.is_multiple_of(unit) {
            true => Ok(()),
            false => Err(Error::Tiles { why: format!("{m} rows cannot be divided evenly among {unit} ranks") }),
        };
        let candidates = match self.rank() {
            0 => whole.and_then(|()| self.candidates(operation, T::NAME, [m, n, k])),
            _ => whole.map(|()| Vec::new()),
        };
        let mine = self.or_refuse(candidates)?;
        let mut tried = Vec::new();
        {
            let mut communicator = self.communicator();
            let header = Header { operation, element: T::NAME, m, n, k };
            agree::on_call(&mut *communicator, &header, &Tiles::Auto, &tile::Tiles::default(), 0)?;
            let repeats = [Setting::count("the number of repeats", repeats as u64)];
            agree::on_settings(&mut *communicator, operation, &repeats)?;
            let mut count = [mine.len() as u64];
            communicator.broadcast(0, &mut count)?;
            for place in 0..count[0] as usize {
                let mine = mine.get(place).map(|(tiles, predicted)| (tiles, *predicted));
                let (tiles, predicted) = agree::on_tiles(&mut *communicator, mine)?;
                let [predicted, predicted_call] = [predicted.tiles, predicted.call];
                tried.push(Tried { tiles, predicted, predicted_call, took: Nanos(0.0) });
            }
        }
        let mut given = Given::<T>::new(operation, self.size(), m, n, k);
        let mut times = vec![Vec::new(); tried.len()];
        for _ in 0..repeats.max(1) {
            for (Tried { tiles, .. }, times) in tried.iter().zip(&mut times) {
                let (a, b, c) = given.views();
                let outcome = self.carry_out(operation, Operands::new(a, b), c, &Tiles::Plan(tiles.clone()))?;
                times.push(outcome.elapsed.0);
            }
        }
        let mut took: Vec<f64> = times.into_iter().map(median).collect();
        if !took.is_empty() {
            self.slowest(&mut took)?;
        }
        for (tried, took) in tried.iter_mut().zip(took) {
            tried.took = Nanos(took);
        }
        tried.sort_by(|a, b| a.took.0.total_cmp(&b.took.0));
        if let (Some(best), Some((profile, _))) = (tried.first(), self.profile_mut(operation, T::NAME, n, k)) {
            profile.refine(m as u64, &best.tiles);
        }
        Ok(tried)
    }

    fn candidates(
        &mut self,
        operation: Operation,
        element: &'static str,
        [m, n, k]: [usize; 3],
    ) -> Result<Vec<(tile::Tiles, Predicted)>, Error> {
        let Some((profile, _)) = self.profile_mut(operation, element, n, k) else {
            return Err(Error::NoProfile { operation, element, n, k });
        };
        let plan = profile.plan(m as u64)?;
        // The alternative of the short-long rule ignores limits.
        let others = plan.alternatives.into_iter().filter(|other| profile.allows(&other.tiles));
        let fixed = profile.fixed().0;
        let predicted = |tiles: Nanos| Predicted { tiles, call: Nanos(tiles.0 + fixed) };
        let faster = |a: &(_, Predicted), b: &(_, Predicted)| a.1.tiles.0.total_cmp(&b.1.tiles.0);
        let mut others: Vec<_> = others.map(|other| (other.tiles, predicted(other.predicted))).collect();
        others.sort_by(faster);
        // Within noise, alternatives may be predicted to be faster than the plan; the plan is a candidate all the same.
        let mut candidates = vec![(plan.tiles, predicted(plan.predicted))];
        for other in others {
            if candidates.len() < 3 && candidates.iter().all(|known| known.0 != other.0) {
                candidates.push(other);
            }
        }
        candidates.sort_by(faster);
        Ok(candidates)
    }
}

/// A cut that was measured.
///
/// ```
/// use windrow_collective::{Fused, Group, Measured, Operation, Profile, Shape, Stage};
/// use windrow_tiling::tile::Contention;
///
/// let sample = |stage, m: u64, fixed: f64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 };
/// let samples = [128, 256, 512, 1024].into_iter();
/// let samples = samples.flat_map(|m| [sample(Stage::Compute, m, 5.0), sample(Stage::Communicate, m, 20.0)]);
/// let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 1, n: 8, k: 8 };
///
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// fused.use_profile(Profile::new(shape, samples.collect(), Contention::NONE)?);
/// let tried = fused.refine::<f32>(Operation::MatmulAllReduce, [1024, 8, 8], 1)?;
/// assert!(tried.len() > 1 && tried.is_sorted_by(|a, b| a.took <= b.took), "the fastest cut is the first");
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The tiles.
    pub tiles: tile::Tiles,
    /// The predicted time of the tiles.
    pub predicted: Nanos,
    /// The predicted time of the whole call.
    pub predicted_call: Nanos,
    /// The time that it took.
    pub took: Nanos,
}

#[cfg(test)]
mod tests {
    use windrow_tiling::Rows;
    use windrow_tiling::tile::Contention;

    use super::*;
    use crate::{Group, Measured, Profile, Shape, Stage};

    const SHAPE: (Operation, usize, usize) = (Operation::MatmulReduceScatter, 8192, 3072);

    /// Has the shape of the guide's example: by its thresholds the short-long rule finds a short tile and several long ones.
    fn profile(ranks: usize) -> Profile {
        let sample = |stage, m: u64, fixed: f64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 };
        let samples = [128, 256, 512, 1024, 2048, 4096]
            .into_iter()
            .flat_map(|m| [sample(Stage::Compute, m, 0.0), sample(Stage::Communicate, m, 20.0)]);
        let (operation, n, k) = SHAPE;
        let shape = Shape { operation, element: "f32".to_owned(), ranks, n, k };
        Profile::new(shape, samples.collect(), Contention::NONE).unwrap()
    }

    /// With straight costs, the plan takes fewer tiles than the best cut, and is still run.
    #[test]
    fn the_plan_is_a_candidate() {
        let (operation, n, k) = SHAPE;
        for m in [512, 1024, 2048, 4096, 8192] {
            let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
            let profile = profile(1);
            let plan = profile.plan(m).unwrap();
            fused.use_profile(profile);
            let candidates = fused.candidates(operation, "f32", [m as usize, n, k]).unwrap();
            assert!(candidates.iter().any(|known| known.0 == plan.tiles), "{m}: {candidates:?} {plan}");
            assert!((2..=3).contains(&candidates.len()) && candidates.is_sorted_by(|a, b| a.1.call <= b.1.call));
        }
    }

    #[test]
    fn what_breaks_a_limit_is_no_candidate() {
        let (operation, n, k) = SHAPE;
        let longest = |profile| {
            let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
            fused.use_profile(profile);
            let candidates = fused.candidates(operation, "f32", [4096, n, k]).unwrap();
            (candidates.len(), candidates.iter().map(|known| known.0.len()).max())
        };
        // The eight tiles of the rule are among the best three, if eight are allowed.
        assert_eq!(longest(profile(1).most_tiles(8)), (3, Some(8)));
        assert_eq!(longest(profile(1).most_tiles(2)).1, Some(2));
        assert_eq!(longest(profile(1).most_tiles(1)), (1, Some(1)));
    }

    #[test]
    fn limits_of_a_profile() {
        let allows = |rows: &[u64]| {
            let tiles = tile::Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap();
            [profile(3), profile(3).min_tile(1)].map(|profile| profile.most_tiles(3).allows(&tiles))
        };
        // Tiles begin at multiples of 128 rows that can be dealt out to three ranks. The last tile may end anywhere.
        for rows in [&[384, 768, 128][..], &[3], &[]] {
            assert_eq!(allows(rows), [true; 2], "{rows:?}");
        }
        for rows in [&[3, 384][..], &[128, 384], &[384; 4]] {
            assert_eq!(allows(rows), [false; 2], "{rows:?}");
        }
        // 128 rows is the smallest size that was measured.
        assert_eq!(allows(&[384, 768, 127]), [false, true]);
    }
}
