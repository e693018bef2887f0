//! The patterns by which well-known models split text into pieces, one character at a time.
//!
//! [`Grammar::piece_end`] says where a piece ends, as the pattern's regex does, and is written to be compared with it. `scan` finds the same
//! ends for 64 bytes at a time, and comes back here for the few places that its masks cannot decide.

use crate::unicode::{Class, Classes, decode};

/// The patterns of a pre-tokenizer.
///
/// ```
/// use windrow_bpe::Grammar;
///
/// let grammar = Grammar::from_patterns(&Grammar::Gpt2.patterns());
/// assert_eq!(grammar, Some(Grammar::Gpt2));
/// assert_eq!(Grammar::from_patterns(&[r"\w+"]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grammar {
    /// GPT-2 (`r50k_base`).
    Gpt2,
    /// GPT-4 (`cl100k_base`), Llama 3, Qwen 2: white space ends at line ends, and words take one character before them.
    Lines {
        /// Maximum number of digits of a piece.
        digits: Digits,
    },
    /// GPT-4o (`o200k_base`), Mistral NeMo: words also end before an upper-case letter.
    Cases {
        /// Maximum number of digits of a piece.
        digits: Digits,
        /// Whether a word includes a contraction that follows it.
        contractions: bool,
    },
    /// DeepSeek V3 and R1: numbers, then runs of Chinese characters and kana, are split from a text first. Words take an ASCII symbol before them
    /// if they are of ASCII letters, and otherwise white space or a control character.
    DeepSeek,
}

/// Maximum number of digits of a piece.
///
/// ```
/// use windrow_bpe::{Definition, Digits, BpeEngine, EngineOptions, Grammar};
///
/// // The pieces of "1234", as the words of its ids.
/// let words = |digits| {
///     let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
///     let (grammar, merges, added) = (Grammar::Lines { digits }, vec![], vec![]);
///     let definition = Definition { grammar, tokens, merges, ignore_merges: false, added, nfc: false };
///     let engine = BpeEngine::new(&definition, &EngineOptions::default()).unwrap();
///     engine.words("1234", &engine.encode_batch(&["1234"]).unwrap().values)
/// };
/// assert_eq!(words(Digits::One), [0, 1, 2, 3]);
/// assert_eq!(words(Digits::Three), [0, 0, 0, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digits {
    /// Every digit is a piece.
    One,
    /// Up to three digits.
    Three,
}

const CONTRACTIONS: &str = "'s|'t|'re|'ve|'m|'ll|'d";

const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

