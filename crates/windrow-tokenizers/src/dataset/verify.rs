//! Verification of a data set: its files hold the bytes that were written.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use windrow::prelude::*;

use super::documents::Stretch;
use super::hash::hashes;
use super::open::Dataset;
use super::segments::Segments;
use crate::format::Format;
use crate::manifest::{OutputFile, Packed, Part, root_of};
use crate::shard::{DatasetError, DatasetErrorKind, Shard};
use crate::shown;
use crate::tokenizer::Tokenizer;

/// The result of [`Dataset::verify`].
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::manifest::{Documents, InputFile, Manifest};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// # output.append(&[7, 8], &[2])?;
/// # let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// # let inputs = vec![InputFile { documents: 1, ..InputFile::default() }];
/// # output.publish(Manifest { documents, inputs, ..Manifest::default() })?;
///
/// let dataset = Dataset::open(&prefix)?;
/// let verified = dataset.verify();
/// assert_eq!((verified.files, verified.faults), (2, vec![]));
/// // A file has lost its bytes.
/// std::fs::write(directory.path().join("corpus.offsets.npy"), "")?;
/// assert_eq!(dataset.verify().faults.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of files that were read.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// The faults, contradictions of the manifest first. Each file has its first fault only.
    pub faults: Vec<DatasetError>,
}

