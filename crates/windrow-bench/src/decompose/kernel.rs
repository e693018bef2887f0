//! The kernel of a blocked decomposition: it subtracts a product of packed blocks from a part of the matrix.
//!
//! Matrices are column-major, so adjacent columns are one slice, and a split into parts is a split of a slice. The scheme is the usual one
//! (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). The left factor is packed into micropanels of
//! [`ROWS`] rows, so that the innermost loop reads one stream for any distance between columns. A tile of [`ROWS`] x [`COLUMNS`] sums stays
//! in registers.
//!
//! An element is the same sum in the same order for every tile position, and nothing is fused. So all widths and all machines give the same
//! bits.

/// Rows of a micropanel and of a tile.
pub const ROWS: usize = 8;
/// Columns of a tile.
pub const COLUMNS: usize = 4;
/// The widest panel: a tile's right factor is on the stack.
pub const WIDEST: usize = 64;
/// Rows of a left factor that all columns use before the next rows follow: 128 rows of 32 columns fill 32 KiB.
const RESIDENT: usize = 128;

/// Runs `kernel` with the widest vectors of this processor. Code that uses them must be inlined into it.
#[inline]
pub fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// Exchanges row `first + i` and row `pivots[i]`, one after the other.
#[inline(always)]
pub fn exchange(columns: &mut [f64], height: usize, first: usize, pivots: &[usize]) {
    for column in columns.chunks_exact_mut(height) {
        for (at, &pivot) in pivots.iter().enumerate() {
            column.swap(first + at, pivot);
        }
    }
}

/// A left factor, packed.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// The micropanels, each column by column; the last one is padded with zeros.
    panels: Vec<f64>,
    rows: usize,
    columns: usize,
}

impl Packed {
    /// Room for `rows` x `columns`.
    pub fn with_capacity(rows: usize, columns: usize) -> Self {
        Self { panels: Vec::with_capacity(rows.next_multiple_of(ROWS) * columns), rows: 0, columns: 0 }
    }

    /// Packs the rows from `first` on of columns of `height` rows.
    #[inline(always)]
    pub fn pack(&mut self, columns: &[f64], height: usize, first: usize) {
        self.rows = height - first;
        self.columns = columns.len() / height;
        let panel = ROWS * self.columns;
        self.panels.resize(self.rows.div_ceil(ROWS) * panel, 0.0);
        for (at, column) in columns.chunks_exact(height).enumerate() {
            let (whole, rest) = column[first..].as_chunks::<ROWS>();
            let mut panels = self.panels.chunks_exact_mut(panel.max(1));
            for (rows, panel) in whole.iter().zip(&mut panels) {
                panel[at * ROWS..][..ROWS].copy_from_slice(rows);
            }
            if let Some(panel) = panels.next() {
                let last = &mut panel[at * ROWS..][..ROWS];
                last[..rest.len()].copy_from_slice(rest);
                last[rest.len()..].fill(0.0);
            }
        }
    }

    /// The micropanels of `rows`, which begin at a multiple of [`ROWS`].
    #[inline(always)]
    fn panels(&self, rows: std::ops::Range<usize>) -> impl Iterator<Item = &[f64]> {
        let panel = ROWS * self.columns;
        self.panels[rows.start / ROWS * panel..rows.end.div_ceil(ROWS) * panel].chunks_exact(panel)
    }

    /// The rows from `first` on as the right factor of a product with the transpose. They are at most [`COLUMNS`] rows, in one micropanel.
    #[inline(always)]
    pub fn transposed(&self, first: usize, tile: &mut Tile) {
        let panel = ROWS * self.columns;
        let panel = &self.panels[first / ROWS * panel..][..panel];
        for (values, column) in tile.0.iter_mut().zip(panel.as_chunks::<ROWS>().0) {
            values.copy_from_slice(&column[first % ROWS..][..COLUMNS]);
        }
    }

    /// Blocks of rows that stay in the cache together.
    #[inline(always)]
    pub fn blocks(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let rows = self.rows;
        (0..rows).step_by(RESIDENT).map(move |from| from..rows.min(from + RESIDENT))
    }
}

