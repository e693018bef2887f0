//! Random overlapped runs with injected faults, and what a serial run of the same tiles would have come to.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::thread;

use windrow::CancelToken;
use windrow::overlap::{self, Failure, LaneKind, Overlap};
use windrow::prelude::*;

use crate::Rng;

/// A counted tile.
#[derive(Debug)]
pub struct Tile<'a> {
    live: &'a AtomicIsize,
    number: usize,
    value: u64,
}

impl Drop for Tile<'_> {
    fn drop(&mut self) {
        assert!(self.live.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

/// What lanes do beside their arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inside {
    /// No call.
    Nothing,
    /// A parallel call.
    Region,
    /// An overlapped run.
    Overlap,
}

/// One lane.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// What carries its steps.
    pub kind: LaneKind,
    /// Tiles that may wait behind it.
    pub ahead: usize,
    /// Calls in each step.
    pub inside: Inside,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// The step returns an error.
    Error,
    /// The step panics.
    Panic,
    /// The run is cancelled.
    CancelToken,
}

/// What goes wrong in one step.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// In which tile.
    pub tile: usize,
    /// In which lane.
    pub lane: usize,
    /// What happens.
    pub how: How,
}

/// One run. The last lane records what passes it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Tiles of the run.
    pub tiles: usize,
    /// The lanes, in order.
    pub lanes: Vec<Lane>,
    /// Given by a thread that does not end with the run.
    pub fed: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// All kinds of lanes.
pub const KINDS: [LaneKind; 3] = [LaneKind::Compute, LaneKind::ComputeEach, LaneKind::Blocking];

/// What an injected panic carries.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Thrown(usize, usize);

/// What an injected error is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Refused(usize, usize);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {} refuses tile {}", self.1, self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    All,
    Error(usize, usize),
    Panic(usize, usize),
    Cancelled,
}

