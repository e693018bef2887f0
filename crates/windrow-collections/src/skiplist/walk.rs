//! Searches of a group, step by step in turn.
//!
//! A search of a long list is a chain of cache misses. Here many walk at the same time: each takes one step, asks for the lines of its
//! next one, and it is the turn of another. Whether a step goes on or down is a selection, not a branch, as nobody could guess it.
//! (Kocberber, Falsafi and Grot, "Asynchronous memory access chaining", 2015.)

use std::hint::select_unpredictable;

use windrow_sync::machine::prefetch;

use super::{Before, HEAD, LEVELS, SkipList};
use crate::keys::Key;

/// Searches at the same time.
pub(super) const GROUP: usize = 32;

/// Room of a group, used again.
#[derive(Clone)]
pub(super) struct Walks<W> {
    /// What was found.
    pub(super) before: Vec<Before>,
    /// Those that have not arrived.
    walking: Vec<Walk<W>>,
    /// Of a large batch: first words and places in it.
    pub(super) order: Vec<(W, usize)>,
}

#[derive(Clone, Copy)]
struct Walk<W> {
    word: W,
    at: u32,
    level: u32,
    number: u32,
}

impl<W> Walks<W> {
    pub(super) fn new() -> Self {
        Walks { before: Vec::new(), walking: Vec::new(), order: Vec::new() }
    }
}

impl<K: Key> SkipList<K> {
    /// Finds towers before each key, on every level; the last ones but for keys whose words are equal.
    pub(super) fn walk<'a>(&self, walks: &mut Walks<K::Word>, keys: impl Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        let Walks { before, walking, .. } = walks;
        before.clear();
        walking.clear();
        let level = (self.levels - 1) as u32;
        for (number, key) in keys.enumerate() {
            before.push([HEAD; LEVELS]);
            walking.push(Walk { word: key.prefix(), at: HEAD, level, number: number as u32 });
        }
        let mut left = walking.len();
        while left > 0 {
            let mut turn = 0;
            while turn < left {
                let walk = &mut walking[turn];
                let link = self.link_of(walk.at, walk.level as usize);
                // Of equal words the keys would have to be asked: whoever uses what was found does that.
                let on = link.word < walk.word;
                walk.at = select_unpredictable(on, link.next, walk.at);
                before[walk.number as usize][walk.level as usize] = walk.at;
                if !on && walk.level == 0 {
                    left -= 1;
                    walking.swap(turn, left);
                    continue;
                }
                walk.level -= u32::from(!on);
                prefetch(self.link_of(walk.at, walk.level as usize));
                turn += 1;
            }
        }
    }
}
