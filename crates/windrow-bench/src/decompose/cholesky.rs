//! Cholesky decomposition: `A = L L^T`, in the lower triangle. Values above the diagonal are neither read nor written.

use super::blocked::Panel;
use super::kernel::{COLUMNS, Packed, ROWS, Tile, take_off, take_off_below_diagonal, vectorized};
use super::lu::{BASE, halvings};

/// A decomposed panel: the rows below its triangle, which are both factors of the product it subtracts.
#[derive(Clone, Debug, Default)]
pub struct Cholesky {
    /// The first row below the panel's triangle, and the first column right of it.
    end: usize,
    below: Packed,
    /// Room for the left halves of the recursion.
    halves: Vec<Cholesky>,
}

impl Panel for Cholesky {
    const EXCHANGES: bool = false;

    fn with_capacity(height: usize, width: usize) -> Self {
        let room = |width| Self { below: Packed::with_capacity(height, width), ..Self::default() };
        Self { halves: halvings(width).map(room).collect(), ..room(width) }
    }

    fn decompose(&mut self, columns: &mut [f64], height: usize, first: usize) {
        recurse(columns, height, first, &mut self.halves);
        vectorized(
            #[inline(always)]
            || self.fill(columns, height, first),
        );
    }

    fn update(&self, columns: &mut [f64], height: usize, first: usize) {
        vectorized(
            #[inline(always)]
            || self.update_inlined(columns, height, first),
        );
    }

    /// A column right of the panel begins on the diagonal.
    fn cost(at: usize, rows: usize) -> f64 {
        (rows - at) as f64
    }

    fn pivots(&self) -> &[usize] {
        &[]
    }
}

impl Cholesky {
    #[inline(always)]
    fn fill(&mut self, columns: &[f64], height: usize, first: usize) {
        self.end = first + columns.len() / height;
        self.below.pack(columns, height, self.end);
    }

    /// Updates columns, the first of which is column `first` of the matrix, a multiple of [`COLUMNS`] behind the panel.
    #[inline(always)]
    fn update_inlined(&self, columns: &mut [f64], height: usize, first: usize) {
        let mut tile = Tile::new();
        for rows in self.below.blocks() {
            let mut at = first - self.end;
            for columns in columns.chunks_mut(COLUMNS * height) {
                // The micropanel with the diagonal, and all micropanels below it.
                let diagonal = at / ROWS * ROWS;
                if rows.end > diagonal {
                    self.below.transposed(at, &mut tile);
                    if rows.start <= diagonal {
                        take_off_below_diagonal(columns, height, self.end, &self.below, at, &tile);
                    }
                    let below = rows.start.max(diagonal + ROWS)..rows.end;
                    if !below.is_empty() {
                        take_off(columns, height, self.end, &self.below, below, &tile);
                    }
                }
                at += COLUMNS;
            }
        }
    }
}

#[inline(always)]
fn one_by_one(columns: &mut [f64], height: usize, first: usize) {
    let width = columns.len() / height;
    for at in 0..width {
        let row = first + at;
        let (left, right) = columns.split_at_mut((at + 1) * height);
        let (head, below) = left[at * height..].split_at_mut(row + 1);
        let root = head[row].sqrt();
        head[row] = root;
        let scale = root.recip();
        below.iter_mut().for_each(|value| *value *= scale);
        for (at, column) in right.chunks_exact_mut(height).enumerate() {
            let below = &below[at..];
            let factor = below[0];
            column[row + 1 + at..].iter_mut().zip(below).for_each(|(value, below)| *value -= below * factor);
        }
    }
}

fn recurse(columns: &mut [f64], height: usize, first: usize, halves: &mut [Cholesky]) {
    let width = columns.len() / height;
    let (half, halves) = match halves.split_first_mut() {
        Some(halves) if width > BASE => halves,
        _ => {
            return vectorized(
                #[inline(always)]
                || one_by_one(columns, height, first),
            );
        }
    };
    let middle = (width / 2).next_multiple_of(BASE);
    let (left, right) = columns.split_at_mut(middle * height);
    recurse(left, height, first, halves);
    vectorized(
        #[inline(always)]
        || {
            half.fill(left, height, first);
            half.update_inlined(right, height, first + middle);
        },
    );
    recurse(right, height, first + middle, halves);
}
