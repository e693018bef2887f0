//! Outputs that cannot be written.

use std::fs;

use crate::common::{Case, Place, tiny};

#[test]
fn places_where_nothing_can_be_created() {
    let long = format!("encode in.txt -o {} --tokenizer tiny.json", "x".repeat(250));
    for (out, code, says) in [
        (
            "no/such/out",
            73,
            &["cannot create no/such/out: no/such does not exist", "hint: create it first: mkdir -p no/such"][..],
        ),
        ("in.txt/out", 2, &["in.txt is not a directory", "hint: an output consists of several files"]),
        ("in.txt/a/b", 2, &["in.txt is not a directory"]),
        ("./-", 2, &["begins with a dash", "use --format jsonl -o FILE and then cat FILE.jsonl"]),
        ("-", 2, &["the output prefix \"-\" begins with a dash", "use --format jsonl -o FILE and then cat FILE.jsonl"]),
        (". --format jsonl", 2, &["has no file name"]),
        ("in.txt --format mds", 2, &["in.txt is not a directory, but the mds format writes one", "hint: "]),
        ("folder/", 2, &["the output prefix \"folder/\" ends in a separator", "hint: "]),
        ("..", 2, &["the output prefix \"..\" has no file name"]),
        ("taken", 73, &["taken.ids.npy already exists", "hint: pass --overwrite"]),
        ("half", 73, &["half.manifest.json already exists"]),
        ("folder/dir --overwrite", 73, &["folder/dir.offsets.npy is a directory"]),
    ] {
        let line = format!("encode in.txt -o {out} --tokenizer tiny.json");
        let files = vec![
            ("in.txt", b"the text".to_vec()),
            ("taken.ids.npy", b"precious".to_vec()),
            ("half.manifest.json", b"precious".to_vec()),
            ("folder/dir.offsets.npy/x", b"precious".to_vec()),
        ];
        Case { files, line: &line, code, says }.check();
    }
    Case {
        files: vec![("in.txt", b"the".to_vec())],
        line: &long,
        code: 73,
        says: &["xxx", "hint: choose a shorter name"],
    }
    .check();
    if cfg!(target_os = "linux") {
        for (out, code, says) in [
            ("/proc/out", 73, &["/proc/out"][..]),
            ("/dev/stdout --format jsonl", 2, &["is in a device directory", "use --format jsonl -o FILE"]),
            ("/dev/fd/1 --format jsonl", 2, &["is in a device directory"]),
            ("/dev/null/out", 2, &["/dev/null is a device"]),
        ] {
            let line = format!("encode in.txt -o {out} --tokenizer tiny.json");
            Case { files: vec![("in.txt", b"the".to_vec())], line: &line, code, says }.check();
        }
    }
}

#[test]
fn an_input_is_never_replaced() {
    for (line, says) in [
        (
            "encode in.jsonl -o in --tokenizer tiny.json --format jsonl --overwrite",
            &["in.jsonl is an input of this run"][..],
        ),
        (
            "encode folder -o folder/in --tokenizer tiny.json --format jsonl --overwrite",
            &["folder/in.jsonl is an input"],
        ),
        ("encode in.jsonl -o in --tokenizer tiny.json --format jsonl", &["in.jsonl"]),
    ] {
        let files =
            vec![("in.jsonl", b"{\"text\": \"a\"}".to_vec()), ("folder/in.jsonl", b"{\"text\": \"a\"}".to_vec())];
        Case { files, line, code: 73, says }.check();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_input_whose_name_is_no_utf_8_is_never_replaced_either() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let text = "{\"text\": \"precious\"}\n";
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("d").join(OsStr::from_bytes(b"\xff.jsonl")), text).unwrap();
    let before = place.contents();
    let prefix = OsStr::from_bytes(b"d/\xff");
    let rest = ["--format", "jsonl", "--overwrite", "--tokenizer", "tiny.json"].map(OsStr::new);
    let arguments = [&["encode", "d", "-o"].map(OsStr::new)[..], &[prefix], &rest].concat();
    place.run(arguments).fails("d", 73, &[r"d/\xff.jsonl is an input of this run", "hint: "]);
    assert_eq!(place.contents(), before);

    // A file that a shell puts on stdin has a name, too.
    place.file("in.jsonl", text);
    let line = "encode - --input-format jsonl -o in --format jsonl --overwrite --tokenizer tiny.json";
    let mut command = place.command(line.split(' '));
    command.stdin(fs::File::open(place.path("in.jsonl")).unwrap());
    crate::common::Ran::of(command.output().unwrap()).fails(line, 73, &["in.jsonl is an input of this run"]);
}

