//! Batches: windows of consecutive documents, encoded by all threads and committed in order.
//!
//! # Glossary
//! * *Window*: consecutive bytes of the documents, about as many in each. It may have a thousand short documents, or a part of a long one.
//! * *Cut*: the end of a window inside of a document, where the grammar allows it.
//! * *Commit*: the copy of a window's ids to their place in the result.
//!
//! Threads take windows in order. A thread that is through with a window reserves the next part of the result if all windows before have
//! done so; otherwise it leaves its buffers to the thread that comes before. Copies run at the same time.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windrow::prelude::*;
use windrow_table::assembly::{Assembly, AssemblyPart};

use crate::encoder::{Lookup, Part};
use crate::engine::BpeEngine;
use crate::fault::PieceFault;
use crate::fault::TextError;
use crate::memory::reserve;

/// Bytes of a window, at most and at least. The largest one has its ids in the cache of a core.
const WINDOW: std::ops::RangeInclusive<usize> = (16 << 10)..=(96 << 10);

/// Windows for each thread, as long as they are not too small.
const WINDOWS_PER_THREAD: usize = 8;

/// The ids of a batch, and where those of each document begin and end.
///
/// ```
/// use windrow_bpe::Ragged;
///
/// let batch = Ragged { values: vec![5, 6, 7], offsets: vec![0, 2, 2, 3] };
/// assert_eq!(batch.len(), 3);
/// assert_eq!((batch.get(0), batch.get(1), batch.get(3)), (Some(&[5, 6][..]), Some(&[][..]), None));
/// assert!(batch.iter().map(<[u32]>::len).eq([2, 0, 1]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ragged {
    /// The ids of all documents, in order.
    pub values: Vec<u32>,
    /// One more than there are documents: document `n` has the ids from `offsets[n]` to `offsets[n + 1]`.
    pub offsets: Vec<u64>,
}

impl Ragged {
    /// Number of documents.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all documents, and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.offsets.clear();
    }

    /// Gives back the memory that the ids do not use. It stays if an allocator that copies them could not: that would end the process.
    pub fn shrink(&mut self) {
        let mut copy = Vec::<u32>::new();
        if self.values.capacity() > self.values.len() && copy.try_reserve_exact(self.values.len()).is_ok() {
            // Keeps the compiler from removing the allocation.
            drop(black_box(copy));
            self.values.shrink_to_fit();
        }
    }

    /// The ids of document `number`, or `None` if there are not so many.
    pub fn get(&self, number: usize) -> Option<&[u32]> {
        let &[begin, end] = self.offsets.get(number..)?.first_chunk()?;
        self.values.get(begin as usize..end as usize)
    }

    /// The ids of each document.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.offsets.windows(2).map(|ends| &self.values[ends[0] as usize..ends[1] as usize])
    }
}

/// A run of bytes of consecutive documents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The first document, and where in it.
    first: (usize, usize),
    /// The document behind the last, and where the span ends in it.
    last: (usize, usize),
    pub(crate) bytes: usize,
}

impl Span {
    pub(crate) fn parts<'a, T: AsRef<str>>(self, documents: &'a [T]) -> impl Iterator<Item = Part<'a>> + Clone {
        let Self { first: (first, from), last: (last, to), .. } = self;
        (first..=last).filter_map(move |number| {
            let text = documents.get(number)?.as_ref().as_bytes();
            let from = if number == first { from } else { 0 };
            let ends = number < last;
            let to = if ends { text.len() } else { to };
            (ends || to > from).then(|| Part { begins: from == 0, ..Part::text(&text[from..to], ends) })
        })
    }
}

impl Span {
    /// The number of the first document.
    pub(crate) fn first(self) -> usize {
        self.first.0
    }

    /// The document with the most bytes.
    pub(crate) fn largest<T: AsRef<str>>(self, documents: &[T]) -> usize {
        let numbers = self.first.0..documents.len().min(self.last.0 + 1);
        numbers.max_by_key(|&number| documents[number].as_ref().len()).unwrap_or(self.first.0)
    }
}

/// Divides documents into windows.
pub(crate) struct Windows<'a, T> {
    documents: &'a [T],
    /// The next document, and where in it.
    next: (usize, usize),
    /// Bytes of a window.
    window: usize,
    /// Bytes of all documents.
    bytes: usize,
    engine: &'a BpeEngine,
}

impl<T: AsRef<str>> Iterator for Windows<'_, T> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let first = self.next;
        let (mut number, mut from) = first;
        let mut bytes = 0;
        while bytes < self.window {
            let Some(document) = self.documents.get(number) else { break };
            let text = document.as_ref().as_bytes();
            let rest = text.len() - from;
            if bytes + rest > self.window + self.window / 4 {
                let cut = self.engine.cut(text, from + self.window - bytes);
                if let Some(cut) = cut {
                    bytes += cut - from;
                    from = cut;
                    break;
                }
            }
            bytes += rest;
            (number, from) = (number + 1, 0);
        }
        self.next = (number, from);
        (self.next != first).then_some(Span { first, last: self.next, bytes })
    }
}

