//! A simulated machine under [`WidthTuner`], and what must hold for all machines.

use proptest::prelude::*;

use super::stats::{LEVELS, Stalls};
use super::*;
use crate::team::{Mode, TeamCalls};

fn plan_machine() -> crate::machine::Machine {
    crate::machine::Machine::guess(Nanos(CLOCK))
}

impl WidthStats {
    /// The width a call begins with.
    fn width(&self) -> usize {
        width(self.costs.best(), self.full)
    }

    /// Time of a round at this width at the start of a call, if it was measured.
    fn per_round(&self, width: usize) -> Option<Nanos> {
        let level = (0..=top(self.full)).find(|&level| super::width(level, self.full) == width)?;
        self.costs.ratio(level).map(|ratio| Nanos(self.costs.per_round * ratio))
    }
}

const CLOCK: f64 = 10.0;
/// The cost of a report without the read of the clock.
const REPORT: f64 = 27.0;

/// xorshift64*: uniform in 0..1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Members that share rounds evenly and meet at a barrier, on a machine with jitter, interrupts, parked members and perhaps a busy neighbour.
struct Machine {
    noise: Noise,
    now: f64,
    /// Cost of the barrier at each width.
    barrier: fn(usize) -> f64,
    /// Mean time in wide rounds between stalls of 4 ms; `None` without a neighbour.
    stalls: Option<f64>,
    /// Time until a waiting member parks, and the cost of waking it then.
    looks: f64,
    wake: f64,
    /// When each width was last used by a round.
    used: [f64; 65],
    wide: usize,
    rounds: usize,
}

/// Duration of a stall.
const SLICE: f64 = 4e6;

fn machine(seed: u64, barrier: fn(usize) -> f64) -> Machine {
    let noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    Machine { noise, now: 0.0, barrier, stalls: None, looks: 60e3, wake: 15e3, used: [0.0; 65], wide: 0, rounds: 0 }
}

impl Machine {
    /// One round of `serial` nanoseconds on one member.
    fn round(&mut self, serial: f64, width: usize) -> f64 {
        let mut time = ideal(serial, width, self.barrier) * (0.96 + 0.08 * self.noise.next());
        if self.noise.next() < time / 1e6 {
            time += 3e3;
        }
        if width > 1 {
            if self.now - self.used[width] > self.looks {
                time += self.wake;
            }
            if self.stalls.is_some_and(|every| self.noise.next() < time / every) {
                time += SLICE;
            }
        }
        self.now += time;
        self.used[..=width].fill(self.now);
        self.rounds += 1;
        self.wide += usize::from(width > 1);
        time
    }

    /// One call: `rounds` rounds of `serial(i)` nanoseconds. The time it took.
    fn call(&mut self, full: usize, stats: &mut WidthStats, rounds: usize, serial: impl Fn(usize) -> f64) -> f64 {
        let began = self.now;
        self.used.fill(began);
        let mut tuner = WidthTuner::new(full, &plan_machine(), *stats, Nanos(began)).with_left(rounds);
        let (mut done, mut from, mut since) = (0, 0, began);
        let mut segment = tuner.segment();
        while done < rounds {
            self.round(serial(done), segment.width);
            done += 1;
            let ran = done - from;
            let mut late = false;
            if ran == segment.rounds || ran % segment.every == 0 {
                self.now += CLOCK;
                late = self.now - since > segment.deadline.0;
            }
            if ran == segment.rounds || late {
                self.now += REPORT;
                segment = tuner.report(ran, Nanos(self.now - since));
                (from, since) = (done, self.now);
            }
        }
        *stats = tuner.end(done - from, Nanos(self.now - since));
        self.now - began
    }
}

fn ideal(serial: f64, width: usize, barrier: fn(usize) -> f64) -> f64 {
    serial / width as f64 + if width > 1 { barrier(width) } else { 0.0 }
}

/// Time of the rounds if each runs at the best candidate width.
fn oracle(full: usize, rounds: usize, serial: impl Fn(usize) -> f64, barrier: fn(usize) -> f64) -> f64 {
    let best =
        |cost| (0..=top(full)).map(|level| ideal(cost, width(level, full), barrier)).fold(f64::INFINITY, f64::min);
    (0..rounds).map(|i| best(serial(i))).sum()
}

