#![doc = include_str!("tree.md")]

mod idle;
mod offers;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::base::debug::show_as;
use crate::base::fork::Process;
use crate::base::mutex::Mutex;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicU32, AtomicU64, MutexGuard, Ordering};
use crate::base::unwind::Finally;
use crate::base::word::WideWord;
use crate::join::entries::Entries;
use crate::join::seated;
pub use crate::join::timing::{JoinTiming, OfferDecision};
use crate::join::view::{COUNT, OVER, TreeView};
use idle::IdleWork;
use offers::Question;
pub(crate) use offers::WorkerSlot;

const MOST_MEMBERS: usize = COUNT as usize;

/// A recursion and its members. See the [module page](self).
///
/// ```
/// use windrow_sync::{Spin, join::{join, tree::{JoinTiming, OfferDecision, Tree}}};
///
/// let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// let mut tree = Tree::new(2, timing);
/// let (lead, tree) = tree.lead();
/// lead.furnish();
/// let both = std::thread::scope(|scope| {
///     scope.spawn(|| tree.serve()); // runs the second half, unless the lead gets to it first
///     lead.grow(0, &|_| OfferDecision::Opened, || join(|| 1, || 2, |_, _| unreachable!("inside a tree")))
/// });
/// assert_eq!(both, (1, 2));
/// ```
pub struct Tree {
    word: Pad<WideWord>,
    lead: WorkerSlot,
    /// The seats of the other members, and how many of them were handed out.
    others: OnceLock<Box<[WorkerSlot]>>,
    handed_out: AtomicU32,
    entries: Mutex<Entries>,
    members: usize,
    timing: JoinTiming,
    process: Process,
}

show_as!("Tree": [] Tree, |it| members: it.members, idle: it.idle_members());

impl Tree {
    /// A tree for up to `members` members, the lead included.
    #[inline]
    pub fn new(members: usize, timing: JoinTiming) -> Tree {
        Tree {
            word: Pad::default(),
            lead: WorkerSlot::default(),
            others: OnceLock::new(),
            handed_out: AtomicU32::new(0),
            entries: Mutex::default(),
            members: members.min(MOST_MEMBERS),
            timing,
            process: Process::this(),
        }
    }

    /// By the lead.
    fn furnish(&self) {
        self.others.get_or_init(|| (1..self.members).map(|_| WorkerSlot::default()).collect());
    }

    /// Numbers of idle members: of those that spin, and of those that are parked.
    pub(crate) fn idle_members(&self) -> (usize, usize) {
        // Relaxed: a snapshot.
        let now = TreeView(self.word().load(Ordering::Relaxed));
        (now.looking() as usize, now.asleep() as usize)
    }

    fn word(&self) -> &AtomicU64 {
        self.word.0.value()
    }

    /// The right to lead, and the tree for others to [`serve`](Tree::serve).
    #[inline]
    pub fn lead(&mut self) -> (TreeLead<'_>, &Tree) {
        // Members that served the last lead are gone, because `self` is borrowed exclusively.
        self.word = Pad::default();
        self.others = OnceLock::new();
        self.handed_out = AtomicU32::new(0);
        let tree = &*self;
        (TreeLead { tree }, tree)
    }

    /// Runs what members of the tree offer, until the tree is over. Returns at once if no seat is free: see
    /// [`furnish`](Asked::furnish).
    ///
    /// # Panics
    /// If the function of an [`Invitation`](super::guests::Invitation) panics. A panic in a join goes to the caller of that join.
    pub fn serve(&self) {
        let Some(seat) = self.take_seat() else { return };
        seated(seat, || {
            while let Some(work) = self.idle(seat) {
                match work {
                    IdleWork::Frame(offer) => seat.run(offer),
                    IdleWork::Guest(id, help) => self.be_guest(seat, id, help),
                }
            }
        });
    }

    /// Takes the next seat that was never handed out.
    fn take_seat(&self) -> Option<&WorkerSlot> {
        let others = self.others.get()?;
        // Relaxed: each number comes out once; no data is published.
        let index = self.handed_out.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(seat) = others.get(index) else {
            // Relaxed: as above. Counting back keeps the counter from overflowing, however many threads come.
            self.handed_out.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(self.occupy(index + 1, seat))
    }

    /// Prepares a seat that was just handed out.
    fn occupy<'a>(&self, index: usize, seat: &'a WorkerSlot) -> &'a WorkerSlot {
        let own = &seat.own.0;
        own.top.set(&own.bottom);
        own.split.set(&own.bottom);
        own.index.set(index as u32);
        own.tree.set(self);
        seat
    }

    fn seat(&self, index: usize) -> Option<&WorkerSlot> {
        match index.checked_sub(1) {
            None => Some(&self.lead),
            Some(other) => self.others.get()?.get(other),
        }
    }

    pub(crate) fn seats(&self) -> impl Iterator<Item = &WorkerSlot> {
        std::iter::once(&self.lead).chain(self.others.get().into_iter().flatten())
    }

    /// The list of invitations, locked.
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Ends the tree.
    fn end(&self) {
        if self.others.get().is_none() {
            // No other member has come, and none can come any more: only the lead makes seats.
            return;
        }
        // Relaxed: OVER publishes no data; parked members check the word itself.
        let before = TreeView(self.word().fetch_or(OVER, Ordering::Relaxed));
        if before.asleep() > 0 {
            self.word.0.wake(u32::MAX);
        }
    }
}

/// The right to lead a tree, once.
#[derive(Debug)]
pub struct TreeLead<'t> {
    tree: &'t Tree,
}

impl TreeLead<'_> {
    /// Makes seats for the other members, before the lead is asked whether to let them in: offers begin at once.
    pub fn furnish(&self) {
        self.tree.furnish();
    }

    /// Runs `f`; joins in it belong to the tree. After `patience` joins, and at intervals from then on, a join calls `ask` to decide
    /// whether to let other members in.
    ///
    /// The tree is over when this returns: members leave [`serve`](Tree::serve).
    #[inline]
    pub fn grow<R>(self, patience: u32, ask: &dyn Fn(&Asked<'_>) -> OfferDecision, f: impl FnOnce() -> R) -> R {
        let seat = self.tree.occupy(0, &self.tree.lead);
        let question = Question { ask, began: Cell::new(0), at: Cell::new(0) };
        // SAFETY: only the lifetime changes. Used by this thread alone, until `_over` takes it back.
        let erased =
            unsafe { std::mem::transmute::<*const Question<'_>, *const Question<'static>>(&raw const question) };
        seat.own.0.question.set(erased);
        seat.own.0.fuel.set(patience);
        let _over = Finally(|| {
            seat.own.0.question.set(std::ptr::null());
            self.tree.end();
        });
        seated(seat, f)
    }
}

/// The argument of the question whether to let other members in.
#[derive(Debug)]
pub struct Asked<'a> {
    tree: &'a Tree,
    age: u64,
    /// Not `Send`: only the lead lets other members in.
    stays_here: PhantomData<*const ()>,
}

impl Asked<'_> {
    /// Ticks since the lead first read the clock.
    pub fn age(&self) -> u64 {
        self.age
    }

    /// Makes seats for the other members. Call it when they are about to come, and not before, because it allocates.
    pub fn furnish(&self) {
        self.tree.furnish();
    }
}
