//! Loops over time, over paths, and over a vector: a round does little, and there are many rounds.

use super::kernel::vectorized;

/// The lengths of `members` parts of `count` things, the longer ones first.
pub(super) fn even(count: usize, members: usize) -> impl Iterator<Item = usize> {
    (0..members).map(move |member| count / members + usize::from(member < count % members))
}

/// Cuts `rest` into parts of these lengths, in rows of `size` values. Returns each part with the index of its first row.
fn cut(
    mut rest: &mut [f64],
    size: usize,
    lengths: impl Iterator<Item = usize>,
) -> impl Iterator<Item = (usize, &mut [f64])> {
    let mut first = 0;
    lengths.map(move |length| {
        let all = std::mem::take(&mut rest);
        let (part, left) = all.split_at_mut(length * size);
        rest = left;
        first += length;
        (first - length, part)
    })
}

/// Heat on a plate: Jacobi's iteration, in which every inner cell becomes the mean of its four neighbours.
#[derive(Clone, Debug)]
pub struct Heat {
    side: usize,
    steps: usize,
    now: Vec<f64>,
    next: Vec<f64>,
}

/// Rows of a time step, with the index of the first among the inner rows.
pub type Band<'a> = (usize, &'a mut [f64]);

impl Heat {
    /// A square plate, its edges included, and the number of time steps.
    ///
    /// # Panics
    /// If it has no inner cell.
    pub fn new(side: usize, steps: usize) -> Self {
        assert!(side > 2, "no inner cell");
        Self { side, steps, now: vec![0.0; side * side], next: vec![0.0; side * side] }
    }

    /// Copies in the temperatures at the start, row by row.
    pub fn load(&mut self, plate: &[f64]) {
        self.now.copy_from_slice(plate);
        self.next.copy_from_slice(plate);
    }

    /// The temperatures.
    pub fn plate(&self) -> &[f64] {
        &self.now
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// The plate now, and the inner rows of the next step in parts of these lengths.
    pub(super) fn step(
        &mut self,
        step: usize,
        lengths: impl Iterator<Item = usize>,
    ) -> (&[f64], impl Iterator<Item = Band<'_>>) {
        if step > 0 {
            std::mem::swap(&mut self.now, &mut self.next);
        }
        let inner = self.side..self.side * (self.side - 1);
        (&self.now, cut(&mut self.next[inner], self.side, lengths))
    }

    /// After the last step.
    pub(super) fn end(&mut self) {
        if self.steps > 0 {
            std::mem::swap(&mut self.now, &mut self.next);
        }
    }

    /// Computes rows of the next step.
    pub(super) fn work(side: usize, now: &[f64], (first, rows): Band<'_>) {
        vectorized(
            #[inline(always)]
            || {
                for (at, row) in rows.chunks_exact_mut(side).enumerate() {
                    let [above, same, below] = [0, 1, 2].map(|row| &now[(first + at + row) * side..][..side]);
                    let across = same.windows(3).zip(&above[1..]).zip(&below[1..]);
                    for (cell, ((same, above), below)) in row[1..side - 1].iter_mut().zip(across) {
                        *cell = 0.25 * ((above + below) + (same[0] + same[2]));
                    }
                }
            },
        );
    }

    /// Runs on one thread.
    pub fn sequential(&mut self) {
        let (side, inner) = (self.side, self.side - 2);
        for step in 0..self.steps {
            let (now, bands) = self.step(step, even(inner, 1));
            bands.for_each(|band| Self::work(side, now, band));
        }
        self.end();
    }
}

/// The lengths of all shortest paths, by Floyd and Warshall.
#[derive(Clone, Debug)]
pub struct Paths {
    n: usize,
    lengths: Vec<f64>,
    /// The row of the vertex of this round, which the round does not change.
    via: Vec<f64>,
}

impl Paths {
    /// Between `n` vertices.
    pub fn new(n: usize) -> Self {
        Self { n, lengths: vec![0.0; n * n], via: vec![0.0; n] }
    }

    /// Copies in the lengths of the edges, row by row; infinite if there is no edge.
    pub fn load(&mut self, edges: &[f64]) {
        self.lengths.copy_from_slice(edges);
    }

    /// The lengths of the paths.
    pub fn lengths(&self) -> &[f64] {
        &self.lengths
    }

    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// The row of vertex `via`, and all rows in parts of these lengths.
    pub(super) fn round(
        &mut self,
        via: usize,
        lengths: impl Iterator<Item = usize>,
    ) -> (&[f64], impl Iterator<Item = &mut [f64]>) {
        self.via.copy_from_slice(&self.lengths[via * self.n..][..self.n]);
        (&self.via, cut(&mut self.lengths, self.n, lengths).map(|(_, rows)| rows))
    }

    /// Updates rows with paths over `via`, whose row is `row`.
    pub(super) fn work(via: usize, row: &[f64], rows: &mut [f64]) {
        vectorized(
            #[inline(always)]
            || {
                for from in rows.chunks_exact_mut(row.len()) {
                    let there = from[via];
                    for (length, on) in from.iter_mut().zip(row) {
                        let other = there + on;
                        *length = if other < *length { other } else { *length };
                    }
                }
            },
        );
    }

    /// Runs on one thread.
    pub fn sequential(&mut self) {
        for via in 0..self.n {
            let (row, parts) = self.round(via, even(self.n, 1));
            parts.for_each(|rows| Self::work(via, row, rows));
        }
    }
}

/// Each value in turn is added to all that follow it.
#[derive(Clone, Debug)]
pub struct Additions {
    values: Vec<f64>,
}

impl Additions {
    /// For `n` values.
    pub fn new(n: usize) -> Self {
        Self { values: vec![0.0; n] }
    }

    /// Copies in the values.
    pub fn load(&mut self, values: &[f64]) {
        self.values.copy_from_slice(values);
    }

    /// The values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The value at `at`, and the values behind it in parts. `lengths` gives the lengths for their number.
    pub(super) fn round<L: Iterator<Item = usize>>(
        &mut self,
        at: usize,
        lengths: impl FnOnce(usize) -> L,
    ) -> (f64, impl Iterator<Item = &mut [f64]>) {
        let (head, tail) = self.values[at..].split_first_mut().expect("a value for each round");
        let lengths = lengths(tail.len());
        (*head, cut(tail, 1, lengths).map(|(_, values)| values))
    }

    /// Adds the head to some of the values.
    pub(super) fn work(head: f64, values: &mut [f64]) {
        vectorized(
            #[inline(always)]
            || values.iter_mut().for_each(|value| *value += head),
        );
    }

    /// Runs on one thread.
    pub fn sequential(&mut self) {
        for at in 0..self.values.len() {
            let (head, parts) = self.round(at, |count| even(count, 1));
            parts.for_each(|values| Self::work(head, values));
        }
    }
}
