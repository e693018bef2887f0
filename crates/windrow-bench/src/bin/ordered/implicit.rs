//! Implicit batches: callers hand in chunks independently of each other.

use std::time::{Duration, Instant};

use windrow::batch::{BatchOps, Batched, Chunk};
use windrow::prelude::*;
use windrow_collections::{OrderedSet, SetOp, SkipList};

use crate::arms::{Arm, Shared};

/// The largest batch, and the size of callers' chunks: as in obatcher's table.
pub(crate) const LIMIT: usize = 127;

/// A set as the arms use it.
trait Set: BatchOps<Op: From<SetOp<u64>>, Reply = bool> + FromIterator<u64> + Clone + Send + Sync + 'static {
    const NAME: &'static str;

    fn delete(&mut self, key: &u64);

    fn count(&self) -> usize;
}

impl Set for OrderedSet<u64> {
    const NAME: &'static str = "set";

    fn delete(&mut self, key: &u64) {
        self.remove(key);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl Set for SkipList<u64> {
    const NAME: &'static str = "list";

    fn delete(&mut self, key: &u64) {
        self.remove(key);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// Why a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

/// Runs one chunk, and stores its replies.
fn chunk<S: Set>(set: &Batched<S>, chunk: &mut Chunk<S>, ops: &[SetOp<u64>], results: &mut [bool]) {
    chunk.extend(ops.iter().copied().map(S::Op::from));
    set.call_chunk(chunk).expect(SOUND);
    for (result, reply) in results.iter_mut().zip(chunk.replies()) {
        *result = reply.expect(SOUND);
    }
}

fn by_threads<S: Set>(set: &Batched<S>, ops: &[SetOp<u64>], results: &mut [bool]) {
    let mut own = Chunk::new();
    for (ops, results) in ops.chunks(LIMIT).zip(results.chunks_mut(LIMIT)) {
        chunk(set, &mut own, ops, results);
    }
}

fn by_calls<S: Set>(set: &Batched<S>, ops: &[SetOp<u64>], results: &mut [bool]) {
    for (op, result) in ops.iter().zip(results) {
        *result = set.call((*op).into()).expect(SOUND);
    }
}

fn arm<S: Set>(
    name: &str,
    threads: usize,
    before: &S,
    run: fn(&Batched<S>, &[SetOp<u64>], &mut [bool]),
) -> Box<dyn Arm> {
    Box::new(Shared {
        name: format!("{name} {}", S::NAME),
        threads,
        structure: Batched::builder().limit(LIMIT).build(before.clone()),
        run,
        remove: |set: &Batched<S>, key: &u64| set.exclusive(|set| set.delete(key)).expect(SOUND),
        len: |set: &Batched<S>| set.read(S::count).expect(SOUND),
        new: Vec::new(),
    })
}

/// A parallel loop over chunks, in the pool.
struct Loop<S: Set> {
    set: Batched<S>,
    new: Vec<u64>,
}

impl<S: Set> Arm for Loop<S> {
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

    fn run(&mut self, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]) -> Duration {
        let start = Instant::now();
        let set = &self.set;
        let chunks = ops.par_chunks(LIMIT).zip(results.par_chunks_mut(LIMIT));
        chunks.for_each_init(Chunk::new, |own, (ops, results)| chunk(set, own, ops, results));
        start.elapsed()
    }

    fn done(&mut self, ops: &[SetOp<u64>], results: &[bool]) {
        self.new.extend(crate::arms::inserted(ops, results));
    }

    fn len(&self) -> usize {
        self.set.read(S::count).expect(SOUND)
    }
}

fn of<S: Set>(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let before: S = keys.iter().cloned().collect();
    vec![
        arm("implicit", 1, &before, by_threads),
        arm("implicit", 2, &before, by_threads),
        Box::new(Loop { set: Batched::builder().limit(LIMIT).build(before.clone()), new: Vec::new() }),
        arm("calls", 2, &before, by_calls),
    ]
}

/// The ordered set and the skip list: chunks from threads and from a loop, and single calls.
pub(crate) fn all(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let mut arms = of::<OrderedSet<u64>>(keys);
    arms.extend(of::<SkipList<u64>>(keys));
    arms
}
