//! A simulated machine under [`WidthTuner`], and what must hold for all machines.

use proptest::prelude::*;

use super::*;

const CLOCK: f64 = 10.0;
/// What a report takes beside the look at the clock.
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

/// Members that share rounds evenly behind a barrier, on a machine with jitter, interrupts, sleepers and perhaps a busy neighbour.
struct Machine {
    noise: Noise,
    now: f64,
    /// What the barrier adds at each width.
    barrier: fn(usize) -> f64,
    /// Mean wide time between stalls of 4 ms, if there is a neighbour.
    stalls: Option<f64>,
    /// Time until a waiting member parks, and the cost of waking it then.
    looks: f64,
    wake: f64,
    /// When each width was last used by a round.
    used: [f64; 65],
    wide: usize,
    rounds: usize,
}

const STALL: f64 = 4e6;

fn machine(seed: u64, barrier: fn(usize) -> f64) -> Machine {
    let noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    Machine { noise, now: 0.0, barrier, stalls: None, looks: 60e3, wake: 15e3, used: [0.0; 65], wide: 0, rounds: 0 }
}

impl Machine {
    /// One round of `serial` nanoseconds alone.
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
                time += STALL;
            }
        }
        self.now += time;
        self.used[..=width].fill(self.now);
        self.rounds += 1;
        self.wide += usize::from(width > 1);
        time
    }

    /// One call: `rounds` rounds of `serial(i)` nanoseconds. The time it took.
    fn call(&mut self, full: usize, memory: &mut Memory, rounds: usize, serial: impl Fn(usize) -> f64) -> f64 {
        let began = self.now;
        self.used.fill(began);
        let mut rhythm = WidthTuner::new(full, Nanos(CLOCK), *memory, Nanos(began));
        let (mut done, mut from, mut since) = (0, 0, began);
        let mut segment = rhythm.segment();
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
                segment = rhythm.report(ran, Nanos(self.now - since));
                (from, since) = (done, self.now);
            }
        }
        *memory = rhythm.end(done - from, Nanos(self.now - since));
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
        .map(|seed| machine(seed, barrier).call(full, &mut Memory::new(), rounds, serial) / best)
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
    memory: Memory,
    full: usize,
    rounds: usize,
}

