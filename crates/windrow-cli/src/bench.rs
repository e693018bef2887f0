//! `windrow bench`: the four shapes and the encoder on this machine, against plain code, choices by hand and the physical bound.
//!
//! *Harm* is the time of windrow relative to the plain code, *regret* its time relative to the best of a sweep of choices by hand. All arms of
//! a cell are interleaved in one run, and every answer is compared. The plain code is also measured against itself, which shows the noise.
//! `docs/bench.md` says how to read the results.

mod args;
mod batches;
mod crew;
mod joins;
mod loops;
mod measure;
mod overlaps;
mod page;
mod products;
mod result;
mod rounds;
mod scratch;
mod stats;
mod table;
mod texts;
mod work;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use indicatif::ProgressBar;
use windrow::Pool;
use windrow_tokenizers::run::Threads;

pub(crate) use args::{AFTER_HELP, HELP, Options};
use measure::{Effort, Scenario};
use result::{Cell, Load, Report, Shape, Timeline};
use scratch::{Paths, Scratch};

use crate::exit::Code;
use crate::progress::Steps;
use crate::staged::{Refusal, Staged, check_directory, check_entry, directory, same};
use crate::{load, report, signals};

/// Runs the command and reports the result.
pub(crate) fn run(options: &Options) -> Code {
    match measured(options) {
        Ok(code) => code,
        Err((message, code)) => {
            report::error(message);
            code
        }
    }
}

fn failed(message: impl ToString) -> Refusal {
    (message.to_string(), Code::Failed)
}

fn measured(options: &Options) -> Result<Code, Refusal> {
    check_outputs(options)?;
    let bar = ProgressBar::hidden();
    // Signals are watched before there is something to remove.
    let paths = Paths::new();
    let stop = {
        let (bar, paths) = (bar.clone(), paths.clone());
        move |number| {
            paths.remove();
            signals::end(&bar, number)
        }
    };
    signals::watch_by(stop).map_err(|error| {
        failed(format_args!("cannot watch for signals: {error}\nhint: raise the limits of the process (ulimit)"))
    })?;
    let scratch = Scratch::create(paths)?;
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.workers();
    let note = |text: &str| {
        if !options.quiet {
            report::note(text)
        }
    };
    if threads > cpus {
        note(&format!("{threads} threads share {cpus} CPUs: the bounds are those of {cpus}"));
    }
    let is_optimized = !cfg!(debug_assertions);
    if !is_optimized {
        note("this windrow was built without optimization, so its times say nothing; build it with --release");
    }
    let load_before = load::load();
    if let Some(busy) = load::before(load_before, cpus) {
        note(&busy);
    }
    let pool = Pool::builder().threads(threads).build();
    let pool =
        pool.map_err(|error| failed(format_args!("cannot start {threads} threads: {error}\nhint: --threads")))?;
    let steps = (!options.quiet).then(|| Steps::start(bar, total(options, cpus) as u64));
    let begin = Instant::now();
    let speaks = !options.quiet && !io::stderr().is_terminal();
    let mut run = Run { options, threads, cpus, steps, speaks, cells: Vec::new(), timelines: Vec::new() };
    pool.install(|| run.all(&scratch)).map_err(failed)?;
    let Run { steps, cells, timelines, .. } = run;
    drop(steps);
    let load_after = load::load();
    let busy = load::after(load_before, load_after, threads, cpus);
    if let Some(busy) = &busy {
        note(busy);
    }
    let report = Report {
        schema: 1,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("WINDROW_COMMIT").map(str::to_owned),
        date: result::date(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())),
        command: command(options),
        machine: result::machine(cpus),
        threads,
        cpus,
        seconds: begin.elapsed().as_secs_f64(),
        optimized: is_optimized,
        load: Load { before: load_before, after: load_after, note: busy },
        summaries: Report::summed(&cells),
        cells,
        timelines,
    };
    publish(options, &report)?;
    let printed = report::print(table::text(&report));
    printed.map_err(|error| (format!("cannot write to stdout: {error}\nhint: check where stdout points"), Code::Io))?;
    let impossible: Vec<String> = report.impossible().map(table::impossible).collect();
    if impossible.is_empty() {
        return Ok(Code::Done);
    }
    let hint = "hint: measure again on a machine without other work; if it stays so, please report it";
    Err(failed(format_args!("{}\n{hint}", impossible.join("\nerror: "))))
}

/// The command line, as it can be typed.
fn command(options: &Options) -> String {
    let mut words = vec!["windrow bench".to_owned()];
    words.extend(options.quick.then(|| "--quick".to_owned()));
    if !options.only.is_empty() {
        words.push(format!("--only {}", options.only.iter().map(|shape| shape.name()).collect::<Vec<_>>().join(",")));
    }
    words.extend((options.threads != Threads::default()).then(|| format!("--threads {}", options.threads)));
    words.extend(options.tiny.then(|| "--tiny".to_owned()));
    words.join(" ")
}

