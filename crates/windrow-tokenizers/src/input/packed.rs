//! Decoders of xz and bzip2 that work in steps.

use bzip2::Decompress;
use liblzma::stream::{Action, Error, Status, Stream, TELL_UNSUPPORTED_CHECK};

use super::Compression;

/// Memory of an xz decoder, in bytes: for a window of 128 MiB, which is also the limit for zstd.
const XZ_MEMORY: u64 = (128 << 20) + (1 << 20);

pub(super) enum Packed {
    Xz(Stream),
    Bzip2(Decompress),
}

/// The result of one decoding step.
pub(super) struct Step {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    /// True if it was the last step; an error if the data cannot be decoded.
    pub(super) is_last: Result<bool, Fault>,
}

pub(super) enum Fault {
    Damaged(&'static str),
    WideWindow,
    NoMemory,
}

impl Packed {
    /// The magic bytes of this compression.
    pub(super) fn magic(compression: Compression) -> &'static [u8] {
        if compression == Compression::Xz { b"\xfd7zXZ\0" } else { b"BZh" }
    }

    /// A decoder of one stream; `None` if there is no memory.
    pub(super) fn new(compression: Compression) -> Option<Self> {
        match compression {
            Compression::Xz => Stream::new_stream_decoder(XZ_MEMORY, TELL_UNSUPPORTED_CHECK).ok().map(Self::Xz),
            _ => Some(Self::Bzip2(Decompress::new(false))),
        }
    }

    fn totals(&self) -> (u64, u64) {
        match self {
            Self::Xz(stream) => (stream.total_in(), stream.total_out()),
            Self::Bzip2(stream) => (stream.total_in(), stream.total_out()),
        }
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let before = self.totals();
        let is_last = match self {
            // The library reports missing memory when a part of the data is missing.
            Self::Xz(stream) => match stream.process(input, output, Action::Run) {
                Ok(status) => Ok(status == Status::StreamEnd),
                Err(Error::MemLimit) => Err(Fault::WideWindow),
                Err(Error::Mem) => Err(Fault::NoMemory),
                Err(Error::Options | Error::UnsupportedCheck) => Err(Fault::Damaged("an unknown filter or checksum")),
                Err(_) => Err(Fault::Damaged("wrong data or a wrong checksum")),
            },
            Self::Bzip2(stream) => match stream.decompress(input, output) {
                Ok(bzip2::Status::MemNeeded) => Err(Fault::NoMemory),
                Ok(status) => Ok(status == bzip2::Status::StreamEnd),
                Err(_) => Err(Fault::Damaged("wrong data or a wrong checksum")),
            },
        };
        let after = self.totals();
        Step { consumed: (after.0 - before.0) as usize, produced: (after.1 - before.1) as usize, is_last }
    }
}
