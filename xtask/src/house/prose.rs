//! Words that do not belong into documents, comments and messages: pronouns for threads, and riddles for terms of the field.
//!
//! The rule is in CONTRIBUTING.md. A sentence names its subject (caller, worker, member, task), so that it can be read alone.

use super::RustFile;

/// Banned words and phrases, in lower case.
const BANNED: [&str; 20] = [
    "who",
    "whom",
    "whoever",
    "nobody",
    "somebody",
    "someone",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "no one",
    "foretold",
    "in company",
    "in vain",
    "the weather",
    "in the middle",
    "of its own",
    "of their own",
    "offload",
    "offloaded",
];

/// Places that may hold one: data, programs whose notes stand in records, and the rule itself.
const EXEMPT: [&str; 5] = [
    "xtask/src/house/prose.rs",
    "bench/",
    "CHANGELOG.md",
    "crates/windrow-bench/src/bin/commits/law.rs",
    "crates/windrow-bench/src/bin/fused/main.rs",
];

pub(super) fn check(path: &str, rust: Option<&RustFile>, text: &str) -> Vec<String> {
    if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
        return Vec::new();
    }
    let code = rust.map_or("", |file| file.source.code());
    let mut code = code.lines();
    let lines = text.lines().enumerate().filter_map(|(at, line)| {
        let said = match (rust, code.next()) {
            (Some(_), Some(code)) => said(line, code),
            _ => line.to_owned(),
        };
        let word = banned(&said)?;
        Some(format!("{path}:{}: \"{word}\": name the thread, caller or thing that is meant", at + 1))
    });
    lines.collect()
}

/// What comments and literals of a line say. In `code` they are blank.
fn said(line: &str, code: &str) -> String {
    let bytes = line.bytes().zip(code.bytes().chain(std::iter::repeat(b' ')));
    let said = bytes.map(|(byte, code)| if code == b' ' { byte } else { b' ' }).collect();
    String::from_utf8(said).unwrap_or_default()
}

fn banned(said: &str) -> Option<&'static str> {
    let said = said.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    BANNED.into_iter().find(|word| {
        said.match_indices(word)
            .any(|(at, _)| !said[..at].ends_with(is_word) && !said[at + word.len()..].starts_with(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str, text: &str) -> Vec<String> {
        let rust = path.ends_with(".rs").then(|| RustFile::new(path, text));
        check(path, rust.as_ref(), text)
    }

    #[test]
    fn pronouns_for_threads_are_found() {
        let text = "let who = 1; // Who waits spins.\nlet x = \"nobody knows\";\n/// A whole, a whose.\nfn f() {}\n";
        let found = words("a.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: \"who\"") && found[1].starts_with("a.rs:2: \"nobody\""), "{found:?}");
        assert_eq!(words("a.md", "A thread\nof its own.\nIt is Somebody.\n").len(), 2);
        assert_eq!(words("bench/a.md", "who\n"), Vec::<String>::new());
    }
}
