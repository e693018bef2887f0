//! Too little of every resource.

use std::fs;
use std::io::{BufWriter, Write};
use std::process::Stdio;

use serde_json::json;

use crate::common::{Place, ids_of, tiny, tiny_ids};

/// The folder with the small vocabulary.
fn place() -> Place {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place
}

#[test]
fn a_document_beyond_the_budget_runs_alone_and_the_peak_is_stated() {
    let place = place();
    let large = "the ".repeat(250_000);
    // A document of two fields is read as a whole.
    let lines = ["small", &large, "small"].map(|text| format!("{{\"a\": \"{text}\", \"b\": \"\"}}\n"));
    place.file("in.jsonl", lines.concat());
    let fields = "--tokenizer tiny.json --field a --field b --join=";
    let line = &format!("encode in.jsonl -o out {fields} --format jsonl --memory 200K --json");
    let ran = place.line(line).ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["small", &large, "small"].map(tiny_ids));
    let peak = ran.summary()["peak_in_flight_bytes"].as_u64().unwrap();
    // A million bytes and half a million ids, with up to a quarter of spare capacity.
    assert!((3_000_000..3_400_000).contains(&peak), "{peak}");
    assert!(
        ran.stderr.contains("note: --memory was exceeded by a large document, which was processed on its own: 3."),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("MB in flight, with a budget of 204.8 kB"), "{}", ran.stderr);

    let ran = place.line(&format!("encode in.jsonl -o fits {fields}")).ok();
    assert!(!ran.stderr.contains("--memory"), "{}", ran.stderr);
    place.file("in.txt", format!("small\n{large}\nsmall\n"));
    let ran = place.line("encode in.txt -o parts --tokenizer tiny.json --lines --memory 200K").ok();
    assert!(!ran.stderr.contains("--memory"), "{}", ran.stderr);
}

#[test]
fn small_documents_stay_within_the_budget() {
    let place = place();
    place.file("in.txt", "the other path\n".repeat(200_000));
    let ran = place.line("encode in.txt -o out --tokenizer tiny.json --lines --memory 400K --json").ok();
    let peak = ran.summary()["peak_in_flight_bytes"].as_u64().unwrap();
    // A batch or more.
    assert!((4 << 10..=400 << 10).contains(&peak), "{peak}");
}

#[test]
fn one_line_of_many_megabytes() {
    const MEGABYTES: usize = 80;
    let place = place();
    let line = "encode - -o out --tokenizer tiny.json --input-format jsonl --memory 16M --json --threads 2";
    let mut command = place.command(line.split(' '));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = BufWriter::new(child.stdin.take().unwrap());
    let paragraph = "the words of the other path ".repeat(1_000_000 / 28);
    stdin.write_all(b"{\"text\": \"first\"}\n{\"text\": \"").unwrap();
    for _ in 0..MEGABYTES {
        stdin.write_all(paragraph.as_bytes()).unwrap();
    }
    stdin.write_all(b"\"}\n{\"text\": \"last\"}\n").unwrap();
    drop(stdin);
    let ran = crate::common::Ran::of(child.wait_with_output().unwrap()).ok();
    assert_eq!(ran.summary()["documents"], json!({"read": 3, "written": 3, "skipped": 0, "failed": 0}));
    let tokens = tiny_ids(&paragraph).len() * MEGABYTES + 9;
    assert_eq!(ran.summary()["tokens"], json!(tokens));
    assert_eq!(fs::metadata(place.path("out.ids.npy")).unwrap().len(), 128 + 2 * tokens as u64);
}

