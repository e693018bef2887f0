//! Weakens every memory ordering of windrow-sync in turn; a loom model must fail each time.
//!
//! If no model notices a weaker ordering, the ordering is untested or stronger than needed. Both are failures.

mod run;
mod scratch;
mod weaken;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use run::{Outcome, TestFile};
use scratch::Scratch;
use weaken::Mutant;

use crate::house::SYNC;
use crate::loom;
use crate::orderings::{self, Crate, Site};
use crate::workspace::{self, Failure, Workspace, text};

/// A limit is this many times the unmutated run, so that a timeout means a hang and not a slow machine.
const HEADROOM: u32 = 10;
const SHORTEST_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Selects the sites whose line in the list contains this.
    only: Option<String>,
    jobs: usize,
    timeout: Option<Duration>,
    write_list: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Failure> {
        let mut options = Options { jobs: 1, ..Options::default() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| Failure(format!("{argument} needs a value")));
            match argument.as_str() {
                "--write-list" => options.write_list = true,
                "--only" => options.only = Some(value()?.clone()),
                "--jobs" => options.jobs = positive(argument, value()?)?,
                "--timeout" => options.timeout = Some(Duration::from_secs(positive(argument, value()?)? as u64)),
                _ => {
                    return Err(Failure(format!(
                        "unknown argument {argument}\n  hint: --only PATTERN, --jobs N, --timeout SECONDS, --write-list"
                    )));
                }
            }
        }
        Ok(options)
    }
}

fn positive(argument: &str, value: &str) -> Result<usize, Failure> {
    value
        .parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| Failure(format!("{argument} needs a positive number, not {value}")))
}

/// A mutant, its site, and the changed text of its file.
struct Task<'a> {
    site: &'a Site,
    mutant: Mutant,
}

struct Verdict {
    line: String,
    survived: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    if options.write_list {
        return orderings::write_list(workspace);
    }
    orderings::run(workspace)?;
    let root = workspace.root.join(SYNC);
    let files = orderings::load(&root)?;
    let sites = orderings::sites(&files);
    let tasks = tasks(&files, &sites, options.only.as_deref());
    if tasks.is_empty() {
        println!("no ordering to weaken");
        return Ok(());
    }
    loom::has_models(workspace)?;
    let package = workspace.members().into_iter().find(|member| text(member, "name") == "windrow-sync");
    let package = package.ok_or_else(|| Failure::new("the workspace has no windrow-sync"))?;
    let folder = workspace.target.join("mutants");
    let jobs = options.jobs.min(tasks.len());
    let scratches = (0..jobs).map(|n| Scratch::new(workspace, &root, package, &folder.join(n.to_string())));
    let scratches = scratches.collect::<Result<Vec<_>, _>>()?;

    println!("{} mutants of {} orderings, limits from the unchanged models:", tasks.len(), sites.len());
    let limits = limits(&scratches[0], options.timeout)?;
    let verdicts = judge_all(&files, tasks, &scratches, &limits)?;
    let survivors = verdicts.iter().filter(|verdict| verdict.survived).count();
    println!("{} mutants: {} killed, {survivors} survived", verdicts.len(), verdicts.len() - survivors);
    let lines: Vec<String> =
        verdicts.into_iter().filter(|verdict| verdict.survived).map(|verdict| verdict.line).collect();
    Failure::unless_empty("mutants that no model notices", &lines)
}

fn tasks<'a>(files: &Crate, sites: &'a [Site], only: Option<&str>) -> Vec<Task<'a>> {
    let chosen = sites.iter().filter(|site| site.in_loom && only.is_none_or(|pattern| site.key().contains(pattern)));
    chosen
        .flat_map(|site| weaken::mutants(&files[&site.file], site).into_iter().map(move |mutant| Task { site, mutant }))
        .collect()
}

/// Runs the unchanged models and gives each test file its limit.
fn limits(scratch: &Scratch, timeout: Option<Duration>) -> Result<Vec<(String, Duration)>, Failure> {
    let mut limits = Vec::new();
    for file in run::build(scratch)? {
        let start = Instant::now();
        // Long but finite: an endless model must not stop the whole run.
        let outcome = run::run(&file, timeout.unwrap_or(Duration::from_secs(1800)), true)?;
        let taken = start.elapsed();
        if outcome != Outcome::Passed {
            return Err(Failure(format!("the unchanged models must pass, but {}: {outcome:?}", file.name)));
        }
        let limit = limit(taken, timeout).map_err(|what| Failure(format!("{}: {what}", file.name)))?;
        println!("  {:32} {:6.1} s, limit {} s", file.name, taken.as_secs_f64(), limit.as_secs());
        limits.push((file.name, limit));
    }
    Ok(limits)
}

