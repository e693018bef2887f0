//! Implicit batching: guarantees for callers that block.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;

use crate::batches::{Counter, PANICS, Slow};
use windrow::batch::{Batch, BatchError, BatchOps, Batched, Chunk, Overflow, Runner};
use windrow::prelude::*;
use windrow_testkit::Live;

/// `threads` callers with `each` calls. Every reply is the previous value, so all replies together are a permutation.
fn permutation(counter: &Batched<Counter>, threads: usize, each: usize) {
    let start = counter.exclusive(|counter| counter.value).unwrap();
    let replies: Vec<Vec<u64>> = thread::scope(|scope| {
        let callers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| (0..each).map(|_| counter.call(1).unwrap()).collect())).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    for mine in &replies {
        assert!(mine.is_sorted(), "one caller's order is kept");
    }
    let mut all: Vec<u64> = replies.into_iter().flatten().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(start..start + (threads * each) as u64));
}

#[test]
fn every_caller_gets_its_own_previous_value() {
    for threads in [1, 2, 8] {
        permutation(&Batched::new(Counter::default()), threads, 2_000);
        permutation(&Batched::builder().limit(3).build(Counter::default()), threads, 2_000);
    }
}

#[test]
fn many_more_callers_than_cpus_get_through() {
    let counter = Batched::new(Counter::default());
    permutation(&counter, 32, 300);
    assert_eq!(counter.into_inner().unwrap().value, 9_600);
}

#[test]
fn runners_of_their_own() {
    let thread = Batched::builder().build_on(Runner::thread(Counter::default)).unwrap();
    permutation(&thread, 4, 500);
    let spawned =
        Batched::builder().build_on(Runner::spawned(Counter::default(), |run| drop(thread::spawn(run)))).unwrap();
    permutation(&spawned, 4, 500);
    // An executor that has shut down drops its closures.
    let dropped = Batched::builder().build_on(Runner::spawned(Counter::default(), drop)).unwrap();
    permutation(&dropped, 4, 500);
    assert_eq!(dropped.into_inner().unwrap().value, 2_000);
    assert!(thread.into_inner().is_none(), "it was dropped where it was made");
}

/// Replies with the thread that runs the operation.
struct Whereabouts;

impl BatchOps for Whereabouts {
    type Op = Option<mpsc::Receiver<()>>;
    type Reply = thread::ThreadId;

    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>) {
        for entry in batch.iter_mut() {
            // Blocks until the test sends a message.
            if let Some(gate) = entry.take() {
                gate.recv().unwrap();
            }
            entry.reply(thread::current().id());
        }
    }
}

#[test]
fn a_thread_beside_its_callers_runs_what_finds_company() {
    let counter = Batched::builder().build_on(Runner::beside_callers(Counter::default())).unwrap();
    permutation(&counter, 4, 500);
    assert_eq!(counter.into_inner().unwrap().value, 2_000);

    let places = Batched::builder().build_on(Runner::beside_callers(Whereabouts)).unwrap();
    let me = thread::current().id();
    // A lone caller: no thread is woken.
    assert_eq!(places.call(None).unwrap(), me);
    let (open, gate) = mpsc::channel();
    thread::scope(|scope| {
        let first = scope.spawn(|| (places.call(Some(gate)).unwrap(), thread::current().id()));
        let others: Vec<_> =
            (0..3).map(|_| scope.spawn(|| (places.call(None).unwrap(), thread::current().id()))).collect();
        open.send(()).unwrap();
        let all: Vec<_> = others.into_iter().chain([first]).map(|caller| caller.join().unwrap()).collect();
        // Its own caller or the one runner ran each operation; no other caller did, nor did this thread.
        let runners: HashSet<_> =
            all.iter().filter(|(ran_on, caller)| ran_on != caller).map(|(ran_on, _)| *ran_on).collect();
        assert!(runners.len() <= 1, "{all:?}");
        assert!(all.iter().all(|(_, caller)| !runners.contains(caller)) && !runners.contains(&me), "{all:?}");
    });
    assert_eq!(places.stats().unwrap().ops(), 5);
}

/// Replies first, then performs the effect.
#[derive(Default)]
struct Promises {
    promised: usize,
    kept: Arc<AtomicUsize>,
}

impl BatchOps for Promises {
    type Op = ();
    type Reply = usize;

