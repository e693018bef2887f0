//! Overlap: tiles pass through lanes in order; while one tile is in a lane, the next tile is in the lane before it.
//!
//! Use an overlap for one big operation, or a stream, whose steps use different resources: a disk and the CPUs, a network and the CPUs. Cut
//! into *tiles*, the work keeps the slowest resource busy. The crate [`windrow-tiling`](https://docs.rs/windrow-tiling) chooses the cut
//! for two lanes from measured costs, including "no cut".
//!
//! ```
//! use windrow::overlap;
//! use windrow::prelude::*;
//!
//! let numbers: Vec<u64> = (0..10_000).collect();
//! let mut squares = vec![0; numbers.len()];
//! let mut sent = 0;
//! let mut trace = overlap::Trace::new();
//! // In place: a tile is a chunk of the result, and this lane has exclusive access to it.
//! overlap::source(numbers.chunks(1000).zip(squares.chunks_mut(1000)))
//!     .compute("square", |(from, to): (&[u64], &mut [u64])| {
//!         to.par_iter_mut().zip(from).for_each(|(to, from)| *to = from * from);
//!         Ok(to)
//!     })
//!     // A call that blocks: a collective, a write.
//!     .blocking("send", |tile: &mut [u64]| {
//!         sent += tile.len();
//!         if tile.is_empty() { Err("nothing to send") } else { Ok(()) }
//!     })
//!     .trace(&mut trace)
//!     .run()?;
//! assert_eq!((sent, squares[9_999]), (10_000, 9_999 * 9_999));
//! println!("{}", trace.explain());
//! # Ok::<(), overlap::Failure<&str>>(())
//! ```
//!
//! The tiles of a plan, or of any other cut, are chunks of different lengths:
//!
//! ```
//! use windrow::overlap;
//!
//! let columns = 4;
//! let tiles = [2_usize, 6, 8]; // rows of each
//! let mut product = vec![0.0_f32; 16 * columns];
//! let mut rest = &mut product[..];
//! let chunks = tiles.iter().map(|rows| rest.split_off_mut(..rows * columns).expect("the rows of the tiles"));
//! let lanes = overlap::source(chunks).compute("multiply", |tile: &mut [f32]| {
//!     tile.fill(1.0);
//!     Ok::<_, String>(tile)
//! });
//! assert_eq!(lanes.blocking("all-reduce", |_| Ok(())).run().unwrap(), 3);
//! assert_eq!(product, [1.0; 64]);
//! ```
//!
//! # Lanes
//! * [`compute`](Overlap::compute) runs on the calling thread, and may use windrow inside: all CPUs work on one tile. Several compute
//!   lanes take turns. Of the lanes with work, the last one goes first.
//! * [`compute_each`](Overlap::compute_each) runs on the calling thread and on workers, several tiles at once, and hands results on in order:
//!   for tiles that are independent and too small to be divided, such as blocks to compress.
//! * [`blocking`](Overlap::blocking) has a separate helper thread, for calls that block: input and output, a blocking collective.
//!
//! The source is an iterator of any length ([`source`]), which the executor of the first lane pulls from; or another thread
//! [feeds](fed()) tiles.
//!
//! # Protocol
//! A tile is in the source, in a lane, or in the queue between two lanes. It moves by value, in order. A lane begins a tile when
//! there is room for the result in the queue after it: fewer than [`ahead`](Overlap::ahead) tiles, and less than the limit of
//! [`weigh`](Overlap::weigh). So the number of tiles in the run is bounded: by the sum of the room in all queues, the
//! tiles in lanes of several tiles, and one tile in the last lane. A queue may exceed its weight limit by less than one tile.
//!
//! *Errors and panics.* When a tile fails in a lane, the tiles before it go on to the end. The tiles after it are dropped, and lanes
//! without work leave. So the reported failure is the first in tile order, at any timing: the failure of a serial run, after the same
//! tiles. A panic is resumed on the calling thread with its payload, when all lanes have left. The [`CancelToken::current`] of a lane that
//! still runs a tile after the failed one is cancelled.
//!
//! *Cancellation.* With [`with_cancel`](Overlap::with_cancel), or inside a [spawned](crate::spawn_joinable()) closure, a cancelled token
//! ends the run early: tiles in a lane leave that lane, all others are dropped, and the run returns [`Failure::Cancelled`]. Tokens are
//! polled before each tile, and every 5 ms while all lanes wait.
//!
//! Helper threads have left before [`run`](Overlap::run) returns or unwinds, so closures may borrow.
//!
//! # What it costs
//! A hand-over costs 1.3 to 4.5 us a tile, measured on tiles without work (2-core x86-64 virtual machine, 2026-11): a few short locks and, if the other side waits, one wakeup. So a tile should take
//! 100 us or more in the slowest lane. Each blocking lane starts a helper thread. Without a trace, and outside
//! [`explain`](crate::explain()), tiles are not timed.
//!
//! # When not to use it
//! * If all steps use the CPUs, overlap gains nothing: apply the steps one after the other to each item, in one parallel iterator. If
//!   the items come from a serial iterator, and results have an order: [`par_map_ordered`](crate::ParallelBridge::par_map_ordered).
//! * Two long calls without tiles: use [`scope`](crate::scope()) or a thread.
//! * More operations under way than there can be threads: use an async runtime.
//! * Tiles that cost more than they hide: [`windrow-tiling`](https://docs.rs/windrow-tiling) predicts it.
//!
//! # Trade-offs
//! * A compute or blocking lane runs one tile at a time, so order costs nothing. If its tiles are independent,
//!   [`compute_each`](Overlap::compute_each) uses that; a result may wait for an earlier one there.
//! * Compute lanes share the calling thread. A blocking lane with CPU work takes a CPU from them: give the planner this contention.
//! * Tiles before a failed one go through all lanes, however long that takes: that is the price of a definite outcome.
//!
//! # Fork
//! A child of `fork` can start runs, since no state is kept between runs. But starting a helper thread takes a lock of the standard
//! library. If another thread of the parent was starting a thread at the fork, that lock may stay locked in the child for ever. A child that
//! was forked inside a lane lacks the other threads of that run. If the lane runs on the calling thread and the child returns from it, the
//! run goes on for as long as it needs no other thread, and then returns [`Failure::Forked`]. A helper thread that returns from its lane
//! ends, and a child ends with its last thread.
//!
//! Sources of the ideas: bounded buffers between steps, from every pipeline since Unix; filters that are serial in order, from
//! oneTBB's `parallel_pipeline`; sending tiles of a product while the next tile is computed, from the fused operators of MC2,
//! FlashOverlap and asynchronous tensor parallelism; the first failure in order decides, from this workspace's `encode`.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use windrow_sync::fork::{Process, Stranded};
use windrow_sync::latch::Latch;
use windrow_sync::lend::lending;
use windrow_sync::unwind::discard;

