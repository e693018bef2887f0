//! Settings of a pool.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use windrow::workers::{TaskPoolBuilder, WorkerThread};

use crate::error::ThreadPoolBuildError;
use crate::pool::{self, ThreadPool};

/// A thread of a pool that waits to be started: see [`ThreadPoolBuilder::spawn_handler`].
pub struct ThreadBuilder {
    worker: WorkerThread,
    /// The pool of windrow's parallel iterators on this thread.
    #[cfg(feature = "iterators")]
    iterators: std::sync::Arc<windrow::Pool>,
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("name", &self.name())
            .field("stack_size", &self.stack_size())
            .field("index", &self.index())
            .finish_non_exhaustive()
    }
}

impl ThreadBuilder {
    /// The thread's index, in `0..num_threads`.
    pub fn index(&self) -> usize {
        self.worker.index()
    }

    /// The name that the thread should have.
    pub fn name(&self) -> Option<&str> {
        self.worker.name()
    }

    /// The stack that the thread should have, in bytes.
    pub fn stack_size(&self) -> Option<usize> {
        self.worker.stack_size()
    }

    /// Runs tasks on this thread until the pool ends.
    pub fn run(self) {
        #[cfg(feature = "iterators")]
        return self.iterators.install(|| self.worker.run());
        #[cfg(not(feature = "iterators"))]
        self.worker.run();
    }

    /// A thread with this name and stack, not started.
    fn thread(&self) -> thread::Builder {
        let mut thread = thread::Builder::new();
        if let Some(name) = self.name() {
            thread = thread.name(name.to_owned());
        }
        if let Some(bytes) = self.stack_size() {
            thread = thread.stack_size(bytes);
        }
        thread
    }
}

/// How threads are started.
pub trait ThreadSpawn {
    /// Starts a thread that calls [`ThreadBuilder::run`].
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// Threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        thread.thread().spawn(|| thread.run()).map(drop)
    }
}

/// Threads that a closure starts.
pub struct CustomSpawn<F>(F);

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

/// Settings of a [`ThreadPool`].
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
/// assert_eq!(pool.install(rayon_core::current_num_threads), 2);
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    builder: TaskPoolBuilder,
    num_threads: usize,
    has_panic_handler: bool,
    spawn: S,
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("builder", &self.builder)
            .finish_non_exhaustive()
    }
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        let builder = TaskPoolBuilder::new();
        ThreadPoolBuilder { builder, num_threads: 0, has_panic_handler: false, spawn: DefaultSpawn }
    }
}

impl ThreadPoolBuilder {
    /// The usual settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a pool on threads that end before this returns. `wrapper` runs each of them; `with_pool` is called with the pool.
    ///
    /// # Errors
    /// As [`build`](ThreadPoolBuilder::build).
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let wrapper = &wrapper;
            let start = |thread: ThreadBuilder| thread.thread().spawn_scoped(scope, move || wrapper(thread)).map(drop);
            let pool = self.spawn_handler(start).build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Starts the pool.
    ///
    /// # Errors
    /// If the system refuses a thread. If the current thread should belong to the pool, and belongs to one already.
    pub fn build(mut self) -> Result<ThreadPool, ThreadPoolBuildError> {
        let threads = threads(self.num_threads);
        let mut builder = self.builder.threads(threads);
        if !self.has_panic_handler {
            builder = builder.panic_handler(|_| abort("a task"));
        }
        #[cfg(feature = "iterators")]
        let iterators = std::sync::Arc::new(windrow::Pool::new(threads));
        let pool = builder.build_with(|worker| {
            self.spawn.spawn(ThreadBuilder {
                worker,
                #[cfg(feature = "iterators")]
                iterators: iterators.clone(),
            })
        })?;
        Ok(ThreadPool::of(pool))
    }