    fn run(&mut self, batch: &mut Batch<'_, (), usize>) {
        for entry in batch.iter_mut() {
            self.promised += 1;
            entry.reply(self.promised);
        }
        thread::yield_now();
        self.kept.store(self.promised, Relaxed);
    }
}

#[test]
fn a_reply_comes_after_the_effect() {
    let kept = Arc::new(AtomicUsize::new(0));
    let promises = || Promises { promised: 0, kept: kept.clone() };
    let made = promises();
    for promises in [Batched::new(promises()), Batched::builder().build_on(Runner::thread(|| made)).unwrap()] {
        kept.store(0, Relaxed);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let promised = promises.call(()).unwrap();
                        assert!(kept.load(Relaxed) >= promised);
                        let promised = windrow_testkit::block_on(promises.call_async(())).unwrap();
                        assert!(kept.load(Relaxed) >= promised);
                    }
                });
            }
        });
    }
}

/// Prepares operations: adds the preparing thread to the number.
struct Prepared;

impl BatchOps for Prepared {
    type Op = (u64, Option<thread::ThreadId>);
    type Reply = (u64, Option<thread::ThreadId>, bool);

    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>) {
        batch.iter_mut().for_each(|entry| entry.answer(|(n, by)| (n, by, false)));
    }

    fn run_one(&mut self, (n, by): Self::Op) -> Self::Reply {
        (n, by, true)
    }

    fn prepare(op: &mut Self::Op) {
        *op = (op.0 + 1, Some(thread::current().id()));
    }
}

#[test]
fn operations_are_prepared_by_their_callers_and_may_have_a_way_of_their_own() {
    let me = Some(thread::current().id());
    let here = Batched::new(Prepared);
    assert_eq!(here.call((1, None)).unwrap(), (2, me, true), "alone");
    let elsewhere = Batched::builder().build_on(Runner::thread(|| Prepared)).unwrap();
    assert_eq!(elsewhere.call((1, None)).unwrap(), (2, me, false));
    assert_eq!(windrow_testkit::block_on(elsewhere.call_async((1, None))).unwrap(), (2, me, false));
    let mut chunk = Chunk::new();
    chunk.extend([(1, None), (2, None)]);
    here.call_chunk(&mut chunk).unwrap();
    assert!(chunk.replies().map(Result::unwrap).eq([(2, me, false), (3, me, false)]));
}

/// A structure that cannot leave its thread.
struct Bound {
    seen: Rc<Cell<u64>>,
    dropped: Arc<OnceLock<thread::ThreadId>>,
}

impl BatchOps for Bound {
    type Op = u64;
    type Reply = (u64, thread::ThreadId);

    fn run(&mut self, batch: &mut Batch<'_, u64, Self::Reply>) {
        for entry in batch.iter_mut() {
            self.seen.set(self.seen.get() + entry.take());
            entry.reply((self.seen.get(), thread::current().id()));
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.dropped.set(thread::current().id()).unwrap();
    }
}

#[test]
fn a_structure_that_is_not_send_stays_on_its_thread() {
    let dropped = Arc::new(OnceLock::new());
    let bound = {
        let dropped = dropped.clone();
        Batched::builder().build_on(Runner::thread(move || Bound { seen: Rc::default(), dropped })).unwrap()
    };
    let (seen, runner) = bound.call(5).unwrap();
    assert_eq!(seen, 5);
    assert_ne!(runner, thread::current().id());
    assert_eq!(bound.exclusive(|bound| (bound.seen.get(), thread::current().id())).unwrap(), (5, runner));
    drop(bound);
    assert_eq!(dropped.get(), Some(&runner));
}

#[test]
fn a_structure_that_cannot_be_made_is_poisoned() {
    let none = Batched::<Counter>::builder().build_on(Runner::thread(|| panic!("injected"))).unwrap();
    assert_eq!(none.call(1).unwrap_err().kind(), BatchError::Poisoned);
    none.close().unwrap();
}

/// Divides; an operation may fail, and one is left unanswered.
struct Divide;

impl BatchOps for Divide {
    type Op = (u32, u32);
    type Reply = Result<u32, &'static str>;

