//! Finds chat templates and special tokens.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use thiserror::Error;

use super::environment::{environment, set_date};
use super::lost::Roles;
use super::marks::{self, Replaced};
use super::{ChatTemplate, Date, Source, caught};

/// Larger files are not read.
const MAX_BYTES: u64 = 16 << 20;

/// The configuration file in the directory of a `tokenizer.json`.
const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
const MORE_TEMPLATES: &str = "additional_chat_templates";
const TOKENS: &str = "special_tokens_map.json";

/// Failure to load a chat template.
///
/// ```
/// use windrow_chat::{ChatError, ChatTemplate, SpecialTokens};
///
/// let error = ChatTemplate::from_source("chat.jinja", "{% for %}", SpecialTokens::default()).unwrap_err();
/// assert!(matches!(&error, ChatError::Invalid { name, .. } if name == "chat.jinja"));
/// assert!(error.to_string().starts_with("chat template chat.jinja: line 1: "));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// A file cannot be read.
    #[error(
        "chat template {}: {source}\nhint: check the path and the file's permissions",
        shown(&path.display().to_string())
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no template.
    #[error("there is no chat template for {}\nhint: {hint}", shown(name))]
    Missing {
        /// The place that was searched.
        name: String,
        /// The remedy.
        hint: String,
    },
    /// A file is no template, or no configuration.
    #[error("chat template {}: {}\nhint: {hint}", shown(name), shown(reason))]
    Invalid {
        /// The file.
        name: String,
        /// The error in the file.
        reason: String,
        /// The remedy.
        hint: String,
    },
}

/// The special tokens that templates can name, such as `eos_token`, in the order of the files.
///
/// ```
/// use windrow_chat::SpecialTokens;
///
/// let mut tokens = SpecialTokens::default();
/// tokens.set("bos_token", "<s>");
/// tokens.set("eos_token", "</s>");
/// assert!(tokens.iter().eq([("bos_token", "<s>"), ("eos_token", "</s>")]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens(Vec<(String, String)>);

impl SpecialTokens {
    /// The tokens that have a name in every tokenizer.
    const NAMES: [&str; 7] =
        ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

    /// Adds a token, or replaces the one with this name.
    ///
    /// ```
    /// use windrow_chat::SpecialTokens;
    ///
    /// let mut tokens = SpecialTokens::default();
    /// tokens.set("eos_token", "</s>");
    /// tokens.set("eos_token", "<|im_end|>");
    /// assert!(tokens.iter().eq([("eos_token", "<|im_end|>")]));
    /// ```
    pub fn set(&mut self, name: impl Into<String>, token: impl Into<String>) {
        let (name, token) = (name.into(), token.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = token,
            None => self.0.push((name, token)),
        }
    }

    /// The names and the tokens.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, token)| (name.as_str(), token.as_str()))
    }

    /// The special tokens of the `tokenizer_config.json` and the `special_tokens_map.json` in the directory of a tokenizer.
    ///
    /// ```
    /// use windrow_chat::SpecialTokens;
    ///
    /// let directory = tempfile::tempdir()?;
    /// let config = r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}}"#;
    /// std::fs::write(directory.path().join("tokenizer_config.json"), config)?;
    /// let tokens = SpecialTokens::next_to(&directory.path().join("tokenizer.json"))?;
    /// assert!(tokens.iter().eq([("bos_token", "<s>"), ("eos_token", "</s>")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// One of these files is not a JSON object, or cannot be read. Neither file is required.
    pub fn next_to(tokenizer: &Path) -> Result<Self, ChatError> {
        let mut tokens = Self::default();
        let directory = directory(tokenizer);
        for name in [TOKENS, CONFIG] {
            if let Some(text) = read_if_there(&directory.join(name))? {
                tokens.add(&object(&directory.join(name), &text)?);
            }
        }
        Ok(tokens)
    }

    fn add(&mut self, config: &Map<String, Value>) {
        for name in Self::NAMES {
            let token = config.get(name);
            let token = token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
            if let Some(token) = token {
                self.set(name, token);
            }
        }
    }
}

