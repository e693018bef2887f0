//! Verdicts, waits, and the law at its edge.

use super::*;

#[test]
fn the_law_holds_at_its_edge() {
    let law = Law { fixed: Nanos(100.0), each: Nanos(50.0), handoff: Nanos(80.0), lock: Nanos(20.0), ..Law::default() };
    // F (1 - 1/B) > h - lock: 100 (1 - 1/B) > 60 from B = 3 on.
    assert_eq!([1, 2, 3, 64].map(|b| law.pays(b)), [false, false, true, true]);
    assert_eq!((law.alone(), law.batch(4)), (Nanos(170.0), Nanos(300.0)));
}

#[test]
fn cheap_operations_are_waited_for() {
    let machine = Machine::example();
    let park = machine.park();
    assert!(lock_retries(Nanos(50.0), &machine) > park && park.0 > 0.0);
    assert_eq!(lock_retries(Nanos::micros(300.0), &machine), Nanos(0.0));
}

#[test]
fn tasks_spin_for_cheap_operations_only() {
    let machine = Machine::example();
    let spin = |one| task_lock_retries(Nanos(one), &machine);
    assert!(spin(100.0) > machine.park());
    assert_eq!(spin(300.0), Nanos(0.0));
}

/// Measured on two CPUs, in parks, by the column `mutex_per_s` of `batches --only verdicts --each 0`: 2, 8 and 64 threads, and tasks, with F of
/// 1, 2 and 20 parks.
#[test]
fn a_mutex_costs_more_if_callers_wait_for_it() {
    let costs = HandoffCosts::of(&Machine::example());
    let mutex = |in_flight, runner, one| {
        let cost = costs.mutex(BatchTraffic { in_flight, runner, ..FULL }, Nanos(one * costs.parked.0));
        (cost.0 - costs.lock.0) / costs.parked.0
    };
    let (callers, tasks) = (BatchRunner::Callers, BatchRunner::Tasks);
    assert_eq!((mutex(1.0, callers, 2.0), mutex(2.0, callers, 2.0)), (0.0, 0.8), "without a waiter, and with one");
    for (in_flight, runner, measured) in [
        (2.0, callers, [0.43, 0.68, 1.5]),
        (8.0, callers, [0.05, 0.08, 0.35]),
        (64.0, callers, [0.05, 0.07, 0.32]),
        (64.0, tasks, [0.17, 0.48, 1.5]),
    ] {
        for (one, measured) in [1.0, 2.0, 20.0].into_iter().zip(measured) {
            let (foreseen, is) = (one + mutex(in_flight, runner, one), one + measured);
            assert!((foreseen / is - 1.0).abs() < 0.1, "{in_flight} {runner:?} {one}: {foreseen} for {is}");
        }
    }
    assert_eq!(mutex(5.0, BatchRunner::Separate, 20.0), 0.25);
}

const FULL: BatchTraffic =
    BatchTraffic { batch: 64.0, in_flight: 64.0, alone: 0.0, is_limited: false, runner: BatchRunner::Callers };

fn law(fixed: f64, each: f64, handoff: f64) -> Law {
    Law { fixed: Nanos(fixed), each: Nanos(each), handoff: Nanos(handoff), lock: Nanos(20.0), wrapper: Nanos(26.0) }
}

#[test]
fn the_verdict_says_what_to_do() {
    let disk = law(350_000.0, 700.0, 20_000.0);
    let said = |traffic| disk.verdict(traffic).to_string();
    assert!(
        said(FULL).starts_with("batching gains 13.4x at B = 64.0 of 64.0 in flight (F = 350.0 us"),
        "{}",
        said(FULL)
    );
    let half = BatchTraffic { batch: 32.0, ..FULL };
    assert!(said(half).contains("at B = 32.0 of 64.0 in flight (F ="), "a longer wait would not help: {}", said(half));
    assert!(
        said(BatchTraffic { is_limited: true, ..half }).contains("; the limit bounds B: raise it, or keep it if it is")
    );
    let launch = law(350_000.0, 700.0, 2_000.0).verdict(half).to_string();
    assert!(
        launch.contains(
            "25.7x at B = 32.0 of 64.0 in flight; callers arrive in alternate batches: allow a longer wait ("
        ),
        "{launch}"
    );
    let lone = BatchTraffic { batch: 1.0, in_flight: 1.0, ..FULL };
    assert!(said(lone).contains("changes little"));
    let tasks = BatchTraffic { runner: BatchRunner::Tasks, ..FULL };
    assert_eq!(law(2e6, 700.0, 200.0).verdict(tasks).advice, Advice::Thread);
    assert_eq!(law(2e4, 700.0, 200.0).verdict(tasks).advice, Advice::Nothing);
    let hop = law(5_000.0, 100.0, 20_000.0);
    assert_eq!(hop.verdict(BatchTraffic { runner: BatchRunner::Separate, ..lone }).advice, Advice::Callers);
    assert_eq!(hop.verdict(lone).advice, Advice::Mutex);
}

