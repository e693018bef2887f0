//! The decompositions of faer, in place and with reused memory, as ours are.

use std::fmt;

use faer::MatMut;
pub use faer::Par;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::lu::partial_pivoting::factor as lu;

/// A square matrix, with faer's memory to decompose it.
pub struct Faer {
    n: usize,
    matrix: Vec<f64>,
    order: Vec<usize>,
    inverse: Vec<usize>,
    room: MemBuffer,
    par: Par,
}

impl fmt::Debug for Faer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faer").field("n", &self.n).field("par", &self.par).finish_non_exhaustive()
    }
}

impl Faer {
    /// For matrices of `n` rows and columns: sequential, or with `threads` threads of the calling rayon pool.
    pub fn new(n: usize, threads: usize) -> Self {
        let par = if threads > 1 { Par::rayon(threads) } else { Par::Seq };
        let lu = lu::lu_in_place_scratch::<usize, f64>(n, n, par, faer::Spec::default());
        let room = lu.or(llt::cholesky_in_place_scratch::<f64>(n, par, faer::Spec::default()));
        Self { n, matrix: vec![0.0; n * n], order: vec![0; n], inverse: vec![0; n], room: MemBuffer::new(room), par }
    }

    /// Copies in the matrix to decompose, column by column.
    ///
    /// # Panics
    /// If it has another size.
    pub fn load(&mut self, matrix: &[f64]) {
        self.matrix.copy_from_slice(matrix);
    }

    /// The factors, column by column.
    pub fn matrix(&self) -> &[f64] {
        &self.matrix
    }

    /// For each row of the factors' product, its row in the matrix.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// LU with partial pivoting.
    pub fn lu(&mut self) {
        let Self { n, matrix, order, inverse, room, par } = self;
        let matrix = MatMut::from_column_major_slice_mut(matrix, *n, *n);
        lu::lu_in_place(matrix, order, inverse, *par, MemStack::new(room), faer::Spec::default());
    }

    /// Cholesky, in the lower triangle.
    ///
    /// # Panics
    /// If the matrix is not positive definite.
    pub fn cholesky(&mut self) {
        let Self { n, matrix, room, par, .. } = self;
        let matrix = MatMut::from_column_major_slice_mut(matrix, *n, *n);
        let regularization = llt::LltRegularization::default();
        let done = llt::cholesky_in_place(matrix, regularization, *par, MemStack::new(room), faer::Spec::default());
        assert!(done.is_ok(), "not positive definite");
    }
}
