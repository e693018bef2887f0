//! Random parallel calls inside of parallel calls, each with its serial result.
//!
//! A [`Shape`] is data: which consumer, how many items, what they cost, on which pool, and which items are shapes themselves. It
//! is made from a seed, so that the seed of a failure is all there is to report.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use windrow::prelude::*;
use windrow::team::split;
use windrow::{CancelToken, Cancelled, Pool};

use crate::{Rng, mix};

/// One call.
#[derive(Clone, Debug)]
pub struct Shape {
    seed: u64,
    consumer: Consumer,
    n: usize,
    /// Turns of work in every item, and in one.
    cost: u64,
    long: Option<(usize, u64)>,
    /// `None`: the pool that is current.
    pool: Option<usize>,
    chunk: Option<usize>,
    /// Items that are calls.
    inside: Vec<(usize, Shape)>,
}

#[derive(Clone, Copy, Debug)]
enum Consumer {
    ForEach,
    Collect,
    FilterCollect,
    Sum,
    Reduce,
    Owned,
    Zip,
    Mutate,
    Chunks,
    Any,
    Max,
    Fold,
    Cancellable,
    Cancelled,
    JoinHandle,
    SpawnDropped,
    NewPool,
    Team,
}

const CONSUMERS: [Consumer; 18] = [
    Consumer::ForEach,
    Consumer::Collect,
    Consumer::FilterCollect,
    Consumer::Sum,
    Consumer::Reduce,
    Consumer::Owned,
    Consumer::Zip,
    Consumer::Mutate,
    Consumer::Chunks,
    Consumer::Any,
    Consumer::Max,
    Consumer::Fold,
    Consumer::Cancellable,
    Consumer::Cancelled,
    Consumer::JoinHandle,
    Consumer::SpawnDropped,
    Consumer::NewPool,
    Consumer::Team,
];

/// Pools, and what is counted in them. Leaked: spawned closures may be the last to use it.
pub struct World {
    /// Pools of 1, 2, 3 and 4 threads.
    pub pools: Vec<Pool>,
    /// Calls that ended, by whichever way.
    pub calls: AtomicU64,
}

impl World {
    /// New pools.
    pub fn new() -> &'static World {
        Box::leak(Box::new(World { pools: [1, 2, 3, 4].map(Pool::new).into(), calls: AtomicU64::new(0) }))
    }
}

/// What one call tree may do, and what of it is alive.
pub struct Account {
    /// Its pools.
    pub world: &'static World,
    /// This many items more, and one panics.
    fuse: AtomicUsize,
    blown: AtomicBool,
    live: AtomicIsize,
    /// A mark for each counted value, so that one dropped twice is told from one leaked.
    marks: Box<[AtomicU8]>,
    next: AtomicUsize,
}

/// The payload of an injected panic.
struct Blown;

/// No injected panic.
pub const NO_FUSE: usize = usize::MAX;

