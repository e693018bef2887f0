//! The file with the kept fields.

use super::error::OutputError;
use super::file::StagedFile;
use crate::kept::Kept;
use crate::to_json;

/// The file beside the ids: a JSON object a document.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) file: StagedFile,
    /// What precedes each value of a line: its name, with the punctuation.
    names: Vec<Vec<u8>>,
}

impl Sidecar {
    pub(crate) fn new(file: StagedFile, fields: &[String]) -> Self {
        let name = |(number, field)| {
            let mut name = if number == 0 { b"{".to_vec() } else { b",".to_vec() };
            name.extend_from_slice(to_json(field).as_bytes());
            name.push(b':');
            name
        };
        Self { file, names: fields.iter().enumerate().map(name).collect() }
    }

    /// Appends the lines of documents.
    pub(crate) fn append(&mut self, kept: &Kept) -> Result<(), OutputError> {
        let mut number = 0;
        for value in kept.values() {
            let name = &self.names[number];
            number = (number + 1) % self.names.len();
            self.file.put(|bytes| {
                bytes.extend_from_slice(name);
                bytes.extend_from_slice(value);
                if number == 0 {
                    bytes.extend_from_slice(b"}\n");
                }
            })?;
        }
        Ok(())
    }
}
