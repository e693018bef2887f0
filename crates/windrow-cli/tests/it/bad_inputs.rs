//! Inputs that are something else than their names say: each error has the cause and a remedy.

use crate::common::{Place, check_inputs, gzip, tiny};

const GOOD: &[u8] = b"{\"text\": \"the path\"}\n";
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";

fn utf(bytes: &[u8], width: usize, is_little: bool) -> Vec<u8> {
    let unit = |&byte: &u8| {
        let mut unit = vec![0; width];
        unit[if is_little { 0 } else { width - 1 }] = byte;
        unit
    };
    bytes.iter().flat_map(unit).collect()
}

#[test]
fn the_first_bytes_name_what_an_input_is() {
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let xz = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0";
    let mark = [GOOD, b"\xef\xbb\xbf", GOOD].concat();
    let at_a_member = [gzip(GOOD), gzip(b"\xef\xbb\xbf{\"text\": \"the\"}\n")].concat();
    let without_feed = [&GOOD[..GOOD.len() - 1], b"\xef\xbb\xbf", GOOD].concat();
    let nul_tail = [GOOD, &[0; 4096]].concat();
    let nul_between = [GOOD, &[0; 100], GOOD].concat();
    // A frame that names the dictionary 7, with an empty last block.
    let dictionary = [0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 0, 1, 0, 0];
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (31 - 10) << 3, 1, 0, 0];
    let jsonl: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        (
            "in.jsonl",
            POINTER.to_vec(),
            "in.jsonl:1:1: ",
            "looks like a Git LFS pointer)\nhint: fetch the file that it stands for: git lfs pull",
        ),
        ("in.jsonl.gz", gzip(POINTER), "in.jsonl.gz:1:1: ", "git lfs pull"),
        ("in.jsonl.zst", zstd(POINTER), "in.jsonl.zst:1:1: ", "git lfs pull"),
        ("in.jsonl.gz", POINTER.to_vec(), "expected gzip data, found a Git LFS pointer", "git lfs pull"),
        ("in.jsonl.zst", POINTER.to_vec(), "expected zstd data, found a Git LFS pointer", "git lfs pull"),
        ("in.jsonl.zst", gzip(GOOD), "expected zstd data, found gzip data", ".gz follows"),
        ("in.jsonl", b"<!DOCTYPE html>\n<html>".to_vec(), "in.jsonl:1:1: ", "an HTML page"),
        ("in.jsonl.gz", b"<html><title>404".to_vec(), "an HTML page", "download the file again"),
        ("in.jsonl", mark, "in.jsonl:2:1: JSON syntax error", "a byte order mark inside the file"),
        ("in.jsonl.gz", at_a_member, "in.jsonl.gz:2:1: JSON syntax error", "a byte order mark inside the file"),
        ("in.jsonl", without_feed, "in.jsonl:1:21: ", "a byte order mark inside the file"),
        (
            "in.jsonl",
            b"{\n  \"text\": \"a\"\n}\n".to_vec(),
            "in.jsonl:1:",
            "hint: put each object on its own line: jq -c . FILE",
        ),
        ("in.jsonl", b"{\"text\": \"a\",\n \"id\": 1}\n".to_vec(), "in.jsonl:1:13: ", "jq -c . FILE"),
        (
            "in.jsonl",
            b"[{\"text\": \"a\"},\n{\"text\": \"b\"}]\n".to_vec(),
            "an array that spans several lines",
            "jq -c '.[]'",
        ),
        ("in.jsonl", b"[\n{\"text\": \"a\"}\n]\n".to_vec(), "an array that spans several lines", "jq -c '.[]'"),
        ("in.jsonl", b"[{\"text\": \"a\"}]".to_vec(), "in.jsonl:1:1: the line is an array", "jq -c '.[]'"),
        ("in.jsonl", b"\"a\"\n\"b\"\n".to_vec(), "in.jsonl:1:1: the line is a string", "jq -c '{text: .}'"),
        ("in.jsonl", b"{\"text\": \"a\"}\r{\"text\": \"b\"}\r".to_vec(), "carriage return", "tr '\\r' '\\n'"),
        ("in.jsonl", b"{\"text\": \"a\"} {\"text\": \"b\"}".to_vec(), "another object follows", "jq -c . FILE"),
        ("in.jsonl", b"{\"text\": \"a\"},\n{\"text\": \"b\"}".to_vec(), "a comma follows the object", "sed 's/,"),
        ("in.jsonl", b"{\"text\": \"a\n b\"}\n".to_vec(), "the line ends inside a string", "write a line feed"),
        ("in.jsonl", b"{'text': 'a'}\n".to_vec(), "as in a printed Python", "json.dumps"),
        ("in.jsonl", b"\x1e{\"text\": \"a\"}\n".to_vec(), "a record separator", "tr -d '\\036'"),
        ("in.jsonl", nul_tail, "in.jsonl:2:1: ", "a NUL byte"),
        ("in.jsonl", nul_between, "in.jsonl:2:1: ", "a NUL byte"),
        ("in.jsonl", [b"\xff\xfe\0\0", &utf(GOOD, 4, true)[..]].concat(), "in.jsonl:1:1: ", "iconv -f UTF-32 "),
        ("in.jsonl", utf(GOOD, 4, true), "UTF-32 without a byte order mark", "iconv -f UTF-32LE "),
        ("in.jsonl", utf(GOOD, 4, false), "UTF-32 without a byte order mark", "iconv -f UTF-32BE "),
        ("in.jsonl", utf(GOOD, 2, true), "UTF-16 without a byte order mark", "iconv -f UTF-16LE "),
        ("in.jsonl", utf(b"{\n\"text\"", 2, true), "UTF-16 without a byte order mark", "iconv -f UTF-16LE "),
        ("in.jsonl", utf(GOOD, 2, false), "UTF-16 without a byte order mark", "iconv -f UTF-16BE "),
        ("in.jsonl", xz.to_vec(), "looks like xz data", "hint: rename the file so that .xz follows"),
        ("in.jsonl", b"PK\x03\x04\x14\0".to_vec(), "looks like a zip archive", "unzip -p FILE"),
        ("in.jsonl", b"PAR1\x15\x04".to_vec(), "looks like Parquet", "--input-format parquet"),
        ("in.jsonl", b"ARROW1\0\0\xff".to_vec(), "looks like Arrow data", "to_parquet"),
        ("in.jsonl", b"id,text\n1,the path\n".to_vec(), "looks like a CSV or TSV table", "csv.DictReader"),
        ("in.jsonl", b"It rains in spring.\n".to_vec(), "looks like plain text", "--input-format text"),
        ("in.txt", xz.to_vec(), "in.txt:1:1: not valid UTF-8 (it looks like xz data)", ".xz follows"),
        ("in.jsonl.zst", dictionary.to_vec(), "the zstd data needs dictionary number 7", "zstd -dc -D DICTIONARY"),
        ("in.jsonl.zst", wide.to_vec(), "too much memory", "zstd -dc --long=31 FILE | windrow encode -"),
    ];
    for (name, content, cause, remedy) in &jsonl {
        check_inputs(&[(name, content, "", 65, &[cause, "\nhint: ", remedy])]);
    }
    // In parts, as a whole, and among other bad documents the cause is the same.
    let long = format!("{{\"text\": \"{}\"}}\r{{\"text\": \"b\"}}\r", "the path ".repeat(20_000));
    for options in ["--memory 64M", "--memory 1M", "--on-error skip", "--memory 1M --on-error skip"] {
        let says = [
            "trailing characters (the lines end with carriage returns only",
            "hint: replace them with line feeds: tr '\\r' '\\n'",
        ];
        check_inputs(&[("in.jsonl", long.as_bytes(), options, 65, &says)]);
        let array = format!("[{}{{\"text\": \"a\"}}]", "{\"text\": \"the path\"}, ".repeat(10_000));
        let says =
            ["in.jsonl:1:1: the line is an array, not an object (it looks like an array", "hint: put each element"];
        check_inputs(&[("in.jsonl", array.as_bytes(), options, 65, &says)]);
    }
}

