//! Programs that must not compile, each with the error that says so.

/// A chunk cannot outlive its division.
/// ```compile_fail,E0505
/// use windrow_sync::{divide::Division, sources::VecItems};
/// let mut division = Division::new(Items::new(vec![String::from("a")]));
/// let (mut lead, _) = division.lead();
/// let (_, mut chunk) = lead.take(1).unwrap();
/// drop(lead);
/// drop(division);
/// chunk.next();
/// ```
struct AChunkCannotOutliveItsDivision;

/// No second lead while the first lives.
/// ```compile_fail,E0499
/// use windrow_sync::divide::Division;
/// let mut division = Division::new(0..10usize);
/// let (mut first, _) = division.lead();
/// let (mut second, _) = division.lead();
/// first.take(1);
/// second.take(1);
/// ```
struct NoSecondLeadWhileTheFirstLives;

/// A division does not end under its claims.
/// ```compile_fail,E0505
/// use windrow_sync::divide::Division;
/// let mut division = Division::new(0..10usize);
/// let (mut lead, shared) = division.lead();
/// lead.share_evenly(2);
/// let mut claims = shared.claims(1);
/// division.done();
/// claims.next(|_, _| 1, |lo, _| lo);
/// ```
struct ADivisionDoesNotEndUnderItsClaims;

/// Chunks cannot be forged.
/// ```compile_fail,E0133
/// use windrow_sync::divide::{Divide, Span};
/// (0..10usize).chunk(Span { lo: 0, hi: 10, member: 0 });
/// ```
struct ChunksCannotBeForged;

/// Items must be Send.
/// ```compile_fail,E0277
/// use windrow_sync::{divide::Division, sources::VecItems};
/// Division::new(Items::new(vec![std::rc::Rc::new(1)]));
/// ```
struct ItemsMustBeSend;

/// A grid ends with its slice.
/// ```compile_fail,E0597
/// use windrow_sync::grid::Grid;
/// let grid = {
///     let mut items = [1, 2, 3, 4];
///     Grid::new(&mut items, 2, 2, 2).unwrap()
/// };
/// println!("{}", grid.rows());
/// ```
struct AGridEndsWithItsSlice;

/// A grid that was cut is gone.
/// ```compile_fail,E0382
/// use windrow_sync::grid::Grid;
/// let mut items = [1, 2, 3, 4];
/// let mut grid = Grid::new(&mut items, 2, 2, 2).unwrap();
/// let (left, right) = grid.split_columns_at(1);
/// grid.row_mut(0);
/// drop((left, right));
/// ```
struct AGridThatWasCutIsGone;

/// A grid cannot be used while its reborrowed halves live.
/// ```compile_fail,E0499
/// use windrow_sync::grid::Grid;
/// let mut items = [1, 2, 3, 4];
/// let mut grid = Grid::new(&mut items, 2, 2, 2).unwrap();
/// let (left, right) = grid.reborrow().split_columns_at(1);
/// grid.row_mut(0);
/// drop((left, right));
/// ```
struct HalvesThatWereLentOnKeepTheirGrid;

/// A grid cannot be written while it is borrowed shared.
/// ```compile_fail,E0502
/// use windrow_sync::grid::Grid;
/// let mut items = [1, 2, 3, 4];
/// let mut grid = Grid::new(&mut items, 2, 2, 2).unwrap();
/// let row = grid.as_ref().row(0);
/// grid.row_mut(1).fill(0);
/// println!("{row:?}");
/// ```
struct WhoLooksAtAGridKeepsOthersFromWriting;

/// Rows of a borrowed grid end with the borrow.
/// ```compile_fail,E0499
/// use windrow_sync::grid::Grid;
/// let mut items = [1, 2, 3, 4];
/// let mut grid = Grid::new(&mut items, 2, 2, 2).unwrap();
/// let first = grid.rows_mut().next().unwrap();
/// let again = grid.rows_mut().next().unwrap();
/// first.swap_with_slice(again);
/// ```
struct RowsOfABorrowedGridEndWithTheBorrow;

/// A grid is not copied.
/// ```compile_fail,E0599
/// use windrow_sync::grid::Grid;
/// let mut items = [1, 2, 3, 4];
/// let _ = Grid::new(&mut items, 2, 2, 2).unwrap().clone();
/// ```
struct AGridIsNotCopied;

