//! The lock's guard: the queue, batches, and passing the lock on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

use super::node::{
    BUSY, DONE, Entry, Fate, GONE, INVITED, LEAD, Node, QUEUED, QueuedNode, TAKEN, WATCHED, WakeTarget, phase,
};
use super::{CALLED, CLOSED, HELD, Submit, TAGS};
use crate::base::debug::show_as;
use crate::base::primitives::Ordering;
use crate::base::unwind::discard;

/// The state that belongs to the holder of the lock.
pub(super) struct HolderState<T, A, B> {
    pub(super) data: T,
    /// The queue, oldest first, linked.
    first: Option<QueuedNode<T, A, B>>,
    last: Option<QueuedNode<T, A, B>>,
    /// The first node of the queue that no holder has seen on letting go. All nodes after it are fresh, too.
    fresh: Option<QueuedNode<T, A, B>>,
    /// A future that is not fresh may have given an invitation back. If false, all that are not fresh are invited.
    asks: bool,
    /// Number of nodes of the queue that are threads', of those among them that are jobs, and of operations that the others and futures hold.
    threads: usize,
    jobs: usize,
    ops: usize,
    /// The batch that runs; empty while none runs. If a [`BatchGuard`] is leaked, the next use of the lock's guard answers its batch.
    parts: Vec<EntryRun<T, A, B>>,
    /// Entries of a batch that come from several nodes.
    gathered: Vec<Entry<A, B>>,
}

impl<T, A, B> HolderState<T, A, B> {
    pub(super) fn new(data: T) -> Self {
        let (parts, gathered) = (Vec::new(), Vec::new());
        let (first, last, fresh) = (None, None, None);
        HolderState { data, first, last, fresh, asks: false, threads: 0, jobs: 0, ops: 0, parts, gathered }
    }

    fn pop(&mut self) {
        if let Some(first) = self.first {
            self.unlink(None, first);
        }
    }

    /// Takes the node after `before`, or the first, out of the queue.
    fn unlink(&mut self, before: Option<QueuedNode<T, A, B>>, at: QueuedNode<T, A, B>) {
        let next = at.next();
        match before {
            None => self.first = next,
            Some(before) => before.set_next(next),
        }
        if next.is_none() {
            self.last = before;
        }
        if self.fresh == Some(at) {
            self.fresh = next;
        }
        self.threads -= usize::from(!at.is_task());
        match at.entries() {
            Some((_, left)) => self.ops -= left,
            None => self.jobs -= 1,
        }
    }

    /// The queued nodes, oldest first.
    fn queue(&self) -> impl Iterator<Item = QueuedNode<T, A, B>> {
        std::iter::successors(self.first, |at| at.next())
    }

    /// The oldest node of a thread. Walks through the queue if it holds one.
    fn oldest_thread(&self) -> Option<QueuedNode<T, A, B>> {
        if self.threads == 0 { None } else { self.queue().find(|at| !at.is_task()) }
    }

    /// Appends nodes that are linked newest first.
    fn append(&mut self, newest: QueuedNode<T, A, B>) {
        let (mut at, mut oldest) = (Some(newest), None);
        while let Some(node) = at {
            at = node.next();
            node.set_next(oldest);
            self.threads += usize::from(!node.is_task());
            match node.entries() {
                Some((_, ops)) => self.ops += ops,
                None => self.jobs += 1,
            }
            oldest = Some(node);
        }
        self.fresh = self.fresh.or(oldest);
        match self.last {
            None => self.first = oldest,
            Some(last) => last.set_next(oldest),
        }
        self.last = Some(newest);
    }

    /// Collects the entries of a batch that comes from several nodes.
    fn gather(&mut self) {
        if self.parts.len() > 1 {
            for part in &mut self.parts {
                self.gathered.extend(part.entries().iter_mut().map(std::mem::take));
            }
        }
    }
}

/// A run of entries of one node that is in the batch.
struct EntryRun<T, A, B> {
    node: QueuedNode<T, A, B>,
    first: *mut Entry<A, B>,
    len: usize,
    /// All entries of the node have been cut.
    is_last: bool,
    /// The waiter that was taken from the node when it was cut.
    waiter: Option<WakeTarget>,
}

