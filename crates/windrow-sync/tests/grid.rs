//! Grids compared with vectors of indices: which item of the slice is which cell, after every kind of cut.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use windrow_sync::grid::{Grid, GridRef};

/// The items that the cells should have.
type Oracle = Vec<Vec<usize>>;

fn oracle(rows: usize, columns: usize, stride: usize) -> Oracle {
    (0..rows).map(|row| (0..columns).map(|column| row * stride + column).collect()).collect()
}

/// As many items as fit exactly.
fn span(rows: usize, columns: usize, stride: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
    let most = if cfg!(miri) { 3 } else { 5 };
    let sizes = (0..most).flat_map(move |rows| (0..most).map(move |columns| (rows, columns)));
    sizes.flat_map(|(rows, columns)| (columns..columns + 3).map(move |stride| (rows, columns, stride)))
}

fn random(seed: usize) -> impl FnMut(usize) -> usize {
    let mut state = seed as u64;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    }
}

fn panics<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(|| drop(f()))).expect_err("it should panic");
    payload.downcast_ref::<String>().expect("a message").clone()
}

/// Checks that every accessor shows the cells of `expected`, whose columns are given because it may have no row.
fn same(grid: GridRef<'_, usize>, expected: &Oracle, columns: usize) {
    assert_eq!((grid.rows(), grid.columns()), (expected.len(), columns));
    assert_eq!(grid.rows_ref().len(), expected.len());
    assert!(grid.rows_ref().eq(expected) && grid.rows_ref().rev().eq(expected.iter().rev()));
    for row in 0..expected.len() + 1 {
        for column in 0..columns + 1 {
            assert_eq!(grid.get(row, column), expected.get(row).and_then(|cells| cells.get(column)));
        }
    }
    for (row, cells) in expected.iter().enumerate() {
        assert_eq!(grid.row(row), cells);
        assert!(cells.iter().enumerate().all(|(column, &cell)| grid[(row, column)] == cell));
    }
    for column in 0..columns {
        assert!(grid.column(column).eq(expected.iter().map(|cells| &cells[column])));
    }
}

#[test]
fn cells_are_the_right_items() {
    for (rows, columns, stride) in shapes() {
        for spare in [0, 2] {
            let mut items: Vec<usize> = (0..span(rows, columns, stride) + spare).collect();
            let expected = oracle(rows, columns, stride);
            same(GridRef::new(&items, rows, columns, stride).unwrap(), &expected, columns);
            let grid = Grid::new(&mut items, rows, columns, stride).unwrap();
            assert_eq!(grid.stride(), if columns == 0 { 0 } else { stride });
            same(grid.as_ref(), &expected, columns);
            assert!(grid.rows_ref().eq(&expected));
            assert!((0..columns).all(|column| grid.column(column).eq(grid.as_ref().column(column))));
            assert_eq!(format!("{grid:?}"), format!("{expected:?}"));
            same(grid.into_ref(), &expected, columns);
        }
    }
}

#[test]
fn writes_reach_their_items_and_no_others() {
    for (rows, columns, stride) in shapes().filter(|shape| shape.0 * shape.1 > 0) {
        let n = span(rows, columns, stride) + 1;
        for (row, cells) in oracle(rows, columns, stride).iter().enumerate() {
            for (column, &cell) in cells.iter().enumerate() {
                let mut items: Vec<usize> = vec![0; n];
                let mut grid = Grid::new(&mut items, rows, columns, stride).unwrap();
                grid.row_mut(row)[column] += 1;
                grid[(row, column)] += 10;
                *grid.get_mut(row, column).unwrap() += 100;
                assert!(grid.get_mut(row, columns).is_none() && grid.get_mut(rows, column).is_none());
                grid.rows_mut().nth(row).unwrap()[column] += 1000;
                grid.rows_mut().rev().nth(rows - 1 - row).unwrap()[column] += 10_000;
                let mut expected = vec![0; n];
                expected[cell] = 11_111;
                assert_eq!(items, expected, "{rows} x {columns}, stride {stride}, cell ({row}, {column})");
            }
        }
    }
}

#[test]
fn rows_of_a_grid_that_is_given_up_live_as_long_as_the_slice() {
    let mut items = [0; 6];
    let mut rows: Vec<&mut [i32]> = {
        let grid = Grid::new(&mut items, 3, 2, 2).unwrap();
        grid.into_iter().collect()
    };
    let mut first = rows.remove(0);
    first[0] = 1;
    rows[1][1] = 6;
    std::mem::swap(&mut first, &mut rows[0]);
    first[0] = 3;
    assert_eq!(items, [1, 0, 3, 0, 0, 6]);
}