impl ChatTemplate {
    /// The template of a tokenizer: `chat_template.jinja` in its directory, with those in `additional_chat_templates`, or else the
    /// `chat_template` of the `tokenizer_config.json` there.
    ///
    /// ```
    /// use windrow_chat::ChatTemplate;
    ///
    /// let directory = tempfile::tempdir()?;
    /// std::fs::write(directory.path().join("chat_template.jinja"), "{{ messages[0].content }}{{ eos_token }}")?;
    /// std::fs::write(directory.path().join("special_tokens_map.json"), r#"{"eos_token": "</s>"}"#)?;
    /// let template = ChatTemplate::next_to(&directory.path().join("tokenizer.json"))?;
    /// let row = r#"[{"role": "user", "content": "Hi"}]"#;
    /// assert_eq!(template.render(row)?, "Hi</s>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The tokenizer has no template, or the template cannot be compiled.
    pub fn next_to(tokenizer: &Path) -> Result<Self, ChatError> {
        let directory = directory(tokenizer);
        let template = directory.join(TEMPLATE);
        let tokens = SpecialTokens::next_to(tokenizer)?;
        if let Some(source) = read_if_there(&template)? {
            let with_tools = read_if_there(&directory.join(MORE_TEMPLATES).join(format!("{}.jinja", Source::TOOLS)))?;
            let sources = [(Source::DEFAULT, source)].into_iter().chain(with_tools.map(|text| (Source::TOOLS, text)));
            return Self::compile(&template.display().to_string(), sources.collect(), tokens);
        }
        let config = directory.join(CONFIG);
        match read_if_there(&config)? {
            Some(text) => Self::of_config(&config, &text, tokens),
            None => Err(ChatError::Missing {
                name: tokenizer.display().to_string(),
                hint: format!("put {TEMPLATE} or {CONFIG} next to the tokenizer, or pass a file: --chat=FILE"),
            }),
        }
    }

