//! The report of a process: with `WINDROW_EXPLAIN` set, a program prints at its end what each place that called windrow has done.
//!
//! Calls are [sampled](super::sampling): the first one at a place is always reported, short ones rarely, and each counts for those that were
//! not.
//!
//! A row has the calls of one kind at one place. Nothing is decided about a spawned closure. It has a row, too, and `windrow::explain` does
//! not return it.
//!
//! What a thread reports goes into one of several tables, each behind a lock that is never waited for: a forked child may inherit a lock that
//! no thread will release.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use windrow_plan::Nanos;
use windrow_plan::listen::{
    Account, CallKind, CallPlace, Decided, Ending, Event, EventKind, PartClaims, UNKNOWN, grouped, visible,
};
use windrow_sync::exit::at_exit;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::fork_generation;
use windrow_sync::relaxed::RelaxedU64;

use crate::sampling::probability;

/// `1` prints the report on stderr, another value names a file to which it is appended.
const VARIABLE: &str = "WINDROW_EXPLAIN";

/// Measure: count of tables, so that threads seldom meet at one.
const TABLES: usize = 64;

/// Measure: count of places whose last time a thread remembers.
const REMEMBERED: usize = 256;

/// Bins of relative errors of predictions.
///
/// Measure: count of bins, each a quarter wider than the one before.
const BINS: usize = 48;

/// Totals of the calls at a place. Numbers are weighted by the calls that were skipped.
#[derive(Clone, Debug)]
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
    errors: [u32; BINS],
    reason: String,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            calls: 0.0,
            sampled: false,
            items: 0.0,
            shared: 0.0,
            threads: 0,
            took: 0.0,
            saved: 0.0,
            errors: [0; BINS],
            reason: String::new(),
        }
    }
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
        self.items += if event.items == UNKNOWN { 0.0 } else { calls * event.items as f64 };
        if event.threads > 1 {
            self.shared += calls;
            let serial = account.alternatives.iter().flatten().find(|(name, _)| *name == "serial");
            let most = took * (event.threads - 1) as f64;
            self.saved += serial.map_or(0.0, |(_, serial)| weight * (serial.0 - took).min(most));
        }
        if let Some(predicted) = account.predicted.filter(|_| took > 0.0) {
            let error = (predicted.0 - took).abs() / took;
            self.errors[bin(error).min(BINS - 1)] += 1;
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
        self.errors.iter_mut().zip(other.errors).for_each(|(one, more)| *one += more);
        self.reason = other.reason;
    }

    /// The relative error that this part of the predictions does not exceed; `None` without predictions.
    fn error_at(&self, part: f64) -> Option<f64> {
        let all: u32 = self.errors.iter().sum();
        let wanted = (f64::from(all) * part).ceil().max(1.0) as u32;
        let mut seen = 0;
        let found = self.errors.iter().position(|&count| {
            seen += count;
            seen >= wanted
        });
        found.filter(|_| all > 0).map(error_of)
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
    /// 1 once it was printed.
    printed: RelaxedU64,
}

enum Target {
    Stderr,
    File(PathBuf),
}

static REPORT: PerProcess<Option<ProcessReport>> = PerProcess::new();

/// The report of this process, if one is wanted.
fn report() -> Option<&'static ProcessReport> {
    let build = || {
        let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0")?;
        let target = if value == "1" { Target::Stderr } else { Target::File(value.into()) };
        let cost = cost();
        at_exit(print);
        let tables = std::array::from_fn(|_| Mutex::default());
        Some(ProcessReport { target, tables, cost, lost: RelaxedU64::new(0), printed: RelaxedU64::new(0) })
    };
    REPORT.get(build).as_ref()
}

