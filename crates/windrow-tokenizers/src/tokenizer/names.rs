//! Vocabularies by the name of a model.
//!
//! The tables come from tiktoken 0.14 (`tiktoken/model.py`): a listed name, or else the first matching prefix.

use super::{LoadError, embedded, hub};

/// The vocabulary of a model.
#[rustfmt::skip]
const MODELS: &[(&str, &str)] = &[
    ("o1", "o200k_base"), ("o3", "o200k_base"), ("o4-mini", "o200k_base"),
    ("gpt-5", "o200k_base"), ("gpt-4.1", "o200k_base"), ("gpt-4o", "o200k_base"), ("gpt-4", "cl100k_base"),
    ("gpt-3.5-turbo", "cl100k_base"), ("gpt-3.5", "cl100k_base"), ("gpt-35-turbo", "cl100k_base"),
    ("davinci-002", "cl100k_base"), ("babbage-002", "cl100k_base"),
    ("text-embedding-ada-002", "cl100k_base"), ("text-embedding-3-small", "cl100k_base"),
    ("text-embedding-3-large", "cl100k_base"),
    ("text-davinci-003", "p50k_base"), ("text-davinci-002", "p50k_base"), ("text-davinci-001", "r50k_base"),
    ("text-curie-001", "r50k_base"), ("text-babbage-001", "r50k_base"), ("text-ada-001", "r50k_base"),
    ("davinci", "r50k_base"), ("curie", "r50k_base"), ("babbage", "r50k_base"), ("ada", "r50k_base"),
    ("code-davinci-002", "p50k_base"), ("code-davinci-001", "p50k_base"), ("code-cushman-002", "p50k_base"),
    ("code-cushman-001", "p50k_base"), ("davinci-codex", "p50k_base"), ("cushman-codex", "p50k_base"),
    ("text-davinci-edit-001", "p50k_edit"), ("code-davinci-edit-001", "p50k_edit"),
    ("text-similarity-davinci-001", "r50k_base"), ("text-similarity-curie-001", "r50k_base"),
    ("text-similarity-babbage-001", "r50k_base"), ("text-similarity-ada-001", "r50k_base"),
    ("text-search-davinci-doc-001", "r50k_base"), ("text-search-curie-doc-001", "r50k_base"),
    ("text-search-babbage-doc-001", "r50k_base"), ("text-search-ada-doc-001", "r50k_base"),
    ("code-search-babbage-code-001", "r50k_base"), ("code-search-ada-code-001", "r50k_base"),
    ("gpt2", "gpt2"), ("gpt-2", "gpt2"),
];

/// The vocabulary of models whose names start with a prefix.
#[rustfmt::skip]
const PREFIXES: &[(&str, &str)] = &[
    ("o1-", "o200k_base"), ("o3-", "o200k_base"), ("o4-mini-", "o200k_base"),
    ("gpt-5", "o200k_base"), ("gpt-4.5-", "o200k_base"), ("gpt-4.1-", "o200k_base"), ("chatgpt-4o-", "o200k_base"),
    ("gpt-4o-", "o200k_base"), ("gpt-4-", "cl100k_base"),
    ("gpt-3.5-turbo-", "cl100k_base"), ("gpt-35-turbo-", "cl100k_base"), ("gpt-oss-", "o200k_harmony"),
    ("ft:gpt-4o", "o200k_base"), ("ft:gpt-4", "cl100k_base"), ("ft:gpt-3.5-turbo", "cl100k_base"),
    ("ft:davinci-002", "cl100k_base"), ("ft:babbage-002", "cl100k_base"),
];

/// tiktoken's name for the vocabulary of a model, which this crate may not embed.
///
/// ```
/// use windrow_tokenizers::tokenizer::encoding_name;
///
/// assert_eq!(encoding_name("text-davinci-003"), Some("p50k_base"));
/// assert_eq!(encoding_name("a-model"), None);
/// ```
pub fn encoding_name(model: &str) -> Option<&'static str> {
    let listed = MODELS.iter().find(|(name, _)| *name == model);
    listed.or_else(|| PREFIXES.iter().find(|(prefix, _)| model.starts_with(prefix))).map(|&(_, encoding)| encoding)
}

/// The vocabulary that an OpenAI model uses, for [`Tokenizer::load`](super::Tokenizer::load): `gpt-4o` uses `o200k_base`. The mapping
/// is the same as in tiktoken.
///
/// ```
/// use windrow_tokenizers::tokenizer::vocabulary_of;
///
/// assert_eq!(vocabulary_of("gpt-4o")?, "o200k_base");
/// assert_eq!(vocabulary_of("gpt-4-0613")?, "cl100k_base");
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
///
/// # Errors
/// [`LoadError::UnknownModel`] for a name that tiktoken does not know.
pub fn vocabulary_of(model: &str) -> Result<&'static str, LoadError> {
    let unknown = |reason, hint| LoadError::UnknownModel { name: model.to_owned(), reason, hint };
    match encoding_name(model).and_then(embedded::find) {
        Some(embedded) => Ok(embedded.name),
        None if embedded::find(model).is_some() => {
            Err(unknown("is a vocabulary, not a model".to_owned(), format!("pass --tokenizer {model}")))
        }
        None if hub::is_model(model) => {
            let reason = "is not an OpenAI model".to_owned();
            Err(unknown(reason, format!("pass --tokenizer {model} to use the model from the Hub's cache")))
        }
        None => {
            let similar = similar(model).map_or_else(String::new, |name| format!("did you mean {name}? "));
            let hint = format!(
                "{similar}windrow knows only OpenAI model names, such as gpt-4o, gpt-4 and text-embedding-3-small; for another \
                 model, download its tokenizer.json and pass --tokenizer path/to/tokenizer.json"
            );
            Err(unknown("is unknown".to_owned(), hint))
        }
    }
}

