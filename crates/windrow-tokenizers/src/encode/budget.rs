//! The memory budget of the documents in flight.
//!
//! Three stages use it. The reader reserves memory before it allocates, and waits while there is none. The encode stage reports the memory of a
//! batch's ids. The writer releases everything. Only readers ever wait. While the stages are empty, the reader that feeds them does not wait: a
//! reservation of any size is granted. So a document larger than the budget is the only one in the stages, and no circular wait is possible.
//!
//! Other readers may read ahead into a half of the budget, as far as the stages leave room. The reader that the stages wait for may take more than
//! the half.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::input::{InputFile, Stopped};
use crate::tokenizer::LoadOptions;

/// Bytes of one batch: of its records, of its ids once it is encoded, and of the engine's memory until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) records: usize,
    pub(super) ids: Option<usize>,
    work: usize,
    /// True while the batch is being encoded.
    is_working: bool,
}

impl Held {
    /// The bytes reserved for the batch. An id takes four bytes, and usual text has no more ids than bytes. So until the ids are known,
    /// four times as much is reserved for them as for the records.
    fn reserved(self) -> usize {
        let ids = self.ids.unwrap_or_else(|| self.records.saturating_mul(size_of::<u32>()));
        self.records.saturating_add(ids).saturating_add(self.work)
    }

    /// The bytes that the batch actually uses.
    fn taken(self) -> usize {
        let work = if self.is_working { self.work } else { 0 };
        self.records.saturating_add(self.ids.unwrap_or(0)).saturating_add(work)
    }
}

/// Bytes that a worker needs in addition to the documents in flight, with those that the allocator keeps for its thread.
const WORKER: usize = 6 << 20;

/// A cache that is no larger than the pieces of a vocabulary counts as a part of the tokenizer.
const VOCABULARY: usize = 24 << 20;

/// The division of a run's memory, so that the whole run takes about its budget plus the tokenizer.
///
/// ```
/// use windrow_tokenizers::encode::{Job, MemoryShares};
/// use windrow_tokenizers::tokenizer::LoadOptions;
///
/// let shares = MemoryShares::new(1 << 30, 8);
/// let options = LoadOptions { cache_bytes: shares.cache_bytes, ..LoadOptions::default() };
/// let job = Job { memory: shares.documents, threads: 8, ..Job::new(Vec::new()) };
/// assert!(options.cache_bytes + job.memory < 1 << 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// Bytes for [`LoadOptions::cache_bytes`](crate::tokenizer::LoadOptions::cache_bytes).
    pub cache_bytes: usize,
    /// Bytes for [`Job::memory`](super::Job::memory).
    pub documents: usize,
}

impl MemoryShares {
    /// The shares of `memory` bytes with this number of threads that encode: a quarter for the engine's cache, some MiB for each thread, and the
    /// rest, but at least an eighth, for the documents.
    pub fn new(memory: usize, threads: usize) -> Self {
        let most = LoadOptions::default().cache_bytes;
        let cache_bytes = (memory / 4).clamp(VOCABULARY, most);
        let others = (cache_bytes - VOCABULARY).saturating_add(threads.saturating_mul(WORKER));
        Self { cache_bytes, documents: memory.saturating_sub(others).max(memory / 8) }
    }

    /// The shares of a run that reads this number of inputs at a time: the buffers for reading are taken from the documents, which keep a half of
    /// their share.
    pub fn with_readers(self, inputs: &[InputFile], readers: usize) -> Self {
        let largest = inputs.iter().map(InputFile::buffer_bytes).max().unwrap_or(0);
        let buffers = largest.saturating_mul(readers.min(inputs.len()));
        Self { documents: self.documents.saturating_sub(buffers).max(self.documents / 2), ..self }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The batch that is being read.
    filling: Held,
    /// The reservations of all other batches.
    reserved: usize,
    taken: usize,
    /// Bytes of the batches that are read ahead.
    ahead: usize,
    /// The reader ahead that the stages wait for.
    wanted: Option<u32>,
    peak: usize,
    closed: bool,
}

impl State {
    /// Bytes of all reservations, with those of `filling` for the batch that is being read.
    fn total(&self, filling: Held) -> usize {
        self.reserved.saturating_add(filling.reserved()).saturating_add(self.ahead)
    }

    fn note_peak(&mut self) {
        let ahead = self.ahead.saturating_add(self.filling.taken());
        self.peak = self.peak.max(self.taken.saturating_add(ahead));
    }
}

#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    /// The value of [`Engine::working_bytes`](crate::engine::Engine::working_bytes).
    working_bytes: usize,
    state: Mutex<State>,
    released: Condvar,
}

impl Budget {
    pub(super) fn new(limit: usize, working_bytes: usize) -> Self {
        Self { limit, working_bytes, state: Mutex::default(), released: Condvar::new() }
    }

    /// The bytes that a document of `document` bytes takes until it is encoded, if they exceed the budget.
    pub(super) fn exceeds(&self, document: usize) -> Option<usize> {
        let expected = document.saturating_mul(self.working_bytes.saturating_add(1));
        (expected > self.limit).then_some(expected)
    }

