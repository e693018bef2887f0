//! The structures that are measured.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use congee::Congee;
use crossbeam_skiplist::SkipMap;
use parking_lot::Mutex;
use windrow_collections::{OrderedSet, SetOp};

/// One way to do the operations.
pub(crate) trait Arm {
    fn name(&self) -> String;

    /// Threads that do the operations. With several threads the results depend on their order, so only the number of keys is compared.
    fn threads(&self) -> usize {
        1
    }

    /// Restores the structure of the first repetition.
    fn reset(&mut self);

    /// Does the operations, which it may take out of `ops`, and returns the time that they took.
    fn run(&mut self, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]) -> Duration;

    /// Called with the results, outside of the time.
    fn done(&mut self, _ops: &[SetOp<u64>], _results: &[bool]) {}

    /// Number of keys.
    fn len(&self) -> usize;
}

/// A structure that is cloned for each repetition, and the function that uses it.
pub(crate) struct Cloned<S, F> {
    pub(crate) name: String,
    pub(crate) before: S,
    pub(crate) now: Option<S>,
    pub(crate) run: F,
    pub(crate) len: fn(&S) -> usize,
}

impl<S: Clone, F: FnMut(&mut S, &mut Vec<SetOp<u64>>, &mut [bool])> Arm for Cloned<S, F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn reset(&mut self) {
        self.now = None;
        self.now = Some(self.before.clone());
    }

    fn run(&mut self, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]) -> Duration {
        let start = Instant::now();
        (self.run)(self.now.as_mut().expect("reset comes first"), ops, results);
        start.elapsed()
    }

    fn len(&self) -> usize {
        self.now.as_ref().map_or(0, self.len)
    }
}

/// A structure that several threads use, each for its share of the operations. Removing the new keys restores it.
pub(crate) struct Shared<S, F, R> {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) structure: S,
    /// Operations, in the order of their submission.
    pub(crate) run: F,
    pub(crate) remove: R,
    pub(crate) len: fn(&S) -> usize,
    pub(crate) new: Vec<u64>,
}

impl<S, F, R> Arm for Shared<S, F, R>
where
    S: Sync,
    F: Fn(&S, &[SetOp<u64>], &mut [bool]) + Sync,
    R: Fn(&S, &u64),
{
    fn name(&self) -> String {
        format!("{} x{}", self.name, self.threads)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn reset(&mut self) {
        for key in self.new.drain(..) {
            (self.remove)(&self.structure, &key);
        }
    }

    fn run(&mut self, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]) -> Duration {
        let share = ops.len().div_ceil(self.threads);
        let (structure, run) = (&self.structure, &self.run);
        let shares = ops.chunks(share).zip(results.chunks_mut(share));
        together(shares.map(|(ops, results)| move || run(structure, ops, results)))
    }

    fn done(&mut self, ops: &[SetOp<u64>], results: &[bool]) {
        self.new.extend(inserted(ops, results));
    }

    fn len(&self) -> usize {
        (self.len)(&self.structure)
    }
}

/// Does each work on a thread, the first on this one; the time from their common start until the last one ends.
///
/// Starting a thread is not part of the time, nor is the time until the scheduler has moved it away from the CPU where it was started: of
/// two new threads both began on one CPU, and finished 7 ms of work before one was moved.
pub(crate) fn together<W: FnOnce() + Send>(works: impl Iterator<Item = W>) -> Duration {
    let works: Vec<W> = works.collect();
    let barrier = Barrier::new(works.len());
    let one = |work: W| {
        barrier.wait();
        let start = Instant::now();
        work();
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let mut works = works.into_iter();
        let first = works.next();
        let others: Vec<_> = works.map(|work| scope.spawn(|| one(work))).collect();
        let own = first.map_or(Duration::ZERO, &one);
        others.into_iter().map(|other| other.join().expect("no panic")).fold(own, Duration::max)
    })
}

/// The keys that were new.
pub(crate) fn inserted(ops: &[SetOp<u64>], results: &[bool]) -> impl Iterator<Item = u64> {
    ops.iter().zip(results).filter_map(|(op, new)| match op {
        SetOp::Insert(key) if *new => Some(*key),
        _ => None,
    })
}

fn key(op: &SetOp<u64>) -> &u64 {
    match op {
        SetOp::Contains(key) | SetOp::Insert(key) | SetOp::Remove(key) => key,
        SetOp::Query(never) => match *never {},
    }
}

fn each(ops: &[SetOp<u64>], results: &mut [bool], mut one: impl FnMut(&SetOp<u64>) -> bool) {
    for (op, result) in ops.iter().zip(results) {
        *result = one(op);
    }
}

fn cloned<S: Clone + 'static>(
    name: &str,
    before: &S,
    len: fn(&S) -> usize,
    run: impl FnMut(&mut S, &mut Vec<SetOp<u64>>, &mut [bool]) + 'static,
) -> Box<dyn Arm> {
    Box::new(Cloned { name: name.to_owned(), before: before.clone(), now: None, run, len })
}