/// The worst of some seeds, relative to the oracle.
fn worst(full: usize, rounds: usize, serial: impl Fn(usize) -> f64 + Copy, barrier: fn(usize) -> f64) -> f64 {
    let best = oracle(full, rounds, serial, barrier);
    (1..=20)
        .map(|seed| machine(seed, barrier).call(full, &mut WidthStats::default(), rounds, serial) / best)
        .fold(0.0, f64::max)
}

const FREE: fn(usize) -> f64 = |_| 200.0;

/// Relative time of rounds of the same cost.
fn even(full: usize, rounds: usize, serial: f64, barrier: fn(usize) -> f64) -> f64 {
    worst(full, rounds, |_| serial, barrier)
}

#[test]
fn even_rounds_find_their_width() {
    assert!(even(2, 10_000, 850.0, FREE) < 1.03);
    for serial in [10.0, 100.0, 300.0, 400.0, 500.0] {
        let ratio = even(2, (1e7 / serial) as usize, serial, FREE);
        assert!(ratio < 1.03, "{serial}: {ratio}");
    }
    assert!(even(2, 3000, 18_900.0, FREE) < 1.02);
    assert!(even(2, 200, 1e6, FREE) < 1.03);
    // The barrier of a machine with too many threads.
    assert!(even(2, 10_000, 1000.0, |_| 5000.0) < 1.05);
    assert!(even(2, 10_000, 1000.0, |_| 100_000.0) < 1.05);
    assert_eq!(even(1, 1000, 1000.0, FREE), even(1, 1000, 1000.0, |_| 1e9));
}

#[test]
fn wide_teams_climb_to_the_width_between() {
    // Best at 2 or 4 of 8, at 6, and at all of 64.
    assert!(even(8, 20_000, 1000.0, |width| 100.0 * width as f64) < 1.06);
    assert!(even(6, 20_000, 10_000.0, |width| 100.0 * width as f64) < 1.03);
    assert!(even(64, 2000, 100_000.0, |width| 10.0 * width as f64) < 1.06);
}

#[test]
fn rounds_that_shrink_or_grow_are_followed() {
    let at = |i: usize| i as f64 / 1e4;
    assert!(worst(2, 10_000, |i| 20e3 - 19_950.0 * at(i), FREE) < 1.04);
    assert!(worst(2, 10_000, |i| 50.0 + 19_950.0 * (1.0 - at(i)).powi(2), FREE) < 1.04);
    assert!(worst(2, 10_000, |i| 20e3 * (-6.0 * at(i)).exp(), FREE) < 1.04);
    assert!(worst(2, 10_000, |i| 50.0 * (6.0 * at(i)).exp(), FREE) < 1.04);
    assert!(worst(2, 10_000, |i| 1700.0 * (1.0 - at(i)) + 1.0, FREE) < 1.04);
}

/// Calls in a row, each relative to `ideal`.
struct Series {
    machine: Machine,
    stats: WidthStats,
    full: usize,
    rounds: usize,
}

impl Series {
    fn run(&mut self, calls: usize, ideal: f64, serial: impl Fn(usize) -> f64 + Copy) -> Ratios {
        let Series { machine, stats, full, rounds } = self;
        let mut all: Vec<f64> = (0..calls).map(|_| machine.call(*full, stats, *rounds, serial) / ideal).collect();
        let mean = all.iter().sum::<f64>() / calls as f64;
        all.sort_by(f64::total_cmp);
        Ratios { median: all[calls / 2], mean }
    }
}

#[derive(Debug)]
struct Ratios {
    median: f64,
    mean: f64,
}

fn calls(seed: u64, full: usize, rounds: usize) -> Series {
    Series { machine: machine(seed, FREE), stats: WidthStats::default(), full, rounds }
}