impl Grammar {
    /// All grammars.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Gpt2, Self::DeepSeek];
        for digits in [Digits::One, Digits::Three] {
            all.push(Self::Lines { digits });
            all.extend([false, true].map(|contractions| Self::Cases { digits, contractions }));
        }
        all
    }

    /// The grammar with these patterns, spelled as in the `tokenizer.json` of the models. Line ends may be spelled as themselves.
    pub fn from_patterns(patterns: &[impl AsRef<str>]) -> Option<Self> {
        let spelled = |pattern: &str| pattern.replace('\r', r"\r").replace('\n', r"\n");
        let spelled: Vec<String> = patterns.iter().map(|pattern| spelled(pattern.as_ref())).collect();
        Self::all().into_iter().find(|grammar| grammar.patterns() == spelled)
    }

    /// The patterns, as regexes. Each splits every piece of the patterns before as if it were a text: into matches and what is between them.
    pub fn patterns(self) -> Vec<String> {
        let count = |digits| if digits == Digits::One { r"\p{N}" } else { r"\p{N}{1,3}" };
        let pattern = match self {
            Self::DeepSeek => return DEEPSEEK.map(str::to_owned).to_vec(),
            Self::Gpt2 => format!(r"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"),
            Self::Lines { digits } => {
                let digits = count(digits);
                let words = r"[^\r\n\p{L}\p{N}]?\p{L}+";
                let rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
                format!("(?i:{CONTRACTIONS})|{words}|{digits}|{rest}")
            }
            Self::Cases { digits, contractions } => {
                let digits = count(digits);
                let prefix = r"[^\r\n\p{L}\p{N}]?";
                let (upper, lower) = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]");
                let suffix = if contractions { format!("(?i:{CONTRACTIONS})?") } else { String::new() };
                let rest = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
                format!("{prefix}{upper}*{lower}+{suffix}|{prefix}{upper}+{lower}*{suffix}|{digits}|{rest}")
            }
        };
        vec![pattern]
    }

    /// The classes that [`piece_end`](Self::piece_end) and the masks distinguish.
    pub(crate) fn classes(self) -> &'static Classes {
        match self {
            Self::DeepSeek => Classes::of_deepseek(),
            _ => Classes::get(),
        }
    }

    /// The end of the piece that begins at `start`, a character of `text`, which is UTF-8.
    pub(crate) fn piece_end(self, text: &[u8], start: usize) -> usize {
        let text = Text { bytes: text, classes: self.classes() };
        match self {
            Self::Gpt2 => text.gpt2(start),
            Self::Lines { digits } => text.lines(start, digits),
            Self::Cases { digits, contractions } => text.cases(start, digits, contractions),
            Self::DeepSeek => text.deepseek(start),
        }
    }

    /// The first place from `from` on where the text can be cut: its two parts have the pieces of the whole, whatever precedes and follows it.
    ///
    /// In all grammars, a piece ends behind a letter that is followed by a character that is no letter, mark or apostrophe. This does not depend
    /// on what stands before the letter or behind that character, which must be ASCII here. No piece looks back.
    pub(crate) fn cut(self, text: &[u8], from: usize) -> Option<usize> {
        (from.max(1)..text.len()).find(|&at| is_cut(text, at))
    }

    /// The last such place from `from` on and before `to`. `text` need not be UTF-8.
    pub(crate) fn last_cut(self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        (from.max(1)..to.min(text.len())).rev().find(|&at| is_cut(text, at))
    }
}

fn is_cut(text: &[u8], at: usize) -> bool {
    text[at].is_ascii() && !text[at].is_ascii_alphabetic() && text[at] != b'\'' && is_behind_letter(text, at)
}

/// Whether a character ends at `at`, and is a letter.
fn is_behind_letter(text: &[u8], at: usize) -> bool {
    let before = text[at - 1];
    if before.is_ascii() {
        return before.is_ascii_alphabetic();
    }
    let first = (0..at).rev().take(4).find(|&before| text[before] & 0xc0 != 0x80);
    let is_character = first.is_some_and(|first| std::str::from_utf8(&text[first..at]).is_ok());
    is_character && first.is_some_and(|first| Classes::get().of(decode(text, first).0).is_letter())
}

/// The length of the contraction at `at`, where there is an apostrophe; 0 if there is none.
#[inline(always)]
pub(crate) fn contraction(text: &[u8], at: usize, folds_case: bool) -> usize {
    let fold = |byte: u8| if folds_case { byte | 0x20 } else { byte };
    let byte = |further: usize| text.get(at + further).copied().unwrap_or(0);
    match (fold(byte(1)), fold(byte(2))) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'l', b'l') | (b'v', b'e') | (b'r', b'e') => 3,
        // U+017F, a long s, folds to s.
        _ if folds_case && byte(1) == 0xc5 && byte(2) == 0xbf => 3,
        _ => 0,
    }
}

/// A text and the classes of its characters.
struct Text<'a> {
    bytes: &'a [u8],
    classes: &'a Classes,
}