    /// Reserves `more` bytes for the records of the batch that is being read. Waits until they are available or nothing else is in
    /// flight.
    pub(super) fn reserve(&self, more: usize) -> Result<(), Stopped> {
        self.fill(more, 0)
    }

    /// Makes a batch that was read ahead the one that is being read. Waits like [`reserve`](Self::reserve).
    pub(super) fn adopt(&self, held: usize) -> Result<(), Stopped> {
        self.fill(held, held)
    }

    /// Reserves `more` bytes, `ahead` of which were read ahead.
    fn fill(&self, more: usize, ahead: usize) -> Result<(), Stopped> {
        let filling = |state: &State| {
            let records = state.filling.records.saturating_add(more);
            Held { records, work: records.saturating_mul(self.working_bytes), ..Held::default() }
        };
        let fits = |now: &State| now.reserved == 0 || now.total(filling(now)).saturating_sub(ahead) <= self.limit;
        let mut state = self.wait_for(more, fits)?;
        state.filling = filling(&state);
        state.ahead -= ahead;
        state.note_peak();
        if ahead > 0 {
            drop(state);
            self.released.notify_all();
        }
        Ok(())
    }

    /// Waits until `more` bytes fit, if any.
    fn wait_for(&self, more: usize, fits: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Stopped> {
        let waits = |state: &mut State| more > 0 && !state.closed && !fits(state);
        let state = self.released.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.closed { Err(Stopped) } else { Ok(state) }
    }

    /// Reserves `more` bytes for the reader with this number, which reads ahead. Waits until they are available, or the stages are empty and wait for
    /// the reader.
    pub(super) fn reserve_ahead(&self, reader: u32, more: usize) -> Result<(), Stopped> {
        let fits = |state: &State| {
            let is_wanted = state.wanted == Some(reader);
            let has_share = is_wanted || state.ahead.saturating_add(more) <= self.limit / 2;
            let has_room = state.total(state.filling).saturating_add(more) <= self.limit;
            (has_share && has_room) || (is_wanted && state.reserved == 0)
        };
        let mut state = self.wait_for(more, fits)?;
        state.ahead = state.ahead.saturating_add(more);
        state.note_peak();
        Ok(())
    }

    /// Records that the stages wait for the next batch of this reader ahead.
    pub(super) fn want(&self, reader: u32) {
        self.state().wanted = Some(reader);
        self.released.notify_all();
    }

    /// Records that this reader ahead has a batch for the stages.
    pub(super) fn delivered(&self, reader: u32) {
        self.state().wanted.take_if(|wanted| *wanted == reader);
    }

    /// Releases bytes that were read ahead.
    pub(super) fn release_ahead(&self, bytes: usize) {
        self.state().ahead -= bytes;
        self.released.notify_all();
    }

    /// Completes the batch that was being read, and begins the next one. No more than `at_once` bytes of the batch are encoded at a time.
    pub(super) fn hand_on(&self, at_once: usize) -> Held {
        let mut state = self.state();
        let mut held = std::mem::take(&mut state.filling);
        held.work = held.work.min(at_once.saturating_mul(self.working_bytes));
        state.reserved += held.reserved();
        state.taken += held.taken();
        held
    }

    /// Reports that a batch is being encoded.
    pub(super) fn begins(&self, held: &mut Held) {
        let before = *held;
        held.is_working = true;
        self.replace(before, *held);
    }

    /// Reports the memory of a batch's ids.
    pub(super) fn encoded(&self, held: &mut Held, ids: usize) {
        let before = *held;
        *held = Held { records: held.records, ids: Some(ids), ..Held::default() };
        self.replace(before, *held);
    }

    /// Releases the memory of a batch.
    pub(super) fn release(&self, held: Held) {
        self.replace(held, Held { ids: Some(0), ..Held::default() });
    }

    fn replace(&self, before: Held, after: Held) {
        let mut state = self.state();
        state.reserved = state.reserved - before.reserved() + after.reserved();
        state.taken = state.taken - before.taken() + after.taken();
        state.note_peak();
        drop(state);
        self.released.notify_all();
    }

    /// Ends the run: refuses the waiting reservation and all later ones.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.released.notify_all();
    }

