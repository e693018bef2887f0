#![doc = include_str!("guests.md")]

use crate::base::debug::show_as;
use crate::base::mutex::Mutex;
use crate::base::primitives::{AtomicBool, Ordering};
use crate::base::unwind::Finally;
use crate::join::entries::Invited;
use crate::join::tree::{Tree, WorkerSlot};
use crate::join::with_here;

/// The tree that hosts an invitation.
#[derive(Clone, Copy)]
struct Hosted {
    tree: *const Tree,
    id: u64,
}

// SAFETY: a tree is `Sync`, and it is used under the lock of `Invitation::hosted` or by its own members.
unsafe impl Send for Hosted {}

/// Work for guests. See the [module page](self).
///
/// ```
/// use std::sync::Mutex;
/// use windrow_sync::join::guests::Invitation;
/// # use windrow_sync::{Spin, join::tree::{JoinTiming, OfferDecision, Tree}};
/// # fn in_tree<R>(f: impl FnOnce() -> R) -> R {
/// #     let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// #     let mut tree = Tree::new(2, timing);
/// #     let (lead, tree) = tree.lead();
/// #     lead.furnish();
/// #     std::thread::scope(|scope| {
/// #         scope.spawn(|| tree.serve());
/// #         lead.grow(0, &|_| OfferDecision::Opened, f)
/// #     })
/// # }
///
/// let (work, sum) = (Mutex::new(vec![1, 2, 3]), Mutex::new(0));
/// let help = || {
///     while let Some(number) = work.lock().unwrap().pop() {
///         *sum.lock().unwrap() += number;
///     }
/// };
/// let invitation = Invitation::new();
/// // The other member of the tree may come and help.
/// in_tree(|| {
///     invitation.host(&help, || {
///         invitation.call();
///         help();
///     })
/// });
/// assert_eq!(sum.into_inner().unwrap(), 6);
/// ```
#[derive(Default)]
pub struct Invitation {
    ready: AtomicBool,
    hosted: Mutex<Option<Hosted>>,
}

show_as!("Invitation": [] Invitation);

impl Invitation {
    /// An invitation that no member hosts yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `lead`. Meanwhile idle members of this thread's tree may come and run `help`, which returns when it finds no more work.
    /// Each [`call`](Invitation::call) asks for one. All guests have left when this returns. Outside a tree no guest comes.
    ///
    /// # Panics
    /// If the invitation is hosted already. A panic of `help` goes to the caller of [`Tree::serve`] on the guest's thread.
    pub fn host<R>(&self, help: &(dyn Fn() + Sync), lead: impl FnOnce() -> R) -> R {
        with_here(|seat| {
            let Some(seat) = seat else { return lead() };
            let id = self.begin(seat, help);
            let _over = Finally(|| self.end(seat, id));
            lead()
        })
    }

    /// # Panics
    /// If the invitation is hosted already.
    fn begin(&self, seat: &WorkerSlot, help: &(dyn Fn() + Sync)) -> u64 {
        let tree = seat.tree();
        let mut hosted = self.hosted.lock();
        assert!(hosted.is_none(), "an invitation has one host at a time");
        // SAFETY: only the lifetimes change. `host` does not end before `end`, which waits for all guests and removes the entry.
        let invited = unsafe { std::mem::transmute::<(&AtomicBool, &(dyn Fn() + Sync)), Invited>((&self.ready, help)) };
        let id = tree.entries().add(invited, seat.index());
        *hosted = Some(Hosted { tree, id });
        // Relaxed: a caller that called before this invitation was hosted held the lock before us; a later one waits for the lock.
        if self.ready.load(Ordering::Relaxed) {
            tree.announce_call();
        }
        id
    }

    fn end(&self, seat: &WorkerSlot, id: u64) {
        *self.hosted.lock() = None;
        let tree = seat.tree();
        let is_empty = || tree.entries().is_left(id, true);
        if !is_empty() {
            tree.wait_until(seat, &is_empty, || false);
        }
        tree.entries().remove(id);
    }

