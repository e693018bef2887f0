//! `windrow plan --calibrate mpi`, started by `mpiexec` (or the program in `MPIEXEC`).

use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

const SHAPE: &str = "plan matmul-reduce-scatter --m 64 --n 64 --k 48 --align 4 --calibrate mpi";

/// Runs a program with arguments on `ranks` ranks. A hanging program is ended after two minutes.
fn mpiexec(ranks: usize, program: &[&str], line: &str, folder: &tempfile::TempDir) -> Output {
    // The ranks of one run need the processors for themselves.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mpiexec = std::env::var_os("MPIEXEC").unwrap_or("mpiexec".into());
    let mut command = Command::new(&mpiexec);
    command.args(["-n", &ranks.to_string()]).args(program).args(line.split_whitespace());
    command.env("MPIEXEC_TIMEOUT", "120").current_dir(folder.path());
    command.output().unwrap_or_else(|error| panic!("{mpiexec:?}: {error}"))
}

const WINDROW: &[&str] = &[env!("CARGO_BIN_EXE_windrow")];

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// All ranks refuse with this code, and one of them reports it.
#[track_caller]
fn refused(ranks: usize, line: &str, code: i32, says: &[&str]) {
    let folder = place();
    let output = mpiexec(ranks, WINDROW, line, &folder);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{line}\n{stdout}\n{stderr}");
    assert!(says.iter().all(|part| stderr.contains(part)), "{line}\n{stdout}\n{stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{line}");
}

/// It ends with a plan, however its samples scatter.
#[test]
fn all_ranks_calibrate_and_one_speaks() {
    let folder = place();
    let line = format!("{SHAPE} --ranks 2 --refine --max-tiles 3 --json --samples-out s.csv --svg t.svg --overwrite");
    let output = mpiexec(2, WINDROW, &line, &folder);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let samples = std::fs::read_to_string(folder.path().join("s.csv")).unwrap();
    let each = (samples.lines().count() - 1) / 2;
    assert!([3, 6, 12].map(|passes| 5 * passes).contains(&each), "{samples}");
    assert_eq!((stdout.lines().count(), stderr.contains("error: ")), (1, false), "{stdout}\n{stderr}");
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&plan["ranks"], &plan["max_tiles"]), (&2.into(), &3.into()));
    assert_eq!(plan["tiles"], plan["refined"][0]["tiles"]);
    let tiles: Vec<u64> = serde_json::from_value(plan["tiles"].clone()).unwrap();
    assert!(tiles.iter().sum::<u64>() == 64 && tiles.len() <= 3 && tiles.iter().all(|tile| tile % 2 == 0));
    assert!(folder.path().join("t.svg").exists());
}

#[test]
fn the_ranks_are_those_of_the_world() {
    let says = ["error: --ranks is 3, but the number of MPI processes is 2\n\
         hint: start windrow with mpiexec -n 3, or pass --ranks 2"];
    refused(2, &format!("{SHAPE} --ranks 3").replace("reduce-scatter", "all-reduce"), 2, &says);
    refused(1, &format!("{SHAPE} --ranks 2"), 2, &["but the number of MPI processes is 1\nhint: run mpiexec -n 2"]);
}

#[test]
fn what_one_rank_refuses_all_refuse() {
    // Refused before anything is measured: on all ranks, and on rank 0 only.
    let odd = SHAPE.replace("--m 64", "--m 63");
    refused(2, &format!("{odd} --ranks 2"), 2, &["63 rows cannot be divided evenly among 2 ranks"]);
    refused(2, &format!("{SHAPE} --ranks 2 --svg no/t.svg"), 73, &["no does not exist"]);
}

/// The documentation forbids this. It is still an error, reported by rank 0, and no rank hangs.
#[test]
fn ranks_with_other_arguments() {
    let with = |other: &str| format!("{SHAPE} --ranks 2 : -n 1 {} {other} --ranks 2", WINDROW[0]);
    refused(
        1,
        &with(&SHAPE.replace("--m 64", "--m 63")),
        2,
        &["error: rank 1: 63 rows cannot be divided evenly among 2 ranks"],
    );
    refused(
        1,
        &with(&SHAPE.replace("--n 64", "--n 32")),
        1,
        &["error: cannot calibrate: ", "64 on rank 0, but 32 on rank 1"],
    );
    refused(1, &with(&SHAPE.replace("--m 64", "--m 48")), 1, &["error: cannot calibrate: ", "m is "]);
}

/// A run that ends with this code after its calibration, and prints this message once.
#[track_caller]
fn ends(program: &[&str], line: &str, code: i32, says: &str) {
    let output = mpiexec(2, program, line, &place());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && stderr.contains(says), "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
}

/// Rank 0 fails after all ranks have measured, and no rank hangs.
#[test]
fn what_rank_0_alone_cannot_do_ends_all() {
    let line = format!("{SHAPE} --ranks 2");
    ends(WINDROW, &format!("{line} --replay no.json"), 2, "error: no.json does not exist");
    if cfg!(target_os = "linux") {
        let full = format!("exec {} \"$@\" >/dev/full", env!("CARGO_BIN_EXE_windrow"));
        ends(&["sh", "-c", &full, "windrow"], &line, 74, "error: cannot write to stdout: ");
    }
}
