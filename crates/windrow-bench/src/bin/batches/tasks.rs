//! Callers that are tasks.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use windrow::batch::{BatchOps, Batched, Stats};

use crate::SOUND;
use crate::arms::Arm;
use crate::resource::{Answer, Calls, Cost, Phases, Resource};
use crate::turn::Shape;

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
    resource.begin(batch.len());
    for (op, to) in batch.drain(..) {
        // The receiver exists: its task waits.
        let _ = to.send(resource.one(op));
    }
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
        Arm::ActorThread => {
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
