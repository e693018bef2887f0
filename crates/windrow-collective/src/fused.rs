//! Matrix products that overlap with their collectives.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use windrow_sync::machine;
use windrow_tiling::Nanos;
use windrow_tiling::tile::{self, Lane};

use crate::agree::{self, Agreed, Header, Predicted};
use crate::float::Scratch;
use crate::lanes::{Fault, Helper, Lanes, Watch};
use crate::operands::Operands;
use crate::product::{self, Parcel, Product, Spare};
use crate::{Communicator, Error, Float, MatMut, MatRef, Operation, Outcome, Pace, Profile, Tiles};

/// A rank with two lanes: the caller's thread computes, and a separate thread communicates. The thread and the memory of tiles are kept
/// from call to call; the memory has about the size of what the largest operation communicates.
///
/// All ranks make the same calls in the same order. Besides its tiles, an operation runs a few small collectives. An all-gather of 64 bytes
/// compares the arguments. The first call with [`Tiles::Auto`] for some sizes has two broadcasts, which carry the tiles, and so has a later one for
/// which rank 0 decides otherwise. A barrier ends the operation, so no rank returns `Ok` if
/// another fails.
///
/// ```
/// use std::thread;
/// use windrow_collective::{Error, Fused, Group, MatMut, MatRef, Rank, Tiles};
///
/// // Two ranks, each with a column of a and a row of b.
/// let product = |rank: Rank| {
///     let mut fused = Fused::new(rank)?;
///     let (a, b, mut c) = ([1.0_f32, 2.0], [1.0, 3.0], [0.0; 4]);
///     let (a, b) = (MatRef::new(&a, 2, 1), MatRef::new(&b, 1, 2));
///     fused.matmul_all_reduce(a, b, MatMut::new(&mut c, 2, 2), &Tiles::Uniform(2))?;
///     assert_eq!(c, [2.0, 6.0, 4.0, 12.0]);
///     Ok::<_, Error>(())
/// };
/// let running: Vec<_> = Group::new(2).ranks().into_iter().map(|rank| thread::spawn(move || product(rank))).collect();
/// running.into_iter().try_for_each(|thread| thread.join().unwrap())?;
/// # Ok::<(), windrow_collective::Error>(())
/// ```
pub struct Fused<C> {
    /// Dropped first, so that the communicator is dropped on the caller's thread.
    pub(crate) helper: Helper,
    communicator: Arc<Mutex<C>>,
    rank: usize,
    size: usize,
    pub(crate) memory: Memory,
    /// Threads that compute.
    pub(crate) threads: usize,
    watch: Option<Watch>,
    profiles: Vec<Known>,
    /// What rank 0 decided for the calls so far.
    agreed: HashMap<Header, Agreed>,
    /// On rank 0: the number of the latest decision. The first one is random, so that ranks never take the decisions of an earlier `Fused`
    /// for those of this one.
    decisions: u64,
}

/// Memory that is kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) scratch: Scratch,
    pub(crate) spare: Spare,
}

/// A profile, and the plans made from it so far.
type Known = (Profile, BTreeMap<u64, tile::Plan>);