/// The ids and ends of a window that waits for those before it.
#[derive(Default)]
struct Waiting {
    ids: Vec<u32>,
    ends: Vec<u32>,
}

/// Which windows have their place.
#[derive(Default)]
struct Order {
    /// The window that gets the next place.
    next: usize,
    waiting: HashMap<usize, Waiting>,
    /// Buffers to use again.
    free: Vec<Waiting>,
}

/// The result of a batch in the making.
struct Commits {
    space: Space,
    order: Mutex<Order>,
}

/// The memory of a result.
enum Space {
    /// There is space for all ids, and threads copy theirs at the same time.
    Known { values: Assembly<u32>, offsets: Assembly<u64> },
    /// The number of ids has no bound, and one thread at a time copies.
    Grown(Mutex<Ragged>),
}

/// The places of the ids and of the ends of a window.
type Place<'a> = (AssemblyPart<'a, u32>, AssemblyPart<'a, u64>);

impl Commits {
    /// The result follows that of `former`. `ids` is the maximum number of ids, if it is known.
    fn new(ids: Option<usize>, documents: usize, former: Ragged) -> Result<Self, usize> {
        let Ragged { mut values, mut offsets } = former;
        // The system gives memory for those that are written.
        reserve(&mut offsets, documents + 1)?;
        if offsets.is_empty() {
            offsets.push(0);
        }
        let space = match ids {
            Some(ids) => {
                reserve(&mut values, ids)?;
                Space::Known { values: Assembly::new(values), offsets: Assembly::new(offsets) }
            }
            None => Space::Grown(Mutex::new(Ragged { values, offsets })),
        };
        Ok(Self { space, order: Mutex::default() })
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a window, which comes next; `None` if it was copied at once. An error is the number of bytes that could not be allocated.
    fn reserve(&self, ids: &[u32], ends: &[u32]) -> Result<Option<Place<'_>>, usize> {
        match &self.space {
            Space::Known { values, offsets } => Ok(Some((values.reserve(ids.len()), offsets.reserve(ends.len())))),
            Space::Grown(batch) => {
                let mut batch = batch.lock().unwrap_or_else(PoisonError::into_inner);
                let base = batch.values.len() as u64;
                reserve(&mut batch.values, ids.len())?;
                batch.values.extend_from_slice(ids);
                batch.offsets.extend(ends.iter().map(|&end| base + u64::from(end)));
                Ok(None)
            }
        }
    }

    fn copy(place: Option<Place<'_>>, ids: &[u32], ends: &[u32]) {
        let Some((values, offsets)) = place else { return };
        let base = values.begin() as u64;
        values.copy_from(ids);
        offsets.fill(ends, |&end| base + u64::from(end));
    }

    /// Commits the window with this number, and those that waited for it. An error is the number of bytes that could not be allocated.
    fn commit(&self, number: usize, lookup: &mut Lookup) -> Result<(), usize> {
        let mut order = self.order();
        if order.next != number {
            let mut waiting = order.free.pop().unwrap_or_default();
            lookup.swap(&mut waiting.ids, &mut waiting.ends);
            order.waiting.insert(number, waiting);
            return Ok(());
        }
        let place = self.reserve(lookup.ids(), lookup.ends())?;
        let mut others = Vec::new();
        order.next += 1;
        loop {
            let next = order.next;
            let Some(waiting) = order.waiting.remove(&next) else { break };
            others.push((self.reserve(&waiting.ids, &waiting.ends)?, waiting));
            order.next += 1;
        }
        drop(order);
        Self::copy(place, lookup.ids(), lookup.ends());
        for (place, waiting) in others {
            Self::copy(place, &waiting.ids, &waiting.ends);
            self.order().free.push(waiting);
        }
        Ok(())
    }

