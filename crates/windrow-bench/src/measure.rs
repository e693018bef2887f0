//! Interleaved runs: in every repetition each arm takes its turn, in alternating order.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::arms::{Arm, Ask, Loaded, Reply, SERIAL};
use crate::random::Random;
use crate::verdict::{Regime, Samples};

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What goes on around the calls.
    pub regime: Regime,
    /// How often each arm takes its turn.
    pub repetitions: usize,
}

/// Back-to-back calls of one turn take about this long, or are one call.
const TURN_NANOS: f64 = 1e6;
/// With at most this many calls in a turn, reading the clock around each costs too little to matter.
const FEW_CALLS: usize = 16;
/// Calls timed one by one where a turn has more.
const SINGLES: usize = 32;
/// After a turn a pool comes to rest before the next arm's: nobody is timed beside another's spinning workers.
const REST: Duration = Duration::from_millis(1);

/// What reading the clock twice adds to a time, in nanoseconds.
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

/// Arms by number, the order reversed every other time.
pub fn in_turn(arms: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |at| if repetition % 2 == 0 { at } else { arms - 1 - at })
}

/// Measures one cell, the samples of each arm in their order. The first arm is serial.
///
/// # Panics
/// If the first arm is another, or an output is wrong.
pub fn cell(arms: &mut [Box<dyn Arm>], cell: &Rc<Loaded>, plan: Plan) -> Vec<Samples> {
    assert_eq!(arms.first().map(|arm| arm.name()), Some(SERIAL), "serial comes first");
    arms.iter_mut().for_each(|arm| arm.load(cell));
    let once = arms[0].run(Ask { warm_up: 1, calls: 3, each: true, ..Ask::default() });
    let calls = (TURN_NANOS / once.nanos[2].max(1.0)).round().clamp(1.0, 1e5) as usize;
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

/// Many calls, of which the clock sees only the whole when it would be felt; then some are timed one by one.
fn warm_turn(arm: &mut dyn Arm, calls: usize, clock: f64, samples: &mut Samples) {
    let ask = Ask { warm_up: calls.div_ceil(8), calls, each: calls <= FEW_CALLS, rest: REST, ..Ask::default() };
    let Reply { nanos, cpu, cpu_at_rest, .. } = arm.run(ask);
    samples.times.push(nanos.iter().map(|nanos| nanos - clock).sum::<f64>() / calls as f64);
    samples.cpu.push(cpu / calls as f64);
    samples.cpu_at_rest.push(cpu_at_rest);
    let singles = if ask.each { nanos } else { arm.run(Ask { calls: SINGLES, each: true, ..ask }).nanos };
    samples.singles.extend(singles.into_iter().map(|nanos| nanos - clock));
}

/// Measures cells through one call site, in shuffled order, so that what the call site remembers is as often wrong as right. The
/// samples of each arm, for each cell. What a pool burns between calls, while outputs are compared, is not counted.
///
/// # Panics
/// As [`cell`].
pub fn shared(arms: &mut [Box<dyn Arm>], cells: &[Rc<Loaded>], plan: Plan) -> Vec<Vec<Samples>> {
    assert_eq!(arms.first().map(|arm| arm.name()), Some(SERIAL), "serial comes first");
    let clock = clock_cost();
    let mut random = Random::new(cells.len() as u64);
    let mut samples = vec![vec![Samples::default(); arms.len()]; cells.len()];
    for repetition in 0..plan.repetitions {
        // Each cell three times, with others between.
        let mut order: Vec<usize> = (0..3).flat_map(|_| 0..cells.len()).collect();
        random.shuffle(&mut order);
        let pauses: Vec<Duration> = order.iter().map(|_| pause(&mut random)).collect();
        for at in in_turn(arms.len(), repetition) {
            let arm = &mut arms[at];
            let mut times = vec![Vec::new(); cells.len()];
            let mut cpu = vec![0.0; cells.len()];
            for (&cell, &pause) in order.iter().zip(&pauses) {
                arm.load(&cells[cell]);
                let pause = if plan.regime == Regime::Cold { pause } else { Duration::ZERO };
                let reply = arm.run(Ask { gap: pause, calls: 1, each: true, ..Ask::default() });
                times[cell].push(reply.nanos[0] - clock);
                cpu[cell] += reply.cpu;
            }
            for (cell, times) in times.into_iter().enumerate() {
                let samples = &mut samples[cell][at];
                samples.times.push(crate::stats::median(&times));
                samples.singles.extend(times);
                samples.cpu.push(cpu[cell] / 3.0);
            }
            std::thread::sleep(REST);
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{CONTROL, Programs, Setting, arm};
    use crate::work::Item;

    fn arms() -> Vec<Box<dyn Arm>> {
        [SERIAL, CONTROL]
            .map(|name| arm(name, Setting { threads: 1, shared: false }, &mut Programs::default()).unwrap())
            .into()
    }

    fn loaded(n: u64) -> Rc<Loaded> {
        Rc::new(Loaded::new(0, (0..n).map(|seed| Item { seed, turns: 100 }).collect()))
    }

    #[test]
    fn every_arm_has_a_time_for_every_repetition() {
        for regime in [Regime::Warm, Regime::Cold] {
            let samples = cell(&mut arms(), &loaded(100), Plan { regime, repetitions: 3 });
            assert_eq!(samples.len(), 2);
            for arm in samples {
                assert_eq!((arm.times.len(), arm.cpu.len(), arm.cpu_at_rest.len()), (3, 3, 3));
                assert!(arm.times.iter().chain(&arm.singles).all(|&time| time > 0.0), "{arm:?}");
            }
        }
    }

    #[test]
    fn cells_of_a_shared_site_keep_their_own_times() {
        let cells = [loaded(10), loaded(10_000)];
        let samples = shared(&mut arms(), &cells, Plan { regime: Regime::Warm, repetitions: 3 });
        assert_eq!(samples.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert!(samples[0][0].times.iter().zip(&samples[1][0].times).all(|(short, long)| short < long));
    }

    #[test]
    fn the_order_of_arms_alternates() {
        assert!(in_turn(3, 0).eq([0, 1, 2]) && in_turn(3, 1).eq([2, 1, 0]));
    }
}