#[test]
fn a_cheap_operation_needs_a_mutex_whether_or_not_it_finds_the_structure_free() {
    let counter = law(5.0, 2.0, 200.0);
    assert!(counter.verdict(FULL).to_string().starts_with("use a mutex here: h > F"));
    let free = BatchTraffic { batch: 1.0, in_flight: 1.0, alone: 1.0, ..FULL };
    let verdict = counter.verdict(free);
    assert_eq!((verdict.choice, verdict.advice), (Choice::Lock, Advice::Mutex));
    assert!((verdict.gain - 27.0 / 33.0).abs() < 1e-9, "{verdict}");
    assert_eq!(law(900.0, 100.0, 200.0).verdict(free).choice, Choice::Either, "the wrapper's cost does not show");
}

#[test]
fn a_runner_waits_for_callers_that_come_back() {
    let (machine, fixed) = (Machine::example(), Nanos::micros(2_000.0));
    let mut wait = ReturnWait::default();
    for _ in 0..100 {
        assert_eq!(wait.longest(fixed, None, &machine), Nanos::micros(100.0));
        wait.observe(fixed, (32, 32, 64), Nanos::micros(50.0));
    }
    assert_eq!(wait.longest(Nanos::micros(5.0), None, &machine), Nanos(0.0), "no caller returns in 250 ns");
}

/// Gains of batches of 64 over a lock: a fifth, a twentieth, a loss of a twentieth, and of a fifth.
#[test]
fn a_choice_is_as_sure_as_the_fit() {
    let choice = |handoff| law(1000.0, 1000.0, handoff).verdict(FULL).choice;
    let choices = [668.0, 908.0, 1088.0, 1509.0].map(choice);
    assert_eq!(choices, [Choice::Batch, Choice::Either, Choice::Either, Choice::Lock]);
}

/// On the machine of the guesses, to hand an operation over takes 100 ns on either side, and a lock 10 ns. Before they are measured, the
/// choice costs little more than the better one.
#[test]
fn guessed_costs_choose_as_measured_ones() {
    let guess = HandoffCosts::of(&Machine::example());
    let handoff = guess.handoff();
    for fixed in (10..2000).step_by(10).map(f64::from) {
        for batch in [2.0, 8.0, 64.0] {
            let law = Law { handoff, lock: guess.lock, wrapper: guess.wrapper, ..law(fixed, 50.0, 0.0) };
            let (alone, together) = (fixed + 50.0 + 10.0, fixed / batch + 50.0 + 200.0);
            let cost = match law.verdict(BatchTraffic { batch, ..FULL }).choice {
                Choice::Batch => together,
                Choice::Lock => alone,
                Choice::Either => together.max(alone),
            };
            assert!(
                cost < 1.15 * together.min(alone),
                "F = {fixed}, B = {batch}: {cost} instead of {together}, {alone}"
            );
        }
    }
}

#[test]
fn a_task_runs_a_short_batch_and_a_thread_a_long_one() {
    let tasks = BatchTraffic { runner: BatchRunner::Tasks, ..FULL };
    let lock = HandoffCosts::of(&Machine::example()).lock;
    let advice = |micros| Law { lock, ..law(1000.0 * micros, 100.0, 100.0) }.verdict(tasks).advice;
    assert_eq!(advice(120.0), Advice::Nothing, "a sync to a fast disk");
    assert_eq!(advice(350.0), Advice::Thread, "a sync to a slow one");
}

/// A runner that wakes all 64 callers runs one batch; with chains it runs two halves meanwhile. The system call takes 2 us.
#[test]
fn a_runner_wakes_callers_in_the_faster_way() {
    for micros in 10..1000 {
        let fixed = f64::from(micros);
        let (all, chained) = (fixed + 6.4 + 64.0 * 2.0, 2.0 * fixed + 6.4);
        let takes = match direct_wakes(64, Nanos::micros(fixed), &Machine::example()) {
            usize::MAX => all,
            _ => chained,
        };
        assert!(takes < 1.1 * all.min(chained), "F = {fixed} us: {takes} us instead of {}", all.min(chained));
    }
}

#[test]
fn a_leader_passes_on_long_batches_of_few_callers() {
    let passes = |own, size, micros| passes_on(own, size, Nanos::micros(micros), &Machine::example());
    assert!(passes(1, 8, 2_000.0) && passes(1, 64, 2_000.0) && passes(8, 64, 500.0));
    assert!(!passes(1, 8, 100.0) && !passes(1, 64, 500.0) && !passes(0, 8, 2_000.0));
}

