//! The builder of a pool: settings as a program states them.

use std::fmt;
use std::sync::Arc;

use windrow_sync::gate::MOST_MEMBERS;

use super::settings::{Handlers, MOST_STACK, PoolBuildError, PoolBuildErrorKind, Settings, usual_threads};
use super::{Pool, global};
use crate::runtime::ablation::Mechanisms;

type Name = Box<dyn FnMut(usize) -> String>;

/// Settings of a [`Pool`], to be built. Settings that rayon's `ThreadPoolBuilder` has too are named as there.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use windrow::{PoolBuilder, prelude::*};
///
/// static ENDED: AtomicUsize = AtomicUsize::new(0);
///
/// let pool = PoolBuilder::new()
///     .threads(3)
///     .thread_name(|index| format!("numbers-{index}"))
///     .stack_size(16 << 20)
///     .exit_handler(|_index| {
///         ENDED.fetch_add(1, Ordering::Relaxed);
///     })
///     .build()?;
/// assert_eq!(pool.install(|| (0..1000u64).into_par_iter().sum::<u64>()), 499_500);
/// drop(pool);
/// // The caller is a member, but no thread of the pool.
/// assert_eq!(ENDED.load(Ordering::Relaxed), 2);
/// # Ok::<(), windrow::PoolBuildError>(())
/// ```
#[derive(Default)]
#[must_use = "settings do nothing until `build` or `build_global` is called"]
pub struct PoolBuilder {
    threads: usize,
    stack_size: Option<usize>,
    name: Option<Name>,
    handlers: Handlers,
    off: Mechanisms,
}

impl fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("threads", &self.threads)
            .field("stack_size", &self.stack_size)
            .field("thread_name", &self.name.is_some())
            .field("start_handler", &self.handlers.start.is_some())
            .field("exit_handler", &self.handlers.exit.is_some())
            .finish()
    }
}

impl PoolBuilder {
    /// The default settings.
    pub fn new() -> PoolBuilder {
        PoolBuilder::default()
    }

    /// Threads that take part in a call, the caller included: the pool starts one less. At most 1023.
    ///
    /// 0, the default, stands for the environment variable `WINDROW_THREADS`; without it, for the number of CPUs
    /// that the process may use. The variable is a number from 1 to 1023. A valid value is read once: later changes of the
    /// environment have no effect, also not in a forked child. A number that is passed here wins over the variable, whatever its value.
    ///
    /// Any other value of the variable (`0`, `abc`, the empty string) is an error of [`build`](PoolBuilder::build) and
    /// [`build_global`](PoolBuilder::build_global). [`Pool::new`]`(0)` and a global pool that a call made return no error: they say so in
    /// one line on the standard error, once, and have as many threads as the process may use CPUs.
    pub fn threads(mut self, threads: usize) -> PoolBuilder {
        self.threads = threads;
        self
    }

    /// The name of each thread by its index, which is in `1..threads`: the caller is member 0 of its calls. By default `windrow-1` and so on.
    /// `name` is called when the pool is built, on the building thread.
    ///
    /// Spawn threads, which [`Pool::spawn`] starts, are named `windrow-spawn-1` and so on in every pool.
    ///
    /// ```
    /// use windrow::{Pool, Width};
    ///
    /// let pool = Pool::builder().threads(2).thread_name(|index| format!("solver-{index}")).build()?;
    /// let names = pool.install(|| {
    ///     windrow::team(&mut ()).width(Width::exactly(2)).run(|_| std::thread::current().name().map(str::to_owned))
    /// });
    /// assert_eq!(names[1].as_deref(), Some("solver-1"));
    /// # Ok::<(), windrow::PoolBuildError>(())
    /// ```
    pub fn thread_name(mut self, name: impl FnMut(usize) -> String + 'static) -> PoolBuilder {
        self.name = Some(Box::new(name));
        self
    }

    /// The stack of each thread in bytes, spawn threads included. The default is that of the standard library: 2 MiB, or
    /// what the environment variable `RUST_MIN_STACK` says.
    ///
    /// A deep recursion needs a large stack. A half that [`join`](crate::join()) shares runs on a worker's stack with all its recursion. A
    /// member that waits runs parts of that half on top of its frames. So a recursion that fits into the caller's stack may overflow
    /// a worker's stack, which ends the process. Give the pool the stack that the whole recursion needs. The caller's stack is not changed:
    /// start the recursion on a thread with a stack of that size, such as a spawn thread ([`Pool::spawn`]). Memory is used as a stack grows,
    /// not when the thread starts.
    ///
    /// ```
    /// // A list of nodes as a tree that leans to one side: as deep as it is long.
    /// fn depth(n: u64) -> u64 {
    ///     if n == 0 {
    ///         return 0;
    ///     }
    ///     let (here, below) = windrow::join(|| 1, || depth(n - 1));
    ///     here + below
    /// }
    ///
    /// let pool = windrow::Pool::builder().threads(2).stack_size(256 << 20).build()?;
    /// let closure = pool.spawn_joinable(|| depth(20_000));
    /// # while !closure.is_finished() {
    /// #     std::thread::yield_now();
    /// # }
    /// assert_eq!(closure.wait(), 20_000);
    /// # Ok::<(), windrow::PoolBuildError>(())
    /// ```
    ///
    /// If the system refuses threads with this stack, the pool has fewer: see [`Pool::threads`].
    pub fn stack_size(mut self, bytes: usize) -> PoolBuilder {
        self.stack_size = Some(bytes);
        self
    }