    fn run(&mut self, batch: &mut Batch<'_, (u32, u32), Self::Reply>) {
        for entry in batch.iter_mut().filter(|entry| entry.op().0 != 13) {
            entry.answer(|(a, b)| a.checked_div(b).ok_or("by zero"));
        }
    }
}

#[test]
fn one_bad_operation_does_not_concern_the_others() {
    let divide = Batched::new(Divide);
    let mut chunk = Chunk::new();
    chunk.extend([(6, 3), (1, 0), (13, 1), (8, 2)]);
    divide.call_chunk(&mut chunk).unwrap();
    let replies: Vec<_> = chunk.replies().collect();
    assert_eq!(replies, [Ok(Ok(2)), Ok(Err("by zero")), Err(BatchError::Unanswered), Ok(Ok(4))]);
    assert!(chunk.is_empty());
}

#[test]
fn a_panic_answers_all_and_poisons() {
    let counter = Batched::new(Counter::default());
    let mut chunk = Chunk::new();
    chunk.extend([1, PANICS, 2]);
    counter.call_chunk(&mut chunk).unwrap();
    let replies: Vec<_> = chunk.replies().collect();
    assert_eq!(replies, [Err(BatchError::Panicked); 3], "although `run` had replied to the first");
    let error = counter.call(7).unwrap_err();
    assert_eq!((error.kind(), error.into_op()), (BatchError::Poisoned, Some(7)));
    assert_eq!(counter.exclusive(|_| ()), Err(BatchError::Poisoned));
    assert_eq!(counter.read(|_| ()), Err(BatchError::Poisoned));
    counter.close().unwrap();
    assert!(counter.into_inner().is_none());
}

#[test]
fn a_panic_is_recovered_from() {
    for threaded in [false, true] {
        let builder = Batched::builder().recover(|counter: &mut Counter| counter.value = 100);
        let counter = if threaded {
            builder.build_on(Runner::thread(Counter::default)).unwrap()
        } else {
            builder.build(Counter::default())
        };
        assert_eq!(counter.call(1).unwrap(), 0);
        assert_eq!(counter.call(PANICS).unwrap_err().kind(), BatchError::Panicked);
        assert_eq!(counter.call(1).unwrap(), 100);
        let panic = thread::scope(|scope| scope.spawn(|| counter.exclusive(|_| panic!("injected"))).join());
        assert!(panic.is_err(), "a panic in `exclusive` is the caller's");
        assert_eq!(counter.call(1).unwrap(), 100);
    }
    let hopeless = Batched::builder().recover(|_: &mut Counter| panic!("injected")).build(Counter::default());
    assert_eq!(hopeless.call(PANICS).unwrap_err().kind(), BatchError::Panicked);
    assert_eq!(hopeless.call(1).unwrap_err().kind(), BatchError::Poisoned);
}

#[test]
fn panics_under_contention_lose_no_caller() {
    let counter =
        Batched::builder().recover(|counter: &mut Counter| counter.value = counter.settled).build(Counter::default());
    let added: u64 = thread::scope(|scope| {
        let caller = |odd: u64| {
            let counter = &counter;
            move || {
                let ops = (0..500).map(|at| if at % 50 == odd { PANICS } else { 1 });
                ops.filter(|&op| counter.call(op).is_ok()).count() as u64
            }
        };
        let callers: Vec<_> = (0..4).map(|odd| scope.spawn(caller(odd))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(counter.into_inner().unwrap().value, added);
}

#[test]
fn closing_answers_what_is_there_and_rejects_what_comes() {
    let counter = Batched::new(Counter::default());
    let answered = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    match counter.call(1) {
                        Ok(_) => answered.fetch_add(1, Relaxed),
                        Err(error) => {
                            return assert_eq!((error.kind(), error.into_op()), (BatchError::Closed, Some(1)));
                        }
                    };
                }
            });
        }
        while answered.load(Relaxed) < 100 {
            thread::yield_now();
        }
        counter.close().unwrap();
        assert_eq!(counter.close(), Err(BatchError::Closed));
    });
    let mut chunk = Chunk::new();
    chunk.push(1);
    assert_eq!((counter.call_chunk(&mut chunk), chunk.len()), (Err(BatchError::Closed), 1));
    assert_eq!(counter.exclusive(|_| ()), Err(BatchError::Closed));
    assert_eq!(counter.read(|counter| counter.value).unwrap(), answered.load(Relaxed) as u64, "it can still be read");
    assert_eq!(counter.stats().unwrap().ops(), answered.load(Relaxed) as u64);
    assert_eq!(counter.into_inner().unwrap().value, answered.load(Relaxed) as u64);
}