impl Account {
    /// An account without entries.
    pub fn new(world: &'static World) -> &'static Account {
        Box::leak(Box::new(Account {
            world,
            fuse: AtomicUsize::new(NO_FUSE),
            blown: AtomicBool::new(false),
            live: AtomicIsize::new(0),
            marks: (0..1 << 14).map(|_| AtomicU8::new(0)).collect(),
            next: AtomicUsize::new(0),
        }))
    }

    /// Runs `shape` with an injected panic after `fuse` items ([`NO_FUSE`]: none), and checks everything: the result or the
    /// panic, that nothing leaked (and by itself: that nothing was dropped twice). Whether it panicked.
    pub fn check(&'static self, shape: &Shape, fuse: usize) -> bool {
        let result = self.guard(fuse, shape.leaves_closures_behind(), || shape.parallel(self));
        if let Some(found) = result {
            assert_eq!(found, shape.serial());
        }
        result.is_none()
    }

    /// Runs `f` with an injected panic after `fuse` items, and checks that it was heard of and that nothing leaked. None if it
    /// panicked.
    pub fn guard<R>(&self, fuse: usize, leaves_closures_behind: bool, f: impl FnOnce() -> R) -> Option<R> {
        self.blown.store(false, Relaxed);
        self.fuse.store(fuse, Relaxed);
        let result = catch_unwind(AssertUnwindSafe(f));
        let blown = self.blown.load(Relaxed);
        let result = match result {
            Ok(_) if blown => panic!("a panic was lost"),
            Ok(found) => Some(found),
            Err(payload) if payload.is::<Blown>() && blown => None,
            Err(other) => resume_unwind(other),
        };
        while leaves_closures_behind && self.live.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(self.live.load(Relaxed), 0, "something leaked");
        result
    }

    /// One item more, which may be the one that panics.
    pub fn burn(&self) {
        if self.fuse.load(Relaxed) != NO_FUSE && self.fuse.fetch_sub(1, Relaxed) == 0 {
            // Others go on counting down from the top: far away.
            self.blown.store(true, Relaxed);
            resume_unwind(Box::new(Blown));
        }
    }
}

/// A value that is alive until dropped, once.
pub struct Counted {
    account: &'static Account,
    mark: usize,
    /// What is counted.
    pub value: u64,
}

impl Counted {
    /// Counts `value`.
    pub fn new(account: &'static Account, value: u64) -> Self {
        account.live.fetch_add(1, Relaxed);
        let mark = account.next.fetch_add(1, Relaxed) % account.marks.len();
        account.marks[mark].fetch_add(1, Relaxed);
        Counted { account, mark, value }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.account.marks[self.mark].fetch_sub(1, Relaxed) == 0 {
            // Not a panic: it would be one of many here.
            eprintln!("value {} was dropped twice", self.mark);
            std::process::abort();
        }
        self.account.live.fetch_sub(1, Relaxed);
    }
}

/// An affine map: composing is associative and not commutative.
pub type Affine = (u64, u64);

/// The one after the other.
pub fn compose(a: Affine, b: Affine) -> Affine {
    (a.0.wrapping_mul(b.0), a.1.wrapping_mul(b.0).wrapping_add(b.1))
}

/// A number for a sequence: order matters.
pub fn digest(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(1, |sum, value| mix(sum.wrapping_mul(31).wrapping_add(value)))
}

fn work(turns: u64, seed: u64) {
    std::hint::black_box((0..turns).fold(seed, |x, _| std::hint::black_box(x ^ (x >> 7))));
}

impl Shape {
    /// A call with at most `depth` calls inside of each other, and some 300 us of work at most without them.
    pub fn random(rng: &mut Rng, depth: u32) -> Shape {
        let n = rng.log_below(if depth > 1 { 400 } else { 1500 }) as usize;
        let turns = 600_000 / (n as u64 + 1);
        let cost = if rng.below(3) == 0 { 0 } else { rng.log_below(turns.min(50_000) + 1) };
        let long = (n > 0 && rng.below(4) == 0).then(|| (rng.below(n as u64) as usize, rng.log_below(100_000)));
        let inside = if depth > 1 && n > 0 && rng.below(2) == 0 { rng.below(4) + 1 } else { 0 };
        let mut inside: Vec<(usize, Shape)> =
            (0..inside).map(|_| (rng.below(n as u64) as usize, Shape::random(rng, depth - 1))).collect();
        inside.sort_by_key(|(at, _)| *at);
        inside.dedup_by_key(|(at, _)| *at);
        let consumer = CONSUMERS[rng.below(CONSUMERS.len() as u64) as usize];
        Shape {
            seed: rng.bits(),
            // Starting threads is slow: now and then.
            consumer: if matches!(consumer, Consumer::NewPool) && rng.below(8) > 0 { Consumer::Sum } else { consumer },
            n,
            cost,
            long,
            pool: (rng.below(2) == 0).then(|| rng.below(4) as usize),
            // A chunk that is given is a reason to share.
            chunk: (rng.below(2) == 0).then(|| rng.log_below(64) as usize + 1),
            inside,
        }
    }

    /// Calls in it, itself included.
    pub fn calls(&self) -> u64 {
        1 + self.inside.iter().map(|(_, shape)| shape.calls()).sum::<u64>()
    }

    /// Items of all calls in it, itself included.
    pub fn items(&self) -> usize {
        self.n + self.inside.iter().map(|(_, shape)| shape.items()).sum::<usize>()
    }

