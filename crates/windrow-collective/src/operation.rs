//! The operations: a matrix product and a collective each.

use std::fmt;

use serde::{Deserialize, Serialize};
use windrow_tiling::tile::Order;

/// A matrix product and a collective.
///
/// ```
/// use windrow_collective::Operation;
/// use windrow_tiling::tile::Order;
///
/// let gather = Operation::AllGatherMatmul;
/// assert_eq!(gather.to_string(), "all-gather-matmul");
/// assert_eq!((gather.order(), gather.unit(4)), (Order::CommunicateFirst, 4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// The product, summed over all ranks; every rank gets all of it.
    MatmulAllReduce,
    /// The product, summed over all ranks; each rank gets its rows.
    MatmulReduceScatter,
    /// The rows of all ranks, gathered and multiplied by a matrix.
    AllGatherMatmul,
}

impl Operation {
    /// Whether a tile is computed or communicated first.
    pub fn order(self) -> Order {
        match self {
            Self::MatmulAllReduce | Self::MatmulReduceScatter => Order::ComputeFirst,
            Self::AllGatherMatmul => Order::CommunicateFirst,
        }
    }

    /// Every tile has a multiple of this many rows. Where rows are dealt out to ranks, a tile has equally many rows of each rank.
    pub fn unit(self, ranks: usize) -> usize {
        match self {
            Self::MatmulAllReduce => 1,
            Self::MatmulReduceScatter | Self::AllGatherMatmul => ranks,
        }
    }

    /// Rows of a rank's `a` and `c`, where the product has `m`.
    pub(crate) fn operand_rows(self, ranks: usize, m: usize) -> [usize; 2] {
        match self {
            Self::MatmulAllReduce => [m, m],
            Self::MatmulReduceScatter => [m, m / ranks],
            Self::AllGatherMatmul => [m / ranks, m],
        }
    }
}

impl fmt::Display for Operation {
    /// The name that `windrow plan` uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MatmulAllReduce => "matmul-all-reduce",
            Self::MatmulReduceScatter => "matmul-reduce-scatter",
            Self::AllGatherMatmul => "all-gather-matmul",
        })
    }
}
