//! `windrow plan`: where to cut a matrix product that is fused with a collective, given measured times of its parts.
//!
//! `windrow_tiling` decides. This module reads arguments, samples and saved plans, and shows plans: as text, as JSON, as a drawing and as
//! a trace. Everything is checked and computed before anything is written.

mod args;
mod break_even;
mod calibrate;
mod choice;
mod csv;
mod draw;
mod files;
mod format;
mod import;
mod lane;
mod measured;
#[cfg(feature = "mpi")]
mod mpi;
mod profiles;
mod replay;
mod samples;
mod spans;
mod steps;
mod summary;
mod table;
mod tables;
mod trace;

use std::fmt;

use windrow_collective::MeasuredTimeline;
use windrow_tiling::tile::{
    Contention, GUIDE_FACTOR, Lane, Matmul, PlanError, Problem, ShortLong, TileSpan, Tiles, Timeline, short_long_rule,
};
use windrow_tiling::{Nanos, Rows};

pub(crate) use args::{AFTER_HELP, HELP, Options};
use args::{RULE_TILES, Where};
use break_even::BreakEven;
use choice::Choice;
use files::Outputs;
use measured::Run;
use replay::Replay;
use samples::{Fits, Measured};

use crate::exit::Code;
use crate::report;
use crate::staged::Refusal;

/// Why there is no plan, and the exit code.
#[derive(Debug)]
struct Refused(String, Code);

impl Refused {
    fn usage(message: impl fmt::Display) -> Self {
        Self(message.to_string(), Code::Usage)
    }

    fn bad_input(message: impl fmt::Display) -> Self {
        Self(message.to_string(), Code::BadInput)
    }
}

impl From<Refusal> for Refused {
    fn from((message, code): Refusal) -> Self {
        Self(message, code)
    }
}

/// Runs the command and reports the result.
pub(crate) fn run(options: Options) -> Code {
    let options = options.padded();
    #[cfg(feature = "mpi")]
    if options.calibrate == Some(Where::Mpi) {
        return mpi::run(&options);
    }
    match planned(&options).and_then(print) {
        Ok(()) => Code::Done,
        Err(Refused(message, code)) => {
            report::error(message);
            code
        }
    }
}

fn print(shown: String) -> Result<(), Refused> {
    report::print(shown).map_err(|error| {
        Refused(format!("cannot write to stdout: {error}\nhint: the plan itself is not concerned by it"), Code::Io)
    })
}

/// A plan, its inputs, and its alternatives.
struct Planned<'a> {
    options: &'a Options,
    measured: &'a Measured,
    fits: &'a Fits,
    choice: Choice,
    /// The break-even of the prediction; `None` if the plan was chosen by runs.
    break_even: Option<BreakEven>,
    /// The steps of the short-long rule, unless its tiles are too many to list.
    rule: Option<ShortLong>,
    replays: Vec<Replay>,
    /// Runs that a program measured.
    runs: Vec<Run>,
    /// What to know before trusting the plan.
    notes: Vec<String>,
}

/// A named course of tiles over time, predicted or measured.
struct Course<'a> {
    name: String,
    tiles: &'a Tiles,
    compute: Vec<TileSpan>,
    communicate: Vec<TileSpan>,
    end: Nanos,
}

impl<'a> Course<'a> {
    fn predicted(name: String, tiles: &'a Tiles, problem: &Problem<'_>) -> Result<Self, PlanError> {
        let Timeline { compute, communicate, end, .. } = problem.timeline(tiles)?;
        Ok(Self { name, tiles, compute, communicate, end })
    }

    fn measured(run: &'a Run) -> Self {
        let MeasuredTimeline { tiles, compute, communicate, end, .. } = &run.timeline;
        let (name, compute, communicate) = (format!("{}, measured", run.file), compute.clone(), communicate.clone());
        Self { name, tiles, compute, communicate, end: *end }
    }

    fn spans(&self, lane: Lane) -> &[TileSpan] {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }
}

impl Planned<'_> {
    /// The plan, the replayed plans, and each measured run below the prediction of its tiles.
    fn courses(&self, problem: &Problem<'_>) -> Result<Vec<Course<'_>>, PlanError> {
        let mut courses = vec![Course::predicted(self.choice.name.to_owned(), &self.choice.plan.tiles, problem)?];
        for Replay { file, tiles, .. } in &self.replays {
            courses.push(Course::predicted(file.clone(), tiles, problem)?);
        }
        for run in &self.runs {
            let tiles = &run.timeline.tiles;
            if courses.last().is_none_or(|above| above.tiles != tiles) {
                courses.push(Course::predicted(format!("{}, predicted", run.file), tiles, problem)?);
            }
            courses.push(Course::measured(run));
        }
        Ok(courses)
    }
}

/// The text for stdout; the files are already written.
fn planned(options: &Options) -> Result<String, Refused> {
    options.check()?;
    let outputs = Outputs::check(options)?;
    decided(options, &outputs, &measure(options)?)
}