/// Cuts at random, and writes a number to all cells of every part, once all parts exist.
fn shred(seed: usize, rows: usize, columns: usize, stride: usize) {
    let mut next = random(seed);
    let n = span(rows, columns, stride) + 2;
    let mut items = vec![0; n];
    let mut expected = items.clone();
    let mut parts =
        vec![(Grid::new(&mut items, rows, columns, stride).unwrap(), oracle(rows, columns, stride), columns)];
    for _ in 0..6 {
        let (grid, mut above, columns) = parts.swap_remove(next(parts.len()));
        if next(2) == 0 {
            let at = next(grid.rows() + 1);
            let below = above.split_off(at);
            let (top, bottom) = grid.split_rows_at(at);
            parts.extend([(top, above, columns), (bottom, below, columns)]);
        } else {
            let at = next(grid.columns() + 1);
            let right = above.iter_mut().map(|row| row.split_off(at)).collect();
            let (west, east) = grid.split_columns_at(at);
            parts.extend([(west, above, at), (east, right, columns - at)]);
        }
    }
    // Together the parts hold every cell once.
    let cells: Vec<usize> = parts.iter().flat_map(|part| part.1.iter().flatten().copied()).collect();
    assert_eq!(cells.len(), rows * columns);
    assert_eq!(cells.iter().collect::<BTreeSet<_>>().len(), rows * columns);
    // All parts are written to in turn, so that no part's access is invalidated by another's write.
    for round in 0..2 {
        for (number, (grid, cells, columns)) in parts.iter_mut().enumerate() {
            assert_eq!((grid.rows(), grid.columns()), (cells.len(), *columns));
            for row in grid.rows_mut() {
                row.iter_mut().for_each(|cell| *cell += 100 * round + number + 1);
            }
            cells.iter().flatten().for_each(|&cell| expected[cell] += 100 * round + number + 1);
        }
    }
    drop(parts);
    assert_eq!(items, expected);
}

#[test]
fn parts_hold_every_cell_once() {
    for seed in 0..if cfg!(miri) { 20 } else { 2000 } {
        let mut next = random(seed);
        let (rows, columns) = (next(6), next(6));
        let stride = columns + next(3);
        shred(seed, rows, columns, stride);
    }
}

#[test]
fn blocks_are_what_two_cuts_leave() {
    for (rows, columns, stride) in shapes().filter(|shape| shape.2 <= shape.1 + 1) {
        let mut items: Vec<usize> = (0..span(rows, columns, stride)).collect();
        for (top, bottom) in (0..=rows).flat_map(|bottom| (0..=bottom).map(move |top| (top, bottom))) {
            for (left, right) in (0..=columns).flat_map(|right| (0..=right).map(move |left| (left, right))) {
                let all = oracle(rows, columns, stride);
                let expected = all[top..bottom].iter().map(|cells| cells[left..right].to_vec()).collect();
                let mut grid = Grid::new(&mut items, rows, columns, stride).unwrap();
                same(grid.as_ref().block(top..bottom, left..right), &expected, right - left);
                same(grid.reborrow().block(top..bottom, left..right).into_ref(), &expected, right - left);
            }
        }
    }
}

#[test]
fn shared_grids_cut_as_exclusive_ones_do() {
    let items: Vec<usize> = (0..12).collect();
    let grid = GridRef::new(&items, 3, 3, 4).unwrap();
    let (left, right) = grid.split_columns_at(2);
    same(left, &vec![vec![0, 1], vec![4, 5], vec![8, 9]], 2);
    same(right, &vec![vec![2], vec![6], vec![10]], 1);
    let (top, bottom) = right.split_rows_at(1);
    same(top, &vec![vec![2]], 1);
    same(bottom, &vec![vec![6], vec![10]], 1);
    assert!(grid.into_iter().flatten().eq(&[0, 1, 2, 4, 5, 6, 8, 9, 10]));
}

#[test]
fn rows_are_swapped() {
    for (a, b) in [(0, 2), (2, 0), (1, 1)] {
        let mut items: Vec<usize> = (0..12).collect();
        let mut expected = oracle(3, 3, 4);
        expected.swap(a, b);
        let mut grid = Grid::new(&mut items, 3, 3, 4).unwrap();
        grid.swap_rows(a, b);
        same(grid.as_ref(), &expected, 3);
        assert_eq!((items[3], items[7], items[11]), (3, 7, 11), "what lies between rows stays");
    }
}

