//! Faults of callers, structures and spawners: they affect no other caller.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use windrow::batch::{Batch, BatchError, BatchOps, Batched, CallError, Chunk, Entry, Runner};

use crate::batches::{Counter, PANICS};

/// The result of `f`. If `f` hangs, the test fails, and the thread is left behind.
fn ends<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || drop(done.send(f())));
    is_done.recv_timeout(Duration::from_secs(60)).expect("it neither hangs nor panics")
}

#[test]
fn a_chunk_is_used_again_whether_or_not_its_replies_were_taken() {
    for builder in [Batched::builder(), Batched::builder().weight_limit(100), Batched::builder().limit(2)] {
        let counter = builder.build(Counter::default());
        let mut chunk = Chunk::new();
        chunk.extend([1, 2, 3]);
        counter.call_chunk(&mut chunk).unwrap();
        assert!(chunk.is_empty(), "nothing is left to be handed in");
        // Again without operations, and then with new ones.
        counter.call_chunk(&mut chunk).unwrap();
        assert_eq!(chunk.replies().len(), 0);
        for _ in 0..3 {
            chunk.extend([4, 5]);
            assert_eq!(chunk.len(), 2);
            counter.call_chunk(&mut chunk).unwrap();
        }
        assert!(chunk.replies().eq([Ok(24), Ok(28)]), "those of the last call");
        assert_eq!(counter.call(10).unwrap(), 33, "another caller has not noticed");
        counter.close().unwrap();
        chunk.push(7);
        assert_eq!(counter.call_chunk(&mut chunk), Err(BatchError::Closed));
        assert_eq!((chunk.len(), chunk.replies().len()), (1, 0), "it still holds its operation");
        assert_eq!(counter.into_inner().unwrap().value, 43);
    }
}

/// Visits operations in the order of their keys. The reply is the operation and its position in this order.
#[derive(Default)]
struct Visits {
    by_comparison: bool,
    last: Vec<(u32, u32)>,
}

impl BatchOps for Visits {
    /// A key and a number.
    type Op = (u32, u32);
    type Reply = (u32, u32, usize);

    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>) {
        let (mut at, last) = (0, &mut self.last);
        last.clear();
        let visit = |entry: &mut Entry<_, _>| {
            last.push(*entry.op());
            entry.answer(|(key, number)| (key, number, at));
            at += 1;
        };
        match self.by_comparison {
            true => batch.for_each_by(|a, b| a.0.cmp(&b.0), visit),
            false => batch.for_each_by_key(|op| op.0, visit),
        }
        assert!(at == batch.len() && batch.iter_mut().all(|entry| entry.is_answered()));
    }
}

#[test]
fn operations_are_visited_by_key_and_replies_reach_their_callers() {
    for by_comparison in [false, true] {
        let visits = Batched::new(Visits { by_comparison, ..Visits::default() });
        let mut chunk = Chunk::new();
        chunk.extend((0..100).map(|number| (number * 37 % 10, number)));
        visits.call_chunk(&mut chunk).unwrap();
        let replies: Vec<_> = chunk.replies().map(Result::unwrap).collect();
        assert!(replies.iter().map(|reply| reply.1).eq(0..100), "each its own");
        assert!(replies.iter().all(|&(key, number, at)| key == number * 37 % 10 && at as u32 / 10 == key));
        assert!(visits.exclusive(|visits| visits.last.is_sorted()).unwrap(), "equal keys keep their order");
        // With many callers, too.
        thread::scope(|scope| {
            for caller in 0..8 {
                let visits = &visits;
                scope.spawn(move || {
                    for number in 0..200 {
                        let (key, own, _) = visits.call((caller * 7 % 5, caller * 1_000 + number)).unwrap();
                        assert_eq!((key, own), (caller * 7 % 5, caller * 1_000 + number));
                    }
                });
            }
        });
    }
}

