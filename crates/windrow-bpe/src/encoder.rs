//! Encodes windows: pieces become keys, keys of many documents wait in one queue, and a full queue is looked up at once.
//!
//! The queue hides the time that memory takes: the slot of a key is asked for when the key enters, and read when the queue is full. Since
//! the queue does not end with a document, short documents gain from it as much as long ones.

use std::marker::PhantomData;
use std::sync::Arc;

use windrow_table::table::{InsertOnlyTable, TableKey};

use crate::cache::{
    Cache, INLINE, KEY_BYTES, LONGEST, inline_count, is_long, is_marked, long_key, marked_key, short_key, short_piece,
    write,
};
use crate::cuts::TextCuts;
use crate::fault::PieceFault;
use crate::grammar::Grammar;
use crate::memory::{KEPT_SCRATCH, reserve};
use crate::pieces::{PieceModel, PieceScratch};
use crate::scan::{Around, DeepSeekRules, Gpt2Rules, LineRules, Positions, Rules, Sink, scan};
use crate::simd::{Isa, Work};

/// Keys between their entering and their looking up.
const QUEUE: usize = 256;

/// Tags of the queue that no key has: of an added token, whose id is the rest, and of a piece that is too long to be remembered.
const ADDED: u64 = 0xfe << 56;
const NEVER: u64 = 0xfd << 56;

/// Pieces with more ids are not remembered.
const MOST_REMEMBERED: usize = LONGEST;

/// Buffers for more ids are freed.
const KEPT_IDS: usize = 1 << 20;

/// A part of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a [u8],
    /// True if the document begins with it.
    pub(crate) begins: bool,
    /// Whether added tokens were searched before, and the text has none.
    pub(crate) is_searched: bool,
    /// An added token behind the text.
    pub(crate) added: Option<u32>,
    /// Whether the document ends behind it.
    pub(crate) ends: bool,
}

impl<'a> Part<'a> {
    /// Text in which added tokens are to be searched.
    pub(crate) fn text(text: &'a [u8], ends: bool) -> Self {
        Self { text, begins: true, is_searched: false, added: None, ends }
    }
}

/// A piece in one of the texts of the queue.
#[derive(Clone, Copy, Default)]
struct Place {
    text: usize,
    start: usize,
    len: usize,
}

/// The buffers of one thread.
pub(crate) struct Worker {
    /// The table of the last window, in case the lock of the current one is lost.
    pub(crate) table: Option<Arc<InsertOnlyTable>>,
    positions: Positions,
    pub(crate) lookup: Lookup,
}

/// The queue of a thread, what comes out of it, and what was counted.
pub(crate) struct Lookup {
    tags: [u64; QUEUE],
    rests: [u64; QUEUE],
    hashes: [u32; QUEUE],
    /// Where the piece of each long key is.
    places: [Place; QUEUE],
    /// The number of ids before each key, and before the next.
    before: [u32; QUEUE + 1],
    /// Number of keys in the queue.
    len: usize,
    /// The number of keys before the end of each document that ended since the queue was empty.
    ended: Vec<u32>,
    scratch: PieceScratch,
    /// The ids of the window, followed by garbage.
    ids: Vec<u32>,
    count: usize,
    /// The number of ids at the end of each document.
    ends: Vec<u32>,
    /// The first document of this window without ids, and the reason.
    failed: Option<(usize, PieceFault)>,
    pub(crate) counts: Counts,
}

/// What an engine has done.
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
///
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
/// let definition =
///     Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
/// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
/// engine.encode_batch(&["one two"])?;
/// let first = engine.counts();
/// engine.encode_batch(&["one two"])?;
/// assert_eq!((first.pieces, engine.counts().pieces), (2, 4));
/// assert_eq!(engine.counts().misses, first.misses, "the cache has both pieces by now");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pieces of text.
    pub pieces: u64,
    /// Pieces that were merged, because the cache did not have them.
    pub misses: u64,
}

