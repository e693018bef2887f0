//! The engine: definition, batches, decoding.

use std::sync::Mutex;

use windrow_table::table::InsertOnlyTable;

use crate::added::{Added, AddedToken};
use crate::batch::Span;
use crate::cache::Cache;
use crate::cuts::TextCuts;
use crate::encoder::{Bounds, Counts, Part, Shared, Window, Worker};
use crate::fault::{PieceFault, TextError, Unsupported};
use crate::grammar::Grammar;
use crate::memory::{lock_briefly, reserve};
use crate::model::Model;
use crate::nfc;
use crate::pieces::{PieceEncoder, PieceModel};
use crate::ranks::RankTable;
use crate::scan::Around;
use crate::simd::InstructionSet;
use crate::split::{Split, Splitter};
use crate::unicode::Classes;

mod decode;
mod offsets;

pub use decode::UnknownId;

/// A byte-level BPE tokenizer, as data.
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
///
/// // Each byte is a token; "a" and "b" merge before "b" and "c".
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte)));
/// let tokens = tokens.chain([(b"ab".to_vec(), 256), (b"bc".to_vec(), 257)]).collect();
/// let [a, b, c] = [b'a', b'b', b'c'].map(u32::from);
/// let merges = vec![(a, b), (b, c)];
/// let definition = Definition { grammar: Grammar::Gpt2, tokens, merges, ignore_merges: false, added: vec![], nfc: false };
/// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
/// assert_eq!(engine.encode_batch(&["abc", "bc"])?.values, [256, c, 257]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Whether text is normalized to form C.
    pub nfc: bool,
}

/// Settings of a [`BpeEngine`].
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
///
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
/// let definition =
///     Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
/// let options = EngineOptions { cache_bytes: 1 << 20, ..EngineOptions::default() };
/// let engine = BpeEngine::new(&definition, &options)?;
/// assert_eq!(engine.cache_size().0, 0, "the cache begins empty");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Maximum memory of the cache in bytes.
    pub cache_bytes: usize,
    /// The instruction set, by name; the best one of this CPU if `None`.
    pub instructions: Option<&'static str>,
}

impl Default for EngineOptions {
    /// 128 MiB, the best instructions.
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, instructions: None }
    }
}

/// The names of the instruction sets of this CPU that an engine can use, the best first.
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar, instruction_sets};
///
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
/// let definition =
///     Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
/// for name in instruction_sets() {
///     let engine = BpeEngine::new(&definition, &EngineOptions { instructions: Some(name), ..EngineOptions::default() })?;
///     assert_eq!(engine.instructions(), name);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn instruction_sets() -> Vec<&'static str> {
    InstructionSet::available().iter().map(|set| set.name()).collect()
}

/// Slots of the first table, for each token of a byte-level vocabulary.
const SLOTS_PER_TOKEN: usize = 6;

/// The first table has no more slots than this, 2 MiB: a larger one takes memory from every process, and hardly less time.
const FIRST_SLOTS: usize = 1 << 16;

/// Encodes text with one vocabulary. All threads share what it learns.
///
/// The ids are those of Hugging Face's `tokenizers` 0.23 for the same vocabulary, whatever was encoded before, and by how many threads.
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
///
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"ab".to_vec(), 256)]).collect();
/// let merges = vec![(u32::from(b'a'), u32::from(b'b'))];
/// let definition = Definition { grammar: Grammar::Gpt2, tokens, merges, ignore_merges: false, added: vec![], nfc: false };
/// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| assert_eq!(engine.encode_batch(&["cab"]).unwrap().values, [99, 256]));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BpeEngine {
    bounds: Bounds,
    model: PieceModel,
    splitter: Splitter,
    /// Added tokens that are found while text is scanned; none if the splitter must find them before.
    added: Added,
    without_added: Added,
    contents: decode::Contents,
    nfc: bool,
    cache: Cache,
    set: InstructionSet,
    workers: Mutex<Vec<Box<Worker>>>,
}

impl std::fmt::Debug for BpeEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BpeEngine").field("bounds", &self.bounds).field("set", &self.set).finish_non_exhaustive()
    }
}

