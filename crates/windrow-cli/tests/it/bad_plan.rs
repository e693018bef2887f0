//! Plans that cannot be made.

use crate::common::{Case, Place};
use crate::plan::{guide, samples};

const REST: &str = "--n 512 --k 64 --ranks 4 --cost samples.csv";

#[track_caller]
fn check(files: &[(&str, &[u8])], line: &str, code: i32, says: &[&str]) {
    let mut files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect();
    if !files.iter().any(|(name, _)| *name == "samples.csv") {
        files.push(("samples.csv", guide().into_bytes()));
    }
    Case { files, line, code, says }.check();
}

#[test]
fn arguments() {
    let good = format!("plan matmul-all-reduce --m 1024 {REST}");
    let calibrated = good.replace("--cost samples.csv", "--calibrate in-process");
    for (line, says) in [
        (
            good.replace("matmul-all-reduce", "matmul"),
            &["'matmul'", "matmul-all-reduce, matmul-reduce-scatter, all-gather-matmul"][..],
        ),
        (good.replace("--m 1024", "--m 0"), &["'0' for '--m", "expected a whole number, at least 1"]),
        (good.replace("--m 1024", "--m -5"), &["'-5' for '--m", "at least 1"]),
        (good.replace("--m 1024", "--m 1.5"), &["'1.5' for '--m", "whole number"]),
        (good.replace("--m 1024", "--m 1e3"), &["'1e3' for '--m"]),
        (good.replace("--m 1024", ""), &["required", "--m <ROWS>"]),
        (good.replace("--n 512", "--n 0"), &["'0' for '--n"]),
        (good.replace("--k 64", "--k 0"), &["'0' for '--k"]),
        (good.replace("--n 512", ""), &["required", "--n <COLUMNS>"]),
        (good.replace("--k 64", ""), &["required", "--k <DEPTH>"]),
        (
            good.replace("--m 1024", "--m 18446744073709551615"),
            &["the m x k matrix (18446744073709551615 x 64) is too large for any memory", "hint: "],
        ),
        (good.replace("--m 1024", "--m 9223372036854775807").replace("64", "1"), &["too large for any memory"]),
        (good.replace("--m 1024", "--m 99999999999999999999"), &["for '--m"]),
        (good.replace("--ranks 4", "--ranks 0"), &["'0' for '--ranks", "at least 2"]),
        (good.replace("--ranks 4", "--ranks 1"), &["one rank has no other rank to communicate with", "at least 2"]),
        (good.replace("--ranks 4", "--ranks -2"), &["'-2' for '--ranks"]),
        (good.replace("--ranks 4", "--ranks two"), &["'two' for '--ranks"]),
        (good.replace("--ranks 4", ""), &["required", "--ranks <RANKS>"]),
        (format!("{good} --align 0"), &["'0' for '--align"]),
        (
            calibrated.replace("all-reduce", "reduce-scatter").replace("1024", "1023"),
            &[
                "1023 rows cannot be divided evenly among 4 ranks, but matmul-reduce-scatter gives each rank the same \
                 number",
                "hint: pass an --m that is a multiple of 4, such as 1020 or 1024",
            ],
        ),
        (
            calibrated.replace("matmul-all-reduce", "all_gather_matmul").replace("1024", "3"),
            &["3 rows cannot be divided evenly among 4 ranks, but all-gather-matmul", "a multiple of 4, such as 4\n"],
        ),
        (
            good.replace("all-reduce", "reduce-scatter") + " --align 18446744073709551615",
            &[
                "least common multiple of --align 18446744073709551615 and the number of ranks (4)",
                "hint: pass a smaller --align",
            ],
        ),
        (
            format!("{good} --fused-kernel"),
            &[
                "not for one kernel that fuses both",
                "it may take less time\nthan `bound`",
                "hint: time it at this shape",
            ],
        ),
        (format!("{good} --per-tile -1"), &["'-1' for '--per-tile", "expected a time in microseconds, at least 0"]),
        (format!("{good} --fixed-costs 5"), &["'5' for '--fixed-costs", "such as 5,10"]),
        (format!("{good} --element-bytes 0"), &["'0' for '--element-bytes"]),
        (format!("{calibrated} --per-tile 5"), &["--per-tile <US>", "cannot be used with", "--calibrate"]),
        (format!("{good} --format nccl-tests --compute-kernel gemm"), &["--format msprof, nsys or torch"]),
        (format!("{good} --max-tiles 0"), &["'0' for '--max-tiles", "at least 1 (1 means no tiling)"]),
        (format!("{good} --contention 1.2"), &["'1.2' for '--contention", "such as 1.3,1.05"]),
        (format!("{good} --contention 0.5,1"), &["each at least 1"]),
        (format!("{good} --contention 1,nan"), &["each at least 1"]),
        (format!("{good} --contention -1,1"), &["each at least 1"]),
        (
            good.replace("--cost samples.csv", ""),
            &[
                "the times of the computation and the communication are unknown",
                "hint: ",
                "--cost samples.csv",
                "stage,m,microseconds",
            ],
        ),
    ] {
        check(&[], &line, 2, says);
    }
}

