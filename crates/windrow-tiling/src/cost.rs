//! Cost: time as a function of size.
//!
//! A [`Cost`] is a sequence of polynomial pieces, each valid from some size on. One polynomial rarely holds everywhere: a collective
//! changes its protocol at some message size; a matrix product no longer fits a cache. Neighbouring pieces may meet or jump.
//!
//! [`fit()`] finds the pieces from samples, reports its error, and refuses samples that no cost fits. [`Cost::new`] takes pieces from
//! elsewhere (a file, a data sheet). Sizes are typed: [`Cost::in_rows`] turns a cost of [`Bytes`] into a cost of [`Rows`].
//!
//! ```
//! use windrow_tiling::cost::{Fitting, Sample, fit};
//! use windrow_tiling::{Nanos, Rows};
//!
//! let measured = [(256, 61.0), (512, 112.0), (768, 163.0), (1024, 214.0), (2048, 421.0)];
//! let samples = measured.map(|(rows, us)| Sample { size: Rows(rows), time: Nanos::micros(us) });
//! let fitted = fit(&samples, &Fitting::default())?;
//! assert!(fitted.worst().relative().abs() < 0.01);
//! assert!((fitted.cost.at(Rows(4096)).as_micros() - 832.0).abs() < 5.0);
//! # Ok::<(), windrow_tiling::cost::FitError<Rows>>(())
//! ```
//!
//! Sources: the tiling guide of the fused operators of the CANN toolkit (MC2) profiles a few tile sizes and fits them in segments.
//! Choosing segments by dynamic programming with a penalty per segment is Bellman's (1961); the penalty is Schwarz's (BIC, 1978).

use std::fmt;

use crate::{Bytes, Items, Nanos, Rows};

mod fit;
mod table;
mod triangle;

pub use fit::{FINE, Fit, FitError, Fitting, Joints, Residual, Sample, fit};
pub use table::TimeTable;

/// A count that a cost can depend on.
///
/// ```
/// use windrow_tiling::cost::{Cost, CostError, Size};
/// use windrow_tiling::{Bytes, Nanos, Rows};
///
/// /// Says what the next size costs.
/// fn next<S: Size>(size: S) -> Result<String, CostError<S>> {
///     let next = S::from_count(size.count() + 1);
///     Ok(format!("{next} {}: {}", S::UNIT, Cost::affine(Nanos(5.0), Nanos(2.0))?.at(next)))
/// }
///
/// assert_eq!(next(Rows(9)).unwrap(), "10 rows: 25 ns");
/// assert_eq!(next(Bytes(99)).unwrap(), "100 bytes: 205 ns");
/// ```
pub trait Size: Copy + Ord + fmt::Debug + fmt::Display {
    /// The name of the unit, for messages.
    const UNIT: &'static str;

    /// The count.
    ///
    /// ```
    /// use windrow_tiling::Bytes;
    /// use windrow_tiling::cost::Size;
    ///
    /// assert_eq!(Bytes(4096).count(), 4096);
    /// ```
    fn count(self) -> u64;

    /// The size with this count.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::cost::Size;
    ///
    /// assert_eq!(Rows::from_count(12), Rows(12));
    /// ```
    fn from_count(count: u64) -> Self;
}

macro_rules! sizes {
    ($($size:ident $unit:literal),*) => {$(
        impl Size for $size {
            const UNIT: &'static str = $unit;

            fn count(self) -> u64 {
                self.0
            }

            fn from_count(count: u64) -> Self {
                $size(count)
            }
        }
    )*};
}

sizes!(Items "items", Rows "rows", Bytes "bytes");

/// A size with its unit: `1 row`, `2 rows`.
fn counted<S: Size>(size: S) -> String {
    let unit = if size.count() == 1 { S::UNIT.trim_end_matches('s') } else { S::UNIT };
    format!("{size} {unit}")
}

