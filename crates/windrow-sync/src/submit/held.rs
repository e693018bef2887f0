//! The lock's guard: the queue, batches, and handing the duty on.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use super::node::{
    BUSY, Body, DONE, Entry, Fate, GONE, INVITED, LEAD, Node, NodeWork, QUEUED, TAKEN, WATCHED, WakeTarget, phase,
};
use super::{Address, CALLED, CLOSED, HELD, Submit, TAGS};
use crate::primitives::Ordering;
use crate::unwind::discard;

/// The state that belongs to the holder of the lock.
pub(super) struct HolderState<T, A, B> {
    pub(super) data: T,
    /// The queue, oldest first, linked.
    first: Address<T, A, B>,
    last: Address<T, A, B>,
    /// The first node of it that no holder has met on letting go. All that come after it are fresh, too.
    fresh: Address<T, A, B>,
    /// A future that is not fresh may have given an invitation back. If false, all of them are invited.
    asks: bool,
    /// How many nodes of the queue are threads'.
    threads: usize,
    /// The batch that runs. It is empty beside a cut; if a batch is leaked, the next use of the guard answers it.
    parts: Vec<EntryRun<T, A, B>>,
    /// Entries of a batch that come from several nodes.
    gathered: Vec<Entry<A, B>>,
}

impl<T, A, B> HolderState<T, A, B> {
    pub(super) fn new(data: T) -> Self {
        let none = ptr::null_mut();
        let (parts, gathered) = (Vec::new(), Vec::new());
        HolderState { data, first: none, last: none, fresh: none, asks: false, threads: 0, parts, gathered }
    }

    /// The node after a node of the queue.
    fn after(&mut self, at: Address<T, A, B>) -> Address<T, A, B> {
        // SAFETY: in the queue, so not answered, so alive.
        let node = unsafe { &*at };
        // SAFETY: its link belongs to the holder.
        node.link.with(|link| unsafe { *link })
    }

    fn link(&mut self, at: Address<T, A, B>, next: Address<T, A, B>) {
        // SAFETY: in the queue, so not answered, so alive.
        let node = unsafe { &*at };
        // SAFETY: its link belongs to the holder.
        node.link.with_mut(|link| unsafe { *link = next });
    }

    fn pop(&mut self) {
        self.unlink(ptr::null_mut(), self.first);
    }

    /// Takes the node after `before`, or the first, out of the queue.
    fn unlink(&mut self, before: Address<T, A, B>, at: Address<T, A, B>) {
        let next = self.after(at);
        if before.is_null() {
            self.first = next;
        } else {
            self.link(before, next);
        }
        if next.is_null() {
            self.last = before;
        }
        if self.fresh == at {
            self.fresh = next;
        }
        self.threads -= usize::from(!self.is_task(at));
    }

    fn is_task(&self, at: Address<T, A, B>) -> bool {
        // SAFETY: in the queue, so not answered, so alive.
        unsafe { (*at).is_task }
    }

    /// The oldest node of a thread. Walks through the queue if there is one.
    fn oldest_thread(&mut self) -> Option<Address<T, A, B>> {
        let mut at = self.first;
        (self.threads > 0).then(|| {
            while self.is_task(at) {
                at = self.after(at);
            }
            at
        })
    }

    /// Appends nodes that are linked newest first.
    fn append(&mut self, newest: Address<T, A, B>) {
        let (mut at, mut oldest) = (newest, ptr::null_mut());
        while !at.is_null() {
            let older = self.after(at);
            self.link(at, oldest);
            self.threads += usize::from(!self.is_task(at));
            (oldest, at) = (at, older);
        }
        if self.fresh.is_null() {
            self.fresh = oldest;
        }
        if self.last.is_null() {
            self.first = oldest;
        } else {
            self.link(self.last, oldest);
        }
        self.last = newest;
    }

    /// Collects the entries of a batch that comes from several nodes.
    fn gather(&mut self) {
        if self.parts.len() > 1 {
            for part in &self.parts {
                // SAFETY: their caller waits for the answer, or they lie in a slot; only the holder uses them.
                let entries = unsafe { std::slice::from_raw_parts_mut(part.entries, part.len) };
                self.gathered.extend(entries.iter_mut().map(std::mem::take));
            }
        }
    }
}

