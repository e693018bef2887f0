//! Rows and columns over a slice, cut into disjoint parts both ways.
//!
//! `split_at_mut` cuts a slice into disjoint slices. A matrix in row order can be cut between rows that way, but not between
//! columns: the halves interleave in memory, so neither is a slice. [`Grid`] (exclusive) and [`GridRef`] (shared) are views that
//! can be cut both ways. They lend neighbouring items, a row, as a slice. (The view is that of BLAS: a start and a leading
//! dimension. Disjoint views are made by consuming one: the idea of `split_at_mut`, and of `split_at` on ndarray's views.)
//!
//! ```
//! use windrow_sync::grid::Grid;
//!
//! let mut items = [1, 2, 3, 4, 5, 6, 7, 8, 9];
//! let grid = Grid::new(&mut items, 3, 3, 3)?;
//! let (mut left, mut right) = grid.split_columns_at(1);
//! left.row_mut(0)[0] = right[(2, 1)];
//! right.row_mut(1).fill(0);
//! assert_eq!(items, [9, 2, 3, 4, 0, 0, 7, 8, 9]);
//! # Ok::<(), windrow_sync::grid::GridError>(())
//! ```
//!
//! **Column order** is the transpose: a matrix stored column by column is a grid whose rows are its columns. So LAPACK's `lda` is the
//! stride, [`row`](Grid::row) is a column, and [`split_rows_at`](Grid::split_rows_at) cuts between columns.
//!
//! # Protocol
//! A view is a start, a number of rows and columns, and a *stride*: the items between the starts of two neighbouring rows. The
//! items of a row beyond its columns belong to other views.
//!
//! # Why it holds
//! * *Inside.* `stride >= columns`, and `(rows - 1) * stride + columns` items, or none without rows, lie in the slice from the
//!   start on. The constructors check this in arithmetic that cannot wrap. Views cut out of a view are smaller, and each computed
//!   start is that of an existing row, or of a column at most `columns` in it. (A grid without columns is given stride 0, so all
//!   its rows start at the start.)
//! * *Disjoint.* Rows do not overlap, because the stride is not smaller than a row. A cut consumes a grid and deals each of its
//!   cells to one side.
//! * *Lent once.* The cells of a grid are reached by borrowing it: a shared borrow lends shared, an exclusive one exclusively,
//!   each for as long as the borrow lives. No reference ever covers more than the cells of one row, so none covers cells of
//!   another view.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};
use std::ptr::NonNull;

/// The dimensions that do not fit the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridError {
    rows: usize,
    columns: usize,
    stride: usize,
    items: usize,
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &GridError { rows, columns, stride, items } = self;
        write!(f, "a grid of {rows} x {columns} with a row stride of {stride} does not fit: ")?;
        if stride < columns {
            return write!(f, "rows would overlap\n  hint: the stride is at least {columns}");
        }
        match span(rows, columns, stride) {
            Some(span) => write!(f, "it spans {span} items, and the slice has {items}"),
            None => write!(f, "it spans more than {} items, and the slice has {items}", usize::MAX),
        }
    }
}

impl std::error::Error for GridError {}

/// The items from the first cell of a grid to its last, if that is a number.
fn span(rows: usize, columns: usize, stride: usize) -> Option<usize> {
    rows.checked_sub(1).map_or(Some(0), |above| above.checked_mul(stride)?.checked_add(columns))
}

/// The location of the cells. The view that wraps it decides for how long, and whether they may be written.
///
/// Invariant: *inside*, see the [module page](self).
struct Raw<T> {
    start: NonNull<T>,
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Raw<T> {}

impl<T> Raw<T> {
    fn new(slice: NonNull<[T]>, rows: usize, columns: usize, stride: usize) -> Result<Self, GridError> {
        // Without columns the stride is never used; 0 keeps every row start inside the slice.
        let used = if columns == 0 { 0 } else { stride };
        match span(rows, columns, used) {
            Some(span) if span <= slice.len() && stride >= columns => {
                Ok(Raw { start: slice.cast(), rows, columns, stride: used })
            }
            _ => Err(GridError { rows, columns, stride, items: slice.len() }),
        }
    }

    #[track_caller]
    fn row(&self, row: usize) -> NonNull<[T]> {
        assert!(row < self.rows, "row {row} of a grid of {} rows", self.rows);
        // SAFETY: inside: the row exists, so it starts in the slice, or at its end if it has no columns.
        NonNull::slice_from_raw_parts(unsafe { self.start.add(row * self.stride) }, self.columns)
    }

    fn cell(&self, row: usize, column: usize) -> Option<NonNull<T>> {
        let exists = row < self.rows && column < self.columns;
        // SAFETY: inside: the cell exists, so it is an item of the slice.
        exists.then(|| unsafe { self.start.add(row * self.stride + column) })
    }

