//! Builds the loom tests of a scratch copy and runs them one by one, each with a time limit.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::scratch::Scratch;
use crate::loom;
use crate::workspace::{self, Failure, list, text};

/// A built test file.
#[derive(Clone)]
pub(super) struct TestFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Passed,
    /// The test that failed, or that ran when the process died.
    Failed(String),
    TimedOut(String),
}

/// # Errors
///
/// The compiler's messages: a mutant that does not compile proves nothing.
pub(super) fn build(scratch: &Scratch) -> Result<Vec<TestFile>, Failure> {
    let mut command = workspace::cargo();
    loom::configure(&mut command);
    command.args(["test", "--release", "--no-run", "--message-format=json-render-diagnostics", "--test", loom::TESTS]);
    command.current_dir(&scratch.root).env("CARGO_TARGET_DIR", &scratch.target);
    Ok(built(&workspace::output_of(&mut command)?))
}

fn built(messages: &str) -> Vec<TestFile> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = messages.filter(|message| {
        text(message, "reason") == "compiler-artifact"
            && list(&message["target"], "kind").iter().any(|kind| kind == "test")
    });
    let mut files: Vec<TestFile> = artifacts
        .filter_map(|artifact| {
            let path = artifact["executable"].as_str()?.into();
            Some(TestFile { name: text(&artifact["target"], "name").to_owned(), path })
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Runs one test file until its end, its first failure or the limit. With `loud`, shows the output of the tests.
pub(super) fn run(file: &TestFile, limit: Duration, loud: bool) -> Result<Outcome, Failure> {
    let mut command = Command::new(&file.path);
    loom::configure(&mut command);
    // One at a time, so that the last name printed is the test that runs.
    command.arg("--test-threads=1");
    watch(command, limit, loud).map(|outcome| match outcome {
        Outcome::Failed(test) => Outcome::Failed(format!("{}::{test}", file.name)),
        Outcome::TimedOut(test) => Outcome::TimedOut(format!("{}::{test}", file.name)),
        Outcome::Passed => Outcome::Passed,
    })
}

fn watch(mut command: Command, limit: Duration, loud: bool) -> Result<Outcome, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(if loud { Stdio::inherit() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| Failure(format!("cannot start {command:?}: {error}")))?;
    let mut pipe = child.stdout.take().expect("the output is piped");
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + limit;
    let mut output = Vec::new();
    let mut timed_out = loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => output.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
        if !loud && failed_test(&String::from_utf8_lossy(&output)).is_some() {
            break false;
        }
    };
    let shown = String::from_utf8_lossy(&output).into_owned();
    let failed = failed_test(&shown);
    let waited = |error| Failure(format!("cannot wait for {command:?}: {error}"));
    // A process that has closed its output may still be running.
    while !timed_out && (loud || failed.is_none()) && child.try_wait().map_err(waited)?.is_none() {
        timed_out = Instant::now() >= deadline;
        std::thread::sleep(Duration::from_millis(1));
    }
    if timed_out || failed.is_some() {
        // The kill fails if the process has just ended by itself; that is fine.
        let _ = child.kill();
    }
    let status = child.wait().map_err(waited)?;
    reader.join().map_err(|_| Failure::new("the reader of a test's output panicked"))?;
    let outcome = match failed {
        Some(test) => Outcome::Failed(test),
        None if timed_out => Outcome::TimedOut(running_test(&shown)),
        None if status.success() => Outcome::Passed,
        None => Outcome::Failed(running_test(&shown)),
    };
    if loud && outcome != Outcome::Passed {
        println!("{shown}");
    }
    Ok(outcome)
}

/// The name of a failed test in a report of libtest.
fn failed_test(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.starts_with("test ") && line.ends_with(" ... FAILED"))?;
    Some(line["test ".len()..line.len() - " ... FAILED".len()].to_owned())
}

/// The last test that was started; libtest prints its name before it runs.
fn running_test(output: &str) -> String {
    let started = output.lines().rev().filter_map(|line| line.strip_prefix("test "));
    started
        .filter_map(|line| line.split_once(" ..."))
        .map(|(name, _)| name.to_owned())
        .next()
        .unwrap_or_else(|| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_libtest_are_read() {
        let report = "running 2 tests\ntest a ... ok\ntest b::c - should panic ... FAILED\n";
        assert_eq!(failed_test(report).as_deref(), Some("b::c - should panic"));
        assert_eq!(failed_test("test a ... ok\ntest b ... "), None);
        assert_eq!(running_test("running 2 tests\ntest a ... ok\ntest b ... "), "b");
        assert_eq!(running_test("Segmentation"), "?");
    }

    #[test]
    fn test_files_are_found_among_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"x"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"loom_b"},"executable":"/t/b"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"loom_a"},"executable":"/t/a"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let names: Vec<String> = built(messages).into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["loom_a", "loom_b"]);
    }

    #[cfg(unix)]
    fn shell(script: &str, limit: Duration) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        watch(command, limit, false).expect("sh starts")
    }

    #[cfg(unix)]
    #[test]
    fn outcomes_are_told_apart() {
        let (minute, tenth) = (Duration::from_secs(60), Duration::from_millis(100));
        assert_eq!(shell("echo test a ... ok", minute), Outcome::Passed);
        assert_eq!(shell("echo test a ... FAILED; exit 101", minute), Outcome::Failed("a".to_owned()));
        assert_eq!(
            shell("echo test a ... ok; printf 'test b ... '; kill -ABRT $$", minute),
            Outcome::Failed("b".to_owned())
        );
        // Waits for ever: only the limit ends it.
        assert_eq!(shell("printf 'test a ... '; while :; do :; done", tenth), Outcome::TimedOut("a".to_owned()));
        assert_eq!(shell("exec > /dev/null; while :; do :; done", tenth), Outcome::TimedOut("?".to_owned()));
        // A failure ends the run at once, long before the limit.
        assert_eq!(shell("echo test a ... FAILED; while :; do :; done", minute), Outcome::Failed("a".to_owned()));
    }
}
