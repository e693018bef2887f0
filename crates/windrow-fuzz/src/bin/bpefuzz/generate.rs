//! Texts on which encoders differ.

use std::rc::Rc;

use windrow_testkit::Rng;

/// Lengths around which something changes: keys of 8 and 15 bytes, blocks of 64, short merges of 48, chunks of 4,096, the longest piece
/// that is remembered, the smallest and the largest window.
const LENGTHS: [usize; 14] = [1, 3, 8, 15, 16, 32, 48, 64, 96, 128, 192, 4096, 8192, 16384];

const WHITE: [&str; 30] = [
    " ", " ", " ", "  ", "\t", "\n", "\r", "\r\n", "\n\n", "\r\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{a0}", "\u{1680}",
    "\u{2000}", "\u{2003}", "\u{2009}", "\u{200a}", "\u{2028}", "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}",
    // These only look like white space.
    "\u{180e}", "\u{200b}", "\u{feff}", "\u{2060}", "\u{1c}", "\u{1f}",
];

const MARKS: [&str; 24] = [
    "\u{301}",
    "\u{308}",
    "\u{327}",
    "\u{338}",
    "\u{345}",
    "\u{483}",
    "\u{489}",
    "\u{5b0}",
    "\u{64b}",
    "\u{93c}",
    "\u{94d}",
    "\u{9be}",
    "\u{e31}",
    "\u{e48}",
    "\u{1ab0}",
    "\u{1dc0}",
    "\u{20dd}",
    "\u{20e3}",
    "\u{302a}",
    "\u{3099}",
    "\u{309a}",
    "\u{fe0f}",
    "\u{1d165}",
    "\u{e0101}",
];

const TITLES: [&str; 8] = ["ǅ", "ǈ", "ǋ", "ǲ", "ᾈ", "ᾮ", "ᾼ", "ῼ"];

const MODIFIERS: [&str; 16] =
    ["ʰ", "ˈ", "ˠ", "ʹ", "ͺ", "ـ", "ๆ", "ᴬ", "ⁱ", "ⁿ", "々", "ー", "〱", "ꀕ", "ﾞ", "\u{1e137}"];

/// Characters and sequences that normalization may change, or that only newer versions of Unicode compose.
const FORMS: [&str; 44] = [
    "e\u{301}",
    "é",
    "\u{1e69}",
    "s\u{307}\u{323}",
    "\u{212b}",
    "\u{2126}",
    "\u{340}",
    "\u{344}",
    "\u{374}",
    "\u{37e}",
    "\u{387}",
    "\u{95e}",
    "\u{9dc}",
    "\u{f43}",
    "\u{2adc}",
    "ﬁ",
    "\u{fb1d}",
    "\u{fb2c}",
    "\u{f900}",
    "\u{fa6c}",
    "\u{2f800}",
    "\u{1d15e}",
    "\u{1d157}\u{1d165}",
    "\u{11935}\u{11930}",
    "\u{105d2}\u{307}",
    "\u{113c2}\u{113c2}",
    "\u{1611e}\u{1611e}",
    "\u{16d67}\u{16d67}",
    "\u{11131}\u{11127}",
    "\u{9c7}\u{9be}",
    "\u{1112}\u{1161}\u{11ab}",
    "\u{1100}\u{1161}",
    "가\u{11a8}",
    "각\u{11a8}",
    "\u{1161}",
    "\u{11a7}",
    "\u{11c3}",
    "a\u{301}\u{327}",
    "a\u{327}\u{301}",
    "\u{301}\u{327}",
    "か\u{3099}",
    "\u{3046}\u{3099}",
    "\u{1e0a}\u{323}",
    "q\u{307}\u{323}",
];

const EMOJI: [&str; 14] = [
    "😀",
    "👨\u{200d}👩\u{200d}👧",
    "👍🏽",
    "🇩🇪",
    "1\u{fe0f}\u{20e3}",
    "❤\u{fe0f}",
    "🏴\u{e0067}\u{e0062}\u{e007f}",
    "☺",
    "\u{200d}",
    "🏳\u{fe0f}\u{200d}🌈",
    "⌚",
    "©",
    "™",
    "🫠",
];