impl<C: Communicator + Send + 'static> Fused<C> {
    /// Starts the communication thread of this rank.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn new(communicator: C) -> Result<Self, Error> {
        let (rank, size) = (communicator.rank(), communicator.size());
        let cpus = machine::Thread::this().allowed().len();
        let threads = (cpus / communicator.sharers().max(1)).max(1);
        Ok(Self {
            communicator: Arc::new(Mutex::new(communicator)),
            rank,
            size,
            helper: Helper::start(format!("windrow-rank-{rank}"))?,
            memory: Memory::default(),
            threads,
            watch: None,
            profiles: Vec::new(),
            agreed: HashMap::new(),
            decisions: RandomState::new().build_hasher().finish(),
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
    ///
    /// ```
    /// use windrow_collective::{Communicator, Fused, Group};
    ///
    /// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
    /// let mut losses = [0.5_f64, 0.25];
    /// fused.communicator().all_reduce(&mut losses)?;
    /// assert_eq!(losses, [0.5, 0.25], "the sum over one rank");
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    pub fn communicator(&mut self) -> MutexGuard<'_, C> {
        self.communicator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the number of threads that compute a product: at most as many, and only as far as it pays. By default these are the CPUs that this
    /// thread may use, divided by the number of [ranks that share them](Communicator::sharers). [Calibrate](Self::calibrate) afterwards. 0 means
    /// 1.
    pub fn use_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Sets a function that is called in its lane before each tile is computed or communicated, with the tile's index. If it returns an
    /// error, the operation stops on all ranks. This is how an operation is cancelled.
    ///
    /// ```
    /// use windrow_collective::{Error, Fused, Group, MatMut, MatRef, Tiles};
    ///
    /// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
    /// fused.watch(|_, tile| if tile < 2 { Ok(()) } else { Err("enough".to_owned()) });
    /// let (a, mut c) = ([1.0_f32; 16], [0.0; 16]);
    /// let (a, c) = (MatRef::new(&a, 4, 4), MatMut::new(&mut c, 4, 4));
    /// let stopped = fused.matmul_all_reduce(a, a, c, &Tiles::Uniform(4));
    /// assert!(matches!(stopped, Err(Error::Stopped { tile: 2, panicked: false, .. })));
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    pub fn watch(&mut self, watch: impl Fn(Lane, usize) -> Result<(), String> + Send + Sync + 'static) {
        self.watch = Some(Arc::new(watch));
    }

    /// Removes the function set by [`watch`](Self::watch).
    pub fn unwatch(&mut self) {
        self.watch = None;
    }

    /// `c = sum over ranks of a * b`, on all ranks: `a` is m x k, `b` is k x n, `c` is m x n. Ranks may have different `k`.
    ///
    /// ```
    /// use windrow_collective::{Fused, Group, MatMut, MatRef, Tiles};
    ///
    /// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
    /// let (a, b, mut c) = ([1.0_f32, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0], [0.0; 4]);
    /// let (a, b) = (MatRef::new(&a, 2, 2), MatRef::new(&b, 2, 2));
    /// fused.matmul_all_reduce(a, b, MatMut::new(&mut c, 2, 2), &Tiles::None)?;
    /// assert_eq!(c, [2.0, 1.0, 4.0, 3.0]);
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// An operand does not fit, ranks disagree about the arguments, tiles do not fit or cannot be chosen, or a lane of any rank failed. The
    /// contents of `c` are then unspecified.
    #[track_caller]
    pub fn matmul_all_reduce<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::MatmulAllReduce, Operands::new(a, b), c, tiles)
    }

    /// `c = this rank's rows of the sum over ranks of a * b`: `a` is m x k, `b` is k x n, `c` is m / ranks x n. Rank 0 gets the first rows.
    /// Ranks may have different `k`.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Error, Fused, Group, MatMut, MatRef, Rank, Tiles};
    ///
    /// // Each rank has all rows of the product, and keeps the sum of one.
    /// let rows = |rank: Rank| {
    ///     let mut fused = Fused::new(rank)?;
    ///     let (a, b, mut c) = ([1.0_f32, 2.0], [10.0], [0.0]);
    ///     let (a, b) = (MatRef::new(&a, 2, 1), MatRef::new(&b, 1, 1));
    ///     fused.matmul_reduce_scatter(a, b, MatMut::new(&mut c, 1, 1), &Tiles::None)?;
    ///     Ok::<_, Error>(c)
    /// };
    /// let running: Vec<_> = Group::new(2).ranks().into_iter().map(|rank| thread::spawn(move || rows(rank))).collect();
    /// let rows = running.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(rows, [[20.0], [40.0]]);
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`matmul_all_reduce`](Self::matmul_all_reduce); m is no multiple of the number of ranks.
    #[track_caller]
    pub fn matmul_reduce_scatter<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::MatmulReduceScatter, Operands::new(a, b), c, tiles)
    }

    /// `c = (rows of all ranks) * b`: `a` is m / ranks x k, `b` is k x n, `c` is m x n. The rows of rank 0 come first. Ranks may have
    /// different `n`.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Communicator, Error, Fused, Group, MatMut, MatRef, Rank, Tiles};
    ///
    /// // Each rank has one row of a, and gets the products of all rows.
    /// let products = |rank: Rank| {
    ///     let a = [1.0_f32 + rank.rank() as f32];
    ///     let mut fused = Fused::new(rank)?;
    ///     let (b, mut c) = ([10.0], [0.0; 2]);
    ///     let (a, b) = (MatRef::new(&a, 1, 1), MatRef::new(&b, 1, 1));
    ///     fused.all_gather_matmul(a, b, MatMut::new(&mut c, 2, 1), &Tiles::None)?;
    ///     Ok::<_, Error>(c)
    /// };
    /// let running: Vec<_> = Group::new(2).ranks().into_iter().map(|rank| thread::spawn(move || products(rank))).collect();
    /// let products = running.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(products, [[10.0, 20.0]; 2]);
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`matmul_all_reduce`](Self::matmul_all_reduce).
    #[track_caller]
    pub fn all_gather_matmul<T: Float>(
        &mut self,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        self.run(Operation::AllGatherMatmul, Operands::new(a, b), c, tiles)
    }

    /// Any of the operations, with any [`Operands`]: a `b` that was packed before, and factors of the product and of the old contents of `c`.
    ///
    /// # Errors
    /// As for the operation.
    #[track_caller]
    pub fn run<T: Float>(
        &mut self,
        operation: Operation,
        operands: Operands<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        let outcome = self.carry_out(operation, operands, c, tiles)?;
        outcome.explain(Location::caller());
        Ok(outcome)
    }

    /// Sets the profile by which [`Tiles::Auto`] cuts operations of this kind from now on, in place of an earlier one. Only the profile of
    /// rank 0 matters: rank 0 decides for all. An operation of another `n`, `k` or element needs a separate profile.
    ///
    /// A plan is made on first use and kept until the profile is replaced or [re-fitted](Profile::refit). Re-fitting happens
    /// automatically when predictions drift. [`plan_ahead`](Self::plan_ahead) makes a plan before its first use.
    pub fn use_profile(&mut self, profile: Profile) {
        self.profiles.retain(|(known, _)| known.shape() != profile.shape());
        self.profiles.push((profile, BTreeMap::new()));
    }

    /// Makes the plan for [m, n, k] before the next such operation with [`Tiles::Auto`] needs it. The sizes are those of rank 0; where the
    /// rows are dealt out, m is that of all ranks. This is not a collective call: rank 0 decides, so only rank 0 plans and returns a plan.
    /// [`Tiles::Auto`] says how long planning takes.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_collective::{Calibration, Fused, Group, MatMut, MatRef, Operation, Tiles};
    ///
    /// let run = |rank| {
    ///     let mut fused = Fused::new(rank)?;
    ///     let sizes = vec![16, 32, 48, 64];
    ///     let how = Calibration { rows: sizes, repeats: 9, align: 16, ..Calibration::default() };
    ///     let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, 8, 8, &how)?;
    ///     fused.use_profile(profile);
    ///     let plan = fused.plan_ahead::<f32>(Operation::MatmulAllReduce, [96, 8, 8])?;
    ///
    ///     let (a, b, mut c) = ([1.0_f32; 96 * 8], [1.0_f32; 8 * 8], [0.0; 96 * 8]);
    ///     let (a, b, c) = (MatRef::new(&a, 96, 8), MatRef::new(&b, 8, 8), MatMut::new(&mut c, 96, 8));
    ///     let outcome = fused.matmul_all_reduce(a, b, c, &Tiles::Auto)?;
    ///     assert_eq!(outcome.plan, plan);
    ///     Ok::<_, windrow_collective::Error>(())
    /// };
    /// thread::scope(|scope| {
    ///     let running: Vec<_> = Group::new(2).ranks().into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
    ///     running.into_iter().try_for_each(|thread| thread.join().unwrap())
    /// })?;
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// This is rank 0, and there is no profile of the operation, the rows cannot be dealt out, or there is no plan.
    pub fn plan_ahead<T: Float>(
        &mut self,
        operation: Operation,
        [m, n, k]: [usize; 3],
    ) -> Result<Option<tile::Plan>, Error> {
        let unit = operation.unit(self.size);
        match self.rank {
            0 if !m.is_multiple_of(unit) => {
                Err(Error::Tiles { why: format!("{m} rows cannot be divided evenly among {unit} ranks") })
            }
            0 => self.decide(&Header { operation, element: T::NAME, m, n, k }).map(|decided| Some(decided.plan)),
            _ => Ok(None),
        }
    }

    /// The profiles in use, with the errors of their predictions.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.iter().map(|known| &known.0)
    }

    pub(crate) fn profile_mut(
        &mut self,
        operation: Operation,
        element: &str,
        n: usize,
        k: usize,
    ) -> Option<&mut Known> {
        let size = self.size;
        self.profiles.iter_mut().find(|known| known.0.is_of(operation, element, size, n, k))
    }

    /// The same, without telling.
    pub(crate) fn carry_out<T: Float>(
        &mut self,
        operation: Operation,
        operands: Operands<'_, T>,
        c: MatMut<'_, T>,
        tiles: &Tiles,
    ) -> Result<Outcome, Error> {
        let mut memory = std::mem::take(&mut self.memory);
        let Memory { scratch, spare } = &mut memory;
        let (ranks, threads) = (self.size, self.threads);
        let product = Product { operation, ranks, operands, c, scratch, spare, threads, tiles: Vec::new() };
        let outcome = self.carry_out_product(product, tiles);
        self.memory = memory;
        outcome
    }

    fn carry_out_product<T: Float>(&mut self, mut product: Product<'_, T>, tiles: &Tiles) -> Result<Outcome, Error> {
        let began = Instant::now();
        let operation = product.operation;
        let unit = operation.unit(self.size);
        let ready = product.check().and_then(|m| {
            let [k, n] = product.operands.inner();
            let header = Header { operation, element: T::NAME, m, n, k };
            let decided = match tiles {
                Tiles::Auto if self.rank == 0 => Some(self.decide(&header)?),
                _ => None,
            };
            let cut = match &decided {
                Some(decided) => Tiles::Plan(decided.tiles.clone()).cut(m, unit)?,
                None => tiles.cut(m, unit)?,
            };
            Ok((header, decided, cut))
        });
        let (header, decided, mut cut) = self.or_refuse(ready)?;
        let mut predicted = None;
        if *tiles == Tiles::Auto {
            let agreed = self.agree(&header, decided.as_ref())?;
            (cut, predicted) = (agreed.tiles, Some(agreed.predicted));
        } else {
            agree::on_call(&mut *self.communicator(), &header, tiles, &cut, 0)?;
        }
        product.tiles = Tiles::ranges(&cut, unit);
        product.prepare();
        self.communicator().announce(&product.calls());
        let send = self.carry::<T>(operation);
        let lanes = Lanes { helper: &self.helper, order: operation.order(), watch: self.watch.as_ref(), send: &send };
        let (trace, ran) = lanes.run(product.tiles.len(), &mut product);
        drop(send);
        match ran {
            Ok(()) => self.communicator().barrier()?,
            Err(fault) => return Err(self.tell(fault)),
        }
        let elapsed = Nanos(began.elapsed().as_nanos() as f64);
        let plan = decided.map(|decided| decided.plan);
        let [predicted, predicted_call] =
            [predicted.map(|predicted| predicted.tiles), predicted.map(|predicted| predicted.call)];
        let outcome = Outcome { tiles: cut, plan, predicted, predicted_call, trace, elapsed };
        let decides = self.rank == 0;
        if let Some((profile, plans)) = self.profile_mut(operation, T::NAME, header.n, header.k) {
            profile.observe(&outcome);
            if decides && profile.refit().is_some_and(|refit| refit.refused.is_none()) {
                plans.clear();
            }
            plans.retain(|_, plan| profile.keeps(plan));
        }
        Ok(outcome)
    }

    /// Agrees with the other ranks about a call with [`Tiles::Auto`]. `decided` is the decision of rank 0.
    ///
    /// The ranks keep what was agreed, and compare its number with the arguments. So rank 0 broadcasts a decision only once.
    fn agree(&mut self, header: &Header, decided: Option<&Decided>) -> Result<Agreed, Error> {
        if let Some(Decided { tiles, predicted, .. }) = decided {
            let known = self.agreed.get(header);
            if known.is_none_or(|known| (&known.tiles, known.predicted) != (tiles, *predicted)) {
                // 0 is what a rank says that knows no decision.
                self.decisions = self.decisions.wrapping_add(1).max(1);
                let agreed = Agreed { generation: self.decisions, tiles: tiles.clone(), predicted: *predicted };
                self.agreed.insert(*header, agreed);
            }
        }
        let known = self.agreed.get(header);
        let generation = known.map_or(0, |known| known.generation);
        let mut communicator = self.communicator.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, is_known) =
            agree::on_call(&mut *communicator, header, &Tiles::Auto, &tile::Tiles::default(), generation)?;
        if let (true, Some(known)) = (is_known, known) {
            return Ok(known.clone());
        }
        let mine = decided.map(|decided| (&decided.tiles, decided.predicted));
        let (tiles, predicted) = agree::on_tiles(&mut *communicator, mine)?;
        drop(communicator);
        let agreed = Agreed { generation: first, tiles, predicted };
        self.agreed.insert(*header, agreed.clone());
        Ok(agreed)
    }

    /// The decision of rank 0 with [`Tiles::Auto`].
    fn decide(&mut self, header: &Header) -> Result<Decided, Error> {
        let Header { operation, element, m, n, k } = *header;
        let Some((profile, plans)) = self.profile_mut(operation, element, n, k) else {
            return Err(Error::NoProfile { operation, element, n, k });
        };
        let plan = match plans.entry(m as u64) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(profile.plan(m as u64)?),
        };
        let (tiles, take) = profile.choose(m as u64, plan)?;
        let predicted = Predicted { tiles: take, call: Nanos(take.0 + profile.fixed().0) };
        Ok(Decided { tiles, predicted, plan: plan.clone() })
    }

    /// The work of the communication lane.
    pub(crate) fn carry<T: Float>(
        &self,
        operation: Operation,
    ) -> impl Fn(usize, &mut Parcel) -> Result<Option<Pace>, Fault> + Sync + use<'_, C, T> {
        move |_, parcel| {
            let mut communicator = self.communicator.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = product::communicate::<T>(operation, &mut *communicator, parcel);
            sent.map(|()| communicator.pace()).map_err(|error| Fault { error, agreed: true })
        }
    }

    /// Turns an error of this rank alone into an error of all ranks.
    pub(crate) fn or_refuse<R>(&mut self, ready: Result<R, Error>) -> Result<R, Error> {
        ready.map_err(|error| self.tell(Fault { error, agreed: false }))
    }

    /// Tells the other ranks why this rank stopped, unless they have the same fault.
    pub(crate) fn tell(&mut self, Fault { error, agreed }: Fault) -> Error {
        if !agreed {
            self.communicator().refuse(&error.to_string());
        }
        error
    }
}