impl Text<'_> {
    /// The class and the length of the character at `at`; the text does not end there.
    fn character(&self, at: usize) -> (Class, usize) {
        match self.bytes[at] {
            b'A'..=b'Z' => (Class::Upper, 1),
            b'a'..=b'z' => (Class::Lower, 1),
            b'0'..=b'9' => (Class::Number, 1),
            b' ' | 9..=13 => (Class::White, 1),
            byte @ 0..=0x7f => (self.classes.of(u32::from(byte)), 1),
            _ => {
                let (character, len) = decode(self.bytes, at);
                (self.classes.of(character), len)
            }
        }
    }

    fn class(&self, at: usize) -> Option<Class> {
        (at < self.bytes.len()).then(|| self.character(at).0)
    }

    fn is_newline(&self, at: usize) -> bool {
        matches!(self.bytes.get(at), Some(b'\r' | b'\n'))
    }

    /// The end of the run of characters for which `holds` is true.
    fn run(&self, mut at: usize, holds: impl Fn(Class) -> bool) -> usize {
        while at < self.bytes.len() {
            let (class, len) = self.character(at);
            if !holds(class) {
                break;
            }
            at += len;
        }
        at
    }

    fn gpt2(&self, start: usize) -> usize {
        if self.bytes[start] == b'\'' {
            let len = contraction(self.bytes, start, false);
            if len > 0 {
                return start + len;
            }
        }
        let begin = start + usize::from(self.bytes[start] == b' ');
        match self.class(begin) {
            Some(class) if class.is_letter() => self.run(begin, Class::is_letter),
            Some(Class::Number) => self.run(begin, |class| class == Class::Number),
            Some(Class::Other | Class::Mark) => self.run(begin, is_other),
            _ => self.white(start),
        }
    }

    /// `\s+(?!\S)|\s+`
    fn white(&self, start: usize) -> usize {
        let (mut at, mut last) = (start, start);
        while self.class(at) == Some(Class::White) {
            last = at;
            at += self.character(at).1;
        }
        let is_black = self.class(at).is_some_and(|class| self.classes.is_black(class));
        if is_black && last > start { last } else { at }
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    fn lines_or_white(&self, start: usize) -> usize {
        let white = self.run(start, |class| class == Class::White);
        match (start..white).rfind(|&at| self.is_newline(at)) {
            Some(last) => last + 1,
            None => self.white(start),
        }
    }

    /// `\p{N}{1,3}` or, with [`Digits::One`], `\p{N}`. `start` if no number is there.
    fn number(&self, start: usize, digits: Digits) -> usize {
        let mut at = start;
        for _ in 0..if digits == Digits::One { 1 } else { 3 } {
            if self.class(at) == Some(Class::Number) {
                at += self.character(at).1;
            }
        }
        at
    }

    fn lines(&self, start: usize, digits: Digits) -> usize {
        if self.bytes[start] == b'\'' {
            let len = contraction(self.bytes, start, true);
            if len > 0 {
                return start + len;
            }
        }
        let (class, len) = self.character(start);
        let word = if class.is_letter() {
            start
        } else if class != Class::Number && !self.is_newline(start) {
            start + len
        } else {
            self.bytes.len()
        };
        if self.class(word).is_some_and(Class::is_letter) {
            return self.run(word, Class::is_letter);
        }
        self.no_word(start, digits, |_| false)
    }

    fn cases(&self, start: usize, digits: Digits, contractions: bool) -> usize {
        let (class, len) = self.character(start);
        let has_prefix = !class.is_letter() && class != Class::Number && !self.is_newline(start);
        let begins = [has_prefix.then_some(start + len), Some(start)].into_iter().flatten();
        let word = begins.clone().find_map(|begin| self.ends_lower(begin));
        let word = word.or_else(|| begins.clone().find_map(|begin| self.begins_upper(begin)));
        let Some(end) = word else {
            return self.no_word(start, digits, |byte| byte == b'/');
        };
        if contractions && self.bytes.get(end) == Some(&b'\'') {
            return end + contraction(self.bytes, end, true);
        }
        end
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
    fn ends_lower(&self, start: usize) -> Option<usize> {
        let uppers = self.run(start, |class| class == Class::Upper || is_caseless(class));
        let end = self.run(uppers, |class| class == Class::Lower || is_caseless(class));
        if end > uppers {
            return Some(end);
        }
        // The last caseless character ends the piece.
        let (mut at, mut last) = (start, None);
        while at < uppers {
            let (class, len) = self.character(at);
            at += len;
            if is_caseless(class) {
                last = Some(at);
            }
        }
        last
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`, where [`ends_lower`](Self::ends_lower) finds nothing.
    fn begins_upper(&self, start: usize) -> Option<usize> {
        let end = self.run(start, |class| class == Class::Upper);
        (end > start).then_some(end)
    }

    /// `\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`; `also` says which bytes may stand among the line ends.
    fn no_word(&self, start: usize, digits: Digits, also: impl Fn(u8) -> bool) -> usize {
        let number = self.number(start, digits);
        if number > start {
            return number;
        }
        let begin = start + usize::from(self.bytes[start] == b' ');
        let mut end = self.run(begin, is_other);
        if end > begin {
            while self.is_newline(end) || self.bytes.get(end).is_some_and(|&byte| also(byte)) {
                end += 1;
            }
            return end;
        }
        self.lines_or_white(start)
    }

    fn deepseek(&self, start: usize) -> usize {
        let (class, len) = self.character(start);
        match class {
            Class::Number => return self.number(start, Digits::Three),
            Class::Cjk | Class::CjkSymbol => return self.run(start, |other| other == class),
            Class::CjkOther => return self.others(start, class, |class| class == Class::Cjk),
            Class::Symbol => {
                let letters = self.bytes[start + len..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                return if len == 1 && letters > 0 { start + 1 + letters } else { self.symbols(start) };
            }
            _ => {}
        }
        let is_word = |class: Class| class.is_letter() || class == Class::Mark;
        if is_word(class) {
            return self.run(start, is_word);
        }
        if class == Class::White {
            if !self.is_newline(start) && self.class(start + len).is_some_and(is_word) {
                return self.run(start + len, is_word);
            }
            let takes_symbols = self.bytes[start] == b' ' && self.class(start + 1) == Some(Class::Symbol);
            return if takes_symbols { self.symbols(start + 1) } else { self.lines_or_white(start) };
        }
        self.others(start, class, is_word)
    }

    /// The end of a run of `class`, in which nothing matches. A word takes the last character of the run.
    fn others(&self, start: usize, class: Class, is_word: impl Fn(Class) -> bool) -> usize {
        let (mut at, mut last) = (start, start);
        while self.class(at) == Some(class) {
            last = at;
            at += self.character(at).1;
        }
        match self.class(at).is_some_and(&is_word) {
            true if last == start => self.run(at, is_word),
            true => last,
            false => at,
        }
    }

    /// `[\p{P}\p{S}]+[\r\n]*`
    fn symbols(&self, start: usize) -> usize {
        let mut end = self.run(start, |class| class == Class::Symbol);
        while self.is_newline(end) {
            end += 1;
        }
        end
    }
}

/// `[^\s\p{L}\p{N}]`
fn is_other(class: Class) -> bool {
    matches!(class, Class::Other | Class::Mark)
}

/// `[\p{Lm}\p{Lo}\p{M}]`
fn is_caseless(class: Class) -> bool {
    matches!(class, Class::Caseless | Class::Mark)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The pieces of a text.
    fn pieces(grammar: Grammar, text: &str) -> Vec<&str> {
        let (mut at, mut pieces) = (0, Vec::new());
        while at < text.len() {
            let end = grammar.piece_end(text.as_bytes(), at);
            assert!(end > at, "{grammar:?} stays at {at} of {text:?}");
            pieces.push(&text[at..end]);
            at = end;
        }
        pieces
    }

    /// Characters of every class that a pattern names, and combinations that are special to one.
    pub(crate) const PARTS: [&str; 61] = [
        "a", "b", "s", "t", "re", "ll", "ve", "d", "A", "S", "LL", "Re", "ſ", "'", "'", "'s", "'S", "1", "23", "½",
        "٣", " ", " ", "  ", "\t", "\n", "\r", "\r\n", "\n\n", "\u{a0}", "\u{3000}", "\u{85}", ".", "!?", "/", "—",
        "😀", "\u{301}", "\u{fe0f}", "é", "É", "ǅ", "中", "ー", "ʰ", "\u{0}", "\u{1}", "\u{7f}", "\u{200d}",
        "\u{e000}", "\u{378}", "한", "\u{9fa6}", "か", "\u{3040}", "\u{3099}", "・", "$", "。", "\u{1ab0}", "゛",
    ];

    pub(crate) fn texts() -> impl Strategy<Value = String> {
        proptest::collection::vec(0..PARTS.len(), 0..160)
            .prop_map(|parts| parts.into_iter().map(|at| PARTS[at]).collect())
    }

    #[test]
    fn patterns_are_recognized() {
        for grammar in Grammar::all() {
            let patterns = grammar.patterns();
            assert_eq!(Grammar::from_patterns(&patterns), Some(grammar));
            let spelled = patterns.iter().map(|pattern| pattern.replace(r"\r", "\r").replace(r"\n", "\n"));
            assert_eq!(Grammar::from_patterns(&spelled.collect::<Vec<_>>()), Some(grammar));
        }
        assert_eq!(Grammar::from_patterns(&DEEPSEEK[..2]), None);
    }

    /// The pieces that a pattern makes of those before.
    fn split<'t>(pieces: Vec<&'t str>, pattern: &str) -> Vec<&'t str> {
        let regex = fancy_regex::Regex::new(pattern).unwrap();
        let mut all = Vec::new();
        for piece in pieces {
            let mut begin = 0;
            for found in regex.find_iter(piece).map(Result::unwrap) {
                all.extend([&piece[begin..found.start()], found.as_str()]);
                begin = found.end();
            }
            all.push(&piece[begin..]);
        }
        all.retain(|piece| !piece.is_empty());
        all
    }

    #[test]
    fn deepseek_splits_numbers_and_kana_first() {
        let pieces = |text| pieces(Grammar::DeepSeek, text);
        assert_eq!(pieces("a  12345  中文か。  x"), ["a", "  ", "123", "45", "  ", "中文か", "。", " ", " x"]);
        assert_eq!(pieces("l'été d'après"), ["l", "'", "été", " d", "'apr", "ès"]);
        assert_eq!(pieces("!!a !a _b"), ["!!", "a", " !", "a", " _", "b"]);
        assert_eq!(pieces("\0\0a\0\0 \0"), ["\0", "\0a", "\0\0", " ", "\0"]);
        assert_eq!(
            pieces("か\u{3099}\u{301}ー・\u{3040}\u{3040}か゛。"),
            ["か\u{3099}", "\u{301}", "ー", "・", "\u{3040}", "\u{3040}か", "゛", "。"]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { windrow_testkit::cases(100) }, ..ProptestConfig::default() })]

        #[test]
        fn pieces_are_those_of_the_regex(text in texts()) {
            for grammar in Grammar::all() {
                let patterns = grammar.patterns();
                let expected = patterns.iter().fold(vec![&text[..]], |pieces, pattern| split(pieces, pattern));
                prop_assert_eq!(pieces(grammar, &text), expected, "{:?}", grammar);
            }
        }

        #[test]
        fn text_can_be_cut(text in texts(), from in 0_usize..200) {
            let bytes = text.as_bytes();
            for grammar in Grammar::all() {
                if let Some(cut) = grammar.cut(bytes, from) {
                    let mut parts = pieces(grammar, &text[..cut]);
                    parts.extend(pieces(grammar, &text[cut..]));
                    prop_assert_eq!(parts, pieces(grammar, &text), "{:?} at {}", grammar, cut);
                }
            }
        }
    }
}