impl Worker {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            table: None,
            positions: [0; _],
            lookup: Lookup {
                tags: [0; QUEUE],
                rests: [0; QUEUE],
                hashes: [0; QUEUE],
                places: [Place::default(); QUEUE],
                before: [0; QUEUE + 1],
                len: 0,
                ended: Vec::new(),
                scratch: PieceScratch::default(),
                ids: Vec::new(),
                count: 0,
                ends: Vec::new(),
                failed: None,
                counts: Counts::default(),
            },
        })
    }
}

impl Lookup {
    /// Makes space for a window. A piece has no more ids than bytes, and ids are written four at a time.
    fn begin(&mut self, bytes: usize) -> Result<(), usize> {
        (self.len, self.count, self.failed) = (0, 0, None);
        self.ended.clear();
        self.ends.clear();
        let needed = bytes.saturating_add(INLINE as usize + 1);
        // Places in a window and in a long piece take 32 bits.
        if u32::try_from(needed).is_err() {
            return Err(needed.saturating_mul(size_of::<u32>()));
        }
        if self.ids.len() < needed {
            // Its items are garbage, which need not move.
            self.ids.clear();
            reserve(&mut self.ids, needed)?;
            self.ids.resize(needed, 0);
        }
        Ok(())
    }

    /// Makes space for `more` ids after the first `count`, and for those of a queue of short pieces: pieces may have more ids than bytes.
    #[inline(always)]
    fn extend(&mut self, count: usize, more: usize) -> Result<(), usize> {
        let needed = count + more + (INLINE as usize + 1) * QUEUE;
        if needed > self.ids.len() {
            let missing = needed - self.ids.len();
            // Twice the size, so that its items move a few times only.
            reserve(&mut self.ids, missing)?;
            self.ids.resize(needed, 0);
        }
        Ok(())
    }

    /// The key at `at` of the queue has no ids.
    fn fail(&mut self, at: usize, fault: PieceFault) {
        let document = self.ends.len() + self.ended.iter().filter(|&&key| key as usize <= at).count();
        self.failed.get_or_insert((document, fault));
    }

    /// Frees buffers that only a large window needed.
    fn shrink(&mut self) {
        if self.ids.len() > KEPT_IDS {
            self.ids = Vec::new();
        }
    }

    /// The first document of the window without ids, by its number in the window, and the reason.
    pub(crate) fn failed(&mut self) -> Option<(usize, PieceFault)> {
        self.failed.take()
    }

    /// The ids of the window.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids[..self.count]
    }

    /// The number of ids at the end of each document that ends in the window.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Moves both out, in exchange for buffers to use instead.
    pub(crate) fn swap(&mut self, ids: &mut Vec<u32>, ends: &mut Vec<u32>) {
        self.ids.truncate(self.count);
        std::mem::swap(&mut self.ids, ids);
        std::mem::swap(&mut self.ends, ends);
        (self.len, self.count) = (0, 0);
    }
}

/// The ends of pieces in a text.
#[derive(Debug)]
pub(crate) enum Bounds {
    Grammar(Grammar),
    Cuts(TextCuts),
}

/// What all windows of an engine share.
pub(crate) struct Shared<'e> {
    pub(crate) bounds: &'e Bounds,
    pub(crate) model: &'e PieceModel,
    pub(crate) around: Around<'e>,
    pub(crate) without_added: Around<'e>,
    pub(crate) cache: &'e Cache,
}

/// Encodes a window.
pub(crate) struct Window<'e, P> {
    pub(crate) shared: &'e Shared<'e>,
    pub(crate) table: &'e InsertOnlyTable,
    pub(crate) worker: &'e mut Worker,
    pub(crate) parts: P,
    /// Bytes of all parts.
    pub(crate) bytes: usize,
}