    /// Calls `handler` on each thread of the pool with its index (in `1..threads`), before the thread takes part in calls. Threads do not
    /// wait for each other, and [`build`](PoolBuilder::build) does not wait for the handler.
    ///
    /// For priorities, affinity and thread-local state. A worker whose CPUs the handler narrows stays on those CPUs. Their number is not
    /// taken for the number of CPUs that the pool may use.
    ///
    /// If the handler panics, the panic is discarded, and the thread takes part all the same. Spawn threads have no handlers. If the
    /// system refuses a thread of the pool, the threads before it end, and the pool is built again with fewer. Then handlers are called again.
    pub fn start_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> PoolBuilder {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Calls `handler` on each thread of the pool with its index when the thread ends, after its last call. Dropping the pool, or
    /// [`shutdown`](crate::shutdown) of a global pool, waits for the handler. Parallel calls in the handler run on its thread alone.
    ///
    /// If the handler panics, the panic is discarded.
    pub fn exit_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> PoolBuilder {
        self.handlers.exit = Some(Box::new(handler));
        self
    }

    /// Switches a mechanism off.
    #[cfg(feature = "ablation")]
    #[doc(hidden)]
    pub fn without(mut self, mechanism: crate::Mechanism) -> PoolBuilder {
        self.off = self.off.with(mechanism);
        self
    }

    /// Starts the pool.
    ///
    /// If the system refuses a thread, the pool has fewer: [`Pool::threads`] says how many.
    ///
    /// # Errors
    /// If a setting cannot be met: [`PoolBuildError::kind`] says which.
    pub fn build(self) -> Result<Pool, PoolBuildError> {
        Ok(Pool::build(self.checked()?))
    }

    /// Starts the pool as the global one, which calls outside [`Pool::install`] use.
    ///
    /// Call this first in `main`: a parallel call that needs the global pool makes one with default settings. After
    /// [`shutdown`](crate::shutdown) it can be called again.
    ///
    /// ```
    /// use windrow::{PoolBuildErrorKind, PoolBuilder};
    ///
    /// PoolBuilder::new().threads(3).build_global()?;
    /// assert_eq!(windrow::current_num_threads(), 3);
    ///
    /// let again = PoolBuilder::new().build_global().unwrap_err();
    /// assert_eq!(again.kind(), PoolBuildErrorKind::GlobalExists);
    /// # Ok::<(), windrow::PoolBuildError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](PoolBuilder::build); and if this process has a global pool already.
    pub fn build_global(self) -> Result<(), PoolBuildError> {
        global::build(self.checked()?)
    }

    fn checked(self) -> Result<Settings, PoolBuildError> {
        let PoolBuilder { threads, stack_size, mut name, handlers, off } = self;
        let threads = match threads {
            0 => usual_threads()?,
            1..=MOST_MEMBERS => threads,
            _ => {
                let message =
                    format!("a pool cannot have {threads} threads: pass 1 to {MOST_MEMBERS}, or 0 for the default");
                return Err(PoolBuildError::new(PoolBuildErrorKind::TooManyThreads, message));
            }
        };
        if let Some(bytes) = stack_size.filter(|&bytes| bytes > MOST_STACK) {
            let message = format!("a stack of {bytes} bytes is too large: pass at most {MOST_STACK}");
            return Err(PoolBuildError::new(PoolBuildErrorKind::StackSize, message));
        }
        let mut settings = Settings { stack_size, off, handlers: Arc::new(handlers), ..Settings::of(threads) };
        if let Some(name) = &mut name {
            settings.names = (1..threads).map(name).collect();
        }
        if let Some(at) = settings.names.iter().position(|name| name.contains('\0')) {
            let (index, name) = (at + 1, &settings.names[at]);
            let message = format!(
                "the name of thread {index} is {name:?}: `thread_name` must return a name that contains no NUL \
                 character"
            );
            return Err(PoolBuildError::new(PoolBuildErrorKind::ThreadName, message));
        }
        Ok(settings)
    }
}
