//! Chooses the engine that encodes, and keeps what the other methods of a tokenizer need in addition.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use windrow_bpe::{AddedTokens, BpeEngine};

use super::check::Checked;
use super::file::{File, Kind};
use super::forms::{self, Forms};
use super::{EngineChoice, LoadError, LoadOptions, cuts, fault, gate};
use crate::engine::words::{self, WordModel};
use crate::engine::{Bpe, Engine, Front, LateLibrary, Parts, Released, Steps, Tokens, late};

/// The reason for not using windrow's own engine if the caller wants another one.
pub(super) const REQUESTED: &str = "the options request the tokenizers engine";

/// The engine that encodes.
pub(super) enum ChosenEngine {
    Bpe(Box<Bpe>),
    Released(Box<Released>),
}

impl ChosenEngine {
    /// windrow's own engine.
    pub(super) fn own(&self) -> Option<&Bpe> {
        match self {
            Self::Bpe(bpe) => Some(bpe),
            Self::Released(_) => None,
        }
    }

    pub(super) fn as_engine(&self) -> &dyn Engine {
        match self {
            Self::Bpe(engine) => engine.as_ref(),
            Self::Released(engine) => engine.as_ref(),
        }
    }
}

/// The engine of a file.
pub(super) struct Chosen {
    pub(super) engine: ChosenEngine,
    /// The library, where windrow's own engine asks it for the ids of parts.
    pub(super) reference: Option<Arc<Reference>>,
    /// The reason why the engine is not windrow's own.
    pub(super) delegated: Option<String>,
}

