//! Points at which decisions change, and the reasons given.

use super::*;

fn costs() -> Costs {
    Costs::new(Machine::example())
}

fn progress(per_item: f64, done: u64, left: u64) -> Progress {
    let spent = Nanos(per_item * done as f64);
    Progress {
        done: Items(done),
        spent,
        left: Items(left),
        ripe: done > 0 && spent >= costs().machine.sample(),
        known: None,
        eager: false,
        only_shared: false,
        extra: Extra::None,
    }
}

fn workers(count: usize, idle: usize) -> Workers {
    Workers { most: count + 1, idle, asleep: count - idle, busy: false }
}

fn why(progress: Progress, workers: Workers) -> &'static str {
    choose(&progress, &workers, &costs()).why
}

fn publishes(progress: Progress, workers: Workers) -> bool {
    matches!(choose(&progress, &workers, &costs()).choice, Grain::Publish { .. })
}

#[test]
fn the_break_even_depends_on_the_state_of_the_workers() {
    // With two members, sharing saves half of the rest, which must exceed the cost of entering by a margin.
    for (idle, enter, margin) in [(1, costs().enter(false), MARGIN_IDLE), (0, costs().enter(true), MARGIN_ASLEEP)] {
        let break_even = enter.0 * margin / (1.0 - margin / 2.0);
        assert!(!publishes(progress(10.0, 50, (0.99 * break_even / 10.0) as u64), workers(1, idle)));
        assert!(publishes(progress(10.0, 50, (1.01 * break_even / 10.0) as u64), workers(1, idle)));
    }
}

#[test]
fn reasons_to_stay_serial() {
    let plenty = progress(1000.0, 10, 1_000_000);
    assert!(publishes(plenty, workers(3, 0)));
    assert_eq!(why(plenty, workers(0, 0)), "there are no workers, or no CPUs for them");
    assert_eq!(why(plenty, Workers { busy: true, ..workers(3, 3) }), "the pool cannot take another region");
    assert_eq!(why(plenty, Workers { idle: 0, asleep: 0, ..workers(3, 3) }), "no worker is free");
    assert_eq!(why(progress(1e6, 10, 1), workers(3, 3)), "there is nothing to share");
    assert_eq!(why(progress(1.0, 10, 1_000_000), workers(3, 3)), "too little has been measured");
    assert_eq!(why(progress(10.0, 100, 20), workers(3, 3)), "entering costs more than it saves");
}

/// Calls whose items take far longer in shared calls: once they had been shared, nothing would show it.
#[test]
fn a_short_call_of_which_only_shared_ones_are_known_runs_alone() {
    let whole = 2.0 * costs().enter(true).0;
    let call = |share: f64, only_shared| {
        publishes(Progress { only_shared, ..progress(share * whole / 1000.0, 100, 1000) }, workers(1, 1))
    };
    assert!(call(0.9, false) && !call(0.9, true) && call(1.1, true));
}

/// Prefix sums of numbers, which are as fast as memory, and of products that take 20 ns.
#[test]
fn a_second_pass_over_memory_needs_more_members_than_two() {
    let extra = Extra::SecondPass(costs().machine.copy(8));
    let scan = |per_item, members: usize| {
        publishes(Progress { extra, ..progress(per_item, 2000, 10_000_000) }, workers(members - 1, members - 1))
    };
    assert!(!scan(0.5, 2) && !scan(0.5, 3) && scan(0.5, 8), "{extra:?}");
    assert!(scan(20.0, 2));
}

/// Entries of maps, whose references are gathered: a walk that adds them up is no slower.
#[test]
fn items_that_are_gathered_are_worth_it_when_they_take_longer_than_a_copy() {
    let copy = costs().machine.copy(16);
    let walk = |per_item| {
        publishes(Progress { extra: Extra::Copy(copy), ..progress(per_item, 2000, 1_000_000) }, workers(1, 1))
    };
    assert!(!walk(copy.0) && walk(2.0 * copy.0), "{copy:?}");
}

#[test]
fn chunks_of_a_given_size_are_shared_at_once() {
    let eager = Progress { eager: true, ..progress(0.0, 0, 2) };
    assert_eq!(choose(&eager, &workers(7, 0), &costs()).choice, Grain::Publish { width: 2 });
    assert_eq!(why(eager, Workers { busy: true, ..workers(7, 0) }), "too little has been measured");
}

