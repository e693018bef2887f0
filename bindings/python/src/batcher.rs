//! `Batcher` of Python: calls of many threads and tasks, run as one call.
//!
//! A thread of Rust runs batches, and attaches to the interpreter for each. A call is a future of Rust. A thread polls its future until it is
//! ready. The future of a task is polled by the event loop of the task: when it is woken, it rings the bell of that loop, which
//! polls all futures that are ready. So a batch wakes a loop once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use windrow::batch::{Batch, BatchError, BatchOps, Batched, CallError, Overflow, Runner};
use windrow_tokenizers::counted;

use crate::arguments;

/// Interval at which a blocked thread checks for signals.
const POLL: Duration = Duration::from_millis(25);

/// The function that takes a list.
struct Function(Py<PyAny>);

type Item = Py<PyAny>;
type Reply = PyResult<Py<PyAny>>;

impl BatchOps for Function {
    type Op = Item;
    type Reply = Reply;

    fn run(&mut self, batch: &mut Batch<'_, Item, Reply>) {
        // Without an interpreter nothing is answered, and nothing waits for an answer any more.
        Python::try_attach(|py| {
            let items: Vec<Item> = batch.iter_mut().map(|entry| entry.take()).collect();
            match self.replies(py, items) {
                Ok(replies) => {
                    for (entry, reply) in batch.iter_mut().zip(replies) {
                        // An exception in the list belongs to one item.
                        let exception = reply.cast::<PyBaseException>();
                        entry.reply(
                            exception
                                .map(|error| Err(PyErr::from_value(error.as_any().clone())))
                                .unwrap_or(Ok(reply.clone().unbind())),
                        );
                    }
                }
                Err(error) => {
                    batch.iter_mut().for_each(|entry| entry.reply(Err(error.clone_ref(py))));
                }
            }
        });
    }
}

impl Function {
    fn replies<'py>(&self, py: Python<'py>, items: Vec<Item>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let count = items.len();
        let replies = self.0.bind(py).call1((PyList::new(py, items)?,))?;
        let replies: Vec<_> = replies.try_iter()?.collect::<PyResult<_>>()?;
        if replies.len() != count {
            let (results, items) = (counted(replies.len() as u64, "result"), counted(count as u64, "item"));
            let message = format!("the function of a Batcher returned {results} for {items}");
            return Err(PyValueError::new_err(message));
        }
        Ok(replies)
    }
}

/// Dropping a structure waits for its thread, which may wait for the interpreter. So another thread drops it.
struct Shared(Option<Batched<Function>>);

impl Shared {
    fn batched(&self) -> &Batched<Function> {
        self.0.as_ref().expect("the batcher exists until it is dropped")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let batched = self.0.take();
        let (hand_over, dropped) = mpsc::channel();
        match thread::Builder::new().name("windrow-close".to_owned()).spawn(move || drop(dropped.recv())) {
            Ok(_) => drop(hand_over.send(batched)),
            // Without another thread, it is leaked.
            Err(_) => std::mem::forget(batched),
        }
    }
}

type Call = Pin<Box<dyn Future<Output = Result<Reply, CallError<Item>>> + Send>>;

fn call(shared: &Arc<Shared>, item: Item) -> Call {
    let shared = Arc::clone(shared);
    Box::pin(async move { shared.batched().call_async(item).await })
}

fn outcome(result: Result<Reply, CallError<Item>>) -> Reply {
    result.unwrap_or_else(|error| Err(failed(error.kind())))
}

fn failed(error: BatchError) -> PyErr {
    let hint = match error {
        BatchError::Forked => " (hint: create the Batcher in the process that uses it)",
        BatchError::Nested => " (hint: the function of a Batcher cannot wait for its own Batcher)",
        _ => "",
    };
    PyRuntimeError::new_err(format!("Batcher: {error}{hint}"))
}

/// Wakes a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An event loop, and the calls of its tasks that have been woken.
#[pyclass(frozen, module = "windrow")]
struct Bell {
    event_loop: Py<PyAny>,
    rung: Arc<Rung>,
}

#[derive(Default)]
struct Rung(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    calls: Vec<Arc<TaskCall>>,
    /// True if the loop will check the calls again.
    is_scheduled: bool,
}

impl Rung {
    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of a task.
struct TaskCall {
    call: Mutex<Option<Call>>,
    future: Py<PyAny>,
    bell: Py<Bell>,
    rung: Arc<Rung>,
}

impl Wake for TaskCall {
    fn wake(self: Arc<Self>) {
        let this = Arc::clone(&self);
        let mut woken = this.rung.lock();
        woken.calls.push(self);
        let is_scheduled = std::mem::replace(&mut woken.is_scheduled, true);
        drop(woken);
        if is_scheduled {
            return;
        }
        Python::try_attach(|py| {
            let bell = this.bell.bind(py);
            // A closed loop has no tasks that wait.
            let _ = bell.get().event_loop.bind(py).call_method1("call_soon_threadsafe", (bell,));
        });
    }
}

impl TaskCall {
    /// Polls the call, and answers the task if it is ready.
    fn poll(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let waker = Waker::from(Arc::clone(self));
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = call.as_mut() else { return Ok(()) };
        let Poll::Ready(result) = waiting.as_mut().poll(&mut Context::from_waker(&waker)) else { return Ok(()) };
        *call = None;
        drop(call);
        let future = self.future.bind(py);
        if future.call_method0("done")?.is_truthy()? {
            return Ok(());
        }
        match outcome(result) {
            Ok(value) => future.call_method1("set_result", (value,))?,
            Err(error) => future.call_method1("set_exception", (error,))?,
        };
        Ok(())
    }
}

#[pymethods]
impl Bell {
    /// Called by the loop: polls the calls that were woken, and those that these calls wake.
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let mut woken = self.rung.lock();
            let calls = std::mem::take(&mut woken.calls);
            woken.is_scheduled = !calls.is_empty();
            drop(woken);
            if calls.is_empty() {
                return Ok(());
            }
            for call in calls {
                call.poll(py)?;
            }
        }
    }
}

