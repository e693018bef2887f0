//! `windrow plan --calibrate mpi`, started by `mpiexec` (or what `MPIEXEC` names).

use std::process::{Command, Output};

use serde_json::Value;

const SHAPE: &str = "plan matmul-reduce-scatter --m 256 --n 64 --k 48 --align 4 --calibrate mpi";

/// Runs the command on so many ranks. One that hangs is ended after two minutes.
fn mpiexec(ranks: usize, line: &str, folder: &tempfile::TempDir) -> Output {
    let mpiexec = std::env::var_os("MPIEXEC").unwrap_or("mpiexec".into());
    let mut command = Command::new(&mpiexec);
    command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_windrow")]).args(line.split_whitespace());
    command.env("MPIEXEC_TIMEOUT", "120").current_dir(folder.path());
    command.output().unwrap_or_else(|error| panic!("{mpiexec:?}: {error}"))
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// All ranks refuse with this code, and one of them says so.
#[track_caller]
fn refused(ranks: usize, line: &str, code: i32, says: &[&str]) {
    let folder = place();
    let output = mpiexec(ranks, line, &folder);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{line}\n{stdout}\n{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{line}\n{stdout}\n{stderr}");
    assert!(says.iter().all(|part| stderr.contains(part)), "{line}\n{stdout}\n{stderr}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{line}");
}

/// Its samples may scatter too much for a fit: then they are written all the same, and it is tried again.
#[test]
fn all_ranks_calibrate_and_one_speaks() {
    let folder = place();
    let line = format!("{SHAPE} --ranks 2 --refine --max-tiles 3 --json --samples-out s.csv --svg t.svg --overwrite");
    let mut last = String::new();
    for _ in 0..20 {
        let output = mpiexec(2, &line, &folder);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let samples = std::fs::read_to_string(folder.path().join("s.csv")).unwrap();
        assert_eq!(samples.lines().count(), 1 + 2 * 5 * 3, "{samples}");
        if output.status.code() == Some(65) {
            assert_eq!(stderr.matches("error: the calibration, stage ").count(), 1, "{stderr}");
            last = stderr.into_owned();
            continue;
        }
        assert!(output.status.success(), "{stdout}\n{stderr}");
        assert_eq!((stdout.lines().count(), &*stderr), (1, ""), "{stdout}");
        let plan: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((&plan["ranks"], &plan["max_tiles"]), (&2.into(), &3.into()));
        assert_eq!(plan["tiles"], plan["refined"][0]["tiles"]);
        let tiles: Vec<u64> = serde_json::from_value(plan["tiles"].clone()).unwrap();
        assert!(tiles.iter().sum::<u64>() == 256 && tiles.len() <= 3 && tiles.iter().all(|tile| tile % 2 == 0));
        assert!(folder.path().join("t.svg").exists());
        return;
    }
    panic!("it is always refused: {last}");
}

#[test]
fn the_ranks_are_those_of_the_world() {
    let says = ["error: --ranks is 3, and MPI has 2\nhint: mpiexec -n 3, or --ranks 2"];
    refused(2, &format!("{SHAPE} --ranks 3"), 2, &says);
    refused(1, &format!("{SHAPE} --ranks 2"), 2, &["and MPI has 1\nhint: start it with mpiexec -n 2"]);
}

#[test]
fn what_one_rank_refuses_all_refuse() {
    // Before anything is measured: on all ranks, and on rank 0 alone.
    let odd = SHAPE.replace("256", "255");
    refused(2, &format!("{odd} --ranks 2"), 2, &["255 rows cannot be dealt out to 2 ranks"]);
    refused(2, &format!("{SHAPE} --ranks 2 --svg no/t.svg"), 73, &["no does not exist"]);
    // And afterwards, when the others wait.
    refused(2, &format!("{SHAPE} --ranks 2 --replay no.json"), 2, &["no.json does not exist"]);
}

/// Rank 0 cannot print, and nobody waits for it.
#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_is_full() {
    let folder = place();
    let script = folder.path().join("windrow.sh");
    std::fs::write(&script, format!("exec {} \"$@\" >/dev/full", env!("CARGO_BIN_EXE_windrow"))).unwrap();
    let mut command = Command::new(std::env::var_os("MPIEXEC").unwrap_or("mpiexec".into()));
    command.args(["-n", "2", "sh"]).arg(&script).args(format!("{SHAPE} --ranks 2").split_whitespace());
    let mut codes = Vec::new();
    for _ in 0..20 {
        let output = command.env("MPIEXEC_TIMEOUT", "120").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        codes.push(output.status.code());
        if output.status.code() == Some(74) {
            assert_eq!(stderr.matches("error: cannot write to stdout: ").count(), 1, "{stderr}");
            return;
        }
        // The fit was refused.
        assert_eq!(output.status.code(), Some(65), "{stderr}");
    }
    panic!("{codes:?}");
}