/// Time of reporting a call: of a few turns the shortest, since the thread may be interrupted in the others.
fn cost() -> Nanos {
    // Measure: count of turns, and of calls reported in a turn.
    const TURNS: u32 = 8;
    let place = Location::caller();
    let mut table = HashMap::new();
    let mut turn = || {
        let begin = Instant::now();
        for call in 0..TURNS {
            let reason = format!("shared after {call} items: an example").into();
            let alternatives = [Some(("serial", Nanos::default())), None];
            let account = Account { reason, alternatives, ..Account::default() };
            let key = key_of(Some(place), CallKind::Loop.name());
            table.entry(key).or_insert_with(Row::default).add(&example(&account), &account);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    Nanos((0..TURNS).map(|_| turn()).fold(f64::INFINITY, f64::min))
}

/// A call of one item.
fn example(account: &Account) -> Event<'_> {
    Event {
        kind: EventKind::Call(CallKind::Loop),
        place: None,
        region: 0,
        weight: 1.0,
        items: 1,
        threads: 1,
        took: Nanos::default(),
        ticks: (0, 0),
        ending: Ending::Returned,
        is_further: false,
        decision: Decided::Now(account),
        claims: PartClaims::default(),
        tiles: None,
    }
}

fn key_of(place: CallPlace, kind: &'static str) -> Key {
    place.map_or(("?", 0, kind), |place| (place.file(), place.line(), kind))
}

/// The last reported call at a place, as this thread remembers it.
#[derive(Clone, Copy, Default)]
struct Last {
    place: usize,
    generation: u32,
    /// Sampling probability.
    probability: f32,
    /// Nanoseconds that it took to build the report.
    building: f32,
}

impl Last {
    fn is_of(&self, address: usize) -> bool {
        self.place == address && self.generation == fork_generation()
    }

    /// Weight of one sampled call.
    fn weight_of(&self, address: usize) -> f32 {
        if self.is_of(address) { self.probability.recip() } else { 1.0 }
    }
}

/// Calls at a place that are skipped.
#[derive(Clone, Copy)]
struct Skip {
    place: usize,
    generation: u32,
    /// Calls to skip before the next sample.
    untold: u32,
}

impl Skip {
    const NONE: Skip = Skip { place: 0, generation: 0, untold: 0 };
}

/// Measure: count of places of which a thread skips calls at the same time.
const SKIPPED: usize = 64;

thread_local! {
    static SKIPS: [Cell<Skip>; SKIPPED] = const { [const { Cell::new(Skip::NONE) }; SKIPPED] };
    static LAST: RefCell<Vec<Last>> = const { RefCell::new(Vec::new()) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static TABLE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// True if a report is wanted.
#[inline]
pub(super) fn is_wanted() -> bool {
    report().is_some()
}

fn address(place: CallPlace) -> usize {
    place.map_or(0, |place| std::ptr::from_ref(place) as usize)
}

/// The index of a place among those that are remembered.
fn slot(address: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) % REMEMBERED
}

/// True if the call that begins here is reported.
#[inline]
fn samples(address: usize) -> bool {
    let skips = |skip: &Cell<Skip>| {
        let (before, generation) = (skip.get(), fork_generation());
        if before.place == address && before.generation == generation && before.untold > 0 {
            skip.set(Skip { untold: before.untold - 1, ..before });
            return true;
        }
        false
    };
    !SKIPS.with(|all| skips(&all[slot(address) % SKIPPED])) && is_due(address)
}

/// [`samples`] for a call that is not just skipped.
#[cold]
#[inline(never)]
fn is_due(address: usize) -> bool {
    let last = last(address);
    if !last.is_of(address) {
        return true;
    }
    let was_skipped = SKIPS.with(|all| all[slot(address) % SKIPPED].get().place == address);
    let untold = untold(last.probability);
    let is_due = was_skipped || untold == 0;
    skip(address, if is_due { untold } else { untold - 1 });
    is_due
}

/// Skips the next `untold` calls at a place.
fn skip(address: usize, untold: u32) {
    let skip = Skip { place: address, generation: fork_generation(), untold };
    SKIPS.with(|all| all[slot(address) % SKIPPED].set(skip));
}

/// Weight of the call that begins at this place; `None` if it is skipped.
#[inline]
pub(super) fn sample(place: CallPlace) -> Option<f32> {
    let address = address(place);
    samples(address).then(|| last(address).weight_of(address))
}

/// Geometric random number of calls to skip.
fn untold(probability: f32) -> u32 {
    if probability >= 1.0 {
        return 0;
    }
    let uniform = ((random() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (uniform.ln() / (-f64::from(probability)).ln_1p()) as u32
}

fn last(address: usize) -> Last {
    LAST.try_with(|last| last.borrow().get(slot(address)).copied().unwrap_or_default()).unwrap_or_default()
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
    let account = event.decision.account();
    // The rounds of a team are reported after it, and a further pass of a call is no call.
    if !event.is_further && kind != CallKind::Rounds {
        let building = begin.map_or(0.0, |begin| begin.elapsed().as_nanos() as f32);
        remember(event, building, |building| report.cost.0 + f64::from(building));
    }
    report.with_row(key_of(event.place, kind.name()), |row| row.add(event, &account));
}

/// Adds a call that a panic has ended.
pub(super) fn add_panic(event: &Event<'_>, kind: CallKind) {
    let account = Account { reason: "panicked".into(), ..Account::default() };
    add(&Event { decision: Decided::Now(&account), ..*event }, kind);
}

/// Decides how often further calls at the place of the event are reported. `building`: nanoseconds that it took to build the report. `cost`: what
/// a report costs, given that time.
fn remember(event: &Event<'_>, building: f32, cost: impl FnOnce(f32) -> f64) {
    let (place, generation) = (address(event.place), fork_generation());
    let _ = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        last.resize(REMEMBERED, Last::default());
        let last = &mut last[slot(place)];
        // Of two turns the shorter: the thread may be interrupted in the other.
        let shorter = if last.is_of(place) { building.min(last.building) } else { building };
        let probability = probability(event.took, Nanos(cost(shorter))) as f32;
        skip(place, untold(probability));
        *last = Last { place, generation, probability, building };
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
    remember(event, 0.0, |_| ROWS * report.cost.0);
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
            if let Ok(mut table) = self.tables[(first + turn) % TABLES].try_lock() {
                return change(table.entry(key).or_default());
            }
        }
        self.lost.add(1);
    }
}

/// The table that this thread tries first.
fn own_table() -> usize {
    let first = TABLE.try_with(|table| {
        if table.get() == usize::MAX {
            // The address of a variable of the thread differs between threads.
            table.set(step(std::ptr::from_ref(table) as u64) as usize % TABLES);
        }
        table.get()
    });
    first.unwrap_or(0)
}

extern "C" fn print() {
    // A panic would abort the process.
    let _ = std::panic::catch_unwind(|| {
        let Some(Some(report)) = REPORT.peek() else { return };
        if report.printed.get() > 0 {
            return;
        }
        report.printed.set(1);
        let mut rows: HashMap<Key, Row> = HashMap::new();
        for table in &report.tables {
            if let Ok(table) = table.try_lock() {
                table.iter().for_each(|(key, row)| rows.entry(*key).or_default().merge(row.clone()));
            }
        }
        if rows.is_empty() {
            return;
        }
        let text = table(rows.into_iter().collect(), report.lost.get());
        report.target.write(&text);
    });
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
        "time and saved: of all calls; off by: predicted against taken, median and nine of ten; the last call's reason \
         below\n",
    );
    if lost > 0 {
        let _ = writeln!(text, "{lost} calls were not counted, since several threads ended at a time");
    }
    text
}