    #[track_caller]
    fn split_rows_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.rows, "a cut at row {at} of a grid of {} rows", self.rows);
        // Below the last row no address has to exist.
        let below = if at < self.rows { self.row(at).cast() } else { self.start };
        (Raw { rows: at, ..self }, Raw { start: below, rows: self.rows - at, ..self })
    }

    #[track_caller]
    fn split_columns_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.columns, "a cut at column {at} of a grid of {} columns", self.columns);
        // SAFETY: inside: there is a row, and `at` is in it or at its end.
        let right = if self.rows > 0 { unsafe { self.start.add(at) } } else { self.start };
        (Raw { columns: at, ..self }, Raw { start: right, columns: self.columns - at, ..self })
    }

    #[track_caller]
    fn block(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(
            rows.start <= rows.end
                && rows.end <= self.rows
                && columns.start <= columns.end
                && columns.end <= self.columns,
            "a block of rows {rows:?}, columns {columns:?} of a grid of {} x {}",
            self.rows,
            self.columns
        );
        let (_, right) = self.split_rows_at(rows.end).0.split_rows_at(rows.start).1.split_columns_at(columns.start);
        right.split_columns_at(columns.len()).0
    }

    /// Takes the first row off.
    fn pop_first(&mut self) -> Option<NonNull<[T]>> {
        let (first, rest) = (self.rows > 0).then(|| self.split_rows_at(1))?;
        *self = rest;
        Some(first.row(0))
    }

    /// Takes the last row off.
    fn pop_last(&mut self) -> Option<NonNull<[T]>> {
        let last = self.rows.checked_sub(1)?;
        let row = self.row(last);
        self.rows = last;
        Some(row)
    }
}

/// Rows and columns of a slice, lent exclusively: `&mut [T]` in two dimensions. See the [module page](self).
pub struct Grid<'x, T> {
    raw: Raw<T>,
    lent: PhantomData<&'x mut [T]>,
}

// SAFETY: it is an exclusive borrow of its cells, as `&mut [T]` is.
unsafe impl<T: Send> Send for Grid<'_, T> {}
// SAFETY: through a shared grid, cells are lent shared, as by `&&mut [T]`.
unsafe impl<T: Sync> Sync for Grid<'_, T> {}

impl<'x, T> Grid<'x, T> {
    /// A view of `rows` x `columns` items of `slice`, beginning with its first; `stride` items lie between the starts of two
    /// neighbouring rows.
    ///
    /// # Errors
    /// If rows would overlap (`stride < columns`), or the slice is too short.
    ///
    /// ```
    /// use windrow_sync::grid::Grid;
    /// let mut items = [0; 10];
    /// let error = Grid::new(&mut items, 3, 4, 4).unwrap_err();
    /// assert!(error.to_string().ends_with("it spans 12 items, and the slice has 10"));
    /// ```
    pub fn new(slice: &'x mut [T], rows: usize, columns: usize, stride: usize) -> Result<Self, GridError> {
        Ok(Self::over(Raw::new(NonNull::from(slice), rows, columns, stride)?))
    }

    /// Called with cells that the caller gives away.
    fn over(raw: Raw<T>) -> Self {
        Grid { raw, lent: PhantomData }
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.raw.rows
    }

    /// How many columns.
    pub fn columns(&self) -> usize {
        self.raw.columns
    }

    /// Items between the starts of two neighbouring rows; 0 if there are no columns.
    pub fn stride(&self) -> usize {
        self.raw.stride
    }

