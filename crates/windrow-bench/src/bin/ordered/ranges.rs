//! Sets divided by ranges of keys: by their owner, with nothing shared, and under locks.

use std::time::Duration;

use windrow_collections::{OrderedSet, SetOp, SharedSet};

use crate::arms::{Arm, Shared, together};
use crate::implicit::LIMIT;

fn key(op: &SetOp<u64>) -> &u64 {
    match op {
        SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key) => key,
        SetOp::Query(never) => match *never {},
    }
}

/// The upper bound: as many threads as halves of the keys, each with a set and with its operations in a list, and nothing shared.
struct Apart {
    middle: Option<u64>,
    threads: usize,
    before: Vec<OrderedSet<u64>>,
    sets: Vec<OrderedSet<u64>>,
    halves: Vec<Half>,
}

/// The operations of a half, where they were in the list of all, and their results.
struct Half {
    ops: Vec<SetOp<u64>>,
    at: Vec<usize>,
    results: Vec<bool>,
}

impl Apart {
    fn new(keys: &[u64], threads: usize) -> Self {
        let mut low: OrderedSet<u64> = keys.iter().cloned().collect();
        let middle = (threads == 2).then(|| low.iter().nth(low.len() / 2).cloned()).flatten();
        let high = middle.as_ref().map(|middle| low.split_off(middle)).unwrap_or_default();
        Apart { middle, threads, before: vec![low, high], sets: Vec::new(), halves: Vec::new() }
    }
}

impl Arm for Apart {
    fn name(&self) -> String {
        format!("apart set/127 x{}", self.threads)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn reset(&mut self) {
        self.sets.clear();
        self.sets.extend(self.before.iter().cloned());
    }

    fn prepare(&mut self, ops: &[SetOp<u64>]) {
        let empty = || Half { ops: Vec::new(), at: Vec::new(), results: Vec::new() };
        self.halves = vec![empty(), empty()];
        for (at, op) in ops.iter().enumerate() {
            let half = usize::from(self.middle.as_ref().is_some_and(|middle| key(op) >= middle));
            let half = &mut self.halves[half];
            half.ops.push(*op);
            half.at.push(at);
            half.results.push(false);
        }
    }

    fn run(&mut self, _: &mut Vec<SetOp<u64>>, _: &mut [bool]) -> Duration {
        let halves = self.sets.iter_mut().zip(&mut self.halves).take(self.threads);
        together(halves.map(|(set, half)| {
            move || {
                for (ops, results) in half.ops.chunks(LIMIT).zip(half.results.chunks_mut(LIMIT)) {
                    set.apply(ops, results);
                }
            }
        }))
    }

    fn finish(&mut self, results: &mut [bool]) {
        for half in &self.halves {
            half.at.iter().zip(&half.results).for_each(|(at, own)| results[*at] = *own);
        }
    }

    fn len(&self) -> usize {
        self.sets.iter().map(OrderedSet::len).sum()
    }
}

/// As many threads as halves that share nothing, and the shared set.
pub(crate) fn all(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let mut arms: Vec<Box<dyn Arm>> = Vec::new();
    for threads in [1, 2] {
        arms.push(Box::new(Apart::new(keys, threads)));
        arms.push(Box::new(Shared {
            name: "shared set".to_owned(),
            threads,
            structure: keys.iter().cloned().collect::<SharedSet<u64>>(),
            run: |set: &SharedSet<u64>, ops: &[SetOp<u64>], results: &mut [bool]| {
                for (ops, results) in ops.chunks(LIMIT).zip(results.chunks_mut(LIMIT)) {
                    set.apply(ops, results);
                }
            },
            remove: |set: &SharedSet<u64>, key: &u64| _ = set.remove(key),
            len: SharedSet::len,
            new: Vec::new(),
        }));
    }
    arms
}
