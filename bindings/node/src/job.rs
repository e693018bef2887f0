//! Jobs: a batch that the thread of an event loop copies piece by piece, while threads of the pool process the copied pieces.
//!
//! A job is on the pool only while it has work to do. It goes there when its copy is complete or takes long, and leaves when no item is
//! complete. So a job that waits for its event loop blocks no thread.

use std::collections::VecDeque;
use std::mem::take;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{Float64Array, Float64ArraySlice, ToNapiValue};

use crate::door::{Answer, Outcome, enter, outcome, send};
use crate::environment::{Environment, with_one_thread_less};
use crate::failure::Failure;
use crate::spare::Spare;

/// Memory for the units of items.
pub(crate) trait Store: AsRef<[Self::Unit]> + Default + Send + Sync + 'static {
    type Unit: Copy;

    /// Adds units, and the `ends` of items in them, as JavaScript counts them there, to `all`, which count in this memory.
    fn add(&mut self, units: &[Self::Unit], ends: &[u32], all: &mut Vec<usize>) -> Result<(), Failure>;

    fn units(&self) -> usize {
        self.as_ref().len()
    }

    fn clear(&mut self);

    /// Pieces that were processed.
    fn spare() -> &'static Spare<Piece<Self>>;
}

/// Consecutive items, copied.
#[derive(Default)]
pub(crate) struct Piece<S> {
    pub(crate) store: S,
    /// After the last end, the start of another item may follow.
    pub(crate) ends: Vec<usize>,
}

impl<S: Store> Piece<S> {
    fn is_complete(&self) -> bool {
        self.ends.last().copied().unwrap_or(0) == self.store.units()
    }

    /// Keeps the memory, if it has the size of a usual piece.
    fn give_back(mut self) {
        if self.store.units() <= LARGEST {
            self.store.clear();
            self.ends.clear();
            S::spare().give_back(self);
        }
    }
}

/// Number of pieces that are kept, which is the number by which a copy may be ahead.
pub(crate) const SPARE_PIECES: usize = 32;

/// Maximum units of a piece that is kept: a little more than a usual piece has.
const LARGEST: usize = 1 << 20;

/// The work of a job on its items.
pub(crate) trait Work: Send + 'static {
    /// The memory of its items.
    type Store: Store;
    type Output: Send + 'static;
    /// The type of its outcome in JavaScript.
    type Js: ToNapiValue + 'static;

    /// Processes items that follow the earlier ones.
    fn add(&mut self, pieces: &[Piece<Self::Store>], goes_on: &(dyn Fn() -> bool + Sync)) -> Result<(), Failure>;

    fn finish(self) -> Result<Self::Output, Failure>;

    /// Runs on the thread of JavaScript. Up to `copied` values go into memory of JavaScript.
    fn to_js(output: Self::Output, env: &Env, copied: usize) -> napi::Result<Self::Js>;
}

/// The outcome for JavaScript, on its thread: see [`Work::to_js`].
pub(crate) fn outcome_to_js<W: Work>(
    found: Outcome<W::Output>,
    env: &Env,
    copied: usize,
) -> napi::Result<Outcome<W::Js>> {
    Ok(match found {
        Outcome::A(output) => Outcome::A(W::to_js(output, env, copied)?),
        Outcome::B(failure) => Outcome::B(failure),
    })
}

pub(crate) struct Job<W: Work> {
    environment: Environment,
    is_stopped: AtomicBool,
    state: Mutex<State<W>>,
}

struct State<W: Work> {
    /// None while a thread uses it, and from the last outcome on.
    work: Option<W>,
    /// Copied pieces that are not processed yet. All but the last one are complete.
    pieces: VecDeque<Piece<W::Store>>,
    /// The callback for the outcome, set when there are no more items.
    answer: Option<Answer<W::Output, W::Js>>,
    failure: Option<Failure>,
}

impl<W: Work> State<W> {
    fn has_complete(&self) -> bool {
        self.pieces.front().is_some_and(Piece::is_complete)
    }

    fn waiting(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.is_complete()).map(|piece| piece.store.units()).sum()
    }

    /// The pieces to process next. While more are to come, it is a single one: the number of threads may change after it.
    fn take(&mut self) -> Vec<Piece<W::Store>> {
        let count = if self.answer.is_some() { self.pieces.len() } else { usize::from(self.has_complete()) };
        self.pieces.drain(..count).collect()
    }
}