#[test]
fn pieces_double_up_to_a_heartbeat() {
    let piece = |progress| match choose(&progress, &workers(0, 0), &costs()).choice {
        Grain::Serial { piece } => piece.0,
        Grain::Publish { .. } => unreachable!("no worker to publish to"),
    };
    assert_eq!(piece(progress(10.0, 0, 100)), 1);
    assert_eq!(piece(progress(10.0, 1, 100)), 1);
    assert_eq!(piece(progress(10.0, 64, 1000)), 64);
    assert_eq!(piece(progress(10.0, 1 << 20, 1 << 30)), 1875);
    assert_eq!(piece(progress(1e9, 1, 100)), 1);
    assert_eq!(piece(progress(0.0, 1 << 40, 1 << 50)), 1 << 40);
    // Half of the rest, but a sample of 375 ns is not cut further.
    assert_eq!(piece(progress(10.0, 1024, 1000)), 500);
    assert_eq!(piece(progress(10.0, 1024, 60)), 37);
    // Nothing is measured yet: half of the rest all the same.
    assert_eq!(piece(progress(1.0, 60, 1000)), 60);
    assert_eq!(piece(progress(1.0, 60, 50)), 25);
    assert_eq!(piece(progress(1.0, 60, 1)), 1);
    // The cost is known: a quarter, then all that a heartbeat holds.
    let trusted = Trusted { per_item: Nanos(10.0), swell: 1.0 };
    let known = |done, left| Progress { known: Some(trusted), ..progress(10.0, done, left) };
    assert_eq!(piece(known(0, 100)), 25);
    assert_eq!(piece(known(0, 100_000)), 1875);
    assert_eq!(piece(known(25, 75)), 75);
    assert_eq!(piece(known(25, 7500)), 1875);
}

#[test]
fn width_is_bounded_by_workers_items_and_what_joining_costs() {
    let width =
        |per_item, left, count| match choose(&progress(per_item, 1, left), &workers(count, count), &costs()).choice {
            Grain::Publish { width } => width,
            Grain::Serial { .. } => 1,
        };
    assert_eq!(width(1e6, 100, 7), 8);
    assert_eq!(width(1e6, 3, 7), 3);
    assert_eq!(width(500.0, 20, 63), 11);
    let few_cpus = Workers { most: 2, ..workers(7, 7) };
    assert_eq!(choose(&progress(1e6, 1, 100), &few_cpus, &costs()).choice, Grain::Publish { width: 2 });
}

#[test]
fn sleepers_are_woken_only_if_those_awake_are_not_enough() {
    let width = |left| match choose(&progress(1000.0, 1, left), &workers(7, 1), &costs()).choice {
        Grain::Publish { width } => width,
        Grain::Serial { .. } => 1,
    };
    assert_eq!(width(20), 2);
    assert_eq!(width(1000), 8);
}

#[test]
fn a_known_site_needs_no_sample() {
    let trusted = Trusted { per_item: Nanos(1000.0), swell: 1.0 };
    let known = |done, spent| Progress { known: Some(trusted), spent: Nanos(spent), ..progress(0.0, done, 100) };
    assert!(publishes(known(0, 0.0), workers(1, 1)));
    assert!(publishes(known(1, 100.0), workers(1, 1)));
    assert!(!publishes(Progress { known: None, ..known(0, 0.0) }, workers(1, 1)));
    let swells = Trusted { swell: 1.9, ..trusted };
    assert!(!publishes(Progress { known: Some(swells), ..known(0, 0.0) }, workers(1, 1)));
    let machine = Machine::example();
    assert!(known(1, 1_000_000.0).contradicts(Nanos(1000.0), &machine));
    assert!(!known(1, 8_000.0).contradicts(Nanos(1000.0), &machine));
}

/// Times of a call of 100 us, as a shared core, an interrupt and other work lengthen it.
#[test]
fn an_interruption_is_no_other_work() {
    let machine = Machine::example();
    let contradicts = |micros: f64| contradicts(Nanos::micros(micros), Nanos::micros(100.0), &machine);
    assert!(!contradicts(200.0), "a neighbour on the same core");
    assert!(!contradicts(380.0), "and at half of the frequency");
    assert!(contradicts(500.0), "items that are five times as long");
    // Items of a nanosecond, and first touches of code and data after a pause: 5 us where measured.
    let after_pause = |micros: f64| super::contradicts(Nanos::micros(micros), Nanos(1.0), &machine);
    assert!(!after_pause(4.9) && after_pause(9.0));
}

