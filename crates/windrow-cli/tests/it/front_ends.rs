//! Every option of a run is at every door, in the same words: the command, Python, Node and the reference.
//!
//! The options of Python and Node are written from the schema of the types. `WINDROW_WRITE=1` writes them again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Args, Command};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use windrow_tokenizers::run::{CountSpec, EncodeJob, EncodeRun};

/// Options that are parameters of the functions, or that only the command has.
const APART: [&str; 7] = ["chunk_bytes", "engine", "inputs", "model", "output", "readers", "tokenizer"];

/// The properties of a type: name and schema, sorted.
fn properties<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut all = schema["properties"].as_object().expect("it is a struct").clone();
    all.retain(|name, _| !APART.contains(&name.as_str()));
    all
}

/// The alternatives that a schema allows, without null.
fn alternatives(schema: &Value) -> Vec<Value> {
    let several = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array);
    let several = several.map(|all| all.iter().flat_map(alternatives).collect());
    let all: Vec<Value> = several.unwrap_or_else(|| match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .map(|kind| {
                let mut one = schema.clone();
                one["type"] = kind.clone();
                one
            })
            .collect(),
        _ => vec![schema.clone()],
    });
    all.into_iter().filter(|one| one["type"] != "null").collect()
}

/// The words that a schema allows, if it allows no others.
fn words(schema: &Value) -> Option<Vec<String>> {
    let of = |one: &Value| match (one.get("const"), one.get("enum")) {
        (Some(word), _) => Some(vec![word.as_str()?.to_owned()]),
        (_, Some(all)) => {
            all.as_array()?.iter().filter(|it| !it.is_null()).map(|it| Some(it.as_str()?.to_owned())).collect()
        }
        _ => None,
    };
    let words: Option<Vec<Vec<String>>> = alternatives(schema).iter().map(of).collect();
    Some(words?.concat()).filter(|words| !words.is_empty())
}

fn python(schema: &Value) -> String {
    if let Some(words) = words(schema) {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        return format!("Literal[{}]", words.join(", "));
    }
    let name = |one: &Value| match (one["type"].as_str(), one["format"].as_str()) {
        (Some("string"), Some("path")) => "str | os.PathLike[str]".to_owned(),
        (Some("string"), Some("date")) => "str | datetime.date".to_owned(),
        (Some("string"), _) => "str".to_owned(),
        (Some("boolean"), _) => "bool".to_owned(),
        (Some("integer"), _) => "int".to_owned(),
        (Some("number"), _) => "float".to_owned(),
        (Some("array"), _) => format!("Iterable[{}]", python(&one["items"])),
        (Some("object"), _) => format!("Mapping[str, {}]", python(&one["additionalProperties"])),
        other => panic!("{other:?} in {one}"),
    };
    alternatives(schema).iter().map(name).collect::<Vec<_>>().join(" | ") + " | None"
}

fn typescript(schema: &Value) -> String {
    if let Some(words) = words(schema) {
        return words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | ");
    }
    let name = |one: &Value| match (one["type"].as_str(), one["format"].as_str()) {
        (Some("string"), Some("path")) => "string | URL".to_owned(),
        (Some("string"), _) => "string".to_owned(),
        (Some("boolean"), _) => "boolean".to_owned(),
        (Some("integer" | "number"), _) => "number".to_owned(),
        (Some("array"), _) => format!("readonly {}[]", typescript(&one["items"])),
        (Some("object"), _) => format!("Readonly<Record<string, {}>>", typescript(&one["additionalProperties"])),
        other => panic!("{other:?} in {one}"),
    };
    alternatives(schema).iter().map(name).collect::<Vec<_>>().join(" | ")
}

/// The documentation of an option, with the options of the command by their names at this door.
fn text(schema: &Value, named: fn(&str) -> String) -> String {
    let text = schema["description"].as_str().expect("each option has a text").replace('\n', " ");
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let option = word.strip_prefix("--");
        words.push(option.map_or_else(|| word.to_owned(), named));
    }
    words.join(" ")
}

fn camel(name: &str) -> String {
    let mut parts = name.split(['_', '-']);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_ascii_uppercase() + &part[1..])
}

