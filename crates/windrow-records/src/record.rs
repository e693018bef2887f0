//! The records below `bench/record`: text tables, and the notes of their programs.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::tools::{entries, read};

/// A table: a record, or values computed from records.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The file's name without date and ending.
    pub name: String,
    /// The lines of its head.
    pub comments: Vec<String>,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its fields.
    pub rows: Vec<Vec<String>>,
}

impl Record {
    /// The record in the text of a file.
    pub fn parse(name: &str, text: &str) -> Record {
        let comments: Vec<String> = text.lines().map_while(|line| line.strip_prefix("# ")).map(str::to_owned).collect();
        let mut rows = text.lines().skip(comments.len()).map(fields);
        let columns = rows.next().unwrap_or_default();
        Record { name: name.to_owned(), comments, columns, rows: rows.collect() }
    }

    /// The fact that the program states under this key, or a dash.
    pub fn fact(&self, key: &str) -> &str {
        let of_key = |line: &'_ String| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(": "));
        self.comments.iter().find(|line| of_key(line)).map_or("-", |line| &line[key.len() + 2..])
    }

    /// The notes, without facts and versions.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &str> {
        let is_fact =
            |line: &str| ["command: ", "machine: ", "commit: ", "compiler: "].iter().any(|it| line.starts_with(it));
        self.comments.iter().map(String::as_str).filter(move |line| !is_fact(line) && !is_version(line))
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The name without a number at its end: runs of one command differ only in that number.
    pub(crate) fn base(&self) -> &str {
        let base = self.name.trim_end_matches(|c: char| c.is_ascii_digit());
        base.strip_suffix('-').filter(|_| base.len() < self.name.len()).unwrap_or(&self.name)
    }
}

/// A line like `rayon 1.12.0`, or `OpenMP 201511, gcc 12.2.0`.
fn is_version(line: &str) -> bool {
    line.split(", ").all(|part| match part.split_once(' ') {
        Some((_, version)) => !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.'),
        // A setting of the environment, such as `OMP_WAIT_POLICY=passive`.
        None => part.contains('='),
    })
}

/// The fields of a line of CSV; quoted ones may hold commas.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("it begins with one").push(c),
        }
    }
    fields
}

/// Whether a name matches a pattern, in which `?` is any character and `*` any number of characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (mut wanted, mut found) = (pattern.chars(), name.chars());
    match (wanted.next(), found.next()) {
        (None, end) => end.is_none(),
        (Some('*'), c) => matches(wanted.as_str(), name) || (c.is_some() && matches(pattern, found.as_str())),
        (Some(c), Some(other)) => (c == '?' || c == other) && matches(wanted.as_str(), found.as_str()),
        _ => false,
    }
}

impl Record {
    /// All records below a folder of machines, by machine and file name.
    ///
    /// # Errors
    /// If one cannot be read, has a row of another length than its columns, or has the name of another.
    pub fn load_all(root: &Path) -> Result<Vec<Record>> {
        let mut records: Vec<Record> = Vec::new();
        for machine in entries(root)?.iter().filter(|path| path.is_dir()) {
            for path in entries(machine)?.iter().filter(|path| path.extension().is_some_and(|it| it == "csv")) {
                let (stem, shown) = (path.file_stem().unwrap_or_default().to_string_lossy(), path.display());
                let record = Record::parse(stem.splitn(4, '-').nth(3).unwrap_or(&stem), &read(path)?);
                let (name, columns) = (&record.name, record.columns.len());
                let is_known = records.iter().any(|other| other.name == *name);
                ensure!(
                    !is_known,
                    "{shown}: another record is already called {name}\n  hint: keep the one that is quoted"
                );
                let is_whole = record.rows.iter().all(|row| row.len() == columns);
                ensure!(is_whole, "{shown}: a row does not have {columns} fields, one for each column");
                records.push(record);
            }
        }
        Ok(records)
    }
}

#[test]
fn a_record_has_facts_notes_columns_and_rows() {
    let text = "# command: c -- --record\n# commit: abc\n# compiler: rustc 1.95.0 (5980 2026)\n# rayon 1.12.0\n\
                # OpenMP 201511, gcc 12.2.0\n# a by b: x2.00, bar >= 1.5 met\na,b\n1,\"x, y\"\n";
    let record = Record::parse("cells-warm-12", text);
    assert_eq!((record.fact("command"), record.fact("machine"), record.base()), ("c -- --record", "-", "cells-warm"));
    assert_eq!(record.notes().collect::<Vec<_>>(), ["a by b: x2.00, bar >= 1.5 met"]);
    assert_eq!((record.columns.len(), record.rows), (2, vec![vec!["1".to_owned(), "x, y".to_owned()]]));
    let found = ["cells-*-?", "cells-warm-?", "*", "?", "joins"].map(|pattern| matches(pattern, "cells-warm-shared-1"));
    assert_eq!(found, [true, false, true, false, false]);
}
