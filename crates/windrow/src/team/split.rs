//! Splitters: data is cut into as many parts as a round has members.
//!
//! A round deals exactly one part to each member. Every function here gives exactly `width` parts, in order, that together are all of the
//! data. (`chunks_mut` may give fewer parts.) Parts may be empty. Nothing is allocated.
//!
//! | splitter | cuts | for |
//! |---|---|---|
//! | [`even`] | into equal numbers of items | items that cost the same |
//! | [`blocks`] | at multiples of a number of items | tiles, records, vector registers |
//! | [`lines`] | at cache lines | short rounds that write |
//! | [`weighted`] | into equal weights | items of different cost |
//! | [`lower_triangle`], [`upper_triangle`] | into equal areas | Cholesky, pairs of items |
//! | [`at_each`] | at given indices | cuts that the program chooses |
//! | [`range`] | the part of one member in [`even`] | data that is accessed by index |
//!
//! These types can be cut ([`Cut`]): slices, ranges, pairs of such types (both at the same indices), and views that a program defines. With
//! the feature `ndarray` also views of ndarray: by rows, or by columns (`Columns`).
//!
//! ```
//! use windrow::team::split;
//!
//! let mut items = [1, 2, 3, 4, 5, 6, 7, 8];
//! let (head, tail) = items.split_first_mut().unwrap();
//! for part in split::even(tail, 3) {
//!     part.iter_mut().for_each(|item| *item *= *head + 1);
//! }
//! let lengths: Vec<usize> = split::even(&items[1..], 3).map(<[i32]>::len).collect();
//! assert_eq!(lengths, [3, 2, 2]);
//! ```
//!
//! # Splits that agree
//! [`even`], [`range`] and [`blocks`] cut `n` rows at the same rows, whatever holds them: `even(rows, width)` of a range, `range(n, width, member)`,
//! `even(&mut rows[..], width)` of a slice, and `blocks(&mut cells[..], width, columns)` of their cells. So parts of two of them may be
//! zipped. A pair is cut at one place by any splitter. [`lines`] agrees with nothing: its cuts depend on the address.
//!
//! ```
//! use windrow::team::split;
//!
//! let (rows, columns, width) = (7, 3, 2);
//! let mut cells = vec![0; rows * columns];
//! for (rows, cells) in split::even(0..rows, width).zip(split::blocks(&mut cells[..], width, columns)) {
//!     assert_eq!(cells.len(), rows.len() * columns);
//! }
//! ```
//!
//! # Panics
//! All functions panic if `width` is 0.

use std::ops::Range;

use windrow_sync::Pad;

#[cfg(feature = "ndarray")]
mod arrays;

#[cfg(feature = "ndarray")]
pub use arrays::{Columns, ViewMut, ViewRef, columns};

/// Data that can be cut in two between any two of its items.
///
/// ```
/// use windrow::team::split::{self, Cut};
///
/// /// Samples of several channels, interleaved: cut between samples only.
/// struct Samples<'x> { values: &'x mut [f32], channels: usize }
///
/// impl Cut for Samples<'_> {
///     fn items(&self) -> usize {
///         self.values.len() / self.channels
///     }
///     fn cut(self, at: usize) -> (Self, Self) {
///         let Samples { values, channels } = self;
///         let (before, after) = values.split_at_mut(at * channels);
///         (Samples { values: before, channels }, Samples { values: after, channels })
///     }
/// }
///
/// let mut values = [0.0; 10];
/// let parts = split::even(Samples { values: &mut values, channels: 2 }, 2);
/// assert!(parts.map(|part| part.values.len()).eq([6, 4]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be cut into parts",
    note = "to cut a vector or an array, pass a slice of it: `&mut items[..]`"
)]
pub trait Cut: Sized {
    /// The number of items.
    ///
    /// ```
    /// use windrow::team::split::Cut;
    ///
    /// assert_eq!((3..8).items(), 5);
    /// assert_eq!((&["a", "b"][..], 3..5).items(), 2);
    /// ```
    fn items(&self) -> usize;

    /// The items before `at`, and the others.
    ///
    /// ```
    /// use windrow::team::split::Cut;
    ///
    /// let (front, back) = (&["a", "b", "c"][..], 10..13).cut(1);
    /// assert_eq!(front, (&["a"][..], 10..11));
    /// assert_eq!(back, (&["b", "c"][..], 11..13));
    /// ```
    ///
    /// # Panics
    /// If there are fewer than `at` items.
    fn cut(self, at: usize) -> (Self, Self);
}

