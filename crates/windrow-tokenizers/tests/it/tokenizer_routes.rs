//! Any `tokenizer.json` gives the ids of `tokenizers` 0.23, whichever engine encodes: files that engines have read differently, and small random
//! models, pre-tokenizers and added tokens.

use serde_json::{Map, Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_bpe::{Digits, Grammar};
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// The patterns of DeepSeek-V3.
pub(crate) const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"##,
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

/// The pattern of Kimi K2.
const KIMI: &str = concat!(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// The patterns of well-known models.
pub(crate) fn patterns() -> [String; 5] {
    [
        Grammar::Gpt2,
        Grammar::Lines { digits: Digits::Three },
        Grammar::Lines { digits: Digits::One },
        Grammar::Cases { digits: Digits::Three, contractions: true },
        Grammar::Cases { digits: Digits::One, contractions: false },
    ]
    .map(|grammar| grammar.patterns().concat())
}

pub(crate) const RELEASED: &str = "tokenizers 0.23.2";

/// The same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    pub(crate) fn texts(&mut self, count: usize, parts: &[&str], most: usize) -> Vec<String> {
        (0..count).map(|_| (0..self.below(most)).map(|_| self.of(parts)).collect()).collect()
    }
}

pub(crate) fn file(model: Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null, "model": model,
    })
}

/// Word pieces of one character each.
pub(crate) fn characters(characters: &str) -> Value {
    let mut vocab = Map::from_iter([("[UNK]".to_owned(), json!(0))]);
    for character in characters.chars() {
        for token in [character.to_string(), format!("##{character}")] {
            let id = vocab.len();
            vocab.insert(token, json!(id));
        }
    }
    file(json!({
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 50,
        "vocab": vocab,
    }))
}

pub(crate) fn bpe(vocab: &[&str], merges: &[[&str; 2]]) -> Value {
    let vocab: Map<String, Value> =
        vocab.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect();
    file(json!({"type": "BPE", "unk_token": null, "vocab": vocab, "merges": merges}))
}

pub(crate) fn byte_level(more: &[&str], merges: &[[&str; 2]]) -> Value {
    let alphabet: Vec<String> = BYTE_CHARACTERS.iter().map(char::to_string).collect();
    let vocab: Vec<&str> = alphabet.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let mut file = bpe(&vocab, merges);
    file["pre_tokenizer"] =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    file
}

pub(crate) fn added(id: usize, content: &str) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    })
}

pub(crate) fn split(regex: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
}

/// Compares the ids and returns the name of the engine.
#[track_caller]
pub(crate) fn engine_of(file: &Value, texts: &[impl AsRef<str>]) -> String {
    let json = file.to_string();
    let mut oracle: Oracle = json.parse().expect("the reference reads the file");
    let mut engine = String::new();
    for special_in_text in [true, false] {
        oracle.set_encode_special_tokens(!special_in_text);
        let options = LoadOptions { special_in_text, ..LoadOptions::default() };
        let tokenizer = Tokenizer::from_json(json.as_bytes(), "test", &options).expect("loads");
        let mut encoder = tokenizer.engine().encoder();
        for text in texts {
            let text = text.as_ref();
            let mut ids = Vec::new();
            let ours = encoder.encode(text, &mut ids).map(|()| ids).map_err(|error| error.to_string());
            let theirs = oracle.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec());
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    assert_eq!(ours, theirs, "{text:?} with {}", json.chars().take(900).collect::<String>())
                }
                (Err(_), Err(_)) => {}
                (ours, theirs) => panic!("{text:?}: {ours:?} and {theirs:?} with {json}"),
            }
        }
        engine = tokenizer.engine().name().to_owned();
        let fallback = tokenizer.notes().iter().any(|note| note.contains("encoded by tokenizers 0.23.2"));
        assert_eq!(fallback, engine == RELEASED, "{:?}", tokenizer.notes());
    }
    engine
}

#[test]
fn single_word() {
    let mut file = characters("abc ");
    file["added_tokens"] = json!([added(9, "aba")]);
    file["added_tokens"][0]["single_word"] = json!(true);
    engine_of(&file, &["cababa", "caba aba", "aba", "abab"]);
}

