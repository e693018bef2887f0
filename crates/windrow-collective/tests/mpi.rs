//! The same operations over MPI, in every process that `mpirun` starts. The README says how to run it.

use half::bf16;
use windrow_collective::{Calibration, Communicator, Error, Fused, Tiles, World};
use windrow_tiling::tile::Lane;

#[path = "it/common.rs"]
mod common;

use common::{Case, Number, OPERATIONS};

fn main() {
    let mut world = World::init().expect("MPI starts");
    assert!(World::init().is_err_and(|error| error.to_string().contains("started before")));
    collectives(&mut world);
    mismatches(&mut world);
    let mut fused = Fused::new(world).unwrap();
    for operation in OPERATIONS {
        let ranks = fused.size();
        for (each, n, k, gap) in [(24, 17, 40, 0), (0, 5, 4, 1), (5, 4, 0, 0), (5, 0, 4, 2), (37, 3, 50, 2)] {
            let case = Case { operation, ranks, each, n, k, gap };
            for tiles in [Tiles::None, Tiles::Uniform(3), Tiles::Uniform(9)] {
                for exact in [true, false] {
                    check::<f32>(&mut fused, case, &tiles, exact);
                    check::<f64>(&mut fused, case, &tiles, exact);
                    check::<bf16>(&mut fused, case, &tiles, exact);
                }
            }
        }
    }
    faults(&mut fused);
    profiles(&mut fused);
    let (rank, size) = (fused.rank(), fused.size());
    // The last rank leaves; the others get its error.
    if rank + 1 < size {
        let left = Error::Left { rank: size - 1, panicked: false };
        assert_eq!(fused.communicator().barrier(), Err(left.clone()));
        assert_eq!(fused.communicator().all_reduce(&mut [1.0_f32]), Err(left));
    }
    drop(fused);
    println!("rank {rank} of {size}: ok");
}

fn check<T: Number>(fused: &mut Fused<World>, case: Case, tiles: &Tiles, exact: bool) {
    let (result, outcome) = case.run::<T, _>(fused, tiles, exact);
    outcome.unwrap();
    case.compare(fused.rank(), &result, exact);
}

fn collectives(world: &mut World) {
    let (rank, size) = (world.rank(), world.size());
    let value = |rank: usize, at: usize| ((rank + 1) * (at % 7 + 1) % 11) as f32;
    for len in [0, 1, 5, 10_000] {
        let mine = |len: usize| (0..len).map(|at| value(rank, at)).collect::<Vec<f32>>();
        let sum = |at: usize| (0..size).map(|rank| value(rank, at)).sum::<f32>();
        let mut data = mine(len);
        world.all_reduce(&mut data).unwrap();
        assert!(data.iter().enumerate().all(|(at, &got)| got == sum(at)));
        let mut part = vec![0.0; len];
        world.reduce_scatter(&mine(len * size), &mut part).unwrap();
        assert!(part.iter().enumerate().all(|(at, &got)| got == sum(rank * len + at)));
        let mut all = vec![0.0; len * size];
        world.all_gather(&mine(len), &mut all).unwrap();
        assert!(all.iter().enumerate().all(|(at, &got)| got == value(at / len, at % len)));
        let mut cast = mine(len);
        world.broadcast(size - 1, &mut cast).unwrap();
        assert!(cast.iter().enumerate().all(|(at, &got)| got == value(size - 1, at)));
        let mut halves = vec![bf16::from_f32(1.0 + rank as f32); len];
        world.all_reduce(&mut halves).unwrap();
        assert!(halves.iter().all(|half| half.to_f32() == (size * (size + 1) / 2) as f32));
        world.barrier().unwrap();
    }
    // In rank order: without the first rank's 1 the sum would be another.
    let parts = [1.0_f64, 1e16, -1e16, 3.0];
    let mut data = [parts[rank % 4]];
    world.all_reduce(&mut data).unwrap();
    let expected = (1..size).fold(parts[0], |sum, rank| sum + parts[rank % 4]);
    assert_eq!(data, [expected]);
}

fn mismatches(world: &mut World) {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return;
    }
    let error = match rank {
        1 => world.barrier(),
        _ => world.all_reduce(&mut [1.0_f64; 8]),
    };
    assert_eq!(error.unwrap_err().to_string(), "rank 0 called all_reduce of 8 f64, rank 1 called barrier");
    let refused = if rank == 1 { world.refuse("no matrix") } else { world.barrier().unwrap_err() };
    assert_eq!(refused, Error::Refused { rank: 1, why: "no matrix".to_owned() });
    let root = world.broadcast(size, &mut [0_u64]).unwrap_err();
    assert_eq!(root, Error::Root { root: size, size });
    world.barrier().unwrap();
}

fn faults(fused: &mut Fused<World>) {
    let (rank, size) = (fused.rank(), fused.size());
    for round in 0..150 {
        let operation = OPERATIONS[round % 3];
        let case = Case { operation, ranks: size, each: 6, n: 3, k: 2, gap: 0 };
        let (who, where_, lane) = (round * 7 % size, round * 5 % 4, [Lane::Compute, Lane::Communicate][round / 3 % 2]);
        fused.watch(move |at, tile| {
            let hit = (rank, tile, at) == (who, where_, lane);
            if hit { Err("stop".to_owned()) } else { Ok(()) }
        });
        match case.run::<f32, _>(fused, &Tiles::Uniform(4), true).1.unwrap_err() {
            Error::Stopped { tile, .. } => assert_eq!((who, tile), (rank, where_)),
            error => assert!(matches!(error, Error::Refused { rank, .. } if rank == who), "{error}"),
        }
        fused.unwatch();
        check::<f64>(fused, case, &Tiles::Uniform(4), true);
    }
}

fn profiles(fused: &mut Fused<World>) {
    let rows = [1, 2, 3, 4].map(|x| 12 * x).to_vec();
    let how = Calibration { rows, tiles: 2, repeats: 2, align: 4, ..Calibration::default() };
    for operation in OPERATIONS {
        let profile = fused.calibrate::<f32>(operation, 5, 6, &how).unwrap();
        if fused.rank() == 0 {
            fused.use_profile(profile);
        }
        let case = Case { operation, ranks: fused.size(), each: 60, n: 5, k: 6, gap: 0 };
        check::<f32>(fused, case, &Tiles::Auto, true);
        fused.refine::<f32>(operation, [case.m(), 5, 6], 2).unwrap();
        check::<f32>(fused, case, &Tiles::Auto, true);
    }
}
