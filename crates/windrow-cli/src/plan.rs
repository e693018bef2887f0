//! `windrow plan`: where to cut a matrix product that is fused with a collective, from what its parts were measured to take.
//!
//! The decision is `windrow_plan`'s. Here are arguments, samples and saved plans read, and plans shown: for people, as JSON, as a
//! drawing and as a trace. Everything is checked and computed before anything is written.

mod args;
mod calibrate;
mod draw;
mod files;
mod replay;
mod samples;
mod summary;
mod trace;

use std::fmt;

use windrow::plan::Rows;
use windrow::plan::tile::{Contention, Matmul, Plan, Problem, Tiles, Timeline};

pub(crate) use args::{AFTER_HELP, HELP, Options};
use args::{RULE_TILES, Where};
use files::Outputs;
use replay::Replay;
use samples::{Fits, Measured};

use crate::exit::Code;
use crate::report;

/// Why there is no plan, and the code to exit with.
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

/// Runs the command and reports how it went.
pub(crate) fn run(options: Options) -> Code {
    match planned(&options) {
        Ok(shown) => match report::print(shown) {
            Ok(()) => Code::Done,
            Err(error) => {
                report::error(format_args!(
                    "cannot write to stdout: {error}\nhint: the plan itself is not concerned by it"
                ));
                Code::Io
            }
        },
        Err(Refused(message, code)) => {
            report::error(message);
            code
        }
    }
}

/// A plan, what it was made from, and what it is compared with.
struct Planned<'a> {
    options: &'a Options,
    measured: &'a Measured,
    fits: &'a Fits,
    plan: Plan,
    replays: Vec<Replay>,
    /// What to know before trusting it.
    notes: Vec<String>,
}

/// Tiles over time, by their name.
struct Course<'a> {
    name: String,
    tiles: &'a Tiles,
    timeline: Timeline,
}

/// What goes to stdout; the files are written by then.
fn planned(options: &Options) -> Result<String, Refused> {
    options.check()?;
    let outputs = Outputs::check(options)?;
    let measured = measure(options)?;
    outputs.write_samples(|| measured.csv())?;
    let fits = measured.fit()?;
    let (compute, communicate) = (|rows| fits.compute.cost.at(rows), |rows| fits.communicate.cost.at(rows));
    let problem = Problem {
        order: options.operation.order(),
        contention: options.contention.or(measured.contention).unwrap_or(Contention::NONE),
        align: Rows(options.align),
        most_tiles: options.max_tiles.unwrap_or(usize::MAX),
        matmul: options.lists_rule().then_some(Matmul { k: options.k, n: options.n }),
        ..Problem::new(Rows(options.m), &compute, &communicate)
    };
    // Flags are checked by now, so what is impossible comes from the samples.
    let impossible = |error| Refused::bad_input(format_args!("{}: {error}", measured.origin));
    let plan = problem.plan().map_err(impossible)?;
    let replays = options.replay.iter().map(|path| Replay::read(path, &problem)).collect::<Result<Vec<_>, _>>()?;
    let notes = notes(options, &measured, &fits, &plan, &replays);
    let planned = Planned { options, measured: &measured, fits: &fits, plan, replays, notes };

    let mut courses = vec![("planned".to_owned(), &planned.plan.tiles)];
    courses.extend(planned.replays.iter().map(|replay| (replay.file.clone(), &replay.tiles)));
    let course = |(name, tiles)| problem.timeline(tiles).map(|timeline| Course { name, tiles, timeline });
    let courses = courses.into_iter().map(course).collect::<Result<Vec<_>, _>>().map_err(impossible)?;
    outputs.write(|| draw::svg(&planned, &courses), || trace::json(&planned, &courses))?;
    Ok(if options.json { summary::json(&planned) } else { summary::text(&planned) })
}

/// What the parts of the operation take. Whatever measures has its place here, beside the file of samples.
fn measure(options: &Options) -> Result<Measured, Refused> {
    match (&options.cost, options.calibrate) {
        (Some(path), _) => samples::read(path),
        (None, Some(Where::InProcess)) => calibrate::in_process(options),
        (None, Some(Where::Mpi)) => Err(Refused::usage(
            "this command has no MPI: mpirun starts processes of a program, and this one is planned from outside\n\
             hint: calibrate in your program with windrow_collective::Fused::calibrate (feature mpi) and pass what its profile says with --cost",
        )),
        (None, None) => Err(Refused::usage(format_args!(
            "what the computation and the communication take is not known\n\
             hint: measure some sizes of both and pass them with --cost samples.csv; its header is {}; \
             or let ranks of this process measure with --calibrate in-process",
            samples::HEADER.join(",")
        ))),
    }
}

fn notes(options: &Options, measured: &Measured, fits: &Fits, plan: &Plan, replays: &[Replay]) -> Vec<String> {
    let mut notes = fits.beyond(plan);
    if options.contention.or(measured.contention).is_none() {
        notes.push("contention is not known and taken for none; --contention C,M tells it".to_owned());
    }
    if !options.lists_rule() {
        notes.push(format!("the short-long rule may have more than {RULE_TILES} tiles here and is left out"));
    }
    if plan.grain > Rows(options.align) {
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
