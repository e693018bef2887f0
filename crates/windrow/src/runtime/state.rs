//! What the callers and workers of a pool share, and what it learns about itself while it runs.

use std::cell::Cell;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use windrow_plan::grain::{self, Costs, Workers};
use windrow_plan::looking::{self, SpinContext};
use windrow_plan::track::{self, Late};
use windrow_plan::{Decision, Nanos};
use windrow_sync::flag::Flag;
use windrow_sync::gate::{Gate, Wait, WorkerCounts};
use windrow_sync::machine::{self, tick};
use windrow_sync::ranges::Ranges;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::{Pad, Spin};

use crate::runtime::placement::Placement;
use crate::runtime::pool;
use crate::runtime::sites::SiteTable;
use crate::team;

/// A region that ends later than this after the one before finds its workers deep asleep, their CPUs halted.
const LONG_SLEEP: Nanos = Nanos(1_000_000.0);
/// Workers say so often that they are there: not at every look, as all of them write to one line.
const ANSWERS: Nanos = Nanos(50_000.0);
/// A worker that was woken and has not come within this time (a time slice of the thread that has its CPU) will be woken again.
const UNANSWERED: Nanos = Nanos(5_000_000.0);
/// The affinity mask is looked at this often, the quota (files) a hundred times less.
const LOOK_AT_MASK: Nanos = Nanos(10_000_000.0);

/// See the [module page](self).
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) gate: Gate,
    /// Members of a full region, the caller included.
    pub(crate) members: usize,
    pub(crate) nanos_per_tick: f64,
    /// How long a caller spins for members that have not left yet.
    pub(crate) settle: Spin,
    pub(crate) sites: SiteTable,
    /// What teams remember.
    pub(crate) teams: team::TeamSites,
    pub(crate) placement: Placement,
    /// The pool was dropped. Its spawn threads, and lanes that began in it, may still use this.
    pub(crate) closed: Flag,
    costs: Costs,
    learned: Pad<Learned>,
    /// When a worker last looked for work, give or take [`ANSWERS`].
    answered: Pad<RelaxedU64>,
    idle_times: Box<[Pad<IdleTimes>]>,
    /// Stack of each thread of the pool in bytes; none is the standard library's usual one.
    stack_size: Option<usize>,
    /// Spawn threads that were started in this process and may not have ended.
    spawn_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Where the threads live: a forked child inherits none of them.
    generation: u32,
}

/// What regions have taught. Callers write it at most once a region.
#[derive(Debug)]
struct Learned {
    enter_idle: RelaxedU64,
    enter_recent: RelaxedU64,
    enter_long: RelaxedU64,
    late_rate: RelaxedU64,
    late_by: RelaxedU64,
    /// When the last region ended, and when one last woke a worker.
    ended: RelaxedU64,
    woke: RelaxedU64,
    cpus: RelaxedU64,
    quota: RelaxedU64,
    mask_read: RelaxedU64,
    quota_read: RelaxedU64,
}

/// What a worker knows about its own waiting; only it writes here.
#[derive(Debug, Default)]
struct IdleTimes {
    since: RelaxedU64,
    gap: RelaxedU64,
    switches: RelaxedU64,
}

/// How the workers were when a region opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    Idle,
    AsleepRecently,
    AsleepLong,
}

thread_local! {
    static SERIAL_DEBT: Cell<SerialDebt> = const { Cell::new(SerialDebt { last: 0, owed: 0.0, credit: 0.0 }) };
}

/// What serial calls of a thread leave for later ones.
#[derive(Clone, Copy, Debug, Default)]
struct SerialDebt {
    /// When the last one ended.
    last: u64,
    /// What they have lost lately because workers slept.
    owed: f64,
    /// What may be lost by trying to share.
    credit: f64,
}

impl Learned {
    fn entering(&self, found: WorkerState) -> &RelaxedU64 {
        match found {
            WorkerState::Idle => &self.enter_idle,
            WorkerState::AsleepRecently => &self.enter_recent,
            WorkerState::AsleepLong => &self.enter_long,
        }
    }
}

/// What entering costs as long as nothing is measured.
fn usual(found: WorkerState) -> Nanos {
    match found {
        WorkerState::Idle => Costs::MEASURED.enter_idle,
        // Woken soon after it fell asleep, a worker comes five times sooner than from a halted CPU.
        WorkerState::AsleepRecently => Nanos(Costs::MEASURED.enter_asleep.0 / 5.0),
        WorkerState::AsleepLong => Costs::MEASURED.enter_asleep,
    }
}

