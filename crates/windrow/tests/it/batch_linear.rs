//! Implicit batching is linearizable: random histories, a checker, and tests of the checker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::linear::{Access, Change, Counter, Done, Object, Register, Set, is_linearizable};
use windrow::batch::{Batch, BatchOps, Batched, Chunk, Runner};
use windrow_testkit::{Rng, block_on};

/// An operation from `called` to `returned`.
fn done<O, R>(called: u64, returned: u64, op: O, reply: R) -> Done<O, R> {
    Done { op, reply: Some(reply), called, returned }
}

/// An operation without a reply: it may have run or not.
fn lost<O, R>(called: u64, op: O) -> Done<O, R> {
    Done { op, reply: None, called, returned: u64::MAX }
}

#[test]
fn the_checker_accepts_what_some_order_explains() {
    let overlapping = [vec![done(0, 3, 1, 1)], vec![done(1, 2, 1, 0)]];
    assert!(is_linearizable::<Counter>(&overlapping));
    // A long operation may be anywhere among short ones.
    let around = [vec![done(0, 9, 5, 2)], (0..4).map(|n| done(2 * n + 1, 2 * n + 2, 1, n + 5 * (n / 2))).collect()];
    assert!(is_linearizable::<Counter>(&around));
    for seen in [0, 7] {
        let perhaps = [vec![lost(0, Access::Write(7))], vec![done(1, 2, Access::Read, seen)]];
        assert!(is_linearizable::<Register>(&perhaps), "it was run, or it was not");
    }
    let late = [
        vec![lost(0, Change::Insert(3))],
        vec![done(1, 2, Change::Look(3), false), done(3, 4, Change::Remove(3), true)],
    ];
    assert!(is_linearizable::<Set>(&late), "it is run after its caller is gone");
}

#[test]
fn the_checker_rejects_what_no_order_explains() {
    let update_lost = [vec![done(0, 3, 1, 0)], vec![done(1, 2, 1, 0)]];
    assert!(!is_linearizable::<Counter>(&update_lost));
    let against_time = [vec![done(0, 1, 1, 1)], vec![done(2, 3, 1, 0)]];
    assert!(!is_linearizable::<Counter>(&against_time), "the one that has returned was first");
    let against_its_caller = [vec![done(0, 9, 1, 1), done(0, 9, 1, 0)], vec![]];
    assert!(!is_linearizable::<Counter>(&against_its_caller), "a chunk has an order");
    let stale = [vec![done(0, 1, Access::Write(1), 0)], vec![done(2, 3, Access::Read, 0)]];
    assert!(!is_linearizable::<Register>(&stale));
    let back_and_forth =
        [vec![done(0, 9, Access::Write(1), 0)], vec![done(1, 2, Access::Read, 1), done(3, 4, Access::Read, 0)]];
    assert!(!is_linearizable::<Register>(&back_and_forth));
    let out_of_air = [vec![done(0, 3, Access::Read, 4)], vec![done(1, 2, Access::Exchange(9, 4), 0)]];
    assert!(!is_linearizable::<Register>(&out_of_air));
    let both_first = [vec![done(0, 3, Change::Insert(1), false)], vec![done(1, 2, Change::Insert(1), false)]];
    assert!(!is_linearizable::<Set>(&both_first));
    let too_early =
        [vec![done(0, 1, Change::Look(1), true)], vec![lost(2, Change::Insert(1)), lost(3, Change::Insert(1))]];
    assert!(!is_linearizable::<Set>(&too_early), "what was not called cannot have been run");
}

/// A serial object, explicitly batched.
struct Batches<T>(T);

impl<T: Object<Op: Send + Sync, Reply: Send>> BatchOps for Batches<T> {
    type Op = T::Op;
    type Reply = T::Reply;

    fn run(&mut self, batch: &mut Batch<'_, T::Op, T::Reply>) {
        // Other callers hand in meanwhile.
        thread::yield_now();
        batch.iter_mut().for_each(|entry| entry.answer(|op| self.0.apply(op)));
    }
}

const THREADS: u64 = 4;
/// Turns of each caller. A history is short, so that more histories are tried.
const TURNS: u64 = 8;

