//! Two lanes: the caller computes, and a helper thread communicates.
//!
//! # Words
//!
//! - The *helper* is the thread of the communication lane. The caller is the thread of the computation lane.
//! - A *parcel* is what belongs to one tile on its way between the lanes, such as its memory. One lane owns it at a time, so the lanes share
//!   nothing.
//! - The caller *fills* a parcel before the helper communicates it, and *drains* the parcel afterwards. One of the two computes the tile.
//! - A fault is *agreed* if a collective returned it: then every rank has the same fault. Otherwise this rank has yet to tell the others.
//!
//! # Protocol
//!
//! 1. The caller fills a parcel for each tile, in order, and hands it over.
//! 2. The helper communicates parcels in that order and hands them back.
//! 3. The caller drains returned parcels. If tiles are computed first, it does so between two tiles. If tiles are communicated first, it hands
//!    over all parcels before it drains the first one; otherwise the helper would wait for parcels.
//!
//! The number of parcels under way has no limit, because the planner's lanes never wait for space either.
//!
//! A fault of either lane sets `stop`. The helper then hands back parcels as they are. The caller computes no more, and leaves when all
//! parcels are back, so neither lane is left behind.
//!
//! Calibration measures both lanes at once, so it makes them begin together (`begins_together`). The helper holds the second tile until the
//! caller begins to drain the first. On a CPU that the lanes share, the helper could otherwise finish all tiles first. The helper waits on a
//! channel, and the caller releases it by dropping the sender; a fault drops the sender too.
//!
//! # Why not `windrow::overlap`
//!
//! 1. *Order.* The calling thread of `overlap` prefers the last lane that has work. It would compute the first returned tile before it has
//!    handed over the others, and the helper would wait. The planner and the measured contention assume that the helper never waits.
//! 2. *Faults.* `overlap` reports the first failed tile, and lets the tiles before it through. A rank must also know whether a fault was
//!    agreed. If the other ranks have already left the call, a refusal would hit their next call.
//! 3. *Threads.* `overlap` starts its helper thread in every run: 1,000 calls of 8 tiles start 1,000 threads, and here one. A new thread
//!    has to ask again for prompt wake-ups, and to find a processor again. Prompt helpers and kept parcels pay, by the bin `fused` of
//!    windrow-bench. Without them, planned tiles were more than 5 % slower than the best cut in 8 of 21 cells, and with them in 1.
//!
//! The cost of the hand-over is no reason. A call of 8 tiles makes 62 system calls here, collectives included, and 36 with `overlap`.
//! (Counted by strace; most are futex calls, and 8 are the yields below.) A run of `overlap` with a given thread and a given order could
//! serve both.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use windrow_sync::lend::{Lender, Loan, lending};
use windrow_sync::unwind::message;
use windrow_tiling::Nanos;
use windrow_tiling::tile::{Lane, Order, TileSpan};

use crate::prompt::be_prompt;
use crate::{Error, Pace};

/// Called before each tile in its lane; an error stops the operation on all ranks.
pub(crate) type Watch = Arc<dyn Fn(Lane, usize) -> Result<(), String> + Send + Sync>;

/// The communication thread. It runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Helper {
    jobs: Option<Sender<Loan>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    pub(crate) fn start(name: String) -> Result<Self, Error> {
        let (jobs, taken) = mpsc::channel::<Loan>();
        let thread = thread::Builder::new().name(name).spawn(move || {
            be_prompt();
            taken.into_iter().for_each(Loan::run);
        });
        match thread {
            Ok(thread) => Ok(Self { jobs: Some(jobs), thread: Some(thread) }),
            Err(error) => Err(Error::Thread { why: format!("could not be started: {error}") }),
        }
    }

    fn submit(&self, job: Loan) -> Result<(), Error> {
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(gone()) }
    }
}

fn gone() -> Error {
    Error::Thread { why: "is gone".to_owned() }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its jobs catch their panics, so the result says nothing.
            let _ = thread.join();
        }
    }
}