#[test]
fn a_batch_is_read_as_a_slice_and_changed_entry_by_entry() {
    let mut entries: [Entry<u32, u32>; 4] = [3, 1, 2, 1].map(Entry::Op);
    let mut batch = Batch::new(&mut entries);
    assert_eq!((batch.len(), *batch[1].op(), batch[1..3].len(), batch.first().map(Entry::op)), (4, 1, 2, Some(&3)));
    let mut visited = Vec::new();
    batch.for_each_by_key(|op| *op, |entry| visited.push(*entry.op()));
    assert_eq!(visited, [1, 1, 2, 3]);
    batch[0].answer(|op| op + 10);
    batch.get_mut(3).unwrap().reply(7);
    assert!(batch.get_mut(4).is_none());
    batch.iter_mut().rev().filter(|entry| !entry.is_answered()).for_each(|entry| entry.answer(|op| op + 20));
    assert_eq!(entries.map(Entry::into_reply), [Some(13), Some(21), Some(22), Some(7)]);
    for few in [0, 1] {
        let mut entries: Vec<Entry<u32, u32>> = (0..few).map(Entry::Op).collect();
        let mut visited = 0;
        Batch::new(&mut entries).for_each_by_key(|op| *op, |_| visited += 1);
        assert_eq!(visited, few);
    }
}

/// Leaves 13 unanswered.
struct Forgets;

impl BatchOps for Forgets {
    type Op = u32;
    type Reply = u32;

    fn run(&mut self, batch: &mut Batch<'_, u32, u32>) {
        batch.iter_mut().filter(|entry| *entry.op() != 13).for_each(|entry| entry.answer(|op| op));
    }
}

#[test]
fn an_operation_that_is_left_unanswered_gets_an_error_alone_and_in_a_batch() {
    for threaded in [false, true] {
        let forgets = match threaded {
            true => Batched::builder().build_on(Runner::thread(|| Forgets)).unwrap(),
            false => Batched::new(Forgets),
        };
        assert_eq!(forgets.call(13).unwrap_err().kind(), BatchError::Unanswered);
        assert_eq!(forgets.call(1).unwrap(), 1, "it is not poisoned");
        let mut chunk = Chunk::new();
        chunk.extend([1, 13, 2]);
        forgets.call_chunk(&mut chunk).unwrap();
        assert!(chunk.replies().eq([Ok(1), Err(BatchError::Unanswered), Ok(2)]));
        assert_eq!(forgets.stats().unwrap().ops(), 5);
    }
}

/// Makes calls of each kind when its thread ends.
struct Flushes(Arc<Batched<Counter>>, mpsc::Sender<u64>);

impl Drop for Flushes {
    fn drop(&mut self) {
        let Flushes(counter, said) = self;
        let mut chunk = Chunk::new();
        chunk.extend([1, 1]);
        counter.call_chunk(&mut chunk).unwrap();
        assert_eq!(chunk.replies().filter(Result::is_ok).count(), 2);
        counter.call(1).unwrap();
        counter.exclusive(|counter| counter.value += 1).unwrap();
        assert!(counter.stats().unwrap().ops() >= 3);
        let nested = counter.read(|inner| (inner.value, counter.call(1).map_err(|error| error.kind())));
        let (value, nested) = nested.unwrap();
        assert_eq!(nested, Err(BatchError::Nested));
        let own = Batched::new(Counter::default());
        own.call(value).unwrap();
        own.close().unwrap();
        said.send(own.into_inner().unwrap().value).unwrap();
    }
}

