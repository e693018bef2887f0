//! Programs that must not compile, each with the error that says so.

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

/// Items that a closure makes must be Send.
/// ```compile_fail,E0277
/// use windrow::prelude::*;
/// (0..10).into_par_iter().map(std::rc::Rc::new).for_each(drop);
/// ```
struct ItemsThatAClosureMakesMustBeSend;

/// Closures of adaptors must be Send.
/// ```compile_fail,E0277
/// use windrow::prelude::*;
/// let lock = std::sync::Mutex::new(0);
/// let guard = lock.lock().unwrap();
/// let _ = (0..10).into_par_iter().map(move |i: i32| i + *guard);
/// ```
struct ClosuresOfAdaptorsMustBeSend;

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

/// A part ends with its round.
/// ```compile_fail,E0499
/// use windrow::team::split;
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     let (_, first) = member.round::<(), &mut [i32]>(|x, deal| deal.parts(split::even(x, deal.width()))).unwrap();
///     let (_, second) = member.round::<(), &mut [i32]>(|x, deal| deal.parts(split::even(x, deal.width()))).unwrap();
///     first[0] = second[0];
/// });
/// ```
struct APartEndsWithItsRound;

/// A shared value ends with its round.
/// ```compile_fail,E0499
/// windrow::team(&mut [0; 9]).run(|member| {
///     let (first, _) = member.round::<&i32, ()>(|x, deal| { deal.none(); &x[0] }).unwrap();
///     member.barrier().unwrap();
///     println!("{first}");
/// });
/// ```
struct WhatIsSharedEndsWithItsRound;

/// A part is not kept from round to round.
/// ```compile_fail,E0499
/// use windrow::team::split;
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     let mut kept = Vec::new();
///     for _ in 0..3 {
///         let (_, mine) = member.round::<(), &mut [i32]>(|x, deal| deal.parts(split::even(x, deal.width()))).unwrap();
///         kept.push(mine);
///     }
/// });
/// ```
struct APartIsNotKeptFromTurnToTurn;

/// A part does not leave its member.
/// ```compile_fail
/// use windrow::team::split;
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     member.round::<(), &mut [i32]>(|x, deal| deal.parts(split::even(x, deal.width()))).unwrap().1
/// });
/// ```
struct APartDoesNotLeaveItsMember;

/// A part of a structured round ends with its work.
/// ```compile_fail,E0521
/// use windrow::team::split;
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     let mut kept = None;
///     member.rounds::<(), &mut [i32]>(
///         0..3,
///         |x, _, deal| deal.parts(split::even(x, deal.width())),
///         |_, (), mine| kept = Some(mine),
///     )
/// });
/// ```
struct APartOfAStructuredRoundEndsWithItsWork;

/// The leader's locals are not shared.
/// ```compile_fail,E0597
/// windrow::team(&mut [0; 9]).run(|member| {
///     let local = member.index();
///     member.round::<&usize, ()>(|_, deal| { deal.none(); &local }).unwrap();
/// });
/// ```
struct TheLeadersLocalsAreNotShared;

/// The leader's locals are not dealt.
/// ```compile_fail,E0597
/// windrow::team(&mut [0; 9]).run(|member| {
///     let local = member.index();
///     member.round::<(), &usize>(|_, deal| (0..deal.width()).for_each(|_| deal.part(&local))).unwrap();
/// });
/// ```
struct TheLeadersLocalsAreNotDealt;

/// A value that the leader makes in the split is not shared.
/// ```compile_fail,E0515
/// windrow::team(&mut [0; 9]).run(|member| {
///     member.round::<&str, ()>(|_, deal| { deal.none(); &String::from("gone")[..] }).unwrap();
/// });
/// ```
struct WhatTheLeaderMakesInTheSplitIsNotShared;

/// The data stays in the split.
/// ```compile_fail,E0521
/// windrow::team(&mut [0; 9]).run(|member| {
///     let mut kept = None;
///     member.round::<(), ()>(|x, deal| { deal.none(); kept = Some(x); }).unwrap();
/// });
/// ```
struct TheDataStaysInTheSplit;