impl<'a, P: Iterator<Item = Part<'a>>> Work for Window<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match self.shared.bounds {
            Bounds::Grammar(grammar @ Grammar::Gpt2) => self.run_with(isa, Scanner::<I, Gpt2Rules>::new(isa, *grammar)),
            Bounds::Grammar(grammar @ Grammar::Lines { .. }) => {
                self.run_with(isa, Scanner::<I, LineRules<false>>::new(isa, *grammar));
            }
            Bounds::Grammar(grammar @ Grammar::Cases { .. }) => {
                self.run_with(isa, Scanner::<I, LineRules<true>>::new(isa, *grammar));
            }
            Bounds::Grammar(grammar @ Grammar::DeepSeek) => {
                self.run_with(isa, Scanner::<I, DeepSeekRules>::new(isa, *grammar));
            }
            Bounds::Cuts(cuts) => self.run_with(isa, cuts),
        }
    }
}

/// Finds the pieces of a part.
trait Scan: Copy {
    fn scan<S: Sink>(self, shared: &Shared<'_>, part: &Part<'_>, positions: &mut Positions, sink: &mut S);
}

/// Scans by the rules of a grammar.
struct Scanner<I, R> {
    isa: I,
    grammar: Grammar,
    rules: PhantomData<R>,
}

impl<I: Isa, R> Scanner<I, R> {
    fn new(isa: I, grammar: Grammar) -> Self {
        Self { isa, grammar, rules: PhantomData }
    }
}

impl<I: Isa, R> Clone for Scanner<I, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Isa, R> Copy for Scanner<I, R> {}

impl<I: Isa, R: Rules> Scan for Scanner<I, R> {
    #[inline(always)]
    fn scan<S: Sink>(self, shared: &Shared<'_>, part: &Part<'_>, positions: &mut Positions, sink: &mut S) {
        let around = if part.is_searched { &shared.without_added } else { &shared.around };
        scan::<I, R, _>(self.isa, self.grammar, around, part.text, positions, sink);
    }
}

impl Scan for &TextCuts {
    #[inline(always)]
    fn scan<S: Sink>(self, _: &Shared<'_>, part: &Part<'_>, positions: &mut Positions, sink: &mut S) {
        TextCuts::scan(self, part.text, part.begins, positions, sink);
    }
}

impl<'a, P: Iterator<Item = Part<'a>>> Window<'_, P> {
    #[inline(always)]
    fn run_with<I: Isa>(self, isa: I, scanner: impl Scan) {
        let Self { shared, table, worker, parts, bytes } = self;
        let Worker { positions, lookup, .. } = worker;
        lookup.shrink();
        if let Err(missing) = lookup.begin(bytes) {
            lookup.failed = Some((0, PieceFault::NoMemory(missing)));
            return;
        }
        let is_grown = matches!(shared.model, PieceModel::Other(_));
        let mut queue = Queue { isa, shared, table, lookup, texts: Vec::new(), is_grown };
        for part in parts {
            queue.texts.push(part.text);
            scanner.scan(shared, &part, positions, &mut queue);
            if let Some(id) = part.added {
                queue.added(id);
            }
            if part.ends {
                queue.lookup.ended.push(queue.lookup.len as u32);
            }
        }
        queue.look_up();
    }
}

/// Pieces on their way to ids.
struct Queue<'e, 'a, I> {
    isa: I,
    shared: &'e Shared<'e>,
    table: &'e InsertOnlyTable,
    lookup: &'e mut Lookup,
    /// The texts of which the queue may have pieces; the last one is being scanned.
    texts: Vec<&'a [u8]>,
    /// True if pieces may have more ids than bytes.
    is_grown: bool,
}

impl<I: Isa> Queue<'_, '_, I> {
    /// Puts a key into the queue, and returns its place there.
    #[inline]
    fn put(&mut self, key: TableKey) -> usize {
        if self.lookup.len >= QUEUE {
            self.look_up();
        }
        let hash = self.isa.hash([key.rest, key.tag]);
        self.table.home_slots().prefetch(hash);
        let at = self.lookup.len & (QUEUE - 1);
        self.lookup.tags[at] = key.tag;
        self.lookup.rests[at] = key.rest;
        self.lookup.hashes[at] = hash;
        self.lookup.len += 1;
        at
    }