/// Calls at the edge between serial and shared, whose time is predicted with errors: each choice against the better one.
#[test]
fn a_wrong_prediction_costs_little_and_sharing_is_worth_its_cpus() {
    for (idle, error) in [(1, 1.08), (0, 1.15)] {
        let enter = costs().enter(idle == 0).0;
        let (mut shared, mut lost) = (0, 0.0_f64);
        for percent in 150..500 {
            let rest = enter * f64::from(percent) / 100.0;
            if !publishes(progress(rest / 1000.0, 1000, 1000), workers(1, idle)) {
                // No call stays serial of which two members save a fifth.
                assert!(rest / 2.0 + enter > 0.79 * rest, "{idle}: {percent} %");
                continue;
            }
            shared += 1;
            let took = error * (rest / 2.0 + enter);
            lost = lost.max((took - rest) / rest);
        }
        assert!(shared > 100 && lost < 0.001, "{idle}: {shared} shared, {lost} lost at worst");
    }
}

#[test]
fn calls_that_run_unmeasured_are_short() {
    let machine = Machine::example();
    let known = (0..4).fold(ItemCost::default(), |site, _| site.after_alone(Nanos(10.0), true));
    assert_eq!(unmeasured_below(ItemCost { agreed: 0, ..known }, 2, &machine), 0);
    for most in [2, 3, 4, 16, 1000] {
        let below = unmeasured_below(known, most, &machine);
        // With all costs, the best width saves just the margin.
        let (alone, fixed) = (10.0 * below as f64, machine.enter(WorkerState::Idle).0 + machine.drive().0);
        let shared = |width: usize| alone / width as f64 + fixed + machine.step(false).0 * (width as f64 - 2.0);
        let best = (2..=most).map(shared).fold(f64::INFINITY, f64::min);
        assert!((alone / best - MARGIN_IDLE).abs() < 0.02, "{most}: {alone} and {best}");
    }
    let free = known.after_alone(Nanos(6.0), false);
    assert!(unmeasured_below(free, 2, &machine) > unmeasured_below(known, 2, &machine));
}

#[test]
fn workers_stand_by_where_no_call_has_run_alone() {
    let by = |site, weight, items, workers: Workers| stands_by(site, weight, items, || (workers, costs().machine));
    let wake = Machine::example().enter(WorkerState::AsleepLong);
    let unknown = ItemCost::default();
    let two = by(unknown, 2, 2, workers(3, 0)).expect("nothing is known");
    assert_eq!(two, StandBy { width: 2, patience: wake, wakes: true });
    assert!(!by(unknown, 9, 9, workers(3, 1)).expect("nothing is known").wakes);
    // Workers that are busy may be free by then, those of a machine with one CPU never are.
    assert!(by(unknown, 9, 9, Workers { idle: 0, asleep: 0, ..workers(3, 0) }).is_some());
    assert_eq!(by(unknown, 9, 9, Workers { most: 1, ..workers(3, 3) }), None);
    assert_eq!(by(unknown, 9, 9, Workers { busy: true, ..workers(3, 3) }), None);
    assert_eq!(by(unknown, 1, 1, workers(3, 3)), None);
    // A call has run serially: only if the last one was long, and not once its cost is known.
    let alone = |nanos: f64, calls| (0..calls).fold(unknown, |site, _| site.after_alone(Nanos(nanos), true));
    assert_eq!(by(alone(1000.0, 1), 9, 9, workers(3, 3)), None);
    assert_eq!(by(alone(10_000.0, 1), 9, 9, workers(3, 3)), None, "the caller can decide after the first item");
    assert_eq!(by(alone(20_000.0, 1), 9, 9, workers(3, 3)).map(|by| by.patience), Some(wake));
    assert_eq!(by(alone(20_000.0, 5), 9, 9, workers(3, 3)), None);
    // All calls were shared, and agreed.
    let shared = (0..5).fold(unknown, |site, _| site.after_shared(Nanos(10_000.0)));
    assert_eq!(by(shared, 9, 9, workers(3, 3)).map(|by| by.patience), Some(Nanos(180_000.0)));
    // The last call was shared: if it was too short for that, the next one can end serially.
    let shared = |nanos| unknown.after_shared(Nanos(nanos));
    assert_eq!(by(shared(2000.0), 9, 9, workers(3, 3)).map(|by| by.patience), Some(Nanos(36_000.0)));
    assert_eq!(by(shared(20_000.0), 9, 9, workers(3, 3)).map(|by| by.patience), Some(wake));
}

