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

/// Buffers to merge pieces.
#[derive(Default)]
pub(crate) struct MergeScratch {
    /// The tokens of a piece before and after the merges.
    pub(crate) ids: Vec<u32>,
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
    pub(crate) fn merge_short(&self, ids: &mut [u32; 64], priorities: &mut [u32; 64], mut count: usize) -> usize {
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
                ids[place & 63] = ids[(place + 1) & 63];
                priorities[place & 63] = priorities[(place + 1) & 63];
            }
            count -= 1;
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
            return self.merge_long(scratch);
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

    /// [`merge_short`](Self::merge_short) in less than quadratic time: all merges of one priority are made in one pass from left to right.
    fn merge_long(&self, scratch: &mut MergeScratch) -> Result<(), usize> {
        let MergeScratch { ids, links, agenda } = scratch;
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
