//! Every element is added to all elements behind it: `for i in 0..n { x[i + 1..] += x[i] }`.
//!
//! This is the smallest case for a team. The head of the next round is a sum of this round, so rounds cannot overlap. A round takes a few
//! microseconds, so a parallel iterator in each round would spend its time on entering and leaving the pool. A team enters once.
//!
//! `cargo run --release -p windrow --example document_algo`

use std::time::Instant;

use windrow::team::split;

fn serial(x: &mut [f64]) {
    for i in 0..x.len() {
        let (head, tail) = x[i..].split_first_mut().expect("i is in bounds");
        tail.iter_mut().for_each(|element| *element += *head);
    }
}

fn team(x: &mut [f64]) {
    let rounds = 0..x.len();
    windrow::team(x).run(|member| {
        let done = member.rounds::<f64, &mut [f64]>(
            rounds.clone(),
            // One member, with exclusive access to `x`: it shares the head, and deals the tail.
            |x, i, deal| {
                let (head, tail) = x[i..].split_first_mut().expect("i is in bounds");
                deal.parts(split::even(tail, deal.width()));
                *head
            },
            // Each member, with its part of the tail.
            |_, head, part| part.iter_mut().for_each(|element| *element += head),
        );
        // Rounds are refused only after a member has left or panicked. Here no member leaves, and `run` passes panics on.
        done.expect("no member leaves early");
    });
}

fn main() {
    let start: Vec<f64> = (0..20_000).map(|i| f64::from(i % 7) * 1e-300).collect();
    let (mut expected, mut found) = (start.clone(), start);

    let begun = Instant::now();
    serial(&mut expected);
    let alone = begun.elapsed();

    let begun = Instant::now();
    team(&mut found);
    let together = begun.elapsed();

    assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "another result");
    println!("{} values: serial {alone:.2?}, team {together:.2?}", found.len());
}
