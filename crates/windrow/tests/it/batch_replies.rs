//! A reply counts when `run` has returned: what callers get from a batch that panics, compared with what it has done.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;

use windrow::batch::{Batch, BatchError, BatchOps, Batched, CallError, Chunk, Entry};
use windrow_testkit::block_on;

/// The faults of one structure, and what it has done.
#[derive(Default)]
struct Faults {
    /// The panic comes at this step; 0 for none.
    at: AtomicUsize,
    /// Operations and replies that are alive.
    alive: AtomicUsize,
    /// The lines of all batches that returned.
    done: Mutex<Vec<u64>>,
}

impl Faults {
    fn step(&self) {
        if self.at.load(Relaxed) > 0 && self.at.fetch_sub(1, Relaxed) == 1 {
            // Without the hook, which would print every panic.
            resume_unwind(Box::new("a step"));
        }
    }
}

/// A line of a log, as operation and as reply.
struct Line {
    number: u64,
    faults: Arc<Faults>,
    /// In a batch that has not returned: its drop panics.
    is_running: Cell<bool>,
}

impl Line {
    fn new(number: u64, faults: &Arc<Faults>) -> Self {
        faults.alive.fetch_add(1, Relaxed);
        Line { number, faults: faults.clone(), is_running: Cell::new(false) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.faults.alive.fetch_sub(1, Relaxed);
        if self.is_running.get() {
            resume_unwind(Box::new("a drop"));
        }
    }
}

fn set_running(batch: &mut Batch<'_, Line, Line>, is_running: bool) {
    for entry in batch.iter_mut() {
        if let Entry::Op(line) | Entry::Reply(line) = entry {
            line.is_running.set(is_running);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// The wrong one: callers have replies before the sync.
    RepliesFirst,
    SyncFirst,
}

/// A log that is synced once a batch.
struct Log {
    order: Order,
    lines: Vec<u64>,
    faults: Arc<Faults>,
}

impl BatchOps for Log {
    type Op = Line;
    type Reply = Line;

    fn run(&mut self, batch: &mut Batch<'_, Line, Line>) {
        let faults = &self.faults;
        set_running(batch, true);
        for entry in batch.iter_mut() {
            faults.step();
            // An operation that is not taken is done all the same.
            self.lines.push(entry.op().number);
            if self.order == Order::RepliesFirst {
                faults.step();
                entry.answer(|line| line);
                faults.step();
            }
        }
        faults.step();
        faults.done.lock().unwrap().append(&mut self.lines);
        if self.order == Order::SyncFirst {
            batch.iter_mut().for_each(|entry| entry.answer(|line| line));
        }
        set_running(batch, false);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Runner {
    Callers,
    Thread,
    Beside,
    Spawned,
    /// The function that spawns drops the closure, which runs batches in its drop.
    Dropped,
}

const RUNNERS: [Runner; 5] = [Runner::Callers, Runner::Thread, Runner::Beside, Runner::Spawned, Runner::Dropped];

/// Outcome of a caller: the line of its reply; or the error, and whether its operation came back.
type Outcome = Result<u64, (BatchError, bool)>;

fn outcome(result: Result<Line, CallError<Line>>) -> Outcome {
    result.map(|line| line.number).map_err(|error| (error.kind(), error.into_op().is_some()))
}

/// Ways of calling.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// One after the other.
    Alone,
    Chunk,
    /// Futures that are handed in while the structure is in use.
    Futures,
}

const WAYS: &[Way] = &[Way::Alone, Way::Chunk, Way::Futures];

fn build(runner: Runner, order: Order, recovers: bool, limit: usize, faults: &Arc<Faults>) -> Batched<Log> {
    let log = Log { order, lines: Vec::new(), faults: faults.clone() };
    let mut builder = Batched::builder().limit(limit);
    if recovers {
        builder = builder.recover(|log: &mut Log| log.lines.clear());
    }
    match runner {
        Runner::Callers => builder.build(log),
        Runner::Thread => builder.build_on(windrow::batch::Runner::thread(move || log)).unwrap(),
        Runner::Beside => builder.build_on(windrow::batch::Runner::beside_callers(log)).unwrap(),
        Runner::Spawned => {
            builder.build_on(windrow::batch::Runner::spawned(log, |run| drop(thread::spawn(run)))).unwrap()
        }
        Runner::Dropped => builder.build_on(windrow::batch::Runner::spawned(log, drop)).unwrap(),
    }
}

/// Polls the futures while the structure is in use, so that they are handed in together; then waits for them.
fn together<F>(log: &Batched<Log>, mut futures: Vec<Pin<Box<F>>>) -> Vec<Outcome>
where
    F: Future<Output = Result<Line, CallError<Line>>> + ?Sized,
{
    let ((enters, entered), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    thread::scope(|scope| {
        scope.spawn(move || log.exclusive(move |_| (enters.send(()), gone.recv()).1));
        entered.recv().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert!(futures.iter_mut().all(|future| future.as_mut().poll(&mut context).is_pending()));
        go.send(()).unwrap();
    });
    futures.into_iter().map(|future| outcome(block_on(future))).collect()
}

fn call(log: Batched<Log>, way: Way, lines: std::ops::Range<u64>, faults: &Arc<Faults>) -> Vec<Outcome> {
    let line = |number| Line::new(number, faults);
    let of_chunk = |reply: Result<Line, BatchError>| reply.map(|line| line.number).map_err(|error| (error, false));
    match way {
        Way::Alone => lines.map(|number| outcome(log.call(line(number)))).collect(),
        Way::Chunk => {
            let mut chunk = Chunk::new();
            chunk.extend(lines.map(line));
            log.call_chunk(&mut chunk).unwrap();
            chunk.replies().map(of_chunk).collect()
        }
        Way::Futures => together(&log, lines.map(|number| Box::pin(log.call_async(line(number)))).collect()),
    }
}

/// Fails the batches of three lines at each step, and compares what callers got with what was done.
#[test]
fn a_reply_counts_when_run_has_returned() {
    const LINES: u64 = 3;
    // Three steps a line, and one before the sync. Then no step is left, and nothing panics.
    for (at, runner) in (1..=11).flat_map(|at| RUNNERS.map(|runner| (at, runner))) {
        for (way, order) in
            WAYS.iter().flat_map(|way| [Order::RepliesFirst, Order::SyncFirst].map(|order| (*way, order)))
        {
            for (recovers, limit) in [(false, usize::MAX), (true, 2)] {
                let case = format!("step {at}, {runner:?}, {way:?}, {order:?}, recovers {recovers}, limit {limit}");
                let faults = Arc::new(Faults::default());
                faults.at.store(at, Relaxed);
                let log = build(runner, order, recovers, limit, &faults);
                let outcomes = call(log, way, 0..LINES, &faults);
                let done = faults.done.lock().unwrap();
                // Those of a chunk do not say whether the operation came back.
                let is_back = way != Way::Chunk;
                for (number, outcome) in (0..LINES).zip(&outcomes) {
                    let wanted = match outcome {
                        _ if done.contains(&number) => Ok(number),
                        // Not run, after a batch that panicked.
                        Err((BatchError::Poisoned, _)) if !recovers => Err((BatchError::Poisoned, is_back)),
                        _ => Err((BatchError::Panicked, false)),
                    };
                    assert_eq!(*outcome, wanted, "{case}: {done:?}");
                }
                let panicked =
                    outcomes.iter().filter(|outcome| **outcome == Err((BatchError::Panicked, false))).count();
                assert!(at > 10 || panicked > 0 || order == Order::SyncFirst, "{case}: {outcomes:?}");
                assert_eq!(outcomes.len(), LINES as usize, "{case}");
                assert_eq!(faults.alive.load(Relaxed), 0, "{case}");
            }
        }
    }
}

/// One batch in ten fails at its sync, and what it had written is gone.
#[test]
fn what_is_acknowledged_is_on_the_disk() {
    const THREADS: u64 = 8;
    const EACH: u64 = 40;

    struct Disk {
        lines: Vec<u64>,
        synced: usize,
        batches: usize,
    }

    impl BatchOps for Disk {
        type Op = u64;
        type Reply = ();

        fn run(&mut self, batch: &mut Batch<'_, u64, ()>) {
            for entry in batch.iter_mut() {
                self.lines.push(entry.take());
                entry.reply(());
            }
            self.batches += 1;
            if self.batches.is_multiple_of(10) {
                resume_unwind(Box::new("the disk is broken"));
            }
            self.synced = self.lines.len();
        }
    }

    let disk = || Disk { lines: Vec::new(), synced: 0, batches: 0 };
    for runner in RUNNERS {
        let builder = Batched::builder().recover(|disk: &mut Disk| disk.lines.truncate(disk.synced));
        let batched = match runner {
            Runner::Callers => builder.build(disk()),
            Runner::Thread => builder.build_on(windrow::batch::Runner::thread(disk)).unwrap(),
            Runner::Beside => builder.build_on(windrow::batch::Runner::beside_callers(disk())).unwrap(),
            Runner::Spawned => {
                builder.build_on(windrow::batch::Runner::spawned(disk(), |run| drop(thread::spawn(run)))).unwrap()
            }
            Runner::Dropped => builder.build_on(windrow::batch::Runner::spawned(disk(), drop)).unwrap(),
        };
        let acknowledged: BTreeSet<u64> = thread::scope(|scope| {
            let calls = |thread| {
                let batched = &batched;
                move || {
                    (0..EACH).map(|n| thread * EACH + n).filter(|&line| batched.call(line).is_ok()).collect::<Vec<_>>()
                }
            };
            let callers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(calls(thread))).collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
        });
        let lines = batched.exclusive(|disk| disk.lines.clone()).unwrap();
        assert_eq!(acknowledged, lines.into_iter().collect(), "{runner:?}");
        assert!(acknowledged.len() < (THREADS * EACH) as usize, "{runner:?}: some failed");
    }
}

/// A structure inside another one leaves an operation unanswered: a panic of the outer one, alone and in a batch.
#[test]
fn what_an_inner_structure_leaves_unanswered_is_a_panic_of_the_outer_one() {
    struct Forgets;

    impl BatchOps for Forgets {
        type Op = u64;
        type Reply = u64;

        fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
            batch.iter_mut().filter(|entry| *entry.op() != 13).for_each(|entry| entry.answer(|op| op));
        }
    }

    struct Outer {
        inner: Forgets,
    }

    impl BatchOps for Outer {
        type Op = u64;
        type Reply = u64;

        fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
            batch.iter_mut().for_each(|entry| entry.answer(|op| self.inner.run_one(op)));
        }
    }

    for ops in [vec![13], vec![1, 13, 2]] {
        let recovered = Arc::new(AtomicUsize::new(0));
        let count = recovered.clone();
        let recover = move |_: &mut Outer| _ = count.fetch_add(1, Relaxed);
        let outer = Batched::builder().recover(recover).build(Outer { inner: Forgets });
        let kinds: Vec<_> = match &ops[..] {
            [alone] => vec![outer.call(*alone).map_err(|error| error.kind())],
            many => {
                let mut chunk = Chunk::new();
                chunk.extend(many.iter().copied());
                outer.call_chunk(&mut chunk).unwrap();
                chunk.replies().collect()
            }
        };
        assert!(kinds.iter().all(|kind| *kind == Err(BatchError::Panicked)), "{ops:?}: {kinds:?}");
        assert_eq!(recovered.load(Relaxed), 1, "{ops:?}");
    }
}

/// A future that is dropped during its batch takes its reply with it; the panic reaches the others.
#[test]
fn a_future_that_is_dropped_during_a_batch_that_panics() {
    type Gates = (mpsc::Sender<()>, mpsc::Receiver<()>);

    struct Waits(Arc<Faults>, Gates);

    impl BatchOps for Waits {
        type Op = Line;
        type Reply = Line;

        fn run(&mut self, batch: &mut Batch<'_, Line, Line>) {
            batch.iter_mut().for_each(|entry| entry.answer(|line| line));
            set_running(batch, true);
            self.1.0.send(()).unwrap();
            self.1.1.recv().unwrap();
            self.0.step();
            set_running(batch, false);
        }
    }

    for panics in [false, true] {
        let faults = Arc::new(Faults::default());
        let ((runs, ran), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let waits = Waits(faults.clone(), (runs, gone));
        let batched = Batched::builder().build_on(windrow::batch::Runner::thread(move || waits)).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut futures: Vec<_> = (0..2).map(|n| Box::pin(batched.call_async(Line::new(n, &faults)))).collect();
        // The first is a batch, during which the second is handed in; that one is the second batch, or dropped in the queue.
        assert!(futures.iter_mut().all(|future| future.as_mut().poll(&mut context).is_pending()));
        ran.recv().unwrap();
        faults.at.store(usize::from(panics), Relaxed);
        drop(futures.remove(0));
        go.send(()).unwrap();
        let _ = go.send(());
        let second = outcome(block_on(futures.remove(0)));
        // Handed in before the first batch began, or after.
        let wanted: &[Outcome] =
            if panics { &[Err((BatchError::Panicked, false)), Err((BatchError::Poisoned, true))] } else { &[Ok(1)] };
        assert!(wanted.contains(&second), "{second:?}");
        drop(futures);
        drop(batched);
        assert_eq!(faults.alive.load(Relaxed), 0, "panics {panics}");
    }
}

/// A structure without a common cost may keep the replies that it has given before a panic.
#[test]
fn kept_replies_outlive_a_panic() {
    struct Keeps((mpsc::Sender<()>, mpsc::Receiver<()>));

    impl BatchOps for Keeps {
        type Op = u32;
        type Reply = u32;
        const KEEPS_REPLIES: bool = true;

        fn run(&mut self, batch: &mut Batch<'_, u32, u32>) {
            for entry in batch.iter_mut() {
                let op = entry.take();
                if op == 0 {
                    self.0.0.send(()).unwrap();
                    self.0.1.recv().unwrap();
                }
                assert_ne!(op, 3, "injected");
                entry.reply(op);
            }
        }
    }

    let ((runs, ran), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let batched = Batched::builder()
        .recover(|_: &mut Keeps| ())
        .build_on(windrow::batch::Runner::thread(move || Keeps((runs, gone))))
        .unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(batched.call_async(0));
    assert!(first.as_mut().poll(&mut context).is_pending());
    ran.recv().unwrap();
    // They wait for the first batch, and are the second.
    let mut futures: Vec<_> = (1..=4).map(|op| Box::pin(batched.call_async(op))).collect();
    assert!(futures.iter_mut().all(|future| future.as_mut().poll(&mut context).is_pending()));
    go.send(()).unwrap();
    assert_eq!(block_on(first).unwrap(), 0);
    let outcomes: Vec<_> = futures.into_iter().map(|future| block_on(future).map_err(|error| error.kind())).collect();
    assert_eq!(outcomes, [Ok(1), Ok(2), Err(BatchError::Panicked), Err(BatchError::Panicked)]);
}
