//! Predicts what claim words cost on machines that are not available: a model of one region, in simulated time.
//!
//! # The model
//! *Members* join a region, claim items from the front of their range word, and steal the back half of another member's word when
//! their own is empty. The steps are those of `windrow_sync::ranges` and of the runtime's loop. A member reads the clock before a
//! claim. A claim takes one item or more; its size depends on the measured cost per item and on the items left in the word. A member
//! that finds nothing to steal leaves for good.
//!
//! Each step accesses one *cache line*, which costs time:
//!
//! * A load hits if the member's CPU has had the line since the last write. Otherwise the line comes from a CPU that has it, near or
//!   far.
//! * A compare-exchange is cheap if no other CPU has the line. Otherwise it fetches the line and invalidates all other copies, even if
//!   it then fails.
//! * Compare-exchanges on one line are served one after the other, in the order of issue.
//!
//! So inspecting a victim slows the victim down: its next claim has to win the line back. Independent loads overlap up to a bound.
//!
//! The costs are those of the machine ([`Machine`]) and the steps are variants of the runtime's ([`Policy`]). Time is counted in
//! whole picoseconds. The outcome depends on nothing else: the same arguments give the same [`RunOutcome`].
//!
//! # What it leaves out
//! * interruptions, frequency changes, two hardware threads on one core, and prefetchers,
//! * the limited bandwidth of an interconnect,
//! * the delay that a load of a line causes to the compare-exchanges behind it,
//! * the memory traffic of the items themselves, which costs nothing extra on any CPU,
//! * the serial work of the lead before it publishes: time starts at publication.
//!
//! ```
//! use windrow_plan::Nanos;
//! use windrow_bench::simulate::{Machine, Policy, Work, simulate};
//!
//! let work = Work::uniform(1_000_000, Nanos(100.0));
//! let outcome = simulate(&work, 64, &Machine::MESH, &Policy::RUNTIME, 1);
//! assert!(outcome.overhead() < 1.05, "{outcome:?}");
//! ```

mod lines;
mod region;
mod work;

pub use work::Work;

use windrow_plan::Nanos;

/// What accesses and wakes cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// A load of a line that is in the CPU's own cache.
    pub hit: Nanos,
    /// A compare-exchange on a line that is in no other cache.
    pub exchange: Nanos,
    /// Fetching a line from another CPU of the same group.
    pub near: Nanos,
    /// Fetching a line from another group, or invalidating it there.
    pub far: Nanos,
    /// CPUs per group: a socket, or a part of one.
    pub group: usize,
    /// Independent loads that a CPU can have in flight.
    pub overlap: usize,
    /// Reading the clock.
    pub clock: Nanos,
    /// The system call that wakes a sleeping thread, for the thread that makes it.
    pub wake_call: Nanos,
    /// From the start of that call until the woken thread runs.
    pub wake: Nanos,
}

impl Machine {
    /// Two CPUs of a virtual machine (AMD EPYC, 2026-11). A round trip of a line took 134 ns, a compare-exchange 10.3 ns, the cycle
    /// counter 10.0 ns. Waking a thread that had slept for 50 us took 2.1 us for the caller and 1.2 us until the thread ran. A hit
    /// is four or five cycles. CPUs since 2008 usually have ten or more misses in flight. Eight are assumed, because a loop that
    /// compares what it loads does not fill all of them.
    pub const MEASURED: Machine = Machine {
        hit: Nanos(1.0),
        exchange: Nanos(10.3),
        near: Nanos(67.0),
        far: Nanos(67.0),
        group: usize::MAX,
        overlap: 8,
        clock: Nanos(10.0),
        wake_call: Nanos(2_106.0),
        wake: Nanos(1_199.0),
    };

    /// One large die with a mesh: 46 ns between any two of 64 cores of an AWS Graviton3 (github.com/nviennot/core-to-core-latency). All
    /// other values are those of [`MEASURED`](Machine::MEASURED).
    pub const MESH: Machine = Machine { near: Nanos(46.0), far: Nanos(46.0), ..Machine::MEASURED };

    /// Two sockets of 88 CPUs with the distances of a dual AMD EPYC 7R13, which are long: 107 ns inside a socket and 197 ns between
    /// the sockets. (Same source; the 23 ns inside its groups of 8 cores are left out.)
    pub const SOCKETS: Machine = Machine { near: Nanos(107.0), far: Nanos(197.0), group: 88, ..Machine::MEASURED };

    /// The same machine after a pause of milliseconds, with its idle CPUs halted. A wake takes the caller 10.3 us, and the thread
    /// runs after 28.9 us, measured on the machine of [`MEASURED`](Machine::MEASURED).
    pub const fn halted(self) -> Machine {
        Machine { wake_call: Nanos(10_305.0), wake: Nanos(28_947.0), ..self }
    }
}

/// How members enter the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// All members are in when time starts, and leave without touching the gate. Only the claim words cost time.
    Present,
    /// Members spin on the gate. All see it open, join with a compare-exchange on it, and leave through it.
    Awake,
    /// Members are parked. The lead wakes one, and each joining member wakes `fan` more before its first claim. A `fan` of 1 is a
    /// chain.
    Asleep {
        /// Wakes per joining member; 1 or more.
        fan: usize,
    },
}

