//! The file with the kept fields.

use super::error::OutputError;
use super::file::StagedFile;
use crate::kept::KeptValues;
use crate::to_json;

/// The file of kept fields, next to the ids: a JSON object for each document.
#[derive(Debug)]
pub(crate) struct CompanionFile {
    pub(crate) file: StagedFile,
    names: Names,
}

impl CompanionFile {
    pub(crate) fn new(file: StagedFile, fields: &[String]) -> Self {
        Self { file, names: Names::new(fields) }
    }

    /// Appends the line of a document.
    pub(crate) fn append(&mut self, kept: KeptValues<'_>) -> Result<(), OutputError> {
        let line = [&*self.names.object(kept), b"\n"].concat();
        self.file.put_all(&line)
    }
}

/// The text before each value of an object: its name, with the punctuation.
#[derive(Debug)]
pub(crate) struct Names(Vec<Vec<u8>>);

impl Names {
    pub(crate) fn new(fields: &[String]) -> Self {
        let name = |(number, field)| [if number == 0 { "{" } else { "," }, &to_json(field), ":"].concat().into_bytes();
        Self(fields.iter().enumerate().map(name).collect())
    }

    /// The object with these values.
    pub(crate) fn object(&self, kept: KeptValues<'_>) -> Vec<u8> {
        let mut object = Vec::new();
        for (name, value) in self.0.iter().zip(kept.iter()) {
            object.extend_from_slice(name);
            object.extend_from_slice(value);
        }
        object.push(b'}');
        object
    }
}