/// When each tile was in each lane, in nanoseconds since the lanes began.
///
/// A failed operation has a shorter trace. The spans do not include handing over and copying results out.
///
/// ```
/// use windrow_collective::{Fused, Group, MatMut, MatRef, Tiles};
/// use windrow_tiling::tile::Lane;
///
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// let (a, mut c) = ([1.0_f32; 64], [0.0; 64]);
/// let (a, c) = (MatRef::new(&a, 8, 8), MatMut::new(&mut c, 8, 8));
/// let trace = fused.matmul_all_reduce(a, a, c, &Tiles::Uniform(4))?.trace;
/// let (computed, sent) = (trace.spans(Lane::Compute), trace.spans(Lane::Communicate));
/// assert_eq!((computed.len(), sent.len()), (4, 4));
/// assert!(computed.iter().zip(sent).all(|(computed, sent)| computed.end <= sent.end));
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The computation of each tile.
    pub compute: Vec<TileSpan>,
    /// The communication of each tile.
    pub communicate: Vec<TileSpan>,
    /// The requested and the taken time of each communication, if the backend paces.
    pub paces: Vec<Option<Pace>>,
    /// When the last result was in place.
    pub end: Nanos,
}

impl Trace {
    /// The spans of a lane.
    pub fn spans(&self, lane: Lane) -> &[TileSpan] {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }
}

/// What the caller does with parcels.
pub(crate) trait Stages<P> {
    /// The parcel of a tile.
    fn parcel(&mut self, tile: usize) -> P;

    /// Takes a parcel back that is not used any more.
    fn put_back(&mut self, _parcel: P) {}

    /// Runs before a tile is communicated: computes it, if computation comes first.
    fn fill(&mut self, tile: usize, parcel: &mut P) -> Result<(), String>;

    /// Runs after a tile was communicated: computes it, if computation comes last.
    fn drain(&mut self, tile: usize, parcel: &mut P) -> Result<(), String>;

    /// Whether the second tile waits until the caller begins to drain the first one, so that both lanes are busy at once. On a CPU that the
    /// lanes share, the helper could otherwise finish all tiles before the caller drains any.
    fn begins_together(&self) -> bool {
        false
    }

    /// Called before the helper is released, so that the caller can note its own start: the helper may get the CPU first.
    fn begin(&mut self) {}
}

/// Why an operation stopped.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// All ranks know of it.
    pub(crate) agreed: bool,
}

/// A parcel that the helper hands back.
struct Back<P> {
    tile: usize,
    parcel: P,
    /// `None` if it was not communicated.
    sent: Option<(TileSpan, Option<Pace>)>,
    fault: Option<Fault>,
}

/// The work of the communication lane on the parcel of a tile.
pub(crate) type Carry<'a, P> = dyn Fn(usize, &mut P) -> Result<Option<Pace>, Fault> + Sync + 'a;

/// Two lanes, ready to run.
pub(crate) struct Lanes<'a, P> {
    pub(crate) helper: &'a Helper,
    pub(crate) order: Order,
    pub(crate) watch: Option<&'a Watch>,
    pub(crate) send: &'a Carry<'a, P>,
}

