//! Finds the pieces of a text, 64 bytes at a time.
//!
//! # Glossary
//! * *Block*: 64 bytes. For each class of characters, a block has a mask with a bit for every byte of a character of the class.
//! * *Run*: neighbouring bits of a mask.
//! * *Start*: the first byte of a piece. The pieces of a text are given by the mask of their starts.
//! * *Carry*: what the rules remember of the blocks before.
//! * *Segment*: text without an added token.
//!
//! # How
//! 1. `classify` makes the masks of ASCII. Other characters are decoded one by one and put into the masks.
//! 2. [`Rules::starts`] computes the starts of a block from its masks, those of the next block and the carry.
//! 3. The positions of the starts go to a [`Sink`], for thousands of bytes at a time.
//!
//! Where a block has something that masks cannot decide, `starts` gives up. [`Grammar::piece_end`] then finds the pieces from the
//! last start on, until one begins behind the block. A piece does not depend on what precedes it, so the masks go on from there as
//! at the beginning of a text.
//!
//! Masks of classes and additions that carry through runs come from bitstream parsers such as Parabix and simdjson; bitcannon and
//! gigatoken split text for tokenizers so.

use crate::added::{Added, AddedMatch};
use crate::grammar::{Digits, Grammar, contraction};
use crate::simd::{Isa, low};
use crate::unicode::{Class, Classes, decode};

/// Bytes between two calls of the sink.
pub(crate) const CHUNK: usize = 4096;

/// Room for the starts of a chunk, and for what `positions` writes behind them.
pub(crate) type Positions = [u16; CHUNK + 192];

/// Takes pieces.
pub(crate) trait Sink {
    /// Takes the pieces from `start` to each of `base + ends`, and returns the last end.
    fn pieces(&mut self, text: &[u8], start: usize, base: usize, ends: &[u16]) -> usize;

    /// Takes one piece.
    fn piece(&mut self, text: &[u8], start: usize, end: usize);

    /// Takes the first piece of a text, which ends at `end`.
    fn first_piece(&mut self, text: &[u8], end: usize) {
        self.piece(text, 0, end);
    }

    /// Takes an added token.
    fn added(&mut self, id: u32);
}

/// The masks of a block. A character that is not ASCII has a bit for each of its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Block {
    /// Bytes before the end of the segment.
    valid: u64,
    letter: u64,
    upper: u64,
    /// Letters without case.
    caseless: u64,
    number: u64,
    white: u64,
    space: u64,
    newline: u64,
    /// All that is no letter, number or white space.
    other: u64,
    mark: u64,
    /// Control characters and others that are no letter, mark, number, white space, punctuation or symbol. The mask is complete if the rules have
    /// [`Rules::CONTROLS`].
    control: u64,
    /// [`Class::Cjk`].
    cjk: u64,
    /// [`Class::CjkSymbol`].
    cjk_symbol: u64,
    /// [`Class::CjkOther`].
    cjk_other: u64,
    slash: u64,
    apostrophe: u64,
    /// Bytes that are not ASCII.
    high: u64,
    /// All bytes of a character but the first.
    inner: u64,
    /// First bytes of white space that is not ASCII, if something else follows.
    last_white: u64,
}

impl Block {
    /// The first bytes of white space characters of `class` that are followed by something else in the segment.
    #[inline(always)]
    fn last_of(&self, class: u64, next: &Self) -> u64 {
        self.last_before(class, self.valid & !self.white, next.valid & !next.white)
    }

    /// The same, with what is something else in this block and in the next one.
    #[inline(always)]
    fn last_before(&self, class: u64, black: u64, next_black: u64) -> u64 {
        class & (black >> 1 | next_black << 63) & !self.high | self.last_white
    }
}

/// The first bits of runs; `carry` is whether the block before ends inside of a run.
#[inline(always)]
fn run_starts(class: u64, carry: u64) -> u64 {
    class & !(class << 1 | carry)
}

/// The bits of `class` that are reached from `seeds`, which are in `class`, through its runs.
#[inline(always)]
fn flood(seeds: u64, class: u64) -> u64 {
    ((class.wrapping_add(seeds) ^ class) | seeds) & class
}

/// How starts follow from masks.
pub(crate) trait Rules {
    /// True if the rules read [`Block::control`].
    const CONTROLS: bool = false;

    /// At the beginning of a text.
    fn new(grammar: Grammar) -> Self;

