//! Vocabularies under test, from files and made at random.

use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::{Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_bpe::{AddedToken, BpeEngine, Definition, Digits, EngineOptions, Grammar};
use windrow_testkit::Rng;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::generate::{Generator, floor};

/// Grammars that are tested together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Gpt2,
    Lines,
    Cases,
    DeepSeek,
}

impl Family {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "gpt2" => Self::Gpt2,
            "lines" => Self::Lines,
            "cases" => Self::Cases,
            "deepseek" => Self::DeepSeek,
            _ => return None,
        })
    }

    fn grammars(self) -> Vec<Grammar> {
        let both = [Digits::One, Digits::Three];
        match self {
            Self::Gpt2 => vec![Grammar::Gpt2],
            Self::DeepSeek => vec![Grammar::DeepSeek],
            Self::Lines => both.map(|digits| Grammar::Lines { digits }).to_vec(),
            Self::Cases => {
                let cases = |digits| [false, true].map(|contractions| Grammar::Cases { digits, contractions });
                both.into_iter().flat_map(cases).collect()
            }
        }
    }
}

/// Where the vocabulary of a round comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A `tokenizer.json`.
    File(&'static str),
    /// A vocabulary of the crate, compared with its `tokenizer.json`.
    Embedded(&'static str),
    /// The merges of a vocabulary of the crate with another grammar.
    Other(&'static str, Grammar),
    /// A small vocabulary, made of what the texts are made of.
    Random,
}

impl Source {
    /// A source for the next round.
    pub(crate) fn choose(family: Family, rng: &mut Rng) -> Self {
        if rng.below(2) == 0 {
            return Self::Random;
        }
        let grammars = family.grammars();
        let other = |name, rng: &mut Rng| Self::Other(name, grammars[rng.index(grammars.len())]);
        match family {
            Family::Gpt2 if rng.below(4) == 0 => Self::Embedded("r50k_base"),
            Family::Gpt2 => Self::File("gpt2.json"),
            Family::Lines => match rng.below(4) {
                0 | 1 => Self::File("qwen2_5.json"),
                2 => Self::Embedded("cl100k_base"),
                _ => other("cl100k_base", rng),
            },
            Family::Cases => match rng.below(4) {
                0 | 1 => Self::File("mistral_nemo.json"),
                2 => Self::Embedded("o200k_base"),
                _ => other("o200k_base", rng),
            },
            Family::DeepSeek if rng.below(4) == 0 => other("o200k_base", rng),
            Family::DeepSeek => Self::File("deepseek_v3.json"),
        }
    }

    pub(crate) fn is_random(&self) -> bool {
        matches!(self, Self::Random)
    }
}

/// A vocabulary, its reference and the engines that are compared with it.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) oracle: Oracle,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) definition: Definition,
    /// One for each instruction set. They stay warm.
    pub(crate) engines: Vec<BpeEngine>,
    /// The ids around a document, for engines that do not add them.
    pub(crate) around: [Vec<u32>; 2],
    pub(crate) add_special_tokens: bool,
    /// The file, to be printed with a finding if the vocabulary is random.
    pub(crate) file: Option<Value>,
}

impl Subject {
    pub(crate) fn new(source: &Source, family: Family, data: &Path, generator: &mut Generator) -> Self {
        let options = LoadOptions {
            add_special_tokens: generator.rng.below(3) == 0,
            special_in_text: generator.rng.below(4) != 0,
            ..LoadOptions::default()
        };
        let name = format!("{source:?} {options:?}");
        let file = match source {
            Source::File(file) => {
                let text = fs::read(data.join("tok").join(file)).expect("a tokenizer.json in the data");
                serde_json::from_slice(&text).expect("JSON")
            }
            Source::Embedded(name) => released(name, None),
            Source::Other(name, grammar) => released(name, Some(*grammar)),
            Source::Random => random(family, generator),
        };
        let json = file.to_string();
        let parsed = json.parse();
        if source.is_random() && parsed.is_err() {
            // Two added tokens are equal in form C.
            return Self::new(source, family, data, generator);
        }
        let mut oracle: Oracle = parsed.unwrap_or_else(|error| panic!("the reference refuses {name}: {error}"));
        oracle.set_encode_special_tokens(!options.special_in_text);
        let tokenizer = match source {
            Source::Embedded(name) => Tokenizer::load(name, &options),
            _ => Tokenizer::from_json(json.as_bytes(), "fuzz.json", &options),
        };
        let tokenizer = tokenizer.unwrap_or_else(|error| panic!("{name}: {error}\n{json}"));
        if let Some(reason) = tokenizer.delegated() {
            panic!("windrow-bpe does not encode with {name}: {reason}");
        }
        let definition = definition(&file, &oracle, &options);
        let engines = instruction_sets(&definition);
        let around = around(&oracle, options.add_special_tokens);
        generator.tokens = definition.tokens.iter().filter_map(|(token, _)| text(token)).collect();
        generator.added = definition.added.iter().map(|token| token.content.clone()).collect();
        Self {
            name,
            oracle,
            tokenizer,
            definition,
            engines,
            around,
            add_special_tokens: options.add_special_tokens,
            file: source.is_random().then_some(file),
        }
    }

    /// The ids of the reference, without those around the document. `None` if it panics, as it does for some texts that form C changes beside
    /// added tokens that are normalized.
    pub(crate) fn expected(&self, text: &str) -> Option<Vec<u32>> {
        let encoded = catch_unwind(AssertUnwindSafe(|| self.oracle.encode_fast(text, false)));
        Some(encoded.ok()?.expect("the reference encodes any text").get_ids().to_vec())
    }

    /// Maximum length of a document: the reference searches all text before an added token with flags.
    pub(crate) fn longest(&self) -> usize {
        let has_flags = |token: &AddedToken| token.single_word || token.lstrip || token.rstrip;
        if self.definition.added.iter().any(has_flags) { 20_000 } else { usize::MAX }
    }

    /// The ids of a document with those around it.
    pub(crate) fn surrounded(&self, ids: &[u32]) -> Vec<u32> {
        [&self.around[0][..], ids, &self.around[1][..]].concat()
    }
}

/// The ids that a template puts around a document, found as what it adds to the ids of `a`.
fn around(oracle: &Oracle, add_special_tokens: bool) -> [Vec<u32>; 2] {
    let ids = |special| oracle.encode_fast("a", special).expect("encodes").get_ids().to_vec();
    let (without, with) = (ids(false), ids(add_special_tokens));
    let more = with.len() - without.len();
    let begin = (0..=more).find(|&at| with[at..at + without.len()] == without[..]).expect("a template adds ids");
    [with[..begin].to_vec(), with[begin + without.len()..].to_vec()]
}

fn text(token: &[u8]) -> Option<String> {
    String::from_utf8(token.to_vec()).ok().filter(|text| !text.is_empty())
}

fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| BYTE_CHARACTERS[usize::from(byte)]).collect()
}

