//! Interleaved runs: in every repetition each arm takes its turn, in alternating order, and every answer is checked.

use std::thread;
use std::time::{Duration, Instant};

use crate::result::{Cell, Fixed, ScenarioGroup, Unit};
use crate::stats::{Ratio, Regret, Spread, beats, median};
use crate::work::Random;

/// The request to an arm in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    /// Calls that are not timed, before the others.
    pub(crate) warm_up: usize,
    /// Calls to time.
    pub(crate) calls: usize,
    /// The pause before each call, or none: then calls run back to back.
    pub(crate) gap: Duration,
}

/// The role of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// The plain code, which is the first arm.
    Serial,
    /// The plain code again.
    Control,
    /// windrow, with nothing to choose.
    Windrow,
    /// A choice by hand: the grain, the width, the limit.
    Fixed(f64),
    /// The physical bound, measured: no run can be faster.
    Bound,
    /// rayon, in the usual style of its users.
    Rayon,
}

/// The time of a call in nanoseconds, or the reason why the answer is wrong.
type Turn<'a> = Box<dyn FnMut(Ask) -> Result<f64, String> + 'a>;

/// One way to do the work of a scenario.
pub(crate) struct Arm<'a> {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) turn: Turn<'a>,
}

impl<'a> Arm<'a> {
    pub(crate) fn new(name: impl Into<String>, role: Role, turn: impl FnMut(Ask) -> Result<f64, String> + 'a) -> Self {
        Self { name: name.into(), role, turn: Box::new(turn) }
    }
}

/// The least time, relative to the plain code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Not known.
    None,
    /// The share of the work itself.
    Share(f64),
    /// The arm with this role is timed with the others.
    Measured,
}

/// One cell before it is measured.
pub(crate) struct Scenario<'a> {
    pub(crate) shape: ScenarioGroup,
    pub(crate) name: String,
    /// Cells of one family differ in their size: a line of a picture.
    pub(crate) family: String,
    pub(crate) size: f64,
    /// The unit of the time.
    pub(crate) unit: Unit,
    /// The parameter that the sweep varies: `grain`, `width`.
    pub(crate) sweep: &'static str,
    /// Every call comes after a pause.
    pub(crate) cold: bool,
    /// An arm's turn is one call, however short.
    pub(crate) single: bool,
    /// Number of timed units in a call.
    pub(crate) per_call: usize,
    pub(crate) bound: Bound,
    pub(crate) arms: Vec<Arm<'a>>,
    /// Explains windrow's decision, after the measurement.
    pub(crate) why: Box<dyn FnOnce() -> String + 'a>,
}

impl<'a> Scenario<'a> {
    /// Back-to-back calls, called by their family and size.
    pub(crate) fn new(
        shape: ScenarioGroup,
        family: impl Into<String>,
        size: f64,
        (sweep, bound): (&'static str, Bound),
        arms: Vec<Arm<'a>>,
        why: impl FnOnce() -> String + 'a,
    ) -> Self {
        let family = family.into();
        let name = format!("{family}/{size}");
        let (unit, cold, single, per_call, why) = (Unit::Call, false, false, 1, Box::new(why));
        Self { shape, name, family, size, unit, sweep, cold, single, per_call, bound, arms, why }
    }
}

/// The length of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// For one cell.
    pub(crate) budget: Duration,
    /// Multiples of four: both halves have both orders.
    pub(crate) fewest: usize,
    pub(crate) most: usize,
}

/// Back-to-back calls of one turn take about this long, or are one call.
const TURN_NANOS: f64 = 1e6;
/// Calls that measure how long one takes.
const FIRST_CALLS: usize = 20;
/// After a turn a pool comes to rest before the next arm's turn: no arm is timed while another's workers spin.
const REST: Duration = Duration::from_millis(1);
/// Cold calls come after pauses of this length, and up to four times as much.
const PAUSE_MICROS: usize = 2_000;

/// Arms by number, in an order that is reversed every other time.
fn in_turn(arms: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |at| if repetition.is_multiple_of(2) { at } else { arms - 1 - at })
}

/// The repetitions that a budget allows, if one takes `once`.
fn repetitions(effort: Effort, once: Duration) -> usize {
    let affordable = effort.budget.as_secs_f64() / once.as_secs_f64().max(1e-9);
    (affordable as usize / 4 * 4).clamp(effort.fewest, effort.most)
}

