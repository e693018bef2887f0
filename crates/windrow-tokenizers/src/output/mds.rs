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

/// The column of ids.
const TOKENS: &str = "tokens";

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

/// Refuses what no shard can hold.
pub(crate) fn check(keep: &[String], shard_bytes: u64) -> Result<(), OutputError> {
    let refused = |message: String, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
    if keep.iter().any(|field| field == TOKENS) {
        let message = format!("a kept field cannot have the name {TOKENS:?}, which is that of the column of ids");
        return refused(message, "choose another --format, which keeps fields in a file beside the ids");
    }
    if shard_bytes > LARGEST_SHARD {
        let message = format!("a shard of {shard_bytes} bytes is too large for mds, which holds a shard in memory");
        return refused(message, "give --shard-size 1GiB or less, or leave it out");
    }
    Ok(())
}

/// The columns, in the order of their names: that of ids is `None`, a kept field is its number.
fn columns(keep: &[String]) -> Vec<Option<usize>> {
    let name = |column: &Option<usize>| column.map_or(TOKENS, |field| &keep[field]);
    let mut columns: Vec<Option<usize>> = (0..keep.len()).map(Some).chain([None]).collect();
    columns.sort_by(|one, other| name(one).cmp(name(other)));
    columns
}

/// The place of the ids among the columns.
pub(crate) fn tokens_column(keep: &[String]) -> usize {
    columns(keep).iter().position(Option::is_none).unwrap_or(0)
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
    fn new(dtype: Dtype, keep: &'a [String], size_limit: u64) -> Self {
        let columns = columns(keep);
        let array = if dtype == Dtype::U16 { "ndarray:uint16" } else { "ndarray:uint32" };
        Self {
            column_encodings: columns.iter().map(|column| column.map_or(array, |_| "json")).collect(),
            column_names: columns.iter().map(|column| column.map_or(TOKENS, |field| &keep[field])).collect(),
            column_sizes: vec![None; columns.len()],
            compression: None,
            format: "mds",
            hashes: [],
            size_limit,
            version: 2,
        }
    }
}

/// The columns as they stand in a shard.
pub(crate) fn config(dtype: Dtype, keep: &[String], size_limit: u64) -> Vec<u8> {
    as_python(&Config::new(dtype, keep, size_limit))
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
    columns: Vec<Option<usize>>,
    config: Vec<u8>,
    /// The samples, and the number of bytes of each.
    blocks: Vec<Vec<u8>>,
    sizes: Vec<u32>,
    /// The bytes of the shard with these samples.
    bytes: u64,
    /// The ids of documents whose kept values are not known, then those of a document that has not ended.
    ids: Vec<u32>,
    /// The ends of these documents.
    ends: Vec<usize>,
}

impl MdsWriter {
    pub(crate) fn new(file: StagedFile, dtype: Dtype, keep: &[String], size_limit: u64) -> Self {
        let config = config(dtype, keep, size_limit);
        let bytes = 8 + config.len() as u64;
        let (blocks, sizes, ids, ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { file, dtype, columns: columns(keep), config, blocks, sizes, bytes, ids, ends }
    }

    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        for ids in run.documents() {
            self.ids.extend_from_slice(ids);
            self.end_parts(run.eos)?;
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
        if self.columns.len() == 1 { self.add_samples(&[vec![]]) } else { Ok(()) }
    }

    /// Appends the kept values of documents that were appended.
    pub(crate) fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        let values: Vec<&[u8]> = kept.values().collect();
        let documents: Vec<Vec<&[u8]>> = values.chunks(self.columns.len() - 1).map(<[_]>::to_vec).collect();
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
        let size_of = |column: &Option<usize>| match column {
            Some(field) => values[*field].len(),
            None => head + count * self.dtype.size(),
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
        for column in &self.columns {
            match column {
                Some(field) => block.extend_from_slice(values[*field]),
                None => {
                    block.push(1 << 2 | width);
                    block.extend_from_slice(&(count as u32).to_le_bytes()[..1 << width]);
                    self.dtype.put(&self.ids[ids.clone()], block);
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
    (dtype, keep, size_limit): (Dtype, &[String], u64),
    shards: &[OutputFile],
) -> Result<Complete, OutputError> {
    let config = Config::new(dtype, keep, size_limit);
    let storage = staging.storage();
    let mut listed = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let mut samples = [0; 4];
        for target in targets.shard(number) {
            let staged = staged_name(&target);
            let read = storage.open(&staged).and_then(|file| {
                let mut read = 0;
                while read < samples.len() {
                    match storage.read(&file, &mut samples[read..])? {
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
            samples: u32::from_le_bytes(samples),
            size_limit,
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
        assert_eq!(tokens_column(&keep), 1);
        let text = String::from_utf8(config(Dtype::U16, &keep, 7)).unwrap();
        assert_eq!(
            text,
            "{\"column_encodings\": [\"json\", \"ndarray:uint16\", \"json\", \"json\"], \
             \"column_names\": [\"id\", \"tokens\", \"url\", \"\\u00e9t\\ud83d\\ude00\\u007f\"], \
             \"column_sizes\": [null, null, null, null], \"compression\": null, \"format\": \"mds\", \"hashes\": [], \
             \"size_limit\": 7, \"version\": 2}"
        );
    }
}