    fn finish(self) -> Ragged {
        let all = "all windows were committed";
        match self.space {
            Space::Known { values, offsets } => {
                Ragged { values: values.into_vec().expect(all), offsets: offsets.into_vec().expect(all) }
            }
            Space::Grown(batch) => batch.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl BpeEngine {
    /// The ids of `documents`, by the threads of the current pool, or by this one alone if there is little to do.
    ///
    /// The result does not depend on threads. No memory is allocated for a document.
    ///
    /// ```
    /// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    ///
    /// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"ab".to_vec(), 256)]).collect();
    /// let merges = vec![(u32::from(b'a'), u32::from(b'b'))];
    /// let definition = Definition { grammar: Grammar::Gpt2, tokens, merges, ignore_merges: false, added: Vec::new(), nfc: false };
    /// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let batch = engine.encode_batch(&["abc", "", "cab"])?;
    /// assert_eq!(batch.values, [256, 99, 99, 256]);
    /// assert_eq!(batch.offsets, [0, 2, 2, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for the ids, or to merge a single long piece.
    pub fn encode_batch<T: AsRef<str> + Sync>(&self, documents: &[T]) -> Result<Ragged, TextError> {
        let mut batch = Ragged::default();
        self.encode_batch_into(documents, &mut batch)?;
        batch.shrink();
        Ok(batch)
    }

    /// [`encode_batch`](Self::encode_batch) into the memory of `batch`, whose items it replaces. Memory that was used before need not be cleared by
    /// the system again. It has space for an id a byte, or more if the engine normalizes.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar, Ragged};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let mut batch = Ragged::default();
    /// engine.encode_batch_into(&["abc", "d"], &mut batch)?;
    /// let memory = batch.values.capacity();
    /// engine.encode_batch_into(&["e"], &mut batch)?;
    /// assert_eq!((batch.values.as_slice(), batch.values.capacity()), (&[101][..], memory));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`encode_batch`](Self::encode_batch); `batch` is then empty.
    pub fn encode_batch_into<T: AsRef<str> + Sync>(
        &self,
        documents: &[T],
        batch: &mut Ragged,
    ) -> Result<(), TextError> {
        self.encode_batch_while(documents, batch, &|| true).map(drop)
    }

    /// [`encode_batch_into`](Self::encode_batch_into) as long as `goes_on` returns true, which each thread calls before each window: after some
    /// tenths of a millisecond. Returns whether it has encoded all documents; `batch` is empty otherwise.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar, Ragged};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let (goes_on, mut batch) = (AtomicBool::new(true), Ragged::default());
    /// assert!(engine.encode_batch_while(&["abc"], &mut batch, &|| goes_on.load(Ordering::Relaxed))?);
    /// goes_on.store(false, Ordering::Relaxed);
    /// assert!(!engine.encode_batch_while(&["abc"], &mut batch, &|| goes_on.load(Ordering::Relaxed))?);
    /// assert!(batch.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`encode_batch`](Self::encode_batch); `batch` is then empty.
    pub fn encode_batch_while<T: AsRef<str> + Sync>(
        &self,
        documents: &[T],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, TextError> {
        batch.clear();
        self.append_batch_while(documents, batch, goes_on)
    }

    /// [`encode_batch_while`](Self::encode_batch_while), but `documents` follow those of `batch`: for callers that get a batch piece by piece.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar, Ragged};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let mut batch = Ragged::default();
    /// for piece in [["ab", "c"], ["", "d"]] {
    ///     engine.append_batch_while(&piece, &mut batch, &|| true)?;
    /// }
    /// assert_eq!(batch.offsets, [0, 2, 3, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`encode_batch`](Self::encode_batch), with the number of the document in `documents`; `batch` is then empty.
    pub fn append_batch_while<T: AsRef<str> + Sync>(
        &self,
        documents: &[T],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, TextError> {
        let threads = windrow::current_num_threads();
        let windows = self.windows(documents, threads);
        let commits = Commits::new(self.most_ids(windows.bytes), documents.len(), std::mem::take(batch))
            .map_err(|bytes| TextError { document: 0, fault: PieceFault::NoMemory(bytes) })?;
        // An error without a reason is a stop.
        let encode = |(number, span): (usize, Span)| {
            if !goes_on() {
                return Err(None);
            }
            self.with_worker(|worker| {
                let outcome = self.window(worker, documents, span);
                let missing = commits.commit(number, &mut worker.lookup).err();
                let missing = missing
                    .map(|bytes| TextError { document: span.largest(documents), fault: PieceFault::NoMemory(bytes) });
                outcome.and(missing.map_or(Ok(()), Err)).map_err(Some)
            })
        };
        let outcome = if windows.bytes <= windows.window || threads == 1 {
            windows.enumerate().try_for_each(encode)
        } else {
            windows.enumerate().par_bridge().try_for_each(encode)
        };
        match outcome {
            Ok(()) => {
                *batch = commits.finish();
                Ok(true)
            }
            Err(None) => Ok(false),
            Err(Some(failed)) => Err(failed),
        }
    }

    /// The windows of a batch for so many threads.
    pub(crate) fn windows<'a, T: AsRef<str>>(&'a self, documents: &'a [T], threads: usize) -> Windows<'a, T> {
        let bytes: usize = documents.iter().map(|document| document.as_ref().len()).sum();
        let window = match threads {
            1 => *WINDOW.end(),
            _ => (bytes / (threads * WINDOWS_PER_THREAD)).clamp(*WINDOW.start(), *WINDOW.end()),
        };
        Windows { documents, next: (0, 0), window, bytes, engine: self }
    }
}
