//! Scopes: tasks that may borrow from outside the scope and end inside it.
//!
//! # Protocol
//! The host runs the scope's function, and then tasks until all have ended. Guests (see [`Invitation`]) run tasks meanwhile. Each of them
//! has a *list* of tasks, under a lock of its own. A member adds the tasks that it spawns to its list, and takes the youngest. A member
//! whose list is empty steals the older half of another one. So members rarely meet at a lock, and guests get the largest parts.
//! 1. *Call.* A member that adds a task, or takes one and leaves others, calls a guest if its last call is a heartbeat ago. Each look of
//!    others at an empty list doubles that time, up to 64 heartbeats. In the function of an outermost scope each task calls: the function may
//!    wait for it. Race prevented: a chain of short tasks calls a guest for each.
//! 2. *Wait.* A host that finds no task says so, and looks once more. Then it waits for the last guest to leave, or for a call. Race prevented:
//!    a task is added, and its call made, between the look and the wait.
//! 3. *End.* The scope ends when the host has found all lists empty, and after that no guest inside. Any task is in the list of a member
//!    that will look there again, or in that of a thread that has run a part of a task (a half of a join, say) before that task ended. The member
//!    that ran the task looks at all lists after that, before it leaves.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;

use windrow_sync::fork::{Process, Stranded};
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::{is_inside, member, spend};
use windrow_sync::latch::Latch;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::{Payload, discard, quietly};
use windrow_sync::waiters::Waiter;
use windrow_sync::{Mutex, Pad};

use crate::runtime::flag::Flag;
use crate::runtime::listen::{self, CallKind, SpawnedCall};
use crate::runtime::pool::current_num_threads;
use crate::task::join::rooted;

/// The longest time between calls of guests is this power of two, in heartbeats. As for the joins of a member whose offers are not taken.
///
/// Measure: count of looks at an empty list.
const MOST_LOOKS: u32 = 6;

/// Tasks of a list for each one whose spawn reads the clock.
///
/// Measure: count of tasks.
const CLOCK: usize = 8;

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
        let result = run(f, true);
        if let Some(reported) = reported {
            reported.end_because("ran as part of the enclosing recursion");
        }
        return result;
    }
    let code = run::<'scope, F, R> as fn(F, bool) -> R as usize;
    rooted(Some(place), code, || run(f, false))
}

