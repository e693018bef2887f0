//! Names and contents that speak to a terminal: no command passes them on.
#![cfg(unix)]

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Place, Ran, tiny};
use crate::plan::guide;

/// Escape sequences in both forms, a carriage return, other directions, and what cannot be seen.
const HOSTILE: &str =
    "\u{1b}[2J\u{9b}31m\r\u{7f}\u{85}\u{202e}\u{2066}\u{200f}\u{61c}\u{200b}\u{200d}\u{2060}\u{feff}\u{2028}";

/// True if a terminal only prints the character.
fn is_plain(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    matches!(c, '\n' | '\t') || !(c.is_control() || is_hidden)
}

#[track_caller]
fn check(line: &str, what: &str, text: &str) {
    if let Some(found) = text.chars().find(|c| !is_plain(*c)) {
        let on = text.lines().find(|line| line.contains(found)).unwrap_or_default();
        panic!("{line:?}: {what} has {found:?} in {on:?}");
    }
}

/// A place whose files have hostile names and contents.
fn place() -> Place {
    let place = Place::new();
    let file = |name: &str, content: &str| {
        place.file(name, content.replace("HOSTILE", HOSTILE));
    };
    let rows = [json!({ HOSTILE: "x" }), json!({"text": "good", HOSTILE: 1})];
    file(&format!("d/{HOSTILE}.jsonl"), &rows.map(|row| row.to_string() + "\n").concat());
    file(&format!("d/{HOSTILE}.txt"), "good");
    file(&format!("e/{HOSTILE}.txt"), "good\n\u{0}");
    file(&format!("{HOSTILE}/x.csv"), "");
    let mut vocabulary = tiny();
    vocabulary["added_tokens"][0]["content"] = HOSTILE.into();
    file("added.json", &vocabulary.to_string());
    file(&format!("{HOSTILE}.json"), &tiny().to_string());
    let mut wrong = tiny();
    wrong["model"]["type"] = HOSTILE.into();
    file("model.json", &wrong.to_string());
    let mut wrong = tiny();
    wrong["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": format!("({HOSTILE}")}, "behavior": HOSTILE});
    file("pattern.json", &wrong.to_string());
    let mut wrong = tiny();
    wrong["decoder"] = json!({"type": HOSTILE});
    file("decoder.json", &wrong.to_string());
    file("broken.json", "{\"HOSTILE\": HOSTILE}");
    let rows = [json!({"messages": [{"role": HOSTILE, "content": HOSTILE}]}), json!({"messages": HOSTILE})];
    file("chat.jsonl", &rows.map(|row| row.to_string() + "\n").concat());
    file("raises.jinja", "{{ raise_exception(messages[0].role) }}");
    file(&format!("{HOSTILE}.jinja"), "{% HOSTILE %}");
    file("unknown.jinja", "{{ messages|HOSTILE }}{{ messages.HOSTILE() }}");
    file(&format!("{HOSTILE}.csv"), &guide());
    file("samples.csv", &guide());
    file("header.csv", "HOSTILE,m\nHOSTILE,1,2\n");
    file("stage.csv", &guide().replace("compute", HOSTILE));
    file("replay.json", &json!({"tiles": [256, 256], "op": HOSTILE}).to_string());
    file("wrong.json", &json!({"tiles": HOSTILE}).to_string());
    file(
        "profiles.json",
        &json!({"schema": 1, "profiles": [{"machine": HOSTILE, "link": HOSTILE, "profile": HOSTILE}]}).to_string(),
    );
    place.file("in.txt", "the path");
    place.file("tiny.json", tiny().to_string());
    place.line("encode in.txt -o set --tokenizer tiny.json").ok();
    let manifest = place.json("set.manifest.json");
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        place.file(&format!("{name}.manifest.json"), manifest.to_string());
    };
    change("format", &|manifest| manifest["options"]["format"] = HOSTILE.into());
    change("output", &|manifest| manifest["outputs"][0]["file"] = format!("{HOSTILE}.ids.npy").into());
    change("hash", &|manifest| manifest["outputs"][0]["blake3"] = HOSTILE.into());
    change("name", &|manifest| {
        manifest["tokenizer"]["name"] = HOSTILE.into();
        manifest["tokenizer"]["blake3"] = HOSTILE.into();
    });
    change(HOSTILE, &|manifest| manifest["tokens"] = HOSTILE.into());
    place.file("shape.manifest.json", format!("{{\"{HOSTILE}\": ").replace('\r', ""));
    place
}

const ENCODE: &str = "encode d -o out/o --overwrite --json --explain --on-error skip --trace trace.json --tokenizer";

