//! Scopes: tasks that may borrow from outside the scope and end inside it.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use windrow_sync::Mutex;
use windrow_sync::fork::{Process, Stranded};
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::is_inside;
use windrow_sync::latch::Latch;

use crate::runtime::listen::{self, CallKind, SpawnedCall};
use crate::task::join::rooted;
use windrow_sync::unwind::{Payload, discard};

/// Runs `f` with a [`Scope`] in which it can spawn tasks, and waits until all of them have ended.
///
/// Tasks may borrow data that outlives the scope, and may spawn tasks. A task is run by another member of the pool, by a thread
/// that joins it ([`ScopedJoinHandle::join`]), or by the calling thread when `f` has ended. On a pool of one thread, or in
/// a short scope, the calling thread runs all of them.
///
/// # Tasks that wait for each other
/// `f` may wait for what a task sends, if a worker of the pool is free: [the page on calls](crate#parts-that-wait-for-each-other) says what
/// else is promised. A scope inside a join or a scope promises nothing: its tasks may begin only when `f` has ended. (To wait by
/// [`ScopedJoinHandle::join`] is always safe.)
///
/// ```
/// let words = ["one", "three", "fifteen"];
/// let lengths: Vec<usize> = windrow::scope(|s| {
///     let handles: Vec<_> = words.iter().map(|word| s.spawn_joinable(|_| word.len())).collect();
///     handles.into_iter().map(|handle| handle.join().unwrap()).collect()
/// });
/// assert_eq!(lengths, [3, 5, 7]);
/// ```
///
/// # Panics
/// With the payload of `f`, else with that of the first task that panicked and was not joined. All tasks have ended by then.
#[track_caller]
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let place = Location::caller();
    if is_inside() {
        let reported = listen::call(CallKind::Join, Some(place));
        let result = run(f);
        if let Some(reported) = reported {
            reported.end_because("as part of the recursion around it");
        }
        return result;
    }
    let code = run::<'scope, F, R> as fn(F) -> R as usize;
    rooted(Some(place), code, || run(f))
}

fn run<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let (invitation, process) = (Invitation::new(), Process::this());
    let scope = Scope { invitation, tasks: Mutex::default(), process, borrows: PhantomData };
    let (result, finished) = scope.invitation.host(&|| scope.help(), || {
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        (result, scope.finish())
    });
    let mut panics = std::mem::take(&mut scope.tasks.lock().panics).into_iter().map(|(_, payload)| payload);
    let thrown = result.as_ref().ok().and_then(|_| panics.next());
    panics.for_each(discard);
    match (result, thrown, finished) {
        (Ok(result), None, Ok(())) => result,
        (Ok(_), Some(payload), _) | (Err(payload), ..) => resume_unwind(payload),
        (Ok(_), None, Err(stranded)) => stranded.raise(),
    }
}

/// The scope in which tasks are spawned: see [`scope`].
///
/// ```
/// use windrow::Scope;
///
/// /// Halves the slice until its parts are short, each part in a task.
/// fn double<'scope>(scope: &Scope<'scope>, items: &'scope mut [u32]) {
///     if items.len() <= 2 {
///         return items.iter_mut().for_each(|item| *item *= 2);
///     }
///     let (front, back) = items.split_at_mut(items.len() / 2);
///     scope.spawn(|scope| double(scope, front));
///     double(scope, back);
/// }
///
/// let mut items = [1, 2, 3, 4, 5];
/// windrow::scope(|scope| double(scope, &mut items));
/// assert_eq!(items, [2, 4, 6, 8, 10]);
/// ```
pub struct Scope<'scope> {
    invitation: Invitation,
    tasks: Mutex<Tasks<'scope>>,
    /// In a forked child the scope has no guests.
    process: Process,
    /// Tasks may write to what they borrow for `'scope`, so it must not be shortened.
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

