//! Batches: groups of operations whose cache misses overlap.
//!
//! A search of a large map waits for memory: the index is in a near cache, but the leaf is not. So a *group* of operations first
//! finds its leaves in the index and prefetches all of them. Then the operations run one after the other, in order of submission,
//! while the other leaves are still arriving. (Chen, Ailamaki, Gibbons and Mowry, "Improving hash join performance through
//! prefetching", 2004, call this group prefetching.)
//!
//! An earlier operation of the group may split or join leaves, so the leaf found for a later one may be wrong by then. The version
//! of the shard has changed in that case, and the search is repeated, in lines that are cached by now.

use windrow::batch::{Batch, Entry};

use super::map::OrderedMap;
use super::ops::{MapOp, Ops, Verb};
use super::shard::{GROUP, Shard, Way};
use super::update::FirstPanic;
use crate::keys::{Key, Number, Skip};

/// Fewer operations run one by one, because starting a group costs 10 ns. (Two operations on 1,000,000 keys: 185 ns each in a
/// group, 250 ns each without.)
const SMALL: usize = 2;

/// Batches from this size on are [dealt](super::deal) to the shards if they have an operation for every `LEAVES_AN_OP` leaves.
const LARGE: usize = 4096;
const LEAVES_AN_OP: usize = 4;

/// The leaf of an operation.
#[derive(Clone, Copy)]
struct Route<W> {
    word: W,
    shard: usize,
    way: Way,
    version: u32,
}

impl<W: Number> Route<W> {
    const NONE: Self = Route { word: W::MAX, shard: 0, way: Way { place: 0, known: Skip::NONE }, version: 0 };
}

impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> OrderedMap<K, V> {
    /// Applies a batch, as if one operation after the other. `results` is cleared and gets the result of each operation, in order: the
    /// previous value of the key, or what an update returns. Allocates nothing once its buffers have grown to the size of the batches.
    ///
    /// # Panics
    /// If a comparison or a clone panics: completed operations stay done, the others are dropped. If the function of an
    /// [`Update`](MapOp::Update) or a [`Query`](MapOp::Query) panics: all other operations are done.
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
        let mut room = std::mem::take(&mut self.scratch().ops);
        room.extend(ops.into_iter().map(Entry::Op));
        results.clear();
        let panic = self.run_batch(&mut Batch::new(&mut room));
        results.extend(room.drain(..).map(|entry| entry.into_reply().flatten()));
        self.scratch().ops = room;
        panic.go_on();
    }

    /// Applies operations with keys, and goes on with the first panic.
    pub(super) fn run_all(&mut self, ops: &mut impl Ops<K, V>) {
        let mut panic = FirstPanic::default();
        self.run_keyed(ops, &mut panic);
        panic.go_on();
    }

    /// Applies operations with keys.
    pub(crate) fn run_keyed(&mut self, ops: &mut impl Ops<K, V>, panic: &mut FirstPanic) {
        let count = ops.count();
        if count < SMALL {
            return self.few(ops, panic);
        }
        let mut start = self.append_run(ops, 0);
        let leaves = || self.shards.iter().map(Shard::slots).sum::<usize>();
        if count - start >= LARGE && (count - start) * LEAVES_AN_OP >= leaves() {
            self.deal(ops, start, panic);
            start = count;
        }
        while start < count {
            let end = count.min(start + GROUP);
            self.group(ops, start, end, panic);
            start = self.append_run(ops, end);
        }
    }

    /// Inserts the keys from operation `at` on that are each above all before, without a search. Returns the first operation that is not
    /// such an insert. (100,000 ascending keys above 1,000,000, in batches of 127: 13 ns each, 42 ns with searches.)
    fn append_run(&mut self, ops: &mut impl Ops<K, V>, mut at: usize) -> usize {
        while at < ops.count() && ops.verb(at) == Verb::Insert {
            let word = ops.key(at).prefix();
            let Some(spot) = self.behind_all(word, ops.key(at)) else { break };
            let (key, value) = ops.take(at);
            self.put(spot, word, key, value);
            ops.answer(at, Verb::Insert, None);
            at += 1;
        }
        at
    }

    #[inline(never)]
    fn few(&mut self, ops: &mut impl Ops<K, V>, panic: &mut FirstPanic) {
        for at in 0..ops.count() {
            let route = self.route(ops.key(at));
            self.step(ops, at, route, panic);
        }
    }

    /// Applies operations `start..end`, up to `GROUP`.
    fn group(&mut self, ops: &mut impl Ops<K, V>, start: usize, end: usize, panic: &mut FirstPanic) {
        let mut routes = [Route::NONE; GROUP];
        let routes = &mut routes[..end - start];
        self.routes(routes, |at| ops.key(start + at));
        let moves = self.moves;
        for (at, route) in (start..end).zip(routes) {
            if self.moves != moves || self.shards[route.shard].version() != route.version {
                *route = self.route(ops.key(at));
            }
            self.step(ops, at, *route, panic);
        }
    }

    /// Applies operation `at`.
    // Inlined, because a call would cost 4 ns of 50.
    #[inline(always)]
    fn step(&mut self, ops: &mut impl Ops<K, V>, at: usize, route: Route<K::Word>, panic: &mut FirstPanic) {
        let ends = self.ends(route.shard);
        let shard = &mut self.shards[route.shard];
        let (before, mut gone) = (shard.len(), None);
        let verb = ops.verb(at);
        let result = shard.step(ops, at, ends, route.word, route.way, &mut gone);
        let now = shard.len();
        if now != before {
            self.len = self.len - before + now;
            self.look_after(route.shard);
        }
        match result {
            Ok(result) => ops.answer(at, verb, result),
            Err(payload) => panic.keep(payload),
        }
    }
}

