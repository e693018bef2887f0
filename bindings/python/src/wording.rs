//! Messages of the command in the words of Python: `--overwrite` is `overwrite=True` there.

/// Options of the command that have a different name in Python.
const RENAMED: [(&str, &str); 1] = [("column", "field")];

/// Options without a value.
const FLAGS: &str =
    " add-special-tokens all-text append-eos hidden lines no-ignore overwrite raw resume special-in-text ";

/// Words that represent values in hints, in addition to words in upper case and numbers.
const VALUES: &str = " all arrow arrow-stream assistant datatrove fail i32 jsonl lines mds megatron nanogpt npy parquet skip split text \
    text|lines|jsonl|parquet u16 u32 u64 u8 warc webdataset whole ";

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Ends of a shell's pipe in hints of the command.
const PIPE: &str = " | windrow encode - ";

pub(crate) fn in_python(message: &str) -> String {
    let message = message.replace(PIPE, " > OUT, then read OUT with ");
    let mut text = String::with_capacity(message.len());
    let mut rest = message.as_str();
    while let Some(at) = rest.find('-') {
        let before = rest[..at].chars().next_back().or_else(|| text.chars().next_back());
        let is_word = before.is_none_or(|before| !before.is_alphanumeric() && before != '-' && before != '/');
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let words = option(rest).or_else(|| output(rest)).filter(|_| is_word);
        let (words, len) = words.unwrap_or_else(|| ("-".to_owned(), 1));
        text.push_str(&words);
        rest = &rest[len..];
    }
    text.push_str(rest);
    text
}

/// The long option at the start, in Python's words, and its bytes.
fn option(text: &str) -> Option<(String, usize)> {
    let name: &str = text.strip_prefix("--")?;
    let end = name.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(name.len());
    // Options with `=` belong to other programs; an option that continues like a path is a path.
    let is_path = |after: &str| {
        after.starts_with('/') || after.strip_prefix('.').is_some_and(|after| after.starts_with(char::is_alphanumeric))
    };
    if end == 0 || name[end..].starts_with('=') || is_path(&name[end..]) {
        return None;
    }
    let (name, after) = name.split_at(end);
    let renamed = RENAMED.iter().find(|(known, _)| *known == name).map_or(name, |(_, renamed)| *renamed);
    let python = renamed.replace('-', "_");
    if is_in(FLAGS, name) {
        return Some((format!("{python}=True"), 2 + end));
    }
    let value = after.strip_prefix(' ').unwrap_or_default();
    let len = value.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '|').unwrap_or(value.len());
    let value = &value[..len];
    let is_placeholder = len > 0 && value.chars().all(|letter| letter.is_ascii_uppercase() || letter == '|');
    let is_number = value.starts_with(|digit: char| digit.is_ascii_digit());
    let words = match is_in(VALUES, value) {
        true => format!("{python}=\"{}\"", value.replace('|', "\", \"")),
        false if is_placeholder || is_number => format!("{python}={value}"),
        false => return Some((python, 2 + end)),
    };
    Some((words, 2 + end + 1 + len))
}

/// `-o` at the start, with a path if there is one.
fn output(text: &str) -> Option<(String, usize)> {
    let after = text.strip_prefix("-o")?;
    if after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '-') {
        return None;
    }
    let path = after.strip_prefix(' ').unwrap_or_default();
    let path = &path[..path.find(|letter: char| letter.is_whitespace() || letter == ';').unwrap_or(path.len())];
    match path.contains('/') {
        true => Some((format!("output=\"{path}\""), 3 + path.len())),
        false => Some(("output".to_owned(), 2)),
    }
}
