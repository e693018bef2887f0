//! Scopes: tasks that borrow from outside and end inside.

use std::any::Any;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use windrow_sync::join::guests::Invitation;
use windrow_sync::join::is_inside;

use crate::join::rooted;

type Payload = Box<dyn Any + Send>;

/// Runs `f` with a [`Scope`] in which it can spawn tasks, and waits until all of them have ended.
///
/// Tasks may borrow whatever outlives the scope, and may spawn tasks themselves. They run when somebody has time: other members
/// of the pool, the thread that waits for one by [`Handle::join`], or this one at the end. So on a pool of one thread, or in
/// a short scope, all of them run here.
///
/// # Tasks that wait for each other
/// may wait for ever, and so may a scope's closure that waits for a task otherwise than by [`Handle::join`] (on a channel, say). No
/// other thread need exist, and a task need not have begun before the closure ends. rayon offers a task when it is spawned.
///
/// ```
/// let words = ["one", "three", "fifteen"];
/// let lengths: Vec<usize> = windrow::scope(|s| {
///     let handles: Vec<_> = words.iter().map(|word| s.spawn(|_| word.len())).collect();
///     handles.into_iter().map(|handle| handle.join().unwrap()).collect()
/// });
/// assert_eq!(lengths, [3, 5, 7]);
/// ```
///
/// # Panics
/// With the payload of `f`, else with that of the first task that panicked and was not joined. All tasks have ended by then.
pub fn scope<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    if is_inside() {
        return run(f);
    }
    let site = scope::<'scope, F, R> as fn(F) -> R as usize;
    rooted(site, || run(f))
}

fn run<'scope, F, R>(f: F) -> R
where
    F: FnOnce(&Scope<'scope>) -> R,
{
    let scope = Scope { invitation: Invitation::new(), tasks: Mutex::default(), borrows: PhantomData };
    let result = scope.invitation.host(&|| scope.help(), || {
        let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
        scope.finish();
        result
    });
    let mut panics = std::mem::take(&mut lock(&scope.tasks).panics).into_iter().map(|(_, payload)| payload);
    let thrown = result.as_ref().ok().and_then(|_| panics.next());
    panics.for_each(discard);
    match (result, thrown) {
        (Ok(result), None) => result,
        (Ok(_), Some(payload)) | (Err(payload), _) => resume_unwind(payload),
    }
}

/// Drops a payload nobody will see. Its own drop may panic; another payload is on its way out.
fn discard(payload: Payload) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where tasks are spawned: see [`scope`].
pub struct Scope<'scope> {
    invitation: Invitation,
    tasks: Mutex<Tasks<'scope>>,
    /// Tasks may write to what they borrow for `'scope`, so it must not be shortened.
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

#[derive(Default)]
struct Tasks<'scope> {
    /// Those that nobody has begun, and perhaps some that were begun by a join.
    waiting: VecDeque<Arc<dyn Task<'scope> + 'scope>>,
    /// How many of them joins have begun since those were last taken out, or more.
    begun: usize,
    unfinished: usize,
    /// What tasks threw, with their numbers, in the order in which they ended.
    panics: Vec<(usize, Payload)>,
    spawned: usize,
    /// The host, while it waits for tasks to run or to end.
    waiter: Option<usize>,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks = lock(&self.tasks);
        let (unfinished, queued) = (tasks.unfinished, tasks.waiting.len());
        drop(tasks);
        f.debug_struct("Scope").field("unfinished", &unfinished).field("queued", &queued).finish_non_exhaustive()
    }
}