/// Calls in a turn, given the time of one.
fn calls_of_a_turn(nanos: f64) -> usize {
    (TURN_NANOS / nanos.max(1.0)).round().clamp(1.0, 1e5) as usize
}

/// Measures one cell.
///
/// # Errors
/// An arm gives a wrong answer, or cannot run.
///
/// # Panics
/// The first three arms are not the plain code, the plain code again, and windrow.
pub(crate) fn cell(mut scenario: Scenario<'_>, effort: Effort) -> Result<Cell, String> {
    let arms = &mut scenario.arms;
    let first: Vec<Role> = arms.iter().take(3).map(|arm| arm.role).collect();
    assert_eq!(first, [Role::Serial, Role::Control, Role::Windrow], "the order of the arms");
    let name = scenario.name.clone();
    let wrong = |arm: &str, error: String| format!("{}/{name}: {arm}: {error}", scenario.shape.name());

    // The first calls of all arms: caches are filled, and call sites are measured by the runtime. The second time gives the number of calls in a
    // turn. Arms that are slower than the plain code have fewer.
    let once = scenario.cold || scenario.single;
    let mut calls = vec![1; arms.len()];
    for some in [1, FIRST_CALLS] {
        for (arm, calls) in arms.iter_mut().zip(&mut calls) {
            let ask = Ask { warm_up: 2, calls: if once { 1 } else { some }, gap: Duration::ZERO };
            let nanos = (arm.turn)(ask).map_err(|it| wrong(&arm.name, it))?;
            *calls = if once { 1 } else { calls_of_a_turn(nanos * scenario.per_call as f64) };
        }
        if once {
            break;
        }
    }
    let most = calls[0];
    calls.iter_mut().for_each(|calls| *calls = (*calls).min(most));
    let mut random = Random::new(arms.len() as u64);
    let mut pause = || {
        let micros = PAUSE_MICROS + random.below(3 * PAUSE_MICROS);
        if scenario.cold { Duration::from_micros(micros as u64) } else { Duration::ZERO }
    };
    let turn = |arm: &mut Arm<'_>, calls: usize, gap| {
        let warm_up = if scenario.cold { 0 } else { calls.div_ceil(8) };
        let nanos = (arm.turn)(Ask { warm_up, calls, gap }).map_err(|it| wrong(&arm.name, it));
        thread::sleep(REST);
        nanos
    };
    // One repetition that does not count shows how many are affordable.
    let begin = Instant::now();
    for (arm, &calls) in arms.iter_mut().zip(&calls) {
        turn(arm, calls, pause())?;
    }
    let count = repetitions(effort, begin.elapsed());
    let mut times = vec![Vec::with_capacity(count); arms.len()];
    for repetition in 0..count {
        // All arms of a repetition have the same pause.
        let gap = pause();
        for at in in_turn(arms.len(), repetition) {
            times[at].push(turn(&mut arms[at], calls[at], gap)?);
        }
    }
    Ok(summed(scenario, &times, most))
}

