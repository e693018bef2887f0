//! Turns the vocabularies that the registry crate `tiktoken-rs` ships (MIT, with the ranks published by OpenAI's
//! tiktoken, MIT too) into compressed canonical `tokenizer.json` files, which `src/embedded.rs` includes.
//!
//! A rank file orders tokens; a `tokenizer.json` orders pairs. The pair of a token is what is left just before the
//! end when byte pair encoding runs on the token's own bytes with the lower ranks alone. One pair a token is enough:
//! inside the bytes of a token nothing depends on what stands around it, so every text reaches the same pair.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// Above this, `zstd` gains less than one percent on these files and takes several times as long.
const ZSTD_LEVEL: i32 = 15;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CL100K: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    embed(&out, "r50k_base", &tiktoken_rs::r50k_base()?, GPT2)?;
    embed(&out, "cl100k_base", &tiktoken_rs::cl100k_base()?, CL100K)?;
    embed(&out, "o200k_base", &tiktoken_rs::o200k_base()?, O200K)?;
    Ok(())
}

/// Writes `OUT_DIR/NAME.json.zst`.
fn embed(out: &str, name: &str, bpe: &CoreBPE, pattern: &str) -> Result<(), Box<dyn Error>> {
    let mut special: Vec<(String, u32)> = bpe
        .special_tokens()
        .into_iter()
        .map(|token| (token.to_owned(), bpe.encode_with_special_tokens(token)[0]))
        .collect();
    special.sort_by_key(|&(_, id)| id);
    let end = special.last().ok_or("a vocabulary without special tokens")?.1;

    // Ids between the ranks and the special tokens may be free.
    let tokens: Vec<(Vec<u8>, u32)> = (0..=end)
        .filter(|id| special.iter().all(|(_, taken)| taken != id))
        .filter_map(|id| Some((bpe.decode_bytes(&[id]).ok()?, id)))
        .collect();
    let ranks: HashMap<&[u8], u32> = tokens.iter().map(|(bytes, id)| (bytes.as_slice(), *id)).collect();

    let printable = printable_bytes();
    let spell = |bytes: &[u8]| bytes.iter().map(|&byte| printable[usize::from(byte)]).collect::<String>();

    // Written by hand, in the order of the ids: a JSON map would sort the tokens and need many times the memory.
    let mut vocab = String::from("{");
    let mut merges = String::from("[");
    for (bytes, id) in &tokens {
        push_entry(&mut vocab, &spell(bytes), *id);
        if let Some(at) = last_pair(bytes, *id, &ranks)? {
            if merges.len() > 1 {
                merges.push(',');
            }
            merges.push_str(&json!([spell(&bytes[..at]), spell(&bytes[at..])]).to_string());
        }
    }
    // Only a token that the model knows keeps its id when it is added; no piece of text ever equals one of these.
    for (token, id) in &special {
        push_entry(&mut vocab, token, *id);
    }
    vocab.push('}');
    merges.push(']');

    let added: Vec<Value> = special
        .iter()
        .map(|(token, id)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    let added = Value::Array(added);
    let pre_tokenizer =
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let text = format!(
        concat!(
            r#"{{"version":"2.0","truncation":null,"padding":null,"added_tokens":{added},"normalizer":null,"#,
            r#""pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":{{"type":"ByteLevel"}},"#,
            r#""model":{{"type":"BPE","byte_level":true,"ignore_merges":true,"vocab":{vocab},"merges":{merges}}}}}"#,
        ),
        added = added,
        pre_tokenizer = pre_tokenizer,
        vocab = vocab,
        merges = merges,
    );
    fs::write(Path::new(out).join(format!("{name}.json.zst")), zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL)?)?;
    Ok(())
}

fn push_entry(vocab: &mut String, token: &str, id: u32) {
    if vocab.len() > 1 {
        vocab.push(',');
    }
    vocab.push_str(&format!("{}:{id}", Value::from(token)));
}

/// Where the last merge of a token joins its two halves; `None` for a single byte.
fn last_pair(token: &[u8], rank: u32, ranks: &HashMap<&[u8], u32>) -> Result<Option<usize>, String> {
    if token.len() == 1 {
        return Ok(None);
    }
    let lower = |from: usize, to: usize| ranks.get(&token[from..to]).copied().filter(|&other| other < rank);
    // Part i is token[starts[i]..starts[i + 1]], and joined[i] the rank of parts i and i + 1 together.
    let mut starts: Vec<usize> = (0..=token.len()).collect();
    let mut joined: Vec<Option<u32>> = starts.windows(3).map(|part| lower(part[0], part[2])).collect();
    while let Some((at, _)) =
        joined.iter().enumerate().filter_map(|(at, rank)| Some((at, (*rank)?))).min_by_key(|&(_, rank)| rank)
    {
        starts.remove(at + 1);
        joined.remove(at);
        if at < joined.len() {
            joined[at] = lower(starts[at], starts[at + 2]);
        }
        if at > 0 {
            joined[at - 1] = lower(starts[at - 1], starts[at + 1]);
        }
    }
    match starts[..] {
        [_, middle, _] => Ok(Some(middle)),
        _ => Err(format!("the token of rank {rank} is not the union of two tokens of lower rank")),
    }
}

/// The byte-level alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 and after.
fn printable_bytes() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|byte| {
        let plain = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
        let code = if plain {
            byte as u32
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).expect("below the surrogates")
    })
}
