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

/// Options that the functions of the packages do not have among their options. `inputs`, `output` and `tokenizer` are parameters; a
/// tokenizer comes with its engine, and stands for `model` too. `readers` and `chunk_bytes` are hidden: they are for tests.
const APART: [&str; 7] = ["chunk_bytes", "engine", "inputs", "model", "output", "readers", "tokenizer"];

/// The properties of a type: name and schema, sorted. Their descriptions name the defaults.
fn all_properties<T: JsonSchema + Args>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let mut all = schema["properties"].as_object().expect("it is a struct").clone();
    let command = T::augment_args(Command::new("windrow"));
    for (name, schema) in &mut all {
        let argument = command.get_arguments().find(|argument| argument.get_id() == name.as_str());
        let argument = argument.unwrap_or_else(|| panic!("the command has no {name}"));
        let text = schema["description"].as_str().unwrap_or_else(|| panic!("{name} has no text")).replace('\n', " ");
        let help = argument.get_help().unwrap_or_else(|| panic!("{name} has no help")).to_string();
        assert_eq!(help.trim_end_matches('.'), text.trim_end_matches('.'), "{name}");
        let is_flag = alternatives(schema).iter().all(|one| one["type"] == "boolean");
        let default = argument.get_default_values().first().filter(|_| !is_flag);
        // As the command shows it.
        let default = default.map_or_else(String::new, |default| format!(" [default: {}]", default.display()));
        schema["description"] = format!("{text}{default}").into();
    }
    all
}

/// The options of the packages.
fn properties<T: JsonSchema + Args>() -> Map<String, Value> {
    let mut all = all_properties::<T>();
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
    alternatives(schema).iter().map(name).collect::<Vec<_>>().join(" | ")
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

/// The documentation of an option, with the options of the command by their names in the package, without text for the command only.
fn text(schema: &Value, named: fn(&str) -> String) -> String {
    let text = schema["description"].as_str().expect("each option has a text");
    let text = text.split(" On the command line").next().unwrap_or_default();
    let word = |word: &str| word.strip_prefix("--").map_or_else(|| word.to_owned(), named);
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
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
            write!(file, "\n    {name}: {} | None\n    \"\"\"{text}\"\"\"\n", python(schema)).expect("memory");
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
fn the_reference_has_every_option() {
    let mut file = "# Options of `windrow encode` and `windrow count`\n\n\
         Python has them as keyword arguments of `encode_files` and `count`, Node as properties of the options of `encodeFiles`, and a file for\n\
         `--spec` as JSON. A test writes this page from the types of Rust: `crates/windrow-cli/tests/it/front_ends.rs`.\n"
        .to_owned();
    let mut table = |title: &str, options: &Map<String, Value>| {
        write!(file, "\n## {title}\n\n| command | Python | Node | |\n|---|---|---|---|\n").expect("memory");
        for (name, schema) in options.iter().filter(|(name, _)| !["chunk_bytes", "readers"].contains(&name.as_str())) {
            let command = match name.as_str() {
                "inputs" => "INPUT...".to_owned(),
                "output" => "-o, --output".to_owned(),
                name => format!("--{}", name.replace('_', "-")),
            };
            let is_count = title.contains("count");
            let has = |package: String| match name.as_str() {
                "inputs" if is_count => "`paths`".to_owned(),
                "engine" | "model" => String::new(),
                _ => format!("`{package}`"),
            };
            let node = if is_count { String::new() } else { has(camel(name)) };
            let text = schema["description"].as_str().unwrap_or_default().replace('|', "\\|").replace('<', "\\<");
            writeln!(file, "| `{command}` | {} | {node} | {text} |", has(name.clone())).expect("memory");
        }
    };
    table("`encode`: what decides the output", &all_properties::<EncodeJob>());
    table("`encode`: what does not change it", &all_properties::<EncodeRun>());
    table("`count`", &all_properties::<CountSpec>());
    agrees("book/src/options.md", &file);
    let reference = read("book/src/encode.md");
    for name in properties::<EncodeJob>().into_iter().chain(properties::<EncodeRun>()).map(|(name, _)| name) {
        let option = format!("--{}", name.replace('_', "-"));
        assert!(reference.contains(&option), "book/src/encode.md has no {option}");
    }
}

/// Messages of the command are given in the words of the packages, which know its flags and the words that are values.
#[test]
fn the_packages_know_the_flags_and_values_of_messages() {
    let (python, node) = (read("bindings/python/src/wording.rs"), read("bindings/node/lib/words.js"));
    for (name, schema) in properties::<EncodeJob>().into_iter().chain(properties::<EncodeRun>()) {
        if alternatives(&schema).iter().all(|one| one["type"] == "boolean") {
            let flag = name.replace('_', "-");
            assert!(python.contains(&format!(" {flag} ")) && node.contains(&format!("'{flag}'")), "{flag}");
        }
        for word in words(&schema).unwrap_or_default() {
            assert!(python.contains(&format!(" {word} ")), "wording.rs has no {word}");
            assert!(node.contains(&word), "words.js has no {word}");
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("it is there")
}