    /// The same cells, shared while the grid is borrowed.
    pub fn as_ref(&self) -> GridRef<'_, T> {
        GridRef::over(self.raw)
    }

    /// The same cells, shared from now on.
    pub fn into_ref(self) -> GridRef<'x, T> {
        GridRef::over(self.raw)
    }

    /// The same cells, lent on while the grid is borrowed: for methods that consume a grid.
    pub fn reborrow(&mut self) -> Grid<'_, T> {
        Grid::over(self.raw)
    }

    /// A row.
    ///
    /// # Panics
    /// If there is no such row.
    #[track_caller]
    pub fn row(&self, row: usize) -> &[T] {
        self.as_ref().row(row)
    }

    /// A row, to write to.
    ///
    /// # Panics
    /// If there is no such row.
    #[track_caller]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        // SAFETY: a row of this grid, which is exclusively borrowed for as long.
        unsafe { self.raw.row(row).as_mut() }
    }

    /// The rows, from the first to the last.
    pub fn rows_ref(&self) -> GridRows<'_, T> {
        self.as_ref().rows_ref()
    }

    /// The rows, from the first to the last, to write to. To keep them for as long as the slice is lent, iterate over the grid
    /// itself.
    pub fn rows_mut(&mut self) -> RowsMut<'_, T> {
        self.reborrow().into_iter()
    }

    /// The cells of a column, from the first row to the last.
    ///
    /// # Panics
    /// If there is no such column.
    #[track_caller]
    pub fn column(&self, column: usize) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.as_ref().column(column)
    }

    /// A cell, if it exists.
    pub fn get(&self, row: usize, column: usize) -> Option<&T> {
        self.as_ref().get(row, column)
    }

    /// A cell to write to, if it exists.
    pub fn get_mut(&mut self, row: usize, column: usize) -> Option<&mut T> {
        // SAFETY: a cell of this grid, which is exclusively borrowed for as long.
        self.raw.cell(row, column).map(|mut cell| unsafe { cell.as_mut() })
    }

    /// Swaps the items of two rows.
    ///
    /// # Panics
    /// If one of them does not exist.
    #[track_caller]
    pub fn swap_rows(&mut self, a: usize, b: usize) {
        let (upper, lower) = (a.min(b), a.max(b));
        assert!(lower < self.rows(), "rows {a} and {b} of a grid of {} rows", self.rows());
        if upper < lower {
            let (mut top, mut bottom) = self.reborrow().split_rows_at(lower);
            top.row_mut(upper).swap_with_slice(bottom.row_mut(0));
        }
    }

    /// The rows before `at`, and the others.
    ///
    /// # Panics
    /// If there are fewer than `at` rows.
    #[track_caller]
    pub fn split_rows_at(self, at: usize) -> (Self, Self) {
        let (top, bottom) = self.raw.split_rows_at(at);
        (Self::over(top), Self::over(bottom))
    }

    /// The columns before `at`, and the others: two exclusive views that interleave in memory.
    ///
    /// # Panics
    /// If there are fewer than `at` columns.
    #[track_caller]
    pub fn split_columns_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.raw.split_columns_at(at);
        (Self::over(left), Self::over(right))
    }

    /// The part that lies in these rows and columns.
    ///
    /// ```
    /// use windrow_sync::grid::Grid;
    /// let mut items = [1, 2, 3, 4, 5, 6];
    /// let mut grid = Grid::new(&mut items, 2, 3, 3)?;
    /// grid.reborrow().block(1..2, 0..2).row_mut(0).fill(0);
    /// assert_eq!(items, [1, 2, 3, 0, 0, 6]);
    /// # Ok::<(), windrow_sync::grid::GridError>(())
    /// ```
    ///
    /// # Panics
    /// If a range ends before it starts, or ends outside of the grid.
    #[track_caller]
    pub fn block(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        Self::over(self.raw.block(rows, columns))
    }
}

impl<T> Index<(usize, usize)> for Grid<'_, T> {
    type Output = T;

    #[track_caller]
    fn index(&self, (row, column): (usize, usize)) -> &T {
        &self.row(row)[column]
    }
}

impl<T> IndexMut<(usize, usize)> for Grid<'_, T> {
    #[track_caller]
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut T {
        &mut self.row_mut(row)[column]
    }
}

impl<'x, T> IntoIterator for Grid<'x, T> {
    type Item = &'x mut [T];
    type IntoIter = RowsMut<'x, T>;

    fn into_iter(self) -> RowsMut<'x, T> {
        RowsMut { rest: self }
    }
}

/// As a list of rows.
impl<T: fmt::Debug> fmt::Debug for Grid<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// Rows and columns of a slice, lent shared: `&[T]` in two dimensions. See the [module page](self).
pub struct GridRef<'x, T> {
    raw: Raw<T>,
    lent: PhantomData<&'x [T]>,
}

impl<T> Clone for GridRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GridRef<'_, T> {}

// SAFETY: it is a shared borrow of its cells, as `&[T]` is.
unsafe impl<T: Sync> Send for GridRef<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for GridRef<'_, T> {}

impl<'x, T> GridRef<'x, T> {
    /// A view of `rows` x `columns` items of `slice`, beginning with its first; `stride` items lie between the starts of two
    /// neighbouring rows.
    ///
    /// # Errors
    /// If rows would overlap (`stride < columns`), or the slice is too short.
    ///
    /// ```
    /// use windrow_sync::grid::GridRef;
    /// let grid = GridRef::new(&[1, 2, 3, 4, 5, 6], 2, 2, 3)?;
    /// assert_eq!(grid.row(1), [4, 5]);
    /// assert_eq!(grid.get(0, 2), None);
    /// # Ok::<(), windrow_sync::grid::GridError>(())
    /// ```
    pub fn new(slice: &'x [T], rows: usize, columns: usize, stride: usize) -> Result<Self, GridError> {
        Ok(Self::over(Raw::new(NonNull::from(slice), rows, columns, stride)?))
    }

    /// Called with cells that the caller lends shared.
    fn over(raw: Raw<T>) -> Self {
        GridRef { raw, lent: PhantomData }
    }