    /// The starts of the block at `at`, or `None` if masks cannot decide. `text` ends with the segment.
    fn starts(&mut self, text: &[u8], at: usize, block: &Block, next: &Block, around: &Around<'_>) -> Option<u64>;
}

/// The starts that contractions remove and add in the next block.
#[derive(Default)]
struct Fixes {
    clear: u64,
    set: u64,
}

impl Fixes {
    /// `starts` with what the block before has left.
    #[inline(always)]
    fn apply(&mut self, starts: u64) -> u64 {
        let fixed = starts & !self.clear | self.set;
        *self = Self::default();
        fixed
    }

    /// Bits `from..end` have no start. A letter at `end` is one.
    #[inline(always)]
    fn contraction(&mut self, starts: &mut u64, from: usize, end: usize, block: &Block, next: &Block) {
        let inside = (1_u128 << end) - (1_u128 << from);
        let behind = (1_u128 << end) & (u128::from(next.letter) << 64 | u128::from(block.letter));
        *starts = *starts & !(inside as u64) | behind as u64;
        self.clear |= (inside >> 64) as u64;
        self.set |= (behind >> 64) as u64;
    }
}

/// The set bits of a mask.
#[inline(always)]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// [`Grammar::Gpt2`]. The numbers are the carry: the last bit of each mask.
pub(crate) struct Gpt2Rules {
    letter: u64,
    number: u64,
    other: u64,
    white: u64,
    space: u64,
    fixes: Fixes,
}

impl Rules for Gpt2Rules {
    fn new(_: Grammar) -> Self {
        Self { letter: 0, number: 0, other: 0, white: 0, space: 0, fixes: Fixes::default() }
    }

    #[inline(always)]
    fn starts(&mut self, text: &[u8], at: usize, block: &Block, next: &Block, _: &Around<'_>) -> Option<u64> {
        let Block { letter, number, other, white, space, .. } = *block;
        let words = run_starts(letter, self.letter) | run_starts(number, self.number) | run_starts(other, self.other);
        let blank = run_starts(white, self.white) | block.last_of(white, next);
        let mut starts = self.fixes.apply(words & !(space << 1 | self.space) | blank);
        for bit in bits(starts & block.apostrophe) {
            let len = contraction(text, at + bit, false);
            if len > 0 {
                self.fixes.contraction(&mut starts, bit + 1, bit + len, block, next);
            }
        }
        self.letter = letter >> 63;
        self.number = number >> 63;
        self.other = other >> 63;
        self.white = white >> 63;
        self.space = space >> 63;
        Some(starts)
    }
}

/// [`Grammar::Lines`] and, with `CASES`, [`Grammar::Cases`].
///
/// A word takes the character before it if that is white space, or if it is a piece by itself otherwise. Line ends behind other characters
/// are part of their piece (*absorbed*). White space ends behind its last line end, and before its last character if a word follows.
pub(crate) struct LineRules<const CASES: bool> {
    numbers: Numbers,
    contractions: bool,
    /// The carry: the last bit of each mask.
    word: u64,
    lower: u64,
    caseless: u64,
    other: u64,
    absorbed: u64,
    white: u64,
    blank: u64,
    newline: u64,
    space: u64,
    /// Whether the first character of a run of other characters ends with the block before.
    behind_first: u64,
    /// Where the last contraction ended.
    contracted: usize,
    fixes: Fixes,
}

/// Finds the starts of digits.
struct Numbers {
    digits: Digits,
    /// The carry: the last bit of the mask.
    number: u64,
    /// Number of digits so far in the run with which the block before ends, modulo 3.
    counted: u32,
}

impl Numbers {
    fn new(digits: Digits) -> Self {
        Self { digits, number: 0, counted: 0 }
    }

