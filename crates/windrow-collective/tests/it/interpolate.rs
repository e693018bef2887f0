//! Profiles of shapes that were not measured.

use windrow_collective::{Measured, Operation, Profile, Profiles, ProfilesErrorKind, Shape, Stage};
use windrow_tiling::tile::Contention;

use crate::common::OPERATIONS;

const SIZES: [u64; 5] = [256, 512, 768, 1024, 2048];

/// A cost model: microseconds of m rows of a product.
struct Model {
    /// The time of a multiply-add, for n = k = 1.
    each: f64,
    /// It falls with n and k, by these powers.
    powers: [f64; 2],
    latency: f64,
    /// The time of an element.
    element: f64,
    /// The share by which each measured shape is off, one to the next.
    noise: f64,
}

const MODEL: Model = Model { each: 2e-5, powers: [0.05, 0.1], latency: 80.0, element: 3e-3, noise: 0.0 };

impl Model {
    fn time(&self, Shape { operation, n, k, .. }: &Shape, stage: Stage, m: u64) -> f64 {
        let [m, n, k] = [m as f64, *n as f64, *k as f64];
        match (stage, operation) {
            (Stage::Compute, _) => self.each * m * n * k * n.powf(-self.powers[0]) * k.powf(-self.powers[1]),
            (Stage::Communicate, Operation::AllGatherMatmul) => self.latency + self.element * m * k,
            (Stage::Communicate, _) => self.latency + self.element * m * n,
        }
    }

    fn profile(&self, shape: &Shape, sizes: &[u64], off: f64) -> Profile {
        let sample = |stage, m| Measured { stage, m, microseconds: self.time(shape, stage, m) * (1.0 + off) };
        let samples = sizes.iter().flat_map(|&m| [sample(Stage::Compute, m), sample(Stage::Communicate, m)]).collect();
        let contention = Contention { compute: 1.0 + shape.n as f64 / 4096.0, communicate: 1.5 };
        Profile::new(shape.clone(), samples, contention).unwrap()
    }

    /// Profiles of these n and k.
    fn measured(&self, operation: Operation, shapes: &[(usize, usize)]) -> Profiles {
        let mut profiles = Profiles::default();
        for (number, &(n, k)) in shapes.iter().enumerate() {
            let off = if number.is_multiple_of(2) { self.noise } else { -self.noise };
            profiles.insert("a", "ib0", self.profile(&shape(operation, n, k), &SIZES, off));
        }
        profiles
    }

    /// The largest share by which a profile misses the model.
    fn missed_by(&self, profile: &Profile) -> f64 {
        let misses = profile.samples().iter().map(|&Measured { stage, m, microseconds }| {
            (microseconds / self.time(profile.shape(), stage, m) - 1.0).abs()
        });
        misses.fold(0.0, f64::max)
    }
}

fn shape(operation: Operation, n: usize, k: usize) -> Shape {
    Shape { operation, element: "f32".to_owned(), ranks: 2, n, k }
}

fn grid() -> Vec<(usize, usize)> {
    [512, 1024, 2048].into_iter().flat_map(|n| [512, 1024, 2048].map(|k| (n, k))).collect()
}

#[test]
fn rates_between_measured_shapes_follow_from_them() {
    for operation in OPERATIONS {
        let profiles = MODEL.measured(operation, &grid());
        for (n, k) in [(768, 768), (512, 700), (2048, 1500), (1025, 1023), (600, 2048), (1999, 513)] {
            let profile = profiles.interpolated("a", "ib0", &shape(operation, n, k)).unwrap();
            assert_eq!(*profile.shape(), shape(operation, n, k));
            let missed = MODEL.missed_by(&profile);
            assert!(missed < 0.002, "{operation} {n} {k}: {missed}");
            assert!(profile.samples().len() == 2 * SIZES.len() && profile.margin().error < 0.02, "{profile:?}");
            let contention = profile.contention();
            assert!((contention.compute - 1.0 - n as f64 / 4096.0).abs() < 0.03, "{n}: {contention:?}");
            assert_eq!(contention.communicate, 1.5);
            // The plan is that of a measurement.
            let measured = MODEL.profile(profile.shape(), &SIZES, 0.0).with_contention(contention).unwrap();
            let (plan, other) = (profile.plan(4096).unwrap(), measured.plan(4096).unwrap());
            assert!((plan.predicted.0 / other.predicted.0 - 1.0).abs() < 0.005, "{plan} {other}");
        }
    }
}

/// A row of shapes, such as those with n = k, says nothing about others, and two are enough.
#[test]
fn shapes_in_a_row_are_a_range() {
    for operation in OPERATIONS {
        for (shapes, inside, outside) in [
            (&[(512, 512), (2048, 2048)][..], (1024, 1024), (1024, 512)),
            (&[(512, 512), (512, 2048), (512, 1024)], (512, 700), (513, 700)),
            (&[(256, 4096), (512, 2048), (2048, 512)], (1024, 1024), (1024, 1100)),
        ] {
            let profiles = MODEL.measured(operation, shapes);
            let profile = profiles.interpolated("a", "ib0", &shape(operation, inside.0, inside.1)).unwrap();
            let missed = MODEL.missed_by(&profile);
            assert!(missed < 0.002, "{operation} {inside:?}: {missed}");
            // Nothing can be left out, or one shape only: the error is assumed, and is that of plans.
            let interpolation = profile.interpolation().unwrap();
            assert_eq!((interpolation.error, interpolation.left_out, interpolation.outside), (0.1, 0, false));
            assert_eq!(profile.margin().error, 0.1);
            let refused = profiles.interpolated("a", "ib0", &shape(operation, outside.0, outside.1)).unwrap_err();
            assert_eq!(refused.kind(), ProfilesErrorKind::Outside);
        }
    }
}