/// Called when the future of a task is done: a cancelled future drops its call.
#[pyclass(frozen, module = "windrow")]
struct OnDone(Arc<TaskCall>);

#[pymethods]
impl OnDone {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        let call = self.0.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(call);
    }
}

/// Calls of many threads and tasks, run as one call of a function that takes a list.
#[pyclass(frozen, weakref, subclass, name = "Batcher", module = "windrow")]
pub(crate) struct PyBatcher {
    shared: Arc<Shared>,
    /// The bells of event loops, by the address of the loop.
    bells: Mutex<HashMap<usize, Py<Bell>>>,
}

#[pymethods]
impl PyBatcher {
    #[new]
    #[pyo3(signature = (function, *, limit = None, queue = None))]
    fn new(
        function: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::optional::limit)] limit: Option<usize>,
        #[pyo3(from_py_with = arguments::optional::queue)] queue: Option<usize>,
    ) -> PyResult<Self> {
        if !function.is_callable() {
            let name = function.get_type().name()?;
            return Err(PyTypeError::new_err(format!("function must be a callable that takes a list, not {name}")));
        }
        let mut builder = Batched::builder();
        if let Some(limit) = limit {
            let limit = Some(limit).filter(|&limit| limit > 0);
            builder = builder
                .limit(limit.ok_or_else(|| PyValueError::new_err("limit is 0, but a batch has at least one item"))?);
        }
        if let Some(queue) = queue {
            let queue = Some(queue).filter(|&queue| queue > 0);
            let queue = queue.ok_or_else(|| PyValueError::new_err("queue is 0, which leaves no room for calls"))?;
            builder = builder.queue(queue, Overflow::Block);
        }
        let function = Function(function.clone().unbind());
        let batched = builder.build_on(Runner::thread(move || function))?;
        Ok(Self { shared: Arc::new(Shared(Some(batched))), bells: Mutex::default() })
    }

    /// The result for an item. Blocks this thread until its batch has run.
    fn call(&self, py: Python<'_>, item: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let mut call = call(&self.shared, item);
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        loop {
            let mut polled = Poll::Pending;
            py.detach(|| {
                polled = call.as_mut().poll(&mut Context::from_waker(&waker));
                if polled.is_pending() {
                    thread::park_timeout(POLL);
                }
            });
            match polled {
                Poll::Ready(result) => return outcome(result),
                // An exception drops the call, together with an item that no batch has taken yet.
                Poll::Pending => py.check_signals()?,
            }
        }
    }

    /// A future of the running event loop, for the result for an item.
    fn submit<'py>(&self, py: Python<'py>, item: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
        let bell = self.bell(py, &event_loop)?;
        let future = event_loop.call_method0("create_future")?;
        let rung = Arc::clone(&bell.get().rung);
        let call = Mutex::new(Some(call(&self.shared, item)));
        let task = Arc::new(TaskCall { call, future: future.clone().unbind(), bell: bell.unbind(), rung });
        task.poll(py)?;
        let is_done = future.call_method0("done")?.is_truthy()?;
        if !is_done {
            future.call_method1("add_done_callback", (OnDone(task),))?;
        }
        Ok(future)
    }

    /// The counts so far, and the verdict on batches.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.shared.batched().stats()).map_err(failed)?;
        let seconds = |nanos: f64| nanos / 1e9;
        let found = PyDict::new(py);
        found.set_item("items", stats.ops())?;
        found.set_item("batches", stats.batches())?;
        found.set_item("sizes", stats.sizes().collect::<HashMap<_, _>>())?;
        found.set_item("largest", stats.largest())?;
        found.set_item("mean_wait", stats.queue_wait().map(|(mean, _)| seconds(mean.0)))?;
        found.set_item("longest_wait", stats.queue_wait().map(|(_, longest)| seconds(longest.0)))?;
        found.set_item("verdict", stats.verdict().map(|verdict| verdict.to_string()))?;
        Ok(found)
    }

    /// Takes no more items, and returns when all items handed in earlier have results.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match py.detach(|| self.shared.batched().close()) {
            Ok(()) | Err(BatchError::Closed) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}

impl PyBatcher {
    fn bell<'py>(&self, py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Bell>> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let address = event_loop.as_ptr().addr();
        if let Some(bell) = bells.get(&address) {
            return Ok(bell.bind(py).clone());
        }
        // Loops come and go in some programs; a closed one needs no bell, and its address may later be another loop's.
        bells.retain(|_, bell| !bell.get().is_closed(py));
        let bell = Bound::new(py, Bell { event_loop: event_loop.clone().unbind(), rung: Arc::default() })?;
        bells.insert(address, bell.clone().unbind());
        Ok(bell)
    }
}

impl Bell {
    fn is_closed(&self, py: Python<'_>) -> bool {
        let is_closed = self.event_loop.bind(py).call_method0("is_closed");
        is_closed.and_then(|is_closed| is_closed.is_truthy()).unwrap_or(true)
    }
}
