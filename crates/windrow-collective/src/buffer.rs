//! Memory for elements of any kind, reused from call to call.

use bytemuck::{cast_slice, cast_slice_mut};

use crate::Element;

/// A buffer for elements of one kind at a time.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// Aligned for every element; never shrinks.
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    /// Sets the number of elements. Their values are unspecified.
    pub(crate) fn resize<T: Element>(&mut self, len: usize) -> &mut [T] {
        self.bytes = len * size_of::<T>();
        let words = self.bytes.div_ceil(8);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        self.get_mut()
    }

    /// Capacity in bytes.
    pub(crate) fn room(&self) -> usize {
        8 * self.words.len()
    }

    pub(crate) fn get<T: Element>(&self) -> &[T] {
        &cast_slice(&self.words)[..self.bytes / size_of::<T>()]
    }

    pub(crate) fn get_mut<T: Element>(&mut self) -> &mut [T] {
        &mut cast_slice_mut(&mut self.words)[..self.bytes / size_of::<T>()]
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn kinds_and_lengths_change() {
        let mut buffer = Buffer::default();
        buffer.resize::<f64>(3).copy_from_slice(&[1.0, 2.0, 3.0]);
        assert_eq!(buffer.get::<f64>(), [1.0, 2.0, 3.0]);
        buffer.resize::<bf16>(5).fill(bf16::ONE);
        assert_eq!(buffer.get_mut::<bf16>(), [bf16::ONE; 5]);
        assert!(buffer.resize::<f32>(0).is_empty() && buffer.get::<f32>().is_empty());
    }
}