fn run<'scope, F, R>(f: F, is_nested: bool) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let scope = Scope {
        invitation: Invitation::new(),
        own: Pad::default(),
        others: OnceLock::new(),
        host: member(),
        waits: RelaxedU64::new(AWAKE),
        calls_at_times: Flag::new(),
        panics: Mutex::default(),
        process: Process::this(),
        borrows: PhantomData,
    };
    if is_nested {
        scope.calls_at_times.raise();
    }
    let (result, finished) = scope.invitation.host(&|| scope.help(), || {
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        (result, scope.finish())
    });
    let mut panics = std::mem::take(&mut *scope.panics.lock()).into_iter().map(|(_, payload)| payload);
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
    /// The list of the host and of threads that are no members.
    own: Pad<Mutex<List<'scope>>>,
    /// Lists of the members by number, once guests have come.
    others: OnceLock<Box<[Pad<Mutex<List<'scope>>>]>>,
    host: Option<usize>,
    /// State of the host.
    waits: RelaxedU64,
    /// The function of the scope has ended, or may not wait for tasks.
    calls_at_times: Flag,
    /// Payloads of tasks that panicked, with their [`id`], in the order in which they ended.
    panics: Mutex<Vec<(usize, Payload)>>,
    /// In a forked child the scope has no guests.
    process: Process,
    /// Tasks may write to what they borrow for `'scope`, so it must not be shortened.
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

// Measure: bits of the word of the host.
const AWAKE: u64 = 0;
const WAITS: u64 = 1;
const RUNG: u64 = 2;

/// Tasks, in the order in which they were spawned, for the most part.
#[derive(Default)]
struct List<'scope> {
    tasks: VecDeque<Box<dyn ScopeTask<'scope> + 'scope>>,
    /// Number of those that [`ScopedJoinHandle::join`] has run.
    begun: usize,
    /// Looks of others since one found a task.
    looks: u32,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queued: usize = self.lists().map(|list| list.lock().tasks.len()).sum();
        f.debug_struct("Scope").field("queued", &queued).finish_non_exhaustive()
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
        let (call, _spawn) = SpawnedCall::begin(Location::caller(), true);
        self.add(Box::new(Detached { call, f }));
    }

    /// Runs `f` here and now if no other member of the pool is idle; otherwise [spawns](Self::spawn) it. For tasks that are shorter than it takes
    /// to hand one over.
    ///
    /// ```
    /// use windrow::Scope;
    ///
    /// fn count<'scope>(scope: &Scope<'scope>, depth: u32, leaves: &'scope std::sync::atomic::AtomicU32) {
    ///     if depth == 0 {
    ///         leaves.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ///         return;
    ///     }
    ///     scope.spawn_or_run(move |scope| count(scope, depth - 1, leaves));
    ///     count(scope, depth - 1, leaves);
    /// }
    ///
    /// let leaves = std::sync::atomic::AtomicU32::new(0);
    /// windrow::scope(|scope| count(scope, 10, &leaves));
    /// assert_eq!(leaves.into_inner(), 1024);
    /// ```
    #[track_caller]
    pub fn spawn_or_run<F>(&self, f: F)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        if self.invitation.idle() != (0, 0) {
            return self.spawn(f);
        }
        let (call, _spawn) = SpawnedCall::begin(Location::caller(), true);
        spend();
        Detached { call, f }.begin(self);
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
        let (call, _spawn) = SpawnedCall::begin(Location::caller(), true);
        let stage = SpawnedStage::Waiting(Box::new(f));
        let task = Arc::new(Spawned { call, state: Mutex::new(SpawnedState { stage, let_go: false }) });
        self.add(Box::new(task.clone()));
        ScopedJoinHandle { scope: self, task }
    }

    fn lists(&self) -> impl Iterator<Item = &Mutex<List<'scope>>> {
        std::iter::once(&self.own).chain(self.others.get().into_iter().flatten()).map(|list| &list.0)
    }

    /// The list of this thread. (A member of another tree may use any.)
    fn list(&self) -> &Mutex<List<'scope>> {
        let own = || {
            let member = member().filter(|_| self.host != member())?;
            self.others.get()?.get(member)
        };
        &own().unwrap_or(&self.own).0
    }

    fn add(&self, task: Box<dyn ScopeTask<'scope> + 'scope>) {
        let mut list = self.list().lock();
        list.tasks.push_back(task);
        let (tasks, looks) = (list.tasks.len(), list.looks);
        drop(list);
        if tasks % CLOCK == 1 {
            self.call_at_times(1 << looks);
        }
        if !self.calls_at_times.is_up() {
            self.invitation.call_once();
        }
    }

    fn call_at_times(&self, pause: u64) {
        if self.invitation.call_at_times(pause) && self.waits.get() == WAITS {
            self.waits.set(RUNG);
            self.host.into_iter().for_each(|host| self.invitation.ring(host));
        }
    }

    /// The work of a guest: runs tasks until none is left to begin.
    fn help(&self) {
        self.others.get_or_init(|| (0..current_num_threads()).map(|_| Pad::default()).collect());
        // The host of a guest that has forked is in the parent.
        while self.process.is_this() && self.run_next(member()) {}
    }

    /// The work of the host: runs tasks until all have ended.
    fn finish(&self) -> Result<(), Stranded> {
        self.calls_at_times.raise();
        loop {
            self.waits.set(AWAKE);
            while self.run_next(None) {}
            self.waits.set(WAITS);
            if self.run_next(None) {
                continue;
            }
            if self.invitation.is_left() {
                return Ok(());
            }
            if !self.invitation.wait(|_| true, || self.waits.get() == RUNG || self.invitation.is_left()) {
                return Err(Stranded);
            }
        }
    }

    /// Runs the youngest task of this thread, or steals some. False without a task. `runner` is this member's number if this member is a guest.
    fn run_next(&self, runner: Option<usize>) -> bool {
        let mut list = self.list().lock();
        let own = list.tasks.pop_back();
        let pause = (!list.tasks.is_empty()).then(|| 1 << list.looks);
        drop(list);
        pause.into_iter().for_each(|pause| self.call_at_times(pause));
        let Some(task) = own.or_else(|| self.steal()) else { return false };
        task.run(self, runner);
        true
    }

    /// Moves the older half of a list to that of this thread, but for the oldest task, which is returned.
    fn steal(&self) -> Option<Box<dyn ScopeTask<'scope> + 'scope>> {
        self.lists().find_map(|from| {
            let mut list = from.lock();
            let more = list.tasks.len().div_ceil(2).saturating_sub(1);
            let oldest = list.tasks.pop_front();
            list.looks = if oldest.is_some() { 0 } else { MOST_LOOKS.min(list.looks + 1) };
            let taken: Vec<_> = list.tasks.drain(..more).collect();
            let is_left = !list.tasks.is_empty();
            drop(list);
            if more > 0 {
                self.list().lock().tasks.extend(taken);
            }
            if is_left || more > 0 {
                self.call_at_times(0);
            }
            oldest
        })
    }

    /// Drops the untaken result of the task `id`. If the drop panics, the task counts as panicked.
    fn discard_result<T>(&self, id: usize, result: Option<T>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(result))) {
            self.panics.lock().push((id, payload));
        }
    }
}

