//! The report of a process: with `WINDROW_EXPLAIN` set, a program prints at its end what each place that called windrow has done.
//!
//! Calls are sampled ([`windrow_plan::report`]): the first one at a place is always told, short ones rarely, and each counts for those that
//! were not.
//!
//! A row has the calls of one kind at one place. Nothing is decided about a spawned closure, or a call of a task pool. They have rows, too, and [`explain`](crate::explain()) does not return them.
//!
//! What a thread tells goes into one of several tables, each behind a lock that is never waited for: a forked child may inherit a lock that
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
use windrow_plan::report::probability;
use windrow_sync::exit::at_exit;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::fork_generation;
use windrow_sync::relaxed::RelaxedU64;

use super::explained::{CallKind, Explained, grouped, visible};
use super::flag::Flag;

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

/// What the calls at a place have done. Numbers are weighted by the calls that were not told.
#[derive(Clone, Debug)]
struct Row {
    calls: f64,
    /// Whether some calls were not told.
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
    fn add(&mut self, told: &Explained, weight: f64) {
        let took = told.took().as_nanos() as f64;
        self.threads = self.threads.max(told.threads());
        self.took += weight * took;
        // A further pass of a call adds to its time.
        let calls = if told.is_further() { 0.0 } else { weight };
        self.calls += calls;
        self.sampled |= calls > 1.0;
        self.items += calls * told.count() as f64;
        if told.threads() > 1 {
            self.shared += calls;
            let alone = told.alternatives().find(|(name, _)| *name == "serial");
            let most = took * (told.threads() - 1) as f64;
            self.saved += alone.map_or(0.0, |(_, alone)| weight * (alone.as_nanos() as f64 - took).min(most));
        }
        if let Some(predicted) = told.predicted().filter(|_| took > 0.0) {
            let error = (predicted.as_nanos() as f64 - took).abs() / took;
            self.errors[bin(error).min(BINS - 1)] += 1;
        }
        if !told.is_further() {
            told.reason().clone_into(&mut self.reason);
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
    /// What telling costs.
    cost: Nanos,
    /// Calls that found their table locked.
    lost: RelaxedU64,
    printed: Flag,
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
        Some(ProcessReport { target, tables, cost, lost: RelaxedU64::new(0), printed: Flag::new() })
    };
    REPORT.get(build).as_ref()
}

/// The time of telling a call: of a few turns the shortest, since the thread may be interrupted in the others.
fn cost() -> Nanos {
    // Measure: count of turns, and of calls told in a turn.
    const TURNS: u32 = 8;
    let place = Location::caller();
    let mut table = HashMap::new();
    let mut turn = || {
        let begin = Instant::now();
        for call in 0..TURNS {
            let told = Explained::new(CallKind::Loop, Some(place), 1, Nanos::default());
            let told =
                told.or("serial", Some(Nanos::default())).because(format!("shared after {call} items: an example"));
            table.entry(key(&told)).or_insert_with(Row::default).add(&told, 1.0);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    Nanos((0..TURNS).map(|_| turn()).fold(f64::INFINITY, f64::min))
}

fn key(told: &Explained) -> Key {
    key_of(told.place(), told.kind().name())
}

fn key_of(place: Option<&'static Location<'static>>, kind: &'static str) -> Key {
    place.map_or(("?", 0, kind), |place| (place.file(), place.line(), kind))
}

/// What this thread remembers of the last told call at a place.
#[derive(Clone, Copy, Default)]
struct Last {
    place: usize,
    generation: u32,
    /// That a call is told.
    probability: f32,
    /// The calls that the last one stood for.
    weight: f32,
    /// How long it took to find out what the last one told.
    telling: f32,
}

impl Last {
    fn is_of(&self, address: usize) -> bool {
        self.place == address && self.generation == fork_generation()
    }

    /// The calls for which one that is told stands.
    fn stands_for(&self, address: usize) -> f32 {
        if self.is_of(address) { self.probability.recip() } else { 1.0 }
    }
}

/// Calls at a place that are not told.
#[derive(Clone, Copy)]
struct Skip {
    place: usize,
    generation: u32,
    /// So many before one is told.
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

/// Whether a report is wanted.
pub(super) fn is_wanted() -> bool {
    report().is_some()
}

fn address(place: Option<&'static Location<'static>>) -> usize {
    place.map_or(0, |place| std::ptr::from_ref(place) as usize)
}

/// The index of a place among those that are remembered.
fn slot(address: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) % REMEMBERED
}

/// Whether the call that begins here is to be told.
#[inline]
pub(super) fn samples(place: Option<&'static Location<'static>>) -> bool {
    let address = address(place);
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

/// Has this thread not tell so many calls at a place.
fn skip(address: usize, untold: u32) {
    let skip = Skip { place: address, generation: fork_generation(), untold };
    SKIPS.with(|all| all[slot(address) % SKIPPED].set(skip));
}

/// The calls for which the call stands that [`samples`] has just chosen.
pub(super) fn stands_for(place: Option<&'static Location<'static>>) -> f32 {
    let address = address(place);
    last(address).stands_for(address)
}

/// How many calls are not told before one is, if each is told with this probability: a random number.
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

/// Adds a call. If it was `chosen` by [`samples`], it stands for others.
pub(super) fn add(told: &Explained, chosen: bool) {
    let Some(report) = report() else { return };
    let (address, generation) = (address(told.place()), fork_generation());
    let took = Nanos(told.took().as_nanos() as f64);
    let weight = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        last.resize(REMEMBERED, Last::default());
        let last = &mut last[slot(address)];
        let weight = told.stands_for().unwrap_or(if chosen { last.stands_for(address) } else { 1.0 });
        // The rounds of a team are reported after it, and a further pass of a call is no call.
        if !told.is_further() && told.kind() != CallKind::Rounds {
            // Of two turns the shorter: the thread may be interrupted in the other.
            let now = told.telling().0 as f32;
            let telling = if last.is_of(address) { now.min(last.telling) } else { now };
            let probability = probability(took, Nanos(report.cost.0 + f64::from(telling))) as f32;
            skip(address, untold(probability));
            *last = Last { place: address, generation, probability, weight, telling: now };
        }
        let weight = if told.is_further() { weight } else { told.stands_for().unwrap_or(last.weight) };
        f64::from(weight)
    });
    report.with_row(key(told), |row| row.add(told, weight.unwrap_or(1.0)));
}

/// A kind of call about which nothing is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountedKind {
    /// A closure is spawned.
    Spawn,
    /// A closure is handed over to a task pool, and waited for.
    Install,
    /// A scope of a task pool.
    Scope,
    /// The outermost join of a task.
    Join,
    /// A closure for each worker of a task pool.
    Broadcast,
}

impl CountedKind {
    fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Install => "install",
            Self::Scope => "scope",
            Self::Join => CallKind::Join.name(),
            Self::Broadcast => "broadcast",
        }
    }
}

