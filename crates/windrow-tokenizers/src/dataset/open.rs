//! A data set, opened by its manifest.

use std::io::{self, BufReader};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use windrow::prelude::*;

use super::segments::Segments;
use super::statistics::Statistics;
use crate::format::Format;
use crate::manifest::{EncodeJob, Manifest, OnError, OutputFile, PackMode};
use crate::output::{Layout, suffixes};
use crate::shard::{DatasetError, DatasetErrorKind, Shard, open_file};
use crate::shown;
use crate::values::TokenName;

/// The limit of ids without a vocabulary in the manifest. It bounds the memory of statistics.
const LARGEST_VOCABULARY: u32 = 1 << 24;

/// Documents of a packed output that are assembled at a time. Each batch reads its rows from the start again.
const TOGETHER: u64 = 1 << 16;

/// Published token files, as their manifest describes them.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::manifest::{Documents, Manifest};
/// use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// output.append(&[7, 8, 9], &[1, 3])?;
/// let documents = Documents { read: 2, written: 2, ..Documents::default() };
/// output.publish(Manifest { documents, ..Manifest::default() })?;
///
/// let dataset = Dataset::open(&prefix)?;
/// assert_eq!((dataset.documents(), dataset.manifest().tokens), (2, 3));
/// assert_eq!(dataset.document(1)?, Some(vec![8, 9]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(super) path: PathBuf,
    pub(super) manifest: Manifest,
    /// The outputs that are read.
    files: Range<usize>,
}

