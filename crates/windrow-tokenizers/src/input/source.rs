//! The sources of a Parquet file: a file, or a store object. Both are read at any position, and hashed from front to back.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::time::SystemTime;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::store::ObjectBlocks;
use super::{InputError, Origin};

/// The source from which a decoder reads.
pub(super) enum Source {
    File(File),
    Object(ObjectBlocks),
}

impl Length for Source {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len(),
            Self::Object(blocks) => blocks.size(),
        }
    }
}

impl ChunkReader for Source {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(match self {
            Self::File(file) => Box::new(file.get_read(start)?),
            Self::Object(blocks) => Box::new(blocks.read_from(start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Object(blocks) => Ok(blocks.bytes(start, length)?),
        }
    }
}

/// The hash of the part of a file that was read.
pub(super) struct Hashed {
    source: Source,
    /// The stamp of a file before it was read. The parts of an object are compared one by one.
    before: Option<Stamp>,
    hasher: blake3::Hasher,
}

/// The length of a file, and its time of modification.
type Stamp = (u64, Option<SystemTime>);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}

impl Hashed {
    pub(super) fn open(origin: Origin, name: &str) -> Result<Self, InputError> {
        let refused = |reason: &str| {
            let (name, reason) = (name.to_owned(), reason.to_owned());
            InputError::Columns { name, reason, hint: "save it to a file, and pass the file" }
        };
        let unreadable = |source| InputError::Unreadable { name: name.to_owned(), source };
        let (source, before) = match origin {
            Origin::Path(path) => {
                let file = File::open(&path).map_err(unreadable)?;
                let before = file.metadata().map_err(unreadable)?;
                if !before.is_file() {
                    return Err(refused("Parquet cannot be read from a pipe or a device"));
                }
                (Source::File(file), Some(stamp(&before)))
            }
            Origin::Object(object) => (Source::Object(ObjectBlocks::new(object)), None),
            Origin::Stdin | Origin::Stream(_) => return Err(refused("Parquet cannot be read from a stream")),
        };
        Ok(Self { source, before, hasher: blake3::Hasher::new() })
    }

    /// Number of bytes that were hashed.
    pub(super) fn bytes(&self) -> u64 {
        self.hasher.count()
    }

    /// The same file, opened for a decoder.
    pub(super) fn source(&self, name: &str) -> Result<Source, InputError> {
        match &self.source {
            Source::File(file) => file.try_clone().map(Source::File),
            Source::Object(blocks) => Ok(Source::Object(blocks.clone())),
        }
        .map_err(|source| InputError::Unreadable { name: name.to_owned(), source })
    }

    /// The store's error that caused a decoder's last error.
    pub(super) fn take_failure(&self, name: &str) -> Option<InputError> {
        let Source::Object(blocks) = &self.source else { return None };
        let (offset, source) = blocks.take_failure()?;
        Some(InputError::read(name, offset, source))
    }

    /// The first bytes of the file, at most this number.
    pub(super) fn first(&self, bytes: usize, name: &str) -> Result<Bytes, InputError> {
        let source = self.source(name)?;
        let bytes = usize::try_from(source.len()).unwrap_or(usize::MAX).min(bytes);
        source.get_bytes(0, bytes).map_err(|error| {
            self.take_failure(name)
                .unwrap_or_else(|| InputError::Unreadable { name: name.to_owned(), source: io::Error::other(error) })
        })
    }

    /// Hashes the file up to `end`, or to its end. An object is hashed in whole blocks.
    pub(super) fn advance(&mut self, end: u64, name: &str) -> Result<(), InputError> {
        self.hash_to(end).map_err(|source| InputError::read(name, self.bytes(), source))
    }

    fn hash_to(&mut self, end: u64) -> io::Result<()> {
        let begin = self.bytes();
        if end <= begin {
            return Ok(());
        }
        match &mut self.source {
            Source::File(file) => {
                // The decoder moves the file's position.
                file.seek(SeekFrom::Start(begin))?;
                self.hasher.update_reader(file.take(end - begin))?;
            }
            Source::Object(blocks) => {
                while self.hasher.count() < end.min(blocks.size()) {
                    self.hasher.update(&blocks.rest_of_block(self.hasher.count(), true)?);
                }
            }
        }
        Ok(())
    }

    /// Hashes the rest of the file, which has not changed.
    pub(super) fn finish(&mut self, name: &str) -> Result<String, InputError> {
        self.advance(u64::MAX, name)?;
        if let Source::File(file) = &self.source {
            let unreadable = |source| InputError::Unreadable { name: name.to_owned(), source };
            let after = stamp(&file.metadata().map_err(unreadable)?);
            if Some(after) != self.before || after.0 != self.bytes() {
                return Err(InputError::Changed { name: name.to_owned() });
            }
        }
        Ok(self.hasher.finalize().to_hex().to_string())
    }
}
