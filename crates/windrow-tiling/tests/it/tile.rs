//! Plans compared with the guide's example, with all cuts, and with the usual cuts.

use proptest::prelude::*;
use windrow_tiling::cost::{Cost, Piece};
use windrow_tiling::tile::{
    Contention, Effort, Lane, Margin, Matmul, Order, Plan, PlanError, PlanVerdict, Problem, Tiles, short_long_rule,
};
use windrow_tiling::{Bytes, Nanos, Rows};

use crate::models::{Model, REGIMES, Random};

const MIB: f64 = 1024.0 * 1024.0;

fn tiles(rows: &[u64]) -> Tiles {
    Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).expect("no tile is empty")
}

fn us(micros: f64, nanos: Nanos) -> bool {
    // As many digits as the guide prints.
    (nanos.as_micros() - micros).abs() < 0.06
}

/// The guide's fit of an all-reduce by its data size, x in MiB: -0.9698202 x^2 + 27.0622573 x + 14.769 us below 8 MiB, then 13.58491263
/// x + 61.508333 us.
fn guide_communicate() -> Cost<Bytes> {
    let nanos = |c: [f64; 3]| [1e3 * c[0], 1e3 * c[1] / MIB, 1e3 * c[2] / MIB / MIB];
    let small = Piece::polynomial(Bytes(0), nanos([14.769, 27.0622573, -0.9698202]));
    let large = Piece::polynomial(Bytes(8 << 20), nanos([61.508333, 13.58491263, 0.0]));
    Cost::new(vec![small, large]).expect("the guide's fit rises")
}

/// The guide's example: 4096 x 3072 times 3072 x 8192 in half precision, computation of 0.19608 us per row.
const GUIDE: Matmul = Matmul { k: 3072, n: 8192 };

fn with_guide<R>(with: impl FnOnce(Problem<'_>) -> R) -> R {
    let communicate = guide_communicate().in_rows(Bytes(2 * GUIDE.n));
    let compute = Cost::affine(Nanos(0.0), Nanos::micros(0.19608)).expect("it rises");
    let (compute, communicate) = (|rows| compute.at(rows), |rows| communicate.at(rows));
    with(Problem { align: Rows(128), matmul: Some(GUIDE), ..Problem::new(Rows(4096), &compute, &communicate) })
}

fn alternative<'a>(plan: &'a Plan, name: &str) -> &'a windrow_tiling::tile::Candidate {
    plan.alternatives.iter().find(|cut| cut.name == name).expect("such an alternative")
}

#[test]
fn the_fit_of_the_guide_is_continuous_within_a_microsecond() {
    let communicate = guide_communicate();
    assert!(us(142.2, communicate.at(Bytes(6 << 20))));
    assert!(us(169.2, communicate.at(Bytes((8 << 20) - 1))));
    assert!(us(170.2, communicate.at(Bytes(8 << 20))));
    assert!(us(930.9, communicate.at(Bytes(64 << 20))));
    let rows = communicate.in_rows(Bytes(2 * 8192));
    assert!(us(142.2, rows.at(Rows(384))) && us(930.9, rows.at(Rows(4096))));
    assert_eq!(rows.pieces()[1].from, Rows(512));
}

#[test]
fn every_number_of_the_rule_s_example() {
    with_guide(|problem| {
        let rule = short_long_rule(&problem, GUIDE, 1.15).unwrap();
        assert_eq!(rule.thresholds, [Rows(171), Rows(192), Rows(384)]);
        assert_eq!(rule.limit, Lane::Communicate);
        let steps = rule.steps.expect("4096 rows are enough");
        assert_eq!(steps.short, Rows(384));
        assert!(us(142.2, steps.time) && us(163.6, steps.expanded), "{steps:?}");
        // The guide rounds 163.6 up to 164 us before converting to rows, which gives 836.
        assert_eq!((steps.balanced, steps.long), (Rows(834), Rows(768)));
        assert_eq!((164.0_f64 / 0.19608) as u64, 836);
        assert!((steps.ratio - 4.83).abs() < 0.005);
        assert_eq!((steps.count, steps.even, steps.long_tile, steps.short_tile), (4, Rows(928), Rows(896), Rows(512)));
        assert_eq!(rule.tiles, tiles(&[512, 896, 896, 896, 896]));
        assert_eq!(rule.tiles.to_string(), "{512, 896 x 4}");
    });
    // The benefit in the guide is that of its two measured times.
    let (serial, fused) = (803.0 + 1071.0, 1262.0);
    assert_eq!(format!("{:.1}", 100.0 * (serial - fused) / serial), "32.7");
}

