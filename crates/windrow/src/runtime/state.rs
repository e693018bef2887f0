//! Common state of the callers and workers of a pool, and the costs that the pool learns while it runs.

use std::cell::Cell;
use std::io;
use std::thread::{self, JoinHandle};

use windrow_plan::Nanos;
use windrow_plan::machine::{Machine, WorkerState};
use windrow_plan::share::{self, Costs, Workers};
use windrow_plan::spin::{self, SpinContext};
use windrow_sync::Mutex;
use windrow_sync::fork::PerProcess;
use windrow_sync::gate::{Gate, Wait, WorkerCounts};
use windrow_sync::join::tree::JoinTiming;
use windrow_sync::machine::{self, Thread, tick};
use windrow_sync::quota::cpu_quota;
use windrow_sync::ranges::Ranges;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::{Pad, Spin};

use crate::runtime::ablation::{Mechanism, Mechanisms};
use crate::runtime::flag::Flag;
use crate::runtime::placement::Placement;
use crate::runtime::sites::{SiteStats, SiteTable};
use crate::runtime::spawn_threads::SpawnQueue;

/// The affinity mask is read once in this number of claims, so that its system call of some 100 claims costs 0.01 %.
///
/// Measure: 10^6 claims.
const MASK_AGE: f64 = 1_000_000.0;

/// Reads of the affinity mask for one of the quota, which is files.
///
/// Measure: count of reads.
const QUOTA_AGE: f64 = 100.0;

/// See the [module page](self).
#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) gate: Gate,
    /// Members of a full region, the caller included.
    pub(crate) members: usize,
    /// The clock, and the machine as guessed from what was measured when the pool started: for sizes that need not be exact.
    pub(crate) timing: Timing,
    /// Spin of a caller for members that have not left yet.
    pub(crate) settle: Spin,
    pub(crate) sites: SiteTable,
    pub(crate) placement: Placement,
    /// Spawned closures. Spawn threads, and lanes of overlapped runs that began in the pool, may outlive it.
    pub(crate) spawns: SpawnQueue,
    /// Up if the pool is, or was, windrow's own global one.
    is_global: Flag,
    /// Mechanisms that are switched off.
    pub(crate) off: Mechanisms,
    /// The intervals of recursions.
    pub(crate) join_timing: JoinTiming,
    learned: Pad<Learned>,
    idle_times: Box<[Pad<IdleTimes>]>,
    /// Stack of each thread of the pool in bytes; `None` is the standard library's default.
    stack_size: Option<usize>,
    /// Spawn threads that were started in this process and may not have ended.
    spawn_threads: Mutex<Vec<JoinHandle<()>>>,
    /// The fork generation of the process that started the threads: a forked child inherits none of them.
    generation: u32,
}

/// Costs learned from regions. Callers write it at most once a region.
#[derive(Debug)]
struct Learned {
    line: RelaxedU64,
    nap: RelaxedU64,
    wake: RelaxedU64,
    /// When the last region ended.
    ended: RelaxedU64,
    /// End of the last serial call that workers would have made faster if they had been awake.
    missed: RelaxedU64,
    cpus: RelaxedU64,
    quota: RelaxedU64,
    mask_read: RelaxedU64,
    quota_read: RelaxedU64,
}

/// Tick of the end of a worker's last region, and its average wait for one. Only that worker writes here.
#[derive(Debug, Default)]
struct IdleTimes {
    since: RelaxedU64,
    gap: RelaxedU64,
}

thread_local! {
    static ACCOUNT: Cell<ThreadAccount> = const { Cell::new(ThreadAccount { last: 0, owed: 0.0 }) };
}

/// State of a thread from one call to the next.
#[derive(Clone, Copy, Debug)]
struct ThreadAccount {
    /// Tick at which the last call ended.
    last: u64,
    /// Time that serial calls have lost lately because workers were parked.
    owed: f64,
}