/// The same part is not dealt twice.
/// ```compile_fail,E0499
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     member.round::<(), &mut [i32]>(|x, deal| {
///         deal.part(&mut x[..5]);
///         deal.part(&mut x[4..]);
///     }).unwrap();
/// });
/// ```
struct TheSamePartIsNotDealtTwice;

/// Shared data is not dealt for writing.
/// ```compile_fail,E0502
/// windrow::team(&mut [0; 9][..]).run(|member| {
///     member.round::<&i32, &mut [i32]>(|x, deal| {
///         deal.part(&mut x[..]);
///         &x[0]
///     }).unwrap();
/// });
/// ```
struct WhatIsSharedIsNotDealtToBeWritten;

/// The data is out of reach while the team has it.
/// ```compile_fail,E0502
/// let mut data = [0; 9];
/// windrow::team(&mut data).run(|_| data[0]);
/// ```
struct TheDataIsOutOfReachWhileTheTeamHasIt;

/// Members of different teams are not exchanged.
/// ```compile_fail,E0521
/// windrow::team(&mut [0; 9]).run(|outer| {
///     let outer = std::sync::Mutex::new(outer);
///     windrow::team(&mut [0; 9]).run(|inner| std::mem::swap(*outer.lock().unwrap(), inner));
/// });
/// ```
struct MembersOfDifferentTeamsAreNotExchanged;

/// A member does not leave its team.
/// ```compile_fail
/// windrow::team(&mut [0; 9]).run(|member| member);
/// ```
struct AMemberDoesNotLeaveItsTeam;

/// A team's data must be Send.
/// ```compile_fail,E0277
/// windrow::team(&mut [std::rc::Rc::new(1)]).run(|_| ());
/// ```
struct ATeamsDataMustBeSend;

/// Members' results must be Send.
/// ```compile_fail,E0277
/// windrow::team(&mut [0; 9]).run(|_| std::rc::Rc::new(1));
/// ```
struct MembersResultsMustBeSend;

/// The closure of a team must be Sync.
/// ```compile_fail,E0277
/// let count = std::cell::Cell::new(0);
/// windrow::team(&mut [0; 9]).run(|_| count.set(1));
/// ```
struct WhatATeamRunsIsSync;

/// Parts must be Send.
/// ```compile_fail,E0277
/// use windrow::team::Own;
/// windrow::team(&mut [0; 9]).run(|member| {
///     member.round::<(), Own<std::rc::Rc<i32>>>(|_, deal| {
///         (0..deal.width()).for_each(|at| deal.part(std::rc::Rc::new(at as i32)));
///     }).unwrap();
/// });
/// ```
struct PartsMustBeSend;

/// Shared references must be to Sync values.
/// ```compile_fail,E0277
/// windrow::team(&mut [std::cell::Cell::new(0)]).run(|member| {
///     member.round::<&std::cell::Cell<i32>, ()>(|x, deal| { deal.none(); &x[0] }).unwrap();
/// });
/// ```
struct SharedReferencesAreToWhatIsSync;

/// The shared value must be Copy.
/// ```compile_fail,E0277
/// windrow::team(&mut [0; 9]).run(|member| {
///     member.round::<&mut i32, ()>(|x, deal| { deal.none(); &mut x[0] }).unwrap();
/// });
/// ```
struct WhatIsSharedIsCopied;

/// A contribution borrows nothing.
/// ```compile_fail,E0597
/// windrow::team(&mut [0; 9]).run(|member| {
///     let local = member.index();
///     member.round_with::<(), (), &usize>(&local, |_, _, deal| deal.none()).unwrap();
/// });
/// ```
struct WhatIsBroughtBorrowsNothing;

/// Contributions must be Send.
/// ```compile_fail,E0277
/// windrow::team(&mut [0; 9]).run(|member| {
///     member.reduce(std::rc::Rc::new(1), |a, _| a).unwrap();
/// });
/// ```
struct WhatIsBroughtIsSend;

/// The data of a team of tasks is Send.
/// ```compile_fail,E0277
/// windrow::AsyncTeam::new(std::rc::Rc::new(1), 2);
/// ```
#[cfg(feature = "async-team")]
struct TheDataOfATeamOfTasksIsSend;

/// A part of a task ends with its round.
/// ```compile_fail,E0499
/// async fn turns(mut member: windrow::team::AsyncMember<Vec<i32>>) -> Result<(), windrow::team::Ended> {
///     let (_, first) = member.round::<(), &mut [i32]>(|x, deal| deal.part(x)).await?;
///     member.barrier().await?;
///     first[0] = 1;
///     Ok(())
/// }
/// ```
#[cfg(feature = "async-team")]
struct APartOfATaskEndsWithItsRound;

/// A part of a task does not outlive its member.
/// ```compile_fail,E0505
/// async fn turns(mut member: windrow::team::AsyncMember<Vec<i32>>) -> Result<(), windrow::team::Ended> {
///     let (_, first) = member.round::<(), &mut [i32]>(|x, deal| deal.part(x)).await?;
///     drop(member);
///     first[0] = 1;
///     Ok(())
/// }
/// ```
#[cfg(feature = "async-team")]
struct APartOfATaskDoesNotOutliveItsMember;

/// A local of a task is not shared.
/// ```compile_fail,E0597
/// async fn turns(mut member: windrow::team::AsyncMember<Vec<i32>>) {
///     let local = 1;
///     let _ = member.round::<&i32, ()>(|_, deal| { deal.none(); &local }).await;
/// }
/// ```
#[cfg(feature = "async-team")]
struct ALocalOfATaskIsNotShared;

/// Both halves must be Send.
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// windrow::join(|| 1, || *shared);
/// ```
struct HalvesMustBeSend;

/// Results must be Send.
/// ```compile_fail,E0277
/// windrow::join(|| 1, || std::rc::Rc::new(1));
/// ```
struct ResultsMustBeSend;

/// The halves do not write to the same variable.
/// ```compile_fail,E0499
/// let mut sum = 0;
/// windrow::join(|| sum += 1, || sum += 2);
/// ```
struct TheHalvesDoNotShareAPlace;

/// Tasks do not borrow what ends before the scope does.
/// ```compile_fail,E0373
/// windrow::scope(|s| {
///     let short = 1;
///     s.spawn(|_| assert_eq!(short, 1));
/// });
/// ```
struct TasksDoNotBorrowWhatIsInside;

/// Handles do not leave the scope.
/// ```compile_fail
/// let handle = windrow::scope(|s| s.spawn_joinable(|_| 1));
/// ```
struct HandlesStayInside;

/// Tasks must be Send.
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// windrow::scope(|s| s.spawn(|_| assert_eq!(*shared, 1)));
/// ```
struct TasksMustBeSend;

/// Two tasks do not write to the same variable.
/// ```compile_fail,E0499
/// let mut sum = 0;
/// windrow::scope(|s| {
///     s.spawn(|_| sum += 1);
///     s.spawn(|_| sum += 2);
/// });
/// ```
struct TasksDoNotShareAPlace;
