//! A plan as text and as JSON.

use std::collections::BTreeMap;

use crate::Nanos;
use crate::tile::{Candidate, Losses, Plan, Tiles, Tiling, counted_rows};
use serde::Serialize;
use serde_json::value::RawValue;

use super::break_even::BreakEven;
use super::choice::Choice;
use super::lane::LaneCost;
use super::replay::Replay;
use super::run::MeasuredRun;
use super::steps::{self, Polynomial, Rule};
use super::{PlanRequest, PlannedOperation};

/// The version of the object that `--json` prints. It increases when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

/// A plan as JSON. Times are in microseconds; shares are relative to 1.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    schema: u32,
    op: &'a str,
    m: u64,
    n: u64,
    k: u64,
    ranks: u64,
    align: u64,
    /// Null if there is no limit.
    max_tiles: Option<usize>,
    min_tile: u64,
    family: &'a str,
    contention: Pair<f64>,
    /// The time by which a tile takes longer in each lane than its sample.
    per_tile_us: f64,
    /// The source of the costs.
    cost: &'a str,
    verdict: String,
    tiles: Vec<u64>,
    predicted_us: f64,
    serial_us: f64,
    benefit: f64,
    bound_us: f64,
    bound_with_contention_us: f64,
    gap: f64,
    /// What a cut has to gain.
    margin: Gain,
    /// Null if the plan was chosen by runs.
    break_even: Option<&'a BreakEven>,
    /// Cuts were considered at multiples of this many rows; the gap is relative to the best of these.
    grain: u64,
    why: String,
    losses: Loss,
    alternatives: BTreeMap<String, f64>,
    alternative_tiles: BTreeMap<String, Vec<u64>>,
    fits: Pair<Fitted>,
    /// The steps of the short-long rule; null where it is left out.
    rule: Option<Rule>,
    /// The measured shapes that the costs are interpolated from, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    interpolation: Option<&'a RawValue>,
    replays: Vec<Replayed<'a>>,
    /// Runs that a program measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    measured: Vec<Took<'a>>,
    /// Plans that ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refined: Vec<Refined>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Gain {
    /// The share by which predictions may be off.
    error: f64,
    /// The additional time of a call that is cut.
    per_call_us: f64,
}

#[derive(Serialize)]
struct Refined {
    tiles: Vec<u64>,
    predicted_us: f64,
    took_us: f64,
}

#[derive(Serialize)]
struct Took<'a> {
    file: &'a str,
    tiles: Vec<u64>,
    took_us: f64,
    /// The whole call.
    elapsed_us: f64,
    predicted_us: f64,
    /// By what share it took longer than predicted.
    late: f64,
}

/// A value per lane.
#[derive(Serialize)]
struct Pair<T> {
    compute: T,
    communicate: T,
}

/// Where the time goes, for the lane with the most work. The four times add up to the predicted time.
#[derive(Serialize)]
struct Loss {
    lane: String,
    whole_us: f64,
    expansion_us: f64,
    contention_us: f64,
    waiting_us: f64,
}

/// How good a fit is.
#[derive(Serialize)]
struct Fitted {
    /// `fit`, `assumed` if one size or two were measured, or `table` if times were looked up.
    source: &'static str,
    /// Time of the whole operation in one piece.
    whole_us: f64,
    sizes: usize,
    smallest: u64,
    largest: u64,
    /// The largest share by which the fit misses a sample.
    worst: f64,
    /// None if times are looked up.
    pieces: Vec<Polynomial>,
}

#[derive(Serialize)]
struct Replayed<'a> {
    file: &'a str,
    tiles: Vec<u64>,
    predicted_us: f64,
    /// The prediction in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated_us: Option<f64>,
    /// The share by which it takes longer than the plan.
    above_plan: f64,
    benefit: f64,
    losses: Loss,
}