use crate::runtime::cancel::{CancelToken, ambient};
use crate::runtime::listen::{self, Account, CallKind, Event, Region};
use crate::runtime::pool::{Current, install, installed_state};

mod crew;
mod each;
mod help;
mod lane;
mod queue;
mod run;
mod trace;

pub use trace::{LaneKind, LaneTrace, Limits, TileTrace, Trace};

use crew::Crew;
use each::ApplyEach;
use lane::{Apply, Input};
use queue::{Giver, QueueBound, Ring, Taker, queue};
use run::{Met, OverlapRun, Station, TileFault};
use trace::Log;

/// The default bound of a queue: one waiting tile, and one more that the taker can begin while the giver is woken.
///
/// Measure: count of tiles.
const AHEAD: usize = 2;

/// A builder of lanes: see the [module page](self).
///
/// ```
/// use windrow::overlap::{self, Failure, Overlap};
///
/// fn lengths<'env>(lines: impl Iterator<Item = &'env str> + Send + 'env) -> Overlap<'env, usize, String> {
///     overlap::source(lines)
///         .blocking("read", |line: &str| Ok(line.to_owned()))
///         .compute("count", |line: String| if line.is_empty() { Err("empty".to_owned()) } else { Ok(line.len()) })
/// }
///
/// assert_eq!(lengths("one\nfish".lines()).collect().unwrap(), [3, 4]);
/// assert!(matches!(lengths("one\n\nfish".lines()).collect(), Err(Failure::Error { tile: 1, .. })));
/// ```
#[must_use = "an overlap does nothing until it is run"]
pub struct Overlap<'env, T, E> {
    lanes: Lanes<'env, E>,
    input: Input<'env, T>,
}

