//! The family `parts`: tokenizers of all models, with random steps, whose texts are cut into parts.
//!
//! Each round makes a `tokenizer.json` that has little to do with those of models: that is where a proof of a cut would be wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Map, Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow::Pool;
use windrow_testkit::Rng;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Texts are made of these.
const PARTS: [&str; 44] = [
    "a", "b", "c", "ab", "A", "B", "é", "e\u{301}", "É", "日", "本", "の", " ", " ", " ", "  ", "   ", "\n", "\r\n",
    "\t", "▁", "▁a", "1", "23", "½", ".", "-", "'s", "``", "\"", "<m>", "<s>", "[X]", "\u{a0}", "\u{3000}", "\u{200b}",
    "\u{600}", "ﬁ", "ſ", "İ", "σς", "\u{301}", "\0", "😀",
];

/// Texts of a round.
const TEXTS: usize = 250;

/// Rounds for each round in which the library loads a file three times, because its hash tables differ from load to load.
const THREE_LOADS: u64 = 8;

/// The numbers of rounds: compared, compared with three loads of the library, refused by one side, and on the engine of the library.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) compared: usize,
    pub(crate) three_loads: usize,
    pub(crate) refused: usize,
    pub(crate) delegated: usize,
}

/// Models whose families are fuzzed apart from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// BPE on the characters that stand for bytes.
    Bytes,
    /// BPE on characters.
    Characters,
    WordPiece,
    Unigram,
    WordLevel,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Bytes, Kind::Characters, Kind::WordPiece, Kind::Unigram, Kind::WordLevel];

    pub(crate) fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| format!("{kind:?}").to_lowercase() == name)
    }
}

/// One round, with a model of this kind, or of any. Returns false after it printed a difference.
pub(crate) fn round(rng: &mut Rng, kind: Option<Kind>, pools: &[Pool; 2], rounds: &mut Rounds) -> bool {
    let kind = kind.unwrap_or_else(|| one_of(rng, &Kind::ALL));
    let json = file(rng, kind).to_string();
    let special_in_text = rng.below(4) > 0;
    let options = LoadOptions { special_in_text, ..LoadOptions::default() };
    let oracle = catch_unwind(|| json.parse::<Oracle>());
    let (Ok(Ok(mut oracle)), Ok(tokenizer)) = (oracle, Tokenizer::from_json(json.as_bytes(), "fuzz", &options)) else {
        rounds.refused += 1;
        return true;
    };
    oracle.set_encode_special_tokens(!special_in_text);
    rounds.compared += 1;
    rounds.delegated += usize::from(tokenizer.delegated().is_some());
    let mut texts: Vec<String> = (0..TEXTS).map(|_| text(rng, 12)).collect();
    texts.extend((0..4).map(|_| text(rng, 300)));
    let encode = |text: &String| {
        let encoded = catch_unwind(AssertUnwindSafe(|| oracle.encode_fast(text.as_str(), false)));
        encoded.ok()?.ok().map(|encoding| encoding.get_ids().to_vec())
    };
    let others: Vec<Oracle> = if one_in(rng, THREE_LOADS) {
        rounds.three_loads += 1;
        (0..2).filter_map(|_| json.parse().ok()).collect()
    } else {
        Vec::new()
    };
    let known: Vec<(String, Vec<u32>)> =
        texts.into_iter().filter_map(|text| encode(&text).map(|ids| (text, ids))).collect();
    for mut other in others {
        other.set_encode_special_tokens(!special_in_text);
        for (text, expected) in &known {
            if other.encode_fast(text.as_str(), false).is_ok_and(|encoding| encoding.get_ids() != expected) {
                println!("{text:?}: the library answers differently after it loads {json} again");
                return false;
            }
        }
    }
    let texts: Vec<&str> = known.iter().map(|(text, _)| text.as_str()).collect();
    for pool in pools {
        let batch = pool.install(|| tokenizer.encode_batch_ids(&texts));
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                println!("{error} with {json}");
                return false;
            }
        };
        for ((text, expected), ids) in known.iter().zip(batch.iter()) {
            if ids != expected {
                println!(
                    "{text:?}: {ids:?}, but {expected:?} from the library, special {special_in_text}, with {json}"
                );
                return false;
            }
        }
    }
    true
}

