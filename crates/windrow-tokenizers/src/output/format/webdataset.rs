//! WebDataset: a tar archive with a sample for each document.
//!
//! The sample of document `i` is `i.ids.npy`, `i.mask.npy` if there are masks, and `i.kept.json` if fields are kept; `i` has nine digits and
//! counts through all shards. A header of tar precedes each file with its size, so a document is in memory until it ends.

use std::io::Read;

use super::{Begin, Ending, Files, Finished, FormatWriter, NPY_HEADER, TokenFiles, npy_header};
use crate::format::Dtype;
use crate::output::OutputError;
use crate::output::companion::Names;
use crate::output::file::StagedFile;
use crate::shard::{DatasetError, Reading, Shard, Visitor};

pub(super) struct Webdataset;

/// The unit of tar, in bytes: the size of a header, and the multiple to which files are padded.
const BLOCK: usize = 512;

/// An archive ends with two blocks of zeros.
const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Maximum number of ids of a document: 1 GiB of them are in memory, and sizes have 33 bits.
const LONGEST: usize = 1 << 28;

/// The ends of the names of a document's files.
const IDS: &str = "ids.npy";
const MASK: &str = "mask.npy";
const KEPT: &str = "kept.json";

/// The header of a plain file, of no user and no time.
fn header(name: &str, bytes: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let size = format!("{bytes:011o}");
    let fields: [(usize, &[u8]); 9] = [
        (0, name.as_bytes()),
        (100, b"0000644\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, size.as_bytes()),
        (136, b"00000000000\0"),
        // The checksum is computed with blanks in its place.
        (148, b"        "),
        (156, b"0"),
        (257, b"ustar\x0000"),
    ];
    fields.iter().for_each(|(at, value)| header[*at..at + value.len()].copy_from_slice(value));
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Number of bytes that pad a file.
fn filling(bytes: u64) -> usize {
    (bytes.next_multiple_of(BLOCK as u64) - bytes) as usize
}

impl TokenFiles for Webdataset {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".tar"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::U32, Dtype::I32]
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        let kept = (!begin.options.keep.is_empty()).then(|| Names::new(&begin.options.keep));
        let (tar, dtype, number) = (files.next(), begin.dtype, begin.first);
        Ok(Box::new(WebdatasetWriter { tar, dtype, number, ids: Vec::new(), kept }))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let (dtype, path) = (shard.dtype()?, &shard.paths[0]);
        let (has_mask, has_kept) = (shard.options.has_mask(), !shard.options.keep.is_empty());
        let mut tar = Entries { file: Reading::open(path, 0)?, head: None, at: 0 };
        let mut document = None;
        let (mut values, mut ids) = (Vec::new(), Vec::new());
        while let Some(first) = tar.next_number()? {
            let number = *document.get_or_insert(first);
            document = Some(number.saturating_add(1));
            let wrong = |what: &str| Err(DatasetError::damaged(path, format_args!("document {number}: {what}")));
            tar.file_of(number, IDS, &mut values)?;
            let count = (values.len().saturating_sub(NPY_HEADER) / dtype.size()) as u64;
            if !values.starts_with(&npy_header(dtype.descr(), count)) || !is_whole(&values, count, dtype.size()) {
                return wrong(&format!("its ids are not a one-dimensional array of {dtype}"));
            }
            ids.clear();
            dtype.get(&values[NPY_HEADER..], &mut ids);
            if has_mask {
                tar.file_of(number, MASK, &mut values)?;
                let is_array = values.starts_with(&npy_header("|u1", count)) && is_whole(&values, count, 1);
                if !is_array || values[NPY_HEADER..].iter().any(|&one| one > 1) {
                    return wrong("it does not have a mask of 0 or 1 for each id");
                }
            }
            if has_kept {
                tar.file_of(number, KEPT, &mut values)?;
            }
            if visit(&ids).is_break() {
                return Ok(());
            }
        }
        tar.end()
    }
}

/// True if an `.npy` file has this number of elements and nothing else.
fn is_whole(file: &[u8], count: u64, size: usize) -> bool {
    file.len() as u64 == NPY_HEADER as u64 + count * size as u64
}

/// Reads the files in an archive.
struct Entries<'p> {
    file: Reading<'p>,
    /// The header of the next file, if it was read.
    head: Option<[u8; BLOCK]>,
    /// Bytes before this header.
    at: u64,
}

