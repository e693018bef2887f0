//! `encode_files` and `count`: the commands as functions.

use std::io::ErrorKind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use windrow_tokenizers::encode::{Observer, Step};
use windrow_tokenizers::output::Staging;
use windrow_tokenizers::run::{CountSpec, EncodeSpec, Failed, FailureKind};

use crate::door::{POLL_MILLIS, enter, in_parallel};
use crate::errors::{InputError, WindrowError, of_file};
use crate::tokenizer::PyTokenizer;
use crate::wording::in_python;

/// Time between two checks for signals and progress.
const LOOK: Duration = Duration::from_millis(POLL_MILLIS);

/// After an interrupt, the time that the call waits for its run, which may be blocked in a read of a pipe that nothing ends.
const PATIENCE: Duration = Duration::from_millis(500);

/// The progress of a run.
#[derive(Default)]
struct Done {
    /// Known once the inputs are open.
    stored: Option<u64>,
    sum: Step,
}

struct Steps(Arc<Mutex<Done>>);

impl Observer for Steps {
    fn advanced(&self, step: &Step) {
        let sum = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).sum;
        sum.stored += step.stored;
        sum.documents += step.documents;
        sum.text_bytes += step.text_bytes;
        sum.ids += step.ids;
    }
}

/// Runs an [`EncodeSpec`] in JSON, and returns the object of `--json`, with notes for people. `progress` is called at intervals, on this
/// thread.
///
/// The run has its own thread, because this one handles signals, even while the run waits for an input.
#[pyfunction]
pub(crate) fn encode_files(
    py: Python<'_>,
    spec: &str,
    tokenizer: &Bound<'_, PyTokenizer>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let spec = EncodeSpec::from_json(spec).map_err(of_run)?;
    let core = tokenizer.get().core();
    enter(py, |watch| {
        let (staging, done) = (Staging::default(), Arc::<Mutex<Done>>::default());
        let (sender, receiver) = channel();
        let run = {
            let (staging, done) = (staging.clone(), Arc::clone(&done));
            move || -> PyResult<_> {
                let mut notes = Vec::new();
                let found = spec.find(|note| notes.push(in_python(note))).map_err(of_run)?;
                let tokenizer = core.of_files(spec.job.add_special_tokens, spec.job.has_special_in_text())?;
                let run = found.open(tokenizer, &staging, |note| notes.push(in_python(note))).map_err(of_run)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).stored = run.stored();
                let ended = run.encode(&Steps(done));
                match ended.failed {
                    Some(failed) => Err(of_run(failed)),
                    None => {
                        notes.extend(ended.notes.iter().map(|note| in_python(note)));
                        Ok((ended.json, notes))
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("windrow-files".to_owned()).spawn(move || {
            // The caller has left if the channel is closed.
            let _ = sender.send(run());
        });
        let thread = thread.map_err(|error| WindrowError::new_err(format!("cannot start a thread: {error}")))?;
        let report = || match &progress {
            Some(progress) => {
                let (stored, sum) = {
                    let done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    (done.stored, done.sum)
                };
                let numbers = (sum.stored, stored, sum.documents, sum.text_bytes, sum.ids);
                Python::attach(|py| progress.call1(py, numbers)).map(drop)
            }
            None => Ok(()),
        };
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(outcome) => {
                    let outcome = outcome?;
                    report()?;
                    return Ok(outcome);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let reported = report();
                    if watch.goes_on() && reported.is_ok() {
                        continue;
                    }
                    staging.abandon();
                    // The outcome of the run no longer matters.
                    let _ = receiver.recv_timeout(PATIENCE);
                    reported?;
                    return Err(WindrowError::new_err("interrupted; nothing was published"));
                }
                Err(RecvTimeoutError::Disconnected) => match thread.join() {
                    Ok(()) => unreachable!("the thread sends its result before it ends"),
                    Err(panic) => std::panic::resume_unwind(panic),
                },
            }
        }
    })
}

/// Runs a [`CountSpec`] in JSON, and returns the object of `windrow count --json`, and the errors of inputs without a count.
#[pyfunction]
pub(crate) fn count(py: Python<'_>, spec: &str, tokenizer: &Bound<'_, PyTokenizer>) -> PyResult<(String, Vec<PyErr>)> {
    let spec = CountSpec::from_json(spec).map_err(of_run)?;
    let core = tokenizer.get().core();
    let counted = enter(py, |watch| {
        let tokenizer = core.of_files(false, spec.texts.special_in_text)?;
        let run = || spec.find()?.count(tokenizer, true, &(), &|| watch.goes_on(), |_| true).map_err(Failed::from);
        in_parallel(run).map_err(of_run)
    })?;
    Ok((counted.text, counted.failed.into_iter().map(of_run).collect()))
}

fn of_run(Failed { message, kind }: Failed) -> PyErr {
    let message = in_python(&message);
    match kind {
        FailureKind::Usage | FailureKind::BadInput => InputError::new_err(message),
        FailureKind::Missing => of_file(ErrorKind::NotFound, message),
        FailureKind::Exists => of_file(ErrorKind::AlreadyExists, message),
        FailureKind::Io | FailureKind::CannotCreate => of_file(ErrorKind::Other, message),
        _ => WindrowError::new_err(message),
    }
}