#[test]
fn rstrip_before_a_token_of_space() {
    let mut file = characters("abc ");
    file["added_tokens"] = json!([added(9, "a"), added(10, " b")]);
    file["added_tokens"][0]["rstrip"] = json!(true);
    engine_of(&file, &["a b", "a  b b", "ca bc"]);
}

#[test]
fn metaspace() {
    let mut file = characters("abc▁");
    file["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true});
    file["added_tokens"] = json!([added(9, "ab")]);
    engine_of(&file, &["ab", " ab c ab", "c ab"]);
    file["added_tokens"][0]["normalized"] = json!(true);
    engine_of(&file, &["ab", " ab c ab", "c ab"]);
    file["added_tokens"][0]["normalized"] = json!(false);
    file["normalizer"] = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    engine_of(&file, &[" b", "\n a", "ab b"]);
    // Two words come from the first character of the text, by the normalizer or by a mark before it.
    let metaspace =
        |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false});
    let isolate =
        |text: &str| json!({"type": "Split", "pattern": {"String": text}, "behavior": "Isolated", "invert": false});
    let sequence = |steps: &[Value]| json!({"type": "Sequence", "pretokenizers": steps});
    let mut file = characters("abci\u{307}▁");
    file["normalizer"] = json!({"type": "Lowercase"});
    file["pre_tokenizer"] = sequence(&[isolate("i"), metaspace("first")]);
    engine_of(&file, &["İb", "İ", "Ib İ", "aİ"]);
    file["normalizer"] = Value::Null;
    file["pre_tokenizer"] = sequence(&[metaspace("always"), isolate("▁"), metaspace("first")]);
    engine_of(&file, &["ab", " a", "a b"]);
    // As before, of the first character of a part.
    file["normalizer"] = json!({"type": "Replace", "pattern": {"String": "i"}, "content": "ab"});
    file["pre_tokenizer"] = sequence(&[json!({"type": "CharDelimiterSplit", "delimiter": "a"}), metaspace("first")]);
    engine_of(&file, &["ic", "c ai", "cic a", "a\u{307}ic"]);
}

#[test]
fn order_of_added_tokens() {
    let mut file = characters("abc");
    file["added_tokens"] = json!([added(8, "<y>"), added(7, "<x>")]);
    engine_of(&file, &["<x><y>a"]);
    file["added_tokens"] = json!([added(7, "<x>"), added(8, "<y>")]);
    engine_of(&file, &["<x><y>a"]);
}

#[test]
fn affixes() {
    let mut file = bpe(&["a", "a</w>", "b", "b</w>"], &[]);
    file["model"]["end_of_word_suffix"] = json!("</w>");
    engine_of(&file, &["a", "ab", "aab"]);
}

#[test]
fn tokens_outside_the_byte_alphabet() {
    let mut file = byte_level(&["日x"], &[]);
    engine_of(&file, &["日x", "a日xb"]);
    file["model"]["ignore_merges"] = json!(true);
    engine_of(&file, &["日x", "a日xb"]);
    engine_of(&byte_level(&["日"], &[]), &["日", "日x"]);
    // "ĠĠ" is two spaces, and so is "  ".
    engine_of(&byte_level(&["ĠĠ", "  "], &[["Ġ", "Ġ"]]), &["  ", "a   b"]);
}

