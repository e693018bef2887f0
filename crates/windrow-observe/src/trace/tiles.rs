//! Tiles of overlaps: slices on tracks of their lane, and the queues between lanes. Where tiles of a lane overlap, the lane has several tracks.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use super::events::{Args, Events, program, short};
use windrow_plan::listen::{CallPlace, LaneTile};

/// A tile in a lane.
#[derive(Clone, Debug)]
pub(super) struct TraceTile {
    pub(super) of: LaneTile,
    /// The number of the run: an overlap may run several times.
    pub(super) run: u64,
    pub(super) place: CallPlace,
}

impl TraceTile {
    fn is_of_lane(&self, other: &Self) -> bool {
        (self.place, self.of.lane, &self.of.name) == (other.place, other.of.lane, &other.of.name)
    }

    /// With the place of its overlap, if that is known.
    fn named(&self, what: &str) -> String {
        let of = self.place.map_or_else(String::new, |place| format!(" of {}", short(Some(place))));
        format!("{what} {}{of}", self.of.name)
    }
}

/// The tracks of lanes, from the number `tid` on, and the queues between them.
pub(super) fn lanes<W: Write>(events: &mut Events<W>, mut tid: usize, mut tiles: Vec<TraceTile>) -> io::Result<()> {
    tiles.sort_by(|one, other| {
        let lane = |tile: &TraceTile| (tile.place, tile.of.lane, tile.of.name.clone());
        let times = |tile: &TraceTile| (tile.of.begin, Reverse(tile.of.end));
        lane(one).cmp(&lane(other)).then(times(one).cmp(&times(other)))
    });
    for lane in tiles.chunk_by(TraceTile::is_of_lane) {
        // The end of each track.
        let mut ends: Vec<u64> = Vec::new();
        for TraceTile { of: tile, place, .. } in lane {
            let track = ends.iter().position(|&end| end <= tile.begin).unwrap_or(ends.len());
            if track == ends.len() {
                let number = if track == 0 { String::new() } else { format!(" ({})", track + 1) };
                events.track(tid + track, &format!("{}{number}", lane[0].named("lane")))?;
                ends.push(0);
            }
            ends[track] = tile.end;
            let mut args = Args::default();
            args.place(*place);
            args.text("lane", &tile.name);
            args.micros("empty_us", tile.waits.0);
            args.micros("full_us", tile.waits.1);
            let name = format!("tile {}", tile.tile);
            events.slice(tid + track, (tile.begin, tile.end), ("tile", &name), &args)?;
        }
        tid += ends.len();
    }
    queues(events, &tiles)
}

/// For each queue between two lanes: the tiles in it, of all runs together.
fn queues<W: Write>(events: &mut Events<W>, tiles: &[TraceTile]) -> io::Result<()> {
    let ends: HashMap<_, _> =
        tiles.iter().map(|TraceTile { run, of, .. }| ((*run, of.lane, of.tile), of.end)).collect();
    for lane in tiles.chunk_by(TraceTile::is_of_lane) {
        // When each tile has come and gone. Not what comes from a source, and no tile of which one half was dropped.
        let mut times = Vec::new();
        for TraceTile { run, of: tile, .. } in lane.iter().filter(|tile| tile.of.lane > 0) {
            if let Some(&end) = ends.get(&(*run, tile.lane - 1, tile.tile)) {
                times.extend([(end, 1_i64), (tile.begin.max(end), -1)]);
            }
        }
        times.sort_by_key(|&(at, change)| (at, Reverse(change)));
        let (mut depth, name) = (0, lane[0].named("queue before"));
        for (at, change) in times {
            depth += change;
            events.counter(at, &name, "tiles", depth.unsigned_abs())?;
        }
    }
    Ok(())
}

/// The timeline of these tiles alone, as JSON for trace viewers.
pub fn timeline(tiles: Vec<LaneTile>) -> String {
    /// Not the number of this process, which not every platform has.
    ///
    /// Measure: chosen, a name in the file.
    const PID: u32 = 1;
    /// Viewers take the track with the number of the process for its main thread.
    ///
    /// Measure: chosen, a name in the file.
    const FIRST_TRACK: usize = 2;
    let mut json = Vec::new();
    let tiles = tiles.into_iter().map(|of| TraceTile { of, run: 0, place: None }).collect();
    let written = Events::begin(&mut json, PID, &program(), format_args!("")).and_then(|mut events| {
        lanes(&mut events, FIRST_TRACK, tiles)?;
        events.end()
    });
    written.expect("memory can be written");
    String::from_utf8(json).expect("events are text")
}