    /// Calls `f` with the tree in which this invitation is hosted, if it is hosted.
    fn with_tree(&self, f: impl FnOnce(&Tree)) {
        // The lock keeps the host, and so the tree, alive and in place.
        if let Some(hosted) = *self.hosted.lock() {
            // SAFETY: the host is inside the tree, and cannot leave it without this lock.
            f(unsafe { &*hosted.tree });
        }
    }

    /// Invites a guest, because there is work. From any thread.
    pub fn call(&self) {
        self.call_once();
        with_here(|seat| {
            if let Some(seat) = seat {
                seat.has_called();
                seat.spend();
            }
        });
    }

    /// [Calls](Self::call), but does not see to it that another member is called if the first one finds other work.
    #[inline]
    pub fn call_once(&self) {
        // Release: pairs with the Acquire in `Entries::enter`; a guest that comes sees the work.
        if !self.ready.swap(true, Ordering::Release) {
            self.with_tree(Tree::announce_call);
        }
    }

    /// [Calls](Self::call), unless this member has called by this function in the last `pause` heartbeats. Returns whether it has called.
    #[inline]
    pub fn call_at_times(&self, pause: u64) -> bool {
        let is_due = with_here(|seat| seat.is_none_or(|seat| seat.is_due_to_call(pause)));
        if is_due {
            self.call();
        }
        is_due
    }

    /// Returns whether no guest is inside. If one is, the last one to leave rings for this thread, which hosts the invitation.
    pub fn is_left(&self) -> bool {
        self.with_member(|member| member.is_none_or(|(seat, id)| seat.tree().entries().is_left(id, false)))
    }

    /// Wakes a parked member, if none spins. For a member that was idle and has found work: another call or offer may rely on that member.
    pub fn pass_on(&self) {
        self.with_tree(Tree::announce_call);
    }

    /// Calls `f` with this thread's seat and the number of the entry, if this thread is a member of the tree that hosts the invitation.
    fn with_member<R>(&self, f: impl FnOnce(Option<(&WorkerSlot, u64)>) -> R) -> R {
        let hosted = *self.hosted.lock();
        with_here(|seat| {
            let is_host = |(hosted, seat): &(Hosted, &WorkerSlot)| std::ptr::eq(hosted.tree, seat.tree());
            f(hosted.zip(seat).filter(is_host).map(|(hosted, seat)| (seat, hosted.id)))
        })
    }

    /// This thread's number among the members of the tree that hosts the invitation, if it is one of them.
    pub fn member(&self) -> Option<usize> {
        self.with_member(|member| member.map(|(seat, _)| seat.index()))
    }

    /// Numbers of idle members of the tree in which this invitation is hosted: of those that spin, and of those that are parked.
    pub fn idle(&self) -> (usize, usize) {
        let mut idle = (0, 0);
        self.with_tree(|tree| idle = tree.idle_members());
        idle
    }

    /// True if this thread is a guest: a member without other work that runs the invitation's `help`.
    pub fn is_guest(&self) -> bool {
        self.with_member(|member| member.is_some_and(|(seat, id)| seat.is_guest_of(id)))
    }

    /// Makes [`wait`](Invitation::wait) of this member check again. From any thread.
    pub fn ring(&self, member: usize) {
        self.with_tree(|tree| tree.ring(member));
    }

    /// Waits until `done` returns true. The thread that makes `done` true must [`ring`](Invitation::ring) afterwards. Meanwhile this
    /// thread runs offers of those guests for whose number the first argument returns true. Such guests must work on what is waited
    /// for until it is `done`.
    ///
    /// Returns whether `done` has returned true: not if this process is a forked child, and a guest of the parent was to make it so.
    ///
    /// # Panics
    /// If this thread is not a member: see [`member`](Invitation::member).
    pub fn wait(&self, whom: impl Fn(usize) -> bool, done: impl Fn() -> bool) -> bool {
        self.with_member(|member| {
            let Some((seat, id)) = member else { panic!("only members of the tree wait for an invitation") };
            let tree = seat.tree();
            tree.wait_until(seat, &done, || {
                let mut seats = tree.seats().enumerate();
                seats.any(|(index, other)| {
                    let is_one = || other.is_guest_of(id) && whom(index);
                    !std::ptr::eq(seat, other) && is_one() && tree.help(seat, index, other, || is_one() && !done())
                })
            })
        })
    }
}