/// Where the entries of a node begin that have not been cut, and how many they are. `None` for a job.
///
/// # Safety
/// The body of a node in the queue; the caller is the holder.
unsafe fn entries<T, A, B>(body: *mut Body<T, A, B>) -> Option<(*mut Entry<A, B>, usize)> {
    // SAFETY: by the contract, no other thread uses it.
    let body = unsafe { &mut *body };
    match body.work {
        NodeWork::Own => Some((&raw mut body.own, 1)),
        NodeWork::Entries(all) => Some((all.cast::<Entry<A, B>>().wrapping_add(body.cut), all.len() - body.cut)),
        NodeWork::Job(_) => None,
    }
}

/// A run of entries of one node that is in the batch.
struct EntryRun<T, A, B> {
    node: Address<T, A, B>,
    entries: *mut Entry<A, B>,
    len: usize,
    /// All entries of the node have been cut.
    is_last: bool,
    /// The waiter that was taken from the node when it was cut.
    waiter: Option<WakeTarget>,
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

impl<A> fmt::Debug for Limit<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("ops", &self.ops).field("weight", &self.weight.map(|(most, _)| most)).finish()
    }
}

thread_local! {
    /// A buffer for waiters, kept from one lead to the next.
    static ROOM: Cell<Vec<WakeTarget>> = const { Cell::new(Vec::new()) };
}

/// The lock's guard. Dropping it hands the duty on. See the [module page](super).
pub struct LockGuard<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
    /// The own node: that of the caller that leads, as long as it is not answered.
    mine: Option<NonNull<Node<T, A, B>>>,
    /// The waiters to wake, threads first.
    told: Vec<WakeTarget>,
    /// How many of these are threads: the direct wakes. Then the chain length: how many more threads those wake in turn.
    threads: usize,
    chained: usize,
}

impl<T: Send, A: Send, B: Send> fmt::Debug for LockGuard<'_, T, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("leads", &self.mine.is_some()).finish_non_exhaustive()
    }
}

