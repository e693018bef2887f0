//! Command lines with invalid or contradictory options. They create no files.

use crate::common::{Case, Place};

#[test]
fn command_lines_that_cannot_be_understood() {
    let place = Place::new();
    for (line, says) in [
        ("", &["Usage: windrow <COMMAND>"][..]),
        ("encode", &["<INPUT>...", "--output <OUT>"]),
        ("encode in.txt", &["--output <OUT>"]),
        ("encode -o out", &["<INPUT>..."]),
        ("encode in.txt -o out --no-such", &["--no-such"]),
        ("decode in.txt -o out", &["decode"]),
        (
            "encode in.txt -o out --format orc",
            &["orc", "npy, nanogpt, megatron, datatrove, mds, jsonl, webdataset, arrow, arrow-stream, parquet"],
        ),
        ("encode in.txt -o out --dtype u64", &["u64", "u16, u32, i32"]),
        ("encode in.txt -o out --input-format csv", &["csv", "text, lines, jsonl"]),
        ("encode in.txt -o out --on-error replace", &["replace", "fail, skip"]),
        ("encode in.txt -o out --threads 0", &["--threads", "`auto` or a number from 1 to 1023"]),
        ("encode in.txt -o out --threads many", &["--threads", "`auto` or a number"]),
        ("encode in.txt -o out --memory 0", &["--memory", "must not be 0"]),
        ("encode in.txt -o out --memory lots", &["--memory", "such as 512M"]),
        ("encode in.txt -o out --memory 99999999999T", &["--memory", "too large"]),
        ("encode in.txt -o out --chunk-bytes 0", &["--chunk-bytes"]),
        ("encode in.txt -o out --max-skipped few", &["--max-skipped", "a percentage such as 0.5%"]),
        ("encode in.txt -o out --max-skipped 101%", &["--max-skipped", "at most 100%"]),
        ("encode in.txt -o out --ext *.rs", &["--ext", "such as rs"]),
        ("encode in.txt -o out --ext gz", &["--ext", "compression"]),
    ] {
        let ran = place.line(line);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{line}");
        for part in says {
            assert!(ran.stderr.contains(part), "{line}\nlacks {part:?}\n{}", ran.stderr);
        }
    }
    assert!(place.contents().is_empty());
}

#[test]
fn inputs_that_are_not_there() {
    for (inputs, says) in [
        ("missing.txt", &["missing.txt: no such file or directory", "hint: "][..]),
        ("in.txt missing.txt", &["missing.txt: no such file"]),
        ("no*.txt", &["no*.txt: no file matches this pattern"]),
        ("in[.txt", &["in[.txt: not a valid pattern"]),
        ("in.csv", &["in.csv: this is a CSV or TSV table", "hint: ", "--input-format jsonl"]),
        ("in.dat", &["in.dat: its extension does not indicate its format", "--input-format"]),
        ("empty", &["empty: no input in this directory (files of other kinds: 1)"]),
        ("- -", &["-: standard input can be read only once"]),
    ] {
        let files = vec![
            ("in.txt", b"the".to_vec()),
            ("in.csv", b"a,b".to_vec()),
            ("in.dat", b"a".to_vec()),
            ("empty/x.csv", Vec::new()),
        ];
        let line = format!("encode {inputs} -o out --tokenizer tiny.json");
        Case { files, line: &line, code: 2, says }.check();
    }
}

#[cfg(not(feature = "object-store"))]
#[test]
fn urls_need_a_build_with_stores() {
    for url in ["s3://bucket/key.txt", "gs://bucket/", "https://host/a.txt?signature=secret"] {
        let name = url.split('?').next().unwrap();
        let says = [
            &format!("error: {name}: this build cannot read object stores\n"),
            "hint: cargo install windrow-cli --features object-store",
        ];
        let line = format!("encode {url} -o out --tokenizer tiny.json");
        Case { files: Vec::new(), line: &line, code: 2, says: &says }.check();
    }
}

#[test]
fn urls_that_name_no_store_and_no_file() {
    for (url, says) in [
        (
            "ftp://host/a.txt",
            "ftp://host/a.txt: URLs with this scheme cannot be read\nhint: use s3, gs, http, https or file",
        ),
        ("file:///no/such/file.txt", "/no/such/file.txt: no such file or directory"),
        ("https://host/", "https://host/: this URL does not name a file; folders on a web server cannot be listed"),
    ] {
        let line = format!("encode {url} -o out --tokenizer tiny.json");
        Case { files: Vec::new(), line: &line, code: 2, says: &[says] }.check();
    }
    let says = ["s3://bucket/out: an output cannot be written to a URL\nhint: write to a local path and, once"];
    let line = "encode in.txt -o s3://bucket/out --tokenizer tiny.json";
    Case { files: vec![("in.txt", b"the".to_vec())], line, code: 2, says: &says }.check();
}

