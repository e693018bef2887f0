#![doc = include_str!("../README.md")]

mod added;
mod agenda;
mod batch;
mod cache;
mod characters;
mod cuts;
mod encoder;
mod engine;
mod fault;
mod grammar;
mod memory;
mod merge;
mod model;
mod nfc;
mod pieces;
mod ranks;
mod scan;
mod simd;
mod split;
mod unicode;
mod vocabulary;

pub use added::AddedToken;
pub use batch::Ragged;
pub use characters::{CharacterBpe, CharacterDefinition};
pub use cuts::TextCuts;
pub use encoder::Counts;
pub use engine::{BpeEngine, Definition, EngineOptions, UnknownId, instruction_sets};
pub use fault::{PieceFault, TextError, Unsupported};
pub use grammar::{Digits, Grammar};
pub use model::{ByteBpe, merge_by_definition};
pub use pieces::PieceEncoder;
pub use split::AddedTokens;
