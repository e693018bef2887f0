//! Errors, and the rank each is about.

use windrow_tiling::tile::{Lane, PlanError};

use crate::{Call, Operation};

/// Why a collective or a fused operation has no result.
///
/// All ranks return an error from the same call. If only one rank is at fault, it returns its error, and the others return
/// [`Refused`](Self::Refused). The output of that call is then unspecified and may be partly written.
///
/// ```
/// use std::thread;
/// use windrow_collective::{Communicator, Error, Group};
///
/// let mut ranks = Group::new(2).ranks();
/// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
/// let [at_first, at_second] = thread::scope(|scope| {
///     let second = scope.spawn(|| second.all_reduce(&mut [1.0_f32; 4]));
///     [first.all_reduce(&mut [1.0_f32; 3]), second.join().unwrap()]
/// });
/// assert!(matches!(at_first, Err(Error::Mismatch { .. })));
/// assert_eq!(at_first, at_second, "an error belongs to the group");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two ranks called different collectives, or the same one with different lengths.
    #[error("rank {} called {}, but rank {} called {}", .calls[0].0, .calls[0].1, .calls[1].0, .calls[1].1)]
    Mismatch {
        /// The first rank, and one that differs from it.
        calls: Box<[(usize, Call); 2]>,
    },
    /// Lengths that do not fit together, of a scatter or a gather.
    #[error(
        "rank {rank} called {call} in a group of {size}\n\
         hint: one side must have {size} times as many elements as the other"
    )]
    Lengths {
        /// The rank.
        rank: usize,
        /// What it called.
        call: Call,
        /// Ranks of the group.
        size: usize,
    },
    /// A broadcast from a rank that does not exist.
    #[error("cannot broadcast from rank {root} in a group of {size}")]
    Root {
        /// The rank named.
        root: usize,
        /// Ranks of the group.
        size: usize,
    },
    /// A rank could not take part in this call and refused it: see [`Communicator::refuse`](crate::Communicator::refuse).
    #[error("rank {rank} gave up: {why}")]
    Refused {
        /// The rank.
        rank: usize,
        /// Its reason.
        why: String,
    },
    /// A rank is gone. The group is no longer usable.
    #[error("rank {rank} {}", if *.panicked { "panicked" } else { "has left the group" })]
    Left {
        /// The rank.
        rank: usize,
        /// The rank left because its thread panicked.
        panicked: bool,
    },
    /// A piece arrived damaged.
    #[error("rank {to} received a damaged piece from rank {from}")]
    Damaged {
        /// The rank that sent it.
        from: usize,
        /// The rank that received it.
        to: usize,
    },
    /// Ranks gave an operation different arguments.
    #[error(
        "{operation}: {what} is {} on rank {}, but {} on rank {}",
        .values[0].1, .values[0].0, .values[1].1, .values[1].0
    )]
    Disagree {
        /// The operation, on the rank that reports this.
        operation: Operation,
        /// The argument.
        what: &'static str,
        /// The first rank, and one that differs from it, with their arguments.
        values: Box<[(usize, String); 2]>,
    },
    /// The processes of a program's own kernels could not meet: see [`Kernels::meet`](crate::Kernels::meet).
    #[error("the processes cannot find each other: {why}")]
    Meeting {
        /// What the program's function said.
        why: String,
    },
    /// An operand is not a valid matrix, or does not fit the others.
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
    /// A lane of this rank failed at a tile; the other ranks get [`Refused`](Self::Refused).
    #[error("the {lane} of tile {tile} {}: {why}", if *.panicked { "panicked" } else { "was stopped" })]
    Stopped {
        /// The lane.
        lane: Lane,
        /// The tile's index, from 0.
        tile: usize,
        /// Whether the lane panicked.
        panicked: bool,
        /// The message.
        why: String,
    },
    /// [`Tiles::Auto`](crate::Tiles::Auto) was asked for, and there is no profile of this operation.
    #[error(
        "no profile of {operation} for {element}, n = {n}, k = {k}\n\
         hint: calibrate one, and pass it to use_profile on rank 0"
    )]
    NoProfile {
        /// The operation.
        operation: Operation,
        /// The kind of the elements.
        element: &'static str,
        /// Columns of the product.
        n: usize,
        /// The axis that is summed over.
        k: usize,
    },
    /// Measured times gave no cost function.
    #[error("the {lane} cannot be predicted: {why}")]
    FitError {
        /// The lane.
        lane: Lane,
        /// Why not.
        why: String,
    },
    /// The planner refused its inputs.
    #[error(transparent)]
    PlanError(#[from] PlanError),
    /// MPI is in a state windrow cannot use.
    #[error("mpi {why}")]
    Mpi {
        /// What is wrong.
        why: String,
    },
    /// The communication thread could not be started, or is gone.
    #[error("the communication thread {why}")]
    Thread {
        /// What happened.
        why: String,
    },
}
