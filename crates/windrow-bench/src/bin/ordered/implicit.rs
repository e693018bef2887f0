//! Implicit batches: callers hand in chunks independently of each other.

use std::time::{Duration, Instant};

use windrow::batch::{BatchOps, Batched, Chunk};
use windrow::prelude::*;
use windrow_collections::{OrderedSet, SetOp, SkipList};

use crate::arms::{Arm, Shared};
use crate::work::Kind;

/// The largest batch, and the size of callers' chunks: as in obatcher's table.
pub(crate) const LIMIT: usize = 127;

/// A set as the arms use it.
trait Set<K>: BatchOps<Op = SetOp<K>, Reply = bool> + FromIterator<K> + Clone + Send + Sync + 'static {
    const NAME: &'static str;

    fn delete(&mut self, key: &K);

    fn count(&self) -> usize;
}

impl<K: Kind> Set<K> for OrderedSet<K> {
    const NAME: &'static str = "set";

    fn delete(&mut self, key: &K) {
        self.remove(key);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl<K: Kind> Set<K> for SkipList<K> {
    const NAME: &'static str = "list";

    fn delete(&mut self, key: &K) {
        self.remove(key);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// Why a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

/// Runs one chunk, and stores its replies.
fn chunk<K: Clone, S: Set<K>>(set: &Batched<S>, chunk: &mut Chunk<S>, ops: &[SetOp<K>], results: &mut [bool]) {
    chunk.extend(ops.iter().cloned());
    set.call_chunk(chunk).expect(SOUND);
    for (result, reply) in results.iter_mut().zip(chunk.replies()) {
        *result = reply.expect(SOUND);
    }
}

fn by_threads<K: Clone, S: Set<K>>(set: &Batched<S>, ops: &[SetOp<K>], results: &mut [bool]) {
    let mut own = Chunk::new();
    for (ops, results) in ops.chunks(LIMIT).zip(results.chunks_mut(LIMIT)) {
        chunk(set, &mut own, ops, results);
    }
}

fn by_calls<K: Clone, S: Set<K>>(set: &Batched<S>, ops: &[SetOp<K>], results: &mut [bool]) {
    for (op, result) in ops.iter().zip(results) {
        *result = set.call(op.clone()).expect(SOUND);
    }
}

fn arm<K: Kind, S: Set<K>>(
    name: &str,
    threads: usize,
    before: &S,
    run: fn(&Batched<S>, &[SetOp<K>], &mut [bool]),
) -> Box<dyn Arm<K>> {
    Box::new(Shared {
        name: format!("{name} {}", S::NAME),
        threads,
        structure: Batched::builder().limit(LIMIT).build(before.clone()),
        run,
        remove: |set: &Batched<S>, key: &K| set.exclusive(|set| set.delete(key)).expect(SOUND),
        len: |set: &Batched<S>| set.read(S::count).expect(SOUND),
        new: Vec::new(),
    })
}

/// A parallel loop over chunks, in the pool.
struct Loop<K: Kind, S: Set<K>> {
    set: Batched<S>,
    new: Vec<K>,
}

impl<K: Kind, S: Set<K>> Arm<K> for Loop<K, S> {
    fn name(&self) -> String {
        format!("loop {}", S::NAME)
    }

    fn threads(&self) -> usize {
        windrow::current_num_threads()
    }

    fn reset(&mut self) {
        let new = &mut self.new;
        self.set.exclusive(|set| new.drain(..).for_each(|key| set.delete(&key))).expect(SOUND);
    }

    fn run(&mut self, ops: &mut Vec<SetOp<K>>, results: &mut [bool]) -> Duration {
        let start = Instant::now();
        let set = &self.set;
        let chunks = ops.par_chunks(LIMIT).zip(results.par_chunks_mut(LIMIT));
        chunks.for_each_init(Chunk::new, |own, (ops, results)| chunk(set, own, ops, results));
        start.elapsed()
    }

    fn done(&mut self, ops: &[SetOp<K>], results: &[bool]) {
        self.new.extend(crate::arms::inserted(ops, results));
    }

    fn len(&self) -> usize {
        self.set.read(S::count).expect(SOUND)
    }
}

fn of<K: Kind, S: Set<K>>(keys: &[K]) -> Vec<Box<dyn Arm<K>>> {
    let before: S = keys.iter().cloned().collect();
    vec![
        arm("implicit", 1, &before, by_threads),
        arm("implicit", 2, &before, by_threads),
        Box::new(Loop { set: Batched::builder().limit(LIMIT).build(before.clone()), new: Vec::new() }),
        arm("calls", 2, &before, by_calls),
    ]
}

/// The ordered set and the skip list: chunks from threads and from a loop, and single calls.
pub(crate) fn all<K: Kind>(keys: &[K]) -> Vec<Box<dyn Arm<K>>> {
    let mut arms = of::<K, OrderedSet<K>>(keys);
    arms.extend(of::<K, SkipList<K>>(keys));
    arms
}