/// The parts of an [`Overlap`] that do not depend on the type of the last result.
struct Lanes<'env, E> {
    names: Vec<String>,
    /// Lanes of the calling thread.
    here: Vec<Arc<dyn Station<E> + 'env>>,
    helpers: Vec<Helper<'env, E>>,
    /// Lanes of the calling thread and of workers; they are in `here`, too.
    each: Vec<Arc<dyn Station<E> + Sync + 'env>>,
    crew: Arc<Crew>,
    token: Option<CancelToken>,
    /// The run also ends when the current token of the calling thread is cancelled.
    heeds: bool,
    trace: Option<&'env mut Trace>,
}

struct Helper<'env, E> {
    lane: usize,
    station: Box<dyn Station<E> + Send + 'env>,
    bell: Arc<Latch>,
}

impl<T, E> fmt::Debug for Overlap<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlap").field("lanes", &self.lanes.names).finish_non_exhaustive()
    }
}

/// The reason that not all tiles went through all lanes.
///
/// ```
/// use windrow::overlap::{self, Failure};
///
/// let halves = overlap::source([8, 6, 5, 4]).compute("halve", |n: u32| if n % 2 == 0 { Ok(n / 2) } else { Err("odd") });
/// let failure = halves.collect().unwrap_err();
/// assert_eq!(failure.to_string(), "tile 2 failed in lane 0 (halve): odd");
/// let Failure::Error { error, .. } = failure else { panic!("no lane failed") };
/// assert_eq!(error, "odd");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure<E> {
    /// A lane refused a tile. All tiles before it went through.
    Error {
        /// The tile, from 0.
        tile: usize,
        /// The lane, from 0.
        lane: usize,
        /// The name of the lane.
        name: String,
        /// The error that its closure returned.
        error: E,
    },
    /// A thread with a [`Feeder`] panicked. All tiles before this one went through.
    Lost {
        /// The tile, from 0.
        tile: usize,
        /// The lane, from 0.
        lane: usize,
        /// The name of the lane.
        name: String,
    },
    /// A [`CancelToken`] was cancelled.
    Cancelled {
        /// Tiles that went through.
        tiles: usize,
    },
    /// A helper thread could not be started.
    Thread(io::Error),
    /// This process was forked inside a lane, and the other threads of the run stayed in the parent.
    Forked,
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error { tile, lane, name, error } => {
                write!(f, "tile {tile} failed in lane {lane} ({name}): {error}")
            }
            Failure::Lost { tile, lane, name } => {
                write!(f, "tile {tile} was abandoned in lane {lane} ({name}): the thread that feeds the tiles panicked")
            }
            Failure::Cancelled { tiles } => {
                write!(f, "cancelled after {tiles} tile{}", if *tiles == 1 { "" } else { "s" })
            }
            Failure::Thread(error) => write!(f, "cannot start a helper thread: {error}"),
            Failure::Forked => write!(f, "{Stranded}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Failure<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Error { error, .. } => Some(error),
            Failure::Thread(error) => Some(error),
            Failure::Lost { .. } | Failure::Cancelled { .. } | Failure::Forked => None,
        }
    }
}

