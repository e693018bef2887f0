//! The planner of `windrow plan`: measured times in, a plan with its reasons out.
//!
//! A [`PlanRequest`] names an operation and the limits of its plan. [`MeasuredTimes`] are read from texts of many formats, or come from a
//! calibration. [`PlannedOperation::new`] fits them, chooses, and explains: as text, as JSON, as a drawing, as a trace, as a table for a
//! kernel. Messages name the options of the command.
//!
//! ```
//! use windrow_tiling::planner::{CostFile, FusedOperation, MeasuredTimes, PlanRequest, PlannedOperation};
//!
//! let text = "m,compute,communicate\n256,52,71\n512,103,122\n1024,206,225\n2048,410,429\n".to_owned();
//! let request = PlanRequest::new(FusedOperation::MatmulAllReduce, [4096, 8192, 3072], 8);
//! let measured = MeasuredTimes::read(&[CostFile { name: "samples.csv".to_owned(), text }], &request)?;
//! let planned = PlannedOperation::new(&request, &measured, &[], Vec::new())?;
//! assert!(planned.text().contains("tile"));
//! assert_eq!(serde_json::to_value(planned.json())?["op"], "matmul-all-reduce");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod break_even;
mod choice;
mod csv;
mod draw;
mod format;
mod import;
mod lane;
mod replay;
mod request;
mod run;
mod samples;
mod spans;
mod steps;
mod summary;
mod table;
mod tables;
mod trace;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use format::CostFormat;
pub use request::{CutFamily, FusedOperation, PlanRequest};
pub use run::MeasuredRun;
pub use samples::{Calibrated, CostFile, MeasuredTimes, RanPlan, SAMPLE_COLUMNS, SampledProfile, shortened};
pub use spans::Spans;

use crate::tile::{
    Contention, GUIDE_FACTOR, Lane, Matmul, PlanError, Problem, ShortLong, TileSpan, Tiles, Timeline, short_long_rule,
};
use crate::{Nanos, Rows};
use break_even::BreakEven;
use choice::Choice;
use replay::Replay;
use request::RULE_TILES;
use samples::Fits;

/// The reason why a request has no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplanned {
    /// The fault, its place and the remedy; the remedy is a line that begins with `hint: `.
    pub message: String,
    /// True if an option is at fault, false for the content of a file.
    pub is_usage: bool,
}

impl Unplanned {
    fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), is_usage: true }
    }

    fn bad_input(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), is_usage: false }
    }
}

impl fmt::Display for Unplanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unplanned {}

/// A plan, its inputs, and its alternatives.
pub struct PlannedOperation<'a> {
    request: &'a PlanRequest,
    measured: &'a MeasuredTimes,
    fits: Fits,
    choice: Choice,
    /// The break-even of the prediction; `None` if the plan was chosen by runs.
    break_even: Option<BreakEven>,
    /// The steps of the short-long rule, unless its tiles are too many to list.
    rule: Option<ShortLong>,
    replays: Vec<Replay>,
    /// Runs that a program measured.
    runs: Vec<MeasuredRun>,
    /// What to know before trusting the plan.
    notes: Vec<String>,
    courses: Vec<Course>,
}

/// A named course of tiles over time, predicted or measured.
#[derive(Debug)]
struct Course {
    name: String,
    tiles: Tiles,
    compute: Vec<TileSpan>,
    communicate: Vec<TileSpan>,
    end: Nanos,
}

impl Course {
    fn predicted(name: String, tiles: &Tiles, problem: &Problem<'_>) -> Result<Self, PlanError> {
        let Timeline { compute, communicate, end, .. } = problem.timeline(tiles)?;
        Ok(Self { name, tiles: tiles.clone(), compute, communicate, end })
    }

    fn measured(run: &MeasuredRun) -> Self {
        let MeasuredRun { file, tiles, compute, communicate, end, .. } = run.clone();
        Self { name: format!("{file}, measured"), tiles, compute, communicate, end }
    }

    fn spans(&self, lane: Lane) -> &[TileSpan] {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }
}

/// The plan, the replayed plans, and each measured run below the prediction of its tiles.
fn courses(
    problem: &Problem<'_>,
    choice: &Choice,
    replays: &[Replay],
    runs: &[MeasuredRun],
) -> Result<Vec<Course>, PlanError> {
    let mut courses = vec![Course::predicted(choice.name.to_owned(), &choice.plan.tiles, problem)?];
    for Replay { file, tiles, .. } in replays {
        courses.push(Course::predicted(file.clone(), tiles, problem)?);
    }
    for run in runs {
        if courses.last().is_none_or(|above| above.tiles != run.tiles) {
            courses.push(Course::predicted(format!("{}, predicted", run.file), &run.tiles, problem)?);
        }
        courses.push(Course::measured(run));
    }
    Ok(courses)
}

