//! Interleaved runs: in every repetition each arm takes its turn, in random order and its reverse.

use std::fmt::Debug;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::arms::{Arm, Ask, Loaded, Reply, SERIAL};
use crate::verdict::{Regime, Samples};
use crate::work::Random;

/// The settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The conditions around the calls.
    pub regime: Regime,
    /// The number of turns of each arm.
    pub repetitions: usize,
}

/// Back-to-back calls of one turn take about this long, or are one call.
const TURN_NANOS: f64 = 1e6;
/// With at most this many calls in a turn, reading the clock around each costs too little to matter.
const FEW_CALLS: usize = 16;
/// Calls timed one by one where a turn has more.
const SINGLES: usize = 32;
/// After a turn a pool comes to rest before the next arm's turn: no arm is timed beside another's spinning workers.
const REST: Duration = Duration::from_millis(1);

/// The time that reading the clock twice adds, in nanoseconds.
pub fn clock_cost() -> f64 {
    let once = |_| {
        let start = Instant::now();
        black_box(start).elapsed().as_nanos() as f64
    };
    (0..1000).map(once).fold(f64::INFINITY, f64::min)
}

fn pause(random: &mut Random) -> Duration {
    Duration::from_micros(3_000 + random.below(27_001) as u64)
}

/// The number of back-to-back calls that take about [`TURN_NANOS`].
fn calls_of_a_turn(nanos: f64) -> usize {
    (TURN_NANOS / nanos.max(1.0)).round().clamp(1.0, 1e5) as usize
}

/// Arms by number: a random order, its reverse, another random order, and so on. Each pair of repetitions has an arm as often early as late,
/// and no arm runs always after the same one.
pub fn in_turn(arms: usize, repetition: usize) -> impl Iterator<Item = usize> {
    let mut order: Vec<usize> = (0..arms).collect();
    Random::new(repetition as u64 / 2).shuffle(&mut order);
    if !repetition.is_multiple_of(2) {
        order.reverse();
    }
    order.into_iter()
}

/// Nanoseconds of each repetition of each arm. The arms take turns; the first is the baseline, whose answer all others have to give.
///
/// # Panics
/// If an answer is another.
pub fn compare<R: PartialEq + Debug>(arms: &mut [(&str, &mut dyn FnMut() -> R)], repetitions: usize) -> Vec<Vec<f64>> {
    let expected = (arms[0].1)();
    let mut times = vec![Vec::with_capacity(repetitions); arms.len()];
    for repetition in 0..repetitions {
        for at in in_turn(arms.len(), repetition) {
            let start = Instant::now();
            let answer = black_box((arms[at].1)());
            times[at].push(start.elapsed().as_nanos() as f64);
            assert_eq!(answer, expected, "{} gives a different answer from {}", arms[at].0, arms[0].0);
        }
    }
    times
}

/// Measures one cell, the samples of each arm in their order. The first arm is serial.
///
/// # Panics
/// If the first arm is another, or an output is wrong.
pub fn cell(arms: &mut [Box<dyn Arm>], cell: &Rc<Loaded>, plan: Plan) -> Vec<Samples> {
    assert_eq!(arms.first().map(|arm| arm.name()), Some(SERIAL), "serial comes first");
    arms.iter_mut().for_each(|arm| arm.load(cell));
    let once = arms[0].run(Ask { warm_up: 1, calls: 3, each: true, ..Ask::default() });
    let calls = calls_of_a_turn(once.nanos[2]);
    let clock = clock_cost();
    let mut random = Random::new(cell.index as u64);
    let mut samples = vec![Samples::default(); arms.len()];
    for repetition in 0..plan.repetitions {
        let pause = pause(&mut random);
        for at in in_turn(arms.len(), repetition) {
            let (arm, samples) = (&mut arms[at], &mut samples[at]);
            match plan.regime {
                Regime::Cold => cold_turn(arm.as_mut(), pause, clock, samples),
                _ => warm_turn(arm.as_mut(), calls, clock, samples),
            }
        }
    }
    samples
}

/// One call, after a pause that every arm spends where it calls from.
fn cold_turn(arm: &mut dyn Arm, pause: Duration, clock: f64, samples: &mut Samples) {
    let Reply { nanos, cpu, cpu_at_rest, .. } =
        arm.run(Ask { gap: pause, calls: 1, each: true, rest: REST, ..Ask::default() });
    samples.times.push(nanos[0] - clock);
    samples.singles.push(nanos[0] - clock);
    samples.cpu.push(cpu + cpu_at_rest);
    samples.cpu_at_rest.push(cpu_at_rest);
}

