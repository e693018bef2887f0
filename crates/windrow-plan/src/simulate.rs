//! What claim words cost on machines that are not at hand: a model of one region, in simulated time.
//!
//! # The model
//! *Members* join a region, claim items from the front of their own word, and steal the back half of another's when it is
//! empty, step by step as `windrow_sync::ranges` and the runtime's walk do: a look at the clock; a claim of at least one item
//! whose size the items so far and what is at hand decide; who sees nothing to steal leaves for good.
//!
//! Each step is an access to one *cache line*, and those cost time. A load is a hit if the member's CPU has had the line
//! since it was last written; otherwise the line comes from whoever has it, near or far. An exchange is cheap if nobody else
//! has the line; otherwise it fetches the line and takes it from all others, also if it then fails. Exchanges on one line
//! are served one after the other, in the order in which they were issued. So looking around is not free for those who are
//! looked at: their next claim has to win its line back. Independent loads overlap up to a bound.
//!
//! The values are those of the machine ([`Machine`]), the steps are variants of the runtime's ([`Policy`]), time is counted in
//! whole picoseconds, and nothing else enters: the same arguments give the same [`Outcome`].
//!
//! # What it leaves out
//! Interruptions, frequencies, two hardware threads on one core, prefetchers, the limited bandwidth of an interconnect, and
//! that a load of a line delays the exchanges behind it. What the items themselves touch costs nothing extra wherever they
//! run. The lead's serial beginning is left out too: time starts when it publishes.
//!
//! ```
//! use windrow_plan::Nanos;
//! use windrow_plan::simulate::{Machine, Policy, Work, simulate};
//!
//! let work = Work::uniform(1_000_000, Nanos(100.0));
//! let outcome = simulate(&work, 64, &Machine::MESH, &Policy::RUNTIME, 1);
//! assert!(outcome.overhead() < 1.05, "{outcome:?}");
//! ```

mod lines;
mod region;
mod work;

pub use work::Work;

use crate::Nanos;

/// What accesses and wakes cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// A load of a line that is in the CPU's own cache.
    pub hit: Nanos,
    /// An exchange on a line that is in no other cache.
    pub exchange: Nanos,
    /// Bringing a line from another CPU of the same group.
    pub near: Nanos,
    /// Bringing a line from another group, or taking it from one.
    pub far: Nanos,
    /// CPUs of a group: a socket, or a part of one.
    pub group: usize,
    /// Independent loads that a CPU has under way at a time.
    pub overlap: usize,
    /// A look at the clock.
    pub clock: Nanos,
    /// The system call that wakes a sleeper, for the one who makes it.
    pub wake_call: Nanos,
    /// From the beginning of that call until the sleeper runs.
    pub wake: Nanos,
}

impl Machine {
    /// Two CPUs of a virtual machine (AMD EPYC, 2026-11): a line took 134 ns there and back, an exchange 10.3 ns, the cycle
    /// counter 10.0 ns, waking a thread that had slept for 50 us 2.1 us for the caller and 1.2 us until it ran. A hit is
    /// four or five cycles. At least ten misses under way are usual since 2008; eight are assumed, as a loop that compares
    /// what it loads fills them badly.
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

    /// One large die with a mesh: 46 ns between any two of 64 cores of an AWS Graviton3 (github.com/nviennot/core-to-core-latency).
    /// Whatever is not a line's way is as [`MEASURED`](Machine::MEASURED).
    pub const MESH: Machine = Machine { near: Nanos(46.0), far: Nanos(46.0), ..Machine::MEASURED };

    /// Two sockets of 88 CPUs with the distances of a dual AMD EPYC 7R13, which are long ones: 107 ns inside a socket and
    /// 197 ns between the sockets (the same source; the 23 ns inside its groups of 8 cores are left out).
    pub const SOCKETS: Machine = Machine { near: Nanos(107.0), far: Nanos(197.0), group: 88, ..Machine::MEASURED };

    /// The same machine after a pause of milliseconds, its idle CPUs halted: 10.3 us for the caller of a wake and 28.9 us
    /// until the thread runs, measured where [`MEASURED`](Machine::MEASURED) was.
    pub const fn halted(self) -> Machine {
        Machine { wake_call: Nanos(10_305.0), wake: Nanos(28_947.0), ..self }
    }
}

/// How members get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All are in when time starts, and leave without a word: what is left is the price of the claim words.
    Present,
    /// They look at the gate: all of them see it open and exchange it to join. All leave through it.
    Awake,
    /// They sleep. The lead wakes one, and each who joins wakes so many more before its first claim. One is a chain.
    Asleep {
        /// Wakes of each who joins; at least 1.
        fan: usize,
    },
}