#[test]
fn a_named_file_of_another_kind_has_its_remedy() {
    for (name, content, says) in [
        (
            "in.jsonl.lz",
            &b"LZIP\x01"[..],
            &["in.jsonl.lz: this is lzip data", "hint: decompress it: lzip -dc FILE |"][..],
        ),
        ("in.jsonl.lz4", b"", &["this is lz4 data", "lz4 -dc FILE |"]),
        ("in.tar.gz", b"\x1f\x8b\x08", &["this is a tar archive", "tar -xf FILE"]),
        ("in.csv.gz", b"\x1f\x8b\x08", &["this is a CSV or TSV table", "csv.DictReader"]),
        ("in.arrow", b"\xff\xff\xff\xff", &["this is Arrow data", "to_parquet"]),
        ("in.jl", b"{}", &["this is JSON lines", "--input-format jsonl"]),
        ("in.dat", b"PAR1", &["this is Parquet", "--input-format parquet"]),
        ("in.jsonl.lz", POINTER, &["this is a Git LFS pointer", "git lfs pull"]),
        ("in.html", b"<html>", &["its extension does not indicate"]),
    ] {
        check_inputs(&[(name, content, "", 2, says)]);
    }
}

#[test]
fn texts_that_are_pointers_get_a_note() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("in/a.txt", POINTER).file("in/b.txt", "the path").file("in/c.md", POINTER);
    let ran = place.line("encode in -o out --tokenizer tiny.json").ok();
    assert!(ran.stderr.contains("note: 2 texts are Git LFS pointers, such as in/a.txt"), "{}", ran.stderr);
}

