//! LU decomposition with partial pivoting.
//!
//! The panel is decomposed by recursion on its columns (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997),
//! with the same kernel.

use super::blocked::Panel;
use super::kernel::{COLUMNS, Packed, Tile, exchange, take_off, vectorized};

/// A decomposed panel, packed for its use on other columns.
#[derive(Clone, Debug, Default)]
pub struct Lu {
    /// The first column, and row.
    first: usize,
    /// The triangle on the diagonal, column by column.
    corner: Vec<f64>,
    /// The rows below it.
    below: Packed,
    /// For each row of the corner, the row that it was exchanged with.
    pivots: Vec<usize>,
    /// Room for the left halves of the recursion.
    halves: Vec<Lu>,
}

impl Panel for Lu {
    const EXCHANGES: bool = true;

    fn with_capacity(height: usize, width: usize) -> Self {
        let room = |width: usize| Self {
            corner: Vec::with_capacity(width * width),
            below: Packed::with_capacity(height, width),
            pivots: Vec::with_capacity(width),
            ..Self::default()
        };
        Self { halves: halvings(width).map(room).collect(), ..room(width) }
    }

    fn decompose(&mut self, columns: &mut [f64], height: usize, first: usize) {
        self.pivots.clear();
        self.pivots.resize(columns.len() / height, 0);
        recurse(columns, height, first, &mut self.pivots, &mut self.halves);
        vectorized(
            #[inline(always)]
            || self.fill(columns, height, first),
        );
    }

    fn update(&self, columns: &mut [f64], height: usize, _: usize) {
        vectorized(
            #[inline(always)]
            || self.update_inlined(columns, height),
        );
    }

    /// All columns right of the panel are equally long.
    fn cost(_: usize, rows: usize) -> f64 {
        rows as f64
    }

    fn pivots(&self) -> &[usize] {
        &self.pivots
    }
}

impl Lu {
    #[inline(always)]
    fn fill(&mut self, columns: &[f64], height: usize, first: usize) {
        let width = columns.len() / height;
        self.first = first;
        self.corner.clear();
        for column in columns.chunks_exact(height) {
            self.corner.extend_from_slice(&column[first..first + width]);
        }
        self.below.pack(columns, height, first + width);
    }

    #[inline(always)]
    fn update_inlined(&self, columns: &mut [f64], height: usize) {
        let (first, width) = (self.first, self.pivots.len());
        exchange(columns, height, first, &self.pivots);
        let mut tile = Tile::new();
        for columns in columns.chunks_mut(COLUMNS * height) {
            tile.load(columns, height, first, width);
            tile.solve_unit_lower(&self.corner, width);
            tile.store(columns, height, first, width);
        }
        for rows in self.below.blocks() {
            for columns in columns.chunks_mut(COLUMNS * height) {
                tile.load(columns, height, first, width);
                take_off(columns, height, first + width, &self.below, rows.clone(), &tile);
            }
        }
    }
}

/// The index of the first of the largest absolute values.
#[inline(always)]
fn largest(values: &[f64]) -> usize {
    let mut most = [0.0; 8];
    let (eights, rest) = values.as_chunks::<8>();
    for values in eights {
        for (most, value) in most.iter_mut().zip(values) {
            let value = value.abs();
            *most = if value > *most { value } else { *most };
        }
    }
    let most = most.into_iter().chain(rest.iter().map(|value| value.abs())).fold(0.0, f64::max);
    values.iter().position(|value| value.abs() == most).unwrap_or(0)
}

/// Columns that are decomposed one by one.
pub(super) const BASE: usize = COLUMNS;

/// The widths of the left halves of a recursion.
pub(super) fn halvings(width: usize) -> impl Iterator<Item = usize> {
    let half = |width: &usize| (*width > BASE).then(|| (width / 2).next_multiple_of(BASE));
    std::iter::successors(half(&width), half)
}

#[inline(always)]
fn one_by_one(columns: &mut [f64], height: usize, first: usize, pivots: &mut [usize]) {
    for at in 0..pivots.len() {
        let row = first + at;
        let pivot = row + largest(&columns[at * height..][row..height]);
        pivots[at] = pivot;
        exchange(columns, height, row, &[pivot]);
        let (left, right) = columns.split_at_mut((at + 1) * height);
        let (head, below) = left[at * height..].split_at_mut(row + 1);
        // A column of zeros stays zero, and the matrix is singular.
        if head[row] != 0.0 {
            let scale = head[row].recip();
            below.iter_mut().for_each(|value| *value *= scale);
        }
        for column in right.chunks_exact_mut(height) {
            let factor = column[row];
            column[row + 1..].iter_mut().zip(&*below).for_each(|(value, below)| *value -= below * factor);
        }
    }
}

fn recurse(columns: &mut [f64], height: usize, first: usize, pivots: &mut [usize], halves: &mut [Lu]) {
    let width = pivots.len();
    let (half, halves) = match halves.split_first_mut() {
        Some(halves) if width > BASE => halves,
        _ => {
            return vectorized(
                #[inline(always)]
                || one_by_one(columns, height, first, pivots),
            );
        }
    };
    let middle = (width / 2).next_multiple_of(BASE);
    let (left, right) = columns.split_at_mut(middle * height);
    let (left_pivots, right_pivots) = pivots.split_at_mut(middle);
    recurse(left, height, first, left_pivots, halves);
    half.pivots.clear();
    half.pivots.extend_from_slice(left_pivots);
    vectorized(
        #[inline(always)]
        || {
            half.fill(left, height, first);
            half.update_inlined(right, height);
        },
    );
    recurse(right, height, first + middle, right_pivots, halves);
    exchange(left, height, first + middle, right_pivots);
}
