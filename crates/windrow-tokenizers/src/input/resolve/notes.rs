//! Notes about the files of a folder or a pattern.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Found, PassedOver};
use crate::diagnose::is_about;
use crate::input::walk::listed;
use crate::input::{Compression, Format, InputFile};
use crate::{counted, shown};

impl Found<'_> {
    pub(super) fn note_passed_over(&mut self, root: &Path, passed_over: &PassedOver) {
        let PassedOver { count, data } = passed_over;
        if *count == 0 {
            return;
        }
        let what = match (self.options.all_text, count) {
            (true, 1) => "file that is not text was",
            (true, _) => "files that are not text were",
            (false, 1) => "file with another extension was",
            (false, _) => "files with other extensions were",
        };
        let mut note = format!("{}: {count} {what} ignored", shown(root));
        if let Some((_, foreign)) = data.first() {
            let names: Vec<&Path> = data.iter().map(|(path, _)| path.strip_prefix(root).unwrap_or(path)).collect();
            let (look, first) = if names.len() == 1 { ("looks", "") } else { ("look", "the first is ") };
            let (names, what, hint) = (listed(&names), foreign.what, foreign.hint);
            note.push_str(&format!("; {} {look} like data: {names} ({first}{what}; hint: {hint})", data.len()));
        }
        self.notes.push(note);
    }

    /// Notes about the files from this index on, if they are hardly one corpus. They need not be one if all files are taken.
    pub(super) fn note_mixture(&mut self, root: &Path, from: usize) {
        if self.options.others_are_text {
            return;
        }
        let files = &self.files[from..];
        let notes = [self.mixture(root, files), twins(root, files)];
        self.notes.extend(notes.into_iter().flatten());
    }

    /// A note about documents of several formats, or about texts that describe the corpus (README.md, LICENSE.txt) among its documents.
    fn mixture(&self, root: &Path, files: &[InputFile]) -> Option<String> {
        let of = |format| files.iter().filter(|file| kind_of(file) == format).collect::<Vec<_>>();
        let [text, jsonl, parquet] = [Format::Text, Format::Jsonl, Format::Parquet].map(of);
        let named = |files: &[&InputFile]| listed(&files.iter().map(|file| below(root, file)).collect::<Vec<_>>());
        let groups: Vec<String> = [(&text, "text"), (&jsonl, "JSON lines"), (&parquet, "Parquet")]
            .iter()
            .filter(|(files, _)| !files.is_empty())
            .map(|(files, what)| {
                let is = if files.len() == 1 { "is" } else { "are" };
                format!("{} {is} {what}: {}", files.len(), named(files))
            })
            .collect();
        if groups.len() > 1 {
            let is_parquet = parquet.len() >= jsonl.len();
            let hint = match root.to_string_lossy() {
                name if is_parquet && (root.is_dir() || name.contains("://")) => {
                    "with --input-format parquet, only Parquet is read".to_owned()
                }
                _ if root.is_dir() => {
                    format!("the quoted pattern '{}' selects only JSON lines", shown(&root.join("**/*.jsonl*")))
                }
                _ => "to read a single format, pass only the files of that format".to_owned(),
            };
            return Some(format!("{}: of {} files, {} ({hint})", shown(root), files.len(), groups.join("; ")));
        }
        if self.options.walk.source {
            return None;
        }
        let (about, rest): (Vec<_>, Vec<_>) = text.into_iter().partition(|file| is_about(Path::new(file.name())));
        let is_markdown = |file: &&InputFile| {
            Path::new(file.name()).extension().is_some_and(|found| found.eq_ignore_ascii_case("md"))
        };
        // Pages of a Markdown manual have these names.
        let is_manual = rest.iter().any(is_markdown) && about.iter().all(is_markdown);
        if about.is_empty() || rest.is_empty() || is_manual {
            return None;
        }
        let are = if about.len() == 1 { "is also read as a document" } else { "are also read as documents" };
        let hint = "to exclude such files, pass the other files or a quoted pattern";
        Some(format!("{}: {} {are} ({hint})", shown(root), named(&about)))
    }
}

/// The format, with text and lines of text as one.
fn kind_of(file: &InputFile) -> Format {
    if file.format() == Format::Lines { Format::Text } else { file.format() }
}

fn below<'f>(root: &Path, file: &'f InputFile) -> &'f Path {
    let path = Path::new(file.name());
    path.strip_prefix(root).unwrap_or(path)
}

/// A note about files that are present with and without compression, or in two compressions.
fn twins(root: &Path, files: &[InputFile]) -> Option<String> {
    let is_compressed = |file: &InputFile| !matches!(file.compression(), None | Some(Compression::None));
    if !files.iter().any(is_compressed) {
        return None;
    }
    let mut seen: HashMap<PathBuf, &InputFile> = HashMap::new();
    let pairs = files.iter().filter_map(|file| {
        let name = Path::new(file.name());
        let stem = if is_compressed(file) { name.with_extension("") } else { name.to_path_buf() };
        seen.insert(stem, file).map(|other| (other, file))
    });
    let pairs: Vec<(&InputFile, &InputFile)> = pairs.collect();
    let (one, other) = pairs.first()?;
    let more = match pairs.len() - 1 {
        0 => String::new(),
        more => format!("; so {} {}", if more == 1 { "is" } else { "are" }, counted(more as u64, "more pair")),
    };
    let (one, other) = (below(root, one), below(root, other));
    Some(format!(
        "{}: {} and {} differ only in their compression, and both are read{more}",
        shown(root),
        shown(one),
        shown(other)
    ))
}
