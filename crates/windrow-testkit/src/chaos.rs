//! Random calls of all kinds, dropped futures, injected panics, and structures that are closed during calls.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread;

use windrow::batch::{Batch, BatchError, BatchOps, Batched, Chunk, Overflow, Runner};

use crate::{Rng, block_on, waker};

/// Counts of events.
#[derive(Debug, Default)]
pub struct Tally {
    /// Operations that were called.
    pub ops: AtomicU64,
    /// Panics of the structure.
    pub panics: AtomicU64,
    /// Futures that were dropped between handing in and the reply.
    pub dropped: AtomicU64,
    /// Operations that were returned: rejected, or too late.
    pub refused: AtomicU64,
}

impl Tally {
    /// All counts are 0.
    pub const fn new() -> Self {
        Tally { ops: zero(), panics: zero(), dropped: zero(), refused: zero() }
    }
}

const fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

/// A counted value: it holds a reference to `alive`, and must be dropped once.
struct Token {
    panics: bool,
    _alive: Arc<()>,
}

/// Counts the operations of the batches that did not panic.
struct Ledger {
    ran: u64,
    panics: Arc<AtomicU64>,
}

impl BatchOps for Ledger {
    type Op = Token;
    type Reply = Token;

    fn run(&mut self, batch: &mut Batch<'_, Token, Token>) {
        let mut ran = 0;
        for entry in batch.iter_mut() {
            let token = entry.take();
            if token.panics {
                self.panics.fetch_add(1, Relaxed);
                // Without the hook, which would print every panic.
                std::panic::resume_unwind(Box::new("injected"));
            }
            ran += 1;
            entry.reply(token);
        }
        self.ran += ran;
    }
}

/// Operations of one structure before the next structure is made.
const OF_ONE: u64 = 20_000;

/// Calls `ops` operations, from `threads` threads. Every reply stands for one run, and nothing leaks.
pub fn chaos(ops: u64, threads: u64, seed: u64, tally: &Tally) {
    let mut rng = Rng(seed);
    let end = tally.ops.load(Relaxed) + ops;
    while tally.ops.load(Relaxed) < end {
        let left = (end - tally.ops.load(Relaxed)).min(OF_ONE);
        one(left, threads, &mut rng, tally);
    }
}

fn one(ops: u64, threads: u64, rng: &mut Rng, tally: &Tally) {
    let (alive, panics) = (Arc::new(()), Arc::new(AtomicU64::new(0)));
    let ledger = Ledger { ran: 0, panics: panics.clone() };
    let mut builder = Batched::builder().recover(|_: &mut Ledger| ());
    if rng.below(2) == 0 {
        builder = builder.limit(1 + rng.below(9) as usize);
    }
    let full = [Overflow::Block, Overflow::Reject];
    if rng.below(2) == 0 {
        builder = builder.queue(1 + rng.below(9) as usize, full[rng.below(2) as usize]);
    }
    let batched = match rng.below(5) {
        0 => builder.build_on(Runner::thread(move || ledger)).expect("a thread"),
        2 => builder.build_on(Runner::beside_callers(ledger)).expect("a thread"),
        1 => builder.build_on(Runner::spawned(ledger, |run| drop(thread::spawn(run)))).unwrap(),
        _ => builder.build(ledger),
    };
    // In one of four cases the structure is closed after this many operations.
    let last = if rng.below(4) == 0 { rng.below(ops) } else { u64::MAX };
    let (called, answered, unknown) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            let (mut rng, alive) = (Rng(rng.bits()), alive.clone());
            let (batched, called, answered, unknown) = (&batched, &called, &answered, &unknown);
            scope.spawn(move || {
                let turn = Turn { batched, alive, answered, unknown, tally };
                while called.load(Relaxed) < ops {
                    let more = turn.take(&mut rng);
                    if (called.fetch_add(more, Relaxed)..).take(more as usize).any(|at| at == last) {
                        batched.close().expect("once");
                    }
                }
            });
        }
    });
    let ran = batched.exclusive(|ledger| ledger.ran);
    let ran = ran.ok().or_else(|| batched.into_inner().map(|ledger| ledger.ran));
    let (answered, unknown) = (answered.into_inner(), unknown.into_inner());
    // (Closed, and dropped on its own thread: not known.)
    if let Some(ran) = ran {
        assert!((answered..=answered + unknown).contains(&ran), "{answered} answered, {unknown} unknown, {ran} run");
    }
    tally.ops.fetch_add(called.into_inner(), Relaxed);
    tally.panics.fetch_add(panics.load(Relaxed), Relaxed);
    assert_eq!(Arc::strong_count(&alive), 1, "operations or replies leak");
}

struct Turn<'t> {
    batched: &'t Batched<Ledger>,
    alive: Arc<()>,
    answered: &'t AtomicU64,
    unknown: &'t AtomicU64,
    tally: &'t Tally,
}

impl Turn<'_> {
    fn token(&self, rng: &mut Rng) -> Token {
        Token { panics: rng.below(64) == 0, _alive: self.alive.clone() }
    }

    fn count<E>(&self, reply: Result<Token, E>, is_back: impl Fn(&E) -> bool) {
        match reply {
            Ok(_) => self.answered.fetch_add(1, Relaxed),
            Err(error) => self.tally.refused.fetch_add(u64::from(is_back(&error)), Relaxed),
        };
    }

    /// Calls some operations. Returns their number.
    fn take(&self, rng: &mut Rng) -> u64 {
        let batched = self.batched;
        match rng.below(5) {
            0 | 1 => {
                self.count(batched.call(self.token(rng)), |error| error.kind() != BatchError::Panicked);
                1
            }
            2 => {
                let reply = block_on(batched.call_async(self.token(rng)));
                self.count(reply, |error| error.kind() != BatchError::Panicked);
                1
            }
            3 => {
                let size = 1 + rng.below(12);
                let mut chunk = Chunk::new();
                chunk.extend((0..size).map(|_| self.token(rng)));
                if batched.call_chunk(&mut chunk).is_ok() {
                    chunk.replies().for_each(|reply| self.count(reply, |_| false));
                } else {
                    self.tally.refused.fetch_add(size, Relaxed);
                }
                size
            }
            _ => {
                // Several tasks. Some are dropped: before they are polled, while they are queued, or during their batch.
                let mut tasks: Vec<_> = (0..4).map(|_| Box::pin(batched.call_async(self.token(rng)))).collect();
                let waker = waker();
                let mut context = Context::from_waker(&waker);
                for round in 0..1 + rng.below(3) {
                    tasks.retain_mut(|task| match Pin::new(task).poll(&mut context) {
                        Poll::Pending => true,
                        Poll::Ready(reply) => {
                            self.count(reply, |error| error.kind() != BatchError::Panicked);
                            false
                        }
                    });
                    if round > 0 {
                        thread::yield_now();
                    }
                }
                self.unknown.fetch_add(tasks.len() as u64, Relaxed);
                self.tally.dropped.fetch_add(tasks.len() as u64, Relaxed);
                4
            }
        }
    }
}
