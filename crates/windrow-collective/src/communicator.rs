//! Ranks that communicate: one trait for every backend.

use std::time::Duration;

use crate::{Element, Error};

/// One rank of a group. All ranks call the same collectives in the same order; each call returns when this rank's part is done.
///
/// **Sums** go by rank, place by place: `((x0 + x1) + x2) + ...`. So all ranks get the same bits, and an operation that is cut into
/// several calls gets the bits of the uncut one.
///
/// **Errors** are those of the group. Whatever goes wrong is returned by the same call on every rank, so that all ranks have made the
/// same number of calls afterwards: the group stays usable, unless a rank has left it ([`Error::Left`]). A backend that cannot
/// promise that is none. Who cannot make the next call tells the others by [`refuse`](Self::refuse).
///
/// The names are those of MPI (MPI Forum, 1994).
pub trait Communicator {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// Ranks of the group, at least 1.
    fn size(&self) -> usize;

    /// Replaces the data of every rank by the sum over all ranks.
    ///
    /// # Errors
    /// Ranks called something else, or with another length; a rank refused or left; a piece was damaged.
    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error>;

    /// The sum over all ranks of `input`, to each rank its part: the first to rank 0, and so on.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `input` is not `size` times as long as `output`.
    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// The input of all ranks, one after the other, to every rank.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `output` is not `size` times as long as `input`.
    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// Replaces the data of every rank by that of one.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); there is no such rank.
    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error>;

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce).
    fn barrier(&mut self) -> Result<(), Error>;

    /// Takes the place of this rank's next collective, and makes it fail on all ranks with [`Error::Refused`], which it returns, or with
    /// the error of a rank that is gone.
    fn refuse(&mut self, why: &str) -> Error;

    /// What the latest collective was to take and took, if this backend paces.
    fn pace(&self) -> Option<Pace> {
        None
    }
}

/// The time a paced operation was to take, and what it took. Never less than asked for; more if memory is slower than the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Asked for.
    pub asked: Duration,
    /// Taken, from when the last rank had called.
    pub taken: Duration,
}
