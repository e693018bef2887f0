//! Callers that are tasks.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use batch_aint_one::{Batcher, BatchingPolicy, Limits, Processor};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use windrow::batch::{BatchOps, Batched, Stats};

use crate::SOUND;
use crate::arms::Arm;
use crate::resource::{Answer, Calls, Cost, Phases, Resource};
use crate::turn::{Open, Shape, sleep_until};

/// A structure that tasks share.
trait Store: Send + Sync + 'static {
    fn call(&self, op: u64) -> impl Future<Output = Answer> + Send;
}

impl Store for Batched<Resource> {
    async fn call(&self, op: u64) -> Answer {
        self.call_async(op).await.expect(SOUND)
    }
}

/// Without an await: the task keeps its worker while it waits and while it runs.
impl Store for std::sync::Mutex<Resource> {
    async fn call(&self, op: u64) -> Answer {
        self.lock().expect(SOUND).run_one(op)
    }
}

/// As with the standard library's.
impl Store for parking_lot::Mutex<Resource> {
    async fn call(&self, op: u64) -> Answer {
        self.lock().run_one(op)
    }
}

impl Store for tokio::sync::Mutex<Resource> {
    async fn call(&self, op: u64) -> Answer {
        self.lock().await.run_one(op)
    }
}

/// An operation, and the sender of its reply.
type Message = (u64, oneshot::Sender<Answer>);

/// A hand-written actor, a task or a thread: it runs everything in its channel as one batch.
struct Outbox(mpsc::Sender<Message>);

impl Store for Outbox {
    async fn call(&self, op: u64) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.0.send((op, sender)).await.expect(SOUND);
        receiver.await.expect(SOUND)
    }
}

/// The actor takes up to so many operations at once.
const MOST: usize = 1024;

fn act(resource: &mut Resource, batch: &mut Vec<Message>) {
    resource.begin(batch.len(), false);
    for (op, to) in batch.drain(..) {
        // The receiver exists: its task waits.
        let _ = to.send(resource.one(op));
    }
}

/// A batch runs on a blocking thread: it would keep a worker of the executor busy.
#[derive(Clone)]
struct Blocking(Arc<std::sync::Mutex<Resource>>);

impl Processor for Blocking {
    type Key = ();
    type Input = u64;
    type Output = Answer;
    type Error = Infallible;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    async fn process(&self, (): (), ops: impl Iterator<Item = u64> + Send, (): ()) -> Result<Vec<Answer>, Infallible> {
        let (resource, ops) = (self.0.clone(), ops.collect::<Vec<_>>());
        let run = move || {
            let mut resource = resource.lock().expect(SOUND);
            resource.begin(ops.len(), false);
            ops.into_iter().map(|op| resource.one(op)).collect()
        };
        Ok(tokio::task::spawn_blocking(run).await.expect(SOUND))
    }
}

impl Store for Batcher<Blocking> {
    async fn call(&self, op: u64) -> Answer {
        self.add((), op).await.expect(SOUND)
    }
}

/// The calls of an open loop. This thread sends each task its arrivals.
fn open_loop<S: Store>(store: &Arc<S>, phases: &Phases, shape: &Shape, open: Open, runtime: &Runtime) -> Vec<Calls> {
    phases.begin();
    let start = Instant::now();
    let (mut tasks, mut inboxes, mut arrivals) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..shape.callers {
        let (to, mut inbox) = mpsc::unbounded_channel();
        let (store, shape) = (store.clone(), *shape);
        tasks.push(runtime.spawn(async move {
            let mut calls = Calls::new(shape.cost);
            while let Some(arrival) = inbox.recv().await {
                match shape.due(start, arrival) {
                    (due, false) => _ = calls.took(due, store.call(calls.next().0).await),
                    (due, true) => calls.gave_up(due),
                }
            }
            calls
        }));
        inboxes.push(to);
        arrivals.extend(shape.arrivals(open, number).into_iter().map(|arrival| (arrival, number)));
    }
    arrivals.sort_unstable();
    for (arrival, number) in arrivals {
        sleep_until(start, arrival);
        inboxes[number].send(arrival).expect(SOUND);
    }
    drop(inboxes);
    let calls = tasks.into_iter().map(|task| runtime.block_on(task).expect(SOUND)).collect();
    phases.end();
    runtime.block_on(store.call(0));
    calls
}

