//! `windrow bench`: the scenarios of `windrow_scenarios` on this machine, as a table, a page and JSON.

mod args;
mod scratch;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Instant;

use windrow::Pool;
use windrow_scenarios::{BenchLoad, BenchReport, BenchSettings, BenchStep};
use windrow_tokenizers::counted;
use windrow_tokenizers::run::Threads;

pub(crate) use args::{AFTER_HELP, HELP, Options};
use scratch::{Paths, Scratch};

use crate::exit::Code;
use crate::progress::{Line, Steps};
use crate::staged::{Refused, Staged, check_directory, check_entry, directory, same};
use crate::{load, report, signals};

/// Runs the command and reports the result.
pub(crate) fn run(options: &Options) -> Code {
    measured(options).unwrap_or_else(Refused::reported)
}

fn failed(message: impl ToString) -> Refused {
    Refused(message.to_string(), Code::Failed)
}

fn measured(options: &Options) -> Result<Code, Refused> {
    check_outputs(options)?;
    let bar = Line::default();
    // Signals are watched before there are files to remove.
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
        let shared = counted(cpus as u64, "CPU");
        note(&format!("{threads} threads share {shared}, so the bounds are computed for {shared}"));
    }
    let is_optimized = !cfg!(debug_assertions);
    if !is_optimized {
        note("this windrow was built without optimization, so its times are meaningless; build it with --release");
    }
    let load_before = load::load();
    if let Some(busy) = load::before(load_before, cpus) {
        note(&busy);
    }
    let pool = Pool::builder().threads(threads).build();
    let pool = pool.map_err(|error| {
        failed(format_args!("cannot start {threads} threads: {error}\nhint: pass a smaller --threads"))
    })?;
    let settings = BenchSettings {
        quick: options.quick,
        tiny: options.tiny,
        only: options.only.clone(),
        against_rayon: options.against.is_some(),
        threads,
        cpus,
        disk: scratch.disk().to_owned(),
        memory: scratch.memory().to_owned(),
    };
    let all = settings.cells();
    let steps = (!options.quiet).then(|| Steps::start(bar, all as u64));
    let speaks = !options.quiet && !io::stderr().is_terminal();
    let (begin, mut done) = (Instant::now(), 0);
    let mut step = |step: BenchStep<'_>| match step {
        // Without a terminal, where no bar is drawn.
        BenchStep::Group(group) if speaks => {
            report::say(format_args!("measuring {} ({done} of {all} cells done)", group.name()))
        }
        BenchStep::Group(_) => {}
        BenchStep::Cell(name) => steps.iter().for_each(|steps| steps.begin(name)),
        BenchStep::Done => {
            done += 1;
            steps.iter().for_each(Steps::end);
        }
    };
    let results = pool.install(|| settings.run(&mut step)).map_err(failed)?;
    drop(steps);
    let load_after = load::load();
    let busy = load::after(load_before, load_after, threads, cpus);
    if let Some(busy) = &busy {
        note(busy);
    }
    let mut report = BenchReport::new(&settings, results);
    report.version = env!("CARGO_PKG_VERSION").to_owned();
    report.commit = option_env!("WINDROW_COMMIT").map(str::to_owned);
    report.command = command(options);
    report.seconds = begin.elapsed().as_secs_f64();
    report.optimized = is_optimized;
    report.load = BenchLoad { before: load_before, after: load_after, note: busy };
    publish(options, &report)?;
    let printed = report::print(report.text());
    printed.map_err(|error| {
        Refused(format!("cannot write to stdout: {error}\nhint: check where stdout points"), Code::Io)
    })?;
    let impossible = report.impossible();
    if impossible.is_empty() {
        return Ok(Code::Done);
    }
    let hint = "hint: measure again on an otherwise idle machine; if the result stays the same, please report it";
    Err(failed(format_args!("{}\n{hint}", impossible.join("\nerror: "))))
}

/// The command line, as it can be typed.
fn command(options: &Options) -> String {
    let mut words = vec!["windrow bench".to_owned()];
    words.extend(options.quick.then(|| "--quick".to_owned()));
    if !options.only.is_empty() {
        words.push(format!("--only {}", options.only.iter().map(|shape| shape.name()).collect::<Vec<_>>().join(",")));
    }
    words.extend(options.against.map(|_| "--against rayon".to_owned()));
    words.extend((options.threads != Threads::default()).then(|| format!("--threads {}", options.threads)));
    words.extend(options.tiny.then(|| "--tiny".to_owned()));
    words.join(" ")
}

/// Refuses outputs that cannot be written before anything is measured.
fn check_outputs(options: &Options) -> Result<(), Refused> {
    for path in [&options.report, &options.json].into_iter().flatten() {
        check_directory(path)?;
        check_entry(path, options.overwrite)?;
    }
    if let (Some(report), Some(json)) = (&options.report, &options.json)
        && report.file_name() == json.file_name()
        && same(directory(report), directory(json))
    {
        let message = "--report and --json name the same file\nhint: choose another path for one of them";
        return Err(Refused(message.to_owned(), Code::Usage));
    }
    Ok(())
}

/// Writes the requested files, under temporary names until all are complete.
fn publish(options: &Options, report: &BenchReport) -> Result<(), Refused> {
    let page = options.report.as_deref().map(|path| Staged::new(path, &report.html())).transpose()?;
    let json = options.json.as_deref().map(|path| Staged::new(path, &report.json())).transpose()?;
    page.into_iter().chain(json).try_for_each(Staged::publish)
}