impl Entries<'_> {
    fn head(&mut self) -> Result<[u8; BLOCK], DatasetError> {
        if let Some(head) = self.head.take() {
            return Ok(head);
        }
        let mut head = [0; BLOCK];
        self.file.fill(&mut head)?;
        Ok(head)
    }

    /// The number of the document whose files follow; none at the end of the archive.
    fn next_number(&mut self) -> Result<Option<u64>, DatasetError> {
        let head = self.head()?;
        if head == END[..BLOCK] {
            return Ok(None);
        }
        self.head = Some(head);
        let digits = head.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(0);
        let number = str::from_utf8(&head[..digits]).ok().and_then(|digits| digits.parse().ok());
        number.map(Some).ok_or_else(|| self.damaged("no file of a document begins here"))
    }

    /// Reads this file of a document.
    fn file_of(&mut self, number: u64, end: &str, bytes: &mut Vec<u8>) -> Result<(), DatasetError> {
        let (name, head) = (format!("{number:09}.{end}"), self.head()?);
        let size = str::from_utf8(&head[124..135]).ok().and_then(|size| u64::from_str_radix(size, 8).ok());
        let Some(size) = size.filter(|&size| head == header(&name, size)) else {
            return Err(self.damaged(&format!("the header of {name} is missing or invalid")));
        };
        bytes.clear();
        let read = (&mut self.file.file).take(size).read_to_end(bytes);
        read.map_err(|error| DatasetError::io(self.file.path, &error))?;
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..filling(size)];
        self.file.fill(rest)?;
        if bytes.len() as u64 != size || rest.iter().any(|&byte| byte != 0) {
            return Err(self.damaged(&format!("{name} is truncated, or is padded with bytes other than zeros")));
        }
        self.at += BLOCK as u64 + size.next_multiple_of(BLOCK as u64);
        Ok(())
    }

    /// Refuses anything but the rest of the archive's end, of which one block was read.
    fn end(&mut self) -> Result<(), DatasetError> {
        let mut rest = Vec::new();
        let read = (&mut self.file.file).take(END.len() as u64).read_to_end(&mut rest);
        read.map_err(|error| DatasetError::io(self.file.path, &error))?;
        if rest == END[BLOCK..] {
            Ok(())
        } else {
            Err(self.damaged("the archive does not end with two blocks of zeros"))
        }
    }

    fn damaged(&self, what: &str) -> DatasetError {
        DatasetError::damaged(self.file.path, format_args!("byte {}: {what}", self.at))
    }
}

#[derive(Debug)]
struct WebdatasetWriter {
    tar: StagedFile,
    dtype: Dtype,
    /// The number of the next document.
    number: u64,
    /// The ids of the document that has not ended.
    ids: Vec<u32>,
    kept: Option<Names>,
}

impl WebdatasetWriter {
    /// Appends a file of the document, from consecutive parts.
    fn put(&mut self, end: &str, parts: [&[u8]; 2]) -> Result<(), OutputError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.tar.put_all(&header(&format!("{:09}.{end}", self.number), bytes))?;
        parts.into_iter().try_for_each(|part| self.tar.put_all(part))?;
        self.tar.put_all(&END[..filling(bytes)])
    }
}

impl FormatWriter for WebdatasetWriter {
    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        let mut bytes = Vec::new();
        self.dtype.put(&self.ids, &mut bytes);
        self.put(IDS, [&npy_header(self.dtype.descr(), self.ids.len() as u64), &bytes])?;
        if let Some(mask) = ending.mask {
            self.put(MASK, [&npy_header("|u1", mask.len() as u64), mask])?;
        }
        if let Some(names) = &self.kept {
            let object = names.object(ending.kept);
            self.put(KEPT, [&object, b""])?;
        }
        self.number += 1;
        self.ids.clear();
        Ok(())
    }

    fn discard(&mut self) -> Result<(), OutputError> {
        self.ids.clear();
        Ok(())
    }

    fn write_back(&mut self) -> Option<crate::output::WriteBack> {
        self.tar.write_back()
    }

    fn finish(mut self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        self.tar.put_all(&END)?;
        Ok(vec![(self.tar.complete()?, Some(self.dtype.name()))])
    }
}