/// Tiles from an iterator. The executor of the first lane pulls each tile when it begins that tile. So the iterator may block if the
/// first lane is a blocking one.
///
/// ```
/// use windrow::overlap;
///
/// let text = "one fish\ntwo fish";
/// let words = overlap::source(text.lines())
///     .blocking("read", |line: &str| Ok(line.to_owned()))
///     .compute("count", |line: String| Ok::<_, ()>(line.split(' ').count()))
///     .collect();
/// assert_eq!(words.unwrap(), [2, 2]);
/// ```
pub fn source<'env, I, E>(tiles: I) -> Overlap<'env, I::Item, E>
where
    I: IntoIterator,
    I::IntoIter: Send + 'env,
{
    Overlap { lanes: Lanes::new(), input: Input::Iter(Box::new(tiles.into_iter())) }
}

/// Tiles from another thread. The run does not wait for that thread, which may be in a call that cannot be interrupted.
/// [`ahead`](Overlap::ahead) and [`weigh`](Overlap::weigh) bound the queue before the first lane.
///
/// ```
/// use windrow::overlap;
///
/// let (mut feeder, tiles) = overlap::fed();
/// std::thread::spawn(move || (0..100u64).all(|i| feeder.push(i).is_ok()));
/// let mut sum = 0;
/// let tiles = tiles.ahead(4).compute("add", |i| {
///     sum += i;
///     Ok::<_, ()>(())
/// });
/// assert_eq!(tiles.run().unwrap(), 100);
/// assert_eq!(sum, 4950);
/// ```
pub fn fed<'env, T, E>() -> (Feeder<T>, Overlap<'env, T, E>) {
    let bell = Arc::new(Latch::new());
    let (giver, taker) = queue(AHEAD, bell.clone());
    (
        Feeder { giver: Some(giver), bell, process: Process::this() },
        Overlap { lanes: Lanes::new(), input: Input::Queue(taker) },
    )
}

/// Gives tiles to a run: see [`fed`]. Its drop ends the tiles. A drop by a panic fails the run.
///
/// ```
/// use windrow::overlap::{self, Feeder};
///
/// fn feed(mut feeder: Feeder<String>) {
///     for name in ["one", "fish"] {
///         // An error says that the run has ended.
///         if feeder.push(name.to_owned()).is_err() {
///             return;
///         }
///     }
/// }
///
/// let (feeder, names) = overlap::fed();
/// std::thread::spawn(move || feed(feeder));
/// let lengths = names.compute("count", |name: String| Ok::<_, ()>(name.len())).collect();
/// assert_eq!(lengths.unwrap(), [3, 4]);
/// ```
pub struct Feeder<T> {
    /// `Some` until dropped.
    giver: Option<Giver<T>>,
    bell: Arc<Latch>,
    process: Process,
}

impl<T> fmt::Debug for Feeder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").finish_non_exhaustive()
    }
}

impl<T> Feeder<T> {
    /// Gives the next tile; waits while the queue is full.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let (mut feeder, tiles) = overlap::fed::<u32, ()>();
    /// assert_eq!((feeder.push(1), feeder.push(2)), (Ok(()), Ok(())));
    /// // Without this the run would wait for more tiles.
    /// drop(feeder);
    /// assert_eq!(tiles.collect().unwrap(), [1, 2]);
    ///
    /// let (mut feeder, tiles) = overlap::fed::<u32, ()>();
    /// drop(tiles);
    /// assert_eq!(feeder.push(3), Err(3));
    /// ```
    ///
    /// # Errors
    /// The tile, if the run has ended or wants no more tiles. Also in a forked child, if the queue is full: the run stayed in the parent.
    pub fn push(&mut self, tile: T) -> Result<(), T> {
        let Some(giver) = &self.giver else { return Err(tile) };
        while !giver.has_room(0, 1) {
            if !self.process.is_this() {
                return Err(tile);
            }
            self.bell.wait_for(None);
        }
        giver.give(tile)
    }
}

impl<T> Drop for Feeder<T> {
    fn drop(&mut self) {
        if let (Some(giver), false) = (self.giver.take(), thread::panicking()) {
            giver.finish();
        }
    }
}

