//! Callers that are threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::runtime::Handle;
use windrow::batch::{BatchOps, Batched, Stats};

use crate::SOUND;
use crate::arms::Arm;
use crate::resource::{Answer, Calls, Phases, Resource};
use crate::turn::{Open, Shape, sleep_until};

/// A structure that threads share.
trait Store: Sync {
    /// The function of one caller.
    fn caller(&self) -> Box<dyn FnMut(u64) -> Answer + '_>;

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Store for Batched<Resource> {
    fn caller(&self) -> Box<dyn FnMut(u64) -> Answer + '_> {
        Box::new(|op| self.call(op).expect(SOUND))
    }

    fn stats(&self) -> Option<Stats> {
        self.stats().ok()
    }
}

impl Store for std::sync::Mutex<Resource> {
    fn caller(&self) -> Box<dyn FnMut(u64) -> Answer + '_> {
        Box::new(|op| self.lock().expect(SOUND).run_one(op))
    }
}

impl Store for parking_lot::Mutex<Resource> {
    fn caller(&self) -> Box<dyn FnMut(u64) -> Answer + '_> {
        Box::new(|op| self.lock().run_one(op))
    }
}

/// An operation, and the sender of its reply.
type Message = (u64, Sender<Answer>);

/// A hand-written actor: a thread that runs everything in a channel as one batch.
struct Actor {
    to: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Actor {
    fn start(resource: Resource) -> Self {
        let (to, from) = channel();
        Actor { to: Some(to), thread: Some(std::thread::spawn(move || act(resource, &from))) }
    }
}

fn act(mut resource: Resource, from: &Receiver<Message>) {
    let mut batch = Vec::new();
    while let Ok(first) = from.recv() {
        batch.push(first);
        batch.extend(from.try_iter());
        resource.begin(batch.len(), false);
        for (op, to) in batch.drain(..) {
            // The receiver exists: its caller waits.
            let _ = to.send(resource.one(op));
        }
    }
}

impl Store for Actor {
    fn caller(&self) -> Box<dyn FnMut(u64) -> Answer + '_> {
        let to = self.to.clone().expect(SOUND);
        let (answer, answered) = channel();
        Box::new(move |op| {
            to.send((op, answer.clone())).expect(SOUND);
            answered.recv().expect(SOUND)
        })
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect(SOUND);
        }
    }
}

fn start(arm: Arm, resource: Resource, shape: &Shape, runtime: &Handle) -> Box<dyn Store> {
    match arm {
        Arm::Default | Arm::Control => Box::new(Batched::new(resource)),
        Arm::Windrow(setting) => Box::new(setting.build(resource, shape.callers, runtime)),
        Arm::StdMutex => Box::new(std::sync::Mutex::new(resource)),
        Arm::ParkingLot => Box::new(parking_lot::Mutex::new(resource)),
        Arm::ActorThread | Arm::ActorControl => Box::new(Actor::start(resource)),
        Arm::TokioMutex | Arm::ActorTask | Arm::AintOne => unreachable!("{arm} is for tasks"),
    }
}

/// The calls of an open loop. Each thread sleeps until its next arrival.
fn open_loop(store: &dyn Store, phases: &Phases, shape: &Shape, open: Open) -> Vec<Calls> {
    phases.begin();
    let start = Instant::now();
    let calls = std::thread::scope(|scope| {
        let caller = |number| {
            let arrivals = shape.arrivals(open, number);
            scope.spawn(move || {
                let (mut call, mut calls) = (store.caller(), Calls::new(shape.cost));
                for arrival in arrivals {
                    sleep_until(start, arrival);
                    match shape.due(start, arrival) {
                        (due, false) => _ = calls.took(due, call(calls.next().0)),
                        (due, true) => calls.gave_up(due),
                    }
                }
                calls
            })
        };
        let callers: Vec<_> = (0..shape.callers).map(caller).collect();
        callers.into_iter().map(|caller| caller.join().expect(SOUND)).collect()
    });
    phases.end();
    store.caller()(0);
    calls
}

/// Runs a turn. Returns the calls of each caller, and the statistics.
pub(crate) fn run(
    arm: Arm,
    resource: Resource,
    phases: &Phases,
    shape: &Shape,
    runtime: &Handle,
) -> (Vec<Calls>, Option<Stats>) {
    let store = start(arm, resource, shape, runtime);
    if let Some(open) = shape.open {
        let calls = open_loop(&*store, phases, shape, open);
        return (calls, store.stats());
    }
    let calls = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..shape.callers)
            .map(|_| {
                scope.spawn(|| {
                    let (mut call, mut calls) = (store.caller(), Calls::new(shape.cost));
                    loop {
                        let (op, start) = calls.next();
                        if !calls.took(start, call(op)) {
                            return calls;
                        }
                    }
                })
            })
            .collect();
        phases.pass(shape.warm, shape.measured);
        callers.into_iter().map(|caller| caller.join().expect(SOUND)).collect()
    });
    (calls, store.stats())
}
