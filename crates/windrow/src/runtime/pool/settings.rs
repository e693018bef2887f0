//! Valid settings of a pool, the defaults, and the errors of other settings.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use windrow_sync::gate::MOST_MEMBERS;
use windrow_sync::machine;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::quietly;

use crate::runtime::ablation::Mechanisms;
use crate::runtime::hooks::rayon_threads;

/// The environment variable that sets the width of the global pool.
const VARIABLE: &str = "WINDROW_THREADS";

/// The largest stack that a thread can be given, in bytes: half of the address space.
///
/// Measure: size of the address space.
pub(super) const MOST_STACK: usize = isize::MAX as usize;

type Handler = Box<dyn Fn(usize) + Send + Sync>;

/// Valid settings.
pub(super) struct Settings {
    pub(super) stack_size: Option<usize>,
    pub(super) off: Mechanisms,
    /// Names of all threads but the caller.
    pub(super) names: Vec<String>,
    pub(super) handlers: Arc<Handlers>,
}

impl Settings {
    pub(super) fn of(threads: usize) -> Self {
        let names = (1..threads).map(|member| format!("windrow-{member}")).collect();
        Settings { stack_size: None, off: Mechanisms::default(), names, handlers: Arc::default() }
    }

    /// Default settings, for callers that return no error; 0 threads is the default number.
    pub(super) fn usual(threads: usize) -> Self {
        Settings::of(if threads > 0 { threads.min(MOST_MEMBERS) } else { default_threads() })
    }

    pub(super) fn threads(&self) -> usize {
        self.names.len() + 1
    }
}

/// User code that runs when threads begin and end.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) start: Option<Handler>,
    pub(super) exit: Option<Handler>,
}

impl Handlers {
    /// Calls the start handler. Returns whether the pool has one.
    pub(super) fn start(&self, member: usize) -> bool {
        self.start.as_ref().inspect(|handler| quietly(|| handler(member))).is_some()
    }

    pub(super) fn exit(&self, member: usize) {
        self.exit.as_ref().inspect(|handler| quietly(|| handler(member)));
    }
}

fn cpus() -> usize {
    machine::cpus().min(MOST_MEMBERS)
}

/// The default number of threads, or the number of CPUs if the variable does not count.
#[doc(hidden)]
pub fn default_threads() -> usize {
    usual_threads().unwrap_or_else(|error| warned(&error))
}

/// The default number of threads. The value of the variable is kept, so that a forked child does not read the environment: a thread of the
/// parent may hold its lock.
pub(super) fn usual_threads() -> Result<usize, PoolBuildError> {
    // Measure: bits of the word that keeps the width.
    const UNREAD: u64 = 0;
    const UNSET: u64 = u64::MAX;
    static SEEN: RelaxedU64 = RelaxedU64::new(UNREAD);
    match SEEN.get() {
        UNREAD => {}
        UNSET => return Ok(cpus()),
        threads => return Ok(threads as usize),
    }
    if cfg!(feature = "rayon")
        && let Some(threads) = rayon_threads()
    {
        SEEN.set(threads.min(MOST_MEMBERS) as u64);
        return usual_threads();
    }
    let Some(value) = std::env::var_os(VARIABLE) else {
        SEEN.set(UNSET);
        return Ok(cpus());
    };
    match value.to_str().map(str::parse) {
        Some(Ok(threads @ 1..=MOST_MEMBERS)) => {
            SEEN.set(threads as u64);
            Ok(threads)
        }
        _ => Err(PoolBuildError::new(
            PoolBuildErrorKind::Environment,
            format!(
                "{VARIABLE} is {value:?}, which is not a valid number of threads: \
                 set it to a number from 1 to {MOST_MEMBERS}, or unset it"
            ),
        )),
    }
}

/// The number of CPUs. Prints once why the variable does not count.
fn warned(error: &PoolBuildError) -> usize {
    static SAID: RelaxedU64 = RelaxedU64::new(0);
    let cpus = cpus();
    if SAID.get() == 0 {
        SAID.set(1);
        // A standard error that is closed is no reason to fail.
        let plural = if cpus == 1 { "" } else { "s" };
        let _ = writeln!(std::io::stderr(), "windrow: {error}; using {cpus} thread{plural}");
    }
    cpus
}

/// The reason that a pool was not built.
///
/// ```
/// use windrow::Pool;
///
/// let error = Pool::builder().threads(5000).build().unwrap_err();
/// assert!(error.to_string().starts_with("a pool cannot have 5000 threads: pass 1 to "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolBuildError {
    kind: PoolBuildErrorKind,
    message: String,
}

/// The kind of a [`PoolBuildError`].
///
/// ```
/// use windrow::{Pool, PoolBuildErrorKind};
///
/// let error = Pool::builder().threads(2).thread_name(|_| "a\0b".to_owned()).build().unwrap_err();
/// assert_eq!(error.kind(), PoolBuildErrorKind::ThreadName);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolBuildErrorKind {
    /// More threads than a pool can have.
    TooManyThreads,
    /// No stack can have this size.
    StackSize,
    /// A thread's name contains a NUL.
    ThreadName,
    /// The environment variable `WINDROW_THREADS` is not a number from 1 to 1023.
    Environment,
    /// The process has a global pool already.
    GlobalExists,
}

impl PoolBuildError {
    pub(super) fn new(kind: PoolBuildErrorKind, message: String) -> Self {
        PoolBuildError { kind, message }
    }

    pub(super) fn global_exists() -> Self {
        let message =
            "the global pool already exists: call `build_global` before the first parallel call, or after `shutdown`";
        PoolBuildError::new(PoolBuildErrorKind::GlobalExists, message.to_owned())
    }

    /// The setting that was invalid.
    pub fn kind(&self) -> PoolBuildErrorKind {
        self.kind
    }
}

impl fmt::Display for PoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PoolBuildError {}
