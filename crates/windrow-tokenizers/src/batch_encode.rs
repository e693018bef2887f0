//! Batches of Hugging Face's `tokenizers` 0.23 on windrow's pool.

use std::borrow::Borrow;

use tokenizers_023::utils::parallelism::get_parallelism;
use tokenizers_023::{EncodeInput, Encoding, Error, PaddingParams, PaddingStrategy, Tokenizer};
use windrow::prelude::*;

use crate::engine::{bytes_of, has_memory};

/// The batch methods of Hugging Face's `tokenizers` 0.23 on windrow's pool, with the same results.
///
/// The library encodes a batch with rayon, one text a task. Here, a short batch is encoded serially, and a longer one in coarse tasks. A process
/// that has forked after a batch still works in parallel. The idea comes from the tokenizers project's work on `encode_batch` (its pull requests
/// 2073 and 2077).
///
/// A method of this trait takes precedence over the tokenizer's method with the same name, because the tokenizer gets its own from the type
/// that it dereferences to. `TOKENIZERS_PARALLELISM=false` makes all of them serial, as in the library.
///
/// ```
/// use windrow_tokenizers::BatchEncode;
/// use windrow_tokenizers::full::LibraryTokenizer;
/// # let json = r#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "two": 1, "?": 2}, "unk_token": "?"},
/// #     "pre_tokenizer": {"type": "Whitespace"}}"#;
///
/// let tokenizer: LibraryTokenizer = json.parse()?;
/// let encodings = tokenizer.encode_batch(vec!["one two", "two"], false)?;
/// assert_eq!(encodings[0].get_ids(), [0, 1]);
/// # Ok::<(), windrow_tokenizers::full::LibraryError>(())
/// ```
pub trait BatchEncode: Borrow<Tokenizer> {
    /// Encodes all inputs. Offsets are in bytes.
    ///
    /// # Errors
    /// The first error, in the order of the inputs.
    #[track_caller]
    fn encode_batch<'s, E>(&self, inputs: Vec<E>, add_special_tokens: bool) -> Result<Vec<Encoding>, Error>
    where
        E: Into<EncodeInput<'s>> + Send,
    {
        batch(self.borrow(), inputs, |tokenizer, input| tokenizer.encode(input, add_special_tokens))
    }

    /// Encodes all inputs. Offsets are in characters.
    ///
    /// # Errors
    /// The errors of [`encode_batch`](Self::encode_batch).
    #[track_caller]
    fn encode_batch_char_offsets<'s, E>(&self, inputs: Vec<E>, add_special_tokens: bool) -> Result<Vec<Encoding>, Error>
    where
        E: Into<EncodeInput<'s>> + Send,
    {
        batch(self.borrow(), inputs, |tokenizer, input| tokenizer.encode_char_offsets(input, add_special_tokens))
    }

    /// Encodes all inputs without offsets.
    ///
    /// # Errors
    /// The errors of [`encode_batch`](Self::encode_batch).
    #[track_caller]
    fn encode_batch_fast<'s, E>(&self, inputs: Vec<E>, add_special_tokens: bool) -> Result<Vec<Encoding>, Error>
    where
        E: Into<EncodeInput<'s>> + Send,
    {
        batch(self.borrow(), inputs, |tokenizer, input| tokenizer.encode_fast(input, add_special_tokens))
    }
}

impl BatchEncode for Tokenizer {}

#[track_caller]
fn batch<'s>(
    tokenizer: &Tokenizer,
    inputs: Vec<impl Into<EncodeInput<'s>>>,
    encode: impl Fn(&Tokenizer, EncodeInput<'s>) -> Result<Encoding, Error> + Send + Sync,
) -> Result<Vec<Encoding>, Error> {
    let encode = |input| encode(tokenizer, input);
    let inputs: Vec<EncodeInput<'s>> = inputs.into_iter().map(Into::into).collect();
    let mut encodings: Vec<Encoding> = if get_parallelism() {
        // The same place in a program encodes short texts and long ones: the weight is their bytes.
        let encoded: Vec<Result<Encoding, Error>> = inputs.into_par_iter().weigh(bytes_of).map(encode).collect();
        encoded.into_iter().collect::<Result<_, _>>()?
    } else {
        inputs.into_iter().map(encode).collect::<Result<_, _>>()?
    };
    if let Some(padding) = tokenizer.get_padding() {
        pad(&mut encodings, padding)?;
    }
    Ok(encodings)
}

/// Pads all encodings of a batch, as the library does, but never with the threads of rayon: those are missing in a forked process.
///
/// An error says that there is no memory for the padding. A failed allocation in the library would end the process.
pub(crate) fn pad(encodings: &mut [Encoding], padding: &PaddingParams) -> Result<(), String> {
    let longest = encodings.iter().map(Encoding::len).max().unwrap_or(0);
    let len = match padding.strategy {
        PaddingStrategy::Fixed(len) => len,
        PaddingStrategy::BatchLongest => longest,
    };
    let multiple = padding.pad_to_multiple_of.filter(|&multiple| multiple > 0).unwrap_or(1);
    let len = len.checked_next_multiple_of(multiple).unwrap_or(usize::MAX);
    let tokens: Option<usize> =
        encodings.iter().try_fold(0_usize, |sum, encoding| sum.checked_add(missing_in(encoding, len)?));
    let bytes = tokens.and_then(|tokens| tokens.checked_mul(TOKEN_BYTES + padding.pad_token.len()));
    if tokens != Some(0) && !bytes.is_some_and(has_memory) {
        return Err(format!(
            "padding: not enough memory for encodings of {len} tokens\nhint: pad to a smaller length, or pad fewer encodings at a time"
        ));
    }
    for encoding in encodings {
        pad_to(encoding, len, padding);
    }
    Ok(())
}

/// Bytes of a token in an encoding, in all of its columns and with the allocation for its text.
const TOKEN_BYTES: usize = 104;

/// Tokens that are missing to a length of `len`, in an encoding and its overflowing parts.
fn missing_in(encoding: &Encoding, len: usize) -> Option<usize> {
    let parts = encoding.get_overflowing().iter();
    parts
        .map(|part| missing_in(part, len))
        .try_fold(len.saturating_sub(encoding.len()), |sum, part| sum.checked_add(part?))
}

fn pad_to(encoding: &mut Encoding, len: usize, padding: &PaddingParams) {
    let PaddingParams { pad_id, pad_type_id, pad_token, direction, .. } = padding;
    let mut overflowing = encoding.take_overflowing();
    overflowing.iter_mut().for_each(|part| pad_to(part, len, padding));
    encoding.pad(len, *pad_id, *pad_type_id, pad_token, *direction);
    encoding.set_overflowing(overflowing);
}
