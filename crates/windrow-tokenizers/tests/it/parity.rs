//! Compares ids with the reference implementations: Hugging Face `tokenizers` 0.23 for `tokenizer.json` files, tiktoken for the
//! embedded vocabularies. No document may differ.
//!
//! Texts and files are searched under `WINDROW_DATA`, or in `shared/data` next to the workspace. Without them the tests print that they
//! are skipped. By default a sample of the documents is compared. All documents take some minutes:
//!
//! ```text
//! WINDROW_PARITY=full cargo test --release -p windrow-tokenizers --test it parity -- --nocapture
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use tokenizers_023::Tokenizer as Oracle;
use windrow::Pool;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const THREADS: usize = 2;

/// Documents of the size of a web page.
const PAGE: usize = 6500;

/// Strings on which implementations differ.
const TRICKY: [&str; 34] = [
    "",
    " ",
    "\n",
    "a",
    " jehov",
    " özelliko",
    " структур",
    "\n \n",
    "\n \n ",
    " \n \n",
    "a\n  ",
    "a.\n\n  ",
    "a.\r\n \t",
    "1 \n\u{a0}",
    "\u{2003}\u{2003}\n\u{3000}",
    "f'ma",
    "b'MM",
    "IT'S it'ſ I'LL we'Ve d'D",
    " I'ſ",
    "x'ſy it'ſ, HE'ſ 'ſ ſ'ſ'ſ",
    "\u{11935}\u{11930} \u{105d2}\u{307}\u{1611e}\u{1611e}",
    "\n't",
    "\t#endif",
    "\u{95E}",
    "e\u{301}\u{327} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "日本語とEnglish混在、テスト。한국어도",
    "12345678901 3.14159 ١٢٣٤ ²³ Ⅷ",
    "\u{feff}bom",
    "nul\0nul",
    "<|endoftext|>",
    "a<|endoftext|>b <|endoftext|>",
    "<s>x</s> [CLS] x [MASK] [SEP] <unk> <pad> <mask>",
    "<|im_start|>user\nhi<|im_end|>\n<|fim_prefix|><|endofprompt|>",
    "<｜begin▁of▁sentence｜>x<｜end▁of▁sentence｜> <extra_id_0> <tool_call>",
];

pub(crate) fn data() -> Option<PathBuf> {
    let data = match std::env::var_os("WINDROW_DATA") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
    };
    if data.join("text/big.txt").is_file() {
        return Some(data);
    }
    println!("skipped: no test data in {}", data.display());
    None
}

fn full() -> bool {
    std::env::var_os("WINDROW_PARITY").is_some_and(|value| value == "full")
}

/// The documents, ordered so that neighbours have similar lengths.
fn documents(data: &std::path::Path) -> Vec<String> {
    let big = fs::read_to_string(data.join("text/big.txt")).expect("big.txt");
    let mut lipsum: Vec<_> =
        fs::read_dir(data.join("text/lipsum")).expect("lipsum").map(|entry| entry.expect("entry").path()).collect();
    lipsum.sort();
    let lipsum: Vec<String> =
        lipsum.into_iter().filter_map(|path| fs::read_to_string(path).ok()).filter(|text| !text.is_empty()).collect();
    assert!(lipsum.len() > 5, "the lipsum files are gone");

    // The sample takes every nth document of each kind.
    let (pages_step, lines_step) =
        if full() { (1, 1) } else { (windrow_testkit::step(60), windrow_testkit::step(300)) };
    let long = if windrow_testkit::step(2) == 1 || full() { 100_000 } else { 10_000 };
    let mut documents: Vec<String> = TRICKY.map(str::to_owned).to_vec();
    for run in ["a", " ", "\n", "ab", "^", "\u{e9}", "a ", "1"] {
        documents.push(run.repeat(long));
        documents.push(format!("{}x", run.repeat(if full() { 100_000 } else { 10_000 })));
    }
    documents.extend(pages(&big).into_iter().step_by(pages_step).map(str::to_owned));
    documents.extend(big.lines().step_by(lines_step).map(str::to_owned));
    documents.extend(lipsum.iter().flat_map(|text| text.lines().step_by(lines_step.min(20))).map(str::to_owned));
    documents.extend(lipsum);
    if full() {
        documents.push(big);
    }
    documents
}

fn pages(mut text: &str) -> Vec<&str> {
    let mut pages = Vec::new();
    while !text.is_empty() {
        let end = (0..=PAGE.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(text.len());
        let (page, rest) = text.split_at(end);
        pages.push(page);
        text = rest;
    }
    pages
}

/// Compares all documents and prints one line.
pub(crate) fn compare(tokenizer: &Tokenizer, documents: &[String], oracle: impl Fn(&str) -> Vec<u32> + Sync) {
    let (next, ids, differing) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut encoder = tokenizer.engine().encoder();
                let mut ours = Vec::new();
                while let Some(text) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
                    ours.clear();
                    encoder.encode(text, &mut ours).expect("a document that cannot be encoded");
                    let theirs = oracle(text);
                    ids.fetch_add(theirs.len(), Ordering::Relaxed);
                    assert!(theirs.iter().all(|id| *id < tokenizer.vocab_size()), "an id above the vocabulary");
                    if ours != theirs && differing.fetch_add(1, Ordering::Relaxed) < 5 {
                        let at =
                            ours.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
                        let near = |ids: &[u32]| ids[at..ids.len().min(at + 8)].to_vec();
                        let head: String = text.chars().take(80).collect();
                        println!("  at id {at}: {:?} instead of {:?} in {head:?}", near(&ours), near(&theirs));
                    }
                }
            });
        }
    });
    let mut expected = (Vec::new(), Vec::new());
    let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
    tokenizer.engine().encoder().encode_all(&texts, &mut expected.0, &mut expected.1).expect("encodes");
    for threads in [1, 2, 8] {
        let batch = Pool::new(threads).install(|| tokenizer.encode_batch_ids(&texts)).expect("encodes");
        assert!(batch.values == expected.0, "{threads} threads give other ids");
        assert!(batch.offsets[1..].iter().map(|&end| end as usize).eq(expected.1.iter().copied()));
    }
    let differing = differing.into_inner();
    println!(
        "{}: {} documents, {} ids, {differing} differing ({}, {:.1} s)",
        tokenizer.name().rsplit('/').next().unwrap_or_default(),
        documents.len(),
        ids.into_inner(),
        tokenizer.engine().name(),
        start.elapsed().as_secs_f64(),
    );
    assert_eq!(differing, 0);
}