impl PoolState {
    pub(crate) fn new(threads: usize, stack_size: Option<usize>, off: Mechanisms) -> Self {
        // A pool of one thread measures nothing. (Some targets have neither threads nor a clock.)
        let timing = match threads {
            1 => Timing { machine: Machine::example(), nanos_per_tick: 1.0 },
            _ => Timing::measured(),
        };
        let (guess, ticks) = (&timing.machine, |time| timing.ticks(time));
        let learned = Learned {
            line: RelaxedU64::new(guess.line.0.to_bits()),
            nap: RelaxedU64::new(guess.nap.0.to_bits()),
            wake: RelaxedU64::new(guess.wake.0.to_bits()),
            ended: RelaxedU64::new(0),
            missed: RelaxedU64::new(0),
            cpus: RelaxedU64::new(
                Some(Thread::this().allowed().len()).filter(|&cpus| cpus > 0).unwrap_or_else(machine::cpus) as u64,
            ),
            // A worker reads it when it begins: the caller waits for some 20 system calls less.
            quota: RelaxedU64::new(0),
            mask_read: RelaxedU64::new(tick()),
            quota_read: RelaxedU64::new(0),
        };
        // A member leaves after one claim at most. If its items are longer than that, a park of the caller costs little.
        let settle = Spin { busy: ticks(guess.longest_claim()), yielding: ticks(guess.longest_claim()) };
        let join_timing = timing.joins(settle);
        Self {
            gate: Gate::new(threads - 1),
            members: threads,
            settle,
            sites: SiteTable::default(),
            placement: Placement::new(threads - 1),
            spawns: SpawnQueue::new(),
            is_global: Flag::new(),
            off,
            join_timing,
            timing,
            learned: Pad(learned),
            idle_times: (1..threads).map(|_| Pad::default()).collect(),
            stack_size,
            spawn_threads: Mutex::default(),
            generation: machine::fork_generation(),
        }
    }

    /// The state of a pool behind `gate`, which has `workers` workers, for regions of as many members. The workers place themselves.
    pub(crate) fn behind(gate: Gate, workers: usize) -> Self {
        Self { gate, members: workers, ..Self::new(workers + 1, None, Mechanisms::default()) }
    }