/// A grid of items that are not `Send` stays on its thread.
/// ```compile_fail,E0277
/// use std::rc::Rc;
/// fn sent(_: impl Send) {}
/// sent(windrow_sync::grid::Grid::new(&mut [Rc::new(1)], 1, 1, 1).unwrap());
/// ```
struct AGridOfWhatStaysOnItsThreadStaysOnIt;

/// Shared cells are Sync.
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// fn sent(_: impl Send) {}
/// sent(windrow_sync::grid::GridRef::new(&[Cell::new(1)], 1, 1, 1).unwrap());
/// ```
struct SharedCellsAreSync;

/// No value of a shorter lifetime gets into a grid.
/// ```compile_fail
/// use windrow_sync::grid::Grid;
/// fn shortened<'s>(grid: Grid<'s, &'static str>) -> Grid<'s, &'s str> {
///     grid
/// }
/// ```
struct NothingShorterLivedGetsIntoAGrid;

/// The door stays in its region.
/// ```compile_fail,E0521
/// use windrow_sync::{Spin, gate::Gate};
/// let gate = Gate::new(1);
/// let mut kept = None;
/// gate.region(&|_| (), Spin::NONE, |door| kept = Some(door));
/// ```
struct TheDoorStaysInItsRegion;

/// The door stays on its thread.
/// ```compile_fail,E0277
/// use windrow_sync::{Spin, gate::Gate};
/// let gate = Gate::new(1);
/// gate.region(&|_| (), Spin::NONE, |door| {
///     std::thread::scope(|scope| scope.spawn(|| door.open(2)).join().unwrap())
/// });
/// ```
struct TheDoorStaysOnItsThread;

/// The closure that members run is Sync.
/// ```compile_fail,E0277
/// use windrow_sync::{Spin, gate::Gate};
/// let (gate, count) = (Gate::new(1), std::cell::Cell::new(0));
/// gate.region(&|_| count.set(1), Spin::NONE, |door| door.open(2));
/// ```
struct WhatMembersRunIsSync;

/// A part cannot outlive its round.
/// ```compile_fail,E0499
/// use windrow_sync::{Spin, rounds::{Rounds, Turn}};
/// let mut data = [1];
/// let mut rounds = Rounds::sole(&mut data);
/// let mut seat = rounds.only();
/// let Ok(Turn::Lead(lead)) = seat.arrive(Spin::NONE) else { return };
/// let ((), part) = lead.round::<(), &mut [i32]>(|data, deal| deal.part(&mut data[..]));
/// drop(seat.arrive(Spin::NONE));
/// part[0] = 2;
/// ```
struct APartCannotOutliveItsRound;

/// A leader cannot lend a value on its stack.
/// ```compile_fail,E0597
/// use windrow_sync::{Spin, rounds::{Rounds, Turn}};
/// let mut rounds = Rounds::sole(Box::leak(Box::new(())));
/// let mut seat = rounds.only();
/// let Ok(Turn::Lead(lead)) = seat.arrive(Spin::NONE) else { return };
/// let mine = 1;
/// let (shared, ()) = lead.round::<&i32, ()>(|_, deal| {
///     deal.none();
///     &mine
/// });
/// ```
struct ALeaderCannotLendWhatIsOnItsStack;

/// All members agree on the lifetimes in the data.
/// ```compile_fail
/// use windrow_sync::rounds::Seat;
/// fn shortened<'r, 's>(seat: Seat<'r, &'static str>) -> Seat<'r, &'s str> {
///     seat
/// }
/// ```
struct AllMembersAgreeOnTheLifetimesInTheData;

/// A member cannot put a value of a shorter lifetime into what it shares with slower members.
/// ```compile_fail
/// use std::sync::{Arc, Mutex};
/// use windrow_sync::rounds::Family;
/// struct Board;
/// impl Family for Board {
///     type Of<'x> = Arc<Mutex<Option<&'x str>>>;
///     fn shorten<'short, 'long: 'short>(of: Self::Of<'long>) -> Self::Of<'short> {
///         of
///     }
/// }
/// ```
struct AMemberCannotPutAnythingOfItsOwnIntoWhatItShares;

/// Contributions are for the leader alone.
/// ```compile_fail,E0277
/// use windrow_sync::rounds::{Family, Given};
/// struct All;
/// impl Family for All {
///     type Of<'x> = Given<'x, u64>;
///     fn shorten<'short, 'long: 'short>(of: Self::Of<'long>) -> Self::Of<'short> {
///         of
///     }
/// }
/// ```
struct WhatMembersBringIsForTheLeaderAlone;