#[test]
fn characters_without_their_merges() {
    // The byte spelling of 日 and of ☃.
    let (sun, snowman) = (["æ", "Ĺ", "¥"], ["â", "ĺ", "ĥ"]);
    let texts = ["日", "日日", " 日 ", "a日", "☃", "日☃"];
    let file = byte_level(&["æĹ", "æĹ¥"], &[[sun[0], sun[1]], ["æĹ", sun[2]]]);
    engine_of(&file, &texts);
    engine_of(&byte_level(&["æĹ¥"], &[]), &texts);
    engine_of(&byte_level(&["æĹ", "æĹ¥"], &[[sun[0], sun[1]]]), &texts);
    // Another merge comes first, and leaves two parts that have none.
    let merges = [["ĺ", "ĥ"], ["â", "ĺ"], ["âĺ", "ĥ"]];
    engine_of(&byte_level(&["ĺĥ", "âĺ", "âĺĥ"], &merges), &texts);
    engine_of(&byte_level(&["ĺĥ", "âĺ", "âĺĥ"], &[merges[1], merges[2], merges[0]]), &texts);
    let mut file = byte_level(&["âĺĥ"], &[]);
    file["model"]["ignore_merges"] = json!(true);
    engine_of(&file, &texts);
    assert_eq!(snowman.concat(), "âĺĥ");
    // An added token by its byte spelling, which no text has, and by its letters.
    for content in ["æĹ¥", "日"] {
        let mut file = byte_level(&["æĹ¥"], &[]);
        file["added_tokens"] = json!([added(257, content)]);
        file["added_tokens"][0]["normalized"] = json!(true);
        engine_of(&file, &["日", "æĹ¥", "a日b"]);
    }
}

#[test]
fn empty_patterns() {
    let mut file = characters("ab▁ ");
    for pattern in [json!({"String": ""}), json!({"Regex": ""})] {
        let replace = json!({"type": "Replace", "pattern": pattern, "content": "▁"});
        file["normalizer"] = json!({"type": "Sequence", "normalizers": [replace]});
        engine_of(&file, &["", "ab", "a b"]);
        file["normalizer"] = replace;
        engine_of(&file, &["", "ab", "a b"]);
    }
}

#[test]
fn words_of_any_length() {
    let mut file = characters("abc");
    for most in [0_u64, 1, 1 << 20] {
        file["model"]["max_input_chars_per_word"] = json!(most);
        engine_of(&file, &["a", "ab", ""]);
    }
    for most in [(1 << 20) + 1, 1 << 40, u64::MAX] {
        file["model"]["max_input_chars_per_word"] = json!(most);
        engine_of(&file, &["a", "ab", &"a".repeat(60)]);
    }
}

#[test]
fn added_tokens_with_one_id() {
    let mut file = characters("abc");
    file["model"]["vocab"]["<x>"] = json!(9);
    // The first takes the next number, which is that of a token of the model.
    file["added_tokens"] = json!([added(7, "<y>"), added(8, "<z>"), added(9, "<x>")]);
    engine_of(&file, &["<x>", "<y><z>a"]);
}

/// A text without a pre-tokenizer is cut where no token spans two characters.
#[test]
fn long_texts_without_a_pre_tokenizer() {
    let mut random = Random(0x0077_0077);
    let long = random.texts(2, &["▁", "▁a", "a", "b", "▁▁", "é", "?", "ab", "<unk>"], 40_000);
    for (tokens, merges) in [
        (vec!["▁a", "▁ab", "▁▁", "ab"], vec![["▁", "a"], ["a", "b"], ["▁a", "b"], ["▁", "▁"]]),
        (vec!["a▁", "a▁a", "▁▁"], vec![["a", "▁"], ["a▁", "a"], ["▁", "▁"]]),
    ] {
        for unk in ["<unk>", "▁"] {
            let vocab: Vec<&str> = ["<unk>", "▁", "a", "b"].into_iter().chain(tokens.clone()).collect();
            let mut file = bpe(&vocab, &merges);
            (file["model"]["unk_token"], file["model"]["fuse_unk"]) = (json!(unk), json!(true));
            engine_of(&file, &long);
        }
    }
}

#[test]
fn twice_in_a_unigram_model() {
    let vocab = json!([["a", -1.0], ["b", -2.0], ["ab", -9.0], ["ab", -0.5]]);
    engine_of(&file(json!({"type": "Unigram", "unk_id": 0, "vocab": vocab})), &["ab", "aab", "ba"]);
}