#[test]
fn nothing_is_a_grid_too() {
    let mut none: [String; 0] = [];
    for (rows, columns, stride) in [(0, 0, 0), (0, 5, 7), (5, 0, 0), (5, 0, 3), (usize::MAX, 0, 9), (0, 5, usize::MAX)]
    {
        let grid = Grid::new(&mut none, rows, columns, stride).unwrap();
        assert_eq!((grid.rows(), grid.columns()), (rows, columns));
        let (top, bottom) = grid.split_rows_at(rows);
        assert_eq!((top.rows(), bottom.rows()), (rows, 0));
        let (left, right) = bottom.split_columns_at(columns);
        assert_eq!((left.columns(), right.columns()), (columns, 0));
        assert!(top.rows_ref().take(3).all(<[String]>::is_empty));
    }
}

#[test]
fn items_without_size_have_room_for_all() {
    let mut items = vec![(); usize::MAX];
    let grid = Grid::new(&mut items, usize::MAX / 8, 4, 8).unwrap();
    let (mut left, mut right) = grid.split_columns_at(3);
    assert_eq!((left.row(usize::MAX / 8 - 1).len(), right.row_mut(0).len()), (3, 1));
    left.row_mut(5).fill(());
    assert_eq!(left.rows_mut().next_back().map(|row| row.len()), Some(3));
    assert!(Grid::new(&mut items, 2, usize::MAX, usize::MAX).is_err());
}

#[test]
fn what_does_not_fit_is_named() {
    let mut items = [0; 11];
    let wrong = |rows, columns, stride| GridRef::new(&[0; 11], rows, columns, stride).unwrap_err().to_string();
    assert_eq!(
        wrong(3, 4, 4),
        "a grid of 3 x 4 with a row stride of 4 does not fit: it spans 12 items, and the slice has 11"
    );
    assert!(wrong(2, 4, 3).ends_with("rows would overlap\n  hint: the stride is at least 4"));
    assert!(wrong(0, 4, 3).contains("overlap"));
    for (rows, columns, stride) in [(usize::MAX, 2, 2), (2, usize::MAX, usize::MAX), (3, 1, usize::MAX)] {
        assert!(wrong(rows, columns, stride).contains(&format!("it spans more than {} items", usize::MAX)));
    }
    let error = Grid::new(&mut items, 3, 4, 4).unwrap_err();
    assert_eq!(error.to_string(), wrong(3, 4, 4));
    assert!(Grid::new(&mut items, 3, 3, 4).is_ok());
}

#[test]
fn what_does_not_exist_panics_by_name() {
    let mut items = [0; 12];
    let mut grid = Grid::new(&mut items, 3, 3, 4).unwrap();
    assert_eq!(panics(|| grid.row(3).len()), "row 3 of a grid of 3 rows");
    assert_eq!(panics(|| grid.row_mut(7).fill(0)), "row 7 of a grid of 3 rows");
    assert_eq!(panics(|| grid.column(3).len()), "column 3 of a grid of 3 columns");
    assert_eq!(panics(|| grid.swap_rows(3, 0)), "rows 3 and 0 of a grid of 3 rows");
    assert_eq!(panics(|| grid.reborrow().split_rows_at(4).0.rows()), "a cut at row 4 of a grid of 3 rows");
    assert_eq!(panics(|| grid.reborrow().split_columns_at(4).0.rows()), "a cut at column 4 of a grid of 3 columns");
    // Items between rows are in the slice, and not in the grid.
    assert!(panics(|| grid[(0, 3)] = 1).contains("index is 3"));
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    for (rows, columns) in [(0..4, 0..1), (2..1, 0..1), (0..1, 0..4), (0..1, 3..2), (4..4, 0..1), (0..1, 4..4)] {
        let message = panics(|| grid.as_ref().block(rows.clone(), columns.clone()).rows());
        assert_eq!(message, format!("a block of rows {rows:?}, columns {columns:?} of a grid of 3 x 3"));
    }
    assert_eq!(items, [0; 12]);
}

#[test]
fn threads_write_to_interleaved_parts() {
    let mut items = vec![0; 40];
    let grid = Grid::new(&mut items, 5, 7, 8).unwrap();
    let (left, right) = grid.split_columns_at(3);
    let (top, bottom) = right.split_rows_at(2);
    let weights = [1, 10, 100];
    let shared = GridRef::new(&weights, 1, 3, 3).unwrap();
    std::thread::scope(|scope| {
        for (number, mut part) in [left, top, bottom].into_iter().enumerate() {
            scope.spawn(move || {
                for row in part.rows_mut() {
                    row.fill(*shared.get(0, number).unwrap());
                }
            });
        }
    });
    let expected = (0..5).flat_map(|row| {
        (0..8).map(move |column| match (row, column) {
            (_, 7) => 0,
            (_, ..3) => 1,
            (..2, _) => 10,
            _ => 100,
        })
    });
    assert!(items.into_iter().eq(expected));
}
