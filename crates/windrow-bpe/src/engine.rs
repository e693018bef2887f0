//! The engine: definition, batches, decoding.

use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use windrow_sync::table::InsertOnlyTable;

use crate::added::{Added, AddedToken};
use crate::cache::{Cache, KEY_BYTES};
use crate::encoder::{Counts, Part, Shared, Window, Worker};
use crate::grammar::Grammar;
use crate::model::{MergeScratch, Model};
use crate::scan::Around;
use crate::simd::InstructionSet;
use crate::unicode::Classes;

/// A byte-level BPE tokenizer, as data.
#[derive(Clone, Debug)]
pub struct Definition {
    /// How text is split into pieces.
    pub grammar: Grammar,
    /// The bytes of each token and its id. Every byte must be a token.
    pub tokens: Vec<(Vec<u8>, u32)>,
    /// The ids of the two tokens of each merge, in the order of their priorities.
    pub merges: Vec<(u32, u32)>,
    /// Whether a piece that is a token becomes that token, whatever the merges would make of it.
    pub ignore_merges: bool,
    /// Texts that are a token wherever they stand.
    pub added: Vec<AddedToken>,
}

/// Why an engine cannot encode with a [`Definition`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unsupported(String);

/// Settings of an [`Engine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Maximum memory of the cache in bytes.
    pub cache_bytes: usize,
    /// Whether the cache begins with all tokens of the vocabulary. That takes about 0.4 us a token, which the first megabytes of text pay back.
    pub seeded: bool,
    /// The instruction set, by name; the best one of this CPU if `None`.
    pub instructions: Option<&'static str>,
}

impl Default for EngineOptions {
    /// 128 MiB, seeded, the best instructions.
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, seeded: true, instructions: None }
    }
}

/// Slots of the first table, for each token of the vocabulary.
const SLOTS_PER_TOKEN: usize = 6;

/// The first table has no more slots than this: 36 MiB.
const FIRST_SLOTS: usize = 1 << 20;

/// Encodes text with one vocabulary. All threads share what it learns.
///
/// The ids are those of Hugging Face's `tokenizers` 0.23 for the same vocabulary, whatever was encoded before, and by how many threads.
pub struct Engine {
    grammar: Grammar,
    model: Model,
    added: Added,
    cache: Cache,
    set: InstructionSet,
    workers: Mutex<Vec<Box<Worker>>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("grammar", &self.grammar).field("set", &self.set).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine for `definition`.
    ///
    /// # Errors
    /// A byte is no token, two tokens have the same bytes, a merge is of unknown tokens, an id is 1,048,575 or more, or the added tokens begin
    /// with more than two different bytes.
    pub fn new(definition: &Definition, options: &EngineOptions) -> Result<Self, Unsupported> {
        let Definition { grammar, tokens, merges, ignore_merges, added } = definition;
        let model = Model::new(tokens, merges, *ignore_merges).map_err(Unsupported)?;
        let sets = InstructionSet::available();
        let set = match options.instructions {
            None => Some(&sets[0]),
            Some(name) => sets.iter().find(|set| set.name() == name),
        };
        let set = *set.ok_or_else(|| Unsupported(format!("this CPU has no {}", options.instructions.unwrap_or("?"))))?;
        let slots = (tokens.len() * SLOTS_PER_TOKEN).min(FIRST_SLOTS);
        let engine = Self {
            grammar: *grammar,
            model,
            added: Added::new(added).map_err(Unsupported)?,
            cache: Cache::new(set, slots, options.cache_bytes),
            set,
            workers: Mutex::default(),
        };
        if options.seeded {
            engine.seed();
        }
        Ok(engine)
    }

    /// Lets the cache learn all short tokens: not as themselves, but as what the merges make of them.
    fn seed(&self) {
        let (table, mut scratch) = (self.cache.table(), MergeScratch::default());
        for token in self.model.tokens().filter(|token| token.len() <= KEY_BYTES) {
            let ids = self.model.encode(token, &mut scratch);
            self.cache.learn(&table, token, ids);
        }
    }

    /// How text is split into pieces.
    pub fn grammar(&self) -> Grammar {
        self.grammar
    }

    /// The name of the instruction set in use.
    pub fn instructions(&self) -> &'static str {
        self.set.name()
    }

    /// The id of the token with these bytes. Added tokens are not searched.
    pub fn token_to_id(&self, bytes: &[u8]) -> Option<u32> {
        self.model.vocabulary().id(bytes)
    }

    /// The bytes of a token of the vocabulary; empty if it has none with this id.
    pub fn token(&self, id: u32) -> &[u8] {
        self.model.vocabulary().token(id)
    }

    /// What the threads have done so far, as far as they are through with their windows.
    pub fn counts(&self) -> Counts {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().fold(Counts::default(), |sum, worker| {
            let Counts { pieces, misses } = worker.lookup.counts;
            Counts { pieces: sum.pieces + pieces, misses: sum.misses + misses }
        })
    }

    /// Used slots and all slots of the cache, and its bytes of memory.
    pub fn cache_size(&self) -> (usize, usize, usize) {
        let table = self.cache.table();
        (table.used(), table.capacity(), table.bytes())
    }

    /// Appends the ids of `text` to `ids`, on this thread.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let part = Part { text: text.as_bytes(), ends: true };
        self.with_worker(|worker, table| {
            self.window(worker, &table, std::iter::once(part), text.len());
            ids.extend_from_slice(worker.lookup.ids());
        });
    }

    /// Encodes one window with the buffers of `worker`.
    pub(crate) fn window<'a>(
        &self,
        worker: &mut Worker,
        table: &Arc<InsertOnlyTable>,
        parts: impl Iterator<Item = Part<'a>>,
        bytes: usize,
    ) {
        let around = Around { classes: Classes::get(), added: &self.added };
        let shared = Shared { grammar: self.grammar, model: &self.model, around, cache: &self.cache };
        self.set.run(Window { shared: &shared, table, worker, parts, bytes });
        self.cache.grow(table);
    }

    /// A place from `from` on where `text` can be cut without changing its ids.
    pub(crate) fn cut(&self, text: &[u8], mut from: usize) -> Option<usize> {
        loop {
            let cut = self.grammar.cut(text, from, text.len())?;
            if !self.added.may_span(text, cut) {
                return Some(cut);
            }
            from = cut + 1;
        }
    }

    /// Runs `body` with the buffers of a thread and the current table.
    pub(crate) fn with_worker<R>(&self, body: impl FnOnce(&mut Worker, Arc<InsertOnlyTable>) -> R) -> R {
        let kept = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut worker = kept.unwrap_or_else(Worker::new);
        let result = body(&mut worker, self.cache.table());
        // One that panics unwinds past this line and is not used again.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        result
    }
}