    #[inline(always)]
    fn starts(&mut self, block: &Block) -> u64 {
        let number = block.number;
        let first = number & !block.inner;
        let begins = run_starts(number, self.number);
        let goes_on = self.number & number & 1 == 1;
        self.number = number >> 63;
        if self.digits == Digits::One {
            return first;
        }
        let four = number & number >> 1 & number >> 2 & number >> 3;
        if four == 0 && !goes_on && number & block.high == 0 {
            self.counted = (!number).leading_zeros();
            return begins;
        }
        let mut starts = 0;
        let mut counted = if goes_on { self.counted } else { 0 };
        for bit in bits(first) {
            if begins >> bit & 1 == 1 {
                counted = 0;
            }
            starts |= u64::from(counted.is_multiple_of(3)) << bit;
            counted += 1;
        }
        self.counted = counted % 3;
        starts
    }
}

/// The starts behind the last line end of white space. `blank` is white space but for line ends, and `carry` whether the block before ends
/// with one.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "what `starts` knows of the block")]
fn behind_newlines(
    text: &[u8],
    at: usize,
    block: &Block,
    next: &Block,
    blank: u64,
    newline: u64,
    carry: u64,
    around: &Around<'_>,
) -> u64 {
    let mut starts = blank & (newline << 1 | carry);
    // A run of blanks behind a line end goes on with the line end in which the addition carries.
    let (ends, reaches_end) = blank.overflowing_add(starts);
    let remove_last = |starts: &mut u64, end: usize| {
        *starts &= !(1 << (63 - (*starts & low(end)).leading_zeros()));
    };
    for end in bits(ends & block.newline) {
        remove_last(&mut starts, end);
    }
    if reaches_end {
        let more = (!(next.white & !next.newline)).trailing_zeros();
        let ends_line = match more {
            64 => around.reaches_newline(text, at + 128),
            _ => next.newline >> more & 1 == 1,
        };
        if ends_line {
            remove_last(&mut starts, 64);
        }
    }
    starts
}

impl<const CASES: bool> Rules for LineRules<CASES> {
    fn new(grammar: Grammar) -> Self {
        let (digits, contractions) = match grammar {
            Grammar::Lines { digits } => (digits, true),
            Grammar::Cases { digits, contractions } => (digits, contractions),
            Grammar::Gpt2 | Grammar::DeepSeek => unreachable!("has its own rules"),
        };
        Self {
            numbers: Numbers::new(digits),
            contractions,
            word: 0,
            lower: 0,
            caseless: 0,
            other: 0,
            absorbed: 0,
            white: 0,
            blank: 0,
            newline: 0,
            space: 0,
            behind_first: 0,
            contracted: usize::MAX,
            fixes: Fixes::default(),
        }
    }

    #[inline(always)]
    fn starts(&mut self, text: &[u8], at: usize, block: &Block, next: &Block, around: &Around<'_>) -> Option<u64> {
        let in_word = if CASES { flood((block.letter << 1 | self.word) & block.mark, block.mark) } else { 0 };
        let word = block.letter | in_word;
        let caseless = block.caseless | in_word;
        let cases = if CASES {
            let is_unclear = block.mark & !in_word | (caseless << 1 | self.caseless) & block.upper;
            if is_unclear != 0 {
                return None;
            }
            let lower = block.letter & !block.upper & !block.caseless;
            let starts = block.upper & (lower << 1 | self.lower);
            self.lower = lower >> 63;
            starts
        } else {
            0
        };
        let other = block.other & !in_word;
        let line_ends = if CASES { block.newline | block.slash } else { block.newline };
        let absorbed = flood((other << 1 | self.other) & block.newline | self.absorbed & line_ends, line_ends);
        let other = other & !absorbed;
        let white = block.white & !absorbed;
        let newline = block.newline & !absorbed;
        let blank = block.white & !block.newline;

        let free = run_starts(other, self.other) & !(block.space << 1 | self.space);
        let (behind, carry) = block.inner.overflowing_add(free << 1 | self.behind_first);
        let behind_first = behind & !block.inner;
        let words = run_starts(word, self.word) & !(blank << 1 | self.blank) & !behind_first;
        let numbers = self.numbers.starts(block);
        let mut starts = words | cases | numbers | free | run_starts(white, self.white) | block.last_of(blank, next);
        if newline | self.newline != 0 {
            starts |= behind_newlines(text, at, block, next, blank, newline, self.newline, around);
        }
        starts = self.fixes.apply(starts);
        if self.contractions {
            let candidates = if CASES { word << 1 | self.word } else { free };
            for bit in bits(candidates & block.apostrophe) {
                let len = contraction(text, at + bit, true);
                // A word has one contraction at most.
                if len == 0 || (CASES && at + bit == self.contracted) {
                    continue;
                }
                let end = bit + len;
                if CASES && (u128::from(next.mark) << 64 | u128::from(block.mark)) >> end & 1 == 1 {
                    return None;
                }
                self.contracted = at + end;
                self.fixes.contraction(&mut starts, bit + usize::from(!CASES), end, block, next);
            }
        }
        self.word = word >> 63;
        self.caseless = caseless >> 63;
        self.other = other >> 63;
        self.absorbed = absorbed >> 63;
        self.white = white >> 63;
        self.blank = blank >> 63;
        self.newline = newline >> 63;
        self.space = block.space >> 63;
        self.behind_first = free >> 63 | u64::from(carry);
        Some(starts)
    }
}

/// [`Grammar::DeepSeek`].
///
/// A word takes the character before it if that is white space or a control character. A word of ASCII letters also takes an ASCII symbol that
/// is a piece by itself otherwise; then it ends before the first letter or mark that is not ASCII. Line ends and white space are as in
/// [`LineRules`], but for white space before a number or a Chinese character, which is one piece. Three characters of no assigned class among
/// the kana are unclear.
pub(crate) struct DeepSeekRules {
    numbers: Numbers,
    /// The carry: the last bit of each mask.
    word: u64,
    prefix: u64,
    cjk: u64,
    cjk_symbol: u64,
    symbol: u64,
    absorbed: u64,
    white: u64,
    newline: u64,
    space: u64,
    control: u64,
    /// 1 if the block before ends with an ASCII symbol that a word may take.
    lone: u64,
    /// 1 if it ends with an ASCII letter of a word that has taken one.
    attached: u64,
}

impl Rules for DeepSeekRules {
    const CONTROLS: bool = true;

