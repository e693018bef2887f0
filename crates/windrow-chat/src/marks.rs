//! Tags of a template that the engine does not know, or whose recursion it does not limit.
//!
//! `{% generation %}` blocks become `{% call %}` blocks of a function that notes the place of its call. Both are blocks, so white space around
//! them is trimmed alike, and both run their body as a macro, so that variables have the same scope. Values that tags bind to names are
//! [kept](super::kept). The module also finds long tags and long chains of `{% elif %}`, which the engine reads by recursion.

use super::kept::{KEPT, Rewritten, rewritten, tokens};

/// The name of the function.
pub(super) const FUNCTION: &str = "__windrow_generation";

/// Maximum number of words and signs in a tag. The engine parses an expression recursively, one operator inside the other.
pub(super) const MAX_TAG: usize = 500;
/// Maximum number of open brackets in a tag. The engine parses their contents by recursion, ten calls a bracket.
pub(super) const MAX_BRACKETS: usize = 60;
/// Maximum number of open `{% elif %}` at one place. The engine parses each inside the previous one.
pub(super) const MAX_ELIF: usize = 100;

/// A template for the engine.
pub(super) struct Replaced {
    pub(super) text: String,
    /// True if it has generation blocks.
    pub(super) has_marks: bool,
    /// The line and the reason if the engine should not read it.
    pub(super) refused: Option<(usize, String)>,
}

/// Replaces the tags of a template.
pub(super) fn replace(source: &str) -> Replaced {
    let mut replaced = String::with_capacity(source.len());
    let (mut copied, mut at, mut has_marks, mut refused) = (0, 0, false, None);
    let mut refuse = |begin: usize, reason: String| {
        refused.get_or_insert_with(|| (source[..begin].matches('\n').count() + 1, reason));
    };
    // The number of elif tags in each if block that is open.
    let mut chains = Vec::new();
    while let Some(found) = source[at..].find('{') {
        let begin = at + found;
        let inside = begin + 2;
        let (close, is_block) = match source.as_bytes().get(begin + 1) {
            Some(b'#') => {
                at = source[inside..].find("#}").map_or(source.len(), |end| inside + end + 2);
                continue;
            }
            Some(b'{') => ("}}", false),
            Some(b'%') => ("%}", true),
            _ => {
                at = begin + 1;
                continue;
            }
        };
        at = expression_end(source, inside, close);
        let whole = &source[inside..at];
        let body = whole.strip_suffix(close).unwrap_or(whole);
        let tokens = tokens(body);
        if tokens.len() > MAX_TAG {
            refuse(begin, format!("a tag has more than {MAX_TAG} words and symbols"));
        }
        if tokens.iter().any(|token| token.depth > MAX_BRACKETS) {
            refuse(begin, format!("a tag has more than {MAX_BRACKETS} nested brackets"));
        }
        if body.len() == whole.len() {
            continue;
        }
        let is_control = |character| character == '-' || character == '+';
        let left = body.strip_prefix(is_control).unwrap_or(body);
        let name = left.strip_suffix(is_control).unwrap_or(left);
        let start = inside + body.len() - left.len();
        let mut change = |to: &str| {
            replaced.push_str(&source[copied..start]);
            replaced.push_str(to);
            copied = start + name.len();
        };
        let word = if is_block { name.split_whitespace().next().unwrap_or_default() } else { "" };
        match word {
            "generation" if name.trim() == "generation" => {
                has_marks = true;
                change(&format!(" call {FUNCTION}() "));
            }
            "endgeneration" if name.trim() == "endgeneration" => {
                has_marks = true;
                change(" endcall ");
            }
            "raw" if name.trim() == "raw" => at = raw_end(source, at),
            _ => {
                match word {
                    "if" => chains.push(0),
                    "elif" => {
                        if let Some(chain) = chains.last_mut() {
                            *chain += 1;
                        }
                        if chains.iter().sum::<usize>() > MAX_ELIF {
                            let reason =
                                format!("an if block and the blocks around it have more than {MAX_ELIF} elif tags");
                            refuse(begin, reason);
                        }
                    }
                    "endif" => _ = chains.pop(),
                    _ => {}
                }
                let Some(Rewritten { body: kept, names }) = rewritten(name, is_block) else { continue };
                change(&kept);
                replaced.push_str(&source[copied..at]);
                copied = at;
                let control = &left[name.len()..];
                for name in names {
                    replaced.push_str(&format!("{{% set {name} = {KEPT}(({name})) {control}%}}"));
                }
            }
        }
    }
    replaced.push_str(&source[copied..]);
    Replaced { text: replaced, has_marks, refused }
}

