//! A program's own computation and communication, in two lanes.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use windrow_tiling::tile::{self, Lane, Order};

use crate::calibrate::{Beside, Calibration, Subject, measure};
use crate::lanes::{Fault, Helper, Lanes, Stages, Trace};
use crate::stored::Shape;
use crate::{Error, Pace, Profile, Tiles};

/// Runs a program's own computation and communication side by side, tile by tile, and measures how long their tiles take: the computation on the
/// calling thread, the communication on one thread that is kept from call to call. The products of [`Fused`](crate::Fused) run on the same lanes.
///
/// A tile is a range of rows. It has a *parcel*, a value that belongs to it and travels with it from one lane to the other: a part of the result, a
/// buffer, an event of a stream, or nothing. Both functions are given the rows and the parcel.
///
/// ```
/// use std::convert::Infallible;
///
/// use windrow_collective::Kernels;
/// use windrow_tiling::tile::{Order, Tiles};
/// use windrow_tiling::Rows;
///
/// let (mut c, mut sent) = (vec![0_u64; 10], Vec::new());
/// let mut left = &mut c[..];
/// let trace = Kernels::new()?.run(
///     Order::ComputeFirst,
///     &Tiles::new([Rows(4), Rows(6)])?,
///     |rows| left.split_off_mut(..rows.len()).expect("as many rows as the tiles have"),
///     |rows, c| Ok::<(), Infallible>(rows.zip(c.iter_mut()).for_each(|(row, c)| *c = row as u64)),
///     |_, c| Ok::<(), Infallible>(sent.extend_from_slice(c)),
/// )?;
/// assert_eq!((sent, trace.compute.len()), ((0..10).collect(), 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The example `own_kernels` of this crate calibrates, plans and runs.
pub struct Kernels {
    helper: Helper,
    meet: Option<Box<Meet>>,
}

/// Replaces values by the largest ones of all processes.
type Meet = dyn FnMut(&mut [f64]) -> Result<(), String> + Send;

/// One of the two functions of a program.
type Step<'a, P> = dyn FnMut(Range<usize>, &mut P) -> Result<(), String> + 'a;

/// The one that communicates.
type Sending<'a, P> = dyn FnMut(Range<usize>, &mut P) -> Result<(), String> + Send + 'a;

/// The calling thread's part of some tiles.
struct Work<'a, 'f, P> {
    /// The rows of each tile.
    tiles: &'a [Range<usize>],
    /// The parcels of the next tiles.
    parcels: &'a mut VecDeque<P>,
    /// The computation, and whether it comes before or after the communication.
    compute: Option<(&'a mut Step<'f, P>, Order)>,
    /// Whether a parcel serves several tiles.
    reuses: bool,
}

impl<P> Work<'_, '_, P> {
    fn compute(&mut self, at: Order, tile: usize, parcel: &mut P) -> Result<(), String> {
        match &mut self.compute {
            Some((compute, order)) if *order == at => compute(self.tiles[tile].clone(), parcel),
            _ => Ok(()),
        }
    }
}

impl<P> Stages<P> for Work<'_, '_, P> {
    fn parcel(&mut self, _: usize) -> P {
        self.parcels.pop_front().expect("a parcel for each tile under way")
    }

    fn put_back(&mut self, parcel: P) {
        if self.reuses {
            self.parcels.push_back(parcel);
        }
    }

    fn fill(&mut self, tile: usize, parcel: &mut P) -> Result<(), String> {
        self.compute(Order::ComputeFirst, tile, parcel)
    }

    fn drain(&mut self, tile: usize, parcel: &mut P) -> Result<(), String> {
        self.compute(Order::CommunicateFirst, tile, parcel)
    }
}

/// The work of the communication lane on these tiles.
fn carry<'a, P: Send>(
    communicate: &'a mut Sending<'_, P>,
    tiles: &'a [Range<usize>],
) -> impl Fn(usize, &mut P) -> Result<Option<Pace>, Fault> + Sync + 'a {
    let communicate = Mutex::new(communicate);
    move |tile, parcel| {
        let mut communicate = communicate.lock().unwrap_or_else(PoisonError::into_inner);
        (*communicate)(tiles[tile].clone(), parcel).map(|()| None).map_err(|why| {
            let error = Error::Stopped { lane: Lane::Communicate, tile, panicked: false, why };
            Fault { error, agreed: false }
        })
    }
}