#[test]
fn no_command_passes_on_what_a_terminal_obeys() {
    let place = place();
    std::fs::create_dir(place.path("out")).unwrap();
    let h = HOSTILE;
    let plan = "plan matmul-all-reduce --m 512 --n 512 --k 64 --ranks 4 --overwrite --svg p.svg --trace p.json";
    let mut lines: Vec<String> = vec![
        format!("{ENCODE} tiny.json --keep HOSTILE"),
        format!("{ENCODE} tiny.json --format datatrove"),
        format!("{ENCODE} HOSTILE.json --format datatrove"),
        format!("{ENCODE} added.json --append-eos --eos HOSTILE"),
        format!("{ENCODE} added.json --append-eos"),
        format!("{ENCODE} tiny.json --bos HOSTILE"),
        format!("{ENCODE} tiny.json --field HOSTILE"),
        format!("{ENCODE} tiny.json --split HOSTILE=1"),
        format!("{ENCODE} tiny.json --HOSTILE"),
        format!("{ENCODE} tiny.json --format HOSTILE"),
        "encode HOSTILE -o out/o --tokenizer tiny.json --json".to_owned(),
        "encode d -o out/HOSTILE --tokenizer tiny.json --on-error skip --json --trace out/HOSTILE.json".to_owned(),
        "encode d -o out/HOSTILE --tokenizer tiny.json --json".to_owned(),
        "encode d -o HOSTILE.csv/x --tokenizer tiny.json".to_owned(),
        "encode d -o missing/HOSTILE --tokenizer tiny.json".to_owned(),
        "encode e --all-text -o out/e --tokenizer tiny.json --json".to_owned(),
        "count d e tiny.json --tokenizer tiny.json".to_owned(),
        "count d e tiny.json --tokenizer HOSTILE.json --json".to_owned(),
        "count d e --tokenizer tiny.json --top 5".to_owned(),
        "count HOSTILE.missing --json --tokenizer tiny.json".to_owned(),
        "count d --model HOSTILE".to_owned(),
        "doctor --tokenizer HOSTILE.json".to_owned(),
        format!("{plan} --cost HOSTILE.csv"),
        format!("{plan} --cost HOSTILE.csv --json --replay replay.json"),
        format!("{plan} --cost header.csv"),
        format!("{plan} --cost stage.csv"),
        format!("{plan} --cost samples.csv --replay wrong.json"),
        format!("{plan} --cost samples.csv --replay replay.json"),
        format!("{plan} --cost samples.csv --measured wrong.json"),
        format!("{plan} --cost samples.csv --table HOSTILE.h --table-m 512 --family two-sizes"),
        format!("{plan} --cost samples.csv --table HOSTILE/x/y --table-m 512 --family two-sizes"),
        format!("{plan} --cost samples.csv --format nsys --compute-kernel HOSTILE --communicate-kernel HOSTILE"),
        format!("{plan} --profile profiles.json"),
        format!("{plan} --profile profiles.json --machine HOSTILE"),
        format!("{plan} --profile HOSTILE.missing"),
        "bench --report HOSTILE/x/y".to_owned(),
        "HOSTILE".to_owned(),
    ];
    for tokenizer in
        ["added.json", "model.json", "pattern.json", "decoder.json", "broken.json", "HOSTILE", "HOSTILE.json/x"]
    {
        lines.push(format!("{ENCODE} {tokenizer}"));
        lines.push(format!("doctor --tokenizer {tokenizer}"));
        lines.push(format!("count in.txt --tokenizer {tokenizer}"));
    }
    for template in ["raises.jinja", "HOSTILE.jinja", "unknown.jinja", "HOSTILE.missing"] {
        lines
            .push(format!("encode chat.jsonl -o out/c --tokenizer tiny.json --json --on-error skip --chat={template}"));
    }
    for set in ["format", "output", "hash", "name", "HOSTILE", "shape", "HOSTILE.missing"] {
        for command in ["verify --json", "verify", "stat", "stat --json", "stat --part HOSTILE", "decode --doc 0"] {
            lines.push(format!("{command} {set}"));
        }
        lines.push(format!("verify {set} --tokenizer tiny.json"));
    }
    for line in &lines {
        let words = line.split(' ').map(|word| word.replace("HOSTILE", h));
        let Ran { stdout, stderr, .. } = place.run(words);
        check(line, "stderr", &stderr);
        check(line, "stdout", &stdout);
        if line.contains("--json") && !stdout.is_empty() {
            assert!(serde_json::from_str::<Value>(&stdout).is_ok(), "{line}: {stdout}");
        }
        for (path, content) in place.contents() {
            if is_written(&place, &path) {
                check(line, &path.display().to_string(), &String::from_utf8(content).unwrap());
            }
        }
    }
    // The strings mean the same, whatever is escaped in them.
    place.line(&format!("{ENCODE} tiny.json")).ok();
    let listed = place.json("out/o.manifest.json");
    let name = format!("d/{h}.jsonl");
    assert_eq!((&listed["inputs"][0]["name"], &listed["skipped"][0]["file"]), (&json!(name), &json!(name)));
    let counted = place.run(["count", "d", "--json", "--tokenizer", "tiny.json"]).summary();
    assert!(counted.to_string().contains(&json!(name).to_string()), "{counted}");
}

/// True if a run has written the file as text: results, lists, traces and drawings.
fn is_written(place: &Place, path: &Path) -> bool {
    let name = path.strip_prefix(place.path("")).unwrap();
    let is_result =
        name.starts_with("out") || ["trace.json", "p.svg", "p.json"].iter().any(|own| name == Path::new(own));
    let ends = [".json", ".jsonl", ".svg", ".metadata", ".windrow-progress"];
    // What is kept of a document is its own bytes.
    let name = path.to_str().unwrap();
    is_result && ends.iter().any(|end| name.ends_with(end)) && !name.ends_with(".kept.jsonl")
}
