//! A Parquet file whose footer and page headers can be parsed within their size.
//!
//! The library skips fields that it does not know. A list of booleans takes no bytes there, whatever its length, and after the end of a file
//! neither do numbers. So a few bytes of nested lists would keep it busy for years. Such lists are errors of the file. (Parquet itself has no
//! lists of booleans in these places.) It reads fields that it knows without a look at their types, so fields of other types are errors, too:
//! what follows them would be read in two ways.
//!
//! It also reserves memory for the claimed size of a page, so claims that the bytes of a page cannot satisfy are errors, as they are in
//! `pages`.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Limit of elements for a list without bytes.
const MOST: u64 = 64;

/// Nesting depth that is followed. The library's limit is lower.
const DEPTH: usize = 96;

/// Bytes that a page of any size may claim.
const FREE: u64 = 1 << 24;

/// Additional bytes that a page may claim per compressed byte: the shortest block of Zstandard has 4 bytes, and the longest gives 128 KiB.
const PER_BYTE: u64 = 1 << 15;

/// The length of the footer, and the magic bytes at the end of a file.
const TAIL: u64 = 8;

/// A file for the library.
#[derive(Debug)]
pub(crate) struct ParquetFile<R> {
    file: R,
    is_encrypted: bool,
    /// Starts of pages whose headers were checked: the library looks at some headers first and gets their pages later.
    pages: Mutex<HashSet<u64>>,
}

impl<R: ChunkReader> ParquetFile<R> {
    /// Checks the footer.
    ///
    /// # Errors
    /// The footer cannot be read, or has such a list.
    pub(crate) fn new(file: R) -> Result<Self, ParquetError> {
        let bytes = file.len();
        let mut is_encrypted = false;
        if let Some(at) = bytes.checked_sub(TAIL) {
            let mut length = [0; 4];
            file.get_read(at)?.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if let Some(begin) = at.checked_sub(length) {
                is_encrypted = check(file.get_read(begin)?.take(length), "File")?.has_encryption;
            }
        }
        Ok(Self { file, is_encrypted, pages: Mutex::default() })
    }

    /// True if the footer says that columns are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

impl<R: Length> Length for ParquetFile<R> {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl<R: ChunkReader> ChunkReader for ParquetFile<R> {
    type T = R::T;

    /// The library reads headers of pages and the end of the file here. After a header that it has read before, it begins here and reads
    /// nothing; so a header that lies in a page, which was not checked, is the end of the file.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.contains(&start) {
            return self.file.get_read(self.file.len());
        }
        if start.saturating_add(TAIL) < self.file.len() {
            let Header { bytes, sizes: [plain, compressed], .. } = check(self.file.get_read(start)?, "Page")?;
            if plain > FREE.saturating_add(compressed.saturating_mul(PER_BYTE)) {
                let message =
                    format!("a page claims to hold {plain} bytes, too many for a compressed size of {compressed}");
                return Err(ParquetError::General(message));
            }
            // A header without a page is followed by the next header.
            if compressed > 0 {
                pages.insert(start + bytes);
            }
        }
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.saturating_add(length as u64) > self.file.len() {
            return Err(ParquetError::EOF("a page ends past the end of the file".to_owned()));
        }
        self.file.get_bytes(start, length)
    }
}

/// The header of a page.
#[derive(Debug, Default)]
struct Header {
    bytes: u64,
    /// Bytes of its page, decompressed and compressed.
    sizes: [u64; 2],
    /// True if a footer names an encryption.
    has_encryption: bool,
}

/// The field of a footer with the encryption of the columns.
const ENCRYPTION: u64 = 8;