impl<K: Key, V> OrderedMap<K, V> {
    /// Looks up each key. `values` is cleared and gets the values found, in the same order.
    ///
    /// ```
    /// let map: windrow_collections::OrderedMap<i32, char> = [(1, 'a'), (2, 'b')].into_iter().collect();
    /// let mut values = Vec::new();
    /// map.get_all(&[2, 3], &mut values);
    /// assert_eq!(values, [Some(&'b'), None]);
    /// ```
    pub fn get_all<'a>(&'a self, keys: &[K], values: &mut Vec<Option<&'a V>>) {
        values.clear();
        self.look(keys, |_, entry| values.push(entry.map(|(_, value)| value)));
    }

    /// Looks up each key, in groups, and calls `found` with the results.
    pub(super) fn look<'a>(&'a self, keys: &[K], mut found: impl FnMut(usize, Option<(&'a K, &'a V)>)) {
        for start in (0..keys.len()).step_by(GROUP) {
            let keys = &keys[start..keys.len().min(start + GROUP)];
            let mut routes = [Route::NONE; GROUP];
            let routes = &mut routes[..keys.len()];
            self.routes(routes, |at| &keys[at]);
            for (at, (route, key)) in routes.iter().zip(keys).enumerate() {
                let shard = &self.shards[route.shard];
                let index = shard.find_on(route.way, route.word, key).ok();
                found(start + at, index.map(|index| shard.leaf(route.way.place).get(index)));
            }
        }
    }

    /// Finds the leaves of a group and prefetches their lines. Each pass is a loop of independent, branch-free searches, so the
    /// processor overlaps several.
    #[inline(always)]
    fn routes<'a>(&self, routes: &mut [Route<K::Word>], key: impl Fn(usize) -> &'a K)
    where
        K: 'a,
    {
        for (at, route) in routes.iter_mut().enumerate() {
            let key = key(at);
            route.word = key.prefix();
            route.shard = self.top.slot(route.word, key);
        }
        for (at, route) in routes.iter_mut().enumerate() {
            // First the block of the index, then the leaf.
            route.way.place = self.shards[route.shard].block(route.word, key(at));
        }
        for (at, route) in routes.iter_mut().enumerate() {
            let shard = &self.shards[route.shard];
            route.way = shard.way_to(shard.slot_in(route.way.place, route.word, key(at)));
            route.version = shard.version();
            shard.leaf(route.way.place).prefetch();
        }
    }

    /// Finds the leaf of a key.
    #[inline]
    fn route(&self, key: &K) -> Route<K::Word> {
        let word = key.prefix();
        let shard = self.top.slot(word, key);
        let within = &self.shards[shard];
        Route { word, shard, way: within.way(word, key), version: within.version() }
    }
}
