#![doc = include_str!("lend.md")]

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::debug::show_as;
use crate::base::fork::{Process, Stranded};
use crate::base::latch::Latch;
use crate::base::mutex::Mutex;
use crate::base::primitives::Arc;
use crate::base::spin::Spin;
use crate::base::unwind::discard;

/// The state that a host shares with its loans.
struct Loans<W> {
    state: Mutex<LoanState>,
    left: Latch,
    ended: W,
    process: Process,
}

struct LoanState {
    open: usize,
    over: bool,
    waited: bool,
}

impl<W> Loans<W> {
    /// Waits until no loan is open. From then on nothing can be lent.
    fn finish(&self) -> Result<(), Stranded> {
        loop {
            let mut state = self.state.lock();
            if state.open == 0 || !self.process.is_this() {
                state.over = true;
                return if state.open == 0 { Ok(()) } else { Err(Stranded) };
            }
            state.waited = true;
            drop(state);
            self.left.wait(Spin::NONE);
        }
    }
}

/// Runs `f`, which may [`lend`](Lender::lend) jobs that borrow what outlives this call, and returns when every loan has ended.
///
/// Before this thread blocks it calls `wait` with a function that returns true once all loans have ended. `wait` may run other work, such as
/// the loans themselves, and may return at any time. Whenever the last open loan ends, the thread that ended it calls `ended`.
///
/// ```
/// use std::sync::Mutex;
/// use windrow_sync::lend::lending;
///
/// let total = Mutex::new(0);
/// let result = std::thread::scope(|scope| {
///     lending(|| (), |_| (), |lender| {
///         let loan = lender.lend(|| *total.lock().unwrap() += 1);
///         scope.spawn(|| loan.run()); // the job may begin when this closure has returned
///         7
///     })
/// });
/// assert_eq!((result, total.into_inner().unwrap()), (7, 1));
/// ```
///
/// # Panics
/// With the payload of `f`, else with that of `wait`. All loans have ended by then.
///
/// In a child that was forked inside `f` or `wait`, if a loan is open: the threads that would run it stayed in the parent. Loans that
/// are still in a queue must be neither run nor dropped there.
pub fn lending<'scope, W, R>(
    ended: W,
    wait: impl FnOnce(&dyn Fn() -> bool),
    f: impl FnOnce(&Lender<'scope, W>) -> R,
) -> R
where
    W: Fn() + Send + Sync + 'static,
{
    let state = LoanState { open: 0, over: false, waited: false };
    let loans = Arc::new(Loans { state: Mutex::new(state), left: Latch::new(), ended, process: Process::this() });
    let lender = Lender { loans, borrows: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&lender)));
    let is_over = || lender.loans.state.lock().open == 0;
    let waited = catch_unwind(AssertUnwindSafe(|| {
        if !is_over() {
            wait(&is_over);
        }
    }));
    match (result, waited, lender.loans.finish()) {
        (Ok(result), Ok(()), Ok(())) => result,
        // One panic is resumed; what is left is dropped before, where a panic of its drop meets no other.
        (Ok(result), Err(payload), _) => {
            discard(result);
            resume_unwind(payload)
        }
        (Err(payload), waited, _) => {
            discard(waited);
            resume_unwind(payload)
        }
        (Ok(result), Ok(()), Err(stranded)) => {
            discard(result);
            stranded.raise()
        }
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

show_as!("Lender": [W] Lender<'_, W>, |it| open: it.loans.state.lock().open);

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
            let mut state = self.loans.state.lock();
            assert!(!state.over, "a job was lent after the end of its scope");
            state.open += 1;
        }
        let job: Box<dyn LoanJob + 'scope> = Box::new(LoanedJob { job, end: LoanEnd(self.loans.clone()) });
        // SAFETY: only the lifetime changes. `LoanEnd` is dropped after the job, and the host, whose call `'scope` contains, does
        // not return before that: the loan is counted as open. No call that has the job as an argument is left by then: `LoanJob`.
        let job = unsafe { std::mem::transmute::<Box<dyn LoanJob + 'scope>, Box<dyn LoanJob>>(job) };
        Loan { job }
    }
}

/// A job on loan. Dropping it drops the job unrun.
pub struct Loan {
    job: Box<dyn LoanJob>,
}

show_as!("Loan": [] Loan);

impl Loan {
    /// Runs the job.
    ///
    /// # Panics
    /// With the payload of the job. The loan has ended by then.
    pub fn run(self) {
        self.job.run();
    }
}

/// A job behind a pointer. (Were it an argument by value, the references in it would have to be valid until that call returns, and the host
/// may free what they refer to once the loan has ended: rust-lang/rust#101983.)
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
        // Dropped last, also when the job panics: the job drops what it owns before this frame is left.
        let _end = end;
        job();
    }
}

/// Ends a loan when it is dropped.
struct LoanEnd<W: Fn()>(Arc<Loans<W>>);

impl<W: Fn()> Drop for LoanEnd<W> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
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