/// How a member passes the open gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// A load, then a compare-exchange, repeated with the value found if another member was faster.
    Exchange,
    /// One atomic addition that cannot fail; the member then inspects the old value.
    Add,
}

/// Which member a thief steals from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The member with the fullest word, after a scan of all words from the first on; the first of several.
    Fullest,
    /// The fullest of so many consecutive words, starting at a random one. If all of them are empty, the first nonempty word behind
    /// them. `Window(1)` is a random victim.
    Window(usize),
    /// The fullest of so many random words; if all of them are empty, as `Window(1)`.
    Sampled(usize),
}

/// How many items of its word a member claims.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// As many as [`Machine::claim_of`](windrow_plan::machine::Machine::claim_of) says.
    Planned,
    /// As many as take about `time`, but not more than one `part`th of the word.
    Timed {
        /// The time.
        time: Nanos,
        /// 4 means not more than a quarter.
        part: u32,
    },
}

/// How members behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// How they enter the region.
    pub entry: Joining,
    /// How they pass the gate.
    pub join: Join,
    /// How much they claim.
    pub claim: Claim,
    /// Which member they steal from.
    pub victim: Victim,
    /// After a failed steal, retry the same word while it is nonempty. Otherwise search again.
    pub again: bool,
}

impl Policy {
    /// The runtime's behaviour once all members are in.
    pub const RUNTIME: Policy = Policy {
        entry: Joining::Present,
        join: Join::Exchange,
        claim: Claim::Planned,
        victim: Victim::Window(4),
        again: false,
    };
}

/// The result of a simulated region.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunOutcome {
    /// From publication until the lead has finished the region.
    pub makespan: Nanos,
    /// No schedule is shorter: the work divided by the members, or the largest item.
    pub ideal: Nanos,
    /// Time spent in items, summed over all members.
    pub working: Nanos,
    /// Time spent in claims, searches and steals, summed over all members.
    pub claiming: Nanos,
    /// Number of members, including those that were not needed or came too late.
    pub members: usize,
    /// Members that joined.
    pub joined: usize,
    /// Claims that gave items.
    pub claims: u64,
    /// Steals that gave items.
    pub steals: u64,
    /// Compare-exchanges of range words, by owners and thieves, that failed because another member was faster.
    pub failed: u64,
    /// Range words inspected in search of a victim.
    pub looks: u64,
    /// Lines of range words fetched from another CPU, or invalidated on others.
    pub transfers: u64,
}

impl RunOutcome {
    /// The makespan divided by the ideal one: 1 is ideal.
    pub fn overhead(&self) -> f64 {
        if self.ideal.0 > 0.0 { self.makespan.0 / self.ideal.0 } else { 1.0 }
    }

    /// Compare-exchanges of range words: one per claim, two per steal, and the failed ones. They are locked instructions, so a real
    /// machine can count them.
    pub fn exchanges(&self) -> u64 {
        self.claims + 2 * self.steals + self.failed
    }

    /// The share of the members' time that went into claims.
    pub fn claiming_share(&self) -> f64 {
        let all = self.makespan.0 * self.members as f64;
        if all > 0.0 { self.claiming.0 / all } else { 0.0 }
    }
}

/// A claim, as [`trace`] reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claimed {
    /// The claiming member.
    pub member: usize,
    /// The first item.
    pub lo: u32,
    /// Past the last item.
    pub hi: u32,
    /// When the first item starts.
    pub at: Nanos,
}

/// Simulates one region with `members` members, each on a separate CPU. `seed` is for policies with random victims.
///
/// # Panics
/// If `members` is 0 or above 1024 (the capacity of the gate, plus the lead), or a cost is negative or not finite.
pub fn simulate(work: &Work, members: usize, machine: &Machine, policy: &Policy, seed: u64) -> RunOutcome {
    trace(work, members, machine, policy, seed, |_| {})
}

/// [`simulate`] that also reports every claim, in order.
///
/// # Panics
/// As for `simulate`.
pub fn trace(
    work: &Work,
    members: usize,
    machine: &Machine,
    policy: &Policy,
    seed: u64,
    mut claimed: impl FnMut(Claimed),
) -> RunOutcome {
    assert!((1..=lines::MOST).contains(&members), "a region has 1 to {} members, not {members}", lines::MOST);
    region::Region::new(work, members, machine, policy, seed).run(&mut claimed)
}

/// Picoseconds.
type Time = u64;

/// # Panics
/// If `nanos` is negative or not finite.
fn time(nanos: Nanos) -> Time {
    assert!(nanos.0.is_finite() && nanos.0 >= 0.0, "{nanos:?} is no duration");
    (nanos.0 * 1000.0).round() as Time
}

fn nanos(time: Time) -> Nanos {
    Nanos(time as f64 / 1000.0)
}

/// A small generator of random numbers (SplitMix64; Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// One of `0..n`.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// In `0..1`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