impl<T> Cut for &[T] {
    fn items(&self) -> usize {
        self.len()
    }

    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl<T> Cut for &mut [T] {
    fn items(&self) -> usize {
        self.len()
    }

    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

impl Cut for Range<usize> {
    fn items(&self) -> usize {
        self.len()
    }

    fn cut(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len(), "cannot cut {self:?} at item {at}: its length is {}", self.len());
        let middle = self.start + at;
        (self.start..middle, middle..self.end)
    }
}

/// Cuts both at the same index. Panics if they have different numbers of items.
impl<A: Cut, B: Cut> Cut for (A, B) {
    fn items(&self) -> usize {
        let (a, b) = (self.0.items(), self.1.items());
        assert!(a == b, "parts of a tuple that are cut together must have the same number of items, not {a} and {b}");
        a
    }

    fn cut(self, at: usize) -> (Self, Self) {
        let ((a, after_a), (b, after_b)) = (self.0.cut(at), self.1.cut(at));
        ((a, b), (after_a, after_b))
    }
}

/// Parts that end at `end(member)`, except the last.
struct Parts<C, F> {
    rest: Option<C>,
    /// The start of the rest.
    from: usize,
    member: usize,
    width: usize,
    end: F,
}

/// `end(m)` is where member `m - 1` ends and member `m` begins. It is called in order, and must not decrease.
#[track_caller]
fn parts<C: Cut, F: FnMut(usize) -> usize>(data: C, width: usize, end: F) -> Parts<C, F> {
    assert!(width > 0, "parts for 0 members");
    Parts { rest: Some(data), from: 0, member: 0, width, end }
}

impl<C: Cut, F: FnMut(usize) -> usize> Iterator for Parts<C, F> {
    type Item = C;

