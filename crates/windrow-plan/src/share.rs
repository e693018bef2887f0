//! Share: serial or shared, and how wide. It is the one rule for loops ([`choose`]), joins and sorts ([`recursion`](fn@recursion)), teams
//! ([`team`](fn@team)) and the crews of overlaps ([`tiles`]). (A team whose calls were timed as a whole takes the faster mode.)
//!
//! ```text
//! shared(w) = rest * swell / w + enter(workers) + step * (w - 2)
//! w = the width with the least shared(w)
//! share on w members     if shared(w) * margin < rest
//! else run a piece serially and ask again
//! ```
//!
//! `rest` is the predicted time of the rest on one thread, `swell` the factor by which an item takes longer when shared. The cost of
//! entering differs by a factor of 25 with the state of the workers ([`Machine::enter`]), so the workers are an input.
//!
//! Departures from these lines. Each figure is the time of the 31 cells without the departure relative to that with it (records
//! `ablation-*`, two CPUs, arms in random order, two runs; geometric mean where no cell is named; the same mechanisms beside
//! themselves: 0.98 to 1.01):
//!
//! | | departure | without |
//! |---|---|---|
//! | 1 | *A known site needs no sample* ([`site`](crate::site)): its calls are decided before their first item. | warm 1.10 to 1.11, after pauses 1.20 to 1.27; two items of 10 us 1.92 |
//! | 2 | *Debt*: a thread adds up what its serial calls lose because workers are parked. Once the sum exceeds the cost of waking them, the next call wakes workers ([`owed`]). | warm 1.02 to 1.07; two items of 10 us 1.86 |
//! | 3 | *Short calls* of a steady site run unmeasured ([`unmeasured_below`]): calls too short to make up for entering and measuring. (Measured while the bound was twice the cost of entering.) | warm 1.01; 10 items of 100 ns 1.15 to 1.23 |
//! | 4 | *A long item* that a site remembers begins a part. | warm 1.0; a long item at the end 1.34 to 1.41 |
//! | 5 | *Standing by* ([`stands_by`]): at a site of which no call has run serially, workers join the caller if its first item lasts. | more threads than CPUs 1.06, else 0.92 to 1.01; items that wait for each other do not end |
//! | 6 | *Given claims*: a caller that fixes the size of claims says that each is worth a synchronization. Nothing is predicted. | not a question of speed |
//!
//! Two mechanisms of the runtime are measured with them. Workers keep off their caller's CPU: 1.32 to 1.39 warm, 1.28 to 1.30 after pauses,
//! 1.43 to 1.49 beside a busy neighbour, 1.22 to 1.24 with more threads than CPUs. Idle workers spin for the gaps they have seen, which
//! saves CPU time ([`spin`](crate::spin)).
//!
//! Sources: oracle-guided granularity and the heartbeat are from Acar, Charguéraud and Rainey (PLDI 2018). Claims sized in time
//! are from OpenMP's guided schedule, which counts instead. To pay for a wake once as much has been lost without it is the
//! ski-rental rule (Karlin and others, 1988).

mod recursion;
mod team;

pub use self::recursion::{Recursion, ShareDecision, recursion};
pub(crate) use self::team::PATIENCE;
pub use self::team::{Formation, Team, team};
use crate::estimate::AGREE;
use crate::machine::{Machine, WorkerState};
use crate::site::{ItemCost, Trusted};
use crate::{Items, Nanos};

/// The measured progress of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Items done (or their weight).
    pub done: Items,
    /// Time of these items.
    pub spent: Nanos,
    /// Items left (or their weight).
    pub left: Items,
    /// True if the sample is large enough to predict from: see [`Machine::sample`].
    pub ripe: bool,
    /// Cost of an item in earlier calls of the site, if that is trusted.
    pub known: Option<Trusted>,
    /// True if the caller has said that every claim is worth a synchronization: nothing is measured.
    pub eager: bool,
    /// True if only shared calls of the site are remembered: what an item takes on one thread is a guess.
    pub only_shared: bool,
    /// The time of an item that only a shared call spends.
    pub extra: Extra<Nanos>,
}

/// Work on each item that only a shared call does: a time, or a number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Extra<T> {
    /// None.
    #[default]
    None,
    /// The item is copied to where members find it, while the caller works.
    Copy(T),
    /// A second pass over all items but those of the caller reads and writes it.
    SecondPass(T),
}