const ODD: [&str; 22] = [
    "\u{0}",
    "\u{1}",
    "\u{7f}",
    "\u{80}",
    "\u{ad}",
    "\u{378}",
    "\u{530}",
    "\u{2fe0}",
    "\u{e000}",
    "\u{f8ff}",
    "\u{fdd0}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{fffe}",
    "\u{1ffff}",
    "\u{f0000}",
    "\u{10ffff}",
    "\u{323b0}",
    "\u{a7ce}",
    "\u{105d2}",
    "\u{1f}",
    "\u{feff}",
];

const QUOTES: [&str; 10] = ["'", "'", "''", "’", "‘", "\"", "`", "´", "/", "//"];

/// First and last characters of scripts, in which most are letters.
const SCRIPTS: [(u32, u32); 24] = [
    (0xc0, 0x17f),
    (0x180, 0x24f),
    (0x370, 0x3ff),
    (0x400, 0x52f),
    (0x531, 0x587),
    (0x5d0, 0x5f4),
    (0x620, 0x6d3),
    (0x900, 0x97f),
    (0x980, 0x9fe),
    (0xe01, 0xe5b),
    (0x10a0, 0x10ff),
    (0x1100, 0x11ff),
    (0x13a0, 0x13fd),
    (0x1c80, 0x1cbf),
    (0x1e00, 0x1eff),
    (0x1f00, 0x1ffe),
    (0x2c60, 0x2c7f),
    (0x3041, 0x30ff),
    (0x4e00, 0x9fff),
    (0xa640, 0xa69f),
    (0xac00, 0xd7a3),
    (0x10400, 0x1044f),
    (0x1e900, 0x1e95b),
    (0x20000, 0x2a6df),
];

/// Kinds of elements, all of [`Generator::element`].
const KINDS: usize = 27;

/// Makes texts. The same seed makes the same texts.
pub(crate) struct Generator {
    pub(crate) rng: Rng,
    /// Tokens of the vocabulary that are text.
    pub(crate) tokens: Vec<String>,
    /// Added tokens.
    pub(crate) added: Vec<String>,
    real: Rc<Vec<String>>,
    numbers: Rc<Vec<char>>,
}

impl Generator {
    pub(crate) fn new(seed: u64, real: Rc<Vec<String>>) -> Self {
        let numbers = ('\u{80}'..=char::MAX).filter(|character| character.is_numeric()).collect();
        Self { rng: Rng(seed), tokens: Vec::new(), added: Vec::new(), real, numbers: Rc::new(numbers) }
    }

    /// The documents of a batch, of some 250 KB at most.
    pub(crate) fn batch(&mut self) -> Vec<String> {
        let budget = 1 + self.rng.log_below(250_000) as usize;
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while bytes < budget && documents.len() < 80 {
            let size = self.size().min(200_000).min(2 * budget);
            let text = self.text(size);
            bytes += text.len();
            documents.push(text);
        }
        documents
    }

    fn size(&mut self) -> usize {
        match self.rng.below(20) {
            0..=4 => self.rng.index(40),
            5..=10 => self.rng.log_below(2000) as usize,
            11..=15 => 100 + self.rng.index(20_000),
            16 | 17 => 4096 * (1 + self.rng.index(6)) + self.rng.index(140) - 70,
            18 => [16, 20, 96, 120][self.rng.index(4)] * 1024 + self.rng.index(200) - 100,
            _ => self.rng.log_below(200_000) as usize,
        }
    }

