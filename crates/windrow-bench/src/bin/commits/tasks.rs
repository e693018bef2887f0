//! Callers that are tasks.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use batch_aint_one::{Batcher, BatchingPolicy, Limits, Processor};
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use windrow::batch::Stats;
use windrow_sqlite::GroupCommit;

use crate::arms::{INSERT, Journal, Outcome, Way, create, name, statements, verify};

/// Why a call cannot fail.
const SOUND: &str = "it is open, and its statements are right";

/// A running way.
trait Store: Send + Sync + 'static {
    /// Inserts a row, and is ready when the row is committed.
    fn insert(&self, id: i64) -> impl Future<Output = ()> + Send;

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Store for Arc<Mutex<Connection>> {
    async fn insert(&self, id: i64) {
        let connection = self.clone();
        let insert = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().expect(SOUND);
            let mut insert = connection.prepare_cached(INSERT).expect(SOUND);
            insert.execute((id, name(id))).expect(SOUND)
        });
        assert_eq!(insert.await.expect(SOUND), 1);
    }
}

impl Store for GroupCommit {
    async fn insert(&self, id: i64) {
        assert_eq!(self.execute_async(INSERT, (id, name(id))).await.expect(SOUND), 1);
    }

    fn stats(&self) -> Option<Stats> {
        self.stats().ok()
    }
}

type RowResult = rusqlite::Result<usize>;
/// A row, and the sender of its reply.
type Message = (i64, String, oneshot::Sender<RowResult>);

/// The inbox of the actor's thread.
struct Outbox(mpsc::UnboundedSender<Message>);

impl Store for Outbox {
    async fn insert(&self, id: i64) {
        let (sender, receiver) = oneshot::channel();
        self.0.send((id, name(id), sender)).expect(SOUND);
        assert_eq!(receiver.await.expect(SOUND).expect(SOUND), 1);
    }
}

/// A thread that puts everything in its inbox into one transaction, while it inserts too.
fn start_actor(connection: Connection) -> (Outbox, JoinHandle<()>) {
    let (to, mut from) = mpsc::unbounded_channel::<Message>();
    let thread = std::thread::spawn(move || {
        let [mut begin, mut insert, mut commit] = statements(&connection);
        let mut told = Vec::new();
        while let Some(first) = from.blocking_recv() {
            begin.execute(()).expect(SOUND);
            let mut next = Some(first);
            while let Some((id, name, to)) = next {
                told.push((to, insert.execute((id, name))));
                next = from.try_recv().ok();
            }
            commit.execute(()).expect(SOUND);
            for (to, result) in told.drain(..) {
                // The receiver exists: its task waits.
                let _ = to.send(result);
            }
        }
    });
    (Outbox(to), thread)
}

/// The transactions of batch-aint-one.
#[derive(Clone)]
struct Transactions(Arc<Mutex<Connection>>);

impl Processor for Transactions {
    type Key = ();
    type Input = (i64, String);
    type Output = RowResult;
    type Error = String;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), String> {
        Ok(())
    }

    async fn process(
        &self,
        (): (),
        rows: impl Iterator<Item = (i64, String)> + Send,
        (): (),
    ) -> Result<Vec<RowResult>, String> {
        let (connection, rows) = (self.0.clone(), rows.collect::<Vec<_>>());
        let transaction = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().expect(SOUND);
            let [mut begin, mut insert, mut commit] = statements(&connection);
            begin.execute(()).expect(SOUND);
            let results = rows.into_iter().map(|row| insert.execute(row)).collect();
            commit.execute(()).expect(SOUND);
            results
        });
        transaction.await.map_err(|error| error.to_string())
    }
}

impl Store for Batcher<Transactions> {
    async fn insert(&self, id: i64) {
        assert_eq!(self.add((), (id, name(id))).await.expect(SOUND).expect(SOUND), 1);
    }
}

fn start_batcher(connection: Connection, callers: usize, runtime: &Runtime) -> Batcher<Transactions> {
    // `build` spawns a task on the entered runtime.
    let _runtime = runtime.enter();
    let limits = Limits::builder().max_batch_size(callers).max_key_concurrency(1).build();
    Batcher::builder()
        .name("rows")
        .processor(Transactions(Arc::new(Mutex::new(connection))))
        .limits(limits)
        .batching_policy(BatchingPolicy::Immediate)
        .build()
}

/// Like [`arms::section`](crate::arms::section), with tasks.
pub(crate) fn section(
    way: Way,
    folder: &Path,
    journal: Journal,
    callers: usize,
    time: Duration,
    runtime: &Runtime,
) -> Outcome {
    let folder = tempfile::tempdir_in(folder).expect("a folder");
    let path = folder.path().join("db");
    let connection = create(&path, journal);
    let outcome = match way {
        Way::Mutex => together(Arc::new(Mutex::new(connection)), callers, time, runtime).0,
        Way::Windrow => together(GroupCommit::new(connection).expect("a thread"), callers, time, runtime).0,
        Way::WindrowCallers => together(GroupCommit::builder().build_on_callers(connection), callers, time, runtime).0,
        Way::Actor => {
            let (outbox, thread) = start_actor(connection);
            let (outcome, outbox) = together(outbox, callers, time, runtime);
            drop(outbox);
            thread.join().expect(SOUND);
            outcome
        }
        Way::BatchAintOne => {
            let (outcome, batcher) = together(start_batcher(connection, callers, runtime), callers, time, runtime);
            let worker = batcher.worker_handle();
            drop(batcher);
            runtime.block_on(async {
                worker.shut_down().await;
                worker.wait_for_shutdown().await;
            });
            outcome
        }
        Way::Window => unreachable!("it is for threads"),
    };
    verify(&path, outcome.waits.len() as i64);
    outcome
}

/// `callers` tasks insert rows one by one for `time`.
fn together<S: Store>(store: S, callers: usize, time: Duration, runtime: &Runtime) -> (Outcome, S) {
    let shared = Arc::new((store, AtomicI64::new(0)));
    let start = Instant::now();
    let end = start + time;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let shared = shared.clone();
            runtime.spawn(async move {
                let (store, next) = &*shared;
                let mut waits = Vec::with_capacity(1 << 12);
                loop {
                    let start = Instant::now();
                    if start >= end {
                        return waits;
                    }
                    // Relaxed: the number only has to be unique; it orders nothing.
                    store.insert(next.fetch_add(1, Ordering::Relaxed)).await;
                    waits.push(start.elapsed().as_secs_f64());
                }
            })
        })
        .collect();
    let waits: Vec<f64> = tasks.into_iter().flat_map(|task| runtime.block_on(task).expect(SOUND)).collect();
    let seconds = start.elapsed().as_secs_f64();
    let (store, _) = Arc::into_inner(shared).expect("the tasks have ended");
    (Outcome { rows_per_second: waits.len() as f64 / seconds, waits, stats: store.stats() }, store)
}
