//! The file of a trace: Chrome's trace event format, which Perfetto reads, too.
//!
//! Slices are complete events (`X`) on the track of their thread. Threads without a name that follow each other share a track: a program that
//! starts a thread for each request has as many tracks as such threads at once. Calls that are no slice of a thread are asynchronous
//! events (`b`, `e`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use windrow_plan::Nanos;
use windrow_plan::listen::{CallKind, CallPlace, PartClaims, grouped};
use windrow_sync::machine::{fork_generation, ticks_per_micro};

use super::Summary;
use super::events::{Args, Events, escaped, micros, program, short, without_paths};
use super::tiles::{TraceTile, lanes};
use super::{EventKind, PER_THREAD, ProcessTrace, ThreadTrace, TraceEvent, VARIABLE, both_clocks};

/// Writes the file. A failure is a line on stderr, and so are dropped events.
pub(super) fn write(process: &ProcessTrace, threads: Vec<ThreadTrace>, now: u64) {
    let dropped = process.lost.get() + threads.iter().map(|thread| thread.dropped).sum::<u64>();
    let path = target(process);
    let written = replace(&path, |file| {
        let mut out = BufWriter::new(file);
        Format::new(process, now).all(&mut out, threads, dropped)?;
        out.flush()
    });
    // A failure to write on stderr cannot be reported.
    let mut stderr = io::stderr().lock();
    if let Err(error) = written {
        let hint = "hint: specify a file in a writable folder";
        let _ = writeln!(stderr, "windrow: {VARIABLE}: {}: {error}; {hint}", path.display());
        return;
    }
    if dropped > 0 {
        let (dropped, most) = (grouped(dropped), grouped(PER_THREAD as u64));
        let hint = "hint: trace a shorter run";
        let _ = writeln!(
            stderr,
            "windrow: {VARIABLE}: {}: the oldest {dropped} events were dropped; at most {most} are kept per thread; \
             {hint}",
            path.display()
        );
    }
}

/// The named file; with the number of the process after the name in a forked child, and where another process has written the file since this
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

/// Writes a file next to `path` and renames it, so that a crash leaves no half of a trace under that name. A file that is not regular, a pipe say,
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

struct Format {
    begun: u64,
    nanos_per_tick: f64,
    end: u64,
    /// Asynchronous events so far.
    asides: u64,
    /// Tracks of threads by name: workers of several pools have the same names.
    names: HashMap<String, usize>,
    /// Owners of the counters of a name.
    counters: HashMap<String, Vec<usize>>,
}

/// Events of all threads that are on no track of a thread.
#[derive(Default)]
struct Elsewhere {
    tiles: Vec<TraceTile>,
    counters: Vec<CounterValue>,
}

/// The value of a counter from a time on. Counters of one name differ by `id`.
struct CounterValue {
    at: u64,
    name: String,
    unit: &'static str,
    id: usize,
    value: u64,
}

/// The name of threads without one.
const UNNAMED: &str = "unnamed";

/// Threads without a name that follow each other become one track.
fn tracks(threads: Vec<ThreadTrace>) -> Vec<ThreadTrace> {
    let mut tracks: Vec<ThreadTrace> = Vec::new();
    // Tracks of such threads, and when the last slice of each ends.
    let mut shared: Vec<(usize, u64)> = Vec::new();
    for mut thread in threads {
        if thread.name.is_some() {
            tracks.push(thread);
            continue;
        }
        let slices = || thread.events.iter().filter(|event| event.kind.is_slice());
        let begin = slices().map(|event| event.begin).min().unwrap_or(u64::MAX);
        let end = slices().map(|event| event.end).max().unwrap_or(0);
        match shared.iter_mut().find(|(_, ended)| *ended <= begin) {
            Some((track, ended)) => {
                tracks[*track].events.append(&mut thread.events);
                *ended = end.max(*ended);
            }
            None => {
                shared.push((tracks.len(), end));
                tracks.push(thread);
            }
        }
    }
    tracks
}

impl Format {
    fn new(process: &ProcessTrace, now: u64) -> Self {
        // From a millisecond on, the whole trace says it more precisely than the short measurement.
        let (end, time) = both_clocks();
        let (ticks, nanos) = (end.saturating_sub(process.begun) as f64, time.duration_since(process.zero).as_nanos());
        let is_long = ticks > 1000.0 * ticks_per_micro();
        let nanos_per_tick = if is_long { nanos as f64 / ticks } else { 1000.0 / ticks_per_micro() };
        let (names, counters) = (HashMap::new(), HashMap::new());
        Self { begun: process.begun, nanos_per_tick, end: now, asides: 0, names, counters }
    }

    /// Nanoseconds since the trace began. Later ticks give no earlier time, so slices that nest do so here.
    fn nanos(&self, tick: u64) -> u64 {
        (tick.saturating_sub(self.begun) as f64 * self.nanos_per_tick) as u64
    }

