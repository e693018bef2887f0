//! What ranks say to each other about the tiles.

use std::sync::{Arc, Mutex};
use std::thread;

use windrow_collective::{
    Communicator, Element, Error, Fused, Group, MatMut, MatRef, Measured, Operation, Outcome, Profile, Rank, Shape,
    Stage, Tiles,
};
use windrow_tiling::tile::Contention;

/// A rank that counts its broadcasts.
struct Counting {
    rank: Rank,
    broadcasts: Arc<Mutex<usize>>,
}

impl Communicator for Counting {
    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn size(&self) -> usize {
        self.rank.size()
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        self.rank.all_reduce(data)
    }

    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.rank.reduce_scatter(input, output)
    }

    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.rank.all_gather(input, output)
    }

    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error> {
        *self.broadcasts.lock().unwrap() += 1;
        self.rank.broadcast(root, data)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.rank.barrier()
    }

    fn refuse(&mut self, why: &str) -> Error {
        self.rank.refuse(why)
    }
}

const K: usize = 2;
const N: usize = 3;

/// Tiles of `align` rows or multiples.
fn profile(ranks: usize, align: u64) -> Profile {
    let sample = |stage, m: u64| Measured { stage, m, microseconds: 1.0 + 5.0 * m as f64 };
    let samples = [4, 10, 20, 40].into_iter().flat_map(|m| [Stage::Compute, Stage::Communicate].map(|s| sample(s, m)));
    let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".to_owned(), ranks, n: N, k: K };
    Profile::new(shape, samples.collect(), Contention::NONE).unwrap().align(align)
}

fn call(fused: &mut Fused<Counting>, m: usize) -> Outcome {
    let (a, b, mut c) = (vec![1.0_f32; m * K], [1.0; K * N], vec![0.0; m * N]);
    let (a, b) = (MatRef::new(&a, m, K), MatRef::new(&b, K, N));
    let ranks = fused.size() as f32;
    let outcome = fused.matmul_all_reduce(a, b, MatMut::new(&mut c, m, N), &Tiles::Auto).unwrap();
    assert!(c.iter().all(|&sum| sum == ranks * K as f32));
    outcome
}

#[test]
fn a_decision_is_broadcast_once() {
    let sizes = [64, 64, 96, 64, 96];
    let told = thread::scope(|scope| {
        let running: Vec<_> = Group::new(3)
            .ranks()
            .into_iter()
            .map(|rank| {
                scope.spawn(move || {
                    let broadcasts = Arc::new(Mutex::new(0));
                    let mut fused = Fused::new(Counting { rank, broadcasts: Arc::clone(&broadcasts) }).unwrap();
                    let mut told = Vec::new();
                    for align in [4, 8] {
                        if fused.rank() == 0 {
                            fused.use_profile(profile(3, align));
                        }
                        for m in sizes {
                            let outcome = call(&mut fused, m);
                            let count = std::mem::take(&mut *broadcasts.lock().unwrap());
                            told.push((outcome.tiles, outcome.predicted, count));
                        }
                    }
                    told
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(told.iter().all(|rank| *rank == told[0]), "all ranks take the tiles of rank 0");
    let counts: Vec<_> = told[0].iter().map(|(_, _, count)| *count).collect();
    // New sizes, then other decisions for them.
    assert_eq!(counts, [2, 0, 2, 0, 0, 2, 0, 2, 0, 0]);
    let tiles: Vec<_> = told[0].iter().map(|(tiles, _, _)| tiles.clone()).collect();
    assert!(tiles[0].len() > 1 && tiles[0] != tiles[5]);
    assert_eq!(tiles[0], tiles[1]);
}

/// One rank begins anew while the others keep what they know.
#[test]
fn a_rank_that_knows_less_is_told() {
    let (first, second) = (Group::new(2).ranks(), Group::new(2).ranks());
    let told = thread::scope(|scope| {
        let running: Vec<_> = first
            .into_iter()
            .zip(second)
            .map(|(rank, later)| {
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for rank in [rank, later] {
                        let broadcasts = Arc::new(Mutex::new(0));
                        let mut fused = Fused::new(Counting { rank, broadcasts: Arc::clone(&broadcasts) }).unwrap();
                        if fused.rank() == 0 {
                            fused.use_profile(profile(2, 4));
                        }
                        let tiles = call(&mut fused, 64).tiles;
                        told.push((tiles, *broadcasts.lock().unwrap()));
                    }
                    told
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].iter().all(|(tiles, count)| *count == 2 && *tiles == told[0][0].0));
}