#[test]
fn options_that_contradict_each_other_or_the_vocabulary() {
    for (options, says) in [
        (
            "--tokenizer tiny.json --lines --input-format jsonl",
            &["--lines cannot be combined with --input-format jsonl", "hint: "][..],
        ),
        (
            "--tokenizer tiny.json --all-text --input-format jsonl",
            &["--all-text cannot be combined with --input-format jsonl", "hint: "],
        ),
        ("--tokenizer tiny.json --max-skipped 5", &["--max-skipped has no effect", "hint: pass --on-error skip"]),
        (
            "--tokenizer tiny.json --format nanogpt",
            &["of tiny.json is unknown", "--eos; the special token is <|end|> (258)"],
        ),
        (
            "--tokenizer tiny.json --append-eos",
            &["of tiny.json is unknown", "--eos; the special token is <|end|> (258)"],
        ),
        (
            "--tokenizer tiny.json --append-eos --eos <end>",
            &["--eos \"<end>\": tiny.json has no such token", "<|end|> (258)"],
        ),
        (
            "--tokenizer tiny.json --append-eos --eos 259",
            &["--eos 259: the largest id of tiny.json is 258", "<|end|> (258)"],
        ),
        ("--tokenizer tiny.json --append-eos --eos 99999999999", &["the largest id of tiny.json is 258"]),
        ("--tokenizer tiny.json --bos <s>", &["--bos \"<s>\": tiny.json has no such token", "<|end|> (258)"]),
        ("--tokenizer tiny.json --bos 259", &["--bos 259: the largest id of tiny.json is 258", "<|end|> (258)"]),
        (
            "--tokenizer tiny.json --format nanogpt --eos 258 --bos 258",
            &[
                "the nanogpt format ends every document with the end-of-text id, so no document can begin with it",
                "--bos",
            ],
        ),
        ("--tokenizer tiny.json --eos 258", &["--eos has no effect", "hint: pass --append-eos too"]),
        (
            "--tokenizer tiny.json --format nanogpt --eos 258 --dtype i32",
            &["the nanogpt format cannot hold i32 ids", "hint: "],
        ),
        ("--tokenizer tiny.json --format jsonl --dtype u16", &["the jsonl format cannot hold u16 ids"]),
        ("--format nanogpt", &["do not fit in u16 elements of the nanogpt format", "--dtype u32"]),
        ("--dtype u16", &["ids up to 200018 do not fit in u16 elements of the npy format"]),
        ("--format megatron --dtype u16", &["do not fit in u16 elements of the megatron format"]),
    ] {
        let line = format!("encode in.txt -o out {options}");
        Case { files: vec![("in.txt", b"the".to_vec())], line: &line, code: 2, says }.check();
    }
}

/// Numbers that become too much if they are bytes, items, or multiplied.
const EXTREMES: [&str; 2] = ["4294967296", "18446744073709551615"];

#[cfg(target_os = "linux")]
#[test]
fn no_number_of_an_option_becomes_a_reservation_or_a_panic() {
    use std::process::Command;

    use crate::common::{Ran, tiny};
    use crate::plan::guide;

    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the text\n".repeat(100)).file("samples.csv", guide());
    place.line("encode in.txt -o set --lines --tokenizer tiny.json").ok();
    let encode = "encode in.txt -o out --overwrite --lines --tokenizer tiny.json";
    let plan = "plan matmul-all-reduce --cost samples.csv --m 512 --n 512 --k 64 --ranks 4";
    let mut lines = Vec::new();
    for options in [
        "--pack",
        "--pack-mode whole --pad 0 --pack",
        "--pad 0 --pack",
        "--threads",
        "--readers",
        "--memory",
        "--shard-size",
        "--chunk-bytes",
        "--limit",
        "--shuffle",
        "--sample 0.5 --seed",
        "--on-error skip --max-skipped",
        "--append-eos --eos",
        "--bos",
    ] {
        lines.push(format!("{encode} {options}"));
    }
    for options in ["--top", "--threads"] {
        lines.push(format!("count in.txt --tokenizer tiny.json {options}"));
    }
    lines.extend(
        ["stat set --top", "stat set --json --top", "decode set --doc", "bench --tiny --only batch --threads"]
            .map(str::to_owned),
    );
    for option in ["--align", "--max-tiles", "--min-tile", "--tolerance", "--contention 1,1 --table-m"] {
        lines.push(format!("{plan} {option}"));
    }
    for option in ["--m", "--n", "--k", "--ranks"] {
        let (before, after) = plan.split_once(option).unwrap();
        let after = after.trim_start().split_once(' ').map_or("", |(_, after)| after);
        lines.push(format!("{before} {after} {option}"));
    }
    let memory = 2_000_000;
    for (line, number) in lines.iter().flat_map(|line| EXTREMES.map(|number| (line, number))) {
        let line = format!("{line} {number}");
        let limited = format!("ulimit -v {memory}; exec {} {line}", env!("CARGO_BIN_EXE_windrow"));
        let output = Command::new("sh").args(["-c", &limited]).current_dir(place.path("")).output().unwrap();
        let ran = Ran::of(output);
        let known = matches!(ran.code, Some(0 | 2 | 65 | 73));
        assert!(known && !ran.stderr.contains("fault"), "{line}: {:?} {}", ran.code, ran.stderr);
        assert!(ran.code == Some(0) || ran.stderr.contains("error: "), "{line}: {}", ran.stderr);
    }
    for (pack, says) in [
        (
            "--pack 18446744073709551615 --pad 0",
            "--pack 18446744073709551615: 4 rows of this length need more memory than --memory allows\nhint: use shorter rows\n",
        ),
        ("--pack 4294967296", "hint: use shorter rows, or pass --memory 65536M"),
        (
            "--pack 20000 --memory 200K",
            "need more memory than --memory allows\nhint: use shorter rows, or pass --memory 1M",
        ),
        ("--pack 2000000 --pack-mode whole --pad 0", "256 rows of this length need more memory than --memory allows"),
    ] {
        let line = format!("encode in.txt -o packed --tokenizer tiny.json {pack}");
        place.line(&line).fails(&line, 2, &[says]);
    }
}
