//! The file of a trace: Chrome's trace event format, which Perfetto reads, too.
//!
//! Slices are complete events (`X`) on the track of their thread. Tiles are slices on tracks of their lane; where tiles of a lane overlap, the
//! lane has several tracks. Calls that are no slice of a thread are asynchronous events (`b`, `e`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windrow_sync::machine::{fork_generation, ticks_per_micro};

use super::{CallPlace, Claimed, EventKind, PER_THREAD, ProcessTrace, ThreadTrace, TraceEvent, VARIABLE, both_clocks};
use crate::runtime::explained::{CallKind, Explained, grouped};

/// Writes the file. A failure is a line on stderr, and so are dropped events.
pub(super) fn write(process: &ProcessTrace, threads: Vec<ThreadTrace>, now: u64) {
    let dropped = process.lost.get() + threads.iter().map(|thread| thread.dropped).sum::<u64>();
    let path = target(process);
    let written = replace(&path, |file| {
        let mut out = BufWriter::new(file);
        Format::new(process, now).all(&mut out, threads, dropped)?;
        out.flush()
    });
    // A failure to write on stderr cannot be told.
    let mut stderr = io::stderr().lock();
    if let Err(error) = written {
        let hint = "hint: name a file in a folder that can be written";
        let _ = writeln!(stderr, "windrow: {VARIABLE}: {}: {error}; {hint}", path.display());
        return;
    }
    if dropped > 0 {
        let (dropped, most) = (grouped(dropped), grouped(PER_THREAD as u64));
        let hint = "hint: trace a shorter run";
        let _ = writeln!(
            stderr,
            "windrow: {VARIABLE}: {}: the oldest {dropped} events were dropped, at most {most} are kept of a thread; {hint}",
            path.display()
        );
    }
}

/// The named file; with the number of the process behind the name in a forked child, and where another process has written the file since this
/// one began.
fn target(process: &ProcessTrace) -> PathBuf {
    let path = &process.path;
    let is_newer = |file: fs::Metadata| file.is_file() && file.modified().is_ok_and(|at| at >= process.started);
    if fork_generation() > 0 || fs::metadata(path).is_ok_and(is_newer) {
        return with_ending(path, &format!(".{}", std::process::id()));
    }
    path.clone()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// Writes a file beside `path` and renames it, so that a crash leaves no half of a trace under that name. What is no regular file, a pipe say,
/// is written directly.
fn replace(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        return write(File::options().write(true).open(path)?);
    }
    // Behind a link, not instead of it.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let part = &with_ending(path, &format!(".{}.part", std::process::id()));
    let file = File::create_new(part)?;
    let written = write(file).and_then(|()| fs::rename(part, path));
    if written.is_err() {
        let _ = fs::remove_file(part);
    }
    written
}

/// A tile of a lane, in nanoseconds.
struct TraceTile {
    begin: u64,
    end: u64,
    run: u64,
    place: &'static Location<'static>,
    lane: usize,
    name: Arc<str>,
    tile: usize,
}

impl TraceTile {
    fn is_of_lane(&self, other: &Self) -> bool {
        (self.place, self.lane, &self.name) == (other.place, other.lane, &other.name)
    }
}

struct Format {
    pid: u32,
    begun: u64,
    nanos_per_tick: f64,
    end: u64,
    program: String,
    /// Asynchronous events so far.
    asides: u64,
    /// Tracks of threads by name: workers of several pools have the same names.
    names: HashMap<String, usize>,
}

/// The array of events.
struct Events<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> Events<W> {
    fn add(&mut self, event: fmt::Arguments<'_>) -> io::Result<()> {
        let before = if std::mem::take(&mut self.is_first) { "\n{" } else { ",\n{" };
        self.out.write_all(before.as_bytes())?;
        self.out.write_fmt(event)?;
        self.out.write_all(b"}")
    }

