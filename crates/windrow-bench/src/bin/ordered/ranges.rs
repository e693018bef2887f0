//! A set divided by ranges of keys, under locks.

use windrow_collections::{SetOp, SharedSet};

use crate::arms::{Arm, Shared};
use crate::implicit::LIMIT;

/// The shared set, on one thread and on two.
pub(crate) fn all(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let mut arms: Vec<Box<dyn Arm>> = Vec::new();
    for threads in [1, 2] {
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
