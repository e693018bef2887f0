//! The model compared with closed forms and with bounds for every schedule, and the conclusions drawn from it.

use proptest::prelude::*;
use windrow_bench::simulate::{
    Claim, Claimed, Join, Joining, Machine, Policy, RunOutcome, Victim, Work, simulate, trace,
};
use windrow_plan::Nanos;

const FREE: Machine = Machine {
    hit: Nanos(0.0),
    exchange: Nanos(0.0),
    near: Nanos(0.0),
    far: Nanos(0.0),
    clock: Nanos(0.0),
    wake_call: Nanos(0.0),
    wake: Nanos(0.0),
    ..Machine::MEASURED
};

fn traced(work: &Work, members: usize, machine: &Machine, policy: &Policy) -> (RunOutcome, Vec<Claimed>) {
    let mut claims = Vec::new();
    let outcome = trace(work, members, machine, policy, 1, |claim| claims.push(claim));
    (outcome, claims)
}

fn timed(nanos: f64, part: u32) -> Policy {
    Policy { claim: Claim::Timed { time: Nanos(nanos), part }, ..Policy::RUNTIME }
}

const FULLEST: Policy = Policy { victim: Victim::Fullest, ..Policy::RUNTIME };

/// The number of claims of `want` items out of `n`, each not more than a quarter of the rest.
fn claims_of_one(mut n: u32, want: u32) -> u64 {
    let mut claims = 0;
    while n > 0 {
        n -= want.clamp(1, n.div_ceil(4));
        claims += 1;
    }
    claims
}

#[test]
fn alone_a_claim_costs_a_look_at_the_clock_a_hit_and_an_exchange() {
    let machine = Machine::MEASURED;
    let work = Work::uniform(10_000, Nanos(100.0));
    let (outcome, claims) = traced(&work, 1, &machine, &Policy::RUNTIME);
    let one = machine.clock.0 + machine.hit.0 + machine.exchange.0;
    // At the end: one more read of the clock, of the own word, and of all words (there is one).
    let expected = work.total().0 + claims.len() as f64 * one + machine.clock.0 + 2.0 * machine.hit.0;
    assert!((outcome.makespan.0 - expected).abs() < 0.01, "{outcome:?}, not {expected}");
    assert!((outcome.claiming.0 - (expected - work.total().0)).abs() < 0.01);
    assert_eq!((outcome.claims, outcome.steals, outcome.failed), (claims.len() as u64, 0, 0));
    assert_eq!(outcome.transfers, 0);
    // If accesses cost nothing, the measured cost of an item is its true cost, and a claim has ten items.
    let (_, claims) = traced(&work, 1, &FREE, &timed(1000.0, 4));
    assert_eq!(claims.len() as u64, claims_of_one(10_000, 10));
}

#[test]
fn two_members_halve_uniform_work() {
    for n in [1000, 100_000] {
        let work = Work::uniform(n, Nanos(100.0));
        let free = simulate(&work, 2, &FREE, &Policy::RUNTIME, 1);
        assert_eq!((free.makespan, free.ideal), (Nanos(f64::from(n) * 50.0), Nanos(f64::from(n) * 50.0)));
        let machine = Machine::MEASURED;
        let (outcome, claims) = traced(&work, 2, &machine, &Policy::RUNTIME);
        let own = claims.iter().filter(|claim| claim.member == 0).count() as f64;
        let expected = free.makespan.0 + own * (machine.clock.0 + machine.hit.0 + machine.exchange.0);
        // The rest is the end of the region: a few lines change owners, and one last item.
        let rest = outcome.makespan.0 - expected;
        assert!((0.0..600.0).contains(&rest), "{rest} of {outcome:?}");
    }
}

#[test]
fn a_member_alone_with_a_large_item_is_relieved_of_the_rest() {
    // Member 0 has the large item and 99 small ones. Member 1 has 100 small ones, then steals the rest in halves.
    let work = Work::one_large(200, Nanos(1000.0), 0, 200.0);
    let outcome = simulate(&work, 2, &FREE, &timed(1000.0, 4), 1);
    assert_eq!(outcome.ideal, Nanos(200_000.0));
    assert_eq!(outcome.makespan, Nanos(200_000.0));
    assert!(outcome.steals > 1);
}

#[test]
fn members_that_join_by_an_addition_stand_in_one_line() {
    let machine = Machine::MESH;
    let work = Work::uniform(100_000, Nanos(100.0));
    let policy = Policy { entry: Joining::Awake, join: Join::Add, ..Policy::RUNTIME };
    let (outcome, claims) = traced(&work, 17, &machine, &policy);
    assert_eq!(outcome.joined, 17);
    let first = |member| claims.iter().find(|claim| claim.member == member).unwrap().at.0;
    for member in 2..17 {
        let step = first(member) - first(member - 1);
        assert!((step - machine.near.0 - machine.exchange.0).abs() < 0.01, "{step}");
    }
    // A failed compare-exchange is repeated once for each faster member: twice as many members wait about four times as long.
    let last = |members| {
        let policy = Policy { join: Join::Exchange, ..policy };
        let (_, claims) = traced(&work, members, &machine, &policy);
        (1..members).map(|member| claims.iter().find(|claim| claim.member == member).unwrap().at.0).fold(0.0, f64::max)
    };
    let growth = last(33) / last(17);
    assert!((3.0..4.5).contains(&growth), "{growth}");
}