#[derive(Default)]
struct Tasks<'scope> {
    /// Tasks that were not begun, in the order of their numbers, and perhaps some that [`ScopedJoinHandle::join`] runs.
    waiting: VecDeque<Queued<'scope>>,
    unfinished: usize,
    /// Payloads of tasks that panicked, with their numbers, in the order in which they ended.
    panics: Vec<(usize, Payload)>,
    spawned: usize,
    /// The host, while it waits for tasks to run or to end.
    waiter: Option<usize>,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks = self.tasks.lock();
        let (unfinished, queued) = (tasks.unfinished, tasks.waiting.len());
        drop(tasks);
        f.debug_struct("Scope").field("unfinished", &unfinished).field("queued", &queued).finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Adds a task without a result; the scope waits for it. A panic in the task is resumed by [`scope`].
    ///
    /// The task gets the scope, so that it can spawn more tasks. A task that spawns none is written `|_| ...`. A spawn makes one allocation.
    ///
    /// ```
    /// let (mut one, mut other) = (0, 0);
    /// windrow::scope(|scope| {
    ///     scope.spawn(|_| one = 1);
    ///     scope.spawn(|_| other = 2);
    /// });
    /// assert_eq!((one, other), (1, 2));
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        drop(self.spawn_joinable(f));
    }

    /// Adds a task, and returns a handle to its result. The scope waits for the task even if the handle is dropped.
    ///
    /// ```
    /// let text = "one fish".to_owned();
    /// let words = windrow::scope(|scope| {
    ///     let words = scope.spawn_joinable(|_| text.split(' ').count());
    ///     words.join().unwrap()
    /// });
    /// assert_eq!(words, 2);
    /// ```
    #[track_caller]
    pub fn spawn_joinable<'s, F, T>(&'s self, f: F) -> ScopedJoinHandle<'s, 'scope, T>
    where
        F: FnOnce(&Scope<'scope>) -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (call, spawn) = SpawnedCall::begin(Location::caller(), true);
        let mut tasks = self.tasks.lock();
        tasks.spawned += 1;
        tasks.unfinished += 1;
        let number = tasks.spawned;
        let task = Arc::new(Spawned {
            number,
            call,
            state: Mutex::new(SpawnedState { stage: SpawnedStage::Waiting(f), let_go: false }),
        });
        tasks.waiting.push_back((number, task.clone()));
        let waiter = tasks.waiter;
        drop(tasks);
        self.wake(waiter);
        self.invitation.call();
        drop(spawn);
        ScopedJoinHandle { scope: self, task }
    }

    /// The work of a guest: runs tasks, oldest first, until none is left to begin.
    fn help(&self) {
        let runner = self.invitation.member().filter(|_| self.invitation.is_guest());
        // The host of a guest that has forked is in the parent.
        while self.process.is_this() && self.run_next(runner, VecDeque::pop_front) {}
    }

    /// The work of the host: runs tasks, youngest first, until all have ended.
    fn finish(&self) -> Result<(), Stranded> {
        loop {
            while self.run_next(None, VecDeque::pop_back) {}
            let mut tasks = self.tasks.lock();
            if tasks.unfinished == 0 {
                return Ok(());
            }
            tasks.waiter = self.invitation.member();
            drop(tasks);
            let is_needed = || {
                let tasks = self.tasks.lock();
                tasks.unfinished == 0 || !tasks.waiting.is_empty()
            };
            if !self.invitation.wait(|_| true, is_needed) {
                return Err(Stranded);
            }
            self.tasks.lock().waiter = None;
        }
    }

    /// Runs the task that `take` takes out of the queue, unless it was begun. False without a task. `runner` is this member's number if
    /// this member is a guest.
    fn run_next(
        &self,
        runner: Option<usize>,
        take: impl FnOnce(&mut VecDeque<Queued<'scope>>) -> Option<Queued<'scope>>,
    ) -> bool {
        let mut tasks = self.tasks.lock();
        let Some((_, task)) = take(&mut tasks.waiting) else { return false };
        let more = !tasks.waiting.is_empty();
        drop(tasks);
        if more {
            self.invitation.call();
        }
        if task.begin(self, runner) {
            self.count_end();
        }
        true
    }

    /// Drops the untaken result of task `number`. If the drop panics, the task counts as panicked.
    fn discard_result<T>(&self, number: usize, result: Option<T>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(result))) {
            self.tasks.lock().panics.push((number, payload));
        }
    }

    fn count_end(&self) {
        let mut tasks = self.tasks.lock();
        tasks.unfinished -= 1;
        let waiter = if tasks.unfinished == 0 { tasks.waiter } else { None };
        drop(tasks);
        self.wake(waiter);
    }

    fn wake(&self, waiter: Option<usize>) {
        waiter.into_iter().for_each(|waiter| self.invitation.ring(waiter));
    }
}