/// The end of a tag that begins before `at`, after its `close`. Strings in it may contain anything.
fn expression_end(source: &str, mut at: usize, close: &str) -> usize {
    let bytes = source.as_bytes();
    let mut depth = 0_usize;
    while at < bytes.len() {
        if depth == 0 && source[at..].starts_with(close) {
            return at + close.len();
        }
        let step = match bytes[at] {
            quote @ (b'\'' | b'"') => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1 - at
            }
            b'{' | b'(' | b'[' => {
                depth += 1;
                1
            }
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                1
            }
            _ => 1,
        };
        at += step;
        while at < source.len() && !source.is_char_boundary(at) {
            at += 1;
        }
    }
    source.len()
}

/// The end of a `{% raw %}` block whose first tag ends at `from`.
fn raw_end(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(found) = source[at..].find("{%") {
        let begin = at + found + 2;
        let end = source[begin..].find("%}").map_or(source.len(), |end| begin + end);
        let name = source[begin..end].trim_matches(['-', '+']).trim();
        at = (end + 2).min(source.len());
        if name == "endraw" {
            return at;
        }
        // Another tag may begin inside this one.
        at = at.min(begin);
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tags_are_found_but_long_strings_may_be() {
        let line = |source: &str| replace(source).refused.map(|(line, _)| line);
        let terms = " + 1".repeat(MAX_TAG / 2);
        assert_eq!(line(&format!("a\n{{{{ 1{terms} }}}}")), Some(2));
        assert_eq!(line(&format!("{{% if 1{terms} %}}{{% endif %}}")), Some(1));
        assert_eq!(line(&format!("{{{{ 1{terms}")), Some(1));
        assert_eq!(line(&format!("{{# {{{{ 1{terms} #}}{{% raw %}}{{{{ 1{terms} }}}}{{% endraw %}}")), None);
        assert_eq!(line(&format!("{{{{ '{terms}' }}}}{terms}{{{{ 1 }}}}{{ {terms}")), None);
        assert_eq!(line(&"{{ 1 + 1 }}\n".repeat(1000)), None);
        let brackets = |depth: usize| format!("{{{{ {}1{} }}}}", "f(".repeat(depth), ")".repeat(depth));
        assert_eq!((line(&brackets(MAX_BRACKETS)), line(&brackets(MAX_BRACKETS + 1))), (None, Some(1)));
    }

    #[test]
    fn chains_are_counted_where_they_are_open() {
        let line = |source: &str| replace(source).refused.map(|(line, _)| line);
        let half = "\n{% elif 1 %}".repeat(MAX_ELIF / 2);
        let block = format!("{{% if 1 %}}{half}{{% endif %}}");
        assert_eq!(line(&block.repeat(9)), None);
        assert_eq!(line(&format!("{{% if 1 %}}{half}{half}{{% endif %}}")), None);
        assert_eq!(line(&format!("{{% if 1 %}}{half}{half}{half}{{% endif %}}")), Some(MAX_ELIF + 2));
        assert_eq!(line(&format!("{{% if 1 %}}{half}{{% if 1 %}}{half}{half}")), Some(MAX_ELIF + 2));
    }

    #[test]
    fn tags_that_call_keep_their_arguments() {
        let kept = |source: &str| replace(source).text.replace(KEPT, "k");
        assert_eq!(kept("{%- macro m(a) -%} b"), "{%- macro m(a) -%}{% set a = k((a)) -%} b");
        assert_eq!(kept("{% set x = [1] -%}{{ x }}"), "{% set x = k(([1])) -%}{{ x }}");
    }

    #[test]
    fn only_tags_are_replaced() {
        let call = |source: &str| replace(source).text.replace(FUNCTION, "g");
        assert_eq!(call("a{% generation %}b{% endgeneration %}c"), "a{% call g() %}b{% endcall %}c");
        assert_eq!(call("{%- generation -%}\n{%+endgeneration+%}"), "{%- call g() -%}\n{%+ endcall +%}");
        assert_eq!(call("{%generation%}{%endgeneration%}"), "{% call g() %}{% endcall %}");
        for same in [
            "no tags { % generation % } {",
            "{# {% generation %} #}{{ '{% generation %}' }}{{ \"\\\"{% generation %}\" }}",
            "{% raw %}{% generation %}{% x {%- endraw -%}",
            "{% set generation = '%}{% generation %}' %}{{ {'a': {}}['a'] }}",
            "{% if generation %}é{{ 'é",
            "{% generations %}",
            "{%",
            "{{",
            "{#",
            "{% raw %}{%",
        ] {
            let Replaced { text, has_marks, .. } = replace(same);
            assert_eq!((text.as_str(), has_marks), (same, false));
        }
        assert!(replace("{{ {'a': {}} }}{% generation %}").has_marks);
    }
}
