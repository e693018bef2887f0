//! The choice of the engine.

use crate::common::{Place, delegated, ids_of, tiny, tiny_ids};

#[test]
fn all_engines_give_the_same_ids() {
    let place = Place::new();
    let text = "the other <|end|> thing";
    place.file("tiny.json", tiny().to_string()).file("other.json", delegated()).file("in.txt", text);
    for (engine, name) in [("auto", "windrow-bpe"), ("windrow", "windrow-bpe"), ("tokenizers", "tokenizers")] {
        let line = format!("encode in.txt -o {engine} --format jsonl --tokenizer tiny.json --engine {engine}");
        place.line(&line).ok();
        assert_eq!(ids_of(&place.read(&format!("{engine}.jsonl"))), [tiny_ids(text)], "{engine}");
        let manifest = place.json(&format!("{engine}.manifest.json"));
        assert_eq!(manifest["engine"]["name"], name);
    }
    let counted = place.line("count in.txt --tokenizer tiny.json").ok().stdout;
    for arguments in ["tiny.json --engine windrow", "tiny.json --engine tokenizers", "other.json --engine tokenizers"] {
        assert_eq!(place.line(&format!("count in.txt --tokenizer {arguments}")).ok().stdout, counted, "{arguments}");
    }
    let o200k = place.line("count in.txt").ok().stdout;
    for engine in ["windrow", "tokenizers"] {
        assert_eq!(place.line(&format!("count in.txt --engine {engine}")).ok().stdout, o200k);
    }
}

#[test]
fn a_tokenizer_that_windrow_does_not_support_is_refused_on_request() {
    let place = Place::new();
    place.file("other.json", delegated()).file("in.txt", "the text");
    let says = [
        "tokenizer other.json: windrow's own engine cannot encode with it: the effect of the Replace normalizer may depend on distant text",
        "hint: let windrow choose an engine",
    ];
    for line in ["encode in.txt -o out --tokenizer other.json", "count in.txt --tokenizer other.json"] {
        place.line(line).ok();
        let line = format!("{} --engine windrow", line.replace("-o out", "-o not"));
        place.line(&line).fails(&line, 2, &says);
    }
    let line = "count in.txt --engine abacus";
    place.line(line).fails(line, 2, &["abacus", "possible values: auto, windrow, tokenizers"]);
}