    /// A closure that was dropped may run for a while.
    pub fn leaves_closures_behind(&self) -> bool {
        matches!(self.consumer, Consumer::SpawnDropped)
            || self.inside.iter().any(|(_, shape)| shape.leaves_closures_behind())
    }

    fn value(&self, at: usize, inner: Option<u64>) -> u64 {
        mix(self.seed ^ at as u64).wrapping_add(inner.unwrap_or(0)) >> 8
    }

    fn inside(&self, at: usize) -> Option<&Shape> {
        let found = self.inside.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(&self.inside[found].1)
    }

    /// What it comes to, without threads and without the work.
    pub fn serial(&self) -> u64 {
        let values = || (0..self.n).map(|at| self.value(at, self.inside(at).map(Shape::serial)));
        match self.consumer {
            Consumer::ForEach | Consumer::Owned | Consumer::Sum | Consumer::Cancellable | Consumer::NewPool => {
                values().fold(0, u64::wrapping_add)
            }
            Consumer::JoinHandle => values().fold(7, u64::wrapping_add),
            Consumer::Collect | Consumer::Mutate | Consumer::Fold | Consumer::Team => digest(values()),
            Consumer::FilterCollect => digest(values().filter(|value| value % 3 != 0)),
            Consumer::Reduce => {
                let all = values().map(|value| (value | 1, value)).fold((1, 0), compose);
                all.0 ^ all.1
            }
            Consumer::Zip => digest(values().enumerate().map(|(i, value)| value ^ (i as u64 * 3))),
            Consumer::Chunks => {
                let all: Vec<u64> = values().collect();
                digest(all.chunks(self.chunk.unwrap_or(7)).map(|run| run.iter().fold(0, |a, b| a ^ b)))
            }
            Consumer::Any => u64::from(values().any(|value| value % 97 == 0)),
            Consumer::Max => values().max().unwrap_or(1),
            // What is stopped or dropped comes to nothing that could be compared.
            Consumer::Cancelled | Consumer::SpawnDropped => 0,
        }
    }

    /// What it comes to, in parallel.
    pub fn parallel(&self, account: &'static Account) -> u64 {
        let result = match self.pool {
            Some(pool) => account.world.pools[pool].install(|| self.run(account)),
            None => self.run(account),
        };
        account.world.calls.fetch_add(1, Relaxed);
        result
    }

    fn item(&self, at: usize, account: &'static Account) -> Counted {
        // Alive while the item runs and, should it panic, dropped by that.
        let mut counted = Counted::new(account, 0);
        account.burn();
        work(self.cost, self.seed);
        if let Some((_, turns)) = self.long.filter(|(long, _)| *long == at) {
            work(turns, self.seed);
        }
        counted.value = self.value(at, self.inside(at).map(|shape| shape.parallel(account)));
        counted
    }

