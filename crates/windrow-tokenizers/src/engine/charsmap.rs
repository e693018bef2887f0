//! The map of the normalizer `Precompiled` of sentencepiece.
//!
//! Its map is a double array of 32-bit units, as Darts-clone has it, and the texts that replace the keys, each ended by a zero byte. The format is
//! that of sentencepiece; `tokenizers` reads it with the crate `spm_precompiled`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The map of a `Precompiled`.
pub(crate) struct Charsmap {
    units: Vec<u32>,
    texts: Vec<u8>,
    /// True if no printable character of ASCII is a key.
    keeps_ascii: bool,
}

impl Charsmap {
    /// `None` if the map cannot be read.
    pub(crate) fn new(base64: &str) -> Option<Self> {
        let map = STANDARD.decode(base64).ok()?;
        let (size, rest) = map.split_first_chunk()?;
        let (units, texts) = rest.split_at_checked(u32::from_le_bytes(*size) as usize / 4 * 4)?;
        let units = units.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        std::str::from_utf8(texts).ok()?;
        let mut map = Self { units, texts: texts.to_vec(), keeps_ascii: false };
        map.keeps_ascii = (' '..='~').all(|character| map.text(character.encode_utf8(&mut [0; 4])).is_none());
        Some(map)
    }

    fn unit(&self, at: usize) -> u32 {
        self.units.get(at).copied().unwrap_or(0)
    }

    fn offset(unit: u32) -> usize {
        ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
    }

    /// Follows the bytes of a text: the node of the first key with which it begins, if all of it may begin keys, or such a key was found.
    fn key(&self, text: &str) -> Option<Option<usize>> {
        let mut at = Self::offset(self.unit(0));
        for &byte in text.as_bytes() {
            at ^= usize::from(byte);
            let unit = self.unit(at);
            // A zero ends the search of the library.
            if byte == 0 || unit & (1 << 31 | 0xff) != u32::from(byte) {
                return None;
            }
            at ^= Self::offset(unit);
            if unit >> 8 & 1 == 1 {
                return Some(Some(at));
            }
        }
        Some(None)
    }

    /// True if a key begins with the character.
    pub(crate) fn begins(&self, character: char) -> bool {
        self.key(character.encode_utf8(&mut [0; 4])).is_some()
    }

    /// True if the text is known to stay as it is, grapheme by grapheme.
    pub(crate) fn keeps(&self, text: &str) -> bool {
        self.keeps_ascii && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    }

    /// The text that replaces a grapheme, however much of it the key with which it begins has; `None` if it begins with no key.
    pub(crate) fn text(&self, grapheme: &str) -> Option<&str> {
        let at = self.key(grapheme)??;
        let text = self.texts.get((self.unit(at) & 0x7fff_ffff) as usize..).unwrap_or_default();
        let len = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some(std::str::from_utf8(&text[..len]).unwrap_or_default())
    }
}