impl BpeEngine {
    /// An engine for `definition`.
    ///
    /// # Errors
    /// A byte is no token, two tokens have the same bytes, a merge is of unknown tokens, an id is 1,048,575 or more, or an added token is empty,
    /// occurs twice, or strips white space that another one may have stripped before.
    pub fn new(definition: &Definition, options: &EngineOptions) -> Result<Self, Unsupported> {
        let Definition { grammar, tokens, merges, ignore_merges, added, nfc } = definition;
        let model = Model::new(tokens, merges, *ignore_merges).map_err(Unsupported::new)?;
        Self::of(
            Bounds::Grammar(*grammar),
            PieceModel::Merges(model),
            tokens.len() * SLOTS_PER_TOKEN,
            added,
            *nfc,
            options,
        )
    }

    /// An engine for a vocabulary of tiktoken: a piece that is a token gets its rank, and others are merged by the ranks of unions.
    ///
    /// `lengths` has the length of each token, in the order of their ranks, 0 where a rank has none, and `bytes` all of them.
    ///
    /// ```
    /// use windrow_bpe::{BpeEngine, EngineOptions, Grammar};
    ///
    /// let mut bytes: Vec<u8> = (0..=255).collect();
    /// bytes.extend(b"ab");
    /// let mut lengths = vec![1; 256];
    /// lengths.push(2);
    /// let engine = BpeEngine::of_ranks(Grammar::Gpt2, &lengths, bytes, &[], &EngineOptions::default())?;
    /// assert_eq!(engine.encode_batch(&["cab"])?.values, [99, 256]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A byte is no token, there are 262,143 ranks or more, or an added token is one that [`new`](Self::new) refuses.
    pub fn of_ranks(
        grammar: Grammar,
        lengths: &[u8],
        bytes: Vec<u8>,
        added: &[AddedToken],
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        let table = RankTable::new(lengths, bytes).map_err(Unsupported::new)?;
        Self::of(Bounds::Grammar(grammar), PieceModel::Ranks(table), FIRST_SLOTS, added, false, options)
    }

    /// An engine for any tokenizer of which it is known where texts can be cut. It remembers the ids of the pieces between `cuts`, and asks
    /// `encoder` for those of others.
    ///
    /// # Errors
    /// The CPU does not have the instructions of `options`.
    pub fn of_pieces(
        cuts: TextCuts,
        encoder: Box<dyn PieceEncoder>,
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        Self::of(Bounds::Cuts(cuts), PieceModel::Other(encoder), FIRST_SLOTS, &[], false, options)
    }

    fn of(
        bounds: Bounds,
        model: PieceModel,
        slots: usize,
        added: &[AddedToken],
        nfc: bool,
        options: &EngineOptions,
    ) -> Result<Self, Unsupported> {
        let sets = InstructionSet::available();
        let set = match options.instructions {
            None => Some(&sets[0]),
            Some(name) => sets.iter().find(|set| set.name() == name),
        };
        let set =
            *set.ok_or_else(|| Unsupported::new(format!("this CPU has no {}", options.instructions.unwrap_or("?"))))?;
        let splitter = Splitter::new(added, nfc).map_err(Unsupported::new)?;
        let scanned = if splitter.goes_first() { &[] } else { added };
        let engine = Self {
            bounds,
            model,
            splitter,
            added: Added::new(scanned).map_err(Unsupported::new)?,
            without_added: Added::new(&[]).map_err(Unsupported::new)?,
            contents: decode::Contents::new(added),
            nfc,
            cache: Cache::new(set, slots.min(FIRST_SLOTS), options.cache_bytes),
            set,
            workers: Mutex::default(),
        };
        // Made now: a fork during their first use would leave a child with a table that is never ready.
        Classes::get();
        engine.classes();
        if nfc {
            nfc::table();
        }
        Ok(engine)
    }