fn limit(taken: Duration, timeout: Option<Duration>) -> Result<Duration, String> {
    let needed = taken * HEADROOM;
    match timeout {
        Some(limit) if limit < needed => Err(format!(
            "a timeout of {} s is too near to the {:.1} s that the unchanged model takes\n  hint: --timeout {}",
            limit.as_secs(),
            taken.as_secs_f64(),
            needed.as_secs() + 1
        )),
        Some(limit) => Ok(limit),
        None => Ok(needed.max(SHORTEST_LIMIT)),
    }
}

fn judge_all(
    files: &Crate,
    tasks: Vec<Task>,
    scratches: &[Scratch],
    limits: &[(String, Duration)],
) -> Result<Vec<Verdict>, Failure> {
    let queue = Mutex::new(tasks.into_iter());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for scratch in scratches {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
                    let Some(task) = next else { return };
                    let verdict = judge(files, &task, scratch, limits);
                    let stop = verdict.is_err();
                    if sender.send(verdict).is_err() || stop {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut verdicts = Vec::new();
        for verdict in receiver {
            let verdict = verdict?;
            println!("{}", verdict.line);
            verdicts.push(verdict);
        }
        Ok(verdicts)
    })
}

/// Changes the scratch copy, runs its models, and changes it back.
fn judge(files: &Crate, task: &Task, scratch: &Scratch, limits: &[(String, Duration)]) -> Result<Verdict, Failure> {
    let Task { site, mutant } = task;
    let path = scratch.root.join(&site.file);
    let original = files[&site.file].text();
    let name = format!("{} {} #{}  {}", site.file, site.function, site.nth, mutant.label);
    workspace::write(&path, &mutant.apply(original))?;
    let outcome = outcome(site, scratch, limits).map_err(|Failure(what)| Failure(format!("{name}: {what}")));
    workspace::write(&path, original)?;
    let (result, survived) = match outcome? {
        Outcome::Passed => ("SURVIVED".to_owned(), true),
        Outcome::Failed(test) => (format!("killed by {test}"), false),
        Outcome::TimedOut(test) => (format!("killed by the time limit in {test}"), false),
    };
    Ok(Verdict { line: format!("{name:72}  {result}"), survived })
}

fn outcome(site: &Site, scratch: &Scratch, limits: &[(String, Duration)]) -> Result<Outcome, Failure> {
    let mut tests = run::build(scratch)?;
    order(&mut tests, Path::new(&site.file));
    for test in tests {
        let limit = limits.iter().find(|(name, _)| *name == test.name).map_or(SHORTEST_LIMIT, |&(_, limit)| limit);
        let outcome = run::run(&test, limit, false)?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Puts the models named like the file first: they are the likely ones to fail.
fn order(tests: &mut [TestFile], file: &Path) {
    let stem = file.file_stem().map_or_else(PathBuf::new, PathBuf::from);
    let stem = stem.to_string_lossy();
    tests.sort_by_key(|test| !test.name.contains(stem.as_ref()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn options(arguments: &[&str]) -> Result<Options, Failure> {
        Options::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let read = options(&["--only", "gate", "--jobs", "2", "--timeout", "30"]).expect("valid");
        let limit = Some(Duration::from_secs(30));
        assert_eq!(read, Options { only: Some("gate".to_owned()), jobs: 2, timeout: limit, write_list: false });
        assert_eq!(options(&[]).expect("valid").jobs, 1);
        for bad in [&["--jobs"][..], &["--jobs", "0"], &["--jobs", "x"], &["gate"]] {
            assert!(options(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_limit_keeps_its_distance() {
        let seconds = Duration::from_secs;
        assert_eq!(limit(seconds(1), None), Ok(SHORTEST_LIMIT));
        assert_eq!(limit(seconds(30), None), Ok(seconds(300)));
        assert_eq!(limit(seconds(2), Some(seconds(20))), Ok(seconds(20)));
        assert!(limit(seconds(2), Some(seconds(19))).is_err());
    }

    #[test]
    fn tasks_are_the_sites_that_loom_sees() {
        let text = "fn f() { a.swap(1, Ordering::AcqRel); b.load(Ordering::Acquire); }
            #[cfg(not(loom))] fn g() { a.load(Ordering::Acquire); }";
        let files: Crate = [("src/a.rs".to_owned(), Source::new(text))].into();
        let sites = orderings::sites(&files);
        assert_eq!((sites.len(), tasks(&files, &sites, None).len()), (3, 3));
        assert_eq!(tasks(&files, &sites, Some("f  2")).len(), 1);
        assert!(tasks(&files, &sites, Some("src/b.rs")).is_empty());
    }

    #[test]
    fn the_model_of_the_file_runs_first() {
        let test = |name: &str| TestFile { name: name.to_owned(), path: PathBuf::new() };
        let mut tests = [test("loom_a"), test("loom_gate"), test("loom_z")];
        order(&mut tests, Path::new("src/gate.rs"));
        assert_eq!(tests.map(|test| test.name), ["loom_gate", "loom_a", "loom_z"]);
    }
}