    fn new(_: Grammar) -> Self {
        Self {
            numbers: Numbers::new(Digits::Three),
            word: 0,
            prefix: 0,
            cjk: 0,
            cjk_symbol: 0,
            symbol: 0,
            absorbed: 0,
            white: 0,
            newline: 0,
            space: 0,
            control: 0,
            lone: 0,
            attached: 0,
        }
    }

    #[inline(always)]
    fn starts(&mut self, text: &[u8], at: usize, block: &Block, next: &Block, around: &Around<'_>) -> Option<u64> {
        if block.cjk_other != 0 {
            return None;
        }
        let Block { cjk, cjk_symbol, control, .. } = *block;
        let word = block.letter | block.mark;
        let symbol = block.other & !control & !block.mark;
        let blank = block.white & !block.newline;
        let prefix = blank | control;
        let absorbed = flood((symbol << 1 | self.symbol | self.absorbed) & block.newline, block.newline);
        let white = block.white & !absorbed;
        let newline = block.newline & !absorbed;

        let free = run_starts(symbol, self.symbol) & !(block.space << 1 | self.space);
        let ascii = block.letter & !block.high;
        let lone = free & !block.high;
        let attached = (lone << 1 | self.lone) & ascii;
        // The addition carries to the end of the ASCII letters.
        let (ends, carry) = ascii.overflowing_add(attached | self.attached);
        let rests = ends & !ascii & word;
        let words = run_starts(word, self.word) & !(prefix << 1 | self.prefix) & !attached | rests;

        let ends = |block: &Block| block.white | block.number | block.cjk | block.cjk_symbol | block.cjk_other;
        let black = |block: &Block| block.valid & !ends(block);
        let whites = run_starts(white, self.white) | block.last_before(blank, black(block), black(next));
        let mut starts = words | self.numbers.starts(block) | free | whites;
        starts |= run_starts(cjk, self.cjk) | run_starts(cjk_symbol, self.cjk_symbol);
        if newline | self.newline != 0 {
            starts |= behind_newlines(text, at, block, next, blank, newline, self.newline, around);
        }
        if control != 0 {
            starts |= run_starts(control, self.control) | before_words(block, next);
        }
        self.word = word >> 63;
        self.prefix = prefix >> 63;
        self.cjk = cjk >> 63;
        self.cjk_symbol = cjk_symbol >> 63;
        self.symbol = symbol >> 63;
        self.absorbed = absorbed >> 63;
        self.white = white >> 63;
        self.newline = newline >> 63;
        self.space = block.space >> 63;
        self.control = control >> 63;
        self.lone = lone >> 63;
        self.attached = u64::from(carry);
        Some(starts)
    }
}

/// The first bytes of control characters that are followed by a letter or a mark.
#[cold]
fn before_words(block: &Block, next: &Block) -> u64 {
    let both = |of: fn(&Block) -> u64| u128::from(of(next)) << 64 | u128::from(of(block));
    let (word, inner) = (both(|block| block.letter | block.mark), both(|block| block.inner));
    let first = bits(block.control & !block.inner);
    first.fold(0, |starts, bit| {
        let end = bit + 1 + (inner >> (bit + 1)).trailing_ones() as usize;
        starts | ((word >> end & 1) as u64) << bit
    })
}

/// What the rules and the blocks need to know about the text.
pub(crate) struct Around<'a> {
    pub(crate) classes: &'static Classes,
    pub(crate) added: &'a Added,
}

