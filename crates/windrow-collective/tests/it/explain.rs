//! Every kind of call in one `explain`: the tests of windrow cover what windrow tells, and this test adds the plans of tiles.

use std::thread;

use windrow::batch::Batched;
use windrow::prelude::*;
use windrow::{CallKind, Explained};
use windrow_collective::{Calibration, Fused, Group, MatMut, MatRef, Operation, Tiles};
use windrow_testkit::Sum;

fn products(rank: windrow_collective::Rank, tiles: &Tiles) -> Result<Vec<Explained>, windrow_collective::Error> {
    let mut fused = Fused::new(rank)?;
    let rows = vec![16, 32, 48, 64];
    let how = Calibration { rows, repeats: 9, align: 16, ..Calibration::default() };
    let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, 8, 8, &how)?;
    fused.use_profile(profile);
    let (a, b, mut c) = ([1.0_f32; 96 * 8], [1.0_f32; 8 * 8], [0.0; 96 * 8]);
    let (a, b, c) = (MatRef::new(&a, 96, 8), MatRef::new(&b, 8, 8), MatMut::new(&mut c, 96, 8));
    let batched = Batched::new(Sum(0));
    let (outcome, why) = windrow::explain(|| {
        (0..100u32).into_par_iter().for_each(|_| ());
        windrow::join(|| (), || ());
        [3, 1, 2].par_sort();
        windrow::team(&mut ()).run(|_| ());
        batched.call(1).unwrap();
        windrow::overlap::source(0..20u32).compute("odd", |i| Ok::<_, ()>(i | 1)).collect().unwrap();
        fused.matmul_all_reduce(a, b, c, tiles)
    });
    outcome?;
    Ok(why)
}

#[test]
fn all_seven_shapes_are_heard() {
    for tiles in [Tiles::Auto, Tiles::Uniform(3)] {
        let heard = thread::scope(|scope| {
            let ranks = Group::new(2).ranks().into_iter();
            let running: Vec<_> = ranks.map(|rank| scope.spawn(|| products(rank, &tiles))).collect();
            running.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect::<Vec<_>>()
        });
        for (rank, why) in heard.iter().enumerate() {
            let kinds: Vec<CallKind> = why.iter().map(Explained::kind).collect();
            let expected = [
                CallKind::Loop,
                CallKind::Join,
                CallKind::Sort,
                CallKind::Team,
                CallKind::Batch,
                CallKind::Overlap,
                CallKind::Plan,
            ];
            assert_eq!(kinds, expected, "{why:#?}");
            assert!(why.iter().all(|why| why.place().is_some_and(|place| place.file() == file!())), "{why:#?}");
            let plan = &why[6];
            match (&tiles, rank) {
                (Tiles::Auto, 0) => assert_eq!(plan.alternatives().next().unwrap().0, "in one tile", "{plan}"),
                (Tiles::Auto, _) => assert_eq!(plan.reason(), "as rank 0 decided"),
                _ => assert_eq!((plan.reason(), plan.count()), ("the tiles were given", 3)),
            }
        }
    }
}
