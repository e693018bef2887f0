//! Whole encodings: ids with types, masks and places, of texts and pairs, truncated and padded.

use std::sync::Arc;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::engine::BatchError;
use windrow_tokenizers::full::{
    EncodeInput, Encoding, FullTokenizer, PaddingDirection, PaddingParams, PostProcessing, TruncationDirection,
    TruncationParams, TruncationStrategy,
};

use crate::failure::Failure;
use crate::job::{Done, Piece, Work, numbers_to_js, ranges, texts};
use crate::tokenizer::Core;

/// Names of the padding token, of which a tokenizer has one.
const PADDING: [&str; 5] = ["[PAD]", "<pad>", "<|pad|>", "<|finetune_right_pad_id|>", "<|endoftext|>"];

/// The requested encodings.
#[napi(object, object_to_js = false)]
#[derive(Clone, Debug)]
pub struct Settings {
    /// Puts special tokens around texts.
    pub add_special_tokens: bool,
    /// Two items are a pair.
    pub pairs: bool,
    /// Also returns rows for the text that truncation cuts off.
    pub overflow: bool,
    /// Maximum number of ids of a row.
    pub max_length: Option<u32>,
    /// Ids that two rows of a text have in common.
    pub stride: u32,
    /// Truncates at the start.
    pub truncates_left: bool,
    /// `longestFirst`, `onlyFirst` or `onlySecond`.
    pub strategy: String,
    /// Makes all rows equally long.
    pub pads: bool,
    /// Ids of each row; by default the length of the longest.
    pub length: Option<u32>,
    /// Rounds the length up to a multiple.
    pub multiple: u32,
    /// Pads at the start.
    pub pads_left: Option<bool>,
    /// The id for padding.
    pub pad_id: Option<u32>,
}

/// Encodings, one after the other. The values of row `n` are from `offsets[n]` to `offsets[n + 1]`.
#[napi(object, object_from_js = false)]
pub struct Encodings {
    pub ids: Uint32Array,
    pub type_ids: Uint32Array,
    pub attention_mask: Uint32Array,
    pub special_tokens_mask: Uint32Array,
    /// Start and end of each token in its text, in units of UTF-16.
    pub spans: Uint32Array,
    pub offsets: Float64Array,
    /// The input of each row.
    pub inputs: Float64Array,
}

#[derive(Default)]
pub(crate) struct Rows {
    ids: Vec<u32>,
    types: Vec<u32>,
    attention: Vec<u32>,
    special: Vec<u32>,
    spans: Vec<u32>,
    ends: Vec<usize>,
    inputs: Vec<f64>,
}

impl Rows {
    /// Adds an encoding; `units` has the places of characters in each text, where they differ.
    fn add(&mut self, encoding: &Encoding, input: usize, units: &[Option<Vec<u32>>; 2]) {
        self.ids.extend_from_slice(encoding.get_ids());
        self.types.extend_from_slice(encoding.get_type_ids());
        self.attention.extend_from_slice(encoding.get_attention_mask());
        self.special.extend_from_slice(encoding.get_special_tokens_mask());
        for (&(begin, end), text) in encoding.get_offsets().iter().zip(encoding.get_sequence_ids()) {
            let units = text.and_then(|text| units[text.min(1)].as_ref());
            let place = |at: usize| units.and_then(|units| units.get(at).copied()).unwrap_or(at as u32);
            self.spans.extend([place(begin), place(end)]);
        }
        self.ends.push(self.ids.len());
        self.inputs.push(input as f64);
    }

    /// All rows, padded to at least `length` ids.
    fn padded(self, length: usize, id: u32, type_id: u32, is_left: bool) -> std::result::Result<Self, Failure> {
        let mut all = Self { inputs: self.inputs, ..Self::default() };
        let missing: usize = ranges(&self.ends).map(|row| length.saturating_sub(row.len())).sum();
        let total = self.ids.len().saturating_add(missing);
        if !all.ids.try_reserve_exact(total).is_ok_and(|()| all.spans.try_reserve_exact(2 * total).is_ok()) {
            return Err(Failure::input(
                "padding: not enough memory for the padded ids\n\
                 hint: pad to a smaller length, or pad fewer inputs at a time",
            ));
        }
        for row in ranges(&self.ends) {
            let missing = length.saturating_sub(row.len());
            let [before, after] = if is_left { [missing, 0] } else { [0, missing] };
            let lay = |all: &mut Vec<u32>, row: &[u32], filling: u32, width: usize| {
                all.resize(all.len() + before * width, filling);
                all.extend_from_slice(row);
                all.resize(all.len() + after * width, filling);
            };
            lay(&mut all.ids, &self.ids[row.clone()], id, 1);
            lay(&mut all.types, &self.types[row.clone()], type_id, 1);
            lay(&mut all.attention, &self.attention[row.clone()], 0, 1);
            lay(&mut all.special, &self.special[row.clone()], 1, 1);
            lay(&mut all.spans, &self.spans[2 * row.start..2 * row.end], 0, 2);
            all.ends.push(all.ids.len());
        }
        Ok(all)
    }
}

/// Places of the characters of a text in UTF-16, and its end; `None` if each has one unit.
fn units(text: &str) -> Option<Vec<u32>> {
    text.bytes().any(|byte| byte >= 0xf0).then(|| {
        let mut at = 0;
        let mut begins: Vec<u32> = Vec::new();
        for character in text.chars() {
            begins.push(at);
            at += character.len_utf16() as u32;
        }
        begins.push(at);
        begins
    })
}

