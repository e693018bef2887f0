//! What lies between ranks: elements of any kind, and a checksum for every piece.

use std::ops::Range;

use bytemuck::cast_slice;
use xxhash_rust::xxh3::xxh3_64;

use crate::Element;
use crate::buffer::Buffer;
use crate::call::part;

/// Bytes of a piece. Those of a few ranks and their sum fit a second-level cache together.
const PIECE: usize = 128 << 10;

/// Elements that one rank has left for others.
#[derive(Debug, Default)]
pub(super) struct Slot {
    elements: Buffer,
    /// Of the pieces, by where they begin; none where nobody asked for them.
    checks: Vec<(usize, u64)>,
}

/// The pieces of some elements.
pub(super) fn pieces<T>(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let each = PIECE / size_of::<T>();
    of.clone().step_by(each).map(move |start| start..of.end.min(start + each))
}

impl Slot {
    /// These elements, in parts that different ranks read; one of them may be for this rank itself.
    pub(super) fn fill<T: Element>(&mut self, data: &[T], parts: (usize, Option<usize>), checked: bool) {
        self.resize(data.len()).copy_from_slice(data);
        self.check::<T>(parts, checked);
    }

    /// So many elements, of any value.
    pub(super) fn resize<T: Element>(&mut self, len: usize) -> &mut [T] {
        self.elements.resize(len)
    }

    /// Sums up the pieces, unless nobody will look. What does not travel is not looked at.
    pub(super) fn check<T: Element>(&mut self, (parts, own): (usize, Option<usize>), checked: bool) {
        self.checks.clear();
        if checked {
            let data: &[T] = self.elements.get();
            let travel = (0..parts).filter(|part| Some(*part) != own);
            let pieces = travel.flat_map(|of| pieces::<T>(part(data.len(), parts, of)));
            self.checks.extend(pieces.map(|piece| (piece.start, xxh3_64(cast_slice(&data[piece])))));
        }
    }

    /// A piece as it was sent; nothing if it was not sent, or is damaged. One that has not travelled cannot be.
    pub(super) fn piece<T: Element>(&self, piece: Range<usize>, travelled: bool) -> Option<&[T]> {
        let elements = self.elements.get().get(piece.clone())?;
        if self.checks.is_empty() || !travelled {
            return Some(elements);
        }
        let place = self.checks.binary_search_by_key(&piece.start, |check| check.0).ok()?;
        (xxh3_64(cast_slice(elements)) == self.checks[place].1).then_some(elements)
    }

    /// Changes a bit on the way.
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
