//! The queues of a pool, and how its workers find work, wait and end.
//!
//! # Glossary
//! * *Task*: a closure that one worker runs as a whole. *Part*: the second half of a join, which any member of the tree may run.
//! * *Queue*: a worker's local tasks (it takes the youngest, others take the oldest), its broadcasts (it alone takes them), or the
//!   tasks from outside.
//! * *Host thread*: a thread that leads the tree and runs nothing. *Idle*: in the tree, without task or part.
//! * *Waiting*: inside a task, until a condition holds; meanwhile the worker runs other tasks, or parks.
//! * *Pending*: a broadcast that its worker has not begun.
//!
//! # Protocol
//! One [`Tree`] lasts as long as the pool, and all workers are members of it. The host thread hosts an invitation in it; what guests
//! run is [`help`](PoolCore::help), which takes tasks until it finds none. So idle workers wait for tasks and for parts of joins in
//! one place, the tree.
//! 1. *Push.* A thread puts a task into a queue, under its lock. Then it calls guests, and wakes one worker of the list of waiting
//!    workers, which it reads under the lock of that list. Race prevented: a worker parks while a task is queued.
//! 2. *Wait.* A worker puts itself on that list, and only then checks the queues and its condition. The thread that makes the
//!    condition true wakes the worker afterwards.
//! 3. *Broadcast.* Each worker's queue of broadcasts gets a task, and all waiting workers are woken. One guest comes for one call, and
//!    not always a guest with a broadcast. So a guest that finds no task while a broadcast is pending calls again and waits inside, until
//!    none is pending. For each call another member comes.
//! 4. *Count.* A worker counts as working while it runs a task, or a half of another thread's join, and does not wait. It stops counting
//!    before the end of that task or half is announced. So a join knows every worker whose work ended before the join. If these workers are
//!    more than the older halves, the join makes its second half a task.
//! 5. *Pass on.* A worker that begins to count as working was idle, and earlier announcements may have counted on it. So it announces
//!    again, if other workers are idle.
//! 6. *Loop.* A loop of windrow opens a region at a gate whose workers wait in the tree, and calls a guest. A guest that finds no task
//!    visits that gate, and calls the next guest when it joins. So loops run on the workers too.
//! 7. *End.* The pool's last handle wakes the host thread. That ends the tree and stops the gate.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use windrow_sync::Mutex;
use windrow_sync::fork::Process;
use windrow_sync::gate::{Gate, Visitor, WorkersElsewhere};
use windrow_sync::join::guests::Invitation;
use windrow_sync::join::tree::{Asked, OfferDecision, Tree};
use windrow_sync::latch::Latch;
use windrow_sync::lend::{Lender, lending};
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::{Payload, discard};
use windrow_sync::{Pad, Spin};

use crate::outside::Lease;
use crate::queue::{FifoTasks, QueuedTask, TaskQueue};

/// Queues and thread of one worker.
#[derive(Default)]
pub(crate) struct WorkerRecord {
    local: TaskQueue,
    fifo: Arc<FifoTasks>,
    broadcasts: TaskQueue,
    /// Its number in the tree, once it is known.
    seat: OnceLock<usize>,
    /// Rung for the worker while it waits outside the tree.
    bell: Latch,
}

pub(crate) type IndexHandler = Box<dyn Fn(usize) + Send + Sync>;
pub(crate) type PanicHandler = Box<dyn Fn(Payload) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) start: Option<IndexHandler>,
    pub(crate) exit: Option<IndexHandler>,
    pub(crate) panic: Option<PanicHandler>,
}

impl Handlers {
    /// Hands the payload of a panic without a caller to the panic handler. Without a handler, the process ends.
    pub(crate) fn report(&self, payload: Payload) {
        match &self.panic {
            None => abort("a task"),
            Some(handler) if catch_unwind(AssertUnwindSafe(|| handler(payload))).is_err() => abort("a panic handler"),
            Some(_) => {}
        }
    }

    fn call(&self, handler: Option<&IndexHandler>, index: usize) {
        let Some(handler) = handler else { return };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| handler(index))) {
            self.report(payload);
        }
    }
}

