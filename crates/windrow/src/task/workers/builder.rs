//! Settings of a task pool.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use windrow_sync::gate::MOST_MEMBERS;
use windrow_sync::machine;
use windrow_sync::unwind::Payload;

use super::TaskPool;
use super::core::{self, PoolCore, PoolLife, TaskHandlers};

/// The maximum number of workers of a task pool.
// Measure: size of a field of the word.
pub const MOST_WORKERS: usize = MOST_MEMBERS - 1;

/// Settings of a [`TaskPool`], to be built.
///
/// ```
/// use windrow::workers::TaskPool;
///
/// let pool = TaskPool::builder().threads(2).thread_name(|index| format!("codec-{index}")).build()?;
/// let names = pool.broadcast(|_| std::thread::current().name().map(str::to_owned));
/// assert_eq!(names, [Some("codec-0".to_owned()), Some("codec-1".to_owned())]);
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
#[derive(Default)]
#[must_use = "settings do nothing until `build`"]
pub struct TaskPoolBuilder {
    threads: usize,
    stack_size: Option<usize>,
    name: Option<Box<dyn FnMut(usize) -> String>>,
    handlers: TaskHandlers,
    use_current_thread: bool,
}

impl fmt::Debug for TaskPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPoolBuilder")
            .field("threads", &self.threads)
            .field("stack_size", &self.stack_size)
            .field("thread_name", &self.name.is_some())
            .field("start_handler", &self.handlers.start.is_some())
            .field("exit_handler", &self.handlers.exit.is_some())
            .field("panic_handler", &self.handlers.panic.is_some())
            .field("use_current_thread", &self.use_current_thread)
            .finish()
    }
}

impl TaskPoolBuilder {
    /// The default settings.
    pub fn new() -> TaskPoolBuilder {
        TaskPoolBuilder::default()
    }

    /// The number of workers, at most [`MOST_WORKERS`]; 0, the default, is the number of CPUs that the process may use.
    pub fn threads(mut self, threads: usize) -> TaskPoolBuilder {
        self.threads = threads;
        self
    }

    /// The name of each thread by its index, which is in `0..threads`. By default threads have no names. `name` is called on the building
    /// thread, just before each thread is started. A panic of `name` is a panic of `build`.
    pub fn thread_name(mut self, name: impl FnMut(usize) -> String + 'static) -> TaskPoolBuilder {
        self.name = Some(Box::new(name));
        self
    }

    /// The stack of each thread in bytes. The default is that of the standard library.
    pub fn stack_size(mut self, bytes: usize) -> TaskPoolBuilder {
        self.stack_size = Some(bytes);
        self
    }

