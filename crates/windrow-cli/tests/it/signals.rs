//! Ctrl-C, SIGTERM and SIGHUP at many moments: the command ends soon and leaves nothing, or its output was complete.
//!
//! A process started in the background of a script, or by nohup, ignores some signals, and so do its children. These tests start the
//! command with the default dispositions, whatever their own dispositions are.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A command that still runs after so long does not react. It waits for nothing itself, but the system may make it wait for a disk.
const HANGS: Duration = Duration::from_secs(60);

const SIGHUP: (&str, i32) = ("-HUP", 1);
const SIGINT: (&str, i32) = ("-INT", 2);
const SIGTERM: (&str, i32) = ("-TERM", 15);

/// A program that executes another one with the default dispositions of signals.
fn defaults() -> Command {
    static WITH_ENV: OnceLock<bool> = OnceLock::new();
    let with_env = || Command::new("env").args(["--default-signal=HUP,INT,TERM", "true"]).output();
    if *WITH_ENV.get_or_init(|| with_env().is_ok_and(|ran| ran.status.success())) {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,TERM");
        return command;
    }
    let mut command = Command::new("perl");
    command.args(["-e", "$SIG{$_} = 'DEFAULT' for qw(HUP INT TERM); exec { $ARGV[0] } @ARGV or die"]);
    command
}

/// Starts the command. It is not there before it takes signals: until `env` has seen to that it would ignore them in a background job.
fn start(folder: &Path, arguments: &str) -> Child {
    let mut command = defaults();
    command.args(["sh", "-c", "echo; exec \"$0\" \"$@\" > /dev/null", env!("CARGO_BIN_EXE_windrow")]);
    let mut child = spawn(command.args(arguments.split_whitespace()), folder);
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    child
}

fn spawn(command: &mut Command, folder: &Path) -> Child {
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: (&str, i32)) {
    assert!(Command::new("kill").args([signal.0, &child.id().to_string()]).status().unwrap().success());
}