/// Ends the process: a panic that no caller receives must not go unseen.
fn abort(culprit: &str) {
    // A standard error that is closed changes nothing.
    let _ = writeln!(io::stderr(), "rayon-core: {culprit} panicked, and there is no caller to report it to: aborting");
    std::process::abort();
}

/// Shared state of a pool's threads. See the [module page](self).
pub(crate) struct PoolCore {
    pub(crate) gate: Gate,
    invitation: Arc<Invitation>,
    /// The pool of windrow's loops on these workers.
    loops: OnceLock<windrow::Pool>,
    workers: Box<[Pad<WorkerRecord>]>,
    outside: TaskQueue,
    /// Leases of threads outside the pool that no worker has answered.
    leases: Mutex<VecDeque<Arc<Lease>>>,
    /// Workers that wait, the next one to be woken in front. A worker is in the list once for each wait: while it waits it may run a task that
    /// waits.
    waiting: Mutex<VecDeque<usize>>,
    /// Pending broadcasts, and workers that run a task or a half of another thread and do not wait. Written under the lock of `waiting`.
    pending: RelaxedU64,
    working: Pad<RelaxedU64>,
    pub(crate) handlers: Handlers,
    over: Latch,
    is_hosted: OnceLock<()>,
    life: OnceLock<Weak<PoolLife>>,
    /// Worker 0 is a thread of the program, which serves no gate.
    pub(crate) has_current: bool,
    process: Process,
}

/// In a forked child: what the tasks borrow may be gone, and the workers that run them stayed in the parent.
impl Drop for PoolCore {
    fn drop(&mut self) {
        if !self.process.is_this() {
            std::mem::forget((std::mem::take(&mut self.workers), std::mem::take(&mut self.outside)));
        }
    }
}

/// Ends the pool when the last handle and the last spawned task are gone.
pub(crate) struct PoolLife {
    pub(crate) core: Arc<PoolCore>,
}

impl Drop for PoolLife {
    fn drop(&mut self) {
        self.core.end();
    }
}

/// A thread's place in a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerPlace {
    /// The address of the pool.
    pool: usize,
    pub(crate) index: usize,
}

thread_local! {
    static PLACE: Cell<Option<WorkerPlace>> = const { Cell::new(None) };
    static CORE: RefCell<Option<Arc<PoolCore>>> = const { RefCell::new(None) };
    /// Tasks and halves of other threads that this worker is inside, since it last began to wait.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// This worker at the gate of the pool's loops.
    static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
}

/// This thread's place, if it is a worker of a pool.
#[inline]
pub(crate) fn place() -> Option<WorkerPlace> {
    PLACE.try_with(Cell::get).ok().flatten()
}

/// This worker's pool and index.
pub(crate) fn current() -> Option<(Arc<PoolCore>, usize)> {
    let place = place()?;
    let core = CORE.try_with(|core| core.borrow().clone()).ok().flatten()?;
    Some((core, place.index))
}

/// True if the pool has more idle workers than worker `index`, which is this thread, has work for: a half on offer, and local tasks.
#[inline]
pub(crate) fn is_crowded(index: usize) -> bool {
    let is_crowded = |core: &Arc<PoolCore>| {
        let free = (core.threads() as u64).saturating_sub(core.working.0.get());
        free > 1 && free > 1 + core.workers[index].0.local.len()
    };
    CORE.try_with(|core| core.borrow().as_ref().is_some_and(is_crowded)).unwrap_or(false)
}

/// Runs `f`, a task or a half that has come from another thread. Until the end of `f` this worker counts as working.
///
/// The end of the task or half is announced afterwards. So a thread that knows of that end does not count this worker any more.
pub(crate) fn working<R>(f: impl FnOnce() -> R) -> R {
    struct Working;
    impl Drop for Working {
        fn drop(&mut self) {
            let depth = DEPTH.get() - 1;
            DEPTH.set(depth);
            if depth == 0 {
                count_working(-1);
            }
        }
    }
    if place().is_none() {
        return f();
    }
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        count_working(1);
    }
    let _working = Working;
    f()
}

/// [`working`], for a half of a join.
#[cold]
#[inline(never)]
pub(crate) fn working_on_half<R>(f: impl FnOnce() -> R) -> R {
    working(f)
}

