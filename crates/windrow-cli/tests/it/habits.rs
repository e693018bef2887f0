//! What people expect of a command: models of the Hub, help by subjects, completions, man pages.

use crate::common::{Place, Ran, ids_of, tiny, tiny_ids};

/// A cache of the Hub with one model, and its chat template.
fn hub(place: &Place) {
    let model = "hub/models--Qwen--Qwen2.5-7B";
    place.file(&format!("{model}/refs/main"), "0a1b");
    place.file(&format!("{model}/snapshots/0a1b/tokenizer.json"), tiny().to_string());
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}";
    place.file(&format!("{model}/snapshots/0a1b/chat_template.jinja"), template);
}

/// Runs a line with the cache in a folder, as these variables say.
fn with(place: &Place, line: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = place.command(line.split_whitespace());
    for name in ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().map(|(name, folder)| (name, place.path(folder))));
    Ran::of(command.output().unwrap())
}

#[test]
fn a_model_of_the_hub_is_found_in_its_cache() {
    let place = Place::new();
    hub(&place);
    place
        .file("a.txt", "the end")
        .file("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"the end\"}]}\n");
    let line = "encode a.txt -o out --tokenizer Qwen/Qwen2.5-7B --format jsonl --overwrite";
    for variables in
        [&[("HF_HUB_CACHE", "hub")][..], &[("HF_HOME", "")], &[("HF_HUB_CACHE", "hub"), ("HF_HOME", "none")]]
    {
        with(&place, line, variables).ok();
        assert_eq!(ids_of(&place.read("out.jsonl")), [tiny_ids("the end")]);
        assert_eq!(place.json("out.manifest.json")["tokenizer"]["name"], "Qwen/Qwen2.5-7B");
        assert_eq!(with(&place, "decode out", variables).ok().stdout, "the end\n");
    }
    let chat = "encode a.jsonl -o chat --tokenizer Qwen/Qwen2.5-7B --format jsonl --chat";
    with(&place, chat, &[("HF_HUB_CACHE", "hub")]).ok();
    assert_eq!(ids_of(&place.read("chat.jsonl")), [tiny_ids("the end")]);
    assert_eq!(with(&place, "count a.txt --tokenizer Qwen/Qwen2.5-7B", &[("HF_HOME", "")]).ok().stdout, "5 a.txt\n");
}

#[test]
fn a_model_that_the_cache_lacks_has_the_command_that_fetches_it() {
    let place = Place::new();
    place.file("a.txt", "the end");
    let line = "encode a.txt -o out --tokenizer Qwen/Qwen2.5-7B";
    let says = ["Qwen/Qwen2.5-7B", "hint: ", "hf download Qwen/Qwen2.5-7B tokenizer.json"];
    with(&place, line, &[("HF_HOME", "none")]).fails(line, 2, &says);
    let line = "count a.txt --model Qwen/Qwen2.5-7B";
    with(&place, line, &[("HF_HOME", "none")]).fails(line, 2, &["hint: pass --tokenizer Qwen/Qwen2.5-7B"]);
}

#[test]
fn the_help_of_encode_has_its_own_examples_and_headings() {
    let place = Place::new();
    for help in ["encode -h", "encode --help"] {
        let said = place.line(help).ok().stdout;
        let examples = said.split("Examples:").nth(1).unwrap().split("Usage:").next().unwrap();
        let examples: Vec<&str> = examples.trim().lines().collect();
        assert_eq!(examples.len(), 3, "{said}");
        assert!(examples.iter().all(|example| example.contains("windrow encode ")), "{said}");
        let at = |heading: &str| said.find(&format!("\n{heading}:\n")).unwrap_or_else(|| panic!("{heading}\n{said}"));
        let option = |option: &str| said.find(&format!("--{option}")).unwrap();
        let headings = ["Tokenizer", "Output", "Input", "Training", "Selection", "Run"].map(at);
        assert!(headings.is_sorted(), "{said}");
        assert!((at("Input")..at("Training")).contains(&said.rfind("--all-text").unwrap()), "{said}");
        assert!(at("Selection") < said.rfind("--sample").unwrap() && option("engine") < said.len());
        // All but help have one.
        let rest = said.split("\nOptions:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(!rest.contains("--format") && rest.contains("--help"), "{rest}");
    }
}

#[test]
fn shells_complete_and_man_pages_are_written() {
    let place = Place::new();
    for (shell, says) in
        [("bash", "complete -F _windrow"), ("fish", "complete -c windrow"), ("zsh", "#compdef windrow")]
    {
        let script = place.line(&format!("completions {shell}")).ok().stdout;
        assert!(script.contains(says) && script.contains("arrow-stream") && script.contains("shard-size"), "{shell}");
    }
    place.line("completions tcsh").fails("tcsh", 2, &["possible values", "bash"]);
    place.line("completions").fails("completions", 2, &["SHELL"]);
    std::fs::create_dir(place.path("man")).unwrap();
    place.line("completions --man man").ok();
    for page in ["windrow.1", "windrow-encode.1", "windrow-count.1", "windrow-decode.1"] {
        let page = String::from_utf8(place.read(&format!("man/{page}"))).unwrap();
        assert!(page.contains(".TH") && page.contains("windrow"), "{page}");
    }
    place.line("completions --man none").fails("none", 73, &["none: "]);
}

#[test]
fn numbers_and_nouns_agree() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let run = |lines: usize| {
        place.file("in.txt", "x\n".repeat(lines));
        let line = "encode in.txt -o out --lines --tokenizer tiny.json --overwrite";
        let said = place.line(line).ok().stderr;
        format!("{said}{}{}", place.line("verify out").ok().stdout, place.line("stat out").ok().stdout)
    };
    let one = run(1);
    for part in
        ["1 document, 1 byte of text, 1 token of", "1 document, 1 token of", "1 document, 1 token, 1 different id;"]
    {
        assert!(one.contains(part), "{part}\n{one}");
    }
    let many = run(12_345);
    for part in ["12,345 documents, 12.3 kB of text, 12,345 tokens of", "12,345 documents, 12,345 tokens of"] {
        assert!(many.contains(part), "{part}\n{many}");
    }
}