impl<'scope> Scope<'scope> {
    /// Adds a task. Its handle may be dropped; the scope waits for the task in any case.
    ///
    /// The task gets the scope, so that it can spawn more: `|_| ...` if it does not want to. One allocation.
    pub fn spawn<'s, F, T>(&'s self, f: F) -> Handle<'s, 'scope, T>
    where
        F: FnOnce(&Scope<'scope>) -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let mut tasks = lock(&self.tasks);
        tasks.spawned += 1;
        tasks.unfinished += 1;
        let number = tasks.spawned;
        let task = Arc::new(Spawned { number, state: Mutex::new(State { stage: Stage::Waiting(f), let_go: false }) });
        tasks.waiting.push_back(task.clone());
        let waiter = tasks.waiter;
        drop(tasks);
        self.wake(waiter);
        self.invitation.call();
        Handle { scope: self, task }
    }

    /// As a guest: runs tasks, oldest first, until there are none to begin.
    fn help(&self) {
        let runner = self.invitation.member().filter(|_| self.invitation.is_guest());
        loop {
            let mut tasks = lock(&self.tasks);
            let Some(task) = tasks.waiting.pop_front() else { return };
            let more = !tasks.waiting.is_empty();
            drop(tasks);
            if more {
                self.invitation.call();
            }
            self.run_task(&*task, runner);
        }
    }

    /// As the host: runs tasks, youngest first, until all have ended.
    fn finish(&self) {
        loop {
            let mut tasks = lock(&self.tasks);
            if let Some(task) = tasks.waiting.pop_back() {
                let more = !tasks.waiting.is_empty();
                drop(tasks);
                if more {
                    self.invitation.call();
                }
                self.run_task(&*task, None);
                continue;
            }
            if tasks.unfinished == 0 {
                return;
            }
            tasks.waiter = self.invitation.member();
            drop(tasks);
            let is_needed = || {
                let tasks = lock(&self.tasks);
                tasks.unfinished == 0 || !tasks.waiting.is_empty()
            };
            self.invitation.wait(|_| true, is_needed);
            lock(&self.tasks).waiter = None;
        }
    }

    /// Runs a task unless somebody has begun it. `runner` is this member's number if it is a guest.
    fn run_task(&self, task: &dyn Task<'scope>, runner: Option<usize>) {
        if task.begin(self, runner) {
            self.count_end();
        }
    }

    /// Drops the result of task `number`, which nobody takes. If that panics the task has panicked.
    fn discard_result<T>(&self, number: usize, result: Option<T>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(result))) {
            lock(&self.tasks).panics.push((number, payload));
        }
    }

    fn count_end(&self) {
        let mut tasks = lock(&self.tasks);
        tasks.unfinished -= 1;
        let waiter = if tasks.unfinished == 0 { tasks.waiter } else { None };
        drop(tasks);
        self.wake(waiter);
    }

    fn wake(&self, waiter: Option<usize>) {
        waiter.into_iter().for_each(|waiter| self.invitation.ring(waiter));
    }
}

/// Tasks that joins have begun stay in the queue at least until they are more than these.
const MANY: usize = 32;

/// What the queue knows of a task.
trait Task<'scope>: Send + Sync {
    /// Runs it, unless it was begun before: then false. `runner` is this member's number if it is a guest.
    fn begin(&self, scope: &Scope<'scope>, runner: Option<usize>) -> bool;
    fn is_begun(&self) -> bool;
}

/// What a handle knows of a task.
trait Joined<'scope, T>: Task<'scope> {
    /// Its number in the scope.
    fn number(&self) -> usize;
    /// Its result, if it has ended. Otherwise nobody will ask for it any more.
    fn let_go(&self) -> Option<T>;
    fn has_ended(&self) -> bool;
    /// From now on its end wakes `waiter`. `None` if it has ended already, else the guest that runs it, if it is one.
    fn expect(&self, waiter: Waiter) -> Option<Option<usize>>;
}

/// Who waits for a task.
enum Waiter {
    /// A member of the tree.
    Member(usize),
    /// Another thread, parked.
    Stranger(Thread),
}

struct Spawned<F, T> {
    number: usize,
    state: Mutex<State<F, T>>,
}

struct State<F, T> {
    stage: Stage<F, T>,
    /// Nobody will ask for the result.
    let_go: bool,
}

enum Stage<F, T> {
    Waiting(F),
    Running {
        runner: Option<usize>,
        waiter: Option<Waiter>,
    },
    /// The result, until it is taken; `None` if it panicked.
    Ended(Option<T>),
}