/// A task in a list.
trait ScopeTask<'scope>: Send {
    /// Runs the task, unless it was begun before. `runner` is this member's number if this member is a guest.
    fn run(self: Box<Self>, scope: &Scope<'scope>, runner: Option<usize>);
    fn is_begun(&self) -> bool {
        false
    }
}

/// A task without a handle.
struct Detached<F> {
    call: SpawnedCall,
    f: F,
}

impl<F> Detached<F> {
    fn begin<'scope>(self, scope: &Scope<'scope>)
    where
        F: FnOnce(&Scope<'scope>),
    {
        let _run = self.call.run();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.f)(scope))) {
            scope.panics.lock().push((0, payload));
        }
    }
}

impl<'scope, F: FnOnce(&Scope<'scope>) + Send + 'scope> ScopeTask<'scope> for Detached<F> {
    fn run(self: Box<Self>, scope: &Scope<'scope>, _: Option<usize>) {
        self.begin(scope);
    }
}

impl<'scope, T: Send + 'scope> ScopeTask<'scope> for Arc<Spawned<'scope, T>> {
    fn run(self: Box<Self>, scope: &Scope<'scope>, runner: Option<usize>) {
        self.begin(scope, runner);
    }

    fn is_begun(&self) -> bool {
        !matches!(self.state.lock().stage, SpawnedStage::Waiting(_))
    }
}

/// Distinguishes the tasks of a scope that have not been freed.
fn id<T: ?Sized>(task: &T) -> usize {
    std::ptr::from_ref(task).addr()
}

/// A thread or a future that waits for a task.
enum TaskWaiter {
    /// A member of the tree.
    Member(usize),
    Other(Waiter),
}

/// A task with a handle.
struct Spawned<'scope, T> {
    call: SpawnedCall,
    state: Mutex<SpawnedState<'scope, T>>,
}

struct SpawnedState<'scope, T> {
    stage: SpawnedStage<'scope, T>,
    /// The handle has given up the result.
    let_go: bool,
}

enum SpawnedStage<'scope, T> {
    Waiting(Box<dyn FnOnce(&Scope<'scope>) -> T + Send + 'scope>),
    Running {
        runner: Option<usize>,
        waiter: Option<TaskWaiter>,
    },
    /// The result, until it is taken; `None` if it panicked.
    Ended(Option<T>),
}

impl<'scope, T> Spawned<'scope, T> {
    /// Runs the task; false if it was begun before. `runner` is this member's number if this member is a guest.
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
                scope.panics.lock().push((id(self), payload));
                None
            }
        };
        drop(run);
        let mut state = self.state.lock();
        let kept = if state.let_go { None } else { result.take() };
        let before = std::mem::replace(&mut state.stage, SpawnedStage::Ended(kept));
        drop(state);
        scope.discard_result(id(self), result);
        match before {
            SpawnedStage::Running { waiter: Some(TaskWaiter::Member(member)), .. } => scope.invitation.ring(member),
            SpawnedStage::Running { waiter: Some(TaskWaiter::Other(waiter)), .. } => quietly(|| waiter.wake()),
            _ => {}
        }
        true
    }

    /// Takes the result, if the task has ended. Otherwise the task drops its result when it ends.
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

    /// Lets the end of the task wake `by` and none before it. `None` if the task has ended already. Else the member that runs it, if that is a
    /// guest.
    fn expect(&self, by: TaskWaiter) -> Option<Option<usize>> {
        let mut state = self.state.lock();
        let SpawnedStage::Running { runner, waiter } = &mut state.stage else { return None };
        let (runner, before) = (*runner, waiter.replace(by));
        drop(state);
        drop(before);
        Some(runner)
    }
}