    /// The template in a file: the whole text, or the template of a `tokenizer_config.json` if the name ends in `.json`.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("tokenizer_config.json");
    /// std::fs::write(&path, r#"{"eos_token": "</s>", "chat_template": "{{ messages[0].content }}{{ eos_token }}"}"#)?;
    /// let template = ChatTemplate::from_file(&path, SpecialTokens::default())?;
    /// assert!(template.special_tokens().iter().eq([("eos_token", "</s>")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, or the template cannot be compiled.
    pub fn from_file(path: &Path, tokens: SpecialTokens) -> Result<Self, ChatError> {
        let text = read(path)?;
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut tokens = tokens;
            tokens.add(&object(path, &text)?);
            return Self::of_config(path, &text, tokens);
        }
        Self::compile(&path.display().to_string(), vec![(Source::DEFAULT, text)], tokens)
    }

    /// A template from its text. `name` is for messages.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    /// let row = r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]"#;
    /// assert_eq!(template.render(row)?, "user: Hi\nassistant: Hello\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The template cannot be compiled.
    pub fn from_source(name: &str, source: &str, tokens: SpecialTokens) -> Result<Self, ChatError> {
        Self::compile(name, vec![(Source::DEFAULT, source.to_owned())], tokens)
    }

    fn of_config(path: &Path, text: &str, tokens: SpecialTokens) -> Result<Self, ChatError> {
        let config = object(path, text)?;
        let name = path.display().to_string();
        let sources = match config.get("chat_template") {
            Some(Value::String(source)) => vec![(Source::DEFAULT, source.clone())],
            Some(Value::Array(named)) => {
                let text = |name: &str| {
                    let is_it = |one: &&Value| one.get("name").and_then(Value::as_str) == Some(name);
                    named.iter().rev().find(is_it)?.get("template")?.as_str().map(str::to_owned)
                };
                let sources = [Source::DEFAULT, Source::TOOLS].map(|name| text(name).map(|text| (name, text)));
                let sources: Vec<_> = sources.into_iter().flatten().collect();
                if sources.first().is_none_or(|(name, _)| *name != Source::DEFAULT) {
                    let names: Vec<_> = named.iter().filter_map(|one| one.get("name")?.as_str()).collect();
                    return Err(ChatError::Invalid {
                        name,
                        reason: format!(
                            "none of its templates is named \"default\" (the names are {})",
                            names.join(", ")
                        ),
                        hint: "save the template that you want in a file, and pass that file: --chat=FILE".to_owned(),
                    });
                }
                sources
            }
            _ => {
                let hint = format!("put {TEMPLATE} next to it, or pass a file: --chat=FILE");
                return Err(ChatError::Missing { name, hint });
            }
        };
        Self::compile(&name, sources, tokens)
    }

    fn compile(
        name: &str,
        sources: Vec<(&'static str, String)>,
        special_tokens: SpecialTokens,
    ) -> Result<Self, ChatError> {
        let mut environment = environment(None);
        let mut compiled = Vec::new();
        for (part, text) in sources {
            // Line ends are normalized, as in Jinja.
            let text = text.replace("\r\n", "\n").replace('\r', "\n");
            let Replaced { text: replaced, has_marks, refused } = marks::replace(&text);
            if let Some((line, reason)) = refused {
                return Err(ChatError::Invalid {
                    name: name.to_owned(),
                    reason: format!("line {line}: {reason}"),
                    hint: "split the tag or block with {% set %} or a macro".to_owned(),
                });
            }
            let invalid = |reason| ChatError::Invalid {
                name: name.to_owned(),
                reason,
                hint: "check that it is a Jinja template and that the transformers library can render it".to_owned(),
            };
            let added = caught(|| environment.add_template_owned(part, replaced));
            added.map_err(|panic| invalid(format!("the template engine panicked: {panic}")))?.map_err(|error| {
                let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
                invalid(format!("line {}: {what}", error.line().unwrap_or(1)))
            })?;
            compiled.push(Source { name: part, text, has_marks });
        }
        Ok(Self {
            name: name.to_owned(),
            environment,
            sources: compiled,
            special_tokens,
            date: None,
            roles: Roles::default(),
        })
    }

    /// Sets the date that `strftime_now` gives: midnight of this day.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let source = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    /// let row = r#"[{"role": "user", "content": "Hi"}]"#;
    /// assert!(template.render(row).is_err(), "no date is set");
    /// let template = template.with_date("2024-07-26".parse()?);
    /// assert_eq!(template.render(row)?, "26 Jul 2024: Hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_date(mut self, date: Date) -> Self {
        self.date = Some(date);
        set_date(&mut self.environment, self.date);
        self
    }

    /// Sets the limit at which a row is refused, in steps of the engine plus units of 64 bytes that it makes. The default is 20 million.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let source = "{% for i in range(10000) %}{{ i }}{% endfor %}";
    /// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?.with_steps(1000);
    /// let refused = template.render(r#"[{"role": "user", "content": "Hi"}]"#).unwrap_err();
    /// assert!(refused.to_string().ends_with("rendering takes too long"));
    /// # Ok::<(), windrow_chat::ChatError>(())
    /// ```
    #[must_use]
    pub fn with_steps(mut self, steps: u64) -> Self {
        self.environment.set_fuel(Some(steps));
        self
    }
}

/// The directory of a tokenizer: the path itself, or the directory of the file.
fn directory(tokenizer: &Path) -> PathBuf {
    if tokenizer.is_dir() {
        return tokenizer.to_owned();
    }
    tokenizer.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// A foreign text on one line, without control characters.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

fn read_if_there(path: &Path) -> Result<Option<String>, ChatError> {
    if path.exists() { read(path).map(Some) } else { Ok(None) }
}

fn read(path: &Path) -> Result<String, ChatError> {
    let failed = |source| ChatError::Read { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    let invalid = |reason: &str, hint: &str| ChatError::Invalid {
        name: path.display().to_string(),
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    };
    if !metadata.is_file() {
        return Err(invalid("not a regular file", "pass the path to a template file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(invalid("too large for a template", "pass the path to a template file"));
    }
    let bytes = fs::read(path).map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| invalid("not valid UTF-8", "pass the path to a template file"))
}

fn object(path: &Path, text: &str) -> Result<Map<String, Value>, ChatError> {
    serde_json::from_str(text).map_err(|error| ChatError::Invalid {
        name: path.display().to_string(),
        reason: format!("not a JSON object: {error}"),
        hint: "correct the file: it must contain a JSON object".to_owned(),
    })
}