/// The engines of all instruction sets of this CPU.
fn instruction_sets(definition: &Definition) -> Vec<BpeEngine> {
    let with = |name| EngineOptions { instructions: Some(name), ..EngineOptions::default() };
    ["avx512", "avx2", "swar"].iter().filter_map(|name| BpeEngine::new(definition, &with(name)).ok()).collect()
}

/// The file of a vocabulary of the crate, with other patterns if there are some.
fn released(name: &str, grammar: Option<Grammar>) -> Value {
    let json = Tokenizer::embedded_json(name).expect("an embedded vocabulary");
    let mut file: Value = serde_json::from_str(&json).expect("JSON");
    if let Some(grammar) = grammar {
        file["pre_tokenizer"] = pre_tokenizer(&grammar.patterns());
    }
    file
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

fn pre_tokenizer(patterns: &[String]) -> Value {
    if patterns == Grammar::Gpt2.patterns() {
        return byte_level(true);
    }
    let split =
        |pattern| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let members: Vec<Value> = patterns.iter().map(split).chain([byte_level(false)]).collect();
    json!({"type": "Sequence", "pretokenizers": members})
}

/// What a file says, as data.
fn definition(file: &Value, oracle: &Oracle, options: &LoadOptions) -> Definition {
    let bytes: HashMap<char, u8> = BYTE_CHARACTERS.iter().copied().zip(0..=255).collect();
    let to_bytes = |token: &str| token.chars().map(|c| bytes.get(&c).copied()).collect::<Option<Vec<u8>>>();
    let vocab = file["model"]["vocab"].as_object().expect("a vocabulary");
    let id = |token: &str| vocab[token].as_u64().expect("an id") as u32;
    let tokens = vocab.keys().filter_map(|token| Some((to_bytes(token)?, id(token)))).collect();
    let merges = file["model"]["merges"].as_array().expect("merges").iter().map(|merge| match merge.as_str() {
        Some(both) => both.split_once(' ').map(|(left, right)| (id(left), id(right))).expect("two tokens"),
        None => (id(merge[0].as_str().expect("a token")), id(merge[1].as_str().expect("a token"))),
    });
    let added = file["added_tokens"].as_array().into_iter().flatten().map(|token| {
        let content = token["content"].as_str().expect("a token").to_owned();
        let is_text = token["special"] == json!(true) && !options.special_in_text;
        let id = oracle.token_to_id(&content).filter(|_| !is_text);
        let flag = |name: &str| token[name] == json!(true);
        AddedToken {
            content,
            id,
            single_word: flag("single_word"),
            lstrip: flag("lstrip"),
            rstrip: flag("rstrip"),
            normalized: flag("normalized"),
        }
    });
    let members = file["pre_tokenizer"]["pretokenizers"].as_array().into_iter().flatten();
    let patterns: Vec<&str> = members.filter_map(|member| member["pattern"]["Regex"].as_str()).collect();
    let grammar = if patterns.is_empty() { Some(Grammar::Gpt2) } else { Grammar::from_patterns(&patterns) };
    Definition {
        grammar: grammar.expect("known patterns"),
        tokens,
        merges: merges.collect(),
        ignore_merges: file["model"]["ignore_merges"] == json!(true),
        added: added.collect(),
        nfc: file["normalizer"]["type"] == json!("NFC"),
    }
}

/// A small vocabulary in which the borders of pieces show: merges come from whole texts, across all borders.
fn random(family: Family, generator: &mut Generator) -> Value {
    generator.tokens.clear();
    generator.added = vec!["<|x|>".to_owned(), "<s>".to_owned()];
    let sizes: Vec<usize> = (0..8).map(|_| generator.rng.log_below(1500) as usize + 4).collect();
    let texts: Vec<String> = sizes.iter().map(|&size| generator.text(size)).collect();
    let rng = &mut generator.rng;
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let mut known: HashMap<Vec<u8>, usize> = tokens.iter().cloned().zip(0..).collect();
    let mut merges: Vec<(usize, usize)> = Vec::new();
    let mut sequences: Vec<Vec<usize>> = texts.iter().map(|text| text.bytes().map(usize::from).collect()).collect();
    for _ in 0..5 + rng.log_below(800) {
        let sequence = &sequences[rng.index(sequences.len())];
        if sequence.len() < 2 {
            continue;
        }
        let at = rng.index(sequence.len() - 1);
        let pair = (sequence[at], sequence[at + 1]);
        if merges.contains(&pair) {
            continue;
        }
        let union = [&tokens[pair.0][..], &tokens[pair.1][..]].concat();
        let merged = *known.entry(union.clone()).or_insert_with(|| {
            tokens.push(union);
            tokens.len() - 1
        });
        merges.push(pair);
        for sequence in &mut sequences {
            merge(sequence, pair, merged);
        }
    }
    if rng.below(5) == 0 {
        shuffle(rng, &mut merges);
    }
    let ignore_merges = rng.below(3) == 0;
    if ignore_merges {
        for _ in 0..rng.index(60) {
            let text = &texts[rng.index(texts.len())];
            let from = rng.index(text.len().max(1));
            let token = text.as_bytes()[from..(from + 1 + rng.index(24)).min(text.len())].to_vec();
            if !token.is_empty() && !known.contains_key(&token) {
                known.insert(token.clone(), tokens.len());
                tokens.push(token);
            }
        }
    }
    let mut ids: Vec<usize> = (0..tokens.len()).collect();
    if rng.below(3) == 0 {
        shuffle(rng, &mut ids);
    }
    let spelled: Vec<String> = tokens.iter().map(|token| spelled(token)).collect();
    let vocab: serde_json::Map<String, Value> =
        spelled.iter().zip(&ids).map(|(token, id)| (token.clone(), json!(id))).collect();
    let merges: Vec<Value> = merges.iter().map(|&(left, right)| json!([spelled[left], spelled[right]])).collect();
    let added = added_tokens(rng, &texts, tokens.len());
    let grammars = family.grammars();
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "x", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"x": {"id": "x", "ids": [7], "tokens": ["x"]}},
    });
    json!({
        "version": "1.0",
        "added_tokens": added,
        "normalizer": if rng.below(3) == 0 { json!({"type": "NFC"}) } else { Value::Null },
        "pre_tokenizer": pre_tokenizer(&grammars[rng.index(grammars.len())].patterns()),
        "post_processor": if rng.below(3) == 0 { template } else { Value::Null },
        "decoder": Value::Null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges,
            "vocab": vocab, "merges": merges,
        },
    })
}

