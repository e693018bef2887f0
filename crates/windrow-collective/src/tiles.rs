//! The ways to cut an operation.

use std::ops::Range;

use windrow_tiling::Rows;
use windrow_tiling::tile;

use crate::Error;

/// How to cut an operation. All ranks give the same; with [`Auto`](Self::Auto) rank 0 decides.
///
/// ```
/// use windrow_collective::{Error, Fused, Group, MatMut, MatRef, Tiles};
/// use windrow_tiling::{Rows, tile};
///
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// let a = [1.0_f32; 16];
/// let mut run = |tiles: &Tiles| {
///     let (a, mut c) = (MatRef::new(&a, 4, 4), [0.0; 16]);
///     fused.matmul_all_reduce(a, a, MatMut::new(&mut c, 4, 4), tiles).map(|outcome| outcome.tiles.len())
/// };
/// assert_eq!((run(&Tiles::None)?, run(&Tiles::Uniform(3))?), (1, 3));
/// assert_eq!(run(&Tiles::Plan(tile::Tiles::new([Rows(1), Rows(3)])?))?, 2);
/// assert!(matches!(run(&Tiles::Auto), Err(Error::NoProfile { .. })), "nothing was calibrated");
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tiles {
    /// The best cut by rank 0's profile of this operation: see [`Fused::use_profile`](crate::Fused::use_profile).
    ///
    /// The first call for some m plans before it computes, and so does the first call after the profile was
    /// [re-fitted](crate::Profile::refit). All ranks wait for the plan: some milliseconds, or tens of milliseconds with more than a hundred
    /// places to cut at. [`Fused::plan_ahead`](crate::Fused::plan_ahead) plans in advance.
    Auto,
    /// These tiles: rows of the whole product, of all ranks together.
    Plan(tile::Tiles),
    /// This many tiles of about equal size; fewer if there are fewer rows.
    Uniform(usize),
    /// No cut: the product and the collective run one after the other.
    None,
}

impl From<&tile::Plan> for Tiles {
    fn from(plan: &tile::Plan) -> Self {
        Tiles::Plan(plan.tiles.clone())
    }
}

impl Tiles {
    /// The tiles of `rows` rows, in multiples of `unit`.
    pub(crate) fn cut(&self, rows: usize, unit: usize) -> Result<tile::Tiles, Error> {
        let refused = |why| Err(Error::Tiles { why });
        let units = rows / unit;
        match self {
            Tiles::Auto | Tiles::None => Ok(tile::Tiles::one(Rows(rows as u64))),
            Tiles::Uniform(0) => refused("0 uniform tiles\nhint: 1 means no tiling".to_owned()),
            Tiles::Uniform(tiles) => {
                let tiles = (*tiles).min(units);
                let each = |tile| Rows((units / tiles * unit + if tile < units % tiles { unit } else { 0 }) as u64);
                Ok(tile::Tiles::new((0..tiles).map(each).collect::<Vec<_>>())?)
            }
            Tiles::Plan(tiles) => {
                if let Some(tile) = tiles.iter().find(|tile| !tile.0.is_multiple_of(unit as u64)) {
                    return refused(format!("a tile of {tile} rows cannot be divided evenly among {unit} ranks"));
                }
                match tiles.iter().try_fold(0_u64, |sum, tile| sum.checked_add(tile.0)) {
                    Some(sum) if sum == rows as u64 => Ok(tiles.clone()),
                    Some(sum) => refused(format!("the tiles have {sum} rows, but the operation has {rows}")),
                    None => refused("the tiles have more rows than can be counted".to_owned()),
                }
            }
        }
    }

    /// The tiles as ranges of units.
    pub(crate) fn ranges(tiles: &tile::Tiles, unit: usize) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |rows: Rows| {
            let end = start + rows.0 as usize / unit;
            std::mem::replace(&mut start, end)..end
        };
        tiles.iter().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(tiles: &Tiles, rows: usize, unit: usize) -> Result<String, String> {
        tiles.cut(rows, unit).map(|tiles| tiles.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn cuts() {
        assert_eq!(cut(&Tiles::Uniform(4), 10, 1).unwrap(), "{3 x 2, 2 x 2}");
        assert_eq!(cut(&Tiles::Uniform(4), 10, 2).unwrap(), "{4, 2 x 3}");
        assert_eq!(cut(&Tiles::Uniform(4), 3, 1).unwrap(), "{1 x 3}");
        assert_eq!(cut(&Tiles::Uniform(4), 0, 3).unwrap(), "{}");
        assert_eq!(cut(&Tiles::None, 10, 2).unwrap(), "{10}");
        assert!(cut(&Tiles::Uniform(0), 10, 2).unwrap_err().contains("0 uniform tiles"));
        let plan =
            |rows: &[u64]| Tiles::Plan(tile::Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap());
        assert_eq!(cut(&plan(&[4, 6]), 10, 2).unwrap(), "{4, 6}");
        assert_eq!(cut(&plan(&[4, 6]), 12, 2).unwrap_err(), "the tiles have 10 rows, but the operation has 12");
        assert_eq!(cut(&plan(&[5, 5]), 10, 2).unwrap_err(), "a tile of 5 rows cannot be divided evenly among 2 ranks");
        assert!(cut(&plan(&[u64::MAX, 1]), 10, 1).unwrap_err().contains("more rows than can be counted"));
    }

    #[test]
    fn ranges_follow_each_other() {
        let tiles = Tiles::Uniform(3).cut(14, 2).unwrap();
        assert_eq!(Tiles::ranges(&tiles, 2), [0..3, 3..5, 5..7]);
    }
}
