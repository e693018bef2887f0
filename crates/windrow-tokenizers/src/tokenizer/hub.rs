//! Models in the cache of the Hugging Face Hub.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The file of a tokenizer.
pub(super) const FILE: &str = "tokenizer.json";

/// True if this may be the name of a model with its owner, such as `Qwen/Qwen2.5-7B`.
pub(super) fn is_model(name: &str) -> bool {
    let is_word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let is_file = [".json", ".model", ".tiktoken"].iter().any(|extension| name.ends_with(extension));
    !is_file && name.split_once('/').is_some_and(|(owner, model)| is_word(owner) && is_word(model))
}

/// The `tokenizer.json` of a model, if the cache of the Hub has it.
///
/// ```
/// use windrow_tokenizers::tokenizer::cached_model;
///
/// assert_eq!(cached_model("nobody/no-such-model"), None);
/// ```
pub fn cached(name: &str) -> Option<PathBuf> {
    cached_in(&cache(|variable| env::var_os(variable).filter(|value| !value.is_empty()), env::home_dir())?, name)
}

/// The folder of the cache, as `huggingface_hub` finds it.
fn cache(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = |name: &str| variable(name).map(PathBuf::from);
    let hub = named("HF_HUB_CACHE").or_else(|| named("HUGGINGFACE_HUB_CACHE"));
    let in_home = || {
        let caches = named("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")));
        Some(named("HF_HOME").or_else(|| Some(caches?.join("huggingface")))?.join("hub"))
    };
    hub.or_else(in_home)
}

fn cached_in(cache: &Path, name: &str) -> Option<PathBuf> {
    if !(is_model(name) || is_model(&format!("models/{name}"))) {
        return None;
    }
    let model = cache.join(format!("models--{}", name.replace('/', "--")));
    let commit = fs::read_to_string(model.join("refs").join("main")).ok()?;
    let commit = Path::new(commit.trim());
    let [Component::Normal(commit)] = commit.components().collect::<Vec<_>>()[..] else { return None };
    Some(model.join("snapshots").join(commit).join(FILE)).filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_an_owner_and_a_name() {
        for name in ["Qwen/Qwen2.5-7B", "openai/gpt-oss-20b", "a/b_c"] {
            assert!(is_model(name), "{name}");
        }
        for name in ["gpt2", "/etc/passwd", "./a", "a/b/c", "a/", "../a", "a/../b", "a/tokenizer.json", "a b/c", "a/$b"]
        {
            assert!(!is_model(name), "{name}");
        }
    }

    #[test]
    fn the_cache_is_where_huggingface_hub_puts_it() {
        let all =
            [("HF_HUB_CACHE", "/1"), ("HUGGINGFACE_HUB_CACHE", "/2"), ("HF_HOME", "/3"), ("XDG_CACHE_HOME", "/4")];
        let folders = ["/1", "/2", "/3/hub", "/4/huggingface/hub", "/home/me/.cache/huggingface/hub"];
        for (known, folder) in folders.into_iter().enumerate() {
            let variable = |name: &str| {
                let found = all[known.min(4)..].iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(cache(variable, Some("/home/me".into())), Some(folder.into()));
        }
        assert_eq!(cache(|_| None, None), None);
    }

    #[test]
    fn the_main_snapshot_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("models--Qwen--Qwen2.5-7B");
        let write = |path: PathBuf, content: &str| {
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, content).expect("written");
        };
        let found = || cached_in(folder.path(), "Qwen/Qwen2.5-7B");
        let file = model.join("snapshots/0a1b/tokenizer.json");
        write(file.clone(), "{}");
        assert_eq!(found(), None);
        for (main, expected) in [("0a1b\n", Some(&file)), ("ffff", None), ("../0a1b", None), ("", None), ("/", None)] {
            write(model.join("refs/main"), main);
            assert_eq!(found().as_ref(), expected, "{main:?}");
        }
        write(folder.path().join("models--gpt1/refs/main"), "1");
        write(folder.path().join("models--gpt1/snapshots/1/tokenizer.json"), "{}");
        assert!(cached_in(folder.path(), "gpt1").is_some());
        assert_eq!(cached_in(folder.path(), "../gpt1"), None);
    }
}
