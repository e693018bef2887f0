//! The conversation in a JSON line.

use minijinja::Value;
use minijinja::value::ValueKind;
use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use super::python::{container, float_value};
use crate::document::{Fault, FaultKind, array_in, values_of};

/// The names under which the thoughts of a message are given; the first is the one that templates read.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A conversation.
pub(super) struct Row {
    pub(super) messages: Vec<Value>,
    pub(super) tools: Value,
    pub(super) documents: Value,
    /// Bytes of the line.
    pub(super) bytes: usize,
    /// Steps that templates have made for it.
    pub(super) steps: Cell<u64>,
}

impl Row {
    /// Reads a line. `field` holds the messages.
    pub(super) fn read(line: &str, field: &str) -> Result<Self, Fault> {
        array_in(line, field)?;
        let found = values_of(line, &[field, "tools", "documents"]);
        let [messages, tools, documents] = found.as_slice() else { unreachable!("a value for each path") };
        let bad = |reason| Fault::whole(FaultKind::NotMessages, reason);
        let messages = messages.map_or("[]", RawValue::get);
        let messages = parse(messages).map_err(bad)?;
        let messages: Vec<Value> = messages.try_iter().into_iter().flatten().collect();
        if messages.is_empty() {
            return Err(bad(format!("field {field:?} has no messages")));
        }
        if let Some(at) = messages.iter().position(|message| message.kind() != ValueKind::Map) {
            return Err(bad(format!(
                "message {at} (from 0) of field {field:?} is {}, not an object",
                kind(&messages[at])
            )));
        }
        let objects = |name: &str, value: &Option<&RawValue>| {
            let value = value.map_or(Ok(Value::from(())), |value| parse(value.get())).map_err(bad)?;
            let are_objects = match value.kind() {
                ValueKind::None => true,
                ValueKind::Seq => value.try_iter().into_iter().flatten().all(|one| one.kind() == ValueKind::Map),
                _ => false,
            };
            if are_objects { Ok(value) } else { Err(bad(format!("field {name:?} is not an array of objects"))) }
        };
        let (tools, documents) = (objects("tools", tools)?, objects("documents", documents)?);
        let messages: Vec<Value> = messages.iter().map(normal).collect();
        for (at, message) in messages.iter().enumerate() {
            check(message).map_err(|what| bad(format!("message {at} (from 0) of field {field:?} {what}")))?;
        }
        Ok(Self { messages, tools, documents, bytes: line.len(), steps: Cell::new(0) })
    }

    /// A conversation without a line, to try a template.
    pub(super) fn of(messages: Vec<Value>) -> Self {
        let none = Value::from(());
        Self { messages, tools: none.clone(), documents: none, bytes: 0, steps: Cell::new(0) }
    }

    /// The same row with other messages. It has made no steps.
    pub(super) fn with_messages(&self, messages: Vec<Value>) -> Self {
        let (tools, documents) = (self.tools.clone(), self.documents.clone());
        Self { messages, tools, documents, bytes: self.bytes, steps: Cell::new(0) }
    }

    /// The role of a message.
    pub(super) fn role(message: &Value) -> String {
        message.get_attr("role").ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// True if a message has tool calls, thoughts or the like, which a template may write in place of its content.
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

    /// Whether this message is an assistant's.
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
            return Err("is one of the messages that have from and value, not role and content \
                (hint: rename both fields, and the roles: human is user, gpt is assistant)"
                .to_owned());
        }
        if !role.is_undefined() {
            return Err(format!("has a role that is {}", if role.as_str().is_some() { "empty" } else { kind(&role) }));
        }
        let names = message.try_iter().into_iter().flatten().take(5);
        let names: Vec<String> = names.map(|name| format!("{:?}", name.as_str().unwrap_or_default())).collect();
        let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("has no role (hint: a message has role and content, and this one has {found})"));
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

/// A message as templates get it: without fields that are null, and with its thoughts under the names that templates read.
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

/// A JSON value, which is valid, as Python reads it: numbers keep their kind, and objects their order.
fn parse(json: &str) -> Result<Value, String> {
    let json = json.trim_matches([' ', '\t', '\n', '\r']);
    let mut reader = serde_json::Deserializer::from_str(json);
    match json.as_bytes().first() {
        Some(b'{') => {
            let fields = reader.deserialize_map(Fields).map_err(|error| error.to_string())?;
            let fields = fields.into_iter().map(|(name, value)| Ok((Value::from(name.as_ref()), parse(value.get())?)));
            Ok(container(Value::from_pairs(fields.collect::<Result<Vec<_>, String>>()?)))
        }
        Some(b'[') => {
            let items = reader.deserialize_seq(Items).map_err(|error| error.to_string())?;
            let items = items.into_iter().map(|item| parse(item.get()));
            Ok(container(Value::from(items.collect::<Result<Vec<_>, String>>()?)))
        }
        Some(b'"') => serde_json::from_str::<Cow<'_, str>>(json)
            .map(|text| Value::from(text.as_ref()))
            .map_err(|error| error.to_string()),
        Some(b'n') => Ok(Value::from(())),
        Some(b't') => Ok(Value::from(true)),
        Some(b'f') => Ok(Value::from(false)),
        _ => number(json).ok_or_else(|| format!("the number {json} is out of range")),
    }
}