/// Waits for the end, with a timeout.
#[track_caller]
fn wait(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > HANGS {
            child.kill().unwrap();
            panic!("it has not ended after {HANGS:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How a run ended after a signal.
struct Ended {
    /// Time since just before the signal was sent.
    after: Duration,
    complete: bool,
}

/// Sends the signal and waits for the end. `inputs` are the files that existed before.
#[track_caller]
fn stop(mut child: Child, signal: (&str, i32), folder: &Path, inputs: &[&str]) -> Ended {
    let begin = Instant::now();
    // A child that has ended still exists until it is waited for.
    send(&child, signal);
    let status = wait(&mut child);
    let after = begin.elapsed();
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    let names: BTreeSet<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let before: BTreeSet<String> = inputs.iter().map(|&name| name.to_owned()).collect();
    let new: Vec<&String> = names.difference(&before).collect();
    let complete = status.code() == Some(0);
    if complete {
        assert_eq!(new, ["out.bin", "out.idx", "out.manifest.json"], "{said}");
        for name in new {
            fs::remove_file(folder.join(name)).unwrap();
        }
    } else {
        // Before the command watches for signals, a signal kills it like any other program.
        let early = status.signal() == Some(signal.1);
        assert!(early || status.code() == Some(128 + signal.1), "{status}: {said}");
        assert!(early || said.ends_with("error: interrupted; nothing was published\n"), "{said}");
        assert_eq!(new, Vec::<&String>::new(), "{said}");
    }
    Ended { after, complete }
}

/// Prints how long it took: some milliseconds, but the disk and other programs matter too, so no figure is asserted.
fn judge(what: &str, mut ended: Vec<Ended>) {
    ended.sort_by_key(|ended| ended.after);
    let (median, slowest) = (ended[ended.len() / 2].after, ended[ended.len() - 1].after);
    let complete = ended.iter().filter(|ended| ended.complete).count();
    println!("{what}: {} runs, {complete} complete; median {median:.1?}, slowest {slowest:.1?}", ended.len());
}

#[test]
fn while_it_reads_encodes_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "the quick brown fox jumps over the lazy dog \n".repeat(1_500);
    let mut ended = Vec::new();
    for moment in (0..24_usize).step_by(windrow_testkit::step(4)) {
        let memory = ["1G", "1M"][moment / 4 % 2];
        let mut child = start(
            folder.path(),
            &format!("encode - --lines -o out --tokenizer gpt2 --format megatron --memory {memory} --quiet"),
        );
        // The moment is a point of progress: the command has read this much, except for what a pipe buffers.
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..moment * moment {
            stdin.write_all(lines.as_bytes()).unwrap();
        }
        let signal = [SIGINT, SIGHUP, SIGTERM][moment % 3];
        ended.push(stop(child, signal, folder.path(), &[]));
        drop(stdin);
    }
    assert!(ended.iter().all(|ended| !ended.complete), "its input had no end");
    judge("endless input", ended);
}

#[test]
fn from_its_first_instruction_to_its_last() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.txt"), "the quick brown fox jumps over the lazy dog\n".repeat(100_000)).unwrap();
    let arguments = "encode in.txt --lines -o out --tokenizer gpt2 --format megatron --quiet";
    let whole = {
        let begin = Instant::now();
        let mut child = start(folder.path(), arguments);
        assert!(wait(&mut child).success());
        for name in ["out.bin", "out.idx", "out.manifest.json"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        begin.elapsed()
    };
    let mut ended = Vec::new();
    for moment in (0..40_u32).step_by(windrow_testkit::step(4)) {
        let child = start(folder.path(), arguments);
        // At most of these moments no progress is visible from outside, so they are points in time, the last ones dense.
        let at = if moment < 20 { whole * moment / 20 } else { whole * 3 / 4 + whole * (moment - 20) / 50 };
        std::thread::sleep(at);
        ended.push(stop(child, SIGINT, folder.path(), &["in.txt"]));
    }
    assert!(ended.iter().any(|ended| !ended.complete), "the first signal comes before anything is done");
    judge("whole run", ended);
}

#[test]
fn in_the_middle_of_one_huge_document() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.txt"), "the quick brown fox jumps over the lazy dog, ".repeat(2_000_000)).unwrap();
    let mut ended = Vec::new();
    for moment in 0..6_u32 {
        let child = start(
            folder.path(),
            "encode in.txt -o out --tokenizer gpt2 --format megatron --threads 1 --memory 1M --quiet",
        );
        while !folder.path().join("out.bin.windrow-part").exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(60) * moment);
        ended.push(stop(child, SIGINT, folder.path(), &["in.txt"]));
    }
    judge("one document", ended);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for (name, signal) in [("HUP", SIGHUP), ("INT", SIGINT), ("TERM", SIGTERM)] {
        // As nohup does, and a script for its background jobs.
        let script = format!(
            "trap '' {name}; exec {} encode - --lines -o out --tokenizer gpt2 --format megatron --quiet",
            env!("CARGO_BIN_EXE_windrow")
        );
        let mut command = defaults();
        command.args(["sh", "-c", &script]);
        let mut child = spawn(&mut command, folder.path());
        let mut stdin = child.stdin.take().unwrap();
        let begin = Instant::now();
        // Once the lock exists, the command watches for signals.
        while !folder.path().join("out.windrow-lock").exists() {
            assert!(begin.elapsed() < HANGS && child.try_wait().unwrap().is_none(), "{name}: it does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        send(&child, signal);
        stdin.write_all(b"one\ntwo\n").unwrap();
        drop(stdin);
        assert!(wait(&mut child).success(), "{name}");
        for name in ["out.bin", "out.idx", "out.manifest.json"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}

#[test]
fn bench_leaves_no_folder_and_no_output() {
    for signal in [SIGINT, SIGTERM] {
        let place = tempfile::tempdir().unwrap();
        let mut command = defaults();
        command.arg(env!("CARGO_BIN_EXE_windrow")).env("TMPDIR", ".");
        command.args(["bench", "--only", "rounds", "--report", "out.html", "--json", "out.json"]);
        let mut child = spawn(&mut command, place.path());
        let scratch = format!("windrow-bench-{}", child.id());
        let begin = Instant::now();
        while !place.path().join(&scratch).exists() {
            assert!(begin.elapsed() < HANGS, "no folder for its files");
            std::thread::sleep(Duration::from_millis(1));
        }
        send(&child, signal);
        assert_eq!(wait(&mut child).code(), Some(128 + signal.1));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("error: interrupted; nothing was published\n"), "{said}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "the folder is empty");
        assert!(!Path::new("/dev/shm").join(scratch).exists());
    }
}
