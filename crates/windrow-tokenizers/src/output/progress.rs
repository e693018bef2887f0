//! The progress record: the finished shards, and the place where another run continues.
//!
//! `OUT.windrow-progress` has one line for the identity of the run, and one for each finished shard. A line is `HASH JSON`, where `HASH` is the
//! start of the JSON's blake3. A line that is incomplete or does not match its hash ends the record: it was being written when the run was killed.
//! A shard's line is written only when its files, their names and the list of skipped documents are on the disk. So each line of the record is
//! true, even if later lines were lost.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{OutputError, OutputErrorKind};
use super::names::{Targets, staged_name};
use super::storage::{Storage, Stored, not_plain, what_is_not_plain};
use crate::chat::ChatIdentity;
use crate::input::{Continuation, FileReport, Position};
use crate::manifest::{self, Documents, EncodeJob, Engine, OutputFile, TokenizerIdentity};
use crate::{shown, to_json};

/// The version of the layout of the record.
const SCHEMA: u32 = 4;

/// Digits of a line's hash.
const DIGITS: usize = 16;

/// Number of shards at the end of the record whose bytes are compared with their hashes before a run continues. Earlier shards were synced long
/// before the run ended; only their sizes are compared.
const HASHED: usize = 2;

/// Everything that determines the bytes of an output. A run continues only a run with an equal identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunIdentity {
    pub(crate) schema: u32,
    pub(crate) windrow: String,
    pub(crate) engine: Engine,
    pub(crate) tokenizer: TokenizerIdentity,
    /// A hash of the ids of a fixed text.
    pub(crate) probe: String,
    /// The chat template.
    #[serde(default)]
    pub(crate) chat: Option<ChatIdentity>,
    #[serde(serialize_with = "manifest::sparse", deserialize_with = "manifest::options")]
    pub(crate) options: EncodeJob,
    pub(crate) inputs: Vec<InputIdentity>,
}

/// An input, as far as another run can recognize it without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputIdentity {
    pub(crate) name: String,
    /// The meaning and the compression of its bytes.
    pub(crate) kind: String,
    /// Its size; none if it is neither a regular file nor an object with a version.
    pub(crate) bytes: Option<u64>,
    /// Nanoseconds since the epoch at its last modification, if the system knows it.
    pub(crate) modified: Option<u64>,
    /// The version of an object of a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
}

impl RunIdentity {
    pub(crate) fn new(
        engine: Engine,
        tokenizer: TokenizerIdentity,
        probe: String,
        options: EncodeJob,
        inputs: Vec<InputIdentity>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            windrow: env!("CARGO_PKG_VERSION").to_owned(),
            engine,
            tokenizer,
            probe,
            chat: None,
            options,
            inputs,
        }
    }

    /// The first difference from the run that wrote the record: the value `before`, and the value now.
    fn difference(&self, before: &Self) -> Option<String> {
        let differs = |what: &str, before: &dyn std::fmt::Debug, now: &dyn std::fmt::Debug| {
            let (before, now) = (format!("{before:?}"), format!("{now:?}"));
            (before != now).then(|| format!("{what} was {} and is now {}", shown(&before), shown(&now)))
        };
        let option = || {
            let json = |of: &Self| serde_json::to_value(&of.options).expect("strings and numbers become JSON");
            let (before, now) = (json(before), json(self));
            let (name, now) = now.as_object()?.iter().find(|(name, now)| before[name.as_str()] != **now)?;
            let (before, now) = (before[name.as_str()].to_string(), now.to_string());
            Some(format!("the option {name} was {} and is now {}", shown(&before), shown(&now)))
        };
        let versions = |of: &Self| serde_json::to_string(&of.engine.versions).unwrap_or_default();
        let name = shown(&self.tokenizer.name);
        let of_run = [
            differs("the layout of the progress record", &before.schema, &self.schema),
            differs("the version of windrow", &before.windrow, &self.windrow),
            differs("the tokenizer", &before.tokenizer.name, &self.tokenizer.name),
            (before.tokenizer != self.tokenizer).then(|| format!("the content of the tokenizer {name} has changed")),
            differs("the engine", &before.engine.name, &self.engine.name),
            differs("the version of the engine", &versions(before), &versions(self)),
            (before.probe != self.probe).then(|| format!("{name} now encodes the same text to different ids")),
            (before.chat != self.chat).then(|| "the chat template has changed".to_owned()),
            option(),
            differs("the number of inputs", &before.inputs.len(), &self.inputs.len()),
        ];
        let bytes = |of: &InputIdentity| of.bytes.map_or_else(|| "unknown".into(), |n| n.to_string());
        let of_input = |(index, (before, now)): (usize, (&InputIdentity, &InputIdentity))| {
            let (name, sizes) = (shown(&now.name), [bytes(before), bytes(now)]);
            let is_modified = before.modified != now.modified || before.version != now.version;
            let differences = [
                differs(&format!("the name of input {}", index + 1), &before.name, &now.name),
                differs(&format!("the kind of {name}"), &before.kind, &now.kind),
                (sizes[0] != sizes[1]).then(|| format!("the size of {name} was {} and is now {}", sizes[0], sizes[1])),
                is_modified.then(|| format!("{name} was modified after the run began")),
            ];
            differences.into_iter().flatten().next()
        };
        let mut inputs = before.inputs.iter().zip(&self.inputs).enumerate();
        of_run.into_iter().flatten().next().or_else(|| inputs.find_map(of_input))
    }
}

