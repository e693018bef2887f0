//! Splitters: parts are all of the data, in order, as many as there are members, and of the promised sizes.

use std::ops::Range;

use proptest::prelude::*;
use windrow::team::split::{self, Cut};
use windrow_testkit::message_of;

/// Collects parts, and sees that they announce their number all the way.
fn collected<P>(mut parts: impl ExactSizeIterator<Item = P>, width: usize) -> Vec<P> {
    let mut all = Vec::new();
    for given in 0..width {
        assert_eq!(parts.len(), width - given);
        all.extend(parts.next());
    }
    assert_eq!((parts.len(), all.len()), (0, width));
    assert!(parts.next().is_none() && parts.next().is_none());
    all
}

/// Ranges that follow each other from 0 to `n`.
fn follow(parts: &[Range<usize>], n: usize) {
    let end = parts.iter().fold(0, |from, part| {
        assert!(part.start == from && part.end >= from, "{parts:?}");
        part.end
    });
    assert_eq!(end, n, "{parts:?}");
}

/// Every part weighs as much as the ideal, give or take the heaviest item.
fn balanced(parts: &[Range<usize>], weight: impl Fn(usize) -> u64) {
    let n = parts.last().unwrap().end;
    let sum = |range: Range<usize>| range.map(|item| i128::from(weight(item))).sum::<i128>();
    let (total, heaviest) = (sum(0..n), (0..n).map(&weight).max().unwrap_or(0));
    let width = parts.len() as i128;
    for part in parts {
        let off = sum(part.clone()) * width - total;
        assert!(off.abs() <= i128::from(heaviest) * width, "{part:?} of {parts:?}");
    }
}

proptest! {
    #[test]
    fn even_parts_differ_by_one(n in 0..200usize, width in 1..20usize) {
        let parts = collected(split::even(0..n, width), width);
        follow(&parts, n);
        prop_assert!(parts.windows(2).all(|pair| pair[0].len() >= pair[1].len()));
        prop_assert!(parts[0].len() - parts[width - 1].len() <= 1);
        let ranges: Vec<_> = (0..width).map(|member| split::range(n, width, member)).collect();
        prop_assert_eq!(ranges, parts);
    }

    /// Rows, and the cells of rows, are cut at the same rows.
    #[test]
    fn blocks_are_cut_where_their_rows_are(rows in 0..60usize, columns in 1..9usize, width in 1..12usize) {
        let mut cells: Vec<usize> = (0..rows * columns).map(|cell| cell / columns).collect();
        let blocks = collected(split::blocks(&mut cells[..], width, columns), width);
        for ((member, range), block) in collected(split::even(0..rows, width), width).into_iter().enumerate().zip(blocks) {
            prop_assert_eq!(&range, &split::range(rows, width, member));
            prop_assert!(block.iter().copied().eq(range.flat_map(|row| std::iter::repeat_n(row, columns))));
        }
    }

    #[test]
    fn slices_are_cut_as_ranges_are(n in 0..100usize, width in 1..10usize) {
        let mut items: Vec<usize> = (0..n).collect();
        let ranges = collected(split::even(0..n, width), width);
        for (part, range) in collected(split::even(&items[..], width), width).into_iter().zip(&ranges) {
            prop_assert!(part.iter().copied().eq(range.clone()));
        }
        for (part, range) in collected(split::even(&mut items[..], width), width).into_iter().zip(&ranges) {
            prop_assert!(part.iter().copied().eq(range.clone()));
        }
        for ((a, b), range) in split::even((0..n, &mut items[..]), width).zip(&ranges) {
            prop_assert_eq!(&a, range);
            prop_assert!(b.iter().copied().eq(a));
        }
    }

    #[test]
    fn blocks_stay_whole(n in 0..300usize, width in 1..12usize, block in 1..40usize) {
        let parts = collected(split::blocks(0..n, width, block), width);
        follow(&parts, n);
        prop_assert!(parts.iter().all(|part| part.start % block == 0 || part.start == n));
        let blocks: Vec<_> = parts.iter().map(|part| part.len().div_ceil(block)).collect();
        prop_assert!(blocks.windows(2).all(|pair| pair[0] >= pair[1]));
        prop_assert!(blocks[0] - blocks[width - 1] <= 1);
        prop_assert_eq!(collected(split::blocks(0..n, width, 1), width), collected(split::even(0..n, width), width));
    }

    #[test]
    fn weights_are_shared_within_one_item(
        weights in prop::collection::vec(prop_oneof![Just(0), 0..10u64, 0..1000u64], 0..60), width in 1..12usize,
    ) {
        let parts = collected(split::weighted(0..weights.len(), width, |item| weights[item]), width);
        follow(&parts, weights.len());
        balanced(&parts, |item| weights[item]);
    }

    #[test]
    fn each_cut_is_the_nearest(weights in prop::collection::vec(0..50u64, 0..40), width in 1..8usize) {
        let n = weights.len();
        let parts = collected(split::weighted(0..n, width, |item| weights[item]), width);
        let before = |cut: usize| weights[..cut].iter().sum::<u64>();
        for (member, part) in parts.iter().enumerate() {
            // In units of one `width`-th.
            let off = |cut: usize| (before(cut) * width as u64).abs_diff(before(n) * member as u64);
            prop_assert_eq!(off(part.start), (0..=n).map(off).min().unwrap());
        }
    }

    #[test]
    fn heaviest_weights_do_not_wrap(n in 0..9usize, width in 1..6usize) {
        let parts = collected(split::weighted(0..n, width, |_| u64::MAX), width);
        follow(&parts, n);
        prop_assert_eq!(parts, collected(split::weighted(0..n, width, |_| 1), width));
    }

    #[test]
    fn triangles_are_weights_that_grow(n in 0..200usize, width in 1..12usize) {
        let lower = collected(split::lower_triangle(0..n, width), width);
        prop_assert_eq!(&lower, &collected(split::weighted(0..n, width, |row| row as u64 + 1), width));
        balanced(&lower, |row| row as u64 + 1);
        let upper = collected(split::upper_triangle(0..n, width), width);
        follow(&upper, n);
        balanced(&upper, |row| (n - row) as u64);
        prop_assert!(upper.iter().rev().map(|part| n - part.end..n - part.start).eq(lower));
    }

    #[test]
    fn cuts_are_where_they_were_asked(mut cuts in prop::collection::vec(0..50usize, 0..8), extra in 0..9usize) {
        cuts.sort_unstable();
        let n = cuts.last().map_or(0, |last| last + extra);
        let parts = collected(split::at_each(0..n, cuts.iter().copied()), cuts.len() + 1);
        follow(&parts, n);
        prop_assert!(parts.iter().skip(1).map(|part| part.start).eq(cuts));
    }

    #[test]
    fn lines_belong_to_one_member(n in 0..500usize, skip in 0..40usize, width in 1..10usize) {
        check_lines(&mut vec![0u64; n + skip][skip..], width)?;
        check_lines(&mut vec![[0u8; 24]; n + skip][skip..], width)?;
        check_lines(&mut vec![[0u8; 300]; n + skip][skip..], width)?;
        check_lines(&mut vec![0u8; n + skip][skip..], width)?;
        let mut units = vec![(); n];
        let parts = collected(split::lines(&mut units, width), width);
        prop_assert!(parts.iter().map(|part| part.len()).eq(split::even(0..n, width).map(|part| part.len())));
    }
}

