//! Decoders of zstd, xz and bzip2 that work in steps.

use bzip2::Decompress;
use liblzma::stream::{Action, Error, Status, Stream, TELL_UNSUPPORTED_CHECK};
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, get_dict_id_from_frame, get_error_name, get_frame_content_size};

use super::Compression;
use crate::diagnose::compression_of;

/// Memory of an xz decoder, in bytes: for a window of 128 MiB, which is also the limit for zstd.
const XZ_MEMORY: u64 = (128 << 20) + (1 << 20);

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The longest header that [`Packed::begin`] reads, that of a zstd frame.
pub(super) const HEADER: usize = 18;

/// A decoder of one part of a file after the other: streams of xz and bzip2, or frames of zstd.
pub(super) enum Packed {
    Xz(Option<Stream>),
    Bzip2(Decompress),
    Zstd(Frame),
}

/// The state of a zstd frame between two steps.
pub(super) struct Frame {
    context: DCtx<'static>,
    /// Number of bytes that the decoder wants next. It gets no more, so that the position of an error is that of its block.
    wanted: usize,
    /// The length of the frame's content, if its header has it, and the produced part of it. The decoder does not compare them where
    /// the last block is empty.
    declared: Option<u64>,
    produced: u64,
}

/// The result of one decoding step.
pub(super) struct Step {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    /// True if it was the last step of a part; an error if the data cannot be decoded.
    pub(super) is_last: Result<bool, Fault>,
}

pub(super) enum Fault {
    /// A reason and a hint.
    Data(String, &'static str),
    NoMemory,
}

impl Packed {
    /// A decoder of a compression other than gzip; `None` if there is no memory.
    pub(super) fn new(compression: Compression) -> Option<Self> {
        Some(match compression {
            Compression::Xz => Self::Xz(None),
            Compression::Zstd => {
                Self::Zstd(Frame { context: DCtx::try_create()?, wanted: 0, declared: None, produced: 0 })
            }
            _ => Self::Bzip2(Decompress::new(false)),
        })
    }

    /// True if a part begins with these bytes.
    pub(super) fn is_begun_by(&self, header: &[u8]) -> bool {
        match self {
            Self::Xz(_) => header.starts_with(b"\xfd7zXZ\0"),
            Self::Bzip2(_) => header.starts_with(b"BZh"),
            Self::Zstd(_) => compression_of(header) == Compression::Zstd,
        }
    }

    /// Begins the part with this header.
    pub(super) fn begin(&mut self, header: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Xz(stream) => {
                let new = Stream::new_stream_decoder(XZ_MEMORY, TELL_UNSUPPORTED_CHECK);
                *stream = Some(new.map_err(|_| Fault::NoMemory)?);
            }
            Self::Bzip2(stream) => *stream = Decompress::new(false),
            Self::Zstd(frame) => {
                let is_content = header.starts_with(ZSTD_MAGIC);
                frame.declared = get_frame_content_size(header).ok().flatten().filter(|_| is_content);
                (frame.produced, frame.wanted) = (0, ZSTD_MAGIC.len() + 1);
                if let Some(id) = get_dict_id_from_frame(header).filter(|_| is_content) {
                    let reason = format!("the zstd data needs dictionary number {id}");
                    return Err(Fault::Data(reason, DICTIONARY));
                }
            }
        }
        Ok(())
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let before = self.totals();
        let damaged = |what, reason| Fault::Data(format!("corrupt {what} data ({reason})"), DAMAGED);
        let is_last = match self {
            Self::Zstd(frame) => return frame.step(input, output),
            // The library reports missing memory when a part of the data is missing.
            Self::Xz(stream) => match stream.as_mut().expect("it has begun").process(input, output, Action::Run) {
                Ok(status) => Ok(status == Status::StreamEnd),
                Err(Error::MemLimit) => {
                    Err(Fault::Data("the xz data needs a dictionary larger than 128 MiB".to_owned(), WIDE_XZ_WINDOW))
                }
                Err(Error::Mem) => Err(Fault::NoMemory),
                Err(Error::Options | Error::UnsupportedCheck) => Err(damaged("xz", "an unknown filter or checksum")),
                Err(_) => Err(damaged("xz", "invalid data or a checksum mismatch")),
            },
            Self::Bzip2(stream) => match stream.decompress(input, output) {
                Ok(bzip2::Status::MemNeeded) => Err(Fault::NoMemory),
                Ok(status) => Ok(status == bzip2::Status::StreamEnd),
                Err(_) => Err(damaged("bzip2", "invalid data or a checksum mismatch")),
            },
        };
        let after = self.totals();
        Step { consumed: (after.0 - before.0) as usize, produced: (after.1 - before.1) as usize, is_last }
    }

    fn totals(&self) -> (u64, u64) {
        match self {
            Self::Xz(stream) => stream.as_ref().map_or((0, 0), |stream| (stream.total_in(), stream.total_out())),
            Self::Bzip2(stream) => (stream.total_in(), stream.total_out()),
            Self::Zstd(_) => (0, 0),
        }
    }
}

impl Frame {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let mut input = InBuffer::around(&input[..input.len().min(self.wanted)]);
        let mut output = OutBuffer::around(output);
        let result = self.context.decompress_stream(&mut output, &mut input);
        let (consumed, produced) = (input.pos(), output.pos());
        self.produced += produced as u64;
        let is_last = match result {
            Ok(0) => match self.declared.filter(|declared| *declared != self.produced) {
                Some(declared) => {
                    let reason =
                        format!("corrupt zstd data (a frame that declares {declared} bytes has {})", self.produced);
                    Err(Fault::Data(reason, DAMAGED))
                }
                None => Ok(true),
            },
            Ok(hint) => {
                self.wanted = hint;
                Ok(false)
            }
            Err(code) => {
                let reason = get_error_name(code);
                let hint = match reason {
                    _ if reason.contains("too much memory") => WIDE_WINDOW,
                    // The need for a dictionary without a number shows only as damage at the start.
                    _ if self.produced == 0 => DAMAGED_AT_FIRST,
                    _ => DAMAGED,
                };
                Err(Fault::Data(format!("corrupt or unsupported zstd data ({reason})"), hint))
            }
        };
        Step { consumed, produced, is_last }
    }
}

pub(super) const DAMAGED: &str = "the file is damaged; copy or download it again, or compress its source again";
const DAMAGED_AT_FIRST: &str = "the file is damaged, or was compressed with a dictionary: copy or download it again, or decompress it with zstd -dc -D DICTIONARY FILE";
const WIDE_WINDOW: &str = "decompress it: zstd -dc --long=31 FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl; or compress it again with --long=27 or less";
const WIDE_XZ_WINDOW: &str = "decompress it: xz -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl; or compress it again with --lzma2=dict=128MiB or less";
const DICTIONARY: &str = "decompress it: zstd -dc -D DICTIONARY FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";