/// The guide's product of 200 us in two halves, which take 100, 150 or 200 us each.
#[test]
fn halves_save_what_the_guide_says_and_are_planned_only_if_they_save() {
    for (half, saved) in [(100.0, 100.0), (150.0, 50.0), (200.0, -50.0)] {
        let compute = |rows| Nanos::micros(if rows == Rows(2) { 200.0 } else { half });
        // Communication takes longer than the product, so that only the halves decide.
        let communicate = |rows: Rows| Nanos::micros(150.0 * rows.0 as f64);
        let problem = Problem::new(Rows(2), &compute, &communicate);
        let whole = problem.predict(&Tiles::one(Rows(2))).unwrap().as_micros();
        let halves = problem.predict(&tiles(&[1, 1])).unwrap().as_micros();
        let planned = problem.plan().unwrap().predicted.as_micros();
        assert!((whole - halves - saved).abs() < 1e-6, "{half}: {whole} - {halves}");
        assert!((whole - planned - saved.max(0.0)).abs() < 1e-6, "{half}: {whole} - {planned}");
    }
}

#[test]
fn the_best_cut_of_the_guide_s_example_is_a_growing_ramp() {
    with_guide(|problem| {
        let plan = problem.plan().unwrap();
        assert_eq!(plan.tiles, tiles(&[128, 512, 768, 1152, 1536]));
        assert_eq!((plan.gap, plan.grain, plan.verdict()), (0.0, Rows(128), PlanVerdict::Tile));
        assert!(us(1213.8, plan.predicted), "{plan}");
        assert!(us(1734.1, plan.serial) && us(803.1, plan.inputs.compute) && us(930.9, plan.inputs.communicate));
        assert!(us(930.9, plan.bounds.plain) && plan.bounds.contended == plan.bounds.plain);
        assert!((plan.benefit() - (1734.1 - 1213.8) / 1734.1).abs() < 1e-4);
        let rule = alternative(&plan, "short-long rule");
        assert!(us(1282.9, rule.predicted) && rule.tiles.to_string() == "{512, 896 x 4}");
        let uniform = alternative(&plan, "uniform");
        assert!(us(1316.3, uniform.predicted) && uniform.tiles == tiles(&[1024; 4]));
        let two_sizes = alternative(&plan, "two sizes");
        assert!(us(1266.1, two_sizes.predicted) && two_sizes.tiles == tiles(&[768, 768, 768, 1792]));
        assert!(us(1734.1, alternative(&plan, "serial").predicted));
        assert_eq!(plan.losses.lane, Lane::Communicate);
        let said = plan.to_string();
        assert!(said.starts_with("tile {128, 512, 768, 1152, 1536}: communication is the bottleneck"), "{said}");
        assert!(plan.decision().to_string().contains("short-long rule: 1.3 ms"), "{}", plan.decision());
    });
}

#[test]
fn with_contention_as_in_the_guide() {
    with_guide(|problem| {
        let problem = Problem { contention: Contention { compute: 1.15, communicate: 1.15 }, ..problem };
        let rule = problem.predict(&tiles(&[512, 896, 896, 896, 896])).unwrap();
        assert!(us(1387.5, rule), "{rule}");
        let plan = problem.plan().unwrap();
        assert!(plan.predicted < rule && plan.bounds.contended > plan.bounds.plain);
        // All 803 us of computation overlap and take 1.15 times as long; as much communication runs meanwhile; the rest runs alone.
        assert!(us(803.14 * 1.15 + (930.94 - 803.14), plan.bounds.contended), "{}", plan.bounds.contended);
    });
}

/// The three expansion cases of the guide: halves of a product of 200 us take 100, 150, 200 us; communication takes 300 us.
#[test]
fn expansion_decides_whether_halves_pay() {
    for (half, end, verdict) in
        [(100.0, 400.0, PlanVerdict::Tile), (150.0, 450.0, PlanVerdict::Tile), (200.0, 550.0, PlanVerdict::DoNotTile)]
    {
        let compute = |rows| Nanos::micros(if rows == Rows(2) { 200.0 } else { half });
        let communicate = |rows: Rows| Nanos::micros(150.0 * rows.0 as f64);
        let problem = Problem::new(Rows(2), &compute, &communicate);
        assert_eq!(problem.predict(&Tiles::one(Rows(2))), Ok(Nanos::micros(500.0)));
        assert_eq!(problem.predict(&tiles(&[1, 1])), Ok(Nanos::micros(end)));
        let plan = problem.plan().unwrap();
        assert_eq!((plan.verdict(), plan.predicted), (verdict, Nanos::micros(end.min(500.0))));
    }
}

