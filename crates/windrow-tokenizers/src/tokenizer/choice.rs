//! Chooses the engine that encodes, and keeps what the other methods of a tokenizer need in addition.

use std::convert::Infallible;
use std::sync::OnceLock;

use tk_encode::pipeline::PipelineTokenizer;

use super::check::Checked;
use super::file::File;
use super::forms::{self, Forms};
use super::{EngineChoice, LoadError, LoadOptions, fault, gate, route};
use crate::engine::{Bpe, Early, Engine, Pipeline, Released, caught, late};

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
    /// windrow's own engine. That of a vocabulary that was loaded early is built first if `builds`.
    pub(super) fn own(&self, builds: bool) -> Option<&Bpe> {
        match self {
            Self::Bpe(bpe) => Some(bpe),
            Self::Early(early) if builds => early.built(),
            Self::Early(early) => early.if_built(),
            Self::Pipeline(_) | Self::Released(_) => None,
        }
    }

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
            gate::admit(file, checked, options).and_then(|(definition, around)| {
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

fn released(file: &File<'_>, options: &LoadOptions) -> Result<Released, String> {
    Released::from_json(&file.released_json()?, file.decoder.map(|decoder| decoder.get()), options)
}

/// The released library with a file that was already read. It decodes, and finds offsets, where the engine that encodes does not. It is built when
/// it is first needed, because most programs only encode.
pub(crate) struct Reference {
    json: Box<str>,
    options: LoadOptions,
    has_processor: bool,
    released: OnceLock<Result<Released, String>>,
}

impl Reference {
    /// The library has no post-processor unless `has_processor`.
    pub(crate) fn new(json: &str, options: &LoadOptions, has_processor: bool) -> Self {
        Self { json: json.into(), options: *options, has_processor, released: OnceLock::new() }
    }

    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// An error is the reason why the library cannot read the file.
    pub(crate) fn get(&self) -> Result<&Released, String> {
        let build = || {
            let mut file = File::parse(&self.json).map_err(|fault| fault.reason)?;
            file.parts.retain(|name, _| self.has_processor || name != "post_processor");
            released(&file, &self.options)
        };
        let Ok(built) = late(&self.released, || Ok::<_, Infallible>(build()));
        built.as_ref().map_err(|reason| fault::shortened(reason, fault::MAX_REASON))
    }
}
