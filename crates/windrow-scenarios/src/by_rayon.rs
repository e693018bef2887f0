//! The arms of rayon, as its users write them. They are called inside a pool of rayon.

use rayon::prelude::*;

use crate::joins::{Node, Step};
use crate::rounds::add;
use crate::work::{Item, work};

/// A loop.
pub(crate) fn items(items: &[Item], out: &mut [u64]) {
    items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item));
}

/// Recursion at every level.
pub(crate) fn joined(node: Node) -> u64 {
    match node.step() {
        Step::Leaf(value) => value,
        Step::Inner(left, right) => {
            let (left, right) = rayon::join(|| joined(left), || joined(right));
            left.wrapping_add(right)
        }
    }
}

/// Rounds, each of them a loop over one chunk a thread.
pub(crate) fn rounds(x: &mut [f64], rounds: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        let chunk = tail.len().div_ceil(rayon::current_num_threads()).max(1);
        tail.par_chunks_mut(chunk).for_each(|part| add(*head, part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{input, sequential};

    #[test]
    fn rayon_gives_what_plain_code_gives() {
        let node = Node::Tree { depth: 6, seed: 1, turns: 2 };
        assert_eq!(joined(node), node.plain());
        let (mut x, mut expected) = (input(500), input(500));
        sequential(&mut expected, 400);
        rounds(&mut x, 400);
        assert_eq!(x, expected);
        let given: Vec<Item> = (1..100).map(|seed| Item { seed, turns: 3 }).collect();
        let mut out = vec![0; given.len()];
        items(&given, &mut out);
        assert!(out.iter().zip(given).all(|(out, item)| *out == work(item)));
    }
}