    /// Calls `handler` on each thread when the thread begins, with its index.
    pub fn start_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> TaskPoolBuilder {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Calls `handler` on each thread before the thread ends, with its index.
    pub fn exit_handler(mut self, handler: impl Fn(usize) + Send + Sync + 'static) -> TaskPoolBuilder {
        self.handlers.exit = Some(Box::new(handler));
        self
    }

    /// Calls `handler` with the payload of each panic that no caller receives: panics of spawned tasks, of spawned broadcasts, and of the
    /// other handlers. Without a handler such a panic ends its task alone, after the panic hook has reported it.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use windrow::workers::TaskPool;
    ///
    /// let (tell, told) = channel();
    /// let pool = TaskPool::builder().threads(1).panic_handler(move |payload| tell.send(payload).unwrap()).build()?;
    /// pool.spawn(|| panic!("lost"));
    /// assert_eq!(told.recv().unwrap().downcast_ref(), Some(&"lost"));
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    pub fn panic_handler(mut self, handler: impl Fn(Payload) + Send + Sync + 'static) -> TaskPoolBuilder {
        self.handlers.panic = Some(Box::new(handler));
        self
    }

    /// Makes the building thread worker 0, for as long as the thread lives. The pool starts one thread less.
    ///
    /// That worker runs tasks only while it waits in a call of the pool, or [yields](super::yield_now). The start and exit handlers are not
    /// called for it. The pool's memory is kept until that thread ends.
    ///
    /// ```
    /// use windrow::workers::{TaskPool, current_thread_index};
    ///
    /// let built = std::thread::spawn(|| {
    ///     let pool = TaskPool::builder().threads(2).use_current_thread().build();
    ///     (current_thread_index(), pool.map(|pool| pool.threads()))
    /// });
    /// let (index, threads) = built.join().unwrap();
    /// assert_eq!((index, threads?), (Some(0), 2));
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    pub fn use_current_thread(mut self) -> TaskPoolBuilder {
        self.use_current_thread = true;
        self
    }

    /// Starts the pool.
    ///
    /// # Errors
    /// If the system refuses a thread: then the threads that were started end. If [`use_current_thread`](TaskPoolBuilder::use_current_thread)
    /// was called, and the building thread is a worker already.
    pub fn build(self) -> Result<TaskPool, TaskPoolError> {
        self.build_with(|worker| {
            let mut thread = thread::Builder::new();
            if let Some(name) = worker.name() {
                thread = thread.name(name.to_owned());
            }
            if let Some(bytes) = worker.stack_size() {
                thread = thread.stack_size(bytes);
            }
            thread.spawn(|| worker.run()).map(drop)
        })
    }

    /// Starts the pool on threads of the program: for each worker, `start` makes a thread that calls [`WorkerThread::run`].
    ///
    /// The pool starts one more thread, which runs no tasks.
    ///
    /// ```
    /// use windrow::workers::TaskPool;
    ///
    /// let mut started = Vec::new();
    /// let pool = TaskPool::builder().threads(2).build_with(|worker| {
    ///     started.push(worker.index());
    ///     std::thread::Builder::new().spawn(|| worker.run()).map(drop)
    /// })?;
    /// assert_eq!(started, [0, 1]);
    /// assert_eq!(pool.install(|| 6 * 7), 42);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](TaskPoolBuilder::build), also with an error of `start`.
    pub fn build_with(self, mut start: impl FnMut(WorkerThread) -> io::Result<()>) -> Result<TaskPool, TaskPoolError> {
        let TaskPoolBuilder { threads, stack_size, mut name, handlers, use_current_thread } = self;
        let threads = if threads == 0 { machine::cpus() } else { threads }.min(MOST_WORKERS);
        if use_current_thread && core::place().is_some() {
            return Err(TaskPoolError(TaskPoolFault::CurrentThread));
        }
        let core = Arc::new(PoolCore::new(threads, use_current_thread, handlers));
        // Ends the threads if a name panics or a thread is refused.
        let life = core.begin_life();
        for index in usize::from(use_current_thread)..threads {
            let name = name.as_mut().map(|name| name(index));
            start(WorkerThread { core: core.clone(), index, name, stack_size })?;
        }
        start_host(&life)?;
        if use_current_thread {
            core::enter(&core, 0);
        }
        Ok(TaskPool { life })
    }
}

fn start_host(life: &PoolLife) -> io::Result<()> {
    let core = life.core.clone();
    // The host thread calls no user code: any stack is enough.
    let host = thread::Builder::new().name("windrow-tasks".to_owned()).spawn(move || core.host())?;
    life.core.set_host(host.thread().clone());
    Ok(())
}

/// A worker that waits for its thread: see [`TaskPoolBuilder::build_with`].
pub struct WorkerThread {
    core: Arc<PoolCore>,
    index: usize,
    name: Option<String>,
    stack_size: Option<usize>,
}

impl fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerThread")
            .field("index", &self.index)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

impl WorkerThread {
    /// The worker's index, in `0..threads`.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The name that its thread should have.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The stack that its thread should have, in bytes.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Runs tasks until the pool ends.
    ///
    /// # Panics
    /// If this thread is a worker already.
    pub fn run(self) {
        self.core.work(self.index);
    }
}

/// Why a task pool was not built.
///
/// ```
/// use std::io;
/// use windrow::workers::TaskPool;
///
/// let refused = TaskPool::builder().threads(2).build_with(|_| Err(io::Error::other("no thread today"))).unwrap_err();
/// assert_eq!(refused.to_string(), "a thread of the task pool was not started: no thread today");
/// ```
#[derive(Debug)]
pub struct TaskPoolError(TaskPoolFault);

#[derive(Debug)]
enum TaskPoolFault {
    CurrentThread,
    System(io::Error),
}

impl TaskPoolError {
    /// The system's error; `None` if the building thread is a worker already.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0 {
            TaskPoolFault::CurrentThread => None,
            TaskPoolFault::System(error) => Some(error),
        }
    }

    /// The system's error, as in [`io_error`](TaskPoolError::io_error).
    pub fn into_io_error(self) -> Option<io::Error> {
        match self.0 {
            TaskPoolFault::CurrentThread => None,
            TaskPoolFault::System(error) => Some(error),
        }
    }
}

impl From<io::Error> for TaskPoolError {
    fn from(error: io::Error) -> Self {
        TaskPoolError(TaskPoolFault::System(error))
    }
}

impl fmt::Display for TaskPoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TaskPoolFault::CurrentThread => {
                f.write_str("this thread is a worker of a task pool already: build the pool on another thread")
            }
            TaskPoolFault::System(error) => write!(f, "a thread of the task pool was not started: {error}"),
        }
    }
}

impl std::error::Error for TaskPoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            TaskPoolFault::CurrentThread => None,
            TaskPoolFault::System(error) => Some(error),
        }
    }
}