/// A call about which nothing was decided, and that was chosen to be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedCall {
    place: &'static Location<'static>,
    /// The calls for which it stands.
    weight: f32,
    kind: CountedKind,
}

impl CountedCall {
    pub(super) fn new(place: &'static Location<'static>, kind: CountedKind, weight: f32) -> Self {
        CountedCall { place, weight, kind }
    }

    /// Counts the call, which has taken this time. The time decides how often further ones are counted.
    #[cold]
    pub(super) fn count(self, took: Nanos) {
        /// Its row is found twice: for the call, and for the time.
        ///
        /// Measure: count of rows found.
        const ROWS: f64 = 2.0;
        let Some(report) = report() else { return };
        let (address, generation) = (address(Some(self.place)), fork_generation());
        let probability = probability(took, Nanos(ROWS * report.cost.0)) as f32;
        let _ = LAST.try_with(|last| {
            let mut last = last.borrow_mut();
            last.resize(REMEMBERED, Last::default());
            let weight = self.weight;
            last[slot(address)] = Last { place: address, generation, probability, weight, telling: 0.0 };
            skip(address, untold(probability));
        });
        report.with_row(self.key(), |row| {
            row.calls += f64::from(self.weight);
            row.sampled |= self.weight > 1.0;
        });
    }

    fn key(self) -> Key {
        key_of(Some(self.place), self.kind.name())
    }

    /// Adds time to the row of the call.
    #[cold]
    pub(super) fn took(self, time: Nanos) {
        let Some(report) = report() else { return };
        report.with_row(self.key(), |row| row.took += f64::from(self.weight) * time.0);
    }
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
            // The address of a variable of the thread tells threads apart.
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
        if report.printed.is_up() {
            return;
        }
        report.printed.raise();
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
        // A failure cannot be told: stderr itself may have failed.
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
