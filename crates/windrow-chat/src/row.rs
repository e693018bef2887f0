//! Conversations as values of templates.

use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;
use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use super::RefusedChat;
use super::python::{container, float_value};

/// The field names for the thoughts of a message; the first is the one that templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Maximum nesting of arrays and objects in a conversation; `serde_json` has the same limit.
const DEPTH: usize = 128;

/// The messages of a conversation, and its tools and documents.
///
/// ```
/// use windrow_chat::{ChatTemplate, Conversation, SpecialTokens};
///
/// let template = ChatTemplate::from_source("example", "{{ tools[0].name }}: {{ messages[0].content }}", SpecialTokens::default())?;
/// let messages = r#"[{"role": "user", "content": "Hi"}]"#;
/// let conversation = Conversation { tools: Some(r#"[{"name": "clock"}]"#), ..messages.into() };
/// assert_eq!(template.render(conversation)?, "clock: Hi");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// The messages: a JSON array of objects.
    pub messages: &'a str,
    /// The tools that the assistant may call: a JSON array of objects, or `null`.
    pub tools: Option<&'a str>,
    /// The documents that the assistant has: a JSON array of objects, or `null`.
    pub documents: Option<&'a str>,
}

impl<'a> From<&'a str> for Conversation<'a> {
    /// Takes the messages as a JSON array, without tools and documents.
    fn from(messages: &'a str) -> Self {
        Self { messages, tools: None, documents: None }
    }
}

/// A conversation that was read.
pub(super) struct Row {
    pub(super) messages: Vec<Value>,
    pub(super) tools: Value,
    pub(super) documents: Value,
    /// Bytes of its JSON.
    pub(super) bytes: usize,
    /// Steps that templates have made for it.
    pub(super) steps: Cell<u64>,
}

impl Row {
    pub(super) fn read(conversation: &Conversation<'_>) -> Result<Self, RefusedChat> {
        let Conversation { messages, tools, documents } = *conversation;
        let bytes = messages.len() + tools.map_or(0, str::len) + documents.map_or(0, str::len);
        let bad = RefusedChat::Messages;
        let messages = parse(messages, DEPTH).map_err(bad)?;
        if messages.kind() != ValueKind::Seq {
            return Err(bad(format!("the messages must be an array, not {}", kind(&messages))));
        }
        let messages: Vec<Value> = messages.try_iter().into_iter().flatten().collect();
        if messages.is_empty() {
            return Err(bad("the conversation has no messages".to_owned()));
        }
        if let Some(at) = messages.iter().position(|message| message.kind() != ValueKind::Map) {
            return Err(bad(format!("message {at} (counting from 0) is {}, not an object", kind(&messages[at]))));
        }
        let objects = |name: &str, value: Option<&str>| {
            let value = value.map_or(Ok(Value::from(())), |value| parse(value, DEPTH)).map_err(bad)?;
            let are_objects = match value.kind() {
                ValueKind::None => true,
                ValueKind::Seq => value.try_iter().into_iter().flatten().all(|one| one.kind() == ValueKind::Map),
                _ => false,
            };
            if are_objects { Ok(value) } else { Err(bad(format!("{name} is not an array of objects"))) }
        };
        let (tools, documents) = (objects("tools", tools)?, objects("documents", documents)?);
        let messages: Vec<Value> = messages.iter().map(normal).collect();
        for (at, message) in messages.iter().enumerate() {
            check(message).map_err(|what| bad(format!("message {at} (counting from 0) {what}")))?;
        }
        Ok(Self { messages, tools, documents, bytes, steps: Cell::new(0) })
    }

    /// A conversation for testing a template.
    pub(super) fn of(messages: Vec<Value>) -> Self {
        let none = Value::from(());
        Self { messages, tools: none.clone(), documents: none, bytes: 0, steps: Cell::new(0) }
    }

    /// The same row with other messages. It has no steps yet.
    pub(super) fn with_messages(&self, messages: Vec<Value>) -> Self {
        let (tools, documents) = (self.tools.clone(), self.documents.clone());
        Self { messages, tools, documents, bytes: self.bytes, steps: Cell::new(0) }
    }