impl<'scope, F, T> Task<'scope> for Spawned<F, T>
where
    F: FnOnce(&Scope<'scope>) -> T + Send + 'scope,
    T: Send + 'scope,
{
    fn begin(&self, scope: &Scope<'scope>, runner: Option<usize>) -> bool {
        let f = {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut state.stage, Stage::Running { runner, waiter: None }) {
                Stage::Waiting(f) => f,
                begun => {
                    state.stage = begun;
                    return false;
                }
            }
        };
        let mut result = match catch_unwind(AssertUnwindSafe(|| f(scope))) {
            Ok(result) => Some(result),
            Err(payload) => {
                lock(&scope.tasks).panics.push((self.number, payload));
                None
            }
        };
        let mut state = lock(&self.state);
        let kept = if state.let_go { None } else { result.take() };
        let before = std::mem::replace(&mut state.stage, Stage::Ended(kept));
        drop(state);
        scope.discard_result(self.number, result);
        match before {
            Stage::Running { waiter: Some(Waiter::Member(member)), .. } => scope.invitation.ring(member),
            Stage::Running { waiter: Some(Waiter::Stranger(thread)), .. } => thread.unpark(),
            _ => {}
        }
        true
    }

    fn is_begun(&self) -> bool {
        !matches!(lock(&self.state).stage, Stage::Waiting(_))
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
        let mut state = lock(&self.state);
        state.let_go = true;
        match &mut state.stage {
            Stage::Ended(result) => result.take(),
            _ => None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(lock(&self.state).stage, Stage::Ended(_))
    }

    fn expect(&self, by: Waiter) -> Option<Option<usize>> {
        match &mut lock(&self.state).stage {
            Stage::Running { runner, waiter } => {
                *waiter = Some(by);
                Some(*runner)
            }
            _ => None,
        }
    }
}

/// A task that was spawned in a [`scope`]. Dropping it changes nothing for the task, whose result is dropped, too.
pub struct Handle<'s, 'scope, T> {
    scope: &'s Scope<'scope>,
    task: Arc<dyn Joined<'scope, T> + 'scope>,
}

impl<T> Drop for Handle<'_, '_, T> {
    fn drop(&mut self) {
        self.scope.discard_result(self.task.number(), self.task.let_go());
    }
}

impl<T> std::fmt::Debug for Handle<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("ended", &self.task.has_ended()).finish_non_exhaustive()
    }
}

impl<'scope, T> Handle<'_, 'scope, T> {
    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.task.has_ended()
    }

    /// The task's result, or what it panicked with. Runs the task if nobody has begun it; otherwise waits, and meanwhile runs what is
    /// part of the task.
    pub fn join(self) -> thread::Result<T> {
        self.scope.begin(&self.task);
        self.await_end();
        if let Some(result) = self.task.let_go() {
            return Ok(result);
        }
        let mut tasks = lock(&self.scope.tasks);
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
                    // A runner that is no guest has other work under this one: it is not helped.
                    invitation.wait(|guest| runner == Some(guest), || self.task.has_ended());
                }
            }
            None => {
                if self.task.expect(Waiter::Stranger(thread::current())).is_some() {
                    while !self.task.has_ended() {
                        thread::park();
                    }
                }
            }
        }
    }
}

impl<'scope> Scope<'scope> {
    /// Runs the task unless somebody has begun it.
    fn begin<T>(&self, task: &Arc<dyn Joined<'scope, T> + 'scope>) {
        if !task.begin(self, None) {
            return;
        }
        // What was joined soon after it was spawned is at the back, or near it.
        let mut tasks = lock(&self.tasks);
        tasks.begun += 1;
        let mut gone = Vec::new();
        while tasks.waiting.back().is_some_and(|last| last.is_begun()) {
            gone.extend(tasks.waiting.pop_back());
            tasks.begun = tasks.begun.saturating_sub(1);
        }
        // The rest is taken out when half of the queue may be of that kind: constant work for each on average.
        if tasks.begun > MANY && tasks.begun > tasks.waiting.len() / 2 {
            tasks.begun = 0;
            let (begun, waiting) = tasks.waiting.drain(..).partition::<Vec<_>, _>(|task| task.is_begun());
            tasks.waiting = waiting.into();
            gone.extend(begun);
        }
        drop(tasks);
        drop(gone);
        self.count_end();
    }
}

/// Tasks do not borrow what ends before the scope does.
/// ```compile_fail,E0373
/// windrow::scope(|s| {
///     let short = 1;
///     s.spawn(|_| short + 1);
/// });
/// ```
#[cfg(doctest)]
struct TasksDoNotBorrowWhatIsInside;

/// Handles do not leave the scope.
/// ```compile_fail
/// let handle = windrow::scope(|s| s.spawn(|_| 1));
/// ```
#[cfg(doctest)]
struct HandlesStayInside;

/// Tasks must be Send.
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// windrow::scope(|s| drop(s.spawn(|_| *shared)));
/// ```
#[cfg(doctest)]
struct TasksMustBeSend;

/// Two tasks do not write to the same place.
/// ```compile_fail,E0499
/// let mut sum = 0;
/// windrow::scope(|s| {
///     s.spawn(|_| sum += 1);
///     s.spawn(|_| sum += 2);
/// });
/// ```
#[cfg(doctest)]
struct TasksDoNotShareAPlace;