impl<'a, P: Send + 'a> Lanes<'a, P> {
    /// Runs all tiles through both lanes.
    pub(crate) fn run(self, tiles: usize, stages: &mut dyn Stages<P>) -> (Trace, Result<(), Fault>) {
        // No loan is open in the end: the caller has all parcels back.
        lending((|| ()) as fn(), |_| (), |lender| self.lend(tiles, stages, lender))
    }

    fn lend(self, tiles: usize, stages: &mut dyn Stages<P>, lender: &Lender<'a, fn()>) -> (Trace, Result<(), Fault>) {
        let (hand_back, backs) = mpsc::channel();
        let (began, stop) = (Instant::now(), Arc::new(Mutex::new(false)));
        let (begin, held) = mpsc::channel();
        // Dropping `begin` releases the helper: before the first tile is drained, and at any fault.
        let begin = stages.begins_together().then_some(begin);
        let mut held = begin.is_some().then_some(held);
        let mut run = Run { lanes: self, lender, stages, began, stop, begin, trace: Trace::default(), fault: None };
        let mut away = 0;
        for tile in 0..tiles {
            if run.lanes.order == Order::ComputeFirst {
                while let Ok(back) = backs.try_recv() {
                    away -= 1;
                    run.take(back);
                }
            }
            let Some(parcel) = run.fill(tile) else { break };
            let held = if tile == 1 { held.take() } else { None };
            match run.hand_over(tile, parcel, held, &hand_back) {
                Ok(()) => {
                    away += 1;
                    // Let the helper run on this CPU. Otherwise it would wait for a tick of the scheduler (4 ms), and all ranks would
                    // wait for it.
                    thread::yield_now();
                }
                Err(error) => run.stop(error, false),
            }
        }
        drop(hand_back);
        for _ in 0..away {
            match backs.recv() {
                Ok(back) => run.take(back),
                Err(_) => run.stop(gone(), false),
            }
        }
        run.trace.end = Nanos(began.elapsed().as_nanos() as f64);
        (run.trace, run.fault.map_or(Ok(()), Err))
    }
}

struct Run<'a, 's, P> {
    lanes: Lanes<'a, P>,
    lender: &'s Lender<'a, fn()>,
    stages: &'s mut dyn Stages<P>,
    began: Instant,
    stop: Arc<Mutex<bool>>,
    begin: Option<Sender<()>>,
    trace: Trace,
    fault: Option<Fault>,
}

impl<'a, P: Send + 'a> Run<'a, '_, P> {
    /// Keeps the first fault.
    fn stop(&mut self, error: Error, agreed: bool) {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.begin = None;
        self.fault.get_or_insert(Fault { error, agreed }).agreed |= agreed;
    }

    fn fill(&mut self, tile: usize) -> Option<P> {
        if self.fault.is_some() {
            return None;
        }
        let computes = self.lanes.order == Order::ComputeFirst;
        let mut parcel = None;
        self.caller(tile, computes, |stages| {
            let parcel = parcel.insert(stages.parcel(tile));
            stages.fill(tile, parcel)
        });
        if self.fault.is_some() {
            parcel.take().into_iter().for_each(|parcel| self.stages.put_back(parcel));
        }
        parcel
    }

    fn hand_over(
        &self,
        tile: usize,
        mut parcel: P,
        held: Option<Receiver<()>>,
        hand_back: &Sender<Back<P>>,
    ) -> Result<(), Error> {
        let (watch, send) = (self.lanes.watch, self.lanes.send);
        let (began, stop, hand_back) = (self.began, Arc::clone(&self.stop), hand_back.clone());
        let job = self.lender.lend(move || {
            if let Some(held) = held {
                // Nothing is ever sent there: this waits until the sender is dropped.
                let _ = held.recv();
            }
            let stopped = || stop.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut sent, mut fault) = (None, None);
            if !*stopped() {
                let start = since(began);
                let result = in_lane(Lane::Communicate, tile, watch, || Ok(send(tile, &mut parcel)));
                let span = TileSpan { start, end: since(began) };
                match result {
                    Ok(Ok(pace)) => sent = Some((span, pace)),
                    Ok(Err(failed)) => fault = Some(failed),
                    Err(error) => fault = Some(Fault { error, agreed: false }),
                }
                *stopped() |= fault.is_some();
            }
            // The receiver exists: the caller waits for all parcels.
            let _ = hand_back.send(Back { tile, parcel, sent, fault });
        });
        self.lanes.helper.submit(job)
    }

    fn take(&mut self, Back { tile, mut parcel, sent, fault }: Back<P>) {
        if let Some(Fault { error, agreed }) = fault {
            self.stop(error, agreed);
        }
        if self.begin.is_some() {
            self.stages.begin();
            self.begin = None;
        }
        if let Some((span, pace)) = sent {
            self.trace.communicate.push(span);
            self.trace.paces.push(pace);
            if self.fault.is_none() {
                let computes = self.lanes.order == Order::CommunicateFirst;
                self.caller(tile, computes, |stages| stages.drain(tile, &mut parcel));
            }
        }
        self.stages.put_back(parcel);
    }

    /// Runs a stage on the caller. If the stage is the computation, calls the watch and records the span.
    fn caller(&mut self, tile: usize, computes: bool, stage: impl FnOnce(&mut dyn Stages<P>) -> Result<(), String>) {
        let watch = self.lanes.watch.filter(|_| computes);
        let start = since(self.began);
        let done = in_lane(Lane::Compute, tile, watch, || stage(&mut *self.stages));
        match done {
            Ok(()) if computes => self.trace.compute.push(TileSpan { start, end: since(self.began) }),
            Ok(()) => {}
            Err(error) => self.stop(error, false),
        }
    }
}