thread_local! {
    static FLUSHES: RefCell<Option<Flushes>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_thread_locals_may_call() {
    for counter in [
        Batched::new(Counter::default()),
        Batched::builder().build_on(Runner::thread(Counter::default)).unwrap(),
        Batched::builder().build_on(Runner::beside_callers(Counter::default())).unwrap(),
    ] {
        let counter = Arc::new(counter);
        let (said, values) = mpsc::channel();
        for calls in 1..=3 {
            let (counter, said) = (counter.clone(), said.clone());
            let flushes = move || {
                FLUSHES.set(Some(Flushes(counter.clone(), said)));
                // From here on this thread has the thread-locals of structures. They are destroyed before `FLUSHES`.
                assert_eq!(counter.read(|counter| counter.value).unwrap(), 4 * (calls - 1));
            };
            thread::spawn(flushes).join().unwrap();
            assert_eq!(values.recv(), Ok(4 * calls));
        }
    }
}

/// Reports its drop.
struct Ends(mpsc::Sender<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// An operation with a handle of the structure it runs in: it waits for a message, and drops the handle.
struct LastHandle(Arc<Mutex<Option<Arc<Batched<Ends>>>>>, mpsc::Sender<()>, mpsc::Receiver<()>);

impl BatchOps for Ends {
    type Op = LastHandle;
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, LastHandle, ()>) {
        for entry in batch.iter_mut() {
            let LastHandle(handle, runs, go) = entry.take();
            runs.send(()).unwrap();
            go.recv().unwrap();
            // A named variable, so that it is dropped after the mutex is unlocked.
            let last = handle.lock().unwrap().take();
            drop(last);
            entry.reply(());
        }
    }
}

#[test]
fn an_operation_may_drop_the_last_handle_of_its_structure() {
    for is_spawned in [false, true] {
        let (dropped, is_dropped) = mpsc::channel();
        let batched = match is_spawned {
            true => {
                Batched::builder().build_on(Runner::spawned(Ends(dropped), |run| drop(thread::spawn(run)))).unwrap()
            }
            false => Batched::builder().build_on(Runner::thread(|| Ends(dropped))).unwrap(),
        };
        let batched = Arc::new(batched);
        let ((runs, ran), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let handle = Arc::new(Mutex::new(Some(batched.clone())));
        {
            // The future is dropped while its operation runs.
            let mut future = Box::pin(batched.call_async(LastHandle(handle, runs, gone)));
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            ran.recv().unwrap();
        }
        drop(batched);
        assert_eq!(is_dropped.try_recv(), Err(mpsc::TryRecvError::Empty));
        go.send(()).unwrap();
        assert_eq!(is_dropped.recv_timeout(Duration::from_secs(60)), Ok(()), "the structure is dropped");
    }
}

#[test]
fn a_spawner_that_panics_is_its_callers_panic_and_no_other() {
    let calls = |limit: usize, ops: usize| {
        let spawned = Arc::new(AtomicUsize::new(0));
        let counter = {
            let spawned = spawned.clone();
            Batched::builder()
                .limit(limit)
                .build_on(Runner::spawned(Counter::default(), move |_run| {
                    spawned.fetch_add(1, Relaxed);
                    panic!("injected")
                }))
                .unwrap()
        };
        let mut chunk = Chunk::new();
        chunk.extend((0..ops).map(|_| 1));
        let called = catch_unwind(AssertUnwindSafe(|| counter.call_chunk(&mut chunk)));
        assert_eq!(called.unwrap_err().downcast_ref(), Some(&"injected"));
        // The panic dropped the closure, whose drop ran the batches.
        assert!(chunk.is_empty());
        assert_eq!(chunk.replies().filter(Result::is_ok).count(), ops);
        assert!(catch_unwind(AssertUnwindSafe(|| counter.call(1))).is_err());
        assert!(spawned.load(Relaxed) >= 2);
        assert_eq!(counter.into_inner().map(|counter| counter.value), Some(ops as u64 + 1), "this does not panic");
    };
    ends(move || calls(usize::MAX, 3));
    // More batches than one closure runs: another closure is spawned while the first unwinds.
    ends(move || calls(1, 200));
}

#[test]
fn a_panic_in_a_chunk_leaves_nothing_to_be_handed_in_again() {
    let counter = Batched::builder().recover(|_: &mut Counter| ()).build(Counter::default());
    let mut chunk = Chunk::new();
    chunk.extend([1, PANICS, 1]);
    counter.call_chunk(&mut chunk).unwrap();
    chunk.push(5);
    counter.call_chunk(&mut chunk).unwrap();
    assert!(chunk.replies().eq([Ok(1)]));
    let error: CallError<u64> = counter.call(PANICS).unwrap_err();
    assert_eq!(error.kind(), BatchError::Panicked);
}