/// The engine that gives Hugging Face's ids for this file, of which `json` is the text.
pub(super) fn engine(
    (file, json): (&File<'_>, &str),
    checked: &Checked,
    name: &str,
    options: &LoadOptions,
    notes: &mut Vec<String>,
) -> Result<Chosen, LoadError> {
    let refused = |reason: String| LoadError::Refused {
        name: name.to_owned(),
        reason: fault::shortened(&reason, fault::MAX_REASON),
    };
    let invalid = |fault| LoadError::invalid(name, fault);
    // The library treats some settings of the wrong type as missing.
    Released::read_parts(&file.parts).map_err(|(place, reason)| {
        let hint = if reason.starts_with("regex ") { fault::REGEX } else { fault::DAMAGED };
        invalid(fault::Fault::new(place, reason, hint))
    })?;
    let forms = forms::of_released(file).map_err(invalid)?;
    forms::check(file, checked, &forms).map_err(invalid)?;
    let reason = match options.engine {
        EngineChoice::Tokenizers => REQUESTED.to_owned(),
        EngineChoice::Automatic | EngineChoice::Windrow => {
            let admitted = gate::admit(file, checked, options).and_then(|(definition, around)| {
                Bpe::new(&definition, around, &options.of_engine()).map_err(|error| error.to_string())
            });
            match admitted {
                Ok(bpe) => {
                    return Ok(Chosen { engine: ChosenEngine::Bpe(Box::new(bpe)), reference: None, delegated: None });
                }
                Err(_) => match parts((file, json), checked, &forms, options).map_err(refused)? {
                    Ok((bpe, reference)) => {
                        let engine = ChosenEngine::Bpe(Box::new(bpe));
                        return Ok(Chosen { engine, reference: Some(reference), delegated: None });
                    }
                    Err(reason) if options.engine == EngineChoice::Windrow => {
                        return Err(LoadError::Unsupported { name: name.to_owned(), reason });
                    }
                    Err(reason) => {
                        let engine = Released::NAME;
                        notes.push(format!(
                            "tokenizer {name}: texts are encoded by {engine}, which is slower: {reason}"
                        ));
                        reason
                    }
                },
            }
        }
    };
    let released = released(file, options).map_err(refused)?;
    Ok(Chosen { engine: ChosenEngine::Released(Box::new(released)), reference: None, delegated: Some(reason) })
}

/// An engine that encodes parts of texts, or the reason why it is not known where texts can be cut. An error is that of the library.
fn parts(
    (file, json): (&File<'_>, &str),
    checked: &Checked,
    forms: &Forms,
    options: &LoadOptions,
) -> Result<Result<(Bpe, Arc<Reference>), String>, String> {
    let cuttable = match cuts::of(file, forms) {
        Ok(cuttable) => cuttable,
        Err(reason) => return Ok(Err(reason)),
    };
    let added = match added(file, checked, forms, options) {
        Ok(added) => added,
        Err(reason) => return Ok(Err(reason)),
    };
    let steps = steps(file, checked, added).map(Arc::new);
    let around = match options.add_special_tokens {
        true => gate::around(file.parts.get("post_processor")).ok(),
        false => Some(Default::default()),
    };
    // Where windrow knows all that the library would check, the library waits until something else needs it.
    let (reference, around) = match (&steps, around) {
        (Some(_), Some(around)) => (Reference::new(json, options, true), around),
        _ => {
            let released = released(file, options)?;
            let around = released.around().clone();
            (Reference::of(json, options, released), around)
        }
    };
    let reference = Arc::new(reference);
    let encoder = Parts::new(steps.clone(), reference.clone(), cuttable.marks_beginning);
    let engine = BpeEngine::of_pieces(cuttable.cuts, Box::new(encoder), &options.of_engine());
    let tokens = Tokens { steps, library: reference.clone() };
    Ok(engine.map(|engine| (Bpe::of_parts(engine, around, tokens), reference)).map_err(|error| error.to_string()))
}

/// The added tokens that are searched in the text, and in normalized text; or the reason why windrow does not find those that the library finds.
fn added(file: &File<'_>, checked: &Checked, forms: &Forms, options: &LoadOptions) -> Result<[AddedTokens; 2], String> {
    let added = gate::added(file, checked, options)?;
    let (mut normalized, original): (Vec<_>, Vec<_>) = added.into_iter().partition(|token| token.normalized);
    normalized.iter_mut().zip(forms).for_each(|(token, form)| token.content.clone_from(form));
    let tokens = |tokens| AddedTokens::new(tokens).map_err(|error| error.to_string());
    Ok([tokens(original)?, tokens(normalized)?])
}

/// The steps of a file, if all are known.
fn steps(file: &File<'_>, checked: &Checked, added: [AddedTokens; 2]) -> Option<Steps> {
    let model = &file.model;
    let part = |name: &str| file.parts.get(name);
    let front = Front::new(part("normalizer"), part("pre_tokenizer"), added)?;
    let model = match model.kind {
        Kind::Bpe if front.spells_bytes() => gate::bytes(file, checked).ok().map(WordModel::Bytes)?,
        Kind::Bpe => words::characters(&model.options, &model.vocab, model.merges.as_deref()?)?,
        Kind::WordPiece => words::word_piece(&model.options, &model.vocab)?,
        Kind::Unigram => words::unigram(&model.options, &model.scores()?)?,
        Kind::WordLevel => return None,
    };
    Some(Steps { front, model })
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

    /// One that is built already, with its post-processor.
    fn of(json: &str, options: &LoadOptions, released: Released) -> Self {
        let this = Self::new(json, options, true);
        this.released.get_or_init(|| Ok(released));
        this
    }

    pub(crate) fn json(&self) -> &str {
        &self.json
    }
}

impl LateLibrary for Reference {
    fn get(&self) -> Result<&Released, String> {
        let build = || {
            let mut file = File::parse(&self.json).map_err(|fault| fault.reason)?;
            file.parts.retain(|name, _| self.has_processor || name != "post_processor");
            released(&file, &self.options)
        };
        let Ok(built) = late(&self.released, || Ok::<_, Infallible>(build()));
        built.as_ref().map_err(|reason| fault::shortened(reason, fault::MAX_REASON))
    }
}
