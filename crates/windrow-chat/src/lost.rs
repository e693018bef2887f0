//! Messages that a template drops: data is lost, and nothing in the text shows it.
//!
//! A message of a user or an assistant is lost if the text of the row stays the same whatever the message says; so is a message with a role that
//! the template writes nowhere. Other messages that change nothing are the template's decision: one may write the system's only before the
//! last question. Loss is known exactly: the row is rendered again with other words. Most rows need no second run: the words of a message
//! are looked up in the text. The answer depends only on the row and the template, so that two runs skip the same rows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use minijinja::Value;
use minijinja::value::ValueKind;

use super::methods;
use super::python::{self, container};
use super::row::Row;
use super::{ChatTemplate, RefusedChat, Source};

/// A placeholder in the other words. No template changes it: letters and digits, without a space.
const WORD: &str = "wq5c1e";
/// Ends a number in other words.
const END: char = 'z';
/// Maximum number of remembered roles. Rows may have any.
const ROLES: usize = 64;

/// The roles that a template writes, by the template's name, the role, and true if the content is in parts.
#[derive(Debug, Default)]
pub(super) struct Roles(Mutex<HashMap<(&'static str, String, bool), bool>>);

impl ChatTemplate {
    /// Refuses a row whose text contains nothing of a message.
    pub(super) fn nothing_is_lost(&self, source: &Source, row: &Row, text: &str) -> Result<(), RefusedChat> {
        let (mut at, mut doubtful, mut numbers) = (0, Vec::new(), Vec::new());
        for (index, message) in row.messages.iter().enumerate() {
            let role = Row::role(message);
            let words = words(message);
            if words.is_empty() {
                continue;
            }
            if self.writes(source, &role, false) {
                if Row::has_more_than_words(message) || !matches!(role.as_str(), "user" | "assistant") {
                    continue;
                }
                // Words that occur in the text are the message's words, if the template writes such content at all. Most occur there in their order.
                let is_written = match form(message) {
                    Form::Text => true,
                    Form::Parts => self.writes(source, &role, true),
                    Form::Other => false,
                };
                let found = words.iter().filter(|_| is_written).find_map(|word| {
                    let next = text.get(at..)?.find(word.as_str()).map(|found| at + found);
                    next.or_else(|| text.find(word.as_str())).map(|found| found + word.len())
                });
                if let Some(end) = found {
                    at = end;
                    continue;
                }
            }
            // A number occurs in the text unchanged, or not at all.
            let is_number = message
                .get_attr("content")
                .is_ok_and(|content| matches!(content.kind(), ValueKind::Number | ValueKind::Bool));
            match is_number {
                true if words.iter().all(|word| text.contains(word.as_str())) => {}
                true => numbers.push(index),
                false => doubtful.push(index),
            }
        }
        let lost = if doubtful.is_empty() { None } else { self.first_lost(source, row, &doubtful) };
        let lost = lost.into_iter().chain(numbers.first().copied()).min();
        if let Some(index) = lost {
            let role = Row::role(&row.messages[index]);
            let is_known = self.writes(source, &role, false);
            let why = if is_known { "" } else { ", which the template does not know" };
            return Err(RefusedChat::Template(format!(
                "the chat template ({}) omits message {index} (counting from 0), whose role is {role:?}{why} \
                 (hint: {})",
                self.name,
                hint(&role, is_known)
            )));
        }
        if methods::strip(text, None, [true, true]).is_empty() {
            let what = format!("the chat template ({}) renders the messages to empty text", self.name);
            return Err(RefusedChat::Template(what));
        }
        Ok(())
    }

    /// The first of these messages that changes nothing in the text, if it can be determined.
    fn first_lost(&self, source: &Source, row: &Row, doubtful: &[usize]) -> Option<usize> {
        let mut messages = row.messages.clone();
        for &index in doubtful {
            messages[index] = with_field(&messages[index], "content", |content| other_words(content, index));
        }
        let row = row.with_messages(messages);
        // Some templates write in capitals.
        let text = self.text(source, &row, &row.messages, false).ok()?.to_ascii_lowercase();
        let mut written: Vec<usize> = text
            .match_indices(WORD)
            .filter_map(|(at, word)| text[at + word.len()..].split_once(END)?.0.parse().ok())
            .collect();
        written.sort_unstable();
        doubtful.iter().copied().find(|index| written.binary_search(index).is_err())
    }

    /// True if the template writes the words of messages of a role, at least at one place of a conversation.
    fn writes(&self, source: &Source, role: &str, in_parts: bool) -> bool {
        let roles = || self.roles.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.name, role.to_owned(), in_parts);
        if let Some(&known) = roles().get(&key) {
            return known;
        }
        let said = |role: &str, content: Value| {
            container(Value::from_pairs([("role", Value::from(role)), ("content", content)]))
        };
        let word = Value::from(format!("{WORD}0{END}"));
        let part = || container(Value::from_pairs([("type", Value::from("text")), ("text", word.clone())]));
        let content = if in_parts { container(Value::from(vec![part()])) } else { word.clone() };
        let message = said(role, content);
        let (user, assistant) = (said("user", "a".into()), said("assistant", "b".into()));
        let [first, only, next, last]: [Vec<Value>; 4] = [
            vec![message.clone(), user.clone()],
            vec![message.clone()],
            vec![user.clone(), message.clone()],
            vec![user, assistant, message],
        ];
        let shows = |messages: Vec<Value>| {
            let row = Row::of(messages);
            self.text(source, &row, &row.messages, false).is_ok_and(|text| text.to_ascii_lowercase().contains(WORD))
        };
        let known = [next, first, only, last].into_iter().any(shows);
        let mut roles = roles();
        if roles.len() < ROLES {
            roles.insert(key, known);
        }
        known
    }
}

/// Form in which the content of a message is given.
enum Form {
    Text,
    /// A list of objects with a text, and of other objects.
    Parts,
    Other,
}

fn form(message: &Value) -> Form {
    let content = message.get_attr("content").unwrap_or_default();
    match content.kind() {
        ValueKind::String => Form::Text,
        ValueKind::Seq if parts(&content).all(|part| part.kind() == ValueKind::Map) => Form::Parts,
        _ => Form::Other,
    }
}

/// Verdict on a lost message of this role.
fn hint(role: &str, is_known: bool) -> String {
    if is_known {
        return "move the message to where the template writes it, make its content a string, \
                or use another template"
            .to_owned();
    }
    let usual = match role.to_lowercase().as_str() {
        "human" | "user" | "prompter" => "user",
        "gpt" | "model" | "bot" | "chatbot" | "ai" | "assistant" => "assistant",
        "system" => "system",
        _ => role,
    };
    if usual == role {
        return "rename the role to one that the template knows, or use another template".to_owned();
    }
    format!("rename the role to {usual:?}")
}

/// Content of a message, without white space at the sides.
fn words(message: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if let Ok(content) = message.get_attr("content") {
        collect(&content, &mut words);
    }
    words
}

fn collect(content: &Value, words: &mut Vec<String>) {
    match content.kind() {
        ValueKind::String => {
            let word = methods::strip(content.as_str().unwrap_or_default(), None, [true, true]);
            if !word.is_empty() {
                words.push(word.to_owned());
            }
        }
        ValueKind::Seq => parts(content).for_each(|part| match part.kind() {
            ValueKind::Map => collect(&part.get_attr("text").unwrap_or_default(), words),
            ValueKind::String => collect(&part, words),
            _ => {}
        }),
        ValueKind::Map => fields(content).for_each(|(_, value)| collect(&value, words)),
        ValueKind::Number | ValueKind::Bool => words.extend(python::text(content, usize::MAX)),
        _ => {}
    }
}

/// The content with other words in the same places.
fn other_words(content: &Value, index: usize) -> Value {
    match content.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Value::from(format!("{WORD}{index}{END}")),
        ValueKind::Seq => container(Value::from(
            parts(content)
                .map(|part| match part.kind() {
                    ValueKind::Map => with_field(&part, "text", |text| other_words(text, index)),
                    ValueKind::String => other_words(&part, index),
                    _ => part,
                })
                .collect::<Vec<_>>(),
        )),
        ValueKind::Map => {
            let fields = fields(content).map(|(name, value)| (name, other_words(&value, index)));
            container(Value::from_pairs(fields.collect::<Vec<_>>()))
        }
        _ => content.clone(),
    }
}

fn parts(content: &Value) -> impl Iterator<Item = Value> {
    content.try_iter().into_iter().flatten()
}

fn fields(object: &Value) -> impl Iterator<Item = (Value, Value)> {
    parts(object).map(|name| {
        let value = object.get_item(&name).unwrap_or_default();
        (name, value)
    })
}

/// An object with another value in a field that it has.
fn with_field(object: &Value, name: &str, change: impl Fn(&Value) -> Value) -> Value {
    let changed = fields(object).map(|(key, value)| {
        let value = if key.as_str() == Some(name) { change(&value) } else { value };
        (key, value)
    });
    container(Value::from_pairs(changed.collect::<Vec<_>>()))
}
