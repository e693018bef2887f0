//! The options that say what the texts of the inputs are.

use clap::{Args, ValueEnum};
use windrow_tokenizers::input::{self, InputOptions, WalkOptions};
use windrow_tokenizers::manifest::ReadOptions;

/// Options that turn inputs into texts: the same for all commands that read them.
#[derive(Debug, Args)]
pub(crate) struct Texts {
    /// Treat every line of a text file as a document.
    #[arg(long)]
    pub(crate) lines: bool,

    /// The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are
    /// joined [default: text; of a conversation messages].
    #[arg(long, visible_alias = "column", value_name = "NAME")]
    pub(crate) field: Vec<String>,

    /// Separator of the texts of several fields; \n, \t and \\ are escapes [default: \n].
    #[arg(long, value_name = "TEXT", value_parser = unescaped)]
    pub(crate) join: Option<String>,

    /// Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text.
    #[arg(long)]
    pub(crate) special_in_text: bool,

    /// Format of all inputs, regardless of their extensions. Stdin is text without it; with jsonl, .json files of directories are read
    /// too.
    #[arg(long, value_enum)]
    pub(crate) input_format: Option<InputFormat>,

    /// Additional extensions of text, such as rs,py,c.
    #[arg(long, value_name = "EXT,...", value_delimiter = ',', value_parser = extension)]
    pub(crate) ext: Vec<String>,

    /// Treat all files as text, regardless of their extensions; files of directories that are not text are passed over.
    #[arg(long)]
    pub(crate) all_text: bool,

    /// Read hidden files and folders of directories, too: .git, _temporary.
    #[arg(long)]
    pub(crate) hidden: bool,

    /// Read files of directories that .gitignore and similar files name, too. In a corpus they are always read.
    #[arg(long)]
    pub(crate) no_ignore: bool,
}

impl Texts {
    /// Options that contradict each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let has_fields = [(InputFormat::Jsonl, "jsonl"), (InputFormat::Parquet, "parquet")];
        if let Some((_, name)) = has_fields.iter().find(|(format, _)| self.input_format == Some(*format)) {
            for (option, given) in [("--lines", self.lines), ("--all-text", self.all_text)] {
                if given {
                    return Err(format!("{option} contradicts --input-format {name}\nhint: leave out one of them"));
                }
            }
        }
        if self.join.is_some() && self.field.len() < 2 {
            return Err("--join has no effect with one field\nhint: give --field several times".to_owned());
        }
        Ok(())
    }

    /// Rules by which inputs are found. Ignore files count for source code, because build output is not source code. They do not for corpora, which
    /// may be in a folder that git ignores.
    pub(crate) fn resolving(&self, takes_source: bool) -> InputOptions {
        InputOptions {
            lines: self.lines,
            format: self.input_format.map(Into::into),
            extensions: self.ext.clone(),
            all_text: self.all_text,
            walk: WalkOptions {
                hidden: self.hidden,
                source: takes_source,
                ignore_files: takes_source && !self.no_ignore,
            },
            ..InputOptions::default()
        }
    }

    /// Rules by which records become texts, of the field with this name if none is given.
    pub(crate) fn reading(&self, field: &str) -> ReadOptions {
        ReadOptions {
            field: self.field.first().cloned().unwrap_or_else(|| field.to_owned()),
            more_fields: self.field.iter().skip(1).cloned().collect(),
            join: if self.field.len() > 1 { self.join.clone().unwrap_or_else(|| "\n".into()) } else { String::new() },
            lines: self.lines,
            special_in_text: self.special_in_text,
            ..ReadOptions::default()
        }
    }
}

/// An extension in the form for comparisons: in lower case, without a dot.
fn extension(text: &str) -> Result<String, String> {
    match text.strip_prefix('.').unwrap_or(text) {
        "" => Err("an extension is missing".into()),
        "gz" | "zst" | "zstd" => Err("this is a compression, and no kind of text".into()),
        name if name.contains(['/', '.', '*']) => Err("give the last part of the name only, such as rs".into()),
        name => Ok(name.to_ascii_lowercase()),
    }
}

/// A text with escapes.
fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        plain.push(match (next, next == '\\') {
            (next, false) => next,
            (_, true) => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err(r"the escapes are \n, \t and \\".into()),
            },
        });
    }
    Ok(plain)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// A file is a document.
    Text,
    /// A line is a document.
    Lines,
    /// A line is a JSON object with a document in one of its fields.
    Jsonl,
    /// A row of a Parquet file is a document, in one of its columns.
    Parquet,
}

impl From<InputFormat> for input::Format {
    fn from(format: InputFormat) -> Self {
        match format {
            InputFormat::Text => Self::Text,
            InputFormat::Lines => Self::Lines,
            InputFormat::Jsonl => Self::Jsonl,
            InputFormat::Parquet => Self::Parquet,
        }
    }
}