/// One piece of a [`Cost`]: `at + slope * d + curve * d * d` nanoseconds, where `d` is the size minus `from`.
///
/// ```
/// use windrow_tiling::cost::{Cost, Piece};
/// use windrow_tiling::{Bytes, Nanos};
///
/// // Messages of 1 KiB or more take another protocol.
/// let short = Piece { from: Bytes(0), at: Nanos(500.0), slope: 1.0, curve: 0.0 };
/// let long = Piece { from: Bytes(1024), at: Nanos(1200.0), slope: 0.5, curve: 0.0 };
/// let cost = Cost::new(vec![short, long])?;
/// assert_eq!([512, 1024, 2048].map(|bytes| cost.at(Bytes(bytes)).0), [1012.0, 1200.0, 1712.0]);
/// # Ok::<(), windrow_tiling::cost::CostError<Bytes>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<S> {
    /// The first size of the piece.
    pub from: S,
    /// Time at `from`.
    pub at: Nanos,
    /// Nanoseconds per unit of size, at `from`.
    pub slope: f64,
    /// Nanoseconds per unit of size squared.
    pub curve: f64,
}

impl<S: Size> Piece<S> {
    /// The piece that starts at `from`: `c[0] + c[1] * size + c[2] * size * size` nanoseconds.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::cost::Piece;
    ///
    /// // 5 + 2 * size + 3 * size * size, from 10 rows on.
    /// let piece = Piece::polynomial(Rows(10), [5.0, 2.0, 3.0]);
    /// assert_eq!((piece.at.0, piece.slope, piece.curve), (325.0, 62.0, 3.0));
    /// ```
    pub fn polynomial(from: S, c: [f64; 3]) -> Self {
        let x = from.count() as f64;
        Self { from, at: Nanos(c[0] + x * (c[1] + x * c[2])), slope: c[1] + 2.0 * c[2] * x, curve: c[2] }
    }

    /// The inverse of [`polynomial`](Self::polynomial): `c` so that the piece is `c[0] + c[1] * size + c[2] * size * size` nanoseconds.
    ///
    /// ```
    /// use windrow_tiling::cost::Piece;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let piece = Piece { from: Rows(10), at: Nanos(325.0), slope: 62.0, curve: 3.0 };
    /// assert_eq!(piece.coefficients(), [5.0, 2.0, 3.0]);
    /// ```
    pub fn coefficients(&self) -> [f64; 3] {
        let x = self.from.count() as f64;
        [self.at.0 - x * (self.slope - x * self.curve), self.slope - 2.0 * x * self.curve, self.curve]
    }

    fn at(&self, size: S) -> f64 {
        let d = size.count() as f64 - self.from.count() as f64;
        self.at.0 + d * (self.slope + d * self.curve)
    }

    fn slope_at(&self, size: S) -> f64 {
        self.slope + 2.0 * self.curve * (size.count() as f64 - self.from.count() as f64)
    }

    /// The same polynomial, starting at another size.
    fn moved(&self, from: S) -> Self {
        Self { from, at: Nanos(self.at(from)), slope: self.slope_at(from), curve: self.curve }
    }

    /// Whether the piece is never negative and never falls between its first size and `until` (without `until`: at any larger size).
    fn rises(&self, until: Option<S>) -> bool {
        // Rounding may make the slope at the end of a parabola slightly negative.
        let level = -1e-9 * self.slope;
        let end = until.map_or(self.curve, |until| self.slope_at(until));
        self.at.0 >= 0.0 && self.slope >= 0.0 && end >= level
    }
}

/// Time as a function of size: a sequence of pieces, none of which falls or is negative. The time may jump up or down between two
/// pieces.
///
/// ```
/// use windrow_tiling::cost::Cost;
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost: Cost<Rows> = Cost::affine(Nanos::micros(20.0), Nanos(100.0))?;
/// assert_eq!(cost.at(Rows(1000)), Nanos::micros(120.0));
/// assert_eq!(cost.to_string(), "from 0 rows: 20.0 us + 100.0000 ns each");
/// # Ok::<(), windrow_tiling::cost::CostError<Rows>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cost<S> {
    pieces: Vec<Piece<S>>,
}

