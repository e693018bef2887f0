//! Measuring the products of this crate.

use std::marker::PhantomData;
use std::ops::Range;

use windrow_tiling::tile::{self, Order};
use windrow_tiling::{Nanos, Rows};

use crate::agree::{self, Header};
use crate::calibrate::{Beside, Calibration, Subject, measure, median};
use crate::float::Scratch;
use crate::fused::{Fused, Memory};
use crate::lanes::{Fault, Lanes, Stages, Trace};
use crate::operands::Operands;
use crate::product::{self, Parcel, Product, Spare};
use crate::stored::Shape;
use crate::{Communicator, Error, Float, MatMut, MatRef, Operation, Profile, Tiles};

/// Whole calls that are measured in a repeat: as many as it takes until the wake-ups of their ranks have a median.
const CALLS: usize = 3;

/// Operands of the measured products.
pub(crate) struct Given<T> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    rows: [usize; 2],
    n: usize,
    k: usize,
}

impl<T: Float> Given<T> {
    /// Operands of a product of `m` rows.
    pub(crate) fn new(operation: Operation, ranks: usize, m: usize, n: usize, k: usize) -> Self {
        let rows = operation.operand_rows(ranks, m);
        // Zeros and ones: no sum is subnormal or overflows, so no kernel is slow with them.
        let fill = |len: usize| (0..len).map(|at| T::from(u8::from(at % 3 == 0))).collect::<Vec<_>>();
        Self { a: fill(rows[0] * k), b: fill(k * n), c: fill(rows[1] * n), rows, n, k }
    }

    pub(crate) fn views(&mut self) -> (MatRef<'_, T>, MatRef<'_, T>, MatMut<'_, T>) {
        let Self { rows, n, k, .. } = *self;
        (MatRef::new(&self.a, rows[0], k), MatRef::new(&self.b, k, n), MatMut::new(&mut self.c, rows[1], n))
    }

    fn product<'p>(
        &'p mut self,
        operation: Operation,
        [ranks, threads]: [usize; 2],
        (scratch, spare): (&'p mut Scratch, &'p mut Spare),
        tiles: Vec<Range<usize>>,
    ) -> Product<'p, T> {
        let (a, b, c) = self.views();
        let operands = Operands::new(a, b);
        let mut product = Product { operation, ranks, operands, c, scratch, spare, threads, tiles };
        product.prepare();
        product
    }
}

/// Stages that only communicate.
struct Idle<'a, T> {
    spare: &'a mut Spare,
    /// Elements given and received.
    give: usize,
    get: usize,
    of: PhantomData<T>,
}

impl<'a, T> Idle<'a, T> {
    fn new(spare: &'a mut Spare, [give, get]: [usize; 2]) -> Self {
        Self { spare, give, get, of: PhantomData }
    }
}

impl<T: Float> Stages<Parcel> for Idle<'_, T> {
    fn parcel(&mut self, _: usize) -> Parcel {
        self.spare.take((self.give + self.get) * size_of::<T>())
    }

    fn put_back(&mut self, parcel: Parcel) {
        self.spare.put_back(parcel);
    }

    fn fill(&mut self, _: usize, parcel: &mut Parcel) -> Result<(), String> {
        parcel.resize::<T>(self.give, self.get);
        Ok(())
    }

    fn drain(&mut self, _: usize, _: &mut Parcel) -> Result<(), String> {
        Ok(())
    }
}

impl<C: Communicator + Send + 'static> Fused<C> {
    /// Measures the times of an operation's tiles in each lane, alone and together. All ranks call it with the same arguments and
    /// get the same profile. [`use_profile`](Self::use_profile) then makes [`Tiles::Auto`] follow it.
    ///
    /// Each size takes about `2 * (repeats + 1) * tiles` tiles. Small sizes take more, until a pass has the rows of two of the largest
    /// tiles. The machine should be otherwise idle.
    ///
    /// # Errors
    /// A size cannot be dealt out to the ranks, ranks disagree about the arguments, a rank is gone, or the times give no cost function. They
    /// give none for fewer than three sizes, or if the best fit misses them by more than `how.fitting.limit`.
    pub fn calibrate<T: Float>(
        &mut self,
        operation: Operation,
        n: usize,
        k: usize,
        how: &Calibration,
    ) -> Result<Profile, Error> {
        let (ranks, unit) = (self.size(), operation.unit(self.size()));
        let sizes: Vec<Rows> = how.rows.iter().map(|&rows| Rows(rows as u64)).collect();
        let sizes = tile::Tiles::new(sizes).map_err(Error::from);
        let (total, most) =
            (how.rows.iter().copied().fold(0, usize::saturating_add), how.rows.iter().copied().max().unwrap_or(0));
        let cut = sizes.and_then(|sizes| Tiles::Plan(sizes).cut(total, unit));
        let cut = self.or_refuse(cut)?;
        let header = Header { operation, element: T::NAME, m: total, n, k };
        agree::on_call(&mut *self.communicator(), &header, &Tiles::Plan(cut.clone()), &cut, 0)?;
        agree::on_settings(&mut *self.communicator(), operation, &how.settings())?;

        // Twice the rows of the largest tile, so that tiles of all sizes find their operands in the same memory as in an operation.
        let mut given = Given::<T>::new(operation, ranks, 2 * most, n, k);
        let (samples, contention) = measure(&mut Measuring { fused: self, operation, given: &mut given }, how)?;
        let shape = Shape { operation, element: T::NAME.to_owned(), ranks, n, k };
        let fixed = self.outside(operation, &mut given, how)?;
        Ok(Profile::fitted(shape, samples, contention, &how.fitting)?.align(how.align).with_fixed(fixed))
    }

    /// The time of a call outside of its tiles: the median over calls with the smallest tile, in one piece.
    fn outside<T: Float>(
        &mut self,
        operation: Operation,
        given: &mut Given<T>,
        how: &Calibration,
    ) -> Result<Nanos, Error> {
        let least = how.rows.iter().copied().min().unwrap_or(0);
        let [a_rows, c_rows] = operation.operand_rows(self.size(), least);
        let mut times = Vec::new();
        for _ in 0..CALLS * how.repeats.max(1) {
            let (a, b, mut c) = given.views();
            let a = MatRef { rows: a_rows, ..a };
            self.communicator().barrier()?;
            let outcome = self.carry_out(operation, Operands::new(a, b), c.part(0..c_rows), &Tiles::None)?;
            times.push(outcome.elapsed.0 - outcome.trace.end.0);
        }
        let mut usual = [median(times).max(0.0)];
        self.slowest(&mut usual)?;
        Ok(Nanos(usual[0]))
    }

    /// The largest value of all ranks, for each place.
    pub(crate) fn slowest(&mut self, values: &mut [f64]) -> Result<(), Error> {
        let mut all = vec![0.0; values.len() * self.size()];
        self.communicator().all_gather(values, &mut all)?;
        for of in all.chunks(values.len()) {
            for (value, of) in values.iter_mut().zip(of) {
                *value = value.max(*of);
            }
        }
        Ok(())
    }
}