/// A batch of whole encodings.
pub(crate) struct Whole {
    core: Arc<Core>,
    settings: Settings,
    processing: Option<PostProcessing>,
    /// The first text of a pair whose second one is in the next piece.
    held: Option<String>,
    inputs: usize,
    rows: Rows,
}

impl Whole {
    pub(crate) fn new(core: Arc<Core>, settings: Settings) -> Self {
        Self { core, settings, processing: None, held: None, inputs: 0, rows: Rows::default() }
    }

    /// The requested truncation; padding comes at the end.
    fn processing(&self, full: &FullTokenizer) -> std::result::Result<PostProcessing, Failure> {
        let Settings { max_length, stride, truncates_left, strategy, .. } = &self.settings;
        let mut processing = full.post_processing().clone();
        processing.set_padding(None);
        let truncation = max_length.map(|length| TruncationParams {
            max_length: length as usize,
            stride: *stride as usize,
            direction: if *truncates_left { TruncationDirection::Left } else { TruncationDirection::Right },
            strategy: match strategy.as_str() {
                "onlyFirst" => TruncationStrategy::OnlyFirst,
                "onlySecond" => TruncationStrategy::OnlySecond,
                _ => TruncationStrategy::LongestFirst,
            },
        });
        processing
            .set_truncation(truncation)
            .map_err(|message| Failure::input(message.replace("max_length", "maxLength")))?;
        Ok(processing)
    }

    /// The padding of the file, with the requested id.
    fn padding(&self, full: &FullTokenizer) -> std::result::Result<PaddingParams, Failure> {
        let mut padding = match full.post_processing().padding() {
            Some(padding) => padding.clone(),
            None => {
                let known = PADDING.iter().find_map(|token| full.tokenizer().token_to_id(token));
                let Some(pad_id) = self.settings.pad_id.or(known) else {
                    let message = "padding: the tokenizer does not define a padding token\n\
                                   hint: pass the id to pad with as padId";
                    return Err(Failure::input(message));
                };
                PaddingParams { pad_id, ..PaddingParams::default() }
            }
        };
        padding.pad_id = self.settings.pad_id.unwrap_or(padding.pad_id);
        Ok(padding)
    }
}

impl Work for Whole {
    type Store = String;
    type Output = Rows;
    type Js = Encodings;

    fn add(&mut self, pieces: &[Piece<String>], goes_on: &(dyn Fn() -> bool + Sync)) -> Done {
        let full = self.core.full()?;
        if self.processing.is_none() {
            self.processing = Some(self.processing(full)?);
        }
        let Some(processing) = &self.processing else { return Ok(()) };
        let held = self.held.take();
        let mut items: Vec<&str> = held.as_deref().into_iter().collect();
        items.extend(texts(pieces)?);
        let width = if self.settings.pairs { 2 } else { 1 };
        let inputs = items.chunks_exact(width);
        self.held = inputs.remainder().first().map(|text| (*text).to_owned());
        let as_input = |input: &[&str]| match *input {
            [first, second] => EncodeInput::from((first.to_owned(), second.to_owned())),
            _ => EncodeInput::from(input[0].to_owned()),
        };
        let all = inputs.clone().map(as_input).collect();
        let encoded = full.encode_batch(all, self.settings.add_special_tokens, processing, goes_on);
        let encoded = encoded.map_err(|error: BatchError| Failure::from(error).after(self.inputs))?;
        for (encoding, input) in encoded.into_iter().flatten().zip(inputs) {
            let units = [units(input[0]), input.get(1).and_then(|second| units(second))];
            self.rows.add(&encoding, self.inputs, &units);
            let more = encoding.get_overflowing().iter().filter(|_| self.settings.overflow);
            more.for_each(|more| self.rows.add(more, self.inputs, &units));
            self.inputs += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> std::result::Result<Rows, Failure> {
        if !self.settings.pads {
            return Ok(self.rows);
        }
        let rows = std::mem::take(&mut self.rows);
        let padding = self.padding(self.core.full()?)?;
        let longest = ranges(&rows.ends).map(|row| row.len()).max().unwrap_or(0);
        let length = self.settings.length.map_or(longest, |length| length as usize);
        let length = length.checked_next_multiple_of(self.settings.multiple as usize).unwrap_or(length);
        let is_left = self.settings.pads_left.unwrap_or(matches!(padding.direction, PaddingDirection::Left));
        rows.padded(length, padding.pad_id, padding.pad_type_id, is_left)
    }

    fn to_js(rows: Rows, env: &Env, copied: usize) -> Result<Encodings> {
        // Exact up to 2^53 ids.
        let offsets = [0].iter().chain(&rows.ends).map(|&end| end as f64).collect();
        Ok(Encodings {
            ids: Uint32Array::new(rows.ids),
            type_ids: Uint32Array::new(rows.types),
            attention_mask: Uint32Array::new(rows.attention),
            special_tokens_mask: Uint32Array::new(rows.special),
            spans: Uint32Array::new(rows.spans),
            offsets: numbers_to_js(offsets, env, copied)?,
            inputs: numbers_to_js(rows.inputs, env, copied)?,
        })
    }
}
