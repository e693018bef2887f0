//! Tasks of an executor that share a structure.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use batch_aint_one::{Batcher, BatchingPolicy, Limits, Processor};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use windrow::batch::{Batch, BatchOps, Batched};
use windrow_bench::random::Random;
use windrow_bench::stats::median;
use windrow_collections::{Counter, OrderedSet, SetOp};

use crate::table::{Arm, Table};

const TASKS: usize = 127;
const EACH: usize = 800;
const OPS: usize = TASKS * EACH;
/// Keys in the set before the run.
const KEYS: usize = 1_000_000;
/// The cost of a batch of the structure for which handing over pays.
const BATCH: Duration = Duration::from_micros(20);

/// Why a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

pub(crate) fn all(repetitions: u16) -> Result<Vec<Table>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    Ok(vec![counters(&runtime, repetitions)?, inserts(&runtime, repetitions)?])
}

/// Runs all tasks. Returns the time from the first spawn to the last end, and all results.
fn tasks<F, R>(runtime: &Runtime, task: impl Fn(usize) -> F) -> (Duration, Vec<R>)
where
    F: Future<Output = Vec<R>> + Send + 'static,
    R: Send + 'static,
{
    let futures: Vec<F> = (0..TASKS).map(task).collect();
    let start = Instant::now();
    let handles: Vec<_> = futures.into_iter().map(|future| runtime.spawn(future)).collect();
    let results: Vec<_> = runtime.block_on(async { futures_of(handles).await.into_iter().flatten().collect() });
    (start.elapsed(), results)
}

async fn futures_of<R>(handles: Vec<tokio::task::JoinHandle<R>>) -> Vec<R> {
    let mut results = Vec::with_capacity(handles.len());
    for handle in handles {
        results.push(handle.await.expect("tasks do not panic"));
    }
    results
}

fn permutation(time: Duration, mut before: Vec<i64>) -> Result<Duration, String> {
    before.sort_unstable();
    let is_permutation = before.iter().copied().eq(0..OPS as i64);
    if is_permutation { Ok(time) } else { Err("increments do not have distinct numbers".to_owned()) }
}

/// A counter whose batches take some time; it adds that time up.
#[derive(Default)]
struct Slow {
    counter: Counter,
    spent: Duration,
}

impl BatchOps for Slow {
    type Op = i64;
    type Reply = i64;

    fn run(&mut self, batch: &mut Batch<'_, i64, i64>) {
        let start = Instant::now();
        while start.elapsed() < BATCH {
            std::hint::spin_loop();
        }
        self.counter.run(batch);
        self.spent += start.elapsed();
    }
}

/// Increments by tasks.
fn increments<S>(runtime: &Runtime, structure: S) -> (Duration, Vec<i64>, S)
where
    S: BatchOps<Op = i64, Reply = i64> + Send + 'static,
{
    let batched = Arc::new(Batched::builder().limit(TASKS).build(structure));
    let (time, before) = tasks(runtime, |_| {
        let batched = batched.clone();
        async move {
            let mut before = Vec::with_capacity(EACH);
            for _ in 0..EACH {
                before.push(batched.call_async(1).await.expect(SOUND));
            }
            before
        }
    });
    let batched = Arc::into_inner(batched).expect("the tasks are over");
    (time, before, batched.into_inner().expect(SOUND))
}

/// An actor: it takes all queued requests, answers them, and ends when its senders are dropped.
async fn actor<A, R>(mut inbox: mpsc::Receiver<(A, oneshot::Sender<R>)>, mut one: impl FnMut(A) -> R) {
    let mut requests = Vec::with_capacity(TASKS);
    while inbox.recv_many(&mut requests, TASKS).await > 0 {
        for (request, sender) in requests.drain(..) {
            // The receiver exists: its task waits.
            let _ = sender.send(one(request));
        }
    }
}

/// All tasks send to an actor.
fn by_actor<A, R>(
    runtime: &Runtime,
    one: impl FnMut(A) -> R + Send + 'static,
    ops: impl Fn(usize) -> Vec<A>,
) -> (Duration, Vec<R>)
where
    A: Send + Sync + 'static,
    R: Send + 'static,
{
    let (outbox, inbox) = mpsc::channel(1024);
    let actor = runtime.spawn(actor(inbox, one));
    let done = tasks(runtime, |task| {
        let (outbox, ops) = (outbox.clone(), ops(task));
        async move {
            let mut replies = Vec::with_capacity(EACH);
            for op in ops {
                let (sender, receiver) = oneshot::channel();
                outbox.send((op, sender)).await.expect(SOUND);
                replies.push(receiver.await.expect(SOUND));
            }
            replies
        }
    });
    // Drop it here, so that the actor ends before the next arm's turn.
    drop(outbox);
    runtime.block_on(actor).expect(SOUND);
    done
}