    /// The role of a message.
    pub(super) fn role(message: &Value) -> String {
        message.get_attr("role").ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// True if a message has tool calls, thoughts or similar fields, which a template may write in place of its content.
    pub(super) fn has_more_than_words(message: &Value) -> bool {
        let mut fields = message.try_iter().into_iter().flatten();
        fields.any(|key| match key.as_str() {
            Some("content") => false,
            Some(name) if REASONING.contains(&name) => true,
            _ => message
                .get_item(&key)
                .is_ok_and(|value| matches!(value.kind(), ValueKind::Seq | ValueKind::Map) && value.len() != Some(0)),
        })
    }

    /// True if this message is an assistant's.
    pub(super) fn is_assistant(message: &Value) -> bool {
        message.get_attr("role").is_ok_and(|role| role.as_str() == Some("assistant"))
    }
}

/// Fault of a message, if it is certain for every template.
fn check(message: &Value) -> Result<(), String> {
    let role = message.get_attr("role").unwrap_or_default();
    if role.as_str().is_none_or(str::is_empty) {
        let has = |name| message.get_attr(name).is_ok_and(|value| !value.is_undefined());
        if has("from") && has("value") {
            return Err("has the fields from and value instead of role and content \
                (hint: rename both fields, and the roles: human to user, gpt to assistant)"
                .to_owned());
        }
        if !role.is_undefined() {
            return Err(format!("has a role that is {}", if role.as_str().is_some() { "empty" } else { kind(&role) }));
        }
        let names = message.try_iter().into_iter().flatten().take(5);
        let names: Vec<String> = names.map(|name| format!("{:?}", name.as_str().unwrap_or_default())).collect();
        let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("has no role (hint: a message needs role and content, but this one has {found})"));
    }
    let content = message.get_attr("content").unwrap_or_default();
    let is_missing = content.is_undefined() || (content.kind() != ValueKind::String && content.len() == Some(0));
    // A tool may return nothing.
    let must_say = matches!(role.as_str(), Some("user" | "assistant" | "system" | "developer"));
    if is_missing && must_say && !Row::has_more_than_words(message) {
        return Err("has no content".to_owned());
    }
    Ok(())
}

/// A message in the form for templates: without fields that are null, and with its thoughts under the names that templates read.
fn normal(message: &Value) -> Value {
    let keys = message.try_iter().into_iter().flatten();
    let fields = keys.filter_map(|key| message.get_item(&key).ok().map(|value| (key, value)));
    let mut fields: Vec<(Value, Value)> = fields.filter(|(_, value)| !value.is_none()).collect();
    let find = |fields: &[(Value, Value)], name: &str| fields.iter().position(|(key, _)| key.as_str() == Some(name));
    let Some(at) = REASONING.iter().find_map(|name| find(&fields, name)) else {
        return container(Value::from_pairs(fields));
    };
    let reasoning = fields[at].1.clone();
    let thinking = match find(&fields, "thinking") {
        Some(at) => fields.remove(at).1,
        None => reasoning.clone(),
    };
    fields.insert(0, (Value::from("thinking"), thinking));
    match find(&fields, REASONING[0]) {
        Some(at) => fields[at].1 = reasoning,
        None => fields.push((Value::from(REASONING[0]), reasoning)),
    }
    container(Value::from_pairs(fields))
}

fn kind(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::None => "null",
        ValueKind::Bool => "a boolean",
        ValueKind::Number => "a number",
        ValueKind::String => "a string",
        ValueKind::Seq => "an array",
        _ => "an object",
    }
}

/// A JSON value with Python's reading: numbers keep their kind, and objects their order.
fn parse(json: &str, depth: usize) -> Result<Value, String> {
    let json = json.trim_matches([' ', '\t', '\n', '\r']);
    let mut reader = serde_json::Deserializer::from_str(json);
    let failed = |error: serde_json::Error| error.to_string();
    let below = || depth.checked_sub(1).ok_or_else(|| format!("a value is nested more than {DEPTH} levels deep"));
    let value = match json.as_bytes().first() {
        Some(b'{') => {
            let (fields, depth) = (reader.deserialize_map(Fields).map_err(failed)?, below()?);
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| Ok((Value::from(name.as_ref()), parse(value.get(), depth)?)));
            container(Value::from_pairs(fields.collect::<Result<Vec<_>, String>>()?))
        }
        Some(b'[') => {
            let (items, depth) = (reader.deserialize_seq(Items).map_err(failed)?, below()?);
            let items = items.into_iter().map(|item| parse(item.get(), depth));
            container(Value::from(items.collect::<Result<Vec<_>, String>>()?))
        }
        Some(b'"') => Value::from(String::deserialize(&mut reader).map_err(failed)?),
        _ => {
            let word = <&RawValue>::deserialize(&mut reader).map_err(failed)?.get();
            match word.as_bytes()[0] {
                b'n' => Value::from(()),
                b't' | b'f' => Value::from(word == "true"),
                _ => number(word).ok_or_else(|| format!("the number {word} is out of range"))?,
            }
        }
    };
    reader.end().map_err(failed)?;
    Ok(value)
}

