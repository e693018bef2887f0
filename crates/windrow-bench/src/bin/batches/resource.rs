//! The structure that callers share: a batch costs F once and m for each operation, and every operation is counted.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windrow::batch::{Batch, BatchOps};
use windrow_bench::work::spin;

/// What a batch costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// F: once a batch.
    pub(crate) fixed: Duration,
    /// m: for each operation.
    pub(crate) each: Duration,
    /// The thread sleeps for F, as for a disk or a device. Otherwise it spins on the clock.
    pub(crate) sleeps: bool,
}

impl Cost {
    fn pay(&self, ops: usize) {
        let each = self.each * ops as u32;
        if self.sleeps {
            std::thread::sleep(self.fixed);
            spin(each);
        } else {
            spin(self.fixed + each);
        }
    }

    /// The most operations a second: all callers in every batch, and nothing between two batches.
    pub(crate) fn most_per_second(&self, callers: usize) -> f64 {
        callers as f64 / (self.fixed + self.each * callers as u32).as_secs_f64()
    }
}

/// The phases of a turn. Callers call in a closed loop until a reply says that the turn is over.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    phase: AtomicU8,
    window: Mutex<Option<Window>>,
}

const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// What the structure saw in the measured phase: from the start of its first batch to the start of the first one behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) ops: u64,
    pub(crate) batches: u64,
    pub(crate) largest: usize,
    /// All operations of the turn, and the sum of what they brought.
    pub(crate) all: u64,
    pub(crate) sum: u64,
}

impl Phases {
    /// Warms up, measures, and ends the turn. The callers run already.
    pub(crate) fn pass(&self, warm: Duration, measured: Duration) {
        std::thread::sleep(warm);
        self.begin();
        std::thread::sleep(measured);
        self.end();
    }

    /// Begins the measured phase.
    pub(crate) fn begin(&self) {
        // Relaxed: the phase orders nothing; it may be seen late.
        self.phase.store(MEASURED, Ordering::Relaxed);
    }

    /// Ends the turn with the next call.
    pub(crate) fn end(&self) {
        // Relaxed: as above.
        self.phase.store(OVER, Ordering::Relaxed);
    }

    /// The measured window, when all callers have ended.
    pub(crate) fn window(&self) -> Option<Window> {
        *self.window.lock().expect("no panic")
    }
}

/// A reply to a call: the operation's number, and whether it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Number(u64, bool),
    Over,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Resource {
    cost: Cost,
    phases: Arc<Phases>,
    phase: u8,
    ops: u64,
    batches: u64,
    sum: u64,
    largest: usize,
    /// The start of the measured phase: time, operations and batches before it.
    begun: Option<(Instant, u64, u64)>,
}

impl Resource {
    pub(crate) fn new(cost: Cost, phases: Arc<Phases>) -> Self {
        Resource { cost, phases, phase: 0, ops: 0, batches: 0, sum: 0, largest: 0, begun: None }
    }

    /// Runs a batch of `ops`; [`one`](Resource::one) then answers each operation. With `to_the_end` the last batches of a turn, one or more a
    /// caller, cost as much as those before: statistics would follow them.
    pub(crate) fn begin(&mut self, ops: usize, to_the_end: bool) {
        // Relaxed: pairs with nothing; the phase may be seen late.
        let phase = self.phases.phase.load(Ordering::Relaxed);
        if phase != self.phase {
            self.enter(phase);
        }
        if to_the_end || phase != OVER {
            self.cost.pay(ops);
        }
        if phase != OVER {
            self.batches += 1;
            self.largest = self.largest.max(ops);
        }
    }

    #[cold]
    fn enter(&mut self, phase: u8) {
        self.phase = phase;
        let now = Instant::now();
        let (start, ops, batches) = *self.begun.get_or_insert((now, self.ops, self.batches));
        if phase == OVER {
            *self.phases.window.lock().expect("no panic") = Some(Window {
                seconds: now.duration_since(start).as_secs_f64(),
                ops: self.ops - ops,
                batches: self.batches - batches,
                largest: self.largest,
                all: self.ops,
                sum: self.sum,
            });
        }
    }

    pub(crate) fn one(&mut self, op: u64) -> Answer {
        if self.phase == OVER {
            return Answer::Over;
        }
        self.sum += op;
        self.ops += 1;
        Answer::Number(self.ops - 1, self.phase == MEASURED)
    }
}

impl BatchOps for Resource {
    type Op = u64;
    type Reply = Answer;

    fn run(&mut self, batch: &mut Batch<'_, u64, Answer>) {
        self.begin(batch.len(), true);
        batch.iter_mut().for_each(|entry| entry.answer(|op| self.one(op)));
    }

    fn run_one(&mut self, op: u64) -> Answer {
        self.begin(1, true);
        self.one(op)
    }
}

