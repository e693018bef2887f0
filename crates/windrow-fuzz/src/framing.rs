//! Gzip members, zstd frames, and streams of xz and bzip2.

use std::io::{BufReader, Cursor, Read, Write};

use windrow_tokenizers::input::{Compression, Format, InputFile};

use crate::reading::{read, text_field};

/// The reference reads no more than this.
const MOST: u64 = 64 << 20;

/// The first byte chooses the compression, and whether the rest is a stream or a text to compress and to damage.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let compression = match choice & 5 {
        0 => Compression::Gzip,
        1 => Compression::Zstd,
        4 => Compression::Xz,
        _ => Compression::Bzip2,
    };
    if choice & 2 == 0 {
        if let Some(text) = text_of(compression, bytes) {
            assert!(text == plain(compression, bytes), "the decoder reads a different text");
        }
        return;
    }
    let Some((&[at, more, change], text)) = bytes.split_first_chunk() else { return };
    // A text in two parts.
    let half = text.len() * usize::from(choice >> 4) / 16;
    let mut stream = compressed(compression, &text[..half]);
    let first = stream.len();
    stream.extend(compressed(compression, &text[half..]));
    let marked = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    assert_eq!(text_of(compression, &stream).as_deref(), Some(marked), "a whole stream");
    let at = usize::from(u16::from_le_bytes([at, more])) % stream.len();
    match change {
        // What is left is whole.
        0 if at == first || at == 0 => return,
        0 => stream.truncate(at),
        change => stream[at] ^= change,
    }
    let found = text_of(compression, &stream);
    assert!(found.is_none_or(|found| found == marked), "damage at byte {at} gave a different text");
}

/// The text of a stream, as windrow reads it.
fn text_of(compression: Compression, stream: &[u8]) -> Option<Vec<u8>> {
    let file = InputFile::from_reader("fuzz", Cursor::new(stream.to_vec()), Format::Text, Some(compression));
    let mut text = None;
    read(file, &text_field(), 1 << 12, &mut |batch, record| text = Some(batch.bytes_of(record).to_vec())).ok()?;
    text
}

/// The same by the libraries alone; windrow drops a byte order mark. The library gets zstd byte by byte: of a frame that is there as a whole it
/// refuses empty compressed blocks, which it otherwise accepts.
fn plain(compression: Compression, stream: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let read = match compression {
        Compression::Zstd => {
            let bytes = BufReader::with_capacity(1, stream);
            zstd::Decoder::with_buffer(bytes).and_then(|decoder| decoder.take(MOST).read_to_end(&mut text))
        }
        Compression::Xz => liblzma::read::XzDecoder::new_multi_decoder(stream).take(MOST).read_to_end(&mut text),
        Compression::Bzip2 => bzip2::read::MultiBzDecoder::new(stream).take(MOST).read_to_end(&mut text),
        _ => flate2::read::MultiGzDecoder::new(stream).take(MOST).read_to_end(&mut text),
    };
    assert!(read.is_ok(), "the decoder refuses what was read: {read:?}");
    match text.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest.to_vec(),
        None => text,
    }
}

fn compressed(compression: Compression, text: &[u8]) -> Vec<u8> {
    let written = match compression {
        Compression::Zstd => zstd::Encoder::new(Vec::new(), 1).and_then(|mut encoder| {
            encoder.include_checksum(true)?;
            encoder.write_all(text)?;
            encoder.finish()
        }),
        Compression::Xz => liblzma::encode_all(text, 0),
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).and_then(|()| encoder.finish())
        }
        _ => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).and_then(|()| encoder.finish())
        }
    };
    written.expect("a vector can be written")
}
