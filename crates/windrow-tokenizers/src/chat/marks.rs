//! `{% generation %}` blocks, which the template engine does not know.
//!
//! They become `{% call %}` blocks of a function that notes where it is called. Both are blocks, so white space around them is trimmed
//! alike, and both run their body as a macro, so that variables have the same scope.

/// The name of the function.
pub(super) const FUNCTION: &str = "__windrow_generation";

/// The bytes that a tag may have beside its strings. The engine parses an expression recursively, one operator inside of the other.
pub(super) const MAX_TAG: usize = 4 << 10;

/// A template with `{% call %}` blocks.
pub(super) struct Replaced {
    pub(super) text: String,
    /// Whether it has any.
    pub(super) has_marks: bool,
    /// The line of the first tag that is longer than [`MAX_TAG`].
    pub(super) long_tag: Option<usize>,
}

/// Replaces the blocks of a template.
pub(super) fn replace(source: &str) -> Replaced {
    let mut replaced = String::with_capacity(source.len());
    let (mut copied, mut at, mut has_marks, mut long_tag) = (0, 0, false, None);
    let mut measure = |begin: usize, (end, strings): (usize, usize)| {
        if end - begin - strings > MAX_TAG {
            long_tag.get_or_insert_with(|| source[..begin].matches('\n').count() + 1);
        }
        end
    };
    while let Some(found) = source[at..].find('{') {
        let begin = at + found;
        let inside = begin + 2;
        at = match source.as_bytes().get(begin + 1) {
            Some(b'#') => source[inside..].find("#}").map_or(source.len(), |end| inside + end + 2),
            Some(b'{') => measure(begin, expression_end(source, inside, "}}")),
            Some(b'%') => {
                let end = measure(begin, expression_end(source, inside, "%}"));
                let body = source[inside..end].strip_suffix("%}").unwrap_or("");
                let is_control = |character| character == '-' || character == '+';
                let left = body.strip_prefix(is_control).unwrap_or(body);
                let name = left.strip_suffix(is_control).unwrap_or(left);
                let call = match name.trim() {
                    "generation" => format!(" call {FUNCTION}() "),
                    "endgeneration" => " endcall ".to_owned(),
                    "raw" => {
                        at = raw_end(source, end);
                        continue;
                    }
                    _ => {
                        at = end;
                        continue;
                    }
                };
                has_marks = true;
                let start = inside + body.len() - left.len();
                replaced.push_str(&source[copied..start]);
                replaced.push_str(&call);
                copied = start + name.len();
                end
            }
            _ => begin + 1,
        };
    }
    replaced.push_str(&source[copied..]);
    Replaced { text: replaced, has_marks, long_tag }
}

/// The end of a tag that begins before `at`, behind its `close`, and the bytes of strings in it, which may hold anything.
fn expression_end(source: &str, mut at: usize, close: &str) -> (usize, usize) {
    let bytes = source.as_bytes();
    let (mut depth, mut strings) = (0_usize, 0);
    while at < bytes.len() {
        if depth == 0 && source[at..].starts_with(close) {
            return (at + close.len(), strings);
        }
        let step = match bytes[at] {
            quote @ (b'\'' | b'"') => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != quote {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                strings += end.min(bytes.len()) - at;
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
    (source.len(), strings)
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
        // Another tag may begin inside of this one.
        at = at.min(begin);
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tags_are_found_but_long_strings_may_be() {
        let long_tag = |source: &str| replace(source).long_tag;
        let terms = " + 1".repeat(MAX_TAG / 4);
        assert_eq!(long_tag(&format!("a\n{{{{ 1{terms} }}}}")), Some(2));
        assert_eq!(long_tag(&format!("{{% if 1{terms} %}}{{% endif %}}")), Some(1));
        assert_eq!(long_tag(&format!("{{{{ 1{terms}")), Some(1));
        assert_eq!(long_tag(&format!("{{# {{{{ 1{terms} #}}{{% raw %}}{{{{ 1{terms} }}}}{{% endraw %}}")), None);
        assert_eq!(long_tag(&format!("{{{{ '{terms}' }}}}{terms}{{{{ 1 }}}}{{ {terms}")), None);
        assert_eq!(long_tag(&"{{ 1 + 1 }}\n".repeat(1000)), None);
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