#[test]
fn limits_by_count_and_by_weight() {
    let counter = Batched::builder().limit(4).build(Counter::default());
    let mut chunk = Chunk::new();
    chunk.extend([1; 10]);
    counter.call_chunk(&mut chunk).unwrap();
    assert!(chunk.replies().map(Result::unwrap).eq(0..10));
    assert_eq!(counter.into_inner().unwrap().batches, [4, 4, 2]);

    let counter = Batched::builder().weight_limit(10).build(Counter::default());
    chunk.extend([4, 6, 1, 50, 9, 1, 1]);
    counter.call_chunk(&mut chunk).unwrap();
    assert!(chunk.replies().map(Result::unwrap).eq([0, 4, 10, 11, 61, 70, 71]));
    assert_eq!(counter.into_inner().unwrap().batches, [2, 1, 1, 2, 1]);
}

/// Panics when it weighs 13.
#[derive(Default)]
struct Superstitious(Vec<usize>);

impl BatchOps for Superstitious {
    type Op = u64;
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, u64, ()>) {
        self.0.push(batch.len());
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }

    fn weight(op: &u64) -> usize {
        assert!(*op != 13, "injected");
        1
    }
}

#[test]
fn what_cannot_be_weighed_is_run_on_its_own() {
    let mut chunk = Chunk::new();
    for batched in [
        Batched::builder().weight_limit(10).build(Superstitious::default()),
        Batched::builder().weight_limit(10).build_on(Runner::beside_callers(Superstitious::default())).unwrap(),
    ] {
        chunk.extend([1, 2, 13, 13, 4, 5]);
        batched.call_chunk(&mut chunk).unwrap();
        assert_eq!(chunk.replies().filter(Result::is_ok).count(), 6);
        assert_eq!(batched.into_inner().unwrap().0, [2, 1, 1, 2]);
    }
}

#[test]
fn a_full_queue_rejects_and_gives_the_operation_back() {
    let (go, gone) = mpsc::channel();
    let slow = Batched::builder().queue(1, Overflow::Reject).build_on(Runner::thread(move || Slow(gone))).unwrap();
    thread::scope(|scope| {
        let queued = scope.spawn(|| slow.call(()));
        // Only one operation can be in flight, so one is rejected sooner or later. The other one needs a message.
        let mut rejected = None;
        let mine = scope.spawn(|| slow.call(()));
        while !(queued.is_finished() || mine.is_finished()) {
            thread::yield_now();
        }
        go.send(()).unwrap();
        for outcome in [queued, mine].map(|caller| caller.join().unwrap()) {
            rejected = outcome.err().or(rejected);
        }
        let error = rejected.expect("one was rejected");
        assert_eq!((error.kind(), error.into_op()), (BatchError::Full, Some(())));
    });
}

#[test]
fn a_full_queue_lets_callers_wait() {
    let builder = |room| Batched::builder().queue(room, Overflow::Block);
    permutation(&builder(1).build(Counter::default()), 4, 300);
    permutation(&builder(2).build_on(Runner::thread(Counter::default)).unwrap(), 4, 300);
    let counter = builder(3).build(Counter::default());
    let mut chunk = Chunk::new();
    chunk.extend([1; 10]);
    counter.call_chunk(&mut chunk).unwrap();
    assert_eq!(chunk.replies().filter(Result::is_ok).count(), 10, "more than there is room for");
}

/// Calls another structure, or itself.
struct Calls {
    other: Arc<Batched<Counter>>,
    own: Arc<OnceLock<Arc<Batched<Calls>>>>,
}

impl BatchOps for Calls {
    type Op = &'static str;
    type Reply = Result<u64, BatchError>;

    fn run(&mut self, batch: &mut Batch<'_, &'static str, Self::Reply>) {
        for entry in batch.iter_mut() {
            let own = || self.own.get().unwrap();
            let reply = match entry.take() {
                "other" => self.other.call(1).map_err(|error| error.kind()),
                "own" => own().call("own").map_err(|error| error.kind()).and_then(|reply| reply),
                "async" => windrow_testkit::block_on(own().call_async("own"))
                    .map_err(|error| error.kind())
                    .and_then(|reply| reply),
                "chunk" => {
                    let mut chunk = Chunk::new();
                    chunk.push("own");
                    own().call_chunk(&mut chunk).map(|()| 0)
                }
                "exclusive" => own().exclusive(|_| 0),
                "stats" => own().stats().map(|stats| stats.ops()),
                "close" => own().close().map(|()| 0),
                _ => Ok(0),
            };
            entry.reply(reply);
        }
    }
}

