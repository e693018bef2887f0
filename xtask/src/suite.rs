//! Builds test binaries with Cargo, and runs them and the suites of other languages side by side.
//!
//! `cargo test` runs one binary after the other, and waits at the end of each for its slowest test. Here as many programs run at once as
//! keep the processors busy. The output of each goes to a separate file, which is shown if the program fails.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{self, Workspace, text};

/// A binary that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Deadline of a test: the slowest takes some ten seconds on two busy processors.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// End of the line that libtest prints of a test that is slow, after a minute.
const SLOW: &str = " has been running for over 60 seconds";

/// A program that tests something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tests {
    /// The package and the target, as in `windrow::batch`.
    pub(crate) name: String,
    program: PathBuf,
    words: Vec<String>,
    /// The folder of the package, where tests are run.
    folder: PathBuf,
}

impl Tests {
    pub(crate) fn new(name: &str, program: impl Into<PathBuf>, words: &[&str], folder: impl Into<PathBuf>) -> Tests {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Tests { name: name.to_owned(), program: program.into(), words, folder: folder.into() }
    }
}

/// Products of a build.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) tests: Vec<Tests>,
    /// Dynamic libraries of members.
    libraries: Vec<PathBuf>,
}

impl Built {
    /// The dynamic library of the member with this name of a library.
    pub(crate) fn library(&self, name: &str) -> Result<&Path> {
        let is_it = |file: &&PathBuf| {
            let stem = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
            stem == name || stem == format!("lib{name}")
        };
        self.libraries.iter().find(is_it).map(PathBuf::as_path).with_context(|| format!("Cargo has built no {name}"))
    }
}

/// Builds all targets that these arguments of `cargo build` select: tests, and the libraries that other languages load.
pub(crate) fn build(root: &Path, words: &[&str]) -> Result<Built> {
    built(workspace::cargo(root, &["build", "--lib", "--bins", "--tests", "--examples", "--locked"]).args(words))
}

/// Runs a build.
pub(crate) fn built(command: &mut Command) -> Result<Built> {
    let messages = workspace::output_of(command.args(["--message-format", "json-render-diagnostics"]))?;
    Ok(Built { tests: binaries(&messages), libraries: libraries(&messages) })
}

fn parsed(messages: &str) -> impl Iterator<Item = Value> {
    messages.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The dynamic libraries in Cargo's messages, but macros.
fn libraries(messages: &str) -> Vec<PathBuf> {
    let made = parsed(messages).filter(|message| message["target"]["kind"] == serde_json::json!(["cdylib"]));
    let files = made.flat_map(|message| {
        let files = workspace::list(&message, "filenames").iter().filter_map(Value::as_str).map(PathBuf::from);
        files.collect::<Vec<_>>()
    });
    files
        .filter(|file| file.extension().is_some_and(|it| ["so", "dylib", "dll"].iter().any(|one| it == *one)))
        .collect()
}

/// The test binaries in Cargo's messages, the largest first: it is likely to run longest.
fn binaries(messages: &str) -> Vec<Tests> {
    let tests = parsed(messages).filter(|it| it["profile"]["test"] == true && it["executable"].is_string());
    let mut binaries: Vec<Tests> = tests
        .map(|message| {
            let folder = Path::new(text(&message, "manifest_path")).parent().unwrap_or(Path::new("")).to_owned();
            let package = folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
            let target = &message["target"];
            let kind = target["kind"][0].as_str().filter(|kind| *kind != "test").map(|kind| format!("{kind} "));
            let name = format!("{package}::{}{}", kind.unwrap_or_default(), text(target, "name"));
            Tests::new(&name, text(&message, "executable"), &[], folder)
        })
        .collect();
    let size = |binary: &Tests| fs::metadata(&binary.program).map_or(0, |facts| facts.len());
    binaries.sort_by_cached_key(|binary| (Reverse(size(binary)), binary.name.clone()));
    binaries
}

/// The outcome of a run of one binary.
pub(crate) struct Ran {
    name: String,
    pub(crate) took: Duration,
    pub(crate) output: String,
    /// If it failed: how it ended.
    pub(crate) failed: Option<String>,
}

/// Runs all of them, as many at once as half of the processors, at least two: each uses several threads. Shows the failures.
/// `cases` multiplies the random cases of properties.
pub(crate) fn run(workspace: &Workspace, all: Vec<Tests>, cases: Option<&str>) -> Result<()> {
    let jobs = thread::available_parallelism().map_or(2, |cpus| cpus.get().div_ceil(2)).max(2);
    let logs = workspace.target.join("xtask/tests");
    let ran = side_by_side(vec![(); jobs], all, |(), tests| {
        let mut slow = Slow::default();
        let environment = cases.map(|cases| ("WINDROW_CASES", cases));
        let ran = one(&tests, &logs, LIMIT, &[], environment, |output| slow.hangs(output))?;
        println!("test: {:7.1} s  {}  {}", ran.took.as_secs_f64(), ran.name, ran.failed.as_deref().unwrap_or("ok"));
        Ok(ran)
    });
    let ran = ran.into_iter().collect::<Result<Vec<Ran>>>()?;
    let failed: Vec<String> = ran.iter().filter_map(show).collect();
    let sum = |what| ran.iter().map(|ran| count(&ran.output, what)).sum::<usize>();
    println!("test: {} Rust tests passed, {} failed", sum(" passed"), sum(" failed"));
    workspace::unless_empty("tests failed", &failed)
}

/// If the binary failed, shows its output and returns a line about it.
fn show(ran: &Ran) -> Option<String> {
    let how = ran.failed.as_ref()?;
    println!("\ntest: {} failed ({how}):\n{}", ran.name, ran.output);
    Some(format!("{} ({how})", ran.name))
}

/// Does all tasks, as many at once as there are workers.
pub(crate) fn side_by_side<W: Send, T: Send, R: Send>(
    workers: Vec<W>,
    tasks: Vec<T>,
    work: impl Fn(&W, T) -> R + Sync,
) -> Vec<R> {
    let (waiting, done, work) = (&Mutex::new(tasks.into_iter()), &Mutex::new(Vec::new()), &work);
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || {
                loop {
                    let Some(task) = lock(waiting).next() else { return };
                    let result = work(&worker, task);
                    lock(done).push(result);
                }
            });
        }
    });
    std::mem::take(&mut lock(done))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a binary as `cargo test` does, until it ends, the limit has passed, or its output `is_enough`.
