//! The report of a process: with `WINDROW_EXPLAIN` set, a program prints at its end what each place that called windrow has done.
//!
//! Calls are [sampled](super::sampling): the first one at a place is always reported, short ones rarely, and each counts for those that were
//! not.
//!
//! A row has the calls of one kind at one place. Nothing is decided about a spawned closure. It has a row, too, and `windrow::explain` does
//! not return it.
//!
//! The report of a thread goes into one of several tables, each behind a lock that is never waited for: a forked child may inherit a lock that
//! no thread will release.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::time::Instant;

use windrow_plan::Nanos;
use windrow_plan::listen::{Account, CallKind, CallPlace, Decided, Event, EventKind, Site, grouped, visible};
use windrow_sync::Mutex;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::fork_generation;
use windrow_sync::quota::rounded_down;
use windrow_sync::relaxed::RelaxedU64;

use crate::sampling::probability;
use crate::wish;

/// `1` prints the report on stderr, another value names a file to which it is appended.
const VARIABLE: &str = "WINDROW_EXPLAIN";

/// Measure: count of tables, so that threads seldom meet at one.
const TABLES: usize = 64;

/// Measure: count of places whose last time a thread remembers.
const REMEMBERED: usize = 256;

/// Totals of the calls at a place. Numbers are weighted by the calls that were skipped.
#[derive(Clone, Debug, Default)]
struct Row {
    calls: f64,
    /// True if some calls were skipped.
    sampled: bool,
    items: f64,
    shared: f64,
    /// The most threads that entered a call; 0 if that is not counted.
    threads: usize,
    took: f64,
    /// The time that the shared calls would have taken alone, as predicted, less what they took; at most what their threads can save.
    saved: f64,
    /// Predictions by the [`bin`] of their relative error.
    errors: BTreeMap<usize, u32>,
    reason: String,
}

/// A relative error, from 1 % on in steps of a quarter.
fn bin(error: f64) -> usize {
    ((error.max(0.01) / 0.01).ln() / 1.25_f64.ln()) as usize
}

/// The middle of a bin.
fn error_of(bin: usize) -> f64 {
    0.01 * 1.25_f64.powf(bin as f64 + 0.5)
}

impl Row {
    fn add(&mut self, event: &Event<'_>, account: &Account) {
        let (weight, took) = (f64::from(event.weight), event.took.0.max(0.0));
        self.threads = self.threads.max(event.threads);
        self.took += weight * took;
        // A further pass of a call adds to its time.
        let calls = if event.is_further { 0.0 } else { weight };
        self.calls += calls;
        self.sampled |= calls > 1.0;
        self.items += calls * event.known_items() as f64;
        if event.threads > 1 {
            self.shared += calls;
            let serial = account.alternatives.iter().flatten().find(|(name, _)| *name == "serial");
            let most = took * (event.threads - 1) as f64;
            self.saved += serial.map_or(0.0, |(_, serial)| weight * (serial.0 - took).min(most));
        }
        if let Some(predicted) = account.predicted.filter(|_| took > 0.0) {
            let error = (predicted.0 - took).abs() / took;
            *self.errors.entry(bin(error)).or_default() += 1;
        }
        if !event.is_further {
            self.reason.clear();
            self.reason.push_str(&account.reason);
        }
    }

    fn merge(&mut self, other: Row) {
        self.calls += other.calls;
        self.sampled |= other.sampled;
        self.items += other.items;
        self.shared += other.shared;
        self.threads = self.threads.max(other.threads);
        self.took += other.took;
        self.saved += other.saved;
        other.errors.into_iter().for_each(|(bin, more)| *self.errors.entry(bin).or_default() += more);
        self.reason = other.reason;
    }

    /// The relative error that this part of the predictions does not exceed; `None` without predictions.
    fn error_at(&self, part: f64) -> Option<f64> {
        let all: u32 = self.errors.values().sum();
        let wanted = (f64::from(all) * part).ceil().max(1.0) as u32;
        let mut seen = 0;
        let found = self.errors.iter().find(|&(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(&bin, _)| error_of(bin))
    }
}

/// A place as it is printed: locations of one place may have several addresses.
type Key = (&'static str, u32, &'static str);

struct ProcessReport {
    target: Target,
    tables: [Mutex<HashMap<Key, Row>>; TABLES],
    /// Cost of a report.
    cost: Nanos,
    /// Calls that found their table locked.
    lost: RelaxedU64,
}

enum Target {
    Stderr,
    File(PathBuf),
}

static REPORT: PerProcess<Option<ProcessReport>> = PerProcess::new();

/// The report of this process, if one is wanted.
fn report() -> Option<&'static ProcessReport> {
    let build = || {
        let value = wish(VARIABLE)?;
        let target = if value == "1" { Target::Stderr } else { Target::File(value.into()) };
        let cost = cost();
        let tables = std::array::from_fn(|_| Mutex::default());
        Some(ProcessReport { target, tables, cost, lost: RelaxedU64::new(0) })
    };
    REPORT.get(build).as_ref()
}