#[test]
fn a_busy_neighbour_is_left_alone_and_missed_when_it_has_gone() {
    for seed in 1..=20 {
        let mut calls = calls(seed, 2, 8000);
        calls.machine.stalls = Some(3e6);
        let busy = calls.run(200, 8e6, |_| 1000.0);
        assert!(busy.median < 1.05 && busy.mean < 1.15, "{seed}: {busy:?}");

        let quiet = calls.stats.explored.budget.debt().0 / Budget::SHARE;
        assert!(quiet <= 2.2 * SLICE / Budget::SHARE, "{seed}: {quiet}");
        calls.machine.stalls = None;
        let gone = calls.machine.now;
        while calls.stats.width() == 1 {
            calls.run(1, 8e6, |_| 1000.0);
            assert!(calls.machine.now - gone < quiet + 2.0 * 8.1e6, "{seed}: {:?}", calls.stats);
        }
        let free = calls.run(100, 5.6e6, |_| 1000.0);
        assert!(free.median < 1.03, "{seed}: {free:?}");

        // The neighbour comes back while the best width is two.
        calls.machine.stalls = Some(3e6);
        calls.run(15, 8e6, |_| 1000.0);
        let busy = calls.run(100, 8e6, |_| 1000.0);
        assert!(busy.median < 1.05 && busy.mean < 1.15, "{seed}: {busy:?}");
    }
}

/// The time for which the next exploration is put off.
fn waits(stats: &WidthStats) -> f64 {
    stats.explored.budget.debt().0 / Budget::SHARE
}

/// A stall is risked again after the time that it took, and then after twice as long, because the neighbour may be gone.
#[test]
fn a_stall_is_risked_again_later_and_later() {
    let mut calls = calls(1, 2, 8000);
    calls.machine.stalls = Some(100.0);
    let calm = calls.run(1, 8e6, |_| 1000.0).mean;
    assert!((1.4..2.2).contains(&calm), "the first try is hit, and risked once more: {calm}");
    let (mut before, mut tries) = (0.0, 0);
    for _ in 0..400 {
        let wide = calls.machine.wide;
        calls.run(1, 8e6, |_| 1000.0);
        tries += usize::from(calls.machine.wide > wide);
        assert!(waits(&calls.stats) <= 1.1 * SLICE / Budget::SHARE);
        before = waits(&calls.stats).max(before);
    }
    assert!(before > 0.9 * SLICE / Budget::SHARE, "in the end a stall is charged as a whole: {before}");
    assert!((10..18).contains(&tries), "{tries} stalls in 3.2 s");
    // Some seconds later the neighbour may be gone, however few rounds have run since: a stall of 4 ms is risked again after 4 s.
    let wide = calls.machine.wide;
    calls.machine.now += 1100.0 * SLICE;
    calls.machine.stalls = None;
    calls.run(1, 8e6, |_| 1000.0);
    assert!(calls.machine.wide > wide && calls.stats.width() == 2);
}

/// Nothing is forgiven: all stalls but the first seven are charged as a whole, until the width has lasted.
#[test]
fn stalls_are_charged_in_shares_that_double() {
    let mut stalls = Stalls(0);
    let charges: Vec<f64> = (0..9).map(|_| stalls.charge(100.0, f64::NEG_INFINITY)).collect();
    assert_eq!(charges, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 100.0]);
    assert_eq!(stalls.charge(100.0, 9_999.0), 100.0);
    assert_eq!(stalls.charge(100.0, 10_001.0), 1.0, "it has lasted as long as it was put off");
}

/// After a stall, calls need no team until it is paid for; the time of such calls counts.
#[test]
fn a_call_rests_until_a_stall_is_paid_for() {
    let mut calls = calls(1, 2, 2000);
    calls.machine.stalls = Some(100.0);
    calls.run(1, 2e6, |_| 1000.0);
    let (mut stats, now) = (calls.stats, Nanos(calls.machine.now));
    assert!(stats.rests(500, now) && !stats.rests(1_000_000, now), "a long call pays for it: {stats:?}");
    assert!(!stats.rests(500, Nanos(now.0 + 100.0 * SLICE)), "by the clock, a hundred times is enough at first");
    let mut rested = 0;
    while stats.rests(500, now) {
        stats = stats.rested(Nanos(500e3));
        rested += 1;
    }
    assert!((2..10).contains(&rested), "{rested} calls of 0.5 ms");
    assert!(!WidthStats::default().rests(0, Nanos(0.0)));
}

