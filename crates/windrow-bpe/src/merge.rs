//! Merges of tokens by their priorities, whatever a vocabulary makes its first tokens of.

use crate::agenda::Agenda;
use crate::memory::reserve;

/// The priority of two tokens that do not merge.
pub(crate) const NONE: u32 = u32::MAX;

/// Two ids are packed into a key.
pub(crate) const ID_BITS: u32 = 20;

/// A word of the pair table has a priority in its lower bits, and a tag of the pair above.
const PRIORITY_BITS: u32 = 24;
const PRIORITIES: u32 = (1 << PRIORITY_BITS) - 1;

/// An empty word of the pair table.
const EMPTY: u32 = u32::MAX;

/// Longer pieces keep their pairs in an [`Agenda`]: scanning all of them for each merge would take quadratic time.
pub(crate) const SHORT: usize = 48;

/// Bits of the filter: most pairs that are looked up do not merge, and 128 KiB stay in a cache close to the core.
const FILTER_BITS: u64 = 1 << 20;

/// The merges of a vocabulary.
pub(crate) struct Merges {
    /// A bit for each pair that merges; several pairs share one.
    filter: Vec<u64>,
    /// The priorities of merges by a hash of their tokens, with linear probing. A quarter of the size of a table with whole keys: most look-ups
    /// find a merge, and waited for memory. The key is compared later than its priority is used.
    pairs: Vec<u32>,
    /// The two tokens of each merge, by priority.
    keys: Vec<u64>,
    /// The token that each merge makes, by priority.
    merged: Vec<u32>,
    /// The difference between that token and the priority, if it is always the same.
    shift: Option<u32>,
}

/// Symbols that are added to those that have been merged. Fewer are merged faster, and more are divided less often.
const CHUNK: usize = 32;

/// Symbols that are merged at once at most.
const REGION: usize = 128;

/// The work of merging chunks, which is quadratic in the symbols that are merged at once, may be this many times that of merging each symbol once.
/// It is more where tokens are about as long as chunks.
const MOST_WORK: usize = 2;

/// A token of a long piece, and the index of its first symbol.
#[derive(Clone, Copy)]
struct Token {
    id: u32,
    start: u32,
}

/// Buffers to merge pieces.
#[derive(Default)]
pub(crate) struct MergeScratch {
    /// The tokens of a piece before and after the merges.
    pub(crate) ids: Vec<u32>,
    tokens: Vec<Token>,
    links: Vec<Link>,
    /// Merges that were possible when they were added.
    agenda: Agenda,
}

/// A token of a long piece, at the index of its first symbol.
#[derive(Clone, Copy)]
struct Link {
    id: u32,
    /// The index of the next token.
    next: u32,
    /// The index of the previous token.
    before: u32,
    /// The priority of the merge with the next token.
    priority: u32,
}

#[inline(always)]
fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

#[inline(always)]
fn filter_place(key: u64) -> (usize, u64) {
    let bit = key.wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> (64 - FILTER_BITS.trailing_zeros());
    ((bit / 64) as usize, bit % 64)
}

/// The slot at which probing for a pair starts, and its tag.
#[inline(always)]
fn pair_place(key: u64) -> (usize, u32) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 40) as usize, (hash >> 32) as u32 >> 24 & 0xff)
}

impl Merges {
    /// `merges` are the two tokens of each merge and the token that it makes, in the order of their priorities.
    pub(crate) fn new(merges: impl ExactSizeIterator<Item = (u32, u32, u32)>) -> Result<Self, String> {
        let count = merges.len();
        if count >= PRIORITIES as usize {
            return Err(format!("there are {count} merges; there must be fewer than {PRIORITIES}"));
        }
        let mut this = Self {
            filter: vec![0; FILTER_BITS as usize / 64],
            pairs: vec![EMPTY; (count / 4 + count + 2).next_power_of_two()],
            keys: Vec::with_capacity(count),
            merged: Vec::with_capacity(count),
            shift: None,
        };
        for (priority, (left, right, merged)) in (0..).zip(merges) {
            if this.priority(left, right) != NONE {
                return Err(format!("merge {priority} occurs twice"));
            }
            let key = pair_key(left, right);
            let (mut at, tag) = pair_place(key);
            while this.pairs[at & (this.pairs.len() - 1)] != EMPTY {
                at += 1;
            }
            at &= this.pairs.len() - 1;
            this.pairs[at] = tag << PRIORITY_BITS | priority;
            this.keys.push(key);
            let (word, bit) = filter_place(key);
            this.filter[word] |= 1 << bit;
            this.merged.push(merged);
        }
        let shift = this.merged.first().copied().unwrap_or(0);
        let is_shifted = (0..).zip(&this.merged).all(|(priority, &id)| id == shift.wrapping_add(priority));
        this.shift = is_shifted.then_some(shift);
        Ok(this)
    }