    /// Puts a piece into the queue: a long one in parts, which have the ids of the whole.
    #[inline(never)]
    fn divide(&mut self, text: &[u8], mut start: usize, end: usize) {
        let model = self.shared.model;
        let mut is_part = false;
        let distinguishes_parts = model.distinguishes_parts();
        while start < end {
            let piece = &text[start..end];
            let seam = if piece.len() > KEY_BYTES { model.seam(piece) } else { None };
            let len = seam.unwrap_or(piece.len());
            is_part |= len < piece.len() && distinguishes_parts;
            self.put_piece(text, start, start + len, is_part);
            start += len;
        }
    }

    /// Puts a piece into the queue as it is.
    #[inline(always)]
    fn put_piece(&mut self, text: &[u8], start: usize, end: usize, is_marked: bool) {
        let len = end - start;
        let key = if len <= KEY_BYTES {
            short_key(self.isa.load(text, start, end), len)
        } else if len <= LONGEST {
            long_key(&text[start..end])
        } else {
            TableKey { tag: NEVER, rest: u64::from(is_marked) }
        };
        let at = self.put(if is_marked && len <= LONGEST { marked_key(key) } else { key });
        if len > KEY_BYTES {
            self.lookup.places[at] = Place { text: self.texts.len() - 1, start, len };
        }
    }

    /// Appends the ids of all keys in the queue, which is empty then.
    #[inline(never)]
    fn look_up(&mut self) {
        let mut count = self.lookup.count;
        let len = self.lookup.len.min(QUEUE);
        if self.is_grown
            && let Err(missing) = self.lookup.extend(count, 0)
        {
            self.lookup.fail(0, PieceFault::NoMemory(missing));
            self.lookup.len = 0;
            return;
        }
        let homes = self.table.home_slots();
        let mut at = 0;
        while at < len {
            let Lookup { tags, rests, hashes, before, ids, .. } = &mut *self.lookup;
            // Slices, so that their places and lengths are in registers.
            let ids = &mut ids[..];
            let (tags, rests, hashes, before) = (&tags[..len], &rests[..len], &hashes[..len], &mut before[..len]);
            while at < len {
                before[at] = count as u32;
                let Some(value) = homes.find(hashes[at], TableKey { tag: tags[at], rest: rests[at] }) else { break };
                let Some(more) = inline_count(value) else { break };
                let out: &mut [u32; 4] = ids[count..].first_chunk_mut().expect("a piece has few ids");
                *out = [value[0] as u32, (value[0] >> 32) as u32, value[1] as u32, 0];
                count += more;
                at += 1;
            }
            if at < len {
                count += self.seldom(at, count);
                at += 1;
            }
        }
        self.lookup.before[len] = count as u32;
        let Lookup { ended, ends, before, .. } = &mut *self.lookup;
        ends.extend(ended.iter().map(|&key| before[key as usize % (QUEUE + 1)]));
        ended.clear();
        self.lookup.counts.pieces += len as u64;
        self.lookup.count = count;
        self.lookup.len = 0;
        let last = self.texts.len().saturating_sub(1);
        self.texts.drain(..last);
    }

