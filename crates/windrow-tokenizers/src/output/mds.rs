//! MosaicML's MDS: a folder of shards, `OUT/shard.00000.mds` and so on, and `OUT/index.json`.
//!
//! A shard is the number of its samples, a table with the begin and end of each, the columns as JSON, then the samples, all numbers
//! u32. So nothing can be written before the last sample is known: a shard is in memory until it ends. Bytes are those of MosaicML's own
//! writer for the same samples.

use std::io::Write;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::error::{OutputError, OutputErrorKind};
use super::file::{Complete, StagedFile};
use super::format::Dtype;
use super::names::{Targets, staged_name};
use super::run::Run;
use super::staging::Staging;
use crate::kept::Kept;
use crate::manifest::OutputFile;

/// The columns of ids and of masks.
const TOKENS: &str = "tokens";
const MASK: &str = "mask";

/// The size of shards by default: that of MosaicML's writer.
pub(crate) const SHARD_BYTES: u64 = 64 << 20;

/// The largest size of shards: a whole shard is in memory.
const LARGEST_SHARD: u64 = 1 << 30;

/// The most ids of a document: 1 GiB of them fit a shard beside others.
pub(crate) const LONGEST: usize = 1 << 28;

/// Samples are collected in blocks of so many bytes.
const BLOCK: usize = 1 << 20;

/// Bytes that are handed to a file at a time.
const PUT: usize = 256 << 10;

/// Refuses kept fields and sizes of shards that no folder can hold.
pub(crate) fn check(keep: &[String], mask: bool, shard_bytes: Option<u64>) -> Result<(), OutputError> {
    let columns = [(TOKENS, "ids"), (MASK, "masks")];
    let taken = |(name, _): &&(&str, &str)| (*name != MASK || mask) && keep.iter().any(|field| field == name);
    if let Some((name, what)) = columns.iter().find(taken) {
        let message = format!("a kept field cannot have the name {name:?}, which is that of the column of {what}");
        return refused(&message, "choose another --format, which keeps fields in a file beside the ids");
    }
    if let Some(bytes) = shard_bytes.filter(|&bytes| bytes > LARGEST_SHARD) {
        let message = format!("a shard of {bytes} bytes is too large for mds, which holds a shard in memory");
        return refused(&message, "give --shard-size 1GiB or less, or leave it out");
    }
    Ok(())
}

/// Refuses parts, and the files beside rows.
pub(crate) fn check_whole(has_parts: bool, is_packed: bool) -> Result<(), OutputError> {
    if has_parts {
        let message = "the mds format cannot be divided into parts: its folder has one index of all shards";
        return refused(message, "leave out --split, or use another --format");
    }
    if is_packed {
        let message =
            "the mds format cannot be packed: its folder has no place for the files that tell where documents are";
        return refused(message, "leave out --pack, or use another --format");
    }
    Ok(())
}

fn refused(message: &str, hint: &str) -> Result<(), OutputError> {
    Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint))
}

/// A column of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Tokens,
    Mask,
    /// The kept field with this number.
    Kept(usize),
}

/// What the samples of all shards have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Samples<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) keep: &'a [String],
    pub(crate) has_mask: bool,
    /// The size of shards.
    pub(crate) size_limit: u64,
}

impl<'a> Samples<'a> {
    fn name(self, column: Column) -> &'a str {
        match column {
            Column::Tokens => TOKENS,
            Column::Mask => MASK,
            Column::Kept(field) => &self.keep[field],
        }
    }

    fn encoding(self, column: Column) -> &'static str {
        match column {
            Column::Tokens if self.dtype == Dtype::U16 => "ndarray:uint16",
            Column::Tokens => "ndarray:uint32",
            Column::Mask => "ndarray:uint8",
            Column::Kept(_) => "json",
        }
    }

    /// The columns, in the order of their names.
    pub(crate) fn columns(self) -> Vec<Column> {
        let kept = (0..self.keep.len()).map(Column::Kept);
        let mut columns: Vec<Column> =
            [Column::Tokens].into_iter().chain(self.has_mask.then_some(Column::Mask)).chain(kept).collect();
        columns.sort_by_key(|&column| self.name(column));
        columns
    }

    /// The columns as they stand in a shard.
    pub(crate) fn config(self) -> Vec<u8> {
        as_python(&Config::new(self))
    }
}

/// How the samples of a shard are encoded. The fields are in the order of their names, as Python sorts them.
#[derive(Serialize)]
struct Config<'a> {
    column_encodings: Vec<&'a str>,
    column_names: Vec<&'a str>,
    column_sizes: Vec<Option<u32>>,
    compression: Option<&'a str>,
    format: &'a str,
    hashes: [&'a str; 0],
    size_limit: u64,
    version: u32,
}

