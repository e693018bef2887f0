//! The end of an output: its files are completed, described by the manifest, and made final.

use std::io::{BufWriter, Write};

use super::error::{OutputError, OutputErrorKind};
use super::file::StorageWriter;
use super::format::Dtype;
use super::listed::output_file;
use super::parts::{CompleteParts, PartState};
use super::{Output, Published, mds};
use crate::manifest::{Manifest, ManifestBody, SCHEMA, root_of};
use crate::shown::EscapedJson;

impl Output {
    /// Completes the files, writes the manifest, and gives all files their final names, or none.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, ManifestBody};
    /// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append(&[7, 8], &[2])?;
    /// // The account has one more document than the output.
    /// let documents = Documents { read: 2, written: 2, ..Documents::default() };
    /// let error = output.publish(ManifestBody { documents, ..ManifestBody::default() }).unwrap_err();
    /// assert_eq!(error.kind(), OutputErrorKind::Accounting);
    /// assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Accounting`](OutputErrorKind::Accounting) if the counts do not add up or a skipped document is not listed,
    /// [`CannotCreate`](OutputErrorKind::CannotCreate) if another process has taken a final name, [`Io`](OutputErrorKind::Io),
    /// [`Interrupted`](OutputErrorKind::Interrupted). In each case no final name is new, files that `overwrite` would have replaced
    /// are back in place, and staged files are removed.
    pub fn publish(mut self, body: ManifestBody) -> Result<Published, OutputError> {
        self.check_account(&body)?;
        if self.tokenizer.is_empty() {
            self.name_tokenizer(&body.tokenizer.name);
        }
        let CompleteParts { mut files, parts, packed } = self.complete_parts()?;
        let shards = files.len();
        if let Some(list) = self.list.take() {
            files.push(output_file(&self.targets, (list.complete()?, None)));
        }
        if let Some(index) = self.index.take() {
            let index = index.resume(0, |_| ())?;
            let samples = self.options.samples(self.dtype.unwrap_or(Dtype::U32));
            let index = mds::write_index(index, &self.targets, &self.staging, samples, &files[..shards])?;
            files.push(output_file(&self.targets, (index, None)));
        }
        let manifest = Manifest {
            schema: SCHEMA,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            engine: body.engine,
            tokenizer: body.tokenizer,
            chat: body.chat,
            options: self.manifest_options(body.reading),
            inputs: body.inputs,
            documents: body.documents,
            text_bytes: body.text_bytes,
            tokens: self.tokens(),
            special_tokens: body.special_tokens,
            loss_tokens: self.loss_tokens(),
            documents_without_loss: body.documents_without_loss,
            packed,
            parts,
            outputs_blake3: Some(root_of(&files)),
            outputs: files,
            skipped: std::mem::take(&mut self.first_skipped),
        };
        self.write_manifest(&manifest)?;
        let left_behind = self.staging.publish(&self.targets, self.options.overwrite)?;
        Ok(Published {
            files: manifest.outputs,
            parts: manifest.parts,
            packed: manifest.packed,
            manifest: self.targets.manifest.clone(),
            documents: self.documents(),
            tokens: self.tokens(),
            eos: self.options.append_eos,
            loss_tokens: self.loss_tokens(),
            left_behind,
        })
    }

    fn check_account(&self, body: &ManifestBody) -> Result<(), OutputError> {
        let counts = body.documents;
        let listed = self.skipped;
        let fields = self.options.keep.len() as u64;
        let own = PartState { documents: self.documents, kept: self.kept, ..PartState::default() };
        if let Some(part) = self.parts.iter().chain([&own]).find(|part| part.kept != part.documents * fields) {
            let message = format!(
                "the account of kept fields does not add up: {} values of {fields} fields in {} documents",
                part.kept, part.documents
            );
            let error = OutputError::new(OutputErrorKind::Accounting, message);
            return Err(error.hint("this is a fault of windrow: please report it"));
        }
        if counts.is_balanced() && counts.written == self.documents() && counts.skipped == listed && self.open.is_none()
        {
            return Ok(());
        }
        let message = format!(
            "the account of documents does not add up: read {}, written {} (the output has {}), skipped {} (listed {listed}), \
             failed {}, left out {}",
            counts.read,
            counts.written,
            self.documents(),
            counts.skipped,
            counts.failed,
            counts.left_out
        );
        Err(OutputError::new(OutputErrorKind::Accounting, message).hint("this is a fault of windrow: please report it"))
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<(), OutputError> {
        let file = self.manifest.take().expect("present until published");
        let write = || {
            let mut writer = BufWriter::new(StorageWriter { staging: &self.staging, file: &file });
            serde_json::to_writer_pretty(EscapedJson(&mut writer), manifest)?;
            writer.write_all(b"\n")?;
            writer.flush()?;
            drop(writer);
            self.staging.storage().sync(&file)
        };
        write().map_err(|error| {
            let target = &self.targets.manifest;
            self.staging.fail(OutputError::io(OutputErrorKind::Io, "cannot write", target, error))
        })
    }
}