    fn metadata(&mut self, pid: u32, tid: usize, what: &str, args: fmt::Arguments<'_>) -> io::Result<()> {
        self.add(format_args!(r#""ph":"M","pid":{pid},"tid":{tid},"name":"{what}","args":{{{args}}}"#))
    }

    /// The track `tid` has this name, and comes in the order of the numbers.
    fn track(&mut self, pid: u32, tid: usize, name: &str) -> io::Result<()> {
        self.metadata(pid, tid, "thread_name", format_args!(r#""name":"{}""#, escaped(name)))?;
        self.metadata(pid, tid, "thread_sort_index", format_args!(r#""sort_index":{tid}"#))
    }
}

impl Format {
    fn new(process: &ProcessTrace, now: u64) -> Self {
        // From a millisecond on, the whole trace says it more precisely than the short measurement.
        let (end, time) = both_clocks();
        let (ticks, nanos) = (end.saturating_sub(process.begun) as f64, time.duration_since(process.zero).as_nanos());
        let is_long = ticks > 1000.0 * ticks_per_micro();
        let nanos_per_tick = if is_long { nanos as f64 / ticks } else { 1000.0 / ticks_per_micro() };
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self {
            pid: std::process::id(),
            begun: process.begun,
            nanos_per_tick,
            end: now,
            program,
            asides: 0,
            names: HashMap::new(),
        }
    }

    /// Nanoseconds since the trace began. Later ticks give no earlier time, so slices that nest do so here.
    fn nanos(&self, tick: u64) -> u64 {
        (tick.saturating_sub(self.begun) as f64 * self.nanos_per_tick) as u64
    }

    fn all(&mut self, mut out: impl Write, threads: Vec<ThreadTrace>, dropped: u64) -> io::Result<()> {
        let (version, program) = (env!("CARGO_PKG_VERSION"), escaped(&self.program));
        let length = micros(self.nanos(self.end));
        write!(out, r#"{{"displayTimeUnit":"ns","otherData":{{"program":"{program}","windrow":"{version}","#)?;
        write!(out, r#""length_us":{length},"dropped_events":{dropped}}},"traceEvents":["#)?;
        let mut events = Events { out, is_first: true };
        events.metadata(self.pid, 0, "process_name", format_args!(r#""name":"{program}""#))?;
        let (tracks, mut tiles) = (threads.len(), Vec::new());
        for (index, thread) in threads.into_iter().enumerate() {
            self.thread(&mut events, index + 1, thread, &mut tiles)?;
        }
        self.lanes(&mut events, tracks + 1, tiles)?;
        events.out.write_all(b"\n]}\n")
    }

    fn thread<W: Write>(
        &mut self,
        events: &mut Events<W>,
        tid: usize,
        thread: ThreadTrace,
        tiles: &mut Vec<TraceTile>,
    ) -> io::Result<()> {
        let mut name = thread.name.unwrap_or_else(|| format!("thread {tid}"));
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let _ = write!(name, " ({count})");
        }
        events.track(self.pid, tid, &name)?;
        // A slice comes before the slices inside of it, also where all have the same times: the inner ones were recorded first.
        let mut own: Vec<TraceEvent> = thread.events.into_iter().rev().collect();
        own.sort_by_key(|event| (event.begin, Reverse(event.end)));
        for event in own {
            match event.kind {
                EventKind::Tile { run, place, lane, name, tile } => {
                    tiles.push(TraceTile { begin: event.begin, end: event.end, run, place, lane, name, tile });
                }
                EventKind::Counter { name, id, value } => {
                    let at = micros(self.nanos(event.begin));
                    events.add(format_args!(
                        r#""ph":"C","pid":{},"tid":{tid},"ts":{at},"name":"{name}","id":"0x{id:x}","args":{{"value":{value}}}"#,
                        self.pid
                    ))?;
                }
                EventKind::Told(told) => self.aside(events, tid, (event.begin, event.end), &told)?,
                _ => self.slice(events, tid, &event)?,
            }
        }
        Ok(())
    }

    fn slice<W: Write>(&self, events: &mut Events<W>, tid: usize, event: &TraceEvent) -> io::Result<()> {
        let (begin, end) = (self.nanos(event.begin), self.nanos(event.end));
        let mut args = Args::default();
        let (category, name) = match &event.kind {
            EventKind::Call { kind, place, told, rounds, is_open } => {
                args.place(*place);
                args.text("kind", kind.name());
                if let Some(told) = told {
                    args.told(told);
                }
                if let Some(rounds) = rounds {
                    args.number("rounds", rounds.count());
                    args.text("rounds_decision", rounds.reason());
                }
                if *is_open {
                    args.flag("unfinished");
                }
                ("call", format!("{} {}", kind.name(), short(*place)))
            }
            EventKind::Part { kind, place, claims } => {
                args.place(*place);
                let &Claimed { claims, steals, items, longest } = claims;
                if *kind == CallKind::Loop {
                    args.number("claims", claims);
                    args.number("steals", steals);
                    args.number("items", items);
                    args.micros("longest_claim_us", (longest as f64 * self.nanos_per_tick) as u64);
                }
                ("part", format!("part of {} {}", kind.name(), short(*place)))
            }
            EventKind::Claim { lo, hi } => {
                args.number("items", (hi - lo) as u64);
                ("claim", format!("{lo}..{hi}"))
            }
            EventKind::Rounds { rounds, member } => {
                args.number("rounds", *rounds as u64);
                args.number("member", *member as u64);
                ("rounds", format!("{rounds} rounds"))
            }
            EventKind::Batch { structure, ops, left } => {
                args.text("structure", structure);
                args.number("operations", *ops as u64);
                args.number("queued_after", *left as u64);
                ("batch", format!("batch of {ops}"))
            }
            EventKind::Spawned => ("spawn", "spawned closure".to_owned()),
            EventKind::Told(_) | EventKind::Tile { .. } | EventKind::Counter { .. } => return Ok(()),
        };
        if event.is_panic {
            args.flag("panicked");
        }
        self.complete(events, tid, (begin, end), (category, &name), &args)
    }

    /// A complete event, from `begin` to `end` in nanoseconds.
    fn complete<W: Write>(
        &self,
        events: &mut Events<W>,
        tid: usize,
        (begin, end): (u64, u64),
        (category, name): (&str, &str),
        args: &Args,
    ) -> io::Result<()> {
        let (at, length) = (micros(begin), micros(end.saturating_sub(begin)));
        events.add(format_args!(
            r#""ph":"X","pid":{},"tid":{tid},"ts":{at},"dur":{length},"cat":"{category}","name":"{}","args":{{{}}}"#,
            self.pid,
            escaped(name),
            args.0
        ))
    }

    /// A call that is no slice of its thread.
    fn aside<W: Write>(
        &mut self,
        events: &mut Events<W>,
        tid: usize,
        (begin, end): (u64, u64),
        told: &Explained,
    ) -> io::Result<()> {
        self.asides += 1;
        let (begin, end) = (micros(self.nanos(begin)), micros(self.nanos(end)));
        let name = format!("{} {}", told.kind().name(), short(told.place()));
        let (pid, id, name) = (self.pid, self.asides, escaped(&name));
        let mut args = Args::default();
        args.place(told.place());
        args.text("kind", told.kind().name());
        args.told(told);
        let head = format!(r#""pid":{pid},"tid":{tid},"cat":"call","id":"{id}","name":"{name}""#);
        events.add(format_args!(r#""ph":"b","ts":{begin},{head},"args":{{{}}}"#, args.0))?;
        events.add(format_args!(r#""ph":"e","ts":{end},{head},"args":{{}}"#))
    }

    /// The tracks of lanes, from the number `tid` on, and the queues between them.
    fn lanes<W: Write>(&self, events: &mut Events<W>, mut tid: usize, mut tiles: Vec<TraceTile>) -> io::Result<()> {
        tiles.sort_by(|one, other| {
            let lane = |tile: &TraceTile| (tile.place, tile.lane, tile.name.clone());
            lane(one).cmp(&lane(other)).then((one.begin, Reverse(one.end)).cmp(&(other.begin, Reverse(other.end))))
        });
        for lane in tiles.chunk_by(TraceTile::is_of_lane) {
            // The end of each track.
            let mut ends: Vec<u64> = Vec::new();
            for tile in lane {
                let track = ends.iter().position(|&end| end <= tile.begin).unwrap_or(ends.len());
                if track == ends.len() {
                    let number = if track == 0 { String::new() } else { format!(" ({})", track + 1) };
                    let name = format!("lane {} of {}{number}", tile.name, short(Some(tile.place)));
                    events.track(self.pid, tid + track, &name)?;
                    ends.push(0);
                }
                ends[track] = tile.end;
                let mut args = Args::default();
                args.place(Some(tile.place));
                args.text("lane", &tile.name);
                let name = format!("tile {}", tile.tile);
                self.complete(events, tid + track, (tile.begin, tile.end), ("tile", &name), &args)?;
            }
            tid += ends.len();
        }
        self.queues(events, &tiles)
    }

    /// For each queue between two lanes: the tiles in it, of all runs together.
    fn queues<W: Write>(&self, events: &mut Events<W>, tiles: &[TraceTile]) -> io::Result<()> {
        let ends: HashMap<_, _> = tiles.iter().map(|tile| ((tile.run, tile.lane, tile.tile), tile.end)).collect();
        for lane in tiles.chunk_by(TraceTile::is_of_lane) {
            // When each tile has come and gone. Not what comes from a source, and no tile of which one half was dropped.
            let mut times = Vec::new();
            for tile in lane.iter().filter(|tile| tile.lane > 0) {
                if let Some(&end) = ends.get(&(tile.run, tile.lane - 1, tile.tile)) {
                    times.extend([(end, 1_i64), (tile.begin.max(end), -1)]);
                }
            }
            times.sort_by_key(|&(at, change)| (at, Reverse(change)));
            let mut depth = 0;
            for (at, change) in times {
                depth += change;
                let (at, name, place) = (micros(at), escaped(&lane[0].name), short(Some(lane[0].place)));
                events.add(format_args!(
                    r#""ph":"C","pid":{},"tid":0,"ts":{at},"name":"queue before {name} of {place}","args":{{"tiles":{depth}}}"#,
                    self.pid
                ))?;
            }
        }
        Ok(())
    }
}

/// The members of the object `args`.
#[derive(Default)]
struct Args(String);

impl Args {
    fn add(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let before = if self.0.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(self.0, r#"{before}"{name}":{value}"#);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.add(name, format_args!(r#""{}""#, escaped(value)));
    }

    fn number(&mut self, name: &str, value: u64) {
        self.add(name, format_args!("{value}"));
    }

    fn micros(&mut self, name: &str, nanos: u64) {
        self.add(name, format_args!("{}", micros(nanos)));
    }

    fn flag(&mut self, name: &str) {
        self.add(name, format_args!("true"));
    }

    fn place(&mut self, place: CallPlace) {
        if let Some(place) = place {
            self.text("place", &format!("{}:{}", place.file(), place.line()));
        }
    }

    fn told(&mut self, told: &Explained) {
        let nanos = |time: Duration| time.as_nanos() as u64;
        self.number("items", told.count());
        self.number("threads", told.threads() as u64);
        self.micros("took_us", nanos(told.took()));
        if let Some(time) = told.predicted() {
            self.micros("predicted_us", nanos(time));
        }
        for (name, time) in told.alternatives() {
            self.micros(&format!("{}_us", name.replace(' ', "_")), nanos(time));
        }
        if !told.reason().is_empty() {
            self.text("decision", told.reason());
        }
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// The name of the file, and the line.
fn short(place: CallPlace) -> String {
    let file =
        |place: &Location<'_>| Path::new(place.file()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    place.map_or_else(String::new, |place| format!("{}:{}", file(place), place.line()))
}

/// A text as it stands in a string of JSON.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}