/// A call that has lost as much as its rest is worth runs the rest on one member.
#[test]
fn a_call_finishes_without_members_once_it_has_lost_its_rest() {
    let (stats, per_round) = stats_of_two();
    let mut tuner = WidthTuner::new(2, &plan_machine(), stats, Nanos(stats.ran)).with_left(1000);
    let first = tuner.segment();
    assert_eq!(first.width, 2);
    // Savings of earlier calls cover the stall; the rest of this call is worth 2 ms.
    let next = tuner.report(first.rounds, Nanos(per_round * first.rounds as f64 + SLICE));
    assert_eq!((next.width, tuner.phase), (1, Phase::Finish), "{}", tuner.account());
    assert!(next.rounds >= 1000 - first.rounds && tuner.account().contains("as much as the rest of it"), "{next:?}");
    tuner.report(next.rounds / 2, Nanos(2000.0 * next.rounds as f64));
    assert_eq!(tuner.segment().width, 1);
    // A longer call goes on with two.
    let mut longer = WidthTuner::new(2, &plan_machine(), stats, Nanos(stats.ran)).with_left(100_000);
    assert_eq!(longer.report(first.rounds, Nanos(per_round * first.rounds as f64 + SLICE)).width, 2);
}

/// A call that would win far more than a stall has cost does not wait until that is earned; beside a busy neighbour that never leaves it soon does.
#[test]
fn long_calls_do_not_wait_for_the_debt_of_a_stall() {
    for seed in 1..=20 {
        let mut calls = calls(seed, 2, 200);
        // Two members are stalled in their first rounds.
        (calls.machine.stalls, calls.rounds) = (Some(1000.0), 20);
        calls.run(1, 4e6, |_| 400e3);
        assert!(calls.stats.width() == 1, "{seed}: {:?}", calls.stats);
        (calls.machine.stalls, calls.rounds) = (None, 200);
        let after = calls.run(1, 40e6, |_| 400e3);
        assert!(after.mean < 1.1, "{seed}: {after:?}");
        calls.machine.stalls = Some(3e6);
        let busy = calls.run(100, 80e6, |_| 400e3);
        assert!(busy.median < 1.05 && busy.mean < 1.15, "{seed}: {busy:?}");
    }
}

/// A stall in cheap rounds does not keep costlier ones of the same site on one member.
#[test]
fn costlier_rounds_do_not_wait_for_an_old_debt() {
    let mut calls = calls(1, 2, 2000);
    calls.machine.stalls = Some(100.0);
    calls.run(1, 1.0, |_| 500.0);
    assert!(waits(&calls.stats) > 0.5 * SLICE, "{:?}", calls.stats);
    calls.machine.stalls = None;
    calls.rounds = 3000;
    let costlier = calls.run(2, 3000.0 * 7200.0, |_| 14_000.0);
    assert!(costlier.mean < 1.1, "{costlier:?}");
}

/// A leader without members may still share its CPU with the neighbour: its stall must not hide those of two members.
#[test]
fn a_stall_of_one_member_does_not_hide_those_of_two() {
    let mut tuner = WidthTuner::new(2, &plan_machine(), WidthStats::default(), Nanos(0.0));
    let (mut rounds_run, mut time, mut wide, mut was_wide) = (0.0, 0.0, 0.0, false);
    while time < 4e9 {
        let Segment { width, rounds, .. } = tuner.segment();
        let ideal = [14e3, 8e3][width - 1] * rounds as f64;
        wide += if width == 2 { ideal } else { 0.0 };
        let stalls = if width == 1 { was_wide } else { wide >= 4e6 };
        let took = if stalls { ideal + SLICE } else { ideal };
        (wide, was_wide) = (if stalls { 0.0 } else { wide }, width == 2);
        (rounds_run, time) = (rounds_run + rounds as f64, time + took);
        tuner.report(rounds, Nanos(took));
    }
    let ratio = time / (rounds_run * 14e3);
    assert!(ratio < 1.03, "{ratio}");
}

/// The stats after calls of 100 rounds of 2 us, which have saved more than some stalls cost; and what the calls take with two.
fn stats_of_two() -> (WidthStats, f64) {
    let mut calls = calls(6, 2, 100);
    calls.run(1000, 1.0, |_| 2000.0);
    assert_eq!(calls.stats.width(), 2);
    (calls.stats, 1200.0)
}