impl Extra<usize> {
    /// The time that a copy of the bytes takes.
    pub fn time(self, machine: &Machine) -> Extra<Nanos> {
        match self {
            Extra::None => Extra::None,
            Extra::Copy(bytes) => Extra::Copy(machine.copy(bytes)),
            Extra::SecondPass(bytes) => Extra::SecondPass(machine.copy(bytes)),
        }
    }
}

impl Extra<Nanos> {
    /// The time that `items` items take on all members together, of which the plain loop's is `serial`.
    fn added_to(self, serial: Nanos, items: u64) -> Nanos {
        Nanos(match self {
            Extra::None => serial.0,
            Extra::Copy(item) => serial.0 + item.0 * items as f64,
            Extra::SecondPass(item) => SECOND_PASS * serial.0 + item.0 * items as f64,
        })
    }

    /// True if workers are not woken for repeated calls like this one: two members would save nothing, or there is a second pass.
    pub fn forbids_wakes(self, serial: Nanos, items: u64) -> bool {
        self.added_to(serial, items).0 >= 2.0 * serial.0 || matches!(self, Extra::SecondPass(_))
    }
}

impl Progress {
    /// Cost of one item: the remembered one, else the measured one. `None` while neither can be relied on.
    pub fn per_item(&self) -> Option<Nanos> {
        match self.known {
            Some(known) => Some(known.per_item),
            None => self.ripe.then(|| self.measured()),
        }
    }

    fn measured(&self) -> Nanos {
        Nanos(self.spent.0 / (self.done.0.max(1)) as f64)
    }

    /// True if the items done took far longer than remembered: see [`contradicts`].
    pub fn contradicts(&self, known: Nanos, machine: &Machine) -> bool {
        contradicts(self.spent, Nanos(known.0 * self.done.0 as f64), machine)
    }

    /// Predicted time of the rest on one thread.
    pub fn rest(&self) -> Nanos {
        Nanos(self.per_item().unwrap_or_else(|| self.measured()).0 * self.left.0 as f64)
    }
}

/// The workers, as far as the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Maximum number of members, the caller included: threads of the pool, but not more than CPUs.
    pub most: usize,
    /// Workers that spin for work.
    pub idle: usize,
    /// Parked workers.
    pub asleep: usize,
    /// True if the pool cannot run one more region.
    pub busy: bool,
}

/// The costs that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The machine.
    pub machine: Machine,
    /// State of the parked workers: [`WorkerState::AsleepRecently`] or [`WorkerState::AsleepLong`].
    pub parked: WorkerState,
    /// Time that consecutive calls have lost so far because workers were parked.
    pub owed: Nanos,
}

impl Costs {
    /// The costs on a machine, for a thread that has made no calls. The workers have been parked for long.
    pub fn new(machine: Machine) -> Costs {
        Costs { machine, parked: WorkerState::AsleepLong, owed: Nanos(0.0) }
    }

    /// The cost of entering; `wakes`: parked workers have to be woken.
    pub fn enter(&self, wakes: bool) -> Nanos {
        self.machine.enter(if wakes { self.parked } else { WorkerState::Idle })
    }
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Run a piece serially, then decide again.
    Serial {
        /// Items of the next piece, at least 1.
        piece: Items,
    },
    /// Let workers in.
    Publish {
        /// Members wanted, the caller included.
        width: usize,
    },
}

/// The factor by which sharing must be predicted faster: predictions are a tenth off at best, more when workers must be woken.
///
/// Measure: share of the predicted time.
const MARGIN_IDLE: f64 = 1.1;
const MARGIN_ASLEEP: f64 = 1.2;

/// A number of members, and the predicted time with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// Members, the caller included: 2 or more.
    pub width: usize,
    /// Predicted time until the rest is done.
    pub done: Nanos,
    /// True if parked workers have to be woken.
    pub wakes: bool,
}

impl Sharing {
    fn margin(self) -> f64 {
        if self.wakes { MARGIN_ASLEEP } else { MARGIN_IDLE }
    }

    /// True if sharing is faster by the margin than `rest`, the time on one thread.
    pub fn pays(self, rest: Nanos) -> bool {
        self.done.0 * self.margin() < rest.0
    }

    /// The time on one thread from which on this width pays.
    fn break_even(self, costs: &Costs) -> Nanos {
        let margin = self.margin();
        Nanos(margin * costs.enter(self.wakes).0 / (1.0 - margin / self.width as f64))
    }
}

