//! Words that must not be committed: unfinished code, ignored tests, and `cfg(loom)` in the wrong place.

use super::{RustFile, SYNC};

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &RustFile) -> Vec<String> {
    let code = file.source.code();
    let mut problems = Vec::new();
    for (offset, word) in file.source.words() {
        let complaint = match word {
            "todo" | "unimplemented" | "dbg" if code[offset + word.len()..].starts_with('!') => {
                format!("{word}! in a committed file")
            }
            "ignore" if is_ignored_test(code, offset) => "an ignored test tests nothing".to_owned(),
            "loom" if is_in_cfg(code, offset) && !may_ask_for_loom(&file.path) => {
                format!("cfg(loom) belongs into {SYNC}src/primitives.rs and the loom tests")
            }
            _ => continue,
        };
        problems.push(format!("{}: {complaint}", file.place(offset)));
    }
    problems
}

fn is_ignored_test(code: &str, offset: usize) -> bool {
    let attribute = attribute_before(code, offset);
    // Miri cannot run everything, and says so with this one form.
    attribute.is_empty() || (attribute.starts_with("cfg_attr(") && attribute != "cfg_attr(miri,")
}

/// The text between the enclosing `#[` and `offset`, without white space; `-` outside of attributes.
fn attribute_before(code: &str, offset: usize) -> String {
    let inside = code[..offset].rfind("#[").map(|at| &code[at + 2..offset]).filter(|inside| !inside.contains(']'));
    inside.map_or_else(|| "-".to_owned(), |inside| inside.split_whitespace().collect())
}

fn is_in_cfg(code: &str, offset: usize) -> bool {
    // Finds the innermost macro call or attribute whose parenthesis is still open at `offset`.
    let mut depth = 0;
    for at in (0..offset).rev() {
        match code.as_bytes()[at] {
            b')' => depth += 1,
            b'(' if depth > 0 => depth -= 1,
            b'(' => {
                let before = code[..at].trim_end_matches('!').trim_end();
                if before.ends_with("cfg") || before.ends_with("cfg_attr") {
                    return true;
                }
                if !["all", "any", "not"].iter().any(|name| before.ends_with(name)) {
                    return false;
                }
            }
            b';' | b'{' | b'}' => return false,
            _ => {}
        }
    }
    false
}

fn may_ask_for_loom(path: &str) -> bool {
    path.strip_prefix(SYNC).is_some_and(|path| path == "src/primitives.rs" || path.starts_with("tests/loom_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[RustFile::new(path, text)])
    }

    #[test]
    fn unfinished_code_is_found() {
        for text in [
            "fn f() { todo!() }",
            "unimplemented!(\"x\")",
            "dbg!(x)",
            "#[test]\n#[ignore]\nfn f() {}",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(windows, ignore)]",
        ] {
            assert_eq!(found("a.rs", text).len(), 1, "{text}");
        }
        assert!(found("a.rs", "#[ignore]")[0].starts_with("a.rs:1: an ignored test"));
        for text in [
            "// todo!()",
            "let todo = 1;",
            "\"dbg!(x)\"",
            "fn ignore() {}",
            "#[cfg_attr(miri, ignore)]",
            "#[serde(default)]\nlet ignore = 1;",
        ] {
            assert_eq!(found("a.rs", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn loom_has_its_places() {
        for text in [
            "#[cfg(loom)] mod a;",
            "#![cfg(not(loom))]",
            "if cfg!(loom) {}",
            "#[cfg(all(unix, not(loom)))]",
            "#[cfg_attr(loom, allow(x))]",
        ] {
            assert_eq!(found("crates/windrow-sync/src/gate.rs", text).len(), 1, "{text}");
            assert!(found("crates/windrow-sync/src/primitives.rs", text).is_empty());
            assert!(found("crates/windrow-sync/tests/loom_gate.rs", text).is_empty());
            assert_eq!(found("crates/windrow/tests/loom_gate.rs", text).len(), 1);
        }
        assert!(found("a.rs", "loom::model(|| {}); f(loom); let x = cfg(unix) + f(loom)").is_empty());
    }
}