/// Time of reporting a call: of a few turns the shortest, since the thread may be interrupted in the others.
fn cost() -> Nanos {
    // Measure: count of turns, and of calls reported in a turn.
    const TURNS: u32 = 8;
    let (kind, place) = (EventKind::Call(CallKind::Loop), Some(Location::caller()));
    let site = Site { kind, place, region: 0, is_wanted: false };
    let mut table = HashMap::new();
    let mut turn = || {
        let begin = Instant::now();
        for call in 0..TURNS {
            let reason = format!("shared after {call} items: an example").into();
            let alternatives = [Some(("serial", Nanos::default())), None];
            let account = Account { reason, alternatives, ..Account::default() };
            let row: &mut Row = table.entry(key_of(place, CallKind::Loop.name())).or_default();
            row.add(&Event::new(&site, 1.0, &account), &account);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    Nanos((0..TURNS).map(|_| turn()).fold(f64::INFINITY, f64::min))
}

fn key_of(place: CallPlace, kind: &'static str) -> Key {
    place.map_or(("?", 0, kind), |place| (place.file(), place.line(), kind))
}

/// The sampling of a place by this thread.
#[derive(Clone, Copy, Default)]
struct Sampled {
    place: usize,
    generation: u32,
    /// Calls to skip before the next sample.
    skips: u32,
    /// Sampling probability; 0 before the first report.
    probability: f32,
    /// Nanoseconds that it took to build the last report.
    building: f32,
}

impl Sampled {
    fn is_of(&self, address: usize) -> bool {
        self.place == address && self.generation == fork_generation() && self.probability > 0.0
    }
}

thread_local! {
    static SAMPLED: Box<[Cell<Sampled>]> = (0..REMEMBERED).map(|_| Cell::default()).collect();
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// True if a report is wanted.
#[inline]
pub(super) fn is_wanted() -> bool {
    report().is_some()
}

fn address(place: CallPlace) -> usize {
    place.map_or(0, |place| std::ptr::from_ref(place) as usize)
}

/// Calls `f` with the place's slot among those that this thread remembers. `None` while the thread ends.
#[inline]
fn with_slot<R>(address: usize, f: impl FnOnce(&Cell<Sampled>) -> R) -> Option<R> {
    let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) % REMEMBERED;
    SAMPLED.try_with(|all| f(&all[slot])).ok()
}

/// Weight of the call that begins at this place; `None` if it is skipped, or no report is wanted.
#[inline]
pub(super) fn sample(place: CallPlace) -> Option<f32> {
    report()?;
    let address = address(place);
    let weight = |slot: &Cell<Sampled>| {
        let before = slot.get();
        if !before.is_of(address) {
            return Some(1.0);
        }
        let (skips, weight) = match before.skips.checked_sub(1) {
            Some(skips) => (skips, None),
            None => (skips(before.probability), Some(before.probability.recip())),
        };
        slot.set(Sampled { skips, ..before });
        weight
    };
    with_slot(address, weight).unwrap_or(Some(1.0))
}

/// Geometric random number of calls to skip.
#[cold]
fn skips(probability: f32) -> u32 {
    if probability >= 1.0 {
        return 0;
    }
    let uniform = ((random() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (uniform.ln() / (-f64::from(probability)).ln_1p()) as u32
}

/// A random number, of which the upper bits are the better ones. All are 1 while the thread ends.
fn random() -> u64 {
    let random = RANDOM.try_with(|random| {
        let next = step(random.get() ^ std::ptr::from_ref(random) as u64);
        random.set(next);
        next
    });
    random.unwrap_or(u64::MAX)
}

/// The next number of splitmix64 (Steele, Lea and Flood, 2014).
fn step(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Adds a call of this kind.
pub(super) fn add(event: &Event<'_>, kind: CallKind) {
    let Some(report) = report() else { return };
    let begin = matches!(event.decision, Decided::Later(_)).then(Instant::now);
    let account = event.account();
    // The rounds of a team are reported after it, and a further pass of a call is no call.
    if !event.is_further && kind != CallKind::Rounds {
        let building = begin.map_or(0.0, |begin| begin.elapsed().as_nanos() as f32);
        remember(event, building, report.cost.0);
    }
    report.with_row(key_of(event.place, kind.name()), |row| row.add(event, &account));
}

/// Decides how often further calls at the place of the event are reported. `building`: nanoseconds that it took to build the report. `cost`:
/// nanoseconds of the rest of a report.
fn remember(event: &Event<'_>, building: f32, cost: f64) {
    let (place, generation) = (address(event.place), fork_generation());
    with_slot(place, |slot| {
        let before = slot.get();
        // Of two turns the shorter: the thread may be interrupted in the other.
        let shorter = if before.is_of(place) { building.min(before.building) } else { building };
        let probability = probability(event.took, Nanos(cost + f64::from(shorter))) as f32;
        slot.set(Sampled { place, generation, skips: skips(probability), probability, building });
    });
}

/// The row of spawned closures.
const SPAWN: &str = "spawn";

/// Counts a closure that was spawned.
pub(super) fn add_spawn(event: &Event<'_>) {
    /// Its row is found twice: for the call, and for the time.
    ///
    /// Measure: count of rows found.
    const ROWS: f64 = 2.0;
    let Some(report) = report() else { return };
    remember(event, 0.0, ROWS * report.cost.0);
    report.with_row(key_of(event.place, SPAWN), |row| {
        row.calls += f64::from(event.weight);
        row.sampled |= event.weight > 1.0;
    });
}

/// Adds the time of a spawned closure.
pub(super) fn add_spawned(event: &Event<'_>) {
    let Some(report) = report() else { return };
    report.with_row(key_of(event.place, SPAWN), |row| row.took += f64::from(event.weight) * event.took.0);
}

impl ProcessReport {
    /// Changes a row, in one of the tables that no other thread has locked.
    fn with_row(&self, key: Key, change: impl FnOnce(&mut Row)) {
        let first = own_table();
        for turn in 0..TABLES {
            if let Some(mut table) = self.tables[(first + turn) % TABLES].try_lock() {
                return change(table.entry(key).or_default());
            }
        }
        self.lost.add(1);
    }
}

/// The table that this thread tries first.
fn own_table() -> usize {
    // The address of a variable of the thread differs between threads.
    RANDOM.try_with(|random| step(std::ptr::from_ref(random) as u64) as usize % TABLES).unwrap_or(0)
}

/// Prints the report of this process, if it has one.
pub(super) fn print() {
    let Some(Some(report)) = REPORT.peek() else { return };
    let mut rows: HashMap<Key, Row> = HashMap::new();
    for table in &report.tables {
        if let Some(table) = table.try_lock() {
            table.iter().for_each(|(key, row)| rows.entry(*key).or_default().merge(row.clone()));
        }
    }
    if !rows.is_empty() {
        report.target.write(&table(rows.into_iter().collect(), report.lost.get()));
    }
}

/// Writes a note where the report of the process goes, if there is one.
pub(super) fn add_note(text: &str) {
    if let Some(report) = report() {
        report.target.write(text);
    }
}

impl Target {
    fn write(&self, text: &str) {
        // A failure cannot be reported: stderr itself may have failed.
        let _ = match self {
            Target::Stderr => std::io::stderr().write_all(text.as_bytes()),
            Target::File(path) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                file.and_then(|mut file| file.write_all(text.as_bytes()))
            }
        };
    }
}

/// The report as text: the places by time, each with the reason of its last call.
fn table(mut rows: Vec<(Key, Row)>, lost: u64) -> String {
    rows.sort_by(|(key, row), (other, others)| others.took.total_cmp(&row.took).then_with(|| key.0.cmp(other.0)));
    let head = ["place", "what", "calls", "items", "shared", "threads", "time", "saved", "off by"];
    let mut lines = vec![(head.map(String::from), String::new())];
    // The time of rounds is that of their team.
    let calls = || rows.iter().filter(|((.., kind), _)| *kind != CallKind::Rounds.name());
    let all = |of: fn(&Row) -> f64| Nanos(calls().map(|(_, row)| of(row)).sum());
    let (took, saved) = (all(|row| row.took), all(|row| row.saved));
    let places = calls().count();
    let plural = if places == 1 { "" } else { "s" };
    let mut text = format!("windrow: {places} place{plural}, {took} in calls, {saved} saved by sharing\n");
    for ((file, line, kind), row) in rows {
        let about = if row.sampled { "~" } else { "" };
        let number = |number: f64| format!("{about}{}", grouped(number.round() as u64));
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let items = if row.items > 0.0 { number(row.items) } else { "-".into() };
        let saved = if row.shared > 0.0 { Nanos(row.saved).to_string() } else { "-".into() };
        let errors = row.error_at(0.5).zip(row.error_at(0.9));
        let errors = errors.map_or("-".into(), |(half, most)| format!("{}, {}", percent(half), percent(most)));
        let cells = [
            format!("{}:{line}", visible(file)),
            kind.to_owned(),
            number(row.calls),
            items,
            if row.threads > 0 { percent(row.shared / row.calls) } else { "-".into() },
            if row.threads > 0 { row.threads.to_string() } else { "-".into() },
            Nanos(row.took).to_string(),
            saved,
            errors,
        ];
        lines.push((cells, row.reason));
    }
    let widths: [usize; 9] =
        std::array::from_fn(|column| lines.iter().map(|(cells, _)| cells[column].len()).max().unwrap_or(0));
    for (cells, reason) in &lines {
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                1 => write!(text, "  {cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
        if !reason.is_empty() {
            let _ = writeln!(text, "    {reason}");
        }
    }
    text.push_str(
        "time and saved cover all calls; off by: prediction error, median and 90th percentile; indented: the reason for \
         the last decision\n",
    );
    if lost > 0 {
        let calls = if lost == 1 { "call was" } else { "calls were" };
        let _ = writeln!(text, "{lost} {calls} not counted because several threads ended at once");
    }
    if let Some(quota) = rounded_down() {
        let threads = quota.floor();
        let plural = if threads == 1.0 { "" } else { "s" };
        let _ = writeln!(
            text,
            "the quota of {quota:.2} CPUs is rounded down to {threads} thread{plural} (see WINDROW_THREADS)"
        );
    }
    text
}