#[test]
fn stalls_in_the_first_rounds_count() {
    // The call continues after these rounds, or ends with them.
    for more in [true, false] {
        let (mut stats, per_round) = stats_of_two();
        let mut stalled = 0;
        while stats.width() == 2 {
            let mut tuner = WidthTuner::new(2, &plan_machine(), stats, Nanos(stats.ran));
            let rounds = tuner.segment().rounds;
            let spent = Nanos(per_round * rounds as f64 + SLICE);
            stats = if more {
                let Segment { rounds, .. } = tuner.report(rounds, spent);
                tuner.end(rounds, Nanos(per_round * rounds as f64))
            } else {
                tuner.end(rounds, spent)
            };
            stalled += 1;
            assert!(stalled <= 15, "{stats:?}");
        }
    }
}

#[test]
fn a_width_dropped_late_in_a_call_is_not_that_of_the_next() {
    let (stats, _) = stats_of_two();
    let mut tuner = WidthTuner::new(2, &plan_machine(), stats, Nanos(stats.ran));
    // Rounds that cost a third of what they did when the call began, with two members or one.
    for segments in 0..10 {
        let Segment { width, rounds, .. } = tuner.segment();
        let per_round = [2000.0, 1200.0][width - 1] / if segments < 3 { 1.0 } else { 3.0 };
        tuner.report(rounds, Nanos(per_round * rounds as f64));
    }
    while tuner.phase != Phase::Best {
        let Segment { width, rounds, .. } = tuner.segment();
        tuner.report(rounds, Nanos([2000.0, 1200.0][width - 1] / 3.0 * rounds as f64));
    }
    assert_eq!(tuner.segment().width, 2);
    assert_eq!(tuner.report(1, Nanos(20.0 * SLICE)).width, 1);
    let stats = tuner.end(0, Nanos(0.0));
    assert_eq!(stats.width(), 1);
    assert!((1500.0..2500.0).contains(&stats.per_round(1).expect("measured").0), "as when the call began: {stats:?}");
}

/// The next call begins with cheap rounds, as this one did, even if its last rounds are cheap again.
#[test]
fn a_width_found_in_the_middle_of_a_call_is_not_that_of_the_next() {
    let (mut machine, mut stats) = (machine(5, |_| 1000.0), WidthStats::default());
    for call in 0..5 {
        machine.wide = 0;
        let rounds = |i| if (3_000..11_900).contains(&i) { 30_000.0 } else { 300.0 };
        machine.call(8, &mut stats, 12_000, rounds);
        assert!(stats.width() == 1 && machine.wide > 6_000, "call {call}: {stats:?}, {} wide rounds", machine.wide);
    }
}

#[test]
fn calls_that_run_on_one_member_form_no_team() {
    let mut machine = machine(3, |width| if width > 1 { 1e6 } else { 0.0 });
    let (mut stats, mut calls) = (WidthStats::default(), TeamCalls::default());
    let mut serial = 0;
    for call in 0..200 {
        let mode = calls.choose();
        let time = if mode == Mode::Serial {
            serial += 1;
            (0..10_000).map(|_| machine.round(500.0, 1)).sum()
        } else {
            // Members join and leave late.
            machine.now += 2e5;
            machine.call(2, &mut stats, 10_000, |_| 500.0) + 2e5
        };
        assert!(call < 2 || stats.is_serial(2) && !stats.is_serial(3), "{stats:?}");
        calls = calls.after(mode, Nanos(time), stats.is_serial(2));
    }
    assert!((150..195).contains(&serial), "{serial} of 200 calls are serial");
}

#[test]
fn stalls_that_cost_less_than_the_width_saves_are_borne() {
    for seed in 1..=10 {
        let mut calls = calls(seed, 2, 1000);
        calls.machine.stalls = Some(30e6);
        calls.run(100, 1.0, |_| 18_900.0);
        let mean = calls.run(200, 9.65e6 * (1.0 + SLICE / 30e6), |_| 18_900.0).mean;
        assert!(mean < 1.1, "{seed}: {mean}");
    }
    // With this neighbour, width 2 would not last, but width 8 does.
    let mut calls = calls(1, 8, 1000);
    calls.machine.barrier = |width| 100.0 * width as f64;
    calls.machine.stalls = Some(3e6);
    calls.run(100, 1.0, |_| 10_000.0);
    let mean = calls.run(200, 1e7, |_| 10_000.0).mean;
    assert!(mean < 0.55, "{mean}");
    // From one member the tuner still finds width 8, although width 2 would not last.
    let mut calls = Series { stats: WidthStats::default(), ..calls };
    calls.machine.stalls = Some(100.0);
    calls.run(1, 1.0, |_| 10_000.0);
    calls.machine.stalls = Some(3e6);
    calls.run(200, 1.0, |_| 10_000.0);
    let mean = calls.run(200, 1e7, |_| 10_000.0).mean;
    assert!(mean < 0.55, "{mean}");
}