    fn run(&self, account: &'static Account) -> u64 {
        let plain = || {
            let range = (0..self.n).into_par_iter();
            let range = match self.chunk {
                Some(chunk) => range.with_claim_size(chunk),
                None => range,
            };
            range.map(|at| self.item(at, account))
        };
        let sum = |a: u64, b: u64| a.wrapping_add(b);
        match self.consumer {
            Consumer::ForEach => {
                let total = AtomicU64::new(0);
                plain().for_each(|item| _ = total.fetch_add(item.value, Relaxed));
                total.into_inner()
            }
            Consumer::Collect => digest(plain().collect::<Vec<_>>().iter().map(|item| item.value)),
            Consumer::FilterCollect => {
                digest(plain().filter(|item| item.value % 3 != 0).collect::<Vec<_>>().iter().map(|item| item.value))
            }
            Consumer::Sum => plain().map(|item| item.value).reduce(|| 0, sum),
            Consumer::Reduce => {
                let all = plain().map(|item| (item.value | 1, item.value)).reduce(|| (1, 0), compose);
                all.0 ^ all.1
            }
            Consumer::Owned => {
                let owned: Vec<Counted> = (0..self.n).map(|at| Counted::new(account, at as u64)).collect();
                let values = owned.into_par_iter().map(|item| self.item(item.value as usize, account).value);
                values.reduce(|| 0, sum)
            }
            Consumer::Zip => {
                let owned = |n: usize| (0..n).map(|at| Counted::new(account, at as u64 * 3)).collect::<Vec<_>>();
                let pairs = owned(self.n).into_par_iter().zip(owned(self.n + 5)).enumerate();
                let values = pairs.map(|(at, (a, b))| {
                    assert_eq!(a.value, b.value);
                    let mut item = self.item(at, account);
                    item.value ^= b.value;
                    item
                });
                digest(values.collect::<Vec<_>>().iter().map(|item| item.value))
            }
            Consumer::Mutate => {
                let mut all: Vec<Option<Counted>> = (0..self.n).map(|_| Some(Counted::new(account, 0))).collect();
                all.par_iter_mut().enumerate().for_each(|(at, slot)| *slot = Some(self.item(at, account)));
                digest(all.iter().flatten().map(|item| item.value))
            }
            Consumer::Chunks => {
                let all: Vec<usize> = (0..self.n).collect();
                let runs = all.par_chunks(self.chunk.unwrap_or(7));
                let values = runs.map(|run| run.iter().map(|&at| self.item(at, account).value).fold(0, |a, b| a ^ b));
                digest(values.collect::<Vec<_>>())
            }
            Consumer::Any => u64::from(plain().any(|item| item.value % 97 == 0)),
            Consumer::Max => plain().map(|item| item.value).max().unwrap_or(1),
            Consumer::Fold => {
                let runs = plain().fold(Vec::new, |mut run, item| {
                    run.push(item);
                    run
                });
                digest(runs.collect::<Vec<_>>().iter().flatten().map(|item| item.value))
            }
            Consumer::Cancellable => plain()
                .map(|item| item.value)
                .with_cancel(&CancelToken::new())
                .reduce(|| 0, sum)
                .expect("it is not cancelled"),
            Consumer::Cancelled => {
                let (token, begun) = (CancelToken::new(), AtomicUsize::new(0));
                let stopping = plain().map(|item| {
                    if begun.fetch_add(1, Relaxed) == self.n / 3 {
                        token.cancel();
                    }
                    item
                });
                match stopping.with_cancel(&token).collect::<Vec<_>>() {
                    Ok(all) => assert_eq!(all.len(), self.n),
                    Err(Cancelled) => assert!(begun.into_inner() < self.n),
                }
                0
            }
            Consumer::JoinHandle => {
                let shape = self.clone();
                let counted = Counted::new(account, 7);
                let closure = windrow::spawn_joinable(move || {
                    let values = (0..shape.n).into_par_iter().map(|at| shape.item(at, account).value);
                    values.reduce(|| 0, |a, b| a.wrapping_add(b)).wrapping_add(counted.value)
                });
                closure.wait()
            }
            Consumer::SpawnDropped => {
                let shape = self.clone();
                let counted = Counted::new(account, 7);
                let closure = windrow::spawn_joinable(move || {
                    // A panic would be lost here, so there is none.
                    let values = (0..shape.n).into_par_iter().map(|at| work(shape.cost, at as u64));
                    (values.with_cancel(&CancelToken::current()).for_each(drop), counted)
                });
                if self.seed.is_multiple_of(2) {
                    std::thread::yield_now();
                }
                drop(closure);
                0
            }
            Consumer::NewPool => {
                let pool = Pool::new(1 + (self.seed % 3) as usize);
                pool.install(|| plain().map(|item| item.value).reduce(|| 0, sum))
            }
            Consumer::Team => {
                let mut all: Vec<Option<Counted>> = (0..self.n).map(|_| Some(Counted::new(account, 0))).collect();
                let results = windrow::team(&mut all[..]).width(self.chunk.unwrap_or(usize::MAX)).run(|member| {
                    let (_, (from, mine)) = member.round::<(), (usize, &mut [Option<Counted>])>(|all, deal| {
                        let mut from = 0;
                        for part in split::even(all, deal.width()) {
                            let len = part.len();
                            deal.part((from, part));
                            from += len;
                        }
                    })?;
                    mine.iter_mut().zip(from..).for_each(|(slot, at)| *slot = Some(self.item(at, account)));
                    member.barrier()
                });
                // (A panic of a member comes out of `run`.)
                assert!(results.iter().all(Result::is_ok));
                digest(all.iter().flatten().map(|item| item.value))
            }
        }
    }
}
