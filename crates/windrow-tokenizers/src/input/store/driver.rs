//! The runtime of object stores. It is the only one in the crate: one thread that sends requests and receives answers.

use std::future::Future;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// A thread for requests. It ends when the value is dropped.
#[derive(Debug)]
pub(super) struct Driver {
    handle: Handle,
    /// Dropping the sender ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Driver {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("windrow-store".to_owned()).spawn(move || {
            // Dropping the sender ends this wait with an error.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }

    /// Starts a request, which runs while the caller does other work.
    pub(super) fn begin<T: Send + 'static>(&self, request: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        let (sender, answer) = channel();
        let task = self.handle.spawn(async move {
            // A dropped receiver needs no answer.
            let _ = sender.send(request.await);
        });
        Pending { answer, task: task.abort_handle() }
    }
}

/// A request in progress. Dropping it ends the request.
#[derive(Debug)]
pub(super) struct Pending<T> {
    answer: Receiver<T>,
    task: AbortHandle,
}

impl<T> Pending<T> {
    /// The answer; `None` if the request panicked.
    pub(super) fn wait(self) -> Option<T> {
        self.answer.recv().ok()
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn requests_run_side_by_side_and_a_panic_ends_only_its_own() {
        let driver = Driver::start().unwrap();
        let (first, second) = oneshot::channel::<u8>();
        // The older request waits for the younger one.
        let older = driver.begin(async move { second.await.unwrap() + 1 });
        let younger = driver.begin(async move { first.send(1).unwrap() });
        assert_eq!((younger.wait(), older.wait()), (Some(()), Some(2)));
        let panicking: Pending<()> = driver.begin(async { panic!("in a request") });
        assert_eq!(panicking.wait(), None);
        assert_eq!(driver.begin(async { 3 }).wait(), Some(3));
    }

    #[test]
    fn a_request_that_is_dropped_ends() {
        let driver = Driver::start().unwrap();
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let (ended, end) = oneshot::channel::<()>();
        let endless = driver.begin(async move {
            let _held = (inside, ended);
            std::future::pending::<()>().await;
        });
        drop(endless);
        assert!(driver.begin(end).wait().unwrap().is_err(), "its values are dropped");
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
