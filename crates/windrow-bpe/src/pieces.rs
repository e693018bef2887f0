//! The ids of pieces that the cache does not have.

use crate::fault::PieceFault;
use crate::merge::MergeScratch;
use crate::model::Model;
use crate::ranks::{RankScratch, RankTable};

/// Encodes pieces of text that an engine has not seen before.
pub trait PieceEncoder: Send + Sync {
    /// Appends the ids of `piece`; `begins` is true if a text begins with it.
    ///
    /// # Errors
    /// The piece has no ids, or there is no memory for them.
    fn encode(&self, piece: &str, begins: bool, ids: &mut Vec<u32>) -> Result<(), PieceFault>;

    /// True if the beginning of a text has other ids than the same piece elsewhere.
    fn marks_beginning(&self) -> bool;
}

/// Makes the ids of pieces.
pub(crate) enum PieceModel {
    Merges(Model),
    Ranks(RankTable),
    Other(Box<dyn PieceEncoder>),
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct PieceScratch {
    merge: MergeScratch,
    ranks: RankScratch,
    ids: Vec<u32>,
}

impl PieceModel {
    /// The first place in a piece where it can be divided, so that its parts have the ids of the whole.
    #[inline]
    pub(crate) fn seam(&self, piece: &[u8]) -> Option<usize> {
        match self {
            Self::Merges(model) => model.seam(piece),
            Self::Ranks(table) => table.seam(piece),
            Self::Other(_) => None,
        }
    }

    /// True if a part of a piece may have other ids than the same bytes as a piece.
    pub(crate) fn distinguishes_parts(&self) -> bool {
        match self {
            Self::Merges(model) => model.ignores_merges(),
            Self::Ranks(_) => true,
            Self::Other(_) => false,
        }
    }

    /// The ids of a piece, which is not empty. `is_marked`: it is a part of a piece, or the beginning of a text for other encoders.
    pub(crate) fn encode<'s>(
        &self,
        piece: &[u8],
        is_marked: bool,
        scratch: &'s mut PieceScratch,
    ) -> Result<&'s [u32], PieceFault> {
        let PieceScratch { merge, ranks, ids } = scratch;
        ids.clear();
        match self {
            Self::Merges(model) => return model.encode(piece, is_marked, merge).map_err(PieceFault::NoMemory),
            Self::Ranks(table) => table.encode(piece, is_marked, ranks, ids).map_err(PieceFault::NoMemory)?,
            Self::Other(encoder) => {
                let piece = std::str::from_utf8(piece).expect("a text is cut between characters");
                encoder.encode(piece, is_marked, ids)?;
            }
        }
        Ok(ids)
    }

    /// The id of the token with these bytes, of a byte-level vocabulary.
    pub(crate) fn id(&self, token: &[u8]) -> Option<u32> {
        match self {
            Self::Merges(model) => model.vocabulary().id(token),
            Self::Ranks(table) => table.rank(token),
            Self::Other(_) => None,
        }
    }

    /// The bytes of a token of a byte-level vocabulary; empty if there is none with this id.
    pub(crate) fn token(&self, id: u32) -> &[u8] {
        match self {
            Self::Merges(model) => model.vocabulary().token(id),
            Self::Ranks(table) => table.token(id),
            Self::Other(_) => &[],
        }
    }
}
