//! Chooses the engine that encodes, and keeps what the other methods of a tokenizer need in addition.

use std::sync::OnceLock;

use tk_encode::pipeline::PipelineTokenizer;

use super::check::Checked;
use super::file::File;
use super::forms::{self, Forms};
use super::{EngineChoice, LoadError, LoadOptions, fault, gate, route};
use crate::engine::{Bpe, Early, Engine, Pipeline, Released, caught};

/// The reason for not using windrow's own engine if the caller wants another one.
pub(super) const REQUESTED: &str = "the options request the engine of tokenizers";

/// The engine that encodes.
pub(super) enum ChosenEngine {
    Bpe(Box<Bpe>),
    Early(Box<Early>),
    Pipeline(Box<Pipeline>),
    Released(Box<Released>),
}

impl ChosenEngine {
    pub(super) fn as_engine(&self) -> &dyn Engine {
        match self {
            Self::Bpe(engine) => engine.as_ref(),
            Self::Early(engine) => engine.as_ref(),
            Self::Pipeline(engine) => engine.as_ref(),
            Self::Released(engine) => engine.as_ref(),
        }
    }
}

/// The engine that gives Hugging Face's ids for this file, and the reason why it is not windrow's own.
pub(super) fn engine(
    file: &File<'_>,
    checked: &Checked,
    name: &str,
    options: &LoadOptions,
    notes: &mut Vec<String>,
) -> Result<(ChosenEngine, Option<String>), LoadError> {
    let refused = |reason: String| LoadError::Refused {
        name: name.to_owned(),
        reason: fault::shortened(&reason, fault::MAX_REASON),
    };
    let invalid = |fault| LoadError::invalid(name, fault);
    let mut forms = None;
    if !file.canonical {
        // The release candidate treats settings of the wrong type as missing.
        Released::read_parts(&file.parts).map_err(|(place, reason)| {
            let hint = if reason.starts_with("regex ") { fault::REGEX } else { fault::DAMAGED };
            invalid(fault::Fault::new(place, reason, hint))
        })?;
        let found = forms::of_released(file).map_err(invalid)?;
        forms::check(file, checked, &found).map_err(invalid)?;
        forms = Some(found);
    }
    let admitted = match options.engine {
        EngineChoice::Tokenizers => Err(REQUESTED.to_owned()),
        EngineChoice::Automatic | EngineChoice::Windrow => {
            gate::admit(file, checked, options).and_then(|gate::Admitted { definition, around }| {
                Bpe::new(&definition, around, &options.of_engine()).map_err(|error| error.to_string())
            })
        }
    };
    let delegated = match admitted {
        Ok(bpe) => return Ok((ChosenEngine::Bpe(Box::new(bpe)), None)),
        Err(reason) if options.engine == EngineChoice::Windrow => {
            return Err(LoadError::Unsupported { name: name.to_owned(), reason });
        }
        Err(reason) => Some(reason),
    };
    let reason = match pipeline(file, checked, forms.as_ref()) {
        Ok((tokenizer, found)) => {
            if file.canonical {
                forms::check(file, checked, &found).map_err(invalid)?;
            }
            let engine = Pipeline::new(tokenizer, options, checked.size).cutting_words(route::begins_words(file));
            return Ok((ChosenEngine::Pipeline(Box::new(engine)), delegated));
        }
        Err(reason) if file.canonical => return Err(refused(reason)),
        Err(reason) => reason,
    };
    let released = released(file, options).map_err(|other| refused(format!("{other} (and {reason})")))?;
    notes.push(format!("tokenizer {name}: encoded by {}, which is slower: {reason}", released.name()));
    Ok((ChosenEngine::Released(Box::new(released)), delegated))
}

/// The tokenizer of the release candidate with the forms of its added tokens, or the reason why it is not suitable for this file.
/// `forms` are the forms of 0.23.
fn pipeline(file: &File<'_>, checked: &Checked, forms: Option<&Forms>) -> Result<(PipelineTokenizer, Forms), String> {
    if let Some(reason) = route::differs(file, checked).filter(|_| !file.canonical) {
        return Err(reason.to_owned());
    }
    let json = file.canonical_json()?;
    let tokenizer = caught(|| tokenizers::from_json(&json))?.map_err(|error| error.to_string())?;
    if let Some(reason) = route::cannot_split(&tokenizer) {
        return Err(reason.to_owned());
    }
    let found = forms::of_candidate(file, &tokenizer)?;
    match forms {
        Some(forms) if *forms != found => Err("an added token is normalized differently".to_owned()),
        _ => Ok((tokenizer, found)),
    }
}

/// The released library with a file that was already read, without its post-processor.
pub(crate) fn released_without_processor(text: &str, options: &LoadOptions) -> Result<Released, String> {
    let mut file = File::parse(text).map_err(|fault| fault.reason)?;
    file.parts.remove("post_processor");
    released(&file, options).map_err(|reason| fault::shortened(&reason, fault::MAX_REASON))
}

fn released(file: &File<'_>, options: &LoadOptions) -> Result<Released, String> {
    Released::from_json(&file.released_json()?, file.decoder.map(|decoder| decoder.get()), options)
}

/// The released library, built when it is first needed.
#[derive(Default)]
pub(crate) struct Late(OnceLock<Result<Released, String>>);

impl Late {
    /// An error is the reason for the failure of `build`.
    ///
    /// The library is built before the cell is taken: in a process that is forked meanwhile, a cell that another thread had taken would never
    /// be filled, and each reader would wait for it. Two threads may build it; one is kept.
    pub(crate) fn get(&self, build: impl FnOnce() -> Result<Released, String>) -> Result<&Released, &str> {
        let built = match self.0.get() {
            Some(built) => built,
            None => {
                let built = build();
                self.0.get_or_init(|| built)
            }
        };
        built.as_ref().map_err(String::as_str)
    }
}

/// The released library with the same file. It decodes, and finds offsets, where the engine that encodes does not. It is built when it is first
/// needed, because most programs only encode.
pub(super) struct Reference {
    text: Box<str>,
    options: LoadOptions,
    released: Late,
}

impl Reference {
    /// `text` is a file that was already read.
    pub(super) fn new(text: &str, options: &LoadOptions) -> Self {
        Self { text: text.into(), options: *options, released: Late::default() }
    }

    /// An error is the reason why the library cannot read the file.
    pub(super) fn get(&self) -> Result<&Released, String> {
        let build = || {
            let file = File::parse(&self.text).map_err(|fault| fault.reason)?;
            released(&file, &self.options)
        };
        self.released.get(build).map_err(|reason| fault::shortened(reason, fault::MAX_REASON))
    }
}