#[test]
fn short_calls_learn_from_each_other() {
    // 10 us on one member, 6 us with two; and 3 us on one, where two are slower.
    for (serial, ideal) in [(2000.0, 6000.0), (300.0, 1500.0)] {
        let mut calls = calls(3, 2, 5);
        calls.run(1000, 1.0, |_| serial);
        let ratios = calls.run(2000, ideal, |_| serial);
        assert!(ratios.median < 1.03 && ratios.mean < 1.03, "{serial}: {ratios:?}");
    }
}

#[test]
fn calls_begin_as_the_last_one_began() {
    // A call that ends with rounds of nothing begins wide again, and not where the last one ended.
    let triangle = |i: usize| 20.0 + 20e3 * (1.0 - i as f64 / 512.0).powi(2);
    let steps = |i: usize| if i < 50 { 20e3 } else { 50.0 };
    fn check(rounds: usize, serial: impl Fn(usize) -> f64 + Copy, most: f64) {
        let mut calls = calls(4, 2, rounds);
        calls.run(10, 1.0, serial);
        let ideal = oracle(2, rounds, serial, FREE);
        let mut began_wide = 0;
        for _ in 0..100 {
            let ratio = calls.run(1, ideal, serial).mean;
            assert!(ratio < most, "{ratio}");
            began_wide += usize::from(calls.stats.width() == 2);
        }
        assert!(began_wide > 95, "{began_wide}");
    }
    check(512, triangle, 1.1);
    // (The last try at one member cost 10 us, which are 1 % of the 1 ms until the next one, wherever the step is.)
    check(50_000, steps, 1.5);
}

#[test]
fn widths_that_cost_the_same_are_mostly_left_alone() {
    let mut tuner = WidthTuner::new(2, &plan_machine(), WidthStats::default(), Nanos(0.0));
    let mut changes = 0;
    for _ in 0..1000 {
        let Segment { width, rounds, .. } = tuner.segment();
        changes += usize::from(tuner.report(rounds, Nanos(1000.0 * rounds as f64)).width != width);
    }
    assert!((2..400).contains(&changes), "{changes}");
}

#[test]
fn statistics_serve_teams_of_other_widths() {
    let mut calls = calls(5, 4, 1000);
    calls.run(20, 1.0, |_| 20e3);
    assert_eq!(calls.stats.width(), 4);
    let alone = calls.stats.per_round(1).expect("measured first").0;
    assert!((19e3..21e3).contains(&alone) && calls.stats.per_round(3).is_none());
    for full in [2, 3, 1, 64, 4] {
        calls.full = full;
        calls.run(3, 1.0, |_| 20e3);
        assert_eq!(calls.stats.width(), full);
        assert!(calls.stats.per_round(1).is_some_and(|cost| (19e3..21e3).contains(&cost.0)), "{:?}", calls.stats);
    }
}

#[test]
fn an_account_names_the_numbers_behind_a_choice() {
    let mut tuner = WidthTuner::new(4, &plan_machine(), WidthStats::default(), Nanos(0.0));
    assert_eq!(
        tuner.account(),
        "width 1: nothing has been measured yet (4 members, best width 1 at 0 ns per round, 0 ns run, 0 ns of debt)"
    );
    let cost = |width| [0.0, 8000.0, 4100.0, 0.0, 2200.0][width];
    let mut segments = Vec::new();
    for _ in 0..200 {
        let segment = tuner.segment();
        segments.push(segment.width);
        tuner.report(segment.rounds, Nanos(cost(segment.width) * segment.rounds as f64));
    }
    assert_eq!(segments[..5], [1, 1, 4, 4, 4], "one round, a segment, first rounds, a measurement, the best width");
    assert_eq!(segments.iter().position(|&width| width == 2), Some(8), "the next width, after a pause");
    assert_eq!(tuner.segment(), Segment { width: 4, rounds: 12, deadline: Nanos(52_800.0), every: 2 });
    let stats = tuner.end(0, Nanos(0.0));
    assert_eq!([1, 2, 4].map(|width| stats.per_round(width).expect("measured").0.round()), [8000.0, 4100.0, 2200.0]);
}

