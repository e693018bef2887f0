//! Renders conversations, and finds the text of assistants.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};

use super::marks::FUNCTION;
use super::python::{self, container};
use super::row::{Conversation, Row};
use super::{ChatTemplate, RefusedChat, Source, caught};

/// A conversation as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text, with special tokens written in it.
    pub text: String,
    /// The bytes of the text that are an assistant's.
    pub spans: Vec<Range<usize>>,
}

/// Maximum bytes of the text of a row: a constant part, and bytes for each byte of its line.
const MOST: usize = 64 << 20;
const MOST_PER_BYTE: usize = 16;

/// Limit for a template without marks, which is run for each message: the steps of all these runs, as a multiple of the steps of one run.
const RUNS: u64 = 64;

/// Maximum bytes of the message of a template about a row.
const MAX_REASON: usize = 1 << 10;

/// The message with which a template ends if it calls `strftime_now` without a date.
pub(super) const NO_DATE: &str = "the template uses today's date, but repeated runs must write identical bytes \
    (hint: set the date, as in --chat-date 2024-07-26)";

impl ChatTemplate {
    /// The text of a conversation.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    /// assert_eq!(template.render(r#"[{"role": "user", "content": "Hi"}]"#)?, "user: Hi\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The text is not a conversation, the template refuses it, or a message is lost: a message of the user or the assistant whose words change
    /// nothing in the text, or one with a role that the template writes nowhere.
    pub fn render<'c>(&self, conversation: impl Into<Conversation<'c>>) -> Result<String, RefusedChat> {
        let row = Row::read(&conversation.into())?;
        let source = self.source(&row);
        let text = self.text(source, &row, &row.messages, false)?;
        self.nothing_is_lost(source, &row, &text)?;
        Ok(text)
    }

    /// The text of a conversation, and the parts of it that are an assistant's: its `{% generation %}` blocks.
    ///
    /// Without such blocks the parts are found by prefixes. For every message of an assistant, the messages before it with the prompt for
    /// an answer (`add_generation_prompt`) must be the beginning of the messages up to it, and these the beginning of the whole. The text
    /// between is the assistant's.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// // Without a generation block, the answer follows the prompt for it.
    /// let source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    /// let messages = r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]"#;
    /// let rendered = template.render_marked(messages)?;
    /// assert_eq!(rendered.text, "[user]Hi[assistant]Hello");
    /// assert_eq!(rendered.spans, [19..24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`render`](Self::render), and an error if the parts cannot be found.
    pub fn render_marked<'c>(&self, conversation: impl Into<Conversation<'c>>) -> Result<Rendered, RefusedChat> {
        let row = Row::read(&conversation.into())?;
        let source = self.source(&row);
        let rendered = self.with_spans(source, &row)?;
        self.nothing_is_lost(source, &row, &rendered.text)?;
        Ok(rendered)
    }

    /// The text of a conversation, followed by the prompt for an answer (`add_generation_prompt`).
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    /// assert_eq!(template.prompt(r#"[{"role": "user", "content": "Hi"}]"#)?, "[user]Hi[assistant]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`render`](Self::render).
    pub fn prompt<'c>(&self, conversation: impl Into<Conversation<'c>>) -> Result<String, RefusedChat> {
        let row = Row::read(&conversation.into())?;
        let source = self.source(&row);
        self.nothing_is_lost(source, &row, &self.text(source, &row, &row.messages, false)?)?;
        self.text(source, &row, &row.messages, true)
    }

    /// Renders a row with spans, even if the template drops a message.
    pub(super) fn with_spans(&self, source: &Source, row: &Row) -> Result<Rendered, RefusedChat> {
        if source.has_marks { self.marked(source, row) } else { self.by_prefixes(source, row) }
    }

    pub(super) fn source(&self, row: &Row) -> &Source {
        let with_tools = || self.sources.iter().find(|source| source.name == Source::TOOLS);
        let source = if row.tools.is_none() { None } else { with_tools() };
        source.unwrap_or(&self.sources[0])
    }

    /// The text of some messages.
    pub(super) fn text(
        &self,
        source: &Source,
        row: &Row,
        messages: &[Value],
        prompt: bool,
    ) -> Result<String, RefusedChat> {
        Ok(self.run(source, row, messages, prompt, false)?.text)
    }

    fn run(
        &self,
        source: &Source,
        row: &Row,
        messages: &[Value],
        prompt: bool,
        writes_marks: bool,
    ) -> Result<Found, RefusedChat> {
        let most = MOST.saturating_add(MOST_PER_BYTE.saturating_mul(row.bytes));
        let most_steps = self.environment.fuel().unwrap_or(u64::MAX);
        if row.steps.get() > most_steps.saturating_mul(RUNS) {
            return Err(self.refused(TOO_LONG));
        }
        let recorder = Recorder(Arc::new(Mutex::new(Found { writes_marks, most, ..Found::default() })));
        let noted = recorder.clone();
        let generation = Value::from_function(move |state: &mut State<'_, '_>, kwargs: Kwargs| {
            let body: Value = kwargs.get("caller")?;
            let text = body.call(state, &[])?;
            Ok::<_, Error>(noted.found().note(text))
        });
        let mut context = vec![
            ("messages", container(Value::from(messages.to_vec()))),
            ("tools", row.tools.clone()),
            ("documents", row.documents.clone()),
            ("add_generation_prompt", Value::from(prompt)),
            (FUNCTION, generation),
        ];
        context.extend(self.special_tokens.iter().map(|(name, token)| (name, Value::from(token))));
        let template = self.environment.get_template(source.name);
        let rendered = python::limited(most_steps, most, || {
            let context = Value::from_pairs(context);
            caught(|| {
                let rendered = template.and_then(|template| template.render_captured_to(context, recorder.clone()));
                rendered.map(|captured| captured.state().fuel_levels().map_or(0, |(steps, _)| steps))
            })
        });
        let rendered = rendered.ok_or_else(|| self.refused(TOO_LONG))?;
        let rendered = rendered.map_err(|panic| self.refused(&format!("the template engine panicked: {panic}")))?;
        let steps = rendered.map_err(|error| {
            if recorder.found().is_too_long {
                return self.refused(&format!(
                    "the rendered text exceeds both {} MiB and {MOST_PER_BYTE} bytes per byte of the row",
                    MOST >> 20
                ));
            }
            self.fault(source, &error)
        })?;
        row.steps.set(row.steps.get().saturating_add(steps));
        let mut found = recorder.found();
        found.settle("");
        Ok(std::mem::take(&mut *found))
    }

    /// The text with the spans of the `{% generation %}` blocks.
    fn marked(&self, source: &Source, row: &Row) -> Result<Rendered, RefusedChat> {
        let Found { text, spans, is_lost, .. } = self.run(source, row, &row.messages, false, false)?;
        if !is_lost {
            return Ok(Rendered { text, spans });
        }
        // A block may be inside a macro or similar. Characters that the text does not contain show the place of the block in the text.
        let with_marks = self.run(source, row, &row.messages, false, true)?.text;
        match without_marks(&with_marks, &text) {
            Some(spans) => Ok(Rendered { text, spans }),
            None => Err(self.refused(
                "an enclosing block changes the text of a generation block, so the position of the generated text is \
                 unknown (hint: move the generation block to the top level of the template, or omit --loss assistant)",
            )),
        }
    }

    /// The text with the spans of the messages of assistants, of a template without marks.
    fn by_prefixes(&self, source: &Source, row: &Row) -> Result<Rendered, RefusedChat> {
        let text = self.text(source, row, &row.messages, false)?;
        let mut spans = Vec::new();
        for (at, _) in row.messages.iter().enumerate().filter(|(_, message)| Row::is_assistant(message)) {
            let unknown = |what: &str| {
                self.refused(&format!(
                    "the template has no generation blocks, and adding {what} message {at} (counting from 0) changes \
                     the text before it, so the mask is unknown (hint: put {{% generation %}} around the \
                     assistant's text, or omit --loss assistant)"
                ))
            };
            let prompt = match at {
                0 => return Err(self.refused(
                    "the template has no generation blocks, and the conversation begins with the assistant, so the mask is \
                     unknown (hint: put {% generation %} around the assistant's text, or omit --loss assistant)",
                )),
                _ => self.text(source, row, &row.messages[..at], true)?,
            };
            let is_last = at + 1 == row.messages.len();
            let end = if is_last {
                text.len()
            } else {
                let until = self.text(source, row, &row.messages[..=at], false)?;
                if !text.starts_with(&until) {
                    return Err(unknown("the messages after"));
                }
                until.len()
            };
            if !text[..end].starts_with(&prompt) {
                return Err(unknown("the answer in"));
            }
            spans.push(prompt.len()..end);
        }
        Ok(Rendered { text, spans })
    }

    fn fault(&self, source: &Source, error: &Error) -> RefusedChat {
        let mut inner = error;
        while let Some(next) = std::error::Error::source(inner).and_then(|next| next.downcast_ref::<Error>()) {
            inner = next;
        }
        let what = match inner.kind() {
            ErrorKind::OutOfFuel => TOO_LONG.to_owned(),
            kind => inner.detail().map_or_else(|| kind.to_string(), str::to_owned),
        };
        let line = error.line().map_or_else(String::new, |line| format!(", line {line}"));
        let part = if source.name == Source::TOOLS { ", with tools" } else { "" };
        self.refused_at(&format!("{part}{line}"), &what)
    }

    fn refused(&self, what: &str) -> RefusedChat {
        self.refused_at("", what)
    }

    fn refused_at(&self, place: &str, what: &str) -> RefusedChat {
        // A reason is a single line of limited length.
        let end = what.char_indices().map(|(at, _)| at).find(|&at| at >= MAX_REASON).unwrap_or(what.len());
        let what = what[..end].replace(['\n', '\r'], " ") + if end < what.len() { " .." } else { "" };
        RefusedChat::Template(format!("the chat template refuses the conversation ({}{place}): {what}", self.name))
    }
}

