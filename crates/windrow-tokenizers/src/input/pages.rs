//! Pages of Parquet whose decoders take no more memory than the page can justify.
//!
//! Some decoders reserve memory for the claimed number of values of a page before they read one of them. A failed allocation ends the
//! process. So claims that the bytes of a page cannot satisfy are errors of the file. (apache/arrow 49955 is the same fault in C++, and
//! apache/arrow-rs 9742 collects what a corrupt file does to the Rust reader.)

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::thrift;

/// Number of values that a page of any size may claim: empty strings take next to no bytes.
const FREE: usize = 1 << 24;

/// Additional values that a page may claim per byte. Writers make blocks of 128 values, the smallest of which have 5 bytes.
const PER_BYTE: usize = 1 << 10;

/// Number of values that a page of repeated values of any size may claim. Beyond it, each byte may claim [`PER_BYTE`]: lists of different
/// lengths have levels of one bit per value.
const FREE_REPEATED: usize = 1 << 16;

/// The pages of a column.
pub(super) struct Plausible {
    pages: Box<dyn PageReader>,
    /// The largest levels of repetition and of definition.
    levels: [i16; 2],
}

impl Plausible {
    pub(super) fn new(pages: Box<dyn PageReader>, levels: [i16; 2]) -> Self {
        Self { pages, levels }
    }
}

impl Iterator for Plausible {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Plausible {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            check(page, self.levels)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        self.pages.at_record_boundary()
    }
}