impl<T, A, B> EntryRun<T, A, B> {
    fn entries(&mut self) -> &mut [Entry<A, B>] {
        // SAFETY: the entries' caller waits for the answer, or they lie in a slot; only the holder uses them.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

/// The weight of an operation.
pub type WeighOp<'l, A> = &'l dyn Fn(&A) -> usize;

/// The maximum size of a batch. At least one operation is cut, even if it weighs more.
pub struct Limit<'l, A> {
    /// Operations.
    pub ops: usize,
    /// The maximum sum of weights, and the weight of an operation.
    pub weight: Option<(usize, WeighOp<'l, A>)>,
}

show_as!("Limit": [A] Limit<'_, A>, |it| ops: it.ops, weight: it.weight.map(|(most, _)| most));

thread_local! {
    /// A buffer for waiters, kept from one lead to the next.
    static ROOM: Cell<Vec<WakeTarget>> = const { Cell::new(Vec::new()) };
}

/// The lock's guard. Dropping it passes the lock on, or lets go. See the [module page](super).
pub struct LockGuard<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
    /// The node of the caller that leads, until it is answered.
    leader: Option<QueuedNode<T, A, B>>,
    /// The waiters to wake, threads first.
    to_wake: Vec<WakeTarget>,
    /// The number of threads among these: the direct wakes. Then `chained`: the number of threads that these wake, in chains.
    threads: usize,
    chained: usize,
}

// SAFETY: the lock belongs to no thread. The nodes that the guard reaches may be used by its holder, whichever thread that is, as the tables
// of the module page say; waiters are `Send`.
unsafe impl<T: Send, A: Send, B: Send> Send for LockGuard<'_, T, A, B> {}

show_as!("LockGuard": [T: Send, A: Send, B: Send] LockGuard<'_, T, A, B>, |it| leads: it.leader.is_some());

impl<'s, T: Send, A: Send, B: Send> LockGuard<'s, T, A, B> {
    #[inline]
    pub(super) fn new(submit: &'s Submit<T, A, B>, leader: Option<NonNull<Node<T, A, B>>>) -> Self {
        let leader = leader.map(QueuedNode::new);
        if let Some(leader) = leader.filter(|leader| !leader.is_task()) {
            // Relaxed: the state was `LEAD`, or is that of the push; only the node's owner reads it now, and the owner has the lock.
            leader.node().state.store(QUEUED, Ordering::Relaxed);
        }
        LockGuard { submit, leader, to_wake: Vec::new(), threads: 0, chained: 0 }
    }

    fn inside<R>(&mut self, f: impl FnOnce(&mut HolderState<T, A, B>) -> R) -> R {
        // SAFETY: the lock is held, and this borrows the guard mutably.
        self.submit.inside.0.with_mut(|inside| f(unsafe { &mut *inside }))
    }

    /// The data.
    #[inline]
    pub fn data(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this borrows the guard mutably.
        self.submit.inside.0.with_mut(|inside| unsafe { &mut (*inside).data })
    }

    /// True if the operations of the caller that leads are answered, or it has handed in none.
    pub fn is_leader_answered(&self) -> bool {
        self.leader.is_none()
    }

    /// The number of parked threads among the callers answered last.
    pub fn sleepers(&self) -> usize {
        self.threads + self.chained
    }

    /// True if any node is queued.
    pub fn is_more(&mut self) -> bool {
        self.pull();
        self.inside(|inside| inside.first.is_some())
    }

    /// The number of queued operations, those of dropped futures included; `None` if a job is among them, which waits for all before it.
    pub fn queued(&mut self) -> Option<usize> {
        self.pull();
        self.inside(|inside| (inside.jobs == 0).then_some(inside.ops))
    }

    /// Moves the pushed nodes to the end of the queue.
    fn pull(&mut self) {
        let word = &self.submit.word.0;
        // Acquire: pairs with the Release in `Submit::push` and `Submit::take_or_nudge`; the nodes are complete, and a state that was changed
        // before a nudge is seen. Relaxed: validated.
        let pulled = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            let is_new = word.addr() & !CLOSED != HELD;
            is_new.then(|| ptr::without_provenance_mut(word.addr() & CLOSED | HELD))
        });
        let Ok(seen) = pulled else { return };
        let newest = QueuedNode::at(seen.map_addr(|word| word & !TAGS));
        self.inside(|inside| {
            inside.asks |= seen.addr() & CALLED != 0;
            if let Some(newest) = newest {
                inside.append(newest);
            }
        });
    }

    /// The next batch: operations from the front of the queue, in the order in which they were handed in, without those of
    /// dropped futures. Jobs at the front are run first. `None` if nothing is queued, or if the next is a job.
    pub fn cut(&mut self, limit: &Limit<'_, A>) -> Option<BatchGuard<'_, 's, T, A, B>> {
        self.answer(Fate::default(), usize::MAX);
        self.wake_answered();
        self.pull();
        // Made before the first part: if `weigh` panics, the guard's drop answers the callers that were cut already.
        let cut = BatchGuard { held: self, fate: Fate::default(), direct: usize::MAX };
        let mut room = limit.ops.max(1);
        let mut weight = limit.weight.map_or(usize::MAX, |(most, _)| most);
        while room > 0 && cut.held.cut_one(limit, &mut room, &mut weight) {}
        cut.held
            .inside(|inside| {
                inside.gather();
                !inside.parts.is_empty()
            })
            .then_some(cut)
    }

    /// Moves what fits of the first node into the batch; returns whether there may be more.
    fn cut_one(&mut self, limit: &Limit<'_, A>, room: &mut usize, weight: &mut usize) -> bool {
        let (first, is_first) = self.inside(|inside| (inside.first, inside.parts.is_empty()));
        let Some(node) = first else { return false };
        // Acquire: pairs with the Release in `TaskOp::drop`; the future no longer uses the slot.
        if node.is_task() && phase(node.node().state.load(Ordering::Acquire)) == GONE {
            self.inside(HolderState::pop);
            self.free(node);
            return true;
        }
        let Some((first, left)) = node.entries() else {
            if is_first {
                self.run_job(node);
            }
            return is_first;
        };
        let mut part = EntryRun { node, first, len: left.min(*room), is_last: false, waiter: None };
        if let Some((_, weigh)) = limit.weight {
            let mut fitting = 0;
            for entry in part.entries() {
                // Every entry holds an operation: see `Submit::call`.
                let one = if let Entry::Op(op) = entry { weigh(op) } else { 0 };
                if one > *weight && !(is_first && fitting == 0) {
                    break;
                }
                *weight = weight.saturating_sub(one);
                fitting += 1;
            }
            part.len = fitting;
        }
        if part.len == 0 {
            return false;
        }
        if node.is_task() {
            match take(node) {
                Ok(taken) => part.waiter = taken,
                Err(Dropped) => return true,
            }
        }
        let (len, is_last) = (part.len, part.len == left);
        *room -= len;
        part.is_last = is_last;
        self.inside(|inside| {
            if is_last {
                inside.pop()
            } else {
                inside.ops -= len
            }
            inside.parts.push(part);
        });
        node.add_cut(len);
        is_last
    }

    fn run_job(&mut self, at: QueuedNode<T, A, B>) {
        let waiter = match at.is_task().then(|| take(at)).transpose() {
            Ok(waiter) => waiter.flatten(),
            Err(Dropped) => return,
        };
        self.inside(HolderState::pop);
        let ran = catch_unwind(AssertUnwindSafe(|| at.run_job(self.data())));
        // Also after a panic: the job's caller must not wait for ever.
        match at.is_task() {
            true => self.answer_task(at, waiter),
            false => self.answer_thread(at, usize::MAX),
        }
        ran.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// Answers all callers in the batch. Of the parked threads, `direct` will be woken directly, the others in chains.
    fn answer(&mut self, fate: Fate, direct: usize) {
        if self.inside(|inside| inside.parts.is_empty()) {
            return;
        }
        let take = |inside: &mut HolderState<T, A, B>| {
            (std::mem::take(&mut inside.parts), std::mem::take(&mut inside.gathered))
        };
        let (mut parts, mut gathered) = self.inside(take);
        let mut all = gathered.drain(..);
        for mut part in parts.drain(..) {
            part.node.answer_with(fate, || {
                if all.len() > 0 {
                    part.entries().iter_mut().zip(&mut all).for_each(|(entry, done)| *entry = done);
                }
            });
            match (part.is_last, part.node.is_task()) {
                (false, _) => {}
                (true, true) => self.answer_task(part.node, part.waiter),
                (true, false) => self.answer_thread(part.node, direct),
            }
        }
        drop(all);
        self.inside(|inside| (inside.parts, inside.gathered) = (parts, gathered));
    }

    /// Sets a thread's node to `DONE`. If the thread is parked and `direct` others will be woken directly, it takes the place of one of
    /// them, and will wake the replaced one.
    fn answer_thread(&mut self, at: QueuedNode<T, A, B>, direct: usize) {
        self.forget_leader(at);
        self.turn_thread(at, DONE, direct);
    }

    /// Returns whether `at` is the node of the caller that leads, which needs no wakeup; if so, the guard forgets the node.
    fn forget_leader(&mut self, at: QueuedNode<T, A, B>) -> bool {
        let is_leader = self.leader == Some(at);
        if is_leader {
            self.leader = None;
        }
        is_leader
    }

    /// Sets the thread's node to `DONE` or `LEAD`, and notes the thread for a wakeup if it is parked. After that the node may be
    /// gone.
    fn turn_thread(&mut self, at: QueuedNode<T, A, B>, to: u32, direct: usize) {
        let state = &at.node().state;
        // Release: pairs with the Acquire in `Node::wait`; the replies are visible, or what was done to the data is seen.
        // Acquire: pairs with the Release in `Node::wait`; the waiter is visible.
        if state.compare_exchange(QUEUED, to, Ordering::Release, Ordering::Acquire).is_err() {
            let mut waiter = at.take_waiter();
            if self.threads >= direct
                && let Some(own) = &mut waiter
            {
                std::mem::swap(&mut self.to_wake[self.chained % self.threads], own);
                self.chained += 1;
                at.replace_late(waiter.take());
            }
            // Release: as above.
            state.store(to, Ordering::Release);
            self.wake_later(waiter);
        }
    }

    /// Sets a future's node to `DONE`, or frees its slot if the future is gone. `waiter` was taken when the node was cut.
    fn answer_task(&mut self, at: QueuedNode<T, A, B>, mut waiter: Option<WakeTarget>) {
        let is_leader = self.forget_leader(at);
        let mut state = TAKEN;
        loop {
            let next = if state & WATCHED == 0 { DONE } else { BUSY };
            // Release: pairs with the Acquire in `TaskOp::wait`; the reply is visible.
            // Acquire: pairs with the Release in `register` and in `TaskOp::drop`; a new waker is visible, or the future no longer
            // uses the slot.
            match at.node().state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next == DONE && is_leader => return discard(waiter),
                Ok(_) if next == DONE => return self.wake_later(waiter),
                Ok(_) => {
                    discard(waiter);
                    waiter = at.replace_late(None);
                    state = BUSY;
                }
                Err(now) if phase(now) == GONE => {
                    discard(waiter);
                    return self.free(at);
                }
                Err(now) => state = now,
            }
        }
    }

    fn wake_later(&mut self, waiter: Option<WakeTarget>) {
        if let Some(waiter) = waiter {
            if self.to_wake.capacity() == 0 {
                self.to_wake = ROOM.try_with(Cell::take).unwrap_or_default();
            }
            let is_thread = matches!(waiter, WakeTarget::Thread(_));
            self.to_wake.push(waiter);
            if is_thread {
                let last = self.to_wake.len() - 1;
                self.to_wake.swap(self.threads, last);
                self.threads += 1;
            }
        }
    }

    /// Wakes the callers that are answered, as `cut` and the drop do. A waker is foreign code: its panic must not keep other callers from
    /// being woken. Nor may it reach the holder, which may be an unrelated caller, or the runner that all callers depend on.
    pub fn wake_answered(&mut self) {
        (self.threads, self.chained) = (0, 0);
        for waiter in self.to_wake.drain(..) {
            discard(catch_unwind(AssertUnwindSafe(|| waiter.wake())));
        }
    }

    /// Frees the slot of a future that was dropped.
    fn free(&mut self, at: QueuedNode<T, A, B>) {
        self.forget_leader(at);
        // The future is gone and the node is not in the queue, so the slot is the holder's alone.
        self.submit.free(at);
    }

    /// Takes the caller's own node out of the queue.
    fn withdraw(&mut self, leader: QueuedNode<T, A, B>) {
        self.pull();
        self.inside(|inside| {
            let before = inside.queue().find(|at| at.next() == Some(leader));
            if before.is_some() || inside.first == Some(leader) {
                inside.unlink(before, leader);
            }
        });
        self.answer_thread(leader, usize::MAX);
    }

    /// Lets go of the lock if nothing is queued.
    #[inline]
    pub(super) fn let_go(&mut self) -> bool {
        let held = ptr::without_provenance_mut(HELD);
        // Release: pairs with the Acquire in `Submit::try_lock`, `try_read`, `push` and `take_or_nudge`; the next holder sees the
        // data.
        // Relaxed: after a failure, the slow path loads the word again.
        self.inside(|inside| inside.first.is_none() && inside.parts.is_empty())
            && self.submit.word.0.compare_exchange(held, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Passes the lock on, or lets go; returns whether to signal the runner.
    #[cold]
    fn hand_on(&mut self) -> bool {
        loop {
            self.pull();
            let mut to = CALLED;
            let mut is_called = false;
            if self.inside(|inside| inside.first.is_none()) {
                to = 0;
            } else if self.submit.signal.is_some() {
                is_called = true;
            } else if let Some(thread) = self.inside(|inside| inside.oldest_thread()) {
                self.turn_thread(thread, LEAD, usize::MAX);
                return false;
            } else if !self.invite_tasks() {
                continue;
            }
            let word = &self.submit.word.0;
            // Nodes that were pushed since the pull may stay in the word only if the runner is called: it will see them. Otherwise such
            // a node may be that of a thread, to be granted the lock, or of a future, to be invited.
            // Release: pairs with the Acquire in `Submit::try_lock`, `try_read`, `push` and `take_or_nudge`; the next holder sees
            // the data. Relaxed: validated.
            let let_go = word.fetch_update(Ordering::Release, Ordering::Relaxed, |seen| {
                let may = seen.addr() & !CLOSED == HELD || (is_called && seen.addr() & CALLED == 0);
                may.then(|| seen.map_addr(|word| word & !HELD | to))
            });
            if let_go.is_ok() {
                return is_called;
            }
        }
    }

    /// Invites futures; the queue holds nothing else. Invites the oldest that may have given an invitation back, and all that are
    /// fresh. Returns false if every future that was reached is dropped: then another one must be tried, or none is left.
    fn invite_tasks(&mut self) -> bool {
        let (fresh, asks) = self.inside(|inside| (inside.fresh.take(), inside.asks));
        let (mut at, mut is_any) = (self.inside(|inside| inside.first), false);
        while at != fresh
            && let Some(node) = at
        {
            let next = node.next();
            let invited = self.invite_one(node);
            is_any |= invited.is_ok();
            // Later futures may have given their invitations back: the next call checks them.
            if matches!(invited, Ok(is_new) if is_new || !asks) {
                break;
            }
            at = next;
        }
        if at == fresh {
            self.inside(|inside| inside.asks = false);
        }
        at = fresh;
        while let Some(node) = at {
            at = node.next();
            is_any |= self.invite_one(node).is_ok();
        }
        is_any
    }

    /// Invites a queued future. Frees the slot of a dropped future if it is the first of the queue; others are freed once they are the first.
    /// Returns whether the future was not invited before.
    fn invite_one(&mut self, at: QueuedNode<T, A, B>) -> Result<bool, Dropped> {
        let node = at.node();
        // Acquire: pairs with the Release in `TaskOp::drop`; the future no longer uses the slot.
        let mut state = node.state.load(Ordering::Acquire);
        loop {
            if phase(state) == GONE {
                if self.inside(|inside| inside.first == Some(at)) {
                    self.inside(HolderState::pop);
                    self.free(at);
                }
                return Err(Dropped);
            }
            // Invited by a holder, which has taken the waker, or by itself: then the future has woken itself, or is about to.
            if state & INVITED != 0 {
                return Ok(false);
            }
            let next = if state & WATCHED == 0 { QUEUED | INVITED } else { BUSY };
            // Acquire: pairs with the Release in `register`; the waker is visible. Also with the one in `TaskOp::drop`, as above.
            // Release: pairs with the Acquire in `TaskOp::wait`; the future uses its waker's cell after the holder.
            match node.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next == BUSY => {
                    // The waiter of a future that is dropped from here on is woken, too: its drop here could panic.
                    self.wake_later(at.take_waiter());
                    state = BUSY;
                }
                Ok(_) => return Ok(true),
                Err(now) => {
                    if state == BUSY && phase(now) == GONE {
                        // Its drop could not tell this from an answer.
                        self.submit.cancelled.count(1);
                    }
                    state = now;
                }
            }
        }
    }
}

impl<T: Send, A: Send, B: Send> Drop for LockGuard<'_, T, A, B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            self.answer(Fate::default(), usize::MAX);
            match leader.is_task() {
                _ if self.leader.is_none() => {}
                // The node stays in the queue; its future was polled without an invitation or has given it back.
                true => self.inside(|inside| inside.asks = true),
                false => self.withdraw(leader),
            }
        }
        let mut is_called = false;
        if !self.let_go() {
            self.answer(Fate::default(), usize::MAX);
            is_called = self.hand_on();
        }
        if self.to_wake.capacity() > 0 {
            self.wake_answered();
            let room = std::mem::take(&mut self.to_wake);
            // While the thread ends, no later lead will use the buffer.
            let _ = ROOM.try_with(|kept| kept.set(room));
        }
        if is_called {
            // Last, because `signal` is foreign code that may panic.
            self.submit.signal();
        }
    }
}