    fn next(&mut self) -> Option<C> {
        let rest = self.rest.take()?;
        self.member += 1;
        if self.member == self.width {
            return Some(rest);
        }
        let end = (self.end)(self.member);
        let (part, rest) = rest.cut(end - self.from);
        (self.rest, self.from) = (Some(rest), end);
        Some(part)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.width - self.member;
        (left, Some(left))
    }
}

impl<C: Cut, F: FnMut(usize) -> usize> ExactSizeIterator for Parts<C, F> {}

/// The start of member `member` of an even split.
fn evenly(n: usize, width: usize, member: usize) -> usize {
    n / width * member + member.min(n % width)
}

/// `amount * member / width`, without a product that is too large.
fn share(amount: u128, width: usize, member: usize) -> u128 {
    let (width, member) = (width as u128, member as u128);
    amount / width * member + amount % width * member / width
}

/// Parts whose numbers of items differ by 1 at most, the larger parts first. With fewer items than members, the last parts are empty.
/// (The static schedule of OpenMP.)
///
/// ```
/// use windrow::team::split;
/// let mut items = [0; 5];
/// assert!(split::even(&mut items[..], 2).map(|part| part.len()).eq([3, 2]));
/// // Both at the same index:
/// let (x, mut y) = ([1, 2, 3, 4, 5], [10, 20, 30, 40, 50]);
/// for (x, y) in split::even((&x[..], &mut y[..]), 2) {
///     y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
/// }
/// assert_eq!(y, [11, 22, 33, 44, 55]);
/// ```
#[track_caller]
pub fn even<C: Cut>(data: C, width: usize) -> impl ExactSizeIterator<Item = C> {
    let n = data.items();
    parts(data, width, move |member| evenly(n, width, member))
}

/// The part of one member in an [`even`] split of `0..n`: for data that is shared, or accessed by index.
///
/// ```
/// use windrow::team::split;
/// assert_eq!(split::range(5, 2, 0), 0..3);
/// assert_eq!(split::range(5, 2, 1), 3..5);
/// ```
///
/// # Panics
/// If `member` is not less than `width`.
#[track_caller]
pub fn range(n: usize, width: usize, member: usize) -> Range<usize> {
    assert!(member < width, "member {member} of {width}");
    evenly(n, width, member)..evenly(n, width, member + 1)
}

/// Parts that begin at multiples of `block` items. Their numbers of blocks differ by one at most, the larger parts first. The last
/// block may be smaller. The blocks are cut as [`even`] cuts their number.
///
/// ```
/// use windrow::team::split;
/// let mut items = [0; 21];
/// assert!(split::blocks(&mut items[..], 2, 8).map(|part| part.len()).eq([16, 5]));
/// ```
///
/// # Panics
/// If `block` is 0.
#[track_caller]
pub fn blocks<C: Cut>(data: C, width: usize, block: usize) -> impl ExactSizeIterator<Item = C> {
    assert!(block > 0, "a block has items");
    let n = data.items();
    parts(data, width, move |member| evenly(n.div_ceil(block), width, member).saturating_mul(block).min(n))
}

/// An even split, with each cut moved up to the next cache line ([`Pad`]'s 128 bytes): members that write share no
/// lines. An item across two lines belongs to the part before the cut. With less than a line for each member, the
/// last parts are empty.
///
/// ```
/// use windrow::team::split;
/// let mut items = [0_u64; 1000];
/// let begins: Vec<usize> = split::lines(&mut items, 4).map(|part| part.as_ptr().addr() % 128).collect();
/// assert_eq!(begins[1..], [0, 0, 0]);
/// ```
#[track_caller]
pub fn lines<T>(data: &mut [T], width: usize) -> impl ExactSizeIterator<Item = &mut [T]> {
    let (n, size, start) = (data.len(), size_of::<T>(), data.as_ptr().addr());
    parts(data, width, move |member| {
        let even = evenly(n, width, member);
        if size == 0 {
            return even;
        }
        let line = (start + even * size).next_multiple_of(align_of::<Pad<()>>());
        (line - start).div_ceil(size).min(n)
    })
}

/// Parts of nearly equal weight, where item `i` weighs `weight(i)`. Each cut is the one nearest to its share of the sum. So the
/// weight of a part differs from the ideal by the weight of one item at most. Any part may be empty. If all weights are 0,
/// the first part has all items.
///
/// `weight` is called for every item before the first part is given, and again, in order, while parts are given. It should be cheap, and
/// return the same weight for an item each time. (The heuristic H2 of Miguet and Pierson, "Heuristics for 1D rectilinear
/// partitioning", 1997. Finding the best cuts takes more passes than it saves in a round.)
///
/// ```
/// use windrow::team::split;
/// let mut lines = ["a", "b", "c", "d e f g h i", "j"];
/// let weights = lines.map(|line| line.len() as u64);
/// assert!(split::weighted(&mut lines[..], 2, |i| weights[i]).map(|part| part.len()).eq([3, 2]));
/// ```
#[track_caller]
pub fn weighted<C: Cut>(data: C, width: usize, weight: impl Fn(usize) -> u64) -> impl ExactSizeIterator<Item = C> {
    let n = data.items();
    let weight = move |item| u128::from(weight(item));
    let twice = 2 * (0..n).map(&weight).sum::<u128>();
    let (mut item, mut before) = (0, 0);
    parts(data, width, move |member| {
        let target = share(twice, width, member);
        while item < n {
            let weight = weight(item);
            // A cut after the item would be farther from the target than a cut before it.
            if 2 * before + weight > target {
                break;
            }
            before += weight;
            item += 1;
        }
        item
    })
}

/// Rows of a lower triangle with its diagonal, in parts of nearly equal area: item `i` of `n` weighs `i + 1`. The result is that of
/// [`weighted`], but each cut is computed directly, by a square root.
///
/// ```
/// use windrow::team::split;
/// assert!(split::lower_triangle(0..10, 2).eq([0..7, 7..10]));
/// ```
#[track_caller]
pub fn lower_triangle<C: Cut>(rows: C, width: usize) -> impl ExactSizeIterator<Item = C> {
    let n = rows.items();
    parts(rows, width, move |member| rows_of_area(n, width, member))
}

/// Rows of an upper triangle with its diagonal, in parts of nearly equal area: item `i` of `n` weighs `n - i`. The mirror image of
/// [`lower_triangle`].
///
/// ```
/// use windrow::team::split;
/// assert!(split::upper_triangle(0..10, 2).eq([0..3, 3..10]));
/// ```
#[track_caller]
pub fn upper_triangle<C: Cut>(rows: C, width: usize) -> impl ExactSizeIterator<Item = C> {
    let n = rows.items();
    parts(rows, width, move |member| n - rows_of_area(n, width, width - member))
}

/// The number of rows at the top of a lower triangle whose area is nearest to `member / width` of all, at most `n`.
///
/// `r` rows have `r (r + 1) / 2` items. One more row is nearer to an area A if the mean of both areas, `(r + 1)² / 2`, is not more
/// than A. So r is the root of 2A, rounded down.
fn rows_of_area(n: usize, width: usize, member: usize) -> usize {
    let twice = n as u128 * (n as u128 + 1);
    share(twice, width, member).isqrt() as usize
}

/// Parts that end at each of `cuts`, and the rest: one part more than cuts.
///
/// ```
/// use windrow::team::split;
/// let mut items = [0; 9];
/// assert!(split::at_each(&mut items[..], [2, 2, 7]).map(|part| part.len()).eq([2, 0, 5, 2]));
/// ```
///
/// # Panics
/// When a part is requested whose cut lies before the previous cut, or after the last item.
pub fn at_each<C: Cut>(
    data: C,
    cuts: impl IntoIterator<Item = usize, IntoIter: ExactSizeIterator>,
) -> impl ExactSizeIterator<Item = C> {
    let (n, mut cuts, mut from) = (data.items(), cuts.into_iter(), 0);
    parts(data, cuts.len() + 1, move |member| {
        let at = cuts.next().expect("the iterator yields as many cuts as its length states");
        assert!(at >= from, "cut {member}, at item {at}, lies before cut {}, at item {from}", member - 1);
        assert!(at <= n, "cut {member}, at item {at}, lies beyond the end, at item {n}");
        from = at;
        at
    })
}