#[test]
fn a_report_of_nothing_changes_nothing() {
    let mut tuner = WidthTuner::new(2, &plan_machine(), WidthStats::default(), Nanos(0.0));
    let segment = tuner.segment();
    assert_eq!(tuner.report(0, Nanos(1e9)), segment);
    // A call that ended before it began leaves no trace.
    assert_eq!(tuner.end(0, Nanos(0.0)), WidthStats { full: 2, ..WidthStats::default() });
    // Invalid times do not lead to invalid segments.
    for nonsense in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
        let segment = tuner.report(1, Nanos(nonsense));
        assert!(segment.rounds >= 1 && segment.every >= 1 && segment.deadline.0 > 0.0);
        assert!(tuner.ran.is_finite(), "the time that pays for explorations");
    }
}

#[test]
fn segments_that_are_compared_read_the_clock_equally_often() {
    let mut tuner = WidthTuner::new(2, &plan_machine(), WidthStats::default(), Nanos(0.0));
    let (mut entered, mut measured) = (0, 0);
    for _ in 0..200 {
        let segment = tuner.segment();
        let every = match tuner.why {
            // Ended at once if the first rounds are slow.
            "another width is due" => 1,
            _ => segment.rounds.div_ceil(READS),
        };
        assert_eq!(segment.every, every, "{}", tuner.account());
        entered += usize::from(segment.rounds > READS && every == 1);
        measured += usize::from(tuner.why == "another width is being measured");
        tuner.report(segment.rounds, Nanos(100.0 * segment.rounds as f64 / segment.width as f64));
    }
    assert!(entered > 0 && measured > 0, "{entered} {measured}");
}

#[test]
fn candidates_double_up_to_the_full_width() {
    let candidates = |full| (0..=top(full)).map(|level| width(level, full)).collect::<Vec<_>>();
    assert_eq!(candidates(1), [1]);
    assert_eq!(candidates(2), [1, 2]);
    assert_eq!(candidates(3), [1, 2, 3]);
    assert_eq!(candidates(8), [1, 2, 4, 8]);
    assert_eq!(candidates(9), [1, 2, 4, 8, 9]);
    assert_eq!(candidates(usize::MAX).len(), LEVELS);
    assert_eq!(candidates(usize::MAX).last(), Some(&usize::MAX));
}

/// The losses of a tuner by exploring, added up from outside.
#[derive(Default)]
struct Losses {
    paid: f64,
    price: f64,
}

impl Losses {
    fn explores(tuner: &WidthTuner) -> bool {
        !matches!(tuner.phase, Phase::Check | Phase::Best)
    }

    /// Adds what the account is charged; `before` is its state before the report.
    fn pay(&mut self, tuner: &WidthTuner, before: Explored) {
        let price = std::mem::take(&mut self.price).max(0.0);
        let mut stalls = before.stalls;
        self.paid += if tuner.is_stall(price) { stalls.charge(price, tuner.ran - before.entered) } else { price };
    }

    fn report(&mut self, tuner: &mut WidthTuner, rounds: usize, elapsed: f64) {
        let (before, per_round) = (Self::explores(tuner), tuner.costs.per_round);
        let explored = tuner.explored;
        let (begins, debt) = (matches!(tuner.phase, Phase::Check), tuner.debt().0);
        tuner.report(rounds, Nanos(elapsed));
        if begins && !Self::explores(tuner) {
            // Rounds that cost more than before forgive a debt.
            let earned = Budget::SHARE * elapsed.max(0.01 * rounds as f64);
            self.paid -= ((debt - earned).max(0.0) - tuner.debt().0).max(0.0);
        }
        match (before, Self::explores(tuner)) {
            (false, false) => {}
            // Stalled: the price is what had not been saved.
            (false, true) => self.price = if matches!(tuner.phase, Phase::Return) { tuner.price } else { 0.0 },
            (true, still) => {
                self.price += elapsed - rounds as f64 * per_round;
                if !still {
                    self.pay(tuner, explored);
                }
            }
        }
    }

