//! Large batches: dealt to the shards, and within each shard to its leaves.
//!
//! With several operations per leaf, the order of submission would visit the same leaves again and again. So each shard gets its part
//! of the batch, in parallel, and sorts it by leaf. The sort is a counting sort: stable and without comparisons, and the search it
//! needs is needed anyway. Operations on one key stay in order of submission; an order between different keys cannot be observed.

use std::mem;

use windrow::prelude::*;

use super::batch::GROUP;
use super::map::OrderedMap;
use super::ops::{Ops, Verb};
use super::shard::{Ends, Shard};
use crate::keys::Key;

/// A larger batch is dealt in several rounds. A round has as many operations as the map has keys, within these limits. Between rounds,
/// shards that have become too large are divided, so no index grows to a size at which inserting into it is slow.
const LEAST_ROUND: usize = 1 << 16;
const LARGEST_ROUND: usize = 1 << 18;

/// A shard's part of a round.
pub(super) struct Part<K: Key, V> {
    items: Vec<Item<K, V>>,
    /// Items in the order of their leaves.
    order: Vec<u32>,
    /// By slot: the end of its items in `order`.
    ends: Vec<u32>,
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
    verb: Verb,
}

impl<K: Key, V> Part<K, V> {
    fn new() -> Self {
        Part { items: Vec::new(), order: Vec::new(), ends: Vec::new() }
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
    fn answer(&mut self, at: usize, _: Verb, old: Option<V>) {
        self.items[at].value = old;
    }
}

impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> OrderedMap<K, V> {
    /// Applies a large batch.
    pub(super) fn deal(&mut self, ops: &mut impl Ops<K, V>) {
        // If an operation panics, the dealt operations and the buffers are dropped.
        let mut parts = mem::take(&mut self.scratch.parts);
        let mut start = 0;
        while start < ops.count() {
            let end = ops.count().min(start + self.len.clamp(LEAST_ROUND, LARGEST_ROUND));
            parts.resize_with(parts.len().max(self.shards.len()), Part::new);
            for at in start..end {
                self.deal_one(ops, start, at, &mut parts);
            }
            self.play(&mut parts);
            for item in parts.iter_mut().flat_map(|part| part.items.drain(..)) {
                ops.answer(start + item.at as usize, item.verb, item.value);
            }
            start = end;
        }
        self.scratch.parts = parts;
    }

    #[inline]
    fn deal_one(&self, ops: &mut impl Ops<K, V>, start: usize, at: usize, parts: &mut [Part<K, V>]) {
        let word = ops.key(at).prefix();
        let shard = self.top.slot(word, ops.key(at));
        let verb = ops.verb(at);
        let (key, value) = match verb {
            Verb::Insert => {
                let (key, value) = ops.take(at);
                (key, Some(value))
            }
            Verb::Get | Verb::Remove => (ops.take_key(at), None),
        };
        let at = (at - start) as u32;
        parts[shard].items.push(Item { word, key: Some(key), value, at, slot: 0, place: 0, verb });
    }

    /// The shards run their parts.
    fn play(&mut self, parts: &mut [Part<K, V>]) {
        let map = Tidying(self);
        let shards = &mut map.0.shards;
        let last = shards.len() - 1;
        let parts = &mut parts[..=last];
        shards.par_iter_mut().zip(parts).enumerate().for_each(|(at, (shard, part))| {
            shard.play(part, Ends { first: at == 0, last: at == last });
        });
    }
}

/// Tidies a map after its shards have changed independently, also after a panic.
struct Tidying<'a, K: Key, V>(&'a mut OrderedMap<K, V>);

impl<K: Key, V> Drop for Tidying<'_, K, V> {
    fn drop(&mut self) {
        self.0.len = self.0.shards.iter().map(Shard::len).sum();
        for at in (0..self.0.shards.len()).rev() {
            self.0.look_after(at);
        }
    }
}

impl<K: Key, V: Clone> Shard<K, V> {
    /// Runs the operations of a part, leaf by leaf.
    fn play(&mut self, part: &mut Part<K, V>, ends: Ends) {
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
            let known = self.version() == version && self.joins() == joins;
            let place = if known { item.place } else { self.place(word, part.key(at)) };
            let verb = item.verb;
            let old = self.step(part, at, ends, word, place, &mut None);
            part.answer(at, verb, old);
        }
        part.order = order;
    }

    /// Finds the leaf of each item, and sorts the items by leaf.
    fn sort(&self, part: &mut Part<K, V>) {
        part.ends.clear();
        part.ends.resize(self.slots() + 1, 0);
        for group in part.items.chunks_mut(GROUP) {
            for item in &mut *group {
                item.slot = self.block(item.word);
            }
            for item in group {
                let slot = self.slot_in(item.slot, item.word, item.key.as_ref().expect(ONCE));
                item.slot = slot as u32;
                item.place = self.place_of(slot);
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
