//! The jobs that JavaScript makes: texts to ids, texts to counts, ids to texts.

use std::mem::take;
use std::sync::Arc;
use std::vec;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::engine::Ragged;

use crate::door::{Callback, Outcome};
use crate::failure::Failure;
use crate::job::{Done, Job, Piece, SPARE_PIECES, Store, Work, numbers_to_js, outcome_to_js, ranges, texts};
use crate::spare::Spare;
use crate::tokenizer::{Core, NativeTokenizer};
use crate::whole::{Encodings, Settings, Whole};

/// Bytes of a character, by the upper half of its first byte.
const UTF8_WIDTHS: [usize; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4];

impl Store for String {
    type Unit = u8;

    /// The ends are counted in units of UTF-16.
    fn add(&mut self, units: &[u8], ends: &[u32], all: &mut Vec<usize>) -> Done {
        let text = std::str::from_utf8(units).map_err(|_| Failure::other("the texts are not valid UTF-8"))?;
        let begin = self.len();
        all.extend(in_bytes(units, ends).map(|end| begin + end));
        self.push_str(text);
        Ok(())
    }

    fn clear(&mut self) {
        self.clear();
    }

    fn spare() -> &'static Spare<Piece<Self>> {
        static SPARE: Spare<Piece<String>> = Spare::new(SPARE_PIECES);
        &SPARE
    }
}

impl Store for Vec<u32> {
    type Unit = u32;

    fn add(&mut self, units: &[u32], ends: &[u32], all: &mut Vec<usize>) -> Done {
        let begin = self.len();
        all.extend(ends.iter().map(|end| begin + *end as usize));
        self.extend_from_slice(units);
        Ok(())
    }

    fn clear(&mut self) {
        self.clear();
    }

    fn spare() -> &'static Spare<Piece<Self>> {
        static SPARE: Spare<Piece<Vec<u32>>> = Spare::new(SPARE_PIECES);
        &SPARE
    }
}

/// The ends of texts in `bytes`, from `ends` in units of UTF-16.
fn in_bytes<'a>(bytes: &'a [u8], ends: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let is_ascii = ends.last().is_none_or(|last| *last as usize == bytes.len());
    let (mut byte, mut unit) = (0, 0);
    ends.iter().map(move |&end| {
        let end = end as usize;
        if is_ascii {
            return end;
        }
        while unit < end {
            match bytes[byte..].first_chunk::<8>() {
                Some(eight) if end - unit >= 8 && eight.is_ascii() => (byte, unit) = (byte + 8, unit + 8),
                _ => {
                    // A missing byte ends the loop, and the remaining bytes are not text.
                    let width = bytes.get(byte).map_or(4, |first| UTF8_WIDTHS[usize::from(*first >> 4)]);
                    byte = (byte + width).min(bytes.len());
                    unit += if width == 4 { 2 } else { 1 };
                }
            }
        }
        byte
    })
}

/// The ids of a batch: those of item `n` are `ids[offsets[n]..offsets[n + 1]]`.
#[napi(object, object_from_js = false)]
pub struct Ids {
    pub ids: Uint32Array,
    pub offsets: Float64Array,
}

/// Maximum number of values in results that are copied into memory of JavaScript: its collector frees that memory early, and the next batch is
/// written to the same place. Larger results are lent to it. Lent memory is freed in a turn of the event loop, so calls on the calling thread,
/// which may be many without a turn, lend little.
pub(crate) const COPIED: usize = 1 << 19;

/// Batches that were copied.
static SPARE: Spare<Ragged> = Spare::new(2);

/// Maximum number of values for which a kept batch has space. The space is an id a byte; English text has a fourth as many ids.
const LARGEST: usize = 1 << 23;

/// Keeps the memory of a batch, if it is not too large.
fn give_back(mut batch: Ragged) {
    if batch.values.capacity() <= LARGEST {
        batch.clear();
        SPARE.give_back(batch);
    }
}

