//! `windrow doctor`, and what `encode --explain` says.

use crate::common::{Place, delegated, tiny};

#[test]
fn the_machine_is_described() {
    let place = Place::new();
    let ran = place.line("doctor").ok();
    let starts: Vec<&str> = ran.stdout.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let (lines, notes) = starts.split_at(6);
    assert_eq!(lines, ["windrow", "cpus", "threads", "instructions", "allocator", "profile"], "{}", ran.stdout);
    assert!(notes.iter().all(|start| *start == "note"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    let mut command = place.command(["doctor"]);
    command.env("TOKENIZERS_PARALLELISM", "false");
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(text.contains("\nthreads: 1: one thread encodes, because TOKENIZERS_PARALLELISM is \"false\""), "{text}");
}

#[test]
fn the_engine_of_a_tokenizer_is_named() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("other.json", delegated());
    let own = place.line("doctor --tokenizer tiny.json").ok().stdout;
    assert!(own.contains("\ntokenizer: tiny.json, 259 ids\nengine: windrow-bpe ") && !own.contains("cost: "), "{own}");
    let other = place.line("doctor --tokenizer other.json").ok().stdout;
    assert!(other.contains("\nengine: tokenizers 1.0"), "{other}");
    assert!(
        other.contains(", because the normalizer Lowercase is not supported\ncost: the same ids, but slower"),
        "{other}"
    );
    let embedded = place.line("doctor --tokenizer r50k_base").ok().stdout;
    assert!(embedded.contains("tokenizer: r50k_base, 50257 ids\nengine: windrow-bpe "), "{embedded}");
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
    assert!(other.contains("engine: tokenizers 1.0") && other.contains(", because the normalizer"), "{other}");
    assert!(!other.contains("cache: "), "{other}");
    let quiet = place.line("encode in.txt -o c --tokenizer tiny.json --explain --quiet").ok().stderr;
    assert_eq!(quiet, "");
}

#[test]
fn a_tuned_machine_has_a_profile() {
    let place = Place::new();
    let run = |words: &str, profile: &str| {
        let mut command = place.command(words.split(' '));
        let output = command.env("WINDROW_PROFILE", profile).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let doctor = |profile: &str| run("doctor", profile).1;
    assert!(doctor("0").contains("profile: none is read\n"), "{}", doctor("0"));
    let before = doctor("its.profile");
    assert!(
        before.contains("profile: none at its.profile\n") && before.contains("`windrow tune` measures"),
        "{before}"
    );

    let (code, table, said) = run("tune --dry-run", "its.profile");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(table.starts_with("clock  ") && table.contains("\nclaim  "), "{table}");
    assert!(doctor("its.profile").contains("none at its.profile"));

    let (code, _, said) = run("tune", "its.profile");
    assert_eq!(code, Some(0));
    if said.contains("one CPU") {
        return;
    }
    assert_eq!(said, "stored in its.profile\n");
    // Under load a claim may seem to take twice as long.
    let after = doctor("its.profile");
    assert!(after.contains("its.profile is used\n") || after.contains("is not of this machine"), "{after}");

    place.file("its.profile", "windrow profile 1\nclaim 1000.0\nline 1.0\nnap 1.0\nwake 1.0\n");
    let foreign = doctor("its.profile");
    assert!(foreign.contains("its.profile is not of this machine: a claim costs 1.0 us there"), "{foreign}");
    place.file("its.profile", "PROFILE");
    let unusable = doctor("its.profile");
    let says = "its.profile cannot be used: line 1: not a profile of version 1\n";
    assert!(unusable.contains(says) && unusable.contains("note: run `windrow tune`"), "{unusable}");

    let (code, _, said) = run("tune", "its.profile/inside");
    assert_eq!(code, Some(73));
    assert!(said.contains("the profile cannot be stored: ") && said.contains("hint: set WINDROW_PROFILE"), "{said}");
}
