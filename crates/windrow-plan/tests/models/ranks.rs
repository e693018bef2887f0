//! An operation on many ranks, by a model of their links: the assumptions of the last tables of `docs/tiling.md`.

use windrow_plan::tile::{Contention, Plan, Problem};
use windrow_plan::{Nanos, Rows};

pub(crate) const RANKS: [u32; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Rows and columns of the result, two bytes each: 64 MiB.
const M: u64 = 4096;
const N: u64 = 8192;

/// One rank and its link.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Multiplications and additions a nanosecond.
    speed: f64,
    /// What starting the product of a tile takes.
    start: f64,
    /// Rows that a tile is slower by, as its product begins and ends with less than the whole machine.
    ramp: f64,
    /// What one message takes beyond its bytes.
    latency: f64,
    /// Bytes a nanosecond, in each direction.
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

/// How an all-reduce runs: what it takes for so many bytes.
pub(crate) type AllReduce = fn(&Machine, f64, f64) -> f64;

/// Every rank passes parts of 1/p of the data on to the next, to add them up and then to tell all.
fn ring(machine: &Machine, ranks: f64, bytes: f64) -> f64 {
    2.0 * (ranks - 1.0) * (machine.latency + bytes / ranks / machine.bandwidth)
}

/// All of the data goes up a binary tree and down again.
fn tree(machine: &Machine, ranks: f64, bytes: f64) -> f64 {
    2.0 * ranks.log2().ceil() * (machine.latency + bytes / machine.bandwidth)
}

/// K of each rank, by their number.
pub(crate) type Share = fn(f64) -> f64;

/// The same, however many there are, or a share of what 8 ranks would have.
pub(crate) const SCALINGS: [(&str, Share); 2] = [("weak", |_| 8192.0), ("strong", |ranks| 8192.0 * 8.0 / ranks)];

pub(crate) fn plan(machine: &Machine, all_reduce: AllReduce, k: f64, ranks: u32) -> Plan {
    let compute =
        |rows: Rows| Nanos(machine.start + 2.0 * (rows.0 as f64 + machine.ramp) * N as f64 * k / machine.speed);
    let communicate = |rows: Rows| Nanos(all_reduce(machine, f64::from(ranks), (rows.0 * N * 2) as f64));
    let problem =
        Problem { contention: machine.contention, align: Rows(64), ..Problem::new(Rows(M), &compute, &communicate) };
    problem.plan().expect("all costs are positive")
}

/// The ways of an all-reduce, by name.
pub(crate) const ALL_REDUCES: [(&str, AllReduce); 2] = [("ring", ring), ("tree", tree)];

/// A plan as a cell of the tables.
pub(crate) fn cell(plan: &Plan) -> String {
    let ratio = plan.inputs.communicate.0 / plan.inputs.compute.0;
    match plan.tiles.len() {
        1 => format!("{ratio:.2}: none"),
        tiles => format!("{ratio:.2}: {:.1} % ({tiles})", 100.0 * plan.benefit()),
    }
}