impl Source {
    /// The template of rows without tools, or of all.
    pub(super) const DEFAULT: &'static str = "default";
    /// The template of rows with tools.
    pub(super) const TOOLS: &'static str = "tool_use";
}

/// The reason for stopping a template.
const TOO_LONG: &str = "rendering takes too long";

/// These characters are no characters: texts do not have them, and a row that has them is refused where they matter.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// The output of a template, and its generation blocks.
#[derive(Debug, Default)]
struct Found {
    text: String,
    spans: Vec<Range<usize>>,
    /// The text of the last block, which is to be written next.
    pending: Option<String>,
    /// True if other text was written, so that the places are unknown.
    is_lost: bool,
    /// True if blocks get characters around them.
    writes_marks: bool,
    /// Maximum bytes of the text. `is_too_long` is true if the text would exceed it.
    most: usize,
    is_too_long: bool,
}

impl Found {
    fn note(&mut self, text: Value) -> Value {
        let body = text.to_string();
        if self.writes_marks {
            return Value::from(format!("{OPEN}{body}{CLOSE}"));
        }
        self.is_lost |= self.pending.is_some();
        self.spans.push(self.text.len()..self.text.len() + body.len());
        self.pending = (!body.is_empty()).then_some(body);
        text
    }

    /// Notes that text is written.
    fn settle(&mut self, text: &str) {
        if let Some(pending) = self.pending.take() {
            self.is_lost |= pending != text;
        }
    }
}

/// Takes the output.
#[derive(Clone, Debug)]
struct Recorder(Arc<Mutex<Found>>);

impl Recorder {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The engine writes whole strings.
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        let mut found = self.found();
        if text.len() > found.most.saturating_sub(found.text.len()) {
            found.is_too_long = true;
            return Err(io::Error::other("too long"));
        }
        found.settle(text);
        found.text.push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The spans between marks in a text that is otherwise `text`, in the order of their ends.
fn without_marks(with_marks: &str, text: &str) -> Option<Vec<Range<usize>>> {
    let mut rest = text;
    let (mut open, mut spans) = (Vec::new(), Vec::new());
    for character in with_marks.chars() {
        let at = text.len() - rest.len();
        match character {
            OPEN => open.push(at),
            CLOSE => spans.push(open.pop()?..at),
            _ => rest = rest.strip_prefix(character)?,
        }
    }
    (rest.is_empty() && open.is_empty()).then_some(spans)
}