impl<'s, T: Send, A: Send, B: Send> LockGuard<'s, T, A, B> {
    #[inline]
    pub(super) fn new(submit: &'s Submit<T, A, B>, mine: Option<NonNull<Node<T, A, B>>>) -> Self {
        if let Some(mine) = mine {
            // SAFETY: the caller's own node.
            let mine = unsafe { mine.as_ref() };
            if !mine.is_task {
                // Relaxed: from `LEAD`, or from the push; only the node's owner reads it now, and the owner has the lock.
                mine.state.store(QUEUED, Ordering::Relaxed);
            }
        }
        LockGuard { submit, mine, told: Vec::new(), threads: 0, chained: 0 }
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

    /// Whether the operations of the caller that leads are answered, or it has handed in none.
    pub fn is_mine_answered(&self) -> bool {
        self.mine.is_none()
    }

    /// How many of the callers answered last were parked threads.
    pub fn sleepers(&self) -> usize {
        self.threads + self.chained
    }

    /// Whether any node is queued.
    pub fn is_more(&mut self) -> bool {
        self.pull();
        self.inside(|inside| !inside.first.is_null())
    }

    /// How many operations are queued; `None` if a job is among them, which waits for all that came before it. Walks through the
    /// queue.
    pub fn queued(&mut self) -> Option<usize> {
        self.pull();
        self.inside(|inside| {
            let (mut at, mut sum) = (inside.first, 0);
            while !at.is_null() {
                // SAFETY: in the queue: alive.
                let node = unsafe { &*at };
                // SAFETY: in the queue: its body belongs to the holder.
                sum += node.body.with_mut(|body| unsafe { entries(body) })?.1;
                at = inside.after(at);
            }
            Some(sum)
        })
    }

    /// The mark of the oldest queued node.
    pub fn oldest(&mut self) -> Option<u64> {
        self.pull();
        self.inside(|inside| {
            // SAFETY: in the queue: alive.
            let first = unsafe { inside.first.as_ref() }?;
            // SAFETY: in the queue: its body belongs to the holder.
            Some(first.body.with(|body| unsafe { (*body).mark }))
        })
    }

    /// Moves the pushed nodes to the end of the queue.
    fn pull(&mut self) {
        let word = &self.submit.word.0;
        let closed = |word: Address<T, A, B>| word.addr() & CLOSED;
        // Relaxed: the compare-exchange below validates it.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            if seen.addr() & !CLOSED == HELD {
                return;
            }
            let empty = ptr::without_provenance_mut(closed(seen) | HELD);
            // Acquire: pairs with the Release in `Submit::push` and `Submit::take_or_nudge`; the nodes are complete, and a state
            // that was changed before a nudge is seen.
            match self.submit.exchange(seen, empty, Ordering::Acquire) {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        let newest = seen.map_addr(|word| word & !TAGS);
        self.inside(|inside| {
            inside.asks |= seen.addr() & CALLED != 0;
            if !newest.is_null() {
                inside.append(newest);
            }
        });
    }

    /// The next batch: operations from the front of the queue, in the order in which they were handed in, without those of
    /// dropped futures. Jobs at the front are run first. `None` if nothing is queued, or if the next is a job.
    pub fn cut(&mut self, limit: &Limit<'_, A>) -> Option<BatchGuard<'_, 's, T, A, B>> {
        self.answer(Fate::default(), usize::MAX);
        self.tell();
        self.pull();
        // Made before the first part: if `weigh` panics, its drop answers the callers that were cut already.
        let cut = BatchGuard { held: self, fate: Fate::default(), heads: usize::MAX };
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
        let (at, is_first) = self.inside(|inside| (inside.first, inside.parts.is_empty()));
        if at.is_null() {
            return false;
        }
        // SAFETY: in the queue: alive.
        let node = unsafe { &*at };
        // Acquire: pairs with the Release in `Task::drop`; the future no longer uses the slot.
        if node.is_task && phase(node.state.load(Ordering::Acquire)) == GONE {
            self.inside(HolderState::pop);
            self.free(at);
            return true;
        }
        // SAFETY: in the queue: its body belongs to the holder.
        let Some((from, left)) = node.body.with_mut(|body| unsafe { entries(body) }) else {
            if is_first {
                self.run_job(at);
            }
            return is_first;
        };
        let mut fitting = left.min(*room);
        if let Some((_, weigh)) = limit.weight {
            // SAFETY: they hold operations, and belong to the holder.
            let ops = unsafe { std::slice::from_raw_parts(from, fitting) };
            fitting = 0;
            for entry in ops {
                // Every entry holds an operation: see `Submit::call`.
                let one = if let Entry::Op(op) = entry { weigh(op) } else { 0 };
                if one > *weight && !(is_first && fitting == 0) {
                    break;
                }
                *weight = weight.saturating_sub(one);
                fitting += 1;
            }
        }
        if fitting == 0 {
            return false;
        }
        let mut waiter = None;
        if node.is_task {
            match take(node) {
                Ok(taken) => waiter = taken,
                Err(Dropped) => return true,
            }
        }
        let is_last = fitting == left;
        self.inside(|inside| {
            // SAFETY: as above.
            node.body.with_mut(|body| unsafe { (*body).cut += fitting });
            if is_last {
                inside.pop();
            }
            inside.parts.push(EntryRun { node: at, entries: from, len: fitting, is_last, waiter });
        });
        *room -= fitting;
        is_last
    }

    fn run_job(&mut self, at: Address<T, A, B>) {
        self.inside(HolderState::pop);
        /// Answers, also while unwinding: the job's caller must not wait for ever.
        struct Ran<'h, 's, T: Send, A: Send, B: Send>(&'h mut LockGuard<'s, T, A, B>, Address<T, A, B>);
        impl<T: Send, A: Send, B: Send> Drop for Ran<'_, '_, T, A, B> {
            fn drop(&mut self) {
                self.0.answer_thread(self.1, usize::MAX);
            }
        }
        let ran = Ran(self, at);
        // SAFETY: not answered: alive.
        let node = unsafe { &*at };
        // SAFETY: its body belongs to the holder.
        let job = node.body.with(|body| match unsafe { &(*body).work } {
            NodeWork::Job(job) => *job,
            _ => unreachable!("only jobs have no entries"),
        });
        // SAFETY: its caller waits for the answer, and no other thread has it.
        let job = unsafe { &mut *job };
        job(ran.0.data());
    }

    /// Answers all callers in the batch. Of the parked threads, only `heads` are woken directly.
    fn answer(&mut self, fate: Fate, heads: usize) {
        if self.inside(|inside| inside.parts.is_empty()) {
            return;
        }
        let take = |inside: &mut HolderState<T, A, B>| {
            (std::mem::take(&mut inside.parts), std::mem::take(&mut inside.gathered))
        };
        let (mut parts, mut gathered) = self.inside(take);
        let mut all = gathered.drain(..);
        for part in parts.drain(..) {
            // SAFETY: not answered: alive.
            let node = unsafe { &*part.node };
            // SAFETY: the body of a node that is not answered belongs to the holder.
            node.body.with_mut(|body| {
                // (All of this is inside the closure, so that a model sees the access as the holder's.)
                if all.len() > 0 {
                    // SAFETY: as in `parts`.
                    let entries = unsafe { std::slice::from_raw_parts_mut(part.entries, part.len) };
                    entries.iter_mut().zip(&mut all).for_each(|(entry, done)| *entry = done);
                }
                if fate != Fate::default() {
                    // SAFETY: as above.
                    unsafe { (*body).fate = fate };
                }
            });
            match (part.is_last, node.is_task) {
                (false, _) => {}
                (true, true) => self.answer_task(part.node, part.waiter),
                (true, false) => self.answer_thread(part.node, heads),
            }
        }
        drop(all);
        self.inside(|inside| (inside.parts, inside.gathered) = (parts, gathered));
    }

    /// Sets a thread's node to `DONE`. If the thread is parked and `heads` others will be woken already, it takes one's place and
    /// wakes it.
    fn answer_thread(&mut self, at: Address<T, A, B>, heads: usize) {
        self.forget_mine(at);
        self.turn_thread(at, DONE, heads);
    }

    /// Whether it was the node of the caller that leads, which needs no wakeup.
    fn forget_mine(&mut self, at: Address<T, A, B>) -> bool {
        let is_mine = self.mine.is_some_and(|mine| mine.as_ptr() == at);
        if is_mine {
            self.mine = None;
        }
        is_mine
    }

    /// Gives the thread's node its last state of this turn, and notes the thread for a wakeup if it is parked. The node may be
    /// gone then.
    fn turn_thread(&mut self, at: Address<T, A, B>, to: u32, heads: usize) {
        // SAFETY: not answered: alive.
        let node = unsafe { &*at };
        // Release: pairs with the Acquire in `Node::wait`; the replies are there, or what was done to the data is seen.
        // Acquire: pairs with the Release in `Node::wait`; the waiter is there.
        if node.state.compare_exchange(QUEUED, to, Ordering::Release, Ordering::Acquire).is_err() {
            // SAFETY: `WATCHED` was seen, so the cell belongs to the holder.
            let mut waiter = node.waiter.with_mut(|waiter| unsafe { &mut *waiter }.take());
            if self.threads >= heads
                && let Some(own) = &mut waiter
            {
                std::mem::swap(&mut self.told[self.chained % self.threads], own);
                self.chained += 1;
                // SAFETY: of a thread's node: the thread does not use it before it is answered.
                node.late.with_mut(|late| unsafe { *late = waiter.take() });
            }
            // Release: as above.
            node.state.store(to, Ordering::Release);
            self.tell_later(waiter);
        }
    }

    /// Sets a future's node to `DONE`, or frees its slot if the future is gone. `waiter` was taken when the node was cut.
    fn answer_task(&mut self, at: Address<T, A, B>, mut waiter: Option<WakeTarget>) {
        let is_mine = self.forget_mine(at);
        // SAFETY: a slot, which lives as long as the list.
        let node = unsafe { &*at };
        let mut state = TAKEN;
        loop {
            let next = if state & WATCHED == 0 { DONE } else { BUSY };
            // Release: pairs with the Acquire in `Task::wait`; the reply is there.
            // Acquire: pairs with the Release in `register` and in `Task::drop`; a new waker is there, or the future no longer
            // uses the slot.
            match node.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next == DONE && is_mine => return discard(waiter),
                Ok(_) if next == DONE => return self.tell_later(waiter),
                Ok(_) => {
                    discard(waiter);
                    // SAFETY: the holder has taken `WATCHED` away.
                    waiter = node.late.with_mut(|waiter| unsafe { &mut *waiter }.take());
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

    fn tell_later(&mut self, waiter: Option<WakeTarget>) {
        if let Some(waiter) = waiter {
            if self.told.capacity() == 0 {
                self.told = ROOM.try_with(Cell::take).unwrap_or_default();
            }
            let is_thread = matches!(waiter, WakeTarget::Thread(_));
            self.told.push(waiter);
            if is_thread {
                let last = self.told.len() - 1;
                self.told.swap(self.threads, last);
                self.threads += 1;
            }
        }
    }

    /// Wakes the callers that are answered. A waker is foreign code: its panic must reach neither the other callers nor the
    /// holder, which may be an unrelated caller, or the thread that all depend on.
    fn tell(&mut self) {
        (self.threads, self.chained) = (0, 0);
        for waiter in self.told.drain(..) {
            discard_panic(|| waiter.wake());
        }
    }

    /// Frees the slot of a future that was dropped.
    fn free(&mut self, at: Address<T, A, B>) {
        self.forget_mine(at);
        // SAFETY: a slot; the future is gone and the node is not in the queue, so it belongs to the holder.
        let node = unsafe { &*at };
        clear(node);
        self.submit.give_back(NonNull::from(node));
    }

    /// Takes the caller's own node out of the queue.
    fn withdraw(&mut self, mine: NonNull<Node<T, A, B>>) {
        self.pull();
        let wanted = mine.as_ptr();
        self.inside(|inside| {
            let (mut before, mut at) = (ptr::null_mut(), inside.first);
            while !at.is_null() && at != wanted {
                (before, at) = (at, inside.after(at));
            }
            if !at.is_null() {
                inside.unlink(before, at);
            }
        });
        self.answer_thread(wanted, usize::MAX);
    }

    /// Lets go of the lock if nothing is queued; otherwise it is still held. The fast path for a caller that found the lock free.
    ///
    /// # Errors
    /// Returns the guard: something is queued.
    #[inline]
    pub fn try_end(mut self) -> Result<(), Self> {
        if self.told.capacity() == 0 && self.mine.is_none() && self.let_go() {
            std::mem::forget(self);
            return Ok(());
        }
        Err(self)
    }

    /// Lets go of the lock if nothing is queued.
    #[inline]
    fn let_go(&mut self) -> bool {
        let held = ptr::without_provenance_mut(HELD);
        // Release: pairs with the Acquire in `Submit::try_lock`, `try_read`, `push` and `take_or_nudge`; the next holder sees the
        // data.
        // Relaxed: after a failure, the slow path loads the word again.
        self.inside(|inside| inside.first.is_null() && inside.parts.is_empty())
            && self.submit.word.0.compare_exchange(held, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Hands the lock on, or lets go; returns whether to signal the runner.
    #[cold]
    fn hand_on(&mut self) -> bool {
        loop {
            self.pull();
            let mut to = CALLED;
            let mut is_called = false;
            if self.inside(|inside| inside.first.is_null()) {
                to = 0;
            } else if self.submit.signal.is_some() {
                is_called = true;
            } else if let Some(thread) = self.inside(HolderState::oldest_thread) {
                self.turn_thread(thread, LEAD, usize::MAX);
                return false;
            } else if !self.invite_tasks() {
                continue;
            }
            let word = &self.submit.word.0;
            // Relaxed: the compare-exchange below validates it.
            let mut seen = word.load(Ordering::Relaxed);
            // Nodes pushed since the pull stay in the word only if the runner is called, which will see them. Otherwise such a
            // node may be a thread's, to be granted the lock, or a future's, to be invited.
            while seen.addr() & !CLOSED == HELD || (is_called && seen.addr() & CALLED == 0) {
                let free = seen.map_addr(|word| word & !HELD | to);
                // Release: pairs with the Acquire in `Submit::try_lock`, `try_read`, `push` and `take_or_nudge`; the next holder
                // sees the data.
                match self.submit.exchange(seen, free, Ordering::Release) {
                    Ok(()) => return is_called,
                    Err(now) => seen = now,
                }
            }
        }
    }

    /// Invites futures; the queue holds nothing else. Invites the oldest that may have given an invitation back, and all that are
    /// fresh. Returns false if every future that it reached is dropped: then another one must be tried, or none is left.
    fn invite_tasks(&mut self) -> bool {
        let (fresh, asks) = self.inside(|inside| (std::mem::replace(&mut inside.fresh, ptr::null_mut()), inside.asks));
        let (mut at, mut is_any) = (self.inside(|inside| inside.first), false);
        while at != fresh {
            let next = self.inside(|inside| inside.after(at));
            match self.invite_one(at) {
                // Others may have given theirs back: the next call checks them.
                Ok(true) => {
                    is_any = true;
                    break;
                }
                Ok(false) if !asks => {
                    is_any = true;
                    break;
                }
                Ok(false) => is_any = true,
                Err(Dropped) => {}
            }
            at = next;
        }
        if at == fresh {
            self.inside(|inside| inside.asks = false);
        }
        at = fresh;
        while !at.is_null() {
            let next = self.inside(|inside| inside.after(at));
            is_any |= self.invite_one(at).is_ok();
            at = next;
        }
        is_any
    }

    /// Invites a future. If it is dropped and the first of the queue, frees it; one further on is freed when it is reached.
    /// Returns whether it was not invited before.
    fn invite_one(&mut self, at: Address<T, A, B>) -> Result<bool, Dropped> {
        // SAFETY: in the queue: alive.
        let node = unsafe { &*at };
        let mut waiter = None;
        let invited = invite(node, &mut waiter);
        // A waiter of a future that was invited before is woken, too: dropped here, it could panic.
        self.tell_later(waiter);
        if invited.is_err() && self.inside(|inside| inside.first == at) {
            self.inside(HolderState::pop);
            self.free(at);
        }
        invited
    }
}

impl<T: Send, A: Send, B: Send> Drop for LockGuard<'_, T, A, B> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mine) = self.mine {
            self.answer(Fate::default(), usize::MAX);
            // SAFETY: the caller's own node.
            match unsafe { mine.as_ref() }.is_task {
                _ if self.mine.is_none() => {}
                // The node stays in the queue; its future came without an invitation or has given it back.
                true => self.inside(|inside| inside.asks = true),
                false => self.withdraw(mine),
            }
        }
        let mut is_called = false;
        if !self.let_go() {
            self.answer(Fate::default(), usize::MAX);
            is_called = self.hand_on();
        }
        if self.told.capacity() > 0 {
            self.tell();
            let room = std::mem::take(&mut self.told);
            // While the thread ends, there is no next lead.
            let _ = ROOM.try_with(|kept| kept.set(room));
        }
        if is_called {
            // Last, since it is foreign code that may panic.
            self.submit.signal();
        }
    }
}

/// The future was dropped.
struct Dropped;

/// Marks a queued future's node as part of a batch; returns its waiter.
fn take<T, A, B>(node: &Node<T, A, B>) -> Result<Option<WakeTarget>, Dropped> {
    // Relaxed: the compare-exchange below validates it.
    let mut state = node.state.load(Ordering::Relaxed);
    while phase(state) != GONE {
        // Acquire: pairs with the Release in `register`; the waker is there. Relaxed: a failure is retried.
        match node.state.compare_exchange(state, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            // SAFETY: `WATCHED` was taken away, and a future that is `TAKEN` uses another cell.
            Ok(_) if state & WATCHED != 0 => return Ok(node.waiter.with_mut(|waiter| unsafe { &mut *waiter }.take())),
            Ok(_) => return Ok(None),
            Err(now) => state = now,
        }
    }
    Err(Dropped)
}

/// Invites a queued future; returns whether it was not invited before. If it had a waker, that is in `waiter` now.
fn invite<T, A, B>(node: &Node<T, A, B>, waiter: &mut Option<WakeTarget>) -> Result<bool, Dropped> {
    // Acquire: pairs with the Release in `Task::drop`; the future no longer uses the slot.
    let mut state = node.state.load(Ordering::Acquire);
    loop {
        if phase(state) == GONE {
            return Err(Dropped);
        }
        // Invited by a holder, which has its waker, or by itself: then it has woken itself, or is about to.
        if state & INVITED != 0 {
            return Ok(false);
        }
        let next = if state & WATCHED == 0 { QUEUED | INVITED } else { BUSY };
        // Acquire: pairs with the Release in `register`; the waker is there. Also with the one in `Task::drop`, as above.
        // Release: pairs with the Acquire in `Task::wait`; the future's use of its waker comes after ours.
        match node.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if next == BUSY => {
                // SAFETY: `WATCHED` was taken away.
                *waiter = node.waiter.with_mut(|waiter| unsafe { &mut *waiter }.take());
                state = BUSY;
            }
            Ok(_) => return Ok(true),
            Err(now) => state = now,
        }
    }
}

/// Drops the values in a slot.
pub(super) fn clear<T, A, B>(node: &Node<T, A, B>) {
    // SAFETY: by the callers: no other thread uses the slot.
    let own = node.body.with_mut(|body| std::mem::take(unsafe { &mut (*body).own }));
    // SAFETY: as above.
    let waiter = node.waiter.with_mut(|waiter| unsafe { &mut *waiter }.take());
    // SAFETY: as above.
    let late = node.late.with_mut(|waiter| unsafe { &mut *waiter }.take());
    discard((own, waiter, late));
}

fn discard_panic(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// A batch: operations that were cut from the queue. Dropping it answers all of them: a caller without a reply in its entry by
/// then gets only the batch's fate.
pub struct BatchGuard<'h, 's, T: Send, A: Send, B: Send> {
    held: &'h mut LockGuard<'s, T, A, B>,
    fate: Fate,
    heads: usize,
}

impl<T: Send, A: Send, B: Send> fmt::Debug for BatchGuard<'_, '_, T, A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut").field("fate", &self.fate).finish_non_exhaustive()
    }
}

impl<T: Send, A: Send, B: Send> BatchGuard<'_, '_, T, A, B> {
    /// The data, and an entry for each operation.
    pub fn parts(&mut self) -> (&mut T, &mut [Entry<A, B>]) {
        // SAFETY: the lock is held, and this borrows the guard mutably.
        let inside = self.held.submit.inside.0.with_mut(|inside| unsafe { &mut *inside });
        let entries = match &inside.parts[..] {
            // SAFETY: their caller waits for the answer, or they lie in a slot; only the holder uses them, and this borrows the
            // guard.
            [one] => unsafe { std::slice::from_raw_parts_mut(one.entries, one.len) },
            _ => &mut inside.gathered[..],
        };
        (&mut inside.data, entries)
    }

