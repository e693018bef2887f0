//! Large batches: dealt to the shards, which run their parts in parallel.

use std::mem;

use windrow::prelude::*;

use super::map::OrderedMap;
use super::ops::Ops;
use super::part::Part;
use super::shard::{Ends, Shard};
use super::update::FirstPanic;
use crate::keys::Key;

/// A batch is dealt in rounds. A round has as many operations as the map has keys, within these limits. Between rounds, shards that
/// have become too large are divided. So no index grows so large that inserting into it is slow.
const LEAST_ROUND: usize = 1 << 16;
const LARGEST_ROUND: usize = 1 << 18;

impl<K: Key<Column: Send> + Send + Sync, V: Clone + Send> OrderedMap<K, V> {
    /// Applies a large batch, from operation `start` on.
    pub(super) fn deal(&mut self, ops: &mut impl Ops<K, V>, mut start: usize, panic: &mut FirstPanic) {
        // If a comparison panics, the dealt operations and the buffers are dropped.
        let mut parts = mem::take(&mut self.scratch().parts);
        while start < ops.count() {
            let end = ops.count().min(start + self.len.clamp(LEAST_ROUND, LARGEST_ROUND));
            parts.resize_with(parts.len().max(self.shards.len()), Part::new);
            for at in 0..end - start {
                let word = ops.key(start + at).prefix();
                let shard = self.top.slot(word, ops.key(start + at));
                parts[shard].take_over(ops, start, at, word);
            }
            self.play(&mut parts);
            parts.iter_mut().for_each(|part| part.hand_back(ops, start, panic));
            start = end;
        }
        self.scratch().parts = parts;
    }

    /// Runs the part of each shard, in parallel.
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
pub(super) struct Tidying<'a, K: Key, V>(pub(super) &'a mut OrderedMap<K, V>);

impl<K: Key, V> Drop for Tidying<'_, K, V> {
    fn drop(&mut self) {
        self.0.len = self.0.shards.iter().map(Shard::len).sum();
        for at in (0..self.0.shards.len()).rev() {
            self.0.look_after(at);
        }
    }
}
