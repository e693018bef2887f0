//! Ranks that communicate: one trait for every backend.

use std::time::Duration;

use crate::{Call, Element, Error};

/// One rank of a group. All ranks call the same collectives in the same order; each call returns when this rank's part is done.
///
/// **Sums** are added up in rank order, element by element: `((x0 + x1) + x2) + ...`. So all ranks get the same bits, and an operation that
/// is cut into several calls gets the bits of the uncut one.
///
/// **Errors** belong to the group: the same call returns an error on every rank. So all ranks have made the same number of calls
/// afterwards, and the group stays usable, unless a rank has left it ([`Error::Left`]). Every backend must keep this promise. A rank that
/// cannot make the next call tells the others by [`refuse`](Self::refuse).
///
/// The method names are those of MPI (MPI Forum, 1994).
pub trait Communicator {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// Ranks of the group, at least 1.
    fn size(&self) -> usize;

    /// Replaces the data of every rank by the sum over all ranks.
    ///
    /// # Errors
    /// Ranks made different calls, or gave different lengths; a rank refused or left; a piece was damaged.
    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error>;

    /// Sums `input` over all ranks and gives each rank its part: the first part to rank 0, and so on.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `input` is not `size` times as long as `output`.
    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// Gives every rank the inputs of all ranks, one after the other.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `output` is not `size` times as long as `input`.
    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// Replaces the data of every rank by that of rank `root`.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); there is no such rank.
    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error>;

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce).
    fn barrier(&mut self) -> Result<(), Error>;

    /// Announces the next collectives of this rank. All ranks announce the same ones, in the same order, when they have agreed about them. A
    /// backend then need not compare what ranks call, one call at a time. The default does nothing.
    ///
    /// Errors still belong to the group. A rank that cannot make an announced call [refuses](Self::refuse) it, or leaves. The announcement
    /// ends with the last of its calls, and with an error. Until then, any other call refuses.
    fn announce(&mut self, calls: &[Call]) {
        let _ = calls;
    }

    /// Takes the place of this rank's next collective and makes that collective fail on all ranks. All ranks get the returned error:
    /// [`Error::Refused`], or [`Error::Left`] if a rank is gone.
    fn refuse(&mut self, why: &str) -> Error;

    /// The number of ranks that share the CPUs of this one, this one included, as far as the backend knows. Each computes on its part of them.
    fn sharers(&self) -> usize {
        1
    }

    /// The requested and the taken time of the latest collective, if this backend paces.
    fn pace(&self) -> Option<Pace> {
        None
    }
}

/// The requested and the taken time of a paced operation. It never takes less than requested; it takes more if memory is slower than the
/// link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The requested time.
    pub asked: Duration,
    /// The taken time, from when the last rank had called.
    pub taken: Duration,
}