    /// No exploration begins before the cost of all earlier ones is earned, but for a credit of some segments.
    fn check(&self, tuner: &WidthTuner) -> Result<(), TestCaseError> {
        if Self::explores(tuner) && self.price == 0.0 {
            let earned = Budget::SHARE * tuner.ran + PAUSE * tuner.segment;
            prop_assert!(
                self.paid <= earned * (1.0 + 1e-9) + 1e-6,
                "{} paid, {} earned: {:?}",
                self.paid,
                earned,
                tuner
            );
        }
        Ok(())
    }
}

fn team_calls() -> impl Strategy<Value = Vec<(usize, Vec<(f64, f64)>)>> {
    // Costs of a round over seven orders of magnitude, wild or mostly alike, and how much of a segment is run.
    let wild = (-1.0..6.0f64, 0.01..3.0f64);
    let tame = (2.9..3.1f64, 0.5..3.0f64);
    let call = prop_oneof![
        prop::collection::vec(wild.clone(), 0..300),
        prop::collection::vec(prop_oneof![9 => tame, 1 => wild], 0..300),
    ];
    let full = prop_oneof![Just(2usize), 1..10usize, Just(usize::MAX)];
    prop::collection::vec((full, call), 1..6)
}

proptest! {
    #[test]
    fn trying_never_costs_more_than_its_share(calls in team_calls()) {
        let mut stats = WidthStats::default();
        let mut losses = Losses::default();
        let mut now = 0.0;
        for (full, segments) in calls {
            let mut tuner = WidthTuner::new(full, &plan_machine(), stats, Nanos(now));
            losses.price = 0.0;
            for (magnitude, part) in segments {
                losses.check(&tuner)?;
                let segment = tuner.segment();
                prop_assert!((0..=top(full)).any(|level| width(level, full) == segment.width), "{:?}", segment);
                prop_assert!(segment.rounds >= 1 && (1..=segment.rounds).contains(&segment.every), "{:?}", segment);
                prop_assert!(segment.deadline.0 > 0.0 && segment.deadline.0.is_finite(), "{:?}", segment);
                let rounds = ((segment.rounds as f64 * part) as usize).clamp(1, segment.rounds);
                let elapsed = 10f64.powf(magnitude) * rounds as f64;
                now += elapsed;
                losses.report(&mut tuner, rounds, elapsed);
            }
            losses.check(&tuner)?;
            if Losses::explores(&tuner) {
                losses.pay(&tuner, tuner.explored);
            }
            stats = tuner.end(0, Nanos(0.0));
            prop_assert!((stats.ran - now).abs() <= 1e-6 * now);
        }
    }
}

#[test]
fn known_costs_are_checked_by_a_part_of_a_segment() {
    let cost = |width: usize| [0.0, 8000.0, 4100.0, 0.0, 2200.0][width];
    let mut tuner = WidthTuner::new(4, &plan_machine(), WidthStats::default(), Nanos(0.0));
    for _ in 0..40 {
        let segment = tuner.segment();
        tuner.report(segment.rounds, Nanos(cost(segment.width) * segment.rounds as f64));
    }
    let whole = tuner.segment();
    let next = WidthTuner::new(4, &plan_machine(), tuner.end(0, Nanos(0.0)), Nanos(0.0)).segment();
    assert_eq!((next.width, next.rounds, whole.rounds), (4, 3, 12));
}

#[test]
fn impossible_times_leave_finite_costs() {
    let mut tuner = WidthTuner::new(4, &plan_machine(), WidthStats::default(), Nanos(0.0));
    tuner.report(tuner.segment().rounds, Nanos(0.0));
    tuner.report(tuner.segment().rounds, Nanos(0.0));
    assert_eq!(tuner.end(0, Nanos(0.0)).per_round(1), Some(Nanos(0.01)), "no round is faster");
    let mut costs = WidthCosts::default();
    costs.move_to(1, 1e12);
    let ratio = costs.ratio(0).expect("the level before is known");
    assert!((ratio * 1e9 - 1.0).abs() < 1e-3, "{ratio}");
}
