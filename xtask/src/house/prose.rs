//! Words that do not belong into documents, comments and messages: pronouns for threads, and riddles for terms of the field.
//!
//! The rule is in CONTRIBUTING.md. A sentence names its subject (caller, worker, member, task), so that it can be read alone. The spelling is
//! checked by `typos`, which knows neither phrases nor the difference between prose and code.

use windrow_records::tools::line;
use windrow_sources::{Source, matches};

const BANNED: &str = r"(?i)\b(who|whom|whoever|nobody|somebody|someone|anybody|anyone|everybody|everyone|no one|foretold|in company|in vain|the weather|in the middle|of its own|of their own|offload|offloaded)\b";

/// Places that may hold one: data, programs whose notes stand in records, and the rule itself.
const EXEMPT: [&str; 5] = [
    "xtask/src/house/prose.rs",
    "bench/",
    "CHANGELOG.md",
    "crates/windrow-bench/src/bin/commits/law.rs",
    "crates/windrow-bench/src/bin/fused/main.rs",
];

pub(super) fn check(path: &str, text: &str) -> Vec<String> {
    if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
        return Vec::new();
    }
    let problem =
        |(at, word)| format!("{path}:{}: {word:?}: name the thread, caller or thing that is meant", line(text, at));
    matches(BANNED, text).into_iter().map(problem).collect()
}

/// What comments and literals say: the file without its code.
pub(super) fn said(source: &Source) -> String {
    let mut said = source.text.clone().into_bytes();
    let code = source.code.bytes();
    said.iter_mut().zip(code).filter(|(_, code)| !code.is_ascii_whitespace()).for_each(|(byte, _)| *byte = b' ');
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronouns_for_threads_are_found() {
        let text = "fn f() { let who = 1; // Who waits spins.\nlet x = \"nobody knows\"; }\n/// A whole, a whose.\nfn f() {}\n";
        let found = check("a.rs", &said(&Source::new(text).unwrap()));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: \"Who\"") && found[1].starts_with("a.rs:2: \"nobody\""), "{found:?}");
        assert_eq!(check("a.md", "A thread\nof its own.\nIt is Somebody.\n").len(), 2);
        assert_eq!(check("bench/a.md", "who\n"), Vec::<String>::new());
    }
}