fn text(rng: &mut Rng, most: usize) -> String {
    (0..rng.index(most)).map(|_| PARTS[rng.index(PARTS.len())]).collect()
}

fn one_of<T: Clone>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.index(items.len())].clone()
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

fn file(rng: &mut Rng, kind: Kind) -> Value {
    let is_bytes = kind == Kind::Bytes;
    let model = model(rng, kind);
    let normalizers: Vec<Value> = (0..one_of(rng, &[0, 1, 1, 2, 3])).map(|_| normalizer(rng)).collect();
    let mut splits: Vec<Value> = (0..one_of(rng, &[0, 1, 1, 2, 3])).map(|_| pre_tokenizer(rng)).collect();
    if is_bytes {
        let flags = [(); 2].map(|()| one_in(rng, 2));
        splits.push(
            json!({"type": "ByteLevel", "add_prefix_space": flags[0], "trim_offsets": true, "use_regex": flags[1]}),
        );
    }
    let sequence = |members: Vec<Value>, name: &str| match members.as_slice() {
        [] => Value::Null,
        [single] => single.clone(),
        _ => json!({"type": "Sequence", name: members}),
    };
    let mut added: Vec<Value> = Vec::new();
    for content in ["<m>", "<s>", "[X]", "b", " c", "\n", "é", "▁a", "A", "23"] {
        if one_in(rng, 6) {
            added.push(json!({
                "id": 9000 + added.len(), "content": content, "single_word": one_in(rng, 5), "lstrip": one_in(rng, 4),
                "rstrip": one_in(rng, 4), "normalized": one_in(rng, 3), "special": one_in(rng, 2),
            }));
        }
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": sequence(normalizers, "normalizers"), "pre_tokenizer": sequence(splits, "pretokenizers"),
        "post_processor": null, "decoder": null, "model": model,
    })
}

fn numbered(tokens: &[String]) -> Map<String, Value> {
    tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect()
}

fn model(rng: &mut Rng, kind: Kind) -> Value {
    let is_bytes = kind == Kind::Bytes;
    let mut tokens = vec!["<unk>".to_owned()];
    let falls_back = one_in(rng, 3);
    if falls_back {
        let few = if one_in(rng, 3) { 128 } else { 256 };
        tokens.extend((0..few).map(|byte| format!("<0x{byte:02X}>")));
    }
    let characters: Vec<String> = match is_bytes {
        true => BYTE_CHARACTERS.iter().map(char::to_string).collect(),
        false => PARTS.concat().chars().filter(|_| !one_in(rng, 5)).map(String::from).collect(),
    };
    let add = |token: String, tokens: &mut Vec<String>| {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    };
    characters.iter().for_each(|token| add(token.clone(), &mut tokens));
    let words: Vec<String> = (0..30)
        .map(|_| {
            let word: String = (0..2 + rng.index(3)).map(|_| one_of(rng, &PARTS)).collect();
            if one_in(rng, 2) { word.replace(' ', "▁") } else { word }
        })
        .collect();
    let (fuses, ignores) = (one_in(rng, 2), one_in(rng, 4));
    match kind {
        Kind::Bytes | Kind::Characters => {
            let mut merges = Vec::new();
            let mut known = characters;
            for _ in 0..rng.index(60) {
                let [left, right] = [(); 2].map(|()| known[rng.index(known.len())].clone());
                let union = format!("{left}{right}");
                if union.len() < 24 && !merges.contains(&[left.clone(), right.clone()]) {
                    merges.push([left, right]);
                    add(union.clone(), &mut tokens);
                    // So that some merges go on.
                    known.extend([union.clone(), union]);
                }
            }
            words.into_iter().take(3).for_each(|word| add(word, &mut tokens));
            let unknown = (!one_in(rng, 3)).then_some("<unk>");
            json!({
                "type": "BPE", "unk_token": unknown, "fuse_unk": fuses, "byte_fallback": falls_back && !is_bytes,
                "ignore_merges": ignores, "vocab": numbered(&tokens), "merges": merges,
            })
        }
        Kind::WordPiece => {
            words.iter().for_each(|word| add(format!("##{word}"), &mut tokens));
            characters.iter().for_each(|token| add(format!("##{token}"), &mut tokens));
            words.into_iter().for_each(|word| add(word, &mut tokens));
            json!({
                "type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": one_of(rng, &[2, 5, 100]), "vocab": numbered(&tokens),
            })
        }
        Kind::Unigram => {
            words.into_iter().for_each(|word| add(word, &mut tokens));
            let coarse = one_in(rng, 2);
            let score =
                |rng: &mut Rng| if coarse { -((1 + rng.index(4)) as f64) } else { -(rng.index(9973) as f64) / 913.7 };
            let scored: Vec<Value> = tokens.iter().map(|token| json!([token, score(rng)])).collect();
            json!({"type": "Unigram", "unk_id": 0, "byte_fallback": falls_back, "vocab": scored})
        }
        Kind::WordLevel => {
            words.into_iter().for_each(|word| add(word, &mut tokens));
            json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": numbered(&tokens)})
        }
    }
}