/// The plan as an object of JSON.
pub(super) fn json<'p>(planned: &'p PlannedOperation<'_>) -> Report<'p> {
    let PlannedOperation { request: options, measured, fits, choice, break_even, rule, replays, runs, notes, .. } =
        planned;
    let Choice { plan, why, .. } = choice;
    let fitted = |cost: &LaneCost, whole: Nanos| {
        let (smallest, largest) = cost.range();
        Fitted {
            source: cost.source(),
            whole_us: whole.as_micros(),
            sizes: cost.sizes(),
            smallest: smallest.0,
            largest: largest.0,
            worst: cost.worst(),
            pieces: cost.pieces().iter().map(Polynomial::of).collect(),
        }
    };
    Report {
        schema: SCHEMA,
        op: options.operation.name(),
        m: options.m,
        n: options.n,
        k: options.k,
        ranks: options.ranks,
        align: options.align,
        max_tiles: options.max_tiles,
        min_tile: plan.inputs.min_tile.0,
        family: options.family.name(),
        contention: Pair { compute: plan.inputs.contention.compute, communicate: plan.inputs.contention.communicate },
        per_tile_us: options.per_tile,
        cost: &measured.origin,
        verdict: plan.verdict().to_string(),
        tiles: rows(&plan.tiles),
        predicted_us: plan.predicted.as_micros(),
        serial_us: plan.serial.as_micros(),
        benefit: plan.benefit(),
        bound_us: plan.bounds.plain.as_micros(),
        bound_with_contention_us: plan.bounds.contended.as_micros(),
        gap: plan.gap,
        margin: Gain { error: plan.inputs.margin.error, per_call_us: plan.inputs.margin.per_call.as_micros() },
        break_even: break_even.as_ref(),
        grain: plan.grain.0,
        why: format!("{why}; {}", sum(plan.predicted, &plan.losses)),
        losses: Loss::of(&plan.losses),
        alternatives: plan.alternatives.iter().map(|cut| (key(cut), cut.predicted.as_micros())).collect(),
        alternative_tiles: plan.alternatives.iter().map(|cut| (key(cut), rows(&cut.tiles))).collect(),
        fits: Pair {
            compute: fitted(&fits.compute, plan.inputs.compute),
            communicate: fitted(&fits.communicate, plan.inputs.communicate),
        },
        rule: rule.as_ref().map(Rule::of),
        interpolation: measured.interpolation().map(|(_, json)| &**json),
        replays: replays.iter().map(|replay| Replayed::of(replay, plan)).collect(),
        measured: runs.iter().map(Took::of).collect(),
        refined: measured
            .tried()
            .iter()
            .map(|tried| Refined {
                tiles: rows(&tried.tiles),
                predicted_us: tried.predicted.as_micros(),
                took_us: tried.took.as_micros(),
            })
            .collect(),
        notes,
    }
}

impl<'a> Replayed<'a> {
    fn of(replay: &'a Replay, plan: &Plan) -> Self {
        Self {
            file: &replay.file,
            tiles: rows(&replay.tiles),
            predicted_us: replay.predicted.as_micros(),
            stated_us: replay.stated_us,
            above_plan: above(replay.predicted, plan.predicted),
            benefit: -above(replay.predicted, plan.serial),
            losses: Loss::of(&replay.losses),
        }
    }
}

impl<'a> Took<'a> {
    fn of(run: &'a MeasuredRun) -> Self {
        let MeasuredRun { file, tiles, end, elapsed, predicted, .. } = run;
        Self {
            file,
            tiles: rows(tiles),
            took_us: end.as_micros(),
            elapsed_us: elapsed.as_micros(),
            predicted_us: predicted.as_micros(),
            late: run.late(),
        }
    }
}

impl Loss {
    fn of(losses: &Losses) -> Self {
        Self {
            lane: losses.lane.to_string(),
            whole_us: losses.whole.as_micros(),
            expansion_us: losses.expansion.as_micros(),
            contention_us: losses.contention.as_micros(),
            waiting_us: losses.waiting.as_micros(),
        }
    }
}

/// The name of an alternative as a key.
fn key(cut: &Candidate) -> String {
    cut.name.replace([' ', '-'], "_")
}

fn rows(tiles: &Tiles) -> Vec<u64> {
    tiles.iter().map(|tile| tile.0).collect()
}

/// The share by which one takes longer than the other.
fn above(one: Nanos, other: Nanos) -> f64 {
    one.0 / other.0 - 1.0
}

/// Where the time goes.
fn sum(predicted: Nanos, losses: &Losses) -> String {
    let Losses { lane, whole, expansion, contention, waiting } = losses;
    // Cancellation may leave a rounding error below 0.
    let us = |time: &Nanos| format!("{:.1} us", time.as_micros()).replace("-0.0 us", "0.0 us");
    format!(
        "{} = {} of {lane} in one piece + {} for tiles + {} of contention + {} of waiting",
        us(&predicted),
        us(whole),
        us(expansion),
        us(contention),
        us(waiting)
    )
}