impl PoolState {
    pub(crate) fn new(threads: usize, stack_size: Option<usize>) -> Self {
        // Alone, nothing is measured. (And there are targets with neither threads nor a clock.)
        let nanos_per_tick = if threads > 1 { 1000.0 / machine::ticks_per_micro() } else { 1.0 };
        let ticks = |nanos: f64| (nanos / nanos_per_tick) as u64;
        let mut costs = Costs::MEASURED;
        if threads > 1 {
            costs.claim = Nanos(claim_ticks() as f64 * nanos_per_tick);
        }
        let learned = Learned {
            enter_idle: RelaxedU64::new(usual(WorkerState::Idle).0.to_bits()),
            enter_recent: RelaxedU64::new(usual(WorkerState::AsleepRecently).0.to_bits()),
            enter_long: RelaxedU64::new(usual(WorkerState::AsleepLong).0.to_bits()),
            late_rate: RelaxedU64::new(0),
            late_by: RelaxedU64::new(0),
            ended: RelaxedU64::new(0),
            woke: RelaxedU64::new(0),
            cpus: RelaxedU64::new(machine::cpus() as u64),
            quota: RelaxedU64::new(machine::cpu_quota().unwrap_or(0.0).to_bits()),
            mask_read: RelaxedU64::new(tick()),
            quota_read: RelaxedU64::new(tick()),
        };
        Self {
            gate: Gate::new(threads - 1),
            members: threads,
            nanos_per_tick,
            // A member is at most one claim from leaving, unless its items are long; then there is no hurry.
            settle: Spin { busy: ticks(50_000.0), yielding: ticks(50_000.0) },
            sites: SiteTable::default(),
            teams: team::TeamSites::default(),
            placement: Placement::new(threads - 1),
            closed: Flag::new(),
            costs,
            learned: Pad(learned),
            answered: Pad::default(),
            idle_times: (1..threads).map(|_| Pad::default()).collect(),
            stack_size,
            spawn_threads: Mutex::default(),
            generation: machine::fork_generation(),
        }
    }

