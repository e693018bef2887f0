//! A turn of an arm, and the turns of a cell.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use windrow::batch::Stats;
use windrow_bench::measure::in_turn;
use windrow_bench::stats::{median, quantile};
use windrow_bench::work::Random;

use crate::arms::{Arm, Kind};
use crate::resource::{Cost, Phases, Resource, verify};
use crate::{in_micros, tasks, threads};

/// A cell, and how long its turns take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) callers: usize,
    pub(crate) cost: Cost,
    pub(crate) warm: Duration,
    pub(crate) measured: Duration,
    pub(crate) open: Option<Open>,
}

/// A turn is warm after this long, and after as many batches of all callers.
const WARM: (Duration, u32) = (Duration::from_millis(10), 15);
/// A turn is measured for this long, and for as many batches of all callers: a verdict waits for 64.
const MEASURED: (Duration, u32) = (Duration::from_millis(24), 64);

impl Shape {
    pub(crate) fn new(kind: Kind, callers: usize, cost: Cost) -> Self {
        let batch = cost.fixed + cost.each * callers as u32;
        let time = |(least, batches): (Duration, u32)| least.max(batch * batches);
        Shape { kind, callers, cost, warm: time(WARM), measured: time(MEASURED), open: None }
    }
}

/// An open loop: arrivals at random (Poisson), however long the replies take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Arrivals a second at each caller.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
}

/// Time from the start of an open loop to its first arrivals, for callers to start.
const LEAD: Duration = Duration::from_millis(10);

impl Shape {
    /// The arrivals of a caller of an open loop, from its start.
    pub(crate) fn arrivals(&self, open: Open, caller: usize) -> Vec<Duration> {
        let mut random = Random::new((open.seed << 32) + caller as u64);
        let (mut arrivals, mut at) = (Vec::new(), LEAD);
        loop {
            // Above 0 and up to 1.
            let uniform = ((random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            at += Duration::from_secs_f64((-uniform.ln() / open.rate).min(1e6));
            if at > LEAD + self.warm + self.measured {
                return arrivals;
            }
            arrivals.push(at);
        }
    }

    /// The arrival of an open loop that `start`ed then, if it is measured; and whether it is too late to call.
    pub(crate) fn due(&self, start: Instant, arrival: Duration) -> (Option<Instant>, bool) {
        let is_late = start.elapsed() > 2 * (LEAD + self.warm + self.measured);
        ((arrival > LEAD + self.warm).then_some(start + arrival), is_late)
    }
}

/// Sleeps until `arrival`.
pub(crate) fn sleep_until(start: Instant, arrival: Duration) {
    let left = arrival.saturating_sub(start.elapsed());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { fixed, each, .. } = self.cost;
        write!(f, "F {:>6}  m {:>5}  {:>7} x{:<3}", in_micros(fixed), in_micros(each), self.kind, self.callers)
    }
}

/// What an arm measured in a turn.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Operations a second.
    pub(crate) rate: f64,
    /// The mean batch.
    pub(crate) batch: f64,
    /// Microseconds of calls.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The callers that got a reply. A lock that its last holder takes again serves few.
    pub(crate) served: f64,
    pub(crate) stats: Option<Stats>,
}

/// Runs one arm in a new structure, with new callers.
pub(crate) fn run(arm: Arm, shape: &Shape, runtime: &Runtime) -> Result<Turn, String> {
    let phases = Arc::new(Phases::default());
    let resource = Resource::new(shape.cost, phases.clone());
    let (calls, stats) = match shape.kind {
        Kind::Threads => threads::run(arm, resource, &phases, shape, runtime.handle()),
        Kind::Tasks => tasks::run(arm, resource, &phases, shape, runtime),
    };
    let wrong = |what: String| format!("{shape}, {arm}: {what}");
    let window = phases.window().ok_or_else(|| wrong("the turn did not end".to_owned()))?;
    verify(&window, shape.cost, shape.callers, &calls).map_err(wrong)?;
    let served = calls.iter().filter(|calls| calls.measured > 0).count() as f64;
    let waits: Vec<f64> = calls.into_iter().flat_map(|calls| calls.waits).collect();
    let wait = |share| if waits.is_empty() { f64::NAN } else { quantile(&waits, share) / 1e3 };
    Ok(Turn {
        rate: window.ops as f64 / window.seconds,
        batch: window.ops as f64 / window.batches as f64,
        p50: wait(0.5),
        p99: wait(0.99),
        served,
        stats,
    })
}

/// The turns of one arm.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) arm: Arm,
    pub(crate) turns: Vec<Turn>,
}

impl Row {
    pub(crate) fn median(&self, of: impl Fn(&Turn) -> f64) -> f64 {
        median(&self.turns.iter().map(of).collect::<Vec<_>>())
    }

    pub(crate) fn each(&self, of: impl Fn(&Turn) -> f64) -> String {
        self.turns.iter().map(|turn| format!("{:.0}", of(turn))).collect::<Vec<_>>().join(" ")
    }
}

/// All arms of a cell, interleaved.
pub(crate) fn cell(arms: &[Arm], shape: &Shape, repetitions: usize, runtime: &Runtime) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = arms.iter().map(|&arm| Row { arm, turns: Vec::new() }).collect();
    for repetition in 0..repetitions {
        for at in in_turn(rows.len(), repetition) {
            let open = shape.open.map(|open| Open { seed: repetition as u64, ..open });
            let turn = run(rows[at].arm, &Shape { open, ..*shape }, runtime)?;
            rows[at].turns.push(turn);
        }
    }
    Ok(rows)
}
