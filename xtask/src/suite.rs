//! Builds the test binaries of the workspace with Cargo, and runs them side by side or repeatedly.
//!
//! `cargo test` runs one binary after the other, and waits at the end of each for its slowest test. Here as many binaries run at once as
//! keep the processors busy. The output of each goes to a separate file, which is shown if the binary fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::workspace::{self, Failure, Workspace, text};

/// A binary that takes longer hangs: the slowest takes less than a minute on two processors.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A test binary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binary {
    /// The package and the target, as in `windrow::batch`.
    name: String,
    program: PathBuf,
    /// The folder of the package, where tests are run.
    folder: PathBuf,
}

/// Builds the tests that these arguments of `cargo test` select.
pub(crate) fn build(workspace: &Workspace, words: &[&str]) -> Result<Vec<Binary>, Failure> {
    let mut command = workspace::cargo();
    command.args(["test", "--no-run", "--locked", "--message-format", "json-render-diagnostics"]).args(words);
    command.current_dir(&workspace.root).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure(format!("cannot start cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure(format!("cargo test --no-run {}: {}", words.join(" "), output.status)));
    }
    Ok(binaries(&String::from_utf8_lossy(&output.stdout)))
}

/// The test binaries in Cargo's messages.
fn binaries(messages: &str) -> Vec<Binary> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter(|message| message["profile"]["test"] == true && message["executable"].is_string());
    let mut binaries: Vec<Binary> = tests
        .map(|message| {
            let folder = Path::new(text(&message, "manifest_path")).parent().unwrap_or(Path::new("")).to_owned();
            let package = folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
            let target = &message["target"];
            let kind = target["kind"][0].as_str().filter(|kind| *kind != "test").map(|kind| format!("{kind} "));
            Binary {
                name: format!("{package}::{}{}", kind.unwrap_or_default(), text(target, "name")),
                program: PathBuf::from(text(&message, "executable")),
                folder,
            }
        })
        .collect();
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    binaries
}

/// The outcome of a run of one binary.
struct Ran {
    name: String,
    took: Duration,
    /// The numbers of tests that passed and that failed, from the binary's output.
    counts: (usize, usize),
    /// If it failed: the file with its output, and how it ended.
    failed: Option<(PathBuf, String)>,
}

/// Runs all of them, and shows the failures.
pub(crate) fn run(workspace: &Workspace, binaries: &[Binary]) -> Result<(), Failure> {
    let ran = side_by_side(&workspace.target.join("xtask/tests"), binaries)?;
    let failed: Vec<String> = ran.iter().filter_map(show).collect();
    let mut slowest: Vec<&Ran> = ran.iter().collect();
    slowest.sort_by_key(|ran| std::cmp::Reverse(ran.took));
    let slowest: Vec<String> =
        slowest.iter().take(5).map(|ran| format!("{} {:.1} s", ran.name, ran.took.as_secs_f64())).collect();
    println!("test: {} binaries; the slowest are {}", ran.len(), slowest.join(", "));
    let sum = |of: fn(&Ran) -> usize| ran.iter().map(of).sum::<usize>();
    println!("test: {} passed, {} failed", sum(|ran| ran.counts.0), sum(|ran| ran.counts.1));
    Failure::unless_empty("tests failed", &failed)
}

/// If the binary failed, shows its output and returns a line about it.
fn show(ran: &Ran) -> Option<String> {
    let (log, how) = ran.failed.as_ref()?;
    let output = fs::read(log).unwrap_or_default();
    println!("\ntest: {} failed ({how}):\n{}", ran.name, String::from_utf8_lossy(&output));
    Some(format!("{} ({how})", ran.name))
}

/// Runs as many binaries at once as half of the processors, at least two.
fn side_by_side(logs: &Path, binaries: &[Binary]) -> Result<Vec<Ran>, Failure> {
    fs::create_dir_all(logs).map_err(|error| Failure(format!("cannot create {}: {error}", logs.display())))?;
    // Each binary uses several threads.
    let jobs = thread::available_parallelism().map_or(2, |cpus| cpus.get().div_ceil(2)).max(2);
    let (waiting, ran) = (Mutex::new(binaries.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let Some(binary) = lock(&waiting).next() else { return };
                    let done = one(logs, binary);
                    let how = done.failed.as_ref().map_or("ok", |(_, how)| how);
                    println!("test: {:7.1} s  {}  {how}", done.took.as_secs_f64(), done.name);
                    lock(&ran).push(done);
                }
            });
        }
    });
    Ok(ran.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn one(logs: &Path, binary: &Binary) -> Ran {
    let log = logs.join(binary.name.replace("::", "-").replace(' ', "-") + ".log");
    let start = Instant::now();
    let how = started(&log, binary).and_then(|mut child| ended(&mut child, start + LIMIT));
    let counts = counts(&String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()));
    Ran { name: binary.name.clone(), took: start.elapsed(), counts, failed: how.err().map(|how| (log, how)) }
}

/// The numbers of passed and failed tests, from lines like `test result: ok. 3 passed; 0 failed; 0 ignored`.
fn counts(log: &str) -> (usize, usize) {
    let results = log.lines().filter_map(|line| line.strip_prefix("test result: "));
    results.fold((0, 0), |(passed, failed), line| {
        let number = |what: &str| {
            let before = line.split(what).next().unwrap_or("").rsplit([' ', ';']).find(|word| !word.is_empty());
            before.and_then(|word| word.parse::<usize>().ok()).unwrap_or(0)
        };
        (passed + number(" passed"), failed + number(" failed"))
    })
}