/// The plan as some lines of text.
pub(super) fn text(planned: &PlannedOperation<'_>) -> String {
    let PlannedOperation { request: options, measured, fits, choice, break_even, rule, replays, runs, notes, .. } =
        planned;
    let Choice { plan, why, name } = choice;
    let PlanRequest { m, n, k, ranks, .. } = options;
    let shortest = match plan.inputs.min_tile.0 {
        rows if rows > options.aligned() => format!(", at least {rows} rows each"),
        _ => String::new(),
    };
    let more = match options.per_tile {
        0.0 => String::new(),
        micros => format!(" plus {micros} us in each lane"),
    };
    let mut lines = vec![
        format!("{}: {why}", Tiling(plan.tiles.clone())),
        format!(
            "  {} of {m} x {k} times {k} x {n} on {ranks} ranks, tiles aligned to {}{shortest}",
            options.operation.name(),
            options.aligned()
        ),
        format!("  model: two tiled kernels; each tile takes as long as samples of its size{more}"),
        String::new(),
    ];

    let mut table = vec![(*name, plan.predicted, plan.tiles.to_string())];
    table.extend(plan.alternatives.iter().map(|cut| (cut.name, cut.predicted, cut.tiles.to_string())));
    table.extend(replays.iter().map(|replay| (replay.file.as_str(), replay.predicted, replay.tiles.to_string())));
    table.push((
        "bound",
        plan.bounds.plain,
        "the time of the slower of these two kernels; a kernel that fuses both may take less".to_owned(),
    ));
    if plan.bounds.contended > plan.bounds.plain {
        table.push(("with contention", plan.bounds.contended, "both, without interruption".to_owned()));
    }
    let width = table.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    lines.extend(table.into_iter().map(|(name, time, what)| {
        let than_plan = 100.0 * above(time, plan.predicted);
        format!("  {name:width$}  {:>10.1} us  {than_plan:>+7.1} %  {what}", time.as_micros())
    }));

    lines.push(String::new());
    lines.push(format!("  why: {}", sum(plan.predicted, &plan.losses)));
    lines.push(format!("  saved: {:.1} % of serial", 100.0 * plan.benefit()));
    let grain = counted_rows(plan.grain);
    lines.push(match plan.gap {
        0.0 => format!("  gap: 0; no cut at multiples of {grain} is better"),
        gap => format!("  gap: a cut at multiples of {grain} is at most {:.3} % better", 100.0 * gap),
    });
    lines.push(format!(
        "  margin: a cut has to gain more than {}, because it may take that much longer than predicted",
        plan.inputs.margin
    ));
    lines.extend(break_even.iter().flat_map(|even| even.text(plan.tiles.len() > 1, fits.is_guess)));
    lines.extend(replays.iter().map(|replay| format!("  {}: {}", replay.file, sum(replay.predicted, &replay.losses))));
    let stated = |replay: &Replay| {
        let (file, stated) = (&replay.file, replay.stated_us?);
        Some(format!(
            "  {file}: the file predicts {stated:.1} us, the current costs {:.1} us",
            replay.predicted.as_micros()
        ))
    };
    lines.extend(replays.iter().filter_map(stated));
    lines.extend(fits.lanes().into_iter().flat_map(|cost| {
        let (lane, (least, most), worst) = (cost.lane, cost.range(), 100.0 * cost.worst());
        let (sizes, origin) = (cost.sizes(), &measured.origin);
        let line = match cost.source() {
            "fit" => {
                format!(
                    "  {lane}: {sizes} sizes from {least} to {most} rows in {origin}, fitted to within {worst:.1} %"
                )
            }
            "assumed" if sizes == 1 => {
                format!("  {lane}: one size, {most} rows, in {origin}, with an assumed fixed cost")
            }
            "assumed" => {
                format!("  {lane}: two sizes, {least} and {most} rows, in {origin}, with an assumed linear cost")
            }
            _ => {
                format!("  {lane}: {sizes} sizes from {least} to {most} rows in {origin}, looked up instead of fitted")
            }
        };
        std::iter::once(line).chain(cost.pieces().iter().map(|piece| format!("    {}", Polynomial::of(piece))))
    }));
    lines.extend(measured.interpolation().map(|(from, _)| format!("  costs: {from}")));
    lines.extend(rule.iter().flat_map(|rule| steps::text(rule, options.m)));
    lines.extend(measured.tried().iter().map(|tried| {
        let (took, predicted) = (tried.took.as_micros(), tried.predicted_call.as_micros());
        format!("  run: {} took {took:.1} us ({predicted:.1} us predicted)", tried.tiles)
    }));
    lines.extend(runs.iter().map(|run| {
        let (took, predicted) = (run.end.as_micros(), run.predicted.as_micros());
        let late = 100.0 * run.late();
        format!("  {}: {} took {took:.1} us ({predicted:.1} us predicted, {late:+.1} %)", run.file, run.tiles)
    }));
    lines.extend(notes.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}
