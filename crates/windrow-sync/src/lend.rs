//! Lend: closures that borrow, as jobs that any queue can hold and any thread can run.
//!
//! # Glossary
//! * *Host*: a call of [`lending`]. *Lender*: its right to lend; it can be copied.
//! * *Job*: a closure that borrows for the host's `'scope`. *Loan*: a job out of the host's hands, as a value without a lifetime.
//! * *Open*: neither run nor dropped. *Over*: the host has found no open loan; it lends nothing more.
//!
//! # Protocol
//! The host keeps `open`, `over` and `waited` under a lock.
//! 1. *Lend.* A lender adds 1 to `open`, unless the host is over; then it panics. Only then it erases the job's lifetime. Race
//!    prevented: a job is lent while the host returns.
//! 2. *End.* A thread that has a loan runs the job, or drops it. When nothing of the job is left, the thread subtracts 1 from `open`.
//!    If none is open now, it takes `waited` away and sets the latch if `waited` was true; it also calls the host's `ended`. Race
//!    prevented: the host returns while a job still has what it borrows.
//! 3. *Wait.* The host runs its own part, and then the given `wait`, which may run other work, or do nothing. Then the host sets
//!    `over` if none is open. Otherwise it sets `waited`, waits for the latch and checks again. Race prevented: the last loan ends
//!    between the check and the wait.
//!
//! # Why it holds
//! * *No job outlives `'scope`.* `'scope` contains the call of `lending`. The host returns, or unwinds, only after it has set `over`
//!   with no open loan; the lock makes all that ended loans did visible. A lender that is left refuses from then on.
//! * *A leaked loan* stays open: its host never returns, and nothing is freed.
//! * *The latch is set once for each wait.* `waited` becomes true before a wait, and the end that takes it away sets the latch.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::Spin;
use crate::latch::Latch;
use crate::primitives::{Arc, Mutex, lock};

/// What a host and its loans share.
struct Loans<W> {
    state: Mutex<LoanState>,
    left: Latch,
    ended: W,
}

struct LoanState {
    open: usize,
    over: bool,
    waited: bool,
}

impl<W> Loans<W> {
    fn is_none_open(&self) -> bool {
        lock(&self.state).open == 0
    }

    /// Waits until no loan is open; there will be no more.
    fn finish(&self) {
        loop {
            let mut state = lock(&self.state);
            if state.open == 0 {
                state.over = true;
                return;
            }
            state.waited = true;
            drop(state);
            self.left.wait(Spin::NONE);
        }
    }
}

/// Runs `f`, which may [`lend`](Lender::lend) jobs that borrow what outlives this call, and returns when every loan has ended.
///
/// Before this thread blocks it calls `wait`, which is given the question whether all loans have ended. It may run other work
/// meanwhile, the loans themselves perhaps, and may return at any time. Whenever the last open loan ends, its thread calls `ended`.
///
/// ```
/// use windrow_sync::lend::lending;
///
/// let words = vec!["one", "two"];
/// let queue = std::sync::Mutex::new(Vec::new());
/// lending(|| (), |_| queue.lock().unwrap().drain(..).for_each(windrow_sync::lend::Loan::run), |lender| {
///     for word in &words {
///         queue.lock().unwrap().push(lender.lend(move || assert_eq!(word.len(), 3)));
///     }
/// });
/// ```
///
/// # Panics
/// With the payload of `f`, else with that of `wait`. All loans have ended by then.
pub fn lending<'scope, W, R>(
    ended: W,
    wait: impl FnOnce(&dyn Fn() -> bool),
    f: impl FnOnce(&Lender<'scope, W>) -> R,
) -> R
where
    W: Fn() + Send + Sync + 'static,
{
    let state = LoanState { open: 0, over: false, waited: false };
    let loans = Arc::new(Loans { state: Mutex::new(state), left: Latch::new(), ended });
    let lender = Lender { loans, borrows: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&lender)));
    let is_over = || lender.loans.is_none_open();
    let waited = catch_unwind(AssertUnwindSafe(|| {
        if !is_over() {
            wait(&is_over);
        }
    }));
    lender.loans.finish();
    match (result, waited) {
        (Ok(result), Ok(())) => result,
        (Err(payload), _) | (_, Err(payload)) => resume_unwind(payload),
    }
}

/// The right to lend jobs that borrow for `'scope`: see [`lending`].
pub struct Lender<'scope, W> {
    loans: Arc<Loans<W>>,
    /// Jobs may write to what they borrow, so `'scope` must not be shortened.
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<W> Clone for Lender<'_, W> {
    fn clone(&self) -> Self {
        Lender { loans: self.loans.clone(), borrows: PhantomData }
    }
}

impl<W> std::fmt::Debug for Lender<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("open", &lock(&self.loans.state).open).finish_non_exhaustive()
    }
}

impl<'scope, W> Lender<'scope, W>
where
    W: Fn() + Send + Sync + 'static,
{
    /// Lends `job`: the loan can be stored anywhere, and is run or dropped by any thread.
    ///
    /// # Panics
    /// If the host has returned.
    pub fn lend(&self, job: impl FnOnce() + Send + 'scope) -> Loan {
        {
            let mut state = lock(&self.loans.state);
            assert!(!state.over, "a job is lent after the end of its scope");
            state.open += 1;
        }
        let job: Box<dyn LoanJob + 'scope> = Box::new(LoanedJob { job, end: LoanEnd(self.loans.clone()) });
        // SAFETY: only the lifetime changes. `LoanEnd` is dropped after the job, and the host, whose call `'scope` contains, does
        // not return before that: the loan is counted as open.
        let job = unsafe { std::mem::transmute::<Box<dyn LoanJob + 'scope>, Box<dyn LoanJob + 'static>>(job) };
        Loan { job }
    }
}

/// A job on loan. Dropping it drops the job unrun.
pub struct Loan {
    job: Box<dyn LoanJob>,
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl Loan {
    /// Runs the job.
    ///
    /// # Panics
    /// With the payload of the job. The loan has ended by then.
    pub fn run(self) {
        self.job.run();
    }
}

trait LoanJob: Send {
    fn run(self: Box<Self>);
}

/// Fields are dropped in this order: the job ends before the loan does.
struct LoanedJob<F, W: Fn()> {
    job: F,
    end: LoanEnd<W>,
}

impl<F: FnOnce() + Send, W: Fn() + Send + Sync> LoanJob for LoanedJob<F, W> {
    fn run(self: Box<Self>) {
        let LoanedJob { job, end } = *self;
        // Also when the job panics: what it owns is dropped in its own frame.
        let _end = end;
        job();
    }
}

/// Ends a loan when it is dropped.
struct LoanEnd<W: Fn()>(Arc<Loans<W>>);

impl<W: Fn()> Drop for LoanEnd<W> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.open -= 1;
        let is_last = state.open == 0;
        let waited = is_last && std::mem::take(&mut state.waited);
        drop(state);
        if waited {
            self.0.left.set();
        }
        if is_last {
            (self.0.ended)();
        }
    }
}