    /// The priority of the merge of two tokens.
    #[inline(always)]
    pub(crate) fn priority(&self, left: u32, right: u32) -> u32 {
        let key = pair_key(left, right);
        let (word, bit) = filter_place(key);
        if self.filter[word & (self.filter.len() - 1)] >> bit & 1 == 0 {
            return NONE;
        }
        let (mut at, tag) = pair_place(key);
        loop {
            let pair = self.pairs[at & (self.pairs.len() - 1)];
            if pair == EMPTY {
                return NONE;
            }
            if pair >> PRIORITY_BITS == tag && self.keys[(pair & PRIORITIES) as usize] == key {
                return pair & PRIORITIES;
            }
            at += 1;
        }
    }

    /// The token that the merge of this priority makes.
    #[inline(always)]
    fn merged(&self, priority: u32) -> u32 {
        match self.shift {
            Some(shift) => priority.wrapping_add(shift),
            None => self.merged[priority as usize],
        }
    }

    /// Merges the first `count` of `ids`, up to [`SHORT`]; `priorities` are those of each with the next, the last one [`NONE`]. Returns the
    /// number of ids.
    #[inline(always)]
    pub(crate) fn merge_short(&self, ids: &mut [u32; 64], priorities: &mut [u32; 64], count: usize) -> usize {
        self.merge_few(ids, priorities, count, |_, _| {})
    }

    /// [`merge_short`](Self::merge_short) of up to `N` ids, a power of two. After each merge, `merged` gets the place of the token that is gone,
    /// and the number of those that are left.
    #[inline(always)]
    fn merge_few<const N: usize>(
        &self,
        ids: &mut [u32; N],
        priorities: &mut [u32; N],
        mut count: usize,
        mut merged: impl FnMut(usize, usize),
    ) -> usize {
        while count > 1 {
            let (mut best, mut at) = (NONE, 0);
            for (place, &priority) in priorities[..count - 1].iter().enumerate() {
                if priority < best {
                    (best, at) = (priority, place);
                }
            }
            if best == NONE {
                break;
            }
            ids[at] = self.merged(best);
            // A call that moves memory would take longer.
            for place in at + 1..count - 1 {
                ids[place & (N - 1)] = ids[(place + 1) & (N - 1)];
                priorities[place & (N - 1)] = priorities[(place + 1) & (N - 1)];
            }
            count -= 1;
            merged(at + 1, count);
            priorities[count - 1] = NONE;
            if at + 1 < count {
                priorities[at] = self.priority(ids[at], ids[at + 1]);
            }
            if at > 0 {
                priorities[at - 1] = self.priority(ids[at - 1], ids[at]);
            }
        }
        count
    }

    /// Merges `scratch.ids`, of any number. An error is the number of bytes that could not be allocated.
    pub(crate) fn merge(&self, scratch: &mut MergeScratch) -> Result<(), usize> {
        let count = scratch.ids.len();
        if count > SHORT {
            return match self.merge_in_chunks(scratch)? {
                true => Ok(()),
                false => self.merge_long(scratch),
            };
        }
        let (mut ids, mut priorities) = ([0; 64], [NONE; 64]);
        ids[..count].copy_from_slice(&scratch.ids);
        for (priority, pair) in priorities.iter_mut().zip(scratch.ids.windows(2)) {
            *priority = self.priority(pair[0], pair[1]);
        }
        let count = self.merge_short(&mut ids, &mut priorities, count);
        scratch.ids.clear();
        scratch.ids.extend_from_slice(&ids[..count]);
        Ok(())
    }

    /// Merges a long piece from left to right, [`CHUNK`] symbols at a time. False if the tokens depend on symbols too far away; `scratch.ids` are
    /// then as before.
    ///
    /// Tokens are those of the whole piece if the merges make each two neighbours of their own symbols. Proof: up to the first merge across the
    /// border of two such tokens, all merges in their symbols are those of the two by themselves, in their order, because each is the first of all
    /// that are possible. So that one would be made of the two by themselves, too. And neighbours that are merged at once have that property.
    pub(crate) fn merge_in_chunks(&self, scratch: &mut MergeScratch) -> Result<bool, usize> {
        let MergeScratch { ids, tokens, .. } = scratch;
        tokens.clear();
        reserve(tokens, ids.len())?;
        let mut region = Region::default();
        let mut pair = Region::default();
        // The symbols of the last two neighbours that are known to be some.
        let mut known = (0..0, 0);
        let (mut done, mut work) = (0, 0);
        while done < ids.len() {
            let end = ids.len().min(done + CHUNK);
            let mut again = 1;
            let (first, start) = loop {
                let first = tokens.len().saturating_sub(again);
                let start = tokens.get(first).map_or(done, |token| token.start as usize);
                work += (end - start).pow(2);
                if end - start > REGION || work > MOST_WORK * CHUNK * end + REGION.pow(2) {
                    return Ok(false);
                }
                region.merge(self, &ids[start..end]);
                let Some(before) = first.checked_sub(1).map(|before| tokens[before]) else {
                    break (first, start);
                };
                let symbols = before.start as usize..start + region.end(0);
                let border = start - before.start as usize;
                if symbols.len() > REGION {
                    return Ok(false);
                }
                if known.1 == border && ids[known.0.clone()] == ids[symbols.clone()] {
                    break (first, start);
                }
                work += symbols.len().pow(2);
                pair.merge(self, &ids[symbols.clone()]);
                if pair.count == 2 && pair.end(0) == border {
                    known = (symbols, border);
                    break (first, start);
                }
                again *= 2;
            };
            tokens.truncate(first);
            let merged = region.ids.iter().zip(&region.starts).take(region.count);
            tokens.extend(merged.map(|(&id, &at)| Token { id, start: (start + usize::from(at)) as u32 }));
            done = end;
        }
        ids.clear();
        ids.extend(tokens.iter().map(|token| token.id));
        Ok(true)
    }

