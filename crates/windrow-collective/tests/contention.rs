//! Lanes that compete for one processor: calibration sees it.
#![cfg(target_os = "linux")]

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use windrow::plan::cost::{Fitting, Joints};
use windrow::plan::tile::Contention;
use windrow_collective::{Calibration, Communicator, Element, Error, Fused, Group, Operation, Pace, Rank};
use windrow_sync::machine::Thread;

/// Longer than a tick of the scheduler, 4 ms, for which the caller may be away after each tile it hands over.
const WAIT: Duration = Duration::from_millis(5);

/// For each of 2048 to 4096 elements: several times as long, so that most of the processor's time is wanted by both lanes.
const STEPS: usize = 8000;

/// A rank whose all-reduce waits a little, as for a message, and computes: so many steps for each element, however long they take.
struct Busy {
    rank: Rank,
    steps: usize,
}

impl Communicator for Busy {
    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn size(&self) -> usize {
        self.rank.size()
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        thread::sleep(WAIT);
        let mut x = 1_u64;
        for _ in 0..self.steps * data.len() {
            x = black_box(x.wrapping_mul(6364136223846793005) ^ x >> 7);
        }
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

fn measured(steps: usize, cpu: usize) -> Contention {
    let fitting = Fitting { tolerance: 1e6, noise: 1e3, joints: Joints::Free };
    let how = Calibration { rows: vec![64, 96, 128], tiles: 3, repeats: 1, fitting, align: 1 };
    let run = move || {
        let this = Thread::this();
        let allowed = this.allowed();
        this.confine(&[allowed[cpu % allowed.len()]]);
        // The thread that communicates gets the same processor.
        let mut fused = Fused::new(Busy { rank: Group::new(1).ranks().remove(0), steps }).unwrap();
        let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, 32, 512, &how).unwrap();
        profile.contention()
    };
    thread::spawn(run).join().unwrap()
}

/// Both lanes together get one processor; which of them has to wait is up to the scheduler. Where that is idle otherwise, their speeds
/// add up to about one. Other programs take from the times alone as well, so the factors are smaller then, and there are some tries.
#[test]
fn lanes_that_share_a_processor_slow_each_other_down() {
    let mut tried = Vec::new();
    for cpu in 0..8 {
        let Contention { compute, communicate } = measured(STEPS, cpu);
        if compute.max(communicate) > 1.2 {
            return;
        }
        tried.push((compute, communicate));
    }
    panic!("measured were {tried:?}");
}