    /// A text of about so many bytes.
    pub(crate) fn text(&mut self, size: usize) -> String {
        let mut text = String::with_capacity(size + 300);
        match self.rng.below(10) {
            // A few elements again and again: what comes together is rarer with more of them.
            0..=2 => {
                let count = 2 + self.rng.index(6);
                let mut units = Vec::new();
                for _ in 0..count {
                    let mut unit = String::new();
                    let kind = self.rng.index(KINDS);
                    self.element(kind, &mut unit);
                    clip(&mut unit, 24);
                    units.push(unit);
                }
                let longest = 1 + self.rng.index(9);
                while text.len() < size {
                    let unit = &units[self.rng.index(units.len())];
                    text.push_str(&unit.repeat(1 + self.rng.index(longest)));
                    if unit.is_empty() {
                        text.push(' ');
                    }
                }
            }
            3 => {
                while text.len() < size {
                    let kind = self.rng.index(KINDS);
                    self.element(kind, &mut text);
                }
            }
            4 => self.slice(size, &mut text),
            _ => {
                let count = 1 + self.rng.index(6);
                let kinds: Vec<usize> = (0..count).map(|_| self.rng.index(KINDS)).collect();
                while text.len() < size {
                    let kind = kinds[self.rng.index(count)];
                    self.element(kind, &mut text);
                }
            }
        }
        clip(&mut text, size);
        if self.rng.below(4) == 0 {
            self.mutate(&mut text);
        }
        text
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.rng.index(items.len())]
    }

    fn several(&mut self, items: &[&str], most: usize, text: &mut String) {
        for _ in 0..=self.rng.index(most) {
            text.push_str(self.pick(items));
        }
    }

    fn between(&mut self, first: u32, last: u32) -> char {
        char::from_u32(first + self.rng.below(u64::from(last - first) + 1) as u32).unwrap_or('\u{fffd}')
    }

    fn any_character(&mut self) -> char {
        match self.rng.below(8) {
            0..=2 => self.between(0x80, 0x2fff),
            3 | 4 => self.between(0x3000, 0xffff),
            5 | 6 => self.between(0x1_0000, 0x1_ffff),
            _ => self.between(0x2_0000, 0x10_ffff),
        }
    }

    fn characters(&mut self, most: usize, (first, last): (u32, u32), text: &mut String) {
        for _ in 0..=self.rng.index(most) {
            let character = self.between(first, last);
            text.push(character);
        }
    }

    fn element(&mut self, kind: usize, text: &mut String) {
        match kind {
            0 => self.characters(12, (0x61, 0x7a), text),
            1 => {
                for _ in 0..=self.rng.index(10) {
                    let character = self.between(0x61, 0x7a);
                    text.push(if self.rng.below(2) == 0 { character } else { character.to_ascii_uppercase() });
                }
            }
            2 => self.characters(9, (0x30, 0x39), text),
            3 => self.characters(4, (0x21, 0x2f), text),
            4 => self.characters(6, (0, 0x7f), text),
            5 => text.push_str(&" ".repeat(1 + self.rng.index(5))),
            6 => self.several(&WHITE, 6, text),
            7 => self.several(&["\n", "\r", "\r\n", " \n", "\n ", "\t\n", "\u{a0}\n"], 4, text),
            8 => self.contraction(text),
            9 => {
                for _ in 0..=self.rng.index(7) {
                    text.push(self.numbers[self.rng.index(self.numbers.len())]);
                }
            }
            10 => self.several(&MARKS, 3, text),
            11 => self.several(&TITLES, 2, text),
            12 => self.several(&MODIFIERS, 2, text),
            13 => self.several(&EMOJI, 3, text),
            14 => self.several(&FORMS, 3, text),
            15 => self.several(&ODD, 2, text),
            16 => self.several(&QUOTES, 3, text),
            17 | 18 => {
                let script = SCRIPTS[self.rng.index(SCRIPTS.len())];
                self.characters(8, script, text);
            }
            19 => {
                for _ in 0..=self.rng.index(3) {
                    let character = self.any_character();
                    text.push(character);
                }
            }
            20 => self.added_token(text),
            21 if !self.tokens.is_empty() => {
                for _ in 0..=self.rng.index(5) {
                    text.push_str(&self.tokens[self.rng.index(self.tokens.len())]);
                }
            }
            22 => self.run(text),
            23 => self.pad(text),
            24 | 25 => {
                let size = 1 + self.rng.index(300);
                self.slice(size, text);
            }
            _ => {
                let mut part = String::new();
                let size = 1 + self.rng.index(200);
                self.slice(size, &mut part);
                self.mutate(&mut part);
                text.push_str(&part);
            }
        }
    }

    fn contraction(&mut self, text: &mut String) {
        const BEFORE: [&str; 9] = ["", "", "I", "x", "é", "中", "1", " ", "e\u{301}"];
        const BEHIND: [&str; 22] = [
            "s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "lL", "D", "ſ", "\u{212a}", "ſe", "l",
            "r", "v", "ſt", "s\u{301}",
        ];
        text.push_str(self.pick(&BEFORE));
        text.push_str(if self.rng.below(8) == 0 { "’" } else { "'" });
        text.push_str(self.pick(&BEHIND));
    }

    /// An added token, a part of one, or one with an error.
    fn added_token(&mut self, text: &mut String) {
        if self.added.is_empty() {
            text.push_str("<|endoftext|>");
            return;
        }
        let mut token = self.added[self.rng.index(self.added.len())].clone();
        match self.rng.below(6) {
            0 => clip(&mut token, 1 + self.rng.index(12)),
            1 => {
                let from = floor(&token, self.rng.index(token.len()));
                token.drain(..from);
            }
            2 => self.mutate(&mut token),
            _ => {}
        }
        text.push_str(&token);
    }

    /// A run of one unit, close to a length that matters.
    fn run(&mut self, text: &mut String) {
        const UNITS: [&str; 24] = [
            "a", "A", " ", "\n", "\r\n", "\t", "1", ".", "'", "/", "é", "\u{301}", "中", "😀", "\u{3000}", "\u{a0}",
            "ab", "Ab", "a ", " a", "½", "'s", "ʰ", "\u{0}",
        ];
        let unit = self.pick(&UNITS);
        let most = if self.rng.below(12) == 0 { LENGTHS.len() } else { LENGTHS.len() - 3 };
        let length = LENGTHS[self.rng.index(most)] + self.rng.index(5) - self.rng.index(3).min(1);
        text.push_str(&unit.repeat(length.div_ceil(unit.len())));
    }

    /// Fills up to about the end of a block or a chunk.
    fn pad(&mut self, text: &mut String) {
        let block = [16, 64, 64, 64, 4096][self.rng.index(5)];
        let unit = self.pick(&["x", " ", "\n", "1", ".", "X", "é", "a ", "\u{301}"]);
        let missing = (block - text.len() % block + self.rng.index(7)).saturating_sub(3);
        text.push_str(&unit.repeat(missing.div_ceil(unit.len())));
    }

    /// A slice of real text.
    fn slice(&mut self, size: usize, text: &mut String) {
        if self.real.is_empty() {
            return;
        }
        let real = &self.real[self.rng.index(self.real.len())];
        let from = floor(real, self.rng.index(real.len()));
        let to = floor(real, (from + size).min(real.len()));
        text.push_str(&real[from..to]);
    }

    /// Removes, inserts, doubles, exchanges and replaces characters.
    fn mutate(&mut self, text: &mut String) {
        for _ in 0..=self.rng.log_below(8) {
            if text.is_empty() {
                return;
            }
            let at = floor(text, self.rng.index(text.len()));
            let character = text[at..].chars().next().expect("at is before the end");
            match self.rng.below(6) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, character),
                2 => {
                    let to = floor(text, (at + self.rng.index(40)).min(text.len()));
                    drop(text.drain(at..to.max(at)));
                }
                3 => {
                    let other: String = match character.is_uppercase() {
                        true => character.to_lowercase().collect(),
                        false => character.to_uppercase().collect(),
                    };
                    text.replace_range(at..at + character.len_utf8(), &other);
                }
                _ => {
                    let mut more = String::new();
                    let kind = self.rng.index(21);
                    self.element(kind, &mut more);
                    clip(&mut more, 40);
                    text.insert_str(at, &more);
                }
            }
        }
    }
}

/// The last character boundary up to `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Cuts a text to about so many bytes.
fn clip(text: &mut String, size: usize) {
    text.truncate(floor(text, size));
}