/// Runs `f` on the items, at most `ahead` of them before `consume`, which runs on the calling thread. Only an error of `consume` or a panic
/// ends the run.
pub(crate) fn ordered<'env, T, U, E>(
    items: impl Iterator<Item = T> + Send + 'env,
    ahead: usize,
    f: impl Fn(T) -> Result<U, E> + Sync + 'env,
    consume: impl FnMut(U) -> Result<(), E> + 'env,
    place: &'static Location<'static>,
) -> Result<usize, Failure<E>>
where
    T: Send + 'env,
    U: Send + 'env,
    E: Send + 'env,
{
    // One result waits at least: so `ahead` bounds those in the lane and those after it together.
    let mut lanes = source(items).compute_some("map", Some(ahead), f).ahead(1).compute("consume", consume);
    lanes.lanes.heeds = false;
    lanes.go(false, place).map(|(_, tiles)| tiles)
}

impl<E> Lanes<'_, E> {
    fn new() -> Self {
        Lanes {
            names: Vec::new(),
            here: Vec::new(),
            helpers: Vec::new(),
            each: Vec::new(),
            crew: Arc::default(),
            token: None,
            heeds: true,
            trace: None,
        }
    }
}

impl<'env, T: 'env, E: 'env> Overlap<'env, T, E> {
    /// Adds a lane that runs on the calling thread. Its closure may use windrow, so that all CPUs work on the tile.
    ///
    /// An error ends the run: see the [module page](self).
    ///
    /// ```
    /// use windrow::overlap;
    /// use windrow::prelude::*;
    ///
    /// let sums = overlap::source([0..10u64, 10..20])
    ///     .compute("sum", |range: std::ops::Range<u64>| Ok::<_, ()>(range.into_par_iter().sum::<u64>()))
    ///     .collect();
    /// assert_eq!(sums.unwrap(), [45, 145]);
    /// ```
    pub fn compute<U: 'env, F>(self, name: &str, f: F) -> Overlap<'env, U, E>
    where
        F: FnMut(T) -> Result<U, E> + 'env,
    {
        let bell = self.lanes.crew.caller.clone();
        self.add(name, LaneKind::Compute, bell, |lane, input, output, log, lanes| {
            lanes.here.push(Arc::new(Apply::new(lane, input, output, f, log)));
        })
    }

    /// Adds a lane for calls that block. It runs on a helper thread, which is named `windrow-` and the lane's name. Parallel calls in the lane
    /// use the pool that parallel calls of the calling thread use.
    ///
    /// An error ends the run: see the [module page](self).
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let names = overlap::source(0..2)
    ///     .blocking("read", |_: u32| Ok::<_, ()>(std::thread::current().name().map(str::to_owned)))
    ///     .collect()
    ///     .unwrap();
    /// assert_eq!(names, [Some("windrow-read".to_owned()), Some("windrow-read".to_owned())]);
    /// ```
    pub fn blocking<U: Send + 'env, F>(self, name: &str, f: F) -> Overlap<'env, U, E>
    where
        T: Send,
        F: FnMut(T) -> Result<U, E> + Send + 'env,
    {
        let bell = Arc::<Latch>::default();
        self.add(name, LaneKind::Blocking, bell.clone(), |lane, input, output, log, lanes| {
            let station = Box::new(Apply::new(lane, input, output, f, log));
            lanes.helpers.push(Helper { lane, station, bell });
        })
    }

