//! The end of an output: its files are completed, described by the manifest, and made final.

use std::io::{BufWriter, Write};

use super::error::{OutputError, OutputErrorKind};
use super::format::mds;
use super::part::Common;
use super::storage::Stored;
use super::{Output, Packing, Published};
use crate::format::Dtype;
use crate::manifest::{self, Manifest, OutputFile, Packed, SCHEMA, root_of};
use crate::shown::EscapedJson;

/// The files and counts of all parts.
struct Completed {
    files: Vec<OutputFile>,
    parts: Vec<manifest::Part>,
    packed: Option<Packed>,
}

impl Output {
    /// Completes the files, writes the manifest, and gives all files their final names, or none.
    ///
    /// `known` is the manifest as far as the caller knows it: engine, tokenizer, chat, options except the output's, inputs, documents, the bytes
    /// of their text, special tokens, and documents without loss. The output sets the other fields.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::{Documents, Manifest};
    /// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append(&[7, 8], &[2])?;
    /// // The account has one more document than the output.
    /// let documents = Documents { read: 2, written: 2, ..Documents::default() };
    /// let error = output.publish(Manifest { documents, ..Manifest::default() }).unwrap_err();
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
    pub fn publish(mut self, known: Manifest) -> Result<Published, OutputError> {
        self.check_account(&known)?;
        if self.common.tokenizer.is_empty() {
            self.name_tokenizer(&known.tokenizer.name);
        }
        let Completed { mut files, parts, packed } = self.complete_parts()?;
        let Common { staging, targets, options, .. } = &self.common;
        let shards = files.len();
        if let Some(list) = self.list.take() {
            files.push(self.common.listed((list.complete()?, None)));
        }
        if let Some(index) = self.index.take() {
            let index = index.resume(0, |_| ())?;
            let samples = mds::Samples::of(options, self.common.dtype.unwrap_or(Dtype::U32));
            let index = mds::write_index(index, targets, staging, samples, &files[..shards])?;
            files.push(self.common.listed((index, None)));
        }
        let manifest = Manifest {
            schema: SCHEMA,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            options: self.manifest_options(known.options),
            tokens: self.tokens(),
            loss_tokens: self.loss_tokens(),
            packed,
            parts,
            outputs_blake3: Some(root_of(&files)),
            outputs: files,
            skipped: std::mem::take(&mut self.first_skipped),
            ..known
        };
        self.write_manifest(&manifest)?;
        let Common { staging, targets, options, .. } = &self.common;
        let not_removed = staging.publish(targets, options.overwrite)?;
        Ok(Published {
            files: manifest.outputs,
            parts: manifest.parts,
            packed: manifest.packed,
            manifest: targets.manifest.clone(),
            documents: self.documents(),
            tokens: self.tokens(),
            eos: options.append_eos,
            loss_tokens: self.loss_tokens(),
            not_removed,
        })
    }

    /// Completes the files of all parts, and adds the names of their shards to the targets.
    fn complete_parts(&mut self) -> Result<Completed, OutputError> {
        let (mut files, mut parts, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = None;
        for (number, part) in self.parts.iter_mut().enumerate() {
            let shards = part.end(&self.common)?;
            names.extend((0..shards.len()).flat_map(|shard| self.common.targets.shard(number, shard)));
            let packed = part.packing.as_ref().map(Packing::counts);
            if let Some(Packed { rows, padding, dropped }) = packed {
                let sum: &mut Packed = all.get_or_insert_default();
                (sum.rows, sum.padding, sum.dropped) = (sum.rows + rows, sum.padding + padding, sum.dropped + dropped);
            }
            let own = shards.concat();
            if let Some(name) = self.common.options.parts.get(number) {
                let (name, documents, tokens) = (name.clone(), part.documents, part.tokens);
                parts.push(manifest::Part { name, documents, tokens, packed, files: own.len() });
            }
            files.extend(own);
        }
        self.common.targets.data.splice(..0, names);
        Ok(Completed { files, parts, packed: all })
    }

    fn check_account(&self, known: &Manifest) -> Result<(), OutputError> {
        let counts = known.documents;
        let listed = self.skipped;
        let is_open = self.parts.iter().any(|part| part.open.is_some());
        if counts.is_balanced() && counts.written == self.documents() && counts.skipped == listed && !is_open {
            return Ok(());
        }
        let message = format!(
            "the document counts do not add up: read {}, written {} (the output has {}), skipped {} (listed {listed}), \
             failed {}, deselected {}",
            counts.read,
            counts.written,
            self.documents(),
            counts.skipped,
            counts.failed,
            counts.deselected
        );
        Err(OutputError::new(OutputErrorKind::Accounting, message).hint("this is a bug in windrow: please report it"))
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<(), OutputError> {
        let file = self.manifest.take().expect("present until published");
        let Common { staging, targets, .. } = &self.common;
        let write = || {
            let mut writer = BufWriter::new(Stored(staging.storage(), &file));
            serde_json::to_writer_pretty(EscapedJson(&mut writer), manifest)?;
            writer.write_all(b"\n")?;
            writer.flush()?;
            drop(writer);
            staging.storage().sync(&file)
        };
        write().map_err(|error| staging.failed("cannot write", &targets.manifest, error))
    }
}
