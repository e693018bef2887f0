//! `DecodeStream` of JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::tokenizer::DecodeStream;

use crate::door::{Outcome, now};
use crate::tokenizer::{Core, NativeTokenizer};

/// The text of ids that arrive one after the other.
#[napi]
pub struct NativeDecodeStream {
    core: Arc<Core>,
    stream: DecodeStream,
}

#[napi]
impl NativeDecodeStream {
    /// A stream without ids.
    #[napi(constructor)]
    pub fn new(tokenizer: &NativeTokenizer, skip_special_tokens: bool) -> Result<Self> {
        Ok(Self { core: tokenizer.core()?, stream: DecodeStream::after(Vec::new(), skip_special_tokens) })
    }

    /// The text that is complete with these ids.
    #[napi]
    pub fn push(&mut self, ids: Uint32ArraySlice<'_>) -> Outcome<String> {
        now(|| Ok(self.stream.push(self.core.any(), &ids)?.unwrap_or_default()))
    }

    /// The text of the remaining ids.
    #[napi]
    pub fn finish(&mut self) -> Outcome<String> {
        now(|| Ok(self.stream.finish(self.core.any())?.unwrap_or_default()))
    }
}