#[test]
fn tokenizers_are_known_by_their_content() {
    let place = Place::new();
    place.file("in.txt", "the path");
    let ranks = b"IQ== 0\nIg== 1\n";
    for (name, content, says) in [
        ("tokenizer.json", POINTER, "a Git LFS pointer\nhint: fetch the file that it stands for: git lfs pull"),
        ("tokenizer.json", b"<!doctype html><p>", "an HTML page"),
        ("tokenizer.json", b"\x1f\x8b\x08\0", "gzip data\nhint: "),
        ("tokenizer.model", ranks, "not one of the published rank files"),
        ("ranks.txt", ranks, "not one of the published rank files"),
        ("tokenizer.model", b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", "a SentencePiece model, which windrow"),
        ("spiece.bin", b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", "a SentencePiece model, which windrow cannot read"),
        ("model.json", b"GGUF\x03\0\0\0", "model weights in the GGUF format\nhint: pass the tokenizer.json"),
    ] {
        place.file(name, content);
        let line = format!("encode in.txt -o out --tokenizer ./{name}");
        place.line(&line).fails(&line, 65, &[says]);
    }
    let model = [b"\n \n".to_vec(), tiny().to_string().into_bytes()].concat();
    place.file("tokenizer.model", model);
    place.line("encode in.txt -o out --tokenizer ./tokenizer.model").ok();
}

#[cfg(unix)]
#[test]
fn standard_input_by_its_name_is_read_or_protected() {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("out.jsonl", GOOD);
    let line = "encode /dev/stdin --input-format jsonl -o out --tokenizer tiny.json --format jsonl --overwrite";
    let run = |stdin: OwnedFd| crate::common::Ran::of(place.command(line.split(' ')).stdin(stdin).output().unwrap());
    let ran = run(std::fs::File::open(place.path("out.jsonl")).unwrap().into());
    assert!(ran.code != Some(0) && ran.stderr.contains("is an input"), "{}", ran.stderr);
    assert_eq!(place.read("out.jsonl"), GOOD);
    // A socket has a name that cannot be opened.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(GOOD).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    run(theirs.into()).ok();
    assert_eq!(crate::common::ids_of(&place.read("out.jsonl")), [crate::common::tiny_ids("the path")]);
}