impl Around<'_> {
    fn is_white(&self, text: &[u8], at: usize) -> bool {
        match text[at] {
            b' ' | 9..=13 => true,
            0..=0x7f => false,
            _ => self.classes.of(decode(text, at).0) == Class::White,
        }
    }

    /// True if a run of white space before the character at `at` leaves its last character to another piece.
    fn is_black(&self, text: &[u8], at: usize) -> bool {
        let character = if text[at].is_ascii() { u32::from(text[at]) } else { decode(text, at).0 };
        self.classes.is_black(self.classes.of(character))
    }

    /// Whether white space from `at` on, without line ends, is followed by a line end.
    #[cold]
    fn reaches_newline(&self, text: &[u8], mut at: usize) -> bool {
        // Behind a character that began before `at`.
        while text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
            at += 1;
        }
        while at < text.len() && self.is_white(text, at) && self.added.at(text, at).is_none() {
            match text[at] {
                b'\r' | b'\n' => return true,
                0..=0x7f => at += 1,
                _ => at += decode(text, at).1,
            }
        }
        false
    }
}

/// The part of a text that is being scanned.
struct Segment<'a, I> {
    isa: I,
    around: &'a Around<'a>,
    text: &'a [u8],
    /// Where the segment ends, as far as it is known.
    end: usize,
    /// The added token there.
    stop: Option<AddedMatch>,
    /// Added tokens that begin before are parts of one that counts as text.
    skip: usize,
    /// The class of a character that continues in the next block, and its bytes there.
    open: (Class, usize),
}

impl<I: Isa> Segment<'_, I> {
    /// The masks of the block at `at`. The segment ends before an added token in it.
    #[inline(always)]
    fn block<R: Rules>(&mut self, at: usize) -> Block {
        if at >= self.end {
            return Block::default();
        }
        let mut masks = self.isa.classify(&self.text[at..self.end], self.around.added.first_bytes());
        if masks.added != 0 && self.find_added(at, masks.added) {
            masks = self.isa.classify(&self.text[at..self.end], [0, 0]);
        }
        let valid = low(self.end - at);
        let mut block = Block {
            valid,
            letter: masks.letter,
            upper: masks.upper,
            caseless: 0,
            number: masks.digit,
            white: masks.white,
            space: masks.space,
            newline: masks.newline,
            other: valid & !(masks.letter | masks.digit | masks.white | masks.high),
            mark: 0,
            control: if R::CONTROLS { masks.control } else { 0 },
            cjk: 0,
            cjk_symbol: 0,
            cjk_other: 0,
            slash: masks.slash,
            apostrophe: masks.apostrophe,
            high: masks.high,
            inner: 0,
            last_white: 0,
        };
        if masks.high != 0 {
            self.decode(at, &mut block);
        }
        block
    }

    /// Ends the segment before the first added token of a block, if there is one.
    #[cold]
    #[inline(never)]
    fn find_added(&mut self, at: usize, candidates: u64) -> bool {
        for bit in bits(candidates) {
            let place = at + bit;
            if place < self.skip {
                continue;
            }
            match self.around.added.at(&self.text[..self.end], place) {
                None => {}
                Some(AddedMatch { len, id: None }) => {
                    self.skip = place + len;
                    self.around.added.named().set();
                }
                found => {
                    self.end = place;
                    self.stop = found;
                    return true;
                }
            }
        }
        false
    }

    /// Puts the characters that are not ASCII into the masks.
    #[inline(never)]
    fn decode(&mut self, at: usize, block: &mut Block) {
        let mut classes = [0_u64; Class::COUNT];
        let (class, len) = std::mem::replace(&mut self.open, (Class::Other, 0));
        classes[class as usize] |= low(len);
        block.inner = low(len);
        let mut left = block.high & !low(len);
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            let (character, len) = decode(&self.text[..self.end], at + bit);
            let class = self.around.classes.of(character);
            let bytes = low(len) << bit;
            classes[class as usize] |= bytes;
            block.inner |= bytes & (bytes << 1);
            left &= !bytes;
            if bit + len > 64 {
                self.open = (class, bit + len - 64);
            }
            if class == Class::White {
                let behind = at + bit + len;
                let is_last = behind < self.end
                    && self.around.is_black(&self.text[..self.end], behind)
                    && self.around.added.at(&self.text[..self.end], behind).is_none_or(|found| found.id.is_none());
                block.last_white |= u64::from(is_last) << bit;
            }
        }
        let of = |class: Class| classes[class as usize];
        block.letter |= of(Class::Upper) | of(Class::Lower) | of(Class::Caseless);
        block.upper |= of(Class::Upper);
        block.caseless = of(Class::Caseless);
        block.number |= of(Class::Number);
        block.white |= of(Class::White);
        block.mark = of(Class::Mark);
        block.control |= of(Class::Other);
        block.cjk = of(Class::Cjk);
        block.cjk_symbol = of(Class::CjkSymbol);
        block.cjk_other = of(Class::CjkOther);
        block.other |= of(Class::Other) | of(Class::Symbol) | of(Class::Mark);
    }
}