    /// True if the threads of this pool are threads of this process. Otherwise locks may be held by threads that do not exist.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == machine::fork_generation()
    }

    /// Makes workers of this pool [count](super::hooks) the calls that they are inside. Before its first call.
    pub(crate) fn set_global(&self) {
        self.is_global.raise();
    }

    pub(crate) fn is_global(&self) -> bool {
        cfg!(feature = "rayon") && self.is_global.is_up()
    }

    /// True if this process is a forked child, and these are its own threads.
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
        let thread = self.thread(format!("windrow-spawn-{number}")).spawn(life)?;
        // A forked child may start threads for an inherited pool. They are not joined.
        if self.is_of_this_process() {
            let mut threads = self.spawn_threads.lock();
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
        std::mem::take(&mut *self.spawn_threads.lock())
    }

    /// Time as ticks.
    pub(crate) fn ticks(&self, nanos: Nanos) -> u64 {
        self.timing.ticks(nanos)
    }

    /// Ticks as time.
    #[inline]
    pub(crate) fn nanos(&self, ticks: u64) -> Nanos {
        self.timing.nanos(ticks)
    }

    /// CPUs that the pool may use, at the last read of the affinity mask.
    fn cpus(&self) -> usize {
        self.learned.0.cpus.get() as usize
    }

    /// The workers, for a decision.
    #[inline]
    pub(crate) fn workers(&self) -> Workers {
        if self.cpus() == 1 && self.members > 1 {
            // With one CPU no worker is woken, so no worker would notice a wider mask.
            self.read_machine(tick(), 1);
        }
        let WorkerCounts { busy, asleep, idle, .. } = self.gate.state();
        Workers { most: self.members.min(self.cpus()), idle, asleep, busy }
    }

    /// Members for `items` items of a call that is shared on `width` members. More members than CPUs are no faster. But a program that wants
    /// more threads may have items that wait for each other: if a thread for each is there, each item gets one.
    pub(crate) fn seats(&self, items: usize, width: usize) -> usize {
        if width == self.cpus() && items <= self.members { items.max(width) } else { width }
    }

    /// The machine as guessed when the pool started: enough to size claims and samples.
    #[inline]
    pub(crate) fn guess(&self) -> &Machine {
        &self.timing.machine
    }

    /// The machine as measured by the regions so far.
    pub(crate) fn machine(&self) -> Machine {
        let Learned { line, nap, wake, .. } = &self.learned.0;
        let nanos = |learned: &RelaxedU64| Nanos(learned.get_f64());
        Machine { line: nanos(line), nap: nanos(nap), wake: nanos(wake), ..*self.guess() }
    }

    /// The costs for a decision at the time `now`, and this thread's debt.
    pub(crate) fn costs(&self, now: u64) -> Costs {
        let machine = self.machine();
        let ThreadAccount { mut owed, .. } = self.account(now, &machine);
        if self.off.contains(Mechanism::Debt) {
            owed = 0.0;
        }
        Costs { machine, parked: self.found(now, true), owed: Nanos(owed) }
    }

    /// Stores what a site remembers from now on.
    pub(crate) fn remember(&self, site: usize, memory: SiteStats) {
        let measures = self.off.contains(Mechanism::Sites) || self.off.contains(Mechanism::ShortCalls);
        let unmeasured =
            if measures { 0 } else { share::unmeasured_below(memory.known, self.members, &self.machine()) };
        self.sites.remember(site, memory, unmeasured);
    }

    /// Stores that a call of `site` has ended early after `done`, which took `spent`: see [`share::early_weight`].
    pub(crate) fn ended_early(&self, site: usize, done: u64, spent: Nanos) {
        let measures = self.off.contains(Mechanism::Sites) || self.off.contains(Mechanism::ShortCalls);
        let early = if measures { 1 } else { share::early_weight(done, spent, self.members, &self.machine()) };
        self.sites.end_early(site, early);
    }

    /// Called before this thread opens a region; `wakes` if it wakes workers.
    pub(crate) fn opens(&self, wakes: bool) {
        if !self.off.contains(Mechanism::Placement) {
            self.placement.before_open(wakes);
        }
        if wakes {
            self.keep(|account| ThreadAccount { owed: 0.0, ..account });
        }
    }

    /// The state in which a region that opens `now` finds its workers, if it `wakes` some.
    pub(crate) fn found(&self, now: u64, wakes: bool) -> WorkerState {
        let since = self.nanos(now.saturating_sub(self.learned.0.ended.get()));
        match wakes {
            false => WorkerState::Idle,
            true if since > self.guess().long_sleep() => WorkerState::AsleepLong,
            true => WorkerState::AsleepRecently,
        }
    }

    /// Learns from a region that took `wall` and ended `now`. `entering` is the time that its work does not explain; `None` if no worker came.
    pub(crate) fn learn(&self, now: u64, found: WorkerState, entering: Option<Nanos>, wall: Nanos) {
        let learned = &self.learned.0;
        let machine = match entering {
            Some(entering) => self.machine().after(found, entering),
            None => self.machine().after_missing(found, wall),
        };
        match found {
            WorkerState::Idle => learned.line.set_f64(machine.line.0),
            WorkerState::AsleepRecently => learned.nap.set_f64(machine.nap.0),
            WorkerState::AsleepLong => learned.wake.set_f64(machine.wake.0),
        }
        self.lasted(now);
    }

    /// Records a region that ended `now`, of which nothing else can be learned.
    pub(crate) fn lasted(&self, now: u64) {
        self.keep(|account| ThreadAccount { last: now, ..account });
    }

    /// Records that a region ended `now`.
    pub(crate) fn ended(&self, now: u64) {
        self.learned.0.ended.set(now);
    }

    /// The account of this thread. A debt is forgotten if the last call is longer ago than a worker spins for: to wake one would pay for one call.
    #[inline]
    fn account(&self, now: u64, machine: &Machine) -> ThreadAccount {
        let account = ACCOUNT.try_with(Cell::get).unwrap_or(ThreadAccount { last: 0, owed: 0.0 });
        let recent = self.nanos(now.saturating_sub(account.last)) < spin::longest_gap(machine);
        ThreadAccount { owed: if recent { account.owed } else { 0.0 }, ..account }
    }

    /// Changes this thread's account. While the thread ends, nothing is stored.
    fn keep(&self, change: impl FnOnce(ThreadAccount) -> ThreadAccount) {
        let _ = ACCOUNT.try_with(|cell| cell.set(change(cell.get())));
    }

    /// Records a call that took `whole` and ended `now`, and was not shared.
    pub(crate) fn stayed_serial(&self, now: u64, whole: Nanos) {
        if !self.may_spin() {
            return self.keep(|_| ThreadAccount { last: now, owed: 0.0 });
        }
        let (state, costs) = (self.workers(), self.costs(now));
        let period = self.nanos(now.saturating_sub(self.account(now, &costs.machine).last));
        let owed = share::owed(whole, period, &state, &costs).0;
        if owed > 0.0 {
            self.learned.0.missed.set(now);
        }
        self.keep(|_| ThreadAccount { last: now, owed: costs.owed.0 + owed });
    }

    /// True if workers may spin: then a wake also pays for later regions.
    fn may_spin(&self) -> bool {
        self.spin_budget(Nanos(0.0), false).0 > 0.0
    }

    /// Spin of a spawn thread without work: that of a worker that was woken. A single CPU is left to the caller.
    pub(crate) fn spawn_spin(&self) -> Spin {
        let budget = self.spin_budget(Nanos(f64::INFINITY), true);
        if self.cpus() > 1 { Spin { busy: self.ticks(budget), yielding: 0 } } else { Spin::NONE }
    }

    fn spin_budget(&self, mut gap: Nanos, woken: bool) -> Nanos {
        if self.off.contains(Mechanism::SpinGaps) {
            gap = self.machine().wake;
        }
        let quota = Some(self.learned.0.quota.get_f64()).filter(|&quota| quota > 0.0);
        let context = SpinContext { threads: self.members, cpus: self.cpus(), quota, gap, woken };
        spin::budget(context, &self.machine())
    }

    /// The spin budget of worker `member` from now on, before it parks.
    pub(crate) fn spin(&self, member: usize, wait: Wait) -> Spin {
        let woken = wait == Wait::Woken;
        match wait {
            Wait::Begins => self.avoid_caller(member),
            Wait::Woken => self.placement.unpin(member),
            Wait::Sleeps => {
                self.placement.pin_while_parked(member);
                return Spin::NONE;
            }
        }
        let now = tick();
        self.read_machine(now, member);
        self.avoid_caller(member);
        let times = &self.idle_times[member - 1].0;
        if !woken {
            times.since.set(now);
        }
        Spin { busy: self.ticks(self.spin_budget(Nanos(times.gap.get_f64()), woken)), yielding: 0 }
    }

    #[inline]
    fn avoid_caller(&self, member: usize) {
        if !self.off.contains(Mechanism::Placement) {
            self.placement.avoid_caller(member);
        }
    }

    /// Records that worker `member` joined a region `now`.
    #[inline]
    pub(crate) fn joined(&self, member: usize, now: u64) {
        // A caller that waits for the region around is no worker.
        let Some(times) = member.checked_sub(1).map(|member| &self.idle_times[member].0) else { return };
        self.avoid_caller(member);
        let waited = self.nanos(now.saturating_sub(times.since.get().max(self.learned.0.missed.get())));
        times.gap.set_f64(spin::gap_after(Nanos(times.gap.get_f64()), waited, self.guess()).0);
    }

    /// Reads the affinity mask and the quota again if the last reads are old.
    fn read_machine(&self, now: u64, member: usize) {
        let learned = &self.learned.0;
        let age = MASK_AGE * self.guess().claim.0;
        let old = |read: &RelaxedU64, age: f64| self.nanos(now.saturating_sub(read.get())).0 > age;
        if old(&learned.mask_read, age) {
            learned.mask_read.set(now);
            if let Some(cpus) = self.placement.cpus(member) {
                learned.cpus.set(cpus as u64);
            }
        }
        if old(&learned.quota_read, QUOTA_AGE * age) {
            learned.quota_read.set(now);
            learned.quota.set_f64(cpu_quota().unwrap_or(0.0));
        }
    }
}