#[test]
fn operations_may_call_others_but_not_their_own() {
    let own = Arc::new(OnceLock::new());
    let other = Arc::new(Batched::new(Counter::default()));
    let calls = Arc::new(Batched::new(Calls { other: other.clone(), own: own.clone() }));
    own.set(calls.clone()).unwrap();
    for round in 0..3 {
        assert_eq!(calls.call("other").unwrap(), Ok(round));
    }
    for op in ["own", "async", "chunk", "exclusive", "stats", "close"] {
        assert_eq!(calls.call(op).unwrap(), Err(BatchError::Nested), "{op}");
    }
    assert_eq!(calls.exclusive(|_| calls.call("own").map_err(|error| error.kind())), Ok(Err(BatchError::Nested)));
    assert_eq!(other.read(|_| other.call(1).map_err(|error| error.kind())), Ok(Err(BatchError::Nested)));
    assert_eq!(other.read(|_| other.read(|_| ())), Ok(Err(BatchError::Nested)));
    assert_eq!(calls.call("other").unwrap(), Ok(3), "it is as usable as before");
    // Concurrently: two structures in one program, one calling the other.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| assert!(calls.call("other").unwrap().unwrap() < u64::MAX)));
            scope.spawn(|| (0..200).for_each(|_| assert!(other.call(1).unwrap() < u64::MAX)));
        }
    });
    assert_eq!(other.read(|counter| counter.value).unwrap(), 4 + 1_600);
}

#[test]
fn readers_read_side_by_side() {
    let counter = Batched::new(Counter::default());
    counter.call(5).unwrap();
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let value = counter.read(|counter| {
                    both.wait();
                    counter.value
                });
                assert_eq!(value, Ok(5));
            });
        }
    });
    // With writers in between.
    thread::scope(|scope| {
        scope.spawn(|| (0..2_000).for_each(|_| assert!(counter.call(2).unwrap() < u64::MAX)));
        scope.spawn(|| (0..2_000).for_each(|_| assert_eq!(counter.read(|counter| counter.value % 2), Ok(1))));
    });
}

#[test]
fn calls_inside_a_region_a_team_and_a_join() {
    for counter in [
        Batched::new(Counter::default()),
        Batched::builder().limit(2).build(Counter::default()),
        Batched::builder().build_on(Runner::thread(Counter::default)).unwrap(),
    ] {
        let mut replies: Vec<u64> = (0..2_000).into_par_iter().map(|_| counter.call(1).unwrap()).collect();
        replies.sort_unstable();
        assert!(replies.into_iter().eq(0..2_000));
        windrow::join(
            || (0..500).for_each(|_| assert!(counter.call(1).unwrap() < u64::MAX)),
            || (0..500).for_each(|_| assert!(counter.call(1).unwrap() < u64::MAX)),
        );
        let members = windrow::team(&mut ()).width(2).run(|member| {
            for _ in 0..50 {
                counter.call(1).unwrap();
                member.barrier()?;
            }
            Ok::<(), windrow::team::Ended>(())
        });
        assert!(members.iter().all(Result::is_ok));
        let value = counter.exclusive(|counter| counter.value).unwrap();
        assert_eq!(value, 3_000 + 50 * members.len() as u64);
    }
}

/// Runs its batches in parallel.
struct Squares;

impl BatchOps for Squares {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        batch.par_iter_mut().for_each(|entry| entry.answer(|n| n * n));
    }
}

#[test]
fn a_batch_may_be_run_in_parallel_and_called_from_parallel_loops() {
    let squares = Batched::new(Squares);
    let sum: u64 = (0..100_u64)
        .into_par_iter()
        .map(|at| {
            let mut chunk = Chunk::new();
            chunk.extend(at * 100..(at + 1) * 100);
            squares.call_chunk(&mut chunk).unwrap();
            chunk.replies().map(Result::unwrap).sum::<u64>()
        })
        .sum();
    assert_eq!(sum, (0..10_000_u64).map(|n| n * n).sum());
}

/// Runs its batches on a separate pool.
struct Pooled(windrow::Pool);

impl BatchOps for Pooled {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        self.0.install(|| batch.par_iter_mut().for_each(|entry| entry.answer(|n| n + 1)));
    }
}