/// Gives the pieces and the added tokens of `text`, which is UTF-8, to `sink`, in order.
#[inline(always)]
pub(crate) fn scan<I: Isa, R: Rules, S: Sink>(
    isa: I,
    grammar: Grammar,
    around: &Around<'_>,
    text: &[u8],
    positions: &mut Positions,
    sink: &mut S,
) {
    let mut begin = 0;
    let mut segment = Segment { isa, around, text, end: text.len(), stop: None, skip: 0, open: (Class::Other, 0) };
    while begin < text.len() {
        let mut rules = R::new(grammar);
        let mut at = begin;
        let mut start = begin;
        segment.open = (Class::Other, 0);
        let mut block = segment.block::<R>(at);
        // The first start is implied.
        let mut known = !1;
        let mut is_clear = true;
        while is_clear && at < segment.end {
            let (base, mut count) = (at, 0);
            while at < segment.end && at - base < CHUNK {
                let next = segment.block::<R>(at + 64);
                let Some(starts) = rules.starts(&text[..segment.end], at, &block, &next, around) else {
                    is_clear = false;
                    break;
                };
                let out = positions[count..].first_chunk_mut().expect("there is room for a chunk and more");
                count += isa.positions(starts & known, (at - base) as u16, out);
                known = !0;
                block = next;
                at += 64;
            }
            if is_clear && at >= segment.end {
                positions[count] = (segment.end - base) as u16;
                count += 1;
            }
            start = sink.pieces(text, start, base, &positions[..count]);
        }
        if !is_clear {
            begin = unclear(&mut segment, grammar, start, at + 64, sink);
            if begin < segment.end {
                continue;
            }
        }
        begin = segment.end;
        if let Some(AddedMatch { len, id }) = segment.stop.take() {
            sink.added(id.expect("one that is text ends no segment"));
            begin += len;
        }
        segment.end = text.len();
    }
}