/// The cell of these times, a row for each arm.
fn summed(scenario: Scenario<'_>, times: &[Vec<f64>], calls: usize) -> Cell {
    let Scenario { shape, name, family, size, unit, sweep, cold, bound, arms, why, .. } = scenario;
    let (serial, control, windrow) = (&times[0], &times[1], &times[2]);
    let (harm, control) = (Ratio::of(windrow, serial), Ratio::of(control, serial));
    let by_hand: Vec<usize> = (0..arms.len()).filter(|&at| matches!(arms[at].role, Role::Fixed(_))).collect();
    // The plain code is also a choice.
    let choices: Vec<usize> = std::iter::once(0).chain(by_hand.iter().copied()).collect();
    let rows: Vec<&[f64]> = choices.iter().map(|&at| &times[at][..]).collect();
    let regret = if by_hand.is_empty() { None } else { Regret::of(windrow, &rows, serial) };
    let bound = match bound {
        Bound::None => None,
        Bound::Share(share) => Some(share),
        Bound::Measured => {
            let at = arms.iter().position(|arm| arm.role == Role::Bound);
            at.map(|at| Ratio::of(&times[at], serial).value)
        }
    };
    let fixed = by_hand.iter().map(|&at| {
        let Role::Fixed(value) = arms[at].role else { unreachable!("filtered above") };
        Fixed { name: arms[at].name.clone(), value, nanos: median(&times[at]) }
    });
    let rayon = arms.iter().position(|arm| arm.role == Role::Rayon);
    Cell {
        shape,
        family,
        size,
        unit,
        cold,
        serial: Spread::of(serial),
        windrow: Spread::of(windrow),
        beats_bound: bound.is_some_and(|bound| beats(&harm, bound, &control)),
        harm,
        control,
        regret: regret.map(|(regret, _)| regret),
        best: regret.map(|(_, best)| arms[choices[best]].name.clone()),
        bound,
        by_rayon: rayon.map(|at| Ratio::of(windrow, &times[at])),
        sweep_by: sweep,
        sweep: fixed.collect(),
        repetitions: times[0].len(),
        calls,
        why: why(),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn scenario<'a>(arms: Vec<Arm<'a>>, bound: Bound) -> Scenario<'a> {
        let why = || "because".to_owned();
        let scenario = Scenario::new(ScenarioGroup::Loops, "test", 1.0, ("grain", bound), arms, why);
        Scenario { name: "test".to_owned(), single: true, ..scenario }
    }

    const EFFORT: Effort = Effort { budget: Duration::ZERO, fewest: 4, most: 8 };

    fn arm<'a>(name: &'static str, role: Role, nanos: f64) -> Arm<'a> {
        Arm::new(name, role, move |_| Ok(nanos))
    }

    fn three<'a>(windrow: f64) -> Vec<Arm<'a>> {
        vec![
            arm("plain", Role::Serial, 100.0),
            arm("control", Role::Control, 100.0),
            arm("windrow", Role::Windrow, windrow),
        ]
    }

    #[test]
    fn a_cell_has_harm_regret_and_bound() {
        let mut arms = three(60.0);
        arms.push(arm("1", Role::Fixed(1.0), 120.0));
        arms.push(arm("2", Role::Fixed(2.0), 50.0));
        arms.push(arm("share", Role::Bound, 45.0));
        let cell = cell(scenario(arms, Bound::Measured), EFFORT).unwrap();
        assert_eq!((cell.harm.value, cell.control.value, cell.bound), (0.6, 1.0, Some(0.45)));
        assert_eq!((cell.regret.unwrap().value, cell.best.as_deref()), (1.2, Some("2")));
        assert_eq!((cell.repetitions, cell.sweep.len(), cell.beats_bound), (4, 2, false));
        assert_eq!(cell.why, "because");
    }

    #[test]
    fn the_plain_code_is_a_choice_of_the_sweep() {
        let mut arms = three(150.0);
        arms.push(arm("1", Role::Fixed(1.0), 200.0));
        let cell = cell(scenario(arms, Bound::None), EFFORT).unwrap();
        assert_eq!((cell.regret.unwrap().value, cell.best.as_deref()), (1.5, Some("plain")));
    }

    #[test]
    fn an_impossible_result_is_marked() {
        assert!(cell(scenario(three(20.0), Bound::Share(0.5)), EFFORT).unwrap().beats_bound);
        assert!(!cell(scenario(three(50.0), Bound::Share(0.5)), EFFORT).unwrap().beats_bound);
    }

    #[test]
    fn a_wrong_answer_ends_the_run_and_says_where() {
        let mut arms = three(50.0);
        arms[2].turn = Box::new(|_| Err("a different answer".to_owned()));
        let error = cell(scenario(arms, Bound::None), EFFORT).unwrap_err();
        assert_eq!(error, "loops/test: windrow: a different answer");
    }

    #[test]
    fn the_order_of_arms_alternates() {
        let log = RefCell::new(Vec::new());
        let told = |name: &'static str, role| {
            let log = &log;
            Arm::new(name, role, move |_| {
                log.borrow_mut().push(name);
                Ok(1.0)
            })
        };
        let arms = vec![told("a", Role::Serial), told("b", Role::Control), told("c", Role::Windrow)];
        cell(scenario(arms, Bound::None), EFFORT).unwrap();
        assert_eq!(log.borrow()[6..], ["a", "b", "c", "c", "b", "a", "a", "b", "c", "c", "b", "a"]);
    }

    #[test]
    fn a_budget_buys_multiples_of_four_repetitions() {
        let effort = Effort { budget: Duration::from_millis(100), fewest: 4, most: 24 };
        let of = |millis| repetitions(effort, Duration::from_millis(millis));
        assert_eq!([of(1), of(5), of(10), of(1000)], [24, 20, 8, 4]);
    }
}