/// One history with all kinds of calls.
fn history<T>(batched: &Batched<Batches<T>>, seed: u64, op: impl Fn(&mut Rng) -> T::Op + Sync) -> Vec<Lane<T>>
where
    T: Object<Op: Send + Sync, Reply: Send> + Send,
{
    let clock = AtomicU64::new(0);
    // AcqRel: pairs with the same operation of other callers; work before a stamp happens before work after a later stamp.
    let now = || clock.fetch_add(1, Ordering::AcqRel);
    let dropped = Mutex::new(Vec::new());
    let start = Barrier::new(THREADS as usize);
    let caller = |who: u64| {
        let mut rng = Rng(seed * THREADS + who + 1);
        let mut lane = Vec::new();
        start.wait();
        for _ in 0..TURNS {
            let called = now();
            match rng.below(8) {
                0 | 1 => {
                    let op = op(&mut rng);
                    let reply = batched.call(op).unwrap();
                    lane.push(done(called, now(), op, reply));
                }
                2 | 3 => {
                    let op = op(&mut rng);
                    let reply = block_on(batched.call_async(op)).unwrap();
                    lane.push(done(called, now(), op, reply));
                }
                4 => {
                    let op = op(&mut rng);
                    let reply = batched.exclusive(|object| object.0.apply(op)).unwrap();
                    lane.push(done(called, now(), op, reply));
                }
                5 => {
                    let op = op(&mut rng);
                    let mut future = Box::pin(batched.call_async(op));
                    // Its waker does nothing: if it is woken it is dropped, which hands the duty on.
                    if let Poll::Ready(reply) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        lane.push(done(called, now(), op, reply.unwrap()));
                    } else {
                        drop(future);
                        dropped.lock().unwrap().push(vec![lost(called, op)]);
                    }
                }
                _ => {
                    let ops: Vec<T::Op> = (0..=rng.below(3)).map(|_| op(&mut rng)).collect();
                    let mut chunk = Chunk::new();
                    chunk.extend(ops.iter().copied());
                    batched.call_chunk(&mut chunk).unwrap();
                    let returned = now();
                    let all = ops.into_iter().zip(chunk.replies());
                    lane.extend(all.map(|(op, reply)| done(called, returned, op, reply.unwrap())));
                }
            }
        }
        lane
    };
    let mut lanes: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS).map(|who| scope.spawn(move || caller(who))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    lanes.extend(dropped.into_inner().unwrap());
    lanes
}

type Lane<T> = Vec<Done<<T as Object>::Op, <T as Object>::Reply>>;

fn check<T>(op: impl Fn(&mut Rng) -> T::Op + Sync)
where
    T: Object<Op: Send + Sync + std::fmt::Debug, Reply: Send + std::fmt::Debug> + Send + 'static,
{
    let rounds = if cfg!(miri) { 2 } else { 60 };
    let structure = || Batches(T::default());
    for seed in 0..rounds {
        for batched in [
            Batched::new(structure()),
            Batched::builder().limit(2).build(structure()),
            Batched::builder().build_on(Runner::thread(structure)).unwrap(),
            Batched::builder().build_on(Runner::beside_callers(structure())).unwrap(),
            Batched::builder().build_on(Runner::spawned(structure(), |run| drop(thread::spawn(run)))).unwrap(),
        ] {
            let lanes = history(&batched, seed, &op);
            assert!(is_linearizable::<T>(&lanes), "{lanes:#?}");
        }
    }
}

#[test]
fn a_counter_is_linearizable() {
    check::<Counter>(|rng| 1 + rng.below(2));
}

#[test]
fn a_register_is_linearizable() {
    check::<Register>(|rng| match rng.below(3) {
        0 => Access::Read,
        1 => Access::Write(rng.below(5)),
        _ => Access::Exchange(rng.below(5), rng.below(5)),
    });
}

#[test]
fn a_set_is_linearizable() {
    check::<Set>(|rng| {
        let key = rng.below(4) as u32;
        match rng.below(3) {
            0 => Change::Insert(key),
            1 => Change::Remove(key),
            _ => Change::Look(key),
        }
    });
}