    fn all(&mut self, out: impl Write, threads: Vec<ThreadTrace>, dropped: u64) -> io::Result<()> {
        let length = micros(self.nanos(self.end));
        let other = format_args!(r#","length_us":{length},"dropped_events":{dropped}"#);
        let mut events = Events::begin(out, std::process::id(), &program(), other)?;
        let (threads, mut elsewhere) = (tracks(threads), Elsewhere::default());
        let behind = threads.len() + 1;
        for (index, thread) in threads.into_iter().enumerate() {
            self.thread(&mut events, index + 1, thread, &mut elsewhere)?;
        }
        lanes(&mut events, behind, elsewhere.tiles)?;
        elsewhere.counters.sort_by_key(|counter| counter.at);
        for CounterValue { at, name, unit, id, value } in elsewhere.counters {
            events.counter(at, &self.counter(name, id), unit, value)?;
        }
        events.end()
    }

    /// The name of a counter. Several of one name are numbered.
    fn counter(&mut self, name: String, id: usize) -> String {
        let ids = self.counters.entry(name.clone()).or_default();
        let at = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        if at == 0 { name } else { format!("{name} ({})", at + 1) }
    }

    fn thread<W: Write>(
        &mut self,
        events: &mut Events<W>,
        tid: usize,
        thread: ThreadTrace,
        elsewhere: &mut Elsewhere,
    ) -> io::Result<()> {
        let mut name = thread.name.unwrap_or_else(|| UNNAMED.to_owned());
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let _ = write!(name, " ({count})");
        }
        events.track(tid, &name)?;
        // A slice comes before the slices inside it, also where all have the same times: the inner ones were recorded first.
        let mut own: Vec<TraceEvent> = thread.events.into_iter().rev().collect();
        own.sort_by_key(|event| (event.begin, Reverse(event.end)));
        for event in own {
            let times @ (begin, end) = (self.nanos(event.begin), self.nanos(event.end));
            let mut count = |at, name, unit, id, value| {
                elsewhere.counters.push(CounterValue { at, name, unit, id, value });
            };
            match event.kind {
                EventKind::Width { place, team, members } => {
                    count(begin, format!("round width of {}", short(Some(place))), "members", team, members);
                }
                EventKind::Batch { structure, id, ops, left } => {
                    let structure = without_paths(structure);
                    let size = format!("batch size of {structure}");
                    count(begin, size.clone(), "operations", id, ops as u64);
                    count(end, size, "operations", id, 0);
                    count(end, format!("queue depth of {structure}"), "operations", id, left as u64);
                }
                _ => {}
            }
            match event.kind {
                EventKind::Tile(tile) => elsewhere.tiles.push(*tile),
                EventKind::Width { .. } => {}
                EventKind::Aside { kind, place, summary } => self.aside(events, tid, times, (kind, place), &summary)?,
                _ => self.slice(events, tid, times, &event)?,
            }
        }
        Ok(())
    }

    fn slice<W: Write>(
        &self,
        events: &mut Events<W>,
        tid: usize,
        times: (u64, u64),
        event: &TraceEvent,
    ) -> io::Result<()> {
        let mut args = Args::default();
        let (category, name) = match &event.kind {
            EventKind::Call { kind, place, summary, rounds, is_open } => {
                args.call(*kind, *place, summary.as_deref());
                if let Some(rounds) = rounds {
                    args.number("rounds", rounds.items);
                    args.text("rounds_decision", &rounds.account.reason);
                }
                if *is_open {
                    args.flag("unfinished");
                }
                ("call", format!("{} {}", kind.name(), short(*place)))
            }
            EventKind::Part { kind, place, claims } => {
                args.place(*place);
                let &PartClaims { claims, steals, items, longest } = claims;
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
            EventKind::Batch { structure, ops, left, .. } => {
                args.text("structure", structure);
                args.number("operations", *ops as u64);
                args.number("queued_after", *left as u64);
                ("batch", format!("batch of {ops}"))
            }
            EventKind::Spawned => ("spawn", "spawned closure".to_owned()),
            EventKind::Aside { .. } | EventKind::Tile(_) | EventKind::Width { .. } => return Ok(()),
        };
        if event.is_panic {
            args.flag("panicked");
        }
        events.slice(tid, times, (category, &name), &args)
    }

    /// A call that is no slice of its thread.
    fn aside<W: Write>(
        &mut self,
        events: &mut Events<W>,
        tid: usize,
        (begin, end): (u64, u64),
        (kind, place): (CallKind, CallPlace),
        summary: &Summary,
    ) -> io::Result<()> {
        self.asides += 1;
        let (begin, end) = (micros(begin), micros(end));
        let name = format!("{} {}", kind.name(), short(place));
        let (id, name) = (self.asides, escaped(&name));
        let mut args = Args::default();
        args.call(kind, place, Some(summary));
        // `id2`: the number is one of this process, so viewers show the call there.
        let head = format!(r#""tid":{tid},"cat":"call","id2":{{"local":"0x{id:x}"}},"name":"{name}""#);
        events.add("b", format_args!(r#""ts":{begin},{head},"args":{{{}}}"#, args.0))?;
        events.add("e", format_args!(r#""ts":{end},{head},"args":{{}}"#))
    }
}

impl Args {
    fn call(&mut self, kind: CallKind, place: CallPlace, summary: Option<&Summary>) {
        self.place(place);
        self.text("kind", kind.name());
        let Some(summary) = summary else { return };
        let nanos = |time: Nanos| time.0.max(0.0) as u64;
        self.number("items", summary.items);
        self.number("threads", summary.threads as u64);
        self.micros("took_us", nanos(summary.took));
        if let Some(time) = summary.account.predicted {
            self.micros("predicted_us", nanos(time));
        }
        for (name, time) in summary.account.alternatives.iter().flatten() {
            self.micros(&format!("{}_us", name.replace(' ', "_")), nanos(*time));
        }
        if !summary.account.reason.is_empty() {
            self.text("decision", &summary.account.reason);
        }
    }
}
