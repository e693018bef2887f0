//! The workers of the pool that help in the lanes of a run that take several tiles at once.
//!
//! In short: the calling thread opens a region, the workers that join take tiles until they have waited for one as long as a tile lasts, and
//! go back to the pool.
//! 1. Before a tile has been timed, workers stand by: they join if the first tile lasts as long as a wake (as in `runtime::region`).
//! 2. The door stays closed for tiles that are too short for a wake ([`share::tiles`]): to hand them over would cost more than it saves.
//! 3. *Patience.* If one thread is too slow for the tiles that come, and `n` threads are enough, then each of the `n` waits for less than a
//!    tile lasts. So a worker that has waited longer than that is not needed, and leaves. Parallel calls inside tiles, and of other
//!    callers, get it.
//! 4. A worker joins a region once. If tiles come while all members are busy, and workers have left, the rest is called back. Then the
//!    calling thread leaves the region and opens another one.
//!
//! A run never waits for a worker that has not joined: the calling thread takes tiles, too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windrow_plan::machine::WorkerState;
use windrow_plan::share::{self, StandBy, TileWorth, Workers};
use windrow_sync::gate::JoinedWorker;
use windrow_sync::unwind::Finally;

use super::crew::Crew;
use super::run::{OverlapRun, Station, Step};
use crate::runtime::call::{CallDoor, region};
use crate::runtime::listen::Region;
use crate::runtime::state::PoolState;

/// The calling thread's part: leads the run, and lets workers in.
pub(super) fn lead<E: Send>(
    run: &OverlapRun<E>,
    stations: &mut Vec<Arc<dyn Station<E> + '_>>,
    lanes: &[&(dyn Station<E> + Sync + '_)],
    pool: &PoolState,
    reported: &Region,
) {
    let crew = &*run.crew;
    let work = |joined: JoinedWorker, _| {
        crew.state.lock().entered.insert(joined.worker);
        attend(run, lanes, pool);
    };
    loop {
        crew.state.lock().called_back = false;
        let (over, _) = region(pool, reported, work, |door| {
            let _over = Finally(|| crew.call_back());
            run.lead(stations, || let_in(door, crew, pool))
        });
        if over {
            return;
        }
    }
}

/// Opens the door if that pays. Returns whether the calling thread has to leave the region, to open another one.
fn let_in(door: &CallDoor<'_>, crew: &Crew, pool: &PoolState) -> bool {
    let worth = share::tiles(crew.tile(), pool.guess());
    let pays = worth == TileWorth::Join;
    if door.is_open() {
        let inside = door.inside();
        if pays && door.members() > inside + 1 {
            let unheard = crew.state.lock().unheard;
            if inside == 0 && unheard > 0 {
                return true;
            }
            if unheard > pool.members {
                crew.call_back();
            }
        }
    } else if pays || worth == TileWorth::Unknown && !door.has_stand_by() {
        crew.state.lock().unheard = 0;
        let Workers { most: width, idle, .. } = pool.workers();
        let wakes = idle + 1 < width;
        if pays {
            door.open(width, wakes);
        } else {
            let patience = pool.guess().enter(WorkerState::AsleepLong);
            door.stand_by(StandBy { width, patience, wakes });
        }
    } else if worth != TileWorth::Unknown && door.has_stand_by() {
        // Short tiles: workers that have come leave, and the door is closed.
        return door.inside() == 0;
    }
    false
}

/// A worker's part: takes tiles of all lanes, the last lane first.
fn attend<E: Send>(run: &OverlapRun<E>, lanes: &[&(dyn Station<E> + Sync + '_)], pool: &PoolState) {
    let crew = &*run.crew;
    let mut since = Instant::now();
    loop {
        let (turn, called_back) = {
            let state = crew.state.lock();
            (state.turn, state.called_back)
        };
        let leaves = share::tiles(crew.tile(), pool.guess()) == TileWorth::Leave;
        if called_back || leaves || !run.process.is_this() {
            break;
        }
        run.look();
        let mut through = true;
        let worked = lanes.iter().rev().any(|lane| match run.step(*lane) {
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
