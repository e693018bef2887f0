//! The byte-level alphabet of GPT-2: a printable character for each byte, in which byte-level files spell their tokens.

/// The byte-level alphabet: the character of each byte, in which byte-level files spell their tokens (GPT-2, Radford et al., 2019).
///
/// Printable bytes of Latin-1 are themselves, the others count on from U+0100.
pub const BYTE_CHARACTERS: [char; 256] = {
    let mut characters = ['\0'; 256];
    let (mut byte, mut next) = (0, 0x100);
    while byte < 256 {
        let code = match byte as u32 {
            printable @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => printable,
            _ => {
                next += 1;
                next - 1
            }
        };
        characters[byte] = char::from_u32(code).expect("a code point below 0x200");
        byte += 1;
    }
    characters
};

/// The bytes of the characters of the alphabet, by code point.
const BYTES: [Option<u8>; 0x144] = {
    let mut bytes = [None; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[BYTE_CHARACTERS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

/// The byte that a character of the alphabet stands for.
pub(crate) fn byte_of(character: char) -> Option<u8> {
    BYTES.get(character as usize).copied().flatten()
}

/// The bytes of a token in the alphabet.
pub(crate) fn byte_level(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// True if a token is spelled in the alphabet.
pub(crate) fn is_spelled(token: &str) -> bool {
    token.chars().all(|character| byte_of(character).is_some())
}

/// Bytes, spelled in the alphabet.
pub(crate) fn spelled(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| BYTE_CHARACTERS[usize::from(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_a_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of(BYTE_CHARACTERS[usize::from(byte)]), Some(byte));
        }
        assert_eq!(spelled(b" a\n"), "ĠaĊ");
        assert_eq!(byte_of('ń'), None);
        assert_eq!(byte_level("Ġé▁"), None);
    }
}
