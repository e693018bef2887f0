//! The decoders of `tokenizers` 0.23. [`Regex`] runs the regexes of a `tokenizer.json`; everything else is the library's code.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use tokenizers_023::DecoderWrapper;
use tokenizers_023::pattern::Pattern;

use super::node::{kind, members, regex_of, replacement};
use super::regex::Regex;

/// The library's decoder, except for the regexes.
#[derive(Debug)]
pub(super) enum Decoder {
    Sequence(Vec<Decoder>),
    Replace { regex: Regex, content: String },
    Other(Box<DecoderWrapper>),
}

impl tokenizers_023::Decoder for Decoder {
    fn decode_chain(&self, tokens: Vec<String>) -> tokenizers_023::Result<Vec<String>> {
        match self {
            Self::Sequence(members) => members.iter().try_fold(tokens, |tokens, member| member.decode_chain(tokens)),
            Self::Replace { regex, content } => tokens.iter().map(|token| replaced(token, regex, content)).collect(),
            Self::Other(other) => other.decode_chain(tokens),
        }
    }
}

fn replaced(token: &str, regex: &Regex, content: &str) -> tokenizers_023::Result<String> {
    let pieces = regex.find_matches(token)?;
    Ok(pieces.into_iter().map(|((start, end), matches)| if matches { content } else { &token[start..end] }).collect())
}

impl<'de> Deserialize<'de> for Decoder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Value::deserialize(deserializer)?;
        match (kind(&node), regex_of(&node)) {
            ("Sequence", _) => Ok(Self::Sequence(members(&node, "decoders")?)),
            ("Replace", Some(pattern)) => {
                replacement(&node, pattern).map(|(regex, content)| Self::Replace { regex, content })
            }
            _ => serde_json::from_value(node).map(Self::Other).map_err(de::Error::custom),
        }
    }
}