/// A hint for a name that is neither a vocabulary nor a file.
pub(super) fn hint(name: &str) -> String {
    let model = match encoding_name(name).and_then(embedded::find) {
        Some(embedded) => format!("{name} is a model that uses the vocabulary {}; ", embedded.name),
        None if hub::is_model(name) => {
            let fetch = format!("hf download {name} {}", hub::FILE);
            return format!("a model's tokenizer is read from the Hub's cache; to download it, run {fetch}");
        }
        None => similar(name).map_or_else(String::new, |name| format!("did you mean the model {name}? ")),
    };
    format!(
        "{model}the vocabularies are {}; the path to a tokenizer.json or .tiktoken file is also accepted",
        embedded::NAMES
    )
}

/// The listed model with the most similar name, if no more than a third of its letters differ. The digits must agree: `gpt-2` is no
/// slip of `gpt-9`.
fn similar(model: &str) -> Option<&'static str> {
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    let letters: String = model.chars().take(64).map(|letter| letter.to_ascii_lowercase()).collect();
    let asked = digits(model);
    let alike = MODELS.iter().filter(|(name, _)| digits(name) == asked);
    let near = alike.map(|&(name, _)| (distance(&letters, name), name));
    near.min().filter(|&(distance, name)| distance <= name.len() / 3).map(|(_, name)| name)
}

/// The edit distance: number of characters to insert, remove or replace.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = at;
        row[0] = at + 1;
        for (column, other) in other.chars().enumerate() {
            let replaced = before + usize::from(letter != other);
            before = row[column + 1];
            row[column + 1] = replaced.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.chars().count()]
}

#[cfg(test)]
mod tests {
    use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

    use super::*;

    fn of_tiktoken(model: &str) -> Option<&'static str> {
        get_tokenizer(model).map(|tokenizer| match tokenizer {
            Tokenizer::O200kHarmony => "o200k_harmony",
            Tokenizer::O200kBase => "o200k_base",
            Tokenizer::Cl100kBase => "cl100k_base",
            Tokenizer::P50kBase => "p50k_base",
            Tokenizer::R50kBase => "r50k_base",
            Tokenizer::P50kEdit => "p50k_edit",
            Tokenizer::Gpt2 => "gpt2",
        })
    }

    #[test]
    fn models_have_the_vocabularies_of_tiktoken() {
        let names = MODELS.iter().chain(PREFIXES).map(|(name, _)| *name);
        let more = [
            "gpt-4o-mini",
            "gpt-4o-2024-05-13",
            "chatgpt-4o-latest",
            "o1-preview",
            "o3-mini",
            "o4-mini-high",
            "gpt-4-32k",
            "gpt-4-turbo",
            "gpt-5-mini",
            "gpt-5.1",
            "gpt-oss-20b",
            "gpt-3.5-turbo-16k",
            "ft:gpt-4o:org::id",
            "ft:gpt-4:x",
            "gpt-4x",
            "o2",
            "llama",
            "",
            "GPT-4O",
            "text-embedding-3",
            "text-davinci-003",
            "o5",
            "gpt-6",
        ];
        for model in names.chain(more) {
            assert_eq!(encoding_name(model), of_tiktoken(model), "{model}");
        }
    }

    #[test]
    fn unknown_models_say_why() {
        let message = |model| vocabulary_of(model).unwrap_err().to_string();
        for (model, says) in [
            ("gpt4o", "is unknown\nhint: did you mean gpt-4o? "),
            ("GPT-4", "did you mean gpt-4? "),
            ("gtp-4o", "did you mean gpt-4o? "),
            ("gpt-9", "is unknown\nhint: windrow knows only OpenAI model names"),
            ("Qwen3-8B", "--tokenizer path/to/tokenizer.json"),
            ("Qwen/Qwen3-8B", "is not an OpenAI model\nhint: pass --tokenizer Qwen/Qwen3-8B to use"),
            ("o200k_base", "is a vocabulary, not a model\nhint: pass --tokenizer o200k_base"),
        ] {
            assert!(message(model).contains(says), "{}", message(model));
        }
        assert_eq!(vocabulary_of("gpt-2").unwrap(), "r50k_base");
        for (name, _) in MODELS.iter().chain(PREFIXES) {
            assert!(vocabulary_of(name).is_ok(), "{name}");
        }
    }
}