/// A cut, and the plan it comes from.
struct Decided {
    tiles: tile::Tiles,
    predicted: Predicted,
    plan: tile::Plan,
}

impl<C> fmt::Debug for Fused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, size, .. } = self;
        f.debug_struct("Fused").field("rank", rank).field("size", size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use windrow_tiling::Rows;
    use windrow_tiling::tile::{Contention, PlanVerdict};

    use super::*;
    use crate::{Group, Measured, Shape, Stage};

    const SIZE: [usize; 3] = [64, 3, 2];

    fn profile(operation: Operation) -> Profile {
        let [_, n, k] = SIZE;
        let sample = |stage, m: u64| Measured { stage, m, microseconds: 1.0 + 5.0 * m as f64 };
        let samples = [10, 20, 40].into_iter().flat_map(|m| [sample(Stage::Compute, m), sample(Stage::Communicate, m)]);
        let shape = Shape { operation, element: "f32".to_owned(), ranks: 1, n, k };
        Profile::new(shape, samples.collect(), Contention::NONE).unwrap().align(4)
    }

    fn run(fused: &mut Fused<crate::Rank>) -> Outcome {
        let ([m, n, k], mut c) = (SIZE, [0.0; SIZE[0] * SIZE[1]]);
        let (a, b) = ([1.0_f32; SIZE[0] * SIZE[2]], [1.0_f32; SIZE[2] * SIZE[1]]);
        let (a, b) = (MatRef::new(&a, m, k), MatRef::new(&b, k, n));
        fused.matmul_all_reduce(a, b, MatMut::new(&mut c, m, n), &Tiles::Auto).unwrap()
    }

    #[test]
    fn a_plan_made_ahead_is_the_one_that_is_used() {
        let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
        let all_reduce = Operation::MatmulAllReduce;
        let missing = Error::NoProfile { operation: all_reduce, element: "f32", n: SIZE[1], k: SIZE[2] };
        assert_eq!(fused.plan_ahead::<f32>(all_reduce, SIZE), Err(missing));
        fused.use_profile(profile(all_reduce));
        assert!(fused.profiles[0].1.is_empty());
        let plan = fused.plan_ahead::<f32>(all_reduce, SIZE).unwrap().expect("this is rank 0");
        assert_eq!((fused.profiles[0].1.get(&64), plan.verdict()), (Some(&plan), PlanVerdict::Tile));
        // The kept plan is used as it is; no other is made.
        let other = tile::Plan { tiles: tile::Tiles::new([Rows(4), Rows(60)]).unwrap(), ..plan.clone() };
        fused.profiles[0].1.insert(64, other.clone());
        let outcome = run(&mut fused);
        assert_eq!((outcome.tiles, outcome.plan), (other.tiles.clone(), Some(other)));
        // A new profile starts without plans.
        fused.use_profile(profile(all_reduce));
        assert_eq!(run(&mut fused).plan, Some(plan));
    }

    /// Once cuts have taken longer than predicted, by more than they gain, the kept plan is not used again.
    #[test]
    fn a_plan_that_disappoints_is_made_again() {
        let all_reduce = Operation::MatmulAllReduce;
        let mut profile = profile(all_reduce);
        let cut = profile.plan(64).unwrap();
        let late = Outcome {
            tiles: cut.tiles.clone(),
            plan: None,
            predicted: Some(Nanos(1e3)),
            predicted_call: Some(Nanos(1e3)),
            trace: crate::Trace { end: Nanos(3e3), ..crate::Trace::default() },
            elapsed: Nanos(3e3),
        };
        let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
        fused.use_profile(profile.clone());
        assert_eq!(run(&mut fused).tiles, cut.tiles);
        assert_eq!(fused.profiles[0].1.len(), 1);
        (0..16).for_each(|_| profile.observe(&late));
        fused.use_profile(profile);
        fused.profiles[0].1.insert(64, cut);
        run(&mut fused);
        assert!(fused.profiles[0].1.is_empty());
        assert_eq!(run(&mut fused).plan.map(|plan| plan.verdict()), Some(PlanVerdict::DoNotTile));
    }

    #[test]
    fn only_rank_0_plans_ahead() {
        let ranks: Vec<_> = Group::new(2).ranks();
        let mut fused: Vec<_> = ranks.into_iter().map(|rank| Fused::new(rank).unwrap()).collect();
        let gather = Operation::AllGatherMatmul;
        assert_eq!(fused[1].plan_ahead::<f32>(gather, [9, 3, 2]), Ok(None));
        let error = fused[0].plan_ahead::<f32>(gather, [9, 3, 2]).unwrap_err();
        assert_eq!(error.to_string(), "9 rows cannot be divided evenly among 2 ranks");
    }
}
