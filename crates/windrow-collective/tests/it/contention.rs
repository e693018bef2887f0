//! Calibration measures how lanes slow each other down.

use std::thread;
use std::time::Duration;

use windrow_collective::{Calibration, Communicator, Element, Error, Fused, Group, Operation, Pace, Profile, Rank};

/// Communication time of a tile while nothing is computed.
const ALONE: Duration = Duration::from_millis(2);

/// Communication time of a tile while tiles are computed: so much more that the delays of a busy machine cannot hide it.
const BESIDE: Duration = Duration::from_millis(40);

/// A rank that communicates a tile for a fixed time, longer while tiles are computed.
struct Slowed {
    rank: Rank,
    /// Tiles that are communicated alone: the first ones.
    alone: usize,
}

impl Communicator for Slowed {
    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn size(&self) -> usize {
        self.rank.size()
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        thread::sleep(if self.alone > 0 { ALONE } else { BESIDE });
        self.alone = self.alone.saturating_sub(1);
        self.rank.all_reduce(data)
    }

    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.rank.reduce_scatter(input, output)
    }

    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.rank.all_gather(input, output)
    }

    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error> {
        self.rank.broadcast(root, data)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.rank.barrier()
    }

    fn refuse(&mut self, why: &str) -> Error {
        self.rank.refuse(why)
    }

    fn pace(&self) -> Option<Pace> {
        self.rank.pace()
    }
}

/// The computation alone, the communication alone, and then both at once.
#[test]
fn a_lane_that_the_other_slows_down_is_found() {
    let how = Calibration { rows: vec![64, 96, 128], tiles: 3, repeats: 1, align: 1, ..Calibration::default() };
    // Of each size, as many tiles as have the rows of two of the largest; at least three.
    let alone = 4 + 3 + 3;
    let calibrated = || {
        let mut fused = Fused::new(Slowed { rank: Group::new(1).ranks().remove(0), alone }).unwrap();
        fused.calibrate::<f32>(Operation::MatmulAllReduce, 32, 512, &how).unwrap()
    };
    // On a busy machine a tile of computation may seem so long that almost none runs beside the communication.
    let is_found = |profile: &Profile| profile.contention().communicate > 1.5;
    let profile =
        (0..20).map(|_| calibrated()).find(is_found).expect("it is found on a machine that runs this now and then");
    // The samples hold only the time alone.
    let alone = profile.samples().iter().filter(|sample| sample.microseconds >= ALONE.as_secs_f64() * 1e6);
    assert!(alone.count() >= 3, "{:?}", profile.samples());
}