impl Kernels {
    /// Starts the communication thread.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { helper: Helper::start("windrow-communicate".to_owned())?, meet: None })
    }

    /// Sets how the processes that take part in the communication meet: `largest` replaces each value by the largest of all processes. Then they
    /// communicate equally often in [`calibrate`](Self::calibrate), and all get the times of the slowest one. Over MPI it is an `MPI_Allreduce` with
    /// `MPI_MAX`. A process whose function fails leaves the calibration, and the others wait for it in `largest`.
    pub fn meet(&mut self, largest: impl FnMut(&mut [f64]) -> Result<(), String> + Send + 'static) {
        self.meet = Some(Box::new(largest));
    }

    /// Measures tiles of `how.rows` rows: in each lane alone, back to back, and in both lanes at once. `shape` says what the profile is of, and by its
    /// operation which lane comes first. The two functions are called with rows below the largest of `how.rows`, and with parcels that `parcel` made for other tiles of the same size. Every size
    /// takes some unmeasured calls first.
    ///
    /// If other processes take part in the communication, all of them call this, with the same arguments: see [`meet`](Self::meet).
    ///
    /// # Errors
    /// A function failed or panicked, or the times give no cost function. They give none for fewer than three sizes, or if the best fit misses them by
    /// more than `how.fitting.limit`.
    pub fn calibrate<P: Send, E: fmt::Display, F: fmt::Display>(
        &mut self,
        shape: Shape,
        how: &Calibration,
        mut parcel: impl FnMut(Range<usize>) -> P,
        mut compute: impl FnMut(Range<usize>, &mut P) -> Result<(), E>,
        mut communicate: impl FnMut(Range<usize>, &mut P) -> Result<(), F> + Send,
    ) -> Result<Profile, Error> {
        if how.rows.contains(&0) {
            return Err(Error::Tiles { why: "a tile without rows cannot be measured".to_owned() });
        }
        let mut measuring = Measuring {
            kernels: self,
            order: shape.operation.order(),
            most: how.rows.iter().copied().max().unwrap_or(0),
            make: &mut parcel,
            compute: &mut |rows, parcel| compute(rows, parcel).map_err(|error| error.to_string()),
            communicate: &mut |rows, parcel| communicate(rows, parcel).map_err(|error| error.to_string()),
            rows: 0,
            parcels: VecDeque::new(),
        };
        let (samples, contention) = measure(&mut measuring, how)?;
        Ok(Profile::fitted(shape, samples, contention, &how.fitting)?.align(how.align))
    }

    /// Runs the tiles through both lanes. `parcel` makes the parcels of all tiles, in their order, before the first tile begins; then each of the
    /// functions is called once with each of them. The calling thread never waits for the communication before it has computed all tiles, or handed all of them over.
    ///
    /// # Errors
    /// A function failed or panicked, in this lane and at this tile: [`Error::Stopped`]. No further tile begins in either lane. If both lanes fail,
    /// the error is the one that this thread sees first.
    pub fn run<P: Send, E: fmt::Display, F: fmt::Display>(
        &mut self,
        order: Order,
        tiles: &tile::Tiles,
        parcel: impl FnMut(Range<usize>) -> P,
        mut compute: impl FnMut(Range<usize>, &mut P) -> Result<(), E>,
        mut communicate: impl FnMut(Range<usize>, &mut P) -> Result<(), F> + Send,
    ) -> Result<Trace, Error> {
        let tiles = Tiles::ranges(tiles, 1);
        let mut parcels = tiles.iter().cloned().map(parcel).collect();
        let compute: &mut Step<'_, P> = &mut |rows, parcel| compute(rows, parcel).map_err(|error| error.to_string());
        let communicate: &mut Sending<'_, P> =
            &mut |rows, parcel| communicate(rows, parcel).map_err(|error| error.to_string());
        let send = carry(communicate, &tiles);
        let mut work = Work { tiles: &tiles, parcels: &mut parcels, compute: Some((compute, order)), reuses: false };
        ended(Lanes { helper: &self.helper, order, watch: None, send: &send }.run(tiles.len(), &mut work))
    }
}