struct Encode {
    core: Arc<Core>,
    add_special_tokens: bool,
    batch: Ragged,
}

impl Work for Encode {
    type Store = String;
    type Output = Ragged;
    type Js = Ids;

    fn add(&mut self, pieces: &[Piece<String>], goes_on: &(dyn Fn() -> bool + Sync)) -> Done {
        let tokenizer = self.core.of(self.add_special_tokens)?;
        let before = self.batch.len();
        let encoded = tokenizer.append_batch_ids_while(&texts(pieces)?, &mut self.batch, goes_on);
        encoded.map(drop).map_err(|error| Failure::from(error).after(before))
    }

    fn finish(self) -> std::result::Result<Ragged, Failure> {
        let mut batch = self.batch;
        if batch.offsets.is_empty() {
            batch.offsets.push(0);
        }
        if batch.values.len() > COPIED {
            // Shrunk here, and not on the thread of the event loop.
            batch.shrink();
        }
        Ok(batch)
    }

    fn to_js(mut batch: Ragged, env: &Env, copied: usize) -> Result<Ids> {
        // Exact up to 2^53 ids.
        let offsets = batch.offsets.iter().map(|&offset| offset as f64).collect();
        let ids = if batch.values.len() > copied {
            Uint32Array::new(take(&mut batch.values))
        } else {
            Uint32ArraySlice::copy_from(env, &batch.values)?.into_typed_array(env)?
        };
        give_back(batch);
        Ok(Ids { ids, offsets: numbers_to_js(offsets, env, copied)? })
    }
}

/// The number of ids in the texts of a batch.
struct Count {
    core: Arc<Core>,
    add_special_tokens: bool,
    counts: Vec<f64>,
    piece: Ragged,
}

impl Work for Count {
    type Store = String;
    type Output = Vec<f64>;
    type Js = Float64Array;

    fn add(&mut self, pieces: &[Piece<String>], goes_on: &(dyn Fn() -> bool + Sync)) -> Done {
        let tokenizer = self.core.of(self.add_special_tokens)?;
        let before = self.counts.len();
        let encoded = tokenizer.encode_batch_ids_while(&texts(pieces)?, &mut self.piece, goes_on);
        encoded.map_err(|error| Failure::from(error).after(before))?;
        self.counts.extend(self.piece.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64));
        Ok(())
    }

    fn finish(self) -> std::result::Result<Vec<f64>, Failure> {
        give_back(self.piece);
        Ok(self.counts)
    }

    fn to_js(counts: Vec<f64>, env: &Env, copied: usize) -> Result<Float64Array> {
        numbers_to_js(counts, env, copied)
    }
}

struct Decode {
    core: Arc<Core>,
    skip_special_tokens: bool,
    texts: Vec<String>,
}

impl Work for Decode {
    type Store = Vec<u32>;
    type Output = NativeTexts;
    type Js = NativeTexts;

    fn add(&mut self, pieces: &[Piece<Vec<u32>>], goes_on: &(dyn Fn() -> bool + Sync)) -> Done {
        let items = pieces.iter().flat_map(|piece| ranges(&piece.ends).map(|range| &piece.store[range]));
        let items: Vec<&[u32]> = items.collect();
        let decoded = self.core.any().decode_batch_while(&items, self.skip_special_tokens, goes_on);
        let before = self.texts.len();
        self.texts.extend(decoded.map_err(|error| Failure::from(error).after(before))?.unwrap_or_default());
        Ok(())
    }

    fn finish(self) -> std::result::Result<NativeTexts, Failure> {
        Ok(NativeTexts { texts: self.texts.into_iter() })
    }

    fn to_js(texts: NativeTexts, _: &Env, _: usize) -> Result<NativeTexts> {
        Ok(texts)
    }
}

/// Texts that become strings of JavaScript when they are taken, and are then removed here.
#[napi]
pub struct NativeTexts {
    texts: vec::IntoIter<String>,
}