#[test]
fn outside_of_the_range_only_if_asked_for() {
    let operation = Operation::MatmulAllReduce;
    let profiles = MODEL.measured(operation, &grid());
    let far = shape(operation, 4096, 1024);
    let refused = profiles.interpolated("a", "ib0", &far).unwrap_err();
    assert_eq!(refused.kind(), ProfilesErrorKind::Outside);
    let says = "n = 4096, k = 1024 is outside the range of the measured shapes: n = 2048, k = 1024, ";
    assert!(refused.to_string().starts_with(says) && refused.to_string().ends_with(", ..."), "{refused}");
    let profile = profiles.extrapolated("a", "ib0", &far).unwrap();
    assert!(profile.interpolation().unwrap().outside);
    // With the rates of the nearest shape, which has half as many columns.
    let near = profiles.get("a", "ib0", &shape(operation, 2048, 1024)).unwrap();
    for Measured { stage, m, microseconds } in profile.samples() {
        let same = |sample: &&Measured| (sample.stage, sample.m) == (*stage, *m);
        let measured = near.samples().iter().find(same).unwrap().microseconds;
        assert!((microseconds / (2.0 * measured) - 1.0).abs() < 1e-6, "{stage:?} {m}: {microseconds} {measured}");
    }
    // Inside of the range, both are the same.
    let inside = shape(operation, 700, 900);
    assert_eq!(
        profiles.extrapolated("a", "ib0", &inside).unwrap(),
        profiles.interpolated("a", "ib0", &inside).unwrap()
    );
}

#[test]
fn the_error_is_that_of_shapes_that_are_left_out() {
    let operation = Operation::MatmulReduceScatter;
    let margin = |noise| {
        let profiles = Model { noise, ..MODEL }.measured(operation, &grid());
        let profile = profiles.interpolated("a", "ib0", &shape(operation, 700, 700)).unwrap();
        let interpolation = profile.interpolation().unwrap().clone();
        // Five of nine are surrounded by others: all but the corners.
        assert_eq!((interpolation.left_out, interpolation.from.len()), (5, 9));
        assert_eq!(interpolation.from[0], (512, 512), "the nearest first");
        assert_eq!(profile.margin().error, interpolation.error.max(0.01));
        interpolation.error
    };
    // Contention is no power of n here.
    assert!(margin(0.0) < 0.015, "{}", margin(0.0));
    // Neighbours are off to opposite sides.
    let (some, much) = (margin(0.03), margin(0.1));
    assert!((0.03..0.09).contains(&some) && (0.1..0.3).contains(&much), "{some} {much}");
}

#[test]
fn what_was_measured_is_not_interpolated() {
    let operation = Operation::AllGatherMatmul;
    let mut profiles = MODEL.measured(operation, &grid());
    let known = shape(operation, 1024, 2048);
    assert_eq!(profiles.interpolated("a", "ib0", &known).unwrap(), *profiles.get("a", "ib0", &known).unwrap());
    // An interpolated profile can be kept. It says what it is, and is no measurement.
    let between = shape(operation, 700, 700);
    let made = profiles.interpolated("a", "ib0", &between).unwrap();
    profiles.insert("a", "ib0", made.clone());
    let read = Profiles::from_json(&profiles.to_json()).unwrap();
    assert_eq!(read.interpolated("a", "ib0", &between).unwrap(), made);
    let other = read.interpolated("a", "ib0", &shape(operation, 701, 701)).unwrap();
    assert_eq!(other.interpolation().unwrap().from.len(), 9);

    for (machine, link, shape) in [
        ("b", "ib0", between.clone()),
        ("a", "ib1", between.clone()),
        ("a", "ib0", Shape { ranks: 4, ..between.clone() }),
        ("a", "ib0", Shape { element: "f64".to_owned(), ..between.clone() }),
        ("a", "ib0", Shape { operation: Operation::MatmulAllReduce, ..between.clone() }),
    ] {
        let refused = profiles.extrapolated(machine, link, &shape).unwrap_err();
        assert_eq!(refused.kind(), ProfilesErrorKind::Missing, "{refused}");
    }
}

/// Shapes that were measured at other sizes: those count that lie within the sizes of all.
#[test]
fn sizes_are_those_that_all_shapes_have() {
    let operation = Operation::MatmulAllReduce;
    let mut profiles = Profiles::default();
    let mut add = |n, sizes: &[u64]| profiles.insert("a", "ib0", MODEL.profile(&shape(operation, n, 512), sizes, 0.0));
    add(512, &[64, 256, 512, 1024]);
    add(2048, &[128, 384, 768, 4096]);
    let profile = profiles.interpolated("a", "ib0", &shape(operation, 1024, 512)).unwrap();
    let sizes: Vec<u64> = profile.samples().iter().map(|sample| sample.m).collect();
    assert_eq!(sizes, [128, 128, 256, 256, 384, 384, 512, 512, 768, 768, 1024, 1024]);
    assert!(MODEL.missed_by(&profile) < 0.002, "{}", MODEL.missed_by(&profile));

    let mut profiles = Profiles::default();
    let mut add = |n, sizes: &[u64]| profiles.insert("a", "ib0", MODEL.profile(&shape(operation, n, 512), sizes, 0.0));
    add(512, &[64, 128, 256]);
    add(2048, &[256, 512, 1024]);
    let refused = profiles.interpolated("a", "ib0", &shape(operation, 1024, 512)).unwrap_err();
    assert_eq!(refused.kind(), ProfilesErrorKind::Missing);
    assert!(refused.to_string().contains("too few sizes in common: 1"), "{refused}");
}