#[test]
fn a_chain_of_wakes_is_a_line_and_a_fan_is_a_tree() {
    let work = Work::uniform(1_000_000, Nanos(100.0));
    let late = |fan: usize, members: usize| {
        let policy = Policy { entry: Joining::Asleep { fan }, join: Join::Add, ..Policy::RUNTIME };
        let (outcome, claims) = traced(&work, members, &Machine::MESH.halted(), &policy);
        assert_eq!(outcome.joined, members);
        claims.iter().find(|claim| claim.member == members - 1).unwrap().at.0
    };
    let chain = late(1, 65) / late(1, 17);
    assert!((3.8..4.2).contains(&chain), "{chain}");
    let tree = late(2, 65) / late(2, 17);
    assert!((1.2..2.2).contains(&tree), "{tree}");
}

#[test]
fn a_region_does_not_wait_for_members_that_have_not_joined() {
    let work = Work::uniform(10, Nanos(100.0));
    let policy = Policy { entry: Joining::Asleep { fan: 1 }, ..Policy::RUNTIME };
    let outcome = simulate(&work, 8, &Machine::MEASURED.halted(), &policy, 1);
    assert_eq!(outcome.joined, 1);
    // The lead pays for one wake and runs all items.
    assert!(outcome.makespan.0 < 10_305.0 + 3000.0, "{outcome:?}");
}