fn number(json: &str) -> Option<Value> {
    if json.contains(['.', 'e', 'E']) {
        return json.parse::<f64>().ok().map(float_value);
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

    fn reason(line: &str) -> String {
        match Row::read(line, "messages") {
            Ok(_) => "good".to_owned(),
            Err(fault) => fault.reason,
        }
    }

    #[test]
    fn bad_rows_are_named() {
        assert_eq!(reason(r#"{"messages": [{"role": "user", "content": ""}], "tools": null}"#), "good");
        assert_eq!(reason(r#"{"messages": []}"#), r#"field "messages" has no messages"#);
        assert_eq!(
            reason(r#"{"messages": [{}, 7]}"#),
            r#"message 1 (from 0) of field "messages" is a number, not an object"#
        );
        assert_eq!(reason(r#"{"messages": "a"}"#), r#"field "messages" is a string, not an array of messages"#);
        assert_eq!(
            reason(r#"{"messages": "[{\"role\": \"user\"}]"}"#),
            r#"field "messages" is a string, not an array of messages (hint: it is JSON written as a string: write it as an array)"#
        );
        for (message, what) in [
            (r#"{}"#, "has no role (hint: a message has role and content, and this one has nothing)"),
            (r#"{"text": "a"}"#, "has no role (hint: a message has role and content, and this one has \"text\")"),
            (
                r#"{"role": null, "content": "a"}"#,
                "has no role (hint: a message has role and content, and this one has \"content\")",
            ),
            (r#"{"role": 1, "content": "a"}"#, "has a role that is a number"),
            (r#"{"role": "", "content": "a"}"#, "has a role that is empty"),
            (r#"{"role": "user", "content": null}"#, "has no content"),
            (r#"{"role": "assistant", "content": [], "tool_calls": []}"#, "has no content"),
        ] {
            let good = r#"{"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "content": null}"#;
            let expected = format!(r#"message 2 (from 0) of field "messages" {what}"#);
            assert_eq!(reason(&format!(r#"{{"messages": [{good}, {message}]}}"#)), expected);
        }
        assert!(
            reason(r#"{"messages": [{"from": "human", "value": "a"}]}"#)
                .contains("messages that have from and value, not role and content (hint: rename both fields, ")
        );
        assert_eq!(reason(r#"{"messages": {}}"#), r#"field "messages" is an object, not an array of messages"#);
        assert!(reason(r#"{"text": "a"}"#).starts_with(r#"field "messages" is missing (hint: the line has "text"; "#));
        assert_eq!(reason("[]"), "the line is an array, not an object");
        assert_eq!(reason(r#"{"messages": [{}], "tools": "[]"}"#), r#"field "tools" is not an array of objects"#);
        assert_eq!(
            reason(r#"{"messages": [{}], "documents": [[]]}"#),
            r#"field "documents" is not an array of objects"#
        );
        let large = format!(r#"{{"messages": [{{"a": 1{}}}]}}"#, "0".repeat(39));
        assert!(reason(&large).ends_with(" is out of range"), "{}", reason(&large));
        assert!(reason(r#"{"messages": [{"a": "\ud800"}]}"#).contains("surrogate"));
        assert!(reason(r#"{"messages": [{}]"#).starts_with("JSON syntax error"));
    }

    #[test]
    fn values_are_those_of_python() {
        let read = |json: &str| parse(json).unwrap().to_string();
        assert_eq!(read("1.0"), "1.0");
        assert_eq!(read("-0"), "0");
        assert_eq!(read("123456789012345678901234567890"), "123456789012345678901234567890");
        assert_eq!(read("[1, [true, null]]"), "[1, [True, None]]");
        let names =
            |json: &str| parse(json).unwrap().try_iter().unwrap().map(|key| key.to_string()).collect::<Vec<_>>();
        assert_eq!(names(r#"{"b": 1, "a": {}, "\u0062": 2}"#), ["b", "a"]);
    }

    #[test]
    fn messages_are_normalized() {
        let of = |json: &str| {
            let message = normal(&parse(json).unwrap());
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