fn through(value: u64, lane: usize) -> u64 {
    (value ^ lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

impl Case {
    /// With so many faults. A seed gives the same run each time.
    pub fn random(seed: u64, faults: usize) -> Case {
        let mut rng = Rng(seed);
        let lanes: Vec<Lane> = (0..1 + rng.index(4))
            .map(|_| Lane {
                kind: KINDS[rng.index(KINDS.len())],
                ahead: 1 + rng.index(3),
                inside: match rng.index(12) {
                    0 => Inside::Region,
                    1 => Inside::Overlap,
                    _ => Inside::Nothing,
                },
            })
            .collect();
        let tiles = [usize::from(faults > 0), 1, 2, 3 + rng.index(20), 3 + rng.index(20)][rng.index(5)];
        let fault = |rng: &mut Rng| Fault {
            tile: rng.index(tiles),
            lane: rng.index(lanes.len()),
            how: [How::Error, How::Panic, How::CancelToken][rng.index(3)],
        };
        let faults = (0..faults).map(|_| fault(&mut rng)).collect();
        Case { tiles, fed: rng.index(3) == 0, faults, lanes }
    }

    fn fault(&self, tile: usize, lane: usize) -> Option<How> {
        self.faults.iter().find(|fault| (fault.tile, fault.lane) == (tile, lane)).map(|fault| fault.how)
    }

    /// One tile after the other, through all lanes; a cancellation is heard at once, or never.
    fn serial(&self, heard: bool) -> (Vec<u64>, End) {
        let mut values = Vec::new();
        for tile in 0..self.tiles {
            for lane in 0..self.lanes.len() {
                match self.fault(tile, lane) {
                    None => {}
                    Some(How::Error) => return (values, End::Error(tile, lane)),
                    Some(How::Panic) => return (values, End::Panic(tile, lane)),
                    Some(How::CancelToken) if heard => return (values, End::Cancelled),
                    Some(How::CancelToken) => {}
                }
            }
            values.push((0..self.lanes.len()).fold(tile as u64, through));
        }
        (values, End::All)
    }

    /// The most tiles that may be anywhere at once.
    fn most_in_flight(&self) -> usize {
        // The fed queue; the queue after each lane (the recording one is last); the last lane's own.
        let threads = windrow::current_num_threads();
        let own = |lane: &Lane| {
            lane.ahead
                + match lane.kind {
                    // One of them is the result that would wait anyway.
                    LaneKind::ComputeEach if threads > 1 => 2 * threads - 1,
                    _ => 0,
                }
        };
        // One more is in the feeder's hands.
        let fed = if self.fed { self.lanes[0].ahead + 1 } else { 0 };
        fed + self.lanes.iter().map(own).sum::<usize>() + 1
    }

    /// Runs it, and holds everything against the serial run.
    pub fn check(&self) {
        let live = AtomicIsize::new(0);
        let most = AtomicIsize::new(0);
        let stops = self.faults.iter().any(|fault| fault.how == How::CancelToken);
        let (expected, expected_end) = self.serial(!stops);
        let (seen, end) = thread::scope(|scope| self.run(scope, &live, &most));
        // All threads have ended: nothing is alive.
        assert_eq!(live.load(Relaxed), 0, "leaked in {self:?}");
        let most = most.load(Relaxed) as usize;
        assert!(most <= self.most_in_flight(), "{most} tiles at once in {self:?}");
        if stops {
            // When that is noticed is open (the tile in hand may still go through), and so is which fault comes first; but all are in order.
            assert!(end != End::All && expected.starts_with(&seen), "{end:?}, {seen:?} in {self:?}");
            assert!(self.faults.len() > 1 || end == End::Cancelled, "{end:?} in {self:?}");
        } else {
            assert_eq!((&seen, end), (&expected, expected_end), "in {self:?}");
        }
    }

    fn run<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        live: &'env AtomicIsize,
        most: &'env AtomicIsize,
    ) -> (Vec<u64>, End) {
        let make = move |number| {
            most.fetch_max(live.fetch_add(1, Relaxed) + 1, Relaxed);
            Tile { live, number, value: number as u64 }
        };
        let (token, ended) = (CancelToken::new(), AtomicUsize::new(0));

        let mut overlap: Overlap<'_, Tile<'env>, Refused> = if self.fed {
            let (mut feeder, tiles) = overlap::fed();
            scope.spawn(move || (0..self.tiles).all(|number| feeder.push(make(number)).is_ok()));
            tiles.ahead(self.lanes[0].ahead)
        } else {
            overlap::source((0..self.tiles).map(make))
        };
        for (at, &Lane { kind, ahead, inside }) in self.lanes.iter().enumerate() {
            let name = format!("lane {at}");
            let token = token.clone();
            let work = move |mut tile: Tile<'env>| {
                run_inside(inside);
                tile.value = through(tile.value, at);
                match self.fault(tile.number, at) {
                    None => Ok(tile),
                    Some(How::Panic) => resume_unwind(Box::new(Thrown(tile.number, at))),
                    Some(How::Error) => Err(Refused(tile.number, at)),
                    Some(How::CancelToken) => {
                        token.cancel();
                        Ok(tile)
                    }
                }
            };
            overlap = match kind {
                LaneKind::Compute => overlap.compute(&name, work),
                LaneKind::ComputeEach => overlap.compute_each(&name, work),
                LaneKind::Blocking => overlap.blocking(&name, work),
            };
            overlap = if at % 2 == 0 { overlap.ahead(ahead) } else { overlap.ahead(9).weigh(ahead, |_| 1) };
        }
        let mut seen = Vec::new();
        let record = |tile: Tile<'_>| {
            seen.push(tile.value);
            ended.fetch_add(1, Relaxed);
            Ok(())
        };
        let overlap = match self.lanes.len() % 2 {
            0 => overlap.compute("record", record),
            _ => overlap.blocking("record", record),
        };
        // With a token there are looks in between, which would hide a wake-up that is missing.
        let stops = self.faults.iter().any(|fault| fault.how == How::CancelToken);
        let overlap = if stops { overlap.with_cancel(&token) } else { overlap };
        let result = catch_unwind(AssertUnwindSafe(|| overlap.run()));
        let end = match result {
            Ok(Ok(tiles)) => {
                assert_eq!(tiles, self.tiles);
                End::All
            }
            Ok(Err(Failure::Error { tile, lane, error, .. })) => {
                assert_eq!(error, Refused(tile, lane));
                End::Error(tile, lane)
            }
            Ok(Err(Failure::Cancelled { tiles })) => {
                assert_eq!(tiles, ended.load(Relaxed));
                End::Cancelled
            }
            Ok(Err(other)) => panic!("{other} in {self:?}"),
            Err(payload) => {
                let &Thrown(tile, lane) = payload.downcast_ref().expect("an injected panic");
                End::Panic(tile, lane)
            }
        };
        (seen, end)
    }
}

fn run_inside(inside: Inside) {
    match inside {
        Inside::Nothing => {}
        Inside::Region => {
            let sum: usize = (0..100usize).into_par_iter().with_claim_size(1).map(|i| i * i).sum();
            assert_eq!(sum, 328_350);
        }
        Inside::Overlap => {
            let tiles = overlap::source(0..3u32).blocking("inner", |i| Ok::<_, ()>(i + 1));
            match tiles.compute("outer", |i| Ok(i * 2)).collect() {
                Ok(results) => assert_eq!(results, [2, 4, 6]),
                Err(failure) => assert!(CancelToken::current().is_cancelled(), "{failure:?}"),
            }
        }
    }
}