impl<'a> Config<'a> {
    fn new(samples: Samples<'a>) -> Self {
        let columns = samples.columns();
        Self {
            column_encodings: columns.iter().map(|&column| samples.encoding(column)).collect(),
            column_names: columns.iter().map(|&column| samples.name(column)).collect(),
            column_sizes: vec![None; columns.len()],
            compression: None,
            format: "mds",
            hashes: [],
            size_limit: samples.size_limit,
            version: 2,
        }
    }
}

/// A shard as the index lists it.
#[derive(Serialize)]
struct Listed<'a> {
    column_encodings: &'a [&'a str],
    column_names: &'a [&'a str],
    column_sizes: &'a [Option<u32>],
    compression: Option<&'a str>,
    format: &'a str,
    hashes: [&'a str; 0],
    raw_data: RawData<'a>,
    samples: u32,
    size_limit: u64,
    version: u32,
    zip_data: Option<RawData<'a>>,
}

#[derive(Serialize)]
struct RawData<'a> {
    basename: &'a str,
    bytes: u64,
    hashes: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Index<'a> {
    shards: Vec<Listed<'a>>,
    version: u32,
}

/// The text that Python's `json.dumps` gives.
fn as_python(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Python)).expect("strings and numbers become JSON");
    text
}

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> std::io::Result<()> {
        for letter in fragment.chars() {
            if matches!(letter, ' '..='~') {
                writer.write_all(&[letter as u8])?;
            } else {
                letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// The writer of a shard.
#[derive(Debug)]
pub(crate) struct MdsWriter {
    file: StagedFile,
    dtype: Dtype,
    columns: Vec<Column>,
    config: Vec<u8>,
    /// Number of kept fields.
    fields: usize,
    /// The samples, and the number of bytes of each.
    blocks: Vec<Vec<u8>>,
    sizes: Vec<u32>,
    /// The bytes of the shard with these samples.
    bytes: u64,
    /// The ids of documents whose kept values are not known, then those of a document that has not ended.
    ids: Vec<u32>,
    /// The masks of these ids, if there are masks.
    mask: Option<Vec<u8>>,
    /// The ends of these documents.
    ends: Vec<usize>,
}

impl MdsWriter {
    pub(crate) fn new(file: StagedFile, samples: Samples<'_>) -> Self {
        let config = samples.config();
        Self {
            file,
            dtype: samples.dtype,
            columns: samples.columns(),
            bytes: 8 + config.len() as u64,
            config,
            fields: samples.keep.len(),
            blocks: Vec::new(),
            sizes: Vec::new(),
            ids: Vec::new(),
            mask: samples.has_mask.then(Vec::new),
            ends: Vec::new(),
        }
    }

    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        let mut masks = run.masks();
        for ids in run.documents() {
            self.ids.extend(run.frame.bos);
            self.ids.extend_from_slice(ids);
            if let (Some(mask), Some(more)) = (&mut self.mask, masks.next()) {
                mask.extend(run.frame.bos.map(|_| 0));
                mask.extend_from_slice(more);
                mask.extend(run.frame.eos.map(|_| 0));
            }
            self.end_parts(run.frame.eos)?;
        }
        Ok(())
    }

    pub(crate) fn append_part(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Removes the ids of a document that has not ended.
    pub(crate) fn discard_parts(&mut self) {
        self.ids.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn end_parts(&mut self, eos: Option<u32>) -> Result<(), OutputError> {
        self.ids.extend(eos);
        self.ends.push(self.ids.len());
        // Without kept fields the sample is complete.
        if self.fields == 0 { self.add_samples(&[vec![]]) } else { Ok(()) }
    }

    /// Appends the kept values of documents that were appended.
    pub(crate) fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        let values: Vec<&[u8]> = kept.values().collect();
        let documents: Vec<Vec<&[u8]>> = values.chunks(self.fields).map(<[_]>::to_vec).collect();
        self.add_samples(&documents)
    }

    /// Makes samples of the first documents and their values.
    fn add_samples(&mut self, documents: &[Vec<&[u8]>]) -> Result<(), OutputError> {
        let mut begin = 0;
        for (values, end) in documents.iter().zip(self.ends.clone()) {
            self.add_sample(begin..end, values)?;
            begin = end;
        }
        self.ids.drain(..begin);
        self.mask.iter_mut().for_each(|mask| drop(mask.drain(..begin)));
        self.ends.drain(..documents.len());
        self.ends.iter_mut().for_each(|end| *end -= begin);
        Ok(())
    }

    fn add_sample(&mut self, ids: std::ops::Range<usize>, values: &[&[u8]]) -> Result<(), OutputError> {
        let count = ids.len();
        // The number of axes, how wide a length is, and the length.
        let width = if count < 1 << 8 {
            0
        } else if count < 1 << 16 {
            1
        } else {
            2
        };
        let head = 1 + (1 << width);
        let size_of = |column: &Column| match column {
            Column::Kept(field) => values[*field].len(),
            Column::Tokens => head + count * self.dtype.size(),
            Column::Mask => head + count,
        };
        let sizes: Vec<usize> = self.columns.iter().map(size_of).collect();
        let size = 4 * sizes.len() + sizes.iter().sum::<usize>();
        self.bytes += size as u64 + 4;
        if self.bytes > u32::MAX.into() {
            let message = "a shard with its kept fields has more than 4 GiB, which the offsets of mds cannot reach";
            let error = OutputError::new(OutputErrorKind::Usage, message).hint("give a smaller --shard-size");
            return Err(self.file.staging().fail(error));
        }
        if self.blocks.last().is_none_or(|block| block.len() + size > block.capacity()) {
            self.blocks.push(Vec::with_capacity(size.max(BLOCK)));
        }
        let block = self.blocks.last_mut().expect("was just added");
        sizes.iter().for_each(|&size| block.extend_from_slice(&(size as u32).to_le_bytes()));
        let begin_array = |block: &mut Vec<u8>| {
            block.push(1 << 2 | width);
            block.extend_from_slice(&(count as u32).to_le_bytes()[..1 << width]);
        };
        for column in &self.columns {
            match column {
                Column::Kept(field) => block.extend_from_slice(values[*field]),
                Column::Tokens => {
                    begin_array(block);
                    self.dtype.put(&self.ids[ids.clone()], block);
                }
                Column::Mask => {
                    begin_array(block);
                    self.mask.iter().for_each(|mask| block.extend_from_slice(&mask[ids.clone()]));
                }
            }
        }
        self.sizes.push(size as u32);
        Ok(())
    }

    pub(crate) fn complete(mut self) -> Result<Complete, OutputError> {
        let mut offset = (4 * self.sizes.len() + 8 + self.config.len()) as u32;
        self.file.put(|bytes| bytes.extend_from_slice(&(self.sizes.len() as u32).to_le_bytes()))?;
        self.file.put(|bytes| bytes.extend_from_slice(&offset.to_le_bytes()))?;
        for size in self.sizes {
            offset += size;
            self.file.put(|bytes| bytes.extend_from_slice(&offset.to_le_bytes()))?;
        }
        for block in [self.config].into_iter().chain(self.blocks) {
            for part in block.chunks(PUT) {
                self.file.put(|bytes| bytes.extend_from_slice(part))?;
            }
        }
        self.file.complete()
    }
}

/// Writes the index of shards that are complete under their staged names.
pub(crate) fn write_index(
    mut index: StagedFile,
    targets: &Targets,
    staging: &Staging,
    samples: Samples<'_>,
    shards: &[OutputFile],
) -> Result<Complete, OutputError> {
    let config = Config::new(samples);
    let storage = staging.storage();
    let mut listed = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let mut count = [0; 4];
        for target in targets.shard(0, number) {
            let staged = staged_name(&target);
            let read = storage.open(&staged).and_then(|file| {
                let mut read = 0;
                while read < count.len() {
                    match storage.read(&file, &mut count[read..])? {
                        0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                        more => read += more,
                    }
                }
                Ok(())
            });
            let failed = |error| OutputError::io(OutputErrorKind::Io, "cannot read back", &staged, error);
            read.map_err(|error| staging.fail(failed(error)))?;
        }
        let basename = shard.file.rsplit('/').next().unwrap_or(&shard.file);
        listed.push(Listed {
            column_encodings: &config.column_encodings,
            column_names: &config.column_names,
            column_sizes: &config.column_sizes,
            compression: config.compression,
            format: config.format,
            hashes: config.hashes,
            raw_data: RawData { basename, bytes: shard.bytes, hashes: serde_json::Map::new() },
            samples: u32::from_le_bytes(count),
            size_limit: config.size_limit,
            version: config.version,
            zip_data: None,
        });
    }
    let text = as_python(&Index { shards: listed, version: 2 });
    for part in text.chunks(PUT) {
        index.put(|bytes| bytes.extend_from_slice(part))?;
    }
    index.complete()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted_as_python_sorts_and_writes_them() {
        let keep = ["url", "id", "\u{e9}t\u{1f600}\u{7f}"].map(str::to_owned);
        let samples = Samples { dtype: Dtype::U16, keep: &keep, has_mask: false, size_limit: 7 };
        let text = |samples: Samples<'_>| String::from_utf8(samples.config()).unwrap();
        let columns = Samples { has_mask: true, ..samples }.columns();
        assert_eq!(columns, [Column::Kept(1), Column::Mask, Column::Tokens, Column::Kept(0), Column::Kept(2)]);
        assert_eq!(
            text(samples),
            "{\"column_encodings\": [\"json\", \"ndarray:uint16\", \"json\", \"json\"], \
             \"column_names\": [\"id\", \"tokens\", \"url\", \"\\u00e9t\\ud83d\\ude00\\u007f\"], \
             \"column_sizes\": [null, null, null, null], \"compression\": null, \"format\": \"mds\", \"hashes\": [], \
             \"size_limit\": 7, \"version\": 2}"
        );
    }
}