/// `BTreeSet`, in the order of submission and sorted; the first is the baseline.
pub(crate) fn btree(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let before: BTreeSet<u64> = keys.iter().cloned().collect();
    let sorted = |set: &mut BTreeSet<u64>, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]| {
        let mut ops: Vec<_> = ops.drain(..).enumerate().collect();
        // Stable: operations on a key stay in order.
        ops.sort_by(|(_, a), (_, b)| key(a).cmp(key(b)));
        for (at, op) in ops {
            results[at] = on_btree(set, op);
        }
    };
    vec![
        cloned(
            "btree",
            &before,
            BTreeSet::len,
            |set: &mut BTreeSet<u64>, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]| {
                for (op, result) in ops.drain(..).zip(results) {
                    *result = on_btree(set, op);
                }
            },
        ),
        cloned("btree sorted", &before, BTreeSet::len, sorted),
        Box::new(Shared {
            name: "mutex btree".to_owned(),
            threads: 2,
            structure: Mutex::new(before),
            run: |set: &Mutex<BTreeSet<u64>>, ops: &[SetOp<u64>], results: &mut [bool]| {
                each(ops, results, |op| on_btree(&mut set.lock(), *op));
            },
            remove: |set: &Mutex<BTreeSet<u64>>, key: &u64| {
                set.lock().remove(key);
            },
            len: |set: &Mutex<BTreeSet<u64>>| set.lock().len(),
            new: Vec::new(),
        }),
    ]
}

pub(crate) fn on_btree(set: &mut BTreeSet<u64>, op: SetOp<u64>) -> bool {
    match op {
        SetOp::Contains(key) => set.contains(&key),
        SetOp::Insert(key) => set.insert(key),
        SetOp::Remove(key) => set.remove(&key),
    }
}

/// The ordered set: one by one, by batches, all at once, and by batches under a lock.
pub(crate) fn set(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let before: OrderedSet<u64> = keys.iter().cloned().collect();
    let batches = |size: usize| {
        move |set: &mut OrderedSet<u64>, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]| {
            let size = if size == 0 { ops.len() } else { size };
            for (ops, results) in ops.chunks(size).zip(results.chunks_mut(size)) {
                set.apply(ops, results);
            }
        }
    };
    let one_by_one = |set: &mut OrderedSet<u64>, ops: &mut Vec<SetOp<u64>>, results: &mut [bool]| {
        for (op, result) in ops.drain(..).zip(results) {
            *result = match op {
                SetOp::Contains(key) => set.contains(&key),
                SetOp::Insert(key) => set.insert(key),
                SetOp::Remove(key) => set.remove(&key),
            };
        }
    };
    let mut arms = vec![cloned("set", &before, OrderedSet::len, one_by_one)];
    for (name, size) in [("set/16", 16), ("set/127", 127), ("set/4096", 4096), ("set/all", 0)] {
        arms.push(cloned(name, &before, OrderedSet::len, batches(size)));
    }
    arms.push(Box::new(Shared {
        name: "mutex set/127".to_owned(),
        threads: 2,
        structure: Mutex::new(before),
        run: |set: &Mutex<OrderedSet<u64>>, ops: &[SetOp<u64>], results: &mut [bool]| {
            for (ops, results) in ops.chunks(127).zip(results.chunks_mut(127)) {
                set.lock().apply(ops, results);
            }
        },
        remove: |set: &Mutex<OrderedSet<u64>>, key: &u64| {
            set.lock().remove(key);
        },
        len: |set: &Mutex<OrderedSet<u64>>| set.lock().len(),
        new: Vec::new(),
    }));
    arms
}

/// Lock-free and concurrent peers, on one thread and on two.
pub(crate) fn peers(keys: &[u64]) -> Vec<Box<dyn Arm>> {
    let mut arms: Vec<Box<dyn Arm>> = Vec::new();
    for threads in [1, 2] {
        let map = SkipMap::new();
        for key in keys {
            map.insert(*key, 0);
        }
        arms.push(Box::new(Shared {
            name: "skipmap".to_owned(),
            threads,
            structure: map,
            run: |map: &SkipMap<u64, usize>, ops: &[SetOp<u64>], results: &mut [bool]| {
                each(ops, results, |op| match op {
                    SetOp::Contains(key) => map.contains_key(key),
                    // If two threads insert a key at once, both have called a closure; the stored value shows which was first.
                    SetOp::Insert(key) => {
                        let mine = std::ptr::from_ref(op).addr();
                        *map.get_or_insert(*key, mine).value() == mine
                    }
                    SetOp::Remove(key) => map.remove(key).is_some(),
                    SetOp::Query(never) => match *never {},
                });
            },
            remove: |map: &SkipMap<u64, usize>, key: &u64| {
                map.remove(key);
            },
            len: SkipMap::len,
            new: Vec::new(),
        }));
    }
    for threads in [1, 2] {
        let tree = Congee::<usize, usize>::default();
        for key in keys {
            assert!(tree.insert(*key as usize, 0, &tree.pin()).is_ok(), "congee is out of memory");
        }
        arms.push(Box::new(Shared {
            name: "congee".to_owned(),
            threads,
            structure: tree,
            run: |tree: &Congee<usize, usize>, ops: &[SetOp<u64>], results: &mut [bool]| {
                // As its documentation asks: one guard for many operations, renewed from time to time.
                for (ops, results) in ops.chunks(127).zip(results.chunks_mut(127)) {
                    let guard = tree.pin();
                    each(ops, results, |op| match op {
                        SetOp::Contains(key) => tree.get(&(*key as usize), &guard).is_some(),
                        SetOp::Insert(key) => tree.insert(*key as usize, 0, &guard).expect("memory").is_none(),
                        SetOp::Remove(key) => tree.remove(&(*key as usize), &guard).is_some(),
                        SetOp::Query(never) => match *never {},
                    });
                }
            },
            remove: |tree: &Congee<usize, usize>, key: &u64| {
                tree.remove(&(*key as usize), &tree.pin());
            },
            len: |tree: &Congee<usize, usize>| tree.keys().len(),
            new: Vec::new(),
        }));
    }
    arms
}
