//! `encode --spec`: the options of a run from a file, such as the manifest of another run.

use serde_json::{Value, json};

use crate::common::{Place, tiny};

/// Inputs of several formats, and what tokenizes them.
fn corpus() -> Place {
    let place = Place::new();
    let line = |number: usize| {
        let (text, title) = ("the path of thorns ".repeat(number % 7), format!("of {number}"));
        format!("{}\n", json!({"id": number, "a,b": [number], "text": text, "title": title, "a": {"b": "no"}}))
    };
    let lines: String =
        (0..400).map(|number| if number % 90 == 80 { "[]\n".to_owned() } else { line(number) }).collect();
    let row = |number: usize| {
        let messages =
            json!([{"role": "user", "content": "the"}, {"role": "assistant", "content": format!("path {number}")}]);
        format!("{}\n", json!({ "messages": messages }))
    };
    let template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", lines).file("chat/t.jinja", template);
    place.file("chat.jsonl", (0..9).map(row).collect::<String>()).file("src/a.rs", "fn of() {}\n// the\n");
    place
}

/// The files of a run, without the inputs.
fn written(place: &Place) -> Vec<(String, blake3::Hash)> {
    let files = place.contents().into_iter().filter_map(|(path, bytes)| {
        let name = path.strip_prefix(place.path("")).unwrap().to_str()?.to_owned();
        name.starts_with("out").then(|| (name, blake3::hash(&bytes)))
    });
    files.collect()
}

const RUNS: [&str; 9] = [
    "in.jsonl --on-error skip --tokenizer tiny.json --append-eos --eos <|end|> --bos 7 --field title --field a.b --format megatron",
    "in.jsonl --on-error skip --tokenizer tiny.json --keep id,a\\,b --format arrow --special-in-text",
    "in.jsonl --on-error skip --tokenizer gpt2 --format nanogpt --split train=0.9,val=0.1 --seed 3 --shuffle 1",
    "in.jsonl --on-error skip --model gpt-4o --pack 8 --pack-mode whole --pad 0",
    "in.jsonl --on-error skip --tokenizer tiny.json --format mds --sample 50% --limit 20",
    "in.jsonl --on-error skip --tokenizer tiny.json --shard-size 1K --format datatrove",
    "in.jsonl --input-format lines --tokenizer tiny.json --engine tokenizers --dtype u32",
    "src --ext rs --lines --tokenizer tiny.json --format jsonl",
    "chat.jsonl --tokenizer tiny.json --chat=chat/t.jinja --chat-date 2024-02-29 --loss assistant --keep messages",
];

#[test]
fn a_manifest_repeats_its_run() {
    for run in RUNS {
        let place = corpus();
        let input = run.split(' ').next().unwrap();
        place.line(&format!("encode {run} -o out")).ok();
        let (manifest, first) = (place.read("out.manifest.json"), written(&place));
        let options = place.json("out.manifest.json")["options"].to_string();
        for (spec, rest) in
            [(&manifest[..], "--threads 1 --memory 100M"), (options.as_bytes(), "--threads 3 --chunk-bytes 50")]
        {
            let other = corpus();
            other.file("job.json", spec);
            other.line(&format!("encode {input} -o out --spec job.json {rest}")).ok();
            assert_eq!(written(&other), first, "{run}");
        }
        // Options that agree are no contradiction.
        place.file("job.json", &manifest);
        place.line(&format!("encode {input} -o out --spec job.json --overwrite --threads 2")).ok();
        assert_eq!(written(&place), first, "{run}");
    }
}

#[test]
fn options_that_contradict_the_file_are_named() {
    let place = corpus();
    place.file(
        "job.json",
        json!({"tokenizer": "tiny.json", "on_error": "skip", "keep": ["id"], "lines": true}).to_string(),
    );
    let line = "encode in.jsonl -o out --overwrite --spec job.json";
    place.line(&format!("{line} --on-error skip --tokenizer tiny.json --keep id --format npy")).ok();
    for (option, says) in [
        ("--tokenizer gpt2", "--tokenizer contradicts job.json, which sets it to \"tiny.json\""),
        ("--format mds", "--format contradicts job.json, which sets it to \"npy\""),
        ("--on-error fail", "--on-error contradicts job.json, which sets it to \"skip\""),
        ("--keep title", "--keep contradicts job.json, which sets it to [\"id\"]"),
        ("--seed 1", "--seed contradicts job.json, which does not set it"),
        ("--append-eos", "--append-eos contradicts job.json"),
    ] {
        let line = format!("{line} {option}");
        place.line(&line).fails(&line, 2, &[says, "hint: omit --"]);
    }
}

#[test]
fn files_that_are_no_options_are_refused() {
    let place = corpus();
    for (job, says) in [
        ("{\"tokeniser\": \"gpt2\"}", "unknown field `tokeniser`"),
        ("{\"threads\": 2}", "unknown field `threads`"),
        ("{\"pack\": 0}", "pack: "),
        ("{\"sample\": \"2\"}", "a share must be at most 1"),
        ("{\"split\": {\"train\": true}}", "split: expected a number or a string"),
        ("[1]", "job.json"),
        ("{", "job.json"),
    ] {
        place.file("job.json", job);
        let line = "encode in.jsonl -o out --spec job.json";
        place.line(line).fails(line, 65, &["--spec: job.json: ", says, "hint: "]);
    }
    let line = "encode in.jsonl -o out --spec missing.json";
    place.line(line).fails(line, 2, &["--spec: cannot read missing.json"]);
}

/// The options of schema 2.
fn before(options: &Value, chat: &Value) -> Value {
    let fields = options["field"].as_array().unwrap();
    let mut before = json!({
        "format": options.get("format").cloned().unwrap_or(json!("npy")), "dtype": options["dtype"], "eos": options["eos"],
        "field": fields[0], "lines": options["lines"] == true, "on_error": options.get("on_error").cloned().unwrap_or(json!("fail")),
        "add_special_tokens": false, "special_in_text": options["special_in_text"] == true
    });
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            before[name] = value;
        }
    };
    for name in ["bos", "join", "keep", "limit", "sample", "split", "shuffle", "seed"] {
        put(name, options[name].clone());
    }
    if fields.len() > 1 {
        put("more_fields", fields[1..].into());
    }
    put("shard_bytes", options["shard_size"].clone());
    if options["pack"].is_number() {
        put("pack", json!({"length": options["pack"], "mode": options["pack_mode"], "pad": options["pad"]}));
    }
    if !chat.is_null() {
        put("chat", json!({"template": chat["template"], "blake3": chat["blake3"], "loss": options["loss"]}));
    }
    before
}

#[test]
fn manifests_of_schema_2_are_read() {
    for run in RUNS {
        let place = corpus();
        place.line(&format!("encode {run} -o out")).ok();
        let input = run.split(' ').next().unwrap();
        let (mut manifest, first) = (place.json("out.manifest.json"), written(&place));
        (manifest["schema"], manifest["options"]) = (json!(2), before(&manifest["options"], &manifest["chat"]));
        manifest.as_object_mut().unwrap().remove("chat");
        place.file("out.manifest.json", manifest.to_string());
        for line in ["verify out", "stat out", "decode out --doc 0 --ids"] {
            place.line(line).ok();
        }
        // Which inputs are read, the engine and the date are not in such a manifest.
        if run.contains("--ext") || run.contains("--engine") || run.contains("--chat") {
            continue;
        }
        place.file("old.json", manifest.to_string());
        place.line(&format!("encode {input} -o out --spec old.json --overwrite")).ok();
        assert_eq!(written(&place), first, "{run}");
    }
}