/// An operation of a rank, to be measured.
struct Measuring<'a, C, T> {
    fused: &'a mut Fused<C>,
    operation: Operation,
    given: &'a mut Given<T>,
}

impl<C: Communicator + Send + 'static, T: Float> Measuring<'_, C, T> {
    fn ended(&mut self, (trace, ran): (Trace, Result<(), Fault>)) -> Result<Trace, Error> {
        ran.map(|()| trace).map_err(|fault| self.fused.tell(fault))
    }

    /// Elements that a rank gives and receives with a tile.
    fn exchanged(&self, rows: usize) -> [usize; 2] {
        let Given { n, k, .. } = *self.given;
        let each = rows / self.operation.unit(self.fused.size());
        match self.operation {
            Operation::MatmulAllReduce => [rows * n, 0],
            Operation::MatmulReduceScatter => [rows * n, each * n],
            Operation::AllGatherMatmul => [each * k, rows * k],
        }
    }

    fn announce(&mut self, exchanged: [usize; 2], tiles: usize) {
        let call = product::call::<T>(self.operation, exchanged);
        self.fused.communicator().announce(&vec![call; tiles]);
    }

    /// Tiles of one size, one below the other, then from the top again.
    fn tiles(&self, rows: usize, count: usize) -> Vec<Range<usize>> {
        let each = self.given.rows[usize::from(self.operation == Operation::MatmulReduceScatter)];
        let part = rows / self.operation.unit(self.fused.size());
        let places = (each / part.max(1)).max(1);
        (0..count).map(|tile| tile % places * part..(tile % places + 1) * part).collect()
    }
}

impl<C: Communicator + Send + 'static, T: Float> Subject for Measuring<'_, C, T> {
    fn compute(&mut self, rows: usize, count: usize) -> Result<Trace, Error> {
        let tiles = self.tiles(rows, count);
        let Self { fused, operation, given } = self;
        let mut memory = std::mem::take(&mut fused.memory);
        let Memory { scratch, spare } = &mut memory;
        let mut product = given.product(*operation, [fused.size(), fused.threads], (scratch, spare), tiles);
        let order = operation.order();
        let lanes = Lanes { helper: &fused.helper, order, watch: None, send: &|_, _: &mut Parcel| Ok(None) };
        let ran = lanes.run(count, &mut product);
        fused.memory = memory;
        self.ended(ran)
    }

    fn communicate(&mut self, rows: usize, count: usize) -> Result<Trace, Error> {
        let exchanged = self.exchanged(rows);
        self.announce(exchanged, count);
        let mut memory = std::mem::take(&mut self.fused.memory);
        let mut idle = Idle::<T>::new(&mut memory.spare, exchanged);
        let send = self.fused.carry::<T>(self.operation);
        let order = Order::CommunicateFirst;
        let lanes = Lanes { helper: &self.fused.helper, order, watch: None, send: &send };
        let ran = lanes.run(count, &mut idle);
        drop(send);
        self.fused.memory = memory;
        self.ended(ran)
    }

    fn both(&mut self, rows: usize, computed: usize, sent: usize) -> Result<Trace, Error> {
        let (tiles, exchanged) = (self.tiles(rows, computed), self.exchanged(rows));
        self.announce(exchanged, sent);
        let Self { fused, operation, given } = self;
        let (mut memory, mut own) = (std::mem::take(&mut fused.memory), Spare::default());
        let Memory { scratch, spare } = &mut memory;
        let mut product = given.product(*operation, [fused.size(), fused.threads], (scratch, &mut own), tiles);
        let mut idle = Idle::<T>::new(spare, exchanged);
        let send = fused.carry::<T>(*operation);
        let order = Order::CommunicateFirst;
        let lanes = Lanes { helper: &fused.helper, order, watch: None, send: &send };
        let ran = Beside::new(&mut idle, &mut product, computed).run(lanes, sent);
        drop(send);
        fused.memory = memory;
        self.ended(ran)
    }

    fn meet(&mut self) -> Result<(), Error> {
        self.fused.communicator().barrier()
    }

    fn slowest(&mut self, values: &mut [f64]) -> Result<(), Error> {
        self.fused.slowest(values)
    }
}