fn ended((trace, ran): (Trace, Result<(), Fault>)) -> Result<Trace, Error> {
    ran.map(|()| trace).map_err(|fault| fault.error)
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").finish_non_exhaustive()
    }
}

/// Kernels that are measured.
struct Measuring<'a, 'f, P> {
    kernels: &'a mut Kernels,
    order: Order,
    /// Rows of the largest tile.
    most: usize,
    make: &'a mut dyn FnMut(Range<usize>) -> P,
    compute: &'a mut Step<'f, P>,
    communicate: &'a mut Sending<'f, P>,
    /// The parcels at hand are of tiles of so many rows.
    rows: usize,
    parcels: VecDeque<P>,
}

impl<P: Send> Measuring<'_, '_, P> {
    /// Tiles of one size, one below the other, then from the top again; with a parcel each.
    fn tiles(&mut self, rows: usize, count: usize) -> Vec<Range<usize>> {
        let missing = count.saturating_sub(self.parcels.len());
        self.parcels.extend((0..missing).map(|_| (self.make)(0..rows)));
        let places = self.most / rows;
        (0..count).map(|tile| tile % places * rows..(tile % places + 1) * rows).collect()
    }
}

impl<P: Send> Subject for Measuring<'_, '_, P> {
    /// Fresh parcels are used once: their memory may be touched for the first time.
    fn prepare(&mut self, rows: usize, count: usize) -> Result<(), Error> {
        if std::mem::replace(&mut self.rows, rows) != rows {
            self.parcels.clear();
            self.compute(rows, count)?;
            self.communicate(rows, count)?;
        }
        Ok(())
    }

    fn compute(&mut self, rows: usize, count: usize) -> Result<Trace, Error> {
        let (tiles, order) = (self.tiles(rows, count), self.order);
        let Self { kernels, compute, parcels, .. } = self;
        let mut work = Work { tiles: &tiles, parcels, compute: Some((compute, order)), reuses: true };
        let send = |_: usize, _: &mut P| Ok(None);
        ended(Lanes { helper: &kernels.helper, order, watch: None, send: &send }.run(count, &mut work))
    }

    fn communicate(&mut self, rows: usize, count: usize) -> Result<Trace, Error> {
        let (tiles, order) = (self.tiles(rows, count), Order::CommunicateFirst);
        let Self { kernels, communicate, parcels, .. } = self;
        let mut work = Work { tiles: &tiles, parcels, compute: None, reuses: true };
        let send = carry(communicate, &tiles);
        ended(Lanes { helper: &kernels.helper, order, watch: None, send: &send }.run(count, &mut work))
    }

    fn both(&mut self, rows: usize, computed: usize, sent: usize) -> Result<Trace, Error> {
        let (tiles, order) = (self.tiles(rows, computed.max(sent + 1)), self.order);
        let Self { kernels, compute, communicate, parcels, .. } = self;
        let mut own = parcels.pop_front().into_iter().collect();
        let mut busy = Work { tiles: &tiles, parcels: &mut own, compute: Some((compute, order)), reuses: true };
        let mut idle = Work { tiles: &tiles, parcels, compute: None, reuses: true };
        let send = carry(communicate, &tiles);
        let lanes = Lanes { helper: &kernels.helper, order: Order::CommunicateFirst, watch: None, send: &send };
        ended(Beside::new(&mut idle, &mut busy, computed).run(lanes, sent))
    }

    fn meet(&mut self) -> Result<(), Error> {
        self.slowest(&mut [])
    }

    fn slowest(&mut self, values: &mut [f64]) -> Result<(), Error> {
        let Some(meet) = &mut self.kernels.meet else { return Ok(()) };
        meet(values).map_err(|why| Error::Meeting { why })
    }
}