/// The calls of one task.
async fn caller(store: Arc<impl Store>, cost: Cost) -> Calls {
    let mut calls = Calls::new(cost);
    loop {
        let (op, start) = calls.next();
        if !calls.took(start, store.call(op).await) {
            return calls;
        }
    }
}

/// Runs all tasks on `store`, and returns it with their calls.
fn all<S: Store>(store: S, phases: &Phases, shape: &Shape, runtime: &Runtime) -> (Vec<Calls>, S) {
    let store = Arc::new(store);
    if let Some(open) = shape.open {
        let calls = open_loop(&store, phases, shape, open, runtime);
        return (calls, Arc::into_inner(store).expect("the tasks have ended"));
    }
    let tasks: Vec<_> = (0..shape.callers).map(|_| runtime.spawn(caller(store.clone(), shape.cost))).collect();
    phases.pass(shape.warm, shape.measured);
    let calls = tasks.into_iter().map(|task| runtime.block_on(task).expect(SOUND)).collect();
    (calls, Arc::into_inner(store).expect("the tasks have ended"))
}

/// Runs a turn. Returns the calls of each task, and the statistics.
pub(crate) fn run(
    arm: Arm,
    mut resource: Resource,
    phases: &Phases,
    shape: &Shape,
    runtime: &Runtime,
) -> (Vec<Calls>, Option<Stats>) {
    let batched = |batched: Batched<Resource>| {
        let (calls, batched) = all(batched, phases, shape, runtime);
        (calls, batched.stats().ok())
    };
    let calls = match arm {
        Arm::Default | Arm::Control => return batched(Batched::new(resource)),
        Arm::Windrow(setting) => return batched(setting.build(resource, shape.callers, runtime.handle())),
        Arm::StdMutex => all(std::sync::Mutex::new(resource), phases, shape, runtime).0,
        Arm::ParkingLot => all(parking_lot::Mutex::new(resource), phases, shape, runtime).0,
        Arm::TokioMutex => all(tokio::sync::Mutex::new(resource), phases, shape, runtime).0,
        Arm::ActorTask => {
            let (to, mut from) = mpsc::channel(MOST);
            let actor = runtime.spawn(async move {
                let mut batch = Vec::with_capacity(MOST);
                while from.recv_many(&mut batch, MOST).await > 0 {
                    act(&mut resource, &mut batch);
                }
            });
            let (calls, outbox) = all(Outbox(to), phases, shape, runtime);
            drop(outbox);
            runtime.block_on(actor).expect(SOUND);
            calls
        }
        Arm::AintOne => {
            let limits = Limits::builder().max_batch_size(MOST).max_key_concurrency(1).build();
            let batcher = {
                // `build` spawns a task on the entered runtime.
                let _runtime = runtime.enter();
                Batcher::builder()
                    .name("resource")
                    .processor(Blocking(Arc::new(std::sync::Mutex::new(resource))))
                    .limits(limits)
                    .batching_policy(BatchingPolicy::Immediate)
                    .build()
            };
            let worker = batcher.worker_handle();
            let calls = all(batcher, phases, shape, runtime).0;
            runtime.block_on(async {
                worker.shut_down().await;
                worker.wait_for_shutdown().await;
            });
            calls
        }
        Arm::ActorThread | Arm::ActorControl => {
            let (to, mut from) = mpsc::channel(MOST);
            let actor = std::thread::spawn(move || {
                let mut batch = Vec::with_capacity(MOST);
                while from.blocking_recv_many(&mut batch, MOST) > 0 {
                    act(&mut resource, &mut batch);
                }
            });
            let (calls, outbox) = all(Outbox(to), phases, shape, runtime);
            drop(outbox);
            actor.join().expect(SOUND);
            calls
        }
    };
    (calls, None)
}
