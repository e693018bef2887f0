//! The same operations over MPI, in every process that `mpirun` starts. The README says how to run it.

use half::bf16;
use windrow_collective::{Calibration, Call, Communicator, Error, Fused, Tiles, World};
use windrow_tiling::tile::Lane;

#[path = "it/common.rs"]
mod common;

use common::{Case, Number, OPERATIONS};

fn main() {
    let mut world = World::init().expect("MPI starts");
    assert!(World::init().is_err_and(|error| error.to_string().contains("already started")));
    collectives(&mut world);
    rank_order(&mut world);
    mismatches(&mut world);
    announced(&mut world);
    sums_of_mpi(&mut world);
    let mut fused = Fused::new(world).unwrap();
    products(&mut fused);
    faults(&mut fused);
    fused.communicator().mpi_sums(true).unwrap();
    products(&mut fused);
    faults(&mut fused);
    fused.communicator().mpi_sums(false).unwrap();
    profiles(&mut fused);
    let (rank, size) = (fused.rank(), fused.size());
    // The last rank leaves, although it has announced another call; the others get its error.
    fused.communicator().announce(&[all_reduce(3)]);
    if rank + 1 < size {
        let left = Error::Left { rank: size - 1, panicked: false };
        assert_eq!(fused.communicator().all_reduce(&mut [1.0_f32; 3]), Err(left.clone()));
        assert_eq!(fused.communicator().barrier(), Err(left));
    }
    drop(fused);
    println!("rank {rank} of {size}: ok");
}

fn products(fused: &mut Fused<World>) {
    for operation in OPERATIONS {
        let ranks = fused.size();
        for (each, n, k, gap) in [(24, 17, 40, 0), (0, 5, 4, 1), (5, 4, 0, 0), (5, 0, 4, 2), (37, 3, 50, 2)] {
            let case = Case { operation, ranks, each, n, k, gap };
            for tiles in [Tiles::None, Tiles::Uniform(3), Tiles::Uniform(9)] {
                for exact in [true, false] {
                    check::<f32>(fused, case, &tiles, exact);
                    check::<f64>(fused, case, &tiles, exact);
                    check::<bf16>(fused, case, &tiles, exact);
                }
            }
        }
    }
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
    // In rank order, of numbers whose sum depends on it. MPI may add up `f64` in another order, but `u64` have one sum.
    let mut data = [u64::MAX / 2 + rank as u64];
    world.all_reduce(&mut data).unwrap();
    assert_eq!(data, [(0..size as u64).fold(0_u64, |sum, rank| sum.wrapping_add(u64::MAX / 2 + rank))]);
}

fn rank_order(world: &mut World) {
    let (rank, size) = (world.rank(), world.size());
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
    assert_eq!(error.unwrap_err().to_string(), "rank 0 called all_reduce of 8 f64, but rank 1 called barrier");
    let refused = if rank == 1 { world.refuse("no matrix") } else { world.barrier().unwrap_err() };
    assert_eq!(refused, Error::Refused { rank: 1, why: "no matrix".to_owned() });
    let root = world.broadcast(size, &mut [0_u64]).unwrap_err();
    assert_eq!(root, Error::Root { root: size, size });
    world.barrier().unwrap();
}

fn all_reduce(len: usize) -> Call {
    Call { name: "all_reduce", element: "f32", gives: len, gets: len, root: None }
}

/// Announced calls are not compared, and yet a fault of one rank is an error of all.
fn announced(world: &mut World) {
    let (rank, size) = (world.rank(), world.size());
    let sum = (size * (size + 1) / 2) as f32;
    let scatter = Call { name: "reduce_scatter", element: "f64", gives: 3 * size, gets: 3, root: None };
    let gather = Call { name: "all_gather", element: "u64", gives: 2, gets: 2 * size, root: None };
    for faulty in [None, Some(0), Some(size - 1)] {
        for at in 0..4 {
            world.announce(&[all_reduce(5), scatter, gather, all_reduce(1)]);
            let refuses = |call: usize| faulty.is_some() && at == call;
            let mut fails = None;
            for call in 0..4 {
                if refuses(call) && faulty == Some(rank) {
                    fails = Some((call, world.refuse("no data")));
                    break;
                }
                let mut data = [(rank + 1) as f32; 5];
                let (mut part, mut all) = ([0.0; 3], vec![0; 2 * size]);
                let done = match call {
                    0 => world.all_reduce(&mut data),
                    1 => world.reduce_scatter(&vec![(rank + 1) as f64; 3 * size], &mut part),
                    2 => world.all_gather(&[rank as u64; 2], &mut all),
                    _ => world.all_reduce(&mut data[..1]),
                };
                if let Err(error) = done {
                    fails = Some((call, error));
                    break;
                }
                match call {
                    1 => assert_eq!(part, [f64::from(sum); 3]),
                    2 => assert!(all.iter().enumerate().all(|(place, &from)| from == place as u64 / 2)),
                    _ => assert_eq!(data[0], sum),
                }
            }
            let refused = |rank| (at, Error::Refused { rank, why: "no data".to_owned() });
            assert_eq!(fails, faulty.map(refused));
            world.barrier().unwrap();
        }
    }
    if size > 1 {
        // Not what was announced: an error of all ranks again.
        world.announce(&[all_reduce(5), scatter]);
        let error = match rank {
            1 => world.barrier(),
            _ => world.all_reduce(&mut [1.0_f32; 5]),
        };
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "rank 1 gave up: called barrier, but announced all_reduce of 5 f32");
        world.barrier().unwrap();
    }
}

/// MPI adds up: within the bound of any order.
fn sums_of_mpi(world: &mut World) {
    let (rank, size) = (world.rank(), world.size());
    if size > 1 {
        let error = if rank == 0 { world.mpi_sums(true) } else { world.mpi_sums(false) }.unwrap_err();
        assert_eq!(error.to_string(), "rank 0 called mpi_sums(true), but rank 1 called mpi_sums(false)");
        let error = if rank == 0 { world.mpi_sums(true) } else { world.barrier() }.unwrap_err();
        assert_eq!(error.to_string(), "rank 0 called mpi_sums(true), but rank 1 called barrier");
    }
    world.mpi_sums(true).unwrap();
    collectives(world);
    announced(world);
    let part = |rank: usize, at: usize| ((rank * 31 + at * 17) % 23) as f32 / 7.0 - 1.5;
    let mut data: Vec<f32> = (0..5000).map(|at| part(rank, at)).collect();
    world.all_reduce(&mut data).unwrap();
    for (at, &got) in data.iter().enumerate() {
        let parts = || (0..size).map(|rank| f64::from(part(rank, at)));
        let error = (f64::from(got) - parts().sum::<f64>()).abs();
        assert!(error <= size as f64 * f64::powi(2.0, -24) * parts().map(f64::abs).sum::<f64>(), "{error} at {at}");
    }
    world.mpi_sums(false).unwrap();
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