/// The future was dropped.
struct Dropped;

/// Marks a queued future's node as part of a batch; returns its waiter.
fn take<T, A, B>(at: QueuedNode<T, A, B>) -> Result<Option<WakeTarget>, Dropped> {
    // Acquire: pairs with the Release in `register`; the waker is visible. Relaxed: validated.
    let taken = at
        .node()
        .state
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| (phase(state) != GONE).then_some(TAKEN));
    let state = taken.map_err(|_| Dropped)?;
    // A future that is `TAKEN` uses another cell.
    Ok(if state & WATCHED != 0 { at.take_waiter() } else { None })
}

/// A batch: operations that were cut from the queue. Dropping the guard answers all of them: a caller without a reply in its entry by
/// then gets only the batch's fate.
pub struct BatchGuard<'h, 's, T: Send, A: Send, B: Send> {
    held: &'h mut LockGuard<'s, T, A, B>,
    fate: Fate,
    direct: usize,
}

show_as!("BatchGuard": [T: Send, A: Send, B: Send] BatchGuard<'_, '_, T, A, B>, |it| fate: it.fate);

impl<T: Send, A: Send, B: Send> BatchGuard<'_, '_, T, A, B> {
    /// The data, and an entry for each operation.
    pub fn parts(&mut self) -> (&mut T, &mut [Entry<A, B>]) {
        // SAFETY: the lock is held, and this borrows the guard mutably.
        let inside = self.held.submit.inside.0.with_mut(|inside| unsafe { &mut *inside });
        let entries = match &mut inside.parts[..] {
            [one] => one.entries(),
            _ => &mut inside.gathered[..],
        };
        (&mut inside.data, entries)
    }

