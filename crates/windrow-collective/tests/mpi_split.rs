//! Ranks of communicators that the program has split, in a program that has started MPI. Runs in every process that `mpirun` starts. The
//! README says how.

use std::thread;

use mpi::Threading;
use mpi::point_to_point::{Destination, Source};
use mpi::request;
use mpi::topology::{Color, Communicator as _, SimpleCommunicator};
use mpi::traits::CommunicatorCollectives;
use windrow_collective::{Communicator, Error, Fused, MpiRank, Tiles, World};
use windrow_tiling::tile::Lane;

#[path = "it/common.rs"]
mod common;

use common::{Case, Number, OPERATIONS};

fn main() {
    let early = MpiRank::duplicate_of(&SimpleCommunicator::world()).unwrap_err().to_string();
    assert!(early.starts_with("mpi has not been started\nhint: "), "{early}");
    let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized).expect("MPI starts");
    assert!(threading >= Threading::Serialized);
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let started = World::init().unwrap_err().to_string();
    assert!(started.contains("was already started") && started.contains("duplicate_of"), "{started}");

    // The whole of it, in another order of ranks; two groups of equal sizes, and two of different ones.
    groups(&world, 0, -rank);
    groups(&world, rank % 2, rank);
    groups(&world, i32::from(rank > 0), -rank);
    if size == 4 {
        grid(&world);
    }
    some(&world);

    // MPI is the program's: it goes on after the last rank of windrow.
    world.barrier();
    let rank_left = MpiRank::duplicate_of(&world).unwrap();
    println!("rank {rank} of {size}: ok");
    // MPI ends first. That is not allowed, but does not crash.
    drop(universe);
    drop(rank_left);
    let late = MpiRank::duplicate_of(&SimpleCommunicator::world()).unwrap_err().to_string();
    assert!(late.starts_with("mpi has ended"), "{late}");
}

/// Each group runs the products at the same time as the other ones, with other sizes and another number of calls.
fn groups(world: &SimpleCommunicator, color: i32, key: i32) {
    let group = world.split_by_color_with_key(Color::with_value(color), key).expect("each process has a color");
    let mut fused = Fused::new(MpiRank::duplicate_of(&group).unwrap()).unwrap();
    assert_eq!((fused.rank(), fused.size()), (group.rank() as usize, group.size() as usize));
    own_messages(&group, || products(&mut fused, color as usize));
    faults(&mut fused, 1 + color as usize);
    let (rank, size) = (fused.rank(), fused.size());
    if rank + 1 < size {
        // The last rank leaves; the others of its group get its error, and no others.
        assert_eq!(fused.communicator().barrier(), Err(Error::Left { rank: size - 1, panicked: false }));
    }
}

/// The program's messages of the same communicator are under way meanwhile. A receive from any rank gets them.
fn own_messages(group: &SimpleCommunicator, run: impl FnOnce()) {
    let (rank, size) = (group.rank(), group.size());
    let (sent, mut got) = ([rank], [-1]);
    request::scope(|scope| {
        let receives = group.any_process().immediate_receive_into(scope, &mut got[..]);
        run();
        let sends = group.process_at_rank((rank + 1) % size).immediate_send(scope, &sent[..]);
        receives.wait();
        sends.wait();
    });
    assert_eq!(got, [(rank + size - 1) % size]);
}

fn products(fused: &mut Fused<MpiRank>, color: usize) {
    for operation in OPERATIONS {
        let case = Case { operation, ranks: fused.size(), each: 24 + 7 * color, n: 17 - 5 * color, k: 9, gap: 1 };
        for tiles in [Tiles::None, Tiles::Uniform(3 + color), Tiles::Uniform(8)] {
            check::<f32>(fused, case, &tiles, true);
            check::<f64>(fused, case, &tiles, false);
            check::<half::bf16>(fused, case, &tiles, false);
        }
    }
}

fn check<T: Number>(fused: &mut Fused<MpiRank>, case: Case, tiles: &Tiles, exact: bool) {
    let (result, outcome) = case.run::<T, _>(fused, tiles, exact);
    outcome.unwrap();
    case.compare(fused.rank(), &result, exact);
}

/// A fault of one rank is an error of its group alone.
fn faults(fused: &mut Fused<MpiRank>, step: usize) {
    let (rank, ranks) = (fused.rank(), fused.size());
    for round in (0..24).step_by(step) {
        let case = Case { operation: OPERATIONS[round % 3], ranks, each: 6, n: 3, k: 2, gap: 0 };
        let (faulty, at, lane) = (round % ranks, round % 4, [Lane::Compute, Lane::Communicate][round / 3 % 2]);
        fused.watch(move |watched, tile| {
            let hit = (rank, tile, watched) == (faulty, at, lane);
            if hit { Err("stop".to_owned()) } else { Ok(()) }
        });
        match case.run::<f32, _>(fused, &Tiles::Uniform(4), true).1.unwrap_err() {
            Error::Stopped { tile, .. } => assert_eq!((faulty, at), (rank, tile)),
            error => assert!(matches!(error, Error::Refused { rank, .. } if rank == faulty), "{error}"),
        }
        fused.unwatch();
        check::<f64>(fused, case, &Tiles::Uniform(4), true);
    }
}

/// Each process is in a row and in a column, and computes in both at once: from two threads, with their two communication threads.
fn grid(world: &SimpleCommunicator) {
    let rank = world.rank();
    let line = |color| {
        let line = world.split_by_color(Color::with_value(color)).expect("each process has a color");
        Fused::new(MpiRank::duplicate_of(&line).unwrap()).unwrap()
    };
    let (mut row, mut column) = (line(rank / 2), line(rank % 2));
    for _ in 0..3 {
        thread::scope(|scope| {
            scope.spawn(|| products(&mut row, 0));
            products(&mut column, 1);
        });
    }
}

/// A process without a color has no rank; the others go on without it.
fn some(world: &SimpleCommunicator) {
    let color = if world.rank() == 0 { Color::undefined() } else { Color::with_value(0) };
    if let Some(group) = world.split_by_color(color) {
        products(&mut Fused::new(MpiRank::duplicate_of(&group).unwrap()).unwrap(), 0);
    }
}