/// The documents and ids of a shard, and the number of ids whose mask is 1, if the masks have a file.
type Counts = ([u64; 2], Option<u64>);

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
                    let what = format!("its size in bytes is {}, not {}", metadata.len(), file.bytes);
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
                Ok(hash) => faults.push(DatasetError::damaged(
                    path,
                    format_args!("its blake3 hash is {hash}, not {}", shown(listed)),
                )),
                Err(error) => faults.push(DatasetError::io(path, &error)),
            }
        }
        let (mut counts, mut loss_tokens) = (Vec::new(), None);
        for counted in walked {
            match counted {
                Ok((one, loss)) => {
                    counts.push(one);
                    loss_tokens = loss.map(|loss| loss + loss_tokens.unwrap_or(0));
                }
                Err(fault) => faults.push(fault),
            }
        }
        if is_complete && counts.len() == shards.len() {
            let sums =
                |shards: &[[u64; 2]]| shards.iter().fold([0; 2], |sums, one| [sums[0] + one[0], sums[1] + one[1]]);
            let all = listed(manifest.documents.written, manifest.tokens, manifest.packed);
            faults.extend(self.wrong_counts("", sums(&counts), all));
            if let Some((found, listed)) =
                loss_tokens.zip(manifest.loss_tokens).filter(|(found, listed)| found != listed)
            {
                let what = format_args!("its number of tokens with loss is {listed}, but the files contain {found}");
                faults.push(DatasetError::damaged(&self.path, what));
            }
            let mut rest = counts.as_slice();
            for part in &manifest.parts {
                let (own, later) = rest.split_at(part.files / self.suffixes().len());
                rest = later;
                let name = format!(" in part {}", shown(&part.name));
                let in_part = listed(part.documents, part.tokens, part.packed);
                faults.extend(self.wrong_counts(&name, sums(own), in_part));
            }
        }
        Verified { files: whole.len(), bytes: whole.iter().map(|(_, bytes)| bytes).sum(), faults }
    }

    /// The contradictions in a manifest.
    fn contradictions(&self) -> Vec<DatasetError> {
        let manifest = &self.manifest;
        let mut faults = Vec::new();
        let mut wrong = |what: &str| faults.push(DatasetError::damaged(&self.path, what));
        if manifest.outputs_blake3.as_ref().is_some_and(|root| *root != root_of(&manifest.outputs)) {
            wrong("outputs_blake3 is not the hash of the outputs' hashes");
        }
        if !manifest.documents.is_balanced() {
            wrong("the number of documents read is not the sum of those written, skipped, failed and deselected");
        }
        let in_parts = |of: fn(&Part) -> u64| manifest.parts.iter().map(of).sum::<u64>();
        let is_divided = !manifest.parts.is_empty();
        if is_divided && in_parts(|part| part.documents) != manifest.documents.written {
            wrong("the document counts of the parts do not add up to the number of documents written");
        }
        if is_divided && in_parts(|part| part.tokens) != manifest.tokens {
            wrong("the token counts of the parts do not add up to the number of tokens written");
        }
        if manifest.inputs.iter().map(|input| input.documents).sum::<u64>() != manifest.documents.read {
            wrong("the document counts of the inputs do not add up to the number of documents read");
        }
        faults
    }

    /// The differences between the documents and tokens in the files and in the manifest.
    fn wrong_counts(&self, place: &str, [documents, tokens]: [u64; 2], listed: [u64; 2]) -> Vec<DatasetError> {
        // A text may contain the end-of-text id, which ends no document, but nanogpt's count includes it.
        let is_packed = self.manifest.options.pack.is_some();
        let more = self.manifest.options.format == Format::Nanogpt && documents > listed[0] && !is_packed;
        let names = if is_packed { ["rows", "tokens and padding ids"] } else { ["documents", "tokens"] };
        let counts = [(names[0], documents, listed[0]), (names[1], tokens, listed[1])];
        let wrong =
            counts.into_iter().filter(|&(what, found, listed)| found != listed && !(more && what == "documents"));
        wrong
            .map(|(what, found, listed)| {
                DatasetError::damaged(
                    &self.path,
                    format_args!("its number of {what}{place} is {listed}, but the files contain {found}"),
                )
            })
            .collect()
    }

    /// Documents of the part to which a shard belongs.
    fn documents_of(&self, shard: &Shard<'_>) -> u64 {
        let name = shard.paths[0].file_name().unwrap_or_default();
        let index = self.manifest.outputs.iter().position(|output| name == output.file.as_str()).unwrap_or(0);
        let mut end = 0;
        let part = self.manifest.parts.iter().find(|part| {
            end += part.files;
            index < end
        });
        part.map_or(self.manifest.documents.written, |part| part.documents)
    }

    /// Walks a shard, compares its ids with the vocabulary, and returns the numbers of documents and ids.
    fn walk_and_check(&self, shard: &Shard<'_>) -> Result<Counts, DatasetError> {
        let pack = self.manifest.options.rows();
        let mut segments = pack.map(|_| Segments::open(shard)).transpose()?;
        let documents = self.documents_of(shard);
        let counts = match (&mut segments, pack) {
            (Some(segments), Some(pack)) => {
                self.count(shard, &Stretch::WHOLE, &mut |ids| segments.check_row(ids, pack, documents))?
            }
            _ => {
                let stretches = shard.stretches()?;
                let counts: Vec<Result<[u64; 2], DatasetError>> =
                    stretches.par_iter().map(|stretch| self.count(shard, stretch, &mut |_| Ok(()))).collect();
                counts.into_iter().try_fold([0; 2], |sums, one| one.map(|one| [sums[0] + one[0], sums[1] + one[1]]))?
            }
        };
        segments.iter().try_for_each(Segments::check_end)?;
        if let (Some(lines), Some(path)) = (shard.kept_lines()?, shard.paths.last())
            && lines != if pack.is_some() { documents } else { counts[0] }
            && shard.options.format != Format::Nanogpt
        {
            let found = if pack.is_some() { documents } else { counts[0] };
            let what = format!("its number of lines is {lines}, but the number of documents is {found}");
            return Err(DatasetError::damaged(path, what));
        }
        Ok((counts, shard.loss_tokens(counts[1])?))
    }

    /// Compares the ids of a range of a shard with the vocabulary, checks its documents, and returns the numbers of documents and ids.
    fn count(
        &self,
        shard: &Shard<'_>,
        stretch: &Stretch,
        check: &mut dyn FnMut(&[u32]) -> Result<(), DatasetError>,
    ) -> Result<[u64; 2], DatasetError> {
        let (mut counts, mut fault) = ([0; 2], None);
        shard.walk_stretch(stretch, &mut |ids| {
            fault = self.beyond_vocabulary(shard, stretch.begin + counts[0], ids).or_else(|| check(ids).err());
            counts = [counts[0] + 1, counts[1] + ids.len() as u64];
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        fault.map_or(Ok(counts), Err)
    }

    /// Refuses a tokenizer other than the one that encoded these documents.
    ///
    /// ```
    /// use windrow_tokenizers::dataset::{Dataset, DatasetErrorKind};
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    /// # use windrow_tokenizers::manifest::{Manifest, TokenizerIdentity};
    /// # use windrow_tokenizers::output::{Output, OutputOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let prefix = directory.path().join("corpus");
    ///
    /// let load = |name| Tokenizer::load(name, &LoadOptions::default());
    /// let (gpt2, other) = (load("gpt2")?, load("cl100k_base")?);
    /// # let tokenizer = TokenizerIdentity { blake3: gpt2.hash().to_owned(), ..TokenizerIdentity::default() };
    /// # Output::create(&OutputOptions::new(&prefix, 300))?.publish(Manifest { tokenizer, ..Manifest::default() })?;
    /// // The documents were encoded by gpt2.
    /// let dataset = Dataset::open(&prefix)?;
    /// assert_eq!(dataset.check_tokenizer(&gpt2), Ok(()));
    /// assert_eq!(dataset.check_tokenizer(&other).unwrap_err().kind(), DatasetErrorKind::OtherTokenizer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DatasetErrorKind::OtherTokenizer`] with the names of both.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<(), DatasetError> {
        let identity = &self.manifest.tokenizer;
        if identity.blake3 == tokenizer.hash() {
            return Ok(());
        }
        let message = format!(
            "{}: encoded with {} (blake3 {}), not with {} (blake3 {})",
            shown(&self.path),
            shown(&identity.name),
            shown(&identity.blake3),
            shown(tokenizer.name()),
            shown(tokenizer.hash())
        );
        Err(DatasetError::new(DatasetErrorKind::OtherTokenizer, message)
            .hint("use --tokenizer to specify the tokenizer that encoded it"))
    }
}

/// The expected counts of a walk through documents or rows.
fn listed(documents: u64, tokens: u64, packed: Option<Packed>) -> [u64; 2] {
    packed.map_or([documents, tokens], |packed| [packed.rows, tokens.saturating_add(packed.padding)])
}

/// True if all files of a shard are complete.
fn is_in(shard: &Shard<'_>, whole: &[(PathBuf, u64)]) -> bool {
    shard.paths.iter().all(|path| whole.iter().any(|(other, _)| other == path))
}
