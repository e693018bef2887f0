//! Least squares, one equation at a time.

/// An upper triangular matrix that holds all equations so far, updated by Givens rotations. An equation costs time in proportion to the
/// square of the number of unknowns. The solution for only the first few unknowns is available at any time.
pub(super) struct Triangle {
    unknowns: usize,
    /// Row by row; each row ends with its right-hand side.
    rows: Vec<f64>,
    /// Sum of squares that no solution removes.
    rest: f64,
}

impl Triangle {
    pub(super) fn new(unknowns: usize) -> Self {
        Self { unknowns, rows: vec![0.0; unknowns * (unknowns + 1)], rest: 0.0 }
    }

    /// Adds an equation: the factors of the unknowns, then the right-hand side. Overwrites `equation`.
    pub(super) fn push(&mut self, equation: &mut [f64]) {
        let width = self.unknowns + 1;
        for (place, row) in self.rows.chunks_exact_mut(width).enumerate() {
            let size = f64::hypot(row[place], equation[place]);
            if size == 0.0 {
                continue;
            }
            let (cos, sin) = (row[place] / size, equation[place] / size);
            for (above, below) in row[place..].iter_mut().zip(&mut equation[place..]) {
                (*above, *below) = (cos * *above + sin * *below, cos * *below - sin * *above);
            }
        }
        self.rest += equation[self.unknowns] * equation[self.unknowns];
    }

    /// The sum of squares left if only the first unknowns are solved for and the others are 0.
    pub(super) fn left(&self, first: usize) -> f64 {
        let sides = self.rows.chunks_exact(self.unknowns + 1).map(|row| row[self.unknowns]);
        self.rest + sides.skip(first).map(|side| side * side).sum::<f64>()
    }

    /// Solves for the first unknowns, with the others 0. `None` if the equations do not determine them.
    pub(super) fn solve(&self, first: usize) -> Option<Vec<f64>> {
        let width = self.unknowns + 1;
        let mut solution = vec![0.0; first];
        for place in (0..first).rev() {
            let row = &self.rows[place * width..][..width];
            let known: f64 = row[place + 1..first].iter().zip(&solution[place + 1..]).map(|(a, x)| a * x).sum();
            let value = (row[self.unknowns] - known) / row[place];
            solution[place] = value.is_finite().then_some(value)?;
        }
        Some(solution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_is_found_and_what_lines_leave_of_it() {
        let mut triangle = Triangle::new(3);
        let points = [0.0, 1.0, 2.0, 3.0, 4.0];
        for x in points {
            triangle.push(&mut [1.0, x, x * x, 2.0 + 3.0 * x + 0.5 * x * x]);
        }
        let close = |found: Vec<f64>, right: &[f64]| found.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(triangle.solve(3).unwrap(), &[2.0, 3.0, 0.5]));
        assert!(triangle.left(3) < 1e-20);
        // The least-squares line through the points, and the mean.
        assert!(close(triangle.solve(2).unwrap(), &[1.0, 5.0]));
        let line: f64 = points.iter().map(|x| (1.0 + 5.0 * x - (2.0 + 3.0 * x + 0.5 * x * x)).powi(2)).sum();
        assert!((triangle.left(2) - line).abs() < 1e-12);
        assert!(close(triangle.solve(1).unwrap(), &[11.0]));
        assert_eq!(Triangle::new(1).solve(1), None);
    }
}