/// A task in the queue, with its number.
type Queued<'scope> = (usize, Arc<dyn ScopeTask<'scope> + 'scope>);

/// A task as the queue sees it.
trait ScopeTask<'scope>: Send + Sync {
    /// Runs the task; false if it was begun before. `runner` is this member's number if this member is a guest.
    fn begin(&self, scope: &Scope<'scope>, runner: Option<usize>) -> bool;
}

/// A task as its handle sees it.
trait Joined<'scope, T>: ScopeTask<'scope> {
    /// The task's number in the scope.
    fn number(&self) -> usize;
    /// Takes the result, if the task has ended. Otherwise the task drops its result when it ends.
    fn let_go(&self) -> Option<T>;
    fn has_ended(&self) -> bool;
    /// Lets the end of the task wake `waiter`. `None` if the task has ended already. Else the member that runs it, if that is a guest.
    fn expect(&self, waiter: Waiter) -> Option<Option<usize>>;
}

/// A thread that waits for a task.
enum Waiter {
    /// A member of the tree.
    Member(usize),
    /// Another thread.
    Stranger(Arc<Latch>),
}

struct Spawned<F, T> {
    number: usize,
    call: SpawnedCall,
    state: Mutex<SpawnedState<F, T>>,
}

struct SpawnedState<F, T> {
    stage: SpawnedStage<F, T>,
    /// The handle has given up the result.
    let_go: bool,
}

enum SpawnedStage<F, T> {
    Waiting(F),
    Running {
        runner: Option<usize>,
        waiter: Option<Waiter>,
    },
    /// The result, until it is taken; `None` if it panicked.
    Ended(Option<T>),
}

impl<'scope, F, T> ScopeTask<'scope> for Spawned<F, T>
where
    F: FnOnce(&Scope<'scope>) -> T + Send + 'scope,
    T: Send + 'scope,
{
    fn begin(&self, scope: &Scope<'scope>, runner: Option<usize>) -> bool {
        let f = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut state.stage, SpawnedStage::Running { runner, waiter: None }) {
                SpawnedStage::Waiting(f) => f,
                begun => {
                    state.stage = begun;
                    return false;
                }
            }
        };
        let run = self.call.run();
        let mut result = match catch_unwind(AssertUnwindSafe(|| f(scope))) {
            Ok(result) => Some(result),
            Err(payload) => {
                scope.tasks.lock().panics.push((self.number, payload));
                None
            }
        };
        drop(run);
        let mut state = self.state.lock();
        let kept = if state.let_go { None } else { result.take() };
        let before = std::mem::replace(&mut state.stage, SpawnedStage::Ended(kept));
        drop(state);
        scope.discard_result(self.number, result);
        match before {
            SpawnedStage::Running { waiter: Some(Waiter::Member(member)), .. } => scope.invitation.ring(member),
            SpawnedStage::Running { waiter: Some(Waiter::Stranger(latch)), .. } => latch.set(),
            _ => {}
        }
        true
    }
}