impl<W: Work> Job<W> {
    pub(crate) fn new(work: W) -> Arc<Self> {
        let state = State { work: Some(work), pieces: VecDeque::new(), answer: None, failure: None };
        Arc::new(Self {
            environment: Environment::current(),
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Adds units, and the ends of items among them. Returns the number of units that wait in complete items.
    pub(crate) fn push(&self, units: &[<W::Store as Store>::Unit], ends: &[u32]) -> usize {
        let state = &mut *self.state();
        let is_open = state.pieces.back().is_some_and(|last| !last.is_complete());
        let has_some = !units.is_empty() || !ends.is_empty();
        if has_some && !is_open {
            state.pieces.push_back(W::Store::spare().take());
        }
        if let Some(Piece { store, ends: all }) = state.pieces.back_mut()
            && let Err(failure) = store.add(units, ends, all)
        {
            state.failure.get_or_insert(failure);
        }
        state.waiting()
    }

    /// Number of units that wait in complete items.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting()
    }

    /// Brings the job to the pool, if it has work to do and is not there.
    pub(crate) fn begin(self: &Arc<Self>) {
        let mut state = self.state();
        let has_to_do = state.has_complete() || state.answer.is_some();
        if let Some(work) = state.work.take_if(|_| has_to_do) {
            drop(state);
            let job = Arc::clone(self);
            windrow::spawn(move || job.run(work));
        }
    }

    /// There are no more items: `answer` gets the outcome.
    pub(crate) fn finish(self: &Arc<Self>, answer: Answer<W::Output, W::Js>) {
        self.state().answer = Some(answer);
        self.begin();
    }

    /// Processes all items here, for a job that was never [begun](Self::begin).
    pub(crate) fn finish_here(&self, env: &Env, copied: usize) -> napi::Result<Outcome<W::Js>> {
        let mut state = self.state();
        let (work, failure) = (state.work.take(), state.failure.take());
        let pieces = state.pieces.drain(..).collect();
        drop(state);
        let found = enter(|| {
            failure.map_or(Ok(()), Err)?;
            let mut work = work.ok_or_else(|| Failure::other("the batch has ended"))?;
            self.add(&mut work, pieces)?;
            work.finish()
        });
        outcome_to_js::<W>(outcome(found), env, copied)
    }

    pub(crate) fn stop(&self) {
        // Relaxed: a thread may see it late.
        self.is_stopped.store(true, Ordering::Relaxed);
        // The collector of JavaScript keeps a stopped job for a while, and does not see this memory.
        let mut state = self.state();
        state.pieces.clear();
        if state.answer.is_none() {
            state.work = None;
        }
    }

    fn run(&self, mut work: W) {
        loop {
            let mut state = self.state();
            let pieces = state.take();
            if pieces.is_empty() || state.failure.is_some() {
                let goes_on = self.goes_on();
                let Some(answer) = state.answer.take() else {
                    state.work = goes_on.then_some(work);
                    return;
                };
                let stopped = (!goes_on).then(Failure::stopped);
                let failure = state.failure.take().or(stopped);
                let rest = take(&mut state.pieces);
                drop(state);
                drop(rest);
                send(&answer, failure.map_or_else(|| enter(|| work.finish()), Err));
                return;
            }
            let is_copied = state.answer.is_some();
            drop(state);
            let add = || self.add(&mut work, pieces);
            let added = enter(|| if is_copied { add() } else { with_one_thread_less(add) });
            if let Err(failure) = added {
                self.state().failure = Some(failure);
            }
        }
    }

    fn add(&self, work: &mut W, pieces: Vec<Piece<W::Store>>) -> Result<(), Failure> {
        work.add(&pieces, &|| self.goes_on())?;
        pieces.into_iter().for_each(Piece::give_back);
        if self.goes_on() { Ok(()) } else { Err(Failure::stopped()) }
    }

    fn goes_on(&self) -> bool {
        // Relaxed: see `stop`.
        !self.is_stopped.load(Ordering::Relaxed) && !self.environment.is_closed()
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) type Done = std::result::Result<(), Failure>;

/// The place of each item, from the `ends` of all.
pub(crate) fn ranges(ends: &[usize]) -> impl Iterator<Item = Range<usize>> {
    [0].into_iter().chain(ends.iter().copied()).zip(ends).map(|(begin, &end)| begin..end)
}

/// The texts of pieces.
pub(crate) fn texts(pieces: &[Piece<String>]) -> std::result::Result<Vec<&str>, Failure> {
    let all = pieces.iter().flat_map(|piece| ranges(&piece.ends).map(|range| piece.store.get(range)));
    all.map(|text| text.ok_or_else(|| Failure::other("a text ends inside a character"))).collect()
}

pub(crate) fn numbers_to_js(numbers: Vec<f64>, env: &Env, copied: usize) -> napi::Result<Float64Array> {
    if numbers.len() > copied {
        return Ok(Float64Array::new(numbers));
    }
    Float64ArraySlice::copy_from(env, &numbers)?.into_typed_array(env)
}