impl Dataset {
    /// Reads the manifest. `prefix` is the output's prefix, or the path of the manifest.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Missing`] without a manifest, [`DatasetErrorKind::Damaged`] for an incomplete one.
    pub fn open(prefix: &Path) -> Result<Self, DatasetError> {
        let mut path = prefix.as_os_str().to_owned();
        if !path.as_encoded_bytes().ends_with(b".manifest.json") {
            path.push(".manifest.json");
        }
        let path = PathBuf::from(path);
        let file = open_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DatasetError::new(
                DatasetErrorKind::Missing,
                format!("{}: there is no such manifest, so nothing was published under this prefix", shown(&path)),
            )
            .hint("pass the prefix that was given to -o; to continue an interrupted run, use --resume"),
            _ => DatasetError::io(&path, &error),
        })?;
        // The manifest's claim about a file's length is no reason to reserve memory.
        let manifest: Manifest = serde_json::from_reader(BufReader::new(file)).map_err(|error| {
            if error.is_io() {
                return DatasetError::io(&path, &error.into());
            }
            let (line, column, error) = (error.line(), error.column(), error.to_string());
            let message = format!("{}:{line}:{column}: {}", shown(&path), shown(&error));
            DatasetError::new(DatasetErrorKind::Damaged, message).hint("copy it again, or encode the documents again")
        })?;
        let list = usize::from(manifest.options.on_error == OnError::Skip);
        let index = usize::from(manifest.options.format == Format::Mds);
        let files = 0..manifest.outputs.len().saturating_sub(list + index);
        let dataset = Self { path, manifest, files };
        let suffixes = dataset.suffixes();
        let files = dataset.data();
        let is_whole = files.len().is_multiple_of(suffixes.len())
            && files.iter().enumerate().all(|(at, file)| file.file.ends_with(suffixes[at % suffixes.len()]));
        let in_parts = dataset.manifest.parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.files));
        let are_parts_whole = dataset.manifest.parts.iter().all(|part| part.files.is_multiple_of(suffixes.len()));
        let is_divided = dataset.manifest.parts.is_empty() || (in_parts == Some(files.len()) && are_parts_whole);
        let are_within = dataset.manifest.outputs.iter().all(|file| dataset.is_within(&file.file));
        // The folder of these shards has no place for the segments of rows.
        let is_packed_mds = index > 0 && dataset.manifest.options.pack.is_some();
        if files.is_empty() || !is_whole || !is_divided || !are_within || is_packed_mds {
            let message = format!("{}: its list of outputs does not match its format and parts", shown(&dataset.path));
            return Err(DatasetError::new(DatasetErrorKind::Damaged, message)
                .hint("copy it again, or encode the documents again"));
        }
        Ok(dataset)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// True if an output's name stays in the folder of the manifest, or in the folder of the data set.
    fn is_within(&self, name: &str) -> bool {
        let folder = self.path.file_name().and_then(|name| name.to_str()?.strip_suffix(".manifest.json"));
        let folder = folder.filter(|_| self.manifest.options.format == Format::Mds);
        let within = folder.and_then(|folder| name.strip_prefix(folder)?.strip_prefix('/'));
        !matches!(within, Some("." | "..")) && !within.unwrap_or(name).contains(['/', '\\'])
    }

    /// The suffixes of a shard's files.
    pub(super) fn suffixes(&self) -> Vec<&'static str> {
        let options = &self.manifest.options;
        if options.format == Format::Mds {
            return vec![".mds"];
        }
        suffixes(Layout::of(options)).collect()
    }

    /// The files with documents.
    fn data(&self) -> &[OutputFile] {
        &self.manifest.outputs[self.files.clone()]
    }

    /// The part of a divided output with this name. Its documents are numbered from 0.
    ///
    /// ```
    /// use windrow_tokenizers::dataset::Dataset;
    /// use windrow_tokenizers::manifest::{Documents, Manifest};
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let prefix = directory.path().join("corpus");
    ///
    /// let parts = vec!["train".to_owned(), "test".to_owned()];
    /// let mut output = Output::create(&OutputOptions { parts, ..OutputOptions::new(&prefix, 300) })?;
    /// output.append(&[7, 8], &[2])?; // to the first part
    /// let documents = Documents { read: 1, written: 1, ..Documents::default() };
    /// output.publish(Manifest { documents, ..Manifest::default() })?;
    ///
    /// let dataset = Dataset::open(&prefix)?;
    /// assert_eq!(dataset.part("train")?.document(0)?, Some(vec![7, 8]));
    /// assert_eq!(dataset.part("test")?.documents(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DatasetErrorKind::Missing`] with the names of the existing parts.
    pub fn part(&self, name: &str) -> Result<Self, DatasetError> {
        let parts = &self.manifest.parts;
        let Some(number) = parts.iter().position(|part| part.name == name) else {
            let names: Vec<_> = parts.iter().map(|part| shown(&part.name).to_string()).collect();
            let has = if names.is_empty() {
                "is not divided into parts".to_owned()
            } else {
                format!("has the parts {}", names.join(", "))
            };
            let message = format!("{}: there is no part {}; the output {has}", shown(&self.path), shown(name));
            let error = DatasetError::new(DatasetErrorKind::Missing, message);
            let one_of_them = "pass the name of a part that was given in --split";
            return Err(error.hint(if parts.is_empty() { "omit --part" } else { one_of_them }));
        };
        let begin = parts[..number].iter().map(|part| part.files).sum();
        Ok(Self { files: begin..begin + parts[number].files, ..self.clone() })
    }

    /// The number of documents in the manifest.
    pub fn documents(&self) -> u64 {
        let mut begin = 0;
        let part = self.manifest.parts.iter().find(|part| {
            begin += part.files;
            self.files == (begin - part.files..begin)
        });
        part.map_or(self.manifest.documents.written, |part| part.documents)
    }

    pub(super) fn shards(&self) -> Vec<Shard<'_>> {
        let options = &self.manifest.options;
        let shard = |files: &[OutputFile]| {
            let paths = files.iter().map(|file| self.path.with_file_name(&file.file)).collect();
            Shard { options, paths }
        };
        self.data().chunks(self.suffixes().len()).map(shard).collect()
    }

    /// The fault of a document with an id outside the tokenizer's vocabulary.
    pub(super) fn beyond_vocabulary(&self, shard: &Shard<'_>, document: u64, ids: &[u32]) -> Option<DatasetError> {
        let size = self.manifest.tokenizer.vocab_size;
        let known = if size == 0 { LARGEST_VOCABULARY } else { size };
        // The compiler vectorizes the maximum, not the search.
        if ids.iter().fold(0, |most, &id| most.max(id)) < known {
            return None;
        }
        let EncodeJob { bos, eos, pad, .. } = &self.manifest.options;
        let around = [bos, eos, pad].into_iter().flatten().filter_map(TokenName::id).max();
        let limit = around.filter(|_| size > 0).map_or(known, |id| known.max(id.saturating_add(1)));
        let at = ids.iter().position(|&id| id >= limit)?;
        let what = format!(
            "document {document} of the file, position {at}: id {} is outside the vocabulary of {limit} tokens",
            ids[at]
        );
        Some(DatasetError::damaged(&shard.paths[0], what))
    }

    /// The ids of the document with this number, from 0, as written; `None` after the last document.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Damaged`] and [`DatasetErrorKind::Io`] for the files up to the document.
    pub fn document(&self, number: u64) -> Result<Option<Vec<u32>>, DatasetError> {
        let mut found = None;
        self.visit(number..number.saturating_add(1), |_, ids| {
            found = Some(ids.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Visits the documents with these numbers, in order, with their ids as written, until the visitor breaks. Some numbers may have no document.
    ///
    /// # Errors
    /// [`DatasetErrorKind::Damaged`] and [`DatasetErrorKind::Io`] for the files up to the last of these documents.
    pub fn visit(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(u64, &[u32]) -> ControlFlow<()>,
    ) -> Result<(), DatasetError> {
        if self.manifest.options.pack.is_some() {
            return self.visit_packed(range, 0, &mut visit).map(drop);
        }
        let (mut number, mut is_over) = (0, range.is_empty());
        for shard in self.shards() {
            if is_over {
                break;
            }
            if let Some(count) = shard.documents()?
                && range.start >= number + count
            {
                number += count;
                continue;
            }
            shard.walk(&mut |ids| {
                let visited = if number < range.start { ControlFlow::Continue(()) } else { visit(number, ids) };
                number += 1;
                is_over = visited.is_break() || number >= range.end;
                if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(())
    }

    /// Visits documents of a packed output, which are assembled in batches. `before` is the number of documents in earlier parts.
    fn visit_packed(
        &self,
        range: Range<u64>,
        before: u64,
        visit: &mut dyn FnMut(u64, &[u32]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DatasetError> {
        // In a divided output the documents of each part are numbered from 0.
        let parts = &self.manifest.parts;
        let is_part = self.files.len() < parts.iter().map(|part| part.files).sum::<usize>();
        if !is_part && parts.len() > 1 {
            let mut begin = 0;
            for part in parts {
                let within = range.start.saturating_sub(begin)..range.end.saturating_sub(begin).min(part.documents);
                if self.part(&part.name)?.visit_packed(within, before + begin, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                begin += part.documents;
            }
            return Ok(ControlFlow::Continue(()));
        }
        let mut begin = range.start;
        let range = begin..range.end.min(self.documents());
        while begin < range.end {
            let end = range.end.min(begin + TOGETHER);
            for (number, ids) in (begin..).zip(self.packed_documents(begin..end)?) {
                if visit(before + number, &ids).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            begin = end;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Documents of a packed output: the pieces of each, in order.
    fn packed_documents(&self, range: Range<u64>) -> Result<Vec<Vec<u32>>, DatasetError> {
        let is_split = self.manifest.options.rows().is_some_and(|pack| pack.mode == PackMode::Split);
        let mut documents = vec![Vec::new(); (range.end - range.start) as usize];
        for shard in self.shards() {
            let mut segments = Segments::open(&shard)?;
            let (mut fault, mut is_past) = (None, false);
            shard.walk(&mut |ids| {
                let row = match segments.row(ids.len()) {
                    Ok(row) => row,
                    Err(error) => {
                        fault = Some(error);
                        return ControlFlow::Break(());
                    }
                };
                let mut begin = 0;
                for &(of, length) in row {
                    let at = usize::try_from(of).ok().and_then(|of| of.checked_sub(range.start as usize));
                    if let Some(document) = at.and_then(|at| documents.get_mut(at)) {
                        document.extend_from_slice(&ids[begin..begin + length]);
                    }
                    is_past |= is_split && of >= range.end as i64;
                    begin += length;
                }
                if is_past { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(fault) = fault {
                return Err(fault);
            }
            if is_past {
                break;
            }
        }
        Ok(documents)
    }

    /// Counts documents, or rows of a packed output, ids and their frequencies, shard by shard in parallel.
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
