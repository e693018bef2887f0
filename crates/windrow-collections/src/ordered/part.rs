//! A shard's part of a large batch, run leaf by leaf.
//!
//! With several operations per leaf, the order of submission would visit the same leaves again and again. So a part is sorted by
//! leaf. The sort is a counting sort, stable and without comparisons. It needs the leaf of each operation, which has to be found
//! anyway. Operations on one key stay in order of submission; an order between different keys cannot be observed.

use std::mem;

use super::ops::{Ops, Verb};
use super::shard::{Ends, GROUP, Shard, Way};
use super::update::{FirstPanic, Update};
use crate::keys::{Key, Skip};

/// A shard's part of a round.
pub(super) struct Part<K: Key, V> {
    items: Vec<Item<K, V>>,
    /// Items in the order of their leaves.
    order: Vec<u32>,
    /// By slot: the end of its items in `order`.
    ends: Vec<u32>,
    /// By item: the function of an update. As long as the last update; empty if there is none.
    updates: Vec<Option<Update<V>>>,
    /// Items whose updates panicked.
    unanswered: Vec<u32>,
    panic: FirstPanic,
}

/// An operation dealt to a shard.
struct Item<K: Key, V> {
    word: K::Word,
    key: Option<K>,
    /// The value of an insert; later the answer.
    value: Option<V>,
    /// Its index within the round.
    at: u32,
    /// First the block of the index, then the slot.
    slot: u32,
    place: u32,
    /// Of the way to the leaf, as the place.
    known: Skip,
    verb: Verb,
}

impl<K: Key, V> Part<K, V> {
    pub(super) fn new() -> Self {
        Part {
            items: Vec::new(),
            order: Vec::new(),
            ends: Vec::new(),
            updates: Vec::new(),
            unanswered: Vec::new(),
            panic: FirstPanic::default(),
        }
    }

    /// Moves operation `start + at` of a batch into this part. `word` is the prefix of its key.
    #[inline]
    pub(super) fn take_over(&mut self, ops: &mut impl Ops<K, V>, start: usize, at: usize, word: K::Word) {
        let verb = ops.verb(start + at);
        let (key, value) = match verb {
            Verb::Insert => {
                let (key, value) = ops.take(start + at);
                (key, Some(value))
            }
            Verb::Get | Verb::Remove => (ops.take_key(start + at), None),
            Verb::Update => {
                let (key, update) = ops.take_update(start + at);
                self.updates.resize_with(self.items.len(), || None);
                self.updates.push(Some(update));
                (key, None)
            }
        };
        self.items.push(Item {
            word,
            key: Some(key),
            value,
            at: at as u32,
            slot: 0,
            place: 0,
            known: Skip::NONE,
            verb,
        });
    }

    /// Answers the operations that this part took over from a batch, from `start` on, and removes them from the part.
    pub(super) fn hand_back(&mut self, ops: &mut impl Ops<K, V>, start: usize, panic: &mut FirstPanic) {
        panic.take_over(&mut self.panic);
        self.updates.clear();
        for (number, item) in self.items.drain(..).enumerate() {
            if self.unanswered.is_empty() || !self.unanswered.contains(&(number as u32)) {
                ops.answer(start + item.at as usize, item.verb, item.value);
            }
        }
        self.unanswered.clear();
    }
}

/// Why a key is present when it is taken.
const ONCE: &str = "a key is taken once";

impl<K: Key, V> Ops<K, V> for Part<K, V> {
    fn count(&self) -> usize {
        self.items.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.items[at].verb
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.items[at].key.as_ref().expect(ONCE)
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, V) {
        (self.take_key(at), self.take_value(at))
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        self.items[at].key.take().expect(ONCE)
    }

    #[inline]
    fn take_value(&mut self, at: usize) -> V {
        self.items[at].value.take().expect("an insert has a value")
    }

    #[inline]
    fn take_update(&mut self, at: usize) -> (K, Update<V>) {
        (self.take_key(at), self.updates[at].take().expect("an update has a function"))
    }

    #[inline]
    fn answer(&mut self, at: usize, _: Verb, old: Option<V>) {
        self.items[at].value = old;
    }
}

impl<K: Key, V: Clone> Shard<K, V> {
    /// Runs the operations of a part, leaf by leaf.
    pub(super) fn play(&mut self, part: &mut Part<K, V>, ends: Ends) {
        self.sort(part);
        let order = mem::take(&mut part.order);
        // A split only moves keys out of the current leaf; a join moves keys from another leaf.
        let joins = self.joins();
        let (mut slot, mut version) = (u32::MAX, 0);
        for at in &order {
            let at = *at as usize;
            let item = &part.items[at];
            if item.slot != slot {
                (slot, version) = (item.slot, self.version());
                let next = part.ends[slot as usize] as usize;
                if let Some(next) = order.get(next) {
                    self.leaf(part.items[*next as usize].place).prefetch();
                }
            }
            let word = item.word;
            let is_known = self.version() == version && self.joins() == joins;
            let way = Way { place: item.place, known: item.known };
            let way = if is_known { way } else { self.way(word, part.key(at)) };
            let verb = item.verb;
            match self.step(part, at, ends, word, way, &mut None) {
                Ok(result) => part.answer(at, verb, result),
                Err(payload) => {
                    part.panic.keep(payload);
                    part.unanswered.push(at as u32);
                }
            }
        }
        part.order = order;
    }

    /// Finds the leaf of each item, and sorts the items by leaf.
    fn sort(&self, part: &mut Part<K, V>) {
        part.ends.clear();
        part.ends.resize(self.slots() + 1, 0);
        for group in part.items.chunks_mut(GROUP) {
            for item in &mut *group {
                item.slot = self.block(item.word, item.key.as_ref().expect(ONCE));
            }
            for item in group {
                let slot = self.slot_in(item.slot, item.word, item.key.as_ref().expect(ONCE));
                item.slot = slot as u32;
                Way { place: item.place, known: item.known } = self.way_to(slot);
                part.ends[slot + 1] += 1;
            }
        }
        // `ends[slot + 1]` counts the items of `slot`. The running sum turns this into the start of each slot's items; placing the
        // items moves each start to the end.
        let mut begin = 0;
        for end in &mut part.ends {
            begin += *end;
            *end = begin;
        }
        part.order.clear();
        part.order.resize(part.items.len(), 0);
        for (at, item) in part.items.iter().enumerate() {
            let end = &mut part.ends[item.slot as usize];
            part.order[*end as usize] = at as u32;
            *end += 1;
        }
    }
}