/// Parts are all, no line has the beginnings of items of two members, and no cut is farther from the even one than a line and an item.
fn check_lines<T>(items: &mut [T], width: usize) -> Result<(), TestCaseError> {
    let (n, from) = (items.len(), items.as_ptr().addr());
    let lengths: Vec<usize> = collected(split::lines(items, width), width).iter().map(|part| part.len()).collect();
    prop_assert_eq!(lengths.iter().sum::<usize>(), n);
    let line = |item: usize| (from + item * size_of::<T>()) / 128;
    let mut cut = 0;
    for (length, even) in lengths.iter().zip(split::even(0..n, width)) {
        prop_assert!(cut == 0 || cut == n || line(cut - 1) < line(cut), "{:?}", lengths);
        prop_assert!(cut >= even.start && (cut - even.start) * size_of::<T>() < 128 + size_of::<T>(), "{:?}", lengths);
        cut += length;
    }
    Ok(())
}

#[test]
fn less_items_than_members_leave_the_last_empty() {
    for n in 0..5 {
        let lengths: Vec<_> = split::even(0..n, 5).map(|part| part.len()).collect();
        assert_eq!(lengths, [vec![1; n], vec![0; 5 - n]].concat());
    }
    assert!(split::blocks(0..10, 4, 8).eq([0..8, 8..10, 10..10, 10..10]));
    assert!(split::lines(&mut [0u8; 3], 300).skip(2).all(|part| part.is_empty()));
}

#[test]
fn nothing_weighs_nothing() {
    assert!(split::weighted(0..5, 3, |_| 0).eq([0..5, 5..5, 5..5]));
    assert!(split::weighted(0..0, 2, |_| unreachable!()).eq([0..0, 0..0]));
    assert!(split::lower_triangle(0..0, 2).eq([0..0, 0..0]));
}