impl<'a> PlannedOperation<'a> {
    /// Plans an operation. `saved` are plans to compare, in JSON or as tables; `runs` are measured runs of it.
    ///
    /// # Errors
    /// Samples that give no fit or no plan, and saved plans or runs of another operation.
    pub fn new(
        request: &'a PlanRequest,
        measured: &'a MeasuredTimes,
        saved: &[CostFile],
        runs: Vec<MeasuredRun>,
    ) -> Result<Self, Unplanned> {
        let fits = measured.fit(request)?;
        let solved = with_problem(request, measured, &fits, |problem| {
            let margin = measured.margin(&fits, request.m);
            let choice = Choice::new(problem, measured, margin, request.family);
            let mut choice = choice.map_err(|error| impossible(measured, error))?;
            let is_predicted = choice.name == "planned";
            let break_even =
                is_predicted.then(|| BreakEven::find(request, measured, &fits, margin, choice.plan.serial)).transpose();
            let break_even = break_even.map_err(|error| impossible(measured, error))?;
            if fits.is_guess && choice.plan.tiles.len() > 1 {
                choice = choice.uncut(problem).map_err(|error| impossible(measured, error))?;
            }
            let rule = problem.matmul.map(|matmul| short_long_rule(problem, matmul, GUIDE_FACTOR)).transpose();
            let rule = rule.map_err(|error| impossible(measured, error))?;
            let replays = saved.iter().map(|file| Replay::read(file, problem)).collect::<Result<Vec<_>, _>>()?;
            let notes = notes(request, problem, measured, &fits, &choice, &replays);
            let runs = runs.into_iter().map(|run| run.predicted(problem)).collect::<Result<Vec<_>, _>>()?;
            let courses = courses(problem, &choice, &replays, &runs).map_err(|error| impossible(measured, error))?;
            Ok((choice, break_even, rule, replays, runs, notes, courses))
        });
        let (choice, break_even, rule, replays, runs, notes, courses) = solved?;
        Ok(Self { request, measured, fits, choice, break_even, rule, replays, runs, notes, courses })
    }

    /// The plan as some lines of text.
    pub fn text(&self) -> String {
        summary::text(self)
    }

    /// The plan as an object of JSON. Times are in microseconds; shares are relative to 1.
    pub fn json(&self) -> impl Serialize {
        summary::json(self)
    }

    /// A drawing of the lanes over time, as SVG.
    pub fn svg(&self) -> String {
        draw::svg(self, &self.courses)
    }

    /// The lanes over time as trace events, for Perfetto and chrome://tracing.
    pub fn trace(&self) -> Value {
        trace::json(self, &self.courses)
    }
}

impl MeasuredTimes {
    /// Reads files of times in the [format](PlanRequest::format) of the request.
    ///
    /// # Errors
    /// Names the file and the line that has no times.
    pub fn read(files: &[CostFile], request: &PlanRequest) -> Result<Self, Unplanned> {
        if request.format.has_kernels() { import::read(files, request) } else { tables::read(files, request) }
    }

    /// The tiles for many numbers of rows, as a table that a kernel includes: a header of C, or CSV.
    ///
    /// # Errors
    /// Numbers of rows without a plan, and too many of them.
    pub fn table(&self, request: &PlanRequest, spans: &Spans, as_header: bool) -> Result<String, Unplanned> {
        table::text(request, self, spans, as_header)
    }
}

/// The problem of a request, with the fitted costs.
fn with_problem<R>(
    options: &PlanRequest,
    measured: &MeasuredTimes,
    fits: &Fits,
    solve: impl FnOnce(&Problem<'_>) -> R,
) -> R {
    // One tile is what was measured.
    let more = |rows: Rows| if rows < Rows(options.m) { Nanos::micros(options.per_tile).0 } else { 0.0 };
    let compute = |rows| Nanos(fits.compute.at(rows).0 + more(rows));
    let communicate = |rows| Nanos(fits.communicate.at(rows).0 + more(rows));
    solve(&Problem {
        order: options.operation.order(),
        contention: options.contention.or(measured.contention()).unwrap_or(Contention::NONE),
        align: Rows(options.aligned()),
        most_tiles: options.max_tiles.unwrap_or(usize::MAX),
        min_tile: options.min_tile.map_or(fits.smallest(), Rows),
        matmul: options.lists_rule().then_some(Matmul { k: options.k, n: options.n }),
        ..Problem::new(Rows(options.m), &compute, &communicate)
    })
}

/// The refusal of an impossible value. A request is already checked, so it comes from the samples.
fn impossible(measured: &MeasuredTimes, error: impl fmt::Display) -> Unplanned {
    Unplanned::bad_input(format_args!("{}: {error}", measured.origin))
}

fn notes(
    options: &PlanRequest,
    problem: &Problem<'_>,
    measured: &MeasuredTimes,
    fits: &Fits,
    choice: &Choice,
    replays: &[Replay],
) -> Vec<String> {
    let (plan, aligned) = (&choice.plan, options.aligned());
    let PlanRequest { m, ranks, padding, .. } = options;
    let mut notes = measured.notes.clone();
    if *padding > 0 {
        notes.push(format!(
            "m is padded from {} to {m} rows, so that each of the {ranks} ranks has the same number of rows",
            m - padding
        ));
    }
    notes.extend(fits.notes.iter().cloned());
    notes.extend(fits.trust(problem, plan, &measured.origin));
    notes.extend(fits.beyond(plan));
    if options.contention.or(measured.contention()).is_none() {
        notes.push("contention was not measured; assuming none (set it with --contention C,M)".to_owned());
    }
    if let Some(calibrated) = &measured.calibrated {
        notes.extend(calibrated.notes.iter().cloned());
    }
    if !options.lists_rule() {
        notes.push(format!("the short-long rule may produce more than {RULE_TILES} tiles here, so it is omitted"));
    }
    if aligned > options.align {
        let align = options.align;
        notes.push(format!(
            "tiles begin at multiples of {aligned} rows, the least common multiple of the alignment ({align}) and \
             the number of ranks ({ranks})"
        ));
    }
    if plan.grain > Rows(aligned) {
        notes.push(format!(
            "there are many places to cut, so only cuts at multiples of {} rows were considered",
            plan.grain
        ));
    }
    if let Some(most) = options.max_tiles {
        let more = plan.alternatives.iter().filter(|cut| cut.tiles.len() > most);
        notes.extend(
            more.map(|cut| format!("{} has {} tiles, more than --max-tiles {most}", cut.name, cut.tiles.len())),
        );
    }
    notes.extend(replays.iter().flat_map(|replay| replay.notes(options, fits)));
    notes
}
