//! The memory between ranks: elements of any kind, with a checksum for every piece.

use std::ops::Range;

use bytemuck::cast_slice;
use twox_hash::XxHash3_64;

use crate::Element;
use crate::buffer::Buffer;
use crate::call::part;

/// Bytes of a piece. The pieces of a few ranks and their sum fit a second-level cache together.
const PIECE: usize = 128 << 10;

/// Elements that one rank leaves for the others.
#[derive(Debug, Default)]
pub(super) struct Slot {
    elements: Buffer,
    /// Checksums of the pieces, by where they begin; empty if checking is off.
    checks: Vec<(usize, u64)>,
}

/// Splits a range of elements into pieces.
pub(super) fn pieces<T>(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let each = PIECE / size_of::<T>();
    of.clone().step_by(each).map(move |start| start..of.end.min(start + each))
}

impl Slot {
    /// Stores elements, in parts that different ranks read. The rank itself may read one of the parts.
    pub(super) fn fill<T: Element>(&mut self, data: &[T], parts: (usize, Option<usize>), checked: bool) {
        self.resize(data.len()).copy_from_slice(data);
        self.check::<T>(parts, checked);
    }

    /// Sets the number of elements. Their values are unspecified.
    pub(super) fn resize<T: Element>(&mut self, len: usize) -> &mut [T] {
        self.elements.resize(len)
    }

    /// Computes the checksums of the pieces, if `checked`. A part that does not travel needs none.
    pub(super) fn check<T: Element>(&mut self, (parts, own): (usize, Option<usize>), checked: bool) {
        self.checks.clear();
        if checked {
            let data: &[T] = self.elements.get();
            let travel = (0..parts).filter(|part| Some(*part) != own);
            let pieces = travel.flat_map(|of| pieces::<T>(part(data.len(), parts, of)));
            self.checks.extend(pieces.map(|piece| (piece.start, XxHash3_64::oneshot(cast_slice(&data[piece])))));
        }
    }

    /// A piece as it was sent; `None` if it was not sent or is damaged. A piece that has not travelled cannot be damaged.
    pub(super) fn piece<T: Element>(&self, piece: Range<usize>, travelled: bool) -> Option<&[T]> {
        let elements = self.elements.get().get(piece.clone())?;
        if self.checks.is_empty() || !travelled {
            return Some(elements);
        }
        let place = self.checks.binary_search_by_key(&piece.start, |check| check.0).ok()?;
        (XxHash3_64::oneshot(cast_slice(elements)) == self.checks[place].1).then_some(elements)
    }

    /// Flips a bit, as if on the way.
    #[cfg(test)]
    pub(super) fn spoil<T: Element>(&mut self) {
        bytemuck::cast_slice_mut::<T, u8>(self.elements.get_mut())[0] ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_pieces_cover() {
        for (len, parts) in [(0, 3), (1, 4), (10, 3), (100_000, 7)] {
            let covered: Vec<_> = (0..parts).flat_map(|of| pieces::<f64>(part(len, parts, of))).flatten().collect();
            assert_eq!(covered, (0..len).collect::<Vec<_>>());
        }
    }
}
