//! Products and collectives at the same time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use windrow::plan::Nanos;
use windrow::plan::tile::{self, Lane};

use crate::agree::{self, Header};
use crate::lanes::{Helper, Lanes, Trace, Watch};
use crate::product::{self, Parcel, Product, Scratch};
use crate::{Communicator, Error, Float, MatMut, MatRef, Operation, Tiles};

/// A rank with two lanes: the caller's thread computes, a thread of its own communicates. It lives from call to call, and so does the memory of
/// tiles: about as much as the largest operation communicates.
///
/// All ranks make the same calls in the same order. An operation takes, beside its tiles, one all-gather of 56 bytes that compares
/// the arguments, two broadcasts of the tiles with [`Tiles::Auto`], and a barrier at the end: no rank returns `Ok` if another fails.
pub struct Fused<C> {
    communicator: Arc<Mutex<C>>,
    rank: usize,
    size: usize,
    helper: Helper,
    spare: Vec<Parcel>,
    scratch: Scratch,
    watch: Option<Watch>,
}

/// What a fused operation did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The tiles: rows of the whole product.
    pub tiles: tile::Tiles,
    /// The plan, where one was made: on rank 0, of [`Tiles::Auto`].
    pub plan: Option<tile::Plan>,
    /// What the tiles were predicted to take, with [`Tiles::Auto`].
    pub predicted: Option<Nanos>,
    /// When each tile was where.
    pub trace: Trace,
    /// What the call took, with what ranks had to agree about before and after.
    pub elapsed: Nanos,
}

impl<C: Communicator + Send + 'static> Fused<C> {
    /// Starts the thread that communicates for this rank.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn new(communicator: C) -> Result<Self, Error> {
        let (rank, size) = (communicator.rank(), communicator.size());
        Ok(Self {
            communicator: Arc::new(Mutex::new(communicator)),
            rank,
            size,
            helper: Helper::start(format!("windrow-rank-{rank}"))?,
            spare: Vec::new(),
            scratch: Scratch::default(),
            watch: None,
        })
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks of the group.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The rank itself, for collectives between fused operations.
    pub fn communicator(&mut self) -> MutexGuard<'_, C> {
        self.communicator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before each tile is computed or communicated, `watch` is called in its lane, with its place. If it returns an error, the operation stops
    /// on all ranks: that is how one is cancelled.
    pub fn watch(&mut self, watch: impl Fn(Lane, usize) -> Result<(), String> + Send + Sync + 'static) {
        self.watch = Some(Arc::new(watch));
    }

    /// Nobody watches any more.
    pub fn unwatch(&mut self) {
        self.watch = None;
    }

    /// `c = sum over ranks of a * b`, on all ranks: `a` is m x k, `b` is k x n, `c` is m x n. Ranks may have different `k`.
    ///
    /// # Errors
    /// An operand does not fit, ranks disagree about the arguments, tiles do not fit or cannot be chosen, or a lane of any rank failed. What `c`
    /// holds is not the result then.
    pub fn matmul_all_reduce<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::MatmulAllReduce, a, b, c, tiles)
    }

    /// `c = this rank's rows of the sum over ranks of a * b`: `a` is m x k, `b` is k x n, `c` is m / ranks x n, and rank 0 gets the
    /// first rows. Ranks may have different `k`.
    ///
    /// # Errors
    /// As for [`matmul_all_reduce`](Self::matmul_all_reduce); m is no multiple of the number of ranks.
    pub fn matmul_reduce_scatter<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::MatmulReduceScatter, a, b, c, tiles)
    }

    /// `c = (rows of all ranks) * b`: `a` is m / ranks x k, `b` is k x n, `c` is m x n, and the rows of rank 0 are the first. Ranks may have
    /// different `n`.
    ///
    /// # Errors
    /// As for [`matmul_all_reduce`](Self::matmul_all_reduce).
    pub fn all_gather_matmul<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::AllGatherMatmul, a, b, c, tiles)
    }

    fn run<T: Float>(
        &mut self,
        operation: Operation,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        let began = Instant::now();
        let Self { communicator, helper, spare, scratch, size, .. } = self;
        let mut product = Product { operation, ranks: *size, a, b, c, scratch, tiles: Vec::new() };
        let unit = operation.unit(*size);
        let locked = || communicator.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = product.check().and_then(|rows| Ok((rows, tiles.cut(rows, unit)?)));
        let (rows, cut) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                locked().refuse(&error.to_string());
                return Err(error);
            }
        };
        let header = Header { operation, element: T::NAME, m: rows, n: b.cols, k: a.cols };
        agree::on_call(&mut *locked(), &header, tiles, &cut)?;
        product.tiles = Tiles::ranges(&cut, unit);
        T::prepare(b, product.scratch);
        let send = {
            let communicator = Arc::clone(communicator);
            move |parcel: &mut Parcel| {
                let mut communicator = communicator.lock().unwrap_or_else(PoisonError::into_inner);
                product::communicate::<T>(operation, &mut *communicator, parcel)?;
                Ok(communicator.pace())
            }
        };
        let lanes = Lanes { helper, order: operation.order(), watch: self.watch.clone(), send: Arc::new(send), spare };
        let (trace, ran) = lanes.run(product.tiles.len(), &mut product);
        match ran {
            Ok(()) => locked().barrier()?,
            Err(fault) => {
                if !fault.agreed {
                    locked().refuse(&fault.error.to_string());
                }
                return Err(fault.error);
            }
        }
        let elapsed = Nanos(began.elapsed().as_nanos() as f64);
        Ok(Outcome { tiles: cut, plan: None, predicted: None, trace, elapsed })
    }
}

impl<C> fmt::Debug for Fused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, size, .. } = self;
        f.debug_struct("Fused").field("rank", rank).field("size", size).finish_non_exhaustive()
    }
}