#[test]
fn regexes() {
    let texts = ["ab 123 1234567", "a  b", "it's\n\n x", "日本 a"];
    let with = |pre_tokenizer: Value| {
        let mut file = characters("abs123 \n'日本");
        file["pre_tokenizer"] = pre_tokenizer;
        engine_of(&file, &texts);
    };
    let [gpt2, lines, ..] = patterns();
    patterns().iter().for_each(|regex| with(split(regex)));
    for regex in [r"\s+", "a|b", &lines.replace("{1,3}", "{1,2}"), &lines.replace("{1,3}", "+"), KIMI] {
        with(split(regex));
    }
    let mut merged = split(&gpt2);
    merged["behavior"] = json!("MergedWithNext");
    with(merged);
    let mut members: Vec<Value> = DEEPSEEK.iter().map(|regex| split(regex)).collect();
    with(json!({"type": "Sequence", "pretokenizers": members}));
    members.push(json!({"type": "Digits", "individual_digits": true}));
    with(json!({"type": "Sequence", "pretokenizers": members}));
}

/// Regexes that other engines read differently. The expected words are those of the Python wheel of `tokenizers` 0.23.3, which runs
/// Oniguruma.
#[test]
fn regexes_of_the_wheel() {
    let cases: [(&str, &str, &[&str]); 20] = [
        ("^a|b$", "a\nab\nb", &["a", "\n", "a", "b", "\n", "b"]),
        ("(?m:a.b)", "a\nb acb", &["a\nb", " ", "acb"]),
        (r"\A.|.\z|.\Z", "abc\n", &["a", "b", "c", "\n"]),
        ("[[:alpha:]]+", "aé日 ½Ⅷ1\u{301}b", &["aé日", " ½", "Ⅷ", "1\u{301}", "b"]),
        ("[[:punct:]]+", "a$+<>.!-_|~^`b", &["a", "$+<>.!-_|~^`", "b"]),
        ("[[:space:]]+", "a\u{a0}b\u{85}d\u{200b}e", &["a", "\u{a0}", "b", "\u{85}", "d\u{200b}e"]),
        (
            r"\w+|[^\w\s]+",
            "می\u{200c}روم a\u{200d}b ½x Ⅷy a_b",
            &["می", "\u{200c}", "روم", " ", "a", "\u{200d}", "b", " ", "½x", " ", "Ⅷy", " ", "a_b"],
        ),
        (r"\bx", "a\u{200d}x x½x", &["a\u{200d}", "x", " ", "x", "½x"]),
        (r"\p{N}{1,3}(?=(\p{N}{3})*\b)", "1234567 12ab 1234½", &["1", "234", "567", " 12ab ", "12", "34½"]),
        (r"\R", "a\r\nb\nc\u{2028}d", &["a", "\r\n", "b", "\n", "c", "\u{2028}", "d"]),
        (
            r"\X",
            "e\u{301}a \u{1f468}\u{200d}\u{1f469} x",
            &["e\u{301}", "a", " ", "\u{1f468}\u{200d}\u{1f469}", " ", "x"],
        ),
        (r"\p{^L}+", "ab12 c!", &["ab", "12 ", "c", "!"]),
        (r"\x{41}|\101|\o{102}", "ABC", &["A", "B", "C"]),
        ("(?~ab)", "xxabyy", &["xx", "a", "byy"]),
        (r"\h+", "ab xyz 12ff", &["ab", " xyz ", "12ff"]),
        ("[a-c&&[^b]]+", "abcabc", &["a", "b", "ca", "b", "c"]),
        ("(?i:ss)", "ß ſs SS", &["ß", " ", "ſs", " ", "SS"]),
        ("a{,2}b", "aab ab b", &["aab", " ", "ab", " ", "b"]),
        (r"(?<=a)b\K.", "abcab", &["ab", "c", "ab"]),
        ("x*", "axxb", &["a", "xx", "b"]),
    ];
    for (regex, text, words) in cases {
        let mut known: Vec<char> = text.chars().collect();
        known.sort_unstable();
        known.dedup();
        let mut file = characters(&known.iter().collect::<String>());
        file["pre_tokenizer"] = split(regex);
        engine_of(&file, &[text, &text.repeat(9)]);
        let tokenizer = Tokenizer::from_json(file.to_string().as_bytes(), "test", &LoadOptions::default());
        let mut ids = Vec::new();
        tokenizer.expect("loads").engine().encoder().encode(text, &mut ids).expect("encodes");
        let mut found: Vec<String> = Vec::new();
        for id in ids {
            // After [UNK], each character has a token that begins a word and one that does not.
            let (at, inside) = ((id as usize - 1) / 2, id % 2 == 0);
            match found.last_mut().filter(|_| inside) {
                Some(word) => word.push(known[at]),
                None => found.push(known[at].to_string()),
            }
        }
        assert_eq!(found, words, "{regex:?}");
    }
}