/// Starts the binary as `cargo test` does.
fn started(log: &Path, binary: &Binary) -> Result<Child, String> {
    let output = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
    let (output, errors) = output.map_err(|error| format!("cannot create {}: {error}", log.display()))?;
    let mut command = Command::new(&binary.program);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command.env("CARGO_MANIFEST_PATH", binary.folder.join("Cargo.toml"));
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().map_err(|error| format!("cannot be started: {error}"))
}

fn ended(child: &mut Child, limit: Instant) -> Result<(), String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("still running after {} minutes", LIMIT.as_secs() / 60));
            }
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

/// Processes that keep two processors busy until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn two() -> Result<Busy, Failure> {
        let mut busy = Busy(Vec::new());
        for _ in 0..2 {
            let child = Command::new("yes").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            busy.0.push(child.map_err(|error| Failure(format!("cannot start yes: {error}")))?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The arguments of `repeat`.
#[derive(Debug, PartialEq)]
pub(crate) struct Repeat {
    times: usize,
    /// Parts of the names of binaries; empty for all binaries.
    names: Vec<String>,
}

impl Repeat {
    pub(crate) fn parse(words: &[String]) -> Result<Repeat, Failure> {
        let hint = "hint: cargo xtask repeat 20, or cargo xtask repeat 20 windrow::batch";
        let (times, names) = words.split_first().ok_or_else(|| Failure(format!("no number of times\n  {hint}")))?;
        match times.parse() {
            Ok(times @ 1..) => Ok(Repeat { times, names: names.to_vec() }),
            _ => Err(Failure(format!("{times:?} is not a number of times\n  {hint}"))),
        }
    }
}

/// Runs tests repeatedly, every second time beside two busy processes. All failures are shown at the end.
pub(crate) fn repeat(
    workspace: &Workspace,
    binaries: Vec<Binary>,
    Repeat { times, names }: &Repeat,
) -> Result<(), Failure> {
    let chosen = |binary: &Binary| names.is_empty() || names.iter().any(|name| binary.name.contains(name.as_str()));
    let binaries: Vec<Binary> = binaries.into_iter().filter(chosen).collect();
    if binaries.is_empty() {
        return Err(Failure(format!("no test binary is called {}", names.join(" or "))));
    }
    let logs = workspace.target.join("xtask/repeat");
    let mut failed = Vec::new();
    for round in 1..=*times {
        let loaded = round % 2 == 0;
        let _busy = if loaded { Some(Busy::two()?) } else { None };
        let (start, load) = (Instant::now(), if loaded { "beside two busy processes" } else { "as the machine is" });
        let ran = side_by_side(&logs.join(round.to_string()), &binaries)?;
        let failures: Vec<String> = ran.iter().filter_map(show).collect();
        let passed = ran.len() - failures.len();
        println!(
            "repeat: round {round} of {times}, {load}: {passed} of {} passed, {:.1} s",
            ran.len(),
            start.elapsed().as_secs_f64()
        );
        failed.extend(failures.into_iter().map(|failure| format!("round {round}, {load}: {failure}")));
    }
    Failure::unless_empty("tests failed", &failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_binary_are_counted() {
        let log = "running 3 tests\ntest result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured\n\ntest result: ok. 5 passed; 0 failed";
        assert_eq!(counts(log), (17, 1));
        assert_eq!(counts("no test harness"), (0, 0));
    }

    #[test]
    fn test_binaries_are_found_among_messages() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/windrow/Cargo.toml","target":{{"kind":["{kind}"],"name":"batch"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            message("test", true, r#""/t/batch-1""#),
            message("lib", true, r#""/t/windrow-1""#),
            message("bin", false, r#""/t/windrow""#),
            message("lib", false, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "   Compiling windrow".to_owned(),
        ];
        let found: Vec<_> =
            binaries(&messages.join("\n")).into_iter().map(|binary| (binary.name, binary.program)).collect();
        let expected = [("windrow::batch", "/t/batch-1"), ("windrow::lib batch", "/t/windrow-1")];
        assert_eq!(found, expected.map(|(name, program)| (name.to_owned(), PathBuf::from(program))));
    }

    #[test]
    fn a_number_of_times_is_needed() {
        let parse = |words: &[&str]| Repeat::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&["20"]).expect("a number"), Repeat { times: 20, names: Vec::new() });
        assert_eq!(parse(&["3", "windrow::batch"]).expect("a number").names, ["windrow::batch"]);
        for wrong in [&[][..], &["0"], &["many"], &["-1"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    /// A binary that fails, hangs or cannot be started is a failure, with its output.
    #[cfg(unix)]
    #[test]
    fn a_binary_that_fails_is_reported() {
        let logs = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
        let binary = |program: &str| Binary {
            name: format!("p::{}", program.replace('/', "-")),
            program: program.into(),
            folder: "/".into(),
        };
        let ran =
            side_by_side(&logs, &["/bin/true", "/bin/false", "/no/such"].map(binary)).expect("logs can be written");
        let failed = |name: &str| ran.iter().find(|ran| ran.name.ends_with(name)).expect("all ran").failed.clone();
        assert_eq!(failed("true"), None);
        assert!(failed("false").is_some_and(|(log, how)| log.exists() && how.contains("exit status: 1")));
        assert!(failed("such").is_some_and(|(_, how)| how.contains("cannot be started")));
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        assert!(ended(&mut child, Instant::now()).is_err_and(|how| how.contains("still running")));
        fs::remove_dir_all(logs).expect("they were written");
    }
}