/// The clock and the machine.
#[derive(Debug)]
pub(crate) struct Timing {
    pub(crate) machine: Machine,
    nanos_per_tick: f64,
}

impl Timing {
    /// Measured by the first call in a process.
    pub(crate) fn of_process() -> &'static Timing {
        // No lock: a process forked during the measurement could not get it.
        static TIMING: PerProcess<Timing> = PerProcess::new();
        TIMING.get(Timing::measured)
    }

    fn measured() -> Timing {
        let nanos_per_tick = 1000.0 / machine::ticks_per_micro();
        Timing { machine: measured(nanos_per_tick), nanos_per_tick }
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

    /// The intervals of recursions whose idle members spin for this long.
    pub(crate) fn joins(&self, spin: Spin) -> JoinTiming {
        let [look, hungry, alone] =
            [self.machine.poll(), self.machine.offer(), self.machine.heartbeat()].map(|time| self.ticks(time));
        JoinTiming { look, hungry, alone, idle: spin, settle: spin }
    }

    /// The time since the tick `start`.
    pub(crate) fn since(&self, start: u64) -> Nanos {
        self.nanos(tick().saturating_sub(start))
    }
}

/// The machine as guessed from the measured cost of a claim, with the time slice of the system. The measurement takes some 20 us.
pub(crate) fn measured(nanos_per_tick: f64) -> Machine {
    let guess = Machine::guess(Nanos(claim_ticks() as f64 * nanos_per_tick));
    let slice = machine::time_slice().map_or(guess.slice, |slice| Nanos(slice.as_nanos() as f64));
    Machine { slice, ..guess }
}

/// The cost of a claim here: a compare-exchange of a word that no other thread uses, and a read of the clock. The minimum of ten batches.
fn claim_ticks() -> u64 {
    // Measure: count of claims.
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
