//! The report of a process: with `WINDROW_EXPLAIN` set, a program prints at its end what each place that called windrow has done.
//!
//! Calls are sampled ([`windrow_plan::report`]): the first one at a place is always told, short ones rarely, and each counts for those that
//! were not. Now and then a loop runs the other way than decided, which measures regret; a thread pays for that out of a [`RegretLedger`]. What a thread tells goes into one of several tables, each behind a lock that is never waited for: a forked child may inherit a
//! lock that no thread will release.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use windrow_plan::Nanos;
use windrow_plan::explore::Budget;
use windrow_plan::report::{RegretLedger, probability, regret};
use windrow_sync::exit::at_exit;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::fork_generation;
use windrow_sync::relaxed::RelaxedU64;

use super::explained::{CallKind, Explained, grouped};
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

/// Measure: count of calls that ran the other way, which a place remembers.
const OTHERS: usize = 101;

/// A told call runs the other way with this probability at most, since its time is compared with that of the one before.
///
/// Measure: share of calls.
const MOST_OTHERS: f64 = 0.25;

/// What the calls at a place have done. Numbers are weighted by the calls that were not told.
#[derive(Clone, Debug)]
struct Row {
    calls: f64,
    /// Whether some calls were not told.
    sampled: bool,
    items: f64,
    shared: f64,
    threads: usize,
    took: f64,
    /// The time that the shared calls would have taken alone, as predicted, less what they took; at most what their threads can save.
    saved: f64,
    errors: [u32; BINS],
    /// The times of the last calls that ran the other way than decided, relative to those that ran as decided.
    others: VecDeque<f64>,
    reason: String,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            calls: 0.0,
            sampled: false,
            items: 0.0,
            shared: 0.0,
            threads: 1,
            took: 0.0,
            saved: 0.0,
            errors: [0; BINS],
            others: VecDeque::new(),
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
        self.calls += weight;
        self.sampled |= weight > 1.0;
        self.items += weight * told.count() as f64;
        self.threads = self.threads.max(told.threads());
        self.took += weight * took;
        if told.threads() > 1 {
            self.shared += weight;
            let alone = told.alternatives().find(|(name, _)| *name == "serial");
            let most = took * (told.threads() - 1) as f64;
            self.saved += alone.map_or(0.0, |(_, alone)| weight * (alone.as_nanos() as f64 - took).min(most));
        }
        if let Some(predicted) = told.predicted().filter(|_| took > 0.0) {
            let error = (predicted.as_nanos() as f64 - took).abs() / took;
            self.errors[bin(error).min(BINS - 1)] += 1;
        }
        told.reason().clone_into(&mut self.reason);
    }

    /// Adds a call that ran the other way than decided, and would have taken the `usual` time.
    fn add_other(&mut self, told: &Explained, weight: f64, usual: f64) {
        self.calls += weight;
        self.sampled |= weight > 1.0;
        self.items += weight * told.count() as f64;
        self.took += weight * usual;
        self.others.push_back(told.took().as_nanos() as f64 / usual);
        self.forget();
    }

    fn forget(&mut self) {
        let extra = self.others.len().saturating_sub(OTHERS);
        self.others.drain(..extra);
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
        self.others.extend(other.others);
        self.forget();
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
type Key = (&'static str, u32, CallKind);

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
    told.place().map_or(("?", 0, told.kind()), |place| (place.file(), place.line(), told.kind()))
}

/// What this thread remembers of the last told call at a place.
#[derive(Clone, Copy, Default)]
struct Last {
    place: usize,
    generation: u32,
    /// That the next call is told.
    probability: f32,
    /// The calls that the last one stood for.
    weight: f32,
    /// The items of the last call that ran as decided, and its time in nanoseconds.
    items: u64,
    took: f32,
}

impl Last {
    fn is_of(&self, address: usize) -> bool {
        self.place == address && self.generation == fork_generation()
    }

    /// The time that so many items usually take; `None` if the last call had far more or fewer.
    fn usual(&self, items: u64) -> Option<f64> {
        let by = items.max(1) as f64 / self.items.max(1) as f64;
        (self.took > 0.0 && (0.5..=2.0).contains(&by)).then(|| f64::from(self.took) * by)
    }
}

thread_local! {
    static LAST: RefCell<Vec<Last>> = const { RefCell::new(Vec::new()) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static LEDGER: Cell<RegretLedger> = const { Cell::new(RegretLedger::EMPTY) };
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
pub(super) fn samples(place: Option<&'static Location<'static>>) -> bool {
    let address = address(place);
    let last = last(address);
    !last.is_of(address) || happens(last.probability.into())
}

/// The loss that is allowed to the call that begins here, if it is to run the other way than decided. The call is one that is told.
pub(super) fn contrary(place: Option<&'static Location<'static>>) -> Option<Budget> {
    let address = address(place);
    let last = last(address);
    let budget = LEDGER.try_with(Cell::get).unwrap_or_default().budget();
    let is_due = || happens(RegretLedger::probability(1.0 / f64::from(last.probability)).min(MOST_OTHERS));
    (last.is_of(address) && last.took > 0.0 && budget.covers(Nanos(0.0)) && is_due()).then_some(budget)
}

fn last(address: usize) -> Last {
    LAST.try_with(|last| last.borrow().get(slot(address)).copied().unwrap_or_default()).unwrap_or_default()
}

/// Whether something of this probability happens.
fn happens(probability: f64) -> bool {
    if probability >= 1.0 {
        return true;
    }
    let random = RANDOM.try_with(|random| {
        let next = step(random.get() ^ std::ptr::from_ref(random) as u64);
        random.set(next);
        next
    });
    // The upper bits are the random ones.
    random.is_ok_and(|random| ((random >> 11) as f64) < probability * (1u64 << 53) as f64)
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
    let remembered = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        last.resize(REMEMBERED, Last::default());
        let last = &mut last[slot(address)];
        let weight = if last.is_of(address) && chosen { last.probability.recip() } else { 1.0 };
        if told.price_against_decision().is_some() {
            return (f64::from(weight), last.usual(told.count()));
        }
        // The rounds of a team are told behind it.
        if told.kind() != CallKind::Rounds {
            let probability = probability(took, report.cost) as f32;
            let (items, took) = (told.count(), took.0 as f32);
            *last = Last { place: address, generation, probability, weight, items, took };
        }
        (f64::from(last.weight), None)
    });
    let (weight, usual) = remembered.unwrap_or((1.0, None));
    let _ = LEDGER.try_with(|ledger| {
        let earned = ledger.get().earn(Nanos(weight * usual.unwrap_or(took.0)));
        let price = told.price_against_decision().map(|price| {
            let lost = took.0 - usual.unwrap_or(took.0);
            lost.max(price.as_nanos() as f64)
        });
        ledger.set(earned.pay(Nanos(price.unwrap_or(0.0))));
    });
    let first = TABLE.try_with(|table| {
        if table.get() == usize::MAX {
            // The address of a variable of the thread tells threads apart.
            table.set(step(std::ptr::from_ref(table) as u64) as usize % TABLES);
        }
        table.get()
    });
    let first = first.unwrap_or(0);
    for turn in 0..TABLES {
        if let Ok(mut table) = report.tables[(first + turn) % TABLES].try_lock() {
            let row = table.entry(key(told)).or_default();
            match usual {
                Some(usual) => row.add_other(told, weight, usual),
                None if told.price_against_decision().is_some() => {}
                None => row.add(told, weight),
            }
            return;
        }
    }
    report.lost.add(1);
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
        // A failure cannot be told: stderr itself may have failed.
        let _ = match &report.target {
            Target::Stderr => std::io::stderr().write_all(text.as_bytes()),
            Target::File(path) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
                file.and_then(|mut file| file.write_all(text.as_bytes()))
            }
        };
    });
}

