//! A team on ndarray: heat on a square plate. In each step every inner cell becomes the mean of its four neighbours.
//!
//! A step reads one plate and writes another; between steps one member swaps them. The swap needs no second barrier.
//!
//! `cargo run --release -p windrow --features ndarray --example heat`

use std::mem;
use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut1, Axis, Slice};
use windrow::team::Own;
use windrow::team::split::{self, ViewMut, ViewRef};

const SIDE: usize = 200;
const STEPS: usize = 50;

/// The new cells of an inner row, from the old ones around it.
fn row(now: ArrayView2<'_, f64>, at: usize, mut next: ArrayViewMut1<'_, f64>) {
    let (above, same, below) = (now.row(at - 1), now.row(at), now.row(at + 1));
    for column in 1..next.len() - 1 {
        next[column] = 0.25 * ((above[column] + below[column]) + (same[column - 1] + same[column + 1]));
    }
}

/// The plate after all steps: cold at first, with a hot upper edge.
fn heat() -> Array2<f64> {
    let mut now = Array2::zeros((SIDE, SIDE));
    now.row_mut(0).fill(100.0);
    let mut plates = (now.clone(), now);
    windrow::team(&mut plates).run(|member| {
        // Shared: the current plate. Dealt: rows of the next plate, and their indices.
        let done = member.rounds::<ViewRef<f64>, (Own<Range<usize>>, ViewMut<f64>)>(
            0..STEPS,
            |(now, next), step, deal| {
                if step > 0 {
                    mem::swap(now, next);
                }
                let inner = next.slice_axis_mut(Axis(0), Slice::from(1..SIDE - 1));
                deal.parts(split::even((1..SIDE - 1, inner), deal.width()));
                now.view()
            },
            |_, now, (numbers, mut rows)| numbers.zip(rows.rows_mut()).for_each(|(at, next)| row(now, at, next)),
        );
        done.expect("no member leaves early");
    });
    plates.1
}

// The tests run it too.
pub(crate) fn main() {
    let first = heat(); // on one thread: the pool's others are still starting
    let (plate, why) = windrow::explain(heat);
    why.iter().for_each(|line| println!("{line}"));
    println!("below the middle of the hot edge: {:.3}", plate[(1, SIDE / 2)]);
    assert_eq!(plate, first, "another plate");
}
