//! The vocabularies that are part of the crate.
//!
//! They are made by the build script from the registry crate `tiktoken-rs` (Copyright (c) 2023 Roger Zurawicki and
//! contributors, MIT licence), which ships the ranks of OpenAI's `tiktoken` (Copyright (c) 2022 OpenAI, Shantanu Jain,
//! MIT licence).
//!
//! Their patterns are those of the published tokenizer.json files, for which the engine has programs. tiktoken writes two of
//! them in another way. That of `r50k_base` finds the same pieces. That of `cl100k_base` takes the white space that ends
//! a text as one piece, where this one cuts behind the last line end; the ids are the same, since no token of
//! `cl100k_base` goes on after a line end that is its last (`tests/tokenizer_load.rs`).

use std::io::Read;

/// A vocabulary of the crate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Embedded {
    pub(super) name: &'static str,
    json: &'static [u8],
}

/// What ends a document in all of them.
pub(super) const END_OF_TEXT: &str = "<|endoftext|>";

/// Names for messages.
pub(super) const NAMES: &str = "r50k_base (or gpt2), cl100k_base and o200k_base";

const ALL: [Embedded; 3] = [
    Embedded { name: "r50k_base", json: include_bytes!(concat!(env!("OUT_DIR"), "/r50k_base.json.zst")) },
    Embedded { name: "cl100k_base", json: include_bytes!(concat!(env!("OUT_DIR"), "/cl100k_base.json.zst")) },
    Embedded { name: "o200k_base", json: include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base.json.zst")) },
];

/// The vocabulary of a name or alias.
pub(super) fn find(name: &str) -> Option<Embedded> {
    let name = if name == "gpt2" { "r50k_base" } else { name };
    ALL.into_iter().find(|embedded| embedded.name == name)
}

impl Embedded {
    /// The canonical `tokenizer.json`.
    pub(super) fn json(&self) -> std::io::Result<String> {
        let mut json = String::new();
        zstd::stream::read::Decoder::with_buffer(self.json)?.read_to_string(&mut json)?;
        Ok(json)
    }
}