    /// Appends the ids of a key of which the home slot does not have them all, and returns their number.
    #[inline(never)]
    fn seldom(&mut self, at: usize, count: usize) -> usize {
        let key = TableKey { tag: self.lookup.tags[at], rest: self.lookup.rests[at] };
        let value = self.table.home_slots().find(self.lookup.hashes[at], key);
        let Shared { model, cache, .. } = self.shared;
        if key.tag == ADDED {
            self.lookup.ids[count] = key.rest as u32;
            return 1;
        }
        let (bytes, short_len) = short_piece(key);
        let (mut piece, mut long) = (&bytes[..short_len], None);
        if is_long(key) || key.tag == NEVER {
            let Place { text, start, len } = self.lookup.places[at];
            piece = &self.texts[text][start..start + len];
            long = Some(piece);
        }
        let is_marked = if key.tag == NEVER { key.rest == 1 } else { is_marked(key) };
        // Remembered ids are those of a piece that was encoded, so their number is bounded.
        if self.is_grown
            && let Err(missing) = self.lookup.extend(count, MOST_REMEMBERED)
        {
            self.lookup.fail(at, PieceFault::NoMemory(missing));
            return 0;
        }
        let out = &mut self.lookup.ids[count..];
        let found = value.and_then(|value| write(self.table, value, long, out));
        let found = found.or_else(|| cache.find(self.table, key, self.lookup.hashes[at], long, out));
        if let Some(more) = found {
            return more;
        }
        self.lookup.counts.misses += 1;
        let mut scratch = std::mem::take(&mut self.lookup.scratch);
        let encoded = model.encode(piece, is_marked, &mut scratch);
        let more = match encoded {
            Ok(ids) => {
                let extended = if self.is_grown { self.lookup.extend(count, ids.len()) } else { Ok(()) };
                match extended {
                    Ok(()) => {
                        self.lookup.ids[count..count + ids.len()].copy_from_slice(ids);
                        if key.tag != NEVER && ids.len() <= MOST_REMEMBERED {
                            cache.learn(self.table, key, long, ids);
                        }
                        ids.len()
                    }
                    Err(missing) => {
                        self.lookup.fail(at, PieceFault::NoMemory(missing));
                        0
                    }
                }
            }
            Err(fault) => {
                self.lookup.fail(at, fault);
                0
            }
        };
        if piece.len() <= KEPT_SCRATCH {
            self.lookup.scratch = scratch;
        }
        more
    }
}

impl<I: Isa> Sink for Queue<'_, '_, I> {
    #[inline(always)]
    fn pieces(&mut self, text: &[u8], mut start: usize, base: usize, mut ends: &[u16]) -> usize {
        while !ends.is_empty() {
            if self.lookup.len >= QUEUE {
                self.look_up();
            }
            // What changes with each piece is in registers here.
            let (isa, homes) = (self.isa, self.table.home_slots());
            let Lookup { tags, rests, hashes, len: queued, .. } = &mut *self.lookup;
            let now = &ends[..ends.len().min(QUEUE - *queued)];
            let free = *queued..*queued + now.len();
            let (tags, rests, hashes) = (&mut tags[free.clone()], &mut rests[free.clone()], &mut hashes[free]);
            let mut long = None;
            let mut at = 0;
            while at < now.len() {
                let end = base + usize::from(now[at]);
                let len = end - start;
                if len > KEY_BYTES {
                    long = Some(end);
                    break;
                }
                let key = short_key(isa.load(text, start, end), len);
                let hash = isa.hash([key.rest, key.tag]);
                homes.prefetch(hash);
                tags[at] = key.tag;
                rests[at] = key.rest;
                hashes[at] = hash;
                at += 1;
                start = end;
            }
            ends = &ends[at..];
            *queued += at;
            if let Some(end) = long {
                self.divide(text, start, end);
                (start, ends) = (end, &ends[1..]);
            }
        }
        start
    }

    fn piece(&mut self, text: &[u8], start: usize, end: usize) {
        self.divide(text, start, end);
    }

    fn first_piece(&mut self, text: &[u8], end: usize) {
        let is_marked = matches!(self.shared.model, PieceModel::Other(encoder) if encoder.marks_beginning());
        self.put_piece(text, 0, end, is_marked);
    }

    fn added(&mut self, id: u32) {
        self.put(TableKey { tag: ADDED, rest: u64::from(id) });
    }
}