/// Both figures of the guide, and both with the lanes exchanged.
#[test]
fn the_rule_puts_the_short_tile_where_the_lane_that_limits_is_not_interrupted() {
    let (slow, fast) = (|rows: Rows| Nanos(200.0 * rows.0 as f64), |rows: Rows| Nanos(100.0 * rows.0 as f64));
    let matmul = Matmul { k: 8192, n: 8192 };
    for (order, limit, short_first) in [
        (Order::ComputeFirst, Lane::Compute, false),
        (Order::ComputeFirst, Lane::Communicate, true),
        (Order::CommunicateFirst, Lane::Compute, true),
        (Order::CommunicateFirst, Lane::Communicate, false),
    ] {
        let problem = match limit {
            Lane::Compute => Problem::new(Rows(4096), &slow, &fast),
            Lane::Communicate => Problem::new(Rows(4096), &fast, &slow),
        };
        let problem = Problem { order, align: Rows(128), ..problem };
        let rule = short_long_rule(&problem, matmul, 1.15).unwrap();
        assert_eq!(rule.limit, limit);
        // 384 rows take as long in the slow lane, times 1.15, as 883 rows in the fast one: 768. 4 of them fit, with 928 rows each: 896.
        let steps = rule.steps.expect("4096 rows are enough");
        assert_eq!((steps.short, steps.balanced, steps.long, steps.count), (Rows(384), Rows(883), Rows(768), 4));
        let right = if short_first { tiles(&[512, 896, 896, 896, 896]) } else { tiles(&[896, 896, 896, 896, 512]) };
        assert_eq!(rule.tiles, right, "{order:?}, {limit:?}");
        // In the figures, the limiting lane runs without a break.
        let timeline = problem.timeline(&rule.tiles).unwrap();
        assert_eq!(timeline.losses().lane, limit);
        let spans = timeline.spans(limit);
        assert!(spans.windows(2).all(|pair| pair[1].start.0 - pair[0].end.0 < 1e-6), "{order:?}, {limit:?}: {spans:?}");
        let planned = problem.plan().unwrap();
        assert!(planned.predicted <= timeline.end);
    }
    // The operation is too short, or a long tile does not fit.
    let short = Problem { align: Rows(128), ..Problem::new(Rows(384), &slow, &fast) };
    let rule = short_long_rule(&short, matmul, 1.15).unwrap();
    assert_eq!((rule.steps, rule.tiles), (None, tiles(&[384])));
}

/// A table of costs by rows, for arbitrary cost functions.
#[derive(Clone, Debug)]
struct Table {
    compute: Vec<f64>,
    communicate: Vec<f64>,
    contention: (f64, f64),
    order: Order,
}

