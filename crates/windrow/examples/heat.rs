//! Heat on a square plate, by Jacobi's iteration: in each step every inner cell becomes the mean of its four neighbours.
//!
//! A step reads one plate and writes another; between steps the plates are swapped. In a team the swap is one line in the closure with
//! exclusive access, and needs no barrier besides the one of the step.
//!
//! `cargo run --release -p windrow --example heat`

use std::mem;
use std::ops::Range;
use std::time::Instant;

use windrow::team::{Grid, GridRef, Own, split};

/// Two plates of `side` x `side` cells, row by row.
struct Plate {
    side: usize,
    now: Vec<f64>,
    next: Vec<f64>,
}

impl Plate {
    /// Cold, with a hot upper edge.
    fn new(side: usize) -> Self {
        let mut now = vec![0.0; side * side];
        now[..side].fill(100.0);
        Self { side, next: now.clone(), now }
    }
}

/// The new cells of an inner row, from the old ones around it.
fn row(now: GridRef<'_, f64>, at: usize, next: &mut [f64]) {
    let (above, same, below) = (now.row(at - 1), now.row(at), now.row(at + 1));
    for column in 1..next.len() - 1 {
        next[column] = 0.25 * ((above[column] + below[column]) + (same[column - 1] + same[column + 1]));
    }
}

fn serial(plate: &mut Plate, steps: usize) {
    let side = plate.side;
    for _ in 0..steps {
        let now = GridRef::new(&plate.now, side, side, side).expect("a square");
        let inner = plate.next.chunks_exact_mut(side).enumerate().skip(1).take(side - 2);
        inner.for_each(|(at, next)| row(now, at, next));
        mem::swap(&mut plate.now, &mut plate.next);
    }
}

fn team(plate: &mut Plate, steps: usize) {
    windrow::team(plate).run(|member| {
        // Shared: the current plate. Dealt: rows of the next plate, and their indices.
        let done = member.rounds::<GridRef<'_, f64>, (Own<Range<usize>>, Grid<'_, f64>)>(
            0..steps,
            |plate, step, deal| {
                let side = plate.side;
                if step > 0 {
                    mem::swap(&mut plate.now, &mut plate.next);
                }
                let next = Grid::new(&mut plate.next, side, side, side).expect("a square");
                let inner = next.block(1..side - 1, 0..side);
                deal.parts(split::even((1..side - 1, inner), deal.width()));
                GridRef::new(&plate.now, side, side, side).expect("a square")
            },
            |_, now, (numbers, rows)| numbers.zip(rows).for_each(|(at, next)| row(now, at, next)),
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
    println!("below the middle of the hot edge: {:.3}", found.now[side + side / 2]);
}