    /// True if a text has named an [added token](AddedToken) that counts as text since the last call.
    ///
    /// ```
    /// use windrow_bpe::{AddedToken, Definition, BpeEngine, EngineOptions, Grammar};
    ///
    /// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// let added = vec![AddedToken::new("<|end|>", None)];
    /// let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added, nfc: false };
    /// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// engine.encode_batch(&["an end"])?;
    /// assert!(!engine.take_named_text());
    /// assert_eq!(engine.encode_batch(&["an <|end|>"])?.values.len(), 10);
    /// assert!(engine.take_named_text() && !engine.take_named_text());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_named_text(&self) -> bool {
        [self.added.named().take(), self.splitter.take_named()].contains(&true)
    }

    /// The pattern that splits text into pieces; `None` if text is cut.
    pub fn grammar(&self) -> Option<Grammar> {
        match self.bounds {
            Bounds::Grammar(grammar) => Some(grammar),
            Bounds::Cuts(_) => None,
        }
    }

    /// The name of the instruction set in use.
    pub fn instructions(&self) -> &'static str {
        self.set.name()
    }

    /// The id of the token with these bytes. Added tokens are not searched.
    pub fn token_to_id(&self, bytes: &[u8]) -> Option<u32> {
        self.model.id(bytes)
    }

    /// The bytes of a token of the vocabulary; empty if it has none with this id.
    pub fn token(&self, id: u32) -> &[u8] {
        self.model.token(id)
    }

    /// What the threads have done so far, as far as they are through with their windows.
    pub fn counts(&self) -> Counts {
        let workers = lock_briefly(&self.workers);
        workers.iter().flat_map(|workers| workers.iter()).fold(Counts::default(), |sum, worker| {
            let Counts { pieces, misses } = worker.lookup.counts;
            Counts { pieces: sum.pieces + pieces, misses: sum.misses + misses }
        })
    }

    /// Used slots and all slots of the cache, and its bytes of memory. Zeros if a fork has made the cache unreachable.
    pub fn cache_size(&self) -> (usize, usize, usize) {
        self.cache.table().map_or((0, 0, 0), |table| (table.used(), table.capacity(), table.bytes()))
    }

    /// Appends the ids of `texts` to `ids`, on this thread, and to `ends` the length of `ids` behind each text.
    ///
    /// Short texts are encoded together, and long ones window by window, so it needs little memory beside the ids.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// # let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let (mut ids, mut ends) = (vec![], vec![]);
    /// engine.encode_all(&["ab", "", "c"], &mut ids, &mut ends)?;
    /// assert_eq!((ids, ends), (vec![97, 98, 99], vec![2, 2, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for the ids, or to merge a single long piece. `ids` and `ends` are then unchanged.
    pub fn encode_all(&self, texts: &[&str], ids: &mut Vec<u32>, ends: &mut Vec<usize>) -> Result<(), TextError> {
        let before = (ids.len(), ends.len());
        let outcome = self.with_worker(|worker| {
            for span in self.windows(texts, 1) {
                self.window(worker, texts, span)?;
                let (more, base) = (worker.lookup.ids(), ids.len());
                let missing = |bytes| TextError { document: span.largest(texts), fault: PieceFault::NoMemory(bytes) };
                reserve(ids, more.len()).map_err(missing)?;
                ids.extend_from_slice(more);
                ends.extend(worker.lookup.ends().iter().map(|&end| base + end as usize));
            }
            Ok(())
        });
        if outcome.is_err() {
            ids.truncate(before.0);
            ends.truncate(before.1);
        }
        outcome
    }

    /// Maximum number of ids of a text of `bytes` bytes: one a byte, and form C may make three bytes of one. `None` if it is not known.
    pub(crate) fn most_ids(&self, bytes: usize) -> Option<usize> {
        match self.model {
            PieceModel::Other(_) => None,
            _ if self.nfc => Some(bytes.saturating_mul(3)),
            _ => Some(bytes),
        }
    }

    /// Encodes one window with the buffers of `worker`.
    pub(crate) fn window<T: AsRef<str>>(
        &self,
        worker: &mut Worker,
        documents: &[T],
        span: Span,
    ) -> Result<(), TextError> {
        let current = self.cache.table().or_else(|| worker.table.take());
        let table = worker.table.insert(current.unwrap_or_else(Cache::empty_table)).clone();
        let parts = span.parts(documents);
        if self.splitter.goes_first() || self.nfc && parts.clone().any(|part| nfc::may_change(part.text)) {
            let mut splits = Vec::new();
            parts.for_each(|part| self.splitter.split(part, &mut splits));
            let bytes = splits.iter().map(|split| split.text.len() + usize::from(split.added.is_some())).sum();
            self.window_of(worker, &table, splits.iter().map(Split::part), bytes);
        } else {
            self.window_of(worker, &table, parts, span.bytes);
        }
        self.cache.grow(&table);
        match worker.lookup.failed() {
            Some((number, fault)) => Err(TextError { document: span.first() + number, fault }),
            None => Ok(()),
        }
    }

    fn classes(&self) -> &'static Classes {
        match self.bounds {
            Bounds::Grammar(grammar) => grammar.classes(),
            Bounds::Cuts(_) => Classes::get(),
        }
    }

    fn window_of<'a>(
        &self,
        worker: &mut Worker,
        table: &InsertOnlyTable,
        parts: impl Iterator<Item = Part<'a>>,
        bytes: usize,
    ) {
        let classes = self.classes();
        let shared = Shared {
            bounds: &self.bounds,
            model: &self.model,
            around: Around { classes, added: &self.added },
            without_added: Around { classes, added: &self.without_added },
            cache: &self.cache,
        };
        self.set.run(Window { shared: &shared, table, worker, parts, bytes });
    }

    /// A place from `from` on where `text` can be cut without changing its ids.
    pub(crate) fn cut(&self, text: &[u8], mut from: usize) -> Option<usize> {
        loop {
            let cut = match &self.bounds {
                Bounds::Grammar(grammar) => grammar.cut(text, from)?,
                Bounds::Cuts(cuts) => return cuts.cut(text, from),
            };
            if self.is_clear_cut(text, cut)? {
                return Some(cut);
            }
            from = cut + 1;
        }
    }

    /// Whether the ids of both parts are those of the whole, if `cut` is one of the grammar. `None` if no cut is.
    fn is_clear_cut(&self, text: &[u8], cut: usize) -> Option<bool> {
        let is_clear = match self.splitter.goes_first() {
            true => self.splitter.can_cut(text, cut)?,
            false => !self.added.may_span(text, cut),
        };
        // Form C makes a letter and a mark of some letters, and a mark may go on with what follows.
        Some(is_clear && !(self.nfc && nfc::may_change_last(&text[..cut])))
    }

    /// Whether [`last_cut`](Self::last_cut) finds places: not if added tokens look at what stands beside them.
    pub fn cuts_documents(&self) -> bool {
        match &self.model {
            PieceModel::Other(encoder) => !encoder.marks_beginning(),
            _ => !self.splitter.goes_first(),
        }
    }

    /// The last place found from `from` on where `text` can be cut: the ids of its two parts are those of the whole, whatever precedes and
    /// follows `text`, as long as no added token stands across its beginning. `text` need not be UTF-8; the cut is between two characters.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    /// # let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
    /// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// assert_eq!(engine.last_cut(b"one two three", 0), Some(7));
    /// assert_eq!(engine.last_cut(b"one two three", 8), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_cut(&self, text: &[u8], from: usize) -> Option<usize> {
        if !self.cuts_documents() {
            return None;
        }
        // One that begins close to the end may go on behind it.
        let mut to = text.len().saturating_sub(self.added.longest());
        loop {
            let cut = match &self.bounds {
                Bounds::Grammar(grammar) => grammar.last_cut(text, from, to)?,
                Bounds::Cuts(cuts) => return cuts.last_cut(text, from, to),
            };
            if self.is_clear_cut(text, cut)? {
                return Some(cut);
            }
            to = cut;
        }
    }

    /// Runs `body` with the buffers of a thread.
    pub(crate) fn with_worker<R>(&self, body: impl FnOnce(&mut Worker) -> R) -> R {
        let kept = lock_briefly(&self.workers).and_then(|mut workers| workers.pop());
        let mut worker = kept.unwrap_or_else(Worker::new);
        let result = body(&mut worker);
        // One that panics unwinds past this line and is not used again.
        if let Some(mut workers) = lock_briefly(&self.workers) {
            workers.push(worker);
        }
        result
    }
}