/// If a position needs many retries, a search goes position by position. It finds what a search of the whole text finds.
#[test]
fn regexes_on_long_texts() {
    let mut random = Random(0x51ed_270b);
    let parts = ["a", "b", " ", "\n", "é", "日", "1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];
    let mut texts = random.texts(4, &parts, 1500);
    for run in ["a", "é", " ", "1", "a日"] {
        texts.push(format!("{0}b{0}\n{0}", run.repeat(3000)));
    }
    let mut file = characters("ab \né日1");
    for regex in [
        "b",
        r"\s+",
        r"\s+(?!\S)|\s+",
        "^a|b$",
        r"a+(?=b)",
        r"(?<=\n)a",
        r"(?:ab|a)+1",
        r"日?$",
        r"\A\w|\d*\z",
        ".*b",
        "(?m:.*)1",
        "",
        r"[^a]*é",
    ] {
        file["pre_tokenizer"] = split(regex);
        engine_of(&file, &texts);
    }
}

#[test]
fn random_models() {
    let mut random = Random(0x1234_5678);
    let texts = random.texts(400, &["a", "b", "c", "é", "日", " ", "x"], 14);
    let long = random.texts(20, &["a", "b", "c", "é", "日", " ", "x"], 300);
    let texts: Vec<String> = texts.into_iter().chain(long).collect();
    let mut own = 0;
    for _ in 0..150 {
        let file = random_model(&mut random);
        own += usize::from(engine_of(&file, &texts) != RELEASED);
    }
    assert!(own > 75, "only {own} compare anything");
}

fn random_model(random: &mut Random) -> Value {
    let known: Vec<&str> =
        ["a", "b", "c", "é", "日", " "].into_iter().filter(|_| !random.one_in(6)).chain(["x"]).collect();
    let unk = !random.one_in(3);
    let byte_fallback = random.one_in(3);
    let mut vocab: Vec<String> = Vec::new();
    if unk {
        vocab.push("<unk>".to_owned());
    }
    if byte_fallback {
        vocab.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    }
    let mut add = |token: String| {
        if !vocab.contains(&token) {
            vocab.push(token);
        }
    };
    let word = |random: &mut Random, most| (0..=random.below(most)).map(|_| random.of(&known)).collect::<String>();
    let model = match random.below(3) {
        0 => {
            let mut tokens: Vec<String> = known.iter().map(|token| (*token).to_owned()).collect();
            let mut merges = Vec::new();
            for _ in 0..random.below(30) {
                let (left, right) = (random.below(tokens.len()), random.below(tokens.len()));
                let whole = format!("{}{}", tokens[left], tokens[right]);
                merges.push([tokens[left].clone(), tokens[right].clone()]);
                if !tokens.contains(&whole) && whole.len() < 40 {
                    tokens.push(whole);
                } else if !tokens.contains(&whole) {
                    merges.pop();
                }
            }
            tokens.extend(["zz".to_owned(), format!("{0}{0}{0}", known[0])]);
            tokens.into_iter().for_each(&mut add);
            let unk = unk.then_some("<unk>");
            json!({
                "type": "BPE", "unk_token": unk, "fuse_unk": random.one_in(2), "byte_fallback": byte_fallback,
                "ignore_merges": random.one_in(3), "vocab": ids(&vocab), "merges": merges,
            })
        }
        1 => {
            add("<unk>".to_owned());
            for _ in 0..30 {
                let token = word(random, 4);
                add(format!("##{token}"));
                add(token);
            }
            json!({
                "type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 3 + random.below(20), "vocab": ids(&vocab),
            })
        }
        _ => {
            known.iter().for_each(|token| add((*token).to_owned()));
            for _ in 0..20 {
                let token = word(random, 5);
                add(token);
            }
            let scored: Vec<Value> =
                vocab.iter().map(|token| json!([token, -((random.below(999) + 1) as f64) / 97.3])).collect();
            json!({"type": "Unigram", "unk_id": unk.then_some(0), "byte_fallback": byte_fallback, "vocab": scored})
        }
    };
    let mut file = file(model);
    file["pre_tokenizer"] = match random.below(3) {
        0 => Value::Null,
        1 => json!({"type": "WhitespaceSplit"}),
        _ => json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
    };
    file
}

pub(crate) fn ids(vocab: &[String]) -> Map<String, Value> {
    vocab.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect()
}

#[test]
fn every_pre_tokenizer() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let parts =
        ["a", "b", "A", "s", "t", "1", "2", " ", "\n", "\t", ".", "'", "_", "é", "日", "の", "\u{301}", "\u{a0}", "▁"];
    let texts = random.texts(1500, &parts, 14);
    let mut all = vec![
        json!(null),
        json!({"type": "Whitespace"}),
        json!({"type": "WhitespaceSplit"}),
        json!({"type": "BertPreTokenizer"}),
        json!({"type": "UnicodeScripts"}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Digits", "individual_digits": false}),
        json!({"type": "FixedLength", "length": 3}),
        json!({"type": "CharDelimiterSplit", "delimiter": "_"}),
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "UnicodeScripts"},
        ]}),
    ];
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"] {
        all.push(json!({"type": "Punctuation", "behavior": behavior}));
        for invert in [false, true] {
            for pattern in [json!({"String": " "}), json!({"String": "ab"}), json!({"Regex": patterns()[3]})] {
                all.push(json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}));
            }
        }
    }
    for scheme in ["always", "first", "never"] {
        for split in [true, false] {
            let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
            all.push(json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}));
            all.push(metaspace);
        }
    }
    for pre_tokenizer in all {
        let mut file = characters("abAst12 \n\t.'_é日の\u{301}\u{a0}▁");
        file["pre_tokenizer"] = pre_tokenizer;
        engine_of(&file, &texts);
    }
}