fn count_working(more: i64) {
    let _ = CORE.try_with(|core| {
        if let Some(core) = &*core.borrow() {
            let working = core.count_working(more);
            // This worker was idle. Other threads may have announced work meanwhile, and counted on this worker.
            if more > 0 && working < core.threads() {
                core.invitation.pass_on();
            }
        }
    });
}

/// Makes this thread worker `index`. Returns false, without effect, if it is a worker already.
pub(crate) fn enter(core: &Arc<PoolCore>, index: usize) -> bool {
    if place().is_some() {
        return false;
    }
    PLACE.set(Some(WorkerPlace { pool: core.address(), index }));
    CORE.replace(Some(core.clone()));
    if index == 0 && core.has_current {
        // A thread of the program takes tasks only while it waits.
        DEPTH.set(1);
        core.count_working(1);
    }
    true
}

fn leave() {
    PLACE.set(None);
    drop(CORE.take());
}

impl PoolCore {
    pub(crate) fn new(workers: usize, has_current: bool, handlers: Handlers) -> PoolCore {
        PoolCore {
            gate: Gate::new(workers - usize::from(has_current)),
            invitation: Arc::default(),
            loops: OnceLock::new(),
            workers: (0..workers).map(|_| Pad::default()).collect(),
            outside: TaskQueue::default(),
            leases: Mutex::default(),
            waiting: Mutex::default(),
            pending: RelaxedU64::new(0),
            working: Pad::default(),
            handlers,
            over: Latch::new(),
            is_hosted: OnceLock::new(),
            life: OnceLock::new(),
            has_current,
            process: Process::this(),
        }
    }

    fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.len()
    }

    /// The place of this thread, if it is a worker of this pool.
    pub(crate) fn place(self: &Arc<Self>) -> Option<WorkerPlace> {
        place().filter(|place| place.pool == self.address())
    }

    fn index(self: &Arc<Self>) -> Option<usize> {
        self.place().map(|place| place.index)
    }

    /// The handle that keeps the pool alive; `None` if the pool is ending.
    pub(crate) fn life(&self) -> Option<Arc<PoolLife>> {
        self.life.get()?.upgrade()
    }

    /// Makes the handle that keeps this pool alive.
    pub(crate) fn begin_life(self: &Arc<Self>) -> Arc<PoolLife> {
        let life = Arc::new(PoolLife { core: self.clone() });
        let _ = self.life.set(Arc::downgrade(&life));
        life
    }

    /// The host thread has started.
    pub(crate) fn set_hosted(&self) {
        let _ = self.is_hosted.set(());
    }

    /// Ends the threads once they have nothing to do.
    pub(crate) fn end(&self) {
        match self.is_hosted.get() {
            Some(()) => self.over.set(),
            None => self.gate.stop(),
        }
    }

    // The threads.

    /// The life of the host thread.
    pub(crate) fn host(self: &Arc<Self>) {
        let workers = self.threads() - usize::from(self.has_current);
        let mut tree = Tree::new(workers + 1, windrow::hooks::join_timing());
        let (lead, tree) = tree.lead();
        let serve = |_| tree.serve();
        windrow::hooks::region_of(&self.gate, &serve, |door| {
            let ask = |asked: &Asked<'_>| {
                asked.furnish();
                if door.open(workers + 1) { OfferDecision::Opened } else { OfferDecision::Never }
            };
            lead.grow(0, &ask, || {
                // A join asks, and so lets the workers in.
                windrow_sync::join::join(|| (), || (), |_, _| unreachable!("inside the tree"));
                self.invitation.host(&|| self.help(), || self.over.wait_for(None));
            });
        });
        self.gate.stop();
    }

    /// The life of a worker that is a thread of the pool.
    pub(crate) fn work(self: Arc<Self>, index: usize) {
        match self.loops.get() {
            Some(pool) => {
                VISITOR.set(Some(windrow::hooks::gate(pool).visitor(index + 1)));
                pool.install(|| self.serve(index));
            }
            None => self.serve(index),
        }
    }

    fn serve(self: &Arc<Self>, index: usize) {
        let is_first = enter(self, index);
        assert!(is_first, "a worker's thread is no worker of another pool");
        self.handlers.call(self.handlers.start.as_ref(), index);
        self.gate.serve(index + 1 - usize::from(self.has_current), |_| Spin::NONE);
        self.handlers.call(self.handlers.exit.as_ref(), index);
        leave();
    }

    /// Runs tasks until none is left, as a guest.
    fn help(self: &Arc<Self>) {
        let Some(index) = self.index() else { return };
        self.note_seat(index);
        while self.process.is_this() {
            if let Some(task) = self.find(index) {
                if self.has_more() || self.pending.get() > 0 {
                    self.invitation.call();
                }
                self.run(task);
            } else if let Some(lease) = self.take_lease() {
                self.invitation.call();
                working(|| lease.lend(index));
            } else if self.pending.get() > 0 {
                // Another worker's broadcast is pending: call a further member, and wait. The pool does not end meanwhile.
                let Some(_life) = self.life() else { return };
                self.invitation.call();
                self.park(index, &|| self.pending.get() == 0);
            } else {
                self.visit_loops();
                if !self.has_work(index) && self.leases.lock().is_empty() {
                    return;
                }
            }
        }
    }

    // Loops.

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// True if the pool has threads that wait for work.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads() > usize::from(self.has_current)
    }

    /// Queues `lease` for an idle worker.
    pub(crate) fn ask_for(&self, lease: Arc<Lease>) {
        self.leases.lock().push_back(lease);
        self.invitation.call();
    }

    fn take_lease(&self) -> Option<Arc<Lease>> {
        self.leases.lock().pop_front()
    }

    /// Pool of windrow whose loops run on these workers: those of the workers, and with [`make_global`](windrow::hooks::make_global) those of other
    /// threads. Before the workers start.
    pub(crate) fn run_loops(&self) -> &windrow::Pool {
        let caller = || Box::new(IdleWorkers(self.invitation.clone()));
        self.loops.get_or_init(|| windrow::hooks::pool_elsewhere(self.threads(), caller()))
    }

    /// Takes part in loops that call this worker.
    fn visit_loops(&self) {
        let Some(gate) = self.loops.get().map(windrow::hooks::gate) else { return };
        VISITOR.with_borrow_mut(|visitor| match visitor {
            Some(visitor) if gate.calls(visitor) => working(|| gate.visit(visitor)),
            _ => {}
        });
    }

    // Tasks.

    /// Queues a task: in the queue of this worker, or in the outside queue.
    pub(crate) fn push(self: &Arc<Self>, task: QueuedTask) {
        match self.index() {
            Some(index) => _ = self.workers[index].0.local.push(task),
            None => return self.inject(task),
        }
        self.announce();
    }

    /// The result of a part whose panic is resumed later; in a forked child it is resumed at once, since what follows may fail there.
    pub(crate) fn unless_forked<R>(&self, result: thread::Result<R>) -> thread::Result<R> {
        match result {
            Err(payload) if !self.process.is_this() => resume_unwind(payload),
            result => result,
        }
    }

    fn assert_of_this_process(&self) {
        assert!(
            self.process.is_this(),
            "the threads of this task pool stayed in the parent of this forked process: make a pool here"
        );
    }

    /// Queues a task in the outside queue.
    pub(crate) fn inject(&self, task: QueuedTask) {
        self.assert_of_this_process();
        self.outside.push(task);
        self.announce();
    }

    /// Queues a task of this pool behind those that came before it in the same way. `own` is for the tasks of a scope.
    pub(crate) fn push_fifo(self: &Arc<Self>, task: QueuedTask, own: Option<&[Arc<FifoTasks>]>) {
        let Some(index) = self.index() else { return self.inject(task) };
        let fifo = own.map_or(&self.workers[index].0.fifo, |own| &own[index]);
        fifo.lock().push_back(task);
        self.workers[index].0.local.push(QueuedTask::OldestOf(fifo.clone()));
        self.announce();
    }

    /// Queues the task of each worker, which `task` makes from its index.
    pub(crate) fn push_broadcast(&self, task: impl FnMut(usize) -> QueuedTask) {
        self.assert_of_this_process();
        // All are made before the first is queued.
        let tasks: Vec<QueuedTask> = (0..self.threads()).map(task).collect();
        let waiting = self.waiting.lock();
        for (worker, task) in self.workers.iter().zip(tasks) {
            worker.0.broadcasts.push(task);
            self.pending.add(1);
        }
        let woken = waiting.clone();
        drop(waiting);
        self.invitation.call();
        woken.into_iter().for_each(|index| self.wake(index));
        if self.has_current {
            // The thread of worker 0 may be parked in other code. Then the broadcast waits.
            self.wake(0);
        }
    }

    fn announce(&self) {
        self.invitation.call();
        let mut waiting = self.waiting.lock();
        let next = waiting.front().copied();
        if let Some(index) = next {
            waiting.rotate_left(1);
            drop(waiting);
            self.wake(index);
        }
    }

    /// Makes a waiting worker check again.
    pub(crate) fn wake(&self, index: usize) {
        let worker = &self.workers[index].0;
        if let Some(&seat) = worker.seat.get() {
            self.invitation.ring(seat);
        }
        worker.bell.set();
    }

    /// A task for worker `index`: its youngest, else a broadcast, else another worker's oldest, else the oldest from outside.
    fn find(&self, index: usize) -> Option<QueuedTask> {
        if !self.process.is_this() {
            return self.workers[index].0.local.take(true);
        }
        self.find_own(index).or_else(|| {
            let count = self.threads();
            let others = (1..count).map(|next| &self.workers[(index + next) % count].0);
            others.into_iter().find_map(|other| other.local.take(false)).or_else(|| self.outside.take(false))
        })
    }

    fn find_own(&self, index: usize) -> Option<QueuedTask> {
        let own = &self.workers[index].0;
        own.local.take(true).or_else(|| {
            let task = own.broadcasts.take(false)?;
            let waiting = self.waiting.lock();
            let pending = self.pending.get() - 1;
            self.pending.set(pending);
            let woken = if pending == 0 { waiting.clone() } else { VecDeque::new() };
            drop(waiting);
            woken.into_iter().for_each(|index| self.wake(index));
            Some(task)
        })
    }

    fn has_more(&self) -> bool {
        !self.outside.is_empty() || self.workers.iter().any(|worker| !worker.0.local.is_empty())
    }

    fn has_work(&self, index: usize) -> bool {
        self.has_more() || !self.workers[index].0.broadcasts.is_empty()
    }

    pub(crate) fn has_local(&self, index: usize) -> bool {
        !self.workers[index].0.local.is_empty()
    }

    fn run(&self, task: QueuedTask) {
        let task = match task {
            QueuedTask::OldestOf(fifo) => fifo.lock().pop_front(),
            task => Some(task),
        };
        // A task catches its panics: each kind of task has another receiver for them.
        match task {
            Some(QueuedTask::Owned(task)) => task(),
            Some(QueuedTask::Lent(task)) => task.run(),
            _ => unreachable!("each stand-in has its task"),
        }
    }

    /// Runs one task, if there is one: of any queue, or this worker's own.
    pub(crate) fn run_one(&self, index: usize, own: bool) -> bool {
        let task = if own { self.find_own(index) } else { self.find(index) };
        task.map(|task| self.run(task)).is_some()
    }

    /// Returns how many workers are working.
    fn count_working(&self, more: i64) -> usize {
        let _waiting = self.waiting.lock();
        let working = self.working.0.get().wrapping_add_signed(more);
        self.working.0.set(working);
        working as usize
    }

    // Waiting.

    fn note_seat(&self, index: usize) -> bool {
        let seat = self.invitation.member();
        seat.into_iter().for_each(|seat| _ = self.workers[index].0.seat.set(seat));
        seat.is_some()
    }

    /// Worker `index` waits until `done`. Meanwhile it runs tasks. In a forked child `done` may be false afterwards.
    pub(crate) fn wait_until(&self, index: usize, done: &dyn Fn() -> bool) {
        while !done() {
            if !self.run_one(index, false) {
                if !self.process.is_this() {
                    return;
                }
                self.park(index, done);
            }
        }
    }

    /// Parks until `done`, or until there is a task. May return spuriously.
    fn park(&self, index: usize, done: &dyn Fn() -> bool) {
        let is_member = self.note_seat(index);
        let depth = DEPTH.replace(0);
        if depth > 0 {
            self.count_working(-1);
        }
        self.waiting.lock().push_back(index);
        let is_needed = || done() || self.has_work(index);
        if is_member {
            self.invitation.wait(|_| true, is_needed);
        } else {
            while !is_needed() {
                self.workers[index].0.bell.wait_for(None);
            }
        }
        let mut waiting = self.waiting.lock();
        if let Some(at) = waiting.iter().position(|&other| other == index) {
            waiting.remove(at);
        }
        drop(waiting);
        if depth > 0 {
            self.count_working(1);
        }
        DEPTH.set(depth);
    }

    /// [`lending`], with this thread as host. If it is a worker of a pool, it runs tasks of that pool while it waits.
    pub(crate) fn lending<'scope, R>(f: impl FnOnce(&Lender<'scope, WakeHost>) -> R) -> R {
        match current() {
            Some((core, index)) => {
                let ended: WakeHost = Box::new({
                    let core = core.clone();
                    let host = place();
                    // A loan that the host itself has ended needs no wakeup, which would be a system call.
                    move || {
                        if place() != host {
                            core.wake(index);
                        }
                    }
                });
                lending(ended, |done| core.wait_until(index, done), f)
            }
            None => {
                let bell = Arc::new(Latch::new());
                let host = bell.clone();
                let wait = |done: &dyn Fn() -> bool| crate::outside::wait(done, &bell);
                lending(Box::new(move || host.set()) as WakeHost, wait, f)
            }
        }
    }

    /// Runs `op` on a worker of this pool, with the place of that worker, and whether `op` was handed over to it by another thread.
    pub(crate) fn on_worker<R: Send>(self: &Arc<Self>, op: impl FnOnce(WorkerPlace, bool) -> R + Send) -> R {
        if let Some(here) = self.place() {
            return op(here, false);
        }
        let result = Mutex::new(None);
        Self::lending(|lender| {
            let job = || {
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    working(|| op(self.place().expect("a worker of this pool runs its tasks"), true))
                }));
                *result.lock() = Some(ended);
            };
            self.inject(QueuedTask::Lent(lender.lend(job)));
        });
        received(result)
    }

    /// A join whose second half is a task. By worker `index` of this pool.
    #[cold]
    #[inline(never)]
    pub(crate) fn join_tasks<A, B, RA, RB>(self: &Arc<Self>, index: usize, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA,
        B: FnOnce() -> RB + Send,
        RB: Send,
    {
        let result = Mutex::new(None);
        let ra = Self::lending(|lender| {
            let half = || {
                // `b` itself counts its thread as working.
                let ended = catch_unwind(AssertUnwindSafe(b));
                *result.lock() = Some(ended);
            };
            let local = &self.workers[index].0.local;
            let number = local.push(QueuedTask::Lent(lender.lend(half)));
            self.announce();
            let ra = self.unless_forked(catch_unwind(AssertUnwindSafe(a)));
            // Run local tasks, down to the half. If another worker has taken the half, the host waits for it.
            while let Some(task) = local.take_since(number) {
                self.run(task);
            }
            ra
        });
        match ra {
            Ok(ra) => (ra, received(result)),
            Err(payload) => {
                discard(result.into_inner());
                resume_unwind(payload)
            }
        }
    }
}

/// The idle members of a pool's tree.
struct IdleWorkers(Arc<Invitation>);

impl WorkersElsewhere for IdleWorkers {
    fn idle(&self) -> (usize, usize) {
        self.0.idle()
    }

    fn call(&self) {
        self.0.call();
    }
}

pub(crate) type WakeHost = Box<dyn Fn() + Send + Sync>;

/// The result of a task that has ended, or its panic.
pub(crate) fn received<R>(result: Mutex<Option<thread::Result<R>>>) -> R {
    match result.into_inner() {
        Some(Ok(result)) => result,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("a queued task runs"),
    }
}