#[test]
fn more_threads_than_cpus() {
    let place = place();
    place.file("in.txt", "the other path\n".repeat(2_000));
    for threads in [64, 1023] {
        let line = format!("encode in.txt -o out --tokenizer tiny.json --lines --overwrite --threads {threads} --json");
        assert_eq!(place.line(&line).ok().summary()["documents"]["written"], 2_000);
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::common::Ran;

    /// Runs the command line in a shell, after `before` and with `redirection`.
    fn in_shell(place: &Place, before: &str, line: &str, redirection: &str) -> Ran {
        let script = format!("{before} exec {} {line} {redirection}", env!("CARGO_BIN_EXE_windrow"));
        Ran::of(Command::new("sh").args(["-c", &script]).current_dir(place.path("")).output().unwrap())
    }

    #[test]
    fn a_limit_on_open_files() {
        let place = place();
        place.file("in.txt", "the text");
        let before = place.contents();
        // Enough to load the tokenizer, not enough to open all files.
        let line = "encode in.txt -o out --tokenizer tiny.json --quiet";
        let mut failed = 0;
        for limit in 4..16 {
            let ran = in_shell(&place, &format!("ulimit -n {limit};"), line, "");
            match ran.code {
                Some(0) => break,
                Some(code @ (1 | 73 | 74)) => ran.fails(line, code, &["Too many open files", "hint: raise the limit"]),
                // The dynamic linker needs some files, too.
                Some(127) => continue,
                _ => panic!("{ran:?}"),
            }
            failed += 1;
            assert_eq!(place.contents(), before, "limit {limit}");
        }
        assert!(failed > 0 && place.path("out.manifest.json").exists(), "{failed} limits were too low");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_limit_on_memory() {
        let place = place();
        fs::File::create(place.path("in.txt")).unwrap().set_len(300_000_000).unwrap();
        fs::write(place.path("in.jsonl"), format!("[{}", "7,".repeat(150_000_000))).unwrap();
        fs::write(place.path("two.jsonl"), "x".repeat(300_000_000)).unwrap();
        let before = place.names();
        // Enough memory for everything but such a document. The text is read in parts, but can be cut nowhere; a line of numbers is kept,
        // and one of which two fields are wanted is read as a whole.
        let whole = "two.jsonl:1: not enough memory for a record of more than ";
        let cases = [
            ("in.txt", "in.txt:1:1: not enough memory for a text of "),
            ("in.jsonl", "in.jsonl:1:1: not enough memory for a text of "),
            ("two.jsonl --field a --field b", whole),
        ];
        for (name, message) in cases {
            let line = format!("encode {name} -o out --tokenizer tiny.json --threads 1 --quiet");
            in_shell(&place, "ulimit -v 400000;", &line, "").fails(&line, 74, &[message, "hint: "]);
            assert_eq!(place.names(), before);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn many_bad_documents_need_no_memory() {
        let place = place();
        // Their places and reasons would need more than the limit.
        place.file("in.jsonl", "[]\n".repeat(800_000) + "{\"text\": \"the\"}\n");
        let line =
            "encode in.jsonl -o out --tokenizer tiny.json --on-error skip --memory 4M --threads 1 --json --quiet";
        let ran = in_shell(&place, "ulimit -v 400000;", line, "").ok();
        let counts = json!({"read": 800_001, "written": 1, "skipped": 800_000, "failed": 0});
        assert_eq!(ran.summary()["documents"], counts);
        let list = place.read("out.skipped.jsonl");
        assert_eq!(list.iter().filter(|&&byte| byte == b'\n').count(), 800_000);
        assert_eq!(place.json("out.manifest.json")["skipped"].as_array().unwrap().len(), 1000);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_input_whose_name_is_too_long() {
        let line = format!("encode {}.txt -o out --tokenizer tiny.json", "x".repeat(300));
        let says = ["xxx.txt: cannot be opened: File name too long", "hint: choose a shorter name"];
        place().line(&line).fails(&line, 74, &says);
    }

    #[test]
    fn a_stdin_that_is_closed() {
        let place = place();
        let before = place.contents();
        let line = "encode - -o out --tokenizer tiny.json";
        let ran = in_shell(&place, "", line, "<&-");
        // Rust opens /dev/null instead, which is empty.
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(place.json("out.manifest.json")["documents"]["written"], 1);
        assert_ne!(place.contents(), before);
    }

    #[test]
    fn a_stdin_that_is_a_folder() {
        let place = place();
        let before = place.contents();
        let line = "encode - -o out --tokenizer tiny.json";
        in_shell(&place, "", line, "<.").fails(line, 74, &["-: cannot be read at byte 0: Is a directory", "hint: "]);
        assert_eq!(place.contents(), before);
    }

    #[test]
    fn a_pipe_with_a_name() {
        let place = place();
        assert!(Command::new("mkfifo").arg(place.path("in.jsonl")).status().unwrap().success());
        let line = "encode in.jsonl -o out --tokenizer tiny.json --format jsonl";
        let child = place.command(line.split(' ')).stderr(Stdio::piped()).spawn().unwrap();
        fs::write(place.path("in.jsonl"), "{\"text\": \"the\"}\n{\"text\": \"end\"}\n").unwrap();
        Ran::of(child.wait_with_output().unwrap()).ok();
        assert_eq!(ids_of(&place.read("out.jsonl")), ["the", "end"].map(tiny_ids));
    }

    #[test]
    fn links_that_lead_nowhere() {
        let place = place();
        symlink("nowhere", place.path("in.txt")).unwrap();
        let before = place.names();
        let line = "encode in.txt -o out --tokenizer tiny.json";
        place.line(line).fails(line, 74, &["in.txt: cannot be opened: No such file", "hint: "]);
        assert_eq!(place.names(), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_that_cannot_be_read() {
        use std::os::unix::fs::PermissionsExt;

        let place = place();
        let line = "encode in.txt -o out --tokenizer tiny.json";
        // Reading the first page of a process's memory is an I/O error for every user.
        symlink("/proc/self/mem", place.path("in.txt")).unwrap();
        place.line(line).fails(line, 74, &["in.txt: cannot be read at byte 0: ", "hint: "]);
        fs::remove_file(place.path("in.txt")).unwrap();

        place.file("in.txt", "the text");
        fs::set_permissions(place.path("in.txt"), fs::Permissions::from_mode(0o000)).unwrap();
        // Permissions do not stop a superuser.
        if fs::File::open(place.path("in.txt")).is_err() {
            place.line(line).fails(line, 74, &["in.txt: cannot be opened: Permission denied", "hint: "]);
            assert!(!place.path("out.ids.npy").exists());
        }
    }
}
