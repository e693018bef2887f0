//! Measured timelines as JSON.

use windrow_collective::{Fused, Group, MatMut, MatRef, MeasuredTimeline, Tiles};
use windrow_tiling::Rows;
use windrow_tiling::tile::Lane;

#[test]
fn an_outcome_is_kept_as_json() {
    let mut rank = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
    let (a, b, mut c) = ([1.0_f32; 96 * 8], [1.0_f32; 8 * 8], [0.0; 96 * 8]);
    let (a, b, c) = (MatRef::new(&a, 96, 8), MatRef::new(&b, 8, 8), MatMut::new(&mut c, 96, 8));
    let outcome = rank.matmul_all_reduce(a, b, c, &Tiles::Uniform(3)).unwrap();
    let measured = MeasuredTimeline::from(&outcome);
    assert_eq!(measured.tiles.iter().collect::<Vec<_>>(), [Rows(32); 3]);
    assert_eq!(measured.spans(Lane::Compute), outcome.trace.compute);
    assert_eq!(measured.spans(Lane::Communicate), outcome.trace.communicate);
    assert_eq!((measured.end, measured.elapsed, measured.predicted), (outcome.trace.end, outcome.elapsed, None));
    assert!(measured.end <= measured.elapsed);

    let json = serde_json::to_string(&measured).unwrap();
    let read: MeasuredTimeline = serde_json::from_str(&json).unwrap();
    // A time in microseconds may differ in its last digit.
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs();
    for lane in [Lane::Compute, Lane::Communicate] {
        for (one, other) in measured.spans(lane).iter().zip(read.spans(lane)) {
            assert!(near(one.start.0, other.start.0) && near(one.end.0, other.end.0), "{one:?} {other:?}");
        }
    }
    assert!(
        read.tiles == measured.tiles && near(read.end.0, measured.end.0) && near(read.elapsed.0, measured.elapsed.0)
    );
    for (from, to) in [("\"schema\":1", "\"schema\":2"), ("\"tiles\":[32,", "\"tiles\":[32,1,")] {
        assert!(json.contains(from), "{json}");
        assert!(serde_json::from_str::<MeasuredTimeline>(&json.replace(from, to)).is_err(), "{to}");
    }
}
