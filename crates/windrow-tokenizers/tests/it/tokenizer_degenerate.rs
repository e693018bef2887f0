//! Files that no trainer writes and people have: vocabularies that are extended or trimmed by hand, empty strings, tokens that are there twice.
//! Each has the ids of `tokenizers` 0.23, whichever engine encodes, and the same in every process.
//!
//! `WINDROW_CASES=N` generates N times as many files.

use std::env;
use std::fmt::Write;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{EngineChoice, LoadError, LoadOptions, Tokenizer};

use crate::tokenizer_routes::{Random, added, byte_level, characters, file, split};

/// Normalized tokens that become equal, with the normalizer that does it.
fn equal_tokens() -> Vec<(Value, [&'static str; 2])> {
    let bert = json!({
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true,
    });
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let regex = json!({"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "0"});
    let sequence =
        json!({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]});
    vec![
        (json!({"type": "NFC"}), ["é", "e\u{301}"]),
        (json!({"type": "NFD"}), ["é", "e\u{301}"]),
        (json!({"type": "NFKC"}), ["ﬁ", "fi"]),
        (json!({"type": "NFKD"}), ["①", "1"]),
        (json!({"type": "Lowercase"}), ["COVID", "Covid"]),
        (bert, ["COVID", "Covid"]),
        (strip, ["ab", " ab"]),
        (replace, ["▁ab", " ab"]),
        (regex, ["<12>", "<345>"]),
        (sequence, ["É", "e"]),
    ]
}

/// Characters of the tokens, each once.
const LETTERS: &str = "abcdefiovCOVID123450<>▁ é\u{301}";

fn normalized(id: usize, content: &str) -> Value {
    let mut token = added(id, content);
    token["normalized"] = json!(true);
    token
}

#[track_caller]
fn load(file: &Value, engine: EngineChoice) -> Result<Tokenizer, LoadError> {
    let options = LoadOptions { engine, ..LoadOptions::default() };
    Tokenizer::from_json(file.to_string().as_bytes(), "x.json", &options)
}

#[test]
fn tokens_that_become_equal_are_refused() {
    let words = characters(LETTERS);
    let regex = json!({"type": "Sequence", "pretokenizers": [split("a|b"), {"type": "Whitespace"}]});
    for (normalizer, [first, second]) in equal_tokens() {
        let mut bytes = byte_level(&[], &[]);
        bytes["pre_tokenizer"]["use_regex"] = json!(true);
        // Each is a way of its own to the ids: words, a regex, and bytes with NFC.
        for (mut file, pre_tokenizer) in
            [(words.clone(), Value::Null), (words.clone(), regex.clone()), (bytes, Value::Null)]
        {
            if !pre_tokenizer.is_null() {
                file["pre_tokenizer"] = pre_tokenizer;
            }
            file["normalizer"] = normalizer.clone();
            let base = file["model"]["vocab"].as_object().expect("a vocabulary").len();
            file["added_tokens"] =
                json!([normalized(base, first), added(base + 1, "<x>"), normalized(base + 2, second)]);
            for engine in [EngineChoice::Automatic, EngineChoice::Tokenizers] {
                let message = load(&file, engine).err().expect("refused").to_string();
                let tokens = format!("tokenizer x.json: added_tokens[2]: tokens {first:?} and {second:?} are both ");
                assert!(message.starts_with(&tokens), "{message}");
                assert!(message.contains(" after normalization\nhint: set `normalized` of one"), "{message}");
            }
            // One that is found before normalization is another token.
            file["added_tokens"][0]["normalized"] = json!(false);
            load(&file, EngineChoice::Automatic).expect("loads");
        }
    }
    let mut nothing = words;
    nothing["normalizer"] = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    nothing["added_tokens"] = json!([normalized(40, "  ")]);
    let message = load(&nothing, EngineChoice::Automatic).err().expect("refused").to_string();
    assert!(message.contains("nothing is left of token \"  \" after normalization"), "{message}");
}

const PARTS: [&str; 26] = [
    "a", "b", "ab", "A", "e", "é", "e\u{301}", "É", "日", "本", "☃", "😀", " ", "  ", "\n", "1", "22", ".", "'s", "_",
    "▁", "<s>", "<unk>", "æĹ¥", "ﬁ", "\u{a0}",
];

fn texts(random: &mut Random) -> Vec<String> {
    let mut texts: Vec<String> = PARTS.iter().map(|part| (*part).to_owned()).collect();
    texts.extend([String::new(), "日日".to_owned(), "a日b ☃ é".to_owned(), "ab".repeat(70), "日".repeat(40)]);
    texts.extend(random.texts(20, &PARTS, 9));
    texts
}

fn spelled(text: &str) -> String {
    text.bytes().map(|byte| BYTE_CHARACTERS[usize::from(byte)]).collect()
}

fn ids_of(vocab: &[String], random: &mut Random) -> Map<String, Value> {
    // Numbers with gaps, now and then.
    let step = if random.one_in(6) { 2 } else { 1 };
    vocab.iter().enumerate().map(|(at, token)| (token.clone(), json!(at * step))).collect()
}

fn bpe(random: &mut Random, is_byte_level: bool) -> Value {
    let spell = |text: &str| if is_byte_level { spelled(text) } else { text.to_owned() };
    let mut vocab: Vec<String> = match is_byte_level {
        true => BYTE_CHARACTERS.iter().map(char::to_string).collect(),
        false => PARTS.iter().flat_map(|part| part.chars()).map(|character| character.to_string()).collect(),
    };
    vocab.retain(|_| is_byte_level && !random.one_in(400) || !is_byte_level && !random.one_in(9));
    let byte_fallback = !is_byte_level && random.one_in(4);
    if byte_fallback {
        let fewer = if random.one_in(4) { 200 } else { 256 };
        vocab.extend((0..fewer).map(|byte| format!("<0x{byte:02X}>")));
    }
    let mut merges: Vec<[String; 2]> = Vec::new();
    // The merges of a character, now and then without one of them, or in another order.
    for part in PARTS.iter().filter(|_| random.one_in(2)).collect::<Vec<_>>() {
        let letters: Vec<String> = spell(part).chars().map(|letter| letter.to_string()).collect();
        let mut left = letters[0].clone();
        for right in &letters[1..] {
            let whole = format!("{left}{right}");
            if !random.one_in(6) {
                merges.push([left, right.clone()]);
            }
            vocab.push(whole.clone());
            left = whole;
        }
    }
    for _ in 0..random.below(12) {
        let (left, right) = (vocab[random.below(vocab.len())].clone(), vocab[random.below(vocab.len())].clone());
        vocab.push(format!("{left}{right}"));
        merges.push([left, right]);
    }
    if random.one_in(3) {
        let swapped = random.below(merges.len().max(1));
        merges.rotate_left(swapped);
    }
    if random.one_in(4) && !merges.is_empty() {
        let twice = merges[random.below(merges.len())].clone();
        merges.push(twice);
    }
    // Tokens that nothing makes.
    for part in PARTS {
        if random.one_in(5) {
            vocab.push(if random.one_in(4) { part.to_owned() } else { spell(part) });
        }
    }
    if random.one_in(8) {
        vocab.push(String::new());
    }
    vocab.push("<unk>".to_owned());
    let mut known = std::collections::HashSet::new();
    vocab.retain(|token| known.insert(token.clone()));
    merges.retain(|[left, right]| {
        known.contains(left) && known.contains(right) && known.contains(&format!("{left}{right}"))
    });
    if random.one_in(10) {
        merges.clear();
    }
    let unk = [json!(null), json!("<unk>"), json!("<unk>")][random.below(3)].clone();
    let affix = |random: &mut Random| [json!(null), json!(null), json!(""), json!("e")][random.below(4)].clone();
    let affixes =
        if is_byte_level || !random.one_in(4) { [json!(null), json!("")] } else { [affix(random), affix(random)] };
    if affixes[0] == "e" {
        // The reference ends the process when a merge is shorter.
        merges.clear();
    }
    json!({
        "type": "BPE", "unk_token": unk, "fuse_unk": random.one_in(2), "byte_fallback": byte_fallback, "ignore_merges": random.one_in(4),
        "dropout": if random.one_in(4) { json!(0.0) } else { json!(null) }, "continuing_subword_prefix": affixes[0],
        "end_of_word_suffix": affixes[1], "vocab": ids_of(&vocab, random), "merges": merges,
    })
}

fn model(random: &mut Random) -> Value {
    let few = random.one_in(6);
    let chosen: Vec<String> =
        PARTS.iter().filter(|_| !few && random.one_in(2)).map(|part| (*part).to_owned()).collect();
    let known: Vec<String> = chosen.into_iter().filter(|token| token != "<unk>").chain(["a".to_owned()]).collect();
    let mut vocab = vec!["<unk>".to_owned()];
    for token in known {
        if !vocab.contains(&token) {
            vocab.push(token);
        }
    }
    match random.below(7) {
        0..=2 => bpe(random, true),
        3 => bpe(random, false),
        4 => {
            let prefix = ["##", "", "e"][random.below(3)];
            let more: Vec<String> = vocab
                .iter()
                .skip(1)
                .map(|token| format!("{prefix}{token}"))
                .filter(|token| !vocab.contains(token))
                .collect();
            vocab.extend(more);
            let most = [0_u64, 1, 100, 1 << 40][random.below(4)];
            let prefix = (prefix, ids_of(&vocab, random));
            json!({
                "type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": prefix.0, "max_input_chars_per_word": most, "vocab": prefix.1,
            })
        }
        5 => {
            let scores = [-1.0, -1.0, -2.0, 0.0, -1e30, 3.5];
            if random.one_in(6) {
                vocab.push("a".to_owned());
            }
            let byte_fallback = random.one_in(4);
            if byte_fallback {
                vocab.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
            }
            let scored: Vec<Value> =
                vocab.iter().map(|token| json!([token, scores[random.below(scores.len())]])).collect();
            let unk = [json!(0), json!(0), json!(null), json!(vocab.len())][random.below(4)].clone();
            json!({"type": "Unigram", "unk_id": unk, "byte_fallback": byte_fallback, "vocab": scored})
        }
        _ => {
            json!({"type": "WordLevel", "unk_token": random.of(&["<unk>", "none"]), "vocab": ids_of(&vocab, random)})
        }
    }
}

fn pattern(random: &mut Random) -> Value {
    let text = random.of(&["", "a", " ", "ab", "日", "▁"]);
    if random.one_in(3) { json!({"Regex": random.of(&["", "a*", r"\s+", "[ab]"])}) } else { json!({"String": text}) }
}

fn normalizer(random: &mut Random, depth: usize) -> Value {
    let flag = |random: &mut Random| json!(random.one_in(2));
    match random.below(if depth < 2 { 13 } else { 11 }) {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFD"}),
        2 => json!({"type": "NFKC"}),
        3 => json!({"type": "NFKD"}),
        4 => json!({"type": "Lowercase"}),
        5 => json!({"type": "StripAccents"}),
        6 => json!({"type": "Strip", "strip_left": flag(random), "strip_right": flag(random)}),
        7 => json!({"type": "Nmt"}),
        8 => json!({
            "type": "BertNormalizer", "clean_text": flag(random), "handle_chinese_chars": flag(random), "strip_accents": null,
            "lowercase": flag(random),
        }),
        9 => json!({"type": "Prepend", "prepend": random.of(&["", "▁", "a"])}),
        10 => json!({"type": "Replace", "pattern": pattern(random), "content": random.of(&["", "▁", "a", " "])}),
        _ => {
            let mut members: Vec<Value> = (0..random.below(4)).map(|_| normalizer(random, depth + 1)).collect();
            if let Some(first) = members.first().cloned().filter(|_| random.one_in(3)) {
                members.push(first);
            }
            json!({"type": "Sequence", "normalizers": members})
        }
    }
}

fn pre_tokenizer(random: &mut Random, depth: usize) -> Value {
    let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    match random.below(if depth < 2 { 12 } else { 10 }) {
        0 => json!({"type": "Whitespace"}),
        1 => json!({"type": "WhitespaceSplit"}),
        2 => json!({"type": "BertPreTokenizer"}),
        3 => json!({"type": "Digits", "individual_digits": random.one_in(2)}),
        4 => json!({"type": "Punctuation", "behavior": random.of(&behaviors)}),
        5 => {
            json!({"type": "Split", "pattern": pattern(random), "behavior": random.of(&behaviors), "invert": random.one_in(3)})
        }
        6 => json!({"type": "CharDelimiterSplit", "delimiter": random.of(&["_", "日", " "])}),
        7 => json!({"type": "UnicodeScripts"}),
        8 => json!({"type": "FixedLength", "length": 1 + random.below(3)}),
        9 => json!({
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": random.of(&["always", "first", "never"]), "split": random.one_in(2),
        }),
        _ => {
            let members: Vec<Value> = (0..random.below(3)).map(|_| pre_tokenizer(random, depth + 1)).collect();
            json!({"type": "Sequence", "pretokenizers": members})
        }
    }
}

fn added_tokens(random: &mut Random, entries: usize) -> Value {
    let contents =
        ["", "a", " ", "  ", "É", "é", "e\u{301}", "æĹ¥", "<s>", "AB", "ab", "日", "▁", "▁a", "<unk>", "ﬁ", "1", "a a"];
    let mut tokens: Vec<Value> = Vec::new();
    for content in contents.into_iter().skip(usize::from(!random.one_in(40))) {
        if !random.one_in(5) {
            continue;
        }
        let mut token = added(entries + tokens.len(), content);
        for flag in ["lstrip", "rstrip", "normalized", "special"] {
            token[flag] = json!(random.one_in(3));
        }
        token["single_word"] = json!(random.one_in(12));
        if random.one_in(20) {
            token["id"] = json!(random.below(entries));
        }
        tokens.push(token);
    }
    if random.one_in(10) {
        tokens.reverse();
    }
    json!(tokens)
}

fn generated(random: &mut Random) -> Value {
    let model = model(random);
    let entries = model["vocab"].as_object().map_or_else(|| model["vocab"].as_array().map_or(0, Vec::len), Map::len);
    let is_byte_level = model["type"] == "BPE" && entries > 150 && model["byte_fallback"] == json!(false);
    let mut file = file(model);
    if random.one_in(2) {
        file["normalizer"] = normalizer(random, 0);
    }
    if !random.one_in(4) {
        file["pre_tokenizer"] = pre_tokenizer(random, 0);
    }
    if is_byte_level {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": random.one_in(6), "trim_offsets": true, "use_regex": random.one_in(2)});
        let before = file["pre_tokenizer"].take();
        file["pre_tokenizer"] = match before {
            Value::Null => bytes,
            before if random.one_in(12) => json!({"type": "Sequence", "pretokenizers": [bytes, before]}),
            before if random.one_in(2) => json!({"type": "Sequence", "pretokenizers": [before, bytes]}),
            _ => bytes,
        };
    }
    if random.one_in(2) {
        file["added_tokens"] = added_tokens(random, entries);
    }
    file
}

#[test]
fn generated_files() {
    let cases = u64::from(windrow_testkit::cases(20));
    let seed = env::var("WINDROW_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let (mut compared, mut engines, mut wrong) = (0, std::collections::BTreeMap::new(), Vec::new());
    for case in seed..seed + cases {
        let mut random = Random(case.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        let file = generated(&mut random);
        let texts = texts(&mut random);
        let json = file.to_string();
        let oracle = catch_unwind(|| json.parse::<Oracle>()).ok().and_then(Result::ok);
        for engine in [EngineChoice::Automatic, EngineChoice::Tokenizers] {
            let tokenizer = match (load(&file, engine), &oracle) {
                (Ok(tokenizer), Some(_)) => tokenizer,
                (Err(error), Some(_)) => {
                    *engines.entry(error.to_string().chars().take(150).collect::<String>()).or_insert(0) += 1;
                    continue;
                }
                (Ok(_), None) => {
                    *engines.entry("only windrow reads it".to_owned()).or_insert(0) += 1;
                    continue;
                }
                (Err(_), None) => continue,
            };
            compared += 1;
            *engines.entry(tokenizer.engine().name().to_owned()).or_insert(0) += 1;
            if let Some(text) = first_difference(&tokenizer, oracle.as_ref().expect("it was read"), &texts) {
                wrong.push(format!("case {case}, {}: {text}\n{}", tokenizer.engine().name(), short(&file)));
            }
        }
    }
    eprintln!("{engines:#?}");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared as u64 > cases, "only {compared} of {cases} files are compared");
}

fn short(file: &Value) -> String {
    let mut file = file.clone();
    if let Some(vocab) = file["model"]["vocab"].as_object_mut() {
        vocab.retain(|token, _| token.chars().count() > 1);
    }
    file.to_string()
}

fn first_difference(tokenizer: &Tokenizer, oracle: &Oracle, texts: &[String]) -> Option<String> {
    let mut encoder = tokenizer.engine().encoder();
    texts.iter().find_map(|text| {
        let mut ids = Vec::new();
        let ours = encoder.encode(text, &mut ids).map(|()| ids);
        let theirs = catch_unwind(AssertUnwindSafe(|| oracle.encode_fast(text.as_str(), false)));
        let theirs = theirs.ok().and_then(Result::ok).map(|encoding| encoding.get_ids().to_vec());
        (ours.as_ref().ok() != theirs.as_ref()).then(|| format!("{text:?}: {ours:?}, but {theirs:?}"))
    })
}

/// Prints the ids of files, or why they are refused.
fn ids_of_files() -> String {
    let mut random = Random(0x00c0_ffee);
    let texts = texts(&mut random);
    let mut files: Vec<Value> = (0..25).map(|_| generated(&mut random)).collect();
    for (normalizer, [first, second]) in equal_tokens() {
        let mut file = characters(LETTERS);
        let base = file["model"]["vocab"].as_object().expect("a vocabulary").len();
        file["normalizer"] = normalizer;
        file["added_tokens"] = json!([normalized(base, first), normalized(base + 1, second)]);
        files.push(file);
    }
    let more = ["COVID", "covid", "é", "e\u{301}", "ab", " ab", "▁ab", "fi", "<12>"].map(str::to_owned);
    let mut found = String::new();
    for file in files {
        match load(&file, EngineChoice::Automatic) {
            Ok(tokenizer) => {
                let mut encoder = tokenizer.engine().encoder();
                for text in texts.iter().chain(&more) {
                    let mut ids = Vec::new();
                    let outcome = encoder.encode(text, &mut ids);
                    writeln!(found, "{outcome:?} {ids:?}").expect("a string");
                }
            }
            Err(error) => writeln!(found, "{error}").expect("a string"),
        }
    }
    found
}

#[test]
fn equal_in_every_process() {
    const OUT: &str = "WINDROW_TEST_OUT";
    if let Some(out) = env::var_os(OUT) {
        fs::write(out, ids_of_files()).expect("written");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let paths: Vec<_> = (0..4).map(|number| folder.path().join(number.to_string())).collect();
    let children: Vec<_> = paths
        .iter()
        .map(|path| {
            let mut command = Command::new(env::current_exe().expect("this test"));
            command.args(["--exact", "tokenizer_degenerate::equal_in_every_process"]).env(OUT, path);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    let found: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).expect("written")).collect();
    for other in &found[1..] {
        let differs = found[0].lines().zip(other.lines()).find(|(first, other)| first != other);
        assert_eq!(differs, None, "two processes");
        assert_eq!(found[0].len(), other.len());
    }
}
