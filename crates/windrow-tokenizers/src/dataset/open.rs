//! A data set by its manifest.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use windrow::prelude::*;

use super::documents::Shard;
use super::error::{DatasetError, DatasetErrorKind};
use super::statistics::Statistics;
use crate::manifest::{Manifest, OnError, OutputFile};
use crate::output::{Format, suffixes};
use crate::shown;

/// The limit of ids if the manifest names no vocabulary. It bounds the memory of statistics.
const LARGEST_VOCABULARY: u32 = 1 << 24;

/// Published token files, as their manifest describes them.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(super) path: PathBuf,
    pub(super) manifest: Manifest,
}

impl Dataset {
    /// Reads the manifest. `prefix` is what the output was called, or the path of the manifest.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Missing`] without a manifest, [`DatasetErrorKind::Damaged`] for one that lacks something.
    pub fn open(prefix: &Path) -> Result<Self, DatasetError> {
        let mut path = prefix.as_os_str().to_owned();
        if !path.as_encoded_bytes().ends_with(b".manifest.json") {
            path.push(".manifest.json");
        }
        let path = PathBuf::from(path);
        let json = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DatasetError::new(
                DatasetErrorKind::Missing,
                format!("{}: there is no such manifest, so nothing was published", shown(&path)),
            )
            .hint("name the prefix that -o had; a run that was interrupted continues with --resume"),
            _ => DatasetError::io(&path, &error),
        })?;
        let manifest: Manifest = serde_json::from_slice(&json).map_err(|error| {
            let message = format!("{}:{}:{}: {error}", shown(&path), error.line(), error.column());
            DatasetError::new(DatasetErrorKind::Damaged, message).hint("copy it again, or encode again")
        })?;
        let dataset = Self { path, manifest };
        let suffixes = dataset.suffixes();
        let files = dataset.data();
        let is_whole = files.len().is_multiple_of(suffixes.len())
            && files.iter().enumerate().all(|(at, file)| file.file.ends_with(suffixes[at % suffixes.len()]));
        if files.is_empty() || !is_whole || !dataset.manifest.outputs.iter().all(|file| dataset.is_beside(&file.file)) {
            let message = format!("{}: its list of outputs is not that of its format", shown(&dataset.path));
            return Err(DatasetError::new(DatasetErrorKind::Damaged, message).hint("copy it again, or encode again"));
        }
        Ok(dataset)
    }

    /// What the manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the name of an output leads to no other place than beside the manifest, or into the folder of the data set.
    fn is_beside(&self, name: &str) -> bool {
        let folder = self.path.file_name().and_then(|name| name.to_str()?.strip_suffix(".manifest.json"));
        let folder = folder.filter(|_| self.manifest.options.format == Format::Mds);
        let within = folder.and_then(|folder| name.strip_prefix(folder)?.strip_prefix('/'));
        !matches!(within, Some("." | "..")) && !within.unwrap_or(name).contains(['/', '\\'])
    }

    /// The ends of the names of a shard's files.
    fn suffixes(&self) -> Vec<&'static str> {
        let options = &self.manifest.options;
        if options.format == Format::Mds {
            return vec![".mds"];
        }
        suffixes(options.format, options.has_sidecar()).collect()
    }

    /// The files with documents.
    fn data(&self) -> &[OutputFile] {
        let mut files = self.manifest.outputs.as_slice();
        if self.manifest.options.format == Format::Mds {
            // The index.
            files = files.split_last().map_or(files, |(_, data)| data);
        }
        match self.manifest.options.reading.on_error {
            OnError::Skip => files.split_last().map_or(files, |(_, data)| data),
            OnError::Fail => files,
        }
    }

    pub(super) fn shards(&self) -> Vec<Shard<'_>> {
        let options = &self.manifest.options;
        let shard = |files: &[OutputFile]| {
            let paths = files.iter().map(|file| self.path.with_file_name(&file.file)).collect();
            Shard { options, paths }
        };
        self.data().chunks(self.suffixes().len()).map(shard).collect()
    }

    /// What is wrong with a document of a shard if it has an id that the tokenizer does not have.
    pub(super) fn beyond_vocabulary(&self, shard: &Shard<'_>, document: u64, ids: &[u32]) -> Option<DatasetError> {
        let size = self.manifest.tokenizer.vocab_size;
        let eos = self.manifest.options.eos.map_or(0, |eos| eos.saturating_add(1));
        let limit = if size == 0 { LARGEST_VOCABULARY } else { size.max(eos) };
        // The compiler vectorizes the maximum, not the search.
        if ids.iter().fold(0, |most, &id| most.max(id)) < limit {
            return None;
        }
        let at = ids.iter().position(|&id| id >= limit)?;
        let what = format!("document {document} of the file, id {at}: {} is beyond the vocabulary of {limit}", ids[at]);
        Some(DatasetError::damaged(&shard.paths[0], what))
    }

    /// The ids of the document with this number, from 0, as written; `None` behind the last one.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Damaged`] and [`DatasetErrorKind::Io`] for the files up to the document.
    pub fn document(&self, number: u64) -> Result<Option<Vec<u32>>, DatasetError> {
        let mut left = number;
        for shard in self.shards() {
            if let Some(count) = shard.documents()?
                && left >= count
            {
                left -= count;
                continue;
            }
            let mut found = None;
            shard.walk(&mut |ids| {
                if left == 0 {
                    found = Some(ids.to_vec());
                    return ControlFlow::Break(());
                }
                left -= 1;
                ControlFlow::Continue(())
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Counts documents, ids and their frequencies, shard by shard in parallel.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Damaged`] and [`DatasetErrorKind::Io`].
    pub fn statistics(&self) -> Result<Statistics, DatasetError> {
        let count = |shard: &Shard<'_>| {
            let mut statistics = Statistics::default();
            let mut fault = None;
            shard.walk(&mut |ids| {
                fault = self.beyond_vocabulary(shard, statistics.documents, ids);
                if fault.is_some() {
                    return ControlFlow::Break(());
                }
                statistics.add(ids);
                ControlFlow::Continue(())
            })?;
            fault.map_or(Ok(statistics), Err)
        };
        let shards = self.shards();
        let counted: Vec<Result<Statistics, DatasetError>> = shards.par_iter().map(count).collect();
        counted.into_iter().try_fold(Statistics::default(), |all, shard| Ok(all.with(shard?)))
    }
}
