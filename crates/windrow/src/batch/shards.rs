//! Several structures for the operations of several keys.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{BatchError, BatchOps, Batched, CallAsync, CallError, Gauges};

/// Several batches at a time: each operation goes to one of several structures, by its key. Operations with equal keys share batches
/// and keep the order of their caller. Operations with different keys may run at the same time.
///
/// ```
/// use std::collections::HashMap;
/// use windrow::batch::{Batch, BatchOps, Batched, Sharded};
///
/// /// Adds to the accounts of tenants.
/// #[derive(Default)]
/// struct Accounts(HashMap<u32, u64>);
///
/// impl BatchOps for Accounts {
///     type Op = (u32, u64);
///     type Reply = u64;
///
///     fn run(&mut self, batch: &mut Batch<'_, (u32, u64), u64>) {
///         for entry in batch.iter_mut() {
///             let (tenant, amount) = entry.take();
///             let account = self.0.entry(tenant).or_default();
///             *account += amount;
///             entry.reply(*account);
///         }
///     }
/// }
///
/// let four = (0..4).map(|_| Batched::new(Accounts::default()));
/// let accounts = Sharded::new(four, |(tenant, _): &(u32, u64)| *tenant);
/// std::thread::scope(|scope| {
///     for tenant in 0..8 {
///         let accounts = &accounts;
///         scope.spawn(move || (0..10).for_each(|_| _ = accounts.call((tenant, 5)).unwrap()));
///     }
/// });
/// assert_eq!((accounts.call((3, 0)), accounts.gauges().operations), (Ok(50), 81));
/// ```
pub struct Sharded<S: BatchOps> {
    shards: Box<[Batched<S>]>,
    hash: Box<KeyHash<S::Op>>,
}

/// The hash of an operation's key.
type KeyHash<Op> = dyn Fn(&Op) -> u64 + Send + Sync;

impl<S: BatchOps> fmt::Debug for Sharded<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharded").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Sharded<S> {
    /// The structures, as many as batches may run at a time, and the key of an operation.
    ///
    /// # Panics
    /// If there is no structure.
    pub fn new<K: Hash>(
        shards: impl IntoIterator<Item = Batched<S>>,
        key: impl Fn(&S::Op) -> K + Send + Sync + 'static,
    ) -> Self {
        let hash = move |op: &S::Op| {
            let mut hasher = DefaultHasher::new();
            key(op).hash(&mut hasher);
            hasher.finish()
        };
        let shards: Box<[_]> = shards.into_iter().collect();
        assert!(!shards.is_empty(), "`Sharded` needs at least one structure");
        Sharded { shards, hash: Box::new(hash) }
    }

    /// The structure of an operation's key: for chunks, reads and calls with a time.
    pub fn shard(&self, op: &S::Op) -> &Batched<S> {
        &self.shards[((self.hash)(op) % self.shards.len() as u64) as usize]
    }

    /// All structures.
    pub fn shards(&self) -> &[Batched<S>] {
        &self.shards
    }

    /// [`Batched::call`] of the key's structure.
    ///
    /// # Errors
    /// The same as [`Batched::call`].
    #[track_caller]
    pub fn call(&self, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        self.shard(&op).call(op)
    }

    /// [`Batched::call_async`] of the key's structure.
    ///
    /// # Errors
    /// The same as [`Batched::call`].
    #[track_caller]
    pub fn call_async(&self, op: S::Op) -> CallAsync<'_, S> {
        self.shard(&op).call_async(op)
    }

    /// The sums of all structures' gauges; the longest of their running batches, and one of their last panics.
    pub fn gauges(&self) -> Gauges {
        let all = self.shards.iter().map(Batched::gauges);
        all.reduce(|sum, one| Gauges {
            queued: sum.queued + one.queued,
            running: sum.running.max(one.running),
            operations: sum.operations + one.operations,
            batches: sum.batches + one.batches,
            rejected: sum.rejected + one.rejected,
            cancelled: sum.cancelled + one.cancelled,
            panicked: sum.panicked + one.panicked,
            last_panic: sum.last_panic.or(one.last_panic),
        })
        .expect("there is a structure")
    }

    /// Closes all structures, one after the other: [`Batched::close`].
    ///
    /// # Errors
    /// The first error of a structure; the others are closed all the same.
    pub fn close(&self) -> Result<(), BatchError> {
        self.shards.iter().map(Batched::close).fold(Ok(()), Result::and)
    }

    /// [`close`](Sharded::close) as a future of any executor.
    ///
    /// # Errors
    /// The errors of [`close`](Sharded::close).
    pub async fn close_async(&self) -> Result<(), BatchError>
    where
        S: 'static,
    {
        let mut closed = Ok(());
        for shard in &self.shards {
            closed = closed.and(shard.close_async().await);
        }
        closed
    }
}