    /// The marks of the callers in the batch, and how many of its operations are theirs.
    pub fn marks(&self) -> impl Iterator<Item = (u64, usize)> {
        // SAFETY: the lock is held.
        let parts = self.held.submit.inside.0.with(|inside| unsafe { &(*inside).parts });
        parts.iter().map(|part| {
            // SAFETY: not answered: alive.
            let node = unsafe { &*part.node };
            // SAFETY: the body of a node that is not answered belongs to the holder.
            (node.body.with(|body| unsafe { (*body).mark }), part.len)
        })
    }

    /// How many callers have operations in the batch. A chunk counts as one.
    pub fn callers(&self) -> usize {
        // SAFETY: the lock is held.
        self.held.submit.inside.0.with(|inside| unsafe { (*inside).parts.len() })
    }

    /// Whether the limit has left operations in the queue.
    pub fn is_limited(&self) -> bool {
        // SAFETY: the lock is held.
        self.held.submit.inside.0.with(|inside| unsafe { !(*inside).first.is_null() })
    }

    /// Wakes at most `heads` parked threads directly (at least 1); these wake the rest in chains. All tasks are woken directly,
    /// and so are all threads if this is not set.
    pub fn set_heads(&mut self, heads: usize) {
        self.heads = heads.max(1);
    }

    /// Sets the fate, which is returned to every caller with an operation in the batch.
    pub fn set_fate(&mut self, fate: Fate) {
        self.fate = fate;
    }
}

impl<T: Send, A: Send, B: Send> Drop for BatchGuard<'_, '_, T, A, B> {
    fn drop(&mut self) {
        self.held.answer(self.fate, self.heads);
    }
}
