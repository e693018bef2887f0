//! Makes the embedded vocabularies from those of the registry crate `tiktoken-rs` (MIT, with the ranks published by OpenAI's
//! tiktoken, also MIT). Run it with `cargo run --release -p windrow-tokenizers --example vocabularies`.
//!
//! A build script would make every build of the crate compile two regex engines and `tiktoken-rs` for its host. So this program
//! makes the vocabularies instead. Its test makes them again and compares.
//!
//! `vocabularies/NAME.zst` contains three consecutive columns by rank. The first has the length of each token in a byte, the second
//! the length of the left half of its pair in a byte (0 for a single byte). The third has the bytes of all tokens.
//! `vocabularies/list.rs` is the array of the vocabularies, of which some have the same columns, which `src/tokenizer/embedded.rs` includes.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use json::Parts;
use pairs::{last_pair, runs_of_spaces, with_more};
use tiktoken_rs::CoreBPE;

use alphabet::spelled;

#[path = "../src/engine/alphabet.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of the library, of which this only spells")]
mod alphabet;
#[path = "../src/tokenizer/embedded/json.rs"]
mod json;
#[path = "../src/tokenizer/embedded/pairs.rs"]
mod pairs;

/// Above this level, `zstd` gains less than one percent on these columns and takes several times as long.
const ZSTD_LEVEL: i32 = 19;

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
    let made = Made::from_tiktoken()?;
    for (name, columns) in &made.columns {
        fs::write(folder().join(format!("{name}.zst")), zstd::bulk::compress(columns, ZSTD_LEVEL)?)?;
    }
    fs::write(folder().join(LIST), made.list)?;
    Ok(())
}

const LIST: &str = "list.rs";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vocabularies")
}

/// The contents of the files.
struct Made {
    /// By name.
    columns: Vec<(&'static str, Vec<u8>)>,
    list: String,
}

impl Made {
    fn from_tiktoken() -> Result<Self, Box<dyn Error>> {
        let mut made = Self { columns: Vec::new(), list: String::new() };
        made.add("r50k_base", &tiktoken_rs::r50k_base()?, GPT2)?;
        made.add("p50k_base", &tiktoken_rs::p50k_base()?, GPT2)?;
        made.add("p50k_edit", &tiktoken_rs::p50k_edit()?, GPT2)?;
        made.add("cl100k_base", &tiktoken_rs::cl100k_base()?, CL100K)?;
        made.add("o200k_base", &tiktoken_rs::o200k_base()?, O200K)?;
        made.add("o200k_harmony", &tiktoken_rs::o200k_harmony()?, O200K)?;
        let constant =
            |(name, _): &(&str, _)| format!("const {}: &[u8] = include_bytes!(\"{name}.zst\");\n", name.to_uppercase());
        let constants: String = made.columns.iter().map(constant).collect();
        made.list = format!("{{\n{constants}[\n{}]\n}}\n", made.list);
        Ok(made)
    }

    fn add(&mut self, name: &'static str, bpe: &CoreBPE, pattern: &str) -> Result<(), Box<dyn Error>> {
        let mut special: Vec<(&str, u32)> =
            bpe.special_tokens().into_iter().map(|token| (token, bpe.encode_with_special_tokens(token)[0])).collect();
        if name == "o200k_harmony" {
            // As in tiktoken and in the tokenizer.json of gpt-oss. The id has a reserved name, too; the last name is the one that is decoded.
            special.push(("<|endofprompt|>", 200_018));
        }
        special.sort_by_key(|&(token, id)| (id, Reverse(token)));

        // The ranks count from 0 without a gap; ids between them and the special tokens may be unused.
        let tokens: Vec<Vec<u8>> = (0..special.first().ok_or("a vocabulary without special tokens")?.1)
            .map_while(|rank| bpe.decode_bytes(&[rank]).ok())
            .collect();
        let ranks: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
        let tokens: Vec<(&[u8], u8, u32)> = tokens
            .iter()
            .zip(0..)
            .map(|(token, rank)| {
                Ok((token.as_slice(), u8::try_from(last_pair(token, rank, &ranks)?.unwrap_or(0))?, rank))
            })
            .collect::<Result<_, Box<dyn Error>>>()?;

        let mut columns = Vec::new();
        for (token, ..) in &tokens {
            columns.push(u8::try_from(token.len())?);
        }
        columns.extend(tokens.iter().map(|&(_, left, _)| left));
        columns.extend(tokens.iter().flat_map(|&(token, ..)| token));
        let number = tokens.len();

        let spaces = runs_of_spaces();
        let has_spaces = spaces.iter().all(|(run, id)| bpe.decode_bytes(&[*id]).is_ok_and(|token| token == *run));
        let tokens = with_more(tokens, if has_spaces { &spaces } else { &[] })?;
        let hash = blake3::hash(Parts { pattern, tokens: &tokens, special: &special }.json().as_bytes());
        let known = self.columns.iter().find(|(_, known)| *known == columns).map(|(name, _)| *name);
        writeln!(
            self.list,
            "Embedded {{ name: {name:?}, pattern: {pattern:?}, special: &{special:?}, tokens: {number}, spaces: {has_spaces}, \
             bytes: {}, hash: {:?}, columns: {} }},",
            columns.len(),
            hash.to_hex().as_str(),
            known.unwrap_or(name).to_uppercase(),
        )?;
        if known.is_none() {
            self.columns.push((name, columns));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_what_tiktoken_has() {
        let made = Made::from_tiktoken().unwrap();
        assert_eq!(fs::read_to_string(folder().join(LIST)).unwrap(), made.list);
        for (name, columns) in made.columns {
            let file = fs::read(folder().join(format!("{name}.zst"))).unwrap();
            assert!(zstd::bulk::decompress(&file, columns.len()).unwrap() == columns, "{name}");
        }
    }
}