#[test]
fn a_batch_may_be_run_on_a_pool_of_its_own() {
    let pooled = Batched::new(Pooled(windrow::Pool::new(2)));
    let mut replies: Vec<u64> = (0..2_000_u64).into_par_iter().map(|n| pooled.call(n).unwrap()).collect();
    replies.sort_unstable();
    assert!(replies.into_iter().eq(1..2_001));
}

#[test]
fn ten_structures_in_one_program() {
    let counters: Vec<_> = (0..10).map(|_| Batched::new(Counter::default())).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..2_000).for_each(|at| assert!(counters[at % 10].call(1).unwrap() < u64::MAX)));
        }
    });
    for counter in counters {
        assert_eq!(counter.into_inner().unwrap().value, 800);
    }
}

/// An operation that is counted, and whether it panics.
type Token<'c> = Live<&'c AtomicIsize, bool>;

struct Passes<'c>(std::marker::PhantomData<&'c ()>);

impl<'c> BatchOps for Passes<'c> {
    type Op = Token<'c>;
    type Reply = Token<'c>;

    fn run(&mut self, batch: &mut Batch<'_, Token<'c>, Token<'c>>) {
        for entry in batch.iter_mut() {
            let token = entry.take();
            assert!(!token.1, "injected");
            entry.reply(token);
        }
    }
}

#[test]
fn nothing_leaks_and_nothing_is_dropped_twice() {
    let alive = AtomicIsize::new(0);
    let passes = Batched::builder().limit(3).recover(|_: &mut Passes<'_>| ()).build(Passes(Default::default()));
    thread::scope(|scope| {
        for odd in 0..4 {
            let (passes, alive) = (&passes, &alive);
            scope.spawn(move || {
                for at in 0..300 {
                    drop(passes.call(Live::new(alive, at % 40 == odd)));
                    let mut chunk = Chunk::new();
                    chunk.extend((0..7).map(|_| Live::new(alive, at % 60 == odd)));
                    passes.call_chunk(&mut chunk).unwrap();
                    chunk.replies().take(3).for_each(drop);
                }
            });
        }
    });
    passes.close().unwrap();
    drop(passes.call(Live::new(&alive, false)));
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn statistics_are_exact() {
    let counter = Batched::builder().limit(8).build(Counter::default());
    let mut chunk = Chunk::new();
    for size in [1, 3, 3, 8, 20] {
        chunk.extend((0..size).map(|_| 1));
        counter.call_chunk(&mut chunk).unwrap();
        assert_eq!(chunk.replies().len(), size);
    }
    counter.call(1).unwrap();
    let stats = counter.stats().unwrap();
    assert_eq!(stats.sizes().collect::<Vec<_>>(), [(1, 1), (3, 2), (4, 1), (8, 3)]);
    assert_eq!((stats.ops(), stats.alone(), stats.batches(), stats.largest()), (36, 1, 7, 8));
    let traffic = stats.traffic();
    assert!(stats.law().is_some(), "sizes differ");
    assert!(stats.verdict().is_none(), "a few batches may have been interrupted");
    assert_eq!((traffic.batch, traffic.is_limited), (35.0 / 7.0, false), "two of seven were limited");
    assert_eq!((traffic.in_flight, traffic.alone), ((35.0 + 12.0 + 4.0) / 7.0, 1.0 / 36.0));
    let (mean, longest) = stats.queue_wait().expect("one call in 64 is stamped, beginning with the first");
    assert!(mean.0 > 0.0 && mean <= longest, "{mean} {longest}");
    chunk.extend((0..200).map(|_| 1));
    counter.call_chunk(&mut chunk).unwrap();
    assert!(counter.stats().unwrap().traffic().is_limited);
    assert_eq!(chunk.replies().len(), 200);

    let exact = Batched::builder().limit(3_000).build(Counter::default());
    chunk.extend((0..5_000).map(|_| 1));
    exact.call_chunk(&mut chunk).unwrap();
    assert_eq!(exact.stats().unwrap().sizes().collect::<Vec<_>>(), [(2_000, 1), (3_000, 1)]);
    assert_eq!(chunk.replies().len(), 5_000);

    let wide = Batched::new(Counter::default());
    chunk.extend((0..5_000).map(|_| 1));
    wide.call_chunk(&mut chunk).unwrap();
    assert_eq!(wide.stats().unwrap().sizes().collect::<Vec<_>>(), [(4096, 1)], "by powers of two");
}
