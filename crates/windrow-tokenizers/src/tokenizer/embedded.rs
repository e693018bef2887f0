//! The vocabularies embedded in the crate.
//!
//! `examples/vocabularies.rs` makes them from the registry crate `tiktoken-rs` (Copyright (c) 2023 Roger Zurawicki and
//! contributors, MIT licence), which ships the ranks of OpenAI's `tiktoken` (Copyright (c) 2022 OpenAI, Shantanu Jain,
//! MIT licence).
//!
//! Their patterns come from the published tokenizer.json files, for which the engine has programs. tiktoken writes two of them
//! differently. tiktoken's pattern of `r50k_base` finds the same pieces. Its pattern of `cl100k_base` takes the white space at the
//! end of a text as one piece; the pattern used here cuts that white space after the last line end. The ids are the same, because
//! no token of `cl100k_base` continues after its last line end (`tests/it/tokenizer_load.rs`).
//!
//! The rank files of tiktoken are read as these vocabularies (`rank_file`).

use std::io;

use windrow_bpe::{BpeEngine, Grammar};

use super::LoadOptions;
use crate::engine::{Bpe, Released, spelled};

mod json;
mod pairs;

/// An embedded vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Embedded {
    pub(super) name: &'static str,
    /// The pattern that splits text into pieces.
    pattern: &'static str,
    /// The special tokens in the order of their ids.
    pub(super) special: &'static [(&'static str, u32)],
    /// Number of tokens in the columns, whose ids begin at 0.
    tokens: usize,
    /// True if runs of spaces follow the token with the id 50256, as in tiktoken's vocabularies for code.
    pub(super) spaces: bool,
    /// The blake3 hash of the `tokenizer.json`, in hexadecimal.
    pub(super) hash: &'static str,
    /// Number of bytes of the columns.
    bytes: usize,
    /// The columns that `examples/vocabularies.rs` describes, compressed. Some vocabularies have the same.
    columns: &'static [u8],
}

/// The token that ends a document in all of them.
pub(super) const END_OF_TEXT: &str = "<|endoftext|>";

/// The names, for messages.
pub(super) const NAMES: &str = "r50k_base (or gpt2), p50k_base, p50k_edit, cl100k_base, o200k_base and o200k_harmony";

pub(super) const ALL: [Embedded; 6] = include!("../../vocabularies/list.rs");

/// The vocabulary with this name or alias.
pub(super) fn find(name: &str) -> Option<Embedded> {
    let name = match name {
        "gpt2" | "r50k" => "r50k_base",
        "cl100k" => "cl100k_base",
        "o200k" => "o200k_base",
        "p50k" => "p50k_base",
        "gpt-oss-20b" | "gpt-oss-120b" => "o200k_harmony",
        name => name,
    };
    ALL.into_iter().find(|embedded| embedded.name == name)
}

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The columns of a vocabulary.
struct Columns {
    columns: Vec<u8>,
    tokens: usize,
}

impl Columns {
    /// The tokens by rank, each with the length of the left half of its pair.
    fn iter(&self) -> impl Iterator<Item = (&[u8], u8)> {
        let (columns, mut bytes) = self.columns.split_at(2 * self.tokens);
        let (lengths, lefts) = columns.split_at(self.tokens);
        lengths.iter().zip(lefts).map(move |(&length, &left)| {
            let (token, rest) = bytes.split_at(usize::from(length));
            bytes = rest;
            (token, left)
        })
    }

    /// The lengths of the tokens, and their bytes.
    fn into_ranks(mut self) -> (Vec<u8>, Vec<u8>) {
        let bytes = self.columns.split_off(2 * self.tokens);
        self.columns.truncate(self.tokens);
        (self.columns, bytes)
    }
}

impl Embedded {
    /// The largest id, plus one.
    pub(super) fn vocab_size(&self) -> u32 {
        let more = self.more().last().map(|(_, id)| *id);
        let last = self.special.iter().map(|(_, id)| *id).chain(more).max();
        last.map_or(0, |id| id + 1)
    }

    /// The tokens after the columns, with their ids.
    fn more(&self) -> Vec<(Vec<u8>, u32)> {
        if self.spaces { pairs::runs_of_spaces() } else { Vec::new() }
    }

    fn columns(&self) -> io::Result<Columns> {
        let columns = zstd::bulk::decompress(self.columns, self.bytes)?;
        Ok(Columns { columns, tokens: self.tokens })
    }

    /// The tokens by their ids, without the special ones.
    pub(super) fn tokens(&self) -> io::Result<Vec<(Vec<u8>, u32)>> {
        let columns = self.columns()?;
        let tokens = columns.iter().map(|(token, _)| token.to_vec()).zip(0..);
        Ok(tokens.chain(self.more()).collect())
    }

    /// The `tokenizer.json`.
    pub(super) fn json(&self) -> io::Result<String> {
        let columns = self.columns()?;
        let more = self.more();
        let tokens: Vec<_> = columns.iter().zip(0..).map(|((token, left), id)| (token, left, id)).collect();
        let tokens = pairs::with_more(tokens, &more).map_err(io::Error::other)?;
        Ok(json::Parts { pattern: self.pattern, tokens: &tokens, special: self.special }.json())
    }

    /// The engine of `tokenizers`.
    pub(super) fn delegate(&self, options: &LoadOptions) -> Result<Released, Failure> {
        Ok(Released::from_json(&self.json()?, Some(&json::decoder().to_string()), options)?)
    }

    /// windrow's own engine.
    pub(super) fn own(&self, options: &LoadOptions) -> Result<Bpe, Failure> {
        let (mut lengths, mut bytes) = self.columns()?.into_ranks();
        for (token, id) in self.more() {
            lengths.resize(id as usize, 0);
            lengths.push(u8::try_from(token.len())?);
            bytes.extend(token);
        }
        let special = self.special.iter();
        let added =
            special.map(|&(token, id)| windrow_bpe::AddedToken::new(token, options.special_in_text.then_some(id)));
        let grammar = Grammar::from_patterns(&[self.pattern]).ok_or("not a known pattern")?;
        let added: Vec<_> = added.collect();
        Ok(Bpe::of_ranks(BpeEngine::of_ranks(grammar, &lengths, bytes, &added, &options.of_engine())?))
    }
}