/// Compares a file with what it should be, or writes it.
fn agrees(path: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("WINDROW_WRITE").is_some() {
        fs::write(&path, wanted).expect("it can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} differs from the types: WINDROW_WRITE=1 cargo test -p windrow-cli front_ends",
        path.display()
    );
}

#[test]
fn python_has_every_option() {
    let mut file = "\"\"\"The options of ``encode_files`` and ``count``, written from the types of Rust by a test: tests/it/front_ends.rs.\"\"\"\n\n\
         from __future__ import annotations\n\nimport datetime\nimport os\nfrom collections.abc import Iterable, Mapping\nfrom typing import Literal, TypedDict\n\n\
         __all__ = [\"CountOptions\", \"EncodeJobOptions\", \"EncodeOptions\", \"EncodeRunOptions\"]\n"
        .to_owned();
    let mut class = |name: &str, base: &str, doc: &str, options: &Map<String, Value>| {
        write!(file, "\n\nclass {name}({base}, total=False):\n    \"\"\"{doc}\"\"\"\n").expect("memory");
        for (name, schema) in options {
            let text = text(schema, |option| option.replace('-', "_")).replace('\\', "\\\\");
            write!(file, "\n    {name}: {}\n    \"\"\"{text}\"\"\"\n", python(schema)).expect("memory");
        }
    };
    class(
        "EncodeJobOptions",
        "TypedDict",
        "Options of ``encode_files`` that decide the output.",
        &properties::<EncodeJob>(),
    );
    class(
        "EncodeRunOptions",
        "TypedDict",
        "Options of ``encode_files`` that do not change the output.",
        &properties::<EncodeRun>(),
    );
    class("EncodeOptions", "EncodeJobOptions, EncodeRunOptions", "The options of ``encode_files``.", &Map::new());
    class("CountOptions", "TypedDict", "The options of ``count``.", &properties::<CountSpec>());
    agrees("bindings/python/python/windrow/options.py", &file);
}

#[test]
fn node_has_every_option() {
    let (job, run) = (properties::<EncodeJob>(), properties::<EncodeRun>());
    let mut file = "'use strict';\n// The options of `encodeFiles`, written from the types of Rust by a test: tests/it/front_ends.rs.\n\n\
         /**\n * The options of a run. Null is no option.\n * @typedef {object} RunOptions\n"
        .to_owned();
    for (name, schema) in job.iter().chain(&run) {
        writeln!(file, " * @property {{{} | null}} [{}] {}", typescript(schema), camel(name), text(schema, camel))
            .expect("memory");
    }
    let mut list = |name: &str, doc: &str, options: &Map<String, Value>| {
        let names: Vec<String> = options.keys().map(|name| format!("  '{}',\n", camel(name))).collect();
        write!(file, "\n/** {doc} */\nconst {name} = [\n{}];\n", names.concat()).expect("memory");
    };
    file_end(&mut list, &job, &run);
    file.push_str("\nmodule.exports = { JOB, RUN };\n");
    let file = file.replacen("\n\n/** Options that decide", "\n */\n\n/** Options that decide", 1);
    agrees("bindings/node/lib/options.js", &file);
}

fn file_end(
    list: &mut impl FnMut(&str, &str, &Map<String, Value>),
    job: &Map<String, Value>,
    run: &Map<String, Value>,
) {
    list("JOB", "Options that decide the output.", job);
    list("RUN", "Options that do not change the output.", run);
}

#[test]
fn the_command_and_the_reference_have_every_option() {
    let command = EncodeRun::augment_args(EncodeJob::augment_args(Command::new("encode")));
    let reference =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/encode.md")).expect("it is there");
    let all = properties::<EncodeJob>().into_iter().chain(properties::<EncodeRun>());
    for (name, schema) in all {
        let argument = command.get_arguments().find(|argument| argument.get_id() == name.as_str());
        let argument = argument.unwrap_or_else(|| panic!("the command has no {name}"));
        let help = argument.get_help().expect("each option has a text").to_string();
        let text = text(&schema, |option| format!("--{option}"));
        assert_eq!(help.trim_end_matches('.'), text.trim_end_matches('.'), "{name}");
        let option = format!("--{}", name.replace('_', "-"));
        assert!(reference.contains(&option), "docs/encode.md has no {option}");
    }
}
