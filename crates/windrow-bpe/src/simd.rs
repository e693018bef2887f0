//! The operations that differ by instruction set, and all unsafe code of this crate.
//!
//! A value of an instruction set's type is the proof that the CPU has it: [`InstructionSet::available`] alone makes one, after it has asked
//! the CPU. [`InstructionSet::run`] runs a [`Work`] compiled for the set. [`Swar`] needs nothing and is the others' twin in the tests.
#![allow(unsafe_code, reason = "vector instructions; the only file of the crate that may")]

/// One bit for each byte of a block of 64 bytes or fewer. Bits behind the end are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    /// ASCII letters.
    pub(crate) letter: u64,
    /// ASCII upper-case letters.
    pub(crate) upper: u64,
    /// ASCII digits.
    pub(crate) digit: u64,
    /// ASCII white space.
    pub(crate) white: u64,
    /// Spaces.
    pub(crate) space: u64,
    /// `\r` and `\n`.
    pub(crate) newline: u64,
    /// ASCII control characters that are no white space.
    pub(crate) control: u64,
    pub(crate) slash: u64,
    pub(crate) apostrophe: u64,
    /// Bytes that are not ASCII.
    pub(crate) high: u64,
    /// Bytes with which an added token may begin.
    pub(crate) added: u64,
}

/// The operations of an instruction set.
pub(crate) trait Isa: Copy {
    /// The masks of the first 64 bytes of `text`, or of all if there are fewer. `added` are the bytes of the mask of that name.
    fn classify(self, text: &[u8], added: [u8; 2]) -> Masks;

    /// Writes the positions of the bits of `mask` plus `base`, in order, and returns their number. The rest of `out` is undefined.
    fn positions(self, mask: u64, base: u16, out: &mut [u16; 64]) -> usize;

    /// `text[start..end]`, 15 bytes or fewer, followed by zeros.
    fn load(self, text: &[u8], start: usize, end: usize) -> [u64; 2];

    /// A hash of two words.
    fn hash(self, words: [u64; 2]) -> u32;
}

/// What can be compiled for each instruction set.
pub(crate) trait Work {
    type Output;

    /// Runs. Implementations must be `inline(always)`, as everything between here and the operations of `isa`.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    Swar(Swar),
}

impl InstructionSet {
    /// The sets that this CPU has, the fastest first.
    pub(crate) fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            sets.extend(x86::Avx512::detect().map(Self::Avx512));
            sets.extend(x86::Avx2::detect().map(Self::Avx2));
        }
        sets.push(Self::Swar(Swar));
        sets
    }

    /// The name, as an option of the engine spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            Self::Swar(_) => "swar",
        }
    }

    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(isa) => isa.run(work),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(isa) => isa.run(work),
            Self::Swar(isa) => work.run(isa),
        }
    }

    /// [`Isa::hash`] of this set.
    pub(crate) fn hash(self, words: [u64; 2]) -> u32 {
        struct Hash([u64; 2]);
        impl Work for Hash {
            type Output = u32;
            #[inline(always)]
            fn run<I: Isa>(self, isa: I) -> u32 {
                isa.hash(self.0)
            }
        }
        self.run(Hash(words))
    }
}

/// The lower `bits` bits, at most 64.
#[inline(always)]
pub(crate) fn low(bits: usize) -> u64 {
    if bits >= 64 { !0 } else { (1 << bits) - 1 }
}

/// 64 bits at a time in general registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swar;

/// A byte in each byte of a word.
#[inline(always)]
fn splat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The bytes of a word in `first..=last`, which are ASCII, as the high bits of bytes.
#[inline(always)]
fn in_range(word: u64, first: u8, last: u8) -> u64 {
    let ascii = word & splat(0x7f);
    // A sum of 7 bits and at most 0x80 does not carry into the next byte.
    let from = ascii.wrapping_add(splat(0x80 - first));
    let behind = ascii.wrapping_add(splat(0x7f - last));
    from & !behind & !word & splat(0x80)
}