/// The best width, with idle workers only or with parked ones too; `None` if no worker is free. `rest` is the time on one thread, `left`
/// the number of parts that it can be cut into. One more member than the best width would cost more than it saves.
pub fn predict(rest: Nanos, left: Items, workers: &Workers, costs: &Costs) -> Option<Sharing> {
    let most = workers.most.min(usize::try_from(left.0).unwrap_or(usize::MAX));
    let with = |workers: usize, wakes| {
        let (enter, step) = (costs.enter(wakes), costs.machine.step(wakes));
        let most = most.min(workers + 1);
        let width = ((rest.0 / step.0).sqrt() as usize).clamp(2.min(most), most);
        let done = Nanos(rest.0 / width as f64 + enter.0 + step.0 * (width as f64 - 2.0));
        (width > 1).then_some(Sharing { width, done, wakes })
    };
    let idle = with(workers.idle, false);
    if workers.asleep == 0 || idle.is_some_and(|idle| idle.width >= most) {
        return idle;
    }
    let all = with(workers.idle + workers.asleep, true);
    match (idle, all) {
        (Some(idle), Some(all)) if idle.done <= all.done => Some(idle),
        (idle, all) => all.or(idle),
    }
}

/// The time on one thread of which two members save just the cost of entering.
fn longest_short(machine: &Machine, found: WorkerState) -> Nanos {
    Nanos(2.0 * machine.enter(found).0)
}

/// True if a call that takes `whole` on one thread is too short to be shared: two members cannot save the cost of entering.
pub fn is_short(whole: Nanos, machine: &Machine, found: WorkerState) -> bool {
    whole.0 < longest_short(machine, found).0
}

/// The factor by which items take far longer than remembered. A cold start comes on top, because the first items also fetch code and data.
///
/// Measure: share of the expected time.
const CONTRADICTS: f64 = 4.0;

/// True if work of `expected` took far longer: more than four times as long, and a cold start.
pub fn contradicts(spent: Nanos, expected: Nanos, machine: &Machine) -> bool {
    spent.0 > CONTRADICTS * expected.0 + machine.cold().0
}

/// The weight from which on calls of a site are measured, also if it is [steady](ItemCost::is_steady), in a pool of `most` members. Calls that
/// weigh less are too short to be shared, with workers in any state. 0: all calls are measured.
pub fn unmeasured_below(site: ItemCost, most: usize, machine: &Machine) -> u64 {
    let known = site.trusted().filter(|_| site.is_steady());
    let weight = |known: Trusted| shortest_shared(most, machine).0 / known.per_item.0.max(f64::MIN_POSITIVE);
    known.map_or(0, |known| weight(known) as u64)
}

/// The memory of a site after a serial call of `weight` in `spent`, in a pool of `most` members. `contradicted`: it took far longer than remembered.
pub fn after_serial(
    site: ItemCost,
    weight: u64,
    spent: Nanos,
    contradicted: bool,
    most: usize,
    machine: &Machine,
) -> ItemCost {
    let per_item = Nanos(spent.0 / weight as f64);
    let longest = Nanos(spent.0.max(site.per_item().0 * weight as f64));
    match site.alone.is_known() && longest < shortest_shared(most, machine) {
        true => site.after_short(per_item),
        false => site.after_alone(per_item, contradicted),
    }
}

/// The weight at the start of each call of a site that runs unmeasured, since a call has ended early after `done`, which took `spent`: as much
/// as a call that is too short to be shared. Not 0. It says nothing about a call that runs to its end.
pub fn early_weight(done: u64, spent: Nanos, most: usize, machine: &Machine) -> u64 {
    (done as f64 * shortest_shared(most, machine).0 / spent.0.max(1.0)).max(1.0) as u64
}

/// The shortest call, on one thread, that is worth a measured call: at some width, idle workers make up for that and for entering.
fn shortest_shared(most: usize, machine: &Machine) -> Nanos {
    let fixed = machine.enter(WorkerState::Idle).0 + machine.drive().0;
    let from = |width: usize| {
        let further = machine.step(false).0 * (width as f64 - 2.0);
        MARGIN_IDLE * (fixed + further) / (1.0 - MARGIN_IDLE / width as f64)
    };
    Nanos((2..=most.clamp(2, WIDE)).map(from).fold(f64::INFINITY, f64::min))
}

