//! The `tokenizer.json` of an embedded vocabulary. `examples/vocabularies.rs` hashes it; the crate writes it on request.

use std::fmt::Write;

use serde_json::{Value, json};

use super::spelled;

/// The parts of a vocabulary.
pub(super) struct Parts<'a> {
    /// The pattern that splits text into pieces.
    pub(super) pattern: &'a str,
    /// The tokens by rank, each with the length of the left half of its pair, 0 for a single byte, and its id.
    pub(super) tokens: &'a [(&'a [u8], u8, u32)],
    /// The special tokens in the order of their ids.
    pub(super) special: &'a [(&'a str, u32)],
}

impl Parts<'_> {
    /// The file, written in the order of the ids and without a JSON library. A JSON map would sort the tokens and need many times
    /// the memory.
    pub(super) fn json(&self) -> String {
        let mut vocab = String::from("{");
        let mut merges = String::from("[");
        // Only a token that the model knows keeps its id when it is added; no piece of text ever equals one of these.
        let mut special = self.special.iter().peekable();
        for &(bytes, left, id) in self.tokens {
            while let Some((token, id)) = special.next_if(|(_, special)| *special < id) {
                push_entry(&mut vocab, token, *id);
            }
            push_entry(&mut vocab, &spelled(bytes), id);
            if left > 0 {
                let (left, right) = bytes.split_at(usize::from(left));
                let comma = if merges.len() > 1 { "," } else { "" };
                write!(merges, "{comma}[{},{}]", Value::from(spelled(left)), Value::from(spelled(right)))
                    .expect("memory");
            }
        }
        special.for_each(|(token, id)| push_entry(&mut vocab, token, *id));
        let added: Vec<Value> = self
            .special
            .iter()
            .map(|(token, id)| {
                json!({
                    "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true,
                })
            })
            .collect();
        let split =
            json!({"type": "Split", "pattern": {"Regex": self.pattern}, "behavior": "Isolated", "invert": false});
        let pre_tokenizer = json!({"type": "Sequence", "pretokenizers": [split, decoder()]});
        format!(
            concat!(
                r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added},"normalizer":null,"#,
                r#""pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":{decoder},"#,
                r#""model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"#,
                r#""fuse_unk":false,"byte_fallback":false,"ignore_merges":true,"vocab":{vocab}}},"merges":{merges}]}}}}"#,
            ),
            added = Value::Array(added),
            pre_tokenizer = pre_tokenizer,
            decoder = decoder(),
            vocab = vocab,
            merges = merges,
        )
    }
}

/// The decoder, which has the fields of the pre-tokenizer.
pub(super) fn decoder() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false})
}

fn push_entry(vocab: &mut String, token: &str, id: u32) {
    let comma = if vocab.len() > 1 { "," } else { "" };
    write!(vocab, "{comma}{}:{id}", Value::from(token)).expect("memory");
}
