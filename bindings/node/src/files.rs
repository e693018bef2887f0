//! `encodeFiles`: the command `windrow encode` as a job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::encode::{Observer, Step};
use windrow_tokenizers::output::Staging;
use windrow_tokenizers::run::{CountSpec, EncodeSpec, Failed};

use crate::door::{Callback, enter, send};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::tokenizer::NativeTokenizer;

/// The progress of a run.
#[napi(object, object_from_js = false)]
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Bytes of the inputs, as stored, whose documents are encoded.
    pub stored_bytes: f64,
    /// Bytes of all inputs, as stored, if known.
    pub total_bytes: Option<f64>,
    /// Documents that are encoded.
    pub documents: f64,
    /// Bytes of their text.
    pub text_bytes: f64,
    /// Their ids.
    pub tokens: f64,
}

/// The result of a run.
#[napi(object, object_from_js = false)]
pub struct FilesDone {
    /// The object of `windrow encode --json`.
    pub summary: String,
    /// The notes that the command would print.
    pub notes: Vec<String>,
}

struct Steps {
    progress: Arc<Mutex<Progress>>,
    staging: Staging,
    environment: Environment,
}

impl Observer for Steps {
    fn advanced(&self, step: &Step) {
        if self.environment.is_closed() {
            self.staging.abandon();
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.stored_bytes += step.stored as f64;
        progress.documents += step.documents as f64;
        progress.text_bytes += step.text_bytes as f64;
        progress.tokens += step.ids as f64;
    }
}

/// A run of `windrow encode`. It has a thread, since it may wait for inputs and disks.
#[napi]
pub struct FilesJob {
    staging: Staging,
    progress: Arc<Mutex<Progress>>,
}

#[napi]
impl FilesJob {
    /// Begins the run of an [`EncodeSpec`] in JSON, and calls back with the outcome.
    #[napi(constructor)]
    pub fn new(spec: String, tokenizer: &NativeTokenizer, callback: Callback<'_, FilesDone>) -> Result<Self> {
        let answer = callback.build_threadsafe_function().build()?;
        let (staging, progress) = (Staging::default(), Arc::<Mutex<Progress>>::default());
        let steps =
            Steps { progress: Arc::clone(&progress), staging: staging.clone(), environment: Environment::current() };
        let core = tokenizer.core()?;
        let run = move || {
            let spec = EncodeSpec::from_json(&spec)?;
            let mut notes = Vec::new();
            let found = spec.find(|note| notes.push(note.to_owned()))?;
            let tokenizer = core.of_files(spec.job.add_special_tokens, spec.job.has_special_in_text())?;
            let run = found.open(tokenizer, &steps.staging, |note| notes.push(note.to_owned()))?;
            let stored = run.stored().map(|stored| stored as f64);
            steps.progress.lock().unwrap_or_else(PoisonError::into_inner).total_bytes = stored;
            let ended = run.encode(&steps);
            match ended.failed {
                Some(failed) => Err(Failure::from(failed)),
                None => {
                    notes.extend(ended.notes);
                    Ok(FilesDone { summary: ended.json, notes })
                }
            }
        };
        start(move || send(&answer, enter(run)))?;
        Ok(Self { staging, progress })
    }

    /// The progress of the run.
    #[napi(getter)]
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the run soon; nothing is published.
    #[napi]
    pub fn stop(&self) {
        self.staging.abandon();
    }
}

/// Starts a thread of a run.
fn start(run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name("windrow-files".to_owned()).spawn(run);
    started.map(drop).map_err(|error| Error::from_reason(format!("cannot start a thread: {error}")))
}

/// A run of `windrow count`, on its own thread.
#[napi]
pub struct CountFilesJob {
    is_stopped: Arc<AtomicBool>,
}

#[napi]
impl CountFilesJob {
    /// Begins the run of a [`CountSpec`] in JSON, and calls back with the outcome.
    #[napi(constructor)]
    pub fn new(spec: String, tokenizer: &NativeTokenizer, callback: Callback<'_, FilesDone>) -> Result<Self> {
        let answer = callback.build_threadsafe_function().build()?;
        let (core, environment) = (tokenizer.core()?, Environment::current());
        let is_stopped = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&is_stopped);
        let run = move || {
            let spec = CountSpec::from_json(&spec)?;
            let found = spec.find()?;
            let mut notes = found.notes().to_vec();
            let tokenizer = core.of_files(false, spec.texts.special_in_text)?;
            // Relaxed: a thread may see it late.
            let goes_on = || !stopped.load(Ordering::Relaxed) && !environment.is_closed();
            let counted = found.count(tokenizer, true, &(), &goes_on, |_| true).map_err(Failed::from)?;
            notes.extend(counted.notes);
            Ok(FilesDone { summary: counted.text, notes })
        };
        start(move || send(&answer, enter(run)))?;
        Ok(Self { is_stopped })
    }

    /// Ends the run soon.
    #[napi]
    pub fn stop(&self) {
        // Relaxed: see `new`.
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}
