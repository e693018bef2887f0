//! The encoders, each called as its crate recommends for batches, with ids as they come out and without special tokens around texts.

use rayon::prelude::*;
use tokenizers::pipeline::{EncodeOptions, Encoding, Inputs, PipelineToken, PipelineTokenizer};

use crate::windrow::Windrow;

/// A tokenizer that is ready.
pub trait Encoder {
    /// Brings the texts into the form that the encoder takes, which is no part of what is measured. The result encodes them.
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a>;

    /// Takes a result back, so that the next one can have its memory. Only windrow has a call for that.
    fn recycle(&self, ids: Ids) {
        drop(ids);
    }
}

/// The ids as the encoder returns them.
pub enum Ids {
    /// All ids, and the offset of each text's ids.
    Offsets(Vec<u32>, Vec<u64>),
    /// All ids, and the number of each text's ids.
    Lengths(Vec<u32>, Vec<u64>),
    Lists(Vec<Vec<u32>>),
    Encodings(Vec<Encoding>),
    Released(Vec<tokenizers_023::Encoding>),
}

impl Ids {
    /// Calls `use_ids` with the ids of each text.
    pub fn each(&self, mut use_ids: impl FnMut(&[u32])) {
        match self {
            Ids::Offsets(ids, offsets) => {
                offsets.windows(2).for_each(|edge| use_ids(&ids[edge[0] as usize..edge[1] as usize]));
            }
            Ids::Lengths(ids, lengths) => {
                let mut rest = &ids[..];
                for &length in lengths {
                    let (text, after) = rest.split_at(length as usize);
                    use_ids(text);
                    rest = after;
                }
            }
            Ids::Lists(lists) => lists.iter().for_each(|ids| use_ids(ids)),
            Ids::Encodings(encodings) => encodings.iter().for_each(|it| use_ids(PipelineToken::cast_slice(it.ids()))),
            Ids::Released(encodings) => encodings.iter().for_each(|it| use_ids(it.get_ids())),
        }
    }
}

/// Loads the encoder that `arm` names from the bytes of a `tokenizer.json`.
pub fn load(arm: &str, tokenizer: &[u8], threads: usize) -> Box<dyn Encoder> {
    let text = std::str::from_utf8(tokenizer).expect("a tokenizer.json is UTF-8");
    match arm {
        "windrow" => Box::new(Windrow::load(tokenizer, threads, true)),
        "windrow-fresh" => Box::new(Windrow::load(tokenizer, threads, false)),
        "fastokens" => {
            let json = serde_json::from_str(text).expect("JSON");
            Box::new(fastokens::Tokenizer::from_json(json).expect("fastokens loads it"))
        }
        "tokenizers-1.0" => {
            tokenizers::parallelism::set_num_threads(threads);
            let canonical = tokenizers::canonicalize_str(text).expect("tokenizers 1.0 converts it");
            Box::new(tokenizers::from_json(&canonical).expect("tokenizers 1.0 loads it"))
        }
        "tokenizers-0.23" => {
            Box::new(tokenizers_023::Tokenizer::from_bytes(tokenizer).expect("tokenizers 0.23 loads it"))
        }
        "splintr" => Box::new(splintr::from_json_bytes(tokenizer).expect("splintr loads it")),
        "tokie" => Box::new(tokie::hf::from_json_str(text).expect("tokie loads it")),
        _ => panic!("no arm is called {arm}"),
    }
}

impl Encoder for fastokens::Tokenizer {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        Box::new(|| Ids::Lists(self.encode_batch(texts, false).expect("fastokens encodes")))
    }
}

impl Encoder for splintr::AnyTokenizer {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        // Its own batches, which are made in this way, add special tokens around texts.
        Box::new(move || match rayon::current_num_threads() {
            1 => Ids::Lists(texts.iter().map(|text| self.encode_raw(text)).collect()),
            _ => Ids::Lists(texts.par_iter().map(|text| self.encode_raw(text)).collect()),
        })
    }
}

impl Encoder for PipelineTokenizer {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        // It owns its texts.
        let inputs = Inputs::from(texts);
        let options = EncodeOptions::no_specials();
        Box::new(move || Ids::Encodings(self.encode(inputs, &options).wait().expect("tokenizers 1.0 encodes")))
    }
}

impl Encoder for tokenizers_023::Tokenizer {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        let inputs = texts.to_vec();
        Box::new(|| Ids::Released(self.encode_batch_fast(inputs, false).expect("tokenizers 0.23 encodes")))
    }
}

impl Encoder for tokie::Tokenizer {
    fn prepare<'a>(&'a self, texts: &'a [&'a str]) -> Box<dyn FnOnce() -> Ids + 'a> {
        Box::new(|| {
            let (ids, lengths) = self.encode_batch_flat(texts, false);
            Ids::Lengths(ids, lengths)
        })
    }
}