fn check(page: &Page, levels: [i16; 2]) -> Result<(), ParquetError> {
    let claimed = page.num_values();
    let most = FREE_REPEATED.max(page.buffer().len().saturating_mul(PER_BYTE));
    if levels[0] > 0 && page.is_data_page() && claimed as usize > most {
        return Err(implausible(u64::from(claimed)));
    }
    let (bytes, count, encoding) = match page {
        Page::DictionaryPage { buf, num_values, .. } => {
            // Each value takes at least a byte.
            return if *num_values as usize <= buf.len() { Ok(()) } else { Err(implausible(u64::from(*num_values))) };
        }
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
            let levels = levels_of(buf, *num_values, [*rep_level_encoding, *def_level_encoding], levels);
            (levels.and_then(|levels| buf.get(levels..)), *num_values, *encoding)
        }
        Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
            (buf.get(levels..), *num_values, *encoding)
        }
    };
    // The decoder refuses data that is too short.
    let Some(bytes) = bytes else { return Ok(()) };
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => deltas(bytes, count).map(drop),
        Encoding::DELTA_BYTE_ARRAY => match deltas(bytes, count)?.and_then(|end| bytes.get(end..)) {
            Some(suffixes) => deltas(suffixes, count).map(drop),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn implausible(count: u64) -> ParquetError {
    ParquetError::General(format!("a page claims to hold more values than fit into its bytes: {count}"))
}

/// The bytes of the levels at the start of a page: of repetition, then of definition.
fn levels_of(buf: &[u8], count: u32, encodings: [Encoding; 2], levels: [i16; 2]) -> Option<usize> {
    encodings.into_iter().zip(levels).try_fold(0, |at, (encoding, level)| {
        Some(
            at + match encoding {
                _ if level == 0 => 0,
                Encoding::RLE => 4 + u32::from_le_bytes(*buf.get(at..)?.first_chunk()?) as usize,
                _ => (count as usize * (level.ilog2() as usize + 1)).div_ceil(8),
            },
        )
    })
}

/// Checks the number of values of a section of `DELTA_BINARY_PACKED`. Returns the end of the section, if it is complete.
fn deltas(bytes: &[u8], count: u32) -> Result<Option<usize>, ParquetError> {
    let Some(([block, parts, values, _], mut at)) = thrift::numbers(bytes) else { return Ok(None) };
    let most = FREE.max(bytes.len().saturating_mul(PER_BYTE)).min(count as usize) as u64;
    if values > most {
        return Err(implausible(values));
    }
    let (Ok(parts_of_block), Some(per_part)) = (usize::try_from(parts), block.checked_div(parts)) else {
        return Ok(None);
    };
    // The first value is in the header.
    let mut left = values.saturating_sub(1);
    while left > 0 && per_part > 0 {
        // The smallest delta, and the width of each part's values. Parts without values are absent.
        while bytes.get(at).is_some_and(|byte| *byte >= 0x80) {
            at += 1;
        }
        let widths = at + 1;
        let Some(all) = widths.checked_add(parts_of_block).and_then(|end| bytes.get(widths..end)) else {
            return Ok(None);
        };
        let mut end = (widths + all.len()) as u64;
        for &width in all {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(per_part);
            end = end.saturating_add(u64::from(width).saturating_mul(per_part) / 8);
        }
        at = usize::try_from(end).unwrap_or(usize::MAX);
    }
    Ok((left == 0).then_some(at))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::input) fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// A section that claims `claimed` values, in blocks of 128 with four parts. The values of the first part of a block have a byte each.
    fn section(claimed: u64, blocks: usize) -> Vec<u8> {
        let mut bytes = [varint(128), varint(4), varint(claimed), varint(0)].concat();
        for _ in 0..blocks {
            bytes.extend([0, 8, 0, 0, 0]);
            bytes.extend([0; 32]);
        }
        bytes
    }

    fn data_page(encoding: Encoding, buf: Vec<u8>, num_values: u32) -> Page {
        let levels = Encoding::RLE;
        let (def_level_encoding, rep_level_encoding) = (levels, levels);
        Page::DataPage {
            buf: buf.into(),
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            statistics: None,
        }
    }

    #[test]
    fn sections_end_where_their_last_block_does() {
        for (values, blocks) in [(0, 0), (1, 0), (2, 1), (129, 1), (130, 2), (300, 3)] {
            let mut bytes = section(values, blocks);
            let end = bytes.len();
            bytes.extend([1, 2, 3]);
            assert_eq!(deltas(&bytes, 1000).unwrap(), Some(end), "{values}");
            assert_eq!(deltas(&bytes[..3], 1000).unwrap(), None);
            if blocks > 0 {
                assert_eq!(deltas(&section(values, blocks - 1), 1000).unwrap(), None, "{values}");
            }
        }
        assert_eq!(deltas(&[0x80; 12], 1000).unwrap(), None);
        assert_eq!(deltas(&[varint(128), varint(0), varint(5), varint(0)].concat(), 1000).unwrap(), None);
        let wide = [varint(u64::MAX), varint(1), varint(9), varint(0), vec![0, 255]].concat();
        assert!(deltas(&wide, 1000).unwrap().is_some_and(|end| end > wide.len()));
    }

    #[test]
    fn claims_that_the_bytes_cannot_hold_are_errors() {
        let refused = |page: &Page, level: i16| check(page, [0, level]).is_err();
        let lengths = |claimed: u64, count| data_page(Encoding::DELTA_LENGTH_BYTE_ARRAY, section(claimed, 1), count);
        assert!(!refused(&lengths(100, 100), 0));
        assert!(refused(&lengths(101, 100), 0));
        assert!(!refused(&lengths(FREE as u64, u32::MAX), 0));
        assert!(refused(&lengths(FREE as u64 + 1, u32::MAX), 0));
        assert!(refused(&lengths(u64::MAX, u32::MAX), 0));
        // The second section of prefixes and suffixes, after levels.
        let both = |claimed: u64| [vec![2, 0, 0, 0, 6, 1], section(3, 1), section(claimed, 1)].concat();
        assert!(!refused(&data_page(Encoding::DELTA_BYTE_ARRAY, both(3), 3), 1));
        assert!(refused(&data_page(Encoding::DELTA_BYTE_ARRAY, both(4), 3), 1));
        let second = Page::DataPageV2 {
            buf: both(4)[4..].to_vec().into(),
            num_values: 3,
            encoding: Encoding::DELTA_BYTE_ARRAY,
            num_nulls: 0,
            num_rows: 3,
            def_levels_byte_len: 2,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        };
        assert!(refused(&second, 1));
        assert!(!refused(&data_page(Encoding::PLAIN, vec![0; 4], u32::MAX), 0));
        // Repeated values: levels of two kinds, and a list that no page can hold.
        let repeated = |page: &Page| check(page, [1, 1]).is_err();
        let levels = |claimed: u64| [vec![2, 0, 0, 0, 6, 1, 2, 0, 0, 0, 6, 1], section(claimed, 1)].concat();
        assert!(!repeated(&data_page(Encoding::DELTA_LENGTH_BYTE_ARRAY, levels(3), 3)));
        assert!(repeated(&data_page(Encoding::DELTA_LENGTH_BYTE_ARRAY, levels(4), 3)));
        assert!(!repeated(&data_page(Encoding::PLAIN, vec![0; 4], FREE_REPEATED as u32)));
        assert!(repeated(&data_page(Encoding::PLAIN, vec![0; 4], FREE_REPEATED as u32 + 1)));
        let dictionary = |bytes: usize, num_values| Page::DictionaryPage {
            buf: vec![0; bytes].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert!(!refused(&dictionary(4, 4), 0));
        assert!(refused(&dictionary(4, 5), 0));
    }
}