/// Refuses outputs that cannot be written before anything is measured.
fn check_outputs(options: &Options) -> Result<(), Refusal> {
    for path in [&options.report, &options.json].into_iter().flatten() {
        check_directory(path)?;
        check_entry(path, options.overwrite)?;
    }
    if let (Some(report), Some(json)) = (&options.report, &options.json)
        && report.file_name() == json.file_name()
        && same(directory(report), directory(json))
    {
        let message = "--report and --json name the same file\nhint: choose another path for one of them";
        return Err((message.to_owned(), Code::Usage));
    }
    Ok(())
}

/// Writes the requested files, under temporary names until all are complete.
fn publish(options: &Options, report: &Report) -> Result<(), Refusal> {
    let page = options.report.as_deref().map(|path| Staged::new(path, &page::html(report))).transpose()?;
    let json = options.json.as_deref().map(|path| Staged::new(path, &report.json())).transpose()?;
    page.into_iter().chain(json).try_for_each(Staged::publish)
}

/// A run under way.
struct Run<'a> {
    options: &'a Options,
    threads: usize,
    cpus: usize,
    steps: Option<Steps>,
    /// Names each group on stderr, where no bar is drawn.
    speaks: bool,
    cells: Vec<Cell>,
    timelines: Vec<Timeline>,
}

/// Whether a cell is measured: tests take every seventh.
fn wanted(options: &Options) -> impl Fn(usize) -> bool {
    let tiny = options.tiny;
    move |index| !tiny || index % 7 == 0
}

fn has(options: &Options, shape: Shape) -> bool {
    options.only.is_empty() || options.only.contains(&shape)
}

/// The number of cells to measure.
fn total(options: &Options, cpus: usize) -> usize {
    let of = |shape, counts: &[usize]| {
        let count = |&count: &usize| (0..count).filter(|&index| wanted(options)(index)).count();
        if has(options, shape) { counts.iter().map(count).sum() } else { 0 }
    };
    of(Shape::Loops, &[loops::count(), joins::count()])
        + of(Shape::Rounds, &[rounds::count()])
        + of(Shape::Batch, &[batches::count()])
        + of(Shape::Overlap, &[overlaps::count(), products::count(cpus)])
        + of(Shape::Encode, &[texts::count()])
}

impl Run<'_> {
    fn effort(&self) -> Effort {
        match self.options {
            Options { tiny: true, .. } => Effort { budget: Duration::ZERO, fewest: 4, most: 4 },
            Options { quick: true, .. } => Effort { budget: Duration::from_millis(1_000), fewest: 4, most: 16 },
            _ => Effort { budget: Duration::from_secs(6), fewest: 8, most: 48 },
        }
    }

    fn measure(&mut self, scenario: Scenario<'_>) -> Result<(), String> {
        if let Some(steps) = &self.steps {
            steps.begin(&format!("{}: {}", scenario.shape.name(), scenario.name));
        }
        self.cells.push(measure::cell(scenario, self.effort())?);
        if let Some(steps) = &self.steps {
            steps.end();
        }
        Ok(())
    }

    /// The cells of a group are measured next.
    fn begin(&self, shape: Shape) {
        if self.speaks {
            let (done, all) = (self.cells.len(), total(self.options, self.cpus));
            report::say(format_args!("measuring {} ({done} of {all} cells are done)", shape.name()));
        }
    }

    fn all(&mut self, scratch: &Scratch) -> Result<(), String> {
        let (options, threads, cpus) = (self.options, self.threads, self.cpus);
        let wanted = wanted(options);
        if has(options, Shape::Loops) {
            self.begin(Shape::Loops);
            loops::run(threads, cpus, &wanted, |it| self.measure(it))?;
            joins::run(threads, cpus, &wanted, |it| self.measure(it))?;
        }
        if has(options, Shape::Rounds) {
            self.begin(Shape::Rounds);
            rounds::run(threads, cpus, &wanted, |it| self.measure(it))?;
        }
        if has(options, Shape::Batch) {
            self.begin(Shape::Batch);
            batches::run(scratch.disk(), &wanted, |it| self.measure(it))?;
        }
        if has(options, Shape::Overlap) {
            self.begin(Shape::Overlap);
            let mut timelines = Vec::new();
            overlaps::run(&wanted, |it| self.measure(it), |timeline| timelines.push(timeline))?;
            let products = |index| index < products::count(cpus) && wanted(index);
            products::run(products, |it| self.measure(it), |timeline| timelines.push(timeline))?;
            self.timelines.extend(timelines);
        }
        if has(options, Shape::Encode) {
            self.begin(Shape::Encode);
            texts::run((threads, cpus), scratch.memory(), &wanted, |it| self.measure(it))?;
        }
        Ok(())
    }
}

/// What windrow says of a call: the threads, and the reason.
fn told(call: impl FnOnce()) -> String {
    let ((), why) = windrow::explain(call);
    let mut parts: Vec<String> = Vec::new();
    for entry in &why {
        let threads = entry.threads();
        let on = if threads == 1 { "on 1 thread".to_owned() } else { format!("on {threads} threads") };
        let part = format!("{on}: {}", entry.reason());
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.truncate(3);
    parts.join("; ")
}