fn normalizer(rng: &mut Rng) -> Value {
    let flag = |rng: &mut Rng| one_in(rng, 2);
    match rng.below(12) {
        0 => json!({"type": one_of(rng, &["NFC", "NFD", "NFKC", "NFKD"])}),
        1 => json!({"type": "Lowercase"}),
        2 => json!({"type": "StripAccents"}),
        3 => json!({"type": "Nmt"}),
        4 => {
            let strips = one_of(rng, &[json!(null), json!(true), json!(false)]);
            json!({
                "type": "BertNormalizer", "clean_text": flag(rng), "handle_chinese_chars": flag(rng), "strip_accents": strips,
                "lowercase": flag(rng),
            })
        }
        5 => json!({"type": "Prepend", "prepend": "▁"}),
        6 => json!({"type": "Strip", "strip_left": flag(rng), "strip_right": flag(rng)}),
        7 => {
            let regex = one_of(rng, &[" {2,}", " +", "a+b", r"\s"]);
            json!({"type": "Replace", "pattern": {"Regex": regex}, "content": one_of(rng, &[" ", "▁", ""])})
        }
        8 | 9 => json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        _ => {
            let pattern = one_of(rng, &["``", "a", "ab", "\n", "日", "  ", "e"]);
            json!({"type": "Replace", "pattern": {"String": pattern}, "content": one_of(rng, &["\"", "", "ab", " "])})
        }
    }
}

fn pre_tokenizer(rng: &mut Rng) -> Value {
    let flag = |rng: &mut Rng| one_in(rng, 2);
    let behaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
    match rng.below(11) {
        0 => json!({"type": "Whitespace"}),
        1 => json!({"type": "WhitespaceSplit"}),
        2 => json!({"type": "BertPreTokenizer"}),
        3 => json!({"type": "Punctuation", "behavior": behaviors[rng.index(5)]}),
        4 => json!({"type": "Digits", "individual_digits": flag(rng)}),
        5 => json!({"type": "CharDelimiterSplit", "delimiter": one_of(rng, &[" ", "a", "▁", "1"])}),
        6 => json!({"type": "UnicodeScripts"}),
        7 | 8 => {
            let scheme = one_of(rng, &["always", "first", "never"]);
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": flag(rng)})
        }
        _ => {
            let pattern = match rng.below(2) {
                0 => json!({"String": one_of(rng, &[" ", "a", "ab", "▁"])}),
                _ => {
                    let regexes = [
                        r"\s+",
                        r"\p{N}{1,3}",
                        "[一-龥぀-ゟ゠-ヿ]+",
                        r"'s| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                        r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|\s*[\r\n]+|\s+(?!\S)|\s+",
                        r" ?[^(\s|[.,!?…])]+",
                        r"a(?=b)|\w+",
                        r"\d|[A-Z][a-z]*",
                        r"b+(?!\S)|\s",
                    ];
                    json!({"Regex": regexes[rng.index(regexes.len())]})
                }
            };
            let behavior = if flag(rng) { "Isolated" } else { behaviors[rng.index(5)] };
            json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": one_in(rng, 5)})
        }
    }
}
