//! Whether a data set is what was written.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use windrow::prelude::*;

use super::documents::Shard;
use super::error::{DatasetError, DatasetErrorKind};
use super::hash::hashes;
use super::open::Dataset;
use crate::manifest::{OutputFile, root_of};
use crate::output::Format;
use crate::shown;
use crate::tokenizer::Tokenizer;

/// The result of [`Dataset::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that were read.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, the manifest's own contradictions first. Of each file the first fault.
    pub faults: Vec<DatasetError>,
}

/// What a shard has.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    documents: u64,
    tokens: u64,
    /// Ids whose mask is 1, if the masks have a file.
    loss_tokens: Option<u64>,
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.documents += more.documents;
        self.tokens += more.tokens;
        self.loss_tokens = match (self.loss_tokens, more.loss_tokens) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

impl Dataset {
    /// Reads all files, and compares hashes, counts, offsets and ids with the manifest.
    pub fn verify(&self) -> Verified {
        let manifest = &self.manifest;
        let mut faults = self.contradictions();
        let found: Vec<(&OutputFile, PathBuf)> =
            manifest.outputs.iter().map(|file| (file, self.path.with_file_name(&file.file))).collect();
        let mut whole = Vec::new();
        for (file, path) in &found {
            match fs::metadata(path) {
                Ok(metadata) if metadata.len() == file.bytes => whole.push((path.clone(), file.bytes)),
                Ok(metadata) => {
                    let what = format!("it has {} bytes, not {}", metadata.len(), file.bytes);
                    faults.push(DatasetError::damaged(path, what));
                }
                Err(error) => faults.push(DatasetError::io(path, &error)),
            }
        }
        let shards: Vec<Shard<'_>> = self.shards().into_iter().filter(|shard| is_in(shard, &whole)).collect();
        let is_complete = shards.len() == self.shards().len();
        let hashes = hashes(&whole);
        let walked: Vec<Result<Counts, DatasetError>> =
            shards.par_iter().map(|shard| self.walk_and_check(shard)).collect();
        for ((path, _), hash) in whole.iter().zip(hashes) {
            let listed = found.iter().find(|(_, other)| other == path).map_or("", |(file, _)| &file.blake3);
            match hash {
                Ok(hash) if hash.to_hex().as_str() == listed => {}
                Ok(hash) => faults
                    .push(DatasetError::damaged(path, format_args!("its blake3 is {hash}, not {}", shown(listed)))),
                Err(error) => faults.push(DatasetError::io(path, &error)),
            }
        }
        let mut sums = Counts::default();
        let mut is_known = is_complete;
        for counts in walked {
            match counts {
                Ok(counts) => sums.add(counts),
                Err(fault) => {
                    is_known = false;
                    faults.push(fault);
                }
            }
        }
        if is_known {
            faults.extend(self.wrong_counts(sums));
        }
        Verified { files: whole.len(), bytes: whole.iter().map(|(_, bytes)| bytes).sum(), faults }
    }

    /// What contradicts itself in the manifest.
    fn contradictions(&self) -> Vec<DatasetError> {
        let manifest = &self.manifest;
        let mut faults = Vec::new();
        let mut wrong = |what: &str| faults.push(DatasetError::damaged(&self.path, what));
        if manifest.outputs_blake3.as_ref().is_some_and(|root| *root != root_of(&manifest.outputs)) {
            wrong("outputs_blake3 is not the hash of the outputs' hashes");
        }
        if !manifest.documents.is_balanced() {
            wrong("the documents read are not those written, skipped and failed");
        }
        if manifest.inputs.iter().map(|input| input.documents).sum::<u64>() != manifest.documents.read {
            wrong("the documents of the inputs are not the documents read");
        }
        faults
    }

    fn wrong_counts(&self, Counts { documents, tokens, loss_tokens }: Counts) -> Vec<DatasetError> {
        let manifest = &self.manifest;
        let masks = loss_tokens.zip(manifest.loss_tokens).map(|(found, listed)| ("tokens with loss", found, listed));
        // A text may contain the end-of-text id, which is no end in nanogpt's count.
        let more = manifest.options.format == Format::Nanogpt && documents > manifest.documents.written;
        let counts = [("documents", documents, manifest.documents.written), ("tokens", tokens, manifest.tokens)];
        let wrong = counts
            .into_iter()
            .chain(masks)
            .filter(|&(what, found, listed)| found != listed && !(more && what == "documents"));
        wrong
            .map(|(what, found, listed)| {
                DatasetError::damaged(&self.path, format_args!("it lists {listed} {what}, and the files have {found}"))
            })
            .collect()
    }

    /// Walks a shard, compares its ids with the vocabulary, and counts.
    fn walk_and_check(&self, shard: &Shard<'_>) -> Result<Counts, DatasetError> {
        let (mut counts, mut fault) = (Counts::default(), None);
        shard.walk(&mut |ids| {
            fault = self.beyond_vocabulary(shard, counts.documents, ids);
            counts.add(Counts { documents: 1, tokens: ids.len() as u64, loss_tokens: None });
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        if let (Some(lines), Some(path)) = (shard.kept_lines()?, shard.paths.last())
            && lines != counts.documents
            && shard.options.format != Format::Nanogpt
        {
            let what = format!("it has {lines} lines for {} documents", counts.documents);
            return Err(DatasetError::damaged(path, what));
        }
        counts.loss_tokens = shard.loss_tokens(counts.tokens)?;
        Ok(counts)
    }

    /// Refuses a tokenizer that has not encoded these documents.
    ///
    /// # Errors
    /// [`DatasetErrorKind::OtherTokenizer`] naming both.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<(), DatasetError> {
        let identity = &self.manifest.tokenizer;
        if identity.blake3 == tokenizer.hash() {
            return Ok(());
        }
        let message = format!(
            "{}: encoded by {} (blake3 {}), not by {} (blake3 {})",
            shown(&self.path),
            shown(&identity.name),
            shown(&identity.blake3),
            shown(tokenizer.name()),
            shown(tokenizer.hash())
        );
        Err(DatasetError::new(DatasetErrorKind::OtherTokenizer, message)
            .hint("give the one that encoded it with --tokenizer"))
    }
}

/// Whether all files of a shard are whole.
fn is_in(shard: &Shard<'_>, whole: &[(PathBuf, u64)]) -> bool {
    shard.paths.iter().all(|path| whole.iter().any(|(other, _)| other == path))
}
