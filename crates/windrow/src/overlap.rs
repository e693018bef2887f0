//! Overlap: tiles go through lanes in order, and while one tile is in a lane the next one is in the lane before it.
//!
//! This is shape 4: one big operation, or a stream, whose steps use different things: a disk and the CPUs, a network and the CPUs. Cut into
//! *tiles*, the slow thing never rests. How to cut is a question of its own: [`windrow_plan::tile`](crate::plan::tile) answers it for two
//! lanes with measured costs, "not at all" included.
//!
//! ```
//! use windrow::overlap;
//! use windrow::prelude::*;
//!
//! let numbers: Vec<u64> = (0..10_000).collect();
//! let mut squares = vec![0; numbers.len()];
//! let mut sent = 0;
//! let mut trace = overlap::Trace::new();
//! // In place: a tile is a chunk of the result, and nobody else has it.
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
//! A [plan](crate::plan::tile)'s tiles, or any other cut, are chunks of different lengths:
//!
//! ```
//! use windrow::overlap;
//! use windrow::plan::Rows;
//! use windrow::plan::tile::Tiles;
//!
//! let columns = 4;
//! let tiles = Tiles::new([Rows(2), Rows(6), Rows(8)])?;
//! let mut product = vec![0.0_f32; 16 * columns];
//! let mut rest = &mut product[..];
//! let chunks = tiles.iter().map(|rows| rest.split_off_mut(..rows.0 as usize * columns).expect("the rows of the tiles"));
//! let lanes = overlap::source(chunks).compute("multiply", |tile: &mut [f32]| {
//!     tile.fill(1.0);
//!     Ok::<_, String>(tile)
//! });
//! assert_eq!(lanes.blocking("all-reduce", |_| Ok(())).run().unwrap(), 3);
//! assert_eq!(product, [1.0; 64]);
//! # Ok::<(), windrow::plan::tile::Unplannable>(())
//! ```
//!
//! # Lanes
//! * [`compute`](Overlap::compute) runs on the calling thread, and may use windrow inside: all CPUs work on one tile. Several compute
//!   lanes take turns, the last one that can do something first.
//! * [`blocking`](Overlap::blocking) has a helper thread of its own, for calls that wait: input and output, a blocking collective.
//! * [`completion`](Overlap::completion) starts an operation that ends elsewhere, and may have several under way. Whoever sees the end
//!   says so with a [`Token`]; an executor, a thread of a library, a callback.
//!
//! The source is an iterator, known in number or not ([`source`]), and is pulled where the first lane runs; or it is [fed](fed()) by
//! whoever has the tiles.
//!
//! # Protocol
//! A tile is in one place: the source, a lane, or the queue between two lanes. It moves by value, in order. A lane begins a tile when
//! there is room for the result in the queue after it: fewer than [`ahead`](Overlap::ahead) tiles, and less than the limit of
//! [`weigh`](Overlap::weigh). So at any time there are at most as many tiles as all the queues hold, what completion lanes may have
//! under way, and one in the last lane; a queue holds less than its limit and one tile more, however heavy.
//!
//! *Errors and panics.* When a tile fails in a lane, the tiles before it go on to the end, those after it are dropped, and lanes that
//! have nothing to do any more leave. So the failure that is reported is the first in tile order, whatever the timing: the one
//! that a serial run would have met, after the same tiles. A panic is resumed on the calling thread with its payload, when
//! everybody has left. A lane that is in the middle of a tile after the failed one can know: [`Stop::current`] is stopped then.
//!
//! *Stopping.* With [`stop_when`](Overlap::stop_when), or inside an [offloaded](crate::offload()) closure, a stopped token ends the run
//! early: tiles that are in a lane leave it, all others are dropped, [`Failure::Stopped`] is returned. That is noticed before each
//! tile, and within 5 ms while all lanes wait.
//!
//! Helper threads have left before [`run`](Overlap::run) returns or unwinds, so closures may borrow. Operations of a completion lane
//! are not waited for after a failure: what they give later is dropped with their tokens. (The borrow checker sees to it that they hold
//! nothing that ends.) An operation that must not be left alone belongs into a blocking lane.
//!
//! # What it costs
//! A hand-over takes a few locks that nobody else holds for long and, if the other side waits, one wake-up: 1.3 to 4.5 us a tile where
//! tiles have no work (2-core x86-64 virtual machine, 2026-11; the bin `pipeline` of windrow-bench prints it). So a tile should take
//! 100 us or more in the lane that limits. Each blocking and completion lane starts a helper thread. Without a trace no clock is read.
//!
//! # When not to use it
//! * Steps that all use the CPUs gain nothing from each other: apply them one after the other to each item, in one parallel iterator.
//! * Two long calls without tiles: [`scope`](crate::scope()) or a thread.
//! * More operations under way than threads could be: an async runtime; a completion lane can hand over to it.
//! * Tiles that cost more than they hide: ask [`tile`](crate::plan::tile).
//!
//! # Trade-offs
//! * One thing is done at a time in a lane, so order is free and memory is bounded. A lane that could work on several tiles at once, as
//!   they do not depend on each other, has to be parallel inside.
//! * Compute lanes share the calling thread. A blocking lane with CPU work in it takes a CPU from them; contention is
//!   what a plan should be told of.
//! * Tiles before a failed one go through, which takes as long as it takes: that is the price of a definite outcome.
//!
//! # Fork
//! There is no state between runs, so a child of `fork` starts its own. It needs helper threads, though, and the standard library takes
//! a lock when a thread starts: a child that was forked while another thread of its parent was starting one may find that locked
//! for ever. Forking in a lane leaves the child with a run whose helper threads it does not have: it must not return from there.
//!
//! Sources of the ideas: the bounded buffers between steps are those of every pipeline since Unix; filters that are serial in order, of
//! oneTBB's `parallel_pipeline`; tiles of a product that are sent while the next is computed, of the fused operators of MC2,
//! FlashOverlap and asynchronous tensor parallelism; that the first failure in order decides is from this workspace's `encode`.

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use windrow_plan::Nanos;

