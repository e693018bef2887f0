//! Batches: groups whose cache misses overlap, and large batches sorted by key.
//!
//! A search of a large map waits for memory: its leaf is in no near cache. A *group* of operations first finds its leaves in the index, which
//! is in a near cache, and asks for all of them; then it works on one after the other, in the order of submission, while the rest is under
//! way. Where that pays and by how much, the [crate](crate) says.
//!
//! A place found first may be wrong when its turn comes, as an operation before it has split or joined leaves: the version of its shard tells,
//! and the search is done again, in lines that are near by now.
//!
//! A large batch has many keys a leaf. It is dealt to the shards; each sorts its part and goes through its leaves once, the shards
//! in parallel. Operations on one key stay in the order of their submission; between different keys no order can be seen.

use windrow::prelude::*;

use super::map::OrderedMap;
use super::ops::{MapOp, Ops, Owned, Verb};
use super::shard::{Ends, Shard};
use crate::keys::{Key, Number, Prefix};
use crate::keys::column::Sealed;

/// Operations whose misses overlap.
const GROUP: usize = 32;

/// Batches from this size on, with so many keys a leaf, are dealt.
const LARGE: usize = 4096;
const LEAVES_A_KEY: usize = 4;

/// Room that batches use again.
pub(super) struct Scratch<K: Key, V> {
    ops: Vec<Option<MapOp<K, V>>>,
    dealt: Vec<Vec<Item<K, V>>>,
}

/// An operation that was dealt to a shard.
struct Item<K: Key, V> {
    word: K::Word,
    /// When it was submitted.
    at: usize,
    verb: Verb,
    key: K,
    /// Of an insert; later the answer.
    value: Option<V>,
}

/// Where an operation goes.
#[derive(Clone, Copy)]
struct Route<W> {
    word: W,
    shard: usize,
    place: u32,
    version: u32,
}

impl<K: Key, V> Scratch<K, V> {
    pub(super) fn new() -> Self {
        Scratch { ops: Vec::new(), dealt: Vec::new() }
    }
}

impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> OrderedMap<K, V> {
    /// Applies a batch, as if one operation after the other; `results` is cleared and gets each one's result in the same order: the value
    /// that the key had before. Allocates nothing once its room has grown to the size of the batches.
    ///
    /// # Panics
    /// If a comparison or a clone panics: operations that were done stay done, the others are dropped.
    ///
    /// ```
    /// use windrow_collections::{MapOp, OrderedMap};
    ///
    /// let mut map = OrderedMap::new();
    /// let mut results = Vec::new();
    /// map.apply([MapOp::Insert(1, 'a'), MapOp::Get(1), MapOp::Insert(1, 'b'), MapOp::Remove(2)], &mut results);
    /// assert_eq!(results, [None, Some('a'), Some('a'), None]);
    /// ```
    pub fn apply(&mut self, ops: impl IntoIterator<Item = MapOp<K, V>>, results: &mut Vec<Option<V>>) {
        let mut room = std::mem::take(&mut self.scratch.ops);
        room.extend(ops.into_iter().map(Some));
        results.clear();
        results.resize_with(room.len(), || None);
        self.run(&mut Owned { ops: &mut room, results });
        room.clear();
        self.scratch.ops = room;
    }

    /// Applies a batch from whatever has collected it, as if one operation after the other.
    ///
    /// # Panics
    /// As [`apply`](Self::apply).
    pub fn run(&mut self, ops: &mut impl Ops<K, V>) {
        let count = ops.count();
        if count >= LARGE && count * LEAVES_A_KEY >= self.leaves() {
            self.deal(ops);
        } else {
            for start in (0..count).step_by(GROUP) {
                self.group(ops, start, count.min(start + GROUP));
            }
        }
    }

    /// Operations `start..end`, at most `GROUP`.
    fn group(&mut self, ops: &mut impl Ops<K, V>, start: usize, end: usize) {
        // Each pass is a loop of independent searches that take no branch, so the processor works on several at once.
        let mut routes = [Route { word: K::Word::MAX, shard: 0, place: 0, version: 0 }; GROUP];
        let routes = &mut routes[..end - start];
        for (at, route) in (start..end).zip(&mut *routes) {
            let key = ops.key(at);
            route.word = key.prefix();
            route.shard = self.top.slot(route.word, key);
        }
        for route in &mut *routes {
            route.place = self.shards[route.shard].block(route.word);
        }
        for (at, route) in (start..end).zip(&mut *routes) {
            let shard = &self.shards[route.shard];
            route.place = shard.place_in(route.place, route.word, ops.key(at));
            route.version = shard.version();
            shard.leaf(route.place).prefetch();
        }
        let moves = self.moves;
        for (at, route) in (start..end).zip(routes) {
            if self.moves != moves || self.shards[route.shard].version() != route.version {
                *route = self.route(ops.key(at));
            }
            self.step(ops, at, *route);
        }
    }

    /// Finds the leaf of a key.
    fn route(&self, key: &K) -> Route<K::Word> {
        let word = key.prefix();
        let shard = self.top.slot(word, key);
        let within = &self.shards[shard];
        Route { word, shard, place: within.place(word, key), version: within.version() }
    }

    /// Does operation `at`.
    #[inline]
    fn step(&mut self, ops: &mut impl Ops<K, V>, at: usize, route: Route<K::Word>) {
        let Route { word, shard: number, place, .. } = route;
        let ends = self.ends(number);
        let shard = &mut self.shards[number];
        let found = shard.leaf(place).find(word, ops.key(at));
        let old = match (ops.verb(at), found) {
            (Verb::Get, found) => found.ok().map(|index| shard.leaf(place).get(index).1.clone()),
            (Verb::Insert, Ok(index)) => {
                Some(std::mem::replace(shard.leaf_mut(place).value(index), ops.take_value(at)))
            }
            (Verb::Insert, Err(index)) => {
                let (key, value) = ops.take(at);
                shard.insert_at(place, index, ends, word, key, value);
                self.len += 1;
                self.look_after(number);
                None
            }
            (Verb::Remove, Ok(index)) => {
                let (_key, value, _border) = shard.remove_at(place, index);
                self.len -= 1;
                self.look_after(number);
                Some(value)
            }
            (Verb::Remove, Err(_)) => None,
        };
        ops.answer(at, old);
    }

    fn leaves(&self) -> usize {
        self.shards.iter().map(Shard::slots).sum()
    }

    /// Deals a batch to the shards.
    fn deal(&mut self, ops: &mut impl Ops<K, V>) {
        let mut dealt = std::mem::take(&mut self.scratch.dealt);
        dealt.resize_with(dealt.len().max(self.shards.len()), Vec::new);
        for at in 0..ops.count() {
            let word = ops.key(at).prefix();
            let shard = self.top.slot(word, ops.key(at));
            let verb = ops.verb(at);
            let (key, value) = match verb {
                Verb::Insert => {
                    let (key, value) = ops.take(at);
                    (key, Some(value))
                }
                Verb::Get | Verb::Remove => (ops.key(at).clone(), None),
            };
            dealt[shard].push(Item { word, at, verb, key, value });
        }
        {
            let map = Tidying(self);
            let last = map.0.shards.len() - 1;
            map.0.shards.par_iter_mut().zip(&mut dealt[..=last]).enumerate().for_each(|(at, (shard, items))| {
                shard.merge(items, Ends { first: at == 0, last: at == last });
            });
        }
        for item in dealt.iter_mut().flat_map(|items| items.drain(..)) {
            ops.answer(item.at, item.value);
        }
        self.scratch.dealt = dealt;
    }
}

/// Brings a map into order after its shards have changed by themselves, by a panic too.
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
    /// Does the operations of its part of a batch, in the order of keys, and leaves their answers.
    fn merge(&mut self, items: &mut [Item<K, V>], ends: Ends) {
        items.sort_unstable_by(|a, b| {
            let by_word = a.word.cmp(&b.word);
            let by_key = if K::Column::EXACT { by_word } else { by_word.then_with(|| a.key.cmp(&b.key)) };
            by_key.then(a.at.cmp(&b.at))
        });
        for item in items {
            let place = self.place(item.word, &item.key);
            let found = self.leaf(place).find(item.word, &item.key);
            item.value = match (item.verb, found) {
                (Verb::Get, found) => found.ok().map(|index| self.leaf(place).get(index).1.clone()),
                (Verb::Insert, Ok(index)) => {
                    let value = item.value.take().expect("an insert has a value");
                    Some(std::mem::replace(self.leaf_mut(place).value(index), value))
                }
                (Verb::Insert, Err(index)) => {
                    let value = item.value.take().expect("an insert has a value");
                    self.insert_at(place, index, ends, item.word, item.key.clone(), value);
                    None
                }
                (Verb::Remove, Ok(index)) => Some(self.remove_at(place, index).1),
                (Verb::Remove, Err(_)) => None,
            };
        }
    }
}