#[test]
fn short_calls_that_keep_coming_wake_workers() {
    // 3 us: too short to wake a worker, but long enough to share with one that is awake.
    let call = progress(10.0, 50, 300);
    let owed = |whole, idle| super::owed(Nanos(whole), Nanos(whole), &workers(1, idle), &costs());
    let lost = owed(3500.0, 0);
    assert!(lost.0 > 500.0);
    assert_eq!(owed(3500.0, 1), Nanos(0.0));
    assert_eq!(owed(1000.0, 0), Nanos(0.0));
    // Two members save half of a call, less what entering costs. That is a seventh of the call at 2.8 times that cost.
    let enter = costs().enter(false).0;
    assert_eq!(owed(2.75 * enter, 0), Nanos(0.0), "a small gain does not pay for a CPU");
    assert!(owed(2.85 * enter, 0) > Nanos(0.4 * enter));
    let apart = super::owed(Nanos(3500.0), Nanos(7.0 * lost.0), &workers(1, 0), &costs());
    assert_eq!(apart, Nanos(0.0), "calls too far apart for a CPU that spins between them");
    let after = |calls: f64| choose(&call, &workers(1, 0), &Costs { owed: Nanos(calls * lost.0), ..costs() }).choice;
    assert!(matches!(after(1.0), Grain::Serial { .. }));
    assert!(matches!(after(20.0), Grain::Publish { .. }));
}

/// Two members with tiles of one length, of which one is woken for each of its tiles.
#[test]
fn workers_take_tiles_that_last_longer_than_a_wake() {
    let machine = Machine::example();
    let worth = |wakes: f64| tiles(Nanos(wakes * machine.wake.0), &machine);
    assert_eq!(worth(0.0), TileWorth::Unknown);
    assert_eq!([2.0, 1.4, 0.45, 0.3].map(worth), [TileWorth::Join, TileWorth::Stay, TileWorth::Stay, TileWorth::Leave]);
}

/// Loops, joins, and crews share the same work from the same time on. A sort that is short runs serially, and nothing that pays is short.
#[test]
fn one_rule_decides_for_all_callers() {
    for (idle, at) in [0, 1].into_iter().flat_map(|idle| (0..400).map(move |at| (idle, at))) {
        let (rest, workers) = (Nanos(100.0 * 1.02_f64.powi(at)), workers(1, idle));
        let pays = predict(rest, Items(u64::MAX), &workers, &costs()).is_some_and(|best| best.pays(rest));
        let known = Some(Trusted { per_item: Nanos(rest.0 / 1e6), swell: 1.0 });
        assert_eq!(publishes(Progress { known, ..progress(0.0, 0, 1_000_000) }, workers), pays, "a loop of {rest}");
        let join = recursion(Recursion { age: Nanos(0.0), known: Some(rest) }, &workers, &costs()).choice;
        assert_eq!(matches!(join, ShareDecision::Open { .. }), pays, "a join of {rest}");
        if idle == 0 {
            let crew = tiles(Nanos(rest.0 / 2.0), &costs().machine);
            assert_eq!(crew == TileWorth::Join, pays, "two tiles of {rest} together");
        }
        let found = if idle == 0 { costs().parked } else { WorkerState::Idle };
        assert!(!(pays && is_short(rest, &costs().machine, found)), "a sort of {rest}");
    }
}

#[test]
fn calls_too_short_to_share_agree_and_longer_ones_do_not() {
    let machine = Machine::example();
    let bound = shortest_shared(2, &machine).0;
    let after = |known, spent| after_serial(known, 2, Nanos(spent), false, 2, &machine);
    let short = [0.9 * bound, 20.0].repeat(20).into_iter().fold(ItemCost::default(), after);
    assert!(short.is_steady(), "{short:?}");
    assert!(!after(short, 1.1 * bound).is_steady(), "one call was long enough");
    let long = [4.0 * bound, 1.1 * bound].repeat(20).into_iter().fold(ItemCost::default(), after);
    assert_eq!(long.trusted(), None, "calls of different work");
}