    /// Starts the global pool, which calls outside of any pool use.
    ///
    /// # Errors
    /// As [`build`](ThreadPoolBuilder::build), and if there is a global pool.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        pool::build_global(self)
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Starts threads by `spawn`, which makes each of them call [`ThreadBuilder::run`].
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        let ThreadPoolBuilder { builder, num_threads, has_panic_handler, spawn: _ } = self;
        ThreadPoolBuilder { builder, num_threads, has_panic_handler, spawn: CustomSpawn(spawn) }
    }

    /// The name of each thread by its index.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.builder = self.builder.thread_name(name);
        self
    }

    /// Threads of the pool. 0, the usual setting, is what the environment variable `RAYON_NUM_THREADS` says, else the number of CPUs.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the current thread the pool's thread 0.
    pub fn use_current_thread(mut self) -> Self {
        self.builder = self.builder.use_current_thread();
        self
    }

    /// Is called with each panic that no caller receives. Without a handler, such a panic aborts the process; so does one of the handler.
    pub fn panic_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.builder = self.builder.panic_handler(move |payload| {
            if catch_unwind(AssertUnwindSafe(|| handler(payload))).is_err() {
                abort("a panic handler");
            }
        });
        self.has_panic_handler = true;
        self
    }

    /// The stack of each thread in bytes.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.builder = self.builder.stack_size(bytes);
        self
    }

    /// Has no effect: threads take their youngest task first. Use [`spawn_fifo`](crate::spawn_fifo()) instead.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(self) -> Self {
        self
    }

    /// Is called by each thread when it begins, with its index.
    pub fn start_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.builder = self.builder.start_handler(handler);
        self
    }

    /// Is called by each thread before it ends, with its index.
    pub fn exit_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.builder = self.builder.exit_handler(handler);
        self
    }
}

/// Ends the process: a panic that no caller receives must not go unseen.
fn abort(culprit: &str) {
    // A standard error that is closed changes nothing.
    let _ = writeln!(io::stderr(), "rayon-core: {culprit} panicked, and there is no caller to tell: aborting");
    std::process::abort();
}

/// The number of threads that is meant by `wanted`.
fn threads(wanted: usize) -> usize {
    let variable = |name| std::env::var(name).ok()?.parse::<usize>().ok();
    if wanted > 0 {
        return wanted;
    }
    // 0 is the number of CPUs: here, and in `windrow`. The second name is the older one.
    variable("RAYON_NUM_THREADS").or_else(|| variable("RAYON_RS_NUM_CPUS")).unwrap_or(0)
}

/// Settings of a [`ThreadPool`], under their older name.
#[deprecated(note = "Use `ThreadPoolBuilder`")]
#[derive(Default)]
pub struct Configuration {
    builder: ThreadPoolBuilder,
}

#[allow(deprecated)]
impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.builder.fmt(f)
    }
}

#[allow(deprecated)]
impl Configuration {
    /// The usual settings.
    pub fn new() -> Configuration {
        Configuration::default()
    }

    fn with(self, change: impl FnOnce(ThreadPoolBuilder) -> ThreadPoolBuilder) -> Self {
        Configuration { builder: change(self.builder) }
    }

    pub(crate) fn into_builder(self) -> ThreadPoolBuilder {
        self.builder
    }

    /// [`ThreadPoolBuilder::build`].
    ///
    /// # Errors
    /// As there.
    pub fn build(self) -> Result<ThreadPool, Box<dyn Error + 'static>> {
        self.builder.build().map_err(Box::from)
    }

    /// [`ThreadPoolBuilder::thread_name`].
    pub fn thread_name<F>(self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.with(|builder| builder.thread_name(name))
    }

    /// [`ThreadPoolBuilder::num_threads`].
    pub fn num_threads(self, num_threads: usize) -> Self {
        self.with(|builder| builder.num_threads(num_threads))
    }

    /// [`ThreadPoolBuilder::panic_handler`].
    pub fn panic_handler<H>(self, handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.with(|builder| builder.panic_handler(handler))
    }

    /// [`ThreadPoolBuilder::stack_size`].
    pub fn stack_size(self, bytes: usize) -> Self {
        self.with(|builder| builder.stack_size(bytes))
    }

    /// [`ThreadPoolBuilder::breadth_first`].
    pub fn breadth_first(self) -> Self {
        self.with(|builder| builder.breadth_first())
    }

    /// [`ThreadPoolBuilder::start_handler`].
    pub fn start_handler<H>(self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.with(|builder| builder.start_handler(handler))
    }

    /// [`ThreadPoolBuilder::exit_handler`].
    pub fn exit_handler<H>(self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.with(|builder| builder.exit_handler(handler))
    }
}
