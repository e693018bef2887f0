//! The lengths of all shortest paths, by Floyd and Warshall: in round `via`, every path may go through vertex `via`.
//!
//! All members read row `via`. It does not change in its own round (a path from `via` through `via` is no shorter), so it is shared
//! without a copy. The rows above it and below it are dealt.
//!
//! `cargo run --release -p windrow --example floyd_warshall`

use std::time::Instant;

use windrow::team::split;

/// Updates `rows`: paths may now go through `via`, whose row is `on`.
fn turn(via: usize, on: &[f64], rows: &mut [f64]) {
    for row in rows.chunks_exact_mut(on.len()) {
        let there = row[via];
        for (length, on) in row.iter_mut().zip(on) {
            *length = length.min(there + on);
        }
    }
}

/// The rows above `via`, the row of `via`, and the rows below.
fn around(lengths: &mut [f64], n: usize, via: usize) -> (&mut [f64], &[f64], &mut [f64]) {
    let (above, rest) = lengths.split_at_mut(via * n);
    let (on, below) = rest.split_at_mut(n);
    (above, on, below)
}

fn serial(lengths: &mut [f64], n: usize) {
    for via in 0..n {
        let (above, on, below) = around(lengths, n, via);
        turn(via, on, above);
        turn(via, on, below);
    }
}

fn team(lengths: &mut [f64], n: usize) {
    windrow::team(lengths).run(|member| {
        let done = member.rounds::<&[f64], (&mut [f64], &mut [f64])>(
            0..n,
            |lengths, via, deal| {
                let (above, on, below) = around(lengths, n, via);
                let width = deal.width();
                deal.parts(split::blocks(above, width, n).zip(split::blocks(below, width, n)));
                on
            },
            |via, on, (above, below)| {
                turn(via, on, above);
                turn(via, on, below);
            },
        );
        done.expect("no member leaves early");
    });
}

fn main() {
    let n = 400;
    // A ring with some chords, and a distance of 0 from every vertex to itself; no other edges.
    let mut lengths = vec![f64::INFINITY; n * n];
    for from in 0..n {
        lengths[from * n + (from + 1) % n] = 1.0;
        lengths[from * n + (from * from + 7) % n] = (1 + from % 5) as f64;
    }
    (0..n).for_each(|vertex| lengths[vertex * n + vertex] = 0.0);
    let (mut expected, mut found) = (lengths.clone(), lengths);

    let begun = Instant::now();
    serial(&mut expected, n);
    let alone = begun.elapsed();

    let begun = Instant::now();
    team(&mut found, n);
    let together = begun.elapsed();

    assert_eq!(found, expected);
    let longest = found.iter().copied().fold(0.0, f64::max);
    println!("{n} vertices: serial {alone:.2?}, team {together:.2?}; the longest shortest path is {longest}");
}