/// The high bits of the bytes, as the lower 8 bits.
#[inline(always)]
fn gather(highs: u64) -> u64 {
    (highs >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// For each length below 16, so many first bytes of two words.
const FIRST_BYTES: [[u64; 2]; 16] = {
    let mut masks = [[0; 2]; 16];
    let mut len = 0;
    while len < 16 {
        let mask = !(!0_u128 << (8 * len));
        masks[len] = [mask as u64, (mask >> 64) as u64];
        len += 1;
    }
    masks
};

/// 16 bytes as two words.
#[inline(always)]
fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let words = bytes.as_chunks::<8>().0;
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

/// The fewer than 16 bytes from `start` to the end of `text`, followed by anything.
#[inline(never)]
fn at_end(text: &[u8], start: usize) -> [u64; 2] {
    match text.last_chunk::<16>() {
        Some(last) => {
            let bits_before = 8 * (start + 16 - text.len());
            let bytes = u128::from_le_bytes(*last) >> (bits_before & 127);
            [bytes as u64, (bytes >> 64) as u64]
        }
        None => {
            let mut padded = [0; 16];
            let rest = &text[start..];
            padded[..rest.len()].copy_from_slice(rest);
            halves(&padded)
        }
    }
}

impl Isa for Swar {
    #[inline(always)]
    fn classify(self, text: &[u8], added: [u8; 2]) -> Masks {
        let mut masks = Masks::default();
        let mut padded = [0; 64];
        let block: &[u8; 64] = match text.first_chunk() {
            Some(block) => block,
            None => {
                padded[..text.len()].copy_from_slice(text);
                &padded
            }
        };
        for (at, word) in block.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            let put = |mask: &mut u64, highs: u64| *mask |= gather(highs) << (8 * at);
            let equal = |byte: u8| in_range(word, byte, byte);
            put(&mut masks.letter, in_range(word | splat(0x20), b'a', b'z') & !(word & splat(0x80)));
            put(&mut masks.upper, in_range(word, b'A', b'Z'));
            put(&mut masks.digit, in_range(word, b'0', b'9'));
            put(&mut masks.space, equal(b' '));
            put(&mut masks.white, in_range(word, 9, 13) | equal(b' '));
            put(&mut masks.newline, equal(b'\r') | equal(b'\n'));
            put(&mut masks.control, in_range(word, 0, 8) | in_range(word, 14, 31) | equal(0x7f));
            put(&mut masks.slash, equal(b'/'));
            put(&mut masks.apostrophe, equal(b'\''));
            put(&mut masks.high, word & splat(0x80));
            for byte in added {
                let zeros = word ^ splat(byte);
                put(&mut masks.added, !((zeros & splat(0x7f)).wrapping_add(splat(0x7f)) | zeros) & splat(0x80));
            }
        }
        masks.added &= low(text.len());
        masks.control &= low(text.len());
        masks
    }

    #[inline(always)]
    fn positions(self, mut mask: u64, base: u16, out: &mut [u16; 64]) -> usize {
        let count = mask.count_ones() as usize;
        // Eight at a time: the branch is on the number of eights, which is easier to predict.
        for eight in out.as_chunks_mut::<8>().0 {
            if mask == 0 {
                break;
            }
            for position in eight {
                *position = base.wrapping_add(mask.trailing_zeros() as u16);
                mask &= mask.wrapping_sub(1);
            }
        }
        count
    }

    #[inline(always)]
    fn load(self, text: &[u8], start: usize, end: usize) -> [u64; 2] {
        let words = match text.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(bytes) => halves(bytes),
            None => at_end(text, start),
        };
        // A shift of both words by a variable takes more instructions than all the rest.
        let first = FIRST_BYTES[end.wrapping_sub(start) & 15];
        [words[0] & first[0], words[1] & first[1]]
    }

    #[inline(always)]
    fn hash(self, words: [u64; 2]) -> u32 {
        let mixed = (words[0] ^ words[1].rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    use super::{Isa, Masks, Swar, Work, low};

    /// AVX-512 with the byte and word instructions of `vbmi2`.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx512(());

    /// AVX2 with `bmi2` and the CRC instruction of SSE 4.2.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    impl Avx512 {
        #[cfg_attr(miri, expect(dead_code, reason = "miri runs the twin"))]
        pub(super) fn detect() -> Option<Self> {
            let has = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("sse4.2");
            has.then_some(Self(()))
        }

        #[inline]
        pub(super) fn run<W: Work>(self, work: W) -> W::Output {
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt,sse4.2")]
            fn compiled<W: Work>(work: W, isa: Avx512) -> W::Output {
                work.run(isa)
            }
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { compiled(work, self) }
        }
    }

    impl Avx2 {
        #[cfg_attr(miri, expect(dead_code, reason = "miri runs the twin"))]
        pub(super) fn detect() -> Option<Self> {
            let has = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("sse4.2");
            has.then_some(Self(()))
        }

        #[inline]
        pub(super) fn run<W: Work>(self, work: W) -> W::Output {
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,sse4.2")]
            fn compiled<W: Work>(work: W, isa: Avx2) -> W::Output {
                work.run(isa)
            }
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { compiled(work, self) }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    fn classify_512(text: &[u8], added: [u8; 2]) -> Masks {
        // SAFETY: bytes whose bit is 0 are not read, and the others are in `text`.
        let x = unsafe { _mm512_maskz_loadu_epi8(low(text.len()), text.as_ptr().cast()) };
        let v = |byte: u8| _mm512_set1_epi8(byte as i8);
        let equal = |byte: u8| _mm512_cmpeq_epi8_mask(x, v(byte));
        let below = |end: u8| _mm512_cmplt_epu8_mask(x, v(end));
        let space = equal(b' ');
        let white = space | _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, v(9)), v(5));
        Masks {
            letter: _mm512_cmplt_epu8_mask(_mm512_sub_epi8(_mm512_or_si512(x, v(0x20)), v(b'a')), v(26)),
            upper: _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, v(b'A')), v(26)),
            digit: _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, v(b'0')), v(10)),
            white,
            space,
            newline: equal(b'\r') | equal(b'\n'),
            control: (below(b' ') & !white | equal(0x7f)) & low(text.len()),
            slash: equal(b'/'),
            apostrophe: equal(b'\''),
            high: _mm512_movepi8_mask(x),
            added: (equal(added[0]) | equal(added[1])) & low(text.len()),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,popcnt")]
    #[inline]
    fn positions_512(mask: u64, base: u16, out: &mut [u16; 64]) -> usize {
        const IOTA: [u8; 64] = {
            let mut iota = [0; 64];
            let mut at = 0;
            while at < 64 {
                iota[at] = at as u8;
                at += 1;
            }
            iota
        };
        // SAFETY: 64 bytes.
        let iota = unsafe { _mm512_loadu_si512(IOTA.as_ptr().cast()) };
        let packed = _mm512_maskz_compress_epi8(mask, iota);
        let base = _mm512_set1_epi16(base as i16);
        let (first, second) = out.split_at_mut(32);
        let words = _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(packed)), base);
        // SAFETY: `first` has 32 items of 2 bytes.
        unsafe { _mm512_storeu_si512(first.as_mut_ptr().cast(), words) };
        let count = mask.count_ones() as usize;
        if count > 32 {
            let words = _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(packed, 1)), base);
            // SAFETY: `second` has 32 items of 2 bytes.
            unsafe { _mm512_storeu_si512(second.as_mut_ptr().cast(), words) };
        }
        count
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2")]
    #[inline]
    fn load_512(piece: &[u8]) -> [u64; 2] {
        let mask = _bzhi_u32(0xffff, piece.len() as u32) as u16;
        // SAFETY: bytes whose bit is 0 are not read, and the others are in `piece`.
        let bytes = unsafe { _mm_maskz_loadu_epi8(mask, piece.as_ptr().cast()) };
        [_mm_cvtsi128_si64(bytes) as u64, _mm_extract_epi64(bytes, 1) as u64]
    }

    #[target_feature(enable = "sse4.2")]
    #[inline]
    fn crc(words: [u64; 2]) -> u32 {
        _mm_crc32_u64(_mm_crc32_u64(0x9747_b28c, words[0]), words[1]) as u32
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn classify_256(block: &[u8; 64], added: [u8; 2]) -> Masks {
        let v = |byte: u8| _mm256_set1_epi8(byte as i8);
        let below = |x: __m256i, end: u8| _mm256_cmpeq_epi8(_mm256_min_epu8(x, v(end - 1)), x);
        let mut masks = Masks::default();
        for (at, half) in block.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: 32 bytes.
            let x = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            let bits = |y: __m256i| u64::from(_mm256_movemask_epi8(y) as u32) << (32 * at);
            let equal = |byte: u8| bits(_mm256_cmpeq_epi8(x, v(byte)));
            let space = equal(b' ');
            masks.letter |= bits(below(_mm256_sub_epi8(_mm256_or_si256(x, v(0x20)), v(b'a')), 26));
            masks.upper |= bits(below(_mm256_sub_epi8(x, v(b'A')), 26));
            masks.digit |= bits(below(_mm256_sub_epi8(x, v(b'0')), 10));
            masks.white |= space | bits(below(_mm256_sub_epi8(x, v(9)), 5));
            masks.space |= space;
            masks.control |= bits(below(x, b' ')) | equal(0x7f);
            masks.newline |= equal(b'\r') | equal(b'\n');
            masks.slash |= equal(b'/');
            masks.apostrophe |= equal(b'\'');
            masks.high |= bits(x);
            masks.added |= equal(added[0]) | equal(added[1]);
        }
        masks.control &= !masks.white;
        masks
    }

    /// For each byte, the positions of its bits.
    const BITS: [[u8; 8]; 256] = {
        let mut bits = [[0; 8]; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut bit, mut count) = (0, 0);
            while bit < 8 {
                if byte >> bit & 1 == 1 {
                    bits[byte][count] = bit as u8;
                    count += 1;
                }
                bit += 1;
            }
            byte += 1;
        }
        bits
    };

    /// A byte of the mask at a time, without a branch: the number of bits is hard to predict.
    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    fn positions_256(mask: u64, base: u16, out: &mut [u16; 64]) -> usize {
        let mut count = 0;
        for (at, byte) in mask.to_le_bytes().into_iter().enumerate() {
            let bits = _mm_cvtsi64_si128(i64::from_le_bytes(BITS[usize::from(byte)]));
            let base = _mm_set1_epi16(base.wrapping_add(8 * at as u16) as i16);
            let positions = _mm_add_epi16(_mm_cvtepu8_epi16(bits), base);
            // SAFETY: `at` bytes before had 8 bits or fewer each, so 8 items from `count` on are in `out`.
            let place = unsafe { out.as_mut_ptr().add(count) };
            // SAFETY: see above.
            unsafe { _mm_storeu_si128(place.cast(), positions) };
            count += byte.count_ones() as usize;
        }
        count
    }

    impl Isa for Avx512 {
        #[inline(always)]
        fn classify(self, text: &[u8], added: [u8; 2]) -> Masks {
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { classify_512(text, added) }
        }

        #[inline(always)]
        fn positions(self, mask: u64, base: u16, out: &mut [u16; 64]) -> usize {
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { positions_512(mask, base, out) }
        }

        #[inline(always)]
        fn load(self, text: &[u8], start: usize, end: usize) -> [u64; 2] {
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { load_512(&text[start..end]) }
        }

        #[inline(always)]
        fn hash(self, words: [u64; 2]) -> u32 {
            // SAFETY: `self` exists, so the CPU has this feature.
            unsafe { crc(words) }
        }
    }

    impl Isa for Avx2 {
        #[inline(always)]
        fn classify(self, text: &[u8], added: [u8; 2]) -> Masks {
            let mut padded = [0; 64];
            let block: &[u8; 64] = match text.first_chunk() {
                Some(block) => block,
                None => {
                    padded[..text.len()].copy_from_slice(text);
                    &padded
                }
            };
            // SAFETY: `self` exists, so the CPU has this feature.
            let masks = unsafe { classify_256(block, added) };
            let valid = low(text.len());
            Masks { added: masks.added & valid, control: masks.control & valid, ..masks }
        }

        #[inline(always)]
        fn positions(self, mask: u64, base: u16, out: &mut [u16; 64]) -> usize {
            // SAFETY: `self` exists, so the CPU has these features.
            unsafe { positions_256(mask, base, out) }
        }

        #[inline(always)]
        fn load(self, text: &[u8], start: usize, end: usize) -> [u64; 2] {
            Swar.load(text, start, end)
        }

        #[inline(always)]
        fn hash(self, words: [u64; 2]) -> u32 {
            // SAFETY: `self` exists, so the CPU has this feature.
            unsafe { crc(words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of all operations on a text.
    struct Everything<'a>(&'a [u8]);

    impl Work for Everything<'_> {
        type Output = (Vec<Masks>, Vec<Vec<u16>>, Vec<[u64; 2]>);
        #[inline(always)]
        fn run<I: Isa>(self, isa: I) -> Self::Output {
            let text = self.0;
            let masks: Vec<Masks> = (0..text.len()).map(|at| isa.classify(&text[at..], [b'<', 0])).collect();
            let positions = masks.iter().map(|masks| {
                let mut out = [0; 64];
                let count = isa.positions(masks.letter, 7, &mut out);
                out[..count].to_vec()
            });
            let positions = positions.collect();
            let ends = (0..text.len()).flat_map(|at| (at..text.len().min(at + 15)).map(move |end| (at, end)));
            let loads = ends.map(|(start, end)| isa.load(text, start, end)).collect();
            (masks, positions, loads)
        }
    }

    #[test]
    fn all_instruction_sets_agree() {
        let text: Vec<u8> = (0..if cfg!(miri) { 100 } else { 400_u32 }).map(|at| (at * at * 31 + at) as u8).collect();
        let expected = InstructionSet::Swar(Swar).run(Everything(&text));
        for set in InstructionSet::available() {
            assert!(set.run(Everything(&text)) == expected, "{}", set.name());
        }
    }

    #[test]
    fn masks_are_those_of_single_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        for block in all.chunks(64) {
            let masks = Swar.classify(block, [b'<', 0xe2]);
            for (at, byte) in block.iter().enumerate() {
                let has = |mask: u64| mask >> at & 1 == 1;
                assert_eq!(has(masks.letter), byte.is_ascii_alphabetic(), "{byte}");
                assert_eq!(has(masks.upper), byte.is_ascii_uppercase(), "{byte}");
                assert_eq!(has(masks.digit), byte.is_ascii_digit(), "{byte}");
                assert_eq!(has(masks.white), *byte == b' ' || (9..14).contains(byte), "{byte}");
                assert_eq!(has(masks.space), *byte == b' ', "{byte}");
                assert_eq!(has(masks.newline), *byte == b'\n' || *byte == b'\r', "{byte}");
                let is_white = (9..14).contains(byte);
                assert_eq!(has(masks.control), byte.is_ascii_control() && !is_white, "{byte}");
                assert_eq!(has(masks.slash), *byte == b'/', "{byte}");
                assert_eq!(has(masks.apostrophe), *byte == b'\'', "{byte}");
                assert_eq!(has(masks.high), !byte.is_ascii(), "{byte}");
                assert_eq!(has(masks.added), *byte == b'<' || *byte == 0xe2, "{byte}");
            }
        }
    }

    #[test]
    fn a_piece_is_loaded_with_zeros_behind_it() {
        assert_eq!(Swar.load(b"xabc", 1, 3), [u64::from(u16::from_le_bytes(*b"ab")), 0]);
        let long: Vec<u8> = (1..40).collect();
        assert_eq!(Swar.load(&long, 0, 15)[1] >> 56, 0);
        assert_eq!(Swar.load(&long, 0, 0), [0, 0]);
    }
}