    /// The maximum that was in use at any time.
    pub(super) fn peak(&self) -> usize {
        self.state().peak
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is a single assignment to a number, so a panic leaves no inconsistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn shares_add_up_unless_the_budget_is_tiny() {
        let mib = |bytes: usize| bytes >> 20;
        for (memory, threads, cache, documents) in
            [(1 << 30, 2, 128, 908), (256 << 20, 8, 64, 168), (64 << 20, 2, 24, 52), (16 << 20, 8, 24, 2)]
        {
            let shares = MemoryShares::new(memory, threads);
            assert_eq!((mib(shares.cache_bytes), mib(shares.documents)), (cache, documents));
        }
        assert_eq!(MemoryShares::new(usize::MAX, usize::MAX).cache_bytes, 128 << 20);
    }

    #[test]
    fn room_for_the_ids_is_set_aside_until_they_are_known() {
        let budget = Budget::new(300, 0);
        budget.reserve(20).unwrap();
        budget.reserve(10).unwrap();
        let mut held = budget.hand_on(usize::MAX);
        assert_eq!((held.reserved(), held.taken()), (150, 30));
        budget.reserve(20).unwrap();
        assert_eq!(budget.peak(), 50);
        budget.encoded(&mut held, 7);
        assert_eq!((held.reserved(), held.taken()), (37, 37));
        assert_eq!(budget.peak(), 57);
        budget.release(held);
        assert_eq!(budget.state().reserved, 0);
        assert_eq!(budget.state().taken, 0);
        assert_eq!(budget.peak(), 57);
    }

    #[test]
    fn what_the_engine_needs_is_reserved_until_a_batch_is_encoded() {
        let budget = Budget::new(1000, 40);
        assert_eq!((budget.exceeds(24), budget.exceeds(25)), (None, Some(1025)));
        budget.reserve(20).unwrap();
        // Two documents of 5 bytes at a time.
        let mut held = budget.hand_on(10);
        assert_eq!((held.reserved(), held.taken()), (20 + 80 + 400, 20));
        budget.begins(&mut held);
        assert_eq!((held.reserved(), budget.peak()), (500, 420));
        budget.encoded(&mut held, 7);
        assert_eq!((held.reserved(), held.taken()), (27, 27));
        budget.release(held);
        assert_eq!(budget.peak(), 420);
        let state = budget.state();
        assert_eq!((state.reserved, state.taken), (0, 0));
    }

    #[test]
    fn a_single_batch_gets_everything_and_several_only_what_fits() {
        let budget = Arc::new(Budget::new(100, 0));
        budget.reserve(1_000).unwrap();
        budget.reserve(1_000).unwrap();
        let large = budget.hand_on(usize::MAX);
        budget.reserve(0).expect("asking for nothing never waits");
        let (granted, grants) = mpsc::channel();
        let reader = thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                let outcome = budget.reserve(1);
                granted.send(budget.peak()).unwrap();
                outcome
            }
        });
        assert!(grants.try_recv().is_err(), "granted together with the large one");
        budget.release(large);
        assert_eq!(grants.recv(), Ok(2_000));
        assert_eq!(reader.join().unwrap(), Ok(()));
    }

    /// Reserves bytes for reader 1 on another thread, which reports the grant.
    fn ask_ahead(budget: &Arc<Budget>, more: usize) -> mpsc::Receiver<()> {
        let (granted, grants) = mpsc::channel();
        let budget = Arc::clone(budget);
        thread::spawn(move || {
            budget.reserve_ahead(1, more).unwrap();
            granted.send(()).unwrap();
        });
        grants
    }

    #[test]
    fn what_is_read_ahead_takes_up_to_a_half_unless_it_is_wanted() {
        let budget = Arc::new(Budget::new(100, 0));
        budget.reserve_ahead(1, 40).unwrap();
        let grants = ask_ahead(&budget, 20);
        assert!(grants.try_recv().is_err(), "granted beyond the half");
        budget.want(2);
        assert!(grants.try_recv().is_err(), "granted to another than the wanted one");
        budget.want(1);
        assert_eq!(grants.recv(), Ok(()));
        assert_eq!(budget.state().ahead, 60);
        budget.adopt(60).unwrap();
        assert_eq!(budget.state().ahead, 0);
        assert_eq!(budget.hand_on(usize::MAX).taken(), 60);
        assert_eq!(budget.peak(), 60);
    }

    #[test]
    fn what_is_read_ahead_leaves_the_stages_what_they_have() {
        let budget = Arc::new(Budget::new(100, 0));
        budget.reserve(18).unwrap();
        let held = budget.hand_on(usize::MAX);
        budget.reserve_ahead(1, 10).unwrap();
        let grants = ask_ahead(&budget, 10);
        budget.want(1);
        assert!(grants.recv_timeout(Duration::from_millis(50)).is_err(), "granted beyond the budget");
        budget.release(held);
        assert_eq!(grants.recv(), Ok(()));
        assert_eq!(budget.peak(), 28);
    }

    #[test]
    fn closing_refuses_also_the_one_that_waits() {
        let budget = Arc::new(Budget::new(10, 0));
        budget.reserve(10).unwrap();
        budget.hand_on(usize::MAX);
        let reader = thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.reserve(1)
        });
        let ahead = thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.reserve_ahead(1, 6)
        });
        budget.close();
        assert_eq!(reader.join().unwrap(), Err(Stopped));
        assert_eq!(ahead.join().unwrap(), Err(Stopped));
        assert_eq!((budget.reserve(0), budget.reserve_ahead(1, 0)), (Err(Stopped), Err(Stopped)));
    }

    #[test]
    fn sizes_near_the_largest_do_not_overflow() {
        let budget = Budget::new(usize::MAX, 0);
        budget.reserve(usize::MAX - 1).unwrap();
        budget.reserve(usize::MAX - 1).unwrap();
        assert_eq!(budget.peak(), usize::MAX);
    }
}