/// A finished shard, and the state of the run after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedShard {
    pub(crate) files: Vec<OutputFile>,
    /// Documents and ids in all shards so far.
    pub(crate) documents: u64,
    pub(crate) tokens: u64,
    /// Ids in these documents whose mask is 1.
    #[serde(default)]
    pub(crate) loss_tokens: u64,
    /// Bytes of the list of skipped documents, and their blake3; empty without a list.
    pub(crate) list_bytes: u64,
    pub(crate) list_blake3: String,
    pub(crate) checkpoint: Checkpoint,
}

/// The state of a run after a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) account: Documents,
    pub(crate) text_bytes: u64,
    /// Special tokens in the texts.
    #[serde(default)]
    pub(crate) special_tokens: u64,
    /// Documents without an id whose mask is 1.
    #[serde(default)]
    pub(crate) without_loss: u64,
    pub(crate) first_bad: Option<crate::manifest::SkippedDocument>,
    pub(crate) position: Position,
    /// The counts of the inputs whose documents were written since the previous shard, in order.
    #[serde(default)]
    pub(crate) inputs: Vec<InputCounts>,
    /// Inputs that were finished since the previous shard.
    pub(crate) reports: Vec<FileReport>,
}

/// Documents of an input that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputCounts {
    /// The number of the input.
    pub(crate) input: u32,
    /// Bytes of their texts.
    pub(crate) text_bytes: u64,
    /// Their ids, end-of-text ids included.
    pub(crate) tokens: u64,
}

/// The progress of an earlier run, as its record states it.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) identity: RunIdentity,
    pub(crate) shards: Vec<FinishedShard>,
    /// The staged files of the record: those of its shards, and those that all shards have in common.
    pub(crate) staged: Vec<PathBuf>,
    /// The record, which stays open: the run continues the file that was read.
    file: File,
    /// Bytes of the record's lines for these shards.
    bytes: u64,
}

impl Progress {
    /// The place where the run continues, and the state there, with the inputs of all shards.
    pub(crate) fn continuation(&self) -> Option<(Continuation, Checkpoint)> {
        let checkpoints = || self.shards.iter().map(|shard| &shard.checkpoint);
        let last = checkpoints().next_back()?;
        let reports = checkpoints().flat_map(|checkpoint| checkpoint.reports.iter().cloned()).collect();
        let inputs = checkpoints().flat_map(|checkpoint| checkpoint.inputs.iter().copied()).collect();
        Some((Continuation { position: last.position.clone(), reports }, Checkpoint { inputs, ..last.clone() }))
    }

    /// Refuses to continue a run with another identity.
    pub(crate) fn check(&self, identity: &RunIdentity, targets: &Targets) -> Result<(), OutputError> {
        let Some(difference) = identity.difference(&self.identity) else { return Ok(()) };
        let message = format!("cannot resume {}: {difference}", shown(&targets.prefix));
        let hint = "restore what has changed, or start again without --resume; the finished shards are then removed";
        Err(OutputError::new(OutputErrorKind::CannotCreate, message).at(&targets.progress()).hint(hint))
    }

    /// Reads the record under the prefix, if there is one with finished shards whose files are there.
    pub(crate) fn load(storage: &dyn Storage, targets: &Targets) -> Result<Option<Self>, OutputError> {
        let path = targets.progress();
        let failed = |error| OutputError::io(OutputErrorKind::Io, "cannot read", &path, error);
        let mut text = Vec::new();
        let file = match storage.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound || what_is_not_plain(&error).is_some() => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        Stored(storage, &file).read_to_end(&mut text).map_err(failed)?;
        let mut lines = text.split_inclusive(|&byte| byte == b'\n');
        let Some((identity, mut bytes)) = lines.next().and_then(parsed) else { return Ok(None) };
        let mut shards: Vec<FinishedShard> = Vec::new();
        let mut ends = Vec::new();
        let mut reports = 0;
        for line in lines {
            let Some((shard, length)) = parsed::<FinishedShard>(line) else { break };
            // Each input before the position has one report.
            reports += shard.checkpoint.reports.len();
            if reports != shard.checkpoint.position.file as usize {
                break;
            }
            bytes += length;
            shards.push(shard);
            ends.push(bytes);
        }
        let kept = sound(storage, &shards, targets).map_err(failed)?;
        shards.truncate(kept);
        let Some(&bytes) = kept.checked_sub(1).and_then(|last| ends.get(last)) else { return Ok(None) };
        let of_shards = shards.iter().flat_map(|shard| &shard.files).map(|file| staged(targets, file));
        let in_common = targets.data.iter().map(|target| staged_name(target)).filter(|path| plain_size(path).is_some());
        let staged = of_shards.chain(in_common).chain([path]).collect();
        Ok(Some(Self { identity, shards, staged, file, bytes }))
    }
}

