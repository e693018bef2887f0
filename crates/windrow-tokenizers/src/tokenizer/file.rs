//! Parses a `tokenizer.json`, which is untrusted input.
//!
//! The vocabulary and the merges are most of the file and are read directly into their types. Of the rest, only the parts that affect
//! encoding are read: truncation and padding reach neither the checks nor an engine, and decoders only the engine that decodes.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeserializeDerive, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fault::{DAMAGED, Fault, quoted, shortened};

/// Maximum size of a part other than the vocabulary and the merges; real ones are far smaller.
const MAX_PART: usize = 64 << 20;

/// The type of model that a file declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bpe,
    WordPiece,
    WordLevel,
    Unigram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bpe => "BPE",
            Self::WordPiece => "WordPiece",
            Self::WordLevel => "WordLevel",
            Self::Unigram => "Unigram",
        }
    }
}

/// An added token, as stated in the file.
#[derive(Debug, DeserializeDerive)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// The model of a file: its vocabulary and merges, separate from its options.
#[derive(Debug)]
pub(super) struct Model<'a> {
    pub(super) kind: Kind,
    /// All but `type`, `vocab` and `merges`.
    pub(super) options: Map<String, Value>,
    /// Tokens with their ids, in the order of the file.
    pub(super) vocab: Vec<(String, u32)>,
    /// Passed on unchanged: printing and parsing a score can change its last bit.
    vocab_text: &'a RawValue,
    pub(super) merges: Option<Vec<(String, String)>>,
}

/// The contents of a `tokenizer.json`.
#[derive(Debug)]
pub(super) struct File<'a> {
    /// `added_tokens`, `normalizer`, `pre_tokenizer` and `post_processor`.
    pub(super) parts: Map<String, Value>,
    pub(super) added: Vec<Added>,
    pub(super) model: Model<'a>,
    /// Not parsed: it affects decoding only.
    pub(super) decoder: Option<&'a RawValue>,
    /// Settings of the file that would change an encoder's result but are not used here.
    pub(super) ignored: Vec<&'static str>,
}

impl<'a> File<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Fault> {
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(text).map_err(|error| Fault::json("", &error))?;
        match fields.get("version").map(|version| version.get()) {
            None | Some(r#""1.0""#) => {}
            Some(other) => {
                let reason = format!("{} is not a known version", shortened(other, 20));
                return Err(Fault::new(
                    "version",
                    reason,
                    "save it again with version 0.23 of the tokenizers library, which writes format version 1.0",
                ));
            }
        }
        let mut parts = Map::new();
        for name in ["added_tokens", "normalizer", "pre_tokenizer", "post_processor"] {
            if let Some(part) = fields.get(name) {
                parts.insert(name.to_owned(), value(name, part)?);
            }
        }
        let added = match parts.get("added_tokens") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => list.iter().enumerate().map(added_token).collect::<Result<_, _>>()?,
            Some(_) => return Err(Fault::new("added_tokens", "is not an array", DAMAGED)),
        };
        let model = fields.get("model").ok_or_else(|| match fields.contains_key("config") {
            // "config" with a pattern, and "vocab" with ranks and base64.
            true if fields.contains_key("vocab") => Fault::new(
                "",
                "a Mistral tekken.json, which windrow cannot read",
                "use the tokenizer.json of the same model",
            ),
            _ => Fault::new("model", "is missing", DAMAGED),
        })?;
        let ignored = ["truncation", "padding"]
            .into_iter()
            .filter(|name| fields.get(*name).is_some_and(|setting| setting.get() != "null"))
            .collect();
        let decoder = fields.get("decoder").copied();
        Ok(Self { parts, added, model: Model::parse(model)?, decoder, ignored })
    }

    /// The file in the form that 0.23 reads.
    pub(super) fn released_json(&self) -> Result<String, String> {
        let mut parts = self.parts.clone();
        parts.insert("version".to_owned(), Value::from("1.0"));
        let mut options = self.model.options.clone();
        options.insert("type".to_owned(), Value::from(self.model.kind.name()));
        self.json(&parts, &options)
    }

    fn json(&self, parts: &Map<String, Value>, options: &Map<String, Value>) -> Result<String, String> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            parts: &'a Map<String, Value>,
            model: Model<'a>,
        }
        #[derive(Serialize)]
        struct Model<'a> {
            #[serde(flatten)]
            options: &'a Map<String, Value>,
            vocab: &'a RawValue,
            #[serde(skip_serializing_if = "Option::is_none")]
            merges: Option<&'a [(String, String)]>,
        }
        let model = Model { options, vocab: self.model.vocab_text, merges: self.model.merges.as_deref() };
        serde_json::to_string(&Whole { parts, model }).map_err(|error| error.to_string())
    }
}

impl<'a> Model<'a> {
    /// The tokens of a Unigram model with their scores.
    pub(super) fn scores(&self) -> Option<Vec<(String, f64)>> {
        serde_json::from_str(self.vocab_text.get()).ok()
    }

