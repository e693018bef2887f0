//! Matrices in the caller's memory: row by row in a slice, optionally with space between the rows.

use std::ops::Range;

use crate::Error;

/// A matrix in a slice: element `(i, j)` is `data[i * stride + j]`. Operations check that it fits.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Elements from the beginning of one row to the beginning of the next; at least `cols`.
    pub stride: usize,
}

/// A [`MatRef`] that can be written.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    /// The elements. Those between rows are never written.
    pub data: &'a mut [T],
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Elements from the beginning of one row to the beginning of the next; at least `cols`.
    pub stride: usize,
}

impl<'a, T> MatRef<'a, T> {
    /// A matrix without space between its rows.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self { data, rows, cols, stride: cols }
    }

    pub(crate) fn check(&self, operand: &'static str) -> Result<(), Error> {
        check(operand, [self.rows, self.cols, self.stride], self.data.len())
    }

    /// Some of the rows, of a matrix that was checked.
    pub(crate) fn part(&self, rows: Range<usize>) -> MatRef<'a, T> {
        MatRef { data: &self.data[span(&rows, self.cols, self.stride)], rows: rows.len(), ..*self }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [T]> {
        let Self { data, rows, cols, stride } = *self;
        // Without columns there are no elements, for any number of rows.
        let rows = if cols == 0 { 0 } else { rows };
        (0..rows).map(move |row| &data[row * stride..][..cols])
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A matrix without space between its rows.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self { data, rows, cols, stride: cols }
    }

    pub(crate) fn check(&self, operand: &'static str) -> Result<(), Error> {
        check(operand, [self.rows, self.cols, self.stride], self.data.len())
    }

    pub(crate) fn part(&mut self, rows: Range<usize>) -> MatMut<'_, T> {
        let Self { cols, stride, .. } = *self;
        MatMut { data: &mut self.data[span(&rows, cols, stride)], rows: rows.len(), cols, stride }
    }

    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        let Self { cols, stride, .. } = *self;
        if cols == 0 { &mut [] } else { &mut self.data[row * stride..][..cols] }
    }
}

/// The elements from the beginning of the first row to the end of the last, in a checked matrix.
fn span(rows: &Range<usize>, cols: usize, stride: usize) -> Range<usize> {
    if rows.is_empty() || cols == 0 { 0..0 } else { rows.start * stride..(rows.end - 1) * stride + cols }
}

fn check(operand: &'static str, [rows, cols, stride]: [usize; 3], len: usize) -> Result<(), Error> {
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let end = (rows - 1).checked_mul(stride).and_then(|last| last.checked_add(cols));
    let why = match end {
        _ if stride < cols => {
            format!("rows of {cols} elements begin every {stride}\nhint: the stride is {cols} at least")
        }
        Some(end) if end <= len => return Ok(()),
        Some(end) => format!("{rows} rows of {cols}, {stride} apart, take {end} elements; there are {len}"),
        None => format!("{rows} rows of {cols}, {stride} apart, take more elements than can be counted"),
    };
    Err(Error::Shape { operand, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_checked_with_their_numbers() {
        let data = [0; 10];
        let view =
            |rows, cols, stride| MatRef { data: &data, rows, cols, stride }.check("a").map_err(|e| e.to_string());
        assert_eq!(view(3, 2, 4), Ok(()));
        assert_eq!(view(3, 3, 4), Err("operand a: 3 rows of 3, 4 apart, take 11 elements; there are 10".to_owned()));
        assert!(view(2, 3, 2).unwrap_err().contains("rows of 3 elements begin every 2"));
        assert!(view(usize::MAX, 1, usize::MAX).unwrap_err().contains("more elements than can be counted"));
        // Without elements, none can be out of place.
        assert_eq!((view(usize::MAX, 0, 0), view(0, usize::MAX, 0)), (Ok(()), Ok(())));
    }

    #[test]
    fn parts_end_with_their_last_row() {
        let mut data: Vec<u8> = (0..10).collect();
        let view = MatRef { data: &data, rows: 3, cols: 2, stride: 4 };
        assert_eq!(view.part(1..3).data, [4, 5, 6, 7, 8, 9]);
        assert_eq!(view.iter().collect::<Vec<_>>(), [[0, 1], [4, 5], [8, 9]]);
        assert_eq!(view.part(3..3).rows, 0);
        let mut view = MatMut { data: &mut data, rows: 3, cols: 2, stride: 4 };
        assert_eq!(view.row(2), [8, 9]);
        assert_eq!(view.part(0..1).data, [0, 1]);
    }
}
