//! The workers of the pool that help in the lanes of a run that take several tiles at once.
//!
//! In short: the calling thread opens a region, the workers that join take tiles until they have waited for one as long as a tile lasts, and
//! go back to the pool.
//! 1. Before a tile has been timed, workers stand by: they join if the first tile lasts as long as a wake (as in `runtime::region`).
//! 2. The door stays closed for tiles shorter than a wake: to hand them over would cost more than it saves.
//! 3. *Patience.* If one thread is too slow for the tiles that come, and `n` threads are enough, then each of the `n` waits for less than a
//!    tile lasts. So a worker that has waited longer than that is not needed, and leaves. Parallel calls inside of tiles, and of other
//!    callers, get it.
//! 4. A worker joins a region once. If tiles come while all members are busy, and workers have left, the rest is called back. Then the
//!    calling thread leaves the region and opens another one.
//!
//! A run never waits for a worker that has not joined: the calling thread takes tiles, too.

use std::cell::Cell;
use std::time::{Duration, Instant};

use windrow_plan::machine::WorkerState;
use windrow_sync::gate::{Door, JoinedWorker};
use windrow_sync::machine::tick;

use super::crew::Crew;
use super::run::{EachLane, OverlapRun, Station, Step};
use crate::runtime::begun::{AtDepth, depth};
use crate::runtime::listen::Region;
use crate::runtime::state::PoolState;

/// A worker that has joined leaves if so many tiles are shorter than a wake. The door opens at one wake, so tiles about as long as that do
/// not have workers come and go.
///
/// Measure: count of tiles.
const TOO_SHORT: f64 = 4.0;

/// The state of the calling thread's door.
#[derive(Clone, Copy, PartialEq)]
enum DoorState {
    Closed,
    /// Workers join when a wake has passed.
    StandBy,
    Open,
}

/// The calling thread's part: leads the run, and lets workers in.
pub(super) fn lead<E: Send>(
    run: &OverlapRun<E>,
    stations: Vec<Box<dyn Station<E> + '_>>,
    lanes: &[&(dyn EachLane<E> + Sync + '_)],
    crew: &Crew,
    pool: &PoolState,
    region: &Region,
) {
    let (mut stations, depth) = (stations, depth());
    if pool.members == 1 || lanes.is_empty() {
        run.lead(&mut stations, || false);
        return;
    }
    let help = |joined: JoinedWorker| {
        pool.joined(joined.worker, tick());
        crew.state.lock().entered.insert(joined.worker);
        let _part = region.part();
        let _inside = AtDepth::new(depth);
        attend(run, lanes, crew, pool);
    };
    loop {
        crew.state.lock().called_back = false;
        let over = pool.gate.region(&help, pool.settle, |door| {
            let _over = CallBack(crew);
            let state = Cell::new(DoorState::Closed);
            run.lead(&mut stations, || tend(door, &state, crew, pool))
        });
        pool.ended(tick());
        if over {
            return;
        }
    }
}

/// Calls all workers back when the calling thread leaves the region.
struct CallBack<'c>(&'c Crew);

impl Drop for CallBack<'_> {
    fn drop(&mut self) {
        self.0.call_back();
    }
}

/// Opens the door if that pays. Returns whether the calling thread has to leave the region, to open another one.
fn tend(door: &Door<'_>, state: &Cell<DoorState>, crew: &Crew, pool: &PoolState) -> bool {
    let (tile, wake) = (crew.tile(), pool.guess().enter(WorkerState::AsleepLong));
    let pays = tile >= wake;
    match state.get() {
        DoorState::Closed if pays || tile.0 == 0.0 => {
            crew.state.lock().unheard = 0;
            let workers = pool.workers();
            pool.opens(workers.idle + 1 < workers.most);
            let width = workers.most;
            let opened = if pays { door.open(width) } else { door.open_at(tick() + pool.ticks(wake), width) };
            if opened {
                state.set(if pays { DoorState::Open } else { DoorState::StandBy });
            }
        }
        DoorState::StandBy if pays => {
            door.open_now();
            state.set(DoorState::Open);
        }
        // Short tiles: workers that have come leave, and the door is closed.
        DoorState::StandBy if tile.0 > 0.0 => return door.inside() == 0,
        DoorState::Open if pays => {
            let (joined, inside) = (door.joined(), door.inside());
            if joined > inside {
                let unheard = crew.state.lock().unheard;
                if inside == 0 && unheard > 0 {
                    return true;
                }
                if unheard > pool.members {
                    crew.call_back();
                }
            }
        }
        _ => {}
    }
    false
}

/// A worker's part: takes tiles of all lanes, the last lane first.
fn attend<E: Send>(run: &OverlapRun<E>, lanes: &[&(dyn EachLane<E> + Sync + '_)], crew: &Crew, pool: &PoolState) {
    let mut since = Instant::now();
    loop {
        let (turn, called_back) = {
            let state = crew.state.lock();
            (state.turn, state.called_back)
        };
        let wake = pool.guess().enter(WorkerState::AsleepLong);
        let is_short = crew.tile().0 > 0.0 && TOO_SHORT * crew.tile().0 < wake.0;
        if called_back || is_short || !run.is_of_this_process() {
            break;
        }
        run.look();
        let mut through = true;
        let worked = lanes.iter().rev().any(|lane| match run.step_each(*lane) {
            Step::Worked => true,
            Step::Idle => {
                through = false;
                false
            }
            Step::Through => false,
        });
        if worked {
            since = Instant::now();
            continue;
        }
        let patience = crew.tile().0.max(pool.guess().long_sleep().0);
        let left = Duration::from_nanos(patience as u64).saturating_sub(since.elapsed());
        if through || left.is_zero() {
            break;
        }
        crew.wait(turn, left);
    }
    crew.state.lock().unheard = 0;
}