    /// [`merge_short`](Self::merge_short) in less than quadratic time: all merges of one priority are made in one pass from left to right.
    pub(crate) fn merge_long(&self, scratch: &mut MergeScratch) -> Result<(), usize> {
        let MergeScratch { ids, links, agenda, .. } = scratch;
        links.clear();
        reserve(links, ids.len())?;
        // A merge adds two places at most.
        agenda.begin(self.keys.len(), ids.len() * 3)?;
        for (at, &id) in (0..).zip(&*ids) {
            let priority = ids.get(at as usize + 1).map_or(NONE, |&next| self.priority(id, next));
            links.push(Link { id, next: at + 1, before: at.wrapping_sub(1), priority });
            if priority != NONE {
                agenda.add(priority, at);
            }
        }
        while let Some(mut pass) = agenda.take()? {
            let (priority, merged) = (pass.priority, self.merged(pass.priority));
            let earlier = pass.by_ref().find(|&at| {
                let Link { next, before, priority: current, .. } = links[at as usize];
                // Outdated: one of the two tokens has merged otherwise.
                if current != priority {
                    return false;
                }
                let end = links[next as usize].next;
                links[next as usize].priority = NONE;
                links[at as usize].id = merged;
                links[at as usize].next = end;
                if let Some(after) = links.get_mut(end as usize) {
                    after.before = at;
                }
                let first = if at == 0 { NONE } else { self.look_up(links, agenda, before) };
                self.look_up(links, agenda, at).min(first) < priority
            });
            match earlier {
                Some(_) => agenda.interrupt(pass),
                None => agenda.finish(pass),
            }
        }
        ids.clear();
        let mut at = 0;
        while let Some(link) = links.get(at as usize) {
            ids.push(link.id);
            at = link.next;
        }
        Ok(())
    }

    /// Puts the merge of the token at `at` with the next one on the agenda, and returns its priority.
    #[inline(always)]
    fn look_up(&self, links: &mut [Link], agenda: &mut Agenda, at: u32) -> u32 {
        let Link { id, next, .. } = links[at as usize];
        let priority = links.get(next as usize).map_or(NONE, |next| self.priority(id, next.id));
        links[at as usize].priority = priority;
        if priority != NONE {
            agenda.add(priority, at);
        }
        priority
    }
}

/// Symbols that are merged by themselves.
struct Region {
    ids: [u32; REGION],
    priorities: [u32; REGION],
    /// The first symbol of each token.
    starts: [u16; REGION],
    count: usize,
    symbols: usize,
}

impl Default for Region {
    fn default() -> Self {
        Self { ids: [0; REGION], priorities: [NONE; REGION], starts: [0; REGION], count: 0, symbols: 0 }
    }
}

impl Region {
    /// Merges these symbols, up to [`REGION`].
    fn merge(&mut self, merges: &Merges, symbols: &[u32]) {
        self.symbols = symbols.len();
        self.ids[..symbols.len()].copy_from_slice(symbols);
        for (priority, pair) in self.priorities.iter_mut().zip(symbols.windows(2)) {
            *priority = merges.priority(pair[0], pair[1]);
        }
        for (start, at) in self.starts.iter_mut().zip(0..symbols.len() as u16) {
            *start = at;
        }
        let starts = &mut self.starts;
        self.count = merges.merge_few(&mut self.ids, &mut self.priorities, symbols.len(), |gone, count| {
            for place in gone..count {
                starts[place & (REGION - 1)] = starts[(place + 1) & (REGION - 1)];
            }
        });
    }

    /// The end of a token, in symbols.
    fn end(&self, token: usize) -> usize {
        match token + 1 < self.count {
            true => usize::from(self.starts[token + 1]),
            false => self.symbols,
        }
    }
}