#[cfg(unix)]
#[test]
fn names_of_files_cannot_speak_to_the_terminal() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("d/\u{1b}]0;EVIL\u{7}\nerror: forged\u{202e}.txt", b"ok\n\xff");
    place.file("d/e/x.txt", "good");
    let quiet = |text: &str| !text.contains(['\u{1b}', '\u{7}', '\u{202e}']) && !text.contains("\nerror: forged");
    for arguments in ["", "--on-error skip", "--on-error skip --max-skipped 0", "--lines --on-error skip --json"] {
        let ran = place.line(&format!("encode d d -o d/out --tokenizer tiny.json --overwrite {arguments}"));
        assert!(quiet(&ran.stderr) && quiet(&ran.stdout), "{arguments}: {}", ran.stderr);
        assert!(ran.stderr.contains(r"\u{1b}]0;EVIL\u{7}\nerror: forged\u{202e}.txt"), "{arguments}: {}", ran.stderr);
    }
    let ran = place.run(["encode", "d/e", "-o", "d/\u{1b}[2J\n", "--tokenizer", "tiny.json"]).ok();
    assert!(quiet(&ran.stderr) && ran.stderr.contains(r"d/\u{1b}[2J\n.ids.npy"), "{}", ran.stderr);
    let ran = place.run(["encode", "d/e", "-o", "d/\u{1b}[2J\n", "--tokenizer", "tiny.json"]);
    assert!(quiet(&ran.stderr) && ran.code == Some(73), "{}", ran.stderr);
}

#[test]
fn a_prefix_that_another_run_writes() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the text").file("out.windrow-lock", "");
    let other = fs::File::open(place.path("out.windrow-lock")).unwrap();
    other.lock().unwrap();
    let before = place.contents();
    let line = "encode in.txt -o out --tokenizer tiny.json";
    place.line(line).fails(line, 73, &["another run is writing out", "hint: "]);
    assert_eq!(place.contents(), before);
    drop(other);
    place.line(line).ok();
}

#[test]
fn a_file_under_the_bare_name_of_the_prefix_stays() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the text");
    for format in ["npy", "nanogpt --eos 258", "jsonl"] {
        place.line(&format!("encode in.txt -o in.txt --tokenizer tiny.json --overwrite --format {format}")).ok();
    }
    assert_eq!(place.read("in.txt"), b"the text");
    assert_eq!(place.read("in.txt.jsonl"), b"{\"ids\":[257,32,116,101,120,116]}\n");
}

#[test]
fn what_a_killed_run_left_is_cleared() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the text");
    for left in ["out.bin.windrow-part", "out.ids.npy.windrow-part", "out.manifest.json.windrow-part"] {
        place.file(left, "left over");
    }
    place.file("out.windrow-lock", "windrow 4711\n");
    place.line("encode in.txt -o out --tokenizer tiny.json").ok();
    assert_eq!(place.names(), ["in.txt", "out.ids.npy", "out.manifest.json", "out.offsets.npy", "tiny.json"]);
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full() {
    use std::process::Command;

    use crate::common::Ran;

    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "of thorns ".repeat(400_000));
    let before = place.contents();
    // A limit on the size of files simulates a full disk without privileges.
    let line = "encode in.txt -o out --tokenizer tiny.json --quiet";
    let limited = format!("ulimit -f 1000; exec {} {line}", env!("CARGO_BIN_EXE_windrow"));
    let ran = Ran::of(Command::new("sh").args(["-c", &limited]).current_dir(place.path("")).output().unwrap());
    ran.fails(
        line,
        74,
        &["cannot write out.ids.npy: File too large", "hint: raise the limit on the size of files (ulimit -f)"],
    );
    assert_eq!(place.contents(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_or_stderr_that_is_gone() {
    use std::process::{Command, Stdio};

    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the text");
    let run = |out: &str, redirection: &str| {
        let line = format!(
            "exec {} encode in.txt -o {out} --tokenizer tiny.json --json {redirection}",
            env!("CARGO_BIN_EXE_windrow")
        );
        Command::new("sh").args(["-c", &line]).current_dir(place.path("")).output().unwrap()
    };
    let full = run("a", ">/dev/full");
    assert_eq!(full.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&full.stderr).contains("error: cannot write to stdout: "), "{full:?}");
    assert!(place.path("a.manifest.json").exists(), "the run itself was complete");
    assert_eq!(run("b", "2>/dev/full").status.code(), Some(0));
    assert_eq!(run("c", ">&- 2>&-").status.code(), Some(0));

    // A reader that closes the pipe.
    let mut child = place
        .command("encode in.txt -o d --tokenizer tiny.json --json".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(place.path("d.manifest.json").exists());
    let mut help = place.command(["encode", "--help"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(help.stdout.take());
    assert_eq!(help.wait().unwrap().code(), Some(0));
}