#[test]
fn weights_that_change_lose_nothing() {
    let state = std::cell::Cell::new(1u64);
    let weight = |_| {
        state.set(state.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        state.get() >> 50
    };
    for width in 1..50 {
        follow(&collected(split::weighted(0..40, width, weight), width), 40);
    }
}

#[test]
fn the_largest_numbers_do_not_wrap() {
    let n = usize::MAX;
    for width in [1, 2, 3, 7] {
        let parts = collected(split::even(0..n, width), width);
        follow(&parts, n);
        assert!(parts[0].len() - parts[width - 1].len() <= 1);
        follow(&collected(split::blocks(0..n, width, 1 << 40), width), n);
        follow(&collected(split::upper_triangle(0..n, width), width), n);
        let lower = collected(split::lower_triangle(0..n, width), width);
        follow(&lower, n);
        for (member, part) in lower.iter().enumerate() {
            let ideal = (member as f64 / width as f64).sqrt() * n as f64;
            assert!((part.start as f64 - ideal).abs() <= ideal * 1e-15 + 1.0, "{lower:?}");
        }
    }
    assert_eq!(split::range(n, n, n - 1), n - 1..n);
    assert!(split::even(5..n, 2).eq([5..n / 2 + 3, n / 2 + 3..n]));
}

#[test]
fn a_range_may_be_empty_or_start_anywhere() {
    assert!(split::even(10..15, 2).eq([10..13, 13..15]));
    #[expect(clippy::reversed_empty_ranges, reason = "a range without items, too")]
    let nothing = 7..3;
    assert!(split::even(nothing, 2).all(|part| part.is_empty()));
    assert_eq!(message_of(|| Cut::cut(10..15, 6)), "cannot cut 10..15 at item 6: its length is 5");
}

#[test]
fn what_cannot_be_cut_panics_by_name() {
    let no_member = "parts for 0 members";
    assert_eq!(message_of(|| split::even(0..3, 0).len()), no_member);
    assert_eq!(message_of(|| split::blocks(0..3, 0, 2).len()), no_member);
    assert_eq!(message_of(|| split::lines(&mut [0], 0).len()), no_member);
    assert_eq!(message_of(|| split::weighted(0..3, 0, |_| 1).len()), no_member);
    assert_eq!(message_of(|| split::lower_triangle(0..3, 0).len()), no_member);
    assert_eq!(message_of(|| split::upper_triangle(0..3, 0).len()), no_member);
    assert_eq!(message_of(|| split::blocks(0..3, 1, 0).len()), "a block has items");
    assert_eq!(message_of(|| split::range(3, 2, 2)), "member 2 of 2");
    assert_eq!(message_of(|| split::at_each(0..9, [4, 3]).count()), "cut 2, at item 3, lies before cut 1, at item 4");
    let beyond = "cut 2, at item 10, lies beyond the end, at item 9";
    assert_eq!(message_of(|| split::at_each(0..9, [4, 10]).count()), beyond);
    let unequal = "parts of a tuple that are cut together must have the same number of items, not 2 and 3";
    assert_eq!(message_of(|| split::even((0..2, 0..3), 2).len()), unequal);
}

#[test]
fn a_weight_that_panics_ends_the_parts() {
    let mut parts = split::weighted(0..4, 2, {
        let asked = std::cell::Cell::new(0);
        move |_| {
            asked.set(asked.get() + 1);
            assert!(asked.get() < 6, "enough");
            1
        }
    });
    assert_eq!(message_of(|| parts.next()), "enough");
    assert!(parts.next().is_none());
}

#[cfg(feature = "ndarray")]
mod arrays {
    use ndarray::Array2;
    use windrow::team::Own;
    use windrow::team::split::{Columns, ViewMut, ViewRef};

    use super::*;

    proptest! {
        #[test]
        fn matrices_are_cut_both_ways(rows in 0..9usize, columns in 0..9usize, width in 1..6usize) {
            let mut cells = Array2::zeros((rows, columns));
            for (member, mut part) in collected(split::even(cells.view_mut(), width), width).into_iter().enumerate() {
                prop_assert_eq!(part.dim(), (split::range(rows, width, member).len(), columns));
                part.fill(10 * (member + 1));
            }
            for (member, mut part) in collected(split::columns(cells.view_mut(), width), width).into_iter().enumerate() {
                prop_assert_eq!(part.dim(), (rows, split::range(columns, width, member).len()));
                part += member;
            }
            let member = |n, at| (0..width).find(|&member| split::range(n, width, member).contains(&at)).unwrap();
            let expected = |(row, column)| 10 * (member(rows, row) + 1) + member(columns, column);
            prop_assert!(cells.indexed_iter().all(|(at, &cell)| cell == expected(at)));
            let sizes = split::blocks(Columns(cells.view()), width, 2).map(|part| part.0.dim());
            prop_assert!(sizes.eq(split::blocks(0..columns, width, 2).map(|part| (rows, part.len()))));
        }
    }

    #[test]
    fn views_are_lent_in_rounds() {
        let mut plates = (Array2::from_elem((6, 5), 1), Array2::zeros((6, 5)));
        windrow::team(&mut plates).run(|member| {
            let done = member.rounds::<ViewRef<i32>, (Own<Range<usize>>, ViewMut<i32>)>(
                0..3,
                |(now, next), _, deal| {
                    deal.parts(split::even((0..6, next.view_mut()), deal.width()));
                    now.view()
                },
                |step, now, (rows, mut part)| {
                    let step = step as i32;
                    rows.zip(part.rows_mut()).for_each(|(at, mut row)| row += &(&now.row(at) + step));
                },
            );
            done.expect("no member leaves early");
        });
        // 1 in each of three rounds, and the numbers of the rounds.
        assert_eq!(plates.1, Array2::from_elem((6, 5), 6));
    }
}