/// The kinds of a struct's fields, in the order of their ids: integers, booleans, bytes, doubles, strings, structs by their names, and lists of these.
/// `-` and structs without fields here are of any kind.
fn fields(of: &str) -> &'static str {
    match of {
        "File" => "int [Element int [Group [Pair string [Unit - string",
        "Element" => "int int int string int int int int int Logical",
        "Logical" => "Any Any Any Any Ints Any Time Time - Integer Any Any Any Any Any Variant Geography Geography",
        "Time" => "bool Unit",
        "Unit" => "Any Any Any",
        "Integer" => "byte bool",
        "Variant" => "byte",
        "Geography" => "string int",
        "Group" => "[Chunk int int [Sorting int int int",
        "Sorting" => "int bool bool",
        "Chunk" => "string int Column int int int int - string",
        "Column" => "int [int [string int int int int [Pair int int int Statistics [Ints int int Sizes Shapes",
        "Pair" => "string string",
        "Ints" => "int int int",
        "Sizes" => "int [int [int",
        "Shapes" => "Box [int",
        "Box" => "double double double double double double double double",
        "Statistics" => "string string int int string string bool bool",
        "Page" => "int int int int Data Any Dictionary Data2",
        "Data" => "int int int int Statistics",
        "Dictionary" => "int int bool",
        "Data2" => "int int int int int int bool Statistics",
        _ => "",
    }
}

/// True if a value of this kind may be where `what` is expected.
fn fits(kind: u8, what: &str) -> bool {
    match (what, kind) {
        ("" | "-", _) | ("bool", 1 | 2) | ("byte", 3) | ("int", 4..=6) | ("double", 7) | ("string", 8) => true,
        (list, 9) => list.starts_with('['),
        (name, STRUCT) => name.starts_with(|first: char| first.is_ascii_uppercase()),
        _ => false,
    }
}

/// The first four numbers of `bytes`, and the place after them.
pub(super) fn numbers(bytes: &[u8]) -> Option<([u64; 4], usize)> {
    let mut walk = Walk::new(bytes);
    let mut next = || walk.number().ok();
    let numbers = [next()?, next()?, next()?, next()?];
    Some((numbers, walk.header.bytes as usize))
}

/// Checks a struct in the compact protocol of Thrift.
fn check(read: impl Read, what: &str) -> Result<Header, ParquetError> {
    let mut walk = Walk::new(read);
    let fault = match walk.value(STRUCT, what, DEPTH) {
        Ok(()) => return Ok(walk.header),
        // The library has better messages for other faults.
        Err(End::Early) => return Ok(Header::default()),
        Err(End::Endless(count)) => format!("a header has a list of {count} booleans, which no valid header has"),
        Err(End::Foreign(kind)) => format!("a field of a header has the wrong type ({kind})"),
        Err(End::Short) => "a header ends past the end of the file".to_owned(),
    };
    Err(ParquetError::General(fault))
}

/// The reason that a walk ends early.
#[derive(Debug, PartialEq)]
enum End {
    /// The walk is at a value that the library refuses.
    Early,
    /// The data ends in a value of fixed length, which the library detects.
    Short,
    Endless(u64),
    /// A value of this kind in the place of another.
    Foreign(u8),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Early
    }
}

const STRUCT: u8 = 12;

struct Walk<R> {
    read: R,
    header: Header,
    /// The last number of a field, in the 32 bits that the library takes of a size.
    number: i32,
}

impl<R: Read> Walk<R> {
    fn new(read: R) -> Self {
        Self { read, header: Header::default(), number: 0 }
    }

    fn byte(&mut self) -> Result<u8, End> {
        let mut byte = [0];
        self.read.read_exact(&mut byte)?;
        self.header.bytes += 1;
        Ok(byte[0])
    }

