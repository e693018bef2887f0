//! `windrow doctor`, and what `encode --explain` says.

use crate::common::{Place, delegated, tiny};

#[test]
fn the_machine_is_described() {
    let place = Place::new();
    let ran = place.line("doctor").ok();
    let starts: Vec<&str> = ran.stdout.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let (lines, notes) = starts.split_at(5);
    assert_eq!(lines, ["windrow", "cpus", "threads", "instructions", "allocator"], "{}", ran.stdout);
    assert!(notes.iter().all(|start| *start == "note"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    let allocator = ran.stdout.lines().find_map(|line| line.strip_prefix("allocator: ")).unwrap();
    assert!(allocator == "the system's" || (cfg!(feature = "mimalloc") && allocator == "mimalloc"), "{}", ran.stdout);
    let mut command = place.command(["doctor"]);
    command.env("TOKENIZERS_PARALLELISM", "false");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        text.contains("\nthreads: 1: only one thread encodes, because TOKENIZERS_PARALLELISM is \"false\""),
        "{text}"
    );
}

#[test]
fn the_engine_of_a_tokenizer_is_named() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("other.json", delegated());
    let own = place.line("doctor --tokenizer tiny.json").ok().stdout;
    assert!(own.contains("\ntokenizer: tiny.json, 259 ids\nengine: windrow-bpe ") && !own.contains("cost: "), "{own}");
    let other = place.line("doctor --tokenizer other.json").ok().stdout;
    assert!(other.contains("\nengine: tokenizers 0.23"), "{other}");
    assert!(
        other.contains(
            ", because the effect of the Replace normalizer may depend on distant text\ncost: the same ids, but slower"
        ),
        "{other}"
    );
    let embedded = place.line("doctor --tokenizer r50k_base").ok().stdout;
    assert!(embedded.contains("tokenizer: r50k_base, 50,257 ids\nengine: windrow-bpe "), "{embedded}");
    for (line, code, says) in [
        ("doctor --tokenizer no_such", 2, "neither the name of a vocabulary nor a file"),
        ("doctor --tokenizer bad.json", 65, "tokenizer bad.json: "),
        ("doctor more", 2, "unexpected argument"),
    ] {
        place.file("bad.json", "{}");
        place.line(line).fails(line, code, &[says]);
    }
}

#[test]
fn encoding_is_explained_on_request() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("other.json", delegated()).file("in.txt", "the other thing");
    let explained = place.line("encode in.txt -o a --tokenizer tiny.json --explain").ok().stderr;
    assert!(explained.contains("\nengine: windrow-bpe "), "{explained}");
    assert!(explained.contains("\ncache: 3 pieces looked up, "), "{explained}");
    let other = place.line("encode in.txt -o b --tokenizer other.json --explain").ok().stderr;
    assert!(
        other.contains("engine: tokenizers 0.23") && other.contains(", because the effect of the Replace normalizer"),
        "{other}"
    );
    assert!(!other.contains("cache: "), "{other}");
    let quiet = place.line("encode in.txt -o c --tokenizer tiny.json --explain --quiet").ok().stderr;
    assert_eq!(quiet, "");
}

#[test]
fn what_synchronization_costs_is_measured() {
    let place = Place::new();
    let text = place.line("doctor --measure").ok().stdout;
    assert!(text.starts_with("windrow: ") && text.contains("\nclock  ") && text.contains("\nclaim  "), "{text}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(text.contains("\nenter, halted  "), "{text}");
    }
}
