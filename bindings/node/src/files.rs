//! `encodeFiles`: the command `windrow encode` as a job.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_cli::EncodeFiles;
use windrow_tokenizers::encode::{Observer, Step};
use windrow_tokenizers::output::Staging;

use crate::door::{Callback, enter, send};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::tokenizer::NativeTokenizer;

/// How far a run has come.
#[napi(object, object_from_js = false)]
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Bytes of the inputs, as stored, whose documents are encoded.
    pub stored_bytes: f64,
    /// Those of all inputs, if known.
    pub total_bytes: Option<f64>,
    /// Documents that are encoded.
    pub documents: f64,
    /// Bytes of their text.
    pub text_bytes: f64,
    /// Their ids.
    pub tokens: f64,
}

/// What a run has done.
#[napi(object, object_from_js = false)]
pub struct FilesDone {
    /// The object of `windrow encode --json`.
    pub summary: String,
    /// What the command would print as notes.
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
    /// Begins the run that `words` say, and calls back with the outcome.
    #[napi(constructor)]
    pub fn new(
        words: Vec<String>,
        tokenizer: &NativeTokenizer,
        add_special_tokens: bool,
        special_in_text: bool,
        callback: Callback<'_, FilesDone>,
    ) -> Result<Self> {
        let answer = callback.build_threadsafe_function().build()?;
        let (staging, progress) = (Staging::default(), Arc::<Mutex<Progress>>::default());
        let steps =
            Steps { progress: Arc::clone(&progress), staging: staging.clone(), environment: Environment::current() };
        let core = tokenizer.core()?;
        let run = move || {
            let tokenizer = core.of_files(add_special_tokens, special_in_text)?;
            let files = EncodeFiles::prepare(&words, tokenizer, &steps.staging)?;
            let stored = files.stored().map(|stored| stored as f64);
            steps.progress.lock().unwrap_or_else(PoisonError::into_inner).total_bytes = stored;
            let (summary, notes) = files.run(&steps)?;
            Ok::<_, Failure>(FilesDone { summary, notes })
        };
        let thread = thread::Builder::new().name("windrow-files".to_owned());
        let started = thread.spawn(move || send(&answer, enter(run)));
        started.map_err(|error| Error::from_reason(format!("cannot start a thread: {error}")))?;
        Ok(Self { staging, progress })
    }

    /// How far it has come.
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