fn since(began: Instant) -> Nanos {
    Nanos(began.elapsed().as_nanos() as f64)
}

/// Calls the watch and the stage, and catches panics.
pub(crate) fn in_lane<R>(
    lane: Lane,
    tile: usize,
    watch: Option<&Watch>,
    stage: impl FnOnce() -> Result<R, String>,
) -> Result<R, Error> {
    // A parcel or a result that a panic has left half done is not used any more.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        watch.map_or(Ok(()), |watch| watch(lane, tile))?;
        stage()
    }));
    match ran {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(why)) => Err(Error::Stopped { lane, tile, panicked: false, why }),
        Err(panic) => Err(Error::Stopped {
            lane,
            tile,
            panicked: true,
            why: message(&panic).unwrap_or("a panic without a message").to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Nothing;

    /// Panics at a tile, before or after it is communicated.
    struct Panics {
        at: Option<(usize, bool)>,
        drained: usize,
        begun: Arc<Mutex<bool>>,
    }

    impl Stages<Nothing> for Panics {
        fn parcel(&mut self, _: usize) -> Nothing {
            Nothing
        }

        fn fill(&mut self, tile: usize, _: &mut Nothing) -> Result<(), String> {
            assert_ne!(self.at, Some((tile, false)));
            Ok(())
        }

        fn drain(&mut self, tile: usize, _: &mut Nothing) -> Result<(), String> {
            assert_ne!(self.at, Some((tile, true)));
            self.drained += 1;
            Ok(())
        }

        fn begins_together(&self) -> bool {
            true
        }

        fn begin(&mut self) {
            // Long enough for a thread that does not wait to go ahead.
            thread::sleep(Duration::from_millis(1));
            *self.begun.lock().unwrap() = true;
        }
    }

    #[test]
    fn a_thread_that_is_held_is_let_go_whatever_happens() {
        let helper = Helper::start("held".to_owned()).unwrap();
        let run = |tiles, at, fails: Option<usize>| {
            let begun = Arc::new(Mutex::new(false));
            let (mut stages, sent) = (Panics { at, drained: 0, begun: begun.clone() }, Mutex::new(0));
            let is_whole = at.is_none() && fails.is_none();
            let send = move |_: usize, _: &mut Nothing| {
                let mut sent = sent.lock().unwrap();
                *sent += 1;
                assert!(!is_whole || (*sent > 1) == *begun.lock().unwrap(), "the second one waits for the caller");
                let error = Error::Thread { why: "failed".to_owned() };
                if fails == Some(*sent - 1) { Err(Fault { error, agreed: true }) } else { Ok(None) }
            };
            let order = Order::CommunicateFirst;
            let lanes = Lanes { helper: &helper, order, watch: None, send: &send };
            let (trace, ran) = lanes.run(tiles, &mut stages);
            (stages.drained, trace.communicate.len(), ran.is_ok())
        };
        for tiles in 0..5 {
            assert_eq!(run(tiles, None, None), (tiles, tiles, true));
            for tile in 0..tiles {
                assert!(!run(tiles, Some((tile, false)), None).2, "the fill of {tile} of {tiles}");
                assert!(!run(tiles, Some((tile, true)), None).2, "the drain of {tile} of {tiles}");
                assert!(!run(tiles, None, Some(tile)).2, "the communication of {tile} of {tiles}");
            }
        }
    }
}