#[test]
fn files_of_samples() {
    let line = &format!("plan matmul-all-reduce --m 1024 {REST} --json");
    let header = "stage,m,microseconds\n";
    let rest = "communicate,256,60\ncommunicate,512,90\ncommunicate,1024,150\n";
    let compute = |lines: &str| format!("{header}{rest}{lines}");
    for (content, says) in [
        ("", &["samples.csv:1: the file is empty", "hint: its first line must be stage,m,microseconds"][..]),
        ("\n \n", &["samples.csv:1: the file is empty"]),
        ("compute,256,50\n", &["samples.csv:1: the header is \"compute,256,50\"", "hint: "]),
        ("m,stage,microseconds\n", &["samples.csv:1: the header is"]),
        (
            header,
            &["samples.csv has no samples for stage compute", "hint: measure at least three sizes for each stage"],
        ),
        (&format!("{header}compute,1,1\ncompute,2,2\ncompute,3,3\n"), &["no samples for stage communicate"]),
        (
            &compute("compute,256,50\ncompute,257,50.1\n"),
            &["samples.csv, stage compute: too few different sizes for a fit: 2", "hint: measure at least three"],
        ),
        (&compute("compute,1,50\ncompute,1,51\ncompute,1,52\n"), &["too few different sizes for a fit: 1"]),
        (
            &compute("gather,256,50\n"),
            &["samples.csv:5: unknown stage \"gather\"", "hint: the stages are compute and communicate"],
        ),
        (&compute("\nCompute,256,50\n"), &["samples.csv:6: unknown stage \"Compute\""]),
        (&compute("compute,256\n"), &["samples.csv:5: expected 3 fields, found 2"]),
        (&compute("compute,256,50,7\n"), &["samples.csv:5: expected 3 fields, found 4"]),
        (&compute("compute,0,50\n"), &["samples.csv:5: m is \"0\"", "at least 1"]),
        (&compute("compute,-256,50\n"), &["samples.csv:5: m is \"-256\""]),
        (&compute("compute,2.5,50\n"), &["samples.csv:5: m is \"2.5\""]),
        (
            &compute("compute,256,-50\n"),
            &["samples.csv:5: microseconds are \"-50\"", "hint: a time must be a positive number"],
        ),
        (&compute("compute,256,0\n"), &["samples.csv:5: microseconds are \"0\""]),
        (&compute("compute,256,nan\n"), &["samples.csv:5: microseconds are \"nan\""]),
        (&compute("compute,256,inf\n"), &["samples.csv:5: microseconds are \"inf\""]),
        (&compute("compute,256,1e308\n"), &["samples.csv:5: microseconds are \"1e308\""]),
        (&compute("compute,256,fast\n"), &["samples.csv:5: microseconds are \"fast\""]),
        (
            &compute("compute,256,50\ncompute,512,20\ncompute,1024,90\n"),
            &[
                "samples.csv, stage compute: 512 rows take less time (20.0 us) than 256 (50.0 us)",
                "hint: ",
                "--tolerance ",
            ],
        ),
    ] {
        check(&[("samples.csv", content.as_bytes())], line, 65, says);
    }
    // Three sizes allow a line and no more.
    let bent = samples(&[1, 2, 3], |m| if m < 3.0 { m } else { 100.0 }, |m| m);
    check(
        &[("samples.csv", bent.as_bytes())],
        line,
        65,
        &["samples.csv, stage compute: the fit gives", "is off by", "hint: "],
    );
    check(&[("samples.csv", b"stage,m,microseconds\ncompute,1,\xff\n")], line, 65, &["samples.csv:2: not UTF-8"]);
    check(&[], &line.replace("samples.csv", "no.csv"), 2, &["no.csv does not exist", "hint: "]);
    check(&[("folder/x", b"")], &line.replace("samples.csv", "folder"), 74, &["cannot read folder: "]);
}