/// The report as text: the places by time, each with the reason of its last call.
fn table(mut rows: Vec<(Key, Row)>, lost: u64) -> String {
    rows.sort_by(|(key, row), (other, others)| others.took.total_cmp(&row.took).then_with(|| key.0.cmp(other.0)));
    let head = ["place", "what", "calls", "items", "shared", "threads", "time", "saved", "off by", "regret"];
    let mut lines = vec![(head.map(String::from), String::new())];
    // The time of rounds is that of their team.
    let calls = || rows.iter().filter(|((.., kind), _)| *kind != CallKind::Rounds);
    let all = |of: fn(&Row) -> f64| Nanos(calls().map(|(_, row)| of(row)).sum());
    let (took, saved) = (all(|row| row.took), all(|row| row.saved));
    let places = calls().count();
    let plural = if places == 1 { "" } else { "s" };
    let mut text = format!("windrow: {places} place{plural}, {took} in calls, {saved} saved by sharing\n");
    for ((file, line, kind), mut row) in rows {
        let about = if row.sampled { "~" } else { "" };
        let number = |number: f64| format!("{about}{}", grouped(number.round() as u64));
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        let items = if row.items > 0.0 { number(row.items) } else { "-".into() };
        let saved = if row.shared > 0.0 { Nanos(row.saved).to_string() } else { "-".into() };
        let errors = row.error_at(0.5).zip(row.error_at(0.9));
        let errors = errors.map_or("-".into(), |(half, most)| format!("{}, {}", percent(half), percent(most)));
        let trials = row.others.len();
        let regret = regret(row.others.make_contiguous());
        let regret = regret.map_or("-".into(), |regret| format!("{regret:.2} ({trials})"));
        let cells = [
            format!("{file}:{line}"),
            kind.name().to_owned(),
            number(row.calls),
            items,
            percent(row.shared / row.calls),
            row.threads.to_string(),
            Nanos(row.took).to_string(),
            saved,
            errors,
            regret,
        ];
        lines.push((cells, row.reason));
    }
    let widths: [usize; 10] =
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
        "time and saved: of all calls; off by: predicted against taken, median and nine of ten; regret: relative to \
         calls that ran the other way (so many); the last call's reason below\n",
    );
    if lost > 0 {
        let _ = writeln!(text, "{lost} calls were not counted, since several threads ended at a time");
    }
    text
}
