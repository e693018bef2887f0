//! An operation on many ranks, by a model of their links: the assumptions of a table of `book/src/plan.md`.

use windrow_tiling::tile::{Contention, Plan, Problem};
use windrow_tiling::{Nanos, Rows};

pub(crate) const RANKS: [u32; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Rows and columns of the result, at two bytes each: 64 MiB.
const M: u64 = 4096;
const N: u64 = 8192;

/// One rank and its link.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Multiplications and additions per nanosecond.
    speed: f64,
    /// Time to start the product of a tile.
    start: f64,
    /// The slowdown of a tile, in rows: its product begins and ends with less than the whole machine.
    ramp: f64,
    /// Fixed time of a message.
    latency: f64,
    /// Bytes per nanosecond, in each direction.
    bandwidth: f64,
    contention: Contention,
}

pub(crate) const MACHINES: [Machine; 2] = [
    Machine {
        name: "accelerators",
        speed: 300e3,
        start: 5e3,
        ramp: 64.0,
        latency: 5e3,
        bandwidth: 50.0,
        contention: Contention { compute: 1.1, communicate: 1.1 },
    },
    Machine {
        name: "servers",
        speed: 2e3,
        start: 2e3,
        ramp: 16.0,
        latency: 20e3,
        bandwidth: 3.0,
        contention: Contention { compute: 1.25, communicate: 1.05 },
    },
];

/// The time of an all-reduce of so many bytes on so many ranks.
pub(crate) type AllReduce = fn(&Machine, f64, f64) -> f64;

/// Every rank passes parts of 1/p of the data to the next: first to add them up, then to distribute the sums.
fn ring(machine: &Machine, ranks: f64, bytes: f64) -> f64 {
    2.0 * (ranks - 1.0) * (machine.latency + bytes / ranks / machine.bandwidth)
}

/// All data goes up a binary tree and down again.
fn tree(machine: &Machine, ranks: f64, bytes: f64) -> f64 {
    2.0 * ranks.log2().ceil() * (machine.latency + bytes / machine.bandwidth)
}

/// K of each rank, as a function of the number of ranks.
pub(crate) type Share = fn(f64) -> f64;

/// Weak: the same K for any number of ranks. Strong: a total K of 65536, divided by the number of ranks.
pub(crate) const SCALINGS: [(&str, Share); 2] = [("weak", |_| 8192.0), ("strong", |ranks| 8192.0 * 8.0 / ranks)];

pub(crate) fn plan(machine: &Machine, all_reduce: AllReduce, k: f64, ranks: u32) -> Plan {
    let compute =
        |rows: Rows| Nanos(machine.start + 2.0 * (rows.0 as f64 + machine.ramp) * N as f64 * k / machine.speed);
    let communicate = |rows: Rows| Nanos(all_reduce(machine, f64::from(ranks), (rows.0 * N * 2) as f64));
    let problem =
        Problem { contention: machine.contention, align: Rows(64), ..Problem::new(Rows(M), &compute, &communicate) };
    problem.plan().expect("all costs are positive")
}

/// The algorithms of an all-reduce, by name.
pub(crate) const ALL_REDUCES: [(&str, AllReduce); 2] = [("ring", ring), ("tree", tree)];