use crate::pool::{Installed, installed_crew};
use crate::stop::{Stop, ambient};

mod lane;
mod queue;
mod run;
mod trace;

pub use lane::Token;
pub use trace::{Kind, LaneTrace, Limits, TileTrace, Trace};

use lane::{Apply, Input, Start, Station};
use queue::{Bell, Bound, Giver, Taker, queue};
use run::{Met, Run, Why};
use trace::Log;

/// Tiles in a queue unless said otherwise: one that waits, and one more for the time that it takes to wake somebody up.
const AHEAD: usize = 2;

/// Lanes in the making: see the [module page](self).
#[must_use = "it does nothing until it is run"]
pub struct Overlap<'env, T, E> {
    lanes: Lanes<'env, E>,
    input: Input<'env, T>,
}

/// All but the type of the last result.
struct Lanes<'env, E> {
    names: Vec<String>,
    /// On the calling thread.
    here: Vec<Box<dyn Station<E> + 'env>>,
    helpers: Vec<Helper<'env, E>>,
    bell: Arc<Bell>,
    stop: Option<Stop>,
    trace: Option<&'env mut Trace>,
}

struct Helper<'env, E> {
    lane: usize,
    station: Box<dyn Station<E> + Send + 'env>,
    bell: Arc<Bell>,
}

impl<T, E> fmt::Debug for Overlap<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlap").field("lanes", &self.lanes.names).finish_non_exhaustive()
    }
}

/// Why not all tiles went through all lanes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure<E> {
    /// A lane refused a tile. All tiles before it went through.
    Error {
        /// The tile, from 0.
        tile: usize,
        /// The lane, from 0.
        lane: usize,
        /// What the lane is called.
        name: String,
        /// What its closure returned.
        error: E,
    },
    /// A token was dropped before it was completed, or a thread that feeds panicked. All tiles before this one went through.
    Lost {
        /// The tile, from 0.
        tile: usize,
        /// The lane, from 0.
        lane: usize,
        /// What the lane is called.
        name: String,
    },
    /// Stopped by a token.
    Stopped {
        /// Tiles that went through.
        tiles: usize,
    },
    /// A helper thread could not be started.
    Thread(io::Error),
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error { tile, lane, name, error } => {
                write!(f, "tile {tile} failed in lane {lane} ({name}): {error}")
            }
            Failure::Lost { tile, lane, name } => {
                write!(
                    f,
                    "tile {tile} in lane {lane} ({name}) was given up: its token was dropped, or its thread panicked"
                )
            }
            Failure::Stopped { tiles } => write!(f, "stopped after {tiles} tiles"),
            Failure::Thread(error) => write!(f, "cannot start a helper thread: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Failure<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Error { error, .. } => Some(error),
            Failure::Thread(error) => Some(error),
            Failure::Lost { .. } | Failure::Stopped { .. } => None,
        }
    }
}

/// Tiles from an iterator. It is pulled where the first lane runs, one tile when that lane begins it; so it may block if the first
/// lane is a blocking one.
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

