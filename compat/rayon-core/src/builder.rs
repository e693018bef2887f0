//! Settings of a pool.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use windrow::hooks;

use crate::error::{Cause, ThreadPoolBuildError};
use crate::max_num_threads;
use crate::pool::{self, ThreadPool};
use crate::workers::{self, Handlers, PoolCore};

/// A thread of a pool that waits to be started: see [`ThreadPoolBuilder::spawn_handler`].
pub struct ThreadBuilder {
    core: Arc<PoolCore>,
    index: usize,
    name: Option<String>,
    stack_size: Option<usize>,
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
        self.index
    }

    /// The name that the thread should have.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The stack that the thread should have, in bytes.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs tasks on this thread until the pool ends.
    pub fn run(self) {
        self.core.work(self.index);
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

/// Starter of threads.
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
    num_threads: usize,
    stack_size: Option<usize>,
    name: Option<Box<dyn FnMut(usize) -> String>>,
    handlers: Handlers,
    use_current_thread: bool,
    spawn: S,
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("stack_size", &self.stack_size)
            .field("thread_name", &self.name.is_some())
            .field("start_handler", &self.handlers.start.is_some())
            .field("exit_handler", &self.handlers.exit.is_some())
            .field("panic_handler", &self.handlers.panic.is_some())
            .field("use_current_thread", &self.use_current_thread)
            .finish_non_exhaustive()
    }
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        ThreadPoolBuilder {
            num_threads: 0,
            stack_size: None,
            name: None,
            handlers: Handlers::default(),
            use_current_thread: false,
            spawn: DefaultSpawn,
        }
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
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        let ThreadPoolBuilder { num_threads, stack_size, mut name, handlers, use_current_thread, mut spawn } = self;
        let threads = threads(num_threads);
        if use_current_thread && workers::place().is_some() {
            return Err(ThreadPoolBuildError(Cause::CurrentThread));
        }
        let refused = |error| ThreadPoolBuildError(Cause::System(error));
        let core = Arc::new(PoolCore::new(threads, use_current_thread, handlers));
        // Ends the threads if a name panics or a thread is refused.
        let life = core.begin_life();
        if cfg!(feature = "iterators") {
            core.run_loops();
        }
        for index in usize::from(use_current_thread)..threads {
            let name = name.as_mut().map(|name| name(index));
            spawn.spawn(ThreadBuilder { core: core.clone(), index, name, stack_size }).map_err(refused)?;
        }
        let host = core.clone();
        // The host thread calls no user code: any stack is enough.
        let host = thread::Builder::new().name("windrow-tasks".to_owned()).spawn(move || host.host());
        host.map_err(refused)?;
        core.set_hosted();
        if use_current_thread {
            workers::enter(&core, 0);
        }
        Ok(ThreadPool::of(life))
    }

    /// Starts the global pool, which calls outside any pool use.
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
        let ThreadPoolBuilder { num_threads, stack_size, name, handlers, use_current_thread, spawn: _ } = self;
        let spawn = CustomSpawn(spawn);
        ThreadPoolBuilder { num_threads, stack_size, name, handlers, use_current_thread, spawn }
    }

    /// The name of each thread by its index.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.name = Some(Box::new(name));
        self
    }

    /// Threads of the pool. 0, the usual setting, is what the environment variable `RAYON_NUM_THREADS` says, else what `WINDROW_THREADS` says,
    /// else the number of CPUs.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the current thread the pool's thread 0, for as long as it lives. The pool starts one thread less.
    ///
    /// That thread runs tasks only while it waits in a call of the pool, or yields. The start and exit handlers are not called for it. The
    /// pool's memory is kept until that thread ends.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// Handler of each panic that no caller receives. Without a handler, such a panic aborts the process; so does one of the handler.
    pub fn panic_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.handlers.panic = Some(Box::new(handler));
        self
    }

    /// The stack of each thread in bytes.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Has no effect: threads take their youngest task first. Use [`spawn_fifo`](crate::spawn_fifo()) instead.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(self) -> Self {
        self
    }

    /// Handler that each thread calls when it begins, with its index.
    pub fn start_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Handler that each thread calls before it ends, with its index.
    pub fn exit_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.exit = Some(Box::new(handler));
        self
    }
}

/// Threads of a pool for which `wanted` are set; 0 is no setting.
fn threads(wanted: usize) -> usize {
    let wanted = match wanted {
        0 => hooks::rayon_threads().unwrap_or_else(hooks::default_threads),
        wanted => wanted,
    };
    wanted.min(max_num_threads())
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