fn number(json: &str) -> Option<Value> {
    if json.contains(['.', 'e', 'E']) {
        return json.parse::<f64>().ok().filter(|number| number.is_finite()).map(float_value);
    }
    match json.parse::<i64>() {
        Ok(number) => Some(Value::from(number)),
        Err(_) => json.parse::<i128>().ok().map(Value::from),
    }
}

/// The fields of an object. Of several with one name, the last one counts, in the place of the first.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}

struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de RawValue>;

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            items.push(item);
        }
        Ok(items)
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(messages: &str) -> String {
        of(messages.into())
    }

    fn of(conversation: Conversation<'_>) -> String {
        Row::read(&conversation).map_or_else(|refused| refused.to_string(), |_| "good".to_owned())
    }

    #[test]
    fn bad_conversations_are_named() {
        let user = r#"[{"role": "user", "content": ""}]"#;
        assert_eq!(of(Conversation { tools: Some("null"), ..user.into() }), "good");
        assert_eq!(reason(" [] "), "the conversation has no messages");
        assert_eq!(reason("[{}, 7]"), "message 1 (counting from 0) is a number, not an object");
        assert_eq!(reason(r#""a""#), "the messages must be an array, not a string");
        for (message, what) in [
            (r#"{}"#, "has no role (hint: a message needs role and content, but this one has nothing)"),
            (r#"{"text": "a"}"#, "has no role (hint: a message needs role and content, but this one has \"text\")"),
            (
                r#"{"role": null, "content": "a"}"#,
                "has no role (hint: a message needs role and content, but this one has \"content\")",
            ),
            (r#"{"role": 1, "content": "a"}"#, "has a role that is a number"),
            (r#"{"role": "", "content": "a"}"#, "has a role that is empty"),
            (r#"{"role": "user", "content": null}"#, "has no content"),
            (r#"{"role": "assistant", "content": [], "tool_calls": []}"#, "has no content"),
        ] {
            let good = r#"{"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "content": null}"#;
            assert_eq!(reason(&format!("[{good}, {message}]")), format!("message 2 (counting from 0) {what}"));
        }
        let hint = "has the fields from and value instead of role and content (hint: rename both fields, ";
        assert!(reason(r#"[{"from": "human", "value": "a"}]"#).contains(hint));
        assert_eq!(of(Conversation { tools: Some(r#""[]""#), ..user.into() }), "tools is not an array of objects");
        assert_eq!(of(Conversation { documents: Some("[[]]"), ..user.into() }), "documents is not an array of objects");
        let large = format!(r#"[{{"a": 1{}}}]"#, "0".repeat(39));
        assert!(reason(&large).ends_with(" is out of range"), "{}", reason(&large));
        for (json, what) in [
            (r#"[{"a": "\ud800"}]"#, "hex escape"),
            ("[1e999]", "out of range"),
            ("[{}", "EOF"),
            ("[] []", "trailing characters"),
            ("[nul]", "expected ident"),
            ("", "EOF"),
            (&"[".repeat(1 << 20), "EOF"),
            (&["[".repeat(200), "]".repeat(200)].concat(), "nested more than 128 levels deep"),
        ] {
            assert!(reason(json).contains(what), "{what}: {}", reason(json));
        }
    }

    #[test]
    fn values_are_those_of_python() {
        let read = |json: &str| parse(json, DEPTH).unwrap().to_string();
        assert_eq!(read("1.0"), "1.0");
        assert_eq!(read("-0"), "0");
        assert_eq!(read("123456789012345678901234567890"), "123456789012345678901234567890");
        assert_eq!(read("[1, [true, null]]"), "[1, [True, None]]");
        let names =
            |json: &str| parse(json, DEPTH).unwrap().try_iter().unwrap().map(|key| key.to_string()).collect::<Vec<_>>();
        assert_eq!(names(r#"{"b": 1, "a": {}, "\u0062": 2}"#), ["b", "a"]);
    }

    #[test]
    fn messages_are_normalized() {
        let of = |json: &str| {
            let message = normal(&parse(json, DEPTH).unwrap());
            let keys = message.try_iter().unwrap();
            keys.map(|key| format!("{key}={}", message.get_item(&key).unwrap())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(r#"{"role": "a", "content": null}"#), "role=a");
        assert_eq!(of(r#"{"role": "a", "reasoning": "r"}"#), "thinking=r role=a reasoning=r reasoning_content=r");
        assert_eq!(
            of(r#"{"role": "a", "thinking": "t", "reasoning": "r"}"#),
            "thinking=t role=a reasoning=r reasoning_content=t"
        );
        assert_eq!(
            of(r#"{"reasoning_content": "c", "role": "a", "thinking": "t"}"#),
            "thinking=t reasoning_content=c role=a"
        );
    }
}
