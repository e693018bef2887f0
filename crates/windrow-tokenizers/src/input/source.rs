//! The sources of a Parquet file: a file, or a store object. Both are read at any position, and hashed from front to back.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::time::SystemTime;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::store::{BlocksRead, ObjectBlocks};
use super::{InputError, Origin};

/// Bytes hashed at a time.
const BLOCK: usize = 256 << 10;

/// The source from which a decoder reads.
pub(super) enum Source {
    File(File),
    Object(ObjectBlocks),
}

/// Reads on from a position.
pub(super) enum SourceRead {
    File(BufReader<File>),
    Object(BlocksRead),
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
    type T = SourceRead;

    fn get_read(&self, start: u64) -> Result<SourceRead, ParquetError> {
        match self {
            Self::File(file) => file.get_read(start).map(SourceRead::File),
            Self::Object(blocks) => Ok(SourceRead::Object(blocks.read_from(start))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::File(file) => file.get_bytes(start, length),
            Self::Object(blocks) => Ok(blocks.bytes(start, length)?),
        }
    }
}

impl Read for SourceRead {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(dst),
            Self::Object(blocks) => blocks.read(dst),
        }
    }
}

/// The hash of the part of a file that was read.
pub(super) struct Hashed {
    whole: Whole,
    hasher: blake3::Hasher,
    bytes: u64,
}

/// The length of a file, and its time of modification.
type Stamp = (u64, Option<SystemTime>);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}

enum Whole {
    File { file: File, before: Stamp, block: Vec<u8> },
    Object(ObjectBlocks),
}

impl Hashed {
    pub(super) fn open(origin: Origin, name: &str) -> Result<Self, InputError> {
        let refused = |reason: &str| {
            let (name, reason) = (name.to_owned(), reason.to_owned());
            InputError::Columns { name, reason, hint: "save it as a file, and name that" }
        };
        let unreadable = |source| InputError::Unreadable { name: name.to_owned(), source };
        let whole = match origin {
            Origin::Path(path) => {
                let file = File::open(&path).map_err(unreadable)?;
                let before = file.metadata().map_err(unreadable)?;
                if !before.is_file() {
                    return Err(refused("Parquet cannot be read from a pipe or a device"));
                }
                Whole::File { file, before: stamp(&before), block: vec![0; BLOCK] }
            }
            Origin::Object(object) => Whole::Object(ObjectBlocks::new(object)),
            Origin::Stdin | Origin::Stream(_) => return Err(refused("Parquet cannot be read from a stream")),
        };
        Ok(Self { whole, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    /// Number of bytes that were hashed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same file, opened for a decoder.
    pub(super) fn source(&self, name: &str) -> Result<Source, InputError> {
        match &self.whole {
            Whole::File { file, .. } => file.try_clone().map(Source::File),
            Whole::Object(blocks) => Ok(Source::Object(blocks.clone())),
        }
        .map_err(|source| InputError::Unreadable { name: name.to_owned(), source })
    }

    /// The store's error that caused a decoder's last error.
    pub(super) fn take_failure(&self, name: &str) -> Option<InputError> {
        match &self.whole {
            Whole::File { .. } => None,
            Whole::Object(blocks) => {
                let (offset, source) = blocks.take_failure()?;
                Some(InputError::read(name, offset, source))
            }
        }
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
        if end <= self.bytes {
            return Ok(());
        }
        if let Whole::File { file, .. } = &mut self.whole {
            // The decoder moves the file's position.
            let sought = file.seek(SeekFrom::Start(self.bytes));
            sought.map_err(|source| InputError::read(name, self.bytes, source))?;
        }
        while self.bytes < end {
            let n = match &mut self.whole {
                Whole::File { file, block, .. } => {
                    let block = &mut block[..(end - self.bytes).min(BLOCK as u64) as usize];
                    match file.read(block) {
                        Ok(n) => {
                            self.hasher.update(&block[..n]);
                            n
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(source) => return Err(InputError::read(name, self.bytes, source)),
                    }
                }
                Whole::Object(blocks) => match blocks.rest_of_block(self.bytes, true) {
                    Ok(block) => {
                        self.hasher.update(&block);
                        block.len()
                    }
                    Err(source) => {
                        let (offset, source) = blocks.take_failure().unwrap_or((self.bytes, source));
                        return Err(InputError::read(name, offset, source));
                    }
                },
            };
            if n == 0 {
                break;
            }
            self.bytes += n as u64;
        }
        Ok(())
    }

    /// Hashes the rest of the file, which has not changed.
    pub(super) fn finish(&mut self, name: &str) -> Result<String, InputError> {
        self.advance(u64::MAX, name)?;
        // The parts of an object were compared one by one.
        if let Whole::File { file, before, .. } = &self.whole {
            let unreadable = |source| InputError::Unreadable { name: name.to_owned(), source };
            let after = stamp(&file.metadata().map_err(unreadable)?);
            if after != *before || after.0 != self.bytes {
                return Err(InputError::Changed { name: name.to_owned() });
            }
        }
        Ok(self.hasher.finalize().to_hex().to_string())
    }
}