fn machines() -> impl Strategy<Value = Machine> {
    (0.0..5.0f64, 0.0..50.0f64, 0.0..300.0f64, 0.0..300.0f64, 1..100usize, 1..16usize, 0.0..50.0f64).prop_map(
        |(hit, exchange, near, far, group, overlap, clock)| Machine {
            hit: Nanos(hit),
            exchange: Nanos(exchange),
            near: Nanos(near),
            far: Nanos(near + far),
            group,
            overlap,
            clock: Nanos(clock),
            ..Machine::MEASURED
        },
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    let entry =
        prop_oneof![Just(Joining::Present), Just(Joining::Awake), (1..5usize).prop_map(|fan| Joining::Asleep { fan }),];
    let victim = prop_oneof![
        Just(Victim::Fullest),
        (1..9usize).prop_map(Victim::Window),
        (1..9usize).prop_map(Victim::Sampled),
    ];
    let claim = prop_oneof![
        Just(Claim::Planned),
        (10.0..5000.0f64, 1..9u32).prop_map(|(time, part)| Claim::Timed { time: Nanos(time), part }),
    ];
    (entry, any::<bool>(), claim, victim, any::<bool>()).prop_map(|(entry, add, claim, victim, again)| Policy {
        entry,
        join: if add { Join::Add } else { Join::Exchange },
        claim,
        victim,
        again,
    })
}

fn works() -> impl Strategy<Value = Work> {
    prop::collection::vec(prop_oneof![9 => 0.0..500.0f64, 1 => 0.0..50_000.0f64], 0..400)
        .prop_map(|costs| Work::new(costs.into_iter().map(Nanos)))
}

proptest! {
    #[test]
    fn every_item_is_claimed_once_and_no_schedule_is_shorter_than_ideal(
        work in works(), members in 1..70usize, machine in machines(), policy in policies(), seed: u64,
    ) {
        let mut claimed = vec![0; work.len() as usize];
        let mut latest = 0.0f64;
        let mut before = 0.0;
        let outcome = trace(&work, members, &machine, &policy, seed, |claim| {
            claimed[claim.lo as usize..claim.hi as usize].iter_mut().for_each(|times| *times += 1);
            latest = latest.max(claim.at.0);
            before = f64::max(before, claim.at.0);
        });
        prop_assert!(claimed.iter().all(|&times| times == 1));
        prop_assert!(outcome.makespan >= outcome.ideal && outcome.makespan.0 >= latest);
        prop_assert!((outcome.working.0 - work.total().0).abs() < 0.01);
        prop_assert!(outcome.makespan.0 * members as f64 + 0.01 >= outcome.working.0 + outcome.claiming.0 || policy.entry != Joining::Present);
        prop_assert!(outcome.joined <= members && (policy.entry != Joining::Present || outcome.joined == members));
        prop_assert_eq!(simulate(&work, members, &machine, &policy, seed), outcome);
    }

    #[test]
    fn alone_dearer_machines_are_never_faster(work in works(), machine in machines(), factor in 1.0..10.0f64) {
        let times = |cost: Nanos| Nanos(cost.0 * factor);
        // Claims of one item each, because the size of a claim depends on the clock too.
        let policy = timed(1000.0, u32::MAX);
        let dearer = Machine { hit: times(machine.hit), exchange: times(machine.exchange), clock: times(machine.clock), ..machine };
        let [cheap, dear] = [machine, dearer].map(|machine| simulate(&work, 1, &machine, &policy, 1).makespan);
        prop_assert!(dear >= cheap, "{:?} {:?}", cheap, dear);
    }
}

fn mean(outcomes: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = outcomes.fold((0.0, 0.0), |(sum, n), x| (sum + x.ln(), n + 1.0));
    f64::exp(sum / n)
}

/// Geometric mean of time over ideal, for 10 ms of skewed work.
fn skewed(members: usize, machine: &Machine, policy: &Policy) -> f64 {
    mean((0..6).map(|seed| {
        simulate(&Work::log_uniform(100_000, Nanos(100.0), seed), members, machine, policy, seed).overhead()
    }))
}

/// With many members the order of events decides, and a single region can get faster when costs rise; the mean cannot.
#[test]
fn dearer_machines_are_slower_in_the_mean() {
    let scaled = |factor: f64| {
        let times = |cost: Nanos| Nanos(cost.0 * factor);
        let it = Machine::MESH;
        let machine = Machine {
            hit: times(it.hit),
            exchange: times(it.exchange),
            near: times(it.near),
            far: times(it.far),
            clock: times(it.clock),
            ..it
        };
        skewed(32, &machine, &Policy::RUNTIME)
    };
    let all = [0.0, 1.0, 4.0, 16.0].map(scaled);
    assert!(all.is_sorted(), "{all:?}");
}

// The conclusions of docs/claim-words.md.

#[test]
fn the_price_of_own_claims_does_not_depend_on_the_number_of_members() {
    let work = Work::uniform(1_000_000, Nanos(100.0));
    for members in [2, 64, 176] {
        let share = |policy| simulate(&work, members, &Machine::SOCKETS, policy, 1).claiming_share();
        let (planned, micro) = (share(&Policy::RUNTIME), share(&timed(1000.0, 4)));
        assert!(planned < 0.02 && (0.02..0.04).contains(&micro), "{planned} {micro} with {members}");
    }
}

#[test]
fn planned_claims_balance_as_well_as_small_ones() {
    for machine in [Machine::MESH, Machine::SOCKETS] {
        for members in [2, 16, 64, 176] {
            let planned = skewed(members, &machine, &Policy::RUNTIME);
            let micro = skewed(members, &machine, &timed(1000.0, 4));
            assert!(planned < 1.02 * micro, "{planned} {micro} with {members}");
        }
    }
}

#[test]
fn many_thieves_that_scan_all_words_slow_each_other_down() {
    let compare =
        |members, machine: &Machine| (skewed(members, machine, &FULLEST), skewed(members, machine, &Policy::RUNTIME));
    let (near, far) = (Machine::MESH, Machine::SOCKETS);
    let near_at_hand = Machine { near: Nanos(23.0), far: Nanos(23.0), ..near };
    for machine in [near, far, near_at_hand, Machine { overlap: 1, ..near }, Machine { overlap: 64, ..near }] {
        let (fullest, fair) = compare(176, &machine);
        assert!(fullest > 1.2 * fair, "{fullest} {fair} on {machine:?}");
        // Few members are not slower with a window than with a scan of all words.
        for members in [4, 16] {
            let (fullest, fair) = compare(members, &machine);
            assert!(fair < 1.01 * fullest, "{fullest} {fair} on {machine:?}");
        }
    }
}

/// Joining and leaving access the gate's line once each, one member after the other. For the width, `grain` takes the square root of
/// the work divided by the cost of one more member: nearly the best width.
#[test]
fn the_best_width_is_the_root_of_work_over_the_price_of_a_member() {
    let policy = Policy { entry: Joining::Awake, join: Join::Add, ..Policy::RUNTIME };
    for machine in [Machine::MESH, Machine::SOCKETS] {
        let price = 2.0 * (machine.far.0 + machine.exchange.0);
        for total in [30e3, 100e3, 300e3, 1e6] {
            let work = Work::uniform((total / 100.0) as u32, Nanos(100.0));
            let time = |width: usize| simulate(&work, width, &machine, &policy, 1).makespan.0;
            let best = (1..=176).map(time).fold(f64::INFINITY, f64::min);
            let width = ((total / price).sqrt() as usize).clamp(1, 176);
            assert!(time(width) < 1.2 * best, "{} with {width}, not {best}, for {total}", time(width));
        }
    }
}