/// The right factor of a tile: for each packed column one value for each column of the tile.
#[derive(Clone, Debug)]
pub struct Tile(pub [[f64; COLUMNS]; WIDEST]);

impl Tile {
    /// All zeros.
    #[inline(always)]
    pub fn new() -> Self {
        Self([[0.0; COLUMNS]; WIDEST])
    }

    /// Loads `count` rows from `first` on, of at most [`COLUMNS`] columns of `height` rows.
    #[inline(always)]
    pub fn load(&mut self, columns: &[f64], height: usize, first: usize, count: usize) {
        for (at, column) in columns.chunks_exact(height).enumerate() {
            for (values, value) in self.0.iter_mut().zip(&column[first..first + count]) {
                values[at] = *value;
            }
        }
    }

    /// Stores them back.
    #[inline(always)]
    pub fn store(&self, columns: &mut [f64], height: usize, first: usize, count: usize) {
        for (at, column) in columns.chunks_exact_mut(height).enumerate() {
            for (values, value) in self.0.iter().zip(&mut column[first..first + count]) {
                *value = values[at];
            }
        }
    }

    /// Solves `L x = b` for all columns at once. `L` has ones on its diagonal, and its columns are `count` values apart.
    #[inline(always)]
    pub fn solve_unit_lower(&mut self, lower: &[f64], count: usize) {
        for (at, column) in lower.chunks_exact(count).enumerate() {
            let (solved, open) = self.0[..count].split_at_mut(at + 1);
            let solved = solved[at];
            for (values, factor) in open.iter_mut().zip(&column[at + 1..]) {
                for (value, solved) in values.iter_mut().zip(solved) {
                    *value -= factor * solved;
                }
            }
        }
    }
}

impl Default for Tile {
    fn default() -> Self {
        Self::new()
    }
}

/// Subtracts the product of `left`'s rows and `right` from at most [`COLUMNS`] columns of `height` rows. Row `first` of the columns belongs
/// to the first packed row.
///
/// Not inlined: in larger loops, the sums were not always kept in vectors (8 instead of 40 GFLOP/s).
#[inline(never)]
pub fn take_off(
    columns: &mut [f64],
    height: usize,
    first: usize,
    left: &Packed,
    rows: std::ops::Range<usize>,
    right: &Tile,
) {
    vectorized(
        #[inline(always)]
        || {
            let (mut at, end) = (first + rows.start, first + rows.end);
            for panel in left.panels(rows) {
                let sums = product(panel, &right.0);
                for (column, sums) in columns.chunks_exact_mut(height).zip(&sums) {
                    let column = &mut column[at..end.min(at + ROWS)];
                    column.iter_mut().zip(sums).for_each(|(value, sum)| *value -= sum);
                }
                at += ROWS;
            }
        },
    );
}

/// Like [`take_off`], for the micropanel in which the columns begin, and only from the diagonal on. The first column is `at` rows behind
/// the first packed row.
#[inline(never)]
pub fn take_off_below_diagonal(
    columns: &mut [f64],
    height: usize,
    first: usize,
    left: &Packed,
    at: usize,
    right: &Tile,
) {
    vectorized(
        #[inline(always)]
        || {
            let start = at / ROWS * ROWS;
            let end = height.min(first + start + ROWS);
            for panel in left.panels(start..start + ROWS) {
                let sums = product(panel, &right.0);
                for (column, (values, sums)) in columns.chunks_exact_mut(height).zip(&sums).enumerate() {
                    let above = at + column - start;
                    let values = values[first + start + above..end].iter_mut();
                    values.zip(&sums[above..]).for_each(|(value, sum)| *value -= sum);
                }
            }
        },
    );
}

#[inline(always)]
fn product(panel: &[f64], right: &[[f64; COLUMNS]; WIDEST]) -> [[f64; ROWS]; COLUMNS] {
    let mut sums = [[0.0; ROWS]; COLUMNS];
    for (left, right) in panel.as_chunks::<ROWS>().0.iter().zip(right) {
        for (sums, right) in sums.iter_mut().zip(right) {
            for (sum, left) in sums.iter_mut().zip(left) {
                *sum += left * right;
            }
        }
    }
    sums
}