/// Finds pieces from `start` on without masks, until one begins at `until` or behind. Returns where the next one begins.
#[cold]
#[inline(never)]
fn unclear<I: Isa, S: Sink>(
    segment: &mut Segment<'_, I>,
    grammar: Grammar,
    mut start: usize,
    until: usize,
    sink: &mut S,
) -> usize {
    if segment.stop.is_none() {
        // Blocks up to here have been searched.
        let mut place = until.max(segment.skip);
        while place < segment.end {
            match segment.around.added.find(&segment.text[..segment.end], place) {
                None => break,
                Some((begin, AddedMatch { len, id: None })) => {
                    place = begin + len;
                    segment.skip = place;
                    segment.around.added.named().set();
                }
                Some((begin, found)) => {
                    segment.end = begin;
                    segment.stop = Some(found);
                }
            }
        }
    }
    while start < segment.end && start < until {
        let end = grammar.piece_end(&segment.text[..segment.end], start);
        sink.piece(segment.text, start, end);
        start = end;
    }
    start
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::added::AddedToken;
    use crate::grammar::tests::texts;
    use crate::simd::{InstructionSet, Work};

    /// The pieces of a text; an added token is one.
    #[derive(Default)]
    struct Pieces(Vec<(usize, usize)>, Vec<u32>);

    impl Sink for Pieces {
        fn pieces(&mut self, text: &[u8], start: usize, base: usize, ends: &[u16]) -> usize {
            ends.iter().fold(start, |start, end| {
                self.piece(text, start, base + usize::from(*end));
                base + usize::from(*end)
            })
        }

        fn piece(&mut self, _: &[u8], start: usize, end: usize) {
            self.0.push((start, end));
        }

        fn added(&mut self, id: u32) {
            self.1.push(id);
        }
    }

    struct Scan<'a>(Grammar, &'a Around<'a>, &'a [u8]);

    impl Work for Scan<'_> {
        type Output = Pieces;
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) -> Pieces {
            let Self(grammar, around, text) = self;
            let mut pieces = Pieces::default();
            let positions = &mut [0; CHUNK + 192];
            match grammar {
                Grammar::Gpt2 => scan::<_, Gpt2Rules, _>(isa, grammar, around, text, positions, &mut pieces),
                Grammar::Lines { .. } => {
                    scan::<_, LineRules<false>, _>(isa, grammar, around, text, positions, &mut pieces);
                }
                Grammar::Cases { .. } => {
                    scan::<_, LineRules<true>, _>(isa, grammar, around, text, positions, &mut pieces);
                }
                Grammar::DeepSeek => scan::<_, DeepSeekRules, _>(isa, grammar, around, text, positions, &mut pieces),
            }
            pieces
        }
    }

    /// The same with regex-like code, one added token after the other.
    fn expected(grammar: Grammar, added: &Added, text: &[u8]) -> Pieces {
        let mut pieces = Pieces::default();
        let (mut begin, mut search) = (0, 0);
        loop {
            let found = added.find(text, search);
            if let Some((at, AddedMatch { len, id: None })) = found {
                search = at + len;
                continue;
            }
            let end = found.map_or(text.len(), |(at, _)| at);
            while begin < end {
                let to = grammar.piece_end(&text[..end], begin);
                pieces.0.push((begin, to));
                begin = to;
            }
            let Some((at, found)) = found else { return pieces };
            pieces.1.push(found.id.unwrap());
            begin = at + found.len;
            search = begin;
        }
    }

    fn check(text: &str, added: &Added) -> Result<(), TestCaseError> {
        for grammar in Grammar::all() {
            let around = Around { classes: grammar.classes(), added };
            let wanted = expected(grammar, added, text.as_bytes());
            for set in InstructionSet::available() {
                let pieces = set.run(Scan(grammar, &around, text.as_bytes()));
                prop_assert_eq!(&pieces.0, &wanted.0, "{:?} {}: {:?}", grammar, set.name(), text);
                prop_assert_eq!(&pieces.1, &wanted.1, "{:?} {}: {:?}", grammar, set.name(), text);
            }
        }
        Ok(())
    }

    fn none() -> Added {
        Added::new(&[]).unwrap()
    }

    fn some() -> Added {
        let token = |content: &str, id| AddedToken::new(content, id);
        Added::new(&[token("  ", Some(1)), token("s!?", None), token("s!?/", Some(2)), token(" \n", Some(3))]).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { windrow_testkit::cases(150) }, ..ProptestConfig::default() })]

        #[test]
        fn masks_find_the_pieces_of_single_characters(text in texts()) {
            check(&text, &none())?;
        }

        #[test]
        fn segments_end_at_added_tokens(text in texts()) {
            check(&text, &some())?;
        }

        #[test]
        fn runs_may_be_longer_than_blocks(runs in proptest::collection::vec((0..crate::grammar::tests::PARTS.len(), 1_usize..150), 0..12)) {
            let text: String = runs.iter().map(|&(part, times)| crate::grammar::tests::PARTS[part].repeat(times)).collect();
            check(&text, &none())?;
            check(&text, &some())?;
        }
    }

    #[test]
    fn chunks_do_not_show() {
        let line =
            "The windrow's 1234 rows (don't) — ÉTÉ\n\n   if (a[0] != 'x') {\t\t\n  \n日本語 1中, l'eté\0x\u{200d}é";
        let text = line.repeat(if cfg!(miri) { 2 } else { 400 });
        check(&text, &none()).unwrap();
        check(&text, &some()).unwrap();
    }
}
