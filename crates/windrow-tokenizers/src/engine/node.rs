//! Nodes of a `tokenizer.json`: normalizers, pre-tokenizers and decoders.

use serde::{Deserialize, de};
use serde_json::Value;

use super::regex::Regex;

/// The type that a node states.
pub(crate) fn kind(node: &Value) -> &str {
    node.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The regex of a node, if its pattern is one.
pub(crate) fn regex_of(node: &Value) -> Option<&str> {
    node.get("pattern")?.get("Regex")?.as_str()
}

/// The regex and the content of a `Replace` with this pattern.
pub(super) fn replacement<E: de::Error>(node: &Value, pattern: &str) -> Result<(Regex, String), E> {
    #[derive(Deserialize)]
    struct Replace {
        content: String,
    }

    let regex = Regex::new(pattern).map_err(E::custom)?;
    let Replace { content } = Replace::deserialize(node).map_err(E::custom)?;
    Ok((regex, content))
}

/// The members of a sequence.
pub(super) fn members<'a, T: Deserialize<'a>, E: de::Error>(node: &'a Value, key: &str) -> Result<Vec<T>, E> {
    let list = node.get(key).ok_or_else(|| E::custom(format!("a Sequence lacks `{key}`")))?;
    Vec::deserialize(list).map_err(de::Error::custom)
}

/// The members of a sequence and of the sequences in it, or the node itself if it is none.
pub(crate) fn members_of<'a>(node: Option<&'a Value>, children: &str) -> Vec<&'a Value> {
    match node {
        None | Some(Value::Null) => Vec::new(),
        Some(node) if kind(node) == "Sequence" => {
            let list = node.get(children).and_then(Value::as_array);
            list.into_iter().flatten().flat_map(|member| members_of(Some(member), children)).collect()
        }
        Some(node) => vec![node],
    }
}