/// The same, given the measurements.
fn decided(options: &Options, outputs: &Outputs<'_>, measured: &Measured) -> Result<String, Refused> {
    outputs.write_samples(|| measured.csv())?;
    outputs.write_profile(|profiles| profiles::add(profiles, options, measured))?;
    let fits = measured.fit(options)?;
    with_problem(options, measured, &fits, |problem| {
        let margin = measured.margin(&fits, options.m);
        let choice = Choice::new(problem, measured, margin, options.family);
        let mut choice = choice.map_err(|error| impossible(measured, error))?;
        let is_predicted = choice.name == "planned";
        let break_even =
            is_predicted.then(|| BreakEven::find(options, measured, &fits, margin, choice.plan.serial)).transpose();
        let break_even = break_even.map_err(|error| impossible(measured, error))?;
        if fits.is_guess && choice.plan.tiles.len() > 1 {
            choice = choice.uncut(problem).map_err(|error| impossible(measured, error))?;
        }
        let rule = problem.matmul.map(|matmul| short_long_rule(problem, matmul, GUIDE_FACTOR)).transpose();
        let rule = rule.map_err(|error| impossible(measured, error))?;
        let replays = options.replay.iter().map(|path| Replay::read(path, problem)).collect::<Result<Vec<_>, _>>()?;
        let notes = notes(options, problem, measured, &fits, &choice, &replays);
        let runs = options.measured.iter().map(|path| Run::read(path, problem)).collect::<Result<Vec<_>, _>>()?;
        let planned = Planned { options, measured, fits: &fits, choice, break_even, rule, replays, runs, notes };
        let table = table::text(options, measured)?;

        let courses = planned.courses(problem).map_err(|error| impossible(measured, error))?;
        outputs.write(|| draw::svg(&planned, &courses), || trace::json(&planned, &courses), || table)?;
        Ok(if options.json { summary::json(&planned) } else { summary::text(&planned) })
    })
}

/// The problem of these options, with the fitted costs.
fn with_problem<R>(options: &Options, measured: &Measured, fits: &Fits, solve: impl FnOnce(&Problem<'_>) -> R) -> R {
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

/// The refusal of an impossible value. Flags are already checked, so it comes from the samples.
fn impossible(measured: &Measured, error: impl fmt::Display) -> Refused {
    Refused::bad_input(format_args!("{}: {error}", measured.origin))
}

/// The measured times of the parts of the operation: from a file of samples, or calibrated.
fn measure(options: &Options) -> Result<Measured, Refused> {
    match (&options.cost[..], options.calibrate) {
        (paths @ [_, ..], _) if options.format.has_kernels() => import::read(paths, options),
        (paths @ [_, ..], _) => tables::read(paths, options),
        ([], Some(Where::InProcess)) => calibrate::in_process(options),
        // With MPI, this command runs in several processes, which do not get here.
        ([], Some(Where::Mpi)) => Err(Refused::usage(
            "this windrow was built without MPI\n\
             hint: build it with cargo install --path crates/windrow-cli --features mpi, and start it with mpiexec; \
             or calibrate in your program with windrow_collective::Fused::calibrate and pass the samples of its profile with --cost",
        )),
        ([], None) if options.profile.is_some() => profiles::read(options),
        ([], None) => Err(Refused::usage(format_args!(
            "what the computation and the communication take is not known\n\
             hint: measure some sizes of both and pass them with --cost samples.csv; its header is {}; \
             or let ranks of this process measure with --calibrate in-process, and keep that with --profile profiles.json",
            samples::HEADER.join(",")
        ))),
    }
}

fn notes(
    options: &Options,
    problem: &Problem<'_>,
    measured: &Measured,
    fits: &Fits,
    choice: &Choice,
    replays: &[Replay],
) -> Vec<String> {
    let (plan, aligned) = (&choice.plan, options.aligned());
    let Options { m, ranks, padding, .. } = options;
    let mut notes = measured.notes.clone();
    if *padding > 0 {
        notes.push(format!("{} rows are padded to {m}, so that each of {ranks} ranks has as many", m - padding));
    }
    notes.extend(fits.notes.iter().cloned());
    notes.extend(fits.trust(problem, plan, &measured.origin));
    notes.extend(fits.beyond(plan));
    if options.contention.or(measured.contention()).is_none() {
        notes.push("contention was not measured; assuming none (set it with --contention C,M)".to_owned());
    }
    if let Some(calibrated) = &measured.calibrated {
        notes.extend(profiles::drift(&calibrated.profile, &measured.origin));
    }
    if !options.lists_rule() {
        notes.push(format!("the short-long rule may have more than {RULE_TILES} tiles here and is left out"));
    }
    if aligned > options.align {
        let align = options.align;
        notes.push(format!(
            "tiles begin at multiples of {aligned} rows: of {align}, and of the {ranks} ranks they are dealt out to"
        ));
    }
    if plan.grain > Rows(aligned) {
        notes.push(format!("there are many places to cut, so only multiples of {} rows were considered", plan.grain));
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