impl<S: Size> Cost<S> {
    /// A cost of these pieces, in ascending order of `from`; the first piece starts at 0.
    ///
    /// ```
    /// use windrow_tiling::Rows;
    /// use windrow_tiling::cost::{Cost, CostError, Piece};
    ///
    /// let line = |from: u64, fixed: f64| Piece::polynomial(Rows(from), [fixed, 2.0, 0.0]);
    /// assert_eq!(Cost::new(vec![line(0, 100.0), line(64, 300.0)])?.at(Rows(64)).0, 428.0);
    /// assert_eq!(Cost::new(vec![line(64, 100.0)]), Err(CostError::First { from: Rows(64) }));
    /// # Ok::<(), CostError<Rows>>(())
    /// ```
    ///
    /// # Errors
    /// `pieces` is empty or out of order, or a piece is negative, falls or is not a number within its range of sizes.
    pub fn new(pieces: Vec<Piece<S>>) -> Result<Self, CostError<S>> {
        let Some(first) = pieces.first() else { return Err(CostError::NoPieces) };
        if first.from.count() != 0 {
            return Err(CostError::First { from: first.from });
        }
        for (place, piece) in pieces.iter().enumerate() {
            let next = pieces.get(place + 1).map(|next| next.from);
            if next.is_some_and(|next| next <= piece.from) {
                return Err(CostError::Order { place: place + 1 });
            }
            if !(piece.at.0.is_finite() && piece.slope.is_finite() && piece.curve.is_finite()) {
                return Err(CostError::NoNumber { place });
            }
            if !piece.rises(next) {
                return Err(CostError::Falls { place, from: piece.from, until: next });
            }
        }
        Ok(Self { pieces })
    }

    /// A fixed time plus a time per unit of size.
    ///
    /// ```
    /// use windrow_tiling::cost::Cost;
    /// use windrow_tiling::{Bytes, Nanos};
    ///
    /// let cost = Cost::affine(Nanos(500.0), Nanos(0.5))?;
    /// assert_eq!(cost.at(Bytes(1000)), Nanos(1000.0));
    /// assert!(Cost::<Bytes>::affine(Nanos(500.0), Nanos(-0.5)).is_err());
    /// # Ok::<(), windrow_tiling::cost::CostError<Bytes>>(())
    /// ```
    ///
    /// # Errors
    /// `fixed` or `each` is negative or not a number.
    pub fn affine(fixed: Nanos, each: Nanos) -> Result<Self, CostError<S>> {
        Self::new(vec![Piece { from: S::from_count(0), at: fixed, slope: each.0, curve: 0.0 }])
    }

    /// The time at a size.
    ///
    /// ```
    /// use windrow_tiling::cost::{Cost, Piece};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = Cost::new(vec![Piece::polynomial(Rows(0), [0.0, 2.0, 1.0])])?;
    /// assert_eq!([cost.at(Rows(0)), cost.at(Rows(3))], [Nanos(0.0), Nanos(15.0)]);
    /// # Ok::<(), windrow_tiling::cost::CostError<Rows>>(())
    /// ```
    pub fn at(&self, size: S) -> Nanos {
        // In range: the first piece starts at 0.
        let after = self.pieces.partition_point(|piece| piece.from <= size);
        Nanos(self.pieces[after - 1].at(size))
    }

    /// The pieces, in order.
    ///
    /// ```
    /// use windrow_tiling::cost::Cost;
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = Cost::affine(Nanos(500.0), Nanos(2.0))?;
    /// assert_eq!(cost.pieces()[0].coefficients(), [500.0, 2.0, 0.0]);
    /// # Ok::<(), windrow_tiling::cost::CostError<Rows>>(())
    /// ```
    pub fn pieces(&self) -> &[Piece<S>] {
        &self.pieces
    }
}