pub(crate) fn one(
    binary: &Tests,
    logs: &Path,
    limit: Duration,
    words: &[&str],
    environment: Option<(&str, &str)>,
    mut is_enough: impl FnMut(&str) -> bool,
) -> Result<Ran> {
    let log = logs.join(binary.name.replace("::", "-").replace(' ', "-") + ".log");
    fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let file = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let output = || fs::read(&log).map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut command = Command::new(&binary.program);
    command.args(&binary.words).args(words).current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command.env("CARGO_MANIFEST_PATH", binary.folder.join("Cargo.toml"));
    command.envs(environment).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let start = Instant::now();
    let failed = match command.spawn() {
        Ok(mut child) => ended(&mut child, start + limit, || is_enough(&output())).err(),
        Err(error) => Some(format!("cannot be started: {error}")),
    };
    Ok(Ran { name: binary.name.clone(), took: start.elapsed(), output: output(), failed })
}

/// The tests that libtest has called slow, and when that was seen.
#[derive(Default)]
struct Slow(BTreeMap<String, Instant>);

impl Slow {
    /// True if one of them is past its deadline. Shows its name.
    fn hangs(&mut self, output: &str) -> bool {
        for name in output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(SLOW)) {
            let since = *self.0.entry(name.to_owned()).or_insert_with(Instant::now);
            let has_ended = || output.lines().any(|line| line.starts_with(&format!("test {name} ... ")));
            if since.elapsed() + Duration::from_secs(60) > DEADLINE && !has_ended() {
                println!("test: {name} hangs: it has been running for {} s", DEADLINE.as_secs());
                return true;
            }
        }
        false
    }
}

/// The sum of the numbers before `what` in lines like `test result: ok. 3 passed; 0 failed; 0 ignored`.
fn count(log: &str, what: &str) -> usize {
    let results = log.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(what));
    results.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

fn ended(child: &mut Child, limit: Instant, mut is_enough: impl FnMut() -> bool) -> Result<(), String> {
    loop {
        let why = match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() > limit => TIMED_OUT,
            Ok(None) if is_enough() => "ended early",
            Ok(None) => {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        };
        // The kill fails if the process has just ended by itself; that is fine.
        let _ = child.kill();
        let _ = child.wait();
        return Err(why.to_owned());
    }
}

pub(crate) const TIMED_OUT: &str = "still running at its time limit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_among_messages() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"manifest_path":"/w/windrow/Cargo.toml","target":{{"kind":["{kind}"],"name":"batch"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let tests = [message("test", true, "\"/t/1\""), message("lib", true, "\"/t/2\"")];
        let others = [message("bin", false, "\"/t/3\""), message("lib", false, "null"), "Compiling windrow".to_owned()];
        let found = binaries(&[&tests[..], &others].concat().join("\n"));
        let names: Vec<(&str, &Path)> = found.iter().map(|it| (it.name.as_str(), it.program.as_path())).collect();
        assert_eq!(names, [("windrow::batch", Path::new("/t/1")), ("windrow::lib batch", Path::new("/t/2"))]);
    }

    /// A binary that fails, hangs or cannot be started is a failure, with its output.
    #[cfg(unix)]
    #[test]
    fn a_binary_that_fails_is_reported() {
        let logs = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
        let run = |program: &str, script: &str, limit: u64| {
            let tests = Tests::new(&script.replace('/', "-"), program, &["-c", script], "/");
            let is_enough = |output: &str| output.contains("FAILED");
            let ran = one(&tests, &logs, Duration::from_millis(limit), &[], None, is_enough);
            let ran = ran.expect("logs can be written");
            (ran.output, ran.failed.unwrap_or_default())
        };
        assert_eq!(run("/bin/sh", "echo out; echo err >&2", 60_000), ("out\nerr\n".to_owned(), String::new()));
        assert!(run("/bin/sh", "exit 1", 60_000).1.contains("exit status: 1"));
        assert!(run("/no/such", "", 60_000).1.contains("cannot be started"));
        // Wait for ever: only the limit, or the output, ends them.
        assert_eq!(run("/bin/sh", "while :; do :; done", 100).1, TIMED_OUT);
        assert_eq!(run("/bin/sh", "echo FAILED; while :; do :; done", 60_000).1, "ended early");
        fs::remove_dir_all(logs).expect("they were written");
    }
}