    /// The token for text that is not in the vocabulary.
    pub(super) fn unknown(&self) -> Option<&str> {
        match self.options.get("unk_token").and_then(Value::as_str) {
            Some(token) => Some(token),
            None => {
                let number = usize::try_from(self.options.get("unk_id")?.as_u64()?).ok()?;
                self.vocab.get(number).map(|(token, _)| token.as_str())
            }
        }
    }

    fn parse(text: &'a RawValue) -> Result<Self, Fault> {
        let mut fields: BTreeMap<String, &'a RawValue> =
            serde_json::from_str(text.get()).map_err(|error| Fault::json("model", &error))?;
        let vocab_text = fields.remove("vocab").ok_or_else(|| Fault::new("model.vocab", "is missing", DAMAGED))?;
        let merges_text = fields.remove("merges");
        let declared = fields.remove("type").filter(|kind| kind.get() != "null").map(|kind| value("model.type", kind));
        let options: Map<String, Value> = fields
            .into_iter()
            .map(|(name, text)| value(&format!("model.{name}"), text).map(|value| (name, value)))
            .collect::<Result<_, _>>()?;
        let kind = match declared.transpose()?.as_ref().map(Value::as_str) {
            Some(Some("BPE")) => Kind::Bpe,
            Some(Some("WordPiece")) => Kind::WordPiece,
            Some(Some("WordLevel")) => Kind::WordLevel,
            Some(Some("Unigram")) => Kind::Unigram,
            Some(other) => {
                let reason =
                    other.map_or("is not a string".to_owned(), |kind| format!("{kind:?} is not a known model type"));
                return Err(Fault::new(
                    "model.type",
                    reason,
                    "only BPE, WordPiece, WordLevel and Unigram models can be read",
                ));
            }
            // Files of the first versions have no type; these tests have the library's order.
            None if merges_text.is_some() => Kind::Bpe,
            None if options.contains_key("continuing_subword_prefix") => Kind::WordPiece,
            None if vocab_text.get().starts_with('[') => Kind::Unigram,
            None => Kind::WordLevel,
        };
        let mut json = serde_json::Deserializer::from_str(vocab_text.get());
        let vocab = if kind == Kind::Unigram {
            // The id of a token is its index.
            let entry = |id, (token, _): (String, f64)| Some((token, id as u32));
            json.deserialize_seq(Items("an array of pairs of a token and its score", entry))
        } else {
            json.deserialize_map(Ids)
        };
        let vocab = vocab.map_err(|error| Fault::json("model.vocab", &error))?;
        let merges = match merges_text {
            Some(text) if kind == Kind::Bpe => {
                let items = Items("an array of token pairs", |_, Merge(merge)| merge);
                let merges = serde_json::Deserializer::from_str(text.get()).deserialize_seq(items);
                Some(merges.map_err(|error| Fault::json("model.merges", &error))?)
            }
            None if kind == Kind::Bpe => return Err(Fault::new("model.merges", "is missing", DAMAGED)),
            _ => None,
        };
        Ok(Self { kind, options, vocab, vocab_text, merges })
    }
}

fn value(place: &str, text: &RawValue) -> Result<Value, Fault> {
    if text.get().len() > MAX_PART {
        let reason = format!("has {} bytes, more than the allowed {MAX_PART}", text.get().len());
        return Err(Fault::new(place, reason, DAMAGED));
    }
    serde_json::from_str(text.get()).map_err(|error| Fault::json(place, &error))
}

fn added_token((at, entry): (usize, &Value)) -> Result<Added, Fault> {
    Added::deserialize(entry).map_err(|error| Fault::new(format!("added_tokens[{at}]"), error.to_string(), DAMAGED))
}

/// `{"token": id}`.
struct Ids;

impl<'de> Visitor<'de> for Ids {
    type Value = Vec<(String, u32)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object that maps tokens to ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut ids = Vec::new();
        while let Some(token) = entries.next_key::<String>()? {
            let id = entries
                .next_value::<u32>()
                .map_err(|error| de::Error::custom(format_args!("id of token {}: {error}", quoted(&token))))?;
            ids.push((token, id));
        }
        Ok(ids)
    }
}

/// An array: its name for messages, and the conversion of an item with its index. Items without a result are omitted.
struct Items<E, T>(&'static str, fn(usize, E) -> Option<T>);

impl<'de, E: Deserialize<'de>, T> Visitor<'de> for Items<E, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut converted = Vec::new();
        while let Some(item) = items.next_element()? {
            converted.extend(self.1(converted.len(), item));
        }
        Ok(converted)
    }
}

/// `["left", "right"]`, or `"left right"` in older files; `None` for the line that names the version of the merges.
struct Merge(Option<(String, String)>);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Merge, E> {
                if text.starts_with("#version") {
                    return Ok(Merge(None));
                }
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => Ok(Merge(Some((left.to_owned(), right.to_owned())))),
                    _ => Err(E::custom(format_args!("{} is not two tokens separated by a space", quoted(text)))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Merge, A::Error> {
                match (pair.next_element()?, pair.next_element()?, pair.next_element::<de::IgnoredAny>()?) {
                    (Some(left), Some(right), None) => Ok(Merge(Some((left, right)))),
                    _ => Err(de::Error::custom("a merge is not a pair of tokens")),
                }
            }
        }
        deserializer.deserialize_any(Pair)
    }
}