    /// The marks of the callers in the batch, and how many of its operations are theirs.
    pub fn marks(&self) -> impl Iterator<Item = (u64, usize)> {
        self.inside().parts.iter().map(|part| (part.node.mark(), part.len))
    }

    /// The number of callers with operations in the batch. A chunk of one caller's operations counts once.
    pub fn callers(&self) -> usize {
        self.inside().parts.len()
    }

    /// True if the limit has left operations in the queue.
    pub fn is_limited(&self) -> bool {
        self.inside().first.is_some()
    }

    fn inside(&self) -> &HolderState<T, A, B> {
        // SAFETY: the lock is held, and this borrows the guard.
        self.held.submit.inside.0.with(|inside| unsafe { &*inside })
    }

    /// Wakes up to `direct` parked threads directly (1 or more); these wake the rest in chains. All tasks are woken directly, and so are
    /// all threads if this is not set.
    pub fn set_direct_wakes(&mut self, direct: usize) {
        self.direct = direct.max(1);
    }

    /// Sets the fate, which is returned to every caller with an operation in the batch.
    pub fn set_fate(&mut self, fate: Fate) {
        self.fate = fate;
    }
}

impl<T: Send, A: Send, B: Send> Drop for BatchGuard<'_, '_, T, A, B> {
    fn drop(&mut self) {
        self.held.answer(self.fate, self.direct);
    }
}