/// Members of which one more never makes a shorter call worth sharing: about five do so first.
///
/// Measure: count of members.
const WIDE: usize = 8;

/// Workers that stand by for a serial call: they join if it lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandBy {
    /// Members wanted, the caller included.
    pub width: usize,
    /// Time after which they join.
    pub patience: Nanos,
    /// True if a parked worker has to be woken.
    pub wakes: bool,
}

/// Workers that stand by for a call of `weight` in `items` that begins serially, if any do. Workers that are busy now may be free by then.
///
/// The caller cannot let workers in during an item. So two items of 20 ms would run serially at a place that was never called
/// before, and items that wait for each other would wait for ever. Workers that stand by cost the caller some line transfers, and a wake if
/// all of them are parked. So they do so only at sites of which no call has run serially to its end, or where the items of the last call were long.
///
/// Their patience is a wake: a shorter call would have gained nothing from them. Where all
/// calls were shared, a call that is trusted or predicted to be short has twice the predicted time: it may run serially.
pub fn stands_by(
    site: ItemCost,
    weight: u64,
    items: usize,
    look: impl FnOnce() -> (Workers, Machine),
) -> Option<StandBy> {
    let is_trusted = site.trusted().is_some();
    if site.ended_alone && is_trusted {
        // The usual case: no look at workers and costs, which are cold after a pause.
        return None;
    }
    let (workers, machine) = look();
    let width = workers.most.min(items);
    if width < 2 || workers.busy {
        return None;
    }
    let wake = machine.enter(WorkerState::AsleepLong);
    let whole = |per_item: Nanos| Nanos(per_item.0 * weight as f64);
    // If items are shorter, the caller can decide between two of them.
    let is_long = |per_item: Nanos| per_item >= wake && !is_short(whole(per_item), &machine, WorkerState::AsleepLong);
    let per_item = site.per_item();
    let patience = match (site.ended_alone, per_item.0 > 0.0) {
        (true, _) if !is_long(per_item) => return None,
        // Without the chance to end serially, a call that gains nothing from workers would get them again and again.
        (false, true) if is_trusted || !is_long(per_item) => wake.0.max(AGREE * whole(per_item).0),
        _ => wake.0,
    };
    let patience = Nanos(patience);
    Some(StandBy { width, patience, wakes: workers.idle == 0 })
}

/// The worth of workers for a stream of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileWorth {
    /// No tile was timed: workers stand by.
    Unknown,
    /// A worker that has joined leaves.
    Leave,
    /// A worker that has joined stays, but no others are let in.
    Stay,
    /// Workers are let in.
    Join,
}

/// A worker leaves if this number of tiles does not pay for it.
///
/// Measure: count of tiles.
const TOO_SHORT: f64 = 4.0;

/// The worth of workers if a tile lasts for `tile`; 0 is unknown. A worker waits for each tile and is woken for it, so workers are let in if waking
/// one for the second of two tiles pays. They do not leave before tiles are several times shorter: tiles of about that length would have them come
/// and go.
pub fn tiles(tile: Nanos, machine: &Machine) -> TileWorth {
    let one = Workers { most: 2, idle: 0, asleep: 1, busy: false };
    let pays = |tile: f64| {
        let both = Nanos(2.0 * tile);
        predict(both, Items(2), &one, &Costs::new(*machine)).is_some_and(|sharing| sharing.pays(both))
    };
    match tile.0 {
        0.0 => TileWorth::Unknown,
        tile if pays(tile) => TileWorth::Join,
        tile if pays(TOO_SHORT * tile) => TileWorth::Stay,
        _ => TileWorth::Leave,
    }
}

/// A choice, its reason, and the predicted time of sharing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareChoice<C> {
    /// The choice.
    pub choice: C,
    /// The reason.
    pub why: &'static str,
    /// Predicted time if shared, if that was predicted.
    pub shared: Option<Nanos>,
}