fn counters(runtime: &Runtime, repetitions: u16) -> Result<Table, String> {
    let arms = vec![
        Arm::new("yield_now", || {
            let (time, before) = tasks(runtime, |task| async move {
                for _ in 0..EACH {
                    tokio::task::yield_now().await;
                }
                (0..EACH as i64).map(|at| (task * EACH) as i64 + at).collect()
            });
            permutation(time, before)
        }),
        Arm::new("as it decides", || {
            let (time, before, _) = increments(runtime, Counter::default());
            permutation(time, before)
        }),
        Arm::new("handed over", || {
            let (time, before, slow) = increments(runtime, Slow::default());
            permutation(time.saturating_sub(slow.spent), before)
        }),
        Arm::new("actor", || {
            let mut counter = Counter::default();
            let (time, before) = by_actor(runtime, move |by| counter.add(by), |_| vec![1; EACH]);
            permutation(time, before)
        }),
        Arm::new("std mutex, no await", || {
            let counter = Arc::new(Mutex::new(Counter::default()));
            let (time, before) = tasks(runtime, |_| {
                let counter = counter.clone();
                async move { (0..EACH).map(|_| counter.lock().expect("no panic").add(1)).collect() }
            });
            permutation(time, before)
        }),
    ];
    let mut table = Table::measure(format!("increments by {TASKS} tasks"), OPS, repetitions, arms)?;
    table.print();
    for arm in ["as it decides", "handed over"] {
        let one = median(table.times(arm)) / OPS as f64;
        let is_met = if one <= 100.0 { "met" } else { "missed" };
        table.say(format!("{arm}: {one:.0} ns an operation, bar <= 100 {is_met}"));
    }
    let beyond = (median(table.times("handed over")) - median(table.times("yield_now"))) / OPS as f64;
    table.say(format!("handed over: {beyond:.0} ns more than a task that only lets others go first"));
    Ok(table)
}

/// batch-aint-one, on the same set.
#[derive(Clone)]
struct Inserts(Arc<Mutex<BTreeSet<u64>>>);

impl Processor for Inserts {
    type Key = ();
    type Input = u64;
    type Output = bool;
    type Error = Infallible;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    async fn process(&self, (): (), inputs: impl Iterator<Item = u64> + Send, (): ()) -> Result<Vec<bool>, Infallible> {
        let mut set = self.0.lock().expect("no panic");
        Ok(inputs.map(|key| set.insert(key)).collect())
    }
}

fn inserts(runtime: &Runtime, repetitions: u16) -> Result<Table, String> {
    let mut random = Random::new(11);
    let mut number = || random.bits() >> 34;
    let preset: BTreeSet<u64> = (0..KEYS).map(|_| number()).collect();
    let ordered: OrderedSet<u64> = preset.iter().copied().collect();
    let keys: Arc<[u64]> = (0..OPS).map(|_| number()).collect();
    let mut after = preset.clone();
    after.extend(keys.iter().copied());
    let (keys, new) = (&keys, after.len() - preset.len());
    drop(after);
    let share = |task: usize| keys[task * EACH..][..EACH].to_vec();
    let check = |(time, replies): (Duration, Vec<bool>)| {
        let replied = replies.iter().filter(|new| **new).count();
        if replied == new { Ok(time) } else { Err(format!("{replied} keys are new instead of {new}")) }
    };
    let arms = vec![
        Arm::new("batched set", || {
            let set = Arc::new(Batched::builder().limit(TASKS).build(ordered.clone()));
            check(tasks(runtime, |task| {
                let (set, keys) = (set.clone(), share(task));
                async move {
                    let mut replies = Vec::with_capacity(EACH);
                    for key in keys {
                        replies.push(set.call_async(SetOp::Insert(key)).await.expect(SOUND));
                    }
                    replies
                }
            }))
        }),
        Arm::new("actor, btree", || {
            let mut set = preset.clone();
            check(by_actor(runtime, move |key| set.insert(key), share))
        }),
        Arm::new("actor, ordered set", || {
            let mut set = ordered.clone();
            check(by_actor(runtime, move |key| set.insert(key), share))
        }),
        Arm::new("std mutex btree, no await", || {
            let set = Arc::new(Mutex::new(preset.clone()));
            check(tasks(runtime, |task| {
                let (set, keys) = (set.clone(), share(task));
                async move { keys.into_iter().map(|key| set.lock().expect("no panic").insert(key)).collect() }
            }))
        }),
        Arm::new("batch-aint-one", || {
            let batcher = {
                // `build` spawns a task on the entered runtime.
                let _runtime = runtime.enter();
                let limits = Limits::builder().max_batch_size(TASKS).max_key_concurrency(1).build();
                Batcher::builder()
                    .name("inserts")
                    .processor(Inserts(Arc::new(Mutex::new(preset.clone()))))
                    .limits(limits)
                    .batching_policy(BatchingPolicy::Immediate)
                    .build()
            };
            let done = tasks(runtime, |task| {
                let (batcher, keys) = (batcher.clone(), share(task));
                async move {
                    let mut replies = Vec::with_capacity(EACH);
                    for key in keys {
                        replies.push(batcher.add((), key).await.expect(SOUND));
                    }
                    replies
                }
            });
            let worker = batcher.worker_handle();
            drop(batcher);
            runtime.block_on(async {
                worker.shut_down().await;
                worker.wait_for_shutdown().await;
            });
            check(done)
        }),
    ];
    let mut table = Table::measure(format!("inserts by {TASKS} tasks"), OPS, repetitions, arms)?;
    table.print();
    table.bar("batched set", "actor, btree", 2.0);
    table.bar("batched set", "batch-aint-one", 3.0);
    table.bar("batched set", "std mutex btree, no await", 1.2);
    Ok(table)
}
