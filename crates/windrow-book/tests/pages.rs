//! No block of the book is left out: each has a test, by its language.

use std::fs;
use std::path::{Path, PathBuf};

/// A page's name and text.
type Page = (String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages, without the table of contents.
fn pages() -> Vec<Page> {
    let files =
        fs::read_dir(root().join("book/src")).expect("the folder of the book").map(|file| file.expect("a file"));
    let names = files.map(|file| file.file_name().into_string().expect("a name in UTF-8"));
    let names = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
    let mut pages: Vec<Page> = names.map(|name| (name.clone(), read(&format!("book/src/{name}")))).collect();
    pages.sort();
    assert!(pages.len() > 10, "{} pages", pages.len());
    pages
}

/// The language and the lines of each block.
fn blocks(text: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut blocks, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            blocks.push((language, lines.by_ref().take_while(|line| *line != "```").collect()));
        }
    }
    blocks
}

#[test]
fn each_page_with_rust_is_compiled_by_one_crate() {
    let (here, bench) = (read("crates/windrow-book/src/lib.rs"), read("crates/windrow-bench/src/lib.rs"));
    for (name, text) in pages() {
        let includes = format!("/book/src/{name}\")]");
        let by = [&here, &bench].iter().filter(|lib| lib.contains(&includes)).count();
        let has_rust = blocks(&text).iter().any(|(language, _)| *language == "rust");
        assert!(by <= 1 && (by == 1 || !has_rust), "{name} is compiled by {by} crates");
        // Rust that needs rayon compiles in windrow-bench only.
        assert_eq!(text.contains("\nuse rayon::"), bench.contains(&includes), "{name}");
    }
}

#[test]
fn each_block_has_a_language_that_is_tested_or_is_no_code() {
    for (name, text) in pages() {
        for (language, lines) in blocks(&text) {
            // `console` and `python` run in windrow-cli and in the tests of the Python package; `text` is output and pseudo-code.
            let is_known = ["rust", "sh", "console", "python", "text"].contains(&language);
            assert!(is_known, "{name}: a block of {language:?} that begins with {:?}", lines.first());
        }
    }
}

/// Commands that are not run: what they name exists.
#[test]
fn commands_name_what_exists() {
    let steps = [read("xtask/src/main.rs"), read("xtask/src/checks.rs")].concat().to_lowercase();
    let mut seen = 0;
    for (name, text) in pages() {
        for line in blocks(&text).into_iter().filter(|(language, _)| *language == "sh").flat_map(|(_, lines)| lines) {
            seen += 1;
            let problem = problem(line, &steps);
            assert_eq!(problem, None, "{name}: {line}");
        }
    }
    assert!(seen > 5, "{seen} commands");
}

/// What a command names that does not exist.
fn problem(line: &str, steps: &str) -> Option<String> {
    let words: Vec<&str> =
        line.split(['#', '&']).next()?.split_whitespace().filter(|word| !word.contains('=')).collect();
    let value = |flags: [&str; 2]| Some(*words.get(words.iter().position(|word| flags.contains(word))? + 1)?);
    let missing = |path: String| (!root().join(&path).exists()).then_some(path);
    let package = value(["-p", "--package"]).or(value(["--path", "--path"])).unwrap_or("windrow-cli");
    let folder = match package.strip_prefix("../windrow/") {
        Some(folder) => folder.to_owned(),
        None => format!("crates/{package}"),
    };
    let program = |kind: &str, name: &str| {
        let found = [format!("{folder}/{kind}/{name}.rs"), format!("{folder}/{kind}/{name}")].map(missing);
        if found.iter().any(Option::is_none) { None } else { found.into_iter().flatten().next() }
    };
    match words[..] {
        ["cargo", "xtask", step, ..] => (!steps.contains(&format!("    {step}"))).then(|| step.to_owned()),
        ["git", "clone", ..] | ["cargo", "new", ..] | ["windrow", "count" | "encode" | "plan" | "doctor", ..] => None,
        ["cargo", "run" | "test" | "add" | "install", ..] => missing(folder.clone())
            .or_else(|| program("examples", value(["--example"; 2])?))
            .or_else(|| program("src/bin", value(["--bin"; 2])?)),
        _ => Some(format!("no test for {words:?}")),
    }
}

#[test]
fn a_command_that_names_nothing_is_found() {
    let steps = "    ci {\n    mutants(\n";
    for good in
        ["cargo xtask ci loom", "cargo run --release", "A=1 cargo test -p windrow-plan --lib", "git clone x && cd y"]
    {
        assert_eq!(problem(good, steps), None, "{good}");
    }
    for bad in ["cargo xtask cj", "cargo run -p windrow-plans", "cargo run -p windrow --example none", "rm -r x"] {
        assert!(problem(bad, steps).is_some(), "{bad}");
    }
}