#[test]
fn random_added_tokens() {
    let mut random = Random(0x0bad_cafe);
    let parts =
        ["<s>", "</s>", "<m>", " ", "  ", "\n", "a", "b", "A", "ab", "<", "s>", "Foo", "é", "e\u{301}", "1", "."];
    let texts = random.texts(500, &parts, 8);
    let normalizers = [
        json!(null),
        json!({"type": "Lowercase"}),
        json!({"type": "NFD"}),
        json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
    ];
    let contents = ["<s>", "</s>", "<m>", "ab", "Foo", "é", " a", "s"];
    let mut own = 0;
    for round in 0..200 {
        let mut file = characters("abAsé1. \n<>/mFfoe\u{301}▁");
        let base = file["model"]["vocab"].as_object().expect("a vocabulary").len();
        file["normalizer"] = normalizers[round % normalizers.len()].clone();
        file["pre_tokenizer"] = match random.below(3) {
            0 => json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}),
            1 => json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
            _ => json!({"type": "WhitespaceSplit"}),
        };
        let mut tokens: Vec<Value> = Vec::new();
        for content in contents {
            if !random.one_in(3) {
                continue;
            }
            let mut token = added(base + tokens.len(), content);
            for flag in ["lstrip", "rstrip", "normalized", "special"] {
                token[flag] = json!(random.one_in(3));
            }
            token["single_word"] = json!(random.one_in(12));
            tokens.push(token);
        }
        file["added_tokens"] = json!(tokens);
        own += usize::from(engine_of(&file, &texts) != RELEASED);
    }
    assert!(own > 50, "only {own} compare anything");
}