/// Many calls. They are timed as a whole if reading the clock would show; then some are timed one by one.
fn warm_turn(arm: &mut dyn Arm, calls: usize, clock: f64, samples: &mut Samples) {
    let ask = Ask { warm_up: calls.div_ceil(8), calls, each: calls <= FEW_CALLS, rest: REST, ..Ask::default() };
    let Reply { nanos, cpu, cpu_at_rest, .. } = arm.run(ask);
    samples.times.push(nanos.iter().map(|nanos| nanos - clock).sum::<f64>() / calls as f64);
    samples.cpu.push(cpu / calls as f64);
    samples.cpu_at_rest.push(cpu_at_rest);
    let singles = if ask.each { nanos } else { arm.run(Ask { calls: SINGLES, each: true, ..ask }).nanos };
    samples.singles.extend(singles.into_iter().map(|nanos| nanos - clock));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::CONTROL;
    use crate::work::Item;
    use std::cell::RefCell;

    /// A simulated arm: an item takes it a microsecond. It writes down what it is asked.
    struct Told {
        name: &'static str,
        items: usize,
        log: Rc<RefCell<Vec<(&'static str, Ask)>>>,
    }

    impl Arm for Told {
        fn name(&self) -> &str {
            self.name
        }

        fn load(&mut self, cell: &Rc<Loaded>) {
            self.items = cell.items.len();
        }

        fn run(&mut self, ask: Ask) -> Reply {
            self.log.borrow_mut().push((self.name, ask));
            let call = self.items as f64 * 1e3;
            let nanos = if ask.each { vec![call; ask.calls] } else { vec![call * ask.calls as f64] };
            Reply { nanos, cpu: 10.0 * ask.calls as f64, cpu_at_rest: 1.0 }
        }
    }

    type Log = Rc<RefCell<Vec<(&'static str, Ask)>>>;

    fn arms() -> (Vec<Box<dyn Arm>>, Log) {
        let log = Log::default();
        let arm = |name| Box::new(Told { name, items: 0, log: log.clone() }) as Box<dyn Arm>;
        (vec![arm(SERIAL), arm(CONTROL)], log.clone())
    }

    fn loaded(n: u64) -> Rc<Loaded> {
        Rc::new(Loaded::new(0, (0..n).map(|seed| Item { seed, turns: 1 }).collect()))
    }

    fn is_about(time: f64, expected: f64) -> bool {
        // Less the time of reading the clock, which depends on the machine.
        time <= expected && time > expected - 900.0
    }

    #[test]
    #[should_panic(expected = "b gives a different answer from a")]
    fn a_wrong_answer_fails() {
        compare(&mut [("a", &mut || 1), ("b", &mut || 2)], 1);
    }

    #[test]
    fn short_calls_are_timed_together_and_some_alone() {
        let (mut arms, log) = arms();
        let samples = cell(&mut arms, &loaded(10), Plan { regime: Regime::Warm, repetitions: 3 });
        for arm in &samples {
            assert_eq!((arm.times.len(), arm.singles.len()), (3, 3 * SINGLES));
            assert!(arm.times.iter().chain(&arm.singles).all(|&time| is_about(time, 1e4)), "{arm:?}");
            assert_eq!((arm.cpu.as_slice(), arm.cpu_at_rest.as_slice()), ([10.0; 3].as_slice(), [1.0; 3].as_slice()));
        }
        let turn = log.borrow()[1].1;
        assert_eq!((turn.calls, turn.each, turn.warm_up, turn.gap), (100, false, 13, Duration::ZERO));
    }

    #[test]
    fn long_calls_are_timed_once() {
        let (mut arms, _) = arms();
        let samples = cell(&mut arms, &loaded(400), Plan { regime: Regime::Busy, repetitions: 2 });
        // A millisecond holds two calls and a half.
        assert_eq!((samples[1].times.len(), samples[1].singles.len()), (2, 2 * 3));
    }

    #[test]
    fn cold_calls_stand_alone_behind_equal_pauses() {
        let (mut arms, log) = arms();
        let samples = cell(&mut arms, &loaded(10), Plan { regime: Regime::Cold, repetitions: 20 });
        assert_eq!((samples[0].times.len(), samples[0].singles.len(), samples[0].cpu[0]), (20, 20, 11.0));
        let log = &log.borrow()[1..];
        assert!(log.iter().all(|(_, ask)| (ask.warm_up, ask.calls, ask.each) == (0, 1, true)));
        let pauses: Vec<Duration> = log.iter().map(|(_, ask)| ask.gap).collect();
        assert!(pauses.chunks(2).all(|pair| pair[0] == pair[1]), "a repetition's arms have one pause: {pauses:?}");
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*least >= Duration::from_millis(3) && *most <= Duration::from_millis(30) && least < most);
    }

    #[test]
    fn the_order_of_arms_is_permuted_and_reversed() {
        let (mut arms, log) = arms();
        cell(&mut arms, &loaded(2000), Plan { regime: Regime::Warm, repetitions: 4 });
        let order: Vec<&str> = log.borrow()[1..].iter().map(|(name, _)| *name).collect();
        assert!(
            order.chunks(4).all(|pair| pair[0] != pair[1] && pair[0] == pair[3] && pair[1] == pair[2]),
            "{order:?}"
        );

        let orders: Vec<Vec<usize>> = (0..16).map(|repetition| in_turn(9, repetition).collect()).collect();
        assert!(orders.iter().all(|order| (0..9).all(|arm| order.contains(&arm))));
        let followers = |arm| -> std::collections::HashSet<usize> {
            orders.iter().filter_map(|order| order.windows(2).find(|pair| pair[0] == arm)).map(|pair| pair[1]).collect()
        };
        assert!((0..9).all(|arm| followers(arm).len() >= 4), "an arm runs after different ones: {orders:?}");
    }

    #[test]
    #[should_panic(expected = "serial comes first")]
    fn the_baseline_comes_first() {
        let (mut arms, _) = arms();
        arms.reverse();
        cell(&mut arms, &loaded(1), Plan { regime: Regime::Warm, repetitions: 1 });
    }
}
