//! cg: the smallest eigenvalue of a sparse, symmetric matrix by inverse iteration, with 25 steps of conjugate gradients each. About 2000 products
//! of the matrix, and five times as many loops over vectors, which are short.

use super::{Class, Form, Loops, Random, near};

const STEPS: usize = 15;
const INNER_STEPS: usize = 25;
/// The condition number's reciprocal.
const CONDITION: f64 = 0.1;

/// A sparse matrix by rows.
#[derive(Debug, Default)]
struct Matrix {
    /// The first entry of each row, and the end of the last.
    rows: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// The sum of outer products of sparse random vectors, with geometrically decreasing weights, on a shifted diagonal.
fn matrix(n: usize, entries: usize, shift: f64) -> Matrix {
    let mut random = Random(Random::SEED);
    random.next();
    let mut rows = vec![Vec::<(u32, f64)>::new(); n];
    let mut weight = 1.0;
    let decrease = CONDITION.powf(1.0 / n as f64);
    for at in 0..n {
        let mut vector = sparse(&mut random, n, entries);
        match vector.iter_mut().find(|entry| entry.0 == at) {
            Some(entry) => entry.1 = 0.5,
            None => vector.push((at, 0.5)),
        }
        for &(row, value) in &vector {
            rows[row].extend(vector.iter().map(|&(column, other)| (column as u32, weight * value * other)));
        }
        rows[at].push((at as u32, CONDITION - shift));
        weight *= decrease;
    }
    let mut matrix = Matrix::default();
    for mut row in rows {
        row.sort_by_key(|entry| entry.0);
        matrix.rows.push(matrix.columns.len());
        for equal in row.chunk_by(|a, b| a.0 == b.0) {
            matrix.columns.push(equal[0].0);
            matrix.values.push(equal.iter().map(|entry| entry.1).sum());
        }
    }
    matrix.rows.push(matrix.columns.len());
    matrix
}

/// A vector with random values at `entries` different random places.
fn sparse(random: &mut Random, n: usize, entries: usize) -> Vec<(usize, f64)> {
    let mut vector = Vec::<(usize, f64)>::new();
    while vector.len() < entries {
        let value = random.next();
        let at = (random.next() * n.next_power_of_two() as f64) as usize;
        if at < n && vector.iter().all(|entry| entry.0 != at) {
            vector.push((at, value));
        }
    }
    vector
}

impl Matrix {
    /// The product with `vector`.
    fn times<F: Form>(&self, vector: &[f64], product: &mut [f64]) {
        F::each(product, |row, product| {
            let entries = self.rows[row]..self.rows[row + 1];
            let columns = self.columns[entries.clone()].iter();
            *product = columns.zip(&self.values[entries]).map(|(&column, value)| value * vector[column as usize]).sum();
        });
    }
}

#[derive(Debug)]
pub(super) struct Cg {
    class: Class,
    shift: f64,
    matrix: Matrix,
    /// The approximate eigenvector, the solution, its residual, the direction of a step and its product.
    vectors: [Vec<f64>; 5],
    eigenvalue: f64,
    residual: f64,
}

impl Cg {
    pub(super) fn new(class: Class) -> Self {
        let (n, entries, shift) = match class {
            Class::S => (1400, 7, 10.0),
            Class::W => (7000, 8, 12.0),
        };
        let vectors = [(); 5].map(|()| vec![0.0; n]);
        Self { class, shift, matrix: matrix(n, entries, shift), vectors, eigenvalue: 0.0, residual: 0.0 }
    }

    /// Solves `matrix * solution = vector`.
    fn solve<F: Form>(&mut self) {
        let [vector, solution, residual, direction, product] = &mut self.vectors;
        solution.fill(0.0);
        residual.copy_from_slice(vector);
        direction.copy_from_slice(vector);
        let mut square = F::dot(residual, residual);
        for _ in 0..INNER_STEPS {
            self.matrix.times::<F>(direction, product);
            let length = square / F::dot(direction, product);
            F::zip(solution, direction, |solution, direction| *solution += length * direction);
            F::zip(residual, product, |residual, product| *residual -= length * product);
            let last = std::mem::replace(&mut square, F::dot(residual, residual));
            let factor = square / last;
            F::zip(direction, residual, |direction, residual| *direction = residual + factor * *direction);
        }
        self.matrix.times::<F>(solution, product);
        F::zip(product, vector, |product, vector| *product = vector - *product);
        self.residual = F::dot(product, product).sqrt();
    }
}

impl Loops for Cg {
    fn run<F: Form>(&mut self) {
        self.vectors[0].fill(1.0);
        for _ in 0..STEPS {
            self.solve::<F>();
            let [vector, solution, ..] = &mut self.vectors;
            self.eigenvalue = self.shift + 1.0 / F::dot(vector, solution);
            let scale = 1.0 / F::dot(solution, solution).sqrt();
            F::zip(vector, solution, |vector, solution| *vector = scale * solution);
        }
    }

    fn check(&self) -> Result<(), String> {
        let eigenvalue = match self.class {
            Class::S => 8.5971775078648,
            Class::W => 10.362595087124,
        };
        near("eigenvalue", self.eigenvalue, eigenvalue, 1e-10)?;
        if self.residual < 1e-10 { Ok(()) } else { Err(format!("the residual is {:e}", self.residual)) }
    }
}