/// The staged name of a file of a shard.
fn staged(targets: &Targets, file: &OutputFile) -> PathBuf {
    staged_name(&targets.prefix.with_file_name(&file.file))
}

/// The size of a regular file with a single name.
fn plain_size(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().filter(|found| not_plain(found).is_none()).map(|found| found.len())
}

/// The value in a line of the record, and the length of the line.
fn parsed<T: DeserializeOwned>(line: &[u8]) -> Option<(T, u64)> {
    let (hash, json) = line.strip_suffix(b"\n")?.split_at_checked(DIGITS)?;
    let json = json.strip_prefix(b" ")?;
    let matches = blake3::hash(json).to_hex().as_bytes().starts_with(hash);
    let content = serde_json::from_slice(json).ok().filter(|_| matches)?;
    Some((content, line.len() as u64))
}

/// The number of shards, from the first on, whose files are there as they were written. A record that names files of another output, or in
/// another place, ends there: nothing else is read, renamed or removed.
fn sound(storage: &dyn Storage, shards: &[FinishedShard], targets: &Targets) -> io::Result<usize> {
    let path = |file: &OutputFile| staged(targets, file);
    let known: HashSet<PathBuf> = targets.any_data().into_iter().collect();
    let is_there = |file: &OutputFile| {
        known.contains(&targets.prefix.with_file_name(&file.file)) && plain_size(&path(file)) == Some(file.bytes)
    };
    let mut kept = shards.iter().take_while(|shard| shard.files.iter().all(is_there)).count();
    let list = targets.data.first().filter(|_| targets.has_list).map(|list| staged_name(list));
    while let Some(last) = shards[..kept].last()
        && !has_list(storage, list.as_deref(), last)?
    {
        kept -= 1;
    }
    'shorter: loop {
        let begin = kept.saturating_sub(HASHED);
        for (number, shard) in shards[..kept].iter().enumerate().skip(begin) {
            for file in &shard.files {
                if hash_of(storage, &path(file), file.bytes)? != file.blake3 {
                    kept = number;
                    continue 'shorter;
                }
            }
        }
        return Ok(kept);
    }
}

/// True if the list of skipped documents still begins with the bytes that it had when the shard was finished.
fn has_list(storage: &dyn Storage, list: Option<&Path>, shard: &FinishedShard) -> io::Result<bool> {
    let Some(list) = list else { return Ok(shard.list_bytes == 0) };
    if plain_size(list).is_none_or(|bytes| bytes < shard.list_bytes) {
        return Ok(shard.list_bytes == 0);
    }
    Ok(hash_of(storage, list, shard.list_bytes)? == shard.list_blake3)
}

/// blake3 of the first `bytes` of a file, in hexadecimal.
fn hash_of(storage: &dyn Storage, path: &Path, bytes: u64) -> io::Result<String> {
    let file = storage.open(path)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Stored(storage, &file).take(bytes))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The record of a run in progress.
#[derive(Debug)]
pub(crate) struct ProgressWriter {
    file: File,
    /// Number of inputs in its lines.
    reports: usize,
}

impl ProgressWriter {
    /// Begins a record in a new file.
    pub(crate) fn begin(storage: &dyn Storage, file: File, identity: &RunIdentity) -> io::Result<Self> {
        let mut writer = Self { file, reports: 0 };
        writer.put(storage, identity)?;
        Ok(writer)
    }

    /// Continues a record after its last line.
    pub(crate) fn resume(storage: &dyn Storage, progress: Progress) -> io::Result<Self> {
        storage.truncate(&progress.file, progress.bytes)?;
        let reports = progress.shards.iter().map(|shard| shard.checkpoint.reports.len()).sum();
        Ok(Self { file: progress.file, reports })
    }

    /// Adds a shard, whose files are on the disk. `reports` has all finished inputs.
    pub(crate) fn add(
        &mut self,
        storage: &dyn Storage,
        mut shard: FinishedShard,
        reports: &[FileReport],
    ) -> io::Result<()> {
        let finished = shard.checkpoint.position.file as usize;
        shard.checkpoint.reports = reports[self.reports..finished].to_vec();
        self.reports = finished;
        self.put(storage, &shard)
    }

    fn put(&mut self, storage: &dyn Storage, content: &impl Serialize) -> io::Result<()> {
        let json = to_json(content);
        let hash = blake3::hash(json.as_bytes()).to_hex();
        Stored(storage, &self.file).write_all(format!("{} {json}\n", &hash[..DIGITS]).as_bytes())?;
        storage.sync(&self.file)
    }
}
