//! The options of manifests of all versions.

use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{OnError, Pack, Selection};
use crate::chat::Loss;
use crate::format::{Dtype, Format};
use crate::spec::{EncodeJob, Texts};
use crate::values::{Size, TokenName};

/// The options, as read.
pub(crate) struct AnyOptions(pub(crate) EncodeJob);

impl<'de> Deserialize<'de> for AnyOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let options = Value::deserialize(deserializer)?;
        // A list since schema 3.
        let job = match options["field"].is_string() {
            true => Before::deserialize(options).map(EncodeJob::from),
            false => EncodeJob::deserialize(options),
        };
        job.map(Self).map_err(D::Error::custom)
    }
}

/// The options of schemas 1 and 2.
#[derive(Deserialize)]
struct Before {
    format: Format,
    dtype: Option<Dtype>,
    bos: Option<u32>,
    eos: Option<u32>,
    shard_bytes: Option<usize>,
    pack: Option<Pack>,
    field: String,
    #[serde(default)]
    more_fields: Vec<String>,
    join: Option<String>,
    #[serde(default)]
    keep: Vec<String>,
    chat: Option<ChatBefore>,
    lines: bool,
    on_error: OnError,
    add_special_tokens: bool,
    special_in_text: bool,
    #[serde(flatten)]
    selection: Selection,
}

#[derive(Deserialize)]
struct ChatBefore {
    template: PathBuf,
    loss: Loss,
}

impl From<Before> for EncodeJob {
    fn from(before: Before) -> Self {
        let Before { format, dtype, keep, on_error, add_special_tokens, selection, pack, .. } = before;
        let (lines, special_in_text, join) = (before.lines, before.special_in_text, before.join);
        let field = [before.field].into_iter().chain(before.more_fields).collect();
        let (chat, loss) = before.chat.map(|chat| (chat.template, chat.loss)).unzip();
        Self {
            format,
            dtype,
            bos: before.bos.map(TokenName::from),
            append_eos: before.eos.is_some(),
            eos: before.eos.map(TokenName::from),
            texts: Texts { lines, field, join, special_in_text, ..Texts::default() },
            keep,
            chat,
            loss,
            on_error,
            selection,
            pack: pack.map(|pack| pack.length),
            pack_mode: pack.map(|pack| pack.mode).unwrap_or_default(),
            pad: pack.and_then(|pack| pack.pad).map(TokenName::from),
            shard_size: before.shard_bytes.and_then(Size::new),
            add_special_tokens,
            ..Self::default()
        }
    }
}
