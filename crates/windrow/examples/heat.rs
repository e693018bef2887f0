//! Heat on a square plate, by Jacobi's iteration: in each step every inner cell becomes the mean of its four neighbours.
//!
//! A step reads one plate and writes another; between steps the plates are swapped. In a team the swap is one line in the closure with
//! exclusive access, and needs no barrier besides the one of the step.
//!
//! `cargo run --release -p windrow --features ndarray --example heat`

use std::mem;
use std::ops::Range;
use std::time::Instant;

use ndarray::{Array2, ArrayView2, ArrayViewMut1, Axis, Slice};
use windrow::team::Own;
use windrow::team::split::{self, ViewMut, ViewRef};

/// The rows without the edges.
const INNER: Slice = Slice { start: 1, end: Some(-1), step: 1 };

/// Two square plates of cells.
struct Plate {
    now: Array2<f64>,
    next: Array2<f64>,
}

impl Plate {
    /// Cold, with a hot upper edge.
    fn new(side: usize) -> Self {
        let mut now = Array2::zeros((side, side));
        now.row_mut(0).fill(100.0);
        Self { next: now.clone(), now }
    }
}

/// The new cells of an inner row, from the old ones around it.
fn row(now: ArrayView2<'_, f64>, at: usize, mut next: ArrayViewMut1<'_, f64>) {
    let (above, same, below) = (now.row(at - 1), now.row(at), now.row(at + 1));
    for column in 1..next.len() - 1 {
        next[column] = 0.25 * ((above[column] + below[column]) + (same[column - 1] + same[column + 1]));
    }
}

fn serial(plate: &mut Plate, steps: usize) {
    for _ in 0..steps {
        let mut inner = plate.next.slice_axis_mut(Axis(0), INNER);
        inner.rows_mut().into_iter().zip(1..).for_each(|(next, at)| row(plate.now.view(), at, next));
        mem::swap(&mut plate.now, &mut plate.next);
    }
}

fn team(plate: &mut Plate, steps: usize) {
    windrow::team(plate).run(|member| {
        // Shared: the current plate. Dealt: rows of the next plate, and their indices.
        let done = member.rounds::<ViewRef<f64>, (Own<Range<usize>>, ViewMut<f64>)>(
            0..steps,
            |plate, step, deal| {
                if step > 0 {
                    mem::swap(&mut plate.now, &mut plate.next);
                }
                let inner = plate.next.slice_axis_mut(Axis(0), INNER);
                deal.parts(split::even((1..inner.nrows() + 1, inner), deal.width()));
                plate.now.view()
            },
            |_, now, (numbers, mut rows)| numbers.zip(rows.rows_mut()).for_each(|(at, next)| row(now, at, next)),
        );
        done.expect("no member leaves early");
    });
    if steps > 0 {
        mem::swap(&mut plate.now, &mut plate.next);
    }
}

fn main() {
    let (side, steps) = (512, 200);
    let (mut expected, mut found) = (Plate::new(side), Plate::new(side));

    let begun = Instant::now();
    serial(&mut expected, steps);
    let alone = begun.elapsed();

    let begun = Instant::now();
    team(&mut found, steps);
    let together = begun.elapsed();

    assert!(found.now.iter().zip(&expected.now).all(|(a, b)| a.to_bits() == b.to_bits()), "another result");
    println!("{side} x {side} cells, {steps} steps: serial {alone:.2?}, team {together:.2?}");
    println!("below the middle of the hot edge: {:.3}", found.now[(1, side / 2)]);
}