    /// Adds a lane that takes several tiles at once: `f` runs on the calling thread and on workers of the pool, and results are handed on in
    /// order. So tiles need not be grouped for the CPUs: a tile may be as small as one block of a compressor.
    ///
    /// Twice as many tiles as the pool has threads may be in the lane: begun, or ended and waiting for an earlier one. Together
    /// with the results that wait for the next lane, there are fewer than that number and [`ahead`](Self::ahead) together. A limit of
    /// [`weigh`](Self::weigh) may be exceeded by the tiles in the lane.
    /// With a pool of one thread, if workers have other work, or if tiles are shorter than a wakeup, the lane is a
    /// [`compute`](Self::compute) lane: so no tile may wait for a later one. The calling thread runs the other compute lanes between two of
    /// its tiles. Workers that have waited for a tile longer than a tile lasts go back to the pool until they are needed.
    ///
    /// Members of the lane pull tiles from an iterator as [source](source()) one at a time. If it may block, put a blocking lane first.
    ///
    /// An error ends the run: see the [module page](self). Tiles that were begun after the failed one see that in
    /// [`CancelToken::current`], and the run waits for them.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let text = "a b c\nd e\nf";
    /// let mut lengths = Vec::new();
    /// let tiles = overlap::source(text.lines())
    ///     .compute_each("count", |line: &str| Ok::<_, ()>(line.split(' ').count()))
    ///     .compute("keep", |words| {
    ///         lengths.push(words);
    ///         Ok(())
    ///     });
    /// assert_eq!(tiles.run().unwrap(), 3);
    /// assert_eq!(lengths, [3, 2, 1]);
    /// ```
    pub fn compute_each<U: Send + 'env, F>(self, name: &str, f: F) -> Overlap<'env, U, E>
    where
        T: Send,
        F: Fn(T) -> Result<U, E> + Sync + 'env,
    {
        self.compute_some(name, None, f)
    }

    /// [`compute_each`](Self::compute_each), with at most `under_way` tiles in the lane.
    fn compute_some<U: Send + 'env, F>(self, name: &str, under_way: Option<usize>, f: F) -> Overlap<'env, U, E>
    where
        T: Send,
        F: Fn(T) -> Result<U, E> + Sync + 'env,
    {
        let crew = self.lanes.crew.clone();
        self.add(name, LaneKind::ComputeEach, crew.clone(), |lane, input, output, log, lanes| {
            let lane = Arc::new(ApplyEach::new(lane, under_way, (input, output), f, crew, log));
            lanes.here.push(lane.clone());
            lanes.each.push(lane);
        })
    }

