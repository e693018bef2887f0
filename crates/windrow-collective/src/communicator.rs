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
///
/// ```
/// use std::thread;
/// use windrow_collective::{Communicator, Error, Group};
///
/// /// Works with every backend.
/// fn mean<C: Communicator>(rank: &mut C, own: f64) -> Result<f64, Error> {
///     let mut sum = [own];
///     rank.all_reduce(&mut sum)?;
///     Ok(sum[0] / rank.size() as f64)
/// }
///
/// let mut ranks = Group::new(2).ranks();
/// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
/// thread::scope(|scope| {
///     scope.spawn(move || assert_eq!(mean(&mut second, 3.0), Ok(2.0)));
///     assert_eq!(mean(&mut first, 1.0), Ok(2.0));
/// });
/// ```
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
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Communicator, Group};
    ///
    /// let mut ranks = Group::new(2).ranks();
    /// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    /// let (mut at_first, mut at_second) = ([0_u64], [0_u64]);
    /// thread::scope(|scope| {
    ///     scope.spawn(|| second.reduce_scatter(&[1, 2], &mut at_second).unwrap());
    ///     first.reduce_scatter(&[10, 20], &mut at_first)
    /// })?;
    /// assert_eq!((at_first, at_second), ([11], [22]));
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `input` is not `size` times as long as `output`.
    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// Gives every rank the inputs of all ranks, one after the other.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Communicator, Group};
    ///
    /// let mut ranks = Group::new(2).ranks();
    /// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    /// let mut all = [0_u64; 2];
    /// thread::scope(|scope| {
    ///     scope.spawn(|| second.all_gather(&[20_u64], &mut [0; 2]).unwrap());
    ///     first.all_gather(&[10], &mut all)
    /// })?;
    /// assert_eq!(all, [10, 20]);
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce); `output` is not `size` times as long as `input`.
    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error>;

    /// Replaces the data of every rank by that of rank `root`.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Communicator, Group};
    ///
    /// let mut ranks = Group::new(2).ranks();
    /// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    /// let mut seed = [0_u64];
    /// thread::scope(|scope| {
    ///     scope.spawn(|| second.broadcast(1, &mut [42_u64]).unwrap());
    ///     first.broadcast(1, &mut seed)
    /// })?;
    /// assert_eq!(seed, [42]);
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
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
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Communicator, Group};
    ///
    /// let mut ranks = Group::new(2).ranks();
    /// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    /// let barrier = thread::scope(|scope| {
    ///     scope.spawn(|| second.refuse("the disk is full"));
    ///     first.barrier()
    /// });
    /// assert_eq!(barrier.unwrap_err().to_string(), "rank 1 gave up: the disk is full");
    /// ```
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
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use windrow_collective::{Communicator, Group, Link, Pace};
///
/// let link = Link::new(1e9, Duration::from_micros(500));
/// let mut ranks = Group::new(2).link(link).ranks();
/// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
/// thread::scope(|scope| {
///     scope.spawn(|| second.barrier().unwrap());
///     first.barrier()
/// })?;
/// let Pace { asked, taken } = first.pace().unwrap();
/// assert!(asked > Duration::ZERO && taken >= asked);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The requested time.
    pub asked: Duration,
    /// The taken time, from when the last rank had called.
    pub taken: Duration,
}
