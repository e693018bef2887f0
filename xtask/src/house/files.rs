//! Sizes of files, and code fences that are never compiled.

const MOST_LINES: usize = 899;
const MOST_LINES_OF_ARCHITECTURE: usize = 250;

pub(super) fn is_counted(path: &str) -> bool {
    [".rs", ".md", ".yml", ".toml", ".sh"].iter().any(|ending| path.ends_with(ending))
}

pub(super) fn check(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let limit = if path == "ARCHITECTURE.md" { MOST_LINES_OF_ARCHITECTURE } else { MOST_LINES };
    let lines = text.lines().count();
    if lines > limit {
        problems.push(format!("{path} has {lines} lines, more than {limit}\n    hint: split it by subject"));
    }
    for (n, line) in text.lines().enumerate() {
        if is_ignored_fence(path, line) {
            problems.push(format!(
                "{path}:{}: an `ignore`d example rots\n    hint: let it compile (`no_run` if it must not run) or mark it `text`",
                n + 1
            ));
        }
    }
    problems
}

fn is_ignored_fence(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    let line = if path.ends_with(".rs") {
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { return false };
        comment.trim_start()
    } else if path.ends_with(".md") {
        line
    } else {
        return false;
    };
    let info = line.strip_prefix("```").unwrap_or("");
    info.split([',', ' ']).any(|word| word.starts_with("ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_named() {
        assert!(check("a.rs", &"x\n".repeat(899)).is_empty());
        assert!(check("a.rs", &"x\n".repeat(900))[0].starts_with("a.rs has 900 lines"));
        assert!(check("ARCHITECTURE.md", &"x\n".repeat(250)).is_empty());
        assert!(!check("ARCHITECTURE.md", &"x\n".repeat(251)).is_empty());
        assert!(is_counted(".github/workflows/ci.yml") && !is_counted("Cargo.lock"));
    }

    #[test]
    fn an_ignored_example_is_found() {
        assert!(check("a.rs", "/// ```ignore\n/// x\n/// ```")[0].starts_with("a.rs:1:"));
        assert!(!check("a.rs", "//! ```rust,ignore").is_empty());
        assert!(!check("a.md", "```rust ignore").is_empty());
        assert!(check("a.rs", "/// ```no_run\n/// ignore").is_empty());
        assert!(check("a.rs", "let x = \"```ignore\";").is_empty());
    }
}