    fn add<U>(
        self,
        name: &str,
        kind: LaneKind,
        bell: Arc<dyn Ring>,
        put: impl FnOnce(usize, Input<'env, T>, Giver<U>, Log, &mut Lanes<'env, E>),
    ) -> Overlap<'env, U, E> {
        let Overlap { mut lanes, input } = self;
        if let Input::Queue(taker) = &input {
            taker.set_bell(bell.clone());
        }
        let (giver, taker) = queue(AHEAD, bell);
        put(lanes.names.len(), input, giver, Log::new(name.to_owned(), kind), &mut lanes);
        lanes.names.push(name.to_owned());
        Overlap { lanes, input: Input::Queue(taker) }
    }

    /// Bounds the last queue so far: at most `tiles` results of the lane before, or fed tiles, wait for the lane after. By default 2. No
    /// effect after the last lane, whose results do not wait.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use windrow::overlap;
    ///
    /// let (read, mut most) = (AtomicUsize::new(0), 0);
    /// let tiles = overlap::source(0..100)
    ///     .blocking("read", |i: usize| {
    ///         read.fetch_add(1, Ordering::Relaxed);
    ///         Ok::<_, ()>(i)
    ///     })
    ///     .ahead(4)
    ///     .compute("work", |i| {
    ///         most = most.max(read.load(Ordering::Relaxed) - i);
    ///         Ok(())
    ///     });
    /// assert_eq!(tiles.run().unwrap(), 100);
    /// // This tile, four that wait, and the next one, which finds no room.
    /// assert!(most <= 6);
    /// ```
    ///
    /// # Panics
    /// If `tiles` is 0, or if there is no lane yet and the source is an iterator: there is no queue between them.
    pub fn ahead(self, tiles: usize) -> Self {
        assert!(tiles > 0, "a queue must have room for at least one tile");
        self.waiting().set_bound(QueueBound::Tiles(tiles));
        self
    }

    /// Bounds the weight of the last queue so far: the lane before begins no tile while tiles of a weight of `limit` or more wait for the
    /// lane after. So a queue holds less than `limit`, plus one tile. The unit of `weight` is arbitrary: bytes, say.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let lines = overlap::source(["a", "a longer line", "b"])
    ///     .blocking("read", |line: &str| Ok::<_, ()>(line.to_owned()))
    ///     // No line is read while 8 bytes or more wait.
    ///     .weigh(8, String::len)
    ///     .compute("count", |line: String| Ok(line.len()));
    /// assert_eq!(lines.collect().unwrap(), [1, 13, 1]);
    /// ```
    ///
    /// # Panics
    /// If `limit` is 0; else as [`ahead`](Self::ahead).
    pub fn weigh(self, limit: usize, weight: fn(&T) -> usize) -> Self {
        assert!(limit > 0, "the weight limit of a queue must be above 0");
        self.waiting().set_scale(limit, weight);
        self
    }

    fn waiting(&self) -> &Taker<T> {
        match &self.input {
            Input::Queue(taker) => taker,
            Input::Iter(_) => {
                panic!("there is no queue between an iterator and the first lane: add a lane before this call")
            }
        }
    }

    /// Ends the run early when `token` is cancelled.
    ///
    /// ```
    /// use windrow::CancelToken;
    /// use windrow::overlap::{self, Failure};
    ///
    /// let token = CancelToken::new();
    /// let tiles = overlap::source(0..).with_cancel(&token).compute("work", |i| {
    ///     if i == 9 {
    ///         token.cancel();
    ///     }
    ///     Ok::<_, ()>(())
    /// });
    /// assert!(matches!(tiles.run(), Err(Failure::Cancelled { tiles: 10 })));
    /// ```
    pub fn with_cancel(mut self, token: &CancelToken) -> Self {
        self.lanes.token = Some(token.clone());
        self
    }

    /// Records when each tile was in each lane, also for a run that fails.
    ///
    /// ```
    /// use windrow::overlap::{self, Trace};
    ///
    /// let mut trace = Trace::new();
    /// let tiles = overlap::source(0..8).compute("work", |_| Ok::<_, ()>(())).trace(&mut trace);
    /// assert_eq!(tiles.run().unwrap(), 8);
    /// assert_eq!((trace.lanes[0].name.as_str(), trace.lanes[0].tiles.len()), ("work", 8));
    /// ```
    pub fn trace(mut self, trace: &'env mut Trace) -> Self {
        self.lanes.trace = Some(trace);
        self
    }

    /// Runs all tiles through all lanes. Returns their results in order.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let squares = overlap::source(1..=3).compute("square", |i: u32| i.checked_mul(i).ok_or("too large"));
    /// assert_eq!(squares.collect().unwrap(), [1, 4, 9]);
    /// ```
    ///
    /// # Errors
    /// If not all tiles went through; then the results are dropped.
    ///
    /// # Panics
    /// With the payload of the first panic of a lane, in tile order, unless an earlier tile failed.
    #[track_caller]
    pub fn collect(self) -> Result<Vec<T>, Failure<E>>
    where
        E: Send,
    {
        self.go(true, Location::caller()).map(|(results, _)| results)
    }
}

impl<'env, E: Send + 'env> Overlap<'env, (), E> {
    /// Runs all tiles through all lanes. Returns the number of tiles.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let mut sum = 0;
    /// let tiles = overlap::source(1..=3).compute("add", |i: u32| {
    ///     sum += i;
    ///     Ok::<_, ()>(())
    /// });
    /// assert_eq!(tiles.run().unwrap(), 3);
    /// assert_eq!(sum, 6);
    /// ```
    ///
    /// # Errors
    /// If not all tiles went through.
    ///
    /// # Panics
    /// With the payload of the first panic of a lane, in tile order, unless an earlier tile failed.
    #[track_caller]
    pub fn run(self) -> Result<usize, Failure<E>> {
        self.go(false, Location::caller()).map(|(_, tiles)| tiles)
    }
}