    fn number(&mut self) -> Result<u64, End> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), End> {
        let skipped = io::copy(&mut self.read.by_ref().take(bytes), &mut io::sink())?;
        self.header.bytes += skipped;
        if skipped == bytes { Ok(()) } else { Err(End::Short) }
    }

    fn value(&mut self, kind: u8, what: &str, depth: usize) -> Result<(), End> {
        let below = depth.checked_sub(1).ok_or(End::Early)?;
        match kind {
            _ if !fits(kind, what) => Err(End::Foreign(kind)),
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.number().map(|number| self.number = ((number >> 1) ^ (number & 1).wrapping_neg()) as i32),
            7 => self.skip(8),
            8 => {
                let bytes = self.number()?;
                self.skip(bytes)
            }
            9 | 10 => {
                let header = self.byte()?;
                let count = if header >> 4 == 15 { self.number()? } else { u64::from(header >> 4) };
                self.values(&[header & 15], what.strip_prefix('[').unwrap_or(""), count, below)
            }
            11 => {
                let count = self.number()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                self.values(&[kinds >> 4, kinds & 15], "", count, below)
            }
            STRUCT => {
                let mut field = 0_u64;
                loop {
                    let header = self.byte()?;
                    if header & 15 == 0 {
                        return Ok(());
                    }
                    field = match header >> 4 {
                        // The lowest bit is the sign.
                        0 => Some(self.number()?).filter(|id| id & 1 == 0).ok_or(End::Foreign(header))? >> 1,
                        more => field.wrapping_add(u64::from(more)),
                    };
                    self.header.has_encryption |= depth == DEPTH && field == ENCRYPTION;
                    let place = usize::try_from(field.wrapping_sub(1)).unwrap_or(usize::MAX);
                    self.value(header & 15, fields(what).split(' ').nth(place).unwrap_or(""), below)?;
                    // The sizes of a page are the second and the third field of its header.
                    if depth == DEPTH && matches!(place, 1 | 2) {
                        self.header.sizes[place - 1] = u64::try_from(self.number).unwrap_or(0);
                    }
                }
            }
            13 => self.skip(16),
            _ => Err(End::Early),
        }
    }

    fn values(&mut self, kinds: &[u8], what: &str, count: u64, depth: usize) -> Result<(), End> {
        if count > MOST && kinds.iter().all(|kind| matches!(kind, 1 | 2)) {
            return Err(End::Endless(count));
        }
        for _ in 0..count {
            kinds.iter().try_for_each(|&kind| self.value(kind, what, depth))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::pages::tests::varint;

    fn walked(bytes: &[u8]) -> Result<(), End> {
        Walk::new(bytes).value(STRUCT, "", DEPTH)
    }

    #[test]
    fn structs_are_walked_to_their_end() {
        let every_kind = [
            &[0x11, 0x12, 0x13, 7, 0x14, 0x80, 1, 0x15, 2, 0x16, 3, 0x17][..],
            &[0; 8],
            &[0x18, 2, b'a', b'b', 0x19, 0x25, 1, 2, 0x1a, 0xf3, 16],
            &[9; 16],
            &[0x1b, 1, 0x58, 3, 1, b'c', 0x1b, 0, 0x1c, 0x05, 4, 1, 0, 0x1d],
            &[5; 16],
            &[0x19, 0x32, 0x19, 0, 0],
        ]
        .concat();
        assert_eq!(walked(&every_kind), Ok(()));
        for end in 0..every_kind.len() {
            assert!(matches!(walked(&every_kind[..end]), Err(End::Early | End::Short)), "{end}");
        }
        // The library would skip these numbers endlessly.
        assert_eq!(walked(&[0x19, 0xf7, 0xff, 0xff, 0xff, 0xff, 7, 1, 2, 3]), Err(End::Short));
    }

    #[test]
    fn a_header_gives_the_sizes_of_its_page() {
        // Fields 1 to 3, as numbers; the size of the page is the third.
        for size in [0, 7] {
            let header = check(&[0x15, 0, 0x15, 4, 0x15, size << 1, 0][..], "Page").unwrap();
            assert_eq!((header.bytes, header.sizes), (7, [2, u64::from(size)]));
        }
        // The third field, named by its number.
        assert_eq!(check(&[0x05, 6, 14, 0][..], "Page").unwrap().sizes, [0, 7]);
    }

    #[test]
    fn long_lists_without_bytes_are_refused() {
        assert_eq!(walked(&[0x19, 0xf1, 64, 0]), Ok(()));
        assert_eq!(walked(&[0x19, 0xf1, 65, 0]), Err(End::Endless(65)));
        assert_eq!(walked(&[0x1a, 0xf2, 0xff, 0xff, 0xff, 0xff, 7, 0]), Err(End::Endless(0x7fff_ffff)));
        assert_eq!(walked(&[0x1b, 65, 0x12, 0]), Err(End::Endless(65)));
        assert_eq!(walked(&[0x1b, 2, 0x13, 0, 0, 0]), Ok(()));
        // Inside lists and structs.
        assert_eq!(walked(&[0x19, 0x2c, 0, 0x19, 0xf1, 65]), Err(End::Endless(65)));
        assert_eq!(walked(&[0x1c; 200]), Err(End::Early));
        assert!(check(&[0x19, 0xf1, 65][..], "").unwrap_err().to_string().contains("a list of 65 booleans"));
    }

    #[test]
    fn fields_have_the_kinds_of_parquet() {
        let foreign = |bytes: &[u8], what| check(bytes, what).unwrap_err().to_string().contains("has the wrong type");
        // The header of a data page as a number, which the library reads as a struct.
        assert!(foreign(&[0x55, 0x55, 0], "Page"));
        assert!(foreign(&[0x5c, 0x18, 0, 0, 0], "Page"));
        // An element of the schema as a string, and an id below zero.
        assert!(foreign(&[0x29, 0x18, 0, 0], "File"));
        assert!(foreign(&[0x05, 1, 0, 0], "File"));
        assert!(check(&[0x15, 2, 0x19, 0x1c, 0x48, 1, b'a', 0, 0][..], "File").is_ok());
    }

    #[test]
    fn pages_claim_no_more_than_their_bytes_can_hold() {
        // The header of a page before an empty footer. Claims are i32.
        let page = |plain: u64, compressed: u64| {
            let header = [&[0x15, 0, 0x15][..], &varint(plain << 1), &[0x15], &varint(compressed << 1), &[0]].concat();
            let file = [&header[..], &[0; 64], &1_u32.to_le_bytes(), b"PAR1"].concat();
            ParquetFile::new(Bytes::from(file)).unwrap()
        };
        let refused = |plain, compressed| page(plain, compressed).get_read(0).err().map(|error| error.to_string());
        assert_eq!(refused(1 << 24, 0), None);
        assert_eq!(refused((1 << 24) + (1 << 15), 1), None);
        assert!(
            refused((1 << 24) + (1 << 15) + 1, 1)
                .unwrap()
                .contains("claims to hold 16809985 bytes, too many for a compressed size of 1")
        );
        assert_eq!(refused(i32::MAX as u64, 65_024), None);
        assert!(page(5, 5).get_bytes(8, 1 << 40).unwrap_err().to_string().contains("past the end"));
        // The library takes 32 bits of a size: one byte here, and none.
        for (size, compressed) in [(2 << 32 | 2, 1), (1 << 32, 0)] {
            let header = [&[0x15, 0, 0x15, 0, 0x15][..], &varint(size), &[0]].concat();
            assert_eq!(check(&header[..], "Page").unwrap().sizes, [0, compressed]);
        }
    }

    #[test]
    fn a_header_in_a_page_is_not_read() {
        // The page of the first header begins with a header, which claims too much.
        let header = |plain: u64, compressed| [&[0x15, 0, 0x15][..], &varint(plain), &[0x15, compressed, 0]].concat();
        let (first, second) = (header(40, 40), header(u64::from(u32::MAX - 1), 2));
        let file = [&first[..], &second, &[0; 64], &1_u32.to_le_bytes(), b"PAR1"].concat();
        let file = ParquetFile::new(Bytes::from(file)).unwrap();
        let at = first.len() as u64;
        assert!(file.get_read(at).is_err());
        assert!(file.get_read(0).is_ok());
        assert_eq!(file.get_read(at).unwrap().read(&mut [0]).unwrap(), 0);
    }
}