impl<'scope, F, T> Joined<'scope, T> for Spawned<F, T>
where
    F: FnOnce(&Scope<'scope>) -> T + Send + 'scope,
    T: Send + 'scope,
{
    fn number(&self) -> usize {
        self.number
    }

    fn let_go(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.let_go = true;
        match &mut state.stage {
            SpawnedStage::Ended(result) => result.take(),
            _ => None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.state.lock().stage, SpawnedStage::Ended(_))
    }

    fn expect(&self, by: Waiter) -> Option<Option<usize>> {
        match &mut self.state.lock().stage {
            SpawnedStage::Running { runner, waiter } => {
                *waiter = Some(by);
                Some(*runner)
            }
            _ => None,
        }
    }
}

/// A handle to a task that was spawned in a [`scope`]. If it is dropped, the task runs all the same, and its result is dropped.
///
/// ```
/// use windrow::ScopedJoinHandle;
///
/// let lengths = windrow::scope(|scope| {
///     let tasks = ["one", "fish"].map(|word| scope.spawn_joinable(move |_| word.len()));
///     tasks.map(|task: ScopedJoinHandle<'_, '_, usize>| task.join().unwrap())
/// });
/// assert_eq!(lengths, [3, 4]);
/// ```
pub struct ScopedJoinHandle<'s, 'scope, T> {
    scope: &'s Scope<'scope>,
    task: Arc<dyn Joined<'scope, T> + 'scope>,
}

impl<T> Drop for ScopedJoinHandle<'_, '_, T> {
    fn drop(&mut self) {
        self.scope.discard_result(self.task.number(), self.task.let_go());
    }
}

impl<T> std::fmt::Debug for ScopedJoinHandle<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("ended", &self.task.has_ended()).finish_non_exhaustive()
    }
}

impl<'scope, T> ScopedJoinHandle<'_, 'scope, T> {
    /// True if the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.has_ended()
    }

    /// The task's result. Runs the task if it was not begun. Otherwise waits, and helps with parts of the task meanwhile.
    ///
    /// ```
    /// let answer = windrow::scope(|scope| scope.spawn_joinable(|_| 6 * 7).join().unwrap());
    /// assert_eq!(answer, 42);
    /// // A panic of a task is an error of its handle, and does not end the scope.
    /// let failed = windrow::scope(|scope| scope.spawn_joinable(|_| "x".parse::<u8>().unwrap()).join().is_err());
    /// assert!(failed);
    /// ```
    ///
    /// # Errors
    /// If the task panicked: the payload of its panic.
    pub fn join(self) -> thread::Result<T> {
        self.scope.begin(&self.task);
        self.await_end();
        if let Some(result) = self.task.let_go() {
            return Ok(result);
        }
        let mut tasks = self.scope.tasks.lock();
        let own = tasks.panics.iter().position(|(number, _)| *number == self.task.number());
        match own.map(|at| tasks.panics.remove(at)) {
            Some((_, payload)) => Err(payload),
            None => unreachable!("a task has a result or has panicked"),
        }
    }

    fn await_end(&self) {
        let invitation = &self.scope.invitation;
        match invitation.member() {
            Some(member) => {
                if let Some(runner) = self.task.expect(Waiter::Member(member)) {
                    // Only a guest is helped. The stack of any other runner holds other work below the task.
                    let has_ended = invitation.wait(|guest| runner == Some(guest), || self.task.has_ended());
                    if !has_ended {
                        Stranded.raise();
                    }
                }
            }
            None => {
                let latch = Arc::new(Latch::new());
                if self.task.expect(Waiter::Stranger(latch.clone())).is_some() {
                    if !self.scope.process.is_this() {
                        Stranded.raise();
                    }
                    latch.wait_for(None);
                }
            }
        }
    }
}

impl<'scope> Scope<'scope> {
    /// Runs the task unless it was begun.
    fn begin<T>(&self, task: &Arc<dyn Joined<'scope, T> + 'scope>) {
        if !task.begin(self, None) {
            return;
        }
        let mut tasks = self.tasks.lock();
        let at = tasks.waiting.binary_search_by_key(&task.number(), |(number, _)| *number).ok();
        // Where tasks are joined in the order of their spawns, or in the reverse order, it is at an end of the queue.
        let gone = at.and_then(|at| tasks.waiting.remove(at));
        drop(tasks);
        drop(gone);
        self.count_end();
    }
}