    /// Whether the threads of this pool are threads of this process. If not, locks may be held by threads that do not exist.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == machine::fork_generation()
    }

    /// Whether this process is a forked child, and these are its own threads.
    pub(crate) fn is_of_a_child(&self) -> bool {
        self.generation > 0 && self.is_of_this_process()
    }

    /// A thread of this pool that has not begun.
    pub(crate) fn thread(&self, name: String) -> thread::Builder {
        let thread = thread::Builder::new().name(name);
        match self.stack_size {
            Some(bytes) => thread.stack_size(bytes),
            None => thread,
        }
    }

    /// Starts spawn thread `number`. [`take_spawn_threads`](PoolState::take_spawn_threads) returns its handle.
    pub(crate) fn start_spawn_thread(&self, number: usize, life: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = self.thread(format!("windrow-spawn-{number}")).spawn(|| {
            pool::mark_spawn_thread();
            life();
        })?;
        // A forked child may start threads for an inherited pool. They are not joined.
        if self.is_of_this_process() {
            let mut threads = self.spawn_threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.retain(|thread| !thread.is_finished());
            threads.push(thread);
        }
        Ok(())
    }

    /// The spawn threads started so far, to be joined. They end once their queue is closed and empty.
    pub(crate) fn take_spawn_threads(&self) -> Vec<JoinHandle<()>> {
        if !self.is_of_this_process() {
            return Vec::new();
        }
        std::mem::take(&mut *self.spawn_threads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Time as ticks.
    pub(crate) fn ticks(&self, nanos: Nanos) -> u64 {
        (nanos.0 / self.nanos_per_tick) as u64
    }

    /// Ticks as time.
    #[inline]
    pub(crate) fn nanos(&self, ticks: u64) -> Nanos {
        Nanos(ticks as f64 * self.nanos_per_tick)
    }

    /// CPUs the pool may use, as far as its workers have noticed.
    fn cpus(&self) -> usize {
        self.learned.0.cpus.get() as usize
    }

    fn quota(&self) -> Option<f64> {
        let quota = self.learned.0.quota.get_f64();
        (quota > 0.0).then_some(quota)
    }

    /// The workers, for a decision.
    #[inline]
    pub(crate) fn workers(&self) -> Workers {
        if self.cpus() == 1 && self.members > 1 {
            // No worker is woken that could see that there are more again.
            self.read_machine(tick(), 1);
        }
        let WorkerCounts { busy, asleep, idle, .. } = self.gate.state();
        Workers { most: self.members.min(self.cpus()), idle, asleep, busy }
    }

    /// Costs that do not change: enough to size claims and samples.
    #[inline]
    pub(crate) fn fixed_costs(&self) -> &Costs {
        &self.costs
    }

    /// What things cost at the moment `now`.
    pub(crate) fn costs(&self, now: u64) -> Costs {
        let learned = &self.learned.0;
        let since = self.since_last(now);
        let asleep = if since > LONG_SLEEP { WorkerState::AsleepLong } else { WorkerState::AsleepRecently };
        let late = Late { rate: learned.late_rate.get_f64(), by: Nanos(learned.late_by.get_f64()) };
        let mut debt = self.debt(now);
        if debt.owed + debt.credit > 0.0 && self.is_unanswered(now) {
            (debt.owed, debt.credit) = (0.0, 0.0);
        }
        Costs {
            enter_idle: self.entering(WorkerState::Idle, since),
            enter_asleep: self.entering(asleep, since),
            late: late.expected(since),
            owed: Nanos(debt.owed),
            credit: Nanos(debt.credit),
            ..self.costs
        }
    }

    /// What entering cost lately, `since` a region last ended.
    fn entering(&self, found: WorkerState, since: Nanos) -> Nanos {
        let usual = usual(found);
        let cost = Nanos(self.learned.0.entering(found).get_f64());
        // Not worth an exponential within a thousandth of the time it takes to forget.
        if since.0 < 50_000.0 { cost } else { track::relaxed(cost, usual, since) }
    }

    /// A wakeup is pending: do not wake again, and do not measure.
    fn is_unanswered(&self, now: u64) -> bool {
        let woke = self.learned.0.woke.get();
        woke > self.answered.0.get() && self.nanos(now.saturating_sub(woke)) < UNANSWERED
    }

    fn since_last(&self, now: u64) -> Nanos {
        self.nanos(now.saturating_sub(self.learned.0.ended.get()))
    }

    /// This thread is about to open a region `now`.
    pub(crate) fn opens(&self, now: u64, wakes: bool) {
        self.placement.before_open(wakes);
        self.shares(now, wakes);
        if wakes && !self.is_unanswered(now) {
            self.learned.0.woke.set(now);
        }
    }

    /// How a region that opens `now` finds its workers, if it `wakes` some.
    pub(crate) fn found(&self, now: u64, wakes: bool) -> WorkerState {
        match wakes {
            false => WorkerState::Idle,
            true if self.since_last(now) > LONG_SLEEP => WorkerState::AsleepLong,
            true => WorkerState::AsleepRecently,
        }
    }

    /// After a region, which ended `now` and took `entering` more than its work explains; a member `lost` its CPU for so long.
    pub(crate) fn learn(&self, now: u64, found: WorkerState, entering: Nanos, lost: Nanos) {
        let learned = &self.learned.0;
        if found == WorkerState::Idle || !self.is_unanswered(now) {
            let before = self.entering(found, self.since_last(now));
            learned.entering(found).set_f64(track::median(before, entering).0);
        }
        let late = Late { rate: learned.late_rate.get_f64(), by: Nanos(learned.late_by.get_f64()) };
        let after = late.after(self.since_last(now), lost);
        if after != late {
            learned.late_rate.set_f64(after.rate);
            learned.late_by.set_f64(after.by.0);
        }
        self.ended(now);
    }

    /// A region ended `now`.
    pub(crate) fn ended(&self, now: u64) {
        self.learned.0.ended.set(now);
    }

    /// What the calls of this thread have left; nothing if the last one is long ago.
    #[inline]
    fn debt(&self, now: u64) -> SerialDebt {
        let debt = SERIAL_DEBT.try_with(Cell::get).unwrap_or_default();
        let recent = self.nanos(now.saturating_sub(debt.last)) < looking::MOST;
        SerialDebt { owed: if recent { debt.owed } else { 0.0 }, ..debt }
    }

    /// A call that took `whole` ended `now`; nothing of it was shared.
    pub(crate) fn stayed_serial(&self, now: u64, whole: Nanos) {
        let (state, costs) = (self.workers(), self.costs(now));
        let owed = if self.may_look() { grain::owed(whole, &state, &costs).0 } else { 0.0 };
        let debt = self.debt(now);
        let credit = debt.credit + grain::credit(whole, &state).0;
        // While the thread ends nothing is kept.
        let _ = SERIAL_DEBT.try_with(|cell| cell.set(SerialDebt { last: now, owed: debt.owed + owed, credit }));
    }

    /// This thread shares a call `now`, and has woken workers for it or not.
    fn shares(&self, now: u64, wakes: bool) {
        let owed = if wakes { 0.0 } else { self.debt(now).owed };
        let _ = SERIAL_DEBT.try_with(|cell| cell.set(SerialDebt { last: now, owed, credit: 0.0 }));
    }

    /// Workers may look for work: waking one pays beyond the region it is woken for.
    fn may_look(&self) -> bool {
        self.look_for(Nanos(0.0), false).choice.0 > 0.0
    }

    fn look_for(&self, gap: Nanos, woken: bool) -> Decision<SpinContext, Nanos> {
        looking::budget(SpinContext { threads: self.members, cpus: self.cpus(), quota: self.quota(), gap, woken })
    }

    /// How long worker `member` looks for work, from now on, before it sleeps.
    pub(crate) fn look(&self, member: usize, wait: Wait) -> Spin {
        let woken = wait == Wait::Woken;
        match wait {
            Wait::Begins => self.placement.avoid_caller(member),
            Wait::Woken => self.placement.unpin(member),
            Wait::Sleeps => {
                self.placement.pin_while_parked(member);
                return Spin::NONE;
            }
        }
        let now = tick();
        self.read_machine(now, member);
        if woken || self.nanos(now.saturating_sub(self.answered.0.get())) > ANSWERS {
            self.answered.0.set(now);
        }
        self.placement.avoid_caller(member);
        let times = &self.idle_times[member - 1].0;
        times.since.set(now);
        let decision = self.look_for(Nanos(times.gap.get_f64()), woken);
        Spin { busy: self.ticks(decision.choice), yielding: 0 }
    }

    /// Worker `member` joined a region `now`.
    #[inline]
    pub(crate) fn joined(&self, member: usize, now: u64) {
        self.placement.avoid_caller(member);
        let times = &self.idle_times[member - 1].0;
        let waited = self.nanos(now.saturating_sub(times.since.get()));
        times.gap.set_f64(looking::gap_after(Nanos(times.gap.get_f64()), waited).0);
    }

    /// Whether worker `member` has lost its CPU since it was last asked.
    pub(crate) fn was_interrupted(&self, member: usize) -> bool {
        let times = &self.idle_times[member - 1].0;
        let switches = machine::involuntary_switches().unwrap_or(0);
        let before = times.switches.get();
        times.switches.set(switches);
        switches > before
    }

    /// Notices a narrowed affinity mask or quota.
    fn read_machine(&self, now: u64, member: usize) {
        let learned = &self.learned.0;
        let old = |read: &RelaxedU64, age: f64| self.nanos(now.saturating_sub(read.get())).0 > age;
        if old(&learned.mask_read, LOOK_AT_MASK.0) {
            learned.mask_read.set(now);
            if let Some(cpus) = self.placement.cpus(member) {
                learned.cpus.set(cpus as u64);
            }
        }
        if old(&learned.quota_read, 100.0 * LOOK_AT_MASK.0) {
            learned.quota_read.set(now);
            learned.quota.set_f64(machine::cpu_quota().unwrap_or(0.0));
        }
    }
}

/// What a claim costs here: a compare-exchange of a word that no other thread uses and a look at the clock. The least of a few batches, about 20 us
/// in all.
fn claim_ticks() -> u64 {
    const CLAIMS: u32 = 64;
    let mut ranges = Ranges::new(1);
    let batch = |_| {
        ranges.fill(CLAIMS, 1, 0, |_| 0);
        let start = tick();
        while ranges.claim(0, |_| 1, |run| run.start).is_some() {
            std::hint::black_box(tick());
        }
        tick().saturating_sub(start) / u64::from(CLAIMS)
    };
    (0..10).map(batch).min().unwrap_or(0).max(1)
}