impl<'env, T: 'env, E: Send + 'env> Overlap<'env, T, E> {
    fn go(self, kept: bool, place: &'static Location<'static>) -> Result<(Vec<T>, usize), Failure<E>> {
        let Overlap { lanes, input } = if self.lanes.names.is_empty() { self.compute("source", Ok) } else { self };
        let Input::Queue(results) = input else { unreachable!("the last lane has a queue") };
        results.set_bound(QueueBound::Results { kept });
        let Lanes { names, mut here, helpers, each, crew, token, heeds, trace } = lanes;

        let bells =
            std::iter::once(crew.caller.clone()).chain(helpers.iter().map(|helper| helper.bell.clone())).collect();
        let tokens = token.into_iter().chain(ambient().filter(|_| heeds)).collect();
        // A run without such lanes does not build the global pool.
        let pool = if each.is_empty() { installed_state() } else { Some(Current::get().state().clone()) };
        let helped = pool.as_ref().filter(|_| !each.is_empty());
        let (members, width) = helped.map_or((1, 1), |pool| (pool.members, pool.workers().most));
        let helping = helpers.len();
        let reported = listen::call(CallKind::Overlap, Some(place));
        let zero = (trace.is_some() || reported.is_some()).then(Instant::now);
        let region = Region::new(CallKind::Overlap, Some(place), None);
        let run = OverlapRun::new(tokens, names.len(), bells, crew.clone(), (members, width), zero);
        // Not by `thread::scope`: in a child that is forked inside a lane, its end would wait for threads of the parent.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            lending(
                || (),
                |_| (),
                |lender| {
                    for Helper { lane, station, bell } in helpers {
                        // The system refuses names with a zero byte.
                        let name = format!("windrow-{}", names[lane].replace('\0', ""));
                        let (run, region, pool) = (&run, &region, pool.clone());
                        let body = move || {
                            let _here = pool.map(install);
                            let _member = region.member();
                            run.help(station, &bell);
                            run.helper_left();
                        };
                        let helper = lender.lend(body);
                        if let Err(error) = thread::Builder::new().name(name).spawn(move || helper.run()) {
                            run.fail(0, lane, TileFault::Thread(error));
                            run.helper_left();
                        }
                    }
                    let lanes: Vec<&(dyn Station<E> + Sync)> = each.iter().map(|lane| &**lane).collect();
                    match &pool {
                        Some(pool) if !lanes.is_empty() && pool.members > 1 => {
                            help::lead(&run, &mut here, &lanes, pool, &region)
                        }
                        _ => _ = run.lead(&mut here, || false),
                    }
                },
            )
        }));
        let is_stranded = match ran {
            Ok(()) => false,
            Err(payload) if Stranded::is_thrown(&*payload) => true,
            Err(payload) => resume_unwind(payload),
        };
        each.into_iter().for_each(|lane| run.close(lane));
        let wall = run.now();
        let (met, traced) = run.into_parts();
        let (whole, tiles) = results.into_whole();
        if let Some(wall) = wall {
            let traced = Trace { lanes: traced, wall };
            if let Some(reported) = reported {
                let limits = traced.explain();
                let threads = 1 + helping + crew.state.lock().entered.len();
                let account = Account {
                    reason: limits.reason().into(),
                    alternatives: [Some(("bound", limits.bound)), Some(("serial", limits.serial))],
                    ..Account::default()
                };
                let tiles_of_lanes = || traced.tiles();
                let (items, tiles) = (tiles as u64, Some(&tiles_of_lanes as &dyn Fn() -> _));
                let event = Event { items, threads, took: wall, tiles, ..reported.event(&account) };
                reported.end(&event);
            }
            if let Some(trace) = trace {
                *trace = traced;
            }
        }
        let Some(Met { tile, lane, why }) = met else {
            return match whole {
                _ if is_stranded => Err(Failure::Forked),
                Some(results) => Ok((results, tiles)),
                None => Err(Failure::Cancelled { tiles }),
            };
        };
        let name = names.get(lane).cloned().unwrap_or_default();
        Err(match why {
            TileFault::Panic(payload) => {
                discard(whole);
                resume_unwind(payload)
            }
            TileFault::Error(error) => Failure::Error { tile, lane, name, error },
            TileFault::Lost => Failure::Lost { tile, lane, name },
            TileFault::Thread(error) => Failure::Thread(error),
        })
    }
}