/// The calls of one caller. The operation of its call `n` brings `n`.
#[derive(Debug)]
pub(crate) struct Calls {
    count: u64,
    /// Every call of so many is timed.
    stride: u64,
    /// Those of the measured phase.
    pub(crate) measured: u64,
    /// The sum of the numbers that were replied.
    replied: u64,
    /// Nanoseconds of the calls that were timed, in the measured phase.
    pub(crate) waits: Vec<f64>,
}

/// Cheaper operations are timed by the sample: reading the clock twice would show.
const CHEAP: Duration = Duration::from_micros(5);

impl Calls {
    pub(crate) fn new(cost: Cost) -> Self {
        let stride = if cost.fixed + cost.each < CHEAP { 16 } else { 1 };
        Calls { count: 0, stride, measured: 0, replied: 0, waits: Vec::with_capacity(256) }
    }

    /// The next operation, and when it begins if it is timed.
    pub(crate) fn next(&self) -> (u64, Option<Instant>) {
        (self.count, self.count.is_multiple_of(self.stride).then(Instant::now))
    }

    /// Takes the reply. Returns whether the caller goes on.
    pub(crate) fn took(&mut self, start: Option<Instant>, answer: Answer) -> bool {
        let Answer::Number(number, is_measured) = answer else { return false };
        if let Some(start) = start.filter(|_| is_measured) {
            self.waits.push(start.elapsed().as_nanos() as f64);
        }
        self.count += 1;
        self.measured += u64::from(is_measured);
        self.replied += number;
        true
    }

    /// Counts an arrival of an open loop that came too late to be called.
    pub(crate) fn gave_up(&mut self, start: Option<Instant>) {
        self.waits.extend(start.map(|start| start.elapsed().as_nanos() as f64));
    }
}

/// Checks that every operation was run once and answered to its caller, and that the structure was not faster than its cost allows.
pub(crate) fn verify(window: &Window, cost: Cost, callers: usize, calls: &[Calls]) -> Result<(), String> {
    let Window { seconds, ops, batches, largest, all, sum } = *window;
    let count: u64 = calls.iter().map(|calls| calls.count).sum();
    let replied: u64 = calls.iter().map(|calls| calls.replied).sum();
    let brought: u64 = calls.iter().map(|calls| calls.count * calls.count.saturating_sub(1) / 2).sum();
    if (count, replied, brought) != (all, all * all.saturating_sub(1) / 2, sum) {
        return Err(format!("{count} replies to {all} operations: sums {replied} and {brought}, not {sum}"));
    }
    if batches == 0 {
        return Err(format!("no batch in {seconds} s: the turn is too short"));
    }
    let least = cost.fixed.as_secs_f64() * batches as f64 + cost.each.as_secs_f64() * ops as f64;
    let rate = ops as f64 / seconds;
    // A nanosecond a batch is for the rounding of seconds.
    if largest > callers || least > seconds + 1e-9 * batches as f64 || rate > cost.most_per_second(callers) * 1.000_001
    {
        return Err(format!(
            "impossible: {ops} operations in {batches} batches of up to {largest} by {callers} callers in {seconds} s"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { fixed: Duration::from_micros(10), each: Duration::from_micros(1), sleeps: false };

    fn turn(batches: &[usize]) -> (Window, Vec<Calls>) {
        let phases = Arc::new(Phases::default());
        let mut resource = Resource::new(COST, phases.clone());
        let mut calls = vec![Calls::new(COST), Calls::new(COST)];
        let batch = |ops: usize, resource: &mut Resource, calls: &mut [Calls]| {
            resource.begin(ops, false);
            for calls in &mut calls[..ops] {
                let (op, start) = calls.next();
                calls.took(start, resource.one(op));
            }
        };
        batch(2, &mut resource, &mut calls);
        phases.phase.store(MEASURED, Ordering::Relaxed);
        batches.iter().for_each(|&ops| batch(ops, &mut resource, &mut calls));
        phases.phase.store(OVER, Ordering::Relaxed);
        batch(1, &mut resource, &mut calls);
        (phases.window().unwrap(), calls)
    }

    #[test]
    fn a_window_holds_whole_batches_of_the_measured_phase() {
        let (window, calls) = turn(&[2, 1, 2]);
        assert_eq!((window.ops, window.batches, window.largest, window.all), (5, 3, 2, 7));
        assert!(window.seconds >= 35e-6);
        assert_eq!(verify(&window, COST, 2, &calls), Ok(()));
        assert_eq!(calls[0].waits.len() + calls[1].waits.len(), 5);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let (window, mut calls) = turn(&[2, 1]);
        let wrong = |window: Window| verify(&window, COST, 2, &calls).unwrap_err();
        assert!(wrong(Window { seconds: 22e-6, ..window }).starts_with("impossible"));
        assert!(wrong(Window { largest: 3, ..window }).starts_with("impossible"));
        assert!(wrong(Window { batches: 0, ..window }).contains("too short"));
        assert!(wrong(Window { sum: window.sum + 1, ..window }).contains("replies"));
        calls[0].replied += 1;
        assert!(verify(&window, COST, 2, &calls).is_err());
    }
}