impl Cost<Bytes> {
    /// The same cost as a function of rows, with `row` bytes per row.
    ///
    /// ```
    /// use windrow_tiling::cost::Cost;
    /// use windrow_tiling::{Bytes, Nanos, Rows};
    ///
    /// let cost = Cost::affine(Nanos(500.0), Nanos(0.25))?;
    /// // Rows of 1024 columns, 4 bytes each.
    /// assert_eq!(cost.in_rows(Bytes(4096)).at(Rows(3)), cost.at(Bytes(3 * 4096)));
    /// # Ok::<(), windrow_tiling::cost::CostError<Bytes>>(())
    /// ```
    ///
    /// # Panics
    /// If `row` is 0.
    pub fn in_rows(&self, row: Bytes) -> Cost<Rows> {
        let bytes = row.0 as f64;
        let mut pieces: Vec<Piece<Rows>> = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let from = Rows(piece.from.0.div_ceil(row.0));
            // No whole number of rows falls into the previous piece.
            if pieces.last().is_some_and(|last| last.from == from) {
                pieces.pop();
            }
            let d = (from.0 * row.0 - piece.from.0) as f64;
            pieces.push(Piece {
                from,
                at: Nanos(piece.at.0 + d * (piece.slope + d * piece.curve)),
                slope: (piece.slope + 2.0 * d * piece.curve) * bytes,
                curve: piece.curve * bytes * bytes,
            });
        }
        Cost { pieces }
    }
}

impl<S: Size> fmt::Display for Cost<S> {
    /// Each piece as a polynomial of the size minus the piece's first size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Piece { from, at, slope, curve }) in self.pieces.iter().enumerate() {
            let comma = if place == 0 { "" } else { "; " };
            write!(f, "{comma}from {}: {at} + {slope:.4} ns each", counted(*from))?;
            if *curve != 0.0 {
                write!(f, " + {curve:.3e} ns each squared")?;
            }
        }
        Ok(())
    }
}

/// Why a list of pieces is not a cost function.
///
/// ```
/// use windrow_tiling::Rows;
/// use windrow_tiling::cost::{Cost, CostError, Piece};
///
/// let falls = Cost::new(vec![Piece::polynomial(Rows(0), [100.0, -1.0, 0.0])]).unwrap_err();
/// assert_eq!(falls, CostError::Falls { place: 0, from: Rows(0), until: None });
/// assert!(falls.to_string().ends_with("that is not negative and does not fall"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CostError<S> {
    /// There are no pieces.
    NoPieces,
    /// The first piece does not start at 0.
    First {
        /// The first size of the first piece.
        from: S,
    },
    /// A piece does not start after the piece before it.
    Order {
        /// Index of the piece, from 0.
        place: usize,
    },
    /// A coefficient is infinite or not a number.
    NoNumber {
        /// Index of the piece, from 0.
        place: usize,
    },
    /// A piece is negative or falls within its range of sizes.
    Falls {
        /// Index of the piece, from 0.
        place: usize,
        /// The first size of the piece.
        from: S,
        /// The first size of the next piece.
        until: Option<S>,
    },
}

impl<S: Size> fmt::Display for CostError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = S::UNIT;
        match self {
            CostError::NoPieces => f.write_str("a cost has no pieces"),
            CostError::First { from } => {
                write!(f, "the first piece of a cost begins at {}\nhint: it must begin at 0", counted(*from))
            }
            CostError::Order { place } => {
                write!(f, "piece {place} of a cost does not begin later than the piece before it")
            }
            CostError::NoNumber { place } => {
                write!(f, "piece {place} of a cost has a coefficient that is not a finite number")
            }
            CostError::Falls { place, from, until } => {
                write!(f, "piece {place} of a cost is negative or decreasing ")?;
                match until {
                    Some(until) => write!(f, "between {from} and {until} {unit}"),
                    None => write!(
                        f,
                        "from {} on\n\
                         hint: make the last piece a straight line that is not negative and does not fall",
                        counted(*from)
                    ),
                }
            }
        }
    }
}

impl<S: Size> std::error::Error for CostError<S> {}
