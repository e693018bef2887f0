//! Saying why.

use std::cell::RefCell;

use windrow_plan::Decision;
use windrow_plan::grain::{Grain, Progress};

thread_local! {
    static LISTENING: RefCell<Option<Vec<Explained>>> = const { RefCell::new(None) };
}

/// How one parallel call went, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Items of the call.
    pub items: usize,
    /// The last decision: to publish, or the reason to have stayed serial. `None` if there was nothing to decide: at most one
    /// item, or one thread.
    pub decision: Option<Decision<Progress, Grain>>,
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} items: ", self.items)?;
        match &self.decision {
            Some(decision) => decision.fmt(f),
            None => f.write_str("serial: nothing to decide"),
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

/// Whether somebody listens on this thread.
#[inline]
pub(crate) fn listening() -> bool {
    LISTENING.try_with(|listening| listening.borrow().is_some()).unwrap_or(false)
}

/// Tells the listener, if there is one.
#[inline]
pub(crate) fn tell(items: usize, decision: impl FnOnce() -> Option<Decision<Progress, Grain>>) {
    // A call made while the thread ends is not reported.
    let _ = LISTENING.try_with(|listening| {
        if let Some(heard) = listening.borrow_mut().as_mut() {
            heard.push(Explained { items, decision: decision() });
        }
    });
}