/// How those who look at the gate get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Load, compare, exchange; again with what was found if somebody was faster.
    Exchange,
    /// One addition that cannot fail, looked at afterwards.
    Add,
}

/// Whom a member steals from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Whose word holds the most items, after a look at all from the first on; the first of several.
    Fullest,
    /// The fullest of so many in a row, from a random one on; if they are empty, the first behind them with anything in it.
    /// `Window(1)` is a random victim.
    Window(usize),
    /// The fullest of so many drawn one by one; if they are empty, as `Window(1)`.
    Sampled(usize),
}

/// How much a member claims of what is in its own word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// What [`Costs::claim_of`](crate::grain::Costs::claim_of) says.
    Planned,
    /// What takes about this long, but at most one part of so many.
    Timed {
        /// The time.
        time: Nanos,
        /// 4 means at most a quarter.
        part: u32,
    },
}

/// What members do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// How they get in.
    pub entry: Entry,
    /// How they pass the gate.
    pub join: Join,
    /// How much they claim.
    pub claim: Claim,
    /// Whom they steal from.
    pub victim: Victim,
    /// After a steal that failed, try the same word again while it holds something. Otherwise look anew.
    pub again: bool,
}

impl Policy {
    /// What the runtime does once all are in.
    pub const RUNTIME: Policy = Policy {
        entry: Entry::Present,
        join: Join::Exchange,
        claim: Claim::Planned,
        victim: Victim::Window(4),
        again: false,
    };
}

/// What a simulated region took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From publication until the lead is through with everything.
    pub makespan: Nanos,
    /// No schedule is shorter: the work divided by the members, or the largest item.
    pub ideal: Nanos,
    /// Time in items, of all members.
    pub working: Nanos,
    /// Time in claims, looking around and stealing, of all members.
    pub claiming: Nanos,
    /// Members, those included that were not needed or came too late.
    pub members: usize,
    /// Those who came in.
    pub joined: usize,
    /// Claims that gave items.
    pub claims: u64,
    /// Steals that gave items.
    pub steals: u64,
    /// Exchanges of range words that failed because somebody was faster, of owners and thieves.
    pub failed: u64,
    /// Range words looked at in search of a victim.
    pub looks: u64,
    /// Lines of range words that came from another CPU, or had to be taken from others.
    pub transfers: u64,
}

impl Outcome {
    /// How much longer than ideal: 1 is ideal.
    pub fn overhead(&self) -> f64 {
        if self.ideal.0 > 0.0 { self.makespan.0 / self.ideal.0 } else { 1.0 }
    }

    /// Exchanges of range words: one a claim, two a steal, and those that failed. They are locked instructions, so they can be
    /// counted on machines that are at hand.
    pub fn exchanges(&self) -> u64 {
        self.claims + 2 * self.steals + self.failed
    }

    /// Part of the members' time that went into claims.
    pub fn claiming_share(&self) -> f64 {
        let all = self.makespan.0 * self.members as f64;
        if all > 0.0 { self.claiming.0 / all } else { 0.0 }
    }
}

/// A claim, as [`trace`] reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claimed {
    /// Who.
    pub member: usize,
    /// The first item.
    pub lo: u32,
    /// Past the last item.
    pub hi: u32,
    /// When the first item starts.
    pub at: Nanos,
}

/// One region on a machine, with `members` members, each on a CPU of its own. `seed` is for policies that draw victims.
///
/// # Panics
/// If `members` is 0 or above 1024 (as many as the gate can seat, and one), or a cost is negative or not finite.
pub fn simulate(work: &Work, members: usize, machine: &Machine, policy: &Policy, seed: u64) -> Outcome {
    trace(work, members, machine, policy, seed, |_| {})
}

/// [`simulate`], with a look at every claim in the order in which they are made.
///
/// # Panics
/// As `simulate`.
pub fn trace(
    work: &Work,
    members: usize,
    machine: &Machine,
    policy: &Policy,
    seed: u64,
    mut claimed: impl FnMut(Claimed),
) -> Outcome {
    assert!((1..=lines::MOST).contains(&members), "a region has 1 to {} members, not {members}", lines::MOST);
    region::Region::new(work, members, machine, policy, seed).run(&mut claimed)
}

/// Picoseconds.
type Time = u64;

/// # Panics
/// If it is not a finite duration.
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