/// Added tokens: some are names in brackets, some parts of texts. In one of two files they have flags and begin with any byte.
fn added_tokens(rng: &mut Rng, texts: &[String], size: usize) -> Vec<Value> {
    const NAMES: [&str; 12] =
        ["<s>", "<ss", "<s>>", "<|x|>", "<|x|><s>", "<", "<s> ", "<\n>", " <s>", "[s]", "_s", "\u{301}"];
    let is_plain = rng.below(2) == 0;
    let mut contents: Vec<String> = Vec::new();
    for _ in 0..rng.index(6) {
        let content = if rng.below(3) == 0 {
            let text = &texts[rng.index(texts.len())];
            let from = floor(text, rng.index(text.len().max(1)));
            text[from..floor(text, (from + 1 + rng.index(6)).min(text.len()))].to_owned()
        } else {
            NAMES[rng.index(NAMES.len())].to_owned()
        };
        let mut first: Vec<u8> = contents.iter().map(|content| content.as_bytes()[0]).collect();
        first.extend(content.bytes().next());
        first.sort_unstable();
        first.dedup();
        if !content.is_empty() && !contents.contains(&content) && (!is_plain || first.len() <= 2) {
            contents.push(content);
        }
    }
    let mut tokens = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        let mut flag = || !is_plain && rng.below(4) == 0;
        let (single_word, lstrip, rstrip, normalized) = (flag(), flag(), flag(), flag());
        tokens.push(json!({
            "id": size + number, "content": content, "single_word": single_word, "rstrip": rstrip,
            // The reference fails if a token strips white space that it begins with.
            "lstrip": lstrip && !content.starts_with(char::is_whitespace),
            "normalized": normalized, "special": number % 2 == 0,
        }));
    }
    tokens
}

fn merge(sequence: &mut Vec<usize>, (left, right): (usize, usize), merged: usize) {
    let (mut from, mut to) = (0, 0);
    while from < sequence.len() {
        let is_pair = sequence[from] == left && sequence.get(from + 1) == Some(&right);
        sequence[to] = if is_pair { merged } else { sequence[from] };
        from += if is_pair { 2 } else { 1 };
        to += 1;
    }
    sequence.truncate(to);
}

fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.index(at + 1));
    }
}