#[test]
fn plans_to_replay() {
    let line = &format!("plan matmul-all-reduce --m 1024 {REST} --replay plan.json");
    for (content, says) in [
        (
            "",
            &["plan.json: EOF while parsing", "hint: a plan is a list of tiles, [512, 896, ...], or a JSON object"][..],
        ),
        ("[512, -512, 1024]", &["plan.json: invalid value: integer `-512`", "hint: a plan is a list of tiles"]),
        ("[512]", &["plan.json: its tiles have 512 rows"]),
        ("{}", &["plan.json: missing field `tiles`"]),
        (r#"{"tiles": 1024}"#, &["plan.json: invalid type", "line 1"]),
        (r#"{"tiles": [512, -512, 1024]}"#, &["plan.json: invalid value: integer `-512`"]),
        (r#"{"tiles": [512, 511.5]}"#, &["plan.json: invalid type"]),
        (r#"{"tiles": []}"#, &["plan.json: its tiles have 0 rows, but the operation has 1024", "hint: check --m"]),
        (r#"{"tiles": [512, 256]}"#, &["plan.json: its tiles have 768 rows"]),
        (r#"{"tiles": [18446744073709551615, 1025]}"#, &["plan.json: its tiles have more rows than can be counted"]),
        (r#"{"tiles": [512, 0, 512]}"#, &["plan.json: tile 1 has no rows"]),
    ] {
        check(&[("plan.json", content.as_bytes())], line, 65, says);
    }
    check(&[], line, 2, &["plan.json does not exist"]);
}

/// A message shows only a part of a file's text, and no control characters.
#[test]
fn long_lines_and_control_characters_are_not_repeated() {
    let place = Place::new();
    let long = "\u{1b}[2J".to_owned() + &"x".repeat(5_000_000);
    let plan = format!("plan matmul-all-reduce --m 1024 {REST}");
    for (name, samples, replay) in [
        ("the header", long.clone(), String::new()),
        ("a stage", format!("stage,m,microseconds\n{long},1,1\n"), String::new()),
        ("rows", format!("stage,m,microseconds\ncompute,{long},1\n"), String::new()),
        ("a time", format!("stage,m,microseconds\ncompute,1,{long}\n"), String::new()),
        ("tiles", guide(), serde_json::json!({"tiles": long}).to_string()),
        ("an operation", guide(), serde_json::json!({"tiles": [1024], "op": long}).to_string()),
    ] {
        place.file("samples.csv", samples).file("plan.json", &replay);
        let replays = if replay.is_empty() { "" } else { "--replay plan.json" };
        let ran = place.line(&format!("{plan} {replays}"));
        let said = ran.stdout.len() + ran.stderr.len();
        assert!(said > 50 && said < 3000, "{name}: {said} bytes");
        assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'), "{name}");
    }
}

#[test]
fn places_where_nothing_can_be_created() {
    let plan = format!("plan matmul-all-reduce --m 1024 {REST}");
    for (flags, code, says) in [
        (
            "--svg no/such.svg",
            73,
            &["cannot create no/such.svg: no does not exist", "hint: create it first: mkdir -p no"][..],
        ),
        ("--trace samples.csv/t.json", 73, &["samples.csv is not a directory"]),
        ("--svg folder", 73, &["folder is a directory"]),
        ("--svg folder --overwrite", 73, &["folder is a directory"]),
        ("--svg ..", 2, &["\"..\" is not a file name"]),
        ("--trace taken.json", 73, &["taken.json already exists", "hint: pass --overwrite"]),
        ("--svg new.svg --trace taken.json", 73, &["taken.json already exists"]),
        ("--svg samples.csv --overwrite", 73, &["samples.csv is an input of this run"]),
        ("--replay taken.json --trace ./taken.json --overwrite", 73, &["./taken.json is an input of this run"]),
        ("--svg out --trace ./out", 2, &["--svg and --trace name the same file", "hint: "]),
    ] {
        let files: &[(&str, &[u8])] = &[("taken.json", br#"{"tiles": [1024]}"#), ("folder/x", b"")];
        check(files, &format!("{plan} {flags}"), code, says);
    }
    if cfg!(target_os = "linux") {
        check(&[], &format!("{plan} --svg /dev/null --overwrite"), 73, &["/dev/null is not a file"]);
        check(&[], &format!("{plan} --svg /proc/x.svg"), 73, &["cannot create /proc/x.svg"]);
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full() {
    use std::process::Command;

    use crate::common::Ran;

    let place = Place::new();
    place.file("samples.csv", guide());
    let before = place.contents();
    let line = format!("plan matmul-all-reduce --m 4096 {REST} --align 1 --svg out.svg");
    // If its signal is ignored, the limit on the size of files is an error of the write call.
    let limited = format!("trap '' XFSZ; ulimit -f 1; exec {} {line}", env!("CARGO_BIN_EXE_windrow"));
    let ran = Ran::of(Command::new("sh").args(["-c", &limited]).current_dir(place.path("")).output().unwrap());
    ran.fails(&line, 74, &["cannot write out.svg: File too large"]);
    assert_eq!(place.contents(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_is_full() {
    use std::process::Command;

    let place = Place::new();
    place.file("samples.csv", guide());
    let line =
        format!("exec {} plan matmul-all-reduce --m 4096 {REST} --json >/dev/full", env!("CARGO_BIN_EXE_windrow"));
    let full = Command::new("sh").args(["-c", &line]).current_dir(place.path("")).output().unwrap();
    assert_eq!(full.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&full.stderr).contains("error: cannot write to stdout: "), "{full:?}");
}