/// Compares with Hugging Face, with and without special tokens.
fn against_hugging_face(file: &str) {
    let Some(data) = data() else { return };
    let path = data.join("tok").join(file);
    let mut oracle = Oracle::from_file(&path).expect("the reference reads the file");
    oracle.with_truncation(None).expect("no truncation is always possible");
    oracle.with_padding(None);
    let path = path.to_str().expect("UTF-8");
    let start = Instant::now();
    let tokenizer = Tokenizer::load(path, &LoadOptions::default()).expect("loads");
    println!("{file}: loaded in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    assert_eq!(tokenizer.delegated(), None);
    let encode =
        |oracle: &Oracle, text: &str, special| oracle.encode_fast(text, special).expect("encodes").get_ids().to_vec();
    compare(&tokenizer, &documents(&data), |text| encode(&oracle, text, false));

    let tricky = TRICKY.map(str::to_owned);
    let options = [(true, false), (false, true), (false, false), (true, true)];
    for (add_special_tokens, special_in_text) in options.into_iter().take(windrow_testkit::cases(2) as usize) {
        oracle.set_encode_special_tokens(!special_in_text);
        let options = LoadOptions { add_special_tokens, special_in_text, ..LoadOptions::default() };
        let tokenizer = Tokenizer::load(path, &options).expect("loads");
        compare(&tokenizer, &tricky, |text| encode(&oracle, text, add_special_tokens));
    }
}

/// Compares with tiktoken, with special tokens in the text as text and as tokens.
fn against_tiktoken(name: &str, oracle: &tiktoken_rs::CoreBPE) {
    let Some(data) = data() else { return };
    let documents = documents(&data);
    let start = Instant::now();
    let as_text = LoadOptions { special_in_text: false, ..LoadOptions::default() };
    let tokenizer = Tokenizer::load(name, &as_text).expect("loads");
    println!("{name}: loaded in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    compare(&tokenizer, &documents, |text| oracle.encode_ordinary(text));
    let tokenizer = Tokenizer::load(name, &LoadOptions::default()).expect("loads");
    compare(&tokenizer, &TRICKY.map(str::to_owned), |text| oracle.encode_with_special_tokens(text));
}

#[test]
fn gpt2() {
    against_hugging_face("gpt2.json");
}

#[test]
fn qwen2_5() {
    against_hugging_face("qwen2_5.json");
}

#[test]
fn deepseek_v3() {
    against_hugging_face("deepseek_v3.json");
}

#[test]
fn mistral_nemo() {
    against_hugging_face("mistral_nemo.json");
}

#[test]
fn bert_base_uncased() {
    against_hugging_face("bert_base_uncased.json");
}

#[test]
fn t5_small() {
    against_hugging_face("t5_small.json");
}

#[test]
fn embedded_r50k_base() {
    against_tiktoken("r50k_base", tiktoken_rs::r50k_base_singleton());
}

#[test]
fn embedded_cl100k_base() {
    against_tiktoken("cl100k_base", tiktoken_rs::cl100k_base_singleton());
}

#[test]
fn embedded_o200k_base() {
    against_tiktoken("o200k_base", tiktoken_rs::o200k_base_singleton());
}

/// The embedded vocabularies have the ranks of tiktoken's files, byte for byte.
#[test]
fn embedded_ranks() {
    let Some(data) = data() else { return };
    for (name, special) in [("cl100k_base", 5), ("o200k_base", 2)] {
        let vocab = embedded_vocab(name);
        let file = fs::read_to_string(data.join(format!("tok/{name}.tiktoken"))).expect("ranks");
        let mut ranks = 0;
        for line in file.lines() {
            let (token, rank) = line.split_once(' ').expect("two columns");
            let spelled: String = base64(token).into_iter().map(|byte| BYTE_CHARACTERS[usize::from(byte)]).collect();
            assert_eq!(vocab.get(&spelled), Some(&rank.parse().expect("a rank")), "{name}: {spelled}");
            ranks += 1;
        }
        assert_eq!(vocab.len(), ranks + special, "{name} has other tokens besides");
        println!("{name}: {ranks} ranks equal");
    }
    let file: Value = serde_json::from_slice(&fs::read(data.join("tok/gpt2.json")).expect("gpt2")).expect("JSON");
    let gpt2: HashMap<String, u32> = serde_json::from_value(file["model"]["vocab"].clone()).expect("a vocabulary");
    assert_eq!(embedded_vocab("r50k_base"), gpt2);
    println!("r50k_base: {} tokens equal", gpt2.len());
}

fn embedded_vocab(name: &str) -> HashMap<String, u32> {
    let json = Tokenizer::embedded_json(name).expect("an embedded vocabulary");
    let file: Value = serde_json::from_str(&json).expect("JSON");
    serde_json::from_value(file["model"]["vocab"].clone()).expect("a vocabulary")
}

/// Plain decoding, because the files contain only well-formed base64.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for digit in text.bytes().filter(|&digit| digit != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|&other| other == digit).expect("a base64 digit") as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
