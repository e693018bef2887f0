//! What ranks exchange before a collective that they have not agreed about: the call, and the data of a small one.

use crate::post::Post;
use crate::{Call, Error};

/// What a rank brings to a meeting.
#[derive(Clone, Copy)]
pub(super) enum Coming<'a> {
    Calls(Call),
    Refuses(&'a str),
    Leaves { panicked: bool },
}

const NAMES: [&str; 7] =
    ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier", "mpi_sums(true)", "mpi_sums(false)"];
const ELEMENTS: [&str; 6] = ["", "f32", "f64", "bf16", "u64", "f16"];

/// Words of a header: state, name, element, gives, gets, root + 1, and the data of a small call.
pub(super) type Header = [u64; DATA + SMALL];
const STATE: usize = 0;
const GIVES: usize = 3;
/// Where the data begins.
pub(super) const DATA: usize = 6;
/// The maximum words of data that travel with a header: the arguments of a fused product.
const SMALL: usize = 8;
/// The same in bytes.
pub(super) const SMALL_BYTES: usize = 8 * SMALL;
// States other than a call.
const REFUSES: u64 = 1;
const LEAVES: u64 = 2;
const PANICS: u64 = 3;

impl Coming<'_> {
    pub(super) fn header(&self) -> Header {
        let place = |of: &[&str], name| of.iter().position(|known| *known == name).unwrap_or(0) as u64;
        let words = match *self {
            Coming::Calls(Call { name, element, gives, gets, root }) => {
                let root = root.map_or(0, |root| root as u64 + 1);
                [0, place(&NAMES, name), place(&ELEMENTS, element), gives as u64, gets as u64, root]
            }
            Coming::Refuses(why) => [REFUSES, 0, 0, why.len() as u64, 0, 0],
            Coming::Leaves { panicked } => [if panicked { PANICS } else { LEAVES }, 0, 0, 0, 0, 0],
        };
        let mut header = [0; DATA + SMALL];
        header[..DATA].copy_from_slice(&words);
        header
    }
}

/// What a rank's header says. The reason of a refusal follows later; `reason` gives its length.
pub(super) fn post(rank: usize, words: &Header) -> Post {
    let call = match words[STATE] {
        LEAVES | PANICS => Err(Error::Left { rank, panicked: words[STATE] == PANICS }),
        REFUSES => Err(Error::Refused { rank, why: String::new() }),
        _ => Ok(Call {
            name: NAMES[words[1] as usize % NAMES.len()],
            element: ELEMENTS[words[2] as usize % ELEMENTS.len()],
            gives: words[GIVES] as usize,
            gets: words[4] as usize,
            root: words[5].checked_sub(1).map(|root| root as usize),
        }),
    };
    Post { step: 0, call }
}

/// Bytes of the reason of a refusal.
pub(super) fn reason(words: &Header) -> usize {
    words[GIVES] as usize
}