impl Series {
    fn run(&mut self, calls: usize, ideal: f64, serial: impl Fn(usize) -> f64 + Copy) -> Ratios {
        let Series { machine, memory, full, rounds } = self;
        let mut all: Vec<f64> = (0..calls).map(|_| machine.call(*full, memory, *rounds, serial) / ideal).collect();
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
    Series { machine: machine(seed, FREE), memory: Memory::new(), full, rounds }
}

#[test]
fn a_busy_neighbour_is_left_alone_and_missed_when_it_has_gone() {
    for seed in 1..=20 {
        let mut calls = calls(seed, 2, 8000);
        calls.machine.stalls = Some(3e6);
        let busy = calls.run(200, 8e6, |_| 1000.0);
        assert!(busy.median < 1.05 && busy.mean < 1.15, "{seed}: {busy:?}");

        let quiet = calls.memory.quiet().0.max(SOON);
        assert!(quiet <= 1.1 * STALL / SHARE[WIDER], "{seed}: {quiet}");
        calls.machine.stalls = None;
        let gone = calls.machine.now;
        while calls.memory.width() == 1 {
            calls.run(1, 8e6, |_| 1000.0);
            assert!(calls.machine.now - gone < quiet + 2.0 * 8.1e6, "{seed}: {:?}", calls.memory);
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

#[test]
fn a_stall_is_not_risked_again_soon() {
    let mut calls = calls(1, 2, 8000);
    calls.machine.stalls = Some(100.0);
    let calm = calls.run(1, 8e6, |_| 1000.0).mean;
    assert!(calm > 1.4, "the first try is hit: {calm}");
    assert!(calls.memory.tried().is_some_and(|(_, cost)| cost.0 > 0.9 * STALL), "{:?}", calls.memory);
    let wide = calls.machine.wide;
    calls.run(14, 8e6, |_| 1000.0);
    assert_eq!(calls.machine.wide, wide);
    // Seconds later the machine may be quiet again, whatever was run since.
    let (_, cost) = calls.memory.tried().expect("it was tried");
    calls.machine.now += cost.0 / SHARE_OF_ALL;
    calls.machine.stalls = None;
    calls.run(1, 8e6, |_| 1000.0);
    assert!(calls.machine.wide > wide && calls.memory.width() == 2);
}

/// The memory after calls of 100 rounds of 2 us, which have saved more than some stalls cost; and what the calls take with two.
fn at_home_with_two() -> (Memory, f64) {
    let mut calls = calls(6, 2, 100);
    calls.run(1000, 1.0, |_| 2000.0);
    assert_eq!(calls.memory.width(), 2);
    (calls.memory, 1200.0)
}

#[test]
fn stalls_in_the_first_rounds_count() {
    // The call continues after these rounds, or ends with them.
    for more in [true, false] {
        let (mut memory, per_round) = at_home_with_two();
        let mut stalled = 0;
        while memory.width() == 2 {
            let mut rhythm = WidthTuner::new(2, Nanos(CLOCK), memory, Nanos(memory.ran));
            let rounds = rhythm.segment().rounds;
            let spent = Nanos(per_round * rounds as f64 + STALL);
            memory = if more {
                let Segment { rounds, .. } = rhythm.report(rounds, spent);
                rhythm.end(rounds, Nanos(per_round * rounds as f64))
            } else {
                rhythm.end(rounds, spent)
            };
            stalled += 1;
            assert!(stalled <= 15, "{memory:?}");
        }
    }
}

#[test]
fn a_team_driven_out_late_in_a_call_begins_the_next_one_alone() {
    let (memory, _) = at_home_with_two();
    let mut rhythm = WidthTuner::new(2, Nanos(CLOCK), memory, Nanos(memory.ran));
    // Rounds that cost a third of what they did when the call began, with two members or one.
    for segments in 0..10 {
        let Segment { width, rounds, .. } = rhythm.segment();
        let per_round = [2000.0, 1200.0][width - 1] / if segments < 3 { 1.0 } else { 3.0 };
        rhythm.report(rounds, Nanos(per_round * rounds as f64));
    }
    assert_eq!((rhythm.phase, rhythm.segment().width), (Phase::Home, 2));
    assert_eq!(rhythm.report(1, Nanos(20.0 * STALL)).width, 1);
    let memory = rhythm.end(0, Nanos(0.0));
    assert_eq!(memory.width(), 1);
    assert!((1500.0..2500.0).contains(&memory.per_round(1).expect("measured").0), "as when the call began: {memory:?}");
}

#[test]
fn calls_that_run_on_one_member_need_no_others() {
    let mut machine = machine(3, |width| if width > 1 { 1e6 } else { 0.0 });
    let mut memory = Memory::new();
    let (mut alone, mut together) = (0, 0);
    for _ in 0..200 {
        if memory.stands_alone(2, Nanos(machine.now)) {
            alone += 1;
            let time: f64 = (0..10_000).map(|_| machine.round(500.0, 1)).sum();
            memory = memory.after_alone(10_000, Nanos(time));
        } else {
            together += 1;
            machine.call(2, &mut memory, 10_000, |_| 500.0);
        }
    }
    // A try costs 1 ms or 2, so one is due after 50 to 100 ms: every 20th call.
    assert!(alone > 170 && together > 8, "{alone} calls alone, {together} together");

    while !memory.stands_alone(2, Nanos(machine.now)) {
        machine.call(2, &mut memory, 10_000, |_| 500.0);
    }
    let now = Nanos(machine.now);
    assert!(!memory.mixed().stands_alone(2, now), "others are needed for something else");
    assert!(!memory.stands_alone(3, now), "nothing is known of three");
    assert!(memory.after_alone(0, Nanos(5.0)).stands_alone(2, now));
    assert!(!memory.after_alone(10_000, Nanos(30e6)).stands_alone(2, now), "rounds have become dearer");
    let late = Nanos(now.0 + 10e9);
    assert!(!memory.stands_alone(2, late), "weather of ten seconds ago is none to rely on");
}

#[test]
fn stalls_that_cost_less_than_the_width_saves_are_borne() {
    for seed in 1..=10 {
        let mut calls = calls(seed, 2, 1000);
        calls.machine.stalls = Some(30e6);
        calls.run(100, 1.0, |_| 18_900.0);
        let mean = calls.run(200, 9.65e6 * (1.0 + STALL / 30e6), |_| 18_900.0).mean;
        assert!(mean < 1.1, "{seed}: {mean}");
    }
    // A neighbour drives two of eight out, but not all of them.
    let mut calls = calls(1, 8, 1000);
    calls.machine.barrier = |width| 100.0 * width as f64;
    calls.machine.stalls = Some(3e6);
    calls.run(100, 1.0, |_| 10_000.0);
    let mean = calls.run(200, 1e7, |_| 10_000.0).mean;
    assert!(mean < 0.55, "{mean}");
    // Once all are driven out, they still come back, although a team of two would not last.
    let mut calls = Series { memory: Memory::new(), ..calls };
    calls.machine.stalls = Some(100.0);
    calls.run(1, 1.0, |_| 10_000.0);
    calls.machine.stalls = Some(3e6);
    calls.run(200, 1.0, |_| 10_000.0);
    let mean = calls.run(200, 1e7, |_| 10_000.0).mean;
    assert!(mean < 0.55, "{mean}");
}

#[test]
fn short_calls_learn_from_each_other() {
    // 10 us alone, 6 us with two; and 3 us alone, where two are slower.
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
            began_wide += usize::from(calls.memory.width() == 2);
        }
        assert!(began_wide > 95, "{began_wide}");
    }
    check(512, triangle, 1.1);
    // (The last try at one member cost 10 us, which are 1 % of the 1 ms until the next one, wherever the step is.)
    check(50_000, steps, 1.5);
}

#[test]
fn widths_that_cost_the_same_are_mostly_left_alone() {
    let mut rhythm = WidthTuner::new(2, Nanos(CLOCK), Memory::new(), Nanos(0.0));
    let mut changes = 0;
    for _ in 0..1000 {
        let Segment { width, rounds, .. } = rhythm.segment();
        changes += usize::from(rhythm.report(rounds, Nanos(1000.0 * rounds as f64)).width != width);
    }
    assert!((2..400).contains(&changes), "{changes}");
}

#[test]
fn a_memory_serves_teams_of_other_widths() {
    let mut calls = calls(5, 4, 1000);
    calls.run(20, 1.0, |_| 20e3);
    assert_eq!(calls.memory.width(), 4);
    let alone = calls.memory.per_round(1).expect("measured first").0;
    assert!((19e3..21e3).contains(&alone) && calls.memory.per_round(3).is_none());
    for full in [2, 3, 1, 64, 4] {
        calls.full = full;
        calls.run(3, 1.0, |_| 20e3);
        assert_eq!(calls.memory.width(), full);
        assert!(calls.memory.per_round(1).is_some_and(|cost| (19e3..21e3).contains(&cost.0)), "{:?}", calls.memory);
    }
}

#[test]
fn a_decision_names_its_alternatives() {
    let mut rhythm = WidthTuner::new(4, Nanos(10.0), Memory::new(), Nanos(0.0));
    assert_eq!(
        rhythm.decision().to_string(),
        "1 round at width 1: nothing is measured yet (4 members, at home with 1, 0 ns a round, 0 ns run, 0 ns owed)"
    );
    let cost = |width| [0.0, 8000.0, 4100.0, 0.0, 2200.0][width];
    let mut segments = Vec::new();
    for _ in 0..200 {
        let segment = rhythm.segment();
        segments.push(segment.width);
        rhythm.report(segment.rounds, Nanos(cost(segment.width) * segment.rounds as f64));
    }
    assert_eq!(segments[..6], [1, 1, 4, 4, 4, 2], "one round, a segment, first rounds, a try, home, the next try");
    let decision = rhythm.decision();
    assert_eq!(decision.choice, Segment { width: 4, rounds: 12, deadline: Nanos(52_800.0), every: 2 });
    let known: Vec<_> = decision.alternatives.iter().map(|one| (one.name, one.predicted.0.round())).collect();
    assert_eq!(known, [("one member", 96_000.0), ("narrower", 49_200.0), ("home", 26_400.0)]);
}

#[test]
fn a_report_of_nothing_changes_nothing() {
    let mut rhythm = WidthTuner::new(2, Nanos(10.0), Memory::new(), Nanos(0.0));
    let segment = rhythm.segment();
    assert_eq!(rhythm.report(0, Nanos(1e9)), segment);
    // A call that ended before it began leaves no trace.
    assert_eq!(rhythm.end(0, Nanos(0.0)), Memory { full: 2, ..Memory::new() });
    // Invalid times do not lead to invalid segments.
    for nonsense in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
        let segment = rhythm.report(1, Nanos(nonsense));
        assert!(segment.rounds >= 1 && segment.every >= 1 && segment.deadline.0 > 0.0);
    }
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

/// What a rhythm has lost by trying, added up from outside.
#[derive(Default)]
struct Losses {
    paid: [f64; 2],
    price: f64,
}

impl Losses {
    fn direction(rhythm: &WidthTuner) -> Option<usize> {
        match rhythm.phase {
            Phase::Glance | Phase::Home => None,
            Phase::Enter { to, .. } | Phase::Measure { to } => Some(rhythm.direction(to)),
            Phase::Back { from } => Some(from),
        }
    }

    fn pay(&mut self, direction: usize) {
        self.paid[direction] += std::mem::take(&mut self.price).max(0.0);
    }

    fn report(&mut self, rhythm: &mut WidthTuner, rounds: usize, elapsed: f64) {
        let (before, home) = (Self::direction(rhythm), rhythm.known.per_round);
        rhythm.report(rounds, Nanos(elapsed));
        match (before, Self::direction(rhythm)) {
            (None, None) => {}
            // Driven out: the price is what the account lacked.
            (None, Some(WIDER)) if matches!(rhythm.phase, Phase::Back { .. }) => self.price = rhythm.price,
            (None, Some(_)) => self.price = 0.0,
            (Some(direction), after) => {
                self.price += elapsed - rounds as f64 * home;
                if after.is_none() {
                    self.pay(direction);
                }
            }
        }
    }

    /// No try begins before all those before it are earned.
    fn check(&self, rhythm: &WidthTuner) -> Result<(), TestCaseError> {
        if let (Some(direction), 0.0) = (Self::direction(rhythm), self.price) {
            let [paid, earned] = [self.paid[direction], SHARE[direction] * rhythm.ran];
            prop_assert!(paid <= earned * (1.0 + 1e-9) + 1e-6, "{} paid, {} earned: {:?}", paid, earned, rhythm);
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
        let mut memory = Memory::new();
        let mut losses = Losses::default();
        let mut now = 0.0;
        for (full, segments) in calls {
            let mut rhythm = WidthTuner::new(full, Nanos(CLOCK), memory, Nanos(now));
            losses.price = 0.0;
            for (magnitude, part) in segments {
                losses.check(&rhythm)?;
                let segment = rhythm.segment();
                prop_assert!((0..=top(full)).any(|level| width(level, full) == segment.width), "{:?}", segment);
                prop_assert!(segment.rounds >= 1 && (1..=segment.rounds).contains(&segment.every), "{:?}", segment);
                prop_assert!(segment.deadline.0 > 0.0 && segment.deadline.0.is_finite(), "{:?}", segment);
                prop_assert_eq!(rhythm.decision().choice, segment);
                let rounds = ((segment.rounds as f64 * part) as usize).clamp(1, segment.rounds);
                let elapsed = 10f64.powf(magnitude) * rounds as f64;
                now += elapsed;
                losses.report(&mut rhythm, rounds, elapsed);
            }
            losses.check(&rhythm)?;
            if let Some(direction) = Losses::direction(&rhythm) {
                losses.pay(direction);
            }
            memory = rhythm.end(0, Nanos(0.0));
            prop_assert!((memory.ran - now).abs() <= 1e-6 * now);
        }
    }

    #[test]
    fn a_team_is_formed_from_free_workers(wanted in 0..100usize, cpus in 1..100usize, idle in 0..100usize, asleep in 0..100usize) {
        let (enter_idle, enter_asleep, lately) = (Nanos(600.0), Nanos(15_000.0), Nanos(0.0));
        let free = Free { wanted, cpus, idle, asleep, enter_idle, enter_asleep, lately };
        let Formation { members, patience } = formation(free).choice;
        prop_assert!(members >= 1 && members <= wanted.max(1) && members <= cpus && members <= 1 + idle + asleep);
        prop_assert_eq!(patience.0 > 0.0, members > 1);
        let more = formation(Free { asleep: asleep + 1, ..free }).choice;
        prop_assert!(more.members >= members && more.members <= members + 1);
    }
}

#[test]
fn a_team_waits_as_long_as_coming_takes() {
    let free = |wanted, idle, asleep| Free {
        wanted,
        cpus: 4,
        idle,
        asleep,
        enter_idle: Nanos(600.0),
        enter_asleep: Nanos(15_000.0),
        lately: Nanos(100_000.0),
    };
    let formed = |free| formation(free).to_string();
    assert_eq!(
        formed(free(2, 1, 2)),
        "2 members, waiting 2.4 us for them: as many as wanted (2 wanted, 1 workers idle and 2 asleep, 4 CPUs)"
    );
    assert_eq!(formation(free(3, 1, 2)).choice, Formation { members: 3, patience: Nanos(60_000.0) });
    let long = Free { lately: Nanos(20e6), ..free(2, 1, 2) };
    assert_eq!(formation(long).choice, Formation { members: 2, patience: Nanos(200_000.0) });
    assert_eq!(formation(free(8, 9, 0)).why, "there are no more CPUs");
    assert_eq!(formation(free(4, 1, 1)).why, "no more are free");
    assert_eq!(formation(free(4, 0, 0)).why, "no worker is free");
    assert_eq!(formation(free(4, 0, 0)).choice.to_string(), "the caller alone");
}
