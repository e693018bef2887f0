//! What can go wrong, and on which rank.

use windrow::plan::tile::{Lane, Unplannable};

use crate::call::Call;
use crate::tiles::Operation;

/// Why a collective or a fused operation has no result.
///
/// All ranks learn of it in the same call. What the call was to write is then unspecified: some of it may have been written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two ranks called different collectives, or the same with other lengths.
    #[error("rank {} called {}, rank {} called {}", .calls[0].0, .calls[0].1, .calls[1].0, .calls[1].1)]
    Mismatch {
        /// The first rank, and one that differs from it.
        calls: Box<[(usize, Call); 2]>,
    },
    /// Lengths that cannot belong together: of a scatter or a gather.
    #[error("rank {rank} called {call} in a group of {size}\nhint: one side has {size} times as many as the other")]
    Lengths {
        /// The rank.
        rank: usize,
        /// What it called.
        call: Call,
        /// Ranks of the group.
        size: usize,
    },
    /// A broadcast from a rank that there is not.
    #[error("a broadcast from rank {root} in a group of {size}")]
    Root {
        /// The rank named.
        root: usize,
        /// Ranks of the group.
        size: usize,
    },
    /// A rank could not take part in this call, and said so: see [`Communicator::refuse`](crate::Communicator::refuse).
    #[error("rank {rank} gave up: {why}")]
    Refused {
        /// The rank.
        rank: usize,
        /// Its reason.
        why: String,
    },
    /// A rank is gone. The group is of no use any more.
    #[error("rank {rank} {}", if *.panicked { "panicked" } else { "has left the group" })]
    Left {
        /// The rank.
        rank: usize,
        /// It was unwinding.
        panicked: bool,
    },
    /// A piece arrived that is not what was sent.
    #[error("rank {to} received a damaged piece from rank {from}")]
    Damaged {
        /// Who sent it.
        from: usize,
        /// Who received it.
        to: usize,
    },
    /// Ranks gave an operation different arguments.
    #[error("{operation}: {what} is {} on rank {}, {} on rank {}", .values[0].1, .values[0].0, .values[1].1, .values[1].0)]
    Disagree {
        /// The operation of the rank that says so.
        operation: Operation,
        /// Which argument.
        what: &'static str,
        /// The first rank, and one that differs from it, with their arguments.
        values: Box<[(usize, String); 2]>,
    },
    /// An operand is no matrix, or does not fit the others.
    #[error("operand {operand}: {why}")]
    Shape {
        /// Its name.
        operand: &'static str,
        /// What is wrong, with the numbers.
        why: String,
    },
    /// Tiles that do not fit the operation.
    #[error("{why}")]
    Tiles {
        /// What is wrong, with the numbers.
        why: String,
    },
    /// The tile was not computed or communicated because this rank's lane failed: its own fault, not that of another rank.
    #[error("the {lane} of tile {tile} {}: {why}", if *.panicked { "panicked" } else { "was stopped" })]
    Stopped {
        /// Which lane.
        lane: Lane,
        /// Which tile, from 0.
        tile: usize,
        /// It panicked.
        panicked: bool,
        /// What it said.
        why: String,
    },
    /// Tiles were to be chosen, and there is no profile of this operation.
    #[error(
        "no profile of {operation} for {element}, n = {n}, k = {k}\nhint: calibrate it, and give it to use_profile on rank 0"
    )]
    NoProfile {
        /// The operation.
        operation: Operation,
        /// Of what.
        element: &'static str,
        /// Columns of the product.
        n: usize,
        /// The axis that is summed over.
        k: usize,
    },
    /// Measured times gave no cost function.
    #[error("the {lane} cannot be predicted: {why}")]
    Unfit {
        /// Whose times.
        lane: Lane,
        /// Why not.
        why: String,
    },
    /// The planner refused its inputs.
    #[error(transparent)]
    Unplannable(#[from] Unplannable),
    /// MPI is not as it has to be.
    #[error("mpi {why}")]
    Mpi {
        /// What it is like.
        why: String,
    },
    /// The thread that communicates could not be started, or is gone.
    #[error("the thread that communicates {why}")]
    Thread {
        /// What happened.
        why: String,
    },
}