impl Table {
    fn with<R>(&self, with: impl FnOnce(Problem<'_>) -> R) -> R {
        let compute = |rows: Rows| Nanos(self.compute[rows.0 as usize - 1]);
        let communicate = |rows: Rows| Nanos(self.communicate[rows.0 as usize - 1]);
        let contention = Contention { compute: self.contention.0, communicate: self.contention.1 };
        let rows = Rows(self.compute.len() as u64);
        with(Problem { contention, order: self.order, ..Problem::new(rows, &compute, &communicate) })
    }

    /// Costs that either rise (a fixed part plus a part per unit with a bend) or are arbitrary.
    fn draw(random: &mut Random, contended: bool) -> Table {
        let units = random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        let wild = random.pick(&[false, false, true]);
        let factors: &[f64] = if contended { &[1.0, 1.05, 1.15, 1.3, 1.93, 2.5] } else { &[1.0] };
        Table::of(random, units, wild, factors)
    }

    /// Random costs of a rather long operation, with so many units.
    fn long(random: &mut Random, factors: &[f64]) -> Table {
        let (units, wild) = (random.pick(&[9, 10, 11, 12]), random.pick(&[false, true, true, true]));
        Table::of(random, units, wild, factors)
    }

    fn of(random: &mut Random, units: i32, wild: bool, factors: &[f64]) -> Table {
        let longest = f64::from(units.max(14));
        let mut lane = || {
            let (fixed, bend) = (random.uniform((0.0, 3.0)), random.uniform((-0.3, 0.3)));
            let mut cost = |units: i32| match wild {
                true => random.uniform((0.0, 10.0)),
                false => fixed + f64::from(units) * (1.0 + bend * f64::from(units) / longest),
            };
            (1..=units).map(&mut cost).collect::<Vec<_>>()
        };
        let (compute, communicate) = (lane(), lane());
        let contention = (random.pick(factors), random.pick(factors));
        Table { compute, communicate, contention, order: random.pick(&[Order::ComputeFirst, Order::CommunicateFirst]) }
    }
}

fn agrees_with_brute_force(problem: &Problem<'_>) -> Result<(), String> {
    let plan = problem.plan().map_err(|error| error.to_string())?;
    let (best, end) = problem.brute_force().map_err(|error| error.to_string())?;
    let said = problem.predict(&plan.tiles).map_err(|error| error.to_string())?;
    let fail = |what| Err(format!("{what}: {plan}\nbest: {end} {best}"));
    match () {
        () if plan.predicted != said => fail("the plan does not take what it says"),
        () if (plan.predicted.0 - end.0).abs() > 1e-9 * end.0 => fail("the plan is not the best"),
        () if plan.gap > 1e-9 => fail("small cases are exact"),
        () if plan.tiles.len() > problem.most_tiles => fail("there are too many tiles"),
        () if plan.bounds.plain.0 > end.0 * (1.0 + 1e-9) || plan.bounds.contended.0 > end.0 * (1.0 + 1e-9) => {
            fail("the best is below the bound")
        }
        () => Ok(()),
    }
}

#[test]
fn a_plan_is_the_best_of_all_cuts_in_1000_of_1000_cases_with_and_without_contention() {
    let mut random = Random(1);
    for contended in [false, true] {
        for case in 0..1000 {
            let table = Table::draw(&mut random, contended);
            table
                .with(|problem| agrees_with_brute_force(&problem))
                .unwrap_or_else(|fault| panic!("{case}: {table:?}: {fault}"));
        }
    }
}

#[test]
fn a_plan_is_the_best_of_all_cuts_where_overlapping_loses() {
    let mut random = Random(4);
    for case in 0..2000 {
        let table = Table::long(&mut random, &[2.0, 3.0, 4.0, 6.0]);
        table
            .with(|problem| agrees_with_brute_force(&problem))
            .unwrap_or_else(|fault| panic!("{case}: {table:?}: {fault}"));
    }
}

#[test]
fn a_plan_of_few_tiles_is_the_best_of_all_of_few() {
    let mut random = Random(2);
    for case in 0..2000 {
        let table = Table::long(&mut random, if case % 2 == 0 { &[1.0] } else { &[1.0, 1.3, 1.93, 3.0] });
        let most_tiles = random.pick(&[1, 2, 3, 4, 5, 6, 8]);
        table
            .with(|problem| agrees_with_brute_force(&Problem { most_tiles, ..problem }))
            .unwrap_or_else(|fault| panic!("{case}: at most {most_tiles}: {table:?}: {fault}"));
    }
}

/// The best of all cuts at multiples of the alignment, each predicted separately; the planner's units are not involved.
fn best_of_all(problem: &Problem<'_>) -> (Tiles, Nanos) {
    let (rows, align) = (problem.rows.0, problem.align.0);
    let units = rows.div_ceil(align);
    let mut best: Option<(Tiles, Nanos)> = None;
    for cuts in 0_u64..1 << (units - 1) {
        let mut sizes = vec![0];
        for unit in 0..units {
            *sizes.last_mut().expect("there is one") += align.min(rows - unit * align);
            if cuts >> unit & 1 == 1 {
                sizes.push(0);
            }
        }
        let cut = tiles(&sizes);
        if cut.len() > problem.most_tiles || cut.len() > 1 && cut.iter().any(|tile| tile < problem.min_tile) {
            continue;
        }
        let end = problem.predict(&cut).unwrap();
        if best.as_ref().is_none_or(|best| end < best.1) {
            best = Some((cut, end));
        }
    }
    best.expect("one tile is always allowed")
}

#[test]
fn a_plan_of_rows_that_do_not_divide_is_the_best_of_all_aligned_cuts() {
    let mut random = Random(5);
    let (mut ragged, mut limited) = (0, 0);
    for case in 0..900 {
        let (align, units) = (random.pick(&[2, 3, 7, 16, 128]), random.pick(&[2, 3, 5, 8, 9, 10]));
        let rows = (units - 1) * align + random.pick(&[1, align / 2 + 1, align - 1, align]).min(align);
        let wild = random.pick(&[false, false, true]);
        let factors: &[f64] = if case % 2 == 0 { &[1.0] } else { &[1.0, 1.15, 1.3, 1.93, 2.5] };
        let table = Table::of(&mut random, rows, wild, factors);
        let most_tiles = random.pick(&[usize::MAX, usize::MAX, 2, 3, 4]);
        let min_tile = Rows(random.pick(&[1, 1, align / 2 + 1, align, align + 1, 3 * align, rows / 2 + 1]) as u64);
        table.with(|problem| {
            let problem = Problem { align: Rows(align as u64), most_tiles, min_tile, ..problem };
            let (plan, (best, end)) = (problem.plan().unwrap(), best_of_all(&problem));
            let said = format!(
                "{case}: {rows} rows, aligned to {align}, at most {most_tiles} of {min_tile}: {plan}\nbest: {end} {best}"
            );
            assert!(problem.allows(&plan.tiles) && problem.allows(&problem.two_sizes().unwrap()), "{said}");
            let free = Problem { min_tile: Rows(1), ..problem }.plan().unwrap();
            limited += u32::from(free.predicted < plan.predicted && plan.tiles.len() > 1);
            assert!((plan.predicted.0 - end.0).abs() <= 1e-9 * end.0, "{said}");
            assert_eq!(plan.predicted, problem.predict(&plan.tiles).unwrap(), "{said}");
            assert!(plan.gap <= 1e-9 && plan.tiles.len() <= most_tiles, "{said}");
            assert!(plan.tiles.iter().rev().skip(1).all(|tile| tile.0.is_multiple_of(align as u64)), "{said}");
            let brute = problem.brute_force().unwrap().1;
            assert!((brute.0 - end.0).abs() <= 1e-9 * end.0, "{said}\nbrute force: {brute}");
            ragged += u32::from(rows % align != 0 && plan.tiles.len() > 1);
        });
    }
    assert!(ragged > 200, "only {ragged} had a last unit of fewer rows, and were cut");
    assert!(limited > 50, "only {limited} are cut and would be cut otherwise without the minimum size");
}

/// The table of the book's page on `plan`, up to 1024 ranks.
#[test]
fn the_table_of_the_book_is_what_the_planner_says() {
    let text = include_str!("../../../../book/src/plan.md");
    for machine in &crate::ranks::MACHINES {
        let most = crate::ranks::SCALINGS.iter().flat_map(|(_, k)| {
            crate::ranks::ALL_REDUCES.iter().map(|(_, all_reduce)| {
                let pays = |&&count: &&u32| {
                    crate::ranks::plan(machine, *all_reduce, k(f64::from(count)), count).benefit() >= 0.01
                };
                crate::ranks::RANKS.iter().filter(pays).max().map_or_else(|| "none".to_owned(), u32::to_string)
            })
        });
        let row = format!("| {} | {} |", machine.name, most.collect::<Vec<_>>().join(" | "));
        assert!(text.contains(&row), "{row}");
    }
}

/// A front may hold one state only, so everything that may be merged is merged.
#[test]
fn what_merging_loses_is_no_more_than_the_gap() {
    let mut random = Random(3);
    let mut merged = 0;
    for case in 0..2000 {
        let table = Table::long(&mut random, if case % 2 == 0 { &[1.0] } else { &[1.0, 1.3, 1.93, 3.0] });
        let allowed = random.pick(&[0.0, 0.001, 0.05, 0.3, 0.9]);
        let most_tiles = random.pick(&[3, 5, usize::MAX]);
        table.with(|problem| {
            let effort = Effort { front: 1, gap: allowed, ..Effort::default() };
            let plan = Problem { effort, most_tiles, ..problem }.plan().unwrap();
            let best = Problem { most_tiles, ..problem }.brute_force().unwrap().1;
            assert!(plan.gap <= allowed + 1e-9, "{case}: {plan}");
            assert!(plan.predicted.0 <= best.0 * (1.0 + plan.gap + 1e-9), "{case}: {table:?}: best {best}: {plan}");
            merged += u32::from(plan.gap > 0.0);
        });
    }

    assert!(merged > 5, "only {merged} of these cases were merged at all");
}

/// Nearly free tiles and strong contention give the longest fronts.
#[test]
fn long_fronts_are_cut_short_within_the_gap() {
    let compute = |rows: Rows| Nanos(0.01 + rows.0 as f64);
    let mut short = 0;
    for (each, contention) in [(1.3, (1.93, 1.0)), (0.7, (1.25, 1.15)), (1.0, (1.05, 1.9)), (2.0, (1.4, 1.6))] {
        let communicate = |rows: Rows| Nanos(0.1 + each * rows.0 as f64);
        let contention = Contention { compute: contention.0, communicate: contention.1 };
        let problem = Problem { contention, ..Problem::new(Rows(96), &compute, &communicate) };
        let exact = Problem { effort: Effort { gap: 0.0, ..problem.effort }, ..problem }.plan().unwrap();
        assert_eq!(exact.gap, 0.0);
        for (front, gap) in [(4, 0.001), (4, 0.01), (32, 0.001)] {
            let plan = Problem { effort: Effort { front, gap, ..problem.effort }, ..problem }.plan().unwrap();
            assert!(
                plan.gap <= gap && plan.predicted.0 <= exact.predicted.0 * (1.0 + plan.gap + 1e-9),
                "{plan}\n{exact}"
            );
            assert!(plan.predicted.0 >= exact.predicted.0 * (1.0 - 1e-9), "{plan}\n{exact}");
            short += u32::from(plan.work.steps < exact.work.steps);
        }
    }
    assert!(short >= 6, "{short}");
}

#[test]
fn on_600_models_never_above_serial_nor_the_rule_and_7_percent_below_it() {
    let mut random = Random(7);
    let mut over = Vec::new();
    for regime in &REGIMES {
        for _ in 0..150 {
            let model = Model::draw(&mut random, regime, None);
            let plan = model.with(|problem| problem.plan()).unwrap();
            let rule = alternative(&plan, "short-long rule").predicted;
            assert!(plan.predicted <= plan.serial && plan.predicted <= rule, "{model:?}: {plan}");
            assert!(plan.alternatives.iter().all(|cut| plan.predicted <= cut.predicted), "{model:?}: {plan}");
            assert!(
                plan.predicted.0 >= plan.bounds.contended.0 * (1.0 - 1e-9) && plan.gap <= 0.001,
                "{model:?}: {plan}"
            );
            assert_eq!(plan.verdict() == PlanVerdict::DoNotTile, plan.tiles.len() == 1);
            over.push(rule.0 / plan.predicted.0);
        }
    }
    over.sort_by(f64::total_cmp);
    let (median, worst) = ((over[299] + over[300]) / 2.0, over[599]);
    assert!(median - 1.0 >= 0.07, "the median gain over the rule is {median}");
    // The rule never says "do not tile".
    assert!(worst > 2.0, "{worst}");
}

/// A step takes 4.5 to 6 ns, so these take up to 3 and 72 ms.
#[test]
fn plans_of_32_and_128_units_take_few_steps() {
    for (units, most) in [(32, 500_000), (128, 12_000_000)] {
        for regime in &REGIMES {
            let mut random = Random(units);
            for _ in 0..8 {
                let model = Model::draw(&mut random, regime, Some(units));
                let plan = model.with(|problem| problem.plan()).unwrap();
                assert!(plan.work.steps <= most && plan.gap <= 0.001, "{}: {:?}: {plan}", regime.name, plan.work);
            }
        }
    }
}

#[test]
fn nothing_to_gain_is_not_tiled() {
    let each = |rows: Rows| Nanos::micros(100.0 + 0.1 * rows.0 as f64);
    let linear = |rows: Rows| Nanos(rows.0 as f64);
    let nothing = |_: Rows| Nanos(0.0);
    let problem = Problem { align: Rows(64), ..Problem::new(Rows(512), &each, &each) };
    let linear = Problem::new(Rows(64), &linear, &linear);
    let harm = Contention { compute: 2.2, communicate: 1.9 };
    for (problem, why) in [
        (problem, "additional tiles cost more time than they hide"),
        (Problem { most_tiles: 1, ..linear }, "only one tile is allowed"),
        (Problem { align: Rows(64), ..linear }, "there are too few rows for two aligned tiles"),
        (Problem { min_tile: Rows(33), ..linear }, "there are too few rows for two tiles of the minimum size"),
        (Problem { min_tile: Rows(65), ..linear }, "there are too few rows for two tiles of the minimum size"),
        (Problem { contention: harm, ..linear }, "the lanes slow each other down by more than the overlap saves"),
        (Problem { rows: Rows(0), ..linear }, "there are no rows"),
        (Problem::new(Rows(64), &nothing, &nothing), "additional tiles cost more time than they hide"),
    ] {
        let plan = problem.plan().unwrap();
        assert_eq!((plan.verdict(), plan.why, plan.gap), (PlanVerdict::DoNotTile, why, 0.0));
        assert_eq!(plan.tiles, Tiles::one(problem.rows));
        assert_eq!((plan.predicted, plan.benefit()), (plan.serial, 0.0));
        assert!(plan.to_string().starts_with("do not tile: "), "{plan}");
    }
}

/// A cut is kept exactly if its gain exceeds the margin; otherwise the plan is one tile that says what it replaces.
#[test]
fn a_gain_within_the_margin_is_not_worth_a_cut() {
    with_guide(|problem| {
        let plan = problem.plan().unwrap();
        let gain = plan.serial.0 / plan.predicted.0 - 1.0;
        let per_call = |share: f64| Nanos(share * (plan.serial.0 - plan.predicted.0));
        let kept = [
            Margin::NONE,
            Margin { error: gain * 0.999, ..Margin::NONE },
            Margin { error: 0.0, per_call: per_call(0.999) },
            Margin { error: gain * 0.499, per_call: per_call(0.5) },
        ];
        for margin in kept {
            let judged = problem.judged(plan.clone(), margin).unwrap();
            assert_eq!(judged.inputs.margin, margin);
            assert_eq!(Plan { inputs: plan.inputs, ..judged }, plan);
        }
        let dropped = [
            Margin { error: gain * 1.001, ..Margin::NONE },
            Margin { error: 0.0, per_call: per_call(1.001) },
            Margin { error: gain * 0.501, per_call: per_call(0.5) },
        ];
        for margin in dropped {
            let judged = problem.judged(plan.clone(), margin).unwrap();
            assert_eq!((judged.verdict(), &judged.tiles), (PlanVerdict::DoNotTile, &Tiles::one(problem.rows)));
            assert_eq!((judged.predicted, judged.benefit()), (plan.serial, 0.0));
            assert_eq!(judged.why, "the gain of the best cut is within the error of the predictions");
            let best = alternative(&judged, "best");
            assert_eq!((&best.tiles, best.predicted), (&plan.tiles, plan.predicted));
            assert!((judged.gap - gain).abs() < 1e-9, "{} {gain}", judged.gap);
            assert_eq!(judged.losses, problem.timeline(&judged.tiles).unwrap().losses());
            let said = judged.to_string();
            assert!(said.starts_with("do not tile: ") && said.contains(", with a required gain of "), "{said}");
            // Judging again changes nothing.
            assert_eq!(problem.judged(judged.clone(), margin).unwrap(), judged);
        }
    });
}

#[test]
fn what_is_impossible_is_said() {
    let one = |rows: Rows| Nanos(rows.0 as f64);
    let problem = Problem::new(Rows(10), &one, &one);
    let negative = |rows: Rows| Nanos(1.0 - rows.0 as f64);
    let missing = |_: Rows| Nanos(f64::NAN);
    for (problem, said) in [
        (Problem { align: Rows(0), ..problem }, "aligned to 0 rows"),
        (Problem { most_tiles: 0, ..problem }, "at most 0 tiles"),
        (
            Problem { contention: Contention { compute: 0.9, communicate: 1.0 }, ..problem },
            "slowdown of the computation is 0.9",
        ),
        (
            Problem { contention: Contention { compute: 1.0, communicate: f64::NAN }, ..problem },
            "slowdown of the communication is NaN",
        ),
        (Problem { effort: Effort { gap: 1.0, ..Effort::default() }, ..problem }, "a gap of 1"),
        (Problem { effort: Effort { units: 0, ..Effort::default() }, ..problem }, "the effort has 0 units"),
        (Problem { compute: &negative, ..problem }, "the computation of 2 rows would take -1 ns"),
        (Problem { communicate: &missing, ..problem }, "the communication of 1 row would take NaN ns"),
    ] {
        let error = problem.plan().expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(problem.predict(&tiles(&[4, 4])), Err(PlanError::Total { tiles: Rows(8), rows: Rows(10) }));
    assert_eq!(problem.timeline(&tiles(&[11])).map(drop), Err(PlanError::Total { tiles: Rows(11), rows: Rows(10) }));
    assert_eq!(problem.uniform(0), Err(PlanError::NoTiles));
    let many = Problem { rows: Rows(25), ..problem };
    assert_eq!(many.brute_force().map(drop), Err(PlanError::TooMany { units: 25 }));
}

#[test]
fn rows_beyond_the_alignment_are_in_the_last_tile() {
    let each = |rows: Rows| Nanos(1e3 + 20.0 * rows.0 as f64);
    let problem = Problem { align: Rows(128), ..Problem::new(Rows(1000), &each, &each) };
    let plan = problem.plan().unwrap();
    assert!(plan.tiles.len() > 1 && plan.tiles.total() == Rows(1000));
    assert!(plan.tiles.iter().rev().skip(1).all(|tile| tile.0 % 128 == 0), "{}", plan.tiles);
    assert_eq!(problem.uniform(3).unwrap(), tiles(&[384, 384, 232]));
    assert_eq!(problem.uniform(100).unwrap(), tiles(&[128, 128, 128, 128, 128, 128, 128, 104]));
    assert_eq!(Problem { rows: Rows(0), ..problem }.uniform(3).unwrap(), Tiles::default());
}

#[test]
fn many_rows_are_cut_at_multiples_of_the_alignment() {
    let each = |rows: Rows| Nanos(1e6 + 20.0 * rows.0 as f64);
    let problem = Problem { align: Rows(100), ..Problem::new(Rows(1_000_000), &each, &each) };
    let plan = problem.plan().unwrap();
    assert_eq!(plan.grain, Rows(7900));
    assert_eq!(plan.tiles.total(), Rows(1_000_000));
    let fine = Problem { effort: Effort { units: 200, ..problem.effort }, ..problem }.plan().unwrap();
    assert_eq!(fine.grain, Rows(5000));
    let least =
        Problem { rows: Rows(u64::MAX), effort: Effort { units: 2, ..problem.effort }, ..problem }.plan().unwrap();
    assert_eq!(least.tiles.total(), Rows(u64::MAX));
}

fn lane(units: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.0..1e6_f64, units)
}

prop_compose! {
    fn table()(units in 1_usize..40)(
        compute in lane(units),
        communicate in lane(units),
        contention in (1.0..3.0_f64, 1.0..3.0_f64),
        first in any::<bool>(),
    ) -> Table {
        let order = if first { Order::ComputeFirst } else { Order::CommunicateFirst };
        Table { compute, communicate, contention, order }
    }
}

proptest! {
    /// With linear costs and no contention, a closed form exists. A cut pays if the head communicates for longer than a product takes
    /// to start, and the rest computes for longer than a message takes to start.
    #[test]
    fn tiling_pays_if_there_are_more_rows_than_the_starts_are_worth(
        units in 1_u64..40,
        (start_g, start_h) in (0.0..30.0_f64, 0.0..30.0_f64),
        (each_g, each_h) in (0.01..3.0_f64, 0.01..3.0_f64),
        first in any::<bool>(),
    ) {
        let compute = |rows: Rows| Nanos(start_g + each_g * rows.0 as f64);
        let communicate = |rows: Rows| Nanos(start_h + each_h * rows.0 as f64);
        let order = if first { Order::ComputeFirst } else { Order::CommunicateFirst };
        let plan = Problem { order, ..Problem::new(Rows(units), &compute, &communicate) }.plan().unwrap();
        let pays = (1..units).any(|head| {
            let rest = (units - head) as f64;
            let head = head as f64;
            if first { head * each_h > start_g && rest * each_g > start_h } else { head * each_g > start_h && rest * each_h > start_g }
        });
        prop_assert_eq!(plan.verdict() == PlanVerdict::Tile, pays, "{}", plan);
    }

    /// The prediction is a closed form; the timeline goes from event to event.
    #[test]
    fn a_timeline_ends_when_the_prediction_says(table in table(), cuts in any::<u64>()) {
        let mut sizes = vec![0_u64];
        for row in 0..table.compute.len() {
            *sizes.last_mut().unwrap() += 1;
            if cuts >> row & 1 == 1 && row + 1 < table.compute.len() {
                sizes.push(0);
            }
        }
        let cut = tiles(&sizes);
        table.with(|problem| {
            let (end, timeline) = (problem.predict(&cut).unwrap(), problem.timeline(&cut).unwrap());
            prop_assert!((timeline.end.0 - end.0).abs() <= 1e-9 * end.0, "{} != {}", timeline.end, end);
            let [first, second] = problem.order.lanes().map(|lane| timeline.spans(lane));
            prop_assert_eq!((first.len(), second.len()), (cut.len(), cut.len()));
            for spans in [first, second] {
                prop_assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
            prop_assert!(first.iter().zip(second).all(|(first, second)| first.end <= second.start));
            for lane in problem.order.lanes() {
                for (span, tile) in timeline.spans(lane).iter().zip(cut.iter()) {
                    let (cost, took) = (problem.cost(lane, tile).unwrap().0, span.length().0);
                    prop_assert!(took >= cost * (1.0 - 1e-9) - 1e-6 && took <= cost * 3.0 + 1e-6);
                }
            }
            let losses = timeline.losses();
            let sum = losses.whole.0 + losses.expansion.0 + losses.contention.0 + losses.waiting.0;
            prop_assert!((sum - end.0).abs() <= 1e-9 * end.0 + 1e-6);
            prop_assert!(losses.contention.0 >= -1e-6 && losses.waiting.0 >= -1e-6, "{:?}", losses);
            Ok(())
        })?;
    }

    /// Without contention the lanes can be exchanged, if the order of the tiles is reversed.
    #[test]
    fn a_mirrored_plan_takes_as_long(table in table()) {
        let table = Table { contention: (1.0, 1.0), ..table };
        let plan = table.with(|problem| problem.plan()).unwrap();
        let turned: Vec<Rows> = plan.tiles.iter().rev().collect();
        let order = if table.order == Order::ComputeFirst { Order::CommunicateFirst } else { Order::ComputeFirst };
        let mirrored = Table { order, ..table };
        let end = mirrored.with(|problem| problem.predict(&Tiles::new(turned).unwrap())).unwrap();
        prop_assert!((end.0 - plan.predicted.0).abs() <= 1e-9 * end.0);
    }

    #[test]
    fn a_plan_is_a_function_of_the_problem_and_no_other_cut_beats_it(table in table(), most_tiles in 1_usize..50) {
        let plan = |problem: Problem<'_>| Problem { most_tiles, ..problem }.plan().unwrap();
        let (first, second) = (table.with(plan), table.with(plan));
        prop_assert_eq!(&first, &second);
        prop_assert!(first.tiles.len() <= most_tiles);
        prop_assert!(first.gap <= 0.001);
        prop_assert!(first.predicted <= first.serial);
        prop_assert!(first.alternatives.iter().all(|cut| first.predicted <= cut.predicted));
        prop_assert!(first.predicted.0 >= first.bounds.contended.0 * (1.0 - 1e-9));
        prop_assert!(first.bounds.contended.0 >= first.bounds.plain.0.min(first.serial.0) * (1.0 - 1e-9));
        table.with(|problem| -> Result<(), TestCaseError> {
            for tiles in 1..=most_tiles {
                let uniform = problem.predict(&problem.uniform(tiles).unwrap()).unwrap();
                prop_assert!(first.predicted.0 <= uniform.0 * (1.0 + first.gap + 1e-9));
            }
            Ok(())
        })?;
    }
}
