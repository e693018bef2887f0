//! Saying why.

use std::cell::RefCell;
use std::panic::Location;

use windrow_plan::share::{Grain, Progress};
use windrow_plan::{Decision, Nanos};

thread_local! {
    static LISTENING: RefCell<Option<Vec<Explained>>> = const { RefCell::new(None) };
}

/// How one parallel call went, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Where the consumer (`for_each`, `collect`, ...) was called.
    pub place: Option<&'static Location<'static>>,
    /// Items of the call.
    pub items: usize,
    /// The last decision: to publish, or the reason to have stayed serial. `None` if there was nothing to decide: at most one
    /// item, or one thread.
    pub decision: Option<Decision<Progress, Grain>>,
    /// What members did, if the call was shared and not stopped at once.
    pub shared: Option<Shared>,
}

/// What the members of a shared call did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shared {
    /// Members that ran chunks, the caller included.
    pub members: usize,
    /// Chunks that were claimed.
    pub claims: u64,
    /// Ranges of others that members took over.
    pub steals: u64,
    /// From publishing to the end.
    pub wall: Nanos,
    /// Time in chunks, of all members together.
    pub busy: Nanos,
}

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { members, claims, steals, wall, busy } = self;
        write!(f, "{members} members, {claims} claims, {steals} steals, {wall} ({busy} in chunks)")
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{}:{}  ", place.file(), place.line())?;
        }
        write!(f, "{} items: ", self.items)?;
        match &self.decision {
            Some(decision) => decision.fmt(f)?,
            None => f.write_str("serial: nothing to decide")?,
        }
        match &self.shared {
            Some(shared) => write!(f, "; {shared}"),
            None => Ok(()),
        }
    }
}

/// Runs `f` and reports the decisions of the parallel calls that this thread made in it, in the order in which they ended.
///
/// ```
/// use windrow::prelude::*;
///
/// let (sum, why) = windrow::explain(|| (0..100u64).into_par_iter().sum::<u64>());
/// assert_eq!(sum, 4950);
/// println!("{}", why[0]);
/// assert!(why[0].place.is_some_and(|place| place.file().ends_with(".rs")));
/// ```
pub fn explain<R>(f: impl FnOnce() -> R) -> (R, Vec<Explained>) {
    /// Puts the outer listener back, also while unwinding.
    struct Outer(Option<Vec<Explained>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            let _ = LISTENING.try_with(|listening| listening.replace(self.0.take()));
        }
    }
    let outer = Outer(LISTENING.try_with(|listening| listening.replace(Some(Vec::new()))).ok().flatten());
    let result = f();
    let heard = LISTENING.try_with(|listening| listening.borrow_mut().take()).ok().flatten().unwrap_or_default();
    drop(outer);
    (result, heard)
}

/// Whether this thread is inside of [`explain`].
#[inline]
pub(crate) fn listening() -> bool {
    LISTENING.try_with(|listening| listening.borrow().is_some()).unwrap_or(false)
}

/// Tells the listener, if there is one.
#[inline]
pub(crate) fn tell(explained: impl FnOnce() -> Explained) {
    // A call made while the thread ends is not reported.
    let _ = LISTENING.try_with(|listening| {
        if let Some(heard) = listening.borrow_mut().as_mut() {
            heard.push(explained());
        }
    });
}