/// Tiles that somebody else gives, from a thread that need not end with the run: it may be in a call that nobody can interrupt, and is
/// not waited for. [`ahead`](Overlap::ahead) and [`weigh`](Overlap::weigh) say how much of them is queued before the first lane.
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
    let bell = Arc::new(Bell::default());
    let (giver, taker) = queue(AHEAD, bell.clone());
    (Feeder { giver: Some(giver), bell }, Overlap { lanes: Lanes::new(), input: Input::Queue(taker) })
}

/// Gives tiles to a run: see [`fed`]. Dropping it says that there are no more; by a panic that it ends too early.
pub struct Feeder<T> {
    /// There until dropped.
    giver: Option<Giver<T>>,
    bell: Arc<Bell>,
}

impl<T> fmt::Debug for Feeder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").finish_non_exhaustive()
    }
}

impl<T> Feeder<T> {
    /// Gives the next tile; waits while the queue is full.
    ///
    /// # Errors
    /// With the tile, if the run has ended or wants no more.
    pub fn push(&mut self, tile: T) -> Result<(), T> {
        let Some(giver) = &self.giver else { return Err(tile) };
        while !giver.has_room() {
            self.bell.wait(None);
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

impl<E> Lanes<'_, E> {
    fn new() -> Self {
        Lanes {
            names: Vec::new(),
            here: Vec::new(),
            helpers: Vec::new(),
            bell: Arc::default(),
            stop: None,
            trace: None,
        }
    }
}

impl<'env, T: 'env, E: 'env> Overlap<'env, T, E> {
    /// Adds a lane that runs on the calling thread. Its closure may use windrow, so that all CPUs work on the tile.
    ///
    /// An error ends the run: see the [module page](self).
    pub fn compute<U: 'env, F>(self, name: &str, f: F) -> Overlap<'env, U, E>
    where
        F: FnMut(T) -> Result<U, E> + 'env,
    {
        let bell = self.lanes.bell.clone();
        self.add(name, Kind::Compute, bell, |lane, input, output, log, lanes| {
            lanes.here.push(Box::new(Apply::new(lane, input, output, f, log)));
        })
    }

    /// Adds a lane that runs on a helper thread named `windrow-` and its name, for calls that block. Parallel calls in it use the
    /// pool that those of the calling thread use.
    ///
    /// An error ends the run: see the [module page](self).
    pub fn blocking<U: Send + 'env, F>(self, name: &str, f: F) -> Overlap<'env, U, E>
    where
        T: Send,
        F: FnMut(T) -> Result<U, E> + Send + 'env,
    {
        let bell = Arc::<Bell>::default();
        self.add(name, Kind::Blocking, bell.clone(), |lane, input, output, log, lanes| {
            let station = Box::new(Apply::new(lane, input, output, f, log));
            lanes.helpers.push(Helper { lane, station, bell });
        })
    }

    /// Adds a lane whose closure starts an operation and returns. The operation ends when its [`Token`] is completed, anywhere. At most
    /// `under_way` operations have been started without their results having been handed on, in order. The closure runs on a
    /// helper thread named `windrow-` and the lane's name.
    ///
    /// An error ends the run, whether the closure returns it or the token is completed with it: see the [module page](self).
    ///
    /// ```
    /// use windrow::overlap::{self, Token};
    ///
    /// let doubled = overlap::source(0..10)
    ///     .completion("double", 4, |i: u32, token: Token<u32, String>| {
    ///         // Some executor.
    ///         std::thread::spawn(move || token.complete(i.checked_mul(2).ok_or("too large".to_owned())));
    ///         Ok(())
    ///     })
    ///     .collect();
    /// assert_eq!(doubled.unwrap(), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    /// ```
    ///
    /// # Panics
    /// If `under_way` is 0.
    pub fn completion<U: Send + 'env, F>(self, name: &str, under_way: usize, f: F) -> Overlap<'env, U, E>
    where
        T: Send,
        E: Send,
        F: FnMut(T, Token<U, E>) -> Result<(), E> + Send + 'env,
    {
        assert!(under_way > 0, "a completion lane with no operation under way does nothing");
        let bell = Arc::<Bell>::default();
        self.add(name, Kind::Completion, bell.clone(), |lane, input, output, log, lanes| {
            let station = Box::new(Start::new(lane, under_way, (input, output), f, bell.clone(), log));
            lanes.helpers.push(Helper { lane, station, bell });
        })
    }

    fn add<U>(
        self,
        name: &str,
        kind: Kind,
        bell: Arc<Bell>,
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

    /// At most `tiles` results of the lane before, or fed tiles, wait for the lane after. By default 2. Results of the last lane do
    /// not wait, so there it says nothing.
    ///
    /// # Panics
    /// If `tiles` is 0, or if there is no lane yet and the source is an iterator: nothing waits between that and its lane.
    pub fn ahead(self, tiles: usize) -> Self {
        assert!(tiles > 0, "nothing passes a queue that holds nothing");
        self.waiting().set_bound(Bound::Tiles(tiles));
        self
    }

    /// The lane before begins no tile while `limit` or more, in the unit of `weight`, wait for the lane after: so the heaviest
    /// queue holds less than `limit` and one tile more.
    ///
    /// # Panics
    /// As [`ahead`](Self::ahead).
    pub fn weigh(self, limit: usize, weight: fn(&T) -> usize) -> Self {
        assert!(limit > 0, "nothing passes a queue that holds nothing");
        self.waiting().set_scale(limit, weight);
        self
    }

    fn waiting(&self) -> &Taker<T> {
        match &self.input {
            Input::Queue(taker) => taker,
            Input::Iter(_) => panic!("no tile waits between an iterator and the first lane: say this after a lane"),
        }
    }

    /// Ends the run early when `stop` is stopped.
    pub fn stop_when(mut self, stop: &Stop) -> Self {
        self.lanes.stop = Some(stop.clone());
        self
    }

    /// Writes down when each tile was in each lane, also of a run that fails.
    pub fn trace(mut self, trace: &'env mut Trace) -> Self {
        self.lanes.trace = Some(trace);
        self
    }

    /// Runs all tiles through all lanes. Their results are in the right order.
    ///
    /// # Errors
    /// Not all tiles went through. What did is dropped.
    ///
    /// # Panics
    /// With the payload of the first panic of a lane, in tile order, unless an earlier tile failed.
    pub fn collect(self) -> Result<Vec<T>, Failure<E>>
    where
        E: Send,
    {
        self.go(true).map(|(results, _)| results)
    }
}

impl<'env, E: Send + 'env> Overlap<'env, (), E> {
    /// Runs all tiles through all lanes. How many there were.
    ///
    /// # Errors
    /// Not all tiles went through.
    ///
    /// # Panics
    /// With the payload of the first panic of a lane, in tile order, unless an earlier tile failed.
    pub fn run(self) -> Result<usize, Failure<E>> {
        self.go(false).map(|(_, tiles)| tiles)
    }
}

impl<'env, T: 'env, E: Send + 'env> Overlap<'env, T, E> {
    fn go(self, kept: bool) -> Result<(Vec<T>, usize), Failure<E>> {
        let Overlap { lanes, input } = if self.lanes.names.is_empty() { self.compute("source", Ok) } else { self };
        let Input::Queue(results) = input else { unreachable!("there is a lane, and it has a queue") };
        results.set_bound(Bound::Results { kept });
        let Lanes { names, here, helpers, bell, stop, trace } = lanes;

        let bells = std::iter::once(bell).chain(helpers.iter().map(|helper| helper.bell.clone())).collect();
        let tokens = stop.into_iter().chain(ambient()).collect();
        let run = Run::new(tokens, names.len(), bells, trace.is_some().then(Instant::now));
        let crew = installed_crew();
        thread::scope(|scope| {
            for Helper { lane, station, bell } in helpers {
                // A name with a zero byte is no name to the system.
                let name = format!("windrow-{}", names[lane].replace('\0', ""));
                let (run, crew) = (&run, crew.clone());
                let body = move || {
                    let _here = crew.map(Installed::new);
                    run.help(station, &bell);
                    run.helper_left();
                };
                if let Err(error) = thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    run.fail(0, lane, Why::Thread(error));
                    run.helper_left();
                }
            }
            run.lead(here);
        });
        let wall = run.zero.map(|zero| Nanos(zero.elapsed().as_nanos() as f64));
        let (met, traced) = run.into_parts();
        if let (Some(trace), Some(wall)) = (trace, wall) {
            *trace = Trace { lanes: traced, wall };
        }
        let (whole, tiles) = results.into_whole();
        let name = |lane: usize| names.get(lane).cloned().unwrap_or_default();
        match (met.map(|Met { tile, lane, why }| (tile, lane, why)), whole) {
            (Some((_, _, Why::Panic(payload))), results) => {
                run::discard(results);
                resume_unwind(payload)
            }
            (Some((tile, lane, Why::Error(error))), _) => Err(Failure::Error { tile, lane, name: name(lane), error }),
            (Some((tile, lane, Why::Lost)), _) => Err(Failure::Lost { tile, lane, name: name(lane) }),
            (Some((_, _, Why::Thread(error))), _) => Err(Failure::Thread(error)),
            (None, Some(results)) => Ok((results, tiles)),
            (None, None) => Err(Failure::Stopped { tiles }),
        }
    }
}