#[napi]
impl NativeTexts {
    /// Number of remaining texts.
    #[napi(getter)]
    pub fn length(&self) -> u32 {
        self.texts.len() as u32
    }

    /// Takes the next text, and up to `items` in all as long as they have at most `bytes` together.
    #[napi]
    pub fn take(&mut self, items: u32, bytes: u32) -> Vec<String> {
        let mut left = bytes as usize;
        let further = self.texts.as_slice().iter().skip(1).take((items as usize).saturating_sub(1));
        left = left.saturating_sub(self.texts.as_slice().first().map_or(0, String::len));
        let fit = further.take_while(|text| {
            let fits = text.len() <= left;
            left = left.saturating_sub(text.len());
            fits
        });
        let count = 1 + fit.count();
        self.texts.by_ref().take(count).collect()
    }
}

/// Declares a job of JavaScript.
macro_rules! job {
    ($(#[$doc:meta])* $name:ident, $work:ident, $settings:ty, $units:ident, $output:ty, $make:expr) => {
        $(#[$doc])*
        #[napi]
        pub struct $name(Arc<Job<$work>>);

        #[napi]
        impl $name {
            /// A batch without items.
            #[napi(constructor)]
            pub fn new(tokenizer: &NativeTokenizer, settings: $settings) -> Result<Self> {
                let make: fn(Arc<Core>, $settings) -> $work = $make;
                Ok(Self(Job::new(make(tokenizer.core()?, settings))))
            }

            /// Copies units, and the ends of items among them. Returns the number of units that wait in complete items.
            #[napi]
            pub fn push(&self, units: $units<'_>, ends: Uint32ArraySlice<'_>) -> f64 {
                self.0.push(&units, &ends) as f64
            }

            /// Number of units that wait in complete items.
            #[napi(getter)]
            pub fn waiting(&self) -> f64 {
                self.0.waiting() as f64
            }

            /// Lets the pool process the items copied so far.
            #[napi]
            pub fn begin(&self) {
                self.0.begin();
            }

            /// There are no more items. Calls back with the outcome.
            #[napi]
            pub fn finish(&self, callback: Callback<'_, $output>) -> Result<()> {
                let answer = callback.build_threadsafe_function();
                self.0.finish(answer.build_callback(|found| outcome_to_js::<$work>(found.value, &found.env, COPIED))?);
                Ok(())
            }

            /// The outcome of a batch that never began. Large results are in memory of JavaScript if it `copies` them.
            #[napi]
            pub fn finish_here(&self, env: &Env, copies: bool) -> Result<Outcome<$output>> {
                self.0.finish_here(env, if copies { usize::MAX } else { COPIED })
            }

            /// Ends the work soon.
            #[napi]
            pub fn stop(&self) {
                self.0.stop();
            }
        }
    };
}

job!(
    /// Encodes texts. Units are bytes of UTF-8; special tokens may be added.
    EncodeJob,
    Encode,
    bool,
    Uint8ArraySlice,
    Ids,
    |core, add_special_tokens| Encode {
        core,
        add_special_tokens,
        batch: SPARE.take(),
    }
);

job!(
    /// Counts the ids of texts. Units are bytes of UTF-8; special tokens may be added.
    CountJob,
    Count,
    bool,
    Uint8ArraySlice,
    Float64Array,
    |core, add_special_tokens| Count { core, add_special_tokens, counts: Vec::new(), piece: SPARE.take() }
);

job!(
    /// Decodes ids, which are the units. Special tokens may be skipped.
    DecodeJob,
    Decode,
    bool,
    Uint32ArraySlice,
    NativeTexts,
    |core, skip_special_tokens| Decode { core, skip_special_tokens, texts: Vec::new() }
);

job!(
    /// Makes whole encodings of texts or pairs of texts. Units are bytes of UTF-8; two items are a pair.
    EncodingsJob,
    Whole,
    Settings,
    Uint8ArraySlice,
    Encodings,
    Whole::new
);
