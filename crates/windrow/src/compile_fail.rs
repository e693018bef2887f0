//! What must not compile, each with the error that says so.

/// Owned items must be Send.
/// ```compile_fail,E0599
/// use windrow::prelude::*;
/// vec![std::rc::Rc::new(1)].into_par_iter().for_each(drop);
/// ```
struct OwnedItemsMustBeSend;

/// Shared items must be Sync.
/// ```compile_fail,E0599
/// use windrow::prelude::*;
/// [std::cell::Cell::new(1)].par_iter().for_each(|cell| cell.set(3));
/// ```
struct SharedItemsMustBeSync;

/// Closures must be Sync.
/// ```compile_fail,E0277
/// use windrow::prelude::*;
/// let count = std::cell::Cell::new(0);
/// (0..10).into_par_iter().for_each(|_: i32| count.set(1));
/// ```
struct ClosuresMustBeSync;

/// Closures are called through a shared reference.
/// ```compile_fail,E0594
/// use windrow::prelude::*;
/// let mut sum = 0;
/// (0..10).into_par_iter().for_each(|i: i32| sum += i);
/// ```
struct ClosuresAreCalledThroughASharedReference;

/// Collected results must be Send.
/// ```compile_fail,E0277
/// use windrow::prelude::*;
/// let all: Vec<std::rc::Rc<i32>> = (0..10).into_par_iter().map(std::rc::Rc::new).collect();
/// ```
struct CollectedResultsMustBeSend;

/// Reduced results must be Send.
/// ```compile_fail,E0277
/// use windrow::prelude::*;
/// (0..10).into_par_iter().map(std::rc::Rc::new).min();
/// ```
struct ReducedResultsMustBeSend;

/// A filtered iterator has no indices.
/// ```compile_fail,E0599
/// use windrow::prelude::*;
/// let _ = (0..10).into_par_iter().filter(|i: &i32| i % 2 == 0).enumerate();
/// ```
struct AFilteredIteratorHasNoIndices;

/// Items do not outlive what they borrow.
/// ```compile_fail,E0597
/// use windrow::prelude::*;
/// let kept = std::sync::Mutex::new(Vec::new());
/// {
///     let mut items = vec![1, 2];
///     items.par_iter_mut().for_each(|item| kept.lock().unwrap().push(item));
/// }
/// kept.lock().unwrap().clear();
/// ```
struct ItemsDoNotOutliveWhatTheyBorrow;

/// A pool is not dropped inside itself.
/// ```compile_fail,E0505
/// let pool = windrow::Pool::new(2);
/// pool.install(|| drop(pool));
/// ```
struct APoolIsNotDroppedInsideItself;