/// Stay serial or publish; see the [module page](self).
#[inline]
pub fn choose(progress: &Progress, workers: &Workers, costs: &Costs) -> ShareChoice<Grain> {
    let serial = |why, shared| {
        let choice = next_piece(progress, costs);
        ShareChoice { choice, why, shared }
    };
    if progress.left.0 < 2 {
        return serial("there is nothing to share", None);
    }
    if workers.most < 2 {
        return serial("there are no workers, or no CPUs for them", None);
    }
    if progress.eager && !workers.busy && workers.idle + workers.asleep > 0 {
        let left = usize::try_from(progress.left.0).unwrap_or(usize::MAX);
        let width = workers.most.min(workers.idle + workers.asleep + 1).min(left);
        let why = "the claim size was given, so each claim is worth sharing";
        let choice = Grain::Publish { width };
        return ShareChoice { choice, why, shared: None };
    }
    let Some(per_item) = progress.per_item() else { return serial("too little has been measured", None) };
    let rest = Nanos(per_item.0 * progress.left.0 as f64);
    if rest.0 <= costs.enter(false).0 {
        let (short, known) = ("entering costs more than it saves", "too short to be shared, as remembered");
        return serial(if progress.known.is_some() { known } else { short }, None);
    }
    if progress.only_shared && is_short(rest, &costs.machine, WorkerState::AsleepLong) {
        // Otherwise calls could be shared for ever that take a multiple of the plain loop's time.
        return serial("one short call is timed serially", None);
    }
    if workers.busy {
        return serial("the pool cannot take another region", None);
    }
    let swell = progress.known.map_or(1.0, |known| known.swell);
    let swollen = progress.extra.added_to(Nanos(rest.0 * swell), progress.left.0);
    let Some(best) = predict(swollen, progress.left, workers, costs) else {
        return serial("no worker is free", None);
    };
    let shared = Some(best.done);
    let publish = |why| ShareChoice { choice: Grain::Publish { width: best.width }, why, shared };
    if best.pays(rest) {
        return publish("sharing the rest is faster");
    }
    if best.wakes && costs.owed > costs.enter(true) && !progress.extra.forbids_wakes(rest, progress.left.0) {
        return publish("repeated short calls: waking workers now pays off (ski rental)");
    }
    serial("entering costs more than it saves", shared)
}

/// The factor by which a second pass adds to a call of two members: one of them has done its half in one pass.
///
/// Measure: share of the call.
const SECOND_PASS: f64 = 1.5;

/// The share of the time from call to call that a worker has to save to pay for a CPU that spins all the time.
///
/// Measure: share of the time.
const WORTH: f64 = 1.0 / 7.0;

/// Time that a serial call of `whole` has lost because workers were parked: [`Costs::owed`] is the sum. `period`: the time since the call before
/// ended. A loss of less than a seventh of it counts as 0: to avoid it does not pay for a CPU that spins all the time.
pub fn owed(whole: Nanos, period: Nanos, workers: &Workers, costs: &Costs) -> Nanos {
    if workers.most < 2 || workers.asleep == 0 {
        return Nanos(0.0);
    }
    let awake = Workers { idle: workers.idle + workers.asleep, asleep: 0, ..*workers };
    let Some(best) = predict(whole, Items(u64::MAX), &awake, costs) else { return Nanos(0.0) };
    let saved = whole.0 - best.done.0;
    Nanos(if saved > WORTH * whole.0.max(period.0) { saved } else { 0.0 })
}

/// The first piece of a call whose cost is known, which checks that cost: one in this many items.
///
/// Measure: share of the call.
const CHECKED: u64 = 4;

/// The size of the next piece: as many items as are done, until a piece lasts a heartbeat. Not more than half of the rest, because later
/// items may cost more than earlier ones and cannot be shared once they are in the piece. Not less than a sample, because the read of the
/// clock costs something. If the site is known, a first quarter (or a heartbeat) checks the remembered cost.
fn next_piece(progress: &Progress, costs: &Costs) -> Grain {
    let left = progress.left.0;
    let (heartbeat, sample) = (costs.machine.heartbeat(), costs.machine.sample());
    let items = |time: Nanos, per_item: Nanos| (time.0 / per_item.0.max(f64::MIN_POSITIVE)).min(u64::MAX as f64) as u64;
    let piece = match (progress.done.0, progress.per_item()) {
        (0, Some(known)) => (left / CHECKED).min(items(heartbeat, known)),
        (0, None) => 1,
        (_, Some(per_item)) if progress.known.is_some() => left.min(items(heartbeat, per_item)),
        (done, Some(per_item)) => {
            done.min(items(heartbeat, per_item)).min(left.div_ceil(2).max(items(sample, per_item)))
        }
        (done, None) => done.min(left.div_ceil(2)),
    };
    Grain::Serial { piece: Items(piece.max(1)) }
}

#[cfg(test)]
mod tests;