    /// How many rows.
    pub fn rows(self) -> usize {
        self.raw.rows
    }

    /// How many columns.
    pub fn columns(self) -> usize {
        self.raw.columns
    }

    /// Items between the starts of two neighbouring rows; 0 if there are no columns.
    pub fn stride(self) -> usize {
        self.raw.stride
    }

    /// A row.
    ///
    /// # Panics
    /// If there is no such row.
    #[track_caller]
    pub fn row(self, row: usize) -> &'x [T] {
        // SAFETY: a row of this grid, which no thread writes to for `'x`.
        unsafe { self.raw.row(row).as_ref() }
    }

    /// The rows, from the first to the last.
    pub fn rows_ref(self) -> GridRows<'x, T> {
        GridRows { rest: self }
    }

    /// The cells of a column, from the first row to the last.
    ///
    /// # Panics
    /// If there is no such column.
    #[track_caller]
    pub fn column(self, column: usize) -> impl DoubleEndedIterator<Item = &'x T> + ExactSizeIterator {
        assert!(column < self.columns(), "column {column} of a grid of {} columns", self.columns());
        self.rows_ref().map(move |row| &row[column])
    }

    /// A cell, if it exists.
    pub fn get(self, row: usize, column: usize) -> Option<&'x T> {
        // SAFETY: a cell of this grid, which no thread writes to for `'x`.
        self.raw.cell(row, column).map(|cell| unsafe { cell.as_ref() })
    }

    /// The rows before `at`, and the others.
    ///
    /// # Panics
    /// If there are fewer than `at` rows.
    #[track_caller]
    pub fn split_rows_at(self, at: usize) -> (Self, Self) {
        let (top, bottom) = self.raw.split_rows_at(at);
        (Self::over(top), Self::over(bottom))
    }

    /// The columns before `at`, and the others.
    ///
    /// # Panics
    /// If there are fewer than `at` columns.
    #[track_caller]
    pub fn split_columns_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.raw.split_columns_at(at);
        (Self::over(left), Self::over(right))
    }

    /// The part that lies in these rows and columns.
    ///
    /// # Panics
    /// If a range ends before it starts, or ends outside of the grid.
    #[track_caller]
    pub fn block(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        Self::over(self.raw.block(rows, columns))
    }
}

impl<T> Index<(usize, usize)> for GridRef<'_, T> {
    type Output = T;

    #[track_caller]
    fn index(&self, (row, column): (usize, usize)) -> &T {
        &self.row(row)[column]
    }
}

impl<'x, T> IntoIterator for GridRef<'x, T> {
    type Item = &'x [T];
    type IntoIter = GridRows<'x, T>;

    fn into_iter(self) -> GridRows<'x, T> {
        self.rows_ref()
    }
}

/// As a list of rows.
impl<T: fmt::Debug> fmt::Debug for GridRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows_ref()).finish()
    }
}

/// The rows of a [`GridRef`], from the first to the last.
#[derive(Clone, Debug)]
pub struct GridRows<'x, T> {
    rest: GridRef<'x, T>,
}

impl<'x, T> Iterator for GridRows<'x, T> {
    type Item = &'x [T];

    fn next(&mut self) -> Option<&'x [T]> {
        // SAFETY: a row of the grid, which no thread writes to for `'x`.
        self.rest.raw.pop_first().map(|row| unsafe { row.as_ref() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.rows(), Some(self.rest.rows()))
    }
}

impl<'x, T> DoubleEndedIterator for GridRows<'x, T> {
    fn next_back(&mut self) -> Option<&'x [T]> {
        // SAFETY: as in `next`.
        self.rest.raw.pop_last().map(|row| unsafe { row.as_ref() })
    }
}

impl<T> ExactSizeIterator for GridRows<'_, T> {}
impl<T> FusedIterator for GridRows<'_, T> {}

/// The rows of a [`Grid`], from the first to the last, to write to.
#[derive(Debug)]
pub struct RowsMut<'x, T> {
    rest: Grid<'x, T>,
}

impl<'x, T> Iterator for RowsMut<'x, T> {
    type Item = &'x mut [T];

    fn next(&mut self) -> Option<&'x mut [T]> {
        // SAFETY: the grid was lent for `'x`, and this row has left it: no other reference can reach it.
        self.rest.raw.pop_first().map(|mut row| unsafe { row.as_mut() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.rows(), Some(self.rest.rows()))
    }
}

impl<'x, T> DoubleEndedIterator for RowsMut<'x, T> {
    fn next_back(&mut self) -> Option<&'x mut [T]> {
        // SAFETY: as in `next`.
        self.rest.raw.pop_last().map(|mut row| unsafe { row.as_mut() })
    }
}

impl<T> ExactSizeIterator for RowsMut<'_, T> {}
impl<T> FusedIterator for RowsMut<'_, T> {}