/// A handle to a task that was spawned in a [`scope`]. If it is dropped, the task runs all the same, and its result is dropped.
///
/// The handle is a future for any executor, of what [`join`](Self::join) returns. A task that has not begun runs where the handle is polled.
/// The scope waits for the task whether or not its handle is polled to the end.
///
/// ```
/// use windrow::ScopedJoinHandle;
///
/// let lengths = windrow::scope(|scope| {
///     let tasks = ["one", "fish"].map(|word| scope.spawn_joinable(move |_| word.len()));
///     tasks.map(|task: ScopedJoinHandle<'_, '_, usize>| task.join().unwrap())
/// });
/// assert_eq!(lengths, [3, 4]);
///
/// # fn block_on<T>(f: impl Future<Output = T>) -> T {
/// #     let mut f = std::pin::pin!(f);
/// #     loop {
/// #         let noop = &mut std::task::Context::from_waker(std::task::Waker::noop());
/// #         if let std::task::Poll::Ready(value) = f.as_mut().poll(noop) { return value }
/// #     }
/// # }
/// let text = "one fish".to_owned();
/// let both = windrow::scope(|scope| {
///     block_on(async {
///         let words = scope.spawn_joinable(|_| text.split(' ').count());
///         let bytes = scope.spawn_joinable(|_| text.len());
///         (words.await.unwrap(), bytes.await.unwrap())
///     })
/// });
/// assert_eq!(both, (2, 8));
/// ```
pub struct ScopedJoinHandle<'s, 'scope, T> {
    scope: &'s Scope<'scope>,
    task: Arc<Spawned<'scope, T>>,
}

impl<T> Drop for ScopedJoinHandle<'_, '_, T> {
    fn drop(&mut self) {
        self.scope.discard_result(id(&*self.task), self.task.let_go());
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
        self.result()
    }

    /// The result of a task that has ended.
    fn result(&self) -> thread::Result<T> {
        if let Some(result) = self.task.let_go() {
            return Ok(result);
        }
        let mut panics = self.scope.panics.lock();
        // The last one: the memory of a task may have been that of an earlier one.
        match panics.iter().rposition(|(task, _)| *task == id(&*self.task)) {
            Some(at) => Err(panics.remove(at).1),
            None => panic!("the result of a task can be taken only once"),
        }
    }

    fn await_end(&self) {
        let invitation = &self.scope.invitation;
        match invitation.member() {
            Some(member) => {
                if let Some(runner) = self.task.expect(TaskWaiter::Member(member)) {
                    // Only a guest is helped. The stack of any other runner holds other work below the task.
                    let has_ended = invitation.wait(|guest| runner == Some(guest), || self.task.has_ended());
                    if !has_ended {
                        Stranded.raise();
                    }
                }
            }
            None => {
                let latch = Arc::new(Latch::new());
                if self.task.expect(TaskWaiter::Other(Waiter::Thread(latch.clone()))).is_some() {
                    if !self.scope.process.is_this() {
                        Stranded.raise();
                    }
                    latch.wait_for(None);
                }
            }
        }
    }
}

impl<T> Future for ScopedJoinHandle<'_, '_, T> {
    type Output = thread::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<thread::Result<T>> {
        self.scope.begin(&self.task);
        let waiter = TaskWaiter::Other(Waiter::Task(context.waker().clone()));
        match self.task.expect(waiter) {
            None => Poll::Ready(self.result()),
            Some(_) if self.scope.process.is_this() => Poll::Pending,
            Some(_) => Stranded.raise(),
        }
    }
}

impl<'scope> Scope<'scope> {
    /// Runs the task unless it was begun.
    fn begin<T>(&self, task: &Spawned<'scope, T>) {
        if !task.begin(self, None) {
            return;
        }
        let mut list = self.list().lock();
        list.begun += 1;
        if 2 * list.begun > list.tasks.len() {
            list.begun = 0;
            list.tasks.retain(|task| !task.is_begun());
        }
    }
}