#[test]
fn a_runner_stops_waiting_for_callers_that_stay_away_and_tries_again() {
    let (machine, fixed) = (Machine::example(), Nanos::micros(2_000.0));
    let mut wait = ReturnWait::default();
    let mut waits = Vec::new();
    for batch in 0..1_000 {
        if wait.longest(fixed, None, &machine).0 > 0.0 {
            waits.push(batch);
            // One more in 100 us, with 32 queued: 1 * 2 ms < 32 * 100 us.
            wait.observe(fixed, (32, usize::from(batch % 2 == 0), 64), Nanos::micros(100.0));
        }
    }
    assert_eq!(waits, [0, 5, 14, 31, 64, 129, 258, 515, 772]);
    wait.observe(fixed, (2, 30, 32), Nanos::micros(100.0));
    let pauses = [(); 3].map(|()| {
        let pause = (0..).take_while(|_| wait.longest(fixed, None, &machine).0 == 0.0).count();
        wait.observe(fixed, (2, 30, 32), Nanos::micros(100.0));
        pause
    });
    assert_eq!(pauses, [29, 0, 0], "the rest of the pause, then none: they return again");
}

#[test]
fn a_wait_yields_until_it_loses_the_cpu() {
    let (machine, took) = (Machine::example(), Nanos::micros(1_000.0));
    let (turn, left, mut wait) = (machine.turn(), Nanos::micros(30.0), ReturnWait::default());
    let wait_once = |wait: &mut ReturnWait, yielded| {
        wait.begin();
        let yields = wait.pause(left, &machine).is_none();
        if yields {
            wait.yielded(yielded, &machine);
        }
        let sleeps_now = wait.pause(left, &machine) == Some(left);
        wait.observe(took, (0, 64, 64), left);
        (yields, sleeps_now)
    };
    assert_eq!(wait.pause(Nanos(10.0 * turn.0), &machine), Some(turn), "a long wait sleeps");
    for _ in 0..8 {
        assert_eq!(wait_once(&mut wait, turn), (true, false));
    }
    let slice = Nanos::micros(3_000.0);
    assert_eq!(wait_once(&mut wait, slice), (true, true), "sleeps for the rest of this wait");
    let yields: Vec<u32> = (0..40).filter(|_| wait_once(&mut wait, slice).0).collect();
    assert_eq!(yields, [4, 13, 30], "and during more and more waits");
    for _ in 0..100 {
        wait_once(&mut wait, turn);
    }
    assert_eq!(wait_once(&mut wait, turn), (true, false), "yields again without the busy process");
}

/// A closed loop of 64 operations with F = 1 ms beside busy processes, of which each takes the CPU of a wait for a time slice of 3 ms with a
/// chance of `lost` in 100. With a wait all operations come in one batch, without it half of them.
#[test]
fn waits_end_where_busy_processes_take_the_cpu() {
    let (machine, fixed) = (Machine::example(), Nanos::micros(1_000.0));
    let run = |lost: u64, waits: bool| {
        let (mut wait, mut state, mut time, mut ops) = (ReturnWait::default(), 1_u64, 0.0, 0.0);
        for _ in 0..20_000 {
            time += fixed.0;
            if !waits || wait.longest(fixed, None, &machine).0 == 0.0 {
                ops += 32.0;
                continue;
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let waited = if (state >> 33) % 100 < lost { 3_000.0 } else { 30.0 };
            wait.observe(fixed, (0, 64, 64), Nanos::micros(waited));
            (time, ops) = (time + 1_000.0 * waited, ops + 64.0);
        }
        ops / time
    };
    // Chances of 0, 1 and 4 processes on 2 CPUs, and more.
    for lost in [0, 1, 10, 25, 33, 50, 67, 80, 100] {
        let always = 64.0 / (fixed.0 + 1_000.0 * (30.0 + 29.7 * lost as f64));
        let (with, without) = (run(lost, true), run(lost, false));
        assert!(with > 0.9 * without.max(always), "{lost} %: {with} by {without} and {always}");
    }
    assert!(run(100, true) < 1.01 * run(100, false) && run(0, true) > 1.9 * run(0, false));
}

#[test]
fn a_waiting_caller_spins_only_while_batches_are_short() {
    let machine = Machine::example();
    let spin = |batch| reply_spin(Nanos(batch), &machine);
    assert!(spin(0.0).0 > 0.0 && spin(500.0) < machine.park());
    assert_eq!(spin(100_000.0), Nanos(0.0));
}

#[test]
fn a_runner_wakes_few_of_many() {
    let all = usize::MAX;
    let wakes = |ops, fixed| direct_wakes(ops, Nanos(fixed), &Machine::example());
    assert_eq!([8, 64, 100, 10_000].map(|ops| wakes(ops, 0.0)), [8, 8, 10, 100]);
    assert_eq!([8, 64, 100, 1_000].map(|ops| wakes(ops, 1e6)), [all, all, all, 31]);
}
