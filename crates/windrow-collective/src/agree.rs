//! The checks that all ranks agree on a call before they compute.

use twox_hash::XxHash3_64;
use windrow_tiling::cost::{Fitting, Joints};
use windrow_tiling::tile;
use windrow_tiling::{Nanos, Rows};

use crate::{Communicator, Error, Operation, Tiles};

/// The tiles that rank 0 decided for a call, as this rank knows them.
#[derive(Clone, Debug)]
pub(crate) struct Agreed {
    /// The number of the decision, given by rank 0; never 0.
    pub(crate) generation: u64,
    pub(crate) tiles: tile::Tiles,
    pub(crate) predicted: Predicted,
}

/// What rank 0 predicts of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Predicted {
    /// The time of its tiles.
    pub(crate) tiles: Nanos,
    /// The time of the whole call.
    pub(crate) call: Nanos,
}

/// The arguments of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Header {
    pub(crate) operation: Operation,
    pub(crate) element: &'static str,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

const OPERATIONS: [Operation; 3] =
    [Operation::MatmulAllReduce, Operation::MatmulReduceScatter, Operation::AllGatherMatmul];
const FIELDS: [&str; 7] = ["the operation", "the element", "m", "n", "k", "the tiling", "the plan"];

impl Header {
    /// The words that must be equal on all ranks. A size that ranks may choose separately is 0.
    fn words(&self, tiles: &Tiles, cut: &tile::Tiles) -> [u64; 7] {
        let Self { operation, element, m, n, k } = *self;
        let shared = |size: usize, shared| if shared { size as u64 } else { 0 };
        // A summed product may have more terms on some ranks, a gathered one more columns.
        let gathers = operation == Operation::AllGatherMatmul;
        let mut name = [0; 8];
        name[..element.len()].copy_from_slice(element.as_bytes());
        let (how, plan) = match tiles {
            Tiles::Auto => (0, 0),
            Tiles::None => (1, 0),
            Tiles::Uniform(tiles) => (2, *tiles as u64),
            Tiles::Plan(_) => {
                let rows: Vec<u8> = cut.iter().flat_map(|rows| rows.0.to_le_bytes()).collect();
                (3, XxHash3_64::oneshot(&rows))
            }
        };
        let operation = OPERATIONS.iter().position(|known| *known == operation).unwrap_or_default() as u64;
        [operation, u64::from_le_bytes(name), m as u64, shared(n, !gathers), shared(k, gathers), how, plan]
    }
}

/// A word of a header, as text for a message.
fn shown(words: &[u64], field: usize) -> String {
    let word = words[field];
    match (FIELDS[field], words[5]) {
        ("the operation", _) => OPERATIONS[word as usize % OPERATIONS.len()].to_string(),
        ("the element", _) => String::from_utf8_lossy(&word.to_le_bytes()).trim_end_matches('\0').to_owned(),
        ("the tiling", _) => ["auto", "none", "uniform", "by a plan"][word as usize % 4].to_owned(),
        ("the plan", 3) => format!("the one with checksum {word:016x}"),
        _ => word.to_string(),
    }
}

/// Checks that all ranks made the same call; otherwise all get the same error.
///
/// `generation` is that of the tiles that this rank knows for the call, or 0. Returns that of rank 0, and whether all ranks have it: then
/// nothing needs to be broadcast. All ranks return the same.
pub(crate) fn on_call(
    communicator: &mut impl Communicator,
    header: &Header,
    tiles: &Tiles,
    cut: &tile::Tiles,
    generation: u64,
) -> Result<(u64, bool), Error> {
    let words = header.words(tiles, cut);
    let mine: Vec<u64> = words.into_iter().chain([generation]).collect();
    let show = |words: &[u64], field: usize| (FIELDS[field], shown(words, field));
    let all = same(communicator, header.operation, &mine, words.len(), show)?;
    let mut generations = all.chunks(mine.len()).map(|words| words[FIELDS.len()]);
    let first = generations.next().unwrap_or(0);
    Ok((first, generations.all(|other| other == first)))
}

/// An argument other than an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    name: &'static str,
    word: u64,
    shown: fn(u64) -> String,
}

impl Setting {
    pub(crate) fn count(name: &'static str, count: u64) -> Self {
        Self { name, word: count, shown: |word| word.to_string() }
    }

    fn share(name: &'static str, share: f64) -> Self {
        Self { name, word: share.to_bits(), shown: |word| f64::from_bits(word).to_string() }
    }

    pub(crate) fn fitting(&Fitting { tolerance, limit, noise, joints }: &Fitting) -> [Self; 4] {
        let shown = |word| if word == 0 { "free" } else { "continuous" }.to_owned();
        let joints =
            Self { name: "the kind of joints in the fit", word: u64::from(joints == Joints::Continuous), shown };
        let [tolerance, limit, noise] =
            [("the tolerance of the fit", tolerance), ("the limit of the fit", limit), ("the noise of the fit", noise)]
                .map(|(name, share)| Self::share(name, share));
        [tolerance, limit, noise, joints]
    }
}

/// Checks that all ranks have the same settings; otherwise all get the same error.
pub(crate) fn on_settings(
    communicator: &mut impl Communicator,
    operation: Operation,
    settings: &[Setting],
) -> Result<(), Error> {
    let mine: Vec<u64> = settings.iter().map(|setting| setting.word).collect();
    let show = |words: &[u64], field: usize| (settings[field].name, (settings[field].shown)(words[field]));
    same(communicator, operation, &mine, mine.len(), show).map(drop)
}

/// The words of all ranks, of which the first ones must be equal.
fn same(
    communicator: &mut impl Communicator,
    operation: Operation,
    mine: &[u64],
    compared: usize,
    shown: impl Fn(&[u64], usize) -> (&'static str, String),
) -> Result<Vec<u64>, Error> {
    let mut all = vec![0; mine.len() * communicator.size()];
    communicator.all_gather(mine, &mut all)?;
    let (first, rest) = all.split_at(mine.len());
    for (rank, other) in rest.chunks(mine.len()).enumerate() {
        if let Some(field) = (0..compared).find(|&field| first[field] != other[field]) {
            let ((what, theirs), (_, its)) = (shown(first, field), shown(other, field));
            return Err(Error::Disagree { operation, what, values: Box::new([(0, theirs), (rank + 1, its)]) });
        }
    }
    Ok(all)
}

/// Broadcasts the tiles of rank 0 and its predictions to all ranks.
pub(crate) fn on_tiles(
    communicator: &mut impl Communicator,
    decided: Option<(&tile::Tiles, Predicted)>,
) -> Result<(tile::Tiles, Predicted), Error> {
    let nothing = Predicted { tiles: Nanos(0.0), call: Nanos(0.0) };
    let (tiles, predicted) =
        decided.map_or((tile::Tiles::default(), nothing), |(tiles, predicted)| (tiles.clone(), predicted));
    let mut head = [tiles.len() as u64, predicted.tiles.0.to_bits(), predicted.call.0.to_bits()];
    communicator.broadcast(0, &mut head)?;
    let mut rows: Vec<u64> = tiles.iter().map(|rows| rows.0).collect();
    rows.resize(head[0] as usize, 0);
    communicator.broadcast(0, &mut rows)?;
    let tiles = tile::Tiles::new(rows.into_iter().map(Rows).collect::<Vec<_>>())?;
    let [tiles_take, call_takes] = [head[1], head[2]].map(|bits| Nanos(f64::from_bits(bits)));
    Ok((tiles, Predicted { tiles: tiles_take, call: call_takes }))
}
